"""Turns of real agents that are cut off for an advisory, with all their processes, and begin again with it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from relay.agents.factory import AgentSpec, Permissions, build_agent
from relay.model import Agent
from relay.room.dispatch.roster import Member
from relay.store.ports import Store
from tests.room.floor import Floor
from tests.room.parts import all_jobs, until

ADVICE = "RESOLUTION ADVISORY: STEER clear of src/a.py"
#: Works for ever, with a process of its own, unless it is told to steer.
COMMAND = """
said=$(cat)
case "$said" in
  *"STEER clear"*) echo "I steer. Cut off before: $(echo "$said" | grep -c 'was cut off')";;
  *) setsid sleep 600 & echo $! > child; sleep 600;;
esac
"""
SCRIPT = """
- match: STEER clear
  say: I steer.
- delay_s: 600
  say: too late
"""


@pytest.fixture
async def floor(store: Store) -> AsyncIterator[Floor]:
    one = Floor(store)
    yield one
    await one.close()


def sit(floor: Floor, agent: Agent, folder: Path) -> None:
    policy = replace(floor.policy, agent="ALPHA", max_attempts=1, threshold=1)
    floor.set_members(Member("ALPHA", agent.kind, policy, agent=agent, cwd=folder))


async def when(look: Callable[[], bool]) -> None:
    async def seen() -> bool:
        return look()

    await until(seen)


async def test_a_program_is_ended_with_all_it_started_and_begins_again(floor: Floor, tmp_path: Path) -> None:
    spec = AgentSpec("ALPHA", cmd=("/bin/sh", "-c", COMMAND), cwd=tmp_path)
    sit(floor, build_agent(spec, daemon_env={"PATH": os.environ["PATH"]}), tmp_path)
    await floor.ask("@ALPHA go")
    child = tmp_path / "child"
    await when(lambda: child.exists() and child.read_text().strip() != "")
    assert await floor.turns.interrupt("ALPHA", ADVICE)
    assert not Path(f"/proc/{child.read_text().strip()}").exists()
    (job,) = await floor.reach("done")
    assert job.attempts == 1 and await floor.answers() == ["I steer. Cut off before: 1"]


async def test_a_scripted_agent_takes_the_rule_of_the_advice(floor: Floor, tmp_path: Path) -> None:
    (tmp_path / "script.yaml").write_text(SCRIPT)
    spec = AgentSpec(
        "ALPHA", kind="scripted", script=tmp_path / "script.yaml", permissions=Permissions.READ_ONLY
    )
    sit(floor, build_agent(spec), tmp_path)
    await floor.ask("@ALPHA go")
    await when(lambda: "ALPHA" in floor.turns.by_agent)
    assert await floor.turns.interrupt("ALPHA", ADVICE)
    await floor.reach("done")
    assert await floor.answers() == ["I steer."]
    assert [str(job.state) for job in await all_jobs(floor.store)] == ["done"]
