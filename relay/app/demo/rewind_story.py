"""The story of `relay demo --rewind`: one agent goes astray, its work is taken back, the others' lines stay.

Invariant: every word it prints about the outcome was read from the running room, from git, or is what the tests of
the codebase said; an act that did not go as it should is a failure of the demo, not a sentence less.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from relay.app.demo.narrator import Narrator, beside, until_interrupted
from relay.app.demo.rewind_scene import OUTPUT, PRICES, REWIND
from relay.app.demo.stage import LOOK_S, YOU, DemoError, Json, Stage, build, open_stage, player

#: Who plays, in which role.
AGENTS: dict[str, str | None] = {"AVA": None, "BEN": "developer", "CLEO": "qa"}
#: How the codebase tests itself.
TESTS = (sys.executable, "-B", "-m", "unittest", "discover", "-q", "-s", "tests", "-t", ".")
GOOD = "good"
#: What is checked when BEN hands on to CLEO: the tests, really run, in an export of the tree that is handed on.
HANDOFFS = {
    "roles": [{"name": "developer"}, {"name": "qa"}],
    "transitions": [{"from_role": "developer", "to_role": "qa", "rules": ["AllTestsPass", "NoTodoComments"]}],
    "rules": {"AllTestsPass": {"run": list(TESTS), "timeout_s": 60}},
}
#: What each wrote into PRICES.
OTHERS, ASTRAY = ("def discounted(", "def parsed("), ("in dollars", "return str(cents)")


@dataclass(slots=True)
class Outcome:
    """What was found: did the tests pass, whose lines stood in PRICES, and what the rewinds answered."""

    green: dict[str, bool] = field(default_factory=dict)
    others_stand: dict[str, bool] = field(default_factory=dict)
    astray_stands: dict[str, bool] = field(default_factory=dict)
    taken_back: list[str] = field(default_factory=list)
    conflicts: list[str] = field(default_factory=list)
    output_kept: bool = False
    handoffs: list[bool] = field(default_factory=list)
    same_tree: bool = False

    def went_well(self) -> bool:
        before, after = "when BEN had gone astray", ("when it was taken back", "when it was taken back again")
        return (
            self.green
            == {"at first": True, before: False, "when it was undone": False} | dict.fromkeys(after, True)
            and all(self.others_stand[moment] for moment in (before, "when it was undone", *after))
            and self.astray_stands
            == {"at first": False, before: True, "when it was undone": True} | dict.fromkeys(after, False)
            and bool(self.taken_back)
            and not self.conflicts
            and self.output_kept
            and self.handoffs == [False, True]
            and self.same_tree
        )


async def play(
    folder: Path, pace_s: float, port: int, narrator: Narrator, *, stay: bool
) -> tuple[dict[str, Any], str]:
    """Play it; gives the outcome as JSON, and what it means. Raises DemoError."""
    words = ["--scene", "rewind"]
    agents = [
        player(name, pace_s, *words) | ({"role": role} if role else {}) for name, role in AGENTS.items()
    ]
    try:
        path = await asyncio.to_thread(
            build, folder, REWIND.files, agents, airspace=False, port=port, handoffs=HANDOFFS
        )
    except OSError as error:
        raise DemoError(f"{folder} cannot be made: {error.strerror}") from None
    code = folder / "code"
    outcome = Outcome()
    async with open_stage(path) as stage:
        await narrator.link(stage)
        async with beside(narrator.follow(stage)):
            await _astray(stage, narrator, code, outcome)
            await _take_back(stage, narrator, code, outcome)
            await _hand_on(stage, narrator, code, outcome)
            if stay:
                narrator.scene("The room stays open: look at its timeline. Ctrl-C ends the demo.")
                await until_interrupted()
    ok = outcome.went_well()
    return {"ok": ok, **asdict(outcome)}, _verdict(outcome, ok)


async def _astray(stage: Stage, narrator: Narrator, code: Path, outcome: Outcome) -> None:
    """AVA and CLEO work, BEN goes astray, AVA works on in the same file."""
    (code / OUTPUT).write_text("day,sold\n1,12\n")
    narrator.scene(f"AVA adds discounts to {PRICES}, CLEO describes the prices.")
    await _work(stage, narrator, ("AVA", "discount"), ("CLEO", "docs"))
    await _look(code, outcome, narrator, "at first")
    await stage.order(f"/checkpoint {GOOD}")
    narrator.scene("BEN goes astray in the same file, and deletes the test that fails (by a shell command).")
    await _work(stage, narrator, ("BEN", "tidy"))
    await _work(stage, narrator, ("BEN", "faster"))
    narrator.scene("AVA works on in that file.")
    await _work(stage, narrator, ("AVA", "parse"))
    await _look(code, outcome, narrator, "when BEN had gone astray")


async def _take_back(stage: Stage, narrator: Narrator, code: Path, outcome: Outcome) -> None:
    """BEN's hour goes, and comes back, and goes."""
    narrator.scene(f"What BEN did since the checkpoint {GOOD!r} is taken back; first a preview.")
    preview = await stage.post(
        "/api/timeline/rewind", {"name": YOU, "lane": "BEN", "to": GOOD, "into": "main", "dry_run": True}
    )
    for file in preview["files"]:
        narrator.note(f"  {file['action']:<9} {file['path']}")
    readers = dict.fromkeys(
        (read["lane"].rpartition("/")[2], read["read"]) for read in preview["invalidated"]
    )
    for reader, path in readers:
        narrator.note(f"  {reader} had seen its {path}")
    outcome.taken_back = [file["path"] for file in preview["files"]]
    outcome.conflicts = list(preview["conflicts"])
    await stage.order(f"/rewind BEN to {GOOD} into main")
    await _look(code, outcome, narrator, "when it was taken back")
    narrator.scene("The rewind is undone.")
    await stage.order("/rewind undo")
    await _look(code, outcome, narrator, "when it was undone")
    narrator.scene("And redone.")
    await stage.order("/rewind redo")
    await _look(code, outcome, narrator, "when it was taken back again")
    outcome.output_kept = (code / OUTPUT).read_text() == "day,sold\n1,12\n"


async def _hand_on(stage: Stage, narrator: Narrator, code: Path, outcome: Outcome) -> None:
    """BEN's work goes to CLEO when its tests pass, not before."""
    narrator.scene("BEN and CLEO work in a pipeline: CLEO starts from what passed BEN's tests.")
    wrap, gifts = (job for job in REWIND.jobs if job.word in ("wrap", "gifts"))
    await stage.order(f"/pipeline Gift wrapping: {wrap.ask}; {gifts.ask}")
    passed: Json | None = None
    async with stage.limit("the handoff"):
        while passed is None:
            page = await stage.get("/api/timeline?type=handoff")
            details = [await stage.get(f"/api/timeline/events/{event['id']}") for event in page["events"]]
            outcome.handoffs = [event["outputs"]["validation"]["passed"] for event in details]
            passed = next((event for event in details if event["outputs"]["validation"]["passed"]), None)
            await asyncio.sleep(LOOK_S)
    # What CLEO's turn began with, by the log. The room may be quiet for a moment before its turn begins.
    first: list[Json] = []
    async with stage.limit("CLEO's turn"):
        while not first:
            began = await stage.get("/api/timeline?lane=CLEO&type=files.changed")
            first = [event for event in began["events"] if event["number"] > passed["number"]]
            await asyncio.sleep(LOOK_S)
    written = await stage.get(f"/api/timeline/events/{first[0]['id']}")
    outcome.same_tree = written["inputs"]["tree"] == passed["snapshot"]
    await stage.quiet()


async def _work(stage: Stage, narrator: Narrator, *asked: tuple[str, str]) -> None:
    """Let agents do their jobs, and merge what they did."""
    for agent, word in asked:
        job = next(job for job in REWIND.jobs if (job.agent, job.word) == (agent, word))
        await stage.ask(f"@{agent} {job.ask}")
    await stage.quiet()
    for agent in dict.fromkeys(agent for agent, _ in asked):
        answer = await stage.post(f"/api/worktrees/{agent}/merge", {"name": YOU})
        if not answer["success"]:
            raise DemoError(f"the branch of {agent} was not merged: {answer['reason']}")
        narrator.note(f"  {agent}: merged")


async def _look(code: Path, outcome: Outcome, narrator: Narrator, moment: str) -> None:
    """Run the tests of the main checkout, and read whose lines stand there."""
    process = await asyncio.create_subprocess_exec(
        *TESTS, cwd=code, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
    )
    _, said = await process.communicate()
    green = process.returncode == 0
    text = (code / PRICES).read_text()
    outcome.green[moment] = green
    outcome.others_stand[moment] = all(line in text for line in OTHERS)
    outcome.astray_stands[moment] = any(line in text for line in ASTRAY)
    last = said.decode(errors="replace").strip().rpartition("\n")[2]
    narrator.note(f"  The tests on main {'pass' if green else 'FAIL'} ({last}).")


def _verdict(outcome: Outcome, ok: bool) -> str:
    """What the outcome means, for people."""
    lines = [
        f"{moment}: the tests {'pass' if green else 'fail'}; BEN's lines "
        f"{'stand' if outcome.astray_stands[moment] else 'are gone'}"
        for moment, green in outcome.green.items()
    ]
    kept = f"; {OUTPUT}, which no agent made, was left alone" * outcome.output_kept
    lines.append(f"taken back in {', '.join(outcome.taken_back) or 'nothing'}{kept}")
    tries = ", then ".join("passed" if passed else "failed" for passed in outcome.handoffs) or "none"
    start = "exactly the files that passed" if outcome.same_tree else "other files than those that passed"
    lines.append(f"handoff from BEN to CLEO: {tries}; CLEO began with {start}")
    lines.append("That is how it should go." if ok else "That is NOT how it should go.")
    return "\n".join(lines)
