"""Messages that people keep on top of the room, and what agents are given of them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from relay.room.dispatch import queue
from relay.room.dispatch.roster import Policy
from relay.room.dispatch.turns import Outcome
from relay.room.entries import pins
from relay.store.ports import Store
from tests.engines import BOTH, Clock
from tests.room.office import Office
from tests.room.parts import end, plan_of

pytestmark = BOTH
ALPHA = Policy("ALPHA")


@pytest.fixture
async def office(store: Store, clock: Clock) -> AsyncIterator[Office]:
    async with Office(store, clock).at_work() as office:
        yield office


async def test_a_pin_stands_on_top_and_agents_are_given_it_once(office: Office, clock: Clock) -> None:
    async def turn(resume: str | None) -> str:
        plan = await plan_of(office.store, ALPHA, clock())
        session = {"name": "ALPHA", "session": plan.session, "resume": resume, "resume_at": ""}
        await office.store.write(lambda tx: tx.execute(queue.Q.set_session, **session))
        assert await end(office.store, plan, Outcome("Done."), clock())
        return plan.context

    await office.post("@ALPHA prices are in cents", by="bob")
    await turn(None)
    assert (await office.ask("/pin m1")).body == "ann pinned m1."
    assert (await office.ask("/pins")).body == "- m1 **bob**: @ALPHA prices are in cents"
    (row,) = await office.store.read(pins.pinned)
    assert (row["number"], row["pinned_by"]) == (1, "ann")

    # It has read m1, and hears that it is kept; a conversation that goes on is not told again.
    await office.post("@ALPHA one")
    assert "[bob, pinned] @ALPHA prices are in cents" in await turn("conversation")
    await office.post("@ALPHA two")
    assert "pinned]" not in await turn(None)
    # A conversation that begins anew knows nothing of it.
    await office.post("@ALPHA three")
    assert "[bob, pinned] @ALPHA prices are in cents" in await turn("conversation")

    # What it says now, and no more than agents have room for.
    long = await office.post(f"@ALPHA {'x' * 5000}")
    assert "error" not in (await office.ask(f"/pin m{long.number}")).meta
    await office.ask("/edit m1 @ALPHA prices are in mills", by="bob")
    given = await office.store.read(lambda tx: pins.given(tx, after=0, known=[]))
    assert [len(pin.body) for pin in given] == [len("@ALPHA prices are in mills"), pins.MOST_OF_ONE + 2]
    assert [pin.body[:16] for pin in given] == ["@ALPHA prices ar", "@ALPHA xxxxxxxxx"]

    assert (await office.ask("/unpin m1")).body == "ann took m1 down."
    await office.ask(f"/delete m{long.number}")
    assert await office.store.read(pins.pinned) == []
    refusals = {
        "/unpin m1": "m1 is not pinned.",
        f"/pin m{long.number}": "was deleted",
        "/pin m999": "There is no message m999.",
        "/pin": "The number of the message is needed",
        "/pins all": "takes no arguments",
    }
    for asked, words in refusals.items():
        answer = await office.ask(asked)
        assert answer.meta["error"] and words in answer.body, asked
    for _ in range(pins.MOST):
        said = await office.post("/tasks")
        await office.ask(f"/pin m{said.number}")
    full = await office.ask("/pin m1")
    assert "there is room for no more" in full.body and len(await office.store.read(pins.pinned)) == pins.MOST
