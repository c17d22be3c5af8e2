"""Conflicts of levels 3 and 4: kept with their events, listed with those of level 2, and ended."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from relay.airspace.pair_facts import SemanticCheck, SemanticConflict
from relay.app.merge.behaviour_checks import BehaviourChecks
from relay.app.wiring.conflicts.conflict_log import ConflictLog
from relay.app.wiring.conflicts.finding_log import FindingLog
from relay.app.wiring.schema import SCHEMAS
from relay.config.merge import MergeSettings
from relay.log.verify import verify
from relay.merge.conflicts.conflict import Conflict, Severity, Side
from relay.merge.resolution import findings, journal
from relay.merge.resolution.service import MergeConflicts, found
from relay.merge.resolution.wording import listed
from relay.model import Refusal
from relay.store.ports import Store
from tests.engines import BOTH, all_events, open_store
from tests.git.repository import Room, repository, room, write
from tests.room.parts import notices

pytestmark = BOTH
PAIR = ("AVA", "BEN")
TOTAL = Conflict(
    3,
    "signature_and_call",
    Severity.CRITICAL,
    "price.py",
    "total",
    Side("def total(items): ...", "def total(items, rate): ..."),
    Side(None, "def both(): ..."),
    ("AVA changes the head of the function total (price.py:1-2): it asks for rate.", "BEN adds both."),
    "4f2a",
)
FAILS = "import sys\nfrom a import one\nfrom b import two\nsys.exit(one() + two() > 4)\n"
FILES: dict[str, str | bytes] = {
    "a.py": "def one():\n    return 1\n",
    "b.py": "def two():\n    return 2\n",
    "check.py": FAILS,
}


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = await open_store(tmp_path / "store", SCHEMAS)
    yield opened
    assert await verify(opened) == []
    await opened.close()


async def test_a_conflict_is_found_once_renewed_in_silence_and_ended(store: Store) -> None:
    log = FindingLog(store)
    await log.record(3, {PAIR: [TOTAL]})
    await log.record(3, {PAIR: [TOTAL]})
    (event,) = await all_events(store, journal.FOUND)
    assert event.outputs | TOTAL.as_json() == event.outputs
    assert (event.outputs["sides"], event.outputs["paths"]) == (["AVA", "BEN"], ["price.py"])
    (shown,) = await MergeConflicts(store).list(only_open=True)
    assert shown | TOTAL.as_json() == shown and shown["reference"] == "c1"

    later = replace(TOTAL, b=Side(None, "def both(a): ..."), evidence=("AVA does.", "BEN does."))
    await FindingLog(store).record(3, {PAIR: [later]})
    (shown,) = await MergeConflicts(store).list()
    assert (shown["id"], shown["evidence"]) == (TOTAL.id, ["AVA does.", "BEN does."])
    await log.record(3, {PAIR: None})
    await log.record(4, {})
    assert (await MergeConflicts(store).list(only_open=True))[0]["state"] == "open", "nobody looked"
    assert len(await all_events(store, journal.FOUND, journal.RESOLVED)) == 1

    await log.record(3, {PAIR: []})
    (ended,) = await all_events(store, journal.RESOLVED)
    assert (ended.outputs["id"], ended.outputs["state"], ended.parents[0]) == (TOTAL.id, "resolved", event.id)
    assert await MergeConflicts(store).list(only_open=True) == []
    await log.record(3, {PAIR: [TOTAL]})
    await log.record(3, {})
    assert [one["state"] for one in await MergeConflicts(store).list()] == ["resolved", "resolved"]


async def test_the_list_has_them_and_nothing_is_chosen_in_them(store: Store) -> None:
    await FindingLog(store).record(3, {PAIR: [TOTAL]})
    open_ = await store.read(lambda tx: found(tx, only_open=True))
    text = listed(open_, "no command is configured: set `merge.test`")
    assert "c1 `price.py`, `total`: level 3, critical. AVA changes the head of the function total" in text
    assert text.endswith(
        "Level 4 (tests of the merged tree) is not run: no command is configured: set `merge.test`."
    )
    with pytest.raises(Refusal, match="c1 is of level 3"):
        await store.read(lambda tx: journal.conflict(tx, 1))
    assert await store.read(lambda tx: findings.finding(tx, 2)) is None


async def test_what_the_airspace_sees_across_files_is_recorded(store: Store) -> None:
    conflict = SemanticConflict(
        TOTAL.evidence, "price.py", "x.py", (1, 2), "total", "critical", TOTAL.as_json()
    )
    observer = SimpleNamespace(
        semantic={PAIR: SemanticCheck((conflict,)), ("AVA", "CAT"): SemanticCheck(pending=True)}
    )
    scanner: Any = SimpleNamespace(observer=observer)
    log = ConflictLog(store, scanner, FindingLog(store))
    assert log.across_files() == {PAIR: [TOTAL], ("AVA", "CAT"): None}


class Place:
    """Two agents' worktrees of a repository, and what tests their work together."""

    def __init__(self, room: Room, store: Store, folder: Path) -> None:
        self.room, self.store = room, store
        settings = replace(room.settings, merge=self.merge(room))
        self.settings: Any = SimpleNamespace(current=settings)
        self.checks = BehaviourChecks(store, self.settings, room.registry, FindingLog(store))

    @staticmethod
    def merge(room: Room, *argv: str, every: float = 60.0) -> MergeSettings:
        return MergeSettings(test=argv or (sys.executable, "check.py"), test_every_s=every)

    async def change(self, agent: str, files: dict[str, str | bytes]) -> None:
        write(self.room.at(agent), files)
        await self.room.look()

    async def open(self) -> list[dict[str, Any]]:
        return await MergeConflicts(self.store).list(only_open=True)


@pytest.fixture
async def place(store: Store, tmp_path: Path) -> Place:
    return Place(await room(repository(tmp_path / "repo", FILES), *PAIR), store, tmp_path)


async def test_l4_tests_that_fail_on_the_merged_tree_only_are_found_and_told(place: Place) -> None:
    await place.change("AVA", {"a.py": "def one():\n    return 1  # as ever\n"})
    await place.change("BEN", {"b.py": "def two():\n    return 1 + 1\n"})
    await place.checks.round()
    assert await place.open() == [] and place.checks.not_run() == ""
    await place.change("AVA", {"a.py": "def one():\n    return 2\n"})
    await place.change("BEN", {"b.py": "def two():\n    return 3\n"})
    await place.checks.round()
    (conflict,) = await place.open()
    assert (conflict["level"], conflict["kind"], conflict["severity"]) == (
        4,
        "tests_fail_together",
        "critical",
    )
    assert conflict["evidence"][:2] == ["AVA passes the tests.", "BEN passes the tests."]
    assert "The merged tree fails them with exit code 1" in conflict["evidence"][2]
    (told,) = await notices(place.store, "conflict")
    assert told.body.startswith("**Conflict c1** (level 4, critical): git merges the work of AVA and of BEN")
    await place.checks.round()
    assert len(await all_events(place.store, journal.FOUND)) == 1
    await place.change("BEN", {"b.py": "def two():\n    return 2  # again\n"})
    await place.checks.round()
    assert await place.open() == [] and len(await all_events(place.store, journal.RESOLVED)) == 1


async def test_l4_what_cannot_be_tested_is_said(place: Place) -> None:
    await place.change("AVA", {"a.py": "def one():\n    return 0\n"})
    await place.change("BEN", {"a.py": "def one():\n    return -1\n"})
    await place.checks.round()
    assert (
        place.checks.not_run() == "AVA and BEN: git cannot merge the two, so there is no merged tree to test"
    )
    place.settings.current = replace(place.settings.current, merge=MergeSettings())
    assert place.checks.not_run() == "no command is configured: set `merge.test`"
    await place.checks.round()
    merge = MergeSettings(test=("true",))
    place.settings.current = replace(place.settings.current, merge=merge)
    assert place.checks.not_run().startswith("`merge.test_every_s` is 0")
    assert await all_events(place.store, journal.FOUND) == []
