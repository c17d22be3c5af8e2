"""What a person lives through: a name, work that goes astray, a look at what would go, back, and back again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from relay.airspace.worktrees.registry import WorktreeRegistry
from relay.app.wiring.room_actions import TimelineActions
from relay.app.wiring.schema import SCHEMAS
from relay.app.wiring.timeline import TimelineRecording
from relay.app.wiring.worktree_room import StoredWorktreeRoom
from relay.config.settings import LiveSettings
from relay.coordination.writes.fencing import LockCheck
from relay.faces.rewinds import RewindService
from relay.faces.timeline import TimelineService
from relay.git.checkout import open_checkout
from relay.git.diff import changed_files, touches_of
from relay.git.snapshot import Snapshotter
from relay.log.events import Event, Lane
from relay.model.actions import Rewind, UndoRewind
from relay.model.touches import Source
from relay.room.dispatch.roster import Member, Policy, Roster
from relay.store.ports import Store
from relay.timeline import checkpoints, projection
from relay.timeline.file_changes import record_changes, record_reads
from tests import engines
from tests.engines import BOTH, Clock, all_events, check_log
from tests.git.repository import Room, git, repository, write
from tests.room.office import Office

pytestmark = BOTH
CODEX, CLAUDE = Lane("s-codex", "CODEX"), Lane("s-claude", "CLAUDE")
FILES: dict[str, str | bytes] = {"app.py": "one\ntwo\nthree\n"}


@dataclass(frozen=True)
class Floor:
    """A room with its steward at work, two agents' worktrees and the timeline of their work."""

    store: Store
    registry: WorktreeRegistry
    service: TimelineService
    actions: TimelineActions
    office: Office

    def top(self, lane: Lane) -> Path:
        return self.registry.worktrees[lane.name].checkout.top

    async def edit(self, lane: Lane, edits: dict[str, str | None], where: Lane | None = None) -> Event:
        """What a lane does to files in its worktree, or in another's, with its event."""
        worktree = (where or lane).name
        checkout = await open_checkout(self.top(where or lane))
        snapshotter = Snapshotter(self.registry.scratch, checkout, f"test-{worktree}")
        before = (await snapshotter.take()).tree
        for path, text in edits.items():
            if text is None:
                (checkout.top / path).unlink()
            else:
                write(checkout.top, {path: text})
        after = (await snapshotter.take()).tree
        touches = touches_of(await changed_files(self.registry.scratch.git(checkout), before, after))
        event = await self.store.write(
            lambda tx: record_changes(
                tx, lane, touches, source=Source.TREE, before=before, after=after, worktree=worktree
            )
        )
        assert event is not None
        self.registry.worktrees[worktree].mark_stale(None)
        return event

    async def say(self, text: str) -> str:
        return (await self.office.ask(text)).body

    def read(self, lane: Lane, path: str = "app.py") -> str:
        return (self.top(lane) / path).read_text()


@pytest.fixture
async def floor(tmp_path: Path) -> AsyncIterator[Floor]:
    store = await engines.open_store(tmp_path, SCHEMAS)
    settings = Room(repository(tmp_path / "repo", FILES), "CODEX", "CLAUDE").settings
    registry = WorktreeRegistry(settings, StoredWorktreeRoom(store, LockCheck(fold=False)))
    await registry.open()
    log = TimelineRecording(store, registry, LiveSettings(settings))
    service = TimelineService(store, registry)
    actions = TimelineActions(RewindService(store, registry, log), service)
    members = {name: Member(name, "played", Policy(name)) for name in ("CODEX", "CLAUDE")}
    office = Office(store, Clock(), Roster(members), timeline=actions)
    async with office.at_work():
        yield Floor(store, registry, service, actions, office)
    await store.close()


async def test_back_to_a_name_and_forth(floor: Floor) -> None:
    assert "is the main branch's files as they are now" in await floor.say("/checkpoint start")
    good = await floor.edit(CODEX, {"app.py": "ONE\ntwo\nthree\n", "junk.py": "junk\n"})
    assert "`mid` is CODEX's files as they are now" in await floor.say("/checkpoint mid of @CODEX")
    blob = git(floor.top(CODEX), "hash-object", "app.py")
    await floor.store.write(lambda tx: record_reads(tx, CLAUDE, {"app.py": blob}, source="tool"))
    await floor.edit(CODEX, {"app.py": "ONE\ntwo\nastray\n"})
    await floor.say("/checkpoint mid of @CODEX")

    preview = await floor.say("/rewind codex to start preview")
    assert preview.startswith("Nothing is done yet.")
    assert "- `app.py`: as before\n- `junk.py`: gone" in preview
    assert "Others had read what goes:\n- CLAUDE: `app.py`" in preview
    assert '`/rewind "CODEX" to "start"` does it.' in preview
    assert floor.read(CODEX) == "ONE\ntwo\nastray\n"
    assert await all_events(floor.store, "timeline.rewound") == []

    done = await floor.say("/rewind codex to start")
    assert done.startswith("ann took back what CODEX did since start in CODEX's worktree: 2 files.")
    assert "Others had read what goes:\n- CLAUDE: `app.py`" in done
    assert done.endswith("`/rewind undo` undoes it.")
    assert floor.read(CODEX) == "one\ntwo\nthree\n"
    assert not (floor.top(CODEX) / "junk.py").exists()

    assert "brought back what" in await floor.say("/rewind undo")
    assert floor.read(CODEX) == "ONE\ntwo\nastray\n"
    assert "There is no rewind to undo." in await floor.say("/rewind undo")

    await floor.say("/rewind codex to mid~1")
    assert (floor.read(CODEX), floor.read(CODEX, "junk.py")) == ("ONE\ntwo\nthree\n", "junk\n")
    unknown = await floor.say("/rewind codex to middle")
    assert "There is no checkpoint 'middle'. Checkpoints: mid, start." in unknown

    jump = await floor.service.jump("mid", None)
    assert (Path(jump["folder"]) / "app.py").read_text() == "ONE\ntwo\nastray\n"
    assert git(Path(jump["folder"]), "status", "--porcelain") == ""
    assert floor.read(CODEX) == "ONE\ntwo\nthree\n"
    assert sorted(floor.registry.worktrees) == ["CLAUDE", "CODEX"]
    await floor.registry.open()
    assert sorted(floor.registry.worktrees) == ["CLAUDE", "CODEX"], "a moment's worktree is no agent's"
    assert await floor.service.jumps() == [{"folder": jump["folder"], "commit": jump["commit"]}]
    await floor.service.remove_jump(jump["folder"])
    assert await floor.service.jumps() == []
    (differs,) = (await floor.service.diff("mid~1", "mid", None, ""))["files"]
    assert "-three\n+astray\n" in differs["patch"]
    assert good.snapshot == (await floor.service.tree("mid~1", None, ""))["tree"]
    await check_log(floor.store)


async def test_others_lines_in_the_way_are_told_and_nothing_is_done(floor: Floor) -> None:
    await floor.say("/checkpoint start")
    await floor.edit(CODEX, {"app.py": "one\nTWO\nthree\n", "junk.py": "junk\n"})
    await floor.edit(CLAUDE, {"app.py": "one\nTWO and more\nthree\n"}, where=CODEX)
    answer = await floor.say("/rewind codex to start")
    assert answer.startswith("Nothing was done:")
    assert "In conflict, and left as it is:\n- `app.py`" in answer
    assert (floor.top(CODEX) / "junk.py").exists()
    assert "partial` leaves these files as they are and does the rest." in answer
    done = await floor.say("/rewind codex to start partial")
    assert "undoes it" in done
    assert not (floor.top(CODEX) / "junk.py").exists()
    assert floor.read(CODEX) == "one\nTWO and more\nthree\n"


async def test_nothing_is_taken_back_while_the_agents_turn_runs(floor: Floor) -> None:
    """In no place: neither what it is just writing, nor what has landed; a preview is given."""
    await floor.say("/checkpoint start")
    await floor.edit(CODEX, {"app.py": "1\n"})
    git(floor.top(CODEX), "commit", "-q", "-am", "landed")
    repo = floor.registry.main.top  # type: ignore[union-attr]
    git(repo, "merge", "-q", "--ff-only", git(floor.top(CODEX), "rev-parse", "HEAD"))
    refs = git(repo, "for-each-ref", "refs/heads")

    async def running(*orders: str) -> None:
        floor.registry.turn_trees["CODEX"] = "half written"
        for order in orders:
            assert "CODEX's turn is running." in await floor.say(order)
            assert "Nothing is done yet." in await floor.say(f"{order} preview")
        del floor.registry.turn_trees["CODEX"]

    into = [f"/rewind codex to start into {place}" for place in ("worktree", "main", "new")]
    await running("/rewind codex to start", *into)
    assert await all_events(floor.store, "timeline.rewound") == []
    assert git(repo, "for-each-ref", "refs/heads") == refs
    await floor.say(into[1])
    await running("/rewind undo")
    assert "brought back" in await floor.say("/rewind undo")
    await running("/rewind redo")
    assert (repo / "app.py").read_text() == "1\n"
    await floor.edit(CLAUDE, {"app.py": "2\n"})
    floor.registry.turn_trees["CODEX"] = "half written"
    assert "took back what CLAUDE did" in await floor.say("/rewind claude to start")


async def test_an_order_is_carried_out_once(floor: Floor) -> None:
    """The room was ended behind the act and before its answer: the same order comes again."""
    await floor.say("/checkpoint start")
    await floor.edit(CODEX, {"app.py": "1\n"})
    await floor.edit(CODEX, {"app.py": "2\n"})
    first = await all_events(floor.store, "files.changed")
    for number, to in enumerate((f"#{first[0].pos}", "start")):
        action = Rewind("CODEX", to)
        said = await floor.actions.carry_out(action, by="ann", source_key=f"order:{number}")
        assert await floor.actions.carry_out(action, by="ann", source_key=f"order:{number}") == said
    assert floor.read(CODEX) == "one\ntwo\nthree\n"
    for _ in range(2):
        await floor.actions.carry_out(UndoRewind(), by="ann", source_key="order:undo")
    assert floor.read(CODEX) == "1\n", "one rewind was undone, not two"
    assert len(await all_events(floor.store, "timeline.undone")) == 1


async def test_what_is_written_straight_into_the_transcript_takes_nothing_back(floor: Floor) -> None:
    await floor.edit(CODEX, {"app.py": "1\n"})
    answer = await floor.office.ask("/rewind codex to -1h", verified=False)
    assert "proves nobody" in answer.body
    assert floor.read(CODEX) == "1\n"


async def test_the_tables_are_rebuilt_behind_it(floor: Floor) -> None:
    await floor.say("/checkpoint start")
    await floor.edit(CODEX, {"app.py": "1\n"})
    await floor.say("/rewind codex to start")
    await floor.say("/checkpoint start of @CODEX")
    kept = await floor.store.read(checkpoints.newest)
    await projection.rebuild(floor.store)
    await checkpoints.rebuild(floor.store)
    assert await floor.store.read(checkpoints.newest) == kept
    assert [each.metadata["worktree"] for each in kept] == ["CODEX", "main"]
