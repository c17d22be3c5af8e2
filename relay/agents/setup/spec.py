"""What an agent is, as its configuration says it.

Invariant: an `AgentSpec` that exists is complete and consistent; what is wrong with it is said when it is
made, in words that name the agent and the key, and never when a turn is already waiting.
"""

from __future__ import annotations

import difflib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from pathlib import Path

from relay.agents.setup.hooks import GuardHook
from relay.agents.setup.mcp import McpServer
from relay.model import Turn


class SpecError(ValueError):
    """An agent's configuration, or its script, cannot work; the message says where and what is allowed."""


class Permissions(StrEnum):
    """What an agent may do to files. `AUTO` edits only in a turn that has a worktree of its own."""

    AUTO = "auto"
    READ_ONLY = "read-only"
    EDIT = "edit"
    SKIP_ALL_CHECKS = "skip-all-checks"

    def for_turn(self, may_edit: bool) -> Permissions:
        """The permission of one turn: never `AUTO`."""
        if self is Permissions.AUTO:
            return Permissions.EDIT if may_edit else Permissions.READ_ONLY
        return self


@cache
def preset_names() -> tuple[str, ...]:
    """The programs that relay knows, by their names in the configuration: the modules of `relay.agents.programs`,
    which are not imported for this."""
    folder = Path(__file__).parents[1] / "programs"
    return tuple(sorted(module.name for module in pkgutil.iter_modules([str(folder)]) if not module.ispkg))


def _known(where: str, key: str, value: str, names: tuple[str, ...]) -> None:
    if value not in names:
        near = difflib.get_close_matches(value, names, 1)
        hint = f"; nearest: {near[0]!r}" if near else ""
        raise SpecError(f"{where}: {key} is {value!r}; allowed: {', '.join(names)}{hint}")


@dataclass(frozen=True, slots=True)
class AgentSpec:
    """One configured agent, of the kind `command`, `acp` or `scripted`.

    `command` and `acp` take either `preset` or `cmd` (an argument list with placeholders, `docs/agents.md`); `args`
    are appended to a preset's own. `output` is the stream format that `cmd` prints. `timeout_s`: seconds for
    a whole turn, None = what the turn says. `cwd`: where it works when the turn names no folder. `script`:
    the YAML file of a scripted agent. `guard`: what a preset's program runs before each edit; None = nothing.
    `mcp`: the server that a preset's program, or one of the kind `acp`, has the room's tools from; None = none.
    `permission_timeout_s`: seconds that a person has to answer what an agent of the kind `acp` asks. `key`: gives the
    agent's own key of the room when a turn begins, empty for none.
    """

    name: str
    kind: str = "command"
    preset: str | None = None
    cmd: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    model: str | None = None
    effort: str | None = None
    timeout_s: float | None = None
    cwd: Path = field(default_factory=Path.cwd)
    env: Mapping[str, str] = field(default_factory=dict)
    script: Path | None = None
    permissions: Permissions = Permissions.AUTO
    output: str = "text"
    guard: GuardHook | None = None
    mcp: McpServer | None = None
    permission_timeout_s: float = 120.0
    key: Callable[[], str] = str

    def __post_init__(self) -> None:
        where = f"agent {self.name}"
        if not self.name:
            raise SpecError("an agent needs a name")
        if self.kind == "scripted":
            if self.script is None:
                raise SpecError(f"{where}: kind scripted needs `script`, the path of its YAML file")
            return
        if self.kind not in ("command", "acp"):
            raise SpecError(f"{where}: kind is {self.kind!r}; here it is one of command, acp, scripted")
        if (self.preset is None) == (not self.cmd):
            raise SpecError(f"{where}: give either `preset` ({', '.join(preset_names())}) or `cmd`")
        if self.preset is not None:
            _known(where, "preset", self.preset, preset_names())
        _known(where, "output", self.output, ("text", *preset_names()))
        if self.timeout_s is not None and self.timeout_s <= 0:
            raise SpecError(f"{where}: timeout_s is {self.timeout_s}; it must be above 0")

    def limit_s(self, turn: Turn) -> float:
        """Seconds that the agent has for this turn."""
        most = turn.limits.timeout_s
        return most if self.timeout_s is None else min(most, self.timeout_s)
