"""What the steward, RELAY, answers from what the room knows, without a model.

Invariant: an answer says only what the view says, and every trouble in it comes with what to do about it.

Pure. `answer` picks one of the renderings by the words of the question; the commands use the renderings
directly.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence

from relay.base.durations import rough_duration
from relay.config.command_line import command
from relay.model import STEWARD
from relay.model.names import listed
from relay.room.parsing.commands import COMMANDS, find
from relay.room.parsing.markdown import prose
from relay.room.steward import markdown
from relay.room.steward.view import AgentView, LockIdentity, LockView, StewardView


def answer(body: str, view: StewardView) -> str:
    """The steward's answer to `body`, as markdown. While no agent is active every answer says so: in full where the
    question is about agents or the room, else in a line."""
    render = _topic(body)
    if render is None:
        return _otherwise(view) if view.active else no_agent_answer(view)
    text = render(view)
    if view.active:
        return text
    # Some renderings say already what each agent lacks.
    says_so = render in (render_install, render_abilities) or (
        view.agents and render in (render_who, render_skips)
    )
    return f"{text}\n\n{_without_agents(view) if says_so else no_agent_answer(view)}"


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
    people = ", ".join(markdown.plain(name) for name in view.people) if view.people else "nobody is connected"
    lines = [f"**People:** {people}", ""]
    if not view.agents:
        lines += ["**Agents:** none is configured. Ask me how to install one."]
    else:
        lines += ["**Agents:**"]
        lines += [f"- **{markdown.plain(agent.name)}** {markdown.condition(agent)}" for agent in view.agents]
    lines += [f"- **{STEWARD}** always here, for questions about the room"]
    if view.visitors:
        lines += ["", "**Connected on their own** (the room does not start them):"]
        lines += markdown.first_lines([markdown.visitor(visitor) for visitor in view.visitors], "more")
    return "\n".join([*lines, "", markdown.dispatcher(view)])


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
            f"- **{markdown.plain(agent.name)}** has worked on {markdown.message(agent.running.message)} "
            f"for {rough_duration(agent.running.for_s)}{f': {markdown.absent(agent)}' if agent.absence else ''}"
        )
    by_name = {agent.name: agent for agent in view.agents}
    lines += markdown.first_lines(
        [markdown.waiting_job(job, by_name.get(job.agent)) for job in waiting], "more"
    )
    counted = sum(agent.queued for agent in view.agents)
    if not waiting and counted:
        lines += [
            f"- {markdown.count(agent.queued, 'message')} for **{markdown.plain(agent.name)}**"
            for agent in view.agents
            if agent.queued
        ]
    empty = "The queue is empty: nothing runs and nothing waits."
    head = "\n".join(["**Now:**", *lines]) if lines else empty
    if not wrong:
        return head
    unanswered = markdown.first_lines([markdown.unanswered_job(job) for job in wrong], "more")
    return f"{head}\n\n**Not answered:**\n" + "\n".join(unanswered)


def render_tasks(view: StewardView) -> str:
    """The board, column by column."""
    if not view.tasks:
        return "The board is empty. `/task <title>` puts a task on it."
    columns = []
    for status, title in (("in_progress", "In progress"), ("pending", "Pending"), ("done", "Done")):
        tasks = [task for task in view.tasks if task.status == status]
        if tasks:
            listed = "\n".join(markdown.first_lines([markdown.task(task) for task in tasks], "more"))
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
    shown = markdown.path(path)
    text = f"**Meets {shown}** ({len(held)})\n{_locks(held)}" if held else f"{shown} is free."
    if beside:
        text += f"\n\n**Near it, but not blocking it** ({len(beside)})\n{_locks(beside)}"
    rest = len(view.locks) - len(held) - len(beside)
    return text + (f"\n\n{markdown.count(rest, 'lock')} elsewhere: `/locks`." if rest else "")


def _locks(locks: Sequence[LockView]) -> str:
    return "\n".join(
        markdown.first_lines([markdown.lock(lock) for lock in locks], "more; the page shows them all")
    )


def near(path: str, other: str) -> bool:
    """Are these in one folder, or one below the other, or of one name? For a suggestion only: it is not the overlap
    that locks are decided by."""
    path, other = path.strip("/").casefold(), other.strip("/").casefold()
    if path in other or other in path:
        return True
    folder, _, name = path.rpartition("/")
    other_folder, _, other_name = other.rpartition("/")
    return (bool(folder) and folder == other_folder) or name == other_name


def render_skips(view: StewardView) -> str:
    """Why was there no answer?"""
    wrong = [job for job in view.jobs if job.state in ("skipped", "dead", "failed")]
    blocked = [agent for agent in view.agents if not agent.active or markdown.hindrance(agent)]
    lines = markdown.first_lines([markdown.unanswered_job(job) for job in wrong], "more")
    if blocked:
        if lines:
            lines += ["", "**What stands in the way now:**"]
        lines += [f"- **{markdown.plain(agent.name)}** {markdown.condition(agent)}" for agent in blocked]
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
    missing = [agent for agent in view.agents if not agent.installed and not agent.broken]
    there = [markdown.plain(agent.name) for agent in view.agents if agent.installed]
    lines: list[str] = []
    if missing:
        lines += [
            "**Configured, but not installed:**",
            *(markdown.how_to_install(agent) for agent in missing),
            "",
        ]
    if there:
        lines += [f"Installed: {', '.join(there)}.", ""]
    known = {agent.preset for agent in view.agents}
    others = [preset for preset in view.programs if preset not in known]
    if others:
        lines += ["**To add an agent**, install its program and sign in:"]
        for preset in others:
            program = view.programs[preset]
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
    here = [a for a in agents if not a.absence]
    groups = (
        ("paused", "`/resume`", [a for a in here if a.enabled and a.installed and a.paused]),
        ("not installed", "", [a for a in here if a.enabled and not a.installed and not a.broken]),
        ("broken", "", [a for a in here if a.enabled and a.broken]),
        ("switched off", "", [a for a in here if not a.enabled]),
        ("away with the machine where it lives", "", [a for a in agents if a.absence]),
    )
    lines = [
        f"{_listed(group)} {'is' if len(group) == 1 else 'are'} {what}{f' ({fix})' if fix else ''}"
        for what, fix, group in groups
        if group
    ]
    if not lines:
        return "No agent can answer: none is configured. Ask me how to install one."
    return (
        f"No agent can answer yet: {'; '.join(lines)}. `/who` says what to do, `/help` what works meanwhile."
    )


# -- the parts of them


def _listed(agents: Sequence[AgentView]) -> str:
    return listed([markdown.plain(agent.name) for agent in agents])


def _nobody(view: StewardView) -> str:
    here = [agent for agent in view.agents if not agent.absence]
    paused = [agent for agent in here if agent.enabled and agent.installed and agent.paused]
    off = [agent for agent in here if agent.installed and not agent.enabled]
    missing = [agent for agent in here if agent.enabled and not agent.installed]
    lines = [f"- {markdown.plain(a.name)} {markdown.condition(a)}" for a in view.agents if a.absence]
    if paused:
        names = ", ".join(markdown.plain(agent.name) for agent in paused)
        lines.append(f"- {names}: paused. `/resume` lets {'it' if len(paused) == 1 else 'them'} work again")
    lines += [markdown.how_to_install(agent) for agent in missing]
    if off:
        names = ", ".join(markdown.plain(agent.name) for agent in off)
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
