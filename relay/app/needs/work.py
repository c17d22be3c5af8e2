"""What the work of agents asks of people: approvals, handoffs, variants, tasks that failed, talk that is held, and
agents that are silent.

Invariant: no fact is decided here (`relay.app.needs.found`). Each function gives the needs of one kind.
"""

from __future__ import annotations

from collections.abc import Mapping

from relay.app.needs.found import MOST_ENTRIES
from relay.app.needs.need import Kind, Need, NeedAction, later
from relay.app.needs.words import named, sentence, short
from relay.base.durations import parse_iso, rough_duration
from relay.base.terminal_text import flat
from relay.log import events
from relay.log.encoding import dumps
from relay.merge.exploration import journal as explorations
from relay.model import Board, actions, references
from relay.room.journal.ledger import Q
from relay.room.journal.values import message_of_row
from relay.store.ports import Tx
from relay.timeline.handoffs import journal as handoffs
from relay.timeline.handoffs.event import answers_of, goes_on
from relay.verification import approvals
from relay.verification import journal as verifications


async def approval_needs(tx: Tx) -> list[Need]:
    found = []
    for asked in await approvals.waiting(tx):
        buttons = (
            NeedAction("approve", "Approve", actions.Approve(asked.number)),
            NeedAction("reject", "Reject", actions.Reject(asked.number, ""), "reason", "why not"),
        )
        change = (await verifications.load(tx, asked.verification)).change
        text = f"A person has to agree to {asked.wanted(change, named(asked.files))}."
        if asked.policies:
            text += f" Asked by {', '.join(map(flat, asked.policies))}."
        found.append(
            Need(
                f"approval:{asked.name}",
                *(Kind.APPROVAL, asked.at, asked.agent, text, buttons, asked.name),
                ends=asked.expires,
            )
        )
    return found


async def handoff_needs(tx: Tx) -> list[Need]:
    """Handoffs that did not pass, about which people are asked."""
    found = []
    for handoff in await handoffs.open_handoffs(tx):
        if handoff.state is not handoffs.State.ASKED:
            continue
        event = None if handoff.event is None else await events.get(tx, handoff.event)
        labels = {
            "retry": "Try again",
            "escalate": "End it here",
            "skip": "Hand on anyway",
            "branch": "On a branch",
        }
        asks = {
            "skip": ("value", "why the rules do not count"),
            "branch": ("value", "the name of the branch"),
        }
        buttons = tuple(
            NeedAction(
                answer.value,
                labels[answer.value],
                actions.AnswerHandoff(handoff.number, answer),
                *asks.get(answer.value, ()),
            )
            for answer in answers_of(handoff, event)
        )
        reference = references.handoff(handoff.number)
        failed = {} if event is None else event.outputs["validation"]["failure_info"] or {}
        why, at = failed.get("reason") or "it did not pass", parse_iso(event.at) if event is not None else 0.0
        if event is None or goes_on(event):  # not its rules: something else is in the way
            why, at = await _in_the_way(tx, handoff.number)
        text = sentence(f"{handoff.source}'s work is not handed on to {handoff.target}: {short(why)}")
        found.append(Need(f"handoff:{reference}", Kind.HANDOFF, at, handoff.source, text, buttons, reference))
    return found


async def _in_the_way(tx: Tx, number: int) -> tuple[str, float]:
    """What the room said last of why a handoff cannot go on, and when."""
    rows = await tx.all(Q.messages_before, before=await events.last_pos(tx) + 1, limit=MOST_ENTRIES)
    for message in map(message_of_row, rows):
        if message.meta.get("handoff") == number and "why" in message.meta:
            return str(message.meta["why"]), parse_iso(message.ts)
    return "it cannot go on", await tx.now()


async def exploration_needs(tx: Tx) -> list[Need]:
    found = []
    for one in await explorations.open_explorations(tx):
        if one.state is not explorations.State.WAITING:
            continue
        # What left nothing cannot be taken; the one that is recommended, which is named first there, comes first.
        runs = [run for run in await explorations.variants_of(tx, one.number) if run.at_commit is not None]
        runs.sort(
            key=lambda run: (
                not one.recommendation.startswith(f"{run.name} "),
                run.passing is False,
                -(run.score or 0.0),
                run.place,
            )
        )
        take = [
            NeedAction(f"take-{each.name}", f"Take {each.name}", actions.TakeVariant(one.number, each.name))
            for each in runs
        ]
        end = NeedAction("end", "Take none", actions.EndExploration(one.number))
        text = f"{one.name} waits for your choice: {short(one.config.task)}."
        if one.recommendation:
            text += f" {short(one.recommendation)}"
        found.append(
            Need(
                f"exploration:{one.name}",
                *(Kind.EXPLORATION, parse_iso(one.at), one.name, text, (*take, end), one.name),
            )
        )
    return found


async def failed_tasks(tx: Tx, board: Board) -> list[Need]:
    """Tasks of the board that nobody tries any more."""
    found = []
    for task in [task.as_json() for task in await board.in_hand(tx)]:
        if task.get("badge") not in ("failed", "dead"):
            continue
        number, reference = task["number"], references.task(task["number"])
        why = task.get("error_message") or task.get("note") or ""
        how = "failed" if task["badge"] == "failed" else "was given up"
        text = f"{reference} “{short(task['title'], 80)}” {how}"
        text += f". {short(why)}" if why else ""
        buttons = (
            NeedAction("again", "Try again", actions.MoveTask(number, actions.Status.PENDING)),
            NeedAction("done", "It is done", actions.MoveTask(number, actions.Status.DONE)),
            later("Later", f"task:{reference}"),
        )
        at = parse_iso(task.get("completed_at") or task["updated_at"])
        about = task.get("assignee") or reference
        found.append(Need(f"task:{reference}", Kind.TASK, at, about, sentence(text), buttons, reference))
    return found


async def held(tx: Tx) -> list[Need]:
    """The agents' talk, where it has reached the hop limit."""
    rows = await tx.all(Q.held)
    if not rows:
        return []
    ids = dumps([row["message_id"] for row in rows])
    waiting = [message_of_row(row) for row in await tx.all(Q.messages_by_ids, ids=ids)]
    if not waiting:
        return []
    names = list(dict.fromkeys(message.speaker for message in waiting))
    many = len(waiting) != 1
    count = f"{len(waiting)} message{'s' * many} of theirs wait{'s' * (not many)}"
    text = f"{count}: they have talked among themselves for long."
    last = waiting[-1]
    buttons = (NeedAction("continue", "Let them go on", actions.Continue()),)
    reference = references.message(last.number)
    about = " and ".join(names)
    return [Need(f"held:{reference}", Kind.HELD, parse_iso(last.ts), about, text, buttons, reference)]


def silent(working: Mapping[str, tuple[float, float]], quiet_s: float, now: float) -> list[Need]:
    """Agents at work of which nothing was heard for `quiet_s` seconds. `working`: since when each has worked, and
    when it was last heard of."""
    found = []
    for name, (began, heard) in working.items():
        if now - max(began, heard) < quiet_s:
            continue
        buttons = (
            NeedAction("cancel", "End its turn", actions.Cancel((name,))),
            NeedAction("steer", "Ask it", actions.Steer((name,), ""), "text", "what to tell it"),
            later("Let it work", f"silent:{name}"),
        )
        id = f"silent:{name}:{began:.0f}"  # of this turn: another one is not let work by it
        quiet = rough_duration(now - max(began, heard))
        text = f"It has worked for {rough_duration(now - began)}, and nothing was heard of it for {quiet}."
        at = max(began, heard)
        found.append(Need(id, Kind.SILENT, at, name, text, buttons, name, said=f"silent:{name}"))
    return found
