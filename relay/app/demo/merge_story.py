"""The story of `relay demo --merge`: two agents collide, which is joined where both added something and asked where
both changed one statement; then three variants of one task race, one is stopped at its budget, the best is merged.

Invariant: every word it prints about the outcome was read from the running room or from git; an act that did not go
as it should is a failure of the demo, not a sentence less.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from relay.app.demo import race_scene
from relay.app.demo.collide_scene import BOTH, COLLIDE, PRICES
from relay.app.demo.narrator import Narrator, beside, until_interrupted
from relay.app.demo.stage import LOOK_S, SCENE_S, YOU, DemoError, Json, Stage, build, open_stage, player

#: What the race must come to.
WINNER, STOPPED = "in-memory", "memcached"
#: How the codebase tests itself: on what is merged, before it lands.
TESTS = (sys.executable, "-B", "-m", "unittest", "discover", "-q", "-s", "tests", "-t", ".")


@dataclass(slots=True)
class Collision:
    """What came of two agents that collide. `joined`: the steps by which PRICES was joined; `asked`: the conflict;
    `answered`: its state after the answer; `stands`: is the work of both there; `green`: do main's tests pass?"""

    joined: list[str] = field(default_factory=list)
    asked: str = ""
    answered: str = ""
    stands: bool = False
    green: bool = False

    def went_well(self) -> bool:
        joined = {"imports", "added"} <= set(self.joined)
        return joined and bool(self.asked) and self.answered == "resolved" and self.stands and self.green


@dataclass(slots=True)
class Race:
    """What came of it: each variant's status and score, which limit was passed, and whether the main branch was as
    before until the winner was merged. `kept`: the refs that hold what the variants left."""

    statuses: dict[str, str] = field(default_factory=dict)
    scores: dict[str, float | None] = field(default_factory=dict)
    which: str = ""
    winner: str | None = None
    merged: bool = False
    kept: list[str] = field(default_factory=list)
    worktrees: list[str] = field(default_factory=list)

    def went_well(self) -> bool:
        return (
            self.statuses == {"redis": "completed", STOPPED: "budget_exceeded", WINNER: "completed"}
            and self.which == "max_duration_seconds"
            and self.winner == WINNER
            and self.merged
            and len(self.kept) == len(self.statuses)
            and not self.worktrees
        )


def agents(folder: Path) -> list[Json]:
    """The agents that race; their scripts are written into `folder`. Blocks."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "redis.yaml").write_text(race_scene.script(race_scene.REDIS, 0.85, 6_200))
    (folder / "dict.yaml").write_text(race_scene.script(race_scene.IN_MEMORY, 0.40, 3_100))
    waits = [sys.executable, "-c", race_scene.WAITING]
    return [
        {"name": "REDIS", "kind": "scripted", "script": str(folder / "redis.yaml")},
        {"name": "MEMO", "kind": "command", "cmd": waits},
        {"name": "DICT", "kind": "scripted", "script": str(folder / "dict.yaml")},
    ]


async def play(
    folder: Path, pace_s: float, port: int, narrator: Narrator, *, stay: bool
) -> tuple[dict[str, Any], str]:
    """Play it; gives the outcome as JSON, and what it means. Raises DemoError."""
    try:
        racing = await asyncio.to_thread(agents, folder)
        colliding = [player(name, pace_s, "--scene", "collide") for name in ("AVA", "BEN")]
        path = await asyncio.to_thread(
            build,
            folder,
            {**COLLIDE.files, **race_scene.FILES},
            [*colliding, *racing],
            airspace=False,
            port=port,
            merge={"test": list(TESTS)},
        )
    except OSError as error:
        raise DemoError(f"{folder} cannot be made: {error.strerror}") from None
    async with open_stage(path) as stage:
        await narrator.link(stage)
        async with beside(narrator.follow(stage)):
            collision = await _collide(stage, narrator, folder / "code")
            race = await _race(stage, narrator, folder, path)
            if stay:
                narrator.scene("The room stays open: look at its page Explore. Ctrl-C ends the demo.")
                await until_interrupted()
    ok = collision.went_well() and race.went_well()
    return {"ok": ok, "collision": asdict(collision), "race": asdict(race)}, _verdict(collision, race, ok)


async def _collide(stage: Stage, narrator: Narrator, code: Path) -> Collision:
    """AVA and BEN collide twice in one file: once relay joins it, once it asks."""
    collision = Collision()
    narrator.scene(f"AVA and BEN each add an import and a function to {PRICES}, at the same places.")
    await _work(stage, "discount", "average")
    await _merge(stage, narrator, "AVA")
    joined = (await _merge(stage, narrator, "BEN"))["joined"]
    collision.joined = [step for file in joined if file["path"] == PRICES for step in file["by"]]
    narrator.scene("Both change one statement. relay does not choose: it asks.")
    await _work(stage, "currency", "thousands")
    await _merge(stage, narrator, "AVA")
    await _merge(stage, narrator, "BEN", lands=False)
    waiting = await stage.listed("/api/conflicts?state=open")
    if not waiting:
        raise DemoError("the room asks nothing about the statement that both changed")
    collision.asked = str(waiting[0]["reference"])
    narrator.scene("You let BEN write what has both.")
    await stage.order(f"/resolve {collision.asked} 3")
    async with stage.limit("BEN's answer"):
        while collision.answered in ("", "open"):
            found = await stage.listed("/api/conflicts?limit=20")
            state = [each["state"] for each in found if each["reference"] == collision.asked]
            collision.answered = str(state[0]) if state else "gone"
            await asyncio.sleep(LOOK_S)
    await stage.quiet()
    await _merge(stage, narrator, "BEN")
    text = (code / PRICES).read_text()
    collision.stands = BOTH in text and "def discounted(" in text and "def average(" in text
    tested = await asyncio.to_thread(subprocess.run, TESTS, cwd=code, capture_output=True, check=False)
    collision.green = tested.returncode == 0
    narrator.note(f"  The tests on main {'pass' if collision.green else 'FAIL'}.")
    return collision


async def _work(stage: Stage, *words: str) -> None:
    """Let agents do these jobs, side by side."""
    for job in COLLIDE.jobs:
        if job.word in words:
            await stage.ask(f"@{job.agent} {job.ask}")
    await stage.quiet()


async def _merge(stage: Stage, narrator: Narrator, agent: str, *, lands: bool = True) -> Json:
    """Merge an agent's branch. Raises DemoError where it should land and does not, or should not and does."""
    answer = await stage.post(f"/api/worktrees/{agent}/merge", {"name": YOU})
    if answer["success"] is not lands:
        raise DemoError(f"the branch of {agent}: {'merged' if answer['success'] else answer['reason']}")
    narrator.note(f"  {agent}: {'merged' if lands else answer['reason']}")
    await asyncio.sleep(3 * LOOK_S)  # what the room says of it is printed before the story goes on
    return answer


async def _race(stage: Stage, narrator: Narrator, folder: Path, config: Path) -> Race:
    """Three variants side by side, as `relay explore FILE` has them."""
    narrator.scene("Three agents cache the same look-up in three ways, side by side. The best is merged.")
    file = folder / "cache.yaml"
    await asyncio.to_thread(file.write_text, race_scene.exploration())
    result = await _explored(file, config)
    race = Race(winner=result["winner"], merged=result["state"] == "done")
    for variant in result["variants"]:
        race.statuses[variant["name"]] = variant["status"]
        race.scores[variant["name"]] = variant["weighted_score"]
        race.which = variant.get("which", race.which)
    code = folder / "code"
    race.kept = await _git(code, "for-each-ref", "--format=%(refname)", "refs/relay/explorations/")
    listed = await _git(code, "worktree", "list", "--porcelain")
    race.worktrees = [line for line in listed if line.startswith("worktree ") and "/explorations/" in line]
    return race


async def _explored(file: Path, config: Path) -> Json:
    """What `relay explore FILE --json` prints. Raises DemoError."""
    words = (
        "-P",
        "-m",
        "relay.cli",
        "explore",
        str(file),
        "--json",
        "--name",
        "you",
        "--config",
        str(config),
    )
    child = await asyncio.create_subprocess_exec(
        sys.executable, *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        async with asyncio.timeout(SCENE_S):
            out, err = await child.communicate()
    except TimeoutError:
        raise DemoError(f"waited {SCENE_S:g} s for the race") from None
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    if child.returncode not in (0, 1) or not out:
        raise DemoError(f"relay explore: {err.decode(errors='replace').strip()}")
    found: Json = json.loads(out)
    return found


async def _git(code: Path, *words: str) -> list[str]:
    asked = ["git", *words]
    done = await asyncio.to_thread(subprocess.run, asked, cwd=code, capture_output=True, check=True)
    return [line for line in done.stdout.decode().splitlines() if line]


def _verdict(collision: Collision, race: Race, ok: bool) -> str:
    """What the outcome means, for people."""
    tests = "the tests pass" if collision.green else "the tests FAIL"
    lines = [
        f"{PRICES}: joined by {' and '.join(collision.joined) or 'nothing'}; {collision.asked or 'nothing'} was "
        f"asked and is {collision.answered or 'open'}; {tests} on main"
    ]
    for name, status in race.statuses.items():
        score = race.scores[name]
        told = f"score {score:.3f}" if score is not None else f"stopped: {race.which}" if race.which else ""
        lines.append(f"{name:<10} {status.replace('_', ' '):<16} {told}".rstrip())
    winner = f"{race.winner} is merged into main" if race.merged else "nothing was merged"
    lines.append(f"{winner}; {len(race.kept)} variants are kept under refs/relay/explorations/")
    lines.append("That is how it should go." if ok else "That is NOT how it should go.")
    return "\n".join(lines)
