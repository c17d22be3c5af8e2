"""The story of `relay demo --land`: six branches land by the queue, and one breaks the tests only together with
another. Five land, the main branch is never red, the sixth is told why, mends it and lands.

Invariant: every word it prints about the outcome was read from the running room or from git, or is what the tests of
the codebase said; an act that did not go as it should is a failure of the demo, not a sentence less.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from relay.app.demo.land_scene import FAILING, FILES, PAIR, PARTS, POLICY, TESTS
from relay.app.demo.narrator import Narrator, beside, until_interrupted
from relay.app.demo.stage import LOOK_S, DemoError, Json, Stage, build, open_stage
from relay.checks.results import Check, State
from relay.checks.tree_command import TreeCommand
from relay.git.run import Git, GitError
from relay.model.names import listed

AGENTS = tuple(part.agent for part in PARTS)
#: Seconds that the tests of the codebase may take.
TESTS_S = 60.0


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit of the main branch. `green`: do the tests pass on it?"""

    commit: str
    subject: str
    green: bool


@dataclass(slots=True)
class Outcome:
    """What was found. `alone`: how the tests of each branch by itself ended; `batches`: what was tested together, and
    how that ended; `ended`: each entry of the queue that is over (`GET /api/landing`), in the order of its end.
    `runs`, `run_s`: how often the tests were run, and the seconds of that; `seconds`: from the order to land until
    all had landed, the agent's mending among it. `main`: the main branch's first-parent line from its begin; `moved`:
    the commits that it was moved to; `tested`: is the tree of each of these one that had passed?"""

    alone: dict[str, str] = field(default_factory=dict)
    batches: list[Json] = field(default_factory=list)
    ended: list[Json] = field(default_factory=list)
    runs: int = 0
    run_s: float = 0.0
    seconds: float = 0.0
    main: list[Commit] = field(default_factory=list)
    moved: list[str] = field(default_factory=list)
    tested: bool = False

    @property
    def landed(self) -> list[str]:
        return [entry["agent"] for entry in self.ended if entry["state"] == "landed"]

    @property
    def put_out(self) -> list[Json]:
        return [entry for entry in self.ended if entry["state"] == "put_out"]

    @property
    def red(self) -> int:
        return sum(not commit.green for commit in self.main)

    def went_well(self) -> bool:
        sixth = [entry["agent"] for entry in self.put_out]
        return (
            self.alone == dict.fromkeys(AGENTS, "passed")
            and [(sorted(one["agents"]), one["state"]) for one in self.batches[:1]] == [([*AGENTS], "failed")]
            and len(sixth) == 1
            and sixth[0] in PAIR
            and FAILING in self.put_out[0]["output"]
            and sorted(self.landed) == sorted(AGENTS)
            and self.landed[-1] == sixth[0]
            and len(self.main) == 1 + len(AGENTS)
            and self.red == 0
            and self.tested
        )


async def play(
    folder: Path, pace_s: float, port: int, narrator: Narrator, *, stay: bool
) -> tuple[dict[str, Any], str]:
    """Play it; gives the outcome as JSON, and what it means. Raises DemoError."""
    try:
        path = await asyncio.to_thread(_built, folder, pace_s, port)
    except OSError as error:
        raise DemoError(f"{folder} cannot be made: {error.strerror}") from None
    outcome = Outcome()
    async with open_stage(path) as stage:
        await narrator.link(stage)
        async with beside(_tell(stage, narrator)):
            await _work(stage, narrator, outcome)
            await _land(stage, narrator, outcome)
            await _look(stage, narrator, folder, outcome)
            if stay:
                narrator.scene("The room stays open: look at its page Landing. Ctrl-C ends the demo.")
                await until_interrupted()
    ok = outcome.went_well()
    told = {"ok": ok, "landed": outcome.landed, "red": outcome.red, **asdict(outcome)}
    return told, _verdict(outcome, ok)


def _built(folder: Path, pace_s: float, port: int) -> Path:
    """The room's configuration; its policy and its agents' scripts are written beside it. Blocks."""
    agents = [{"name": name, "kind": "scripted", "script": f"{name.lower()}.yaml"} for name in AGENTS]
    path = build(folder, FILES, agents, airspace=False, port=port)
    for part in PARTS:
        (folder / f"{part.agent.lower()}.yaml").write_text(part.script(pace_s))
    (folder / "policies").mkdir()
    (folder / "policies" / "tests.yaml").write_text(json.dumps(POLICY, indent=2) + "\n")
    return path


# -- the acts


async def _work(stage: Stage, narrator: Narrator, outcome: Outcome) -> None:
    """Each agent does its part, and its branch is tested by itself."""
    narrator.scene("Six agents change one codebase, each on a branch of its own.")
    for part in PARTS:
        await stage.ask(f"@{part.agent} {part.ask}")
    await stage.quiet()
    for agent, tested in (await _tested_alone(stage, len(AGENTS))).items():
        outcome.alone[agent] = tested["state"]
        if tested["state"] != "passed":
            raise DemoError(f"the branch of {agent} does not pass by itself: {tested['reason']}")
    await _until(stage, "/api/landing/plan", lambda answer: _whole(answer["plan"], len(AGENTS)), "the plan")


async def _land(stage: Stage, narrator: Narrator, outcome: Outcome) -> None:
    """All are to land; who is put out mends what it did, and lands after."""
    narrator.scene("Each branch passes its tests. You let all of them land.")
    await stage.order("/land all")
    ended = await _all_ended(stage, len(AGENTS))
    landed, put_out = (
        [entry["agent"] for entry in ended if entry["state"] == state] for state in ("landed", "put_out")
    )
    if not landed:
        raise DemoError(f"no branch has landed: {ended[0]['reason']}")
    await asyncio.sleep(3 * LOOK_S)  # what the room says of it is printed before the story goes on
    for agent in put_out:
        narrator.scene(f"{listed(landed)} have landed. {agent} was told what failed, and mends it.")
        await stage.quiet()
        await _tested_alone(stage, len(AGENTS) + 1)
        narrator.scene(f"You let {agent} land again.")
        await stage.order(f"/land @{agent}")
        ended = await _all_ended(stage, len(ended) + 1)
    await asyncio.sleep(3 * LOOK_S)
    outcome.ended = ended
    outcome.seconds = _time(ended[-1]["ended"]) - min(_time(entry["at"]) for entry in ended)


async def _look(stage: Stage, narrator: Narrator, folder: Path, outcome: Outcome) -> None:
    """Read from the room what was run, and run the tests on each commit that the main branch has."""
    found = (await stage.get("/api/verifications?limit=100"))["verifications"]
    for one in reversed(found):
        ran = [result for result in one["results"] if result["reused"] is None]
        outcome.runs += len(ran)
        outcome.run_s += sum(result["seconds"] for result in ran)
        if _batch(one) is not None:
            outcome.batches.append({"agents": _batch(one), "state": one["state"], "by": one["reference"]})
    passed = {one["tree"] for one in found if one["source"] == "landing" and one["state"] == "passed"}
    narrator.scene("The tests are run once more, on each commit of main from the first one.")
    git = Git(folder / "code", {"GIT_DIR": str(folder / "code" / ".git")})
    tests = TreeCommand(git, folder / "looked-at")
    check = Check("tests", TESTS, TESTS_S)
    try:
        for line in await _lines(git, "log", "--first-parent", "--reverse", "--format=%H %T %s", "main"):
            commit, tree, subject = line.split(" ", 2)
            ended = await tests.run(check, tree)
            if ended.state is State.NOT_RUN:
                raise DemoError(f"the tests cannot be run: {ended.reason}")
            green = ended.state is State.PASSED
            outcome.main.append(Commit(commit, subject, green))
            narrator.note(f"  {commit[:9]} {'passes' if green else 'FAILS '}  {subject}")
        positions = await _lines(git, "log", "--walk-reflogs", "--format=%H %T", "main")
    except GitError as error:
        raise DemoError(f"git cannot tell what main was: {error}") from None
    moves = [line.split(" ") for line in reversed(positions)][1:]
    outcome.moved = [commit for commit, _ in moves]
    outcome.tested = bool(moves) and all(tree in passed for _, tree in moves)


# -- what the room says


async def _tell(stage: Stage, narrator: Narrator) -> None:
    """Print for ever what is said in the room, and what its verifications come to."""
    async for frame in stage.frames():
        data = frame["data"]
        if frame["type"] == "entry":
            narrator.entry(data)
        elif frame["type"] == "verification" and data["change"] == "ended":
            ended = await stage.get(f"/api/verifications/{data['number']}")
            narrator.note(f"  {_came_to(ended)}")


def _came_to(one: Json) -> str:
    """What a verification came to, in a sentence."""
    known = {"passed": "the tests pass", "failed": "the tests FAIL"}
    how = f"{known.get(one['state'], one['state'] + ': ' + one['reason'])} ({one['reference']})"
    agents = _batch(one)
    if agents is None:
        return f"{one['agent']}'s branch by itself: {how}"
    if not agents:
        return f"main by itself: {how}"
    halved = "; the queue halves them" if one["state"] == "failed" and len(agents) > 1 else ""
    return f"main with {listed(agents)}: {how}{halved}"


def _batch(one: Json) -> list[str] | None:
    """Whose work a verification of the queue has; None: it is of no batch."""
    about = one["about"]
    return list(about["agents"]) if one["source"] == "landing" and about.get("part") == "batch" else None


async def _tested_alone(stage: Stage, count: int) -> dict[str, Json]:
    """The last verification of each agent's own turns, once this many of them are over."""

    def look(answer: Json) -> list[Json] | None:
        found = [one for one in answer["verifications"] if one["source"] == "turn"]
        return found if len(found) >= count and all(one["ended"] for one in found) else None

    found = await _until(stage, "/api/verifications?limit=100", look, "the tests of the agents' turns")
    return {one["agent"]: one for one in reversed(found)}


async def _all_ended(stage: Stage, count: int) -> list[Json]:
    """The entries of the landing queue in the order of their ends, once this many are over."""

    path, what = "/api/landing", "the landing queue"
    found = await _until(stage, path, lambda answer: _whole(answer["ended"], count), what)
    return sorted(found, key=lambda entry: (_time(entry["ended"]), entry["number"]))


def _whole(found: list[Json], count: int) -> list[Json] | None:
    return found if len(found) >= count else None


async def _until(stage: Stage, path: str, look: Callable[[Json], list[Json] | None], what: str) -> list[Json]:
    async with stage.limit(what):
        while True:
            if (found := look(await stage.get(path))) is not None:
                return found
            await asyncio.sleep(LOOK_S)


async def _lines(git: Git, *words: str) -> list[str]:
    return (await git.line(*words)).splitlines()


def _time(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


# -- what it means


def _verdict(outcome: Outcome, ok: bool) -> str:
    """What the outcome means, for people."""
    asked = min((_time(entry["at"]) for entry in outcome.ended), default=0.0)
    does = {part.agent: part.does for part in PARTS}
    rows = [("agent", "its branch", "", "after", "tested as")]
    for entry in outcome.ended:
        how = f"landed as {entry['commit'][:9]}" if entry["state"] == "landed" else "did not land"
        after = f"{_time(entry['ended']) - asked:.1f} s"
        rows.append((entry["agent"], does[entry["agent"]], how, after, entry["verification"] or ""))
    batches, failed = len(outcome.batches), sum(batch["state"] == "failed" for batch in outcome.batches)
    lines = [
        *_columns(rows),
        "",
        f"{len(outcome.landed)} of {len(AGENTS)} branches landed in {outcome.seconds:.1f} s; the queue tested "
        f"{batches} batch{'es' * (batches != 1)}, {failed} failed",
        f"the tests were run {_times(outcome.runs)}, those of each branch by itself among them: "
        f"{outcome.run_s:.1f} s",
        f"main was moved {_times(len(outcome.moved))}, {'only' if outcome.tested else 'NOT only'} to what had "
        f"passed; it has {len(outcome.main)} commits, and was red {_times(outcome.red)}",
        "",
        "To look further: --stay keeps the room open (its page Landing, or `/land` in it), --folder FOLDER keeps the",
        "repository in FOLDER/code, and docs/verification.md says how branches land in your own room.",
        "",
        "That is how it should go." if ok else "That is NOT how it should go.",
    ]
    return "\n".join(lines)


def _times(count: int) -> str:
    return f"{count} time{'s' * (count != 1)}"


def _columns(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """The rows as lines whose columns stand below each other."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    padded = [[cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in rows]
    return ["  ".join(row).rstrip() for row in padded]
