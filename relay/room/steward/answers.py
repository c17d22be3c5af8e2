"""The steward, RELAY: the one who always answers, with what the room knows and no model.

Invariant: an answer says only what the view says, and every trouble in it comes with what to do about it.
Texts of people and agents enter the markdown escaped and on one line, so none of them can shape it.

Pure. `answer` picks one of the renderings by the words of the question; the commands use the renderings
directly.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence

from relay.base.durations import rough_duration
from relay.base.terminal_text import flat
from relay.config.command_line import command
from relay.model import PROGRAMS, STEWARD, references
from relay.room.dispatch.view import (
    AgentView,
    BudgetView,
    DispatcherView,
    JobView,
    LockIdentity,
    LockView,
    RunningView,
    StewardView,
    TaskView,
    VisitorView,
)
from relay.room.parsing.commands import COMMANDS, find
from relay.room.parsing.markdown import prose

__all__ = [
    "AgentView",
    "BudgetView",
    "DispatcherView",
    "JobView",
    "LockView",
    "RunningView",
    "StewardView",
    "TaskView",
    "answer",
    "no_agent_answer",
    "render_abilities",
    "render_help",
    "render_install",
    "render_locks",
    "render_locks_at",
    "render_queue",
    "render_skips",
    "render_tasks",
    "render_who",
]

_SHOWN = 8


def answer(body: str, view: StewardView) -> str:
    """The steward's answer to `body`, as markdown. With no active agent every answer says so too: in full to who asks
    about agents or the room, in a line to everybody else."""
    render = _topic(body)
    if render is None:
        return _otherwise(view) if view.active else no_agent_answer(view)
    text = render(view)
    if view.active:
        return text
    # Some renderings say already what each agent lacks.
    told = render in (render_install, render_abilities) or (
        view.agents and render in (render_who, render_skips)
    )
    return f"{text}\n\n{_without_agents(view) if told else no_agent_answer(view)}"


def _topic(body: str) -> Callable[[StewardView], str] | None:
    words = " ".join(re.sub(r"[^\w\s'-]", " ", prose(body[:4000]).lower().replace("’", "'")).split())
    words = words.replace("'", "").replace(f"{STEWARD.lower()} ", "")
    for pattern, render in _TOPICS:
        if pattern.search(words):
            return render
    return None


# -- renderings


def render_help(command: str | None = None) -> str:
    """All the commands, or one of them with an example. An unknown one gets the list."""
    spec = find(command) if command else None
    if spec is not None:
        shown = f"\n\nFor example: `{spec.example}`" if spec.example != spec.usage else ""
        return f"`{spec.usage}`: {spec.help}.{shown}"
    listed = "\n".join(f"- `{spec.usage}`: {spec.help}" for spec in COMMANDS)
    return (
        "Write a message and the right agent answers; `@NAME` asks one directly, `@all` asks everybody.\n\n"
        f"{listed}\n\nA message that starts with a slash is written with two: `//`. In a terminal "
        "`/quit` leaves the room."
    )


def render_who(view: StewardView) -> str:
    """The people who are here, and each agent with what keeps it from working, if anything does."""
    people = ", ".join(_plain(name) for name in view.people) if view.people else "nobody is connected"
    lines = [f"**People:** {people}", ""]
    if not view.agents:
        lines += ["**Agents:** none is configured. Ask me how to install one."]
    else:
        lines += ["**Agents:**"]
        lines += [f"- **{_plain(agent.name)}** {_condition(agent)}" for agent in view.agents]
    lines += [f"- **{STEWARD}** always here, for questions about the room"]
    if view.visitors:
        lines += ["", "**Connected on their own** (the room does not start them):"]
        lines += _some([_visitor(one) for one in view.visitors], "more")
    return "\n".join([*lines, "", _dispatcher(view)])


def render_queue(view: StewardView) -> str:
    """What runs, what waits, and what went wrong lately."""
    running = [agent for agent in view.agents if agent.running is not None]
    # The room answers at once: what waits for it is the very message that asks for this list.
    waiting = [job for job in view.jobs if job.state in ("pending", "failed") and job.agent != STEWARD]
    wrong = [job for job in view.jobs if job.state in ("dead", "skipped")]
    lines: list[str] = []
    for agent in running:
        assert agent.running is not None
        lines.append(
            f"- **{_plain(agent.name)}** has worked on {_message(agent.running.message)} "
            f"for {rough_duration(agent.running.for_s)}"
        )
    lines += _some([_waiting(job) for job in waiting], "more")
    counted = sum(agent.queued for agent in view.agents)
    if not waiting and counted:
        lines += [
            f"- {_count(agent.queued, 'message')} for **{_plain(agent.name)}**"
            for agent in view.agents
            if agent.queued
        ]
    empty = "The queue is empty: nothing runs and nothing waits."
    head = "\n".join(["**Now:**", *lines]) if lines else empty
    if not wrong:
        return head
    return f"{head}\n\n**Not answered:**\n" + "\n".join(_some([_wrong(job) for job in wrong], "more"))


def render_tasks(view: StewardView) -> str:
    """The board, column by column."""
    if not view.tasks:
        return "The board is empty. `/task <title>` puts a task on it."
    columns = []
    for status, title in (("in_progress", "In progress"), ("pending", "Pending"), ("done", "Done")):
        tasks = [task for task in view.tasks if task.status == status]
        if tasks:
            listed = "\n".join(_some([_task(task) for task in tasks], "more"))
            columns.append(f"**{title}** ({len(tasks)})\n{listed}")
    return "\n\n".join(columns)


def render_locks(view: StewardView) -> str:
    """Who holds what, for how long, and who waits."""
    if not view.locks:
        return f"Nobody holds a lock. {command('mcp install')} gives agents the tools that take them."
    return f"**Held now** ({len(view.locks)})\n{_locks(view.locks)}"


def render_locks_at(view: StewardView, path: str, met: Collection[LockIdentity]) -> str:
    """Who holds what meets `path` (`met`), as locks are decided; what only stands near it is told apart."""
    if not view.locks:
        return render_locks(view)
    held = [lock for lock in view.locks if lock.identity in met]
    beside = [lock for lock in view.locks if lock.identity not in met and near(path, lock.path)]
    told = f"**Meets {_path(path)}** ({len(held)})\n{_locks(held)}" if held else f"{_path(path)} is free."
    if beside:
        told += f"\n\n**Near it, but not blocking it** ({len(beside)})\n{_locks(beside)}"
    rest = len(view.locks) - len(held) - len(beside)
    return told + (f"\n\n{_count(rest, 'lock')} elsewhere: `/locks`." if rest else "")


def _locks(locks: Sequence[LockView]) -> str:
    return "\n".join(_some([_lock(lock) for lock in locks], "more; the page shows them all"))


def near(path: str, other: str) -> bool:
    """Do these stand in one folder, or one below the other, or have one name? For a suggestion: not the overlap that
    locks are decided by."""
    one, two = path.strip("/").casefold(), other.strip("/").casefold()
    if one in two or two in one:
        return True
    folder, _, name = one.rpartition("/")
    other_folder, _, other_name = two.rpartition("/")
    return (bool(folder) and folder == other_folder) or name == other_name


def _lock(lock: LockView) -> str:
    shared = ", shared" if lock.shared else ""
    why = f": {_plain(lock.reason)}" if lock.reason else ""
    waits = (
        f"; {_names(lock.waiting)} {'waits' if len(lock.waiting) == 1 else 'wait'}" if lock.waiting else ""
    )
    times = f"for {rough_duration(lock.held_s)}{shared}, {rough_duration(lock.left_s)} left"
    return f"- {_path(lock.path)} **{_plain(lock.holder)}** {times}{why}{waits}"


def _names(names: tuple[str, ...]) -> str:
    shown = [_plain(name) for name in names[:3]]
    return ", ".join([*shown, f"{len(names) - 3} more"] if len(names) > 3 else shown)


def _path(path: str) -> str:
    """A path as code, whatever is in it."""
    line = " ".join(path.split())
    ticks = "`" * (max((len(run) for run in re.findall("`+", line)), default=0) + 1)
    pad = " " if "`" in line else ""
    return f"{ticks}{pad}{line}{pad}{ticks}"


def render_skips(view: StewardView) -> str:
    """Why was there no answer?"""
    wrong = [job for job in view.jobs if job.state in ("skipped", "dead", "failed")]
    blocked = [agent for agent in view.agents if not agent.active or _hindered(agent)]
    lines = _some([_wrong(job) for job in wrong], "more")
    if blocked:
        if lines:
            lines += ["", "**What stands in the way now:**"]
        lines += [f"- **{_plain(agent.name)}** {_condition(agent)}" for agent in blocked]
    if lines:
        return "**Why there was no answer:**\n" + "\n".join(lines)
    if any(agent.running or agent.queued for agent in view.agents):
        return "Nothing was skipped: it waits for its turn.\n\n" + render_queue(view)
    return (
        "I know of no message that was skipped. A message gets an answer when it asks for something: the "
        "dispatcher answers thanks and greetings itself. `@NAME` reaches an agent directly, and "
        "`/route m<number> NAME` sends an earlier message on."
    )


def render_install(view: StewardView) -> str:
    """How each agent that is missing is installed, and how a new one is added."""
    missing = [agent for agent in view.agents if not agent.installed]
    there = [_plain(agent.name) for agent in view.agents if agent.installed]
    lines: list[str] = []
    if missing:
        lines += ["**Configured, but not installed:**", *(_how(agent) for agent in missing), ""]
    if there:
        lines += [f"Installed: {', '.join(there)}.", ""]
    known = {agent.preset for agent in view.agents}
    others = [preset for preset in PROGRAMS if preset not in known]
    if others:
        lines += ["**To add an agent**, install its program and sign in:"]
        for preset in others:
            program = PROGRAMS[preset]
            lines.append(f"- {program.title}: `{program.install}`, then run `{program.sign_in}` to sign in")
        preset = others[0]
        lines += [
            "- a local model: `ollama pull llama3.2`",
            "",
            f'Then add it to `agents` in `{view.config}`: `{{"name": "{preset.upper()}", "kind": "command", '
            f'"preset": "{preset}"}}`, or for a local model '
            '`{"name": "LLAMA", "kind": "ollama", "model": "llama3.2"}`. I notice by myself.',
        ]
    elif not missing:
        lines += [f"For one more, add it to `agents` in `{view.config}`; I notice by myself."]
    return "\n".join(lines).strip()


def render_abilities(view: StewardView) -> str:
    """What the room and its steward are for."""
    active = ", ".join(f"`@{agent.name}`" for agent in view.active)
    who = f"Ready to work: {active}." if active else _nobody(view)
    page = f" The page is at {view.address}." if view.address else ""
    return (
        f"I am {STEWARD}, the steward of this room: not a model, but I know what happens here. Ask me who is "
        "here, what is queued, why there was no answer, or how to install an agent; `/help` lists the "
        "commands.\n\n"
        f"People and coding agents share this room. {who}{page}"
    )


def no_agent_answer(view: StewardView) -> str:
    """For any message while no agent is active: why, in a line, and where the whole stands."""
    agents = view.agents
    groups = (
        ("paused", "`/resume`", [a for a in agents if a.enabled and a.installed and a.paused]),
        ("not installed", "", [a for a in agents if a.enabled and not a.installed]),
        ("switched off", "", [a for a in agents if not a.enabled]),
    )
    lines = [
        f"{_listed(found)} {'is' if len(found) == 1 else 'are'} {what}{f' ({fix})' if fix else ''}"
        for what, fix, found in groups
        if found
    ]
    if not lines:
        return "No agent can answer: none is configured. Ask me how to install one."
    return (
        f"No agent can answer yet: {'; '.join(lines)}. `/who` says what to do, `/help` what works meanwhile."
    )


# -- the parts of them


def _listed(agents: Sequence[AgentView]) -> str:
    *most, last = [_plain(agent.name) for agent in agents]
    return f"{', '.join(most)} and {last}" if most else last


def _nobody(view: StewardView) -> str:
    paused = [agent for agent in view.agents if agent.enabled and agent.installed and agent.paused]
    off = [agent for agent in view.agents if agent.installed and not agent.enabled]
    missing = [agent for agent in view.agents if agent.enabled and not agent.installed]
    lines = []
    if paused:
        names = ", ".join(_plain(agent.name) for agent in paused)
        lines.append(f"- {names}: paused. `/resume` lets {'it' if len(paused) == 1 else 'them'} work again")
    lines += [_how(agent) for agent in missing]
    if off:
        names = ", ".join(_plain(agent.name) for agent in off)
        lines.append(f"- {names}: switched off. Set `enabled` to true in `{view.config}`")
    if lines:
        return "**No agent can answer now.**\n" + "\n".join(lines)
    return f"**No agent can answer: none is configured.**\n\n{render_install(view)}"


def _without_agents(view: StewardView) -> str:
    page = f" (the page: {view.address})" if view.address else ""
    return (
        f"Meanwhile the room works: people can talk{page}, every message is kept and can be searched, the "
        "board takes tasks (`/task <title>`, `/tasks`), and I answer questions about the room. `/help` lists "
        "the commands."
    )


def _otherwise(view: StewardView) -> str:
    names = ", ".join(f"`@{agent.name}`" for agent in view.active)
    return (
        "I only know about the room itself: who is here, what is queued, why there was no answer, how to "
        f"install an agent. For work on the code ask {names}, or write without a mention and the right one "
        "answers. `/help` lists the commands."
    )


def _how(agent: AgentView) -> str:
    return f"- **{_plain(agent.name)}** {_lacking(agent)}"


def _lacking(agent: AgentView) -> str:
    """What an agent that is not installed lacks, and the command that mends it."""
    # A local model's program may well be installed; what it lacks is in the detail.
    what = "is not available" if agent.kind == "ollama" else "is not installed"
    detail = f" ({_told(agent.detail).rstrip('.')})" if agent.detail else ""
    program = PROGRAMS.get(agent.preset)
    fix = agent.fix or (program.install if program else "")
    if not fix:
        return f"{what}{detail}: look at its `cmd` in the configuration"
    then = f", then run `{program.sign_in}` to sign in" if program else ""
    # A fix is a command or, of some kinds, a sentence.
    shown = f"run `{fix}`" if "`" not in fix and not fix.endswith(".") else fix.rstrip(".")
    return f"{what}{detail}: {shown}{then}"


def _visitor(one: VisitorView) -> str:
    kind = f" ({_plain(one.kind)})" if one.kind != "agent" else ""
    holds = f", holds {one.holds}" if one.holds else ""
    return f"- **{_plain(one.name)}**{kind} heard {rough_duration(one.heard_s)} ago{holds}"


def _condition(agent: AgentView) -> str:
    if not agent.installed:
        return _lacking(agent)
    if not agent.enabled:
        return "is switched off in the configuration"
    if agent.paused:
        return f"is paused: `/resume @{agent.name}`"
    hindered = _hindered(agent)
    if hindered:
        return hindered
    waits = f"; {_count(agent.queued, 'message')} waiting" if agent.queued else ""
    if agent.running is not None:
        so_far = rough_duration(agent.running.for_s)
        return f"has worked on {_message(agent.running.message)} for {so_far}{waits}"
    return f"is ready{waits}"


def _hindered(agent: AgentView) -> str:
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
        said = ", ".join(f"{_plain(b.what)} ({_amount(b.used)} of {_amount(b.limit)})" for b in spent)
        return f"has spent its budget: {said}. Raise `budget` in the configuration to go on"
    return ""


def _dispatcher(view: StewardView) -> str:
    model = f" (`{_code(view.dispatcher.model)}`)" if view.dispatcher.model else ""
    detail = f": {_told(view.dispatcher.detail)}" if view.dispatcher.detail else "."
    match view.dispatcher.state:
        case "ok":
            return f"The dispatcher{model} decides who answers a message without a mention."
        case "fallback":
            return f"The dispatcher{model} cannot decide, so all active agents are asked{detail}"
        case "off":
            return "The dispatcher is switched off: all active agents get a message without a mention."
        case _:
            return f"The dispatcher{model} has not decided anything yet."


def _waiting(job: JobView) -> str:
    when = f", tried again in {rough_duration(job.retry_in_s)}" if job.retry_in_s > 0 else ""
    why = f" ({_told(job.reason).rstrip('.')})" if job.reason else ""
    so_far = rough_duration(job.age_s)
    return f"- {_message(job.message)} has waited {so_far} for **{_plain(job.agent)}**{when}{why}"


def _wrong(job: JobView) -> str:
    said = {"dead": "gave up on", "skipped": "was skipped for"}.get(job.state, "failed at")
    why = f": {_told(job.reason).rstrip('.')}" if job.reason else ""
    again = f" in {rough_duration(job.retry_in_s)}" if job.retry_in_s > 0 else ""
    retry = f"it is tried again{again}" if job.state == "failed" else f"`/retry {references.job(job.id)}`"
    return f"- **{_plain(job.agent)}** {said} {_message(job.message)}, {rough_duration(job.age_s)} ago{why} ({retry})"


def _task(task: TaskView) -> str:
    extra = [f"**{_plain(task.badge)}**"] if task.badge else []
    extra += [_plain(task.assignee)] if task.assignee else []
    if task.attempts and task.attempt > 1 and task.status != "done":
        extra.append(f"attempt {task.attempt} of {task.attempts}")
    why = ""
    if task.badge == "blocked" and task.waits_for:
        why = f": waits for {', '.join(references.task(number) for number in task.waits_for)}"
    elif task.badge and task.why:
        why = f": {_told(task.why)}"
    return f"- {references.task(task.number)} {_plain(task.title)}" + (
        f" ({', '.join(extra)}{why})" if extra else ""
    )


def _some(lines: list[str], rest: str) -> list[str]:
    if len(lines) <= _SHOWN:
        return lines
    return [*lines[:_SHOWN], f"- and {len(lines) - _SHOWN} {rest}"]


def _message(number: int) -> str:
    return references.message(number) if number else "a message"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _amount(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:,.2f}"


def _plain(text: str) -> str:
    """Text of others as markdown that shows it: one line, and nothing in it is markup."""
    return _escaped(_line(text))


def _line(text: str) -> str:
    line = flat(text)
    return line if len(line) <= 240 else line[:239] + "…"


def _escaped(line: str) -> str:
    escaped = re.sub(r"([\\`*\[\]<>~|])", r"\\\1", line)
    return re.sub(r"(?<!\w)_|_(?!\w)", r"\\_", escaped)


def _told(text: str) -> str:
    """A sentence of the room's own: as `_plain`, but what it marks as code is shown as code."""
    parts = re.split(r"(`[^`]+`)", _line(text))
    return "".join(part if at % 2 else _escaped(part) for at, part in enumerate(parts))


def _code(text: str) -> str:
    return flat(text.replace("`", "'"))


# What a question is about: the first of these whose words occur in it, lower case and without punctuation.
_TOPICS: tuple[tuple[re.Pattern[str], Callable[[StewardView], str]], ...] = (
    (
        re.compile(
            r"\bskipp|\bignored\b|\bwhy\b.*\b(quiet|silent|nothing|slow)\b"
            r"|\b(no|not|never|without|didnt|doesnt|dont|isnt|wasnt|nobody|no one|noone)\b.{0,30}"
            r"\b(answer|repl|respon|react)"
        ),
        render_skips,
    ),
    (
        re.compile(
            r"\binstall|\bset ?up\b|\bsign(ing)? in\b|\bnot found\b"
            r"|\b(add|connect|configure|get|enable)\b.{0,20}\b(agents?|claude|codex|gemini|model)\b"
        ),
        render_install,
    ),
    (
        re.compile(
            r"\bwhat (can|do|could|are) (you|this)\b|\bwhat is (this|relay)\b|\bwhats this\b|\bwho are you\b"
            r"|\babilit|\bcapab|\bintroduce\b"
        ),
        render_abilities,
    ),
    (re.compile(r"\btasks?\b|\bboard\b|\bto-?dos?\b"), render_tasks),
    (re.compile(r"\block(s|ed)?\b|\bwho holds\b"), render_locks),
    (
        re.compile(
            r"\bqueue|\bwaiting\b|\bstatus\b|\brunning\b|\bbusy\b|\bpending\b|\bprogress\b|\bworking on\b"
            r"|\bgoing on\b|\bwhats (up|happening)\b|\bwhat is happening\b"
        ),
        render_queue,
    ),
    (
        re.compile(
            r"^who$|\banyone (here|there)\b|\bwhich agents\b|\blist\b.*\bagents\b"
            r"|\bagents\b.*\b(there|have|available)\b"
            r"|\bwho(s| is| are| else)?\b.*\b(here|there|in|online|around|connected|room|agents?|people)\b"
        ),
        render_who,
    ),
    (
        re.compile(r"\bhelp\b|\bcommands?\b|\bhow (do|can|to|does)\b|\bmanual\b|\busage\b"),
        lambda _view: render_help(),
    ),
)
