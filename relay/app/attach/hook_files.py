"""What `relay attach` writes into the hook files of Claude Code and Codex, and how it is taken out again. Pure.

Invariant: an entry of ours is known by its command. What else stands in the file stays, byte for byte: only the lists
of the events that we hook are written anew.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import relay
from relay.config import jsonc

Json = dict[str, Any]

#: The file in a checkout that each program reads for one person alone.
PLACES = {"claude": ".claude/settings.local.json", "codex": ".codex/hooks.json"}
#: Seconds that a program waits for a hook, which ends within 2 s itself; Codex gives the end of a session 3 s.
PATIENCE_S, END_S = 5, 3
#: Seconds that a listener may wait for a message: a day. It ends with the session.
LISTEN_S = 86_400
_OURS = re.compile(r"guard_cli\.py'? session ")
#: The events that we hook, each with the tools that it is about ("" = all, or none).
_EVENTS: Mapping[str, Mapping[str, str]] = {
    "claude": {
        "SessionStart": "",
        "SessionEnd": "",
        "UserPromptSubmit": "",
        "PreToolUse": "Edit|Write|MultiEdit|NotebookEdit|Bash",
        "PostToolBatch": "",
        "Stop": "",
        "Notification": "",
    },
    "codex": {
        "SessionStart": "",
        "SessionEnd": "",
        "UserPromptSubmit": "",
        "PreToolUse": "apply_patch|Bash",
        "PostToolUse": "",
        "PermissionRequest": "",
        "Stop": "",
        "Interrupt": "",
    },
}


class CannotEdit(Exception):
    """The file cannot be changed safely; the message says why."""


def entries(program: str, config: Path) -> dict[str, list[Json]]:
    """Our hooks by event, for the room of this configuration."""
    script = str(Path(relay.__file__).absolute().with_name("guard_cli.py"))
    start, rest = (
        [sys.executable, "-I", "-S", script, "session"],
        ["--format", program, "--config", str(config)],
    )
    made: dict[str, list[Json]] = {}
    for event, tools in _EVENTS[program].items():
        patience = END_S if program == "codex" and event in ("SessionEnd", "Interrupt") else PATIENCE_S
        hooks: list[Json] = [{"type": "command", "command": shlex.join([*start, *rest]), "timeout": patience}]
        if program == "claude" and event in ("SessionStart", "Stop"):
            listen = shlex.join([*start, "listen", *rest])
            hooks.append({"type": "command", "command": listen, "asyncRewake": True, "timeout": LISTEN_S})
        made[event] = [{"matcher": tools, "hooks": hooks} if tools else {"hooks": hooks}]
    return made


def with_entries(text: str, wanted: Mapping[str, list[Json]]) -> str:
    """The file's text with our entries, each once, behind what stands there; `text` as it is where they stand there
    already. Raises CannotEdit."""
    if not text.strip():
        return json.dumps({"hooks": wanted}, indent=2) + "\n"
    tree = _read(text)
    hooks = tree.get("hooks")
    if hooks is None:
        return _checked(jsonc.change_object(text, (), {"hooks": wanted}), {**tree, "hooks": wanted})
    changes = {event: [*_others(hooks.get(event, [])), *ours] for event, ours in wanted.items()}
    # What an earlier release hooked besides.
    changes |= {
        event: _others(groups) for event, groups in hooks.items() if event not in wanted and _has(groups)
    }
    changes = {event: groups for event, groups in changes.items() if groups != hooks.get(event)}
    if not changes:
        return text
    told = {event: groups or None for event, groups in changes.items()}
    kept = {event: groups for event, groups in {**hooks, **changes}.items() if groups}
    return _checked(jsonc.change_object(text, ("hooks",), told), {**tree, "hooks": kept})


def without_entries(text: str) -> str:
    """The file's text without our entries. Raises CannotEdit."""
    tree = _read(text) if text.strip() else {}
    hooks = tree.get("hooks") or {}
    changes = {event: _others(groups) for event, groups in hooks.items() if _has(groups)}
    if not changes:
        return text
    kept = {event: groups for event, groups in {**hooks, **changes}.items() if groups}
    if not kept:
        left = {key: value for key, value in tree.items() if key != "hooks"}
        return _checked(jsonc.change_object(text, (), {"hooks": None}), left)
    told = {event: groups or None for event, groups in changes.items()}
    return _checked(jsonc.change_object(text, ("hooks",), told), {**tree, "hooks": kept})


def _read(text: str) -> Json:
    try:
        tree = json.loads(text)
    except ValueError as error:
        raise CannotEdit(f"it is not plain JSON ({error})") from None
    hooks = tree.get("hooks", {}) if isinstance(tree, dict) else None
    if not isinstance(hooks, dict) or not all(isinstance(groups, list) for groups in hooks.values()):
        raise CannotEdit("its `hooks` are no lists by event")
    return tree  # type: ignore[no-any-return]  # an object, as its hooks say


def _is_ours(hook: Any) -> bool:
    return isinstance(hook, dict) and bool(_OURS.search(str(hook.get("command", ""))))


def _has(groups: list[Any]) -> bool:
    return groups != _others(groups)


def _others(groups: list[Any]) -> list[Any]:
    """The groups without our hooks; one that held only ours goes."""
    left = []
    for group in groups:
        hooks = group.get("hooks") if isinstance(group, dict) else None
        if not isinstance(hooks, list) or not any(map(_is_ours, hooks)):
            left.append(group)
        elif others := [hook for hook in hooks if not _is_ours(hook)]:
            left.append({**group, "hooks": others})
    return left


def _checked(edited: str, wanted: Json) -> str:
    try:
        if json.loads(edited) == wanted:
            return edited
    except ValueError:
        pass
    raise CannotEdit("it is written in a form that this program does not change")
