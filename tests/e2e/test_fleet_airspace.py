"""Agents on several machines are told of each other: one airspace, whoever leads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.e2e.conftest import Open
from tests.e2e.test_fleet import fleet_of, leads
from tests.git.repository import commit, git
from tests.outside import Json, Outside, agent, eventually

CART = "def total(items):\n    return sum(items)\n\n\ndef count(items):\n    return len(items)\n"
IGNORED = "*.yaml\n*.sh\n.venv\nconfig.json\nspeaker.lock\nrelay\nscripts\ndaemon.out\n"


async def clones(open_room: Open, bare: Path, *names: str, remote: bool = True, **more: Any) -> list[Outside]:
    """Members with an agent each and a clone of one codebase, none started. `remote`: they know where from."""
    rooms = await fleet_of(open_room, *([agent(name)] for name in names))
    for room in rooms:
        settings = {**json.loads(room.path.read_text()), "airspace": {"tick_s": 0.2}, **more}
        room.path.write_text(json.dumps(settings))
    git(bare.parent, "init", "-q", "--bare", "-b", "main", str(bare))
    for number, room in enumerate(rooms):
        git(room.folder, "init", "-q", "-b", "main")
        git(room.folder, "remote", "add", "origin", str(bare))
        if number == 0:
            (room.folder / ".gitignore").write_text(IGNORED)
            (room.folder / "cart.py").write_text(CART)
            commit(room.folder)
            git(room.folder, "push", "-q", "origin", "main")
        git(room.folder, "fetch", "-q", "origin")
        git(room.folder, "reset", "-q", "--hard", "origin/main")
        if not remote:
            git(room.folder, "remote", "remove", "origin")
    return rooms


def tree(room: Outside, name: str) -> Path:
    return room.folder / ".relay" / "worktrees" / name.lower()


async def ready(room: Outside) -> None:
    async def made() -> bool:
        return len((await room.get("/api/worktrees"))["worktrees"]) == 1

    await eventually(made, "the worktree")


def change(room: Outside, name: str, text: str) -> None:
    """The agent changes the body of `total`."""
    (tree(room, name) / "cart.py").write_text(CART.replace("sum(items)", text))


async def advisories(room: Outside) -> list[Json]:
    return [one for one in (await room.get("/api/airspace"))["advisories"] if one["level"] != "clear"]


async def told(room: Outside) -> list[str]:
    entries = (await room.get("/api/transcript?limit=200"))["entries"]
    return [
        entry["body"] for entry in entries if entry["kind"] == "advisory" and "notice" not in entry["meta"]
    ]


async def test_two_agents_on_two_machines_are_told_once_and_git_has_tried_it(
    open_room: Open, tmp_path: Path
) -> None:
    one, two = await clones(open_room, tmp_path / "bare.git", "ALFA", "BRAVO")
    await one.start()
    await two.start()
    assert await leads(one, "M1")
    await ready(one)
    await ready(two)
    change(one, "ALFA", "sum(items) * 2")
    change(two, "BRAVO", "sum(items) * 3")

    async def tried(room: Outside) -> Json | None:
        return next((one for one in await advisories(room) if one["conflict"]), None)

    for room in (one, two):
        advisory: Any = await eventually(lambda room=room: tried(room), "the conflict that git found")
        assert sorted(advisory["agents"]) == ["ALFA", "BRAVO"] and advisory["level"] == "resolution"
        assert "cart.py" in advisory["line"]
    refs = git(tmp_path / "bare.git", "for-each-ref", "--format=%(refname)").split()
    assert refs == ["refs/heads/main", "refs/relay/fleet/M1/ALFA", "refs/relay/fleet/M2/BRAVO"]
    for room in (one, two):
        said = [body for body in await told(room) if "HOLD" in body]
        assert len(said) == 1 and "ALFA" in said[0] and "BRAVO" in said[0], said
        links = (await room.get("/api/airspace"))["links"]
        assert [(link["a"], link["b"], link["level"]) for link in links] == [("ALFA", "BRAVO", "resolution")]
        assert links[0]["channels"]["merge"] > 0.5
