"""What an agent's tools and guard hooks say that it does to files while its turn runs, as git confirms it.

Invariants:
- a claim is a hint where to look. What is recorded is the difference between the tree that the log last knew of the
  worktree and that tree with the named paths as they stand now; a refused edit, an ignored file or one outside of
  the worktree is no touch;
- each event begins with the tree that the one before it ended with. So what tools have told is recorded once, and the
  end of the turn adds the rest;
- what the turn takes in of the main branch or of another agent's (a merge, a rebase, a cherry-pick) is read, not
  written, by this agent;
- what changes while a shell runs, or after it, and no other tool named, is of the last command that the turn's shell
  was given. It is looked at as soon as the worktree's watcher tells of it;
- turns that run in one checkout at the same time have one tree. What a tool or a hook of one alone named is of its
  agent; what else came to stand there while there were several cannot be told, and is of nobody known;
- a storm of claims costs one look a second and one transaction. What cannot be looked at is left to the turn's end.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

import structlog

from relay.airspace.worktrees.lifecycle import is_ancestor
from relay.airspace.worktrees.registry import WorktreeRegistry
from relay.airspace.worktrees.tracked_worktree import TrackedWorktree, WorktreeGone
from relay.app.wiring.main_commits import commits_between, merged_side, tree_with_part
from relay.app.wiring.running_turns import Claim, RunningTurn, WorkedCheckout, base_of, keep, signatures
from relay.faces.rewinds import MainBranchLog
from relay.git.checkout import head_of
from relay.git.diff import changed_files, touches_of
from relay.git.merge_state import merge_heads
from relay.git.run import Git, GitError, name_of
from relay.model import Changes, Location, Workplace
from relay.model.touches import Source, Touch
from relay.room.dispatch.turns import Plan
from relay.store.ports import Store, StoreError, Tx
from relay.timeline.file_changes import others_writes, record_changes, record_reads
from relay.timeline.projection import UNKNOWN_LANE, last_tree
from relay.timeline.rewind.tree_entries import entries_at

log = structlog.get_logger(__name__)
#: Seconds that claims are gathered before a look, and between two looks; so many are looked at earlier.
GATHER_S, MOST_GATHERED = 1.0, 200
#: Seconds that changes are gathered before a look: with the watcher's own, well under a second after a tool.
WRITTEN_S = 0.2


class ToolTouches:
    """Follows the running turns. `main` records the main branch, before what a turn has taken in of it."""

    def __init__(self, store: Store, registry: WorktreeRegistry, main: MainBranchLog) -> None:
        self._store, self._registry, self._main = store, registry, main
        self._turns: dict[str, RunningTurn] = {}
        self._checkouts: dict[str, WorkedCheckout] = {}
        #: What keeps a look from being recorded. The end of the turn has what it would have.
        self._troubles = (GitError, OSError, WorktreeGone, StoreError, store.transient, store.errors)
        self._named, self._many = asyncio.Event(), asyncio.Event()
        #: A look that is due for what the watcher told.
        self._due: asyncio.TimerHandle | None = None

    # -- the turn

    @asynccontextmanager
    async def entering(self, agent: str, place: Workplace) -> AsyncIterator[Workplace | None]:
        """A turn of the agent begins, and is followed from `begin` on. Gives the place with the tree that stands
        there (`_counted`), None where others are at work too. What these did up to now is recorded first: they did it
        without this agent."""
        name = self._registry.checkout_name(agent)
        checkout = self._checkouts.setdefault(name, WorkedCheckout(name))
        async with checkout.lock:
            others = [turn for turn in checkout.turns.values() if turn is not None]
            if not checkout.turns:
                checkout.among.clear()
            await self._settle(checkout)
            checkout.turns[agent] = None
            checkout.among.add(agent)
            for turn in others:
                turn.beside.add(agent)
            if len(checkout.turns) > 1:
                yield None
                return
            known = await self._store.read(lambda tx: last_tree(tx, name))
            worktree = self._registry.worktrees.get(agent)
            if known is not None and worktree is not None:
                async with worktree.lock:
                    tree = await self._counted(worktree, known.tree, place.tree)
                place = replace(place, tree=tree)
            yield place

    async def _counted(self, worktree: TrackedWorktree, known: str, tree: str) -> str:
        """The tree of a worktree with the files that the log knows there and that git ignores since then."""
        target = await self._registry.target()
        return await worktree.snapshotter.with_ignored(tree, known, target.commit if target else None)

    async def begin(self, plan: Plan, place: Workplace) -> None:
        """Follow a turn (within `entering`), when the log knows its worktree as it stands. Raises GitError and the
        store's errors."""
        worktree = self._registry.worktrees.get(plan.agent)
        checkout = self._checkouts[self._registry.checkout_name(plan.agent)]
        known = await self._store.read(lambda tx: last_tree(tx, checkout.name))
        beside = checkout.turns.keys() - {plan.agent}
        if worktree is None or known is None or (known.tree != place.tree and not beside):
            return
        head = await head_of(worktree.checkout.git)
        heads = (*([head.commit] if head.commit else []), *await merge_heads(worktree.checkout))
        base = await base_of(self._registry, worktree, heads)
        checkout.tree = known.tree
        turn = RunningTurn(plan, worktree, checkout, known.tree, place.commits, head.branch, heads, base)
        turn.beside |= beside
        turn.has_ignored = self._registry.turn_trees.get(plan.agent) not in ("", None, known.tree)
        self._turns[plan.agent] = checkout.turns[plan.agent] = turn

    def named(self, agent: str, places: Sequence[Location], source: Source = Source.TOOL) -> None:
        """A tool or a hook of the agent named these places (relative to the top of its checkout). It is let go
        when no turn of the agent runs."""
        turn = self._turns.get(agent)
        if turn is None:
            return
        turn.named(places, source)
        self._named.set()
        if len(turn.claims) + len(turn.reads) >= MOST_GATHERED:
            self._many.set()

    def claimed(self, agent: str, place: Location) -> None:
        """A hook asked whether the agent may edit this place, and it may (`relay.coordination.writes.lock_guard`)."""
        turn = self._turns.get(agent)
        if turn is not None and place.command:
            turn.foretold(place.path, place.command)
        else:
            self.named(agent, [place], Source.HOOK)

    def ran(self, agent: str, command: str) -> None:
        """The agent's shell runs this; of its writes the watcher tells."""
        turn = self._turns.get(agent)
        if turn is not None:
            turn.ran(command)

    def changed(self, name: str, paths: Collection[str] | None) -> None:
        """These paths of the worktree `name` changed; None: any may have."""
        turn = self._turns.get(name)
        if turn is None or not turn.command:
            return
        turn.saw(paths)
        self._named.set()
        if self._due is None:
            self._due = asyncio.get_running_loop().call_later(WRITTEN_S, self._look_now)

    def _look_now(self) -> None:
        self._due = None
        self._many.set()

    async def finish(self, plan: Plan, changes: Changes | None) -> Changes | None:
        """The changes of a turn that has ended, without what was recorded while it ran. Never raises for git or the
        store."""
        turn = self._turns.pop(plan.agent, None)
        checkout = self._checkouts.get(self._registry.checkout_name(plan.agent))
        if checkout is None:
            return changes
        async with checkout.lock:
            if checkout.among <= {plan.agent}:
                changes = changes if turn is None else await self._finish_alone(turn, changes)
            else:
                settled = await self._settle(checkout)
                # What is not recorded yet is not this agent's alone.
                changes = None if changes is None else replace(changes, before=checkout.tree, touches=())
                checkout.among -= {plan.agent} if settled else set()
            checkout.turns.pop(plan.agent, None)
        if changes is None or turn is None:
            return changes
        return replace(changes, beside=tuple(sorted(turn.beside)))

    async def _finish_alone(self, turn: RunningTurn, changes: Changes | None) -> Changes | None:
        await self._look(turn, last=True)
        if changes is None and turn.kept is None and not turn.has_ignored:
            return None
        try:
            async with turn.worktree.lock:
                stands = changes.after if changes else (await turn.worktree.take_snapshot()).tree
                after = await self._counted(turn.worktree, turn.tree, stands)
                left = await self._touches(turn.tree, after)
                if changes is not None:
                    return replace(changes, before=turn.tree, after=after, touches=left)
                # git sees no change: what was told of is undone, or is ignored.
                await self._record(turn, left, Source.TREE, after)
        except self._troubles as error:
            log.warning("end of a turn not joined to its tools' edits", agent=turn.agent, reason=str(error))
        return changes

    async def _settle(self, checkout: WorkedCheckout) -> bool:
        """Record all that the turns in a checkout have done up to now; False: it could not be. Never raises for git
        or the store."""
        running = [turn for turn in checkout.turns.values() if turn is not None]
        if not running:
            return not checkout.turns
        for turn in running:
            await self._look(turn, last=True)
        turn = running[0]
        try:
            async with turn.worktree.lock:
                await self._look_at_all(turn, Source.TREE)
        except self._troubles as error:
            log.warning("edits of turns in one checkout not told apart", agent=turn.agent, reason=str(error))
            return False
        checkout.among &= checkout.turns.keys()
        return True

    # -- looking

    async def run(self) -> None:
        """Look at what was named. Runs for ever."""
        while True:
            await self._named.wait()
            with suppress(TimeoutError):
                async with asyncio.timeout(GATHER_S):
                    await self._many.wait()
            self._named.clear()
            self._many.clear()
            for turn in list(self._turns.values()):
                async with turn.checkout.lock:
                    if self._turns.get(turn.agent) is turn:
                        await self._look(turn)
                if turn.claims:
                    self._named.set()  # a claim comes before the edit: look again

    async def _look(self, turn: RunningTurn, *, last: bool = False) -> None:
        """Record what stands of the claims; `last`: the turn has ended. Never raises for git or the store: the end of
        the turn has the rest."""
        claims, turn.claims = turn.claims, {}
        reads, turn.reads = turn.reads, {}
        seen = turn.take_written()
        if not claims and not reads and not last and seen is not None and not seen:
            return
        try:
            top = turn.worktree.checkout.top
            stood = await asyncio.to_thread(signatures, top, list(claims))
            due = turn.due(claims, stood)
            for path in seen or ():
                if path not in claims and (command := turn.command_of(path)):
                    due[path] = Claim(Source.TOOL, command=command)
            written = set[str]()
            if due or reads or last or seen is None:
                # Nobody empties the scratch meanwhile.
                async with turn.worktree.lock:
                    written = await self._look_at(turn, due, reads)
                    if seen is None:
                        await self._look_at_all(turn, Source.TOOL, turn.command)
            for path, claim in claims.items():
                if name_of(os.fsencode(path)) not in written:
                    turn.claims.setdefault(path, replace(claim, looked=True, signature=stood[path]))
        except self._troubles as error:
            log.warning("edits of a turn's tools not looked at", agent=turn.agent, reason=str(error))

    async def _look_at(
        self, turn: RunningTurn, claims: Mapping[str, Claim], reads: Mapping[str, None]
    ) -> set[str]:
        """Record these; gives the paths that were changed."""
        await self._take_in(turn)
        await self._record_reads(turn, list(reads))
        written = set[str]()
        by_kind: dict[tuple[str, Source], list[bytes]] = {}
        for path, claim in claims.items():
            by_kind.setdefault((claim.command, claim.source), []).append(os.fsencode(path))
        # What tools named, what hooks did, what commands wrote.
        for (command, source), paths in sorted(
            by_kind.items(), key=lambda kind: (kind[0][0], kind[0][1] != Source.TOOL)
        ):
            tree = await turn.worktree.snapshotter.with_paths(turn.tree, paths)
            touches = await self._touches(turn.tree, tree)
            await self._record(turn, touches, source, tree, command=command)
            written |= {touch.path for touch in touches}
        return written

    async def _look_at_all(self, turn: RunningTurn, source: Source, command: str = "") -> None:
        """Record all that is different in the turn's worktree."""
        stands = (await turn.worktree.take_snapshot(everything=True)).tree
        after = await self._counted(turn.worktree, turn.tree, stands)
        await self._record(turn, await self._touches(turn.tree, after), source, after, command=command)

    async def _record_reads(self, turn: RunningTurn, paths: Sequence[str]) -> None:
        """What is in no tree is not recorded: it is ignored, outside, or the turn's own and not told of yet."""
        if not paths:
            return
        entries = await entries_at(self._git, turn.tree, [os.fsencode(path) for path in paths])
        stood = {name_of(path): entry.oid for path, entry in entries.items()}
        fresh = {path: oid for path, oid in stood.items() if (path, oid) not in turn.known_reads}
        plan = turn.plan

        async def work(tx: Tx) -> None:
            await record_reads(
                tx, plan.lane, fresh, source=Source.TOOL.value, parents=[plan.event_id], role=plan.role
            )

        if fresh:
            await self._store.write(work)
            turn.known_reads |= fresh.items()

    async def _record(
        self,
        turn: RunningTurn,
        touches: Sequence[Touch],
        source: Source,
        tree: str,
        read: Mapping[str, str | None] | None = None,
        command: str = "",
    ) -> None:
        """Record what leads from the turn's tree to this one: what it read of the main branch, and what it wrote.
        What only the tree shows is of nobody known where turns of others ran in the checkout."""
        if not touches and not read:
            return
        await keep(self._registry, turn, tree)
        plan, checkout = turn.plan, turn.checkout
        among = sorted(checkout.among) if source is Source.TREE and len(checkout.among) > 1 else []
        turns = [each.plan.event_id for each in checkout.turns.values() if each is not None]

        async def work(tx: Tx) -> None:
            await record_reads(
                tx,
                plan.lane,
                read or {},
                source="merge",
                worktree=checkout.name,
                tree=tree,
                parents=[plan.event_id],
                role=plan.role,
            )
            await record_changes(
                tx,
                UNKNOWN_LANE if among else plan.lane,
                touches,
                source=source,
                before=turn.tree,
                after=tree,
                worktree=checkout.name,
                parents=turns if among else [plan.event_id],
                role=None if among else plan.role,
                branch=turn.branch,
                among=among,
                command=command,
            )

        await self._store.write(work)
        checkout.tree = tree

    # -- what others wrote

    async def _take_in(self, turn: RunningTurn) -> None:
        """Record what the turn has merged, or was rebased onto, since the last look."""
        checkout = turn.worktree.checkout
        head = await head_of(checkout.git)
        heads = (*([head.commit] if head.commit else []), *await merge_heads(checkout))
        if heads == turn.heads:
            return
        stood, turn.branch = turn.heads[0] if turn.heads else None, head.branch
        base = await base_of(self._registry, turn.worktree, heads)
        if base != turn.base:
            await self._main.catch_up()
        joined = dict[str, str | None]()
        if stood is not None and head.commit is not None:
            stood, joined = await self._take_merges_in(turn, stood, head.commit, base)
        await self._take_base_in(turn, base, joined)
        if stood is not None and head.commit is not None:
            await self._take_commit_in(turn, stood, head.commit)
        turn.heads = heads

    async def _take_merges_in(
        self, turn: RunningTurn, before: str, head: str, base: str | None
    ) -> tuple[str, dict[str, str | None]]:
        """Record of each merge between these commits first what this agent had done, then what came of another's
        branch; gives the commit up to where, and the files that git's own merge, or relay's, made of this agent's
        work and of the main branch's. `base`: see `RunningTurn`."""
        git, joined = self._git, dict[str, str | None]()
        for made in await commits_between(git, before, head):
            if base is not None and await is_ancestor(git, made.commit, base):
                before = made.commit  # of the main branch itself
                continue
            side = await merged_side(git, made, self._registry.room.join)
            if not side.had:
                continue
            ours, theirs = made.parents
            await self._take_commit_in(turn, before, ours, own=True)
            if base is not None and await is_ancestor(git, theirs, base):
                touches = await self._touches(f"{ours}^{{tree}}", f"{made.commit}^{{tree}}")
                joined |= {touch.path: touch.after for touch in touches if touch.path in side.clean}
            else:
                await self._take_commit_in(turn, ours, made.commit, side.clean)
            before = made.commit
        return before, joined

    async def _take_commit_in(
        self,
        turn: RunningTurn,
        before: str,
        after: str,
        clean: Mapping[str, str | None] | None = None,
        *,
        own: bool = False,
    ) -> None:
        """Record what is different in two commits and another agent wrote. `clean`: what a merge had of its second
        side, by which it is known too. `own`: the rest is this agent's."""
        git, clean = self._git, clean or {}
        stood, tree = [await git.line("rev-parse", f"{commit}^{{tree}}") for commit in (before, after)]
        moved = {touch.path for touch in await self._touches(stood, tree)}
        touches = [touch for touch in await self._touches(turn.tree, tree) if touch.path in moved]
        contents = {touch.path: {touch.after, clean.get(touch.path, touch.after)} for touch in touches}
        known = await self._store.read(lambda tx: others_writes(tx, turn.agent, contents))
        brought = {touch.path: touch.after for touch in touches if touch.path in known}
        left = [touch for touch in touches if own and touch.path not in brought]
        paths = {*brought, *(touch.path for touch in left)}
        if not paths:
            return
        index = self._registry.scratch.folder / f"index-brought-{turn.agent}"
        joined = await tree_with_part(git, turn.tree, tree, paths, index)
        if joined is not None:
            await self._record(turn, left, Source.TREE, joined, brought)

    async def _take_base_in(
        self, turn: RunningTurn, base: str | None, joined: Mapping[str, str | None]
    ) -> None:
        """Record what has come of the main branch, as it stands on disk; `base`: up to where. `joined`: files that
        git's own merge made of it and of this agent's work."""
        before, git = turn.base, self._git
        if base is None or before is None or base == before or not await is_ancestor(git, before, base):
            return
        records = await changed_files(git, before, base, renames=False)
        brought = {touch.path: touch.after for touch in touches_of(records)} | dict(joined)
        tree = await turn.worktree.snapshotter.with_paths(turn.tree, [record.path for record in records])
        touches = await self._touches(turn.tree, tree)
        own = [touch for touch in touches if brought.get(touch.path, "") != touch.after]
        await self._record(turn, own, Source.TREE, tree, brought)
        turn.base = base

    @property
    def _git(self) -> Git:
        assert self._registry.main is not None
        return self._registry.scratch.git(self._registry.main)

    async def _touches(self, before: str, after: str) -> tuple[Touch, ...]:
        return touches_of(await changed_files(self._git, before, after)) if before != after else ()
