"""The room's writing: a message, what it opens, and its jobs, each with its event in one transaction.

Invariants:
- a row and the event that says why it is there commit together, or not at all;
- rows for commands and mentions commit with their message, so a restart finds them;
- the room's bookkeeping for a message runs on that message's own short lane (`cycle`), so it orders nobody;
- an entry has the next number. In the order of numbers it comes into the transcript file of each member, by a line
  that says the same whenever it is made (`line_of`);
- every function runs in the caller's transaction.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import uuid_utils

from relay.base.durations import iso
from relay.log import events
from relay.log.encoding import dumps
from relay.log.events import Event, Lane, NewEvent
from relay.model import DISPATCHER, STEWARD, Kind, Message, references
from relay.model.actions import Action
from relay.room.journal import hop_limit as hops
from relay.room.journal.admission_rules import Rules
from relay.room.journal.values import CycleState, Job, JobState, message_of_row
from relay.room.journal.visitors import told_apart
from relay.room.parsing import commands, line_format
from relay.room.parsing.mentions import mentions, misspelt
from relay.store.ports import Queries, Row, Tx

FOLDER = Path(__file__).parents[1]
Q = Queries(FOLDER)
ROOM = "room"

POSTED = "message.posted"
QUEUED = "dispatch.queued"
CHANGED = "dispatch.changed"
DECIDED = "cycle.decided"
TURN_STARTED = "turn.started"
TURN_ENDED = "turn.ended"
AGENT_STATE = "agent_state"
#: A person ends a turn that runs at another member of the fleet.
TURN_STOPPED = "turn.stopped"
#: With one of these comes every change of the room's tables (messages, cycles, jobs, breakers).
OF_THE_ROOM = (POSTED, QUEUED, CHANGED, DECIDED, TURN_STARTED, TURN_ENDED, AGENT_STATE)


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A message to be put into the room. `at` is Unix seconds. `lane` None: the speaker's own, as a person.
    `causal_deps`: event ids of what its author was shown. `action`: what the page orders by it, in words `body`."""

    speaker: str
    kind: Kind
    body: str
    at: float
    id: str = ""
    ts: str = ""
    lane: Lane | None = None
    parents: Sequence[str] = ()
    causal_deps: Sequence[str] = ()
    in_reply_to: str | None = None
    to: tuple[str, ...] = ()
    job: int | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)
    client_id: str | None = None
    source_key: str | None = None
    plain_digest: str | None = None
    action: Action | None = None


def new_id() -> str:
    """A UUIDv7: ids of messages sort by time."""
    return str(uuid_utils.uuid7())


def person_lane(name: str) -> Lane:
    return Lane(ROOM, f"human:{name}")


def cycle_lane(message_id: str) -> Lane:
    """The short lane of the room's bookkeeping for one message."""
    return Lane(ROOM, f"cycle:{message_id}", short=True)


async def put_message(tx: Tx, new: NewMessage, *, routing: bool = False) -> tuple[Message, Event]:
    """Put a message into the room; it opens nothing yet. `routing`: a cycle is about to be opened for it."""
    number = await events.next_number(tx, "message")
    message = Message(
        id=new.id or new_id(),
        ts=new.ts or iso(new.at) or "",
        speaker=new.speaker,
        kind=new.kind,
        body=new.body,
        number=number,
        in_reply_to=new.in_reply_to,
        to=new.to,
        job=new.job,
        meta=new.meta,
    )
    line_format.encode(message)  # refuses here what no transcript can hold
    shown = message.as_json()
    del shown["cursor"]
    cycle = {"message_id": message.id, "state": str(CycleState.ROUTING)}
    event = await events.append(
        tx,
        NewEvent(
            type=POSTED,
            lane=new.lane or person_lane(new.speaker),
            parents=new.parents,
            causal_deps=new.causal_deps,
            outputs={"message": shown, **({"cycles": [cycle]} if routing else {})},
            role=str(new.kind),
            source_key=new.source_key,
            at=message.ts,
        ),
    )
    await tx.execute(
        Q.put_message,
        number=number,
        id=message.id,
        pos=event.pos,
        event_id=event.id,
        ts=message.ts,
        at=new.at,
        speaker=message.speaker,
        kind=str(message.kind),
        body=message.body,
        in_reply_to=message.in_reply_to,
        addressed=dumps(list(message.to)),
        job=message.job,
        meta=dumps(dict(message.meta)),
        client_id=new.client_id,
        plain_digest=new.plain_digest,
    )
    return replace(message, cursor=event.pos), event


async def admit(
    tx: Tx, new: NewMessage, rules: Rules, *, by_an_agent: bool = False, visitors: Sequence[str] = ()
) -> Message:
    """Put a person's message into the room and open what it asks for: a command, mentions, or a cycle.

    `by_an_agent`: an agent may have written it, for all that is known. `visitors`: who is here but not run by the
    room; a message for one of them alone opens nothing, and the room says how it gets there.
    """
    command = commands.is_command(new.body)
    named = () if command else mentions(new.body, rules.agents, also=(STEWARD,))
    apart = () if command else mentions(new.body, (), also=visitors)
    opens = not (command or named or apart)
    unverified = "unverified" in new.meta
    counted = (
        unverified
        and not command
        and named != (STEWARD,)
        and (named or opens)
        and (by_an_agent or rules.agent_mentions or bool(await tx.all(Q.active_jobs)))
    )
    if counted and not await hops.take_line(tx, rules.hop_limit):
        return await _held(tx, replace(new, to=named, meta={**new.meta, "held": True}), rules)
    # An agent's processes all end with its turn. So a line that proves nobody is an agent's at most while one
    # works, or when its bytes were there before the turn's end (`by_an_agent`); where agents may ask each other,
    # it counts like their mentions.
    addressed = (*named, *apart)
    message, event = await put_message(tx, replace(new, to=addressed) if addressed else new, routing=opens)
    if command or named:
        agents = (STEWARD,) if command else named
        extra = {"action": new.action.as_json()} if new.action is not None else None
        await queue_jobs(tx, message.id, agents, parents=[event.id], now=new.at, extra=extra)
    if apart:
        await say(
            tx,
            _apart(message, apart, named, rules.agents),
            now=new.at,
            about=message.id,
            parents=[event.id],
            meta={"notice": "visitor"},
        )
    if not opens:
        return message
    await open_cycle(tx, message, rules, now=new.at)
    if slip := misspelt(new.body, rules.agents):
        await say(
            tx,
            f"There is no @{slip[0]} in this room, so nobody was called by that name. If you meant @{slip[1]}: "
            f"`/route {references.message(message.number)} @{slip[1]}`.",
            now=new.at,
            about=message.id,
            parents=[event.id],
            meta={"notice": "misspelt"},
        )
    return message


def _apart(message: Message, apart: Sequence[str], named: Sequence[str], agents: Sequence[str]) -> str:
    text = told_apart(apart, message.number)
    if named:
        return text
    other = (
        f" `/route {references.message(message.number)} @{agents[0]}` asks one of the room's."
        if agents
        else ""
    )
    return f"{text} No other agent was asked.{other}"


async def _held(tx: Tx, new: NewMessage, rules: Rules) -> Message:
    """Show a message that the hop limit keeps from opening anything; the room says so once."""
    message, event = await put_message(tx, new)
    if await hops.hold(tx, message.id, message.to):
        await say(
            tx,
            f"Unverified lines have set agents to work {rules.hop_limit} times since a person last spoke in the "
            "page or with join.py. Further ones are held; `/continue` there releases them.",
            now=new.at,
            about=message.id,
            parents=[event.id],
            meta={"notice": "hop_limit"},
        )
    return message


async def open_cycle(tx: Tx, message: Message, rules: Rules, *, now: float) -> None:
    """Begin the routing of a message that mentions nobody."""
    # No more are counted than the wait depends on; it is fixed here so that a restart keeps it.
    recent = await tx.one(Q.entries_since, since=now - 60.0, most=max(rules.busy, rules.medium))
    await tx.execute(
        Q.open_cycle,
        message_id=message.id,
        number=message.number,
        opened_at=now,
        due_at=now + rules.delay_s(recent["entries"] if recent else 0),
    )


async def queue_jobs(
    tx: Tx,
    message_id: str,
    agents: Sequence[str],
    *,
    parents: Sequence[str],
    now: float,
    extra: Mapping[str, Any] | None = None,
    type: str = QUEUED,
) -> list[Job]:
    """A job for each agent that has none for this message yet, with the event that is its cause. `extra` goes into
    the event's outputs: the decision of the dispatcher, the action of a command."""
    have = {row["agent"] for row in await tx.all(Q.jobs_of_message, message_id=message_id)}
    wanted = [agent for agent in dict.fromkeys(agents) if agent not in have]
    jobs = [
        Job(await events.next_number(tx, "job"), message_id, agent, JobState.PENDING, now) for agent in wanted
    ]
    event = await events.append(
        tx,
        NewEvent(
            type=type,
            lane=cycle_lane(message_id),
            parents=parents,
            inputs={"message": message_id},
            outputs={**(extra or {}), "jobs": [job.as_json() for job in jobs]},
        ),
    )
    for job in jobs:
        await tx.execute(
            Q.put_job,
            id=job.id,
            message_id=message_id,
            agent=job.agent,
            cause_event=event.id,
            created_at=now,
            not_before=0.0,
        )
    return jobs


async def say(
    tx: Tx,
    body: str,
    *,
    now: float | None = None,
    about: str | None = None,
    parents: Sequence[str] = (),
    speaker: str = STEWARD,
    meta: Mapping[str, Any] | None = None,
    job: int | None = None,
    id: str = "",
) -> tuple[Message, Event]:
    """The room says something itself, in reply to the message `about` or as a notice of its own. `now`: None = by the
    store's clock, which is one for all members of a fleet."""
    kind = Kind.DISPATCHER if speaker == DISPATCHER else Kind.SYSTEM
    lane = cycle_lane(about) if about else Lane(ROOM, f"notice:{new_id()}", short=True)
    causes = list(parents)
    if about and not causes:
        row = await tx.one(Q.event_of_message, id=about)
        causes = [row["event_id"]] if row else []
    return await put_message(
        tx,
        NewMessage(
            speaker=speaker,
            kind=kind,
            body=body,
            at=await tx.now() if now is None else now,
            id=id,
            lane=lane,
            parents=causes,
            in_reply_to=about,
            job=job,
            meta=meta or {},
        ),
    )


async def add_meta(
    tx: Tx, message_id: str, *, decision: Mapping[str, Any] | None = None, folded_into: str | None = None
) -> None:
    """Add to what the projection knows about a message; the event that says so is the caller's."""
    row = await tx.one(Q.message, id=message_id)
    if row is None:
        return
    more = {"decision": decision, "folded_into": folded_into}
    added = {key: value for key, value in more.items() if value is not None}
    meta = json.loads(row["meta"])
    # An answer of the dispatcher was posted with its decision, which stands in its line.
    meta = {**added, **meta} if row["kind"] == Kind.DISPATCHER else {**meta, **added}
    await tx.execute(Q.set_meta, id=message_id, meta=dumps(meta))


def line_of(row: Row) -> bytes:
    """The transcript's line of an entry, with its newline, from its row of `messages`: the same at every member and
    at any time, so without what `add_meta` adds."""
    said = message_of_row(row)
    if said.kind is not Kind.DISPATCHER:
        said = replace(
            said, meta={key: said.meta[key] for key in said.meta if key not in ("decision", "folded_into")}
        )
    return line_format.encode(said)


async def change_job(
    tx: Tx,
    job: Job,
    state: JobState,
    *,
    now: float,
    reason: str | None = None,
    error_class: str | None = None,
    attempts: int | None = None,
    interruptions: int = 0,
    parents: Sequence[str] = (),
) -> Job:
    """Bring a job that no turn holds into another state, with its event."""
    row = await tx.one(
        Q.set_job,
        id=job.id,
        state=str(state),
        error=reason,
        error_class=error_class,
        attempts=job.attempts if attempts is None else attempts,
        not_before=0.0,
        now=None if state is JobState.PENDING else now,
        interrupted=interruptions,
    )
    assert row is not None
    changed = Job.of_row(row)
    await events.append(
        tx,
        NewEvent(
            type=CHANGED,
            lane=cycle_lane(job.message_id),
            parents=[job.cause_event, *parents],
            inputs={"job": job.id, "agent": job.agent},
            outputs={"jobs": [changed.as_json()]},
        ),
    )
    return changed


async def agent_state(
    tx: Tx, agent: str, state: str, about: str, parents: Sequence[str], **more: Any
) -> None:
    """Record that an agent stands otherwise, in the lane of the message `about`."""
    outputs = {"agent": agent, "state": state, **more}
    event = NewEvent(type=AGENT_STATE, lane=cycle_lane(about), parents=parents, outputs=outputs)
    await events.append(tx, event)


async def decide(
    tx: Tx,
    message: Message,
    state: CycleState,
    decision: Mapping[str, Any],
    *,
    agents: Sequence[str],
    now: float,
) -> list[Job] | None:
    """Record a cycle's decision with its jobs, folding the older cycles that still wait into this one.

    None when the cycle was decided otherwise meanwhile (a person routed it): nothing is changed then.
    """
    taken = await tx.one(Q.decide_cycle, message_id=message.id, state=str(state), decision=dumps(decision))
    if taken is None:
        return None
    # What a statement gives back has no order of its own.
    folded = sorted(
        await tx.all(Q.fold_cycles, into=message.id, number=message.number),
        key=lambda row: int(row["number"]),
    )
    cause = await tx.one(Q.event_of_message, id=message.id)
    shown = [
        {"message_id": row["message_id"], "state": str(CycleState.FOLDED), "folded_into": message.id}
        for row in folded
    ]
    shown.append({"message_id": message.id, "state": str(state), **decision})
    await add_meta(tx, message.id, decision=dict(decision))
    for row in folded:
        await add_meta(tx, row["message_id"], folded_into=message.id)
    return await queue_jobs(
        tx,
        message.id,
        agents,
        parents=[cause["event_id"]] if cause else [],
        now=now,
        extra={"cycles": shown},
        type=DECIDED,
    )


async def message(tx: Tx, message_id: str) -> Message | None:
    row = await tx.one(Q.message, id=message_id)
    return None if row is None else message_of_row(row)


async def answers_since(tx: Tx, agent: str, since: float, limit: int) -> list[Message]:
    """What an agent answered from `since` (Unix seconds) on, the oldest first; the newest `limit`."""
    rows = await tx.all(Q.answers_since, agent=agent, since=since, limit=limit)
    return [message_of_row(row) for row in reversed(rows)]
