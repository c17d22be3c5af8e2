"""The landing queue as the page sees it, over real git, on both stores; and what a program prints, as it is told."""

from __future__ import annotations

import asyncio

import pytest

from relay.app.worktrees import live_output
from relay.app.worktrees.live_output import LiveOutput
from relay.faces.landing import LandingView
from relay.model import Caller, Refusal
from relay.verification.landing.service import Landings
from tests.app.verification.place import Open, Place, policy, python
from tests.engines import BOTH
from tests.git.repository import commit

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
