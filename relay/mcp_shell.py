"""The name of an agent for the shells that its program opens, in the program's own settings: git's hooks ask for it.

Invariants: whatever else stands in a file stays as it is; a result that does not read back as what was wanted is
refused (`CannotEdit`), and then nothing is written. The variable is none that says who speaks over MCP: an agent that
the room starts in the same folder has RELAY_AGENT_ID, and that one counts first, while a value in the settings would
take its place.

Where a program takes variables for its shells: Claude Code `env` of its settings; Codex `set` of its
`shell_environment_policy` (inserted after `exclude`, filtered by `include_only`); Gemini CLI the first `.env` that it
finds and no other, so that a new one would hide its user's own (docs/mcp.md).
"""

from __future__ import annotations

import fnmatch
import json
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from relay import config_file
from relay.mcp_files import CannotEdit

#: Whose shell it is, where neither RELAY_AGENT_ID nor RELAY_API_KEY says so.
VARIABLE = "RELAY_SHELL_AGENT"
_LINE = re.compile(rf"\s*(export\s+)?{VARIABLE}\s*=.*")
_POLICY, _SET = "shell_environment_policy", "set"
_TABLE = re.compile(rf"\s*\[\s*{_POLICY}\s*\.\s*{_SET}\s*\]\s*(#.*)?")


@dataclass(frozen=True, slots=True)
class Shell:
    """The file of a program that gives its shells their variables. `form`: json | toml | env."""

    path: Path
    form: str


def settings_of(program: str, scope: str, project: Path, home: Path, of_mcp: Path) -> Shell:
    """`of_mcp`: the file with the server's entry."""
    own = scope == "user"
    if program == "claude":
        # Beside ~/.claude.json stands ~/.claude; CLAUDE_CONFIG_DIR is both.
        folder = home / ".claude" if own and of_mcp.parent == home else of_mcp.parent
        return Shell(folder / "settings.json" if own else project / ".claude" / "settings.local.json", "json")
    if program == "codex":
        return Shell(of_mcp, "toml")
    return Shell((home if own else project) / ".gemini" / ".env", "env")


def with_name(form: str, text: str, name: str | None) -> str:
    """`text` with the variable (None: without it); `text` itself when it says that already. Raises CannotEdit."""
    return {"json": _json, "toml": _toml, "env": _env}[form](text, name)


def _json(text: str, name: str | None) -> str:
    try:
        tree = config_file.parse(text) if text.strip() else {}
    except config_file.JsonError as error:
        raise CannotEdit(f"it is not plain JSON: {error}") from None
    env = tree.get("env", {}) if isinstance(tree, dict) else None
    if not isinstance(env, dict):
        raise CannotEdit("its env is no object")
    if env.get(VARIABLE) == name:
        return text
    if not text.strip():
        return json.dumps({"env": {VARIABLE: name}}, indent=2, ensure_ascii=False) + "\n"
    if name is None and len(env) == 1:
        return config_file.change_object(text, (), {"env": None})
    if "env" in tree:
        return config_file.change_object(text, ("env",), {VARIABLE: name})
    return config_file.change_object(text, (), {"env": {VARIABLE: name}})


def _toml(text: str, name: str | None) -> str:
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise CannotEdit(f"it is not TOML: {error}") from None
    policy = tree.get(_POLICY, {})
    there = policy.get(_SET, {}) if isinstance(policy, dict) else None
    if not isinstance(there, dict):
        raise CannotEdit(f"its {_POLICY} is no table")
    only = policy.get("include_only") or []
    if name is not None and only and not any(_matches(one) for one in only):
        raise CannotEdit(f"its {_POLICY}.include_only leaves {VARIABLE} out")
    if there.get(VARIABLE) == name:
        return text
    lines = [line for line in text.splitlines(keepends=True) if not _LINE.fullmatch(line.rstrip("\r\n"))]
    at = next((i for i, line in enumerate(lines) if _TABLE.fullmatch(line.rstrip("\r\n"))), None)
    if name is None:
        if at is not None and not set(there) - {VARIABLE} and not "".join(_body(lines, at)).strip():
            del lines[at : at + 1 + len(_body(lines, at))]
    elif at is None:
        ends = "" if not lines else "\n" if lines[-1].endswith("\n") else "\n\n"
        lines += [ends, f"[{_POLICY}.{_SET}]\n", f"{VARIABLE} = {json.dumps(name, ensure_ascii=False)}\n"]
    else:
        lines.insert(at + 1, f"{VARIABLE} = {json.dumps(name, ensure_ascii=False)}\n")
    edited = "".join(lines)
    wanted = {key: one for key, one in there.items() if key != VARIABLE} | (
        {} if name is None else {VARIABLE: name}
    )
    _check(edited, tree, wanted)
    return edited


def _body(lines: list[str], at: int) -> list[str]:
    """What stands in the table that begins there, up to the next one."""
    rest = lines[at + 1 :]
    end = next((i for i, line in enumerate(rest) if line.lstrip().startswith("[")), len(rest))
    return rest[:end]


def _check(edited: str, tree: dict[str, Any], wanted: dict[str, Any]) -> None:
    try:
        read = tomllib.loads(edited)
    except tomllib.TOMLDecodeError:
        read = None
    rest = {key: one for key, one in tree.get(_POLICY, {}).items() if key != _SET}
    policy = {**rest, **({_SET: wanted} if wanted else {})}
    want = {**tree, _POLICY: policy}
    if read is None or _full(read) != _full(want):
        raise CannotEdit(f"its {_POLICY} is written in a form that this program does not change")


def _full(tree: dict[str, Any]) -> dict[str, Any]:
    """Without the table when it says nothing: an empty one is as good as none."""
    policy = {key: one for key, one in tree.get(_POLICY, {}).items() if key != _SET or one}
    rest = {key: one for key, one in tree.items() if key != _POLICY}
    return {**rest, _POLICY: policy} if policy else rest


def _matches(pattern: Any) -> bool:
    return isinstance(pattern, str) and fnmatch.fnmatch(VARIABLE.lower(), pattern.lower())


def _env(text: str, name: str | None) -> str:
    lines = text.splitlines(keepends=True)
    said = None if name is None else f"{VARIABLE}={json.dumps(name, ensure_ascii=False)}\n"
    ours = [line for line in lines if _LINE.fullmatch(line.rstrip("\r\n"))]
    if ours == ([] if said is None else [said]):
        return text
    kept = [line for line in lines if line not in ours]
    if said is None:
        return "".join(kept)
    ends = "\n" if kept and not kept[-1].endswith("\n") else ""
    return "".join([*kept, ends, said])
