"""Histories of three lanes in worktrees of their own, which land in the main branch by git's merges: what one of them
landed is taken out of main, and every line of the others stands.

All lines differ and name the step that wrote them. RELAY_REWIND_HISTORIES=300 runs the full count.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from relay.timeline.rewind.named_touches import TouchedEvent
from tests.git.repository import ENV
from tests.timeline.rewind.trees import Trees

HISTORIES = int(os.environ.get("RELAY_REWIND_HISTORIES", "15"))
LANES = ("codex", "claude", "ann")
FIRST = {"a": 8, "b": 6, "c/d": 5}
OPERATIONS = (
    "insert",
    "insert",
    "replace",
    "remove",
    "create",
    "delete",
    "rename",
    "land",
    "land",
    "take in",
)
Texts = dict[str, list[str]]


@dataclass(frozen=True)
class Step:
    """`file`, `at` and `count` are fractions of what there is to choose from."""

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
    min_size=4,
    max_size=14,
)


def edited(texts: Texts, number: int, step: Step) -> Texts:
    """The files after a step of a lane."""
    texts = {name: list(lines) for name, lines in texts.items()}
    names = sorted(texts)
    count = 1 + round(step.count * 2)
    new = [f"step {number} line {one}" for one in range(count)]
    if step.operation == "create" or not names:
        return {**texts, f"new-{number}": [*new, f"step {number} end"]}
    name = names[int(step.file * len(names))]
    lines = texts[name]
    at = round(step.at * len(lines))
    match step.operation:
        case "rename":
            texts[f"moved-{number}"] = texts.pop(name)
        case "delete":
            del texts[name]
        case "insert":
            lines[at:at] = new
        case "replace":
            lines[at : at + count] = new
        case _:
            del lines[at : at + count]
    return texts


class Branches:
    """The main branch and one for each lane; a branch is a commit and its tree."""

    def __init__(self, trees: Trees) -> None:
        self.trees = trees
        self.env = {**ENV, "GIT_DIR": str(trees.scratch.folder)}
        first = trees.write({name.encode(): content(name, count) for name, count in FIRST.items()})
        self.main = self.commit(first)
        self.heads = dict.fromkeys(LANES, self.main)
        self.events: list[tuple[str, TouchedEvent]] = []
        #: How many of each lane's events, of all, have landed.
        self.landed = dict.fromkeys(LANES, 0)

    def run(self, *args: str) -> tuple[int, str]:
        done = subprocess.run(["git", *args], env=self.env, input=b"", capture_output=True, check=False)
        return done.returncode, done.stdout.decode().strip()

    def tree(self, commit: str) -> str:
        return self.run("rev-parse", f"{commit}^{{tree}}")[1]

    def commit(self, tree: str, *parents: str) -> str:
        words = [word for parent in parents for word in ("-p", parent)]
        return self.run("commit-tree", tree, *words, "-m", "x")[1]

    def texts(self, tree: str) -> Texts:
        files = self.trees.read(tree)
        return {
            name.decode(): data.decode().splitlines()
            for name, data in files.items()
            if isinstance(data, bytes)
        }

    def apply(self, number: int, step: Step) -> None:
        lane = LANES[step.lane]
        head = self.heads[lane]
        if step.operation in ("land", "take in"):
            self.merge(lane, lands=step.operation == "land")
            return
        before = self.tree(head)
        texts = edited(self.texts(before), number, step)
        after = self.trees.write({name.encode(): joined(lines) for name, lines in texts.items()})
        if after != before:
            self.events.append((lane, self.trees.event(before, after)))
            self.heads[lane] = self.commit(after, head)

    def merge(self, lane: str, *, lands: bool) -> None:
        """Merge a lane's branch into the main one, or that into it, where git can."""
        code, tree = self.run("merge-tree", "--write-tree", "--no-messages", self.main, self.heads[lane])
        if code != 0:
            return
        commit = self.commit(tree, self.main, self.heads[lane])
        if lands:
            if (before := self.tree(self.main)) != tree:
                # The main branch says once more what came onto it.
                self.events.append((f"merge of {lane}", self.trees.event(before, tree)))
            self.main = commit
            self.landed[lane] = len(self.events)
        self.heads[lane] = commit


def joined(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def content(name: str, count: int) -> bytes:
    return joined([f"first {name} {number}" for number in range(count)])


@settings(
    max_examples=HISTORIES,
    derandomize=HISTORIES < 100,
    phases=[Phase.explicit, Phase.generate],
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(steps=STEPS)
def test_what_landed_is_taken_out_and_others_stay(steps: list[Step]) -> None:
    # All land in the end, so that there is something to take out.
    steps = [*steps, *(Step(lane, "land", 0, 0, 0) for lane in range(len(LANES)))]
    asyncio.run(check(steps))


async def check(steps: list[Step]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        trees = await Trees.make(Path(folder))
        branches = Branches(trees)
        written: dict[str, str] = {}
        for number, step in enumerate(steps):
            branches.apply(number, step)
            written[f"step {number} "] = LANES[step.lane]
        main = branches.tree(branches.main)
        events = [
            replace(event, taken=lane == "codex")
            for at, (lane, event) in enumerate(branches.events)
            if lane != "merge of codex" and (lane != "codex" or at < branches.landed["codex"])
        ]
        result = await trees.undo(main, events)
        before, after = branches.texts(main), branches.texts(result.tree)

    def by(line: str) -> str:
        return next((lane for start, lane in written.items() if line.startswith(start)), "")

    stays = {line for lines in after.values() for line in lines}
    for name, lines in before.items():
        if name in result.conflicts:
            assert after[name] == lines
            continue
        for line in lines:
            assert (line in stays) == (by(line) != "codex"), (name, line, by(line), result.files)
    # What others have taken out does not come back twice, nor anything of codex's.
    clean = [line for name, lines in after.items() if name not in result.conflicts for line in lines]
    assert len(clean) == len(set(clean)) and not [line for line in clean if by(line) == "codex"]
