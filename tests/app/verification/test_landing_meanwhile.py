"""What happens to the landing queue meanwhile: people and agents who change their minds, policies that change, a
queue that is killed."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from relay.app.verification.landing_git import Link
from relay.config.verification import LandingSettings
from relay.verification import approvals
from relay.verification import journal as verifications
from relay.verification.landing import journal
from relay.verification.landing.entry import Entry, EntryState
from tests.app.verification.place import Open, Place, policy, python
from tests.engines import BOTH, all_events
from tests.git.repository import git, write

pytestmark = BOTH

LANDED, PUT_OUT, WAITING = EntryState.LANDED, EntryState.PUT_OUT, EntryState.WAITING
SENSITIVE = {"name": "security", "tier": 4, "executor": "manual", "patterns": ["**/.env*"]}


async def asked(place: Place, agent: str) -> Entry:
    return (await place.store.write(lambda tx: journal.ask(tx, agent, by="ann")))[0]


def meanwhile(place: Place, monkeypatch: pytest.MonkeyPatch, act: Callable[[], Awaitable[object]]) -> None:
    """`act` happens once a batch is merged, before it is tested."""
    chain = place.queue._chain

    async def slow(entries: Sequence[Entry], main: str) -> list[Link]:
        links = await chain(entries, main)
        monkeypatch.setattr(place.queue, "_chain", chain)
        await act()
        return links

    monkeypatch.setattr(place.queue, "_chain", slow)


async def test_policies_that_had_a_fault_skip_no_approval(open_place: Open) -> None:
    place = await open_place()
    write(place.settings.current.policies_dir, {"all.yaml": "name: [broken"})
    await place.work("AVA", {".env": "KEY=1\n"})
    (entry,) = await place.land("AVA")
    assert entry.state is WAITING and "who has to approve it" in entry.note
    place.have(SENSITIVE)
    await place.queue.drain()
    entry = await place.entry(entry.number)
    assert entry.state is WAITING and "a person has to approve it" in entry.note


async def test_a_policy_that_is_made_while_a_branch_waits_asks_people_too(open_place: Open) -> None:
    place = await open_place()
    place.have(policy("unit", ["no-such-tool"]))
    await place.work("AVA", {".env": "KEY=1\n"})
    (entry,) = await place.land("AVA")
    assert entry.state is WAITING
    place.have(SENSITIVE)
    place.queue._again_at.clear()
    await place.queue.drain()
    entry = await place.entry(entry.number)
    assert entry.state is WAITING and "a person has to approve it" in entry.note


async def test_what_was_taken_out_while_others_are_merged_stays_out(
    open_place: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = await open_place(landing=LandingSettings(batch=1))
    await place.work("AVA", {"ava.py": "x = 1\n"})
    await place.work("BEN", {"ben.py": "x = 1\n"})
    ava, _ = await asked(place, "AVA"), await asked(place, "BEN")

    async def order() -> list[str]:
        return ["BEN", "AVA"]

    async def take_out() -> None:
        await place.store.write(lambda tx: journal.end(tx, ava.number, EntryState.CANCELLED))

    monkeypatch.setattr(place.queue, "_order", order)
    meanwhile(place, monkeypatch, take_out)
    await place.queue.step()
    assert (await place.entry(ava.number)).state is EntryState.CANCELLED


async def test_newer_work_that_is_asked_for_meanwhile_lands(
    open_place: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = await open_place()
    await place.work("AVA", {"ava.py": "x = 1\n"})
    entry = await asked(place, "AVA")

    async def go_on() -> None:
        await place.work("AVA", {"more.py": "x = 1\n"})
        await asked(place, "AVA")

    meanwhile(place, monkeypatch, go_on)
    await place.queue.step()
    await place.queue.drain()
    assert (await place.entry(entry.number)).state is LANDED and place.main("more.py") == "x = 1"


async def test_what_is_discarded_while_it_is_tested_does_not_land(open_place: Open, tmp_path: Path) -> None:
    place = await open_place()
    go, begun = tmp_path / "go", tmp_path / "begun"
    code = (
        f"import pathlib, time\npathlib.Path({str(begun)!r}).touch()\n"
        f"while not pathlib.Path({str(go)!r}).exists(): time.sleep(0.05)"
    )
    place.have(policy("unit", python(code), sandbox="off"))
    await place.work("AVA", {"ava.py": "x = 1\n"})
    landing = asyncio.create_task(place.land("AVA"))
    async with asyncio.timeout(60):
        while not begun.exists():  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    await place.actions.discard("AVA", "ann")
    go.touch()
    (entry,) = await landing
    assert entry.state is PUT_OUT and "has lost the commit" in entry.reason
    assert "ava.py" not in git(place.folder, "ls-tree", "--name-only", "main")


async def test_a_branch_whose_worktree_is_gone_is_put_out(open_place: Open) -> None:
    place = await open_place()
    place.have(policy("types", ["no-such-tool"], patterns=["ava.py"]))
    await place.work("AVA", {"ava.py": "x = 1\n"})
    await place.work("BEN", {"ben.py": "x = 1\n"})
    (ava,) = await place.land("AVA")
    assert ava.state is WAITING
    shutil.rmtree(place.at("AVA"))
    del place.registry.worktrees["AVA"]
    place.queue._again_at.clear()
    (ben,) = await place.land("BEN")
    ava = await place.entry(ava.number)
    assert (ava.state, ben.state) == (PUT_OUT, LANDED) and "has no worktree any more" in ava.reason


async def test_nothing_is_put_out_before_the_worktrees_are_known(open_place: Open) -> None:
    place = await open_place()
    await place.work("AVA", {"ava.py": "x = 1\n"})
    entry = await asked(place, "AVA")
    known = dict(place.registry.worktrees)
    place.registry.worktrees.clear()
    place.registry.surveyed.clear()
    assert not await place.queue.step()
    assert (await place.entry(entry.number)).state is EntryState.ASKED
    place.registry.worktrees.update(known)
    place.registry.surveyed.set()
    await place.queue.drain()
    assert (await place.entry(entry.number)).state is LANDED


async def test_without_a_repository_the_queue_says_so(open_place: Open) -> None:
    place = await open_place()
    await place.work("AVA", {"ava.py": "x = 1\n"})
    entry = await asked(place, "AVA")
    place.registry.main, place.registry.trouble = None, "there is no repository"
    await place.queue.step()
    assert (await place.entry(entry.number)).note == "there is no repository"


async def test_a_queue_that_was_killed_leaves_no_run_behind(
    open_place: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = await open_place()
    place.have(policy("unit", python("import time; time.sleep(600)")))
    await place.work("AVA", {"ava.py": "x = 1\n"})
    entry = await asked(place, "AVA")

    async def nothing(entries: Sequence[Entry]) -> None:
        """A process that is killed puts nothing back."""

    with monkeypatch.context() as killed:
        killed.setattr(place.queue._record, "back", nothing)
        step = asyncio.create_task(place.queue.step())
        async with asyncio.timeout(60):
            while (await place.entry(entry.number)).state is not EntryState.TESTING:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        step.cancel()
        await asyncio.gather(step, return_exceptions=True)
        await place.verifier.close()
    place.have(policy("unit", python("0")))
    await place.queue.drain()
    assert (await place.entry(entry.number)).state is LANDED
    assert not await place.store.read(verifications.open_verifications)


async def test_nobody_is_asked_about_a_branch_that_left_the_queue(open_place: Open) -> None:
    place = await open_place()
    place.have(SENSITIVE)
    await place.work("AVA", {".env": "KEY=1\n"})
    (entry,) = await place.land("AVA")
    await place.verifier.look()
    async with asyncio.timeout(60):
        while not await place.store.read(approvals.waiting):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    await place.store.write(lambda tx: journal.end(tx, entry.number, EntryState.CANCELLED))
    assert not await place.store.read(approvals.waiting)


async def test_an_entry_that_two_see_land_is_told_once(open_place: Open) -> None:
    place = await open_place()
    await place.work("AVA", {"ava.py": "x = 1\n"})
    (entry,) = await place.land("AVA")
    stale = replace(entry, state=WAITING)
    await place.queue._record.landed(stale, git(place.folder, "rev-parse", "main"))
    assert len([text for text in await place.messages() if "landed" in text]) == 1
    assert len(await all_events(place.store, "landing.landed")) == 1


@pytest.mark.parametrize("pinned", [False, True])
async def test_newer_work_that_is_asked_for_behind_the_move_lands_too(
    open_place: Open, monkeypatch: pytest.MonkeyPatch, pinned: bool
) -> None:
    """Whoever sees the main branch have their work may go on and ask again, before it is said that it has landed.
    `pinned`: another member of the fleet has looked at the newer work by then."""
    place = await open_place()
    place.have(policy("unit", python("0")))
    await place.work("AVA", {"ava.py": "x = 1\n"})
    first = await asked(place, "AVA")
    move = place.queue._git.move

    async def slow(links: Sequence[Link], main: str) -> list[str]:
        left = await move(links, main)
        monkeypatch.setattr(place.queue._git, "move", move)
        await place.work("AVA", {"more.py": "x = 1\n"})
        again = await asked(place, "AVA")
        assert again.number == first.number
        if pinned:
            await place.queue.pins.pin(again)
        return left

    monkeypatch.setattr(place.queue._git, "move", slow)
    await place.queue.step()
    await place.queue.drain()
    ended = await place.entry(first.number)
    second = await place.entry(first.number + 1)
    assert ended.state is LANDED and ended.at_commit != second.at_commit
    assert (second.agent, second.asker, second.state) == ("AVA", "ann", LANDED)
    assert place.main("ava.py") == place.main("more.py") == "x = 1"
