"""The room's agents as the interfaces and the steward show them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from relay.base.durations import iso
from relay.log.encoding import dumps
from relay.model import Channel, Hears
from relay.room.dispatch import budget, queue
from relay.room.dispatch.roster import Member
from relay.room.dispatch.running import RunningTurn
from relay.room.journal.ledger import Q
from relay.room.journal.values import Job
from relay.store.ports import Tx

#: Characters of what an agent was asked that its state has.
ASKED = 240
#: The commands whose text is what an agent is asked.
_ORDERS = re.compile(r"\s*/(?:steer|review)\s+(?:@[\w-]+[,:]*\s+)+", re.IGNORECASE)
_COMMENTS = re.compile(r"\A(\d{1,4} comments?) on `[^`\n]+` at [0-9a-f]+[^:\n]*")
#: The head of a task's text whose title others wrote, and the first line of that.
_GIVEN = re.compile(r"\A((?:@[\w-]+\s+)*t\d+)\. Its title, [^\n]*:\n\n> ?([^\n]*)")
_LINK = re.compile(r"!?\[([^\[\]\n]*)\]\([^()\s]*\)")
_LINE_MARK = re.compile(r"^ {0,3}(?:#{1,6}\s|>\s?|(?:```|~~~)[\w-]*$)", re.MULTILINE)
_EMPHASIS = re.compile(r"(?<![\w/*])(\*\*|~~|\*)(?=\w)([^\n]+?)(?<=\S)\1(?![\w/*])")


async def agents_json(
    tx: Tx,
    members: Mapping[str, Member],
    running: Mapping[str, RunningTurn],
    now: float,
    only: Sequence[str] | None = None,
) -> list[dict[str, Any]]:
    """The AGENT shapes of docs/http.md, of all members or of `only` some, in the caller's transaction."""
    states = {row["name"]: row for row in await tx.all(Q.agents)}
    waiting = {row["agent"]: row["waiting"] for row in await tx.all(Q.open_counts)}
    elsewhere = await _elsewhere(tx, running) if any(one.home for one in members.values()) else {}
    shown = []
    for member in members.values():
        if only is not None and member.name not in only:
            continue
        breaker = await queue.load_breaker(tx, member.policy)
        limits = member.policy.budget
        spent = await queue.load_spent(tx, member.name, now) if limits.any else budget.Spent()
        parked = breaker.parked_until
        turn = running.get(member.name)
        shown.append(
            {
                "name": member.name,
                "kind": member.kind,
                "preset": member.preset,
                "model": member.model,
                "effort": member.effort,
                "enabled": member.enabled,
                "member": member.home,
                "away": member.away,
                "absence": member.absence,
                "heard_at": iso(member.heard_at),
                "paused": bool(member.name in states and states[member.name]["paused"]),
                "installed": member.installed,
                "broken": member.broken,
                "detail": member.detail,
                "fix": member.fix,
                "version": member.version,
                "about": member.about,
                "channel": channel_of(member, turn).as_json(),
                "breaker": {
                    "state": str(breaker.state),
                    "failures": breaker.failures,
                    "threshold": breaker.threshold,
                    "retry_at": iso(breaker.retry_at),
                },
                "parked_until": iso(parked) if parked and parked > now else None,
                "last": await _last(tx, member.name),
                "running": _running(turn) if turn is not None else elsewhere.get(member.name),
                "queued": waiting.get(member.name, 0),
                "budget": budget.as_json(limits, spent),
                "limits": [{**asdict(limit), "resets_at": iso(limit.resets_at)} for limit in member.limits],
            }
        )
    return shown


def channel_of(member: Member, turn: RunningTurn | None = None) -> Channel:
    """How an agent hears what is said while it works: as its turn found it, else as its program promises; with its
    next turn where the configuration says so."""
    found = member.channel if turn is None or turn.inbox.channel is None else turn.inbox.channel
    if member.policy.inbox is Hears.NEXT and found.hears is Hears.BOUNDARY:
        return Channel(
            found.name, Hears.NEXT, "Its configuration says `inbox: next`; `/steer` reaches it at once."
        )
    return found


def _running(turn: RunningTurn) -> dict[str, Any]:
    asked, started_at = turn.plan.asked, turn.plan.started_at
    return {
        "job": turn.plan.primary.id,
        "message_id": asked.id,
        "number": asked.number,
        "since": iso(started_at),
        "asked": asked_in_short(asked.speaker, asked.body),
        "tool": turn.tool,
    }


async def _last(tx: Tx, agent: str) -> dict[str, Any] | None:
    """What it worked on last for a person, and until when."""
    row = await tx.one(Q.last_asked, agent=agent)
    if row is None:
        return None
    asked = asked_in_short(row["speaker"], row["body"])
    return {"message_id": row["id"], "number": row["number"], "at": iso(row["ended_at"]), "asked": asked}


def task_in_short(text: str) -> str:
    """A text that gives a task with others' words in it (`relay.room.steward.tasks.text_of`), as if its title were
    the giver's own: "@AVA t3: Empty names can sign in"; any other text as it is. Pure."""
    return _GIVEN.sub(lambda found: f"{found[1]}: {found[2]}", text, count=1)


def asked_in_short(speaker: str, body: str) -> dict[str, str]:
    """Who asked for a turn, and how it begins: without the command that it was ordered by, and without Markdown. Only
    a deleted message has no text."""
    text = task_in_short(body)[: ASKED * 10]
    if order := _ORDERS.match(text):
        text = text[order.end() :]
        if comments := _COMMENTS.match(text):
            text = f"{comments[1]} on your branch"
    text = _EMPHASIS.sub(r"\2", _LINE_MARK.sub("", _LINK.sub(r"\1", text)))
    line = " ".join(text.replace("`", "").split()) if body else "deleted"
    return {"by": speaker, "text": line if len(line) <= ASKED else line[: ASKED - 1] + "…"}


async def _elsewhere(tx: Tx, here: Mapping[str, RunningTurn]) -> dict[str, dict[str, Any]]:
    """The turns that run at other members of the fleet, by their agents: what their jobs say of them."""
    jobs: dict[str, Job] = {}
    for row in await tx.all(Q.active_jobs):
        if row["agent"] not in here:
            # The last one, as `Plan.primary`.
            jobs[row["agent"]] = Job.of_row(row)
    asked = dumps([job.message_id for job in jobs.values()])
    messages = {row["id"]: row for row in await tx.all(Q.messages_by_ids, ids=asked)}
    return {
        agent: {
            "job": job.id,
            "message_id": job.message_id,
            "number": message["number"],
            "since": iso(job.started_at),
            "asked": asked_in_short(message["speaker"], message["body"]),
            "tool": "",
        }
        for agent, job in jobs.items()
        if (message := messages.get(job.message_id))
    }
