"""What relay has to know of a program to run it, and the command lines of any other program by template.

Invariant: how much a program may do to files is said on every command line, never left to its own default;
the flag that skips all checks appears only for `Permissions.SKIP_ALL_CHECKS`. A prompt is never an argument.
Each flag and value of a program with a `seen` is looked up in the real one by `tests/agents/test_real_agents.py`.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from relay.agents.process.session import Session
from relay.agents.process.stream import Stream
from relay.agents.setup.hooks import GuardHook, Surroundings
from relay.agents.setup.mcp import McpServer, ServersFile
from relay.agents.setup.spec import AgentSpec, Permissions, SpecError
from relay.model import Channel


@dataclass(frozen=True, slots=True)
class Call:
    """What a command line depends on. `session`: the program's own conversation id to resume, or None.

    `guard`: the hook that asks before each edit; None in a turn that cannot edit. `mcp`: where its tools of the room
    come from. `route`: the words of the way by which it hears what it is told.
    """

    permissions: Permissions
    model: str | None = None
    effort: str | None = None
    session: str | None = None
    guard: GuardHook | None = None
    mcp: McpServer | None = None
    route: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Route:
    """A way by which a program hears what it is told while it works.

    `channel`: as people read of it. `help`: words that the program's own `--help` has where it knows the way.
    `words`: what its command line has for it, behind `Preset.words`. `session`: speaks it for one turn. `asks`: it
    asks before each edit this way, too, and needs no hook (`Preset.guard`) for that.
    """

    channel: Channel
    help: tuple[str, ...]
    words: tuple[str, ...]
    session: Callable[[], Session]
    asks: bool = False


@dataclass(frozen=True, slots=True)
class Preset:
    """A program that relay knows: all that is known of it. Each stands in a module of `relay.agents.programs`.

    `title`: what people call it. `seen`: the version that relay was tested with, empty for one that was never run.
    `install`, `sign_in`: what a person runs to have it, and to sign in. `about`: one line for the dispatcher on what
    it is good at. `env_prefixes`: the variables of the daemon that it gets. `words`: what its command line begins
    with; `modes`: how it is told what it may do. `options` and `resume` (for a turn that goes on in a conversation)
    are templates, as `cmd` is one; `last` ends the line. `guard`, `mcp`: how it is told of the hook and of the room's
    tools; None = elsewhere than on its command line; `environment`: how it is told by its environment instead, with a
    line for the agent's log when it cannot be. `guarded`: it asks before each edit, wherever it runs. `check`:
    arguments that print whether one is signed in, for a program that cannot tell from its own failure; not asked when
    a variable of `keys` is set. `cumulative`: its usage counts the whole conversation, not one turn. `stream`: reads
    what it prints. `app_server`: it may have Codex' app-server, which is then used. `routes`: the ways by which it
    hears what it is told while it works, the best one first; `deaf`: why it hears nothing where it knows none of
    them. `acp`: how it speaks the Agent Client Protocol, None = not. `servers`: where it keeps its MCP servers, for
    `relay mcp install`, None = not known.
    """

    title: str
    program: str
    install: str
    sign_in: str
    env_prefixes: tuple[str, ...]
    modes: Mapping[Permissions, tuple[str, ...]]
    words: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    resume: tuple[str, ...] = ()
    last: tuple[str, ...] = ()
    guard: Callable[[GuardHook], list[str]] | None = None
    mcp: Callable[[McpServer], list[str]] | None = None
    keys: tuple[str, ...] = ()
    check: tuple[str, ...] = ()
    sign_in_codes: frozenset[int] = frozenset()
    cumulative: bool = False
    environment: Callable[[Surroundings], Awaitable[tuple[dict[str, str], str]]] | None = None
    guarded: bool = False
    about: str = ""
    seen: str = ""
    stream: Callable[[], Stream] = Stream
    app_server: bool = False
    routes: tuple[Route, ...] = ()
    deaf: str = ""
    acp: AcpPreset | None = None
    servers: ServersFile | None = None

    def arguments(self, call: Call, own: Sequence[str] = ()) -> list[str]:
        """The command line behind the program; `own`: the arguments that a person has configured."""
        arguments = [*self.words, *call.route, *self.modes[call.permissions]]
        if self.guard is not None and call.guard is not None:
            arguments += self.guard(call.guard)
        if self.mcp is not None and call.mcp is not None:
            arguments += self.mcp(call.mcp)
        resume = self.resume if call.session else ()
        return [
            *arguments,
            *fill_template(self.options, call),
            *own,
            *fill_template(resume, call),
            *self.last,
        ]


@dataclass(frozen=True, slots=True)
class AcpPreset:
    """How a program speaks the Agent Client Protocol (`relay/agents/acp`).

    `modes`: its own session mode for each permission, always one in which it asks before it edits. `fs_read`: it
    may read files through us. `chosen`: what is chosen by a session's options.
    """

    preset: Preset
    modes: Mapping[Permissions, str] = field(default_factory=dict)
    fs_read: bool = True
    chosen: tuple[str, ...] = ("model", "thought_level")


def modes(read_only: str, edit: str, skip_all_checks: str) -> dict[Permissions, tuple[str, ...]]:
    """The words of a command line for each permission of a turn."""
    return {
        Permissions.READ_ONLY: tuple(read_only.split()),
        Permissions.EDIT: tuple(edit.split()),
        Permissions.SKIP_ALL_CHECKS: tuple(skip_all_checks.split()),
    }


#: What a program may do is said by its session's mode (ACP), not on its command line.
NO_WORDS = modes("", "", "")


def asking(mode: str, skip: str) -> dict[Permissions, str]:
    """`mode` is the one in which the program asks before each edit; `skip` the one without any check."""
    return {Permissions.READ_ONLY: mode, Permissions.EDIT: mode, Permissions.SKIP_ALL_CHECKS: skip}


PLACEHOLDERS = ("model", "effort", "session", "permissions")
_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")


def check_template(spec: AgentSpec) -> None:
    """Raise SpecError for a placeholder that does not exist."""
    for argument in spec.cmd:
        for name in _PLACEHOLDER.findall(argument):
            if name not in PLACEHOLDERS:
                allowed = ", ".join(f"{{{each}}}" for each in PLACEHOLDERS)
                raise SpecError(
                    f"agent {spec.name}: cmd has the unknown placeholder {{{name}}}; allowed: {allowed}"
                )
    if _PLACEHOLDER.search(spec.cmd[0]):
        raise SpecError(f"agent {spec.name}: the first entry of cmd is the program and takes no placeholder")


def fill_template(cmd: Sequence[str], call: Call) -> list[str]:
    """`cmd` with its placeholders filled.

    An argument in which a placeholder has no value is left out; so is the argument before it, when that is a
    flag of its own (it begins with `-` and holds no `=` and no placeholder).
    """
    values = {
        "model": call.model or "",
        "effort": call.effort or "",
        "session": call.session or "",
        "permissions": str(call.permissions),
    }
    filled: list[str] = []
    bare_flag = False  # is the last entry of `filled` a flag that the next argument may be the value of?
    for argument in cmd:
        names = _PLACEHOLDER.findall(argument)
        if any(not values[name] for name in names):
            if bare_flag:
                filled.pop()
            bare_flag = False
            continue
        filled.append(_PLACEHOLDER.sub(lambda match: values[match[1]], argument))
        bare_flag = argument.startswith("-") and "=" not in argument and not names
    return filled
