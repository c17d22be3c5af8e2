"""A conflict that nobody can merge: asked in the room, decided, and landed; and choices that come too late."""

from __future__ import annotations

import json
import sys
from subprocess import CalledProcessError

import pytest

from relay.airspace.advisories.rules.set_back import why_ended
from relay.airspace.worktrees.branch_updates import BranchUpdates
from relay.airspace.worktrees.merging.proposal import MergeOptions
from relay.airspace.worktrees.view import rows
from relay.log.commit_trailers import SUGGESTIONS
from relay.merge.resolution.service import of_json
from relay.merge.resolution.wording import shown
from relay.model import Refusal
from relay.model.actions import Resolve
from relay.room.journal.ledger import QUEUED
from tests.engines import BOTH, all_events
from tests.git.repository import commit, git, write
from tests.merge.place import ANN, AVA, BASE, BEN, BEN_IS, BOTH_SIDES, Open, Place


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
    assert (
        said == "c1 is settled: BEN's side stands. Nothing of BEN's is left to decide: `/land @BEN` lands it."
    )
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


THREE = """def one():
    return "one"


def two():
    return "two"


def three():
    first = 1
    return first


def four():
    first = 4
    second = 4
    return first + second
"""


@BOTH
async def test_each_conflict_names_who_changed_its_lines_and_not_who_changed_the_file_last(
    open_place: Open,
) -> None:
    place = await open_place(names=("AVA", "BEN", "CLARA"), base=THREE)
    # CLARA changes the same file, beside BEN's work and after it.
    bens = THREE.replace('"two"', '"two by ben"').replace("    second = 4\n", "").replace(" + second", "")
    claras = THREE.replace("first = 1", "first = 10")
    # BEN and CLARA leave main where AVA did; merging makes two merge commits.
    avas = THREE.replace('"two"', '"two by ava"').replace("first = 1", "first = 100")
    avas = avas.replace("second = 4", "second = 40")
    for agent, text in (("BEN", bens), ("CLARA", claras), ("AVA", avas)):
        write(place.at(agent), {"store.py": text})
    await place.look()
    for agent in ("BEN", "CLARA"):
        await place.actions.merge(agent, "ann")
        await place.look()
    with pytest.raises(Refusal):
        await place.actions.merge("AVA", "ann")
    asked = {one["entity"]: one["a"]["lane"] for one in await place.open.list()}
    assert asked == {"two": "BEN", "three": "CLARA", "four": "BEN"}
    # As the room says it.
    for name, who in (("two", "BEN"), ("three", "CLARA"), ("four", "BEN")):
        [question] = [body for body in await place.messages() if f"`store.py`, `{name}`" in body]
        assert f"**main** ({who})" in question, question


async def test_a_suggestion_that_came_and_went_hides_not_what_the_lines_are_for(open_place: Open) -> None:
    place = await open_place(base=THREE)
    write(
        place.at("BEN"), {"store.py": THREE.replace('"one"', '"one by ben"').replace('"two"', '"two by ben"')}
    )
    for subject, one, two in (
        ("Say who speaks (m12)", '"one by ava"', '"two by ava"'),
        (f"{SUGGESTIONS[0]}ann in store.py", '"one by ann"', '"two by ava"'),
        (f"{SUGGESTIONS[1]}ann in store.py", '"one by ava"', '"two by ava"'),
        (f"{SUGGESTIONS[0]}ann in store.py", '"one by ava"', '"two by ann"'),
    ):
        commit(place.at("AVA"), {"store.py": THREE.replace('"one"', one).replace('"two"', two)}, subject)
    await place.look()
    await place.actions.merge("AVA", "ann")
    await place.look()
    with pytest.raises(Refusal):
        await place.actions.merge("BEN", "ann")
    asked = {one["entity"]: (one["a"]["lane"], one["a"]["intent"]) for one in await place.open.list()}
    assert asked == dict.fromkeys(("one", "two"), ("AVA", "Say who speaks (m12)"))


@BOTH
async def test_a_person_who_took_lines_away_is_named_where_an_agent_changed_the_file_since(
    open_place: Open,
) -> None:
    place = await open_place(base=THREE)
    gone = "\n".join(THREE.splitlines()[8:]) + "\n"
    write(place.at("BEN"), {"store.py": THREE.replace('return "two"', 'return "two by ben"')})
    await place.look()
    commit(place.folder, {"store.py": gone}, "Take one and two away")
    commit(place.folder, {"store.py": gone.replace("first = 4", "first = 44")}, "Change four")
    signed = git(place.folder, "log", "-1", "--format=%an")
    await place.look()
    await place.refused()
    [asked] = await place.open.list()
    assert (asked["a"]["lane"], asked["a"]["intent"]) == (signed, "Take one and two away")


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


@BOTH
async def test_a_conflict_is_looked_at_again(open_place: Open) -> None:
    place = await open_place()
    await place.collide("# A\n" + AVA, "# B\n\n" + BEN)
    [question] = [body for body in await place.messages() if "Conflict c" in body and "`load`" in body]
    number = int(question.split("**Conflict c")[1].split("*")[0])
    # What was asked, at any time: both sides with their lines in the file, and the choices.
    again = await place.say(number)
    assert again == question
    for words in ("**main** (AVA), line 6", "**BEN**, line 7", "@@ -5 +6 @@", "@@ -5 +7 @@", "`load`"):
        assert words in again, again
    [asked] = [each for each in await place.open.list() if each["number"] == number]
    assert asked["lines"] == {"base": (5, 5), "a": (6, 6), "b": (7, 7)}
    assert shown(of_json(json.loads(json.dumps(asked)))) == again, "the terminal says the same"
    # Work elsewhere in the file moves its lines.
    write(place.at("BEN"), {"store.py": "# B\n\n# C\n" + BEN})
    assert "**BEN**, line 8" in await place.say(number)
    await place.say(number, 2)
    settled = await place.say(number)
    assert "It is settled: BEN's side stands (ann)." in settled and f"`/resolve c{number} 1`" in settled
    write(place.at("BEN"), {"store.py": BASE})
    gone = await place.say(number)
    assert f"c{number} is gone" in gone and "It is gone" in gone and f"`/resolve c{number} 1`" not in gone
    with pytest.raises(Refusal, match="There is no conflict c9"):
        await place.say(9)


async def test_lines_that_stand_twice_are_in_the_function_that_they_are_in(open_place: Open) -> None:
    place = await open_place()
    twice = "def one(x):\n    return x\n\n\ndef two(x):\n    return x\n"
    commit(place.folder, {"twice.py": twice})
    await place.look()
    for agent, text in (("AVA", "x + 1"), ("BEN", "x + 2")):
        git(place.at(agent), "merge", "-q", "main")
        changed = text.join(twice.rsplit("x", 1))
        write(place.at(agent), {"twice.py": changed})
    await place.look()
    await place.actions.merge("AVA", "ann")
    await place.look()
    await place.refused()
    [conflict] = await place.open.list()
    assert (conflict["entity"], conflict["lines"]["a"], conflict["lines"]["b"]) == ("two", (6, 6), (6, 6))


@BOTH
@pytest.mark.parametrize("squash", [False, True])
async def test_an_agents_commit_under_its_owners_name_is_the_agents(open_place: Open, squash: bool) -> None:
    place = await open_place()
    top = place.at("AVA")
    commit(top, {"store.py": AVA})
    assert git(top, "log", "-1", "--format=%an") not in ("AVA", "BEN"), "as the owner's git signs it"
    await place.look()
    await place.actions.merge("AVA", "ann", MergeOptions(squash=squash))
    write(place.at("BEN"), {"store.py": BEN})
    await place.look()
    await place.refused()
    [question] = [body for body in await place.messages() if "Conflict c1" in body]
    assert "**main** (AVA)" in question and "`/resolve c1 1` keep AVA's" in question, question
    assert "AVA's side stands" in await place.say(1, 1)


async def test_each_file_has_its_own_side(open_place: Open) -> None:
    place = await open_place()
    # A person's commit in the main checkout, to another file than AVA's.
    commit(place.folder, {"other.py": "x = 1\n"})
    for agent in ("AVA", "BEN"):
        git(place.at(agent), "merge", "-q", "main")
    commit(place.folder, {"other.py": "x = 2\n"})
    write(place.at("AVA"), {"store.py": AVA})
    await place.look()
    await place.actions.merge("AVA", "ann")
    write(place.at("BEN"), {"store.py": BEN, "other.py": "x = 3\n"})
    await place.look()
    await place.refused()
    who = git(place.folder, "log", "-1", "--format=%an", "--", "other.py")
    found = {each["path"]: each["a"]["lane"] for each in await place.open.list()}
    assert found == {"store.py": "AVA", "other.py": who} and who != "AVA"


async def test_a_merge_that_somebody_began_with_git_is_said(open_place: Open) -> None:
    place = await open_place()
    await place.collide()
    top = place.at("BEN")
    git(top, "commit", "-qam", "mine")
    with pytest.raises(CalledProcessError):
        git(top, "merge", "main")
    with pytest.raises(Refusal, match=r"c1 waits\. In BEN's worktree a merge is under way") as waits:
        await place.say(1, 2)
    assert f"git -C {top} merge --abort`. Then choose." in waits.value.fix
    again = await place.say(1)
    assert "a merge is under way" in again and "`/resolve c1 2`" in again
    assert (await place.say()).startswith("c1 `store.py`"), "it still waits"
    git(top, "merge", "--abort")
    assert "c1 is settled: BEN's side stands" in await place.say(1, 2)
    assert await place.land() == BEN


async def under_way(place: Place) -> str:
    """BEN is asked by `/update`, and does nothing; what it was told."""
    worktree = place.registry.worktrees["BEN"]
    updates = BranchUpdates(place.registry)
    told = await updates.take(worktree, await worktree.take_snapshot(everything=True), begin=True)
    await place.look()
    return told


@BOTH
async def test_the_room_decides_while_an_update_is_under_way(open_place: Open) -> None:
    place = await open_place()
    for agent, text in (("AVA", AVA), ("BEN", BEN)):
        write(place.at(agent), {"store.py": text})
    await place.look()
    await place.actions.merge("AVA", "ann")
    await place.look()
    assert "relay has begun to merge main" in await under_way(place)
    refusal = await place.refused()
    assert "a merge is under way. The room is asked about c1 all the same." in refusal.message
    assert "that merge is given up" in refusal.fix
    said = await place.say(1, 2)
    assert said.endswith("Nothing of BEN's is left to decide: `/land @BEN` lands it."), said
    # No view says of its branch that something is not settled: the merge is given up with the last choice.
    [row] = [one for one in (await rows(place.registry))[0] if one["agent"] == "BEN"]
    assert (row["merges"], row["merging"], row["unsettled"]) == ("joins", False, False)
    with pytest.raises(Refusal, match="Nothing is merged yet: relay joins 1 file"):
        await place.actions.merge("BEN", "ann")
    assert not (place.at("BEN") / "store.py").read_text().startswith("<") and any(
        "relay gave up the merge of main" in body for body in await place.messages()
    )
    assert await place.land() == BEN


async def test_an_update_that_was_edited_is_not_given_up_by_itself(open_place: Open) -> None:
    place = await open_place()
    await place.collide()
    await under_way(place)
    store = place.at("BEN") / "store.py"
    begun = store.read_text() + "# half\n"
    store.write_text(begun)
    refusal = await place.refused()
    assert "BEN has edited its files since" in refusal.fix and "worktrees abort BEN" in refusal.fix
    said = await place.say(1, 2)
    assert "its files were edited" in said and "`/abort @BEN` gives that up" in said
    with pytest.raises(Refusal, match="a merge is under way"):
        await place.actions.merge("BEN", "ann")
    assert store.read_text() == begun
    await place.actions.abort("BEN", "ann")
    assert await place.land() == BEN


async def test_a_question_ends_when_the_agent_settles_it_in_its_worktree(open_place: Open) -> None:
    place = await open_place()
    await place.collide()
    await under_way(place)
    worktree = place.registry.worktrees["BEN"]
    write(place.at("BEN"), {"store.py": BASE.replace("    return json.load(open(path))\n", BOTH_SIDES)})
    updates = BranchUpdates(place.registry)
    await updates.conclude(worktree, await worktree.take_snapshot(everything=True))
    assert await place.say() == "No conflict waits for a decision."
    assert "It is gone" in await place.say(1)
    await place.look()
    assert (await place.actions.merge("BEN", "ann"))["success"]


@BOTH
async def test_nothing_is_left_of_what_was_not_chosen(open_place: Open) -> None:
    place = await open_place()
    await place.collide()
    said = await place.say(1, 1)
    assert said.startswith("c1 is settled: AVA's side stands.") and "nothing is left to merge" in said
    assert "worktrees discard BEN" in said and "worktrees merge" not in said
    with pytest.raises(Refusal, match="by what was chosen in its conflicts, main stays as it is") as refused:
        await place.actions.merge("BEN", "ann")
    assert "worktrees discard BEN" in refused.value.fix
    await place.look()
    trials = await place.registry.merge_trials.trials(await place.registry.target())
    why = why_ended("BEN", trials, frozenset({"BEN"}), "main")
    assert "nothing left to merge by what was chosen" in why and "is in main" not in why
    gone = await place.actions.discard("BEN", "ann")
    assert gone["success"] and "refs/relay/kept/ben/" in gone["kept"]
