"""What the ladder makes of real merges: `python -m scripts.bench.merge CLONE...` takes any clones of git.

Of each clone some files in which git conflicts: the share that is resolved, by language and by step, and how many of
these people committed so (white space apart), what the guard says of each, and the time. Files of which people took
one side as it is are left out (`--sides` takes them in). And files that git merges: is the answer git's own?
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from relay.merge.text import guard
from relay.merge.text.git_text import GitText, git_text
from relay.merge.text.ladder import Merged, merge_text
from relay.merge.text.syntax import Source, language_of
from scripts.bench.figures import Figure, at_least, at_most, carry_out, options, single, spread, unmeasured
from scripts.bench.merge_corpus import Case, cases

#: Files in conflict of one clone, and files that git merges.
CAP, CLEAN = 60, 20
#: Lines of a file whose time is held against the reach; longer ones are told apart.
MOST_LINES = 6_000


@dataclass(slots=True)
class _Count:
    """Files: all, resolved, as people committed."""

    n: int = 0
    resolved: int = 0
    same: int = 0


@dataclass(slots=True)
class _Seen:
    """What was counted of all clones."""

    languages: dict[str, _Count] = field(default_factory=dict)
    steps: dict[str, _Count] = field(default_factory=dict)
    faults: Counter[int] = field(default_factory=Counter)
    sides: int = 0
    took: list[float] = field(default_factory=list)
    took_longer: list[float] = field(default_factory=list)
    clean: int = 0
    as_git: int = 0
    warned: int = 0


def main() -> int:
    parser = options("merge", "What the ladder makes of real merges.")
    parser.add_argument(
        "clones", nargs="*", type=Path, metavar="CLONE", help="clones of git, bare or not (this one)",
        default=[Path(os.environ.get("RELAY_BENCH_REPO", "."))],
    )  # fmt: skip
    parser.add_argument("--cap", type=int, default=CAP, help=f"files in conflict of one clone ({CAP})")
    parser.add_argument(
        "--sides", action="store_true", help="also files of which people took one side as it is"
    )
    args = parser.parse_args()
    return carry_out("merge", lambda _: figures(args), args)


def figures(args: argparse.Namespace) -> Iterator[Figure]:
    seen = _Seen()
    cap = 6 if args.quick else args.cap
    with git_text() as git:
        for clone in args.clones:
            before = sum(count.n for count in seen.languages.values())
            for case in cases(clone, cap, CLEAN):
                if case.conflicts and (args.sides or not case.of_a_side):
                    _count(seen, git, case)
                elif not case.conflicts:
                    _compare(seen, git, case)
            found = sum(count.n for count in seen.languages.values()) - before
            print(f"{clone}: {found} files in conflict", file=sys.stderr, flush=True)
        yield from _report(seen)
        yield _large(git)


def _count(seen: _Seen, git: GitText, case: Case) -> None:
    began = time.perf_counter()
    merged = merge_text(git, case.base, case.ours, case.theirs, case.path)
    longest = max(text.count("\n") for text in (case.base, case.ours, case.theirs))
    (seen.took if longest <= MOST_LINES else seen.took_longer).append(time.perf_counter() - began)
    swapped = merge_text(git, case.base, case.theirs, case.ours, case.path)
    seen.sides += swapped.clean != merged.clean or (merged.clean and swapped.text != merged.text)
    same = merged.clean and _bare(merged.text) == _bare(case.people)
    for table, key in ((seen.languages, case.language), (seen.steps, merged.by if merged.clean else "")):
        count = table.setdefault(key, _Count())
        count.n += 1
        count.resolved += merged.clean
        count.same += same
    if merged.clean:
        seen.faults.update(_faults(case, merged))


def _faults(case: Case, merged: Merged) -> set[int]:
    """The rules that a merge breaks, by trees that are parsed anew."""
    texts = (case.base, case.ours, case.theirs, merged.text)
    rows = [text.replace("\r\n", "\n").removesuffix("\n").split("\n") for text in texts]
    o, a, b, m = (Source(each, language_of(case.path)) for each in rows)
    return {fault.rule for fault in guard.faults_of(o, a, b, m)}


def _bare(text: str) -> str:
    return "".join(text.split())


def _compare(seen: _Seen, git: GitText, case: Case) -> None:
    merged = merge_text(git, case.base, case.ours, case.theirs, case.path)
    seen.clean += 1
    seen.as_git += merged.text == case.people
    seen.warned += bool(merged.warnings)


def _report(seen: _Seen) -> Iterator[Figure]:
    every = _Count(
        sum(count.n for count in seen.languages.values()),
        sum(count.resolved for count in seen.languages.values()),
        sum(count.same for count in seen.languages.values()),
    )
    if not every.n:
        yield unmeasured("merges of people", "no file in conflict in the history of these clones")
        return
    yield single("resolved", every.resolved / every.n, "share", n=every.n, limits=at_least(0.42))
    for language, count in sorted(seen.languages.items()):
        yield single(
            f"resolved, {language}", count.resolved / count.n, "share", n=count.n, limits=at_least(0.34)
        )
    yield single("as people, of all", every.same / every.n, "share", n=every.n, limits=at_least(0.22))
    if every.resolved:
        share = every.same / every.resolved
        yield single("as people, of the resolved", share, "share", n=every.resolved, limits=at_least(0.55))
    for step, count in sorted(seen.steps.items()):
        if step:
            yield single(f"as people, by {step}", count.same / count.n, "share", n=count.n)
    faults = sum(seen.faults.values())
    if every.resolved:
        yield single("faulty by the guard", faults, "files", n=every.resolved, limits=at_most(value=0))
    yield single("other with the sides swapped", seen.sides, "files", n=every.n, limits=at_most(value=0))
    if seen.took:
        yield spread("one merge, files to 6,000 lines", seen.took, limits=at_most(p95=100.0, max=2000.0))
    if seen.took_longer:
        yield spread("one merge, longer files", seen.took_longer)
    if seen.clean:
        as_git = seen.as_git / seen.clean
        yield single("git's clean merges, as git", as_git, "share", n=seen.clean, limits=at_least(1.0))
        yield single("git's clean merges that the guard warns of", seen.warned, "files", n=seen.clean)


def _large(git: GitText) -> Figure:
    """A file of 5,000 lines with one conflict."""
    lines = [f"def f{at}(one):\n    value = {at}\n    return value + one\n\n" for at in range(1250)]
    base = "".join(lines)
    ours = base.replace("value = 600\n", "value = 601\n    more = 1\n")
    theirs = base.replace("    return value + one\n\ndef f601", "    return value + one + 2\n\ndef f601")
    took = []
    for _ in range(10):
        began = time.perf_counter()
        merge_text(git, base, ours, theirs.replace("value = 600\n", "value = 602\n"), "a.py")
        took.append(time.perf_counter() - began)
    return spread("5,000 lines with one conflict", took, limits=at_most(p50=100.0))


if __name__ == "__main__":
    sys.exit(main())
