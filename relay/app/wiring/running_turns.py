"""The turns that run now, as the timeline follows them: in which checkout, and what their tools say that they edit.

Invariant: turns in one checkout have one tree, that which the log last knew of it.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from relay.airspace.worktrees.lifecycle import is_ancestor
from relay.airspace.worktrees.registry import WorktreeRegistry
from relay.airspace.worktrees.tracked_worktree import TrackedWorktree
from relay.git.kept_snapshots import KeptSnapshots
from relay.git.run import GitError
from relay.git.snapshot import on_disk
from relay.log import events
from relay.log.encoding import dumps, loads
from relay.model import Location, Workplace
from relay.model.touches import Source
from relay.room.dispatch.turns import Plan
from relay.store.ports import Store, StoreError

log = structlog.get_logger(__name__)
#: Paths of one turn that wait until they change; of more, the oldest are left to the end of the turn.
MOST_WAITING = 2000
#: Commands of one shell that may be at work at once; what an earlier one did not write, it does not write any more.
MOST_AT_ONCE = 4
#: When a file was changed last and what it is, as far as a look at its folder tells; None: it is not there.
Signature = tuple[int, int, int, int] | None


@dataclass(frozen=True, slots=True)
class Claim:
    """A path that the turn says it edits, or was seen to change. `looked`: was it looked at, and how was it on disk
    then? `command`: of the shell that writes it, empty = not known, or no shell."""

    source: Source
    looked: bool = False
    signature: Signature = None
    command: str = ""


@dataclass(slots=True)
class WorkedCheckout:
    """A checkout in which turns run. `name`: as the log knows it; `tree`: as the log last knew it. `turns`: by agent,
    None = one that could not be followed. `among`: who may have written what the log does not know yet."""

    name: str
    tree: str = ""
    turns: dict[str, RunningTurn | None] = field(default_factory=dict)
    among: set[str] = field(default_factory=set)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass(slots=True)
class RunningTurn:
    """`began`: the tree that its checkout had. `heads`: what the worktree stands on, with what a merge under way
    brings; `base`: the newest commit of the main branch among what it has. `command`: what its shell was told to run
    last; `recent`: with those before it; `by_command`: what they surely write. `written`: what changed in its
    worktree since the last look, None = it may be anything. `kept`: the last kept snapshot. `beside`: agents whose
    turns ran in the same checkout meanwhile. `has_ignored`: the tree has files that git ignores now."""

    plan: Plan
    worktree: TrackedWorktree
    checkout: WorkedCheckout
    began: str
    commits: tuple[str, ...]
    branch: str | None
    heads: tuple[str, ...]
    base: str | None
    claims: dict[str, Claim] = field(default_factory=dict)
    reads: dict[str, None] = field(default_factory=dict)
    #: What was read in this turn: paths with their blobs.
    known_reads: set[tuple[str, str]] = field(default_factory=set)
    command: str = ""
    recent: deque[str] = field(default_factory=lambda: deque(maxlen=MOST_AT_ONCE))
    by_command: dict[str, str] = field(default_factory=dict)
    written: set[str] | None = field(default_factory=set)
    kept: str | None = None
    beside: set[str] = field(default_factory=set)
    has_ignored: bool = False

    @property
    def agent(self) -> str:
        return self.plan.agent

    @property
    def tree(self) -> str:
        """Of the worktree, as the log last knew it."""
        return self.checkout.tree

    def named(self, places: Sequence[Location], source: Source) -> None:
        """A tool or a hook named these. What a tool says counts before what a hook asked."""
        for place in places:
            if place.writes is False:
                self.reads[place.path] = None
            elif source is Source.TOOL or place.path not in self.claims:
                self.claims.pop(place.path, None)
                self.claims[place.path] = Claim(source)
        for waiting in (self.claims, self.reads):
            for path in list(waiting)[: max(0, len(waiting) - MOST_WAITING)]:
                del waiting[path]

    def ran(self, command: str) -> None:
        """Its shell was given this; the program's stream tells the beginning of it, in one line."""
        # Of several commands at once, the guard has foretold which writes what.
        known, said = (" ".join(text.split()) for text in (self.command, command.removesuffix("\u2026")))
        if not self.command or not known.startswith(said):
            self.command = command
            self.recent.append(command)

    def foretold(self, path: str, command: str) -> None:
        """The words of this command surely say that it writes this path."""
        self.by_command.pop(path, None)
        self.by_command[path] = command
        if len(self.by_command) > MOST_WAITING:
            del self.by_command[next(iter(self.by_command))]

    def command_of(self, path: str) -> str:
        """By which command a path came to be changed that no other tool named; empty = no shell was used."""
        known = self.by_command.pop(path, "")
        return known if known in self.recent else self.command

    def saw(self, paths: Collection[str] | None) -> None:
        """These changed in its worktree; None: anything may have."""
        if paths is None or self.written is None or len(self.written) + len(paths) > MOST_WAITING:
            self.written = None
        else:
            self.written |= set(paths)

    def take_written(self) -> Collection[str] | None:
        """What changed since the last look. Nothing where others work in the checkout: it may be theirs."""
        written, self.written = self.written, set()
        return written if len(self.checkout.turns) == 1 else ()

    def due(self, claims: Mapping[str, Claim], stood: Mapping[str, Signature]) -> dict[str, Claim]:
        """Those of these claims that may have been written since they were looked at."""
        elsewhere = self.waiting_elsewhere
        return {
            path: claim
            for path, claim in claims.items()
            if path not in elsewhere and (not claim.looked or claim.signature != stood[path])
        }

    @property
    def waiting_elsewhere(self) -> set[str]:
        """What other turns in the same checkout say that they edit."""
        others = [turn for turn in self.checkout.turns.values() if turn is not None and turn is not self]
        return {path for turn in others for path in turn.claims}


def signatures(top: Path, paths: Sequence[str]) -> dict[str, Signature]:
    """How these files are on disk now. Blocking."""
    found = dict[str, Signature]()
    for path in paths:
        found[path] = None
        with suppress(OSError, ValueError):
            status = on_disk(top, os.fsencode(path)).lstat()
            found[path] = (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)
    return found


async def base_of(registry: WorktreeRegistry, worktree: TrackedWorktree, heads: Sequence[str]) -> str | None:
    """The newest commit of the main branch that these have, a merge under way included. Raises GitError."""
    target = await registry.target()
    if target is None or not heads:
        return None
    git = worktree.checkout.git
    bases = [await git.maybe("merge-base", target.commit, head) for head in heads]
    newest = bases[0]
    for base in bases[1:]:
        if base and newest and base != newest and await is_ancestor(git, newest, base):
            newest = base
    return newest


async def first_tree(store: Store, registry: WorktreeRegistry, plan: Plan, place: Workplace) -> str:
    """The tree that this turn began with: before it was cut off, where it goes on now and has no more of the main
    branch than then, else that of its place. It is remembered for the next start. Never raises for git or the
    store."""
    worktree = registry.worktrees.get(plan.agent)
    if worktree is None or not place.tree:
        return place.tree
    name = f"turn_began:{plan.agent}"
    try:
        base = await base_of(registry, worktree, place.commits)
        if plan.interrupted:
            stored: str | None = await store.read(lambda tx: events.setting(tx, name))
            told = loads(stored or "{}")
            goes_on = told.get("job") in {job.id for job in plan.jobs} and told.get("base") == base
            # It may have been in another member's worktree.
            if goes_on and await worktree.snapshotter.git.maybe("cat-file", "-t", told["tree"]) == "tree":
                return str(told["tree"])
        began = dumps({"job": plan.primary.id, "tree": place.tree, "base": base})
        await store.write(lambda tx: events.put_setting(tx, name, began))
    except (GitError, OSError, StoreError, store.transient, store.errors) as error:
        log.warning("what a turn began with is not known", agent=plan.agent, reason=str(error))
    return place.tree


async def keep(registry: WorktreeRegistry, turn: RunningTurn, tree: str) -> None:
    """Keep a tree, under one ref for all of the turn. Raises GitError."""
    main = registry.main
    assert main is not None
    kept = await KeptSnapshots(registry.scratch, main).keep(
        tree,
        [turn.kept] if turn.kept else turn.commits,
        lane=turn.plan.lane.key,
        reason="a turn is at work",
        at=time.time(),
        series=f"turn-{turn.plan.event_id[:16]}",
    )
    turn.kept = kept.commit
