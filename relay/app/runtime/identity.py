"""Who a process of `relay mcp` speaks for, and in which room: out of its environment and its words.

Invariant: pure but for looking whether files are there; nobody is taken for somebody by default.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from relay.config import locate
from relay.config.command_line import command
from relay.model import SESSION_ID
from relay.model.speaker_names import MAX_AGENT_NAME, clean_name, is_reserved


class WrongUse(Exception):
    """The environment or the words of a command do not fit; the message says what to do."""


class BadKey(Exception):
    """RELAY_API_KEY opens nothing; the message says why and what to do."""


class NoWay(Exception):
    """Neither the room's database nor its daemon can be reached from here; the message says what to do."""


def bad_key() -> str:
    """What is said of a key that is none."""
    return (
        "RELAY_API_KEY is not a valid key of this room: unknown, expired or revoked. "
        f"Make one with {command('keys create NAME')}, or unset it and set RELAY_AGENT_ID."
    )


@dataclass(frozen=True, slots=True)
class Identity:
    """`agent`: the name that the environment says, None = the key's. `session`: the id, `process`: it is this
    process's own. `agent_type` None: whatever the client says that it is."""

    agent: str | None
    session: str
    process: bool
    agent_type: str | None = None
    key: str | None = None


def identify(environ: Mapping[str, str], option: str | None = None) -> Identity:
    """Whom the process speaks for: RELAY_API_KEY's agent, else RELAY_AGENT_ID, else `--agent`. Raises WrongUse."""
    key = environ.get("RELAY_API_KEY", "").strip() or None
    agent = environ.get("RELAY_AGENT_ID", "").strip() or (option or "").strip() or None
    if key is None and agent is None:
        raise WrongUse(
            "it is not known who speaks. Set RELAY_AGENT_ID=NAME (or RELAY_API_KEY, or give --agent NAME); "
            f"{command('mcp install')} writes it into your agent's configuration."
        )
    if agent is not None:
        agent = _name(agent)
    given = environ.get("RELAY_SESSION_ID", "").strip()
    if given and not SESSION_ID.fullmatch(given):
        raise WrongUse(
            f"RELAY_SESSION_ID is {given[:60]!r}: it has 1 to 128 letters, digits and . _ : @ + ~ -"
        )
    kind = environ.get("RELAY_AGENT_TYPE", "").strip() or None
    return Identity(agent, given or f"mcp-{uuid.uuid4().hex}", process=not given, agent_type=kind, key=key)


def _name(agent: str) -> str:
    try:
        name = clean_name(agent, most=MAX_AGENT_NAME)
    except ValueError as error:
        raise WrongUse(f"RELAY_AGENT_ID is {agent[:60]!r}. {error}") from None
    if is_reserved(name, ()):
        raise WrongUse(f"{name} is the room's own name, or reads like it. Choose another for RELAY_AGENT_ID.")
    return name


def find_config(option: str | None, environ: Mapping[str, str], folder: Path) -> Path:
    """The room's configuration, as every command finds it (relay/config/locate.py). Raises WrongUse: nobody named
    one, and there is none."""
    path = locate.find(option, environ, folder)
    if option or environ.get("RELAY_CONFIG") or path.is_file():
        return path
    raise WrongUse(f"there is no {locate.CONFIG} at {folder} or above it: {locate.advice(folder)}.")
