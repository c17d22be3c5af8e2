"""Threads: what they hold, and what an agent that is asked in one is given of it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from relay.model import Message, Refusal
from relay.room.dispatch import queue
from relay.room.dispatch.roster import Policy
from relay.room.dispatch.turns import Outcome, Plan
from relay.room.journal import pages
from relay.room.journal.ledger import Q
from relay.room.parsing import line_format
from relay.store.ports import Store
from tests.engines import BOTH, Clock
from tests.room.office import Office
from tests.room.parts import all_messages, end, plan_of

pytestmark = BOTH
ALPHA, BETA = Policy("ALPHA"), Policy("BETA")


@pytest.fixture
async def office(store: Store, clock: Clock) -> AsyncIterator[Office]:
    async with Office(store, clock).at_work() as office:
        yield office


async def answers(office: Office, policy: Policy, clock: Clock, text: str) -> tuple[Plan, Message]:
    plan = await plan_of(office.store, policy, clock())
    session = {"name": policy.agent, "session": plan.session, "resume": "conversation", "resume_at": ""}
    await office.store.write(lambda tx: tx.execute(queue.Q.set_session, **session))
    assert await end(office.store, plan, Outcome(text), clock())
    return plan, (await all_messages(office.store))[-1]


async def test_an_agent_asked_in_a_thread_is_given_the_thread(office: Office, clock: Clock) -> None:
    root = await office.post("@ALPHA which database?")
    _, answer = await answers(office, ALPHA, clock, "A table will do.")
    for number in range(30):
        await office.post(f"@ALPHA and another thing, {number}: {'x' * 300}", by="bob")
        await answers(office, ALPHA, clock, "Noted.")
    reply = await office.post("@BETA is he right?", in_reply_to=answer.id)
    assert (answer.thread, reply.thread, root.thread) == (root.id, root.id, None)

    # BETA has read nothing yet: the thread comes first, however much was said since.
    plan, second = await answers(office, BETA, clock, "He is.")
    assert plan.prompt == "[ann] @BETA is he right?"
    assert plan.context.startswith(
        "[ann, in this thread] @ALPHA which database?\n[ALPHA, in this thread] A table will do.\n"
    )
    assert len(plan.context) < BETA.context_len + 500 and second.thread == root.id

    # Asked in it again: what it said itself it knows.
    await office.post("@BETA sure?", in_reply_to=second.id)
    plan, _ = await answers(office, BETA, clock, "Yes.")
    assert plan.context.splitlines() == [
        "[ann, in this thread] @ALPHA which database?",
        "[ALPHA, in this thread] A table will do.",
        "[ann, in this thread] @BETA is he right?",
    ]
    # In the room it is given nothing of it.
    await office.post("@BETA thanks")
    plan, _ = await answers(office, BETA, clock, "You are welcome.")
    assert plan.context == ""
    # A long thread: what began it, and the newest.
    tight = replace(BETA, context_len=100)
    await office.post("@BETA once more", in_reply_to=second.id)
    context = (await plan_of(office.store, tight, clock())).context
    assert context == "[ann, in this thread] @ALPHA which database?\n[ann, in this thread] @BETA sure?"


async def test_a_reply_that_mentions_nobody_goes_to_whom_it_answers(office: Office, clock: Clock) -> None:
    root = await office.post("@ALPHA @BETA which database?")
    # To a person's entry: to those that it was given to.
    assert (await office.post("The small one.", by="bob", in_reply_to=root.id)).to == ("ALPHA", "BETA")
    _, answer = await answers(office, ALPHA, clock, "A table will do.")
    _, second = await answers(office, BETA, clock, "I do not think so.")
    assert (await office.post("Sure?", in_reply_to=root.id)).to == ("ALPHA", "BETA")
    # To an agent's: to that agent. The same by the command, which is no entry of its own.
    assert (await office.post("Why?", in_reply_to=answer.id)).to == ("ALPHA",)
    typed = await office.post(f"/reply m{second.number} Why not?")
    assert (typed.body, typed.in_reply_to, typed.thread, typed.to) == (
        "Why not?",
        second.id,
        root.id,
        ("BETA",),
    )
    with pytest.raises(Refusal, match="There is no message m999 to reply to"):
        await office.post("/reply m999 Why not?")
    # A mention counts alone, also one that is misspelt; what is said to a person calls nobody.
    assert (await office.post("@ALPHA sure?", in_reply_to=second.id)).to == ("ALPHA",)
    slip = await office.post("@ALPAH sure?", in_reply_to=second.id)
    person = await office.post("@bob what do you think?", in_reply_to=second.id)
    # So it is without a reply, and both say for whom they are. Who names only themselves asks the room.
    plain = await office.post("@Bob look at the branch before Friday?")
    own = await office.post("@bob is my name", by="bob")
    stranger = await office.post("@nobody-here look")
    assert [list(one.meta["told"]) for one in (person, plain)] == [["bob"], ["bob"]]
    # People among themselves are routed as ever.
    alone = await office.post("anybody?")
    aside = await office.post("I think so.", by="bob", in_reply_to=alone.id)
    for message in (slip, person, plain, own, stranger, alone, aside):
        assert message.to == ()
    waiting = {row["message_id"] for row in await office.store.read(lambda tx: tx.all(Q.routing))}
    assert not {person.id, plain.id} & waiting and {aside.id, own.id, stranger.id} <= waiting


async def test_a_thread_is_what_began_it_and_all_that_answers(office: Office, clock: Clock) -> None:
    root = await office.post("@ALPHA begin")
    _, answer = await answers(office, ALPHA, clock, "Begun.")
    reply = await office.post("@ALPHA go on", in_reply_to=answer.id)
    _, last = await answers(office, ALPHA, clock, "Gone on.")
    other = await office.post("something else")

    async def thread(place: str, limit: int = 100) -> tuple[list[str], bool]:
        page = await office.store.read(lambda tx: pages.thread(tx, place, limit=limit))
        assert page is not None
        return [entry.id for entry in page.entries], page.more

    whole = [root.id, answer.id, reply.id, last.id]
    assert await thread(last.id) == await thread("m1") == (whole, False)
    assert await thread("m1", limit=2) == ([root.id, last.id], True)
    assert await thread(other.id) == ([other.id], False)

    async def newest() -> pages.Page:
        return await office.store.read(_newest)

    async def _newest(tx: pages.Tx) -> pages.Page:
        return await pages.with_replies(tx, await pages.page(tx, after=None, before=None, limit=100))

    assert (await newest()).replies == {root.id: 3}
    shown = await office.ask(f"/thread m{reply.number}")
    assert shown.body.splitlines() == [
        "- m1 **ann**: @ALPHA begin",
        "- m2 **ALPHA**: Begun.",
        "- m3 **ann**: @ALPHA go on",
        "- m4 **ALPHA**: Gone on.",
    ]
    assert (await office.ask(f"/thread m{other.number}")).body == f"Nobody has answered m{other.number}."
    # The file says whom an entry answers; the thread follows from that.
    assert "thread" not in json.loads(line_format.encode(last).split(b"] ", 1)[1])
    # One that is deleted is no reply any more.
    assert "ann deleted m3" in (await office.ask(f"/delete m{reply.number}")).body
    assert (await newest()).replies == {root.id: 2}
