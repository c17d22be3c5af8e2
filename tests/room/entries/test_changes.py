"""People change and delete their own messages: what the room, its search, its agents and its file say then."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from relay.model import Message
from relay.room.dispatch.roster import Policy
from relay.room.dispatch.steering import is_urgent, told, unheard
from relay.room.dispatch.turns import Idle, Outcome
from relay.room.entries import changes
from relay.room.journal import ledger, pages
from relay.room.journal.ledger import Q
from relay.room.parsing import line_format
from relay.store.ports import Store
from tests.engines import BOTH, Clock
from tests.room.office import Office
from tests.room.parts import all_jobs, claim, end, plan_of

pytestmark = BOTH
ALPHA, BETA = Policy("ALPHA"), Policy("BETA")


@pytest.fixture
async def office(store: Store, clock: Clock) -> AsyncIterator[Office]:
    async with Office(store, clock).at_work() as office:
        yield office


async def entry(office: Office, number: int) -> Message:
    row = await office.store.read(lambda tx: tx.one(Q.message_by_number, number=number))
    assert row is not None
    return pages.message_of_row(row)


async def written(office: Office, number: int) -> str:
    """What the transcript file has of an entry."""
    row = await office.store.read(lambda tx: tx.one(Q.message_by_number, number=number))
    assert row is not None
    line = line_format.decode(ledger.line_of(row))
    assert isinstance(line, line_format.Entry)
    assert not {"edited", "deleted", "short"} & set(line.meta)
    return line.body


async def found(office: Office, text: str) -> list[int]:
    hits = await office.store.read(lambda tx: pages.search(tx, text, limit=50))
    return [message.number for message, _ in hits]


async def test_an_edited_message_says_the_new_text_everywhere_but_in_the_file(
    office: Office, clock: Clock
) -> None:
    asked = await office.post("@ALPHA paint the walrus")
    answer = await office.ask(f"/edit m{asked.number} @ALPHA paint the\nnarwhal")
    assert answer.body == "ann edited m1. ALPHA gets the new text."
    assert answer.meta["edits"] == {"message": asked.id, "number": 1}
    again = await office.ask("/edit m1 @ALPHA paint the giraffe")
    assert "error" not in again.meta

    now = await entry(office, 1)
    assert now.body == "@ALPHA paint the giraffe" and now.to == ("ALPHA",)
    assert now.meta["edited"]["by_entries"] == [2, 4]
    assert [await found(office, word) for word in ("walrus", "narwhal", "giraffe")] == [[], [], [1]]
    # The file has all three, each in the entry that brought it.
    assert await written(office, 1) == "@ALPHA paint the walrus"
    assert await written(office, 2) == "/edit m1 @ALPHA paint the\nnarwhal"
    assert (await entry(office, 2)).body == "/edit m1"

    async def said() -> list[str]:
        row = await office.store.read(lambda tx: tx.one(Q.message_by_number, number=1))
        assert row is not None
        return [each["body"] for each in await office.store.read(lambda tx: changes.versions(tx, row))]

    assert await said() == [
        "@ALPHA paint the walrus",
        "@ALPHA paint the\nnarwhal",
        "@ALPHA paint the giraffe",
    ]

    # The job that waited has the new text. Nobody is told of a change of what it has not read.
    plan = await plan_of(office.store, ALPHA, clock())
    assert (plan.prompt, plan.context) == ("[ann] @ALPHA paint the giraffe", "")
    other = await office.post("@BETA look")
    context = (await plan_of(office.store, BETA, clock())).context
    assert context == "[ann] @ALPHA paint the giraffe" and other.number == 6


async def test_who_works_on_the_old_text_is_told_and_who_read_it_reads_the_new_one(
    office: Office, clock: Clock
) -> None:
    await office.post("@ALPHA @BETA count to ten")
    working, done = (
        await plan_of(office.store, ALPHA, clock()),
        await plan_of(office.store, BETA, clock()),
    )
    assert await end(office.store, done, Outcome("Ten."), clock())
    answer = await office.ask("/edit m1 @ALPHA @BETA count to eleven")
    assert "ALPHA works on it, and is told." in answer.body
    assert "BETA answered what it said before, and reads the new text with the next turn." in answer.body

    # In the middle of the turn, with the new text.
    waiting = await office.store.read(lambda tx: unheard(tx, "ALPHA", working.shown_number))
    (heard,) = [one for one in waiting or () if is_urgent(one, "ALPHA")]
    assert heard.id == answer.id
    new = "ann changed the message m1, which you were shown. It says now:\n  @ALPHA @BETA count to eleven"
    assert new in told([heard])
    # It does not hear: then it has a turn of its own.
    assert await end(office.store, working, Outcome("Ten."), clock())
    plan = await plan_of(office.store, ALPHA, clock())
    assert [job.message_id for job in plan.jobs] == [answer.id]
    assert new.replace("\n  @", "\n@") in plan.prompt
    # BETA did its work: it gets no turn for it, and reads it with its next one, once.
    assert isinstance(await claim(office.store, BETA, clock()), Idle)
    await office.post("@BETA go on")
    plan = await plan_of(office.store, BETA, clock())
    assert plan.context.count("count to eleven") == 1 and new in plan.context
    assert "/edit" not in plan.context


async def test_a_deleted_message_is_gone_and_nobody_is_asked(office: Office, clock: Clock) -> None:
    await office.post("@ALPHA the password is swordfish")
    working = await plan_of(office.store, ALPHA, clock())
    secret = await office.post("@ALPHA @BETA it is swordfish")
    answer = await office.ask(f"/delete m{secret.number}")
    assert answer.body == "ann deleted m2. The transcript file keeps it. ALPHA and BETA will not be asked."
    assert {job.agent: job.state for job in await all_jobs(office.store) if job.message_id == secret.id} == {
        "ALPHA": "skipped",
        "BETA": "skipped",
    }
    first = await office.ask("/delete m1")
    assert "ALPHA works on it, and is told. `/cancel @ALPHA` ends that." in first.body
    waiting = await office.store.read(lambda tx: unheard(tx, "ALPHA", working.shown_number))
    # Of the second one too: the turn may have been told it a moment before.
    heard = [told([one]) for one in waiting or () if is_urgent(one, "ALPHA")]
    assert len(heard) == 2 and "ann deleted the message m2, which you were shown" in heard[0]
    assert "ann deleted the message m1, which you were shown: do not go by it." in heard[1]

    assert (await entry(office, 2)).body == "" and "deleted" in (await entry(office, 2)).meta
    assert await found(office, "swordfish") == []
    assert await written(office, 2) == "@ALPHA @BETA it is swordfish"
    await office.post("@BETA look")
    assert "swordfish" not in (await plan_of(office.store, BETA, clock())).context
    again = await office.ask("/delete m2")
    assert again.meta["error"] and "m2 was deleted." in again.body
    for command in ("/retry m2", "/route m2 @BETA"):
        refused = await office.ask(command)
        assert refused.meta["error"] and "m2 was deleted." in refused.body


async def test_only_ones_own_words_are_changed(office: Office, clock: Clock) -> None:
    await office.post("@ALPHA hello", by="bob")
    plan = await plan_of(office.store, ALPHA, clock())
    assert await end(office.store, plan, Outcome("Hello."), clock())
    line = await office.post("from a shell", verified=False)
    command = await office.post("/tasks")
    await office.answer_to(command)
    own = await office.post("@ALPHA mine")
    refusals = {
        "/edit m1 bye": "m1 is bob's; you are ann, and change your own messages only.",
        "/delete m1": "m1 is bob's",
        "/edit m2 bye": "m2 is ALPHA's, and only people change what they wrote.",
        f"/edit m{line.number} x": "was written straight into the transcript file",
        f"/edit m{command.number} /who": "is a command that was carried out",
        f"/edit m{own.number} /stop @ALPHA": "does not become a command by an edit",
        f"/edit m{own.number} @ALPHA mine": "says that already",
        f"/edit m{own.number}": "The new text is missing.",
        "/edit m999 x": "There is no message m999.",
        "/delete m1 m2": "One number at a time.",
    }
    for asked, words in refusals.items():
        answer = await office.ask(asked)
        assert answer.meta["error"] and words in answer.body, asked
    # A line of the file proves nobody.
    forged = await office.ask(f"/edit m{own.number} forged", verified=False)
    assert forged.meta["error"] and (await entry(office, own.number)).body == "@ALPHA mine"
    other = await office.ask(f"/edit m{own.number} @BETA mine")
    assert f"`/route m{own.number} @ALPHA @BETA` asks others too." in other.body
