"""A room's repository with agents at work in it, and the rewinds of their work."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from relay.git.checkout import Checkout, head_of, open_checkout
from relay.git.diff import changed_files, touches_of
from relay.git.kept_snapshots import KeptSnapshots
from relay.git.scratch_repository import ScratchRepository
from relay.git.snapshot import Snapshot, Snapshotter
from relay.log import events
from relay.log.commit_trailers import EVENT
from relay.log.events import Event, Lane, NewEvent
from relay.model.touches import Source
from relay.store.ports import Store
from relay.timeline import file_changes
from relay.timeline.projection import last_tree
from relay.timeline.rewind.plan import RewindPlaces, RewindPlan, RewindRequest
from relay.timeline.rewind.service import Rewinds
from tests import engines
from tests.git.repository import git, repository, write

SCHEMAS = engines.wings("log", "timeline")
ANN, MAIN = Lane("room", "human:ANN"), Lane("room", "main")
CODEX, CLAUDE = Lane("s-codex", "CODEX"), Lane("s-claude", "CLAUDE")
#: Files to write by path; None: to delete.
Edits = Mapping[str, str | bytes | None]


class Stage:
    """`main` is the room's checkout; `worktrees` has the agents' own, by lane."""

    def __init__(self, store: Store, scratch: ScratchRepository, main: Checkout) -> None:
        self.store, self.scratch, self.main = store, scratch, main
        self.kept = KeptSnapshots(scratch, main)
        self.rewinds = Rewinds(store, scratch, main, self.kept)
        self.worktrees: dict[Lane, Checkout] = {}
        self._trees: dict[Path, str] = {}

    @classmethod
    async def open(cls, folder: Path, files: dict[str, str | bytes] | None = None, **more: Any) -> Stage:
        """`more` are options of the store."""
        top = folder / "repo"
        if not top.exists():
            repository(top, files)
            git(top, "config", "core.abbrev", "40")
        main = await open_checkout(top)
        scratch = ScratchRepository(folder / "scratch")
        await scratch.empty(main.hash)
        await scratch.borrow([main])
        stage = cls(await engines.open_store(folder, SCHEMAS, **more), scratch, main)
        for lane in (CODEX, CLAUDE):
            if (folder / lane.name.lower()).exists():
                await stage.give_worktree(lane)
        return stage

    async def give_worktree(self, lane: Lane) -> Path:
        """A worktree of the lane's own, on a branch of its own."""
        top = self.main.top.parent / lane.name.lower()
        if not top.exists():
            git(self.main.top, "worktree", "add", "-q", "-b", f"relay/{top.name}", str(top))
        self.worktrees[lane] = await open_checkout(top)
        await self.scratch.borrow([self.worktrees[lane]])
        return top

    async def snapshot(self, checkout: Checkout) -> Snapshot:
        return await Snapshotter(self.scratch, checkout, f"test-{checkout.top.name}").take()

    async def edit(self, lane: Lane, edits: Edits) -> Event:
        """What a lane does to files, where it works, with its event."""
        checkout = self.worktrees.get(lane, self.main)
        before = (await self.snapshot(checkout)).tree
        for path, content in edits.items():
            if content is None:
                (checkout.top / path).unlink()
            else:
                write(checkout.top, {path: content})
        after = (await self.snapshot(checkout)).tree
        touches = touches_of(await changed_files(self.scratch.git(checkout), before, after))
        event = await self.store.write(
            lambda tx: file_changes.record_changes(
                tx, lane, touches, source=Source.TREE, before=before, after=after, worktree=lane.name
            )
        )
        assert event is not None
        return event

    async def merge(self, lane: Lane) -> None:
        """Merge a lane's worktree into the main branch, as relay does."""
        top = self.worktrees[lane].top
        git(top, "add", "-A")
        git(top, "commit", "-q", "-m", f"work of {lane.name}")
        before = git(self.main.top, "rev-parse", "HEAD^{tree}")
        git(self.main.top, "merge", "-q", "--no-edit", "--no-ff", f"relay/{top.name}")
        after = git(self.main.top, "rev-parse", "HEAD^{tree}")
        change = {"change": "merged", "agent": lane.name, "branch": f"relay/{top.name}", "by": "ANN"}
        new = NewEvent("worktree.changed", Lane("room", "worktrees", short=True), outputs=change)
        merged = await self.store.write(lambda tx: events.append(tx, new))
        known = await self.store.read(lambda tx: last_tree(tx, lane.name))
        assert known is not None
        # The main branch says once more what came onto it.
        touches = touches_of(await changed_files(self.scratch.git(self.main), before, after))
        await self.store.write(
            lambda tx: file_changes.record_changes(
                tx,
                MAIN,
                touches,
                source=Source.TREE,
                before=before,
                after=after,
                worktree="main",
                parents=[known.event, merged.id],
            )
        )

    async def record_main(self, lane: Lane = MAIN, **more: Any) -> Event | None:
        """Record the main branch's newest commit, as the room does: that of a rewind comes of the rewind."""
        before, after = (
            git(self.main.top, "rev-parse", f"{commit}^{{tree}}") for commit in ("HEAD^", "HEAD")
        )
        touches = touches_of(await changed_files(self.scratch.git(self.main), before, after))
        named = git(self.main.top, "log", "-1", f"--format=%(trailers:key={EVENT},valueonly)").strip()
        return await self.store.write(
            lambda tx: file_changes.record_changes(
                tx,
                lane,
                touches,
                source=Source.TREE if lane is MAIN else Source.PERSON,
                before=before,
                after=after,
                worktree="main",
                commit=git(self.main.top, "rev-parse", "HEAD"),
                parents=[named] if named else [],
                **more,
            )
        )

    async def commit(self, message: str) -> None:
        """Commit what stands in the main checkout."""
        git(self.main.top, "add", "-A")
        git(self.main.top, "commit", "-q", "-m", message)

    async def places(self, lane: Lane | None = None) -> RewindPlaces:
        checkout = None if lane is None else self.worktrees.get(lane)
        worktree = None if checkout is None else (checkout, await self.snapshot(checkout))
        return RewindPlaces(await head_of(self.main.git), worktree)

    async def plan(self, lane: Lane, after: Event | int = 0, **more: Any) -> RewindPlan:
        at = after if isinstance(after, int) else after.pos
        asked: dict[str, Any] = {"author": "ANN", "by": ANN, **more}
        request = RewindRequest(lane.name, f"#{at}", at, **asked)
        return await self.rewinds.plan(request, await self.places(lane))

    async def rewind(self, lane: Lane, after: Event | int = 0, **more: Any) -> dict[str, Any]:
        return await self.rewinds.apply(await self.plan(lane, after, **more))

    async def undo(self, lane: Lane | None = None, *, partial: bool = False) -> dict[str, Any]:
        places = await self.places(lane)
        return await self.rewinds.apply(await self.rewinds.plan_undo("ANN", ANN, places, partial=partial))

    async def redo(self, lane: Lane | None = None) -> dict[str, Any]:
        return await self.rewinds.apply(await self.rewinds.plan_redo("ANN", ANN, await self.places(lane)))

    def show(self, revision: str) -> dict[str, str]:
        """The files of a commit."""
        names = git(self.main.top, "ls-tree", "-r", "--name-only", revision).split("\n")
        return {name: git(self.main.top, "show", f"{revision}:{name}") + "\n" for name in names if name}


def files_of(top: Path) -> dict[str, str]:
    """The files of a checkout, without git's own."""
    return {
        str(path.relative_to(top)): path.read_text()
        for path in sorted(top.rglob("*"))
        if path.is_file() and path.relative_to(top).parts[0] != ".git"
    }
