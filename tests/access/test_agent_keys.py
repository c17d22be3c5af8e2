"""Keys that the room makes for its own agents, and takes back."""

from __future__ import annotations

from pathlib import Path

from relay.access.agent_keys import AgentKeys
from relay.access.keys import Keys
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
