"""What agents were asked for, as the airspace's words are told."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from relay.app.wiring.request_texts import asked
from relay.model import Kind
from relay.room.journal import ledger
from relay.store.ports import Tx
from tests.coordination import desk as desks
from tests.coordination.desk import ANN, A, Desk
from tests.engines import BOTH, SCHEMAS

pytestmark = BOTH


@pytest.fixture
async def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Desk]:
    monkeypatch.setattr(desks, "SCHEMAS", SCHEMAS)
    made = await desks.at(tmp_path)
    yield made
    await made.store.close()


async def _said(desk: Desk, body: str, kind: Kind, agent: str, state: str, number: int) -> None:
    async def work(tx: Tx) -> None:
        new = ledger.NewMessage("ann" if kind is Kind.HUMAN else "RELAY", kind, body, desk.clock())
        message, event = await ledger.put_message(tx, new)
        job = {"id": number, "message_id": message.id, "agent": agent, "cause_event": event.id}
        await tx.execute(ledger.Q.put_job, **job, created_at=desk.clock(), not_before=0.0)
        if state != "pending":
            await tx.execute(
                ledger.Q.claim, agent=agent, holder="t", lease_until=9e12, now=9e9, far=9e12, most=1
            )

    await desk.store.write(work)


async def test_peoples_messages_and_claimed_tasks_are_what_an_agent_was_asked(desk: Desk) -> None:
    await _said(desk, "The cart's total is wrong", Kind.HUMAN, "CLAUDE", "active", 1)
    await _said(desk, "They come close in src/cart.py", Kind.ADVISORY, "CODEX", "active", 2)
    await _said(desk, "Write the docs", Kind.HUMAN, "GEMINI", "pending", 3)
    await desk.submit("Round the total", by=ANN)
    await desk.work.get(A)
    found = await asked(desk.store, ["CLAUDE", "CODEX", "GEMINI"])
    # No word of the room's own, which says the same to both, and none of what no turn has begun on.
    assert found == {"CLAUDE": ["The cart's total is wrong", "fix\nRound the total"]}
    assert await asked(desk.store, ["GEMINI"]) == {}
