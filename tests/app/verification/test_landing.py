"""The landing queue over real git and real programs, on both stores."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from relay.airspace.pair_facts import SemanticConflict
from relay.app.merge.exploration.winner import merge_by_git
from relay.app.needs.merges import merge_needs
from relay.app.needs.need import Kind
from relay.app.verification.landing_git import LandingGit
from relay.config.merge import MergeSettings
from relay.config.verification import LandingSettings
from relay.faces.services import services_of
from relay.merge.exploration.journal import VariantRun
from relay.model import Caller, Refusal
from relay.verification import approvals
from relay.verification import journal as verifications
from relay.verification.approvals import Answer
from relay.verification.landing import journal
from relay.verification.landing.entry import Entry, EntryState, next_batch
from relay.verification.verification import State
from tests.app.verification.place import Open, Place, policy, python
from tests.engines import BOTH, all_events, check_log
from tests.git.repository import commit, git

pytestmark = BOTH

LANDED, PUT_OUT, WAITING = EntryState.LANDED, EntryState.PUT_OUT, EntryState.WAITING
#: Passes unless both files are there: two branches that fail only together.
TOGETHER = python(
    "import os, sys\n"
    "print(sorted(os.listdir('.')))\n"
    "both = os.path.exists('ava.py') and os.path.exists('ben.py')\n"
    "sys.exit('ava.py and ben.py do not go together' if both else 0)"
)
RED = python("import sys; print(open('app.py').read()); sys.exit('BROKEN' in open('app.py').read())")


class Killed(BaseException):
    """The process is gone."""


async def batches(place: Place) -> list[list[str]]:
    """What was tested together, run by run."""
    asked = await all_events(place.store, "verification.asked")
    return [
        event.outputs["about"]["agents"] for event in asked if event.outputs["about"].get("part") == "batch"
    ]


async def test_branches_land_together_as_what_was_tested(open_place: Open) -> None:
    place = await open_place()
    place.have(policy("unit", python("import os; print(os.listdir('.'))")))
    for agent in ("AVA", "BEN", "CLEO"):
        await place.work(agent, {f"{agent.lower()}.py": "x = 1\n"})
    entries = await place.land("AVA", "BEN", "CLEO")
    assert [entry.state for entry in entries] == [LANDED] * 3
    assert await batches(place) == [["AVA", "BEN", "CLEO"]]
    (tested,) = await all_events(place.store, "verification.ended")
    assert git(place.folder, "rev-parse", "main^{tree}") == tested.snapshot
    assert git(place.folder, "status", "--porcelain") == "?? policies/"
    assert git(place.folder, "log", "--first-parent", "--format=%an", "main").count("AVA") == 1
    # Each idle agent's worktree follows.
    assert git(place.at("AVA"), "rev-parse", "HEAD") == git(place.folder, "rev-parse", "main")
    said = [text for text in await place.messages() if "landed on main" in text]
    assert len(said) == 3 and "tested by unit (v" in said[0] and "as ann asked" in said[0]
    await check_log(place.store)


async def test_one_that_breaks_only_together_is_put_out(open_place: Open) -> None:
    place = await open_place()
    place.have(policy("unit", TOGETHER))
    for agent in ("AVA", "BEN", "CLEO"):
        await place.work(agent, {f"{agent.lower()}.py": "x = 1\n"})
    ava, ben, cleo = await place.land("AVA", "BEN", "CLEO")
    states = {entry.agent: entry.state for entry in (ava, ben, cleo)}
    assert states == {"AVA": LANDED, "BEN": PUT_OUT, "CLEO": LANDED}
    assert "unit failed (exit code 1)." in ben.reason and "main passed without it then" in ben.reason
    assert "AVA, which landed before" in ben.reason
    assert "ava.py and ben.py do not go together" in ben.output
    assert git(place.folder, "ls-tree", "--name-only", "main").split() == [
        ".gitignore",
        "README.md",
        "app.py",
        "ava.py",
        "cleo.py",
    ] or "ben.py" not in git(place.folder, "ls-tree", "--name-only", "main")
    # Its agent is told, and gets a turn; mended, it lands.
    told = [text for text in await place.messages() if text.startswith("BEN's branch did not land")]
    assert "do not go together" in told[0]
    (place.at("BEN") / "ben.py").unlink()
    await place.work("BEN", {"ben2.py": "x = 1\n"})
    (again,) = await place.land("BEN")
    assert again.state is LANDED


async def test_nothing_configured_lands_as_not_tested(open_place: Open) -> None:
    place = await open_place()
    await place.work("AVA", {"ava.py": "x = 1\n"})
    (entry,) = await place.land("AVA")
    assert entry.state is LANDED
    (landed,) = await all_events(place.store, "landing.landed")
    assert landed.outputs["tested"] is False
    assert any("**not tested**" in text for text in await place.messages())


async def test_the_tests_of_merged_trees_decide_too(open_place: Open) -> None:
    place = await open_place(merge=MergeSettings(test=tuple(RED)))
    await place.work("AVA", {"app.py": "BROKEN = 1\n"})
    (entry,) = await place.land("AVA")
    assert entry.state is PUT_OUT and "merge.test failed" in entry.reason
    assert place.main("app.py") == "def total():\n    return 1"


async def test_a_conflict_with_main_is_asked_about(open_place: Open) -> None:
    place = await open_place()
    await place.work("AVA", {"app.py": "def total():\n    return 2\n"})
    commit(place.folder, {"app.py": "def total():\n    return 3\n"})
    await place.look()
    (entry,) = await place.land("AVA")
    assert entry.state is PUT_OUT and "conflict in app.py" in entry.reason
    assert "`/resolve c1 1` to `5`" in entry.reason


async def test_two_that_conflict_go_one_after_the_other(open_place: Open) -> None:
    place = await open_place()
    place.have(policy("unit", python("0")))
    await place.work("AVA", {"app.py": "def total():\n    return 2\n"})
    await place.work("BEN", {"app.py": "def total():\n    return 3\n"})
    ava, ben = await place.land("AVA", "BEN")
    assert {ava.state, ben.state} == {LANDED, PUT_OUT}


async def test_a_push_to_main_rebases_the_queue(open_place: Open, tmp_path: Path) -> None:
    place = await open_place()
    go, begun = tmp_path / "go", tmp_path / "begun"
    code = (
        f"import pathlib, time\npathlib.Path({str(begun)!r}).touch()\n"
        f"while not pathlib.Path({str(go)!r}).exists(): time.sleep(0.05)"
    )
    place.have(policy("unit", python(code), sandbox="off"))
    await place.work("AVA", {"ava.py": "x = 1\n"})
    landing = asyncio.create_task(place.land("AVA"))
    await _until(begun.exists)
    pushed = commit(place.folder, {"other.py": "y = 1\n"}, "a person's own")
    await _until(lambda: git(place.folder, "log", "--oneline", "main").count("\n") > 0)
    begun.unlink()
    await _until(begun.exists)  # it is tested anew, on what was pushed
    go.touch()
    (entry,) = await landing
    assert entry.state is LANDED
    parents = git(place.folder, "log", "-1", "--format=%P", "main").split()
    assert parents[0] == pushed
    states = [event.outputs["state"] for event in await all_events(place.store, "verification.ended")]
    assert states == ["cancelled", "passed"]


async def test_a_red_main_puts_nobody_out(open_place: Open) -> None:
    place = await open_place(files={"app.py": "BROKEN = 1\n"})
    place.have(policy("unit", RED))
    await place.work("AVA", {"ava.py": "x = 1\n"})
    await place.work("BEN", {"app.py": "fine = 1\n"})
    (ava,) = await place.land("AVA")
    assert (ava.state, ava.output) == (WAITING, "")
    assert ava.note.startswith("main fails by itself (v")
    # Nothing in the queue ends that: a person is asked.
    needs, *_ = await place.store.read(lambda tx: merge_needs(tx, ["AVA", "BEN"], ava.at + 1))
    assert [(need.about, [each.name for each in need.actions]) for need in needs] == [
        ("main", ["again", "later"])
    ]
    assert (needs[0].kind, needs[0].text.startswith("Main fails its tests (v")) == (Kind.MAIN_FAILS, True)
    assert needs[0].text.endswith("unit failed (exit code 1). AVA waits in the landing queue for that.")
    # What mends it lands, and then the other.
    (ben,) = await place.land("BEN")
    assert ben.state is LANDED
    await place.queue.drain()
    assert (await place.entry(ava.number)).state is LANDED
    for one in await place.store.read(verifications.open_verifications):
        await place.verifier.finished(one.number)
    assert (await place.store.read(lambda tx: merge_needs(tx, ["AVA", "BEN"], ava.at + 1)))[0] == []


async def test_a_new_entry_restarts_no_build(open_place: Open, tmp_path: Path) -> None:
    place = await open_place()
    go, begun = tmp_path / "go", tmp_path / "begun"
    code = (
        f"import pathlib, time\npathlib.Path({str(begun)!r}).touch()\n"
        f"while not pathlib.Path({str(go)!r}).exists(): time.sleep(0.05)"
    )
    place.have(policy("unit", python(code), sandbox="off"))
    await place.work("AVA", {"ava.py": "x = 1\n"})
    await place.work("BEN", {"ben.py": "x = 1\n"})
    landing = asyncio.create_task(place.land("AVA"))
    await _until(begun.exists)
    await place.store.write(lambda tx: journal.ask(tx, "BEN", by="ann"))
    go.touch()
    await landing
    await place.queue.drain()
    assert await batches(place) == [["AVA"], ["BEN"]]


async def test_what_was_cut_off_behind_the_move_has_landed(
    open_place: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = await open_place()
    place.have(policy("unit", python("0")))
    await place.work("AVA", {"ava.py": "x = 1\n"})
    moved = LandingGit.move

    async def killed(*args: object) -> list[str]:
        await moved(*args)  # type: ignore[arg-type]
        raise Killed

    monkeypatch.setattr(LandingGit, "move", killed)
    with pytest.raises(Killed):
        await place.store.write(lambda tx: journal.ask(tx, "AVA", by="ann"))
        await place.queue.step()
    monkeypatch.setattr(LandingGit, "move", moved)
    await place.queue.drain()
    (entry,) = await place.store.read(lambda tx: journal.newest_ended(tx, 5))
    assert entry.state is LANDED and entry.landed_as == git(place.folder, "rev-parse", "main")
    assert len(await all_events(place.store, "landing.landed")) == 1


async def test_missing_tools_hold_what_needs_them(open_place: Open) -> None:
    place = await open_place()
    place.have(policy("types", ["no-such-tool"], patterns=["*.ts"]), policy("unit", python("0")))
    await place.work("AVA", {"a.ts": "let x = 1\n"})
    await place.work("BEN", {"ben.py": "x = 1\n"})
    ava, ben = await place.land("AVA", "BEN")
    if ben.state is not LANDED:
        await place.queue.drain(["BEN"])
        ben = await place.entry(ben.number)
    assert ben.state is LANDED
    assert ava.state is WAITING and "there is no program 'no-such-tool'" in ava.note


async def test_sensitive_files_wait_for_a_person(open_place: Open) -> None:
    place = await open_place()
    place.have(
        {"name": "security", "tier": 4, "executor": "manual", "patterns": ["**/.env*"]},
        policy("unit", python("0")),
    )
    await place.work("AVA", {".env": "KEY=1\n"})
    await place.work("BEN", {"ben.py": "x = 1\n"})
    ava, ben = await place.land("AVA", "BEN")
    assert (ava.state, ben.state) == (WAITING, LANDED)
    await place.verifier.look()
    async with asyncio.timeout(30):
        while not (asked := await place.store.read(approvals.waiting)):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    await place.queue.step()
    assert "a person has to approve it: a1" in (await place.entry(ava.number)).note
    await place.store.write(lambda tx: approvals.decide(tx, asked[0].number, Answer.APPROVED, by="eve"))
    await place.verifier.finished(asked[0].verification)
    await place.queue.drain()
    assert (await place.entry(ava.number)).state is LANDED


async def test_work_taken_back_does_not_land(open_place: Open) -> None:
    place = await open_place()
    await place.work("AVA", {"ava.py": "x = 1\n"})
    await place.store.write(lambda tx: journal.ask(tx, "AVA", by="ann"))
    (entry,) = await place.store.read(journal.open_entries)
    await place.queue.pins.pin(entry)
    await place.actions.discard("AVA", "ann")
    await place.queue.step()
    entry = await place.entry(entry.number)
    assert entry.state is PUT_OUT and "has lost the commit" in entry.reason


async def test_a_turn_that_begins_meanwhile_ends_first(
    open_place: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = await open_place()
    await place.work("AVA", {"ava.py": "x = 1\n"})
    pin, turns = place.actions.pin, place.registry.turn_trees

    async def late(agent: str, by: str) -> object:
        turns[agent] = "its tree"
        return await pin(agent, by)

    monkeypatch.setattr(place.actions, "pin", late)
    (entry,) = await place.land("AVA")
    assert (entry.state, entry.note) == (EntryState.ASKED, "AVA is at work: its turn ends first")
    monkeypatch.undo()
    turns.clear()
    await place.queue.drain()
    assert (await place.entry(entry.number)).state is LANDED


async def test_a_main_branch_that_cannot_be_moved_is_waited_for(open_place: Open) -> None:
    place = await open_place()
    await place.work("AVA", {"ava.py": "x = 1\n"})
    git(place.folder, "switch", "-q", "--detach")
    (entry,) = await place.land("AVA")
    assert (
        entry.state is EntryState.ASKED and "is on no branch, so its files cannot follow main" in entry.note
    )
    git(place.folder, "switch", "-q", "main")
    await place.queue.drain()
    assert (await place.entry(entry.number)).state is LANDED


async def test_files_of_a_person_are_not_written_over(open_place: Open) -> None:
    place = await open_place()
    await place.work("AVA", {"app.py": "def total():\n    return 2\n"})
    (place.folder / "app.py").write_text("mine\n")
    (entry,) = await place.land("AVA")
    assert entry.state is WAITING and "has uncommitted work in files that the merge changes" in entry.note
    git(place.folder, "checkout", "-q", "app.py")
    async with asyncio.timeout(60):
        while (await place.entry(entry.number)).state is not LANDED:
            await place.queue.step()
            await asyncio.sleep(0.1)


async def test_a_direct_merge_is_refused_where_landing_is_required(open_place: Open) -> None:
    place = await open_place(landing=LandingSettings(required=True))
    await place.work("AVA", {"ava.py": "x = 1\n"})
    with pytest.raises(Refusal, match="lands agents' branches by its queue"):
        await place.actions.merge("AVA", "ann")
    assert (await place.land("AVA"))[0].state is LANDED


async def test_the_winner_of_an_exploration_is_verified_where_landing_is_required(open_place: Open) -> None:
    place = await open_place(landing=LandingSettings(required=True))
    git(place.folder, "checkout", "-q", "-b", "variant")
    good = commit(place.folder, {"app.py": "fine = 1\n"})
    bad = commit(place.folder, {"app.py": "BROKEN = 1\n"})
    git(place.folder, "checkout", "-q", "main")
    place.have(policy("unit", RED))
    run = VariantRun(1, "fast", 0, "AVA", branch="variant")
    with pytest.raises(Refusal, match="no room runs"):
        await merge_by_git(place.registry)(run, good, "ann", "Take it", "", True)
    take = merge_by_git(place.registry, place.verifier.must_pass)
    with pytest.raises(Refusal, match=r"It is not merged: unit failed \(exit code 1\)"):
        await take(run, bad, "ann", "Take it", "", True)
    assert place.main("app.py") == "def total():\n    return 1"
    merged, into = await take(run, good, "ann", "Take it", "", True)
    assert (into, merged) == ("main", git(place.folder, "rev-parse", "main"))
    assert place.main("app.py") == "fine = 1" and (place.folder / "app.py").read_text() == "fine = 1\n"


async def test_a_contract_between_two_is_named_before_anything_runs(open_place: Open) -> None:
    place = await open_place(
        files={"lib.py": "def price(n):\n    return n\n\n\ndef other():\n    return 1\n"}
    )
    place.have(policy("unit", python("0")))
    await place.work("AVA", {"lib.py": "def other():\n    return 1\n"})
    await place.work("BEN", {"use.py": "from lib import price\n\nprint(price(3))\n"})
    await place.land("AVA", "BEN")
    held = await all_events(place.store, "landing.held")
    assert any("price" in event.outputs["note"] for event in held)
    first = (await all_events(place.store, "verification.asked"))[0]
    assert held[0].pos < first.pos


async def test_a_contract_is_found_in_a_longer_batch_too(open_place: Open) -> None:
    place = await open_place(
        files={"lib.py": "def price(n):\n    return n\n\n\ndef other():\n    return 1\n", "far.py": "x = 1\n"}
    )
    place.have(policy("unit", python("0")))
    await place.work("AVA", {"lib.py": "def other():\n    return 1\n"})
    await place.work("CLEO", {"far.py": "x = 2\n"})
    await place.work("BEN", {"use.py": "from lib import price\n\nprint(price(3))\n"})
    await place.land("AVA", "CLEO", "BEN")
    notes = [event.outputs["note"] for event in await all_events(place.store, "landing.held")]
    assert any("AVA" in note and "BEN" in note and "price" in note for note in notes), notes
    assert not any("CLEO" in note for note in notes), notes


async def test_a_batch_takes_one_look_across_files_for_each_branch(
    open_place: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look at each two of them would make a batch of eight wait for 29."""
    looks = []
    across = LandingGit.across

    async def counted(
        self: LandingGit, ours: tuple[str, str], theirs: tuple[str, str]
    ) -> Sequence[SemanticConflict]:
        looks.append(theirs[0])
        return await across(self, ours, theirs)

    monkeypatch.setattr(LandingGit, "across", counted)
    agents = ("AVA", "BEN", "CLEO", "DAN", "EVE")
    place = await open_place(*agents)
    place.have(policy("unit", python("0")))
    for agent in agents:
        await place.work(agent, {f"{agent.lower()}.py": "x = 1\n"})
    assert [entry.state for entry in await place.land(*agents)] == [LANDED] * 5
    assert sorted(looks) == sorted(agents)


def test_least_entangled_first_and_nobody_waits_long() -> None:
    entries = [Entry(number, name, "ann") for number, name in enumerate("ABCDEF", 1)]
    order = ["F", "E", "D", "C", "B", "A"]
    batch = next_batch(entries, order, 2)
    assert [entry.agent for entry in batch.chosen] == ["F", "E"]
    assert [entry.agent for entry in batch.passed_over] == ["A", "B"]
    owed = [Entry(1, "A", "ann", passed_over=1), Entry(2, "B", "ann", passed_over=1), *entries[2:4]]
    assert [entry.agent for entry in next_batch(owed, order, 2).chosen] == ["A", "B"]


async def test_verdicts_of_what_landed_are_kept(open_place: Open) -> None:
    place = await open_place()
    place.have(policy("unit", python("print('ok')")))
    await place.work("AVA", {"ava.py": "x = 1\n"})
    (entry,) = await place.land("AVA")
    number = entry.verification
    assert number is not None
    tested = await place.store.read(lambda tx: verifications.load(tx, number))
    assert tested.state is State.PASSED and tested.change.about["agents"] == ["AVA"]


async def _until(condition: object, seconds: float = 60.0) -> None:
    assert callable(condition)
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def test_a_branch_waits_for_files_that_somebody_has_locked(open_place: Open) -> None:
    place = await open_place()
    await place.work("AVA", {"ava.py": "x = 1\n"})
    services = services_of(place.store, place.settings, fold=False)
    ben = Caller("BEN", "s1", scopes=frozenset({"locks"}))
    await services.locks.acquire(ben, ["ava.py"])
    (entry,) = await place.land("AVA")
    assert entry.state is EntryState.ASKED and "BEN" in entry.note
    await services.locks.release(ben, "ava.py")
    await place.queue.drain()
    while (await place.entry(entry.number)).state is EntryState.ASKED:
        await place.queue.step()
    await place.queue.drain()
    assert (await place.entry(entry.number)).state is LANDED
