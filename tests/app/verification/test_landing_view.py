"""The landing queue as the page sees it, over real git, on both stores; and what a program prints, as it is told."""

from __future__ import annotations

import argparse
import asyncio
import json
from typing import Any

import pytest

from relay.airspace.advisories.rules.advisory import Advisory
from relay.airspace.advisories.rules.grouping import Contact, Priority
from relay.airspace.readings import Level
from relay.app.commands.worktrees import _text
from relay.app.verification.commands.land_command import _show
from relay.app.worktrees import live_output
from relay.app.worktrees.live_output import LiveOutput
from relay.faces.landing import LandingView, said
from relay.faces.worktrees import Beside, WorktreesService, stands
from relay.model import Caller, Refusal
from relay.store.ports import Tx
from relay.verification.landing import journal as landings
from relay.verification.landing.entry import EntryState
from relay.verification.landing.service import Landings
from tests.app.verification.place import Open, Place, policy, python
from tests.engines import BOTH
from tests.git.repository import commit, git

ANN = Caller("ann", "here", person=True)


def view_of(place: Place) -> LandingView:
    return LandingView(place.settings, place.registry, Landings(place.store), place.policies)


@BOTH
async def test_an_entry_shows_its_files_its_difference_and_by_what_it_was_tested(open_place: Open) -> None:
    place = await open_place()
    place.have(
        policy("unit", python("import os, sys; sys.exit(os.path.exists('bad.py'))")),
        policy("style", python("raise SystemExit(1)"), tier=0),
    )
    view = view_of(place)
    await place.work("AVA", {"ava.py": "x = 1\n", "app.py": "def total():\n    return 2\n"})
    await place.work("BEN", {"bad.py": "x = 1\n"})
    await Landings(place.store).ask(ANN, "AVA")
    [asked] = (await view.state())["queue"]
    assert (asked["state"], asked["files"]) == ("asked", None)
    with pytest.raises(Refusal, match="not known yet"):
        await view.diff(asked["number"])
    ava, ben = await place.land("AVA", "BEN")
    # What came to the main branch since is none of theirs.
    commit(place.folder, {"other.py": "y = 1\n"})
    await place.look()
    ended = {one["agent"]: one for one in (await view.state())["ended"]}
    assert ended["AVA"]["tested"] is True
    assert [(one["policy"], one["state"]) for one in ended["AVA"]["results"]] == [
        ("unit", "passed"),
        ("style", "failed"),
    ]
    assert "tested" not in ended["BEN"] and ended["BEN"]["state"] == "put_out"
    landed, put_out = [(await view.diff(entry.number))["diff"] for entry in (ava, ben)]
    assert "ava.py" in landed and "return 2" in landed and "bad.py" not in landed
    assert "bad.py" in put_out and "other.py" not in put_out and "ava.py" not in put_out


@BOTH
async def test_an_entry_that_waits_shows_what_it_changes(open_place: Open) -> None:
    place = await open_place(files={"app.py": "BROKEN = 1\n"})
    place.have(policy("unit", python("import sys; sys.exit('BROKEN' in open('app.py').read())")))
    await place.work("AVA", {"ava.py": "x = 1\n"})
    await place.land("AVA")
    [waits] = (await view_of(place).state())["queue"]
    assert waits["files"] == ["ava.py"] and waits["note"].startswith("main fails by itself")


@BOTH
async def test_what_nothing_tested_says_so(open_place: Open) -> None:
    place = await open_place()
    await place.work("AVA", {"ava.py": "x = 1\n"})
    await place.land("AVA")
    [landed] = (await view_of(place).state())["ended"]
    assert (landed["state"], landed["tested"], landed["results"]) == ("landed", False, [])


@BOTH
async def test_what_was_taken_back_is_said_of_what_landed(
    open_place: Open, capsys: pytest.CaptureFixture[str]
) -> None:
    place = await open_place()
    await place.work("AVA", {"ava.py": "x = 1\n"})
    await place.work("BEN", {"ben.py": "x = 1\n"})
    ava, ben = await place.land("AVA", "BEN")
    assert ava.landed_as and ben.landed_as
    shown = argparse.Namespace(json=False)
    assert await _show(place.store, shown) == 0
    assert "taken back" not in capsys.readouterr().out
    await place.actions.take_back("AVA", "ann", ava.landed_as[:9])
    ended = {one["agent"]: one["taken_back"] for one in (await view_of(place).state())["ended"]}
    assert (ended["AVA"]["by"], ended["BEN"]) == ("ann", None)
    room = await place.store.read(said)
    assert f"- AVA landed as {ava.landed_as[:9]} (v1), taken back by ann, " in room
    assert f"- BEN landed as {ben.landed_as[:9]} (v1)\n" in f"{room}\n"
    assert await _show(place.store, shown) == 0
    told = capsys.readouterr().out.split("\n")
    assert [("; taken back by ann, " in line) for line in told if line] == [
        line.startswith("AVA") for line in told if line
    ]
    assert await _show(place.store, argparse.Namespace(json=True)) == 0
    landed = {one["agent"]: one for one in json.loads(capsys.readouterr().out)["landed"]}
    assert landed["BEN"] == {"agent": "BEN", "commit": ben.landed_as}
    assert landed["AVA"]["taken_back"]["by"] == "ann"
    # Landed anew, it is there by another merge.
    await place.look()
    [again] = await place.land("AVA")
    backs = {one["commit"]: one["taken_back"] for one in (await view_of(place).state())["ended"]}
    assert backs[again.landed_as] is None and backs[ava.landed_as]["by"] == "ann"


@BOTH
async def test_a_branch_is_ready_to_land_in_the_same_words_everywhere(open_place: Open) -> None:
    place = await open_place()
    unit = policy("unit", python("import os, sys; sys.exit(os.path.exists('bad.py'))"))
    place.have(unit)
    service = WorktreesService(place.store, place.registry, place.actions, place.policies)

    async def told(agent: str) -> str:
        """How its branch stands, which `relay worktrees` says too."""
        state = await service.state()
        row = next(row for row in state["worktrees"] if row["agent"] == agent)
        how: str = row["stands"]["text"] if row["stands"] else ""
        [line] = [line for line in _text("list", state).split("\n") if line.startswith(f"{agent}  ")]
        assert f"  {how}; " in line if how else f"{row['branch']}  no changes" in line
        return how

    assert await told("AVA") == ""
    await place.work("AVA", {"ava.py": "x = 1\n"})
    await place.work("BEN", {"bad.py": "x = 1\n"})
    assert [await told(agent) for agent in ("AVA", "BEN")] == ["ready to land"] * 2
    place.registry.turn_trees["AVA"] = "x"
    assert await told("AVA") == "not merged yet"
    del place.registry.turn_trees["AVA"]
    await place.verify("AVA")
    assert await told("AVA") == "ready to land"
    await place.work("AVA", {"ava.py": "x = 2\n"})
    assert await told("AVA") == "changed since its tests passed"
    await place.work("AVA", {"ava.py": "x = 1\n"})
    approve = {"patterns": ["**/*.py"], "requires_approval": True}
    place.have(unit, policy("approve", python("pass"), **approve))
    assert await told("AVA") == "ready, wants an approval"
    place.have(unit, policy("approve", python("pass"), **approve | {"patterns": ["docs/**"]}))
    assert await told("AVA") == "ready to land"
    await Landings(place.store).ask(ANN, "AVA")
    assert await told("AVA") == "waits in the landing queue"

    async def cancel(tx: Tx) -> None:
        [entry] = await landings.open_entries(tx)
        await landings.end(tx, entry.number, EntryState.CANCELLED, reason="")

    await place.store.write(cancel)
    assert await told("AVA") == "ready to land"
    await place.verify("BEN")
    assert await told("BEN") == "its tests failed"
    await place.work("BEN", {"bad.py": "x = 2\n"})
    assert await told("BEN") == "its tests failed, changed since"
    await place.land("BEN")
    assert await told("BEN") == "did not land"
    await place.work("BEN", {"ava.py": "x = 3\n"})
    assert (await told("AVA"), await told("BEN")) == ("collides with BEN", "collides with AVA")
    await place.land("AVA")
    assert (await told("AVA"), await told("BEN")) == ("", "conflicts with main")


@BOTH
async def test_many_branches_are_listed_by_few_readings(
    open_place: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = await open_place("AVA", "BEN", *(f"AGENT{number}" for number in range(6)))
    service = WorktreesService(place.store, place.registry, place.actions, place.policies)
    read = place.store.read

    async def landed() -> dict[str, str]:
        readings = 0

        async def counted(work: Any) -> Any:
            nonlocal readings
            readings += 1
            return await read(work)

        with monkeypatch.context() as patch:
            patch.setattr(place.store, "read", counted)
            rows = (await service.state())["worktrees"]
        assert readings < len(rows) == 8
        return {row["agent"]: row["landed"] for row in rows if row["landed"]}

    assert await landed() == {}
    at = dict[str, str]()
    for agent in ("AVA", "BEN"):
        await place.work(agent, {f"{agent}.py": "x = 1\n"})
        await place.land(agent)
        await place.look()
        at[agent] = git(place.folder, "rev-parse", "main")
        assert await landed() == at
    # One with work has not landed all of it, and what is discarded later has not either.
    await place.work("AVA", {"AVA.py": "x = 2\n"})
    assert await landed() == {"BEN": at["BEN"]}
    await place.actions.discard("AVA", "ann")
    await place.look()
    assert await landed() == {"BEN": at["BEN"]}


def test_what_is_known_beside_a_branch_says_how_it_stands() -> None:
    row = {"agent": "AVA", "into": "main", "collides": [], "merges": "clean", "files": 1, "undoes": []}
    row |= {"working": False, "merging": False, "unsettled": False, "verified": None}
    assert stands(row, Beside()) == {"kind": "ready", "text": "ready to land", "tests": False}
    assert stands(row, Beside(main_fails="main")) == {
        "kind": "ready",
        "text": "ready, main fails",
        "tests": False,
    }
    near = Advisory(
        "1",
        0.0,
        (Priority("AVA", 0, 0.0), Priority("BEN", 0, 0.0)),
        {("AVA", "BEN"): Contact(Level.TRAFFIC, 0.5)},
    )
    meets = Contact(Level.RESOLUTION, 0.9)
    decided = Advisory(
        "2", 0.0, (Priority("AVA", 0, 0.0, by="ann"), Priority("BEN", 0, 0.0)), {("AVA", "BEN"): meets}
    )
    hit = {"agent": "CLEO", "path": "src/cart.py", "commit": "1" * 40, "did": "landed"}
    said = {
        "collides with BEN": stands(row, Beside((near,))),
        "conflicts with main, collides with BEN": stands(row | {"merges": "conflicts"}, Beside((near,))),
        # What a person decided: the one goes first, the other gives way.
        "ready to land, before BEN": stands(row, Beside((decided,))),
        "not merged yet, before BEN": stands(row, Beside((decided,), at_work={"AVA"})),
        "collides with AVA: AVA goes first": stands(row | {"agent": "BEN"}, Beside((decided,))),
        "ready, wants an approval": stands(row, Beside(asks={"AVA"})),
        "waits for an approval": stands(row, Beside(queued={"AVA": "waits for an approval"})),
        "would undo CLEO's landed lines in cart.py": stands(row | {"undoes": [hit]}, Beside()),
        "would bring back what CLEO took back in cart.py": stands(
            row | {"undoes": [hit | {"did": "took back"}]}, Beside()
        ),
        "not merged yet": stands(row, Beside(at_work={"AVA"})),
        # What cannot be read says of nothing that it is ready.
        "conflicts with main": stands(row | {"merges": "conflicts"}, None),
    }
    assert {each["text"] for each in said.values() if each} == said.keys()
    unread = stands(row, None)
    assert unread is not None and unread["text"] == "not merged yet"


async def test_what_is_printed_last_is_told_however_soon_it_follows() -> None:
    heard, told = list[str](), asyncio.Event()

    def tell(text: str) -> None:
        heard.append(text)
        told.set()

    async def until(last: str) -> None:
        async with asyncio.timeout(30):
            while heard[-1:] != [last]:
                told.clear()
                await told.wait()

    live = LiveOutput(tell)
    for word in ("one ", "two ", "three"):
        live.add(word.encode())
        await asyncio.sleep(0)
    await until("one two three")
    # Of a flood one time is enough, with the newest.
    before = len(heard)
    for number in range(2 * live_output.MOST):
        live.add(b"%d\n" % (number % 10))
    await until("".join(f"{number % 10}\n" for number in range(live_output.MOST // 2)))
    assert len(heard) == before + 1
    live.add(b"more")
    live.close()
    await asyncio.sleep(0)
    assert len(heard) == before + 1
