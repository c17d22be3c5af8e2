"""The machines of the swarm, each a folder: the first has the codebase, the others are clones of one bare remote.

Invariant: where there is one machine there is no remote and no PostgreSQL, as in a room of one relay.
"""

from __future__ import annotations

import asyncio
import shlex
import sys
import time
from pathlib import Path
from typing import Any

from relay.app.demo.stage import LOOK_S, DemoError, commit_codebase, configure
from relay.app.demo.swarm.codebase import TESTS, files
from relay.app.demo.swarm.outcome import Plan
from relay.app.demo.swarm.workplace import git

#: Seconds that the other machines get to have what has landed.
_FOLLOW_S = 60.0
#: The remote of all, and the bare repository that it is.
_REMOTE, _BARE = "origin", "common.git"


def folders(folder: Path, plan: Plan) -> list[Path]:
    return [folder, *(folder / f"machine-{number}" for number in range(2, plan.machines + 1))]


def of(workers: tuple[str, ...], number: int, machines: int) -> tuple[str, ...]:
    """Those of the workers who work at the machine of this number, from 0."""
    return workers[number::machines]


def person(folder: Path, plan: Plan, name: str) -> tuple[int, Path, tuple[str, ...]]:
    """The number of a person's machine, their checkout there, and how their program finds main."""
    number = plan.people.index(name) % plan.machines
    return number, folders(folder, plan)[number] / "people" / name, _main(plan)


def build(folder: Path, plan: Plan, port: int) -> list[Path]:
    """The codebase, each machine's configuration, and a checkout for each person. Blocks."""
    places = folders(folder, plan)
    commit_codebase(folder / "code", files())
    if plan.machines > 1:
        git(folder, "clone", "-q", "--bare", "code", _BARE)
        git(folder / "code", "remote", "add", _REMOTE, str(folder / _BARE))
    made = []
    for number, place in enumerate(places):
        if number:
            place.mkdir()
            git(place, "clone", "-q", str(folder / _BARE), "code")
            for key in ("user.name", "user.email", "core.logAllRefUpdates"):
                git(place / "code", "config", key, git(folder / "code", "config", key))
        made.append(_configured(place, plan, number, 0 if number else port))
    return made


def _configured(place: Path, plan: Plan, number: int, port: int) -> Path:
    program = [sys.executable, "-P", "-m", "relay.app.demo.swarm.turn", "--pace", str(plan.pace_s)]
    people = of(plan.people, number, plan.machines)
    more: dict[str, Any] = {}
    if plan.machines > 1:
        more = {"storage": "postgres", "fleet": {"name": f"machine-{number + 1}"}}
    path = configure(
        place,
        [
            {
                "name": name,
                "kind": "command",
                "cmd": [*program, *_main(plan)],
                "env_pass": ["PYTHONPATH"],
                "timeout_s": 900,
            }
            for name in of(plan.agents, number, plan.machines)
        ],
        airspace=True,
        tick_s=2.0,
        port=port,
        workspace={
            "repo": "code",
            "checkouts": [{"name": name, "path": f"people/{name}"} for name in people],
        },
        # git's own merge: what conflicts there is not joined here.
        merge={"ladder": "git", "test": shlex.join(TESTS)},
        landing={"required": True},
        **more,
    )
    for name in people:
        git(place / "code", "worktree", "add", "-q", "-b", name, str(place / "people" / name), "main")
    return path


def _main(plan: Plan) -> tuple[str, ...]:
    """How a worker's program finds main: where main is a remote's, by that."""
    return ("--remote", _REMOTE) if plan.machines > 1 else ()


async def all_follow(folder: Path, plan: Plan) -> None:
    """Wait until the main branch of each machine is the remote's. Raises DemoError."""
    if plan.machines == 1:
        return
    give_up = time.monotonic() + _FOLLOW_S
    while True:
        main = await asyncio.to_thread(git, folder / _BARE, "rev-parse", "main")
        mains = [
            await asyncio.to_thread(git, place / "code", "rev-parse", "main")
            for place in folders(folder, plan)
        ]
        if all(each == main for each in mains):
            return
        if time.monotonic() > give_up:
            raise DemoError(f"not all machines have what has landed: {main[:9]} at the remote, here {mains}")
        await asyncio.sleep(LOOK_S)
