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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

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

    `sign_in`: what a person runs to sign in. `words`: what its command line begins with; `modes`: how it is told what
    it may do. `options` and `resume` (for a turn that goes on in a conversation) are templates, as `cmd` is one;
    `last` ends the line. `guard`, `mcp`: how it is told of the hook and of the room's tools; None = elsewhere than on
    its command line. `check`: arguments that print whether one is signed in, for a program that cannot tell from its
    own failure; not asked when a variable of `keys` is set. `cumulative`: its usage counts the whole conversation,
    not one turn. `framed`: how the prompt is written to standard input.
    """

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
    framed: Callable[[str], str] = str

    def arguments(self, call: Call, own: Sequence[str] = ()) -> list[str]:
        """The command line behind the program; `own`: the arguments that a person has configured."""
        arguments = [*self.words, *self.modes[call.permissions]]
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


def agy_message(prompt: str) -> str:
    """One line of its stream of input; the end of the input ends the conversation's process."""
    content = [{"type": "text", "text": prompt}]
    return json.dumps({"event": "user", "message": {"role": "user", "content": content}}) + "\n"


PRESETS = {
    "claude": Preset(
        program="claude",
        install=PROGRAMS["claude"].install,
        sign_in=PROGRAMS["claude"].sign_in,
        env_prefixes=("ANTHROPIC_", "CLAUDE_"),
        words=("-p", "--output-format", "stream-json", "--verbose", "--include-partial-messages"),
        # `dontAsk` refuses what would need a person's consent; the tools that write are taken away besides, so that
        # no rule in the user's own settings hands them back. Nobody sits there to be asked.
        modes=modes(
            "--permission-mode dontAsk --disallowedTools Edit,Write,NotebookEdit --permission-prompts none",
            "--permission-mode acceptEdits --permission-prompts none",
            "--dangerously-skip-permissions",
        ),
        guard=hooks.claude_arguments,
        mcp=mcp.claude_arguments,
        options=("--model", "{model}", "--effort", "{effort}", "--resume", "{session}"),
    ),
    "codex": Preset(
        program="codex",
        install=PROGRAMS["codex"].install,
        sign_in=PROGRAMS["codex"].sign_in,
        env_prefixes=("OPENAI_", "CODEX_"),
        words=("exec", "--json", "--skip-git-repo-check", "--color", "never"),
        modes=modes(
            "--sandbox read-only",
            "--sandbox workspace-write",
            "--dangerously-bypass-approvals-and-sandbox",
        ),
        guard=hooks.codex_arguments,
        mcp=mcp.codex_arguments,
        options=("--model", "{model}", "--config", 'model_reasoning_effort="{effort}"'),
        # `resume` knows no --sandbox of its own: options stand before it. `-` reads the prompt from stdin.
        resume=("resume", "{session}"),
        last=("-",),
        keys=("CODEX_API_KEY", "OPENAI_API_KEY"),
        check=("login", "status"),
        cumulative=True,
    ),
    "gemini": Preset(
        program="gemini",
        install=PROGRAMS["gemini"].install,
        sign_in=PROGRAMS["gemini"].sign_in,
        env_prefixes=("GEMINI_", "GOOGLE_"),
        # An untrusted folder would end a run without a terminal; the approval mode still holds.
        words=("--output-format", "stream-json", "--skip-trust"),
        # Without a terminal, `default` takes away every tool that would need a person's consent. `plan` is read-only
        # too, but makes the model write a plan instead of an answer.
        modes=modes("--approval-mode default", "--approval-mode auto_edit", "--approval-mode yolo"),
        options=("--model", "{model}", "--resume", "{session}"),
        sign_in_codes=frozenset({41}),
    ),
    # Of agy 1.2. No `-p`, which takes the prompt as its argument: `--input-format` reads it from standard input.
    "agy": Preset(
        program="agy",
        install=PROGRAMS["agy"].install,
        sign_in=PROGRAMS["agy"].sign_in,
        env_prefixes=("ANTIGRAVITY_", "AGY_", "GEMINI_", "GOOGLE_"),
        # It would end a turn after 5 minutes, as if it were done; and work in a folder of its own.
        words=(
            *("--input-format", "stream-json", "--output-format", "stream-json"),
            *("--print-timeout", "24h", "--add-dir", "."),
        ),
        # Its own default is what the user's settings say; what would need a person's consent is refused.
        modes=modes("--mode plan", "--mode accept-edits", "--dangerously-skip-permissions"),
        options=("--model", "{model}", "--effort", "{effort}", "--conversation", "{session}"),
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
