"""The protocol at work: advisories as rows, events and messages, and what follows from them (000, section 3).

Invariants:
- what a tick decides (pairs, advisory, its event, its message, the turns it asks for) is one transaction, decided
  inside it from what the database holds: killed at any instant, nothing is said twice and nothing is lost, and
  two processes on one database decide it once;
- people are told once that nobody answers, and once that nobody steers off; they are asked once who goes on;
- the state in memory is a copy that is only read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import structlog
import uuid_utils

from relay.airspace.advisories import intents, table, wording
from relay.airspace.advisories.announcer import Announcer
from relay.airspace.advisories.rules import outcomes, steering
from relay.airspace.advisories.rules.advisory import Advisory, Mark, Steering, stored_form
from relay.airspace.advisories.rules.decision import decide, next_due_at, part_of
from relay.airspace.advisories.rules.edit_check import EditNotice
from relay.airspace.advisories.rules.grouping import Contact
from relay.airspace.advisories.rules.hysteresis import Rules
from relay.airspace.advisories.rules.observation import AirspaceState, Observation, Step
from relay.airspace.context import LiveContext
from relay.airspace.readings import Level, Thresholds
from relay.config.airspace import AirspaceSettings
from relay.model import TAKE_MAIN, Board, Refusal, Voice
from relay.model.working_set import Pair, WorkingSet
from relay.store.ports import Tx

log = structlog.get_logger(__name__)
#: What people are asked is for them alone: the room keeps messages with a notice out of the agents' contexts.
ASKS_PEOPLE = {"notice": "advisory"}
#: Seconds after its end in which a conflict at a merge still speaks for an advisory: a day's work.
MERGE_AFTER_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Steer:
    """A standing resolution advisory that tells an agent to leave a file. `since`: Unix seconds."""

    advisory: str
    reason: str
    files: tuple[str, ...]
    since: float


class AdvisoryProtocol:
    """Says, asks, waits, checks. `thresholds` are those of the profile in use."""

    def __init__(
        self,
        context: LiveContext,
        voice: Voice,
        board: Board | None = None,
        *,
        thresholds: Callable[[], Thresholds] = Thresholds,
    ) -> None:
        self._context = context
        self._voice = voice
        self._thresholds = thresholds
        self._announcer = Announcer(voice, board)
        self._alone = asyncio.Lock()
        self.state = AirspaceState()
        #: What agents were told at an edit: the guard adds to it, and the next tick keeps it.
        self.edit_notices: frozenset[EditNotice] = frozenset()
        self._loaded = False

    @property
    def rules(self) -> Rules:
        return Rules(self._thresholds(), self._context.settings.cooldown_s)

    @property
    def clear(self) -> bool:
        """Is no pair near another?"""
        return all(track.level is Level.CLEAR for track in self.state.tracks.values())

    def due_at(self) -> float | None:
        """When something is due that no change of the airspace announces (Unix seconds)."""
        return next_due_at(self.state, self.rules, self._context.clock())

    async def load(self, *, anew: bool = False) -> None:
        """Read the state from the database. `anew`: somebody else may have acted meanwhile, so also what agents were
        told at an edit."""
        if not self._loaded:
            await asyncio.to_thread(stored_form)
        async with self._alone:
            self.state = await self._context.store.read(table.load_state)
            if anew or not self._loaded:
                self.edit_notices |= self.state.edit_notices
                self._loaded = True

    # -- a tick

    async def observe(self, observation: Observation) -> bool:
        """Carry out what this observation decides; False when it changes nothing."""
        settings, rules = self._context.settings, self.rules

        async def work(tx: Tx) -> AirspaceState:
            state = await table.load_state(tx)
            decision = decide(state, observation, rules, steer_s=settings.steer_s)
            # The clear ones too, which are forgotten when their cool-down is over.
            clear = {pair: track for pair, track in state.tracks.items() if track.level is Level.CLEAR}
            await table.save_tracks(tx, {**clear, **decision.tracks}, rules, observation.at)
            await table.save_forecasts(tx, state.forecasts, decision.forecasts)
            if decision.edit_notices and observation.edit_notices is not None:
                await table.save_edit_notices(tx, state.edit_notices, observation.edit_notices)
            for step in decision.steps:
                await self._carry_out(tx, step, observation, settings)
            for agent, until in observation.emptied.items():
                await intents.end_work(tx, agent, until)
            return await table.load_state(tx)

        async with self._alone:
            # Most ticks change nothing: that is seen without a transaction, and off the event loop.
            looked = await asyncio.to_thread(decide, self.state, observation, rules, steer_s=settings.steer_s)
            if not looked and not observation.emptied:
                self._renew(observation)
                return False
            self.state = await self._context.store.write(work)
        return True

    def _renew(self, observation: Observation) -> None:
        """Show the risks and the evidence of this scan. Nothing is recorded for them."""

        def renewed(pair: Pair, contact: Contact) -> Contact:
            observed = observation.observed.get(pair)
            if observed is None:
                return contact
            return Contact(contact.level, observed.sample.risk, observed.files, observed.evidence)

        fresh = {
            id: replace(
                advisory, contacts={pair: renewed(pair, was) for pair, was in advisory.contacts.items()}
            )
            for id, advisory in self.state.advisories.items()
        }
        self.state = replace(self.state, advisories=fresh)

    async def _carry_out(
        self, tx: Tx, step: Step, observation: Observation, settings: AirspaceSettings
    ) -> None:
        after, now = step.after, observation.at
        if step.before is None:
            after = replace(after, id=str(uuid_utils.uuid7()))
            if not await table.insert_open(tx, after):
                return  # another process was first: its advisory is found at the next tick
        if step.heard is Level.CLEAR:
            await self._announcer.clear(
                tx, after, step.what, now, clear=not step.against, merges_again=step.merges_again
            )
        elif step.heard is not None:
            after = await self._announcer.advisory(tx, after, step, observation, settings)
        elif step.what:
            after = await table.save_change(tx, after, step.what)
        if step.set_back:
            await self._announcer.set_back(tx, after, step, observation)
        log.info(
            "advisory", id=after.id, what=list(step.what), level=after.level.word, files=len(after.files)
        )

    # -- deadlines

    async def remind(self) -> bool:
        """Ask the people about what is overdue; False when nothing is."""
        now = self._context.clock()
        if not any(_overdue(advisory, now) for advisory in self.state.advisories.values()):
            return False
        settings = self._context.settings

        async def work(tx: Tx) -> AirspaceState:
            for advisory in (await table.load_state(tx)).advisories.values():
                if _overdue(advisory, now):
                    await self._ask_people(tx, advisory, now, settings)
            return await table.load_state(tx)

        async with self._alone:
            self.state = await self._context.store.write(work)
        return True

    async def _ask_people(self, tx: Tx, advisory: Advisory, now: float, settings: AirspaceSettings) -> None:
        reasons, what = list[str](), list[str]()
        if _unanswered(advisory, now):
            silent = {agent: advisory.asked[agent].failed for agent in advisory.unanswered}
            reasons.append(wording.no_answer(silent, settings.answer_s))
            advisory = replace(advisory, escalated_at=now)
            what.append("escalated")
        if _unsteered(advisory, now):
            agents = steering.stayed(advisory)
            reasons.append(wording.stayed(agents, steering.told_files(advisory, agents), settings.steer_s))
            advisory = replace(advisory, people_asked_at=now, steering=Steering.STAYED)
            what.append("steering")
        asks = advisory.between is Level.RESOLUTION
        if asks and advisory.question_at is not None:
            # Who goes on was asked already, and no second time: the page shows how it stands.
            await table.save_change(tx, advisory, what)
            return
        advisory = await table.save_change(tx, replace(advisory, question_at=now if asks else None), what)
        offered = advisory.choices(await self._announcer.reach(tx, advisory)) if asks else ()
        meta = {**ASKS_PEOPLE, "actions": [choice.as_json() for choice in offered]}
        body = wording.to_people(advisory, reasons, offered)
        await self._announcer.speak(tx, advisory, body, now, meta=meta)

    # -- what people decide

    async def go_first(
        self,
        tx: Tx,
        agent: str,
        sets: Mapping[str, WorkingSet],
        *,
        by: str,
        now: float,
        cause: Sequence[str] = (),
    ) -> str:
        """A person says that this agent goes first, in each resolution that it is part of; gives what the room
        answers. Raises Refusal."""
        resolutions = [
            advisory
            for advisory in (await table.load_state(tx)).advisories.values()
            if agent in (*advisory.roles.hold, *advisory.roles.steer)
        ]
        if not resolutions:
            raise Refusal(
                f"{agent} is not part of a resolution advisory, so nobody has to give way to it.",
                "`/airspace` shows who is near whom.",
            )
        decisions = [advisory.decided for advisory in resolutions]
        if all(first is not None and first.agent == agent for first in decisions):
            by_whom = next(first.by for first in decisions if first is not None)
            raise Refusal(
                f"{agent} goes first already: {by_whom} decided that.", "`/first` for another one changes it."
            )
        settings, given_way = self._context.settings, dict[str, None]()
        for advisory, first in zip(resolutions, decisions, strict=True):
            if first is not None and first.agent == agent:
                continue
            mine = next(place for place in advisory.latched if place.agent == agent)
            others = [replace(place, by="") for place in advisory.latched if place.agent != agent]
            stands = {name: stand for name, stand in advisory.stands.items() if name != agent}
            after = replace(advisory, latched=(replace(mine, by=by), *others), stands=stands)
            roles = after.roles
            given_way |= dict.fromkeys(roles.steer)
            after = replace(
                after, told={name: part_of(name, roles.hold, roles.steer) for name in roles.agents}
            )
            # Told anew: from now on each has its time to leave, and a running turn is cut off once.
            after = steering.begin(replace(after, resolved_at=now), sets, now, settings.steer_s)
            await self._announcer.decided(tx, after, agent, by=by, now=now, cause=cause)
        behind = [name for name in given_way if name != agent]
        verb = "gives" if len(behind) == 1 else "give"
        return f"{by} decided: {agent} goes first; {' and '.join(behind)} {verb} way."

    async def take_main(
        self, tx: Tx, agent: str, branch: str, *, by: str, now: float, cause: Sequence[str] = ()
    ) -> str:
        """A person asks this agent to take the main branch in: it gets a turn. Gives what the room answers. Raises
        Refusal."""
        why = (await self._voice.reach(tx, [agent]))[agent]
        if why:
            raise Refusal(f"{agent} cannot be asked: it is {why}.", f"`/resume @{agent}` lifts a pause.")
        state = (await table.load_state(tx)).advisories.values()
        about = next((advisory for advisory in state if agent in advisory.set_back), None)
        back = None if about is None else about.set_back[agent]
        body = wording.asked_to_take_in(by, agent, branch, back)
        lane = table.lane_of(about.id if about is not None else f"update:{agent}")
        meta: dict[str, Any] = {TAKE_MAIN: [agent]}
        if about is not None:
            meta |= {"advisory": about.id, "level": about.level.word}
        spoken = await self._voice.say(
            tx, body, now=now, lane=lane, to=[agent], ask=[agent], cause=cause, meta=meta
        )
        if about is not None:
            await table.save_change(tx, about, ["asked"], cause=[spoken.event_id], by=by)
        return f"{by} asked {agent} to merge {branch} into its branch."

    # -- what others ask

    def steer(self, agent: str, path: str) -> Steer | None:
        """The resolution advisory that tells this agent to keep off this file, if one stands."""
        return next((steer for steer in self.steers(agent) if path in steer.files), None)

    def ahead(self, agent: str, advisory: str) -> list[str]:
        """The agents that have the right of way over this one in an advisory."""
        standing = self.state.advisories.get(advisory)
        names = standing.roles.agents if standing is not None else ()
        return list(names[: names.index(agent)]) if agent in names else []

    def settles(self, agent: str) -> set[str]:
        """The files in which this agent has the conflicts of a merge to settle."""
        backs = (advisory.set_back.get(agent) for advisory in self.state.advisories.values())
        return {path for back in backs if back is not None and back.unsettled for path in back.paths}

    def steers(self, agent: str) -> list[Steer]:
        """The resolution advisories that tell this agent to steer, the oldest first; off no file that it settles a
        conflict in."""
        if not self._context.settings.enabled:
            return []
        steers, settles = [], self.settles(agent)
        for advisory in sorted(
            self.state.advisories.values(), key=lambda advisory: (advisory.opened_at, advisory.id)
        ):
            all_off = advisory.roles.off.get(agent)
            off = tuple(path for path in all_off or () if path not in settles)
            if all_off is not None and (off or not all_off) and advisory.resolved_at is not None:
                # What was said may be of another level by now; while it is not, it names free work as well.
                reason = (
                    advisory.text if advisory.reason in advisory.text.split("; ") else wording.line(advisory)
                )
                steers.append(Steer(advisory.id, reason, off, advisory.resolved_at))
        return steers

    def behind(self, agent: str) -> frozenset[str]:
        """The agents that this one has the latched right of way over, where both stand in one advisory."""
        orders = [advisory.roles.agents for advisory in self.state.advisories.values()]
        return frozenset(
            name for names in orders if agent in names for name in names[names.index(agent) + 1 :]
        )

    def decided(self) -> set[str]:
        """The agents that somebody gives way to because a person said that they go first."""
        decisions = ((advisory.decided, advisory.roles.hold) for advisory in self.state.advisories.values())
        return {first.agent for first, hold in decisions if first is not None and first.agent in hold}

    async def mark(self, advisory_id: str, mark: Mark | None, *, by: str) -> Advisory | None:
        """What a person says of an advisory; None when there is none of that id."""

        async def work(tx: Tx) -> tuple[Advisory | None, AirspaceState]:
            advisory = await table.advisory(tx, advisory_id)
            if advisory is not None and advisory.mark is not mark:
                marked = replace(advisory, mark=mark, marked_by=by if mark else None)
                advisory = await table.save_change(tx, marked, ["marked"], by=by)
            return advisory, await table.load_state(tx)

        async with self._alone:
            advisory, self.state = await self._context.store.write(work)
        return advisory

    async def merged(
        self, tx: Tx, agent: str, conflicts: Sequence[str], *, now: float, cause: Sequence[str] = ()
    ) -> None:
        """An agent's branch was merged into the main one, or could not be for `conflicts`."""
        ended = await tx.all(table.Q.ended_since, since=now - MERGE_AFTER_S)
        for advisory in [*(await table.load_state(tx)).advisories.values(), *map(table.of_row, ended)]:
            after = outcomes.at_merge(advisory, agent, conflicts)
            if after != advisory:
                await table.save_change(tx, after, ["outcome"], cause=cause)

    async def undecided(self, tx: Tx, agent: str, *, cause: Sequence[str] = ()) -> None:
        """An agent's work was merged or discarded: what a person decided about it is over."""
        for advisory in (await table.load_state(tx)).advisories.values():
            after = advisory.without_decision({agent})
            if after != advisory:
                await table.save_change(tx, after, ["decided"], cause=cause)

    async def end_all(self, why: str) -> None:
        """Close what stands: the airspace is switched off."""
        now = self._context.clock()

        async def work(tx: Tx) -> AirspaceState:
            state = await table.load_state(tx)
            for advisory in state.advisories.values():
                ended = outcomes.on_close(replace(advisory, contacts={}, closed_at=now, closed_why=why))
                if advisory.message_id is None:
                    await table.save_change(tx, ended, ["closed"])
                else:
                    await self._announcer.clear(tx, ended, ["closed"], now, clear=False)
            await tx.execute(table.Q.forget_pairs)
            await tx.execute(table.Q.end_lookaheads, now=now)
            return await table.load_state(tx)

        async with self._alone:
            self.state = await self._context.store.write(work)


def _unanswered(advisory: Advisory, now: float) -> bool:
    """Is an answer overdue, or can none come?"""
    silent = advisory.unanswered
    if advisory.escalated_at is not None or not silent or not advisory.open:
        return False
    late = advisory.deadline_at is not None and now >= advisory.deadline_at
    return late or all(advisory.asked[agent].failed for agent in silent)


def _unsteered(advisory: Advisory, now: float) -> bool:
    """Is an agent overdue that should have left, while its resolution stands?"""
    late = advisory.steer_by is not None and now >= advisory.steer_by
    return advisory.open and late and advisory.people_asked_at is None and bool(steering.stayed(advisory))


def _overdue(advisory: Advisory, now: float) -> bool:
    return _unanswered(advisory, now) or _unsteered(advisory, now)
