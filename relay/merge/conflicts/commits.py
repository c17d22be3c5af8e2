"""The conflicts between two commits: levels 1 to 3 from what git has of them, level 4 by tests on the merged tree.

Invariants:
- nothing of the repository changes: trees and blobs are read, and what git writes goes to the scratch of `git`;
- level 1 is git's verdict, as the timeline records it; a level that could not be looked at is named with the reason,
  and is never taken for one without conflicts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from relay.checks.results import CheckResult, State
from relay.code.build.index import ancestors, parent
from relay.code.build.listing import wanted
from relay.code.call_graph import passes_on
from relay.code.read.grammar import CONFIGURATION, language_of
from relay.git.diff import Record, changed_files
from relay.git.run import Git, name_of
from relay.git.trial_merge import merge_trees
from relay.merge.conflicts.across_files import AcrossFiles, at_base
from relay.merge.conflicts.conflict import LEVELS, Conflict, Severity, Side, worst_first
from relay.merge.conflicts.same_entity import same_entity
from relay.merge.conflicts.side import FileChange, SideWork

#: `ConflictType` of the source, as the timeline has it.
FILES_KIND = "concurrent_modification"
TESTS_KIND = "tests_fail_together"
#: Files of the base that are read to see who uses what changed, and their bytes in all.
MOST_FILES = 400
MOST_BYTES = 64 * 1_048_576
#: Files that may have a name; beyond, it says nothing of who means it.
MOST_WITH_NAME = 150
#: Names that are looked for.
MOST_NAMES = 400
#: Characters of a test's last output that are quoted.
QUOTED = 1_500

#: Runs the tests in an export of a tree (its id, or a commit's).
RunTests = Callable[[str], Awaitable[CheckResult]]


class Unrelated(Exception):
    """The two commits have no common history."""


@dataclass(frozen=True, slots=True)
class Checked:
    """`conflicts`: the worst first. `not_run`: the levels that were asked for and not looked at, each with why."""

    conflicts: tuple[Conflict, ...]
    not_run: Mapping[int, str] = field(default_factory=dict)


async def check_commits(
    git: Git,
    a: str,
    b: str,
    levels: Collection[int] = LEVELS,
    run_tests: RunTests | None = None,
    *,
    names: tuple[str, str] = ("A", "B"),
) -> Checked:
    """The conflicts between the commits `a` and `b`, in words with these names. `run_tests` None: there is no
    command, so level 4 is not run. Raises Unrelated, GitError."""
    base = await merge_base(git, a, b)
    found: list[Conflict] = []
    not_run: dict[int, str] = {}
    records_a = await changed_files(git, base, a)
    records_b = await changed_files(git, base, b)
    if {1, 4} & set(levels):
        merged = await merge_trees(git, a, b)
        paths = None if merged is None else merged.conflicts
        if 1 in levels:
            if paths is None:
                not_run[1] = "git cannot tell whether it merges the two"
            else:
                found += level_1(paths, records_a, records_b, base)
        if 4 in levels:
            tree = "" if merged is None or merged.conflicts else merged.tree
            conflict, why = await level_4(a, b, tree, run_tests, base, names=names)
            found += conflict
            if why:
                not_run[4] = why
    if {2, 3} & set(levels):
        sides = await read_sides(git, records_a, records_b)
        if 2 in levels:
            found += at_base(await asyncio.to_thread(level_2, *sides), base)
        if 3 in levels:
            found += at_base(await level_3(git, base, *sides), base)
    return Checked(worst_first(conflict.named(*names) for conflict in found), not_run)


async def merge_base(git: Git, a: str, b: str) -> str:
    """The commit that both started from. Raises Unrelated, GitError."""
    done = await git.run("merge-base", a, b, ok=(0, 1))
    if done.code or not done.text:
        raise Unrelated(f"{a} and {b} have no common history, so there is nothing to compare them with")
    return done.text.split("\n")[0]


# -- level 1


def level_1(
    paths: Sequence[str], records_a: Sequence[Record], records_b: Sequence[Record], base: str
) -> list[Conflict]:
    """The files that git cannot merge. `before`, `after` of a side: the ids of the contents."""
    ours, theirs = _by_path(records_a), _by_path(records_b)
    found = []
    for path in paths:
        sides = [_blobs(side.get(path)) for side in (ours, theirs)]
        said = f"git cannot merge {path}."
        found.append(Conflict(1, FILES_KIND, Severity.HIGH, path, None, sides[0], sides[1], (said,), base))
    return found


def _by_path(records: Sequence[Record]) -> dict[str, Record]:
    by_path: dict[str, Record] = {}
    for record in records:
        by_path[name_of(record.path)] = record
        by_path.setdefault(name_of(record.last_path), record)
    return by_path


def _blobs(record: Record | None) -> Side:
    if record is None:
        return Side()
    return Side(record.old if record.old.strip("0") else None, record.new if record.new.strip("0") else None)


# -- levels 2 and 3


async def read_sides(
    git: Git, records_a: Sequence[Record], records_b: Sequence[Record]
) -> tuple[list[FileChange], list[FileChange]]:
    """What each side changed, with the contents. Only files of languages that are read; links are none."""
    kept = [[record for record in records if _is_read(record)] for records in (records_a, records_b)]
    ids = {id for records in kept for record in records for id in (record.old, record.new) if id.strip("0")}
    blobs = await git.blobs(sorted(ids), most=MOST_BYTES * 4)
    first, second = ([_change(record, blobs) for record in records] for records in kept)
    return first, second


def _is_read(record: Record) -> bool:
    modes = {record.old_mode, record.new_mode}
    return modes <= {"000000", "100644", "100755"} and any(
        wanted(name_of(path)) for path in (record.path, record.last_path)
    )


def _change(record: Record, blobs: Mapping[str, bytes]) -> FileChange:
    path, last = name_of(record.path), name_of(record.last_path)
    return FileChange(path, last, blobs.get(record.old), blobs.get(record.new))


def level_2(a: Sequence[FileChange], b: Sequence[FileChange]) -> list[Conflict]:
    """The definitions that both sides change, file by file."""
    theirs = {change.path: change for change in b}
    found = []
    for change in a:
        other = theirs.get(change.path)
        if other is not None:
            found += same_entity(change.path, change.before, change.after, other.after)
    return found


async def level_3(git: Git, base: str, a: Sequence[FileChange], b: Sequence[FileChange]) -> list[Conflict]:
    """What one side changes and the other relies on. Files of the base that name it are read."""
    if not a or not b:
        return []
    search = await asyncio.to_thread(_search, a, b)
    listed = await _listed(git, base)
    around = _around(listed, {change.path for change in (*a, *b)})
    search.add(await _contents(git, base, around[:MOST_FILES]))
    while names := await asyncio.to_thread(search.names):
        search.add(await files_naming(git, base, names))
    left = MOST_FILES
    while left > 0 and (names := await asyncio.to_thread(search.headers)):
        headers = [path for path in listed if path.rpartition("/")[2] in names and wanted(path)][:left]
        left -= len(headers)
        search.add(await _contents(git, base, headers))
    return await asyncio.to_thread(search.conflicts)


def _search(a: Sequence[FileChange], b: Sequence[FileChange]) -> AcrossFiles:
    return AcrossFiles(SideWork(a), SideWork(b))


async def _listed(git: Git, tree: str) -> list[str]:
    done = await git.run("ls-tree", "-r", "-z", "--name-only", "--full-tree", tree)
    return [name_of(line) for line in done.out.split(b"\0") if line]


def _around(listed: Sequence[str], paths: Collection[str]) -> list[str]:
    """What imports are resolved by: configuration files and packages' own files, in the folders above these paths."""
    folders = {folder for path in paths for folder in ancestors(parent(path))}
    return [path for path in listed if parent(path) in folders and _says_where(path)]


def _says_where(path: str) -> bool:
    base = path.rpartition("/")[2]
    return base in CONFIGURATION or language_of(path) == "tsconfig" or passes_on(path)


async def files_naming(git: Git, tree: str, names: Collection[str]) -> dict[str, bytes]:
    """The files of a tree that have one of these words, by path; without those of words that too many have."""
    some = sorted(names, key=lambda name: (-len(name), name))[:MOST_NAMES]
    paths = await _naming(git, tree, some)
    if len(paths) > MOST_FILES:
        paths = set()
        for name in some:
            found = await _naming(git, tree, [name])
            if len(found) <= MOST_WITH_NAME:
                paths |= found
            if len(paths) > MOST_FILES:
                break
    return await _contents(git, tree, sorted(paths)[:MOST_FILES])


async def _naming(git: Git, tree: str, names: Sequence[str]) -> set[str]:
    words = [argument for name in names for argument in ("-e", name)]
    done = await git.run("grep", "-l", "-z", "-w", "-F", "-I", "--no-color", *words, tree, "--", ok=(0, 1))
    prefix = f"{tree}:"
    found = (name_of(line).removeprefix(prefix) for line in done.out.split(b"\0") if line)
    return {path for path in found if wanted(path)}


async def _contents(git: Git, tree: str, paths: Sequence[str]) -> dict[str, bytes]:
    if not paths:
        return {}
    listed = await git.run("ls-tree", "-r", "-z", "--full-tree", tree, "--", *paths)
    ids: dict[str, str] = {}
    for line in listed.out.split(b"\0"):
        about, _, path = line.partition(b"\t")
        if about.startswith(b"100"):
            ids[name_of(path)] = about.split()[2].decode("ascii")
    blobs = await git.blobs(ids.values(), most=MOST_BYTES)
    return {path: blobs[id] for path, id in ids.items() if id in blobs}


# -- level 4


async def level_4(
    a: str,
    b: str,
    merged: str,
    run_tests: RunTests | None,
    base: str | None = None,
    *,
    names: tuple[str, str] = ("A", "B"),
) -> tuple[list[Conflict], str]:
    """(the conflict, if there is one; why it was not run, "" = it was). `merged`: the merged tree, "" = git cannot
    merge the two. The tests of each side run only where those of the merged tree fail. Raises GitError."""
    if run_tests is None:
        return [], "no command is configured: set merge.test"
    if not merged:
        return [], "git cannot merge the two, so there is no merged tree to test"
    together = await run_tests(merged)
    if together.state is State.PASSED:
        return [], ""
    if together.state is not State.FAILED:
        return [], _unfinished("the merged tree", together)
    for name, commit in zip(names, (a, b), strict=True):
        alone = await run_tests(commit)
        if alone.state is State.FAILED:
            return [], ""  # what fails alone is no conflict of the two
        if alone.state is not State.PASSED:
            return [], _unfinished(name, alone)
    said = (together.head + together.tail)[-QUOTED:].strip()
    evidence = (
        "A passes the tests.",
        "B passes the tests.",
        f"The merged tree fails them with exit code {together.exit_code}{f': {said}' if said else '.'}",
    )
    return [
        Conflict(4, TESTS_KIND, Severity.CRITICAL, None, None, Side(base, a), Side(base, b), evidence, base)
    ], ""


def _unfinished(what: str, result: CheckResult) -> str:
    return f"the tests of {what} did not end by themselves: {result.reason or result.state}"
