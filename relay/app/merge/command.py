"""`relay merge`: three versions of a file merged, one by one or many, and relay as git's merge driver.

Invariant: exit code 0 = merged (or, for many, every line has an answer), 1 = conflicts, which the text has between
markers with the base and both sides whole, 2 = wrong use, and nothing is written.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import Any

from relay.app.merge.driver import milliseconds
from relay.base.terminal_text import fail, safe_line
from relay.config.merge import MergeSettings
from relay.merge.text.file_merge import BINARY_KIND, MergedFile, merge_file
from relay.merge.text.git_text import GitText, GitTextError, git_text
from relay.merge.text.ladder import Labels
from relay.merge.text.pieces import shown_step

#: What has a module of its own in this folder, with `main(words)`.
ACTIONS = {
    "check": "relay.app.merge.check",
    "blame": "relay.app.merge.blame",
    "resolve": "relay.app.resolution.command",
    "install": "relay.app.merge.install",
    "uninstall": "relay.app.merge.install",
    "driver": "relay.app.merge.driver",
}


def main(words: Sequence[str]) -> int:
    """The command; gives its exit code."""
    if words and words[0] in ACTIONS:
        module = import_module(ACTIONS[words[0]])
        return int(module.main([*words] if words[0] in ("install", "uninstall") else [*words[1:]]))
    args = _parser().parse_args(words)
    if (args.batch is None) == (not args.versions):
        return fail("give three files, BASE OURS THEIRS, or --batch FILE.jsonl", 2)
    timeout_s = args.timeout_ms / 1000
    if args.batch is not None:
        return _batch(args.batch, timeout_s)
    if len(args.versions) != 3:
        return fail(f"BASE OURS THEIRS are three files, and {len(args.versions)} were given", 2)
    return _one(args, timeout_s)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="relay merge",
        description="Merge three versions of a file: as git does, and where git conflicts by imports, added "
        "definitions and entities.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Exit code: 0 = merged, 1 = conflicts, which stand between markers, 2 = wrong use, and nothing is\n"
        "written. With --batch: 0 = each line has an answer (merged, conflict or error), 2 = the lines cannot be "
        "read.\n\nAlso: relay merge check A B, relay merge blame PATH, relay merge resolve, relay merge "
        "install [--global], relay merge uninstall [--global] (each with --help).",
    )
    parser.add_argument("versions", nargs="*", metavar="BASE OURS THEIRS", help="the three versions")
    parser.add_argument("-o", "--out", metavar="OUT", help="where the result goes (standard output)")
    parser.add_argument("--path", metavar="NAME", default="", help="the file's name, for its language (OURS)")
    parser.add_argument(
        "--json", action="store_true", help="print status, steps, conflicts and warnings as JSON"
    )
    parser.add_argument(
        "--batch",
        metavar="FILE.jsonl",
        help="lines {id, base, ours, theirs, path, out} of files, - = standard input; one answer for each, as JSON",
    )
    parser.add_argument(
        "--timeout-ms",
        type=milliseconds,
        metavar="N",
        default=MergeSettings().timeout_ms,
        help="milliseconds for one file (%(default)s)",
    )
    return parser


def _one(args: argparse.Namespace, timeout_s: float) -> int:
    try:
        base, ours, theirs = (_bytes(path) for path in args.versions)
    except OSError as error:
        return fail(f"{error.filename} cannot be read: {error.strerror}", 2)
    name = args.path or args.versions[1]
    labels = Labels(ours=args.versions[1], base=args.versions[0], theirs=args.versions[2])
    try:
        with git_text() as git:
            started = time.perf_counter()
            merged = merge_file(git, base, ours, theirs, name, labels, timeout_s)
            took = time.perf_counter() - started
    except GitTextError as error:
        return fail(str(error), 2)
    if args.out:
        try:
            Path(args.out).write_bytes(merged.data)
        except OSError as error:
            return fail(f"{args.out} cannot be written: {error.strerror}", 2)
    elif not args.json:
        sys.stdout.buffer.write(merged.data)
        sys.stdout.buffer.flush()
    if args.json:
        answer = as_json(merged, took)
        if not args.out:
            answer["text"] = merged.data.decode("utf-8", "replace")
        print(json.dumps(answer, ensure_ascii=False))
    else:
        for line in [
            f"{name}: {conflict.kind}" for conflict in merged.conflicts if conflict.kind == BINARY_KIND
        ]:
            print(safe_line(f"{line}; ours stands there"), file=sys.stderr)
        for warning in merged.warnings:
            print(f"{safe_line(name)}: {safe_line(warning)}", file=sys.stderr)
    return 0 if merged.clean else 1


def as_json(merged: MergedFile, took_s: float) -> dict[str, Any]:
    """A merge as `--json` and `--batch` give it."""
    return {
        "status": "merged" if merged.clean else "conflict",
        "by": shown_step(merged.by),
        "steps": list(merged.steps),
        "conflicts": [
            {
                "lines": list(conflict.lines),
                "entity": conflict.entity or None,
                "kind": conflict.kind,
                "severity": conflict.severity,
            }
            for conflict in merged.conflicts
        ],
        "warnings": list(merged.warnings),
        "ms": round(took_s * 1000, 3),
    }


def _batch(path: str, timeout_s: float) -> int:
    """One answer for each line, in order, as soon as the line is there. `path`: `-` = standard input."""
    with ExitStack() as held:
        try:
            lines = sys.stdin.buffer if path == "-" else held.enter_context(Path(path).open("rb"))
        except OSError as error:
            return fail(f"{path} cannot be read: {error.strerror}", 2)
        git = held.enter_context(git_text())
        for number, line in enumerate(lines, 1):
            if line.strip():
                print(json.dumps(_answer(git, number, line, timeout_s), ensure_ascii=False), flush=True)
    return 0


def _answer(git: GitText, number: int, line: bytes, timeout_s: float) -> dict[str, Any]:
    id: Any = None
    try:
        asked = json.loads(line)
        if not isinstance(asked, dict):
            raise ValueError("it is no object")
        id = asked.get("id")
        missing = [key for key in ("base", "ours", "theirs") if not isinstance(asked.get(key), str)]
        if missing:
            raise ValueError(f"it has no {', '.join(missing)}: the paths of three files")
        base, ours, theirs = (_bytes(asked[key]) for key in ("base", "ours", "theirs"))
        name = asked.get("path") or asked["ours"]
        started = time.perf_counter()
        merged = merge_file(git, base, ours, theirs, str(name), None, timeout_s)
        took = time.perf_counter() - started
        if asked.get("out"):
            Path(asked["out"]).write_bytes(merged.data)
    except OSError as error:
        return _error(id, f"{error.filename}: {error.strerror}")
    except (ValueError, GitTextError) as error:
        return _error(id, f"line {number}: {error}")
    return {"id": id, **as_json(merged, took)}


def _error(id: Any, text: str) -> dict[str, Any]:
    return {"id": id, "status": "error", "by": None, "conflicts": [], "error": text, "ms": 0.0}


def _bytes(path: str) -> bytes:
    return Path(path).read_bytes()
