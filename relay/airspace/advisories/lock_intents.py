"""What agents hold locks on, as a part of what they are about to touch.

Invariants: a lock on a file counts as its holder's intent on that file; one on a folder or a pattern as the intent on
files that it covers, first those that somebody else works on or means to, and a bounded number of the rest; only the
agents of the room count, and no lock on a logical key does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from itertools import islice

from relay.airspace.advisories.intents import MOST_PATHS, Declared, Source
from relay.model import HeldPath, HeldPaths
from relay.model.working_set import WorkingSet, all_paths
from relay.store.ports import Store

_LOCK = frozenset({Source.LOCK})


class LockIntents:
    """Of the locks that a store holds."""

    def __init__(self, store: Store, locks: HeldPaths) -> None:
        self._store, self._locks = store, locks
        #: What a pattern covers of the files, while these are as many.
        self._known: dict[str, tuple[int, list[str]]] = {}

    async def intents(
        self, sets: Mapping[str, WorkingSet], agents: Collection[str], files: Sequence[str]
    ) -> Declared:
        """By agent and path, as `intents.declared`. `files`: those that the graph knows."""
        locks = [lock for lock in await self._store.read(self._locks.held) if lock.agent in agents]
        return await asyncio.to_thread(self._of, locks, sets, files) if locks else {}

    def _of(
        self, locks: Sequence[HeldPath], sets: Mapping[str, WorkingSet], files: Sequence[str]
    ) -> Declared:
        in_hand = {
            name: all_paths((*working_set.files, *working_set.intent)) for name, working_set in sets.items()
        }
        self._known = {lock.path: self._known[lock.path] for lock in locks if lock.path in self._known}
        by_agent: dict[str, dict[str, frozenset[Source]]] = {}
        for lock in locks:
            others = {path for name, paths in in_hand.items() if name != lock.agent for path in paths}
            met = sorted(path for path in others if lock.covers(path))[:MOST_PATHS]
            # What is locked by its name may be a file that is not there yet, or a folder.
            covered = met or [lock.path] if lock.file else [*met, *self._matched(lock, files)]
            paths = dict.fromkeys(list(dict.fromkeys(covered))[:MOST_PATHS], _LOCK)
            if paths:
                by_agent.setdefault(lock.agent, {}).update(paths)
        return by_agent

    def _matched(self, lock: HeldPath, files: Sequence[str]) -> Sequence[str]:
        count, matched = self._known.get(lock.path, (-1, []))
        if count != len(files):
            matched = list(islice(filter(lock.covers, files), MOST_PATHS))
            self._known[lock.path] = len(files), matched
        return matched
