"""What an entry that is written anew keeps of the one that stands there: who speaks, and in which room.

Invariant: a key or a name that was installed goes only when that was asked for, or with the room that it was for, and
then it is said; an entry of another room, whose configuration exists, is changed only when that was asked for.
Pure but for looking whether that configuration is there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

Json = dict[str, Any]
#: What says who speaks, in the environment (docs/mcp.md).
IDENTITY = ("RELAY_AGENT_ID", "RELAY_AGENT_TYPE", "RELAY_SESSION_ID", "RELAY_API_KEY")
_KEY = "RELAY_API_KEY"


@dataclass(frozen=True, slots=True)
class Wanted:
    """`entry` as it would be in an empty file, None to take it out; `config`: the room that it is for.
    `through_room`: it must come through the running room, with a key."""

    config: Path
    entry: Json | None
    force: bool = False
    keep_key: bool = True
    keep_name: bool = True
    through_room: bool = False


@dataclass(frozen=True, slots=True)
class Met:
    """What is to stand there. `room_before`: another configuration that was named; `kept` and `dropped`: of the
    identity; `agent`: the name that the entry gives, None = the key's or the environment's."""

    entry: Json | None
    room_before: str | None = None
    kept: list[str] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    refused: str | None = None

    @property
    def agent(self) -> str | None:
        if self.entry is None or _KEY in self.entry["env"]:
            return None
        return self.entry["env"].get("RELAY_AGENT_ID") or word_after("--agent", self.entry["args"])


def meet(wanted: Wanted, there: Json | None) -> Met:
    """`wanted` beside the entry that stands there (None: none)."""
    if there is None:
        return Met(wanted.entry)
    env = there["env"] if isinstance(there.get("env"), dict) else {}
    args = there["args"] if isinstance(there.get("args"), list) else []
    before = _other_room(env.get("RELAY_CONFIG") or word_after("--config", args), wanted.config)
    living = before is not None and Path(before).expanduser().is_file()
    if living and not wanted.force:
        return Met(wanted.entry, before, refused=f"it names the room {before}, and not {wanted.config}")
    if wanted.entry is None:
        return Met(None, before)
    # A key and a name are one room's. A room that was moved takes them along.
    entry, kept = (wanted.entry, []) if living else _with_identity(wanted, env, args)
    dropped = [_KEY] if _KEY in env and _KEY not in entry["env"] else []
    return Met(entry, before, kept, dropped)


def _with_identity(wanted: Wanted, env: Mapping[str, Any], args: Sequence[Any]) -> tuple[Json, list[str]]:
    assert wanted.entry is not None
    entry = wanted.entry
    names = [
        name for name in IDENTITY if name in env and (wanted.keep_key if name == _KEY else wanted.keep_name)
    ]
    new = word_after("--agent", entry["args"])
    old = word_after("--agent", args) if wanted.keep_name else None
    if not names and old in (None, new):
        return entry, []
    # With a key, or a name in the environment, the entry that stands there is right without `--agent`, too.
    agent = old if old or _KEY in names or "RELAY_AGENT_ID" in names else new
    words = [*entry["args"][: -2 if new else None], *(["--agent", agent] if agent else [])]
    changed = {**entry, "args": words, "env": {**entry["env"], **{name: env[name] for name in names}}}
    if "env_vars" in entry:
        changed["env_vars"] = [name for name in entry["env_vars"] if name not in names]
    return changed, [*names, *([f"the name {old}"] if old not in (None, new) else [])]


def _other_room(named: Any, config: Path) -> str | None:
    if not isinstance(named, str) or not named:
        return None
    return None if Path(named).expanduser().resolve() == config.resolve() else named


def word_after(option: str, args: Sequence[Any]) -> str | None:
    """The value of an option among the words of a command; None when there is none."""
    values = (value for name, value in pairwise(args) if name == option)
    return next((value for value in values if isinstance(value, str)), None)
