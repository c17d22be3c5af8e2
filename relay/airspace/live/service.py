"""The airspace as the commands and the interfaces reach it: its state, its history, and what people say of it.

Invariant: reading changes nothing; each act of a person is an event with the person's name.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from relay.airspace.advisories import intents, table, wording
from relay.airspace.advisories.intents import Source
from relay.airspace.advisories.protocol import AdvisoryProtocol, Steer
from relay.airspace.advisories.rules import edit_check
from relay.airspace.advisories.rules.advisory import Mark
from relay.airspace.context import LiveContext
from relay.airspace.live import history, picture
from relay.airspace.live.graph_keeper import GraphKeeper
from relay.airspace.live.scanner import Scanner
from relay.airspace.shared.shared_work import SharedWork
from relay.base.durations import iso
from relay.model import Refusal
from relay.model.actions import DeclareIntent
from relay.store.ports import Tx

#: Seconds between two frames of the live state at least (docs/airspace.md).
SHOW_EVERY_S = 1.0


class AirspaceService:
    """One running airspace (`relay.model.Airspace`, `relay.faces.http.routes.airspace`)."""

    def __init__(
        self,
        context: LiveContext,
        protocol: AdvisoryProtocol,
        scanner: Scanner,
        graph: GraphKeeper,
    ) -> None:
        self._context = context
        self._protocol = protocol
        self._scanner = scanner
        self._graph = graph
        #: As a member of a fleet that does not lead: what the leader shows. None: this relay's own scan is shown.
        self.shown: Mapping[str, Any] | None = None

    async def state(self, *, all_files: bool = True) -> dict[str, Any]:
        """The whole state; `fileCoordinates` of all files, or only of those that somebody works on."""
        state = await self._seen()
        if all_files:
            everything = await asyncio.to_thread(picture.points_json, await self._graph.cloud())
            state["fileCoordinates"] = {**everything, **state["fileCoordinates"]}
        return {**state, "text": self.who_is_near()}

    async def frames(self, listened: asyncio.Event | None = None) -> AsyncIterator[dict[str, Any]]:
        """What connected clients are told: the state after every change, at most once in `SHOW_EVERY_S`. Coordinates
        that stand as they stood are left out. Runs for ever. `listened`: set while somebody listens; until then none
        is made, and then the whole of it."""
        before: dict[str, Any] = {}
        if self._scanner.ticks:
            self._scanner.to_show.set()  # begun anew, it does not know what was shown
        while True:
            await self._scanner.to_show.wait()
            if listened is not None and not listened.is_set():
                before = {}
                await listened.wait()
            self._scanner.to_show.clear()
            state = await self._seen()
            if {**state, "at": None} != {**before, "at": None}:
                same = state["fileCoordinates"] == before.get("fileCoordinates")
                before = state
                yield {key: part for key, part in state.items() if not (same and key == "fileCoordinates")}
            await asyncio.sleep(SHOW_EVERY_S)

    async def _seen(self) -> dict[str, Any]:
        """The state as it was last seen, with the files that somebody works on."""
        # Read anew: while the database is away this fails as every other call does.
        await self._scanner.count()
        if self.shown is not None:
            return {**self.shown, "graph": self._graph.state(), "precision": self._scanner.precision}
        worktrees = self._scanner.observer.worktrees
        agents, branches = frozenset(worktrees.agents()), dict(worktrees.branches())
        trees = dict(worktrees.trees())
        return await asyncio.to_thread(self._state, agents, branches, trees, worktrees.others)

    def _state(
        self,
        agents: Collection[str],
        branches: Mapping[str, str],
        trees: Mapping[str, str],
        others: Mapping[str, SharedWork],
    ) -> dict[str, Any]:
        settings, thresholds, seen = (
            self._context.settings,
            self._protocol.rules.thresholds,
            self._scanner.observer,
        )
        levels = self._scanner.levels(seen.picture.links)
        advisories = list(self._protocol.state.advisories.values())
        return {
            "profile": settings.profile,
            "enabled": settings.enabled,
            "thresholds": asdict(thresholds),
            **picture.picture_json(
                seen.picture, seen.sets, levels, advisories, agents, branches, trees, others
            ),
            "unchecked": picture.unchecked_json(seen.semantic),
            "graph": self._graph.state(),
            "precision": self._scanner.precision,
            "at": iso(self._scanner.looked_at or None),
        }

    async def own_picture(self) -> dict[str, Any] | None:
        """What this relay's own scan saw, for the other members of a fleet, without what each of them knows itself;
        None where it has not looked."""
        if self.shown is not None or not self._scanner.ticks:
            return None
        state = {**await self._seen(), "text": self.who_is_near()}
        return {name: part for name, part in state.items() if name not in ("graph", "precision")}

    async def past(self, since: float | None, until: float | None) -> list[dict[str, Any]]:
        """The samples of that time (Unix seconds), but none older than `airspace.history_h` hours."""
        now = self._context.clock()
        oldest = now - self._context.settings.history_h * 3600.0
        start = oldest if since is None else max(since, oldest)
        end = now if until is None else until
        return await self._context.store.read(lambda tx: history.between(tx, start, end), long=True)

    async def advisories(self, limit: int) -> dict[str, Any]:
        """The newest advisories, newest first, and the precision so far."""

        async def work(tx: Tx) -> dict[str, Any]:
            return {
                "advisories": [wording.shown(advisory) for advisory in await table.latest(tx, limit)],
                "precision": await table.counts(tx),
            }

        return await self._context.store.read(work)

    async def mark(self, advisory_id: str, mark: str | None, *, by: str) -> dict[str, Any] | None:
        """Mark an advisory useful or noise, or neither; None when there is none of that id."""
        advisory = await self._protocol.mark(advisory_id, Mark(mark) if mark else None, by=by)
        return None if advisory is None else wording.shown(advisory)

    async def declare(
        self, tx: Tx, action: DeclareIntent, *, by: str, cause: Sequence[str] = ()
    ) -> Sequence[str]:
        if not self._context.settings.enabled:
            raise Refusal("The airspace is switched off.", "Set `airspace.enabled` to true.")
        return await intents.declare(
            tx, action, source=Source.COMMAND, by=by, now=self._context.clock(), cause=cause
        )

    async def declare_own(self, action: DeclareIntent, *, session: str = "") -> Sequence[str]:
        """What a session of an agent says by a call of its own: no message in the room. Raises Refusal."""
        if not self._context.settings.enabled:
            raise Refusal("The airspace is switched off.", "Set `airspace.enabled` to true.")
        return await self._context.store.write(lambda tx: intents.declare_own(tx, action, session))

    def in_hand(self, agent: str, paths: Sequence[str], *, but: Collection[str] = ()) -> list[str]:
        """The other agents that have these files in hand now, in words for the agent that means to change them."""
        works = [
            working_set
            for working_set in self._scanner.sets.values()
            if working_set.agent != agent and working_set.agent not in but
        ]
        return [
            wording.entering(other, path, touch, self._scanner.about(other), ())
            for path in paths
            for other, touch in sorted(edit_check.agents_changing(works, path).items())
        ]

    def who_is_near(self) -> str:
        if not self._context.settings.enabled:
            return "The airspace is switched off (`airspace.enabled`)."
        if self.shown is not None:
            return str(self.shown["text"])
        standing = sorted(self._protocol.state.advisories.values(), key=lambda advisory: advisory.opened_at)
        seen = self._scanner.observer
        near = picture.near_text(
            self._scanner.links(), standing, sorted(seen.sets), seen.conflicts, seen.semantic
        )
        no_main = seen.worktrees.no_main()
        if no_main and not seen.sets:
            near = ""  # nothing could be looked at
        precision = wording.precision(self._scanner.precision)
        return "\n\n".join(part for part in (near, no_main, precision) if part)

    async def go_first(self, tx: Tx, agent: str, *, by: str, cause: Sequence[str] = ()) -> str:
        return await self._protocol.go_first(
            tx, agent, self._scanner.sets, by=by, now=self._context.clock(), cause=cause
        )

    async def take_main(self, tx: Tx, agent: str, *, by: str, cause: Sequence[str] = ()) -> str:
        if not self._scanner.looked_at:
            raise Refusal(
                "The room has just started and has not looked at the worktrees yet.", "Try again in a moment."
            )
        target, behind = self._scanner.observer.target, self._scanner.observer.worktrees.behind(agent)
        if target is None or behind is None:
            no_main = self._scanner.observer.worktrees.no_main()
            raise Refusal(no_main or f"{agent} has no worktree to merge the main branch into.")
        if not behind:
            raise Refusal(
                f"{agent} has all of {target.name} already: there is nothing to merge.",
                "Merge the branch of whoever goes first, then ask again.",
            )
        return await self._protocol.take_main(
            tx, agent, target.name, by=by, now=self._context.clock(), cause=cause
        )

    def steer(self, agent: str, path: str) -> Steer | None:
        """The standing resolution that tells this agent to keep off this file, for the guard."""
        return self._protocol.steer(agent, path)
