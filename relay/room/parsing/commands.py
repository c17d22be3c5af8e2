"""What a person can order the room to do.

Invariant: `COMMANDS` is the only list of commands; the parsers, the help, the completion and the suggestions
all come from it. A body that looks like a command is either understood or answered with what would be: it is
never passed on in silence.

A body is a command when its first word is a slash and letters: `/tasks`. Not one, but a message like any
other: a path (`/usr/bin/x is broken`), a pattern (`/a/b/`), a number (`/2 of it`), and `//text`, which is how
a message that should start with a slash is written.

Tolerant where people are: upper and lower case, `/who?`, `t3`, `#3` or `3`, `@CLAUDE` or `claude`, commas between
names, and for a status the words in `STATUS_WORDS`.

Pure.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from io import StringIO

from relay.model import references
from relay.model.references import Thing

MAX_TITLE = 200
#: Characters of a reason that people read in one glance.
MAX_REASON = 300


class Status(StrEnum):
    """The board's columns."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class AddTask:
    title: str


@dataclass(frozen=True, slots=True)
class MoveTask:
    """`task` is the room number of a task."""

    task: int
    status: Status


@dataclass(frozen=True, slots=True)
class MoveAll:
    """Active tasks only."""

    status: Status


@dataclass(frozen=True, slots=True)
class ClearAll:
    pass


@dataclass(frozen=True, slots=True)
class Undo:
    pass


@dataclass(frozen=True, slots=True)
class ShowTasks:
    pass


@dataclass(frozen=True, slots=True)
class ShowHelp:
    """`command` is a known one, with its slash, or None for all."""

    command: str | None = None


@dataclass(frozen=True, slots=True)
class ShowWho:
    pass


@dataclass(frozen=True, slots=True)
class ShowQueue:
    pass


@dataclass(frozen=True, slots=True)
class Route:
    """`message` is a room number; `agents` are spelled as configured, at least one, each once."""

    message: int
    agents: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Retry:
    """`of` is "job" or "message" when the person said which, else "any": look for a message first, since
    those are the numbers that people see."""

    number: int
    of: str = "any"


@dataclass(frozen=True, slots=True)
class Cancel:
    """End the running turns of these agents (`@all`: of every agent)."""

    agents: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Pause:
    """`agents` is every agent when none was named."""

    agents: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Resume:
    """`agents` is every agent when none was named."""

    agents: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TryNow:
    """Make the one attempt of these agents' open circuits now."""

    agents: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Continue:
    """Lift the hop limit of the conversation among agents."""


@dataclass(frozen=True, slots=True)
class ShowAirspace:
    pass


@dataclass(frozen=True, slots=True)
class DeclareIntent:
    """What an agent is about to touch; no paths = nothing any more."""

    agent: str
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GoFirst:
    """This agent goes first where its work collides with another's."""

    agent: str


@dataclass(frozen=True, slots=True)
class Stop:
    """End the running turns of these agents, take back what waits, and start no new ones."""

    agents: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TakeMain:
    """Ask these agents to take the main branch into their own."""

    agents: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Permit:
    """Answer what an agent asks for. `request`: its number or id; `option`: its id, name or place, None = the first
    that fits `allow`."""

    request: str
    option: str | None
    allow: bool


@dataclass(frozen=True, slots=True)
class ShowLocks:
    """What is held; `path`: only what stands near it, None = all."""

    path: str | None = None


@dataclass(frozen=True, slots=True)
class ForceRelease:
    """Take the locks of `path` (a path, a pattern or a key) from whoever holds them."""

    path: str
    reason: str


Command = (
    AddTask
    | MoveTask
    | MoveAll
    | ClearAll
    | Undo
    | ShowTasks
    | ShowHelp
    | ShowWho
    | ShowQueue
    | Route
    | Retry
    | Cancel
    | Pause
    | Resume
    | TryNow
    | Continue
    | ShowAirspace
    | DeclareIntent
    | GoFirst
    | Stop
    | TakeMain
    | Permit
    | ShowLocks
    | ForceRelease
)


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a command was not understood: `text` is markdown for the room and says what would be."""

    command: str
    text: str


class _WrongArguments(Exception):
    """Its message is one sentence that says what is wrong."""


@dataclass(frozen=True, slots=True)
class Spec:
    """One command. `parse` takes the rest of the body and the names of the agents; it raises when the
    arguments are wrong."""

    name: str
    usage: str
    help: str
    example: str
    parse: Callable[[str, Sequence[str]], Command]


# What stands for a status. People say "doing"; the log says in_progress.
STATUS_WORDS: dict[str, Status] = {
    **dict.fromkeys(("pending", "todo", "to do", "open", "backlog", "waiting"), Status.PENDING),
    **dict.fromkeys(
        ("in progress", "inprogress", "progress", "doing", "started", "wip", "active", "working"),
        Status.IN_PROGRESS,
    ),
    **dict.fromkeys(("done", "complete", "completed", "finished", "closed"), Status.DONE),
}


def _status(text: str) -> Status:
    words = " ".join(re.split(r"[\s_-]+", text.strip().strip(".!`\"'").lower()))
    if not words:
        raise _WrongArguments("The status is missing.")
    if words in STATUS_WORDS:
        return STATUS_WORDS[words]
    near = get_close_matches(words, STATUS_WORDS, n=1)
    guess = f" Did you mean `{STATUS_WORDS[near[0]]}`?" if near else ""
    raise _WrongArguments(f"`{_shown(words)}` is not a status: `pending`, `in_progress` or `done`.{guess}")


def _number(text: str, thing: Thing) -> int:
    """The number of the thing that is wanted here, with its letter or without one."""
    what = thing.name.lower()
    named = references.read(text.strip(".,:"), thing)
    if named is None or named[0] is not thing:
        found = f", not `{_shown(text)}`" if text else ""
        if named is not None:
            found += f", which is {references.NAMES[named[0]]}"
        raise _WrongArguments(
            f"The number of the {what} is needed, like `{references.ref(thing, 12)}`{found}."
        )
    if named[1] == 0:
        raise _WrongArguments(f"The numbers of a {what} start at 1.")
    return named[1]


def _agents(text: str, agents: Sequence[str]) -> tuple[str, ...]:
    """Names with or without @, between blanks or commas; "and" is allowed between them."""
    known = {name.casefold(): name for name in agents}
    chosen: dict[str, None] = {}
    for word in re.split(r"[\s,]+", text.strip()):
        name = word.removeprefix("@").rstrip(".!;:")
        folded = name.casefold()
        if not name or (folded in ("and", "&", "+") and folded not in known):
            continue
        if folded in known:
            chosen[known[folded]] = None
        elif folded in ("all", "everyone"):
            chosen.update(dict.fromkeys(agents))
        else:
            near = get_close_matches(folded, known, n=1)
            guess = f" Did you mean `@{known[near[0]]}`?" if near else ""
            there = ", ".join(f"`@{agent}`" for agent in agents) or "none yet"
            raise _WrongArguments(f"There is no agent `{_shown(name)}`; the agents are {there}.{guess}")
    return tuple(chosen)


def _add_task(rest: str, _agents: Sequence[str]) -> Command:
    title = " ".join(rest.split())
    if not title:
        raise _WrongArguments("The title is missing.")
    if len(title) > MAX_TITLE:
        raise _WrongArguments(f"The title has {len(title)} characters; at most {MAX_TITLE} fit on the board.")
    return AddTask(title)


def _move_task(rest: str, _agents: Sequence[str]) -> Command:
    number, _, status = " ".join(rest.split()).replace("# ", "#").partition(" ")
    return MoveTask(_number(number, Thing.TASK), _status(re.sub(r"^(?:to|->|→) +", "", status)))


def _move_all(rest: str, _agents: Sequence[str]) -> Command:
    return MoveAll(_status(re.sub(r"^(?:to|->|→) +", "", " ".join(rest.split()))))


def _show_help(rest: str, _agents: Sequence[str]) -> Command:
    word = rest.strip().rstrip("?.!").lower()
    if not word:
        return ShowHelp()
    name = "/" + word.lstrip("/")
    if name not in _BY_NAME:
        raise _WrongArguments(f"There is no command `{_shown(name)}`.{_guess(name)}")
    return ShowHelp(name)


def _route(rest: str, agents: Sequence[str]) -> Command:
    number, _, names = " ".join(rest.split()).replace("# ", "#").partition(" ")
    message = _number(number, Thing.MESSAGE)
    chosen = _agents(re.sub(r"^(?:to|->|→) +", "", names), agents)
    if not chosen:
        raise _WrongArguments("Say which agents it goes to.")
    return Route(message, chosen)


def _retry(rest: str, _agents: Sequence[str]) -> Command:
    words = rest.lower().replace("# ", "#").split()
    of = words.pop(0) if words and words[0] in ("job", "message") else "any"
    if len(words) > 1:
        raise _WrongArguments("One number at a time.")
    word = words[0] if words else ""
    named = references.read(word.strip(".,:"))
    if of == "any" and named is not None and not word.startswith("#") and not word[:1].isdigit():
        of = named[0].name.lower()
    if of not in ("any", "job", "message") or (of == "any" and named is None):
        found = f", not `{_shown(word)}`" if word else ""
        raise _WrongArguments(f"The number of the job or message is needed, like `j7` or `m12`{found}.")
    return Retry(_number(word, Thing.JOB if of == "job" else Thing.MESSAGE), of)


def _cancel(rest: str, agents: Sequence[str]) -> Command:
    chosen = _agents(rest, agents)
    if not chosen:
        raise _WrongArguments("Say whose turn to end.")
    return Cancel(chosen)


def _go_first(rest: str, agents: Sequence[str]) -> Command:
    chosen = _agents(rest, agents)
    if len(chosen) != 1:
        raise _WrongArguments("Say which agent goes first: one.")
    return GoFirst(chosen[0])


def _stop(rest: str, agents: Sequence[str]) -> Command:
    chosen = _agents(rest, agents)
    if not chosen:
        raise _WrongArguments("Say which agent to stop.")
    return Stop(chosen)


def _take_main(rest: str, agents: Sequence[str]) -> Command:
    chosen = _agents(rest, agents)
    if not chosen:
        raise _WrongArguments("Say which agent should merge the main branch.")
    return TakeMain(chosen)


def _pause(rest: str, agents: Sequence[str]) -> Command:
    return Pause(_agents(rest, agents) or tuple(agents))


def _resume(rest: str, agents: Sequence[str]) -> Command:
    return Resume(_agents(rest, agents) or tuple(agents))


def _try_now(rest: str, agents: Sequence[str]) -> Command:
    chosen = _agents(rest, agents)
    if not chosen:
        raise _WrongArguments("Say which agent to try.")
    return TryNow(chosen)


def _intent(rest: str, agents: Sequence[str]) -> Command:
    try:
        words = shlex.split(rest.replace("\n", " "))  # a path with blanks stands in quotes
    except ValueError:
        raise _WrongArguments("A quotation mark is not closed.") from None
    chosen = _agents(words[0], agents) if words else ()
    if len(chosen) != 1:
        raise _WrongArguments("Say which agent it is about, one at a time.")
    paths = [path for word in words[1:] if (path := word.strip(","))]
    if not paths:
        raise _WrongArguments("Say which files it will touch, or `-` for none.")
    return DeclareIntent(chosen[0], () if paths == ["-"] else tuple(dict.fromkeys(paths)))


def _first_word(text: str) -> tuple[str, str]:
    """The first word, which may stand in quotes, and the rest as it is: a reason has apostrophes."""
    stream = StringIO(text)
    words = shlex.shlex(stream, posix=True)
    words.whitespace_split, words.commenters, words.escape = True, "", ""
    try:
        word = words.get_token() or ""
    except ValueError:
        raise _WrongArguments("A quotation mark is not closed.") from None
    return word, stream.read().strip()


def _show_locks(rest: str, _agents: Sequence[str]) -> Command:
    path, more = _first_word(rest)
    if more:
        raise _WrongArguments("One path at a time; put it in quotes if it has spaces.")
    return ShowLocks(path or None)


def _force_release(rest: str, _agents: Sequence[str]) -> Command:
    path, reason = _first_word(rest)
    if not path:
        raise _WrongArguments("Say which path to unlock.")
    reason = " ".join(reason.split())
    if not reason:
        raise _WrongArguments("Say why: its holder is told.")
    if len(reason) > MAX_REASON:
        raise _WrongArguments(f"The reason has {len(reason)} characters; the limit is {MAX_REASON}.")
    return ForceRelease(path, reason)


def _permit(allow: bool) -> Callable[[str, Sequence[str]], Command]:
    def parse(rest: str, _agents: Sequence[str]) -> Command:
        request, _, option = " ".join(rest.split()).replace("# ", "#").partition(" ")
        # Its number, or the id that the page sends: four hexadecimal digits and the number.
        if re.fullmatch(r"[0-9a-f]{4}-[0-9]{1,9}", request):
            return Permit(request, option.strip() or None, allow)
        return Permit(str(_number(request, Thing.REQUEST)), option.strip() or None, allow)

    return parse


def _bare(command: Command) -> Callable[[str, Sequence[str]], Command]:
    """A command without arguments. What follows it is refused: `/clearall done` may have meant less."""

    def parse(rest: str, _agents: Sequence[str]) -> Command:
        if rest.strip().strip(".!?"):
            raise _WrongArguments("This command takes no arguments.")
        return command

    return parse


COMMANDS: tuple[Spec, ...] = (
    Spec("/task", "/task <title>", "put a new task on the board", "/task Fix the login page", _add_task),
    Spec(
        "/move",
        "/move t<number> <pending|in_progress|done>",
        "move a task to another column",
        "/move t3 in_progress",
        _move_task,
    ),
    Spec(
        "/moveall",
        "/moveall <pending|in_progress|done>",
        "move every active task; finished ones stay",
        "/moveall done",
        _move_all,
    ),
    Spec("/clearall", "/clearall", "take every task off the board", "/clearall", _bare(ClearAll())),
    Spec("/undo", "/undo", "take back the last change of the board", "/undo", _bare(Undo())),
    Spec(
        "/tasks",
        "/tasks",
        "show the board, with what is blocked or failed and why",
        "/tasks",
        _bare(ShowTasks()),
    ),
    Spec("/locks", "/locks [path]", "show who holds which files, and who waits", "/locks", _show_locks),
    Spec(
        "/unlock",
        "/unlock <path> <reason>",
        "take a lock from its holder, who is told why (put a path with spaces in quotes)",
        "/unlock src/app.py I take it over",
        _force_release,
    ),
    Spec("/help", "/help [command]", "explain the commands, or one of them", "/help move", _show_help),
    Spec("/who", "/who", "show who is here and how the agents are", "/who", _bare(ShowWho())),
    Spec("/queue", "/queue", "show what waits, what runs and what went wrong", "/queue", _bare(ShowQueue())),
    Spec(
        "/route",
        "/route m<number> AGENT...",
        "send a message to these agents, whoever was asked before",
        "/route m12 CLAUDE CODEX",
        _route,
    ),
    Spec(
        "/retry",
        "/retry <m or j><number>",
        "try again what failed: for a message, or one job",
        "/retry m12",
        _retry,
    ),
    Spec("/cancel", "/cancel @AGENT", "end the agent's running turn", "/cancel @CLAUDE", _cancel),
    Spec(
        "/stop",
        "/stop @AGENT",
        "end the agent's turn, cancel what waits for it, and start no new one (`/resume` lets it go on)",
        "/stop @CODEX",
        _stop,
    ),
    Spec(
        "/pause", "/pause [@AGENT]", "start no new turns (of one agent, or of all)", "/pause @CODEX", _pause
    ),
    Spec("/resume", "/resume [@AGENT]", "start turns again after a pause", "/resume", _resume),
    Spec(
        "/try",
        "/try @AGENT",
        "give an agent that failed too often one attempt now; if it succeeds, it gets work again",
        "/try @CLAUDE",
        _try_now,
    ),
    Spec(
        "/continue",
        "/continue",
        "let agents that ask each other go on past the limit",
        "/continue",
        _bare(Continue()),
    ),
    Spec("/airspace", "/airspace", "show who is near whom in the code", "/airspace", _bare(ShowAirspace())),
    Spec(
        "/first",
        "/first @AGENT",
        "say which agent goes first where two collide; the others give way",
        "/first @CLAUDE",
        _go_first,
    ),
    Spec(
        "/update",
        "/update @AGENT",
        "ask an agent to merge the main branch into its own",
        "/update @CODEX",
        _take_main,
    ),
    Spec(
        "/intent",
        "/intent @AGENT <path>...",
        "say which files an agent will touch next (`-`: none)",
        "/intent @CODEX src/auth/session.py",
        _intent,
    ),
    Spec(
        "/allow",
        "/allow p<number> [option]",
        "allow what an agent asks for (an option by its place or name; else this once)",
        "/allow p3",
        _permit(True),
    ),
    Spec("/deny", "/deny p<number>", "refuse what an agent asks for", "/deny p3", _permit(False)),
)
_BY_NAME = {spec.name: spec for spec in COMMANDS}
_WORD = re.compile(r"/([^\W\d_][\w-]*|\?)[?!.,:;]*(?=\s|$)")


def parse(body: str, agents: Iterable[str] = ()) -> Command | Problem | None:
    """The command in `body`, or what is wrong with it, or None when it is a message and no command.

    `agents` are the names of the configured agents; those in a command come back spelled like them.
    """
    text = body.lstrip()
    if text.rstrip() == "/":
        return Problem("/", "There is nothing after the slash. `/help` lists the commands.")
    word = _WORD.match(text)
    if word is None:
        return None
    name = "/help" if word[1] == "?" else f"/{word[1].lower()}"
    spec = _BY_NAME.get(name)
    if spec is None:
        return Problem(
            name,
            f"There is no command `{_shown(name)}`.{_guess(name)} `/help` lists them all; "
            "a message that starts with a slash is written with two: `//`.",
        )
    try:
        return spec.parse(text[word.end() :], tuple(agents))
    except _WrongArguments as wrong:
        shown = f", for example `{spec.example}`" if spec.example != spec.usage else ""
        return Problem(name, f"{wrong} Usage: `{spec.usage}`{shown}.")


def completions() -> list[dict[str, str]]:
    """What the doors offer while a person types: `[{"name", "usage", "help"}]`."""
    return [{"name": spec.name, "usage": spec.usage, "help": spec.help} for spec in COMMANDS]


def find(name: str) -> Spec | None:
    """The command of that name, with or without its slash."""
    return _BY_NAME.get("/" + name.lower().lstrip("/"))


def _guess(name: str) -> str:
    near = get_close_matches(name[:40], _BY_NAME, n=1, cutoff=0.6)
    return f" Did you mean `{near[0]}`?" if near else ""


def _shown(text: str) -> str:
    """A person's own word back in a code span: short, on one line, and with nothing that ends the span."""
    line = " ".join(text.replace("`", "'").split())
    return line if len(line) <= 40 else line[:39] + "…"
