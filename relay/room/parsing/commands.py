"""The commands of the room: from what a person types to an action.

Invariant: `COMMANDS` is the only list of commands; the parsers, the help, the completion and the suggestions
all come from it. A body that looks like a command is either understood or answered with what would be: it is
never passed on in silence.

A body is a command when its first word is a slash and letters: `/tasks`. A path (`/usr/bin/x is broken`), a pattern
(`/a/b/`), a number (`/2 of it`) and `//text` are messages; the last is how a message that should start with a slash
is written.

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
from io import StringIO

from relay.model import actions, references
from relay.model.actions import Action, Status
from relay.model.references import Thing

#: Characters of a reason that people read in one glance.
MAX_REASON = 300


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a command was not understood. `text` is markdown for the room; it says what would be right."""

    command: str
    text: str


class _WrongArguments(Exception):
    """The message is one sentence that says what is wrong."""


@dataclass(frozen=True, slots=True)
class Command:
    """One command. `parse` takes the rest of the body and the names of the agents; it raises _WrongArguments."""

    usage: str
    help: str
    example: str
    parse: Callable[[str, Sequence[str]], Action]

    @property
    def name(self) -> str:
        """The command's word, with its slash."""
        return self.usage.split()[0]


#: The words that people use for a status: "doing" is in_progress in the log.
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
    """The number of a `thing`, written with or without its letter."""
    name = thing.name.lower()
    reference = references.read(text.strip(".,:"), thing)
    if reference is None or reference[0] is not thing:
        given = f", not `{_shown(text)}`" if text else ""
        if reference is not None:
            given += f", which is {references.NAMES[reference[0]]}"
        raise _WrongArguments(
            f"The number of the {name} is needed, like `{references.ref(thing, 12)}`{given}."
        )
    if reference[1] == 0:
        raise _WrongArguments(f"The numbers of a {name} start at 1.")
    return reference[1]


def _agents(text: str, agents: Sequence[str]) -> tuple[str, ...]:
    """The agents that the text names, with or without @, separated by blanks, commas or "and"."""
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
            names = ", ".join(f"`@{agent}`" for agent in agents) or "none yet"
            raise _WrongArguments(f"There is no agent `{_shown(name)}`; the agents are {names}.{guess}")
    return tuple(chosen)


def _add_task(rest: str, _agents: Sequence[str]) -> Action:
    title = " ".join(rest.split())
    if not title:
        raise _WrongArguments("The title is missing.")
    return actions.AddTask(title)


def _move_task(rest: str, _agents: Sequence[str]) -> Action:
    number, _, status = " ".join(rest.split()).replace("# ", "#").partition(" ")
    return actions.MoveTask(_number(number, Thing.TASK), _status(re.sub(r"^(?:to|->|→) +", "", status)))


def _move_all(rest: str, _agents: Sequence[str]) -> Action:
    return actions.MoveAll(_status(re.sub(r"^(?:to|->|→) +", "", " ".join(rest.split()))))


def _show_help(rest: str, _agents: Sequence[str]) -> Action:
    word = rest.strip().rstrip("?.!").lower()
    if not word:
        return actions.ShowHelp()
    name = "/" + word.lstrip("/")
    if name not in _BY_NAME:
        raise _WrongArguments(f"There is no command `{_shown(name)}`.{_guess(name)}")
    return actions.ShowHelp(name)


def _route(rest: str, agents: Sequence[str]) -> Action:
    number, _, names = " ".join(rest.split()).replace("# ", "#").partition(" ")
    message = _number(number, Thing.MESSAGE)
    chosen = _agents(re.sub(r"^(?:to|->|→) +", "", names), agents)
    if not chosen:
        raise _WrongArguments("Say which agents it goes to.")
    return actions.Route(chosen, message)


def _retry(rest: str, _agents: Sequence[str]) -> Action:
    words = rest.lower().replace("# ", "#").split()
    of = words.pop(0) if words and words[0] in ("job", "message") else "any"
    if len(words) > 1:
        raise _WrongArguments("One number at a time.")
    word = words[0] if words else ""
    reference = references.read(word.strip(".,:"))
    if of == "any" and reference is not None and not word.startswith("#") and not word[:1].isdigit():
        of = reference[0].name.lower()
    if of not in ("any", "job", "message") or (of == "any" and reference is None):
        given = f", not `{_shown(word)}`" if word else ""
        raise _WrongArguments(f"The number of the job or message is needed, like `j7` or `m12`{given}.")
    return actions.Retry(_number(word, Thing.JOB if of == "job" else Thing.MESSAGE), of)


def _go_first(rest: str, agents: Sequence[str]) -> Action:
    chosen = _agents(rest, agents)
    if len(chosen) != 1:
        raise _WrongArguments("Say which agent goes first: one.")
    return actions.GoFirst(chosen[0])


def _of_agents(
    action: Callable[[tuple[str, ...]], Action], missing: str = ""
) -> Callable[[str, Sequence[str]], Action]:
    """A command that takes agents. `missing`: the error when none is named; empty = naming none is allowed."""

    def parse(rest: str, agents: Sequence[str]) -> Action:
        chosen = _agents(rest, agents)
        if not chosen and missing:
            raise _WrongArguments(missing)
        return action(chosen)

    return parse


def intent_paths(words: Sequence[str]) -> tuple[str, ...] | None:
    """The paths that these words declare, without commas around them; `-` alone declares none. None = no word is
    left."""
    one_line = (word.encode(errors="replace").decode().replace("\n", " ") for word in words)
    paths = [path for word in one_line if (path := word.strip(","))]
    if not paths:
        return None
    return () if paths == ["-"] else tuple(dict.fromkeys(paths))


def _intent(rest: str, agents: Sequence[str]) -> Action:
    try:
        words = shlex.split(rest.replace("\n", " "))  # a path with blanks is quoted
    except ValueError:
        raise _WrongArguments("A quotation mark is not closed.") from None
    chosen = _agents(words[0], agents) if words else ()
    if len(chosen) != 1:
        raise _WrongArguments("Say which agent it is about, one at a time.")
    paths = intent_paths(words[1:])
    if paths is None:
        raise _WrongArguments("Say which files it will touch, or `-` for none.")
    return actions.DeclareIntent(chosen[0], paths)


def _first_word(text: str) -> tuple[str, str]:
    """The first word, which may be quoted, and the rest unparsed: a reason may have apostrophes."""
    stream = StringIO(text)
    words = shlex.shlex(stream, posix=True)
    words.whitespace_split, words.commenters, words.escape = True, "", ""
    try:
        word = words.get_token() or ""
    except ValueError:
        raise _WrongArguments("A quotation mark is not closed.") from None
    return word, stream.read().strip()


def _show_locks(rest: str, _agents: Sequence[str]) -> Action:
    path, more = _first_word(rest)
    if more:
        raise _WrongArguments("One path at a time; put it in quotes if it has spaces.")
    return actions.ShowLocks(path or None)


def _force_release(rest: str, _agents: Sequence[str]) -> Action:
    path, reason = _first_word(rest)
    if not path:
        raise _WrongArguments("Say which path to unlock.")
    reason = " ".join(reason.split())
    if not reason:
        raise _WrongArguments("Say why: its holder is told.")
    if len(reason) > MAX_REASON:
        raise _WrongArguments(f"The reason has {len(reason)} characters; the limit is {MAX_REASON}.")
    return actions.ForceRelease(path, reason)


def _permit(allow: bool) -> Callable[[str, Sequence[str]], Action]:
    def parse(rest: str, _agents: Sequence[str]) -> Action:
        request, _, option = " ".join(rest.split()).replace("# ", "#").partition(" ")
        # A number, or an id as an interface writes it: four hexadecimal digits and the number.
        if re.fullmatch(r"[0-9a-f]{4}-[0-9]{1,9}", request):
            return actions.Permit(request, option.strip() or None, allow)
        return actions.Permit(str(_number(request, Thing.REQUEST)), option.strip() or None, allow)

    return parse


def _bare(action: Action) -> Callable[[str, Sequence[str]], Action]:
    """A command without arguments. Arguments are refused: whoever types `/clearall done` may have meant less."""

    def parse(rest: str, _agents: Sequence[str]) -> Action:
        if rest.strip().strip(".!?"):
            raise _WrongArguments("This command takes no arguments.")
        return action

    return parse


COMMANDS: tuple[Command, ...] = (
    Command("/task <title>", "put a new task on the board", "/task Fix the login page", _add_task),
    Command(
        "/move t<number> <pending|in_progress|done>",
        "move a task to another column",
        "/move t3 in_progress",
        _move_task,
    ),
    Command(
        "/moveall <pending|in_progress|done>",
        "move every active task; finished ones stay",
        "/moveall done",
        _move_all,
    ),
    Command("/clearall", "take every task off the board", "/clearall", _bare(actions.ClearAll())),
    Command("/undo", "take back the last change of the board", "/undo", _bare(actions.Undo())),
    Command(
        "/tasks",
        "show the board, with what is blocked or failed and why",
        "/tasks",
        _bare(actions.ShowTasks()),
    ),
    Command("/locks [path]", "show who holds which files, and who waits", "/locks", _show_locks),
    Command(
        "/unlock <path> <reason>",
        "take a lock from its holder, who is told why (put a path with spaces in quotes)",
        "/unlock src/app.py I take it over",
        _force_release,
    ),
    Command("/help [command]", "explain the commands, or one of them", "/help move", _show_help),
    Command("/who", "show who is here and how the agents are", "/who", _bare(actions.ShowWho())),
    Command("/queue", "show what waits, what runs and what went wrong", "/queue", _bare(actions.ShowQueue())),
    Command(
        "/route m<number> AGENT...",
        "send a message to these agents, whoever was asked before",
        "/route m12 CLAUDE CODEX",
        _route,
    ),
    Command(
        "/retry <m or j><number>", "try again what failed: for a message, or one job", "/retry m12", _retry
    ),
    Command(
        "/cancel @AGENT",
        "end the agent's running turn",
        "/cancel @CLAUDE",
        _of_agents(actions.Cancel, "Say whose turn to end."),
    ),
    Command(
        "/stop @AGENT",
        "end the agent's turn, cancel what waits for it, and start no new one (`/resume` lets it go on)",
        "/stop @CODEX",
        _of_agents(actions.Stop, "Say which agent to stop."),
    ),
    Command(
        "/pause [@AGENT]",
        "start no new turns (of one agent, or of all)",
        "/pause @CODEX",
        _of_agents(actions.Pause),
    ),
    Command("/resume [@AGENT]", "start turns again after a pause", "/resume", _of_agents(actions.Resume)),
    Command(
        "/try @AGENT",
        "give an agent that failed too often one attempt now; if it succeeds, it gets work again",
        "/try @CLAUDE",
        _of_agents(actions.TryNow, "Say which agent to try."),
    ),
    Command(
        "/continue",
        "let agents that ask each other go on past the limit",
        "/continue",
        _bare(actions.Continue()),
    ),
    Command("/airspace", "show who is near whom in the code", "/airspace", _bare(actions.ShowAirspace())),
    Command(
        "/first @AGENT",
        "say which agent goes first where two collide; the others give way",
        "/first @CLAUDE",
        _go_first,
    ),
    Command(
        "/update @AGENT",
        "ask an agent to merge the main branch into its own",
        "/update @CODEX",
        _of_agents(actions.TakeMain, "Say which agent should merge the main branch."),
    ),
    Command(
        "/intent @AGENT <path>...",
        "say which files an agent will touch next (`-`: none)",
        "/intent @CODEX src/auth/session.py",
        _intent,
    ),
    Command(
        "/allow p<number> [option]",
        "allow what an agent asks for (an option by its place or name; else this once)",
        "/allow p3",
        _permit(True),
    ),
    Command("/deny p<number>", "refuse what an agent asks for", "/deny p3", _permit(False)),
)
_BY_NAME = {spec.name: spec for spec in COMMANDS}
#: A slash and a word of letters, with which a command begins.
_WORD = re.compile(r"/([^\W\d_][\w-]*|\?)[?!.,:;]*(?=\s|$)")


def is_command(body: str) -> bool:
    """Whether `parse` would take the body for a command, right or wrong."""
    text = body.lstrip()
    return text.rstrip() == "/" or _WORD.match(text) is not None


def parse(body: str, agents: Iterable[str] = ()) -> Action | Problem | None:
    """The action that `body` orders, or what is wrong with it, or None when it is a message and no command.

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
        return Problem(name, misused(name, str(wrong)))


def misused(name: str, wrong: str) -> str:
    """What the room answers to a command with wrong arguments: `wrong`, one sentence, and what would be right."""
    spec = _BY_NAME[name]
    shown = f", for example `{spec.example}`" if spec.example != spec.usage else ""
    return f"{wrong} Usage: `{spec.usage}`{shown}."


def completions() -> list[dict[str, str]]:
    """What clients offer while a person types: `[{"name", "usage", "help"}]`."""
    return [{"name": spec.name, "usage": spec.usage, "help": spec.help} for spec in COMMANDS]


def find(name: str) -> Command | None:
    """The command of that name, with or without its slash."""
    return _BY_NAME.get("/" + name.lower().lstrip("/"))


def _guess(name: str) -> str:
    near = get_close_matches(name[:40], _BY_NAME, n=1, cutoff=0.6)
    return f" Did you mean `{near[0]}`?" if near else ""


def _shown(text: str) -> str:
    """The text as it can stand in a code span: short, on one line, without backticks."""
    line = " ".join(text.replace("`", "'").split())
    return line if len(line) <= 40 else line[:39] + "…"
