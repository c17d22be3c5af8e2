"""People change and delete messages of their own.

Invariants:
- nothing leaves the log or the transcript file: the command is a new entry that names the old one, and so is the
  room's answer (`meta.edits`). An entry's row says what it says now, and what it was written with (`said`);
- the new text stands at the message alone. The command that brought it is shortened to `/edit m12`, so that search
  and agents' context do not have a text that is changed once more;
- an edit changes what a message says and nobody whom it asks.
Every function runs in the caller's transaction.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from relay.base.durations import iso
from relay.log.encoding import dumps
from relay.model import STEWARD, Kind, Message, Refusal, actions, references
from relay.model.names import listed
from relay.room.journal import ledger
from relay.room.journal.ledger import Q
from relay.room.journal.orders import Order, Result
from relay.room.journal.values import CycleState, Job, JobState, message_of_row
from relay.room.parsing import commands
from relay.room.parsing.mentions import mentions
from relay.store.ports import Row, Tx

#: Where people find the number of a message.
FIX = "Each message shows its number."


async def row_of(tx: Tx, number: int) -> Row:
    """The row of an entry that is there. Raises Refusal."""
    row = await tx.one(Q.message_by_number, number=number)
    if row is None:
        raise Refusal(f"There is no message {references.message(number)}.", FIX)
    if "deleted" in json.loads(row["meta"]):
        raise Refusal(f"{references.message(number)} was deleted.", FIX)
    return row


async def _own(tx: Tx, number: int, order: Order) -> Row:
    """The row of a message that this person wrote. Raises Refusal."""
    row = await row_of(tx, number)
    message, name = message_of_row(row), references.message(number)
    if message.kind is not Kind.HUMAN:
        raise Refusal(f"{name} is {message.speaker}'s, and only people change what they wrote.", "")
    if "unverified" in message.meta:
        raise Refusal(
            f"{name} was written straight into the transcript file, so it is not proven to be yours.",
            "Say in a new message what holds.",
        )
    if message.speaker != order.by:
        raise Refusal(
            f"{name} is {message.speaker}'s; you are {order.by}, and change your own messages only.",
            f"Answer it, or ask {message.speaker}.",
        )
    return row


async def edit(tx: Tx, action: actions.EditMessage, order: Order, agents: Sequence[str]) -> Result:
    row, text, name = await _own(tx, action.message, order), action.text, references.message(action.message)
    message = message_of_row(row)
    if commands.is_command(message.body):
        raise Refusal(f"{name} is a command that was carried out.", "Type the right one.")
    if commands.is_command(text):
        raise Refusal(
            "A message does not become a command by an edit.",
            "Type the command; a message that starts with a slash is written with two: `//`.",
        )
    if text == message.body.strip():
        raise Refusal(f"{name} says that already.", "")
    before = message.meta.get("edited", {"by_entries": []})
    edited = {"at": iso(order.now), "by_entries": [*before["by_entries"], order.message.number]}
    await tx.execute(Q.set_text, id=message.id, body=text, meta=dumps({**message.meta, "edited": edited}))
    await _shorten(tx, action, order)
    jobs = await _jobs(tx, message.id)
    waiting, active, ended = (
        _agents(jobs, "pending", "failed"),
        _agents(jobs, "active"),
        _agents(jobs, "done"),
    )
    parts = [f"{order.by} edited {name}."]
    if waiting:
        parts.append(f"{listed(waiting)} {_verb(waiting, 'gets', 'get')} the new text.")
    if active:
        parts.append(_is_told(active))
    if ended:
        reads = f"{_verb(ended, 'reads', 'read')} the new text with the next turn"
        parts.append(f"{listed(ended)} answered what it said before, and {reads}.")
    asked = [job.agent for job in jobs]
    named = [f"@{agent}" for agent in mentions(text, agents) if agent not in asked]
    if named and jobs:
        other = f"`/route {name} {' '.join([*(f'@{agent}' for agent in asked), *named])}`"
        parts.append(f"It asks whom it asked before; {other} asks others too.")
    to = await _tell(tx, active, waiting)
    return Result(" ".join(parts), meta={"edits": _names(message)}, to=to, asks=True)


async def delete(tx: Tx, action: actions.DeleteMessage, order: Order) -> Result:
    row, name = await _own(tx, action.message, order), references.message(action.message)
    message = message_of_row(row)
    jobs = await _jobs(tx, message.id)
    meta = {key: value for key, value in message.meta.items() if key != "edited"}
    deleted = {"at": iso(order.now), "by_entry": order.message.number}
    await tx.execute(Q.set_text, id=message.id, body="", meta=dumps({**meta, "deleted": deleted}))
    reason = f"{order.by} deleted the message"
    for job in jobs:
        if job.state in (JobState.PENDING, JobState.FAILED):
            await ledger.change_job(
                tx,
                job,
                JobState.SKIPPED,
                now=order.now,
                reason=reason,
                error_class="cancelled",
                parents=order.cause,
            )
    await tx.execute(Q.set_pin, id=message.id, by=None, entry=None)
    decision = {"action": "none", "agents": [], "reason": reason, "by": order.by}
    state = CycleState.ABSORBED
    if await tx.one(Q.decide_cycle, message_id=message.id, state=str(state), decision=dumps(decision)):
        cycle = {"message_id": message.id, "state": str(state), **decision}
        parents, more = order.cause, {"cycles": [cycle]}
        await ledger.queue_jobs(
            tx, message.id, (), parents=parents, now=order.now, extra=more, type=ledger.DECIDED
        )
    waiting, active = _agents(jobs, "pending", "failed"), _agents(jobs, "active")
    parts = [f"{order.by} deleted {name}. The transcript file keeps it."]
    parts += [f"{listed(waiting)} will not be asked."] if waiting else []
    if active:
        ends = " ".join(f"@{agent}" for agent in active)
        parts.append(f"{_is_told(active)} `/cancel {ends}` ends that.")
    to = await _tell(tx, active, waiting)
    return Result(" ".join(parts), meta={"edits": {**_names(message), "deleted": True}}, to=to)


def _names(message: Message) -> dict[str, Any]:
    return {"message": message.id, "number": message.number}


async def _jobs(tx: Tx, message_id: str) -> list[Job]:
    jobs = [Job.of_row(row) for row in await tx.all(Q.jobs_of_message, message_id=message_id)]
    return [job for job in jobs if job.agent != STEWARD]


async def _tell(tx: Tx, active: Sequence[str], waiting: Sequence[str]) -> tuple[str, ...]:
    """Who hears of the change at once: those that have the message, and those at work for which it waits, whose turn
    may be told the old text at any moment."""
    working = {row["agent"] for row in await tx.all(Q.active_jobs)} if waiting else set()
    return (*active, *(agent for agent in waiting if agent in working))


def _agents(jobs: Sequence[Job], *states: str) -> tuple[str, ...]:
    return tuple(job.agent for job in jobs if job.state in states)


def _verb(names: Sequence[str], one: str, many: str) -> str:
    return one if len(names) == 1 else many


def _is_told(active: Sequence[str]) -> str:
    return f"{listed(active)} {_verb(active, 'works on it, and is', 'work on it, and are')} told."


async def _shorten(tx: Tx, action: actions.EditMessage, order: Order) -> None:
    """The command says which message it changed; the text stands there."""
    meta = {**order.message.meta, "short": action.message}
    body = f"{action.word} {references.message(action.message)}"
    await tx.execute(Q.set_text, id=order.message.id, body=body, meta=dumps(meta))


async def versions(tx: Tx, place: Row) -> list[dict[str, Any]]:
    """What an entry said, the oldest first, each with its time: `[{ts, body}]`. Raises Refusal: it was deleted."""
    message = message_of_row(place)
    if "deleted" in message.meta:
        raise Refusal(
            f"{references.message(message.number)} was deleted.", "The transcript file keeps what it said."
        )
    said = [{"ts": message.ts, "body": ledger.as_written(place).body}]
    for number in message.meta.get("edited", {}).get("by_entries", ()):
        row = await tx.one(Q.message_by_number, number=number)
        action = None if row is None else commands.parse(ledger.as_written(row).body)
        if row is not None and isinstance(action, actions.EditMessage):
            said.append({"ts": row["ts"], "body": action.text})
    return said


async def context(
    tx: Tx, unseen: Sequence[Message], *, shown: Callable[[Mapping[str, Any]], bool], asked: Collection[str]
) -> list[Message]:
    """Of these messages, the newest first, those that an agent is given beside what it is `asked`: that a message was
    changed once, with what it says by now, and only where the agent was `shown` it (`meta.edits`) before."""
    given: list[Message] = []
    known = set(asked)
    for message in unseen:
        edits = message.meta.get("edits")
        if "short" in message.meta or "deleted" in message.meta:
            continue
        if edits is None:
            given.append(message)
        elif shown(edits) and edits["message"] not in known:
            known.add(edits["message"])
            given.append(await with_new_text(tx, message))
    return given


async def with_new_text(tx: Tx, message: Message) -> Message:
    """The message as agents read it: where it tells of a change, with what the changed one says by now."""
    edits = message.meta.get("edits")
    row = None if edits is None else await tx.one(Q.message, id=edits["message"])
    if row is None:
        return message
    now = message_of_row(row)
    its = f"{now.speaker} {{}} the message {references.message(now.number)}, which you were shown"
    if "deleted" in now.meta:
        return replace(message, body=f"{its.format('deleted')}: do not go by it.")
    return replace(message, body=f"{its.format('changed')}. It says now:\n{now.body}")
