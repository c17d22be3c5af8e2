"""What relay joins in a branch that is to land, where no program tests it: a person looks at it, by an approval."""

from __future__ import annotations

import asyncio

from relay.verification import approvals
from relay.verification.approvals import Answer, Approval
from relay.verification.landing import journal
from relay.verification.landing.entry import Entry, EntryState
from tests.app.verification.place import FILES, Open, Place, policy, python
from tests.engines import BOTH
from tests.git.repository import commit

pytestmark = BOTH

LANDED, PUT_OUT, WAITING = EntryState.LANDED, EntryState.PUT_OUT, EntryState.WAITING
APP = FILES["app.py"]
JOINED = "import ast\nimport csv\n"


async def joining(open_place: Open) -> Place:
    """Main and BEN have each added an import at one place: git conflicts, and relay joins."""
    place = await open_place()
    await place.work("BEN", {"app.py": f"import ast\n\n{APP}"})
    commit(place.folder, {"app.py": f"import csv\n\n{APP}"})
    await place.look()
    return place


async def asked_of(place: Place, entry: Entry) -> Approval:
    """What people are asked of the entry, once the queue names it."""
    async with asyncio.timeout(30):
        while True:
            await place.verifier.look()
            await place.queue.step()
            asked = await place.store.read(approvals.waiting)
            if asked and asked[-1].name in (await place.entry(entry.number)).note:
                return asked[-1]
            await asyncio.sleep(0.02)


async def decided(place: Place, asked: Approval, answer: Answer, reason: str = "") -> None:
    await place.store.write(lambda tx: approvals.decide(tx, asked.number, answer, by="eve", reason=reason))
    await place.verifier.finished(asked.verification)
    await place.queue.drain()


async def test_it_lands_when_a_person_has_agreed(open_place: Open) -> None:
    place = await joining(open_place)
    (ben,) = await place.land("BEN")
    asked = await asked_of(place, ben)
    assert (asked.policies, asked.files, asked.agent) == (("merge.joined",), ("app.py",), "BEN")
    note = (await place.entry(ben.number)).note
    assert "relay joins app.py by" in note and "a person has to look (a1)" in note
    # It waits without a new run at each look.
    before = await place.store.read(lambda tx: approvals.newest(tx, 9))
    for _ in range(3):
        await place.queue.step()
    assert await place.store.read(lambda tx: approvals.newest(tx, 9)) == before
    await decided(place, asked, Answer.APPROVED)
    assert (await place.entry(ben.number)).state is LANDED
    assert place.main("app.py").startswith(JOINED)
    said = next(text for text in await place.messages() if "landed on" in text)
    assert "**not tested**: no policy covers it" in said and "eve approved it (a1: merge.joined)" in said


async def test_others_land_meanwhile_and_nobody_is_asked_twice_about_the_same_files(open_place: Open) -> None:
    place = await joining(open_place)
    await place.work("CLEO", {"cleo.py": "x = 1\n"})
    ben, cleo = await place.land("BEN", "CLEO")
    assert (ben.state, cleo.state) == (WAITING, LANDED)
    asked = await asked_of(place, ben)
    await place.work("AVA", {"ava.py": "x = 1\n"})
    assert (await place.land("AVA"))[0].state is LANDED
    assert (await asked_of(place, ben)).number == asked.number
    await decided(place, asked, Answer.APPROVED)
    assert (await place.entry(ben.number)).state is LANDED


async def test_other_files_are_looked_at_anew(open_place: Open) -> None:
    place = await joining(open_place)
    (ben,) = await place.land("BEN")
    first = await asked_of(place, ben)
    commit(place.folder, {"app.py": f"import csv\nimport os\n\n{APP}"})
    await place.look()
    await place.queue.drain()
    second = await asked_of(place, ben)
    assert second.number != first.number
    states = {each.number: each.state for each in await place.store.read(lambda tx: approvals.newest(tx, 9))}
    assert states == {first.number: Answer.WITHDRAWN, second.number: Answer.WAITING}
    await decided(place, second, Answer.APPROVED)
    assert (await place.entry(ben.number)).state is LANDED


async def test_what_a_person_rejects_is_put_out_and_asked_anew_when_it_is_to_land_again(
    open_place: Open,
) -> None:
    place = await joining(open_place)
    (ben,) = await place.land("BEN")
    await decided(place, await asked_of(place, ben), Answer.REJECTED, "not this")
    ended = await place.entry(ben.number)
    assert ended.state is PUT_OUT and "eve rejected it: not this" in ended.reason
    (again,) = await place.land("BEN")
    assert again.state is WAITING
    second = await asked_of(place, again)
    await decided(place, second, Answer.APPROVED)
    assert (await place.entry(again.number)).state is LANDED


async def test_nobody_is_asked_any_more_about_what_left_the_queue(open_place: Open) -> None:
    place = await joining(open_place)
    (ben,) = await place.land("BEN")
    asked = await asked_of(place, ben)
    await place.store.write(
        lambda tx: journal.end(tx, ben.number, EntryState.CANCELLED, reason="ann took it out")
    )
    assert (await place.store.read(lambda tx: approvals.load(tx, asked.number))).state is Answer.WITHDRAWN


async def test_a_program_that_tests_it_needs_nobody(open_place: Open) -> None:
    place = await joining(open_place)
    place.have(policy("unit", python("import app")))
    (ben,) = await place.land("BEN")
    assert ben.state is LANDED and place.main("app.py").startswith(JOINED)
    assert not await place.store.read(lambda tx: approvals.newest(tx, 9))


async def test_a_look_that_was_called_off_puts_nobody_out(open_place: Open) -> None:
    """Main gets another import, and that is taken back: the join is the first one again."""
    place = await joining(open_place)
    (ben,) = await place.land("BEN")
    first = await asked_of(place, ben)
    for text in (f"import csv\nimport os\n\n{APP}", f"import csv\n\n{APP}"):
        commit(place.folder, {"app.py": text})
        await place.look()
        await place.queue.drain()
        asked = await asked_of(place, ben)
    assert asked.number > first.number
    await decided(place, asked, Answer.APPROVED)
    assert (await place.entry(ben.number)).state is LANDED
