"""The timeline's moments as HTTP asks for them: how files stood, what differs, checkpoints.

Invariant: what git cannot do is a Refusal with git's reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from relay.airspace.worktrees.registry import WorktreeRegistry
from relay.git.run import Git, GitError
from relay.model import Fault, Refusal
from relay.store.ports import Store
from relay.timeline import checkpoints, compare


class TimelineService:
    """The moments of one room. `registry`: its worktrees, opened."""

    def __init__(self, store: Store, registry: WorktreeRegistry) -> None:
        self._store, self._registry = store, registry

    async def tree(self, at: str | None, lane: str | None, path: str) -> dict[str, Any]:
        """A folder at a moment, as `compare.tree_view`. Raises Refusal."""
        with git_refusing():
            return await compare.tree_view(self._store, self._git, at, lane, path)

    async def file(self, at: str | None, lane: str | None, path: str) -> dict[str, Any]:
        """A file at a moment, as `compare.file_view`. Raises Refusal."""
        with git_refusing():
            return await compare.file_view(self._store, self._git, at, lane, path)

    async def diff(self, a: str, b: str | None, lane: str | None, path: str) -> dict[str, Any]:
        """What two moments differ in, as `compare.diff_view`. Raises Refusal."""
        with git_refusing():
            return await compare.diff_view(self._store, self._git, a, b, lane, path)

    async def checkpoints(self, limit: int) -> list[dict[str, Any]]:
        """The newest checkpoints, the newest first."""
        found = await self._store.read(lambda tx: checkpoints.newest(tx, limit))
        return [each.as_json() for each in found]

    @property
    def _git(self) -> Git:
        main = self._registry.main
        if main is None:
            reason = self._registry.trouble or "the repository is not known yet"
            raise Refusal(
                f"There are no files to look at: {reason}.",
                "Try again when that is mended.",
                Fault.UNAVAILABLE,
            )
        return self._registry.scratch.git(main)


@contextmanager
def git_refusing() -> Iterator[None]:
    """Turn what git cannot do into a Refusal."""
    try:
        yield
    except GitError as error:
        raise Refusal(f"git could not do it: {error}.", "", Fault.UNAVAILABLE) from error
