"""One line of markdown for each thing that the steward tells of: an agent, a job, a task, a lock.

Invariant: texts of people and agents enter the markdown escaped and on one line, so none of them can shape it. Pure.
"""

from __future__ import annotations

import re

from relay.base.durations import rough_duration
from relay.base.terminal_text import flat
from relay.model import references
from relay.room.steward.view import AgentView, JobView, LockView, StewardView, TaskView, VisitorView

#: Lines of a list that an answer shows.
SHOWN = 8
#: Characters of what an agent was asked that a line about it has.
ASKED = 80
#: The names that a message begins with.
_NAMED = re.compile(r"(?:\s*@[\w-]+[,:]?)+\s*")


def lock(lock: LockView) -> str:
    shared = ", shared" if lock.shared else ""
    why = f": {plain(lock.reason)}" if lock.reason else ""
    waits = f"; {names(lock.waiting)} {'waits' if len(lock.waiting) == 1 else 'wait'}" if lock.waiting else ""
    times = f"for {rough_duration(lock.held_s)}{shared}, {rough_duration(lock.left_s)} left"
    return f"- {path(lock.path)} **{plain(lock.holder)}** {times}{why}{waits}"


def names(names: tuple[str, ...]) -> str:
    shown = [plain(name) for name in names[:3]]
    return ", ".join([*shown, f"{len(names) - 3} more"] if len(names) > 3 else shown)


def path(path: str) -> str:
    """A path as code, whatever is in it."""
    line = " ".join(path.split())
    ticks = "`" * (max((len(run) for run in re.findall("`+", line)), default=0) + 1)
    pad = " " if "`" in line else ""
    return f"{ticks}{pad}{line}{pad}{ticks}"


def how_to_install(agent: AgentView) -> str:
    return f"- **{plain(agent.name)}** {lacking(agent)}"


def lacking(agent: AgentView) -> str:
    """What an agent that is not installed lacks, and the command that mends it."""
    # A local model's program may well be installed; what it lacks is in the detail.
    what = "is not available" if agent.kind == "ollama" else "is not installed"
    what = "is broken" if agent.broken else what
    detail = f" ({sentence(agent.detail).rstrip('.')})" if agent.detail else ""
    program = agent.program
    fix = agent.fix or (program.install if program else "")
    if not fix:
        return f"{what}{detail}: look at its `cmd` in the configuration"
    then = f", then run `{program.sign_in}` to sign in" if program else ""
    # A fix is a command or, of some kinds, a sentence.
    shown = f"run `{fix}`" if "`" not in fix and not fix.endswith(".") else fix.rstrip(".")
    return f"{what}{detail}: {shown}{then}"


def visitor(agent: VisitorView) -> str:
    kind = f" ({plain(agent.kind)})" if agent.kind != "agent" else ""
    holds = f", holds {agent.holds}" if agent.holds else ""
    state = f" {plain(agent.state)}," if agent.state else ""
    return f"- **{plain(agent.name)}**{kind}{state} heard {rough_duration(agent.heard_s)} ago{holds}"


def condition(agent: AgentView) -> str:
    """How an agent is, behind its name: where it lives, where that is not here, and what keeps it from working."""
    if agent.absence:
        return f"is away: {absent(agent)}. {_kept(agent)}"
    at = f"at {plain(agent.member)} " if agent.member else ""
    return f"{at}{_condition(agent)}"


def absent(agent: AgentView) -> str:
    """Why the machine of an agent cannot be reached, and for how long."""
    return f"{plain(agent.absence)} for {rough_duration(agent.unheard_s)}"


def _kept(agent: AgentView) -> str:
    if agent.running is not None:
        return f"It was at work on {message(agent.running.message)}"
    if agent.queued:
        return f"{count(agent.queued, 'message')} {'waits' if agent.queued == 1 else 'wait'} for it"
    return "Messages wait for it"


def _condition(agent: AgentView) -> str:
    if not agent.installed:
        return lacking(agent)
    if not agent.enabled:
        return "is switched off in the configuration"
    if agent.paused:
        return f"is paused: `/resume @{agent.name}`{_at_rest(agent)}"
    hindered = hindrance(agent)
    if hindered:
        return hindered
    waits = f"; {count(agent.queued, 'message')} waiting" if agent.queued else ""
    if agent.running is not None:
        so_far = rough_duration(agent.running.for_s)
        how = (
            f", hears `/steer @{agent.name}` at its next tool"
            if agent.hears
            else ", gets new messages at its next turn"
        )
        return f"has worked on {message(agent.running.message)} for {so_far}{how}{waits}"
    return f"is ready{waits}{_at_rest(agent)}"


def _at_rest(agent: AgentView) -> str:
    """What an agent that waits for work did last, and which tasks it has."""
    last, tasks = agent.last, ", ".join(references.task(number) for number in agent.tasks[:5])
    parts = [f"has {tasks}"] if tasks else []
    if last is not None:
        named = _NAMED.match(last.text)
        asked = (last.text[named.end() :] if named else last.text) or last.text
        shown = asked if len(asked) <= ASKED else f"{asked[: ASKED - 1]}…"
        parts.append(f"last: {plain(shown)} ({message(last.message)}), {rough_duration(last.ago_s)} ago")
    return "".join(f"; {part}" for part in parts)


def hindrance(agent: AgentView) -> str:
    """What keeps an active agent from its next turn, or ""."""
    if agent.breaker == "open":
        return (
            "failed several times in a row and gets no work for now; "
            f"one attempt is made in {rough_duration(agent.retry_in_s)}, or now by `/try @{agent.name}`"
        )
    if agent.breaker == "half_open":
        return "failed several times in a row; if its next turn succeeds, it gets work again"
    if agent.parked_s > 0:
        return f"has reached its rate limit and goes on in {rough_duration(agent.parked_s)}"
    spent = [budget for budget in agent.budgets if budget.spent]
    if spent:
        budgets = ", ".join(f"{plain(b.what)} ({amount(b.used)} of {amount(b.limit)})" for b in spent)
        return f"has spent its budget: {budgets}. Raise `budget` in the configuration to go on"
    return ""


def dispatcher(view: StewardView) -> str:
    model = f" (`{code(view.dispatcher.model)}`)" if view.dispatcher.model else ""
    detail = f": {sentence(view.dispatcher.detail)}" if view.dispatcher.detail else "."
    match view.dispatcher.state:
        case "ok":
            return f"The dispatcher{model} decides who answers a message without a mention."
        case "fallback":
            return f"The dispatcher{model} cannot decide, so all active agents are asked{detail}"
        case "off":
            return "The dispatcher is switched off: all active agents get a message without a mention."
        case _:
            return f"The dispatcher{model} has not decided anything yet."


def waiting_job(job: JobView, agent: AgentView | None = None) -> str:
    """`agent`: the one that it waits for, where it is still in the room."""
    if agent is not None and agent.absence:
        for_s = rough_duration(job.age_s)
        return f"- {message(job.message)} has waited {for_s} for **{plain(job.agent)}**: {absent(agent)}"
    when = f", tried again in {rough_duration(job.retry_in_s)}" if job.retry_in_s > 0 else ""
    why = f" ({sentence(job.reason).rstrip('.')})" if job.reason else ""
    so_far = rough_duration(job.age_s)
    return f"- {message(job.message)} has waited {so_far} for **{plain(job.agent)}**{when}{why}"


def unanswered_job(job: JobView) -> str:
    ended = {"dead": "could not answer", "skipped": "did not answer"}.get(job.state, "failed at")
    why = f": {sentence(job.reason).rstrip('.')}" if job.reason else ""
    again = f" in {rough_duration(job.retry_in_s)}" if job.retry_in_s > 0 else ""
    retry = f"it is tried again{again}" if job.state == "failed" else f"`/retry {references.job(job.id)}`"
    return f"- **{plain(job.agent)}** {ended} {message(job.message)}, {rough_duration(job.age_s)} ago{why} ({retry})"


def task(task: TaskView) -> str:
    extra = [f"**{plain(task.badge)}**"] if task.badge else []
    extra += [plain(task.assignee)] if task.assignee else []
    if task.attempts and task.attempt > 1 and task.status != "done":
        extra.append(f"attempt {task.attempt} of {task.attempts}")
    why = ""
    if task.badge == "blocked" and task.waits_for:
        why = f": waits for {', '.join(references.task(number) for number in task.waits_for)}"
    elif task.badge and task.why:
        why = f": {sentence(task.why)}"
    return f"- {references.task(task.number)} {plain(task.title)}" + (
        f" ({', '.join(extra)}{why})" if extra else ""
    )


def first_lines(lines: list[str], rest: str) -> list[str]:
    if len(lines) <= SHOWN:
        return lines
    return [*lines[:SHOWN], f"- and {len(lines) - SHOWN} {rest}"]


def message(number: int) -> str:
    return references.message(number) if number else "a message"


def count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def amount(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:,.2f}"


def plain(text: str) -> str:
    """Text of others as markdown that shows it: one line, and nothing in it is markup."""
    return escaped(one_line(text))


def one_line(text: str) -> str:
    line = flat(text)
    return line if len(line) <= 240 else line[:239] + "…"


def escaped(line: str) -> str:
    escaped = re.sub(r"([\\`*\[\]<>~|])", r"\\\1", line)
    return re.sub(r"(?<!\w)_|_(?!\w)", r"\\_", escaped)


def sentence(text: str) -> str:
    """A sentence of the room's own: as `plain`, but what it marks as code is shown as code."""
    parts = re.split(r"(`[^`]+`)", one_line(text))
    return "".join(part if at % 2 else escaped(part) for at, part in enumerate(parts))


def code(text: str) -> str:
    return flat(text.replace("`", "'"))
