"""Files of real merges in which git conflicts, out of any clones; and files that both sides changed and git merges.

Only what a clone has is read; nothing is written to it but objects of git's own (`git merge-tree`).
"""

from __future__ import annotations

import random
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from relay.merge.text.syntax import LANGUAGES, language_of

#: Files that are taken of one merge: many at once say one thing.
MOST_OF_A_MERGE = 4
MOST_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class Case:
    """One file of a merge: its three versions, and what people committed. `conflicts`: does git?"""

    clone: str
    commit: str
    path: str
    base: str
    ours: str
    theirs: str
    people: str
    conflicts: bool

    @property
    def language(self) -> str:
        return (language_of(self.path) or "").replace("tsx", "typescript")

    @property
    def of_a_side(self) -> bool:
        """Did people take one side as it is?"""
        return self.people in (self.ours, self.theirs)


def cases(clone: Path, most: int, clean: int) -> Iterator[Case]:
    """At most so many files in conflict, and so many that git merges cleanly, of merges in an order by chance."""
    listed = (
        _git(clone, "rev-list", "--all", "--min-parents=2", "--max-parents=2", "--parents")
        .decode()
        .split("\n")
    )
    merges = [line.split() for line in listed if line]
    random.Random(1).shuffle(merges)
    for commit, ours, theirs in merges:
        if most <= 0:
            return
        done = _run(clone, "merge-tree", "--write-tree", "-z", "--no-messages", ours, theirs)
        if done.returncode not in (0, 1):
            continue
        tree, *entries = done.stdout.split(b"\0")
        if done.returncode == 0:
            for case in _clean(clone, commit, (ours, theirs), tree.decode()) if clean > 0 else ():
                clean -= 1
                yield case
            continue
        for case in _conflicting(clone, commit, entries):
            most -= 1
            yield case


def _conflicting(clone: Path, commit: str, entries: list[bytes]) -> Iterator[Case]:
    stages: dict[str, dict[str, str]] = {}
    for entry in entries:
        about, tab, name = entry.partition(b"\t")
        if tab:
            _, id, stage = about.decode().split(" ")
            stages.setdefault(name.decode("utf-8", "replace"), {})[stage] = id
    taken = 0
    for path, ids in sorted(stages.items()):
        if set(ids) != {"1", "2", "3"} or language_of(path) not in LANGUAGES or taken == MOST_OF_A_MERGE:
            continue
        case = _case(clone, commit, path, [ids[stage] for stage in "123"], f"{commit}:{path}", True)
        if case is not None:
            taken += 1
            yield case


def _clean(clone: Path, commit: str, sides: tuple[str, str], tree: str) -> Iterator[Case]:
    """One file that both sides changed. `people` is what git makes of it."""
    base = _git(clone, "merge-base", *sides).decode().split("\n")[0]
    if not base:
        return
    changed = [
        set(
            _git(clone, "diff", "--name-only", "--diff-filter=M", "--no-renames", base, side)
            .decode()
            .split("\n")
        )
        for side in sides
    ]
    for path in sorted(set.intersection(*changed)):
        if path and language_of(path) in LANGUAGES:
            names = [f"{commit}:{path}" for commit in (base, *sides)]
            case = _case(clone, commit, path, names, f"{tree}:{path}", False)
            if case is not None and len({case.base, case.ours, case.theirs}) == 3:
                yield case
                return


def _case(clone: Path, commit: str, path: str, names: list[str], people: str, conflicts: bool) -> Case | None:
    texts = []
    for name in (*names, people):
        data = _run(clone, "cat-file", "blob", name)
        if data.returncode or len(data.stdout) > MOST_BYTES or b"\0" in data.stdout:
            return None
        try:
            texts.append(data.stdout.decode())
        except UnicodeDecodeError:
            return None
    return Case(clone.name, commit, path, texts[0], texts[1], texts[2], texts[3], conflicts)


def _run(clone: Path, *words: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", "-C", str(clone), *words], capture_output=True, check=False)


def _git(clone: Path, *words: str) -> bytes:
    return _run(clone, *words).stdout
