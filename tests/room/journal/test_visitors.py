"""Agents that people run beside the room: who they are, and what a message for one of them does."""

from __future__ import annotations

from typing import Any

from relay.model import Kind, Message
from relay.room.journal import admitting
from relay.room.journal.admission_rules import Rules
from relay.room.journal.ledger import NewMessage, Q
from relay.room.journal.visitors import visitors
from relay.room.steward import answers
from relay.room.steward.view import StewardView, VisitorView
from relay.store.ports import Store
from tests.engines import BOTH, Clock
from tests.room.parts import all_messages

pytestmark = BOTH


def session(agent: str, heard: str = "2026-01-01T10:00:00Z", **more: Any) -> dict[str, Any]:
    told = {"agent_id": agent, "agent_type": "agent", "alive": True, "heartbeat_at": heard}
    return told | {"locks": 0, "claims": 0} | more


async def test_who_is_a_visitor(store: Store, clock: Clock) -> None:
    found = visitors(
        [
            session("CLAUDE"),
            session("clâude"),
            session("ann", agent_type="person"),
            session("RELAY", agent_type="room"),
            session("zoe", alive=False),
            session("dev-codex", locks=2, agent_type="codex"),
            session("dev-codex", "2026-01-01T10:05:00Z", claims=1, agent_type="codex-tui"),
        ],
        ["CLAUDE", "CODEX"],
    )
    assert [(one.name, one.kind, one.heard_at, one.holds) for one in found] == [
        ("dev-codex", "codex-tui", "2026-01-01T10:05:00Z", "2 locks, 1 task")
    ]
    view = StewardView(visitors=(VisitorView("dev-codex", "codex", 65.0, "2 locks"), VisitorView("zoe")))
    assert "- **dev-codex** (codex) heard 1 min ago, holds 2 locks" in answers.render_who(view)
    assert "own" not in answers.render_who(StewardView())

    async def admit(body: str) -> Message:
        new = NewMessage("ann", Kind.HUMAN, body, clock())
        rules = Rules(agents=("CLAUDE", "CODEX"))
        return await store.write(lambda tx: admitting.admit(tx, new, rules, visitors=["dev-codex", "zoe"]))

    async def jobs(message: Message) -> list[str]:
        rows = await store.read(lambda tx: tx.all(Q.jobs_of_message, message_id=message.id))
        return [row["agent"] for row in rows]

    alone = await admit("@Dev-Codex, what holds you up?")
    both = await admit("@CLAUDE and @dev-codex and @zoe: stop")
    said = {one.in_reply_to: one for one in await all_messages(store) if one.in_reply_to}
    assert (alone.to, await jobs(alone)) == (("dev-codex",), [])
    assert said[alone.id].body == (
        f"@dev-codex works on its own: the room does not start it. It reads m{alone.number} with its next look at "
        f"the room (`read_room`). No other agent was asked. `/route m{alone.number} @CLAUDE` asks one of the room's."
    )
    assert (both.to, await jobs(both)) == (("CLAUDE", "dev-codex", "zoe"), ["CLAUDE"])
    assert said[both.id].body.startswith("@dev-codex, @zoe work on their own")
    assert not await store.read(lambda tx: tx.all(Q.routing))
    # Whoever is not named opens a cycle as ever, and all of the room's are none of them.
    await admit("what says dev-codex?")
    assert len(await store.read(lambda tx: tx.all(Q.routing))) == 1
    assert await jobs(await admit("@all: lunch")) == ["CLAUDE", "CODEX"]
