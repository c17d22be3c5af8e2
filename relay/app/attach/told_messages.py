"""The room's messages for an attached session: what waits, what it has heard, and its answer.

Invariants:
- a message waits as a job of the session's name. It is the session's once the hook has said that it printed it, and
  then it is told no second time: the database decides, and no program's memory;
- what was printed and not acknowledged waits again, so nothing is lost when a hook is killed;
- the answer to all that a session has heard is one entry, in the transaction that ends these jobs.
Every function runs in the caller's transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from relay.base.durations import parse_iso
from relay.coordination import attached
from relay.coordination.attached import AttachedSession
from relay.log import events
from relay.log.encoding import dumps
from relay.log.events import Event, Lane, NewEvent
from relay.model import Kind, Message
from relay.room.dispatch.recovery import SESSION_HOLDER
from relay.room.entries import changes
from relay.room.journal import ledger
from relay.room.journal.admission_rules import Rules
from relay.room.journal.agent_mentions import pass_on
from relay.room.journal.ledger import Q
from relay.room.journal.values import Job, JobState, message_of_row
from relay.room.parsing.mentions import mentions
from relay.store.ports import Tx

#: Seconds after which an entry is none for those who are here now.
RECENT_S = 600.0
#: Messages that are looked at for one hook.
MOST_WAITING = 50


async def waiting(tx: Tx, agent: str) -> list[tuple[Job, Message]]:
    """The messages that nobody in the session has heard yet, the oldest first."""
    jobs = [Job.of_row(row) for row in await tx.all(Q.open_jobs_of_agent, agent=agent)][:MOST_WAITING]
    if not jobs:
        return []
    rows = await tx.all(Q.messages_by_ids, ids=dumps([job.message_id for job in jobs]))
    by_id = {row["id"]: await changes.with_new_text(tx, message_of_row(row)) for row in rows}
    return [(job, by_id[job.message_id]) for job in jobs if job.message_id in by_id]


async def tell(tx: Tx, message: Message, cause: str, names: Collection[str]) -> None:
    """Let those of these that are attached sessions hear what the room itself says."""
    here = [session.agent for session in await attached.here(tx) if session.agent in names]
    if here:
        await ledger.queue_jobs(tx, message.id, here, parents=[cause], now=await tx.now())


def _holder(session: AttachedSession) -> str:
    return f"{SESSION_HOLDER}{session.session}"


async def heard(
    tx: Tx, session: AttachedSession, ids: Collection[str], after: str | None = None
) -> list[Job]:
    """The session's program was told these messages, inside a turn `after` this tool (None: with a prompt): they are
    its jobs now. Gives those that were not before."""
    now = await tx.now()
    taken = []
    for job, message in await waiting(tx, session.agent):
        if message.id not in ids:
            continue
        taking = {"holder": _holder(session), "now": now}
        if after is None:
            row = await tx.one(Q.take_job, id=job.id, **taking)
        else:
            place = {
                "message_id": message.id,
                "agent": session.agent,
                "after": after[:200],
                "lease_until": None,
            }
            row = await tx.one(Q.hear, **place, **taking)
        if row is None:
            continue
        taken.append(Job.of_row(row))
        await _changed(tx, session, [taken[-1]])
    return taken


async def _changed(tx: Tx, session: AttachedSession, jobs: Sequence[Job]) -> events.Event:
    return await events.append(
        tx,
        NewEvent(
            type=ledger.CHANGED,
            lane=Lane(session.session, session.agent),
            parents=list(dict.fromkeys(job.cause_event for job in jobs)),
            inputs={"agent": session.agent},
            outputs={"jobs": [job.as_fact() for job in jobs]},
        ),
    )


async def _held(tx: Tx, session: AttachedSession) -> list[Job]:
    jobs = [Job.of_row(row) for row in await tx.all(Q.active_jobs)]
    return [job for job in jobs if job.holder == _holder(session)]


async def _end(
    tx: Tx,
    session: AttachedSession,
    jobs: Sequence[Job],
    state: JobState,
    *,
    reason: str | None = None,
    answer_id: str | None = None,
) -> events.Event:
    rows = await tx.all(
        Q.end_jobs,
        ids=dumps([job.id for job in jobs]),
        state=str(state),
        error=reason,
        error_class=None,
        answer_id=answer_id,
        not_before=0.0,
        now=await tx.now(),
        primary_job=jobs[-1].id,
        holder=_holder(session),
        interrupted=0,
    )
    return await _changed(
        tx, session, [Job.of_row(row) for row in sorted(rows, key=lambda row: int(row["id"]))]
    )


async def answered(
    tx: Tx, session: AttachedSession, text: str, rules: Rules, *, unasked: bool = False
) -> Message | None:
    """The session's turn ended with this text: it answers all that the room had told it. `unasked`: it is an entry
    also where the room told it nothing. None: no entry."""
    jobs, now = await _held(tx, session), await tx.now()
    text = text.strip()
    if not jobs and not (unasked and text):
        return None
    if not text:
        await _end(tx, session, jobs, JobState.DONE)
        return None
    answer_id = ledger.new_id()
    ended = await _end(tx, session, jobs, JobState.DONE, answer_id=answer_id) if jobs else None
    told = len(text.encode()) <= rules.max_entry_bytes
    entry, event = await ledger.put_message(
        tx,
        ledger.NewMessage(
            speaker=session.agent,
            kind=Kind.AGENT,
            body=text
            if told
            else f"{text.encode()[: rules.max_entry_bytes // 2].decode('utf-8', 'ignore')} …",
            at=now,
            id=answer_id,
            lane=Lane(session.session, session.agent),
            parents=[ended.id] if ended else (),
            in_reply_to=jobs[-1].message_id if jobs else None,
            job=jobs[-1].id if jobs else None,
            meta={"session": session.session, "attached": session.program},
        ),
    )
    if rules.agent_mentions:
        await pass_on(tx, entry, event.id, names=rules.agents, hop_limit=rules.hop_limit, now=now)
    return entry


async def given_up(tx: Tx, session: AttachedSession) -> None:
    """The session is gone: what it had heard and did not answer has no answer."""
    jobs = await _held(tx, session)
    if jobs:
        reason = "its session ended before it answered"
        await _end(tx, session, jobs, JobState.SKIPPED, reason=reason)
        await ledger.say(
            tx,
            f"{session.agent} did not answer: {reason}.",
            about=jobs[-1].message_id,
            meta={"notice": "skipped", "agent": session.agent, "jobs": [job.id for job in jobs]},
        )


class AgentsMentions:
    """A follower of the log (`relay.log.follow`): an agent's entry that names a person's own session is for it. It is
    told once, with its next prompt or at the end of its turn; nobody is set to work by it."""

    name = "attached-mentions"
    reads = frozenset({ledger.POSTED})
    emits = frozenset({ledger.QUEUED})

    async def apply(self, tx: Tx, event: Event) -> None:
        said = (event.outputs or {}).get("message") or {}
        if said.get("kind") != Kind.AGENT or "@" not in said.get("body", ""):
            return
        if await tx.now() - parse_iso(event.at) > RECENT_S:
            return  # a follower that begins anew: who is here now was not meant
        here = [session.agent for session in await attached.here(tx) if session.agent != said["speaker"]]
        named = mentions(said["body"], (), also=here)
        message = await ledger.message(tx, said["id"]) if named else None
        if message is not None:
            await tell(tx, message, event.id, named)
