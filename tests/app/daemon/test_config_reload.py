"""Changes of config.json in a room that runs: one after the other, and said once."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from relay.app.daemon.config_reload import Reload
from relay.config import loading
from relay.config.settings import LiveSettings, Settings
from relay.model import Refusal


class Running:
    """A room that keeps what it is told; taking over needs a moment, as in a real one."""

    def __init__(self, folder: Path, *names: str) -> None:
        self.path = folder / "config.json"
        self.tree: dict[str, Any] = {"agents": [{"name": name, "cmd": "x"} for name in names]}
        self.notices: list[str] = []
        self.taken: list[Settings] = []
        self.write()
        self.live = LiveSettings(loading.load(self.path))
        self.reload = Reload(self.live, self)

    def write(self, **more: Any) -> None:
        self.tree |= more
        self.path.write_text(json.dumps(self.tree))

    async def take_over(self, before: Settings) -> None:
        await asyncio.sleep(0.01)
        self.taken.append(self.live.current)

    async def notice(self, text: str) -> None:
        self.notices.append(text)

    def read(self) -> None:
        self.tree = json.loads(self.path.read_text())


async def test_of_changes_at_once_each_is_in_the_file_and_in_the_room(tmp_path: Path) -> None:
    running = Running(tmp_path, "A", "B", "C")
    told = await asyncio.gather(
        *(running.reload.set_agent(name, {"model": f"of {name}"}) for name in ("A", "B", "C"))
    )
    assert told == [{"success": True}] * 3
    wanted = ["of A", "of B", "of C"]
    assert [agent.model for agent in loading.load(running.path).agents] == wanted
    assert [agent.model for agent in running.live.current.agents] == wanted
    assert running.taken[-1] == running.live.current


@pytest.mark.parametrize(
    ("name", "changes", "code"),
    [("A", {"model": "m\x1b[2J"}, "bad_request"), ("NOBODY", {"model": "m"}, "not_found")],
)
async def test_a_change_that_cannot_be_is_refused_with_what_to_do(
    tmp_path: Path, name: str, changes: dict[str, Any], code: str
) -> None:
    running = Running(tmp_path, "A")
    before = running.path.read_bytes()
    with pytest.raises(Refusal) as refused:
        await running.reload.set_agent(name, changes)
    assert refused.value.code == code
    assert refused.value.fix
    assert running.path.read_bytes() == before
    assert running.taken == []


async def test_what_takes_a_restart_is_said_once_for_each_value(tmp_path: Path) -> None:
    running = Running(tmp_path, "A")

    async def change(model: str, **more: Any) -> int:
        """So many notices after a restart-needing change (maybe) and a live one."""
        running.write(**more)
        await running.reload.set_agent("A", {"model": model})
        running.read()
        return len(running.notices)

    assert await change("m1", ui={"port": 5001}) == 1
    assert "`ui.port`" in running.notices[0]
    assert await change("m2") == 1
    assert await change("m3", ui={"port": 5002}) == 2
    assert await change("m4", ui={"port": 5002}, stop={"drain_s": 3}) == 3
    assert "ui.port" not in running.notices[2]
    assert await change("m5", ui={}) == 3
    assert await change("m6", ui={"port": 5002}) == 4
    assert len(running.taken) == 6
