"""What one agent changes and another comes to rely on, in real worktrees: looked at once, told, and closed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from relay.airspace.pair_facts import SemanticCheck, SemanticConflict
from relay.airspace.readings import Level
from relay.airspace.worktrees.merging.semantic_checks import SemanticChecks
from relay.airspace.worktrees.room import Unchecked
from relay.airspace.worktrees.working_sets import WorkingSetSource
from relay.app.wiring.merge_tools import JoiningRoom, MergeTools
from relay.config.merge import MergeSettings
from relay.git.run import Git
from tests.airspace.house import House
from tests.airspace.parts import AirspaceRoom, open_airspace_store, work
from tests.engines import BOTH, Clock
from tests.git.repository import Room, git, repository, write
from tests.outside import eventually

PAIR = ("CLAUDE", "CODEX")
FILES: dict[str, str | bytes] = {
    "price.py": "def total(items):\n    return sum(items)\n\n\ndef tax(amount):\n    return amount * 0.2\n",
    "report.py": "from price import total\n\n\ndef report(items):\n    return f'{total(items)} EUR'\n",
    "notes.md": "notes\n",
}
NEEDS_RATE = "def total(items, rate):\n    return sum(items) * rate\n"
NEW_CALL = FILES["report.py"] + "\n\ndef both(a, b):\n    return total(a) + total(b)\n"  # type: ignore[operator]


class CheckingRoom(Room):
    """With the look across files that a daemon has; `timeouts`: the next so many looks take too long."""

    def __init__(self, folder: Path, *agents: str, **more: Any) -> None:
        super().__init__(folder, *agents, **more)
        self.tools = MergeTools(MergeSettings)
        self.timeouts = 0

    async def across_files(self, git: Git, sides: Sequence[tuple[str, str]]) -> Any:
        if self.timeouts:
            self.timeouts -= 1
            raise Unchecked("it took longer than 20 s")
        return await JoiningRoom(self.tools).across_files(git, sides)

    @property
    def checks(self) -> SemanticChecks:
        return self.registry.semantic


@pytest.fixture
async def one(tmp_path: Path) -> AsyncIterator[CheckingRoom]:
    made = CheckingRoom(repository(tmp_path / "repo", FILES), *PAIR)
    await made.open()
    yield made
    await made.tools.close()


async def conflict(one: CheckingRoom) -> None:
    text = str(FILES["price.py"]).replace("def total(items):\n    return sum(items)\n", NEEDS_RATE)
    write(one.at("CLAUDE"), {"price.py": text})
    write(one.at("CODEX"), {"report.py": NEW_CALL})
    await one.look()


async def test_two_are_looked_at_once_and_again_only_when_a_tree_is_another(one: CheckingRoom) -> None:
    assert one.checks.able() == []
    await conflict(one)
    assert one.checks.able() == [PAIR] and one.checks.of([PAIR]) == {PAIR: SemanticCheck(pending=True)}
    task = asyncio.create_task(one.checks.run())
    try:
        changed = asyncio.Event()
        one.checks.changed = changed.set
        await changed.wait()
        (found,) = one.checks.of([PAIR])[PAIR].conflicts
        assert found.said[0].startswith("CLAUDE changes the head of the function total (price.py:1-2):")
        assert found.said[1].startswith("CODEX adds both (report.py:8-9), which newly uses it")
        assert (found.path, found.other_path, found.symbol) == ("price.py", "report.py", "total")
        await one.look()
        git(one.at("CODEX"), "add", "-A")
        git(one.at("CODEX"), "commit", "-q", "-m", "the same, committed")
        await one.look()
        assert not one.checks.of([PAIR])[PAIR].pending and one.checks.looks == 1
        changed.clear()
        write(one.at("CODEX"), {"report.py": FILES["report.py"]})
        await one.look()
        waiting = one.checks.of([PAIR])
        assert waiting == {} or waiting[PAIR].conflicts == (found,), "what was found holds until a look"
        write(one.at("CODEX"), {"report.py": str(FILES["report.py"]) + "\n\nSUM = 3\n"})
        await one.look()
        # What stood in between may have been looked at.
        now = one.checks.of([PAIR])[PAIR]
        assert now in (SemanticCheck((found,), pending=True), SemanticCheck(pending=True), SemanticCheck())

        async def looked() -> bool:
            return one.checks.of([PAIR]) == {PAIR: SemanticCheck()}

        await eventually(looked, "the look at what stands now")
        # What stood meanwhile may have been looked at, or not.
        assert one.checks.looks in (2, 3)
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_without_code_on_both_sides_nothing_is_looked_at(one: CheckingRoom) -> None:
    write(one.at("CLAUDE"), {"price.py": str(FILES["price.py"]) + "\n\nA = 1\n"})
    write(one.at("CODEX"), {"notes.md": "other notes\n"})
    await one.look()
    assert one.checks.able() == []


async def test_what_took_too_long_is_said_and_nothing_is_forgotten_for_it(one: CheckingRoom) -> None:
    await conflict(one)
    await one.checks.look(PAIR)
    (found,) = one.checks.of([PAIR])[PAIR].conflicts
    one.timeouts = 1
    write(one.at("CODEX"), {"report.py": NEW_CALL + "\n\nSUM = 3\n"})
    await one.look()
    await one.checks.look(PAIR)
    assert one.checks.of([PAIR])[PAIR] == SemanticCheck((found,), why="it took longer than 20 s")
    one.checks.forget()
    assert one.checks.of([PAIR])[PAIR] == SemanticCheck((found,), pending=True)


async def test_a_worker_that_takes_too_long_is_said(one: CheckingRoom) -> None:
    await conflict(one)
    one.tools = MergeTools(lambda: MergeSettings(check_timeout_s=0.000_001))
    await one.checks.look(PAIR)
    assert one.checks.of([PAIR])[PAIR].why == "it took longer than 1e-06 s"


@BOTH
async def test_a_silent_conflict_is_one_traffic_advisory_and_closes_with_it(
    one: CheckingRoom, tmp_path: Path
) -> None:
    store = await open_airspace_store(tmp_path / "room")
    house = House(AirspaceRoom(store, Clock()))
    turns = SimpleNamespace(working=dict, agents=lambda: PAIR)
    house.scanner.observer.worktrees = WorkingSetSource(one.registry, turns)
    await conflict(one)
    await house.tick()
    assert "1 pair is still to be compared across files." in house.live.who_is_near()
    assert (await house.live.state())["unchecked"] == [{"a": "CLAUDE", "b": "CODEX", "why": None}]
    await one.checks.look(PAIR)
    await house.tick()
    (said,) = await house.room.said()
    line = said.body.split("\n")[0]
    assert "CLAUDE changes the head of the function total (price.py:1-2)" in line
    assert "CODEX adds both (report.py:8-9), which newly uses it" in line
    advisory = await house.room.only()
    assert (advisory.level, set(advisory.files)) == (Level.TRAFFIC, {"price.py", "report.py"})
    state = await house.live.state()
    assert [(link["level"], link["channels"]["semantic"]) for link in state["links"]] == [("advisory", 1.0)]
    assert state["counts"]["clear"] == 0 and state["unchecked"] == []
    assert "clear" not in house.live.who_is_near()
    for _ in range(3):
        await house.tick()
    assert len(await house.room.said()) == 1, "nothing is said twice"

    one.timeouts = 1
    write(one.at("CODEX"), {"report.py": NEW_CALL + "\n\nSUM = 3\n"})
    await one.look()
    await house.tick()
    await one.checks.look(PAIR)
    await house.tick()
    assert (await house.room.only()).open
    assert "is not known: it took longer than 20 s" in house.live.who_is_near()

    write(one.at("CODEX"), {"report.py": str(FILES["report.py"]) + "\n\nSUM = 3\n"})
    await one.look()
    await house.tick()
    assert (await house.room.only()).open, "nobody has looked at it yet"
    await one.checks.look(PAIR)
    await house.tick()
    assert not (await house.room.only()).open
    assert house.live.who_is_near().startswith("All is clear")
    await store.close()


async def test_a_time_out_is_no_all_clear(tmp_path: Path) -> None:
    store = await open_airspace_store(tmp_path)
    house = House(AirspaceRoom(store, Clock()))
    house.trees.sets = [work("CLAUDE", "price.py"), work("CODEX", "report.py")]
    house.trees.checks = {PAIR: SemanticCheck(why="it took longer than 20 s")}
    await house.tick()
    told = house.live.who_is_near()
    assert "All is clear" not in told and "it took longer than 20 s" in told
    found = SemanticConflict(("A does.", "B does."), "lib/a.py", "lib/b.py", (1, 2), "a", "medium", {})
    house.trees.checks = {PAIR: SemanticCheck((found,))}
    house.room.settings = type(house.room.settings)(muted=("lib/**",))
    await house.tick()
    assert not await house.room.said() and "A does. B does." in house.live.who_is_near()
    await store.close()
