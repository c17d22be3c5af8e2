"""Conflicts that are not of lines: what one side removed and the other changed, modes, links, binary files."""

from __future__ import annotations

import pytest

from relay.airspace.worktrees.merging.proposal import MergeOptions
from relay.airspace.worktrees.view import rows
from relay.model import Refusal
from relay.room.journal.ledger import QUEUED
from tests.engines import BOTH, all_events
from tests.git.repository import git, write
from tests.merge.place import ANN, BASE, BEN, Open, Place
from tests.merge.test_strategies import by

CHANGED = BASE.replace("json.load(", "json.loads(")


async def collide(place: Place, ava: str, ben: str) -> None:
    """AVA removes or changes the file, and lands; BEN the other. An empty text: it is removed."""
    for agent, text in (("AVA", ava), ("BEN", ben)):
        if text:
            write(place.at(agent), {"store.py": text})
        else:
            (place.at(agent) / "store.py").unlink()
    await place.look()
    await place.actions.merge("AVA", "ann")
    await place.look()
    refusal = await place.refused()
    assert "asked about c1" in refusal.fix


async def landed(place: Place) -> list[str]:
    """The paths of the main branch, once BEN's work is merged."""
    shown = await place.actions.propose("BEN", "ann", MergeOptions())
    await place.actions.merge("BEN", "ann", MergeOptions(joined=shown["tree"]))
    return git(place.folder, "ls-tree", "--name-only", "main").split()


@BOTH
@pytest.mark.parametrize(("ava", "ben"), [("", BEN), (CHANGED, "")])
async def test_removed_and_changed_is_asked_and_either_side_lands(
    open_place: Open, ava: str, ben: str
) -> None:
    place = await open_place()
    await collide(place, ava, ben)
    [question] = [body for body in await place.messages() if "Conflict c1" in body]
    assert "one side changed it, the other removed it" in question and "`/resolve c1 5` keep both" in question
    assert "/resolve c1 3" not in question and "/resolve c1 4" not in question
    [conflict] = await place.open.list()
    there = (conflict["whole"], bool(conflict["a"]["after"]), bool(conflict["b"]["after"]))
    assert there == (True, bool(ava), bool(ben))
    for choice in (3, 4):
        with pytest.raises(Refusal, match="there are no lines to write"):
            await place.say(1, choice)
    with pytest.raises(Refusal, match="there are no lines to write"):
        await place.open.answer(ANN, "c1", "x = 1\n")
    assert (await place.say(1, 2)).startswith("c1 is settled: BEN's side stands.")
    shown, _ = await rows(place.registry)
    assert [row["joined"][0]["how"] for row in shown if row["agent"] == "BEN"] == ["what was chosen"]
    assert ("store.py" in await landed(place)) is bool(ben)
    if ben:
        assert git(place.folder, "show", "main:store.py") + "\n" == BEN


async def test_keeping_the_main_branchs_leaves_the_rest_of_the_work(open_place: Open) -> None:
    place = await open_place()
    write(place.at("BEN"), {"other.py": "x = 1\n"})
    await collide(place, "", BEN)
    await place.say(1, 1)
    assert "store.py" not in await landed(place)
    assert git(place.folder, "show", "main:other.py") == "x = 1"


async def test_a_side_that_changes_again_is_asked_anew(open_place: Open) -> None:
    place = await open_place()
    await collide(place, "", BEN)
    write(place.at("BEN"), {"store.py": BEN + "y = 2\n"})
    await place.look()
    with pytest.raises(Refusal, match="c1 is gone"):
        await place.say(1, 2)
    assert "asked about c2" in (await place.refused()).fix


async def test_agents_are_not_asked_for_lines_that_cannot_be(open_place: Open) -> None:
    place = await open_place(**by("agent"))
    await collide(place, "", BEN)
    assert await all_events(place.store, QUEUED) == []
    assert "`/resolve c1 1` keep" in (await place.messages())[-1]


async def test_links_binary_files_and_modes(open_place: Open) -> None:
    place = await open_place()
    for agent, target in (("AVA", "one"), ("BEN", "two")):
        folder = place.at(agent)
        (folder / "current").symlink_to(target)
        (folder / "logo.bin").write_bytes(b"\0" + target.encode())
        write(folder, {"run": "#!/bin/sh\n"})
        (folder / "run").chmod(0o755 if agent == "BEN" else 0o644)
    await place.look()
    await place.actions.merge("AVA", "ann")
    await place.look()
    await place.refused()
    found = {each["path"]: each for each in await place.open.list()}
    kinds = {path: each["kind"] for path, each in found.items()}
    assert kinds["current"] == "symbolic link: both added it, differently"
    assert kinds["logo.bin"] == "both changed a binary file"
    for each in found.values():
        await place.say(each["number"], 2)
    await landed(place)
    assert git(place.folder, "show", "main:current") == "two"
    assert git(place.folder, "cat-file", "-s", "main:logo.bin") == "4"
