"""What a running turn is told, and the record of what it heard.

Invariants:
- an urgent message is put into a turn's inbox once; its job waits in the queue until the agent's program says that it
  has taken the message in. So what a turn does not hear comes with the next one;
- what a turn heard is a job of that turn, and ends with it: answered, tried again or given back with the others.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial

import structlog

from relay.log import events
from relay.log.events import NewEvent
from relay.model import Kind, Message, SteeringMessage
from relay.model.inbox import mark_for
from relay.room.dispatch.running import RunningTurn, TurnHooks
from relay.room.dispatch.turn_output import takes_main
from relay.room.dispatch.turns import Plan, message_text
from relay.room.entries import changes
from relay.room.journal import ledger
from relay.room.journal.ledger import Q
from relay.room.journal.values import Job, message_of_row
from relay.store.ports import Store, StoreBusy, Tx

log = structlog.get_logger(__name__)
#: Messages that are looked at together.
MOST = 200


def is_urgent(message: Message, agent: str, *, only_steers: bool = False) -> bool:
    """Is this for the agent, and should it hear it while it works? `only_steers`: its configuration says that the
    rest comes with its next turn.

    A person's word to it, an advisory that is no work of its own, and what the room calls urgent. A line that proves
    nobody waits for the next turn.
    """
    if agent not in message.to or "unverified" in message.meta or "deleted" in message.meta:
        return False
    if "steer" in message.meta:
        return True
    if only_steers:
        return False
    if message.kind is Kind.ADVISORY:
        return "handoff" not in message.meta and not takes_main(message, agent)
    return message.kind is Kind.HUMAN or bool(message.meta.get("urgent"))


def told(messages: Sequence[Message], files: str = "") -> str:
    """These messages as an agent reads them in the middle of its turn: fenced, each with its speaker."""
    text = "\n".join(message_text(message, files=files, asked=True) for message in messages)
    mark = mark_for(text)
    return (
        f"Said in the room while you work, between the two lines with {mark}. What a person says there to you "
        "belongs to your task: take it into account now, and let your answer at the end cover it. The rest is "
        f"information.\n<<<{mark}\n{text}\n{mark}>>>"
    )


def told_by_hook(messages: Sequence[SteeringMessage]) -> str:
    return "\n\n".join(message.text for message in messages)


async def unheard(tx: Tx, agent: str, after: int) -> list[Message] | None:
    """The messages behind the number `after`, the oldest first, at most `MOST`; None while the agent is paused."""
    state = await tx.one(Q.agent, name=agent)
    if state is not None and state["paused"]:
        return None
    rows = await tx.all(Q.messages_from, after=after, limit=MOST)
    return [await changes.with_new_text(tx, message_of_row(row)) for row in rows]


async def feed(store: Store, turn: RunningTurn, hooks: TurnHooks, only_steers: Callable[[], bool]) -> None:
    """Put what is urgent into the inbox of a turn, from when it can hear until it cannot any more."""
    inbox, agent, after = turn.inbox, turn.plan.agent, turn.plan.shown_number
    await inbox.opened.wait()
    while inbox.hears:
        turn.news.clear()
        messages = await store.read(partial(unheard, agent=agent, after=after))
        for message in messages or ():
            after = message.number
            if message.id not in turn.told and is_urgent(message, agent, only_steers=only_steers()):
                turn.told.add(message.id)
                text = told([message], turn.plan.policy.files)
                missing = await hooks.bring(text)
                inbox.put(SteeringMessage(message.id, f"{text}\n\n{missing}" if missing else text))
        if not messages or len(messages) < MOST:
            inbox.filled.set()
            await turn.news.wait()


async def hear(
    store: Store, turn: RunningTurn, ids: Collection[str], after: str, *, stopping: Callable[[], bool]
) -> None:
    """The turn's program has taken these messages in, after the tool `after`. Waits for a locked database, since the
    receipt exists only here; once the turn is over nothing is recorded, and the messages come again. Only what was
    put into its inbox counts: a hook could name any message."""
    ids = [id for id in ids if id in turn.told]
    async with turn.hearing:
        wait = 0.1
        # What a cancelled turn hears is its agent's next turn's.
        while ids and not turn.over_soon and turn.stopped_by is None:
            try:
                work = partial(_hear, plan=turn.plan, ids=ids, after=after[:200], now=time.time())
                heard = await store.write(work, durable=True)
            except (StoreBusy, OSError, store.transient) as error:
                log.warning("receipt waits for the database", agent=turn.plan.agent, error=str(error))
                if stopping():
                    raise
                await asyncio.sleep(wait)
                wait = min(wait * 2, 2.0)
                continue
            turn.plan = replace(turn.plan, heard=(*turn.plan.heard, *heard))
            return


async def _hear(
    tx: Tx, plan: Plan, ids: Collection[str], after: str, now: float
) -> tuple[tuple[Job, Message], ...]:
    """Make the jobs of these messages the turn's; one that has no job (an advisory that asks nobody) gets one. A job
    that was taken back meanwhile stays so."""
    heard = []
    for id in ids:
        message = await ledger.message(tx, id)
        if message is None:
            continue
        known = {row["agent"] for row in await tx.all(Q.jobs_of_message, message_id=id)}
        if plan.agent not in known:
            cause = await tx.one(Q.event_of_message, id=id)
            parents = [cause["event_id"]] if cause else []
            await ledger.queue_jobs(tx, id, [plan.agent], parents=parents, now=now)
        row = await tx.one(
            Q.hear,
            message_id=id,
            agent=plan.agent,
            holder=plan.holder,
            lease_until=now + plan.policy.lease_s,
            now=now,
            after=after,
        )
        if row is None:
            continue
        job = Job.of_row(row)
        await events.append(
            tx,
            NewEvent(
                type=ledger.CHANGED,
                lane=plan.lane,
                parents=[plan.event_id, job.cause_event],
                inputs={"turn": plan.event_id, "message": id},
                outputs={"jobs": [job.as_fact()]},
                role=plan.role,
            ),
        )
        heard.append((job, message))
    return tuple(heard)
