"""The command lines of the programs that relay knows, and those of any other by template.

Invariant: how much a program may do to files is said on every command line, never left to its own default;
the flag that skips all checks appears only for `Permissions.SKIP_ALL_CHECKS`. A prompt is never an argument.
Each flag and value of claude, codex and gemini is looked up in the real programs by
`tests/agents/test_real_agents.py`; agy, which no registry has, was not run: docs/agents.md says where its flags
come from.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from relay.agents.setup import hooks, mcp
from relay.agents.setup.hooks import GuardHook
from relay.agents.setup.mcp import McpServer
from relay.agents.setup.spec import AgentSpec, Permissions, SpecError
from relay.model import PROGRAMS


@dataclass(frozen=True, slots=True)
class Call:
    """What a command line depends on. `session`: the program's own conversation id to resume, or None.

    `guard`: the hook that asks before each edit; None in a turn that cannot edit. `mcp`: where its tools of the room
    come from.
    """

    permissions: Permissions
    model: str | None = None
    effort: str | None = None
    session: str | None = None
    guard: GuardHook | None = None
    mcp: McpServer | None = None


@dataclass(frozen=True, slots=True)
class Preset:
    """A program that relay knows.

    `sign_in`: what a person runs to sign in. `check`: arguments that print whether one is signed in, for a
    program that cannot tell from its own failure; not asked when a variable of `keys` is set.
    `cumulative`: its usage counts the whole conversation, not one turn.
    """

    program: str
    arguments: Callable[[Call], list[str]]
    install: str
    sign_in: str
    env_prefixes: tuple[str, ...]
    keys: tuple[str, ...] = ()
    check: tuple[str, ...] = ()
    sign_in_codes: frozenset[int] = frozenset()
    cumulative: bool = False
    #: How the prompt is written to standard input.
    framed: Callable[[str], str] = str


def claude_arguments(call: Call) -> list[str]:
    modes = {
        # `dontAsk` refuses what would need a person's consent; the tools that write are taken away besides,
        # so that no rule in the user's own settings hands them back.
        Permissions.READ_ONLY: [
            "--permission-mode",
            "dontAsk",
            "--disallowedTools",
            "Edit,Write,NotebookEdit",
        ],
        Permissions.EDIT: ["--permission-mode", "acceptEdits"],
        Permissions.SKIP_ALL_CHECKS: ["--dangerously-skip-permissions"],
    }
    arguments = ["-p", "--output-format", "stream-json", "--verbose", "--include-partial-messages"]
    arguments += modes[call.permissions]
    if call.permissions is not Permissions.SKIP_ALL_CHECKS:
        arguments += ["--permission-prompts", "none"]  # nobody sits there to be asked
    if call.guard is not None:
        arguments += hooks.claude_arguments(call.guard)
    if call.mcp is not None:
        arguments += mcp.claude_arguments(call.mcp)
    if call.model:
        arguments += ["--model", call.model]
    if call.effort:
        arguments += ["--effort", call.effort]
    if call.session:
        arguments += ["--resume", call.session]
    return arguments


def codex_arguments(call: Call) -> list[str]:
    modes = {
        Permissions.READ_ONLY: ["--sandbox", "read-only"],
        Permissions.EDIT: ["--sandbox", "workspace-write"],
        Permissions.SKIP_ALL_CHECKS: ["--dangerously-bypass-approvals-and-sandbox"],
    }
    arguments = ["exec", "--json", "--skip-git-repo-check", "--color", "never", *modes[call.permissions]]
    if call.guard is not None:
        arguments += hooks.codex_arguments(call.guard)
    if call.mcp is not None:
        arguments += mcp.codex_arguments(call.mcp)
    if call.model:
        arguments += ["--model", call.model]
    if call.effort:
        arguments += ["--config", f'model_reasoning_effort="{call.effort}"']
    # `resume` knows no --sandbox of its own: options stand before it. `-` reads the prompt from stdin.
    return [*arguments, *(["resume", call.session] if call.session else []), "-"]


def gemini_arguments(call: Call) -> list[str]:
    modes = {
        # Without a terminal, `default` takes away every tool that would need a person's consent. `plan` is
        # read-only too, but makes the model write a plan instead of an answer.
        Permissions.READ_ONLY: ["--approval-mode", "default"],
        Permissions.EDIT: ["--approval-mode", "auto_edit"],
        Permissions.SKIP_ALL_CHECKS: ["--approval-mode", "yolo"],
    }
    # An untrusted folder would end a run without a terminal; the approval mode still holds.
    arguments = ["--output-format", "stream-json", "--skip-trust", *modes[call.permissions]]
    if call.model:
        arguments += ["--model", call.model]
    if call.session:
        arguments += ["--resume", call.session]
    return arguments


def agy_arguments(call: Call) -> list[str]:
    """Of agy 1.2. No `-p`, which takes the prompt as its argument: `--input-format` reads it from standard input."""
    modes = {
        # Its own default is what the user's settings say; what would need a person's consent is refused.
        Permissions.READ_ONLY: ["--mode", "plan"],
        Permissions.EDIT: ["--mode", "accept-edits"],
        Permissions.SKIP_ALL_CHECKS: ["--dangerously-skip-permissions"],
    }
    arguments = ["--input-format", "stream-json", "--output-format", "stream-json"]
    # It would end a turn after 5 minutes, as if it were done; and work in a folder of its own.
    arguments += ["--print-timeout", "24h", "--add-dir", ".", *modes[call.permissions]]
    if call.model:
        arguments += ["--model", call.model]
    if call.effort:
        arguments += ["--effort", call.effort]
    if call.session:
        arguments += ["--conversation", call.session]
    return arguments


def agy_message(prompt: str) -> str:
    """One line of its stream of input; the end of the input ends the conversation's process."""
    content = [{"type": "text", "text": prompt}]
    return json.dumps({"event": "user", "message": {"role": "user", "content": content}}) + "\n"


PRESETS = {
    "claude": Preset(
        program="claude",
        arguments=claude_arguments,
        install=PROGRAMS["claude"].install,
        sign_in=PROGRAMS["claude"].sign_in,
        env_prefixes=("ANTHROPIC_", "CLAUDE_"),
    ),
    "codex": Preset(
        program="codex",
        arguments=codex_arguments,
        install=PROGRAMS["codex"].install,
        sign_in=PROGRAMS["codex"].sign_in,
        env_prefixes=("OPENAI_", "CODEX_"),
        keys=("CODEX_API_KEY", "OPENAI_API_KEY"),
        check=("login", "status"),
        cumulative=True,
    ),
    "gemini": Preset(
        program="gemini",
        arguments=gemini_arguments,
        install=PROGRAMS["gemini"].install,
        sign_in=PROGRAMS["gemini"].sign_in,
        env_prefixes=("GEMINI_", "GOOGLE_"),
        sign_in_codes=frozenset({41}),
    ),
    "agy": Preset(
        program="agy",
        arguments=agy_arguments,
        install=PROGRAMS["agy"].install,
        sign_in=PROGRAMS["agy"].sign_in,
        env_prefixes=("ANTIGRAVITY_", "AGY_", "GEMINI_", "GOOGLE_"),
        framed=agy_message,
    ),
}

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
