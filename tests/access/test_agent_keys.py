"""Keys that the room makes for its own agents, and takes back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from relay.access.agent_keys import AgentKeys
from relay.access.keys import Keys
from relay.app.runtime.instance import InstanceRecord, died_here
from tests import engines
from tests.engines import SCHEMAS, all_events

AGENTS = ("CLAUDE", "CODEX")


async def test_agents_get_keys_that_end_with_their_daemon(tmp_path: Path) -> None:
    store = await engines.open_store(tmp_path, SCHEMAS)
    keys = Keys(store, lambda: AGENTS)
    killed = AgentKeys(store, keys, "old")
    await killed.provide({"CLAUDE": "claude"})
    left = killed.of("CLAUDE")
    made = AgentKeys(store, keys, "new")
    await made.clear(lambda holder: holder == "old")
    await made.provide({"CLAUDE": "claude", "CODEX": "codex"})
    assert await Keys(store).find(left) is None
    first = made.of("CLAUDE")
    found = await keys.find(first)
    assert found is not None and (found.identity, found.agent_type) == ("CLAUDE", "claude")
    await made.provide({"CLAUDE": "claude"})
    assert made.of("CLAUDE") == first and made.of("CODEX") == ""
    await made.close()
    assert await Keys(store).find(first) is None and made.of("CLAUDE") == ""
    names = [
        event.outputs["key"]["identity"] for event in await all_events(store, "key.created", "key.revoked")
    ]
    assert names == ["CLAUDE", "CLAUDE", "CLAUDE", "CODEX", "CODEX", "CLAUDE"]
    await store.close()


async def test_no_key_of_a_relay_that_may_live_is_taken_back(tmp_path: Path) -> None:
    store = await engines.open_store(tmp_path, SCHEMAS)
    here = InstanceRecord.own()
    boot, _, ticks = here.mark.partition("/")
    holders = {
        "alive": here,
        "elsewhere": replace(here, host="laptop", pid=1),
        # Another machine of the same name, or this one before it was started anew: only its name's next start tells.
        "namesake": replace(here, pid=1, mark=f"{boot[::-1]}/{ticks}"),
        "killed": replace(here, mark=f"{boot}/0"),
    }
    made = {}
    for name, record in holders.items():
        of = AgentKeys(store, Keys(store), record.holder, name)
        await of.provide({"CLAUDE": "claude"})
        made[name] = of.of("CLAUDE")
    before = AgentKeys(store, Keys(store), holders["elsewhere"].holder)  # as an earlier relay signed
    await before.provide({"CODEX": "codex"})
    made["before"] = before.of("CODEX")

    async def left() -> set[str]:
        keys = Keys(store)
        return {name for name, key in made.items() if await keys.find(key) is not None}

    await AgentKeys(store, Keys(store), here.holder, "new").clear(died_here)
    assert await left() == {"alive", "elsewhere", "namesake", "before"}
    await AgentKeys(store, Keys(store), here.holder, "namesake").clear(died_here)
    assert await left() == {"alive", "elsewhere", "before"}, "the next start of its name"
    await store.close()
