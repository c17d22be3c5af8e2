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

from relay.model import actions, references
from relay.model.actions import COMMAND_WORD, Action
from relay.model.references import Thing
from relay.room.parsing.arguments import (
    Command,
    WrongArguments,
    agents_of,
    number_of,
    shown,
)
from relay.room.parsing.wings import (
    board,
    entries,
    explorations,
    handoffs,
    locks,
    memory,
    merging,
    needs,
    review,
    timeline,
    verification,
    worktrees,
)


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a command was not understood. `text` is markdown for the room; it says what would be right."""

    command: str
    text: str


def _show_help(rest: str, _agents: Sequence[str]) -> Action:
    word = rest.strip().rstrip("?.!").lower()
    if not word:
        return actions.ShowHelp()
    name = "/" + word.lstrip("/")
    if name not in _BY_NAME:
        raise WrongArguments(f"There is no command `{shown(name)}`.{_guess(name)}")
    return actions.ShowHelp(name)


def _route(rest: str, agents: Sequence[str]) -> Action:
    number, _, names = " ".join(rest.split()).replace("# ", "#").partition(" ")
    message = number_of(number, Thing.MESSAGE)
    chosen = agents_of(re.sub(r"^(?:to|->|→) +", "", names), agents)
    if not chosen:
        raise WrongArguments("Say which agents it goes to.")
    return actions.Route(chosen, message)


def _retry(rest: str, agents: Sequence[str]) -> Action:
    if rest.lstrip().startswith("@"):
        chosen = agents_of(rest, agents)
        if len(chosen) != 1:
            raise WrongArguments("One agent at a time.")
        return actions.RetryAll(chosen[0])
    words = rest.lower().replace("# ", "#").split()
    of = words.pop(0) if words and words[0] in ("job", "message") else "any"
    if len(words) > 1:
        raise WrongArguments("One number at a time.")
    word = words[0] if words else ""
    reference = references.read(word.strip(".,:"))
    if of == "any" and reference is not None and not word.startswith("#") and not word[:1].isdigit():
        of = reference[0].name.lower()
    if of not in ("any", "job", "message") or (of == "any" and reference is None):
        given = f", not `{shown(word)}`" if word else ""
        raise WrongArguments(f"The number of the job or message is needed, like `j7` or `m12`{given}.")
    return actions.Retry(number_of(word, Thing.JOB if of == "job" else Thing.MESSAGE), of)


def _go_first(rest: str, agents: Sequence[str]) -> Action:
    chosen = agents_of(rest, agents)
    if len(chosen) != 1:
        raise WrongArguments("Say which agent goes first: one.")
    return actions.GoFirst(chosen[0])


def _steer(rest: str, agents: Sequence[str]) -> Action:
    named = re.match(r"(?:[\s,]*@[\w-]+)+", rest) or re.match(r"\s*[\w-]+", rest)
    if named is None:
        raise WrongArguments("Say whom you tell it.")
    text = re.sub(r"^[ \t]*[,:]?", "", rest[named.end() :]).strip()
    chosen = agents_of(named[0], agents)
    if not text:
        raise WrongArguments("The text is missing.")
    return actions.Steer(chosen, text)


def _of_agents(
    action: Callable[[tuple[str, ...]], Action], missing: str = ""
) -> Callable[[str, Sequence[str]], Action]:
    """A command that takes agents. `missing`: the error when none is named; empty = naming none is allowed."""

    def parse(rest: str, agents: Sequence[str]) -> Action:
        chosen = agents_of(rest, agents)
        if not chosen and missing:
            raise WrongArguments(missing)
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
        raise WrongArguments("A quotation mark is not closed.") from None
    chosen = agents_of(words[0], agents) if words else ()
    if len(chosen) != 1:
        raise WrongArguments("Say which agent it is about, one at a time.")
    paths = intent_paths(words[1:])
    if paths is None:
        raise WrongArguments("Say which files it will touch, or `-` for none.")
    return actions.DeclareIntent(chosen[0], paths)


def _permit(allow: bool) -> Callable[[str, Sequence[str]], Action]:
    def parse(rest: str, _agents: Sequence[str]) -> Action:
        request, _, option = " ".join(rest.split()).replace("# ", "#").partition(" ")
        # A number, or an id as an interface writes it: four hexadecimal digits and the number.
        if re.fullmatch(r"[0-9a-f]{4}-[0-9]{1,9}", request):
            return actions.Permit(request, option.strip() or None, allow)
        return actions.Permit(str(number_of(request, Thing.REQUEST)), option.strip() or None, allow)

    return parse


def _bare(action: Action) -> Callable[[str, Sequence[str]], Action]:
    """A command without arguments. Arguments are refused: whoever types `/clearall done` may have meant less."""

    def parse(rest: str, _agents: Sequence[str]) -> Action:
        if rest.strip().strip(".!?"):
            raise WrongArguments("This command takes no arguments.")
        return action

    return parse


COMMANDS: tuple[Command, ...] = (
    *board.COMMANDS,
    Command("/clearall", "take every task off the board", "/clearall", _bare(actions.ClearAll())),
    Command(
        "/tasks",
        "show the board, with what is blocked or failed and why",
        "/tasks",
        _bare(actions.ShowTasks()),
    ),
    Command("/help [command]", "explain the commands, or one of them", "/help move", _show_help),
    Command("/who", "show who is here and how the agents are", "/who", _bare(actions.ShowWho())),
    Command("/cost", "show what the agents' turns cost since midnight", "/cost", _bare(actions.ShowCost())),
    Command("/queue", "show what waits, what runs and what went wrong", "/queue", _bare(actions.ShowQueue())),
    Command(
        "/route m<number> AGENT...",
        "send a message to these agents, whoever was asked before",
        "/route m12 CLAUDE CODEX",
        _route,
    ),
    Command(
        "/edit m<number> <new text>",
        "change what a message of your own says; the transcript file keeps both",
        "/edit m12 The login page, not the start page",
        entries.with_text(actions.EditMessage, "The new text is missing."),
    ),
    Command(
        "/reply m<number> <text>",
        "answer a message, in its thread; without a mention it goes to whom it answers",
        "/reply m12 the small one",
        entries.with_text(actions.Reply, "The text is missing."),
    ),
    Command(
        "/delete m<number>",
        "take a message of your own out of the room; the transcript file keeps it",
        "/delete m12",
        entries.one(actions.DeleteMessage),
    ),
    Command(
        "/pin m<number>",
        "keep a message on top of the room, for people and for agents",
        "/pin m12",
        entries.one(actions.Pin),
    ),
    Command("/unpin m<number>", "take a pinned message down", "/unpin m12", entries.one(actions.Unpin)),
    Command(
        "/thread m<number>",
        "show the thread of a message: what it answers, and what answers it",
        "/thread m12",
        entries.one(actions.ShowThread),
    ),
    Command("/pins", "show what is pinned", "/pins", _bare(actions.ShowPins())),
    Command(
        "/retry <m or j><number> | @AGENT",
        "try again what failed: for a message, one job, or all that an agent did not answer in the last day",
        "/retry m12",
        _retry,
    ),
    Command(
        "/cancel @AGENT",
        "end the agent's running turn, and take back what waits for it; what is said from now on is its next turn's",
        "/cancel @CLAUDE",
        _of_agents(actions.Cancel, "Say whose turn to end."),
    ),
    Command(
        "/steer @AGENT <text>",
        "tell an agent something that it hears while it works, at its next tool; else with its next turn",
        "/steer @CLAUDE leave the tests alone",
        _steer,
    ),
    Command(
        "/stop @AGENT",
        "end the agent's turn, and start no new one: its messages wait until `/resume`",
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
    *locks.COMMANDS,
    *merging.COMMANDS,
    *handoffs.COMMANDS,
    *explorations.COMMANDS,
    *needs.COMMANDS,
    *review.COMMANDS,
    *verification.COMMANDS,
    *worktrees.COMMANDS,
    *timeline.COMMANDS,
    *memory.COMMANDS,
)
#: A whole message.
_HELP = re.compile(r"(?:help|\?)[?!.\s]*", re.IGNORECASE)
_BY_NAME = {spec.name: spec for spec in COMMANDS}


def _typed(body: str) -> str:
    """The body from its first sign. Who only says "help" asks the room: no agent can know what its commands are."""
    text = body.lstrip()
    return "/help" if _HELP.fullmatch(text) else text


def is_command(body: str) -> bool:
    """Whether `parse` would take the body for a command, right or wrong."""
    text = _typed(body)
    return text.rstrip() == "/" or COMMAND_WORD.match(text) is not None


def parse(body: str, agents: Iterable[str] = ()) -> Action | Problem | None:
    """The action that `body` orders, or what is wrong with it, or None when it is a message and no command.

    `agents` are the names of the configured agents; those in a command come back spelled like them.
    """
    text = _typed(body)
    if text.rstrip() == "/":
        return Problem("/", "There is nothing after the slash. `/help` lists the commands.")
    word = COMMAND_WORD.match(text)
    if word is None:
        return None
    name = "/help" if word[1] == "?" else f"/{word[1].lower()}"
    spec = _BY_NAME.get(name)
    if spec is None:
        return Problem(
            name,
            f"There is no command `{shown(name)}`.{_guess(name)} `/help` lists them all; "
            "a message that starts with a slash is written with two: `//`.",
        )
    try:
        return spec.parse(text[word.end() :], tuple(agents))
    except WrongArguments as wrong:
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
