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
from relay.log.batch import record_all
from relay.log.encoding import dumps
from relay.log.events import Event, Lane, NewEvent
from relay.model import DISPATCHER, STEWARD, Kind, Message
from relay.model.actions import Action
from relay.room.journal.admission_rules import Rules
from relay.room.journal.values import CycleState, Job, JobState, entry_fact, message_of_row
from relay.room.parsing import line_format
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
#: What `meta` says of an entry that was changed later (relay.room.entries).
CHANGED_META = ("edited", "deleted", "short")
#: With one of these comes every change of the room's tables (messages, cycles, jobs, breakers).
OF_THE_ROOM = (POSTED, QUEUED, CHANGED, DECIDED, TURN_STARTED, TURN_ENDED, AGENT_STATE)


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A message to be put into the room. `at` is Unix seconds. `lane` None: the speaker's own, as a person.
    `causal_deps`: event ids of what its author was shown. `action`: what the page orders by it, in words `body`.
    `routes`: a cycle is about to be opened for it."""

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
    routes: bool = False


def new_id() -> str:
    """A UUIDv7: ids of messages sort by time."""
    return str(uuid_utils.uuid7())


def person_lane(name: str) -> Lane:
    return Lane(ROOM, f"human:{name}")


def cycle_lane(message_id: str) -> Lane:
    """The short lane of the room's bookkeeping for one message."""
    return Lane(ROOM, f"cycle:{message_id}", short=True)


async def put_message(tx: Tx, new: NewMessage) -> tuple[Message, Event]:
    """Put a message into the room; it opens nothing yet."""
    message = _message(new, await events.next_number(tx, "message"), await _roots(tx, [new]))
    line_format.encode(message)  # refuses here what no transcript can hold
    event = await events.append(tx, _posted(new, message))
    await tx.execute(Q.put_message, **_columns(new, message, event.id))
    return replace(message, cursor=event.pos), event


async def put_messages(tx: Tx, news: Sequence[NewMessage]) -> list[Message]:
    """As `put_message` for each of these in their order, without their cursors. They are of a transcript, so one
    can hold them; none has a `source_key`."""
    last = await events.next_number(tx, "message", len(news))
    roots = await _roots(tx, news)
    messages = [_message(new, number, roots) for number, new in enumerate(news, last - len(news) + 1)]
    pairs = list(zip(news, messages, strict=True))
    ids = await record_all(tx, [_posted(new, message) for new, message in pairs])
    rows = [_columns(new, message, event) for (new, message), event in zip(pairs, ids, strict=True)]
    await tx.many(Q.put_message, rows)
    return messages


async def _roots(tx: Tx, news: Sequence[NewMessage]) -> dict[str, str]:
    """By the id of an entry that one of these answers: the first entry of its thread."""
    answered = [new.in_reply_to for new in news if new.in_reply_to is not None]
    rows = await tx.all(Q.messages_by_ids, ids=dumps(answered)) if answered else ()
    return {row["id"]: row["thread"] or row["id"] for row in rows}


def _message(new: NewMessage, number: int, roots: dict[str, str]) -> Message:
    """`roots`: as of `_roots`; the new entry comes into it."""
    message = Message(
        id=new.id or new_id(),
        ts=new.ts or iso(new.at) or "",
        speaker=new.speaker,
        kind=new.kind,
        body=new.body,
        number=number,
        in_reply_to=new.in_reply_to,
        thread=roots.get(new.in_reply_to or ""),
        to=new.to,
        job=new.job,
        meta=new.meta,
    )
    roots[message.id] = message.thread or message.id
    line_format.check_speaker(message)
    return message


def _posted(new: NewMessage, message: Message) -> NewEvent:
    cycle = {"message_id": message.id, "state": str(CycleState.ROUTING)}
    return NewEvent(
        type=POSTED,
        lane=new.lane or person_lane(new.speaker),
        parents=new.parents,
        causal_deps=new.causal_deps,
        outputs={"message": entry_fact(message), **({"cycles": [cycle]} if new.routes else {})},
        role=str(new.kind),
        source_key=new.source_key,
        at=message.ts,
    )


def _columns(new: NewMessage, message: Message, event: str) -> dict[str, Any]:
    return {
        "number": message.number,
        "id": message.id,
        "event_id": event,
        "ts": message.ts,
        "at": new.at,
        "speaker": message.speaker,
        "kind": str(message.kind),
        "body": message.body,
        "in_reply_to": message.in_reply_to,
        "thread": message.thread,
        "addressed": dumps(list(message.to)),
        "job": message.job,
        "meta": dumps(dict(message.meta)),
        "client_id": new.client_id,
        "plain_digest": new.plain_digest,
    }


async def open_cycles(
    tx: Tx, messages: Sequence[Message], rules: Rules, *, now: float, newest: int | None = None
) -> None:
    """Begin the routing of messages that mention nobody and were put now, in their order. `newest`: the number of the
    last entry that was put with them, None = theirs."""
    # No more are counted than the wait depends on; it is fixed here so that a restart keeps it.
    most = max(rules.busy, rules.medium)
    newest = messages[-1].number if newest is None else newest
    together = newest - messages[0].number + 1
    recent = await tx.one(Q.entries_since, since=now - 60.0, most=most + together)
    entries = recent["entries"] if recent else 0
    rows = [
        {
            "message_id": message.id,
            "number": message.number,
            "opened_at": now,
            # Those that came with it and behind it are not counted.
            "due_at": now + rules.delay_s(min(most, entries - (newest - message.number))),
        }
        for message in messages
    ]
    await tx.many(Q.open_cycle, rows)


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
            outputs={**(extra or {}), "jobs": [job.as_fact() for job in jobs]},
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
    to: Sequence[str] = (),
) -> tuple[Message, Event]:
    """The room says something itself, in reply to the message `about` or as a notice of its own. `now`: None = by the
    store's clock, which is one for all members of a fleet. `to`: whom it concerns; with `urgent` in `meta` an agent
    among them hears it while it works."""
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
            to=tuple(to),
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
    said = as_written(row)
    added = CHANGED_META if said.kind is Kind.DISPATCHER else (*CHANGED_META, "decision", "folded_into")
    said = replace(said, meta={key: said.meta[key] for key in said.meta if key not in added})
    return line_format.encode(said)


def as_written(row: Row) -> Message:
    """The entry of a row of `messages` with the text that it was written with, whatever it says by now."""
    message = message_of_row(row)
    return message if row["said"] is None else replace(message, body=row["said"])


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
            outputs={"jobs": [changed.as_fact()]},
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
