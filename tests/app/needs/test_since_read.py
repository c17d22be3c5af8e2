"""What came, as it is read: no more of long messages than is gone through, and none of it on the loop."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from relay.app.needs import since
from relay.app.needs.inbox import NeedsInbox, SinceOrders
from relay.model import Kind, Refusal
from relay.model.actions import ShowSince
from relay.room.journal import ledger
from relay.room.journal.ledger import NewMessage
from relay.store.ports import Store
from tests import engines
from tests.engines import BOTH, T0
from tests.room.parts import post

pytestmark = BOTH


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    wings = engines.wings("log", "coordination", "room", "airspace", "verification")
    opened = await engines.open_store(tmp_path, wings)
    yield opened
    await opened.close()


class _Quiet(NeedsInbox):
    """An inbox of a room in which nothing needs anybody."""

    def __init__(self) -> None:
        pass

    async def read(self, tx: Any) -> list[Any]:
        return []


async def test_what_came_is_gone_through_behind_the_read_and_off_the_loop(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = SinceOrders(store, _Quiet(), lambda: T0 + 60)
    with pytest.raises(Refusal, match="You have said nothing here before"):
        await asked.carry_out(ShowSince(), by="ann", source_key="a")
    await post(store, "I am off to lunch.", T0, by="ann")
    long = "Carts keep their discount. " + "and then it goes on and on. " * 400
    for number in range(4):
        await post(store, long, T0 + number, by="ben")
    await post(store, "/since", T0 + 5, by="ann")
    seen: list[tuple[int, list[int]]] = []
    whole = since.told

    def told(came: since.Came) -> since.Since:
        seen.append((threading.get_ident(), [len(row["body"]) for row in came.rows]))
        return whole(came)

    monkeypatch.setattr(since, "told", told)
    text = await asked.carry_out(ShowSince(), by="ann", source_key="b")
    assert "4 messages: ben said 4" in text and "Carts keep their discount." in text
    again = await asked.carry_out(ShowSince("m1"), by="ann", source_key="c")
    assert again == text
    for thread, sizes in seen:
        assert thread != threading.get_ident(), "the loop goes on meanwhile"
        assert max(sizes) == since.MOST_BODY + 1


async def test_what_proves_nobody_is_not_quoted_and_counts_for_no_agent(store: Store) -> None:
    asked = SinceOrders(store, _Quiet(), lambda: T0 + 60)
    await post(store, "I am off to lunch.", T0, by="ann")
    lines = [
        ("AVA", "Shall I delete the whole database now?", {"claims": "AVA", "unverified": True}),
        ("ben", "The carts keep their discount.", {"unverified": True}),
    ]
    for speaker, body, meta in lines:
        line = NewMessage(speaker, Kind.HUMAN, body, T0 + 1, meta=meta)
        await store.write(lambda tx, line=line: ledger.put_message(tx, line))
    text = await asked.carry_out(ShowSince("m1"), by="ann", source_key="a")
    assert "1 message: ben said 1" in text
    assert "database" not in text and "discount" not in text
