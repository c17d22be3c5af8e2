"""The timeline for callers of an operation: to look, with a daemon and without one.

Invariant: reads only, the same for every caller, but for what a session holds ready for itself. git is imported
and asked when files are wanted, and not before.
"""

from __future__ import annotations

from typing import Any

from relay.config.settings import LiveSettings
from relay.log import events
from relay.log.events import Lane
from relay.model import Caller, Fault, Refusal
from relay.store.ports import Store, Tx
from relay.timeline import checkpoints, moments, reading
from relay.timeline.reading import Filter

Json = dict[str, Any]
#: Characters of one file's difference that a model is shown, and of all.
MOST_PATCH, MOST_PATCHES = 8_000, 40_000


class TimelineLook:
    """Looks into one room's timeline."""

    def __init__(self, store: Store, settings: LiveSettings) -> None:
        self._store, self._settings = store, settings

    async def log(
        self, caller: Caller, lane: str | None, path: str | None, since: str | None, limit: int
    ) -> Json:
        """`{events: [{...head, said}]}`, the newest, oldest first; `said`: who did what, in words. Raises Refusal."""

        async def work(tx: Tx) -> list[Json]:
            after = 0 if since is None else (await moments.resolve(tx, since)).pos
            found = await reading.page(tx, Filter(lane, path, after=after), limit)
            return [
                {**reading.head(event), "said": f"{reading.author(event)} {reading.words(event)}"}
                for event in found
            ]

        return {"events": await self._store.read(work)}

    async def show(self, caller: Caller, moment: str) -> Json:
        """`{event}` with its `inputs`, `outputs` and `knew`. Raises Refusal."""

        async def work(tx: Tx) -> Json:
            found = await moments.resolve(tx, moment)
            event = None if found.event is None else await events.get(tx, found.event)
            if event is None:
                raise Refusal("There is no event before that.", "", Fault.UNKNOWN, "unknown_moment")
            reader = None if caller.person else Lane(caller.session, caller.agent).key
            return await reading.whole(tx, event, reader=reader)

        return {"event": await self._store.read(work)}

    async def files(self, caller: Caller, path: str | None, limit: int) -> Json:
        """`{files, more}`: who wrote each file last; `more`: how many were left out."""
        found = await self._store.read(lambda tx: reading.workspace(tx, path or ""))
        return {"files": found[:limit], "more": max(0, len(found) - limit)}

    async def checkpoints(self, caller: Caller, limit: int) -> Json:
        """`{checkpoints}`, the newest first."""
        found = await self._store.read(lambda tx: checkpoints.newest(tx, limit))
        return {"checkpoints": [each.as_json() for each in found]}

    async def diff(
        self, caller: Caller, a: str, b: str | None, lane: str | None, path: str | None, limit: int
    ) -> Json:
        """`{files, more}`: what two moments differ in; a `patch` that is too long is null. Raises Refusal."""
        from relay.faces.timeline import git_refusing
        from relay.git.checkout import open_checkout
        from relay.git.scratch_repository import ScratchRepository
        from relay.timeline import compare

        settings, left = self._settings.current, MOST_PATCHES
        with git_refusing():
            main = await open_checkout(settings.repo)
            scratch = ScratchRepository(settings.runtime_dir / "airspace.git")
            # What nobody committed stands in the scratch of a room that runs; without one, what is kept.
            git = scratch.git(main) if (scratch.folder / "HEAD").exists() else main.git
            found = await compare.diff_view(self._store, git, a, b, lane, path or "")
        files: list[Json] = found["files"]
        for file in files[:limit]:
            if file["patch"] is not None and len(file["patch"]) > min(MOST_PATCH, left):
                file["patch"] = None
            left -= len(file["patch"] or "")
        return {"files": files[:limit], "more": max(0, len(files) - limit)}
