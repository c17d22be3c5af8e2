"""Histories of three lanes on shared files: what one did is taken back, and every line of the others stands.

The reference knows of each line who wrote it and who removed it. All lines differ, so that a text tells them apart.
RELAY_REWIND_HISTORIES=300 runs the full count.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from relay.timeline.rewind.engine import Action
from relay.timeline.rewind.named_touches import TouchedEvent
from tests.timeline.rewind.trees import Trees

HISTORIES = int(os.environ.get("RELAY_REWIND_HISTORIES", "15"))
LANES = ("codex", "claude", "ann")
#: At the beginning, so that edits of most kinds meet.
FIRST = {"a": 6, "b": 4, "c/d": 3}
OPERATIONS = ("insert", "insert", "insert", "replace", "replace", "remove", "create", "delete", "rename")


@dataclass
class Line:
    """`writer` and `removers` are numbers of steps; -1 wrote what was there from the beginning."""

    text: str
    writer: int
    removers: list[int] = field(default_factory=list)


@dataclass
class File:
    """Every line that it ever had, in order. `editors`: the steps that changed it. `names`: all it ever had."""

    lines: list[Line]
    editors: set[int]
    names: set[str]

    def standing(self) -> list[Line]:
        return [line for line in self.lines if not line.removers]

    def content(self) -> bytes:
        return "".join(f"{line.text}\n" for line in self.standing()).encode()


@dataclass(frozen=True)
class Step:
    """`at` and `count` are fractions of what there is to choose from."""

    lane: int
    operation: str
    file: float
    at: float
    count: float


STEPS = st.lists(
    st.builds(
        Step,
        lane=st.integers(0, len(LANES) - 1),
        operation=st.sampled_from(OPERATIONS),
        file=st.floats(0, 0.999),
        at=st.floats(0, 1),
        count=st.floats(0, 1),
    ),
    min_size=2,
    max_size=12,
)


class History:
    """Files by name as the lanes leave them; `all` has those that are gone too."""

    def __init__(self) -> None:
        self.files: dict[str, File] = {}
        self.all: list[File] = []
        for name, count in FIRST.items():
            self._make(name, count, -1)
        self.trees = [self.contents()]

    def contents(self) -> dict[bytes, bytes]:
        return {name.encode(): file.content() for name, file in self.files.items()}

    def _make(self, name: str, count: int, step: int) -> None:
        file = File([self._line(step, number, name) for number in range(count)], {step}, {name})
        self.files[name] = file
        self.all.append(file)

    @staticmethod
    def _line(step: int, number: int, name: str = "") -> Line:
        return Line(f"step {step} line {number} {name}".rstrip(), step)

    def apply(self, number: int, step: Step) -> None:
        names = sorted(self.files)
        if step.operation == "create" or not names:
            self._make(f"new-{number}", 1 + round(step.count * 3), number)
        else:
            name = names[int(step.file * len(names))]
            self._edit(name, self.files[name], number, step)
        self.trees.append(self.contents())

    def _edit(self, name: str, file: File, number: int, step: Step) -> None:
        file.editors.add(number)
        standing = file.standing()
        at = round(step.at * len(standing))
        if step.operation == "rename":
            new = f"moved-{number}"
            self.files[new] = self.files.pop(name)
            file.names.add(new)
            return
        if step.operation == "delete":
            del self.files[name]
            # Those that somebody had removed before, too: they have nowhere to come back to.
            for line in file.lines:
                line.removers.append(number)
            return
        if step.operation in ("remove", "replace"):
            for line in standing[at : at + 1 + round(step.count * 2)]:
                line.removers.append(number)
        if step.operation in ("insert", "replace"):
            place = file.lines.index(standing[at]) if at < len(standing) else len(file.lines)
            file.lines[place:place] = [self._line(number, one) for one in range(1 + round(step.count * 2))]


@settings(
    max_examples=HISTORIES,
    derandomize=HISTORIES < 100,
    # One history takes a second: to make a failing one smaller would take minutes.
    phases=[Phase.explicit, Phase.generate],
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(steps=STEPS, since=st.floats(0, 0.6))
def test_rewind_keeps_others(steps: list[Step], since: float) -> None:
    asyncio.run(check(steps, round(since * len(steps))))


async def check(steps: list[Step], since: int) -> None:
    """Take back what codex did from the step `since` on."""
    history = History()
    for number, step in enumerate(steps):
        history.apply(number, step)
    taken = {number for number, step in enumerate(steps) if number >= since and LANES[step.lane] == "codex"}
    with tempfile.TemporaryDirectory() as folder:
        trees = await Trees.make(Path(folder))
        written = [trees.write(contents) for contents in history.trees]
        events: list[TouchedEvent] = [
            trees.event(before, after, taken=number in taken)
            for number, (before, after) in enumerate(pairwise(written))
        ]
        result = await trees.undo(written[-1], events[since:])
        files = {name.decode(): content for name, content in trees.read(result.tree).items()}
    assert all(isinstance(content, bytes) for content in files.values())
    texts = {
        name: content.decode().splitlines() for name, content in files.items() if isinstance(content, bytes)
    }
    conflicts = set(result.conflicts)
    where = {line: name for name, lines in texts.items() for line in lines}
    now = {line.text: name for name, file in history.files.items() for line in file.standing()}
    for file in history.all:
        if file.names & conflicts:
            # Somebody else changed it too, or made something where it has to go; then it stays as it is.
            assert file.editors - taken - {-1} or any(
                other is not file and other.names & file.names for other in history.all
            )
            standing = [line.text for line in file.standing()]
            assert all(where.get(line) == now[line] for line in standing if now.get(line) in conflicts)
            continue
        for line in file.lines:
            stands = line.writer not in taken and not set(line.removers) - taken
            assert (line.text in where) == stands, (line, result.files)
        # In the order in which they were written.
        order = [line.text for line in file.lines if line.text in where]
        assert len({where[line] for line in order}) <= 1
        if order:
            assert texts[where[order[0]]] == order
    for told in result.files:
        if told.action is Action.KEPT:
            assert told.before == told.after
