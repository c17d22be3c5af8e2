"""A helper that an agent's program starts is a lane of its own, which is folded also when the daemon is killed."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from tests.e2e.conftest import Open
from tests.outside import REPO, Json, Outside, eventually

#: Of what Claude Code printed the lines until its helper has begun and used a tool.
BEGUN = 24


def claude(folder: Path, lines: int) -> Json:
    """An agent whose program prints what the real one did, and then hangs."""
    bin_ = folder / "bin"
    bin_.mkdir()
    (bin_ / "claude").symlink_to(REPO / "tests" / "fakes" / "agent.py")
    env = {
        "PATH": f"{bin_}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "FAKE_ACT": "replay",
        "FAKE_DIR": str(folder),
        "FAKE_REPLAY": str(REPO / "tests" / "agents" / "recorded" / "claude-helper.jsonl"),
        "FAKE_LINES": str(lines),
    }
    return {"name": "ALPHA", "kind": "command", "preset": "claude", "cwd": ".", "env": env}


async def said_of_the_helper(one: Outside) -> list[Json]:
    ran = await one.relay("timeline", "log", "--json", "-n", "200")
    events: list[Json] = json.loads(ran.out)["events"]
    return [event for event in events if event["lane"].endswith("ALPHA.1")]


async def test_a_killed_daemon_s_helpers_are_folded_at_the_next_start(
    open_room: Open, tmp_path: Path
) -> None:
    one = await open_room(claude(tmp_path, BEGUN), queue={"max_attempts": 1})
    await one.post("@ALPHA hello")

    async def begun() -> bool:
        return (tmp_path / "hangs").exists() and bool(await said_of_the_helper(one))

    await eventually(begun, "the helper")
    one.kill()
    await one.start()

    async def folded() -> list[Json]:
        return [event for event in await said_of_the_helper(one) if event["type"] == "helper.ended"]

    found = await eventually(folded, "the end of the helper's lane")
    assert len(found) == 1
