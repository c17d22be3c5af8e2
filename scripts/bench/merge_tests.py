"""Do the tests of a repository pass on what relay merges? `python -m scripts.bench.merge_tests CLONE -- COMMAND...`

Of real merges of the clone, in an order by chance: those in which git conflicts first, then those that it merges and
in which both sides changed one file. The command runs in exports of both sides and of the tree that relay merges; a
merge counts where it passes on both sides. A merged tree on which it fails is named. Nothing is written to the clone
but objects.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from relay.checks.results import Check, State
from relay.checks.tree_command import TreeCommand
from relay.git.run import Git, GitError
from relay.git.trial_merge import Merge, merge_trees
from relay.merge.joining import Joiner, nothing_chosen
from scripts.bench.figures import Figure, at_least, carry_out, options, single

#: Merges that are tried, seconds of one run of the tests, and of the merge of a file.
MOST, PATIENCE_S, FILE_S = 30, 300.0, 10.0


@dataclass(slots=True)
class _Seen:
    """Merges by what came of them. `conflicts`: relay does not merge them; `sides`: the tests fail on a side."""

    conflicts: int = 0
    sides: int = 0
    passed: dict[bool, int] = field(default_factory=lambda: {True: 0, False: 0})
    failed: dict[bool, list[str]] = field(default_factory=lambda: {True: [], False: []})

    @property
    def counted(self) -> int:
        return sum(self.passed.values()) + sum(map(len, self.failed.values()))


def main() -> int:
    parser = options("merge_tests", "Do the tests of a repository pass on what relay merges?")
    parser.add_argument("clone", type=Path, metavar="CLONE", help="a clone of git, bare or not")
    parser.add_argument("command", nargs="+", metavar="COMMAND", help="what runs the tests")
    parser.add_argument("--most", type=int, default=MOST, help=f"merges that count ({MOST})")
    parser.add_argument("--since", default="1970-01-01", help="the oldest merge, as git reads a date")
    args = parser.parse_args()
    return carry_out("merge_tests", lambda folder: asyncio.run(_measured(args, folder)), args)


async def _measured(args: argparse.Namespace, folder: Path) -> list[Figure]:
    at = await Git(args.clone).line("rev-parse", "--absolute-git-dir")
    git = Git(args.clone, {"GIT_DIR": at})
    check = Check("tests", tuple(args.command), PATIENCE_S)
    command = TreeCommand(git, folder / "trees")
    results: dict[str, bool] = {}

    async def passes(commit: str) -> bool:
        tree = (await git.run("rev-parse", f"{commit}^{{tree}}")).text
        if tree not in results:
            done = await command.run(check, tree)
            if done.state is State.NOT_RUN:
                raise SystemExit(f"the tests of {commit} were not run: {done.reason}")
            results[tree] = done.state is State.PASSED
        return results[tree]

    seen, joiner = _Seen(), Joiner()

    async def join(git: Git, ours: str, theirs: str, merge: Merge) -> Merge:
        return await joiner.join(git, ours, theirs, merge, nothing_chosen, timeout_s=FILE_S)

    try:
        for commit, ours, theirs, conflicting in await _merges(git, args.since, 40 * args.most):
            if seen.counted >= args.most:
                break
            merged = await merge_trees(git, ours, theirs, join)
            if merged is None or not merged.clean:
                seen.conflicts += 1
            elif not (await passes(ours) and await passes(theirs)):
                seen.sides += 1
            elif await passes(merged.tree):
                seen.passed[conflicting] += 1
            else:
                seen.failed[conflicting].append(commit)
                print(f"fails on the merge of {ours} and {theirs} ({commit})", file=sys.stderr)
    finally:
        await joiner.close()
    return list(_report(seen))


async def _merges(git: Git, since: str, most: int) -> list[tuple[str, str, str, bool]]:
    """Commit, both sides, and whether git conflicts: the conflicting ones first."""
    asked = ("rev-list", "--all", "--min-parents=2", "--max-parents=2", "--parents", f"--since={since}")
    listed = [line.split() for line in (await git.run(*asked)).text.splitlines()]
    random.Random(1).shuffle(listed)
    found: list[tuple[str, str, str, bool]] = []
    for commit, ours, theirs in listed[:most]:
        try:
            done = await git.run(
                "merge-tree", "--write-tree", "--name-only", "--no-messages", ours, theirs, ok=(0, 1)
            )
            base = (await git.run("merge-base", ours, theirs)).text.splitlines()[0]
            changed = [
                set((await git.run("diff", "--name-only", base, side)).text.splitlines())
                for side in (ours, theirs)
            ]
        except (GitError, IndexError):
            continue
        if done.code or changed[0] & changed[1]:
            found.append((commit, ours, theirs, done.code == 1))
    return sorted(found, key=lambda merge: not merge[3])


def _report(seen: _Seen) -> Iterator[Figure]:
    for conflicting, name in ((True, "merged by relay, where git conflicts"), (False, "merged by git")):
        n = seen.passed[conflicting] + len(seen.failed[conflicting])
        if n:
            share = seen.passed[conflicting] / n
            told = f"the tests fail on {', '.join(each[:10] for each in seen.failed[conflicting])}"
            limits = at_least(1.0) if conflicting else None
            yield single(f"tests pass, {name}", share, "share", n=n, limits=limits, note=told * (share < 1))
    yield single("left in conflict", seen.conflicts, "merges")
    yield single("tests fail on a side", seen.sides, "merges")


if __name__ == "__main__":
    sys.exit(main())
