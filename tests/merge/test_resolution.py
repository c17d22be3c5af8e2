"""A conflict that nobody can merge: asked in the room, decided, and landed; and choices that come too late."""

from __future__ import annotations

import sys

import pytest

from relay.airspace.worktrees.view import rows
from relay.model import Refusal
from relay.model.actions import Resolve
from relay.room.journal.ledger import QUEUED
from tests.engines import BOTH, all_events
from tests.git.repository import commit, git, write
from tests.merge.place import ANN, BASE, BEN, BEN_IS, BOTH_SIDES, Open


@BOTH
async def test_the_room_is_asked_and_a_side_is_kept(open_place: Open) -> None:
    place = await open_place()
    refusal = await place.collide()
    assert "The room is asked about c1: `/resolve c1 1` to `5`." in refusal.fix
    [question] = [body for body in await place.messages() if "Conflict c1" in body]
    for words in ("in `store.py`, `load`", "-    return json.load(open(path))", "`/resolve c1 5` keep both"):
        assert words in question, question
    assert "+    return json.loads(open(path).read())" in question
    assert "+    return json.load(open(path, encoding='utf-8'))" in question
    # Asked once, however often somebody tries.
    await place.refused()
    assert len([body for body in await place.messages() if "Conflict c1" in body]) == 1
    assert (await place.say()).startswith("c1 `store.py`")
    said = await place.say(1, 2)
    assert said.startswith("c1 is settled: BEN's side stands. Nothing of BEN's is left to decide:")
    assert await place.say(1, 2) == said, "twice the same is one"
    assert len(await all_events(place.store, "conflict.resolved")) == 1
    assert await place.say() == "No conflict waits for a decision."
    shown, _ = await rows(place.registry)
    [row] = [row for row in shown if row["agent"] == "BEN"]
    assert (row["merges"], row["joined"][0]["how"]) == ("joins", "what was chosen")
    text = await place.land()
    assert text == BEN
    [conflict] = await place.open.list()
    assert (conflict["entity"], conflict["severity"]) == ("load", "high")
    assert (conflict["state"], conflict["level"], conflict["reference"]) == ("resolved", 2, "c1")
    resolution = conflict["resolution"]
    assert resolution["resolution_type"] == {
        "type": "side_chosen",
        "chosen": "BEN",
        "reason": "ann chose it",
        "user_id": "ann",
    }
    assert (resolution["confidence"], resolution["validated"]) == (None, False)


@BOTH
async def test_late_choice_refused(open_place: Open) -> None:
    place = await open_place()
    await place.collide()
    # BEN goes on at the same place.
    write(place.at("BEN"), {"store.py": BEN.replace("utf-8", "utf-16")})
    await place.look()
    with pytest.raises(Refusal, match=r"c1 is gone: BEN or main has changed store\.py since") as late:
        await place.say(1, 2)
    assert "They conflict in store.py now: merging asks about that." in late.value.fix
    assert await all_events(place.store, "conflict.resolved") == []
    refusal = await place.refused()
    assert "asked about c2" in refusal.fix
    await place.say(2, 2)
    assert "utf-16" in await place.land()
    # Merged: nothing is left to choose.
    with pytest.raises(Refusal, match="c2 is gone") as over:
        await place.say(2, 1)
    assert "does not conflict with main any more" in over.value.fix
    with pytest.raises(Refusal, match="There is no conflict c9"):
        await place.say(9, 1)


async def test_work_elsewhere_does_not_make_a_choice_late(open_place: Open) -> None:
    place = await open_place()
    await place.collide()
    commit(place.folder, {"other.py": "x = 1\n"})
    write(place.at("BEN"), {"store.py": BEN + "\n\ndef close():\n    pass\n"})
    await place.look()
    assert "c1 is settled" in await place.say(1, 1)
    text = await place.land()
    assert "json.loads(open(path).read())" in text and "def close():" in text


@BOTH
async def test_an_agent_that_was_asked_writes_both(open_place: Open) -> None:
    place = await open_place()
    await place.collide()
    with pytest.raises(Refusal, match="BEN was not asked about c1"):
        await place.open.answer(BEN_IS, "c1", BOTH_SIDES)
    assert await place.say(1, 3) == "ann asked BEN to write what has both sides of c1."
    asked = (await place.messages())[-1]
    assert "json.loads(open(path).read())" in asked and "Answer with the tool `resolve`" in asked
    [job] = await all_events(place.store, QUEUED)
    assert [one["agent"] for one in job.outputs["jobs"]] == ["BEN"]
    with pytest.raises(Refusal, match="Conflict markers are left"):
        await place.open.answer(BEN_IS, "c1", "<<<<<<< ours\n" + BOTH_SIDES)
    done = await place.open.answer(BEN_IS, "c1", BOTH_SIDES.rstrip("\n"), reasoning="both read it")
    assert done["resolution"]["resolution_type"] == {"type": "agent_resolved", "resolver_agent": "BEN"}
    assert (done["resolution"]["agent_reasoning"], done["resolution"]["confidence"]) == ("both read it", None)
    text = await place.land()
    assert text == BASE.replace("    return json.load(open(path))\n", BOTH_SIDES)


async def test_what_a_person_writes_stands_and_lands_when_the_tests_pass(open_place: Open) -> None:
    code = "import store, inspect; assert 'loads' in inspect.getsource(store.load), 'no loads'"
    place = await open_place(test=(sys.executable, "-c", code))
    await place.collide()
    how = await place.say(1, 4)
    assert "merge resolve c1` opens your own editor" in how and "the page has both sides" in how
    await place.say(1, 2)
    # The tests are asked before it lands, whoever chose.
    with pytest.raises(Refusal, match="the tests fail on the merged tree"):
        await place.actions.merge("BEN", "ann")
    await place.open.answer(ANN, "c1", BOTH_SIDES)
    assert (await place.actions.merge("BEN", "ann"))["success"]
    # It is said that it was tested, with who chose it as before.
    [conflict] = await place.open.list()
    resolution = conflict["resolution"]
    assert resolution["validated"] is True and resolution["resolution_type"]["user_id"] == "ann"
    assert (await all_events(place.store, "conflict.resolved"))[-1].outputs["resolution"] == resolution
    assert BOTH_SIDES in git(place.folder, "show", "main:store.py")


@BOTH
async def test_what_is_written_in_the_room_stands_and_is_closed_everywhere(open_place: Open) -> None:
    place = await open_place()
    place.open.standing = place.conflicts.standing
    await place.collide()
    written = Resolve(1, 4, None, BOTH_SIDES)
    said = await place.conflicts.carry_out(written, by="ann", source_key="k")
    assert said.startswith("c1 is settled: what ann wrote stands. Nothing of BEN's is left to decide")
    assert await place.conflicts.carry_out(written, by="ann", source_key="k") == said, "twice the same is one"
    assert len(await all_events(place.store, "conflict.resolved")) == 1
    assert await place.open.list(only_open=True) == []
    # The other door: what comes after the sides moved on is refused there too.
    write(place.at("BEN"), {"store.py": BEN.replace("utf-8", "utf-16")})
    await place.look()
    with pytest.raises(Refusal, match="c1 is gone"):
        await place.open.answer(ANN, "c1", BOTH_SIDES + "    # late\n")
    with pytest.raises(Refusal, match="Conflict markers are left"):
        await place.refused()
        await place.conflicts.choose(2, 4, by="ann", text="<<<<<<< ours\n")
    assert len(await all_events(place.store, "conflict.resolved")) == 1


async def test_branches_that_are_kept_apart_do_not_merge(open_place: Open) -> None:
    place = await open_place()
    await place.collide()
    assert await place.say(1, 5) == "c1: both branches stay apart. Nothing of BEN's is merged."
    [conflict] = await place.open.list()
    assert conflict["state"] == "rejected"
    assert conflict["resolution"]["resolution_type"]["reason"] == "ann keeps both branches apart"
    await place.refused()
    # Who wants it all the same is asked again.
    assert (await place.say()).startswith("c1 `store.py`")
