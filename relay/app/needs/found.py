"""What needs a person, read from what the wings say of themselves. What nobody took up for a day is no need any more.

Invariant: no fact is decided here. That an advisory is open, an approval waits or a circuit is open is its wing's
word; a need is gone when its wing says so. Each function gives the needs of one kind.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from relay.airspace.advisories import table, wording
from relay.app.needs.need import Kind, Need, NeedAction
from relay.app.needs.words import prose, unmarked
from relay.base.durations import clock_time, parse_iso, rough_duration
from relay.base.terminal_text import flat
from relay.log import events
from relay.log.encoding import dumps
from relay.merge.exploration import journal as explorations
from relay.merge.resolution import journal as conflicts
from relay.model import Board, Message, actions, references
from relay.room.dispatch import queue
from relay.room.dispatch.breaker import BreakerState, in_a_row
from relay.room.dispatch.budget import DAY_S, HOUR_S, exhausted
from relay.room.dispatch.permissions import ALLOW, Pending
from relay.room.dispatch.roster import Member
from relay.room.journal.ledger import Q
from relay.room.journal.values import Job, JobState, message_of_row
from relay.store.ports import Tx
from relay.timeline.handoffs import journal as handoffs
from relay.timeline.handoffs.event import answers_of
from relay.verification import approvals
from relay.verification.landing import journal as landings
from relay.verification.landing.entry import EntryState

#: Other agents that a message is offered to.
MOST_OTHERS = 3
#: Entries among which a question of an agent's is looked for; jobs and landings that ended badly.
MOST_ENTRIES, MOST_JOBS, MOST_ENDED = 200, 100, 50
#: Characters of an agent's own words in a need.
MOST_WORDS = 240


async def collisions(tx: Tx, agents: Iterable[str]) -> list[Need]:
    """Open advisories about which a person can decide something."""
    names, found = frozenset(agents), []
    make: Mapping[str, Callable[[str], actions.Action]] = {
        "first": actions.GoFirst,
        "stop": lambda agent: actions.Stop((agent,)),
        "update": lambda agent: actions.TakeMain((agent,)),
    }
    for advisory in (await table.load_state(tx)).advisories.values():
        choices = advisory.choices(names) if advisory.open else ()
        if not choices:
            continue
        buttons = tuple(
            NeedAction(f"{choice.name}-{choice.agent}", choice.label, make[choice.name](choice.agent))
            for choice in choices
        )
        since = advisory.resolved_at or advisory.opened_at
        about = " and ".join(advisory.part)
        line = _sentence(wording.line(advisory))
        found.append(
            Need(f"advisory:{advisory.id}", Kind.COLLISION, since, about, line, buttons, advisory.id)
        )
    return found


def permissions(pending: Sequence[Pending]) -> list[Need]:
    """What agents ask people for."""
    found = []
    for asked in pending:
        request = asked.request
        buttons = tuple(
            NeedAction(
                f"option-{place}",
                flat(option.name),
                actions.Permit(references.request(asked.number), str(place), allow=option.kind in ALLOW),
            )
            for place, option in enumerate(asked.options, 1)
        )
        where = f" in {', '.join(map(flat, request.paths))}" if request.paths else ""
        text = f"It asks for permission: {_short(request.title)}{where}."
        found.append(
            Need(
                f"permission:{asked.id}",
                *(Kind.PERMISSION, asked.asked_at, request.agent, text, buttons),
                ref=request.agent,
                ends=asked.deadline_at,
            )
        )
    return found


async def approval_needs(tx: Tx) -> list[Need]:
    found = []
    for asked in await approvals.waiting(tx):
        buttons = (
            NeedAction("approve", "Approve", actions.Approve(asked.number)),
            NeedAction("reject", "Reject", actions.Reject(asked.number, ""), "reason", "why not"),
        )
        files = asked.files
        count = f"{len(files)} file{'s' * (len(files) != 1)}"
        text = f"A person has to agree to {asked.agent}'s change of {count}: {_named(files)}."
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


async def conflict_needs(tx: Tx) -> list[Need]:
    """Conflicts that wait for one of the five answers (docs/landing.md)."""
    found = []
    for asked in await conflicts.newest(tx, only_open=True):
        question, number = asked.question, asked.number
        choices = {1: f"Keep {_short(question.ours.name or question.into_name, 40)}'s"}
        choices[2] = f"Keep {question.agent}'s"
        choices |= {} if asked.part.whole else {3: f"Let {question.agent} write it", 4: "Write it yourself"}
        choices[5] = "Keep both branches apart"
        agent = {3: question.agent}
        buttons = tuple(
            NeedAction(
                f"choice-{choice}",
                label,
                actions.Resolve(number, choice, agent.get(choice), "" if choice == 4 else None),
                *(("lines", "the lines that are to stand there") if choice == 4 else ()),
            )
            for choice, label in choices.items()
        )
        where = f", {flat(asked.part.entity)}" if asked.part.entity else ""
        text = (
            f"{flat(question.agent)} cannot be merged into {flat(question.into_name)}: {flat(asked.part.kind)} in "
            f"{flat(asked.part.path)}{where}."
        )
        at = parse_iso(asked.at)
        found.append(
            Need(f"conflict:{asked.name}", Kind.CONFLICT, at, question.agent, text, buttons, asked.name)
        )
    return found


async def agent_needs(tx: Tx, members: Mapping[str, Member], now: float) -> list[Need]:
    """Agents whose circuit is open, and those whose budget is spent."""
    jobs = [Job.of_row(row) for row in await tx.all(Q.last_skips, limit=MOST_JOBS)]
    found = []
    for name, member in members.items():
        if not member.enabled:
            continue
        policy = member.policy
        breaker = await queue.load_breaker(tx, policy)
        missed = [job for job in jobs if job.agent == name]
        if breaker.state is BreakerState.OPEN:
            latest = max(missed, key=lambda job: job.id, default=None)
            others = await _others(tx, members, name, now)
            open_still = latest is not None and not await _taken_over(tx, latest)
            give = _give(await _message(tx, latest), others) if open_still else ()
            failed = next((job.error for job in missed if job.state is JobState.DEAD and job.error), "")
            text = f"It gets no work after {in_a_row(breaker.failures)}"
            text += f", until one attempt at {clock_time(breaker.retry_at, now)}" if breaker.retry_at else ""
            text += f". Last: {_short(failed)}" if failed else ""
            buttons = (NeedAction("try", "Try now", actions.TryNow((name,))), *give)
            at = breaker.opened_at or now
            found.append(Need(f"agent:{name}", Kind.FAILED_AGENT, at, name, _sentence(text), buttons, name))
        if policy.budget.any:
            spent = exhausted(policy.budget, await queue.load_spent(tx, name, now), now)
            if spent is not None:
                limit = getattr(policy.budget, spent.what)
                more = max(limit * 2, 1)
                said = f"${more:.2f}" if spent.what == "usd_per_day" else f"{more:,}"
                unit = {"turns_per_hour": "turns an hour", "tokens_per_day": "tokens a day"}
                label = f"Raise to {said} {unit.get(spent.what, 'a day')}"
                buttons = (
                    NeedAction("raise", label, actions.RaiseBudget(name, spent.what, more)),
                    NeedAction("wait", "Wait", actions.PutOff(f"budget:{name}")),
                )
                window = HOUR_S if spent.what == "turns_per_hour" else DAY_S
                skips = [job.ended_at or 0.0 for job in missed if job.error_class == "budget"]
                at = max([spent.frees_at - window, *skips])
                free = clock_time(spent.frees_at, now)
                text = f"Its budget is spent: {spent.text}. The first part is free again at {free}."
                found.append(
                    Need(f"budget:{name}", Kind.BUDGET, at, name, text, buttons, name, spent.frees_at)
                )
    return found


async def unanswered(tx: Tx, members: Mapping[str, Member], silent: Iterable[str], now: float) -> list[Need]:
    """Messages that an agent was asked and will not answer by itself. `silent`: agents of which another need says
    why."""
    apart, found = frozenset(silent), []
    for job in [Job.of_row(row) for row in await tx.all(Q.last_skips, limit=MOST_JOBS)]:
        ended = job.ended_at or job.created_at
        if job.agent in apart or job.agent not in members or now - ended > DAY_S:
            continue
        if job.error_class in ("cancelled", "not_configured") or job.folded_into is not None:
            continue
        message = await _message(tx, job)
        if message is None or await _taken_over(tx, job):
            continue
        others = await _others(tx, members, job.agent, now)
        buttons = (
            NeedAction("retry", "Try again", actions.Retry(job.id, "job")),
            *_give(message, others),
            NeedAction("later", "Leave it", actions.PutOff(f"job:{job.id}")),
        )
        state = "gave up on" if job.state is JobState.DEAD else "was skipped for"
        ref = references.message(message.number)
        text = f"It {state} {ref} of {flat(message.speaker)}: “{_short(message.body, 80)}”"
        text += f". Why: {_short(job.error)}" if job.error else ""
        found.append(Need(f"job:{job.id}", Kind.UNANSWERED, ended, job.agent, _sentence(text), buttons, ref))
    return found


async def _taken_over(tx: Tx, job: Job) -> bool:
    """Does another agent answer that message by now, or has one?"""
    others = [Job.of_row(row) for row in await tx.all(Q.jobs_of_message, message_id=job.message_id)]
    taken = (JobState.PENDING, JobState.ACTIVE, JobState.FAILED, JobState.DONE)
    return any(other.id > job.id and other.state in taken for other in others)


async def tasks(tx: Tx, board: Board) -> list[Need]:
    """Tasks of the board that nobody tries any more."""
    found = []
    for task in [task.as_json() for task in await board.list(tx)]:
        if task.get("badge") not in ("failed", "dead"):
            continue
        number, reference = task["number"], references.task(task["number"])
        why = task.get("error_message") or task.get("note") or ""
        how = "failed" if task["badge"] == "failed" else "was given up"
        text = f"{reference} “{_short(task['title'], 80)}” {how}"
        text += f". {_short(why)}" if why else ""
        buttons = (
            NeedAction("again", "Try again", actions.MoveTask(number, actions.Status.PENDING)),
            NeedAction("done", "It is done", actions.MoveTask(number, actions.Status.DONE)),
            NeedAction("later", "Later", actions.PutOff(f"task:{reference}")),
        )
        at = parse_iso(task.get("completed_at") or task["updated_at"])
        about = task.get("assignee") or reference
        found.append(Need(f"task:{reference}", Kind.TASK, at, about, _sentence(text), buttons, reference))
    return found


async def questions(tx: Tx, agents: Iterable[str], now: float) -> list[Need]:
    """Agents whose last answer to a person ends with a question that nobody has answered."""
    names, answered, found = set(agents), set[str](), []
    rows = await tx.all(Q.messages_before, before=await events.last_pos(tx) + 1, limit=MOST_ENTRIES)
    said = [message_of_row(row) for row in rows]
    by_id = {message.id: message for message in said}
    for message in said:  # the newest first
        if message.kind == "human":
            answered |= set(message.to)
            about = by_id.get(message.in_reply_to or "")
            if about is not None:
                answered.add(about.speaker)
            continue
        if message.kind != "agent" or message.speaker not in names:
            continue
        names.discard(message.speaker)  # only what it said last counts
        asked = by_id.get(message.in_reply_to or "")
        question = question_of(message.body)
        if not question or message.speaker in answered or (asked is not None and asked.kind != "human"):
            continue
        at = parse_iso(message.ts)
        if now - at > DAY_S:
            continue
        reference = references.message(message.number)
        buttons = (
            NeedAction("answer", "Answer", actions.Steer((message.speaker,), ""), "text", "your answer"),
            NeedAction("later", "No answer", actions.PutOff(f"question:{reference}")),
        )
        found.append(
            Need(f"question:{reference}", Kind.QUESTION, at, message.speaker, question, buttons, reference)
        )
    return found


def question_of(body: str) -> str:
    """The question that an answer ends with, empty where it ends with none."""
    text = prose(body).rstrip(" \n*_`)")
    if not text.endswith("?"):
        return ""
    last = text.splitlines()[-1]
    sentence = re.split(r"(?<=[.!?:])\s+", last.strip())[-1]
    return _short(unmarked(sentence))


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
            NeedAction("later", "Let it work", actions.PutOff(f"silent:{name}")),
        )
        quiet = rough_duration(now - max(began, heard))
        text = f"It has worked for {rough_duration(now - began)}, and nothing was heard of it for {quiet}."
        found.append(Need(f"silent:{name}", Kind.SILENT, heard or began, name, text, buttons, name))
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
            "escalate": "Take it back",
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
        text = f"{handoff.source}'s work is not handed on to {handoff.target}: it did not pass."
        at = parse_iso(event.at) if event is not None else 0.0
        found.append(Need(f"handoff:{reference}", Kind.HANDOFF, at, handoff.source, text, buttons, reference))
    return found


async def exploration_needs(tx: Tx) -> list[Need]:
    found = []
    for one in await explorations.open_explorations(tx):
        if one.state is not explorations.State.WAITING:
            continue
        take = [
            NeedAction(f"take-{each.name}", f"Take {each.name}", actions.TakeVariant(one.number, each.name))
            for each in one.config.variants
        ]
        end = NeedAction("end", "Take none", actions.EndExploration(one.number))
        text = f"{one.name} waits for your choice: {_short(one.config.task)}."
        if one.recommendation:
            text += f" {_short(one.recommendation)}"
        found.append(
            Need(
                f"exploration:{one.name}",
                *(Kind.EXPLORATION, parse_iso(one.at), one.name, text, (*take, end), one.name),
            )
        )
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


async def not_landed(tx: Tx, agents: Iterable[str], now: float) -> list[Need]:
    """Branches that the landing queue put out, and that are in it no more."""
    names, seen, found = frozenset(agents), set[str](), []
    inside = {entry.agent for entry in await landings.open_entries(tx)}
    for entry in await landings.newest_ended(tx, MOST_ENDED):
        if entry.agent in seen:
            continue
        seen.add(entry.agent)
        ended = entry.ended or entry.at
        if entry.state is not EntryState.PUT_OUT or entry.agent in inside or now - ended > DAY_S:
            continue
        id = f"landing:{entry.number}"
        again = NeedAction("land", "Land again", actions.Land((entry.agent,)))
        later = NeedAction("later", "Leave it", actions.PutOff(id))
        buttons = (again, later) if entry.agent in names else (later,)
        text = f"Its branch did not land: {_short(entry.reason) or 'no reason is known'}"
        found.append(
            Need(id, Kind.NOT_LANDED, ended, entry.agent, _sentence(text), buttons, str(entry.number))
        )
    return found


async def _others(tx: Tx, members: Mapping[str, Member], name: str, now: float) -> list[str]:
    """Other agents that would begin with it now."""
    able = []
    for other, member in members.items():
        if other != name and member.enabled:
            prospect = await queue.prospect(tx, member.policy, now, absence=member.absence)
            able += [other] if prospect.able and not prospect.why else []
    return able[:MOST_OTHERS]


async def _message(tx: Tx, job: Job | None) -> Message | None:
    rows = [] if job is None else await tx.all(Q.messages_by_ids, ids=dumps([job.message_id]))
    return message_of_row(rows[0]) if rows else None


def _give(message: Message | None, others: Sequence[str]) -> tuple[NeedAction, ...]:
    """Only what a person wrote goes to another agent."""
    if message is None or message.kind != "human" or "claims" in message.meta:
        return ()
    return tuple(
        NeedAction(f"give-{other}", f"Give to {other}", actions.Route((other,), message.number))
        for other in others
    )


def _short(text: str, most: int = MOST_WORDS) -> str:
    line = flat(text)
    return line if len(line) <= most else f"{line[: most - 1]}…"


def _sentence(text: str) -> str:
    text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "?", "!", "…")) else f"{text}."


def _named(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
    return ", ".join(flat(path) for path in paths[:3]) + more
