"""How well memories are found, on a labelled set of its own: each feature of ranking switched off in turn, and the
source's decay curves with ties in their favour and at random (docs/memory.md).

`python -m scripts.bench.memory_ranking [--quick] [--repo FOLDER] [--questions N]`

The set is made by script from a repository's history, nobody chose it. Memories are commits: subject, body, files; an
author's commits with less than an hour between two are a session. A question is the text of a commit that corrects an
earlier one and names it (`Fixes: HASH`, "This reverts commit HASH"). Where a repository has few of these, it is the
subject of a commit, and wanted is the commit before it in the history of the rarest file that it changed. What is
asked about is not among the memories. Invariant: equal weights count as the mean over all orders of them ("ties
random"), unless a figure says otherwise.
"""

from __future__ import annotations

import asyncio
import json
import math
import random
import re
import subprocess
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

from relay.app.wiring.schema import SCHEMAS
from relay.base.vector_clock import backward_decay, forward_decay
from relay.memory.episodic import recalling
from relay.memory.episodic.importing import import_lines
from relay.memory.episodic.recalling import Wanted
from relay.memory.ranking import weights, words
from relay.model import Caller
from relay.store.ports import Store
from relay.store.sqlite.store import open_store
from scripts.bench.figures import Figure, carry_out, options, single

ROOT = Path(__file__).parents[2]
#: Answers that are looked at, and of these the first that count.
ASKED, FIRST = 50, 5
_NAMES = re.compile(r"(?:^Fixes:\s*|This reverts commit )([0-9a-f]{8,40})", re.MULTILINE)
_TRAILER = re.compile(r"^[A-Z][A-Za-z-]+(?:-by)?:\s.*$|This reverts commit [0-9a-f]+\.?", re.MULTILINE)
#: Seconds without a commit after which an author's next one begins a session.
SESSION_S = 3600.0
#: Where a wanted commit stands among the steps before or behind the one that is asked about.
WINDOW = 60


@dataclass(frozen=True, slots=True)
class Commit:
    """`place`: in the order of the history."""

    id: str
    place: int
    author: str
    at: str
    subject: str
    body: str
    files: tuple[str, ...]

    def as_line(self, session: str) -> dict[str, Any]:
        """A line of an import."""
        details = [text for text in (self.body[:8000], " ".join(self.files[:60])) if text]
        line: dict[str, Any] = {"key": self.id, "event_type": "commit", "summary": self.subject[:2000] or "-"}
        return line | {"details": details, "agent": self.author[:100], "session": session, "at": self.at}


@dataclass(frozen=True, slots=True)
class Labelled:
    """A question, what it wants (a commit's id), and the commit that it was made of."""

    text: str
    want: str
    made_of: Commit


def history(repo: Path, most: int = 20_000) -> list[Commit]:
    """The commits of a repository, oldest first."""
    form = "%x01%H%x02%an%x02%aI%x02%s%x02%b%x03"
    words = ["git", "-C", str(repo), "log", "--no-merges", "--name-only", "--no-renames", f"-n{most}"]
    run = subprocess.run([*words, f"--format={form}"], capture_output=True, check=True)
    commits = []
    for place, text in enumerate(reversed(run.stdout.decode("utf-8", "replace").split("\x01")[1:])):
        head, _, files = text.partition("\x03")
        id_, author, at, subject, body = head.split("\x02", 4)
        author = "".join(c for c in author if c.isprintable()).strip() or "unknown"
        commits.append(
            Commit(id_, place, author, at, subject.strip(), body.strip(), tuple(files.split("\n")[1:-1]))
        )
    return commits


def sessions(commits: Sequence[Commit]) -> dict[str, str]:
    """By a commit's id, the session in which its author made it."""
    last: dict[str, tuple[float, str]] = {}
    found = {}
    for commit in commits:
        at = datetime.fromisoformat(commit.at).timestamp()
        before, session = last.get(commit.author, (-math.inf, ""))
        if abs(at - before) > SESSION_S:
            session = f"{commit.author[:100]} {commit.id[:12]}"
        last[commit.author] = at, session
        found[commit.id] = session
    return found


def labelled(commits: Sequence[Commit], most: int) -> list[Labelled]:
    """The questions that a history holds, in a fixed order of chance."""
    by_short = {commit.id[:8]: commit for commit in commits}
    named = []
    for commit in commits:
        found = _NAMES.search(commit.body)
        want = by_short.get(found[1][:8]) if found else None
        text = " ".join(f"{commit.subject} {_TRAILER.sub('', commit.body)}".split())
        if want is not None and want.place < commit.place:
            named.append(Labelled(text[:1500], want.id, commit))
    pick = random.Random(13)
    pick.shuffle(named)
    return named[:most] if len(named) >= most // 2 else [*named, *_of_files(commits, most - len(named), pick)]


def _of_files(commits: Sequence[Commit], most: int, pick: random.Random) -> list[Labelled]:
    changes: dict[str, list[Commit]] = {}
    for commit in commits:
        for file in commit.files:
            changes.setdefault(file, []).append(commit)
    asked = []
    for commit in commits:
        told = [file for file in commit.files if changes[file][0] is not commit]
        if told:
            rarest = min(told, key=lambda file: (len(changes[file]), file))
            before = changes[rarest][changes[rarest].index(commit) - 1]
            asked.append(Labelled(commit.subject, before.id, commit))
    pick.shuffle(asked)
    return asked[:most]


# -- ranks


def ranked(weight_of_wanted: float, others: Sequence[float], *, first: bool = False) -> tuple[float, float]:
    """(share of the first five that it is among, reciprocal rank) of what is wanted among others. `first`: before all
    that weigh the same, else the mean over all orders of them."""
    above = sum(1 for other in others if other > weight_of_wanted)
    same = 0 if first else sum(1 for other in others if other == weight_of_wanted)
    ranks = range(above + 1, above + same + 2)
    return sum(rank <= FIRST for rank in ranks) / len(ranks), sum(1 / rank for rank in ranks) / len(ranks)


def mean(values: Sequence[tuple[float, float]]) -> tuple[float, float]:
    count = max(1, len(values))
    return sum(value[0] for value in values) / count, sum(value[1] for value in values) / count


def as_figures(name: str, values: Sequence[tuple[float, float]], note: str = "") -> Iterator[Figure]:
    recall, reciprocal = mean(values)
    yield single(f"{name}: recall@{FIRST}", 100 * recall, "%", n=len(values), note=note)
    yield single(f"{name}: MRR", 100 * reciprocal, "%", n=len(values), note=note)


# -- the source's curves


def per_hop(hops: int) -> float:
    """Exponential decay per hop, which halves in five."""
    return math.pow(0.5, hops / 5)


def curves(commits: Sequence[Commit], questions: Sequence[Labelled]) -> Iterator[Figure]:
    """Which step of its author's is wanted, by how far it is away alone."""
    lanes: dict[str, list[Commit]] = {}
    for commit in commits:
        lanes.setdefault(commit.author, []).append(commit)
    place = {commit.id: (commit.author, at) for lane in lanes.values() for at, commit in enumerate(lane)}
    distances = []
    for question in questions:
        (author, at), (wanted_by, wanted_at) = place[question.made_of.id], place[question.want]
        if author == wanted_by and 0 < abs(at - wanted_at) <= WINDOW:
            distances.append(abs(at - wanted_at))
    kinds: tuple[tuple[str, Callable[[int], float]], ...] = (
        ("backward curve of 001", backward_decay),
        ("forward curve of 001", forward_decay),
        ("exponential per hop", per_hop),
    )
    for name, curve in kinds:
        for first in (True, False):
            values = [
                ranked(
                    curve(distance),
                    [curve(other) for other in range(1, WINDOW + 1) if other != distance],
                    first=first,
                )
                for distance in distances
            ]
            ties = "in its favour" if first else "random"
            yield from as_figures(f"{name}, ties {ties}", values, "no ties" if curve is per_hop else "")


# -- the features of ranking

Change = tuple[Any, str, Any]
#: What is switched off (or on), and how.
FEATURES: tuple[tuple[str, tuple[Change, ...]], ...] = (
    ("all as it is", ()),
    ("without neighbours", ((weights, "NEIGHBOUR", 0.0), (recalling, "TURNS", 0))),
    ("without the summary's weight", ((weights, "SUMMARY", 1.0),)),
    (
        "without the texts' length",
        tuple((weights, f"{field}_LENGTH", 0.0) for field in ("SUMMARY", "BODY", "NEIGHBOUR")),
    ),
    ("without words side by side", ((weights, "PAIR", 0.0),)),
    ("without age", ((weights, "OLDEST", 1.0),)),
    ("without outcome", ((weights, "OUTCOMES", {}),)),
    ("without stop words", ((words, "_EMPTY", frozenset()),)),
    ("without the author that is named", ((recalling, "UNNAMED", 1.0),)),
    ("without rarity", ((weights, "rarity_of", lambda texts_with, texts: 1.0),)),
    ("with age unbounded (30 days)", ((weights, "OLDEST", 0.0),)),
)
#: What is switched off while the memories are indexed too.
STEMS: Change = (words, "_stem", lambda word: word)


async def _answers(store: Store, questions: Sequence[Labelled], **more: Any) -> list[tuple[float, float]]:
    values = []
    for question in questions:
        wanted = Wanted(question.text, **more)
        found = await store.read(lambda tx, wanted=wanted: recalling.found(tx, wanted, ASKED))
        weight = {key: round(each.relevance, 6) for each in found for key in each.keys}
        own = weight.pop(question.want, None)
        # What was made of the commit that asks is not an answer.
        weight.pop(question.made_of.id, None)
        values.append((0.0, 0.0) if own is None else ranked(own, list(weight.values())))
    return values


async def features(folder: Path, commits: Sequence[Commit], questions: Sequence[Labelled]) -> list[Figure]:
    asked = {question.made_of.id for question in questions} - {question.want for question in questions}
    told = sessions(commits)
    lines = [json.dumps(commit.as_line(told[commit.id])) for commit in commits if commit.id not in asked]
    store = await open_store(folder / "events.db", SCHEMAS)
    try:
        result = await import_lines(store, Caller("bench", "bench", person=True), lines)
        note = f"{result.imported} memories, {result.merged} merged, {len(result.refused)} refused"
        figures: list[Figure] = []
        for name, changes in FEATURES:
            with ExitStack() as changed:
                for place, attribute, value in changes:
                    changed.enter_context(patch.object(place, attribute, value))
                figures += as_figures(name, await _answers(store, questions), note)
        figures += as_figures("with hop decay", await _answers(store, questions, hop_decay=True), note)
    finally:
        await store.close()
    with patch.object(*STEMS):
        store = await open_store(folder / "unstemmed.db", SCHEMAS)
        try:
            await import_lines(store, Caller("bench", "bench", person=True), lines)
            figures += as_figures("without stems", await _answers(store, questions), note)
        finally:
            await store.close()
    return figures


def measure(folder: Path, repo: Path, count: int) -> Iterator[Figure]:
    commits = history(repo)
    questions = labelled(commits, count)
    yield from curves(commits, _of_files(commits, 4000, random.Random(7)))
    with asyncio.Runner() as runner:
        yield from runner.run(features(folder, commits, questions))


def repository(parser: Any) -> None:
    parser.add_argument("--repo", type=Path, default=ROOT, help="whose history the labelled set is made of")
    parser.add_argument("--questions", type=int, default=500)


def _measure(folder: Path, args: Namespace) -> Iterator[Figure]:
    return measure(folder, args.repo, 40 if args.quick else args.questions)


def main() -> int:
    parser = options("memory_ranking", (__doc__ or "").partition("\n\n")[0])
    repository(parser)
    args = parser.parse_args()
    return carry_out("memory_ranking", lambda folder: _measure(folder, args), args)


if __name__ == "__main__":
    raise SystemExit(main())
