"""The demo's story: three agents approach, are told, one gives way, all merge; then the same untold.

Invariant: every word it prints about the outcome was read from the running room or from git; an act that did
not go as it should is a failure of the demo, not a sentence less.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Protocol

from rich.console import Console

from relay.app.demo import land_story, merge_story, rewind_story
from relay.app.demo.narrator import Narrator, beside, console_of, until_interrupted
from relay.app.demo.scene import AGENTS, APPROACH, JOBS
from relay.app.demo.stage import LOOK_S, YOU, DemoError, Stage, build, open_stage, player
from relay.app.demo.swarm import swarm_story
from relay.base.terminal_text import fail

#: Seconds to wait for an advisory that should come, and for a person being asked.
TOLD_S = 45.0


class Story(Protocol):
    """A demo of its own: a module that plays it."""

    def play(
        self, folder: Path, pace_s: float, port: int, narrator: Narrator, *, stay: bool
    ) -> Coroutine[Any, Any, tuple[dict[str, Any], str]]: ...


#: The demos that are played instead, by their options.
STORIES: Mapping[str, Story] = {"rewind": rewind_story, "merge": merge_story, "land": land_story}


@dataclass(frozen=True, slots=True)
class Options:
    """How the demo is played. `keep`: the folder stays. `pace_s`: seconds before each edit."""

    folder: Path | None = None
    stubborn: bool = False
    pace_s: float = 1.0
    port: int = 0
    stay: bool = False
    only_with: bool = False
    rewind: bool = False
    merge: bool = False
    land: bool = False
    swarm: bool = False
    seed: int = 1
    items: int = 200
    agents: int = 8
    machines: int = 1
    as_json: bool = False

    @property
    def size(self) -> swarm_story.Size:
        return swarm_story.Size(self.seed, self.items, self.agents, self.machines)


@dataclass(slots=True)
class Act:
    """How an act went: the levels that were said, who gave way, and what git did with each branch."""

    airspace: bool
    levels: list[str] = field(default_factory=list)
    intents: dict[str, list[str]] = field(default_factory=dict)
    steered: list[str] = field(default_factory=list)
    refused_writes: int = 0
    #: Who heard the room in the middle of a turn, and after which tool.
    heard: dict[str, str] = field(default_factory=dict)
    person_asked: bool = False
    merged: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)

    def went_well(self, stubborn: bool) -> bool:
        """With the airspace all branches merge, or what would collide was stopped; without it one does not."""
        if not self.airspace:
            return bool(self.refused)
        warned = "resolution" in self.levels and "advisory" in self.levels
        if stubborn:
            return warned and bool(self.refused_writes) and self.person_asked
        return (
            warned
            and bool(self.steered)
            and bool(self.heard)
            and bool(self.intents)
            and not self.refused
            and len(self.merged) == len(AGENTS)
        )


async def play(options: Options, console: Console) -> tuple[dict[str, Any], str]:
    """Play what is asked for; gives the outcome as JSON and what it means. Raises DemoError."""
    narrator = Narrator(console)
    folder = options.folder or Path(tempfile.mkdtemp(prefix="relay-demo-"))
    if folder.exists() and not folder.is_dir():
        raise DemoError(f"{folder} is not a folder; give a new one")
    if options.folder is not None and folder.exists() and any(folder.iterdir()):
        raise DemoError(f"{folder} is not empty; give a new folder")
    try:
        for name, story in STORIES.items():
            if getattr(options, name):
                return await story.play(folder, options.pace_s, options.port, narrator, stay=options.stay)
        if options.swarm:
            return await swarm_story.play(
                *(folder, options.size, options.pace_s, options.port, narrator),
                stay=options.stay,
                only_with=options.only_with,
            )
        return await _approach(folder, options, narrator)
    finally:
        if options.folder is None:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


async def _approach(folder: Path, options: Options, narrator: Narrator) -> tuple[dict[str, Any], str]:
    """Both acts of the airspace."""
    narrator.scene("With the airspace: three agents in one codebase.")
    acts = [await _act(folder / "with", options, narrator, airspace=True)]
    if not options.only_with:
        narrator.scene("The same again, with the airspace off.")
        acts.append(await _act(folder / "without", options, narrator, airspace=False))
    outcome = {
        "ok": all(act.went_well(options.stubborn) for act in acts),
        "acts": [asdict(act) for act in acts],
    }
    return outcome, verdict(outcome)


async def _act(folder: Path, options: Options, narrator: Narrator, *, airspace: bool) -> Act:
    try:
        path = await asyncio.to_thread(
            build,
            folder,
            APPROACH.files,
            [
                player(name, options.pace_s, *["--stubborn"] * (options.stubborn and name == "BEN"))
                for name in AGENTS
            ],
            airspace=airspace,
            port=options.port,
        )
    except OSError as error:
        raise DemoError(f"{folder} cannot be made: {error.strerror}") from None
    act = Act(airspace)
    async with open_stage(path) as stage:
        await narrator.link(stage)
        async with beside(narrator.follow(stage)):
            await _work(stage, act, narrator, stubborn=options.stubborn)
            await _merge(stage, act, narrator)
            if airspace and options.stay:
                then = "ends the demo" if options.only_with else "goes on to the part without the airspace"
                narrator.scene(f"The room stays open. Ctrl-C {then}.")
                await until_interrupted()
    return act


async def _work(stage: Stage, act: Act, narrator: Narrator, *, stubborn: bool) -> None:
    narrator.scene("Each works on something of its own.")
    for job in JOBS[:3]:
        await stage.ask(f"@{job.agent} {job.ask}")
    await stage.quiet()
    approach, collide, trial = JOBS[3], JOBS[4], JOBS[5]
    narrator.scene(f"{approach.agent} comes near {collide.agent}: both change src/shop/session.py.")
    await stage.ask(f"@{approach.agent} {approach.ask}")
    await stage.quiet()
    if act.airspace:
        await _until_level(stage, act, "advisory")
        await stage.quiet()
    narrator.scene(
        f"{approach.agent} tries its work out, a long turn. Meanwhile {collide.agent} goes on, into the lines that "
        f"{approach.agent} has changed."
    )
    await stage.ask(f"@{trial.agent} {trial.ask}")
    await stage.ask(f"@{collide.agent} {collide.ask}")
    await stage.quiet()
    if act.airspace:
        await _until_level(stage, act, "resolution")
        await stage.quiet()
        if stubborn:
            narrator.scene(f"{approach.agent} ignores it, and tries to go on in the same file.")
            await stage.ask(f"@{approach.agent} {approach.ask}")
            await stage.quiet()
        await _outcome(stage, act)


async def _until_level(stage: Stage, act: Act, level: str) -> None:
    """Wait for an advisory that reached this level, at least; note what was said."""

    def reached(advisory: dict[str, Any]) -> bool:
        return level in (advisory["level"], advisory["worst"])

    advisory = await _wait(stage, reached)
    if advisory is not None and level not in act.levels:
        act.levels.append(level)


async def _outcome(stage: Stage, act: Act) -> None:
    """Wait until the resolution advisory is settled: the steering one has left, or a person was asked."""

    def settled(meeting: dict[str, Any]) -> bool:
        return meeting.get("steering") in ("left", "stayed")

    meeting = await _wait(stage, settled)
    advisories = (await stage.get("/api/airspace/advisories?limit=50"))["advisories"]
    for advisory in advisories:
        for agent, answer in advisory["answers"].items():
            act.intents.setdefault(agent, sorted(answer["intent"]))
    if meeting is not None:
        act.steered = list(meeting["left"])
    page = await stage.get("/api/transcript?limit=500")
    for entry in page["entries"]:
        for told in entry["meta"].get("heard", ()):
            if told["speaker"] == "RELAY":
                act.heard[entry["speaker"]] = told["after"]
    act.person_asked = any(meeting["people_asked_at"] for meeting in advisories)
    act.refused_writes = sum("was refused:" in entry["body"] for entry in page["entries"])


async def _wait(stage: Stage, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any] | None:
    give_up = asyncio.get_running_loop().time() + TOLD_S
    while asyncio.get_running_loop().time() < give_up:
        answer = await stage.get("/api/airspace/advisories?limit=50")
        for advisory in answer["advisories"]:
            if wanted(advisory):
                return dict(advisory)
        await asyncio.sleep(LOOK_S)
    return None


async def _merge(stage: Stage, act: Act, narrator: Narrator) -> None:
    narrator.scene("All branches are merged into main.")
    for agent in AGENTS:
        answer = await stage.post(f"/api/worktrees/{agent}/merge", {"name": YOU})
        if answer["success"]:
            act.merged.append(agent)
            narrator.note(f"  {agent}: merged")
        else:
            act.refused[agent] = str(answer["reason"])
            narrator.note(f"  {agent}: refused: {answer['reason']}")


async def _stoppable(playing: Coroutine[Any, Any, tuple[dict[str, Any], str]]) -> tuple[dict[str, Any], str]:
    """Play, and end the room also when the demo itself is told to end."""
    task = asyncio.ensure_future(playing)
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    return await task


def verdict(outcome: dict[str, Any]) -> str:
    """What the outcome means, for people."""
    lines = []
    for act in outcome["acts"]:
        name = "with the airspace   " if act["airspace"] else "without the airspace"
        merged = f"{len(act['merged'])} of {len(AGENTS)} branches merged"
        refused = "".join(f"; {agent}: {reason}" for agent, reason in act["refused"].items())
        steered = f"; {', '.join(act['steered'])} gave way" if act["steered"] else ""
        count = act["refused_writes"]
        if steered and any(agent in act["heard"] for agent in act["steered"]):
            steered += " in the middle of its turn, because it was told there"
        writes = f"; {count} edit{'s' * (count != 1)} refused" if count else ""
        lines.append(f"{name}: {merged}{steered}{writes}{refused}")
    if saved := _saved(outcome["acts"]):
        lines.append(saved)
    lines.append("That is how it should go." if outcome["ok"] else "That is NOT how it should go.")
    return "\n".join(lines)


def _saved(acts: list[dict[str, Any]]) -> str:
    """What the room saved an agent that does not listen, against the part without it, in one sentence."""
    within = next((act for act in acts if act["airspace"] and act["refused_writes"]), None)
    without = next((act for act in acts if not act["airspace"] and act["refused"]), None)
    if within is None or without is None:
        return ""
    count = within["refused_writes"]
    edits = "an edit before it was made" if count == 1 else f"{count} edits before they were made"
    lost = ", ".join(without["refused"])
    return f"The room refused {edits} and asked a person; without it {lost} could not be merged any more."


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--folder", type=Path, help="a new folder to play in, which stays (else a temporary one)"
    )
    parser.add_argument("--port", type=int, default=0, help="the page's port (any free one)")
    parser.add_argument(
        "--pace", dest="pace_s", metavar="PACE", type=float, default=1.0, help="seconds before each edit (1)"
    )
    parser.add_argument("--stubborn", action="store_true", help="BEN pays no attention to advisories")
    parser.add_argument("--stay", action="store_true", help="keep the room open after the first part")
    parser.add_argument("--only-with", action="store_true", help="skip the part without the airspace")
    parser.add_argument(
        "--rewind",
        action="store_true",
        help="the timeline instead: take back what one agent did, and hand work on",
    )
    parser.add_argument(
        "--merge",
        action="store_true",
        help="merging instead: what is joined, what is asked, and three variants of one task that race",
    )
    parser.add_argument(
        "--land",
        action="store_true",
        help="landing instead: six branches land by the queue, one of which breaks the tests only with another",
    )
    parser.add_argument(
        "--swarm",
        action="store_true",
        help="many at once instead: 8 agents and 2 people do 200 items in one repository, with relay and without",
    )
    size = swarm_story.Size()
    for name, says in (
        ("seed", "makes its items"),
        ("items", "how many there are"),
        ("agents", "how many work on them"),
        ("machines", "how many relays the agents are spread over"),
    ):
        known = getattr(size, name)
        parser.add_argument(
            f"--{name}", type=int, default=known, metavar="N", help=f"of --swarm: {says} ({known})"
        )
    parser.add_argument("--json", dest="as_json", action="store_true", help="print the outcome as JSON")


def run(args: argparse.Namespace) -> int:
    """The command; gives its exit code."""
    if args.pace_s < 0:
        return fail("--pace must be 0 or more", 2)
    instead = [f"--{name}" for name in (*STORIES, "swarm") if getattr(args, name)]
    if instead and (args.stubborn or (args.only_with and not args.swarm)):
        return fail(f"{instead[0]} has no airspace; leave --stubborn and --only-with out", 2)
    if len(instead) > 1:
        return fail(f"{' and '.join(instead)} are {len(instead)} demos: give one", 2)
    size = swarm_story.Size(args.seed, args.items, args.agents, args.machines)
    if not args.swarm and size != swarm_story.Size():
        return fail("--seed, --items, --agents and --machines are of --swarm", 2)
    if wrong := size.wrong():
        return fail(wrong, 2)
    options = Options(**{option.name: getattr(args, option.name) for option in fields(Options)})
    console = console_of(sys.stderr if options.as_json else sys.stdout)
    try:
        outcome, meaning = asyncio.run(_stoppable(play(options, console)))
    except (asyncio.CancelledError, KeyboardInterrupt):
        console.print("\nThe demo was stopped.")
        return 1
    except DemoError as error:
        console.print(f"relay: {error}", markup=False)
        return 1
    if options.as_json:
        print(json.dumps(outcome))
    else:
        console.print(f"\n{meaning}", markup=False)
    return 0 if outcome["ok"] else 1
