"""How each program that relay knows is told, for one turn, to ask the room before it edits a file.

Invariant: what the user has set up for a program stays as it is, on disk and in effect: the hook is handed over with
the turn's command line, or in a file of ours that the program reads beneath the user's own settings. Pure but for
`with_ours`, `gemini_file` and `gemini_environment`.

Seen in Claude Code 2.1.330, Codex 0.169.0 and Gemini CLI 0.61.0; `tests/agents/test_real_guard.py` sees it again.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from relay.agents.setup.mcp import NAME, McpServer, gemini_entry
from relay.base.files import write_atomically

#: Seconds after which a program gives a hook up; the hook itself takes two at most (relay/app/guard/hook.py).
HOOK_S = 5
#: The tools that change the file they name, and the shell.
CLAUDE_TOOLS = "Edit|Write|MultiEdit|NotebookEdit|Bash"
CODEX_TOOLS = "^(apply_patch|Bash)$"
GEMINI_TOOLS = "^(write_file|replace|run_shell_command)$"
#: Where Codex says that hooks of its command line come from; the first of the first group.
CODEX_KEY = "/<session-flags>/config.toml:pre_tool_use:0:0"
GEMINI_VARIABLE = "GEMINI_CLI_SYSTEM_DEFAULTS_PATH"


@dataclass(frozen=True, slots=True)
class GuardHook:
    """`command`: the hook's argument list, to which its format is added. `folder`: for files of ours, which need
    not exist yet."""

    command: tuple[str, ...]
    folder: Path

    def line(self, form: str) -> str:
        """The hook as a line of a shell, which all programs want."""
        return shlex.join([*self.command, "--format", form])

    def told(self, form: str) -> str:
        """The hook that tells its agent after a tool what is urgent (relay/app/guard/told_hook.py)."""
        words = ["told" if word == "hook" else word for word in self.command]
        return shlex.join([*words, "--format", form])


def claude_arguments(hook: GuardHook) -> list[str]:
    """`--settings` is read on top of the user's own settings; hooks of all of them run."""
    run = {"type": "command", "command": hook.line("claude"), "timeout": HOOK_S}
    told = {"type": "command", "command": hook.told("claude"), "timeout": HOOK_S}
    hooks = {
        "PreToolUse": [{"matcher": CLAUDE_TOOLS, "hooks": [run]}],
        "PostToolUse": [{"matcher": "*", "hooks": [told]}],
    }
    return ["--settings", json.dumps({"hooks": hooks})]


def codex_arguments(hook: GuardHook) -> list[str]:
    """The hook, and that this very hook is trusted: Codex runs no hook that nobody has looked at, and its flag
    that lifts this would lift it for the hooks of any project too.

    Codex knows a hook by the SHA-256 of its settings as JSON, keys sorted, without blanks; `hooks/list` of its
    app server shows key and hash (0.169.0).
    """
    command = hook.line("codex")
    seen = {
        "event_name": "pre_tool_use",
        "hooks": [{"async": False, "command": command, "timeout": HOOK_S, "type": "command"}],
        "matcher": CODEX_TOOLS,
    }
    digest = sha256(json.dumps(seen, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode())
    run = f'{{type="command",command={_toml(command)},timeout={HOOK_S}}}'
    trusted = f'{{{_toml(CODEX_KEY)}={{trusted_hash="sha256:{digest.hexdigest()}"}}}}'
    return [
        "--config",
        f"hooks.PreToolUse=[{{matcher={_toml(CODEX_TOOLS)},hooks=[{run}]}}]",
        "--config",
        f"hooks.state={trusted}",
    ]


def _toml(text: str) -> str:
    """A basic string of TOML, whose escapes are those of JSON."""
    return json.dumps(text, ensure_ascii=False)


def rooted(folder: Path) -> bool:
    """Would Gemini CLI read a file of system settings in this folder? Only where root alone can write, all the way
    up (`isFileAndDirectorySecureSync` in 0.61.0). Blocking."""
    if os.geteuid() != 0:
        return False
    at = folder.resolve()
    above = [place for place in (at, *at.parents) if place.exists()]
    return all((stat := place.stat()).st_uid == 0 and not stat.st_mode & 0o022 for place in above)


def gemini_file(
    hook: GuardHook | None, agent: str, env: Mapping[str, str], folder: Path, mcp: McpServer | None = None
) -> Path | None:
    """A file of system defaults, in `folder`, with the hook and the room's server, beneath the user's own settings.
    Blocking.

    Holds what the machine's own file of system defaults says, since ours takes its place; None when that cannot
    be read, and then it stays in its place. Raises OSError.
    """
    system = "/Library/Application Support/GeminiCli" if sys.platform == "darwin" else "/etc/gemini-cli"
    own = env.get("GEMINI_CLI_SYSTEM_SETTINGS_PATH")
    machine = Path(own).parent if own else Path(system)
    before = Path(env.get(GEMINI_VARIABLE) or machine / "system-defaults.json")
    hooks: dict[str, dict[str, Any]] = {}
    if hook is not None:
        run = {
            "name": "relay-guard",
            "type": "command",
            "command": hook.line("gemini"),
            "timeout": HOOK_S * 1000,
        }
        told = {**run, "name": "relay-told", "command": hook.told("gemini")}
        hooks = {"BeforeTool": {"matcher": GEMINI_TOOLS, "hooks": [run]}, "AfterTool": {"hooks": [told]}}
    return with_ours(before, folder / f"gemini-{agent}.json", hooks, mcp)


def with_ours(
    before: Path, path: Path, hooks: Mapping[str, dict[str, Any]], mcp: McpServer | None = None
) -> Path | None:
    """A file of settings at `path`: what the file `before` says, with one group more for each event of `hooks`, and
    with the room's server. Blocking.

    None when `before` cannot be read, and then it stays in its place. Raises OSError.
    """
    try:
        settings = json.loads(before.read_text("utf-8"))
        groups = {event: list(settings.get("hooks", {}).get(event, [])) for event in hooks}
        servers = dict(settings.get("mcpServers", {}))
    except FileNotFoundError:
        settings, groups, servers = {}, {event: [] for event in hooks}, {}
    except (OSError, ValueError, AttributeError, TypeError):
        return None  # a comment in it, say
    content: dict[str, Any] = dict(settings)
    if hooks:
        more = {event: [*groups[event], group] for event, group in hooks.items()}
        content["hooks"] = {**settings.get("hooks", {}), **more}
    if mcp is not None:
        content["mcpServers"] = {**servers, NAME: gemini_entry(mcp)}
    text = json.dumps(content, indent=1) + "\n"
    path = path.parent.resolve() / path.name
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not path.exists() or path.read_text("utf-8") != text:
        write_atomically(path, text, durable=False)
    return path


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the environment of one turn is made from. `env`: as it would be; `folder`: for files of ours, None = the
    hook's."""

    agent: str
    env: dict[str, str]
    hook: GuardHook | None = None
    folder: Path | None = None
    mcp: McpServer | None = None


async def gemini_environment(around: Surroundings) -> tuple[dict[str, str], str]:
    """The environment of one turn, and a line for the agent's log when its edits go unguarded, or when the room's
    tools are missing."""
    hook, env = around.hook, around.env
    folder = hook.folder if around.folder is None and hook is not None else around.folder
    if folder is None or (hook is None and around.mcp is None):
        return env, ""
    what = "edits are not guarded" if hook is not None else "the room's tools are missing"
    try:
        if not await asyncio.to_thread(rooted, folder):
            return env, (
                f"{what}: Gemini CLI takes settings from a command's caller only in files that belong to root; "
                "`kind: acp` has both"
            )
        path = await asyncio.to_thread(gemini_file, hook, around.agent, env, folder, around.mcp)
    except OSError as error:
        return env, f"{what}: {error}"
    if path is None:
        return env, f"{what}: the file of system defaults of Gemini CLI is not plain JSON"
    return {**env, GEMINI_VARIABLE: str(path)}, ""
