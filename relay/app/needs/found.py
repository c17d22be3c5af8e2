"""What needs a person, read from what the wings say of themselves. What nobody took up for a day is no need any more.

Invariant: no fact is decided here. That an advisory is open, an approval waits or a circuit is open is its wing's
word; a need is gone when its wing says so. Each function gives the needs of one kind.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from relay.app.needs.need import Kind, Need, NeedAction, later
from relay.app.needs.words import MOST_LABEL, named, prose, sentence, short, unmarked
from relay.base.durations import clock_time, parse_iso
from relay.base.terminal_text import flat
from relay.log import events
from relay.log.encoding import dumps
from relay.model import Board, Message, actions, references
from relay.model.names import listed
from relay.room.dispatch import queue
from relay.room.dispatch.breaker import BreakerState, CircuitBreaker, in_a_row
from relay.room.dispatch.budget import DAY_S, Exhausted, Spent, exhausted
from relay.room.dispatch.permissions import ALLOW, Pending, code_span
from relay.room.dispatch.roster import Member, Policy
from relay.room.journal.ledger import Q
from relay.room.journal.values import Job, JobState, message_of_row
from relay.room.routing.choice import choice
from relay.room.steward.meant import given_up, taken_over
from relay.store.ports import Tx

#: Other agents that a message is offered to.
MOST_OTHERS = 3
#: Entries among which questions of agents are looked for, and questions of one agent; jobs that ended badly.
MOST_ENTRIES, MOST_QUESTIONS, MOST_JOBS = 500, 3, 100
#: Messages that one agent did not answer, each of which is a need of its own.
MOST_APART = 3
#: Characters of a message, or of a task's title, that a button quotes.
MOST_QUOTED = 30
_ADDRESSED = re.compile(r"^(?:@[\w-]+[,:]?\s+)+")


def permissions(pending: Sequence[Pending], *, numbered: bool = True) -> list[Need]:
    """What agents ask people for. `numbered`: by its number, as people say it; of another member of the fleet, which
    counts for itself, by its id."""
    found = []
    for asked in pending:
        request = asked.request
        buttons = tuple(
            NeedAction(
                f"option-{place}",
                short(option.label, MOST_LABEL),
                actions.Permit(
                    references.request(asked.number) if numbered else asked.id,
                    str(place),
                    allow=option.kind in ALLOW,
                ),
            )
            for place, option in enumerate(asked.options, 1)
        )
        where = f" in {named(request.paths)}" if request.paths else ""
        runs = "" if flat(request.command) in request.title else f": {code_span(request.command)}"
        text = f"It asks for permission: {short(request.title)}{where}{runs}."
        found.append(
            Need(
                f"permission:{asked.id}",
                *(Kind.PERMISSION, asked.asked_at, request.agent, text, buttons),
                ref=request.agent,
                ends=asked.deadline_at,
            )
        )
    return found


async def agent_needs(tx: Tx, members: Mapping[str, Member], board: Board, now: float) -> list[Need]:
    """Agents whose circuit is open, and those whose budget is spent. What opened the circuits of several is one need.
    An agent that has both has its budget's, without which it cannot be tried."""
    jobs = [Job.of_row(row) for row in await tx.all(Q.last_skips, limit=MOST_JOBS)]
    found, told = list[Need](), set[str]()
    stuck: dict[str, list[tuple[str, CircuitBreaker, Job | None]]] = {}
    spent: list[tuple[Policy, CircuitBreaker, Spent, Exhausted]] = []
    for name, member in members.items():
        if not member.enabled:
            continue
        policy = member.policy
        breaker = await queue.load_breaker(tx, policy)
        used = await queue.load_spent(tx, name, now) if policy.budget.any else Spent()
        if (over := exhausted(policy.budget, used, now)) is not None:
            spent.append((policy, breaker, used, over))
        elif breaker.state is BreakerState.OPEN:
            latest = max((job for job in jobs if job.agent == name), key=lambda job: job.id, default=None)
            what = await _called(tx, latest) if latest else name
            stuck.setdefault(what, []).append((name, breaker, latest))
    for what, each in stuck.items():
        each.sort(key=lambda one: one[1].opened_at or now)
        names, many, id = [name for name, *_ in each], len(each) > 1, f"agent:{each[0][0]}"
        messages = {latest.message_id for *_, latest in each if latest}
        told |= messages
        same = [job for job in jobs if job.message_id in messages]
        lines = [f"{name if many else 'It'} gets no work {_until(breaker, now)}" for name, breaker, _ in each]
        last = _last([job for job in jobs if job.agent in names and _failed(job)], same, what, "Last")
        text = ". ".join([*lines, *last])
        label = {name: (f"try-{name}", f"Try {name} now") if many else ("try", "Try now") for name in names}
        buttons = [NeedAction(*label[name], actions.TryNow((name,))) for name in names]
        newest = max(same, key=lambda job: job.id, default=None)
        if newest is not None:
            buttons += await _give(tx, newest, members, board, now, (later("Drop it", id, "drop"),))
        at = max(breaker.opened_at or now for _, breaker, _ in each)
        # Who drops it has not dropped another message that fails, nor this one at another agent.
        parts = (*(f"agent:{name}" for name in names[1:]), *(f"job:{job.id}" for job in same))
        found.append(
            Need(
                *(id, Kind.FAILED_AGENT, at, " and ".join(names), sentence(text), tuple(buttons)),
                ref=names[0],
                parts=parts,
            )
        )
    for policy, breaker, used, over in spent:
        missed, opened = (
            [job for job in jobs if job.agent == policy.agent],
            breaker.state is BreakerState.OPEN,
        )
        need = _budget(policy, used, over, missed, now)
        text, give = need.text, tuple[NeedAction, ...]()
        text += f" Its circuit is open, too, after {in_a_row(breaker.failures)}." if opened else ""
        failed = next((job for job in missed if _crashed(job) or (opened and _failed(job))), None)
        if failed is not None:
            same = [job for job in jobs if job.message_id == failed.message_id]
            last = _last([failed], same, await _called(tx, failed), "Its last turn failed")
            text += "".join(f" {line}." for line in last)
            # Else another need offers it.
            if failed.message_id not in told and failed.id == max(job.id for job in same):
                give = await _give(tx, failed, members, board, now)
        found.append(replace(need, text=text, actions=(*need.actions, *give)))
    return found


def _until(breaker: CircuitBreaker, now: float) -> str:
    """Since when an open circuit lets nothing through, and until when."""
    text = f"after {in_a_row(breaker.failures)}"
    if not breaker.retry_at:
        return text
    if breaker.retry_at <= now:
        return f"{text}: its next message is a trial, and an answer puts it back to work"
    return f"{text} until {clock_time(breaker.retry_at, now)}"


def _last(failed: Sequence[Job], same: Sequence[Job], what: str, lead: str) -> list[str]:
    """What failed last, the newest of `failed` first, at most one sentence without its stop. `same`: the jobs of what
    it failed at, `what`, which names all agents where there are several."""
    at = sorted((job for job in same if _failed(job)), key=lambda job: job.id)
    names = list(dict.fromkeys(job.agent for job in at))
    if len(names) > 1:
        return [f"{what} failed at {listed(names)}: {short(at[-1].error or '').rstrip('.')}"]
    return [f"{lead}: {short(job.error)}" for job in failed if job.error][:1]


def _budget(policy: Policy, used: Spent, spent: Exhausted, missed: Sequence[Job], now: float) -> Need:
    """`missed`: jobs of this agent that ended badly."""
    name, limit = policy.agent, getattr(policy.budget, spent.what)
    more = max(limit * 2, 1)
    while more <= spent.used:  # a limit that is spent already frees nobody
        more *= 2
    # Another limit is another need: who waits for this one has not put that off.
    id, typed = f"budget:{name}:{spent.what}:{limit:.15g}", f"budget:{name}"
    said = f"${more:.2f}" if spent.what == "usd_per_day" else f"{more:,}"
    unit = {"turns_per_hour": "turns an hour", "tokens_per_day": "tokens a day"}
    label = f"Raise to {said} {unit.get(spent.what, 'a day')}"
    undo = actions.RaiseBudget(name, spent.what, limit)
    buttons = (
        NeedAction("raise", label, actions.RaiseBudget(name, spent.what, more), undo=undo),
        later("Wait", typed, "wait"),
    )
    skips = [job.ended_at or 0.0 for job in missed if job.error_class == "budget"]
    # It is spent since its last turn; a message that is skipped then makes it no newer.
    at = used.newest or min(skips, default=0.0)
    text = (
        f"Its budget is spent: {spent.text}. It can begin its next turn at {clock_time(spent.frees_at, now)}."
    )
    return Need(id, Kind.BUDGET, at, name, text, buttons, name, spent.frees_at, said=typed)


def _crashed(job: Job) -> bool:
    """Did it fail, and then get no other try?"""
    return (job.error or "").endswith(queue.NO_TRY)


def _failed(job: Job) -> bool:
    return job.state is JobState.DEAD or _crashed(job)


async def unanswered(
    tx: Tx, members: Mapping[str, Member], elsewhere: Sequence[Need], board: Board, now: float
) -> list[Need]:
    """Messages that agents were asked and will not answer by themselves, one need for each, whoever failed at it;
    many of one agent are one need. `elsewhere`: the needs that say why of an agent, or of a message, already."""
    silent = {name for need in elsewhere for name in need.about.split(" and ")}
    told = {part for need in elsewhere for part in need.parts}
    missed = await given_up(tx, {*members} - silent, now)
    missed = [pair for pair in missed if f"job:{pair[0].id}" not in told]
    found, of_agent = [], Counter(job.agent for job, _ in missed)
    for name, count in of_agent.items():
        if count > MOST_APART:
            found.append(_many(name, [pair for pair in missed if pair[0].agent == name]))
    of_message: dict[str, tuple[Message, list[Job]]] = {}
    for job, message in sorted(missed, key=lambda pair: pair[0].id):
        if of_agent[job.agent] <= MOST_APART:
            of_message.setdefault(message.id, (message, []))[1].append(job)
    for message, jobs in of_message.values():
        many, newest, id = len(jobs) > 1, jobs[-1], f"job:{jobs[0].id}"
        buttons = [
            NeedAction(f"retry-{job.agent}", f"Try {job.agent} again", actions.Retry(job.id, "job"))
            for job in jobs
        ]
        if not many:
            buttons = [NeedAction("retry", "Try again", actions.Retry(newest.id, "job"))]
        buttons += [*await _give(tx, newest, members, board, now), later("Leave it", id)]
        ended = max(job.ended_at or job.created_at for job in jobs)
        ref, names = references.message(message.number), [job.agent for job in jobs]
        how = "could not answer" if any(job.state is JobState.DEAD for job in jobs) else "did not answer"
        text = f"{listed(names) if many else 'It'} {how} {ref} of {flat(message.speaker)}: "
        text += f"“{short(message.body, 80)}”{_why(newest)}"
        about, parts = " and ".join(names), tuple(f"job:{job.id}" for job in jobs[1:])
        need = Need(id, Kind.UNANSWERED, ended, about, sentence(text), tuple(buttons), ref, parts=parts)
        found.append(need)
    return found


def _why(job: Job) -> str:
    """Of then: that its budget is spent, and until when, may not be so any more."""
    error = "its budget was spent" if job.error_class == "budget" else job.error
    return f". Why: {short(error)}" if error else ""


def _many(name: str, missed: Sequence[tuple[Job, Message]]) -> Need:
    """`missed`: of this agent, the newest first."""
    newest, count = missed[0][0], len(missed)
    refs = [references.message(message.number) for _, message in missed]
    rest = count - MOST_APART
    text = f"It has not answered {count} messages: {', '.join(refs[:MOST_APART])} and {rest} more"
    text += _why(newest)
    typed = f"jobs:{name}"
    buttons = (
        NeedAction("retry", "Try all again", actions.RetryAll(name)),
        later("Leave them", typed),
    )
    ended = newest.ended_at or newest.created_at
    id = f"{typed}:{newest.id}"
    return Need(id, Kind.UNANSWERED, ended, name, sentence(text), buttons, refs[0], said=typed)


async def questions(tx: Tx, agents: Iterable[str], now: float) -> list[Need]:
    """Questions that agents' answers to people end with, and that no person has answered: by a later message to that
    agent, or by a reply in the question's thread, which answers that one alone. What the agent says to other messages
    meanwhile answers nothing; a later answer to the same message takes the question's place."""
    names, answered, replied = set(agents), set[str](), set[tuple[str | None, str]]()
    shown, seen, found = Counter[str](), set[tuple[str, str]](), list[Need]()
    rows = await tx.all(Q.messages_before, before=await events.last_pos(tx) + 1, limit=MOST_ENTRIES)
    said = [message_of_row(row) for row in rows]
    by_id = {message.id: message for message in said}
    for message in said:  # the newest first
        speaker, about = message.speaker, message.in_reply_to or ""
        if message.kind == "human":
            if "unverified" in message.meta:
                continue  # an agent may have written it
            asked = by_id.get(about)
            if about:
                replied |= {(message.thread, name) for name in message.to}
                replied |= {(message.thread, asked.speaker)} if asked is not None else set()
            elif "given" not in message.meta and not _reviews(message):  # these answer no question
                answered |= set(message.to)
            continue
        if message.kind != "agent" or speaker not in names:
            continue
        question, asked = question_of(message.body), by_id.get(about)
        same = {(speaker, key) for key in (about, question) if key}
        news = not same & seen
        seen |= same
        if not question or not news or (asked is not None and asked.kind != "human"):
            continue
        at = parse_iso(message.ts)
        over = speaker in answered or (message.thread, speaker) in replied
        if over or now - at > DAY_S or shown[speaker] == MOST_QUESTIONS:
            continue
        shown[speaker] += 1
        reference = references.message(message.number)
        buttons = (
            NeedAction("answer", "Answer", actions.Steer((speaker,), ""), "text", "your answer"),
            later("Needs no answer", f"question:{reference}"),
        )
        found.append(Need(f"question:{reference}", Kind.QUESTION, at, speaker, question, buttons, reference))
    return found


def _reviews(message: Message) -> bool:
    return message.body.lstrip().casefold().startswith(f"{actions.SendReview.word} ")


def question_of(body: str) -> str:
    """The question that an answer ends with, empty where it ends with none."""
    text = prose(body).rstrip(" \n*_`)")
    if not text.endswith("?"):
        return ""
    last = text.splitlines()[-1]
    sentence = re.split(r"(?<=[.!?:])\s+", last.strip())[-1]
    return short(unmarked(sentence))


async def _message(tx: Tx, job: Job) -> Message | None:
    rows = await tx.all(Q.messages_by_ids, ids=dumps([job.message_id]))
    return message_of_row(rows[0]) if rows else None


async def _called(tx: Tx, job: Job) -> str:
    """What people call that which the job is about: the task that its message gave (`t3`), else the message."""
    message = await _message(tx, job)
    given = message.meta.get("given") if message else None
    if isinstance(given, dict):
        return references.task(given["number"])
    return references.message(message.number) if message else references.job(job.id)


async def _open(tx: Tx, job: Job, board: Board) -> tuple[Message, str] | None:
    """The message of a person that a job was about, and the title of the task that it gave, else its text; None = no
    person's, taken back, or another agent has it already."""
    message = await _message(tx, job)
    if message is None or message.kind != "human" or await taken_over(tx, job):
        return None
    if "claims" in message.meta or "deleted" in message.meta:
        return None
    if not isinstance(given := message.meta.get("given"), dict):
        return message, message.body
    task = next((each for each in await board.list(tx) if each.number == given["number"]), None)
    if task is None or task.given_to is not None or task.as_json()["status"] != "pending":
        return None
    return message, task.title


async def _give(
    tx: Tx,
    job: Job,
    members: Mapping[str, Member],
    board: Board,
    now: float,
    drop: tuple[NeedAction, ...] = (),
) -> tuple[NeedAction, ...]:
    """To whom what this job was about can be given: a person's message, or the task that it gave. To nobody who has
    had it already, and never what another agent has begun. `drop`: what else can be done with it then."""
    if (about := await _open(tx, job, board)) is None:
        return ()
    message, title = about
    given = message.meta.get("given")

    def to(other: str) -> actions.Action:
        number = message.number
        return actions.Give((given["number"],), other) if given else actions.Route((other,), number)

    asked = {str(row["agent"]) for row in await tx.all(Q.jobs_of_message, message_id=message.id)}
    able = await choice(tx, members, now, but={job.agent, *asked})
    said = f"{await _called(tx, job)} “{short(_ADDRESSED.sub('', title), MOST_QUOTED)}”"
    return (
        *(
            NeedAction(f"give-{other}", f"Give {said} to {other}", to(other))
            # In the order of their names, which stays when one gets free: nobody gives it to another than they meant.
            for other in sorted(able.names[:MOST_OTHERS])
        ),
        *drop,
    )
