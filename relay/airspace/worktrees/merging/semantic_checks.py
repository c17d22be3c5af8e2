"""What one worktree changes and another comes to rely on, though git merges the two (docs/conflicts.md).

Invariants:
- two are looked at again only when the tree of one of them is another, or its base; one pair at a time, and as long
  as a look took there is none after it, so half of one processor at most is used;
- what was found holds until a look at the two as they stand does not find it; what could not be looked at is said.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import structlog

from relay.airspace.pair_facts import SemanticCheck
from relay.airspace.shared.shared_work import SharedWork
from relay.airspace.worktrees.room import Unchecked, WorktreeRoom
from relay.airspace.worktrees.tracked_worktree import TrackedWorktree
from relay.code.read.grammar import language_of
from relay.git.checkout import Checkout
from relay.git.scratch_repository import ScratchRepository
from relay.model.working_set import Pair

log = structlog.get_logger(__name__)
#: Looks that are remembered.
REMEMBERED = 5_000

#: What a look follows from: of each side the tree, and the commit that its work started from; or its commit alone.
_Key = tuple[tuple[str, str], tuple[str, str]]


@dataclass(frozen=True, slots=True)
class _Side:
    key: tuple[str, str]
    commit: str


class SemanticChecks:
    """Looks at the pairs that `of` was asked about last, in its order, while `run` runs. `changed` is called when
    something new is known."""

    def __init__(
        self, scratch: ScratchRepository, worktrees: Mapping[str, TrackedWorktree], room: WorktreeRoom
    ) -> None:
        self._scratch, self._worktrees, self._room = scratch, worktrees, room
        #: The main checkout; None until the registry has found it.
        self.main: Checkout | None = None
        #: The agents of the fleet's other members.
        self.others: Mapping[str, SharedWork] = {}
        self.changed: Callable[[], None] = lambda: None
        #: How many looks there were.
        self.looks = 0
        self._known: OrderedDict[_Key, SemanticCheck] = OrderedDict()
        #: Of each pair, what the last look at it found, however it stood then.
        self._last: dict[Pair, SemanticCheck] = {}
        self._wanted: tuple[Pair, ...] = ()
        self._asked = asyncio.Event()

    def forget(self) -> None:
        """What could not be looked at is tried again: the scratch was emptied, or the configuration is another."""
        for key, check in list(self._known.items()):
            if check.why:
                del self._known[key]
        self._asked.set()

    def able(self) -> list[Pair]:
        """The pairs of which both have changed code."""
        own = {name for name, each in self._worktrees.items() if each.work and _has_code(each.work.paths)}
        told = {name for name, other in self.others.items() if other.at_hand and _has_code(other.paths)}
        names = sorted(own | (told - self._worktrees.keys()))
        return [(a, b) for at, a in enumerate(names) for b in names[at + 1 :]]

    def of(self, pairs: Sequence[Pair]) -> Mapping[Pair, SemanticCheck]:
        """What is known of these pairs, the most urgent first; those that were never looked at are pending."""
        self._wanted = tuple(pairs)
        self._last = {pair: check for pair, check in self._last.items() if pair in set(pairs)}
        found = {}
        for pair in pairs:
            key = self._key(pair)
            known = self._known.get(key) if key is not None else None
            before = self._last.get(pair, SemanticCheck())
            found[pair] = known or replace(before, why="", pending=True)
        if any(check.pending for check in found.values()):
            self._asked.set()
        return found

    async def run(self) -> None:
        """Look for ever at what was asked and is not known."""
        loop = asyncio.get_running_loop()
        while True:
            pair = self._next()
            if pair is None:
                self._asked.clear()
                await self._asked.wait()
                continue
            began = loop.time()
            await self.look(pair)
            self.changed()
            await asyncio.sleep(loop.time() - began)

    def _next(self) -> Pair | None:
        if self.main is None:
            return None
        keys = ((pair, self._key(pair)) for pair in self._wanted)
        return next((pair for pair, key in keys if key is not None and key not in self._known), None)

    async def look(self, pair: Pair) -> None:
        """Look at these two as they stand."""
        sides = self._sides(pair)
        if sides is None or self.main is None:
            return
        key = sides[0].key, sides[1].key
        self.looks += 1
        git = self._scratch.git(self.main)
        try:
            commits = [(name, side.commit) for name, side in zip(pair, sides, strict=True)]
            found = await self._room.across_files(git, commits)
            check = SemanticCheck(tuple(found or ()))
        except Unchecked as error:
            log.warning("two worktrees are not compared across files", pair=pair, reason=str(error))
            check = replace(self._last.get(pair, SemanticCheck()), why=str(error), pending=False)
        self._last[pair] = check
        self._known[key] = check
        while len(self._known) > REMEMBERED:
            self._known.popitem(last=False)

    def _sides(self, pair: Pair) -> tuple[_Side, _Side] | None:
        a, b = (self._side(name) for name in pair)
        return None if a is None or b is None else (a, b)

    def _side(self, name: str) -> _Side | None:
        """One of a pair; None: what it has is not here."""
        if (worktree := self._worktrees.get(name)) is not None:
            work = worktree.work
            if work is None:
                return None
            # Of who is in the middle of a merge, what its branch has.
            tree = work.snapshot.tree if work.side == work.snapshot.commit else work.side
            return _Side((work.base, tree), work.side)
        other = self.others.get(name)
        return None if other is None or not other.at_hand else _Side(("", other.side), other.side)

    def _key(self, pair: Pair) -> _Key | None:
        sides = self._sides(pair)
        return None if sides is None else (sides[0].key, sides[1].key)


def _has_code(paths: Iterable[str]) -> bool:
    return any(language_of(path) is not None for path in paths)
