"""What agents hold locks on, as a part of what they are about to touch.

Invariants: a lock on a file counts as its holder's intent on that file; one on a folder or a pattern as the intent on
files that it covers, first those that somebody else works on or means to, and a bounded number of the rest; only the
agents of the room count, and no lock on a logical key does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

from relay.airspace.advisories.intents import MOST_PATHS, Declared, Source
from relay.model import HeldPath
from relay.model.working_set import WorkingSet, all_paths

_LOCK = frozenset({Source.LOCK})


class LockIntents:
    """`locks` gives those that hold now; `files` the files that the graph knows."""

    def __init__(
        self,
        locks: Callable[[], Awaitable[Sequence[HeldPath]]],
        files: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        self._locks, self._files = locks, files
        #: What a pattern covers of the files, while these are as many.
        self._known: dict[str, tuple[int, list[str]]] = {}

    async def intents(self, sets: Mapping[str, WorkingSet], agents: Collection[str]) -> Declared:
        """By agent and path, as `intent.declared` gives what was said."""
        locks = [lock for lock in await self._locks() if lock.agent in agents]
        return await asyncio.to_thread(self._of, locks, sets) if locks else {}

    def _of(self, locks: Sequence[HeldPath], sets: Mapping[str, WorkingSet]) -> Declared:
        in_hand = {
            name: all_paths((*working_set.files, *working_set.intent)) for name, working_set in sets.items()
        }
        self._known = {lock.path: self._known[lock.path] for lock in locks if lock.path in self._known}
        found: dict[str, dict[str, frozenset[Source]]] = {}
        for lock in locks:
            others = {path for name, paths in in_hand.items() if name != lock.agent for path in paths}
            met = sorted(path for path in others if lock.covers(path))[:MOST_PATHS]
            for path in covered(lock, met, () if lock.file else self._files_of(lock)):
                found.setdefault(lock.agent, {})[path] = _LOCK
        return found

    def _files_of(self, lock: HeldPath) -> Sequence[str]:
        files = self._files()
        count, matched = self._known.get(lock.path, (-1, []))
        if count != len(files):
            matched = []
            for path in files:
                if len(matched) == MOST_PATHS:
                    break
                if lock.covers(path):
                    matched.append(path)
            self._known[lock.path] = len(files), matched
        return matched


def covered(lock: HeldPath, met: Sequence[str], known: Sequence[str]) -> list[str]:
    """The files that a lock stands for: others have `met` in hand, the repository has `known`, all covered. Pure."""
    if lock.file:
        # What is locked by its name may be a file that is not there yet, or a folder.
        return list(met) or [lock.path]
    return list(dict.fromkeys([*met, *known]))[:MOST_PATHS]
