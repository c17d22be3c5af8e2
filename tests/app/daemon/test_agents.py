"""Agents from the configuration: how they are probed, and what they may."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from relay.app.daemon.agents import Agents
from relay.config import loading
from relay.config.settings import Settings
from relay.model import Availability
from relay.room.dispatch.roster import Roster

PATIENCE_S = 30.0


def settings(folder: Path, *agents: dict[str, Any]) -> Settings:
    path = folder / "config.json"
    path.write_text(json.dumps({"agents": list(agents)}))
    (folder / "bot.yaml").write_text("- say: hello\n")
    return loading.load(path)


def bot(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "kind": "scripted", "script": "bot.yaml", **more}


class Slow:
    """Stands before an agent's own probe, which it lets through when told."""

    def __init__(self, seats: Agents, name: str, found: Availability) -> None:
        self.asked, self.go = asyncio.Event(), asyncio.Event()
        self._found = found
        agent: Any = seats.roster.members[name].agent
        agent.probe = self._probe

    async def _probe(self) -> Availability:
        self.asked.set()
        await self.go.wait()
        return self._found


async def test_who_answers_is_known_while_another_hangs(tmp_path: Path) -> None:
    seats = Agents(settings(tmp_path, bot("HANGS"), bot("QUICK")), Roster())
    slow = Slow(seats, "HANGS", Availability(False, "gave no answer"))
    known = asyncio.Event()

    async def changed() -> None:
        known.set()

    probing = asyncio.create_task(seats.probe(changed))
    async with asyncio.timeout(PATIENCE_S):
        await known.wait()
    assert "1 rule of" in seats.roster.members["QUICK"].detail
    assert seats.roster.members["HANGS"].installed  # until it is known better
    slow.go.set()
    assert await probing
    assert not seats.roster.members["HANGS"].installed
    assert not await seats.probe()


async def test_an_old_answer_says_nothing_of_an_agent_that_was_built_anew(tmp_path: Path) -> None:
    seats = Agents(settings(tmp_path, bot("BOT")), Roster())
    slow = Slow(seats, "BOT", Availability(False, "of the old one"))
    probing = asyncio.create_task(seats.probe())
    async with asyncio.timeout(PATIENCE_S):
        await slow.asked.wait()
    seats.apply(settings(tmp_path, bot("BOT", timeout_s=7)))
    await seats.probe()
    slow.go.set()
    await probing
    assert seats.roster.members["BOT"].installed
    assert "1 rule of" in seats.roster.members["BOT"].detail


@pytest.mark.parametrize(
    ("permissions", "may"), [("auto", False), ("read-only", False), ("edit", True), ("skip-all-checks", True)]
)
def test_a_script_may_edit_when_its_permissions_say_so(tmp_path: Path, permissions: str, may: bool) -> None:
    seats = Agents(settings(tmp_path, bot("BOT", permissions=permissions)), Roster())
    assert seats.roster.members["BOT"].may_edit is may
