"""How well levels 2 and 3 find conflicts, and how fast, on pairs of edits of small programs.

    python -m scripts.bench.merge_levels [--labels FILE] [--wrong] [--program NAME]

Prints JSON. The programs are in six languages (scripts/fixtures/merge_programs). A label is never read off the code:

- level 2: a pair is positive where both edits were planted in one definition; it is found where that one is named;
- level 3: a pair of which git merges the two is positive where the tests (or the type check) of both edits pass on
  each side and fail on the merged tree; it is found where there is any conflict of level 3.

All pairs are measured, and a balanced half: all positive ones, and as many negative ones by the order of a hash.
`--labels` keeps the tests' answers by merged tree, so that they are not run again; `--wrong` lists what was wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import importlib
import itertools
import json
import os
import pkgutil
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from relay.git.diff import changed_files
from relay.git.run import Git
from relay.git.trial_merge import merge_trees
from relay.merge.conflicts.commits import level_2, level_3, read_sides
from relay.merge.conflicts.same_entity import same_entity
from scripts.fixtures import merge_programs
from scripts.fixtures.merge_programs.program import Edit, Program

ROOT = Path(__file__).parents[2]
TSC = ROOT / "web/node_modules/typescript/bin/tsc"
ENV = {
    **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    **{
        f"GIT_{who}_{what}": "bench@example.org"
        for who in ("AUTHOR", "COMMITTER")
        for what in ("NAME", "EMAIL")
    },
}
#: Lines of the long files, and how often they are compared.
LONG, TIMES = 4_000, 30


@dataclass
class Tally:
    """What was found of one set of pairs."""

    pairs: list[tuple[str, bool, bool]] = field(default_factory=list)
    ms: list[float] = field(default_factory=list)

    def add(self, key: str, label: bool, found: bool, seconds: float) -> None:
        self.pairs.append((key, label, found))
        self.ms.append(1000 * seconds)

    def balanced(self) -> list[tuple[str, bool, bool]]:
        """All positive pairs, and as many negative ones."""
        positive = [pair for pair in self.pairs if pair[1]]
        negative = sorted((pair for pair in self.pairs if not pair[1]), key=lambda pair: _hash(pair[0]))
        return positive + negative[: len(positive)]

    def as_json(self) -> dict[str, Any]:
        languages = sorted({key.partition(":")[0] for key, _, _ in self.pairs})
        return {
            "all": _rates(self.pairs),
            "balanced": _rates(self.balanced()),
            "by_program": {
                name: _rates([pair for pair in self.pairs if pair[0].startswith(f"{name}:")])
                for name in languages
            },
            "ms": spread(self.ms),
        }

    def wrong(self) -> dict[str, list[str]]:
        return {
            "missed": [key for key, label, found in self.pairs if label and not found],
            "false": [key for key, label, found in self.pairs if found and not label],
        }


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _rates(pairs: Sequence[tuple[str, bool, bool]]) -> dict[str, Any]:
    true = sum(label and found for _, label, found in pairs)
    said = sum(found for _, _, found in pairs)
    positive = sum(label for _, label, _ in pairs)
    return {
        "pairs": len(pairs),
        "positive": positive,
        "precision": round(true / said, 3) if said else None,
        "recall": round(true / positive, 3) if positive else None,
        "false": said - true,
        "missed": positive - true,
    }


def spread(values: Iterable[float]) -> dict[str, float | int]:
    """n, and the 50th, 95th, 99th percentile and the most."""
    ordered = sorted(values)
    if not ordered:
        return {"n": 0}
    at = {f"p{share}": ordered[min(len(ordered) - 1, len(ordered) * share // 100)] for share in (50, 95, 99)}
    return {
        "n": len(ordered),
        **{name: round(value, 1) for name, value in at.items()},
        "max": round(ordered[-1], 1),
    }


def programs() -> list[Program]:
    names = [module.name for module in pkgutil.iter_modules(merge_programs.__path__) if "_" in module.name]
    return [importlib.import_module(f"{merge_programs.__name__}.{name}").PROGRAM for name in sorted(names)]


class Labels:
    """Whether the tests pass on a tree; each tree is tested once."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.known: dict[str, bool] = (
            json.loads(path.read_text()) if path is not None and path.exists() else {}
        )

    def passes(self, repo: Path, tree: str, program: Program) -> bool:
        if tree not in self.known:
            self.known[tree] = _tested(repo, tree, program)
            if self.path is not None:
                self.path.write_text(json.dumps(self.known))
        return self.known[tree]


def _tested(repo: Path, tree: str, program: Program) -> bool:
    with tempfile.TemporaryDirectory() as made:
        archive = subprocess.run(["git", "archive", tree], cwd=repo, env=ENV, capture_output=True, check=True)
        subprocess.run(["tar", "-x"], cwd=made, input=archive.stdout, check=True)
        command = program.run.replace("{tsc}", str(TSC))
        return subprocess.run(command, shell=True, cwd=made, capture_output=True, check=False).returncode == 0


def _git(repo: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=repo, env=ENV, capture_output=True, check=True)
    return done.stdout.decode().strip()


def _write(repo: Path, files: Mapping[str, str]) -> str:
    """A commit on a detached head whose files are these."""
    for path in [path for path in repo.iterdir() if path.name != ".git"]:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    for name, text in files.items():
        (repo / name).parent.mkdir(parents=True, exist_ok=True)
        (repo / name).write_text(text)
    _git(repo, "add", "-A")
    _git(repo, "commit", "-q", "-m", "edit")
    return _git(repo, "rev-parse", "HEAD")


async def measured(program: Program, folder: Path, labels: Labels, second: Tally, third: Tally) -> None:
    repo = folder / program.name
    repo.mkdir()
    _git(repo, "init", "-q", "-b", "main")
    base = _write(repo, program.files)
    commits: dict[str, str] = {}
    for edit in program.edits:
        _git(repo, "checkout", "-q", "--detach", base)
        commits[edit.name] = _write(repo, edit.applied(program.files))
        if not labels.passes(repo, _git(repo, "rev-parse", f"{commits[edit.name]}^{{tree}}"), program):
            raise SystemExit(f"{program.name}: the edit {edit.name!r} is not right alone")
    git = Git(repo)
    changed = {name: await changed_files(git, base, commit) for name, commit in commits.items()}
    for one, other in itertools.combinations(program.edits, 2):
        sides = await read_sides(git, changed[one.name], changed[other.name])
        key = f"{program.name}: {one.name} + {other.name}"
        began = time.perf_counter()
        found = {f"{conflict.path}:{conflict.entity}" for conflict in level_2(*sides)}
        took = time.perf_counter() - began
        shared = one.of & other.of
        second.add(key, bool(shared), bool(found & shared) if shared else bool(found), took)
        if one not in program.writers or other not in program.readers:
            continue
        merged = await merge_trees(git, commits[one.name], commits[other.name])
        if merged is None or merged.conflicts:
            continue
        label = not labels.passes(repo, merged.tree, program)
        began = time.perf_counter()
        conflicts = await level_3(git, base, *sides)
        third.add(key, label, bool(conflicts), time.perf_counter() - began)


def long_file(program: Program, edits: Sequence[Edit]) -> tuple[str, bytes, bytes, bytes]:
    """(path, base, ours, theirs) of a file of `LONG` lines: the program's first file again and again, each copy under
    names of its own, with an edit of each side in each fifth copy."""
    path = next(iter(program.files))
    texts = [
        program.files[path],
        edits[0].applied(program.files)[path],
        edits[1].applied(program.files)[path],
    ]
    count = -(-LONG // texts[0].count("\n"))
    versions: list[str] = []
    for which in range(3):
        parts = []
        for number in range(count):
            text = texts[which] if number % 5 == which else texts[0]
            for name in ("total", "discounted", "rounded", "label", "dumped"):
                text = text.replace(f"{name}(", f"{name}_{number}(")
            parts.append(text)
        versions.append("".join(parts))
    base, ours, theirs = (version.encode() for version in versions)
    return path, base, ours, theirs


def timed_long() -> dict[str, Any]:
    billing = next(program for program in programs() if program.name == "billing")
    path, base, ours, theirs = long_file(billing, billing.writers[:2])
    wall, processor = [], []
    for _ in range(TIMES):
        began, spent = time.perf_counter(), time.process_time()
        same_entity(path, base, ours, theirs)
        wall.append(1000 * (time.perf_counter() - began))
        processor.append(1000 * (time.process_time() - spent))
    size = {"lines": base.count(b"\n"), "bytes": len(base)}
    return {**size, "ms": spread(wall), "processor_ms": spread(processor)}


async def everything(wanted: str | None, labels: Labels, show_wrong: bool) -> dict[str, Any]:
    second, third = Tally(), Tally()
    skipped = {}
    with tempfile.TemporaryDirectory() as made:
        for program in programs():
            if wanted is not None and program.name != wanted:
                continue
            missing = [
                name
                for name in program.needs
                if not (TSC.exists() if name == "{tsc}" else shutil.which(name))
            ]
            if missing:
                skipped[program.name] = f"{', '.join(missing)} is not here"
                continue
            await measured(program, Path(made), labels, second, third)
    figures: dict[str, Any] = {
        "level_2": second.as_json(),
        "level_3": third.as_json(),
        "level_2_on_long_files": timed_long(),
        "skipped": skipped,
        "load": [round(load, 1) for load in os.getloadavg()],
        "cpus": os.cpu_count(),
    }
    if show_wrong:
        figures["wrong"] = {"level_2": second.wrong(), "level_3": third.wrong()}
    return figures


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Precision, recall and time of conflicts on levels 2 and 3.")
    parser.add_argument("--labels", type=Path, help="a JSON file that keeps what the tests said")
    parser.add_argument(
        "--wrong", action="store_true", help="list the pairs that were missed or found wrongly"
    )
    parser.add_argument("--program", help="only this one")
    args = parser.parse_args(argv)
    print(json.dumps(asyncio.run(everything(args.program, Labels(args.labels), args.wrong)), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
