"""A turn of an agent: what it is asked, where it works, the parts that come out of it, what it asks the people of the
room, and who runs it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import astuple, dataclass, field
from enum import StrEnum
from operator import add
from pathlib import Path
from typing import Any, Protocol

from relay.model.inbox import Channel, Inbox
from relay.model.touches import Touch

#: The field of an advisory's `meta` that names the agents whose turn takes the main branch in.
TAKE_MAIN = "take_main"


class FailureClass(StrEnum):
    """Why a turn did not end well; the class decides what the queue and the breaker do with it."""

    NOT_INSTALLED = "not_installed"
    NOT_SIGNED_IN = "not_signed_in"
    RATE_LIMIT = "rate_limit"
    TIMEOUT = "timeout"
    CRASH = "crash"
    EMPTY = "empty"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class TurnLimits:
    """`timeout_s`: seconds of wall time for the whole turn. `max_output_bytes`: of text that is kept."""

    timeout_s: float = 600.0
    max_output_bytes: int = 1_048_576


@dataclass(frozen=True, slots=True)
class Turn:
    """What an agent is asked to do, once.

    `prompt` is the message (or the messages that arrived while it worked) that asks; `context` the part of
    the room it has not seen yet, oldest first, as text; `memories` what the room remembers that bears on it, quoted
    line by line, which stands before all else. `resume` is the agent's own conversation id from an
    earlier turn, None for a new conversation; `room_session` is what the agent's processes get as
    RELAY_SESSION_ID. `root` is the top of the checkout that `cwd` is in, None = `cwd` itself. `may_edit` is true
    only when the agent has a worktree of its own. `interrupted` is true when an earlier attempt at this very
    turn was cut off: the agent must be told, since its work may be half done. `inbox` has what it is told meanwhile.
    `env`: variables that its program gets in its worktree, below those of its own configuration.
    """

    agent: str
    prompt: str
    context: str = ""
    memories: str = ""
    cwd: Path | None = None
    root: Path | None = None
    resume: str | None = None
    room_session: str = ""
    may_edit: bool = False
    interrupted: bool = False
    job: int | None = None
    limits: TurnLimits = field(default_factory=TurnLimits)
    inbox: Inbox = field(default_factory=Inbox, compare=False)
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TextPart:
    """A piece of the answer, to be appended to what came before."""

    text: str


@dataclass(frozen=True, slots=True)
class Location:
    """A place in the code that a tool named.

    `path` as the tool named it: absolute, or relative to the turn's folder. `lines`: the first and the last
    one, 1-based, both included, as the file is now; None = the whole file, as far as anybody knows. `writes`:
    the tool changes it (False: it only reads), None = unknown. `made`: the change was made unasked, and stands in the
    file. `text`: the whole file as it would stand then, None = unknown. `command`: of the shell that changes
    it, empty = it is another tool.
    """

    path: str
    lines: tuple[int, int] | None = None
    writes: bool | None = None
    made: bool = False
    text: bytes | None = field(default=None, compare=False)
    command: str = field(default="", compare=False)


#: What the programs call the tool that runs a shell's command.
SHELL_TOOLS = frozenset({"Bash", "bash", "shell", "run_shell_command", "execute"})


@dataclass(frozen=True, slots=True)
class ToolPart:
    """The agent used a tool; `summary` is one line for people, `paths` the files it named.

    `locations` says more of these files, where the agent tells it. With an empty `name` these are further
    places of a tool that was told before. `helper`: the id of the helper that used it, None = the agent itself.
    """

    name: str
    summary: str = ""
    paths: tuple[str, ...] = ()
    locations: tuple[Location, ...] = ()
    helper: str | None = None

    @property
    def places(self) -> tuple[Location, ...]:
        """Every file that it named, with what is known of it."""
        known = {location.path for location in self.locations}
        return (*self.locations, *(Location(path) for path in self.paths if path not in known))

    @property
    def command(self) -> str:
        """What a shell was told to run, as far as the line for people has it; empty for another tool."""
        return self.summary if self.name in SHELL_TOOLS else ""


@dataclass(frozen=True, slots=True)
class BriefPart:
    """The agent has started a helper of its own (001, "Brief Edges").

    `helper`: by which id the agent's stream names it; `brief`: what it is asked to do; `sort`: which kind of helper
    it is, where that is told; `by`: the id of the helper that started it, None = the agent itself.
    """

    helper: str
    brief: str
    sort: str = ""
    by: str | None = None


@dataclass(frozen=True, slots=True)
class DebriefPart:
    """A helper has ended (001, "Debrief Edges"). `result`: what it found, as its stream tells it."""

    helper: str
    result: str = ""
    failed: bool = False


@dataclass(frozen=True, slots=True)
class UsagePart:
    """What the turn has cost so far, as the agent reports it; a later part replaces an earlier one.

    The four kinds of tokens share nothing: `input_tokens` are new to the model, `cache_write_tokens` too but kept
    for later, `cache_read_tokens` were kept before (most of what a long conversation sends), `output_tokens` hold
    the thoughts. An agent that does not tell a kind apart counts it as `input_tokens`.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0
    cache_write_tokens: int = 0
    cache_read_tokens: int = 0

    @property
    def counted(self) -> int:
        """What counts for `tokens_per_day`: all but what was read from a cache."""
        return self.input_tokens + self.cache_write_tokens + self.output_tokens

    def __add__(self, other: UsagePart) -> UsagePart:
        return UsagePart(*map(add, astuple(self), astuple(other)))

    def since(self, before: UsagePart) -> UsagePart:
        """The tokens of a running count that came after `before`; dollars as they are."""
        return UsagePart(
            max(0, self.input_tokens - before.input_tokens),
            max(0, self.output_tokens - before.output_tokens),
            self.cost_usd,
            max(0, self.cache_write_tokens - before.cache_write_tokens),
            max(0, self.cache_read_tokens - before.cache_read_tokens),
        )

    def as_json(self) -> dict[str, float]:
        """As the log and the interfaces have it (docs/http.md)."""
        return {
            "input_tokens": self.input_tokens,
            "cache_write_tokens": self.cache_write_tokens,
            "cache_read_tokens": self.cache_read_tokens,
            "output_tokens": self.output_tokens,
            "cost_usd": self.cost_usd,
        }


@dataclass(frozen=True, slots=True)
class SessionPart:
    """The agent's own conversation id, to resume with at the next turn."""

    id: str


@dataclass(frozen=True, slots=True)
class DeliveredPart:
    """The agent's program has taken these messages of the inbox into its turn. `ids`: of the room's entries; `after`:
    the tool after which, empty = after none, or not known."""

    ids: tuple[str, ...]
    after: str = ""


@dataclass(frozen=True, slots=True)
class LogPart:
    """A line of the agent's diagnostics (its standard error), for its log in the page."""

    line: str


@dataclass(frozen=True, slots=True)
class EndPart:
    """Exactly one ends every stream, and it is the last part.

    `failure` is None when the turn ended well; `detail` then is empty, else one or two sentences a person
    can act on. `text`, when given, is the whole answer and replaces the pieces. `retry_at` is a Unix time
    in seconds, known for some rate limits. `truncated` says that output beyond the limit was dropped.
    """

    failure: FailureClass | None = None
    detail: str = ""
    text: str | None = None
    retry_at: float | None = None
    truncated: bool = False


Part = (
    TextPart
    | ToolPart
    | BriefPart
    | DebriefPart
    | UsagePart
    | SessionPart
    | DeliveredPart
    | LogPart
    | EndPart
)


@dataclass(frozen=True, slots=True)
class AccountLimit:
    """What a program told last of a limit of its account. `window`: of how long, as people read it; `used_percent`:
    100 = used up; `resets_at`: when it begins again, Unix seconds, None = not told."""

    window: str
    used_percent: float
    resets_at: float | None = None


@dataclass(frozen=True, slots=True)
class Availability:
    """Can this agent take a turn now? `fix` is the command that would make it so. `channel`: how it hears what is
    said while it works, as far as the installed program tells without a turn. `limits`: of its account, as far as a
    turn told them. `broken`: nothing is missing, but its own file has a fault (`detail`); each turn looks anew."""

    installed: bool
    detail: str = ""
    fix: str = ""
    version: str = ""
    channel: Channel = field(default_factory=Channel)
    limits: tuple[AccountLimit, ...] = ()
    broken: bool = False


class Agent(Protocol):
    """A way to run one agent. The queue sees only this."""

    @property
    def name(self) -> str: ...

    @property
    def kind(self) -> str: ...

    async def probe(self) -> Availability:
        """Look whether the agent can run, without starting a turn. Never raises."""
        ...

    def run(self, turn: Turn) -> AsyncIterator[Part]:
        """Run one turn. Closing the iterator (or cancelling its task) ends every process it started."""
        ...


@dataclass(frozen=True, slots=True)
class Workplace:
    """Where one turn works. `may_edit`: the folder is the agent's own. `root`: the top of its checkout, when `cwd`
    is a folder in it; None = `cwd` itself. `note`: what the agent is told of it, after its message. `done`: why
    nothing is left to do of what `take_main` was asked for; empty = something is. `tree`: git's id of what stands
    there, uncommitted work too; `commits`: what that is on top of. `env`: variables that a program gets there."""

    cwd: Path
    may_edit: bool
    root: Path | None = None
    note: str = ""
    done: str = ""
    tree: str = ""
    commits: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Changes:
    """What one turn changed in its agent's worktree: on which branch, how many files and lines. `before`, `after`:
    git's ids of its trees; `commits`: what the tree after is on top of. `beside`: agents whose turns ran in the same
    checkout meanwhile, so that the figures have theirs too."""

    branch: str
    files: int
    insertions: int
    deletions: int
    before: str = ""
    after: str = ""
    commits: tuple[str, ...] = ()
    touches: tuple[Touch, ...] = ()
    beside: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The value of an answer's `meta.worktree`."""
        return {
            "branch": self.branch,
            "files": self.files,
            "insertions": self.insertions,
            "deletions": self.deletions,
            **({"beside": list(self.beside)} if self.beside else {}),
        }


@dataclass(frozen=True, slots=True)
class PermissionOption:
    """One answer to a permission request. `kind`: allow_once, allow_always, reject_once, reject_always."""

    id: str
    name: str
    kind: str

    @property
    def label(self) -> str:
        """What people read. relay keeps no answer for the next request: whether one that is for always holds, and how
        long, is the agent's program's."""
        return f"{self.name} (as its program keeps it)" if self.kind.endswith("_always") else self.name


@dataclass(frozen=True, slots=True)
class PermissionRequest:
    """What an agent asks a person for: `title` is one line, `tool` the kind of tool (edit, execute, ...), `command`
    the command that it would run, or what it says of itself, fit to be shown; "" = it tells none."""

    agent: str
    title: str
    tool: str = "other"
    paths: tuple[str, ...] = ()
    options: tuple[PermissionOption, ...] = ()
    advisory: str | None = None
    command: str = ""


@dataclass(frozen=True, slots=True)
class PermissionAnswer:
    """The option that was chosen, by whom. `option` None: nobody chose one, for the `reason`."""

    option: PermissionOption | None
    by: str = ""
    reason: str = ""


class Permits(Protocol):
    """Asks the people of the room on behalf of an agent."""

    async def ask(self, request: PermissionRequest, *, timeout_s: float) -> PermissionAnswer:
        """Wait for a person's answer, for `timeout_s` seconds at most; at once without one when nobody is
        there to answer. Cancelling the wait takes the request back."""
        ...


class Nobody:
    """Stands in for the people of a room that has no interface to ask them by."""

    async def ask(self, request: PermissionRequest, *, timeout_s: float) -> PermissionAnswer:
        return PermissionAnswer(None, reason="nobody who could answer is connected")
