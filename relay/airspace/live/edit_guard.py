"""While an agent works: what stands against an edit (docs/airspace.md).

Invariants:
- a decision looks at what is in memory, so that an edit does not wait for it; only what would be refused, and of
  which the new text is known, is merged with the other's first, for a second at most;
- of two agents one may always go on: the one with the latched right of way is never told to steer for the other;
- an agent that enters a file which another has in hand is told so, once for each file and agent, and not refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from relay.airspace.advisories import wording
from relay.airspace.advisories.protocol import AdvisoryProtocol
from relay.airspace.advisories.rules import edit_check
from relay.airspace.context import LiveContext
from relay.airspace.globs import matches
from relay.airspace.live.edit_joins import EditJoins
from relay.airspace.live.scanner import Scanner
from relay.model import GuardDecision, Location
from relay.model.working_set import WorkingSet, pair_of


class AirspaceGuard:
    """`relay.model.Guard`, from what `scanner` saw last. After a note it asks for a tick, which keeps the note.
    `joins`: knows what merges would join; without one every collision is refused."""

    def __init__(
        self,
        context: LiveContext,
        protocol: AdvisoryProtocol,
        scanner: Scanner,
        joins: EditJoins | None = None,
    ) -> None:
        self._context, self._protocol, self._scanner, self._joins = context, protocol, scanner, joins

    def runs(self, agent: str, command: str) -> None:
        """Who keeps the commands is asked before this one (relay/coordination/writes/lock_guard.py)."""

    async def decide(self, agent: str, location: Location, session: str | None = None) -> GuardDecision:
        """A standing resolution that tells this agent to keep off the file; else what this very edit would touch
        of an agent that holds against it, which no scan has seen yet."""
        settings = self._context.settings
        if not settings.enabled:
            return GuardDecision(reason="The airspace is switched off.")
        if location.writes is False or matches(location.path, settings.muted):
            return GuardDecision()
        steer = self._protocol.steer(agent, location.path)
        if steer is not None:
            ahead = self._protocol.ahead(agent, steer.advisory)
            return await self._joined(agent, location, ahead) or GuardDecision(
                True, wording.steer_off(steer.reason, location.path), steer.advisory
            )
        sets, behind = self._scanner.sets, self._protocol.behind(agent)
        mine = sets.get(agent, WorkingSet(agent))
        if location.lines is not None and location.path not in self._protocol.settles(agent):
            others = [working_set for name, working_set in sets.items() if name not in behind]
            collision = edit_check.check_edit(mine, others, location.path, location.lines)
            if collision is not None:
                changing = edit_check.agents_changing(others, location.path).keys() - {agent}
                return await self._joined(agent, location, sorted(changing)) or GuardDecision(
                    True, wording.steer_off(collision.evidence.text, location.path)
                )
        return GuardDecision(note=self._entering(mine, sets, location.path))

    async def _joined(self, agent: str, location: Location, others: Sequence[str]) -> GuardDecision | None:
        """The edit is allowed, with a warning, where a merge would join it with what all of these have; else None."""
        if self._joins is None or location.text is None:
            return None
        how = await self._joins.how(agent, location.path, location.text, others)
        return GuardDecision(note=wording.would_join(location.path, others, how)) if how else None

    def _entering(self, mine: WorkingSet, sets: Mapping[str, WorkingSet], path: str) -> str:
        """The agents that have this file in hand, or with which a collision is foretold there; '' if told before."""
        in_hand = edit_check.agents_changing(sets.values(), path)
        links = self._scanner.forecasts
        ahead_of = {
            *self._protocol.state.forecasts,
            *(pair for pair, assessment in links.items() if assessment.ahead),
        }
        here = {notice for notice in self._protocol.edit_notices if notice[2] == path}
        before = self._protocol.edit_notices
        self._protocol.edit_notices = (before - here) | edit_check.current_notices(here, sets, ahead_of)
        notes = []
        for other in sorted(sets.keys() - {mine.agent}):
            theirs = in_hand.get(other)
            link = links.get(pair_of(mine.agent, other))
            ahead = link.evidence if link is not None and link.ahead else ()
            about = theirs is not None or any(
                path in (evidence.path, evidence.other_path) for evidence in ahead
            )
            key = (mine.agent, other, path)
            if not about or key in self._protocol.edit_notices:
                continue
            self._protocol.edit_notices |= {key}
            if theirs is not None and mine.agent in in_hand:
                # The agent is in the file already: only what is foretold is new.
                theirs = None
            if theirs is not None or ahead:
                notes.append(wording.entering(other, path, theirs, self._scanner.about(other), ahead))
        if self._protocol.edit_notices != before:
            self._scanner.poke()
        return " ".join([*notes, "This edit is allowed."]) if notes else ""
