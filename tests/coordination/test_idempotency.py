from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from relay.coordination.idempotency import KEPT_S, once
from relay.model import Caller, Fault, Refusal
from relay.store.ports import Store, Tx
from tests import engines
from tests.engines import BOTH, Clock

pytestmark = BOTH

ANN, BOB = Caller("ann", "s1"), Caller("bob", "s1")


class Counter:
    """An operation that does something each time it runs."""

    def __init__(self, store: Store) -> None:
        self.store, self.runs = store, 0

    async def ask(self, caller: Caller, key: str | None, request: dict[str, Any], *, op: str = "add") -> Any:
        async def work(tx: Tx) -> dict[str, Any]:
            return await once(tx, caller, op, key, request, self.add)

        return await self.store.write(work)

    async def add(self) -> dict[str, Any]:
        self.runs += 1
        return {"success": self.runs != 5, "run": self.runs}


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def counter(tmp_path: Path, clock: Clock) -> AsyncIterator[Counter]:
    store = await engines.open_store(tmp_path, engines.wings("log", "coordination"), clock=clock)
    yield Counter(store)
    await store.close()


async def test_a_key_is_answered_once(counter: Counter, clock: Clock) -> None:
    first = await counter.ask(ANN, "k", {"a": 1, "b": [1, "ü"]})
    again = await counter.ask(Caller("ann", "another"), "k", {"b": [1, "ü"], "a": 1})
    assert (first, again) == ({"success": True, "run": 1}, {"success": True, "run": 1, "repeated": True})
    with pytest.raises(Refusal) as refused:
        await counter.ask(ANN, "k", {"a": 2})
    assert (refused.value.fault, refused.value.code) == (Fault.REFUSED, "idempotency_key_reused")
    assert counter.runs == 1
    # Another agent's, another operation's, and no key at all are other requests.
    assert (await counter.ask(BOB, "k", {"a": 2}))["run"] == 2
    assert (await counter.ask(ANN, "k", {"a": 2}, op="take"))["run"] == 3
    assert (await counter.ask(ANN, None, {"a": 1}))["run"] == 4
    # What was not done is not kept, so it can be tried again.
    assert await counter.ask(ANN, "busy", {}) == {"success": False, "run": 5}
    assert (await counter.ask(ANN, "busy", {}))["run"] == 6
    clock.now += KEPT_S + 1
    assert (await counter.ask(ANN, "k", {"a": 2}))["run"] == 7


@pytest.mark.parametrize("key", ["", " ", "a b", "ü", "x" * 201, "a\n"])
async def test_keys_that_are_none(counter: Counter, key: str) -> None:
    with pytest.raises(Refusal) as refused:
        await counter.ask(ANN, key, {})
    assert refused.value.fault is Fault.MALFORMED
    assert counter.runs == 0
