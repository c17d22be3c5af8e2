"""What needs a person, read from what the wings say of themselves. What nobody took up for a day is no need any more.

Invariant: no fact is decided here. That an advisory is open, an approval waits or a circuit is open is its wing's
word; a need is gone when its wing says so. Each function gives the needs of one kind.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from relay.airspace.advisories import wording
from relay.airspace.advisories.rules.advisory import Advisory, Choice, Steering
from relay.app.needs.need import Kind, Need, NeedAction, gives_up, later, settles
from relay.app.needs.words import MOST_LABEL, named, prose, sentence, short, unmarked
from relay.base.durations import clock_time, parse_iso, rough_duration
from relay.base.terminal_text import flat
from relay.log import events
from relay.log.encoding import dumps
from relay.model import Board, Message, actions, references
from relay.room.dispatch import queue
from relay.room.dispatch.breaker import BreakerState, in_a_row
from relay.room.dispatch.budget import DAY_S, exhausted
from relay.room.dispatch.permissions import ALLOW, Pending, code_span
from relay.room.dispatch.roster import Member
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


class Asking(NamedTuple):
    """An open advisory about which people can decide something, and have not: with the `choices`, and the id of its
    need."""

    advisory: Advisory
    choices: tuple[Choice, ...]
    id: str


async def asking(
    tx: Tx, agents: Iterable[str], advisories: Iterable[Advisory], told: Collection[str]
) -> list[Asking]:
    """`told`: agents of which another need says that they are set back."""
    names, found = frozenset(agents), []
    paused = {str(row["name"]) for row in await tx.all(Q.agents) if row["paused"]}
    for stored in advisories:
        others = {name: back for name, back in stored.set_back.items() if name not in told}
        advisory = replace(stored, set_back=others)
        choices = advisory.choices(names) if advisory.open and advisory.founded else ()
        if not choices or _settled(advisory, paused):
            continue
        left = tuple(each for each in choices if not (each.name == "stop" and each.agent in paused))
        # What does not merge any more is a need of its own: who has heard of the collision before it hears of that.
        found.append(Asking(advisory, left, ":".join(["advisory", advisory.id, *sorted(others)])))
    return found


def collisions(asked: Iterable[Asking], agents: Iterable[str], here: Collection[str]) -> list[Need]:
    """`here`: agents whose worktree is here."""
    names, found = frozenset(agents), []
    make: Mapping[str, Callable[[str], actions.Action]] = {
        "first": actions.GoFirst,
        "stop": lambda agent: actions.Stop((agent,)),
        "update": lambda agent: actions.TakeMain((agent,)),
    }
    for advisory, choices, id in asked:
        back = advisory.set_back
        buttons = [
            NeedAction(
                f"{choice.name}-{choice.agent}",
                choice.label,
                make[choice.name](choice.agent),
                undo=actions.Resume((choice.agent,)) if choice.name == "stop" else None,
            )
            for choice in choices
        ]
        stuck = [name for name, each in back.items() if each.merging and name in names]
        own = [
            name
            for name in back
            if name in stuck or (name in here and name in names and not back[name].unsettled)
        ]
        # First what ends a merge that is under way: to be asked for one again helps least.
        buttons[:0] = [
            button
            for name in own
            for button in (
                *(() if back[name].needless else (settles(name, f"settle-{name}", of_several=len(own) > 1),)),
                *((gives_up(name, f"abort-{name}"),) if name in stuck else ()),
            )
        ]
        # As the room says it: by the message that told of it.
        name = references.message(advisory.number) if advisory.number else advisory.id[-6:]
        said = ":".join(["advisory", name, *sorted(back)])
        buttons.append(later("Leave it", said))
        since = max([advisory.resolved_at or advisory.opened_at, *(each.since for each in back.values())])
        about = " and ".join(advisory.part)
        line = sentence(wording.in_words(advisory))
        found.append(Need(id, Kind.COLLISION, since, about, line, tuple(buttons), advisory.id, said=said))
    return found


def _settled(advisory: Advisory, paused: Collection[str]) -> bool:
    """Have people said what becomes of everybody in it? An agent that gives way by their word and does not leave is
    asked about again."""
    obeys = advisory.steering is not Steering.STAYED
    return all(
        name in paused or (obeys and name not in advisory.set_back and advisory.decided_against(name))
        for name in {*advisory.roles.steer, *advisory.set_back}
    )


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
            give = () if latest is None else await _give(tx, latest, members, board, now)
            tried = [job for job in missed if job.state is JobState.DEAD or _crashed(job)]
            failed = next((job.error for job in tried if job.error), "")
            text = f"It gets no work after {in_a_row(breaker.failures)}"
            if breaker.retry_at:
                due = breaker.retry_at <= now
                text += (
                    ": its next message is a trial, and an answer puts it back to work"
                    if due
                    else f" until {clock_time(breaker.retry_at, now)}"
                )
            text += f". Last: {short(failed)}" if failed else ""
            buttons = (NeedAction("try", "Try now", actions.TryNow((name,))), *give)
            at = breaker.opened_at or now
            found.append(Need(f"agent:{name}", Kind.FAILED_AGENT, at, name, sentence(text), buttons, name))
        if policy.budget.any:
            used = await queue.load_spent(tx, name, now)
            spent = exhausted(policy.budget, used, now)
            if spent is not None:
                limit = getattr(policy.budget, spent.what)
                more = max(limit * 2, 1)
                while more <= spent.used:  # a limit that is spent already frees nobody
                    more *= 2
                # Another limit is another need: who waits for this one has not put that off.
                id, typed = f"budget:{name}:{spent.what}:{limit:.15g}", f"budget:{name}"
                said = f"${more:.2f}" if spent.what == "usd_per_day" else f"{more:,}"
                unit = {"turns_per_hour": "turns an hour", "tokens_per_day": "tokens a day"}
                label = f"Raise to {said} {unit.get(spent.what, 'a day')}"
                buttons = (
                    NeedAction(
                        "raise",
                        label,
                        actions.RaiseBudget(name, spent.what, more),
                        undo=actions.RaiseBudget(name, spent.what, limit),
                    ),
                    later("Wait", typed, "wait"),
                )
                skips = [job.ended_at or 0.0 for job in missed if job.error_class == "budget"]
                # It is spent since its last turn; a message that is skipped then makes it no newer.
                at = used.newest or min(skips, default=0.0)
                free = clock_time(spent.frees_at, now)
                text = f"Its budget is spent: {spent.text}. It can begin its next turn at {free}."
                crashed = next((job.error for job in missed if _crashed(job)), "")
                text += f" Its last turn failed: {short(crashed or '')}." if crashed else ""
                need = Need(id, Kind.BUDGET, at, name, text, buttons, name, spent.frees_at, said=typed)
                found.append(need)
    return found


def _crashed(job: Job) -> bool:
    """Did it fail, and then get no other try?"""
    return (job.error or "").endswith(queue.NO_TRY)


async def unanswered(
    tx: Tx, members: Mapping[str, Member], silent: Iterable[str], board: Board, now: float
) -> list[Need]:
    """Messages that an agent was asked and will not answer by itself; many of one agent are one need. `silent`:
    agents of which another need says why."""
    missed = await given_up(tx, {*members} - {*silent}, now)
    found, of_agent = [], Counter(job.agent for job, _ in missed)
    for name, count in of_agent.items():
        if count > MOST_APART:
            found.append(_many(name, [pair for pair in missed if pair[0].agent == name]))
    for job, message in missed:
        if of_agent[job.agent] > MOST_APART:
            continue
        buttons = (
            NeedAction("retry", "Try again", actions.Retry(job.id, "job")),
            *await _give(tx, job, members, board, now),
            later("Leave it", f"job:{job.id}"),
        )
        ended, ref = job.ended_at or job.created_at, references.message(message.number)
        how = "could not answer" if job.state is JobState.DEAD else "did not answer"
        text = f"It {how} {ref} of {flat(message.speaker)}: “{short(message.body, 80)}”"
        text += _why(job)
        found.append(Need(f"job:{job.id}", Kind.UNANSWERED, ended, job.agent, sentence(text), buttons, ref))
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


async def tasks(tx: Tx, board: Board) -> list[Need]:
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


async def _message(tx: Tx, job: Job) -> Message | None:
    rows = await tx.all(Q.messages_by_ids, ids=dumps([job.message_id]))
    return message_of_row(rows[0]) if rows else None


async def _give(
    tx: Tx, job: Job, members: Mapping[str, Member], board: Board, now: float
) -> tuple[NeedAction, ...]:
    """To whom what this job was about can be given: a person's message, or the task that it gave. To nobody who has
    it already, and never what another agent has begun."""
    message = await _message(tx, job)
    if message is None or message.kind != "human" or await taken_over(tx, job):
        return ()
    if "claims" in message.meta or "deleted" in message.meta:
        return ()
    given, what, title = message.meta.get("given"), references.message(message.number), message.body
    if isinstance(given, dict):
        task = next((each for each in await board.list(tx) if each.number == given["number"]), None)
        if task is None or task.given_to is not None or task.as_json()["status"] != "pending":
            return ()
        what, title = task.ref, task.title

    def to(other: str) -> actions.Action:
        number = message.number
        return actions.Give((given["number"],), other) if given else actions.Route((other,), number)

    asked = {str(row["agent"]) for row in await tx.all(Q.jobs_of_message, message_id=message.id)}
    able = await choice(tx, members, now, but={job.agent, *asked})
    said = f"{what} “{short(_ADDRESSED.sub('', title), MOST_QUOTED)}”"
    return tuple(
        NeedAction(f"give-{other}", f"Give {said} to {other}", to(other))
        # In the order of their names, which stays when one gets free: nobody gives it to another than they meant.
        for other in sorted(able.names[:MOST_OTHERS])
    )
