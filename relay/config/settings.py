"""The configuration as frozen, typed settings.

Invariant: the values of a `Settings` were checked (`loading`): no unknown key, no wrong type, no
value out of its bounds, every path absolute.

Each key stands here once, with its default, its bounds and its meaning; docs/configuration.md is made from
these types (`python -m relay.config --table`). Keys keep their places (INTERFACES.md, "Configuration").
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from relay.config.airspace import AirspaceSettings, Checkout, WorktreeSettings
from relay.config.checks import setting
from relay.config.coordination import AttachSettings, CoordinationSettings, FleetSettings, PostgresSettings
from relay.config.handoffs import HandoffSettings
from relay.config.memory import MemorySettings
from relay.config.merge import MergeSettings
from relay.config.notify import NotifySettings
from relay.config.verification import LandingSettings, VerificationSettings

AgentKind = Literal["command", "acp", "ollama", "scripted"]
Permissions = Literal["auto", "read-only", "edit", "skip-all-checks"]
Storage = Literal["sqlite", "postgres"]

_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class BudgetSettings:
    """What an agent may spend; None is no limit."""

    turns_per_hour: int | None = setting("turns the agent may begin within an hour", None, low=1)
    tokens_per_day: int | None = setting(
        "tokens within 24 hours: new input, cache writes and output; cache reads do not count", None, low=1
    )
    usd_per_day: float | None = setting("US dollars within 24 hours, as the agent reports them", None, low=0)


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """One agent of the room."""

    name: str = setting("its name, as in `@CLAUDE`. A-Z, 0-9, _ and -, a letter first, 32 at most; unique")
    kind: AgentKind = setting("how its turns are run", "command")
    preset: str | None = setting(
        "for `command` and `acp`: a program that relay knows, by its name in docs/agents.md",
        None,
        empty=False,
    )
    cmd: tuple[str, ...] = setting(
        "for `command` and `acp`: the program with its arguments, instead of a preset",
        (),
        empty=False,
        words=True,
    )
    args: tuple[str, ...] = setting("more arguments, after those of the preset or of `cmd`", ())
    output: str = setting(
        "for `cmd`: the format of its output: plain text (`text`), or that of a known program, by its name",
        "text",
        empty=False,
    )
    model: str | None = setting("the model; null = the agent's own default", None, empty=False)
    effort: str | None = setting("the reasoning effort, in the agent's own words", None, empty=False)
    timeout_s: float = setting("seconds until a turn is ended", 600.0, low=1, high=86400)
    cwd: Path | None = setting("the folder it works in; null = `workspace.repo`", None)
    worktree: Path | None = setting(
        "an existing checkout that it works in; null = one of its own under `.relay/worktrees/`", None
    )
    env: Mapping[str, str] = setting("environment variables that it gets besides the allowed ones", _NOTHING)
    env_pass: tuple[str, ...] = setting("more environment variables of the daemon that it gets, by name", ())
    budget: BudgetSettings = setting("", BudgetSettings)
    permissions: Permissions = setting(
        "what it may do: `auto` = read-only, and edits when it has a worktree of its own", "auto"
    )
    permission_timeout_s: float = setting(
        "for `acp`: seconds that people have to answer what it asks; then it is refused",
        120.0,
        low=1,
        high=3600,
    )
    inbox: Literal["boundary", "next"] = setting(
        "what is urgent reaches it at its next tool `boundary`, where its program can be told then; `next`: with its "
        "next turn, but for `/steer`",
        "boundary",
    )
    mcp: bool = setting("a preset's program gets the room's tools (locks, work, ...) over MCP", True)
    script: Path | None = setting("for `scripted`: the YAML file with what it says and does", None)
    about: str | None = setting(
        "one line on what it is for: people see it where they choose an agent, and the dispatcher decides by it; "
        "null = that of its preset",
        None,
        empty=False,
    )
    role: str | None = setting(
        "its role, one of `handoffs.roles`: its events are of that role, and work is handed on to it by it",
        None,
    )
    enabled: bool = setting("false = stays in the room, gets no work", True)
    shared: bool = setting(
        "true = other members of the fleet have it too: the first free one takes a turn of it", False
    )


@dataclass(frozen=True, slots=True)
class WorkspaceSettings:
    """The codebase and the room's own files."""

    repo: Path | None = setting("the codebase; null = the folder of config.json", None)
    worktrees: bool = setting("false = agents get no git worktree of their own, and only read", True)
    checkouts: tuple[Checkout, ...] = setting("people's own checkouts of the codebase", ())
    log_path: Path = setting("the transcript", Path(".relay/transcript.log"))
    lock_path: Path = setting("the record of the one running daemon", Path("speaker.lock"))
    context_len: int = setting(
        "characters of unread room messages that an agent gets with a turn", 6000, low=0
    )
    max_entry_bytes: int = setting(
        "bytes of one transcript entry; a larger one is refused, with a notice",
        4194304,
        low=1024,
        high=33554432,
    )


@dataclass(frozen=True, slots=True)
class BreakerSettings:
    """When an agent that keeps failing is left alone."""

    failure_threshold: int = setting(
        "failures in a row after which an agent gets no work for a while (its circuit opens)", 3, low=1
    )
    reset_timeout: float = setting(
        "seconds until an agent whose circuit is open gets one attempt", 300.0, low=0
    )


@dataclass(frozen=True, slots=True)
class LockSettings:
    """The single-instance record and the breakers (kept together, as the room's first version had them)."""

    ttl: float = setting("seconds after which the daemon's last heartbeat is stale", 90.0, low=1)
    circuit_breaker: BreakerSettings = setting("", BreakerSettings)


#: Visual Studio Code's.
EDITOR = "vscode://file{path}:{line}"


@dataclass(frozen=True, slots=True)
class UiSettings:
    """Where the page and HTTP are served."""

    host: str = setting("the address to bind", "127.0.0.1", empty=False)
    port: int = setting(
        "the port; 0 = any free one, printed and in `.relay/state.json`", 4173, low=0, high=65535
    )
    allowed_hosts: tuple[str, ...] = setting(
        "more host names under which the page may be opened (behind a proxy, or on a network); others are "
        "refused, so that no other web site can use a browser against the room",
        (),
    )
    editor: str = setting(
        "the address that opens a line of a file in your editor (docs/review.md): `{path}` stands for the absolute "
        "path, `{line}` for the line; empty = the page has no such links",
        EDITOR,
    )


@dataclass(frozen=True, slots=True)
class DispatcherSettings:
    """The local model that decides who answers a message without a mention."""

    enabled: bool = setting("false = every active agent gets a message that mentions nobody", True)
    ollama_host: str = setting("the Ollama server", "http://127.0.0.1:11434", empty=False)
    model: str = setting("the Ollama model that decides", "llama3.2:3b", empty=False)
    timeout_s: float = setting("seconds for the whole decision, then the fallback", 5.0, low=0.1, high=300)


@dataclass(frozen=True, slots=True)
class JitterSettings:
    """How long the room holds its breath before a cycle, by how much was said in the last minute."""

    busy: int = setting("entries in the last minute from which the room is busy", 5, low=1)
    medium: int = setting("entries in the last minute from which it is medium", 3, low=1)
    busy_s: float = setting("seconds to wait in a busy room", 0.5, low=0, high=60)
    medium_s: float = setting("seconds to wait in a medium one", 1.0, low=0, high=60)
    quiet_s: float = setting("seconds to wait in a quiet one", 2.0, low=0, high=60)


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """The dispatch queue."""

    stale_after_s: float = setting(
        "seconds after which an active job of a dead daemon is pending again", 600.0, low=1
    )
    max_attempts: int = setting("attempts before the room gives up a job (it is dead)", 3, low=1)
    backoff_s: float = setting("seconds before the second attempt; doubles with each one", 2.0, low=0)
    backoff_max_s: float = setting("the longest wait between attempts, in seconds", 60.0, low=0)
    lease_s: float = setting("seconds that a job's lease lasts without renewal", 30.0, low=1)


@dataclass(frozen=True, slots=True)
class StopSettings:
    """How the daemon ends."""

    drain_s: float = setting("seconds that running turns get to end at a stop", 10.0, low=0, high=3600)


@dataclass(frozen=True, slots=True)
class TimelineSettings:
    """How long the timeline keeps snapshots of the worktrees (checkpoints: for ever), and who is shared."""

    keep_all_s: float = setting("seconds that every snapshot is kept", 86400.0, low=0)
    keep_days: float = setting(
        "days that the last snapshot of each hour and agent, and what came of a check, is kept",
        30.0,
        low=0,
        high=3650,
    )
    share: tuple[str, ...] = setting(
        "agents and people whose lanes `relay timeline push` gives to others; those of all others are private",
        (),
    )
    not_secret: tuple[str, ...] = setting(
        "digests, as `relay timeline push` names them, of texts that look like a secret and are none", ()
    )


@dataclass(frozen=True, slots=True)
class RoomSettings:
    """The room's own rules."""

    name: str | None = setting("the room's name; null = the name of its folder", None, empty=False)
    agent_mentions: bool = setting("true = an agent's mention of another agent gives that one a turn", False)
    hop_limit: int = setting(
        "turns that agents may give each other before a person says `/continue`", 4, low=1
    )
    silent_after_s: float = setting(
        "seconds without a word of an agent at work, after which the inbox names it", 600.0, low=10.0
    )
    max_file_bytes: int = setting(
        "bytes of a file that is pasted or dropped into a message", 10_485_760, low=1024, high=1_073_741_824
    )
    max_files_bytes: int = setting("bytes of all of these together", 1_073_741_824, low=1024)
    max_files: int = setting("how many of these are kept", 5000, low=1)


@dataclass(frozen=True, slots=True)
class Settings:
    """A whole configuration. `path` is the file it came from; every path in it is absolute."""

    path: Path
    agents: tuple[AgentSettings, ...] = setting("who answers in the room", ())
    workspace: WorkspaceSettings = setting("", WorkspaceSettings)
    locks: LockSettings = setting("", LockSettings)
    ui: UiSettings = setting("", UiSettings)
    dispatcher: DispatcherSettings = setting("", DispatcherSettings)
    jitter: JitterSettings = setting("", JitterSettings)
    queue: QueueSettings = setting("", QueueSettings)
    stop: StopSettings = setting("", StopSettings)
    room: RoomSettings = setting("", RoomSettings)
    storage: Storage = setting("where events are kept; `postgres`: see docs/postgres.md", "sqlite")
    postgres: PostgresSettings = setting("", PostgresSettings)
    fleet: FleetSettings = setting("", FleetSettings)
    worktrees: WorktreeSettings = setting("", WorktreeSettings)
    airspace: AirspaceSettings = setting("", AirspaceSettings)
    coordination: CoordinationSettings = setting("", CoordinationSettings)
    timeline: TimelineSettings = setting("", TimelineSettings)
    handoffs: HandoffSettings = setting("", HandoffSettings)
    memory: MemorySettings = setting("", MemorySettings)
    merge: MergeSettings = setting("", MergeSettings)
    verification: VerificationSettings = setting("", VerificationSettings)
    landing: LandingSettings = setting("", LandingSettings)
    attach: AttachSettings = setting("", AttachSettings)
    notify: tuple[NotifySettings, ...] = setting("places outside that are told what needs people", ())

    @property
    def folder(self) -> Path:
        """What relative paths in the file are relative to."""
        return self.path.parent

    @property
    def repo(self) -> Path:
        """The codebase that people and agents work on."""
        return self.workspace.repo or self.folder

    @property
    def room_name(self) -> str:
        return self.room.name or self.folder.name or "relay"

    @property
    def member_name(self) -> str:
        """This relay's name among those of its room's database."""
        folder, home = self.folder, Path("~").expanduser()
        inside = home != folder and folder.is_relative_to(home)
        shown = f"~/{folder.relative_to(home)}" if inside else str(folder)
        return self.fleet.name or f"{socket.gethostname()}:{shown}"

    @property
    def member(self) -> str:
        """Under which name something is kept for this relay: its own in the fleet, '' where a room has one relay."""
        return self.member_name if self.storage == "postgres" else ""

    @property
    def runtime_dir(self) -> Path:
        """Everything the daemon writes is in here (0700)."""
        return self.folder / ".relay"

    @property
    def db_path(self) -> Path:
        return self.runtime_dir / "events.db"

    @property
    def token_path(self) -> Path:
        return self.runtime_dir / "token"

    @property
    def pid_path(self) -> Path:
        return self.runtime_dir / "relay.pid"

    @property
    def log_file(self) -> Path:
        return self.runtime_dir / "relay.log"

    @property
    def tasks_path(self) -> Path:
        return self.runtime_dir / "tasks.json"

    @property
    def state_path(self) -> Path:
        return self.runtime_dir / "state.json"

    @property
    def policies_dir(self) -> Path:
        """The folder of the verification policies."""
        return self.folder / Path(self.verification.policies).expanduser()

    @property
    def worktrees_dir(self) -> Path:
        return self.runtime_dir / "worktrees"

    @property
    def transcript_path(self) -> Path:
        return self.workspace.log_path

    @property
    def lock_path(self) -> Path:
        return self.workspace.lock_path

    @property
    def agent_names(self) -> tuple[str, ...]:
        return tuple(agent.name for agent in self.agents)

    def agent(self, name: str) -> AgentSettings | None:
        """The agent of that name, None when there is none."""
        return next((agent for agent in self.agents if agent.name == name), None)


#: Sections that the daemon takes over while it runs.
LIVE = (
    "agents",
    "jitter",
    "dispatcher",
    "worktrees",
    "airspace",
    "handoffs",
    "memory",
    "merge",
    "verification",
    "landing",
    "attach",
    "notify",
)


@dataclass(slots=True)
class LiveSettings:
    """`current`: the settings in use. A changed config.json puts others in their place."""

    current: Settings
