"""config.json -> frozen, typed settings.

Invariant: whoever holds a `Settings` holds values that were checked: no unknown key, no wrong type, no value
out of its bounds, every path absolute. What is wrong stops the load, all of it at once, each with its key.

Each key stands here once, with its default, its bounds and its meaning; docs/configuration.md is made from
these types (`python -m relay.config.settings --table`). Keys keep their places (INTERFACES.md, "Configuration").
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from relay.base.files import alone_in, read_regular, write_atomically
from relay.config import jsonc
from relay.config.airspace import AirspaceSettings, Checkout
from relay.config.checks import Problem, Reading, read_section, setting, table
from relay.config.coordination import CoordinationSettings, PostgresSettings
from relay.config.locate import advice, find

AgentKind = Literal["command", "acp", "ollama", "scripted"]
Preset = Literal["claude", "codex", "gemini", "agy"]
Output = Literal["text", "claude", "codex", "gemini", "agy"]
Permissions = Literal["auto", "read-only", "edit", "skip-all-checks"]
Storage = Literal["sqlite", "postgres"]

AGENT_NAME = re.compile(r"[A-Z][A-Z0-9_-]{0,31}")
#: As in relay.model, which stands above this module and cannot be asked; a test holds the two together.
RESERVED_NAMES = frozenset({"RELAY", "DISPATCHER", "ALL"})
_NOTHING: Mapping[str, Any] = MappingProxyType({})


class ConfigError(Exception):
    """The configuration cannot be used; `problems` are all that is wrong with the file at `path`."""

    def __init__(self, path: Path, problems: Sequence[Problem]) -> None:
        self.path, self.problems = path, tuple(problems)
        if len(self.problems) == 1 and not self.problems[0].key:
            # Of the file itself, which may not even be there: "has a problem" would be odd.
            super().__init__(f"{path}: {self.problems[0]}")
            return
        count = "a problem" if len(self.problems) == 1 else f"{len(self.problems)} problems"
        super().__init__("\n".join([f"{path} has {count}:", *(f"  {one}" for one in self.problems)]))


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
    preset: Preset | None = setting("for `command` and `acp`: a program that relay knows", None)
    cmd: tuple[str, ...] = setting(
        "for `command` and `acp`: the program with its arguments, instead of a preset",
        (),
        empty=False,
        words=True,
    )
    args: tuple[str, ...] = setting("more arguments, after those of the preset or of `cmd`", ())
    output: Output = setting(
        "for `cmd`: the format of its output: plain text, or that of a known program", "text"
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
    mcp: bool = setting("a preset's program gets the room's tools (locks, work, ...) over MCP", True)
    script: Path | None = setting("for `scripted`: the YAML file with what it says and does", None)
    enabled: bool = setting("false = stays in the room, gets no work", True)


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


@dataclass(frozen=True, slots=True)
class UiSettings:
    """Where the page and the HTTP doors are."""

    host: str = setting("the address to bind", "127.0.0.1", empty=False)
    port: int = setting(
        "the port; 0 = any free one, printed and in `.relay/state.json`", 4173, low=0, high=65535
    )
    allowed_hosts: tuple[str, ...] = setting(
        "more host names under which the page may be opened (behind a proxy, or on a network); others are "
        "refused, so that no other web site can use a browser against the room",
        (),
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
class RoomSettings:
    """The room's own rules."""

    name: str | None = setting("the room's name; null = the name of its folder", None, empty=False)
    agent_mentions: bool = setting("true = an agent's mention of another agent gives that one a turn", False)
    hop_limit: int = setting(
        "turns that agents may give each other before a person says `/continue`", 4, low=1
    )


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
    airspace: AirspaceSettings = setting("", AirspaceSettings)
    coordination: CoordinationSettings = setting("", CoordinationSettings)

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
    def worktrees_dir(self) -> Path:
        return self.runtime_dir / "worktrees"

    @property
    def transcript_path(self) -> Path:
        return self.workspace.log_path

    @property
    def lock_path(self) -> Path:
        return self.workspace.lock_path

    def agent(self, name: str) -> AgentSettings | None:
        """The agent of that name, None when there is none."""
        return next((agent for agent in self.agents if agent.name == name), None)


def load(path: str | os.PathLike[str] | None = None) -> Settings:
    """The settings in `path` (None: where `find` says). Raises ConfigError with all that is wrong."""
    at = find(path)
    return parse(_text_of(at), at)


def _text_of(path: Path) -> str:
    try:
        return read_regular(path).decode("utf-8-sig")
    except FileNotFoundError:
        raise ConfigError(path, [Problem("", "there is no such file", hint=advice(Path.cwd()))]) from None
    except OSError as error:
        raise ConfigError(path, [Problem("", f"cannot be read: {error.strerror}")]) from None
    except UnicodeDecodeError as error:
        raise ConfigError(path, [Problem("", f"byte {error.start} is not UTF-8")]) from None


def parse(text: str, path: Path) -> Settings:
    """The settings in `text`, as if it stood in the file at `path` (absolute). Raises ConfigError."""
    try:
        tree = jsonc.parse(text)
    except jsonc.JsonError as error:
        raise ConfigError(path, [Problem("", f"is not JSON: {error}")]) from None
    reading = Reading(path.parent, tuple(key.path for key in table(Settings)))
    settings = read_section(Settings, tree, "", reading, path=path)
    problems = [*reading.problems, *_rules(tree)]
    if problems:
        raise ConfigError(path, problems)
    assert isinstance(settings, Settings)
    return replace(settings, agents=tuple(_at_home(agent, path.parent) for agent in settings.agents))


def _at_home(agent: AgentSettings, folder: Path) -> AgentSettings:
    """A program that is named by a relative path is a path like any other; `claude` alone is not."""
    if not agent.cmd or "/" not in agent.cmd[0]:
        return agent
    return replace(agent, cmd=(str(folder / agent.cmd[0]), *agent.cmd[1:]))


def _rules(tree: object) -> list[Problem]:
    """What types cannot say. Looks at the plain tree, so that it speaks up beside any other problem."""
    problems: list[Problem] = []
    if not isinstance(tree, dict):
        return problems
    seen: dict[str, int] = {}
    agents = tree.get("agents")
    for index, agent in enumerate(agents if isinstance(agents, list) else []):
        if isinstance(agent, dict):
            problems += _agent_rules(agent, f"agents[{index}]", seen, index)
    dispatcher = tree.get("dispatcher")
    host = dispatcher.get("ollama_host") if isinstance(dispatcher, dict) else None
    if isinstance(host, str) and not re.fullmatch(r"https?://[^\s/]+/?", host):
        problems.append(Problem("dispatcher.ollama_host", f'found "{host}"', "http://HOST:PORT"))
    jitter = tree.get("jitter")
    busy, medium = (
        (jitter.get("busy", JitterSettings().busy), jitter.get("medium", JitterSettings().medium))
        if isinstance(jitter, dict)
        else (1, 1)
    )
    if isinstance(busy, int) and isinstance(medium, int) and medium > busy:
        problems.append(Problem("jitter.medium", f"found {medium}", f"at most jitter.busy, {busy}"))
    return problems


def _agent_rules(agent: dict[str, Any], at: str, seen: dict[str, int], index: int) -> list[Problem]:
    problems: list[Problem] = []

    def refuse(key: str, found: str, allowed: str = "", hint: str = "") -> None:
        problems.append(Problem(f"{at}.{key}", found, allowed, hint))

    name, kind = agent.get("name"), agent.get("kind", "command")
    if isinstance(name, str):
        rule = "A-Z, 0-9, _ and -, a letter first, 32 at most"
        # Not bent into upper case: a name is a speaker's tag, and must be greppable as it stands here.
        if not AGENT_NAME.fullmatch(name):
            fits = AGENT_NAME.fullmatch(name.upper())
            refuse("name", f'found "{name[:40]}"', rule, f'write "{name.upper()}"' if fits else "")
        elif name in RESERVED_NAMES:
            refuse("name", f'found "{name}", which is reserved', rule)
        elif name in seen:
            refuse("name", f'found "{name}", the name of agents[{seen[name]}] too', "a name of its own")
        seen.setdefault(name, index)
    for key in ("model", "effort"):
        value = agent.get(key)
        # They become words of a command line and lines of a log.
        if isinstance(value, str) and not value.isprintable():
            refuse(key, f"found {json.dumps(value[:40])}", "text without line breaks and control characters")
    if kind in ("command", "acp") and not agent.get("preset") and not agent.get("cmd"):
        refuse("cmd", "is missing", "a program, or a preset", 'give "preset" or "cmd"')
    if agent.get("preset") and agent.get("cmd"):
        refuse("cmd", "found beside a preset", "a program, or a preset", 'take out "preset" or "cmd"')
    if kind not in ("command", "acp") and agent.get("preset"):
        refuse("preset", f'found with kind "{kind}"', 'only with kind "command" or "acp"')
    if kind == "ollama" and not agent.get("model"):
        refuse("model", "is missing", 'with kind "ollama": the name of an Ollama model')
    if kind == "scripted" and not agent.get("script"):
        refuse("script", "is missing", 'with kind "scripted": the path of a YAML file')
    return problems


@dataclass(frozen=True, slots=True)
class Change:
    """One key that differs, agents by name: `agents.CLAUDE.model`; None stands for an agent not there."""

    key: str
    old: Any
    new: Any


@dataclass(frozen=True, slots=True)
class Changes:
    """What differs between two settings: `live` applies while the daemon runs, `restart` does not."""

    live: tuple[Change, ...] = ()
    restart: tuple[Change, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.live or self.restart)


#: Sections that the daemon takes over while it runs.
LIVE = ("agents", "jitter", "dispatcher", "airspace")


def diff(old: Settings, new: Settings) -> Changes:
    """What changed from `old` to `new`, in the order of the keys; where the file is does not count."""
    live: list[Change] = []
    restart: list[Change] = []
    for each in fields(Settings):
        if each.name == "path":
            continue
        before, after = getattr(old, each.name), getattr(new, each.name)
        if each.name == "agents":
            before, after = ({agent.name: agent for agent in agents} for agents in (before, after))
        (live if each.name in LIVE else restart).extend(_changes(each.name, before, after))
    return Changes(tuple(live), tuple(restart))


def _changes(key: str, before: Any, after: Any) -> list[Change]:
    if before == after:
        return []
    if isinstance(before, dict) and isinstance(after, dict):
        names = [*before, *(name for name in after if name not in before)]
        return [one for name in names for one in _changes(f"{key}.{name}", before.get(name), after.get(name))]
    if is_dataclass(before) and type(before) is type(after):
        return [
            one
            for each in fields(before)
            for one in _changes(f"{key}.{each.name}", getattr(before, each.name), getattr(after, each.name))
        ]
    return [Change(key, before, after)]


def update_agent(path: str | os.PathLike[str], name: str, changes: Mapping[str, Any]) -> Settings:
    """Change keys of one agent in the file, and give the new settings; None takes a key out.

    Every other byte stays; the file is replaced in one step. Raises ConfigError, and writes nothing, when
    the file or the result is not a good configuration, KeyError when it has no agent of that name, OSError.
    Blocks: call it in a thread.
    """
    at = Path(path).absolute()
    real = at.resolve()  # a link to a configuration stays a link
    # Read and written under one lock: of two that change it at once, the second builds on the first.
    with alone_in(real.parent):
        text = _text_of(at)
        settings = parse(text, at)
        names = [agent.name for agent in settings.agents]
        if name not in names:
            raise KeyError(name)
        changed = jsonc.change_object(text, ("agents", names.index(name)), changes)
        settings = parse(changed, at)
        write_atomically(real, changed, real.stat().st_mode & 0o777)
    return settings


def markdown_table() -> str:
    """Every key as a table in Markdown; the text of docs/configuration.md between its marks."""
    lines = ["| key | allowed | default | meaning |", "|---|---|---|---|"]
    for key in table(Settings):
        allowed = key.kind.replace("|", "\\|")
        live = "live" if key.path.split("[")[0].split(".")[0] in LIVE else "restart"
        lines.append(f"| `{key.path}` | {allowed} | `{key.default}` | {key.meaning} | {live} |")
    lines[0], lines[1] = lines[0] + " a change applies |", lines[1] + "---|"
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    if sys.argv[1:] != ["--table"]:
        print("usage: python -m relay.config.settings --table", file=sys.stderr)
        raise SystemExit(2)
    print(markdown_table(), end="")
