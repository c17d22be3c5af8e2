"""What people order about handoffs: to hand on, to run a pipeline, to answer one that did not pass.

Invariants:
- an order that cannot be carried out changes nothing: no event, no row, no branch and no worktree;
- an order is one transaction of the steward's; what takes time (git, rules) is done by `HandoffSteps` afterwards.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from relay.airspace.worktrees.registry import EDITORS, WorktreeRegistry
from relay.airspace.worktrees.tracked_worktree import WorktreeGone
from relay.base.terminal_text import safe_line
from relay.config.settings import AgentSettings, LiveSettings, Settings
from relay.git.run import GitError
from relay.log import events
from relay.log.events import Event, Lane, NewEvent
from relay.model import Fault, Refusal
from relay.model.actions import AnswerHandoff, HandoffAnswer, HandOn, RunPipeline
from relay.room.advisory_voice import RoomVoice
from relay.room.dispatch.running import RunningTurns
from relay.room.journal import ledger
from relay.store.ports import Tx
from relay.timeline.handoffs import journal, wording
from relay.timeline.handoffs.event import answers_of, decided, goes_on
from relay.timeline.handoffs.journal import HANDED_ON, Handoff, State
from relay.timeline.handoffs.placing import HandoffPlaces

#: Fewer roles hand nothing on.
_LEAST_ROLES = 2


def lane_of(handoff: Handoff) -> Lane:
    """The short lane of the room's own events about a handoff."""
    return Lane(ledger.ROOM, f"handoff:{handoff.number}", short=True)


class HandoffOrders:
    """Carries out orders in the caller's transaction (`relay.model.ports.Handoffs`)."""

    def __init__(
        self,
        settings: LiveSettings,
        registry: WorktreeRegistry,
        turns: RunningTurns,
        voice: RoomVoice,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._settings, self._registry, self._turns, self._voice = settings, registry, turns, voice
        self._clock = clock
        #: What the last look found in the way of receivers of the pipeline, by name.
        self._unable: dict[str, str] = {}

    async def hand_on(self, tx: Tx, action: HandOn, *, by: str, cause: Sequence[str] = ()) -> str:
        """Check the source's work and hand it on. Raises Refusal."""
        settings = self._settings.current
        (source, source_role), (target, target_role) = (
            _giver(settings, word) for word in (action.source, action.target)
        )
        if source.name == target.name:
            raise Refusal(f"{source.name} cannot hand on to itself.", "Name two agents.")
        rules = _rules(settings, source_role, target_role)
        await self._check_able(tx, source, target)
        for agent in (source, target):
            if agent.name in self._turns.by_agent:
                raise Refusal(
                    f"{agent.name}'s turn is running.", f"Wait until it ends, or `/cancel @{agent.name}`."
                )
            self._check_place(agent)
        handoff = Handoff(
            number=await journal.next_number(tx),
            state=State.CHECKING,
            source=source.name,
            source_role=source_role,
            target=target.name,
            target_role=target_role,
            text=action.text or "",
            asker=by,
            allowed=settings.handoffs.max_retries,
            began=(await journal.last_with(tx, source.name)).pos,
            cause=cause[0] if cause else None,
        )
        await journal.save(tx, handoff)
        return wording.opened(handoff, len(rules))

    async def pipeline(self, tx: Tx, action: RunPipeline, *, by: str, cause: Sequence[str] = ()) -> str:
        """Ask the agent of the first role, and hand on from role to role. Raises Refusal."""
        settings = self._settings.current
        roles = settings.handoffs.pipeline
        if len(roles) < _LEAST_ROLES:
            raise Refusal("A pipeline needs two roles.", "Add one to `handoffs.roles`.")
        _check_roles(settings, roles)
        agents = [with_role(settings, role) for role in roles]
        for role, following in pairwise(roles):
            _rules(settings, role, following)
        for source, target in pairwise(agents):
            await self._check_able(tx, source, target)
        for agent in agents:
            self._check_place(agent, made=False)
        handoff = Handoff(
            number=await journal.next_number(tx),
            state=State.WORKING,
            source=agents[0].name,
            source_role=roles[0],
            target=agents[1].name,
            target_role=roles[1],
            text=action.text,
            asker=by,
            allowed=settings.handoffs.max_retries,
            began=await events.last_pos(tx),
            cause=cause[0] if cause else None,
            rest=roles[2:],
        )
        spoken = await self._voice.say(
            tx,
            wording.first_prompt(handoff),
            now=self._clock(),
            lane=lane_of(handoff),
            to=[handoff.source],
            ask=[handoff.source],
            cause=cause,
            # No `handoff`: this turn begins where the main branch is now.
            meta={"pipeline": handoff.number},
        )
        await journal.save(tx, replace(handoff, message=spoken.id))
        order = " -> ".join(f"{agent.name} ({role})" for agent, role in zip(agents, roles, strict=True))
        stops = [self._unable[agent.name] for agent in agents[1:] if agent.name in self._unable]
        return "\n\n".join([f"The pipeline begins: {order}.", *stops])

    async def check(self, action: AnswerHandoff | RunPipeline) -> None:
        """Look at what no transaction can: raises Refusal where a branch of this name cannot be made. Of a pipeline
        it is looked which receivers could not take the work now, which its answer says."""
        if isinstance(action, RunPipeline):
            self._unable = await self._unable_receivers()
            return
        if action.answer is not HandoffAnswer.BRANCH:
            return
        registry = self._registry
        if registry.main is None:
            raise Refusal(f"There is no repository: {registry.trouble}.")
        try:
            await HandoffPlaces(registry.scratch, registry.main).check_branch(action.value or "")
        except GitError as error:
            raise Refusal(f"git could not look at the branches: {error}.") from error

    async def answer(self, tx: Tx, action: AnswerHandoff, *, by: str, cause: Sequence[str] = ()) -> str:
        """Say what becomes of a handoff that did not pass. Raises Refusal."""
        handoff = await journal.load(tx, action.handoff)
        event = None if handoff.event is None else await events.get(tx, handoff.event)
        if action.answer not in answers_of(handoff, event):
            if handoff.state is not State.ASKED:
                raise Refusal(f"Handoff {handoff.name} waits for no answer: {_STANDS[handoff.state]}.")
            raise Refusal(
                f"No rule of handoff {handoff.name} has failed.", f"`/handoff {handoff.name} retry` goes on."
            )
        names = f"{handoff.source} to {handoff.target}"
        if action.answer is HandoffAnswer.ESCALATE:
            chosen: dict[str, str] = {"kind": "escalate", "reason": f"by {by}", "by": by}
            await self._end(tx, handoff, None if event is None else decided(event.outputs, chosen), cause)
            return f"{by} ended handoff {handoff.name} from {names}: it is in people's hands."
        if action.answer is HandoffAnswer.RETRY and (event is None or goes_on(event)):
            state = State.CHECKING if event is None else State.PASSED
            tree, commit = (None, None) if event is None else (handoff.tree, handoff.at_commit)
            await journal.save(tx, replace(handoff, state=state, tree=tree, at_commit=commit))
            again = "is checked again" if event is None else f"sets {handoff.target}'s worktree again"
            return f"Handoff {handoff.name} from {names} {again}."
        assert event is not None
        if action.answer is HandoffAnswer.SKIP:
            skip = {"kind": "skip", "justification": action.value or "", "by": by}
            recorded = await self._record(tx, handoff, decided(event.outputs, skip), cause)
            await journal.mark(tx, lane_of(handoff), handoff, recorded, passed=False)
            await journal.save(tx, replace(handoff, state=State.PASSED, event=recorded.id))
            return f"{by} skipped the rules of handoff {handoff.name} from {names}: {action.value}"
        row = replace(
            handoff, state=State.RETRYING, branch=None, allowed=max(handoff.allowed, handoff.attempt + 1)
        )
        if action.answer is HandoffAnswer.BRANCH:
            chosen = {"kind": "branch", "branch_name": action.value or "", "by": by}
            recorded = await self._record(tx, handoff, decided(event.outputs, chosen), cause)
            row = replace(row, branch=action.value, event=recorded.id)
        await journal.save(tx, row)
        where = f" on the branch {row.branch}" if row.branch else ""
        return f"{handoff.source} tries handoff {handoff.name} again{where}."

    async def _end(
        self, tx: Tx, handoff: Handoff, outputs: dict[str, Any] | None, cause: Sequence[str]
    ) -> None:
        if outputs is not None:
            handoff = replace(handoff, event=(await self._record(tx, handoff, outputs, cause)).id)
        if handoff.state is State.WORKING and handoff.message is not None:
            await self._voice.withdraw(
                tx,
                handoff.message,
                f"handoff {handoff.name} was ended",
                now=self._clock(),
                agents=[handoff.source],
            )
        await journal.save(tx, replace(handoff, state=State.LEAVING))

    async def _record(self, tx: Tx, handoff: Handoff, outputs: dict[str, Any], cause: Sequence[str]) -> Event:
        """What people decided, on a lane of the handoff's own."""
        parents = [*cause, *([handoff.event] if handoff.event else [])]
        new = NewEvent(HANDED_ON, lane_of(handoff), outputs=outputs, parents=parents, snapshot=handoff.tree)
        return await events.append(tx, new)

    # -- what has to hold

    async def _unable_receivers(self) -> dict[str, str]:
        """Whose worktree would refuse a handoff of the pipeline as it stands now, by name, with what to do."""
        registry, roles = self._registry, self._settings.current.handoffs.pipeline
        if registry.main is None:
            return {}
        places = HandoffPlaces(registry.scratch, registry.main)
        target = await registry.target()
        main = None if target is None else target.commit
        found: dict[str, str] = {}
        begin: str | None = None
        for role in roles:
            if missing_roles(self._settings.current, [role]):
                return {}  # it is refused
            agent = with_role(self._settings.current, role)
            if (worktree := registry.worktrees.get(agent.name)) is None:
                continue
            try:
                async with worktree.lock:
                    snapshot = await worktree.take_snapshot(everything=True)
                if role == roles[0]:
                    begin = snapshot.head.commit  # all that is handed on stands on it
                    continue
                landed = registry.merge_trials.contains
                await places.check_free(agent.name, worktree.checkout, snapshot, begin, main, landed)
            except Refusal as refusal:
                unlanded = refusal.code == "unlanded_work"
                fix = "Merge or discard it before the work gets there." if unlanded else refusal.fix
                found[agent.name] = f"It would stop at {agent.name}: {refusal.message} {fix}"
            except (GitError, WorktreeGone) as error:
                why = safe_line(str(error) or type(error).__name__)
                found[agent.name] = (
                    f"It is not known whether {agent.name}'s worktree can take the work: {why}."
                )
        return found

    async def _check_able(self, tx: Tx, source: AgentSettings, target: AgentSettings) -> None:
        names = {source.name, target.name}
        for other in await journal.open_handoffs(tx):
            if meeting := names & {other.source, other.target}:
                raise Refusal(
                    f"Handoff {other.name} from {other.source} to {other.target} is not through: "
                    f"{_STANDS[other.state]}, and {sorted(meeting)[0]} is in it.",
                    f"`/handoff {other.name} escalate` ends one that waits for people.",
                )
        for name, why in (await self._voice.reach(tx, sorted(names))).items():
            if why in ("switched off", "not installed", "broken") or why is None:
                raise Refusal(f"{name} cannot get a turn: it is {why or 'not here'}.", "`/who` says more.")

    def _check_place(self, agent: AgentSettings, *, made: bool = True) -> None:
        """Has it a worktree that relay may write in? `made` false: one that is made when its turn begins will do."""
        registry = self._registry
        worktree = registry.worktrees.get(agent.name)
        if worktree is None:
            why = registry.troubles.get(agent.name) or registry.trouble
            edits = agent.kind in EDITORS and self._settings.current.workspace.worktrees
            if edits and not why and not made:
                return
            fix = "Try again in a moment." if edits else "Let it edit, and switch on `workspace.worktrees`."
            because = f" ({why})" if why else ""
            raise Refusal(f"{agent.name} has no worktree, so there is no snapshot of it{because}.", fix)
        if not worktree.own:
            raise Refusal(
                f"{agent.name} works in {worktree.checkout.top}, where relay writes nothing.",
                "Leave out its `worktree` in the configuration; then relay makes one.",
            )


_STANDS = {
    State.WORKING: "its agent is at work",
    State.CHECKING: "its rules are being checked",
    State.RETRYING: "it is tried again",
    State.PASSED: "it has passed",
    State.ASKED: "it waits for people",
    State.FINISHING: "its last agent is at work",
    State.DONE: "it is through",
    State.LEAVING: "it was ended",
    State.ENDED: "it was ended",
}


def with_role(settings: Settings, role: str) -> AgentSettings:
    """The first agent of the configuration that has a role. Raises Refusal, naming the role."""
    found = [agent for agent in settings.agents if agent.role == role and agent.enabled]
    if not found:
        raise Refusal(
            f"No agent has the role {role}.", f'Set `"role": "{role}"` of one in the configuration.'
        )
    return found[0]


def missing_roles(settings: Settings, roles: Sequence[str]) -> list[str]:
    """Those of the roles that no agent of the configuration has."""
    given = {agent.role for agent in settings.agents if agent.enabled}
    return [role for role in roles if role not in given]


def _check_roles(settings: Settings, roles: Sequence[str]) -> None:
    """Raise a Refusal that names every role that no agent has."""
    missing = missing_roles(settings, roles)
    if len(missing) > 1:
        raise Refusal(
            f"No agent has the roles {', '.join(missing)}.",
            f'Set `"role": "{missing[0]}"` of one in the configuration, and so on.',
        )


def _giver(settings: Settings, word: str) -> tuple[AgentSettings, str]:
    """Who hands on or gets it, with the role: `@AVA`, or a role that one agent has. Raises Refusal."""
    if word.startswith("@"):
        agent = settings.agent(word[1:])
        if agent is None:
            raise Refusal(f"There is no agent {word[1:]}.", "`/who` lists them.", Fault.UNKNOWN)
        if agent.role is None:
            raise Refusal(
                f"{agent.name} has no role.", "Set `role` of it in the configuration (`agents[].role`)."
            )
        return agent, agent.role
    role = word.casefold()
    if settings.handoffs.role(role) is None:
        known = ", ".join(settings.handoffs.pipeline)
        raise Refusal(f"There is no role {word[:40]!r}, and no such agent.", f"The roles are {known}.")
    agent = with_role(settings, role)
    others = [each.name for each in settings.agents if each.role == role and each.enabled]
    if len(others) > 1:
        raise Refusal(f"{', '.join(others)} all have the role {role}.", "Name the agent, with its @.")
    return agent, role


def _rules(settings: Settings, source: str, target: str) -> tuple[str, ...]:
    """The names of the rules between two roles. Raises Refusal where nothing is handed on."""
    transition = settings.handoffs.transition(source, target)
    if transition is None:
        after = [each.to_role for each in settings.handoffs.transitions if each.from_role == source]
        known = (
            f"The {source} hands on to: {', '.join(after)}." if after else "Add it to `handoffs.transitions`."
        )
        raise Refusal(f"The {source} does not hand on to the {target}.", known)
    return transition.rules
