"""How a person types `relay` on this machine.

Invariants: a command in a message can be copied as it stands: the bare name only where a shell would find this
very installation under it; and it means the room that the message is about, whichever configuration that has.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from functools import cache
from pathlib import Path

from relay.config import locate


@cache
def program() -> str:
    """`relay`, or the path of this installation's, relative to the working directory where it lies below."""
    own = Path(sys.prefix) / "bin" / "relay"
    path = shutil.which("relay")
    if not own.exists() or (path is not None and Path(path).resolve() == own.resolve()):
        return "relay"
    return _shown(own, "relay")


def _shown(own: Path, bare: str) -> str:
    """A file of this installation's as it can be typed here; `bare` where there is no such file."""
    if not own.exists():
        return bare
    here = Path.cwd()
    return shlex.quote(os.path.relpath(own, here) if own.is_relative_to(here) else str(own))


class _Room:
    """The configuration that this process is about (None: whichever a shell would find)."""

    config: Path | None = None
    #: A process of its own folder: that is not where people type.
    away: bool = False
    #: Who reads the messages may be at another machine of the fleet.
    everywhere: bool = False


def for_all_machines(several: bool) -> None:
    """From now on commands in messages are as people type them in the clone of any machine, if there are several."""
    _Room.everywhere = several


def about(config: Path, *, away: bool = False) -> None:
    """From now on commands in messages name this configuration (absolute), where they would not find it by
    themselves. `away`: the working directory is not that of a person's shell."""
    _Room.config, _Room.away = config, away


def _clone() -> Path:
    return Path(sys.prefix).parent


def _option(default: Path, config: Path | None = None) -> str:
    """` --config PATH` of `config` (None: the room this process is about); "" where `default` is that one."""
    path = config or _Room.config
    return "" if path is None or path == default else f" --config {shlex.quote(str(path))}"


def command(words: str) -> str:
    """What to type, in backquotes: `.venv/bin/relay link`, with `--config PATH` where it is needed."""
    if _Room.everywhere:
        return f"`{program() if program() == 'relay' else '.venv/bin/relay'} {words}`"
    # Of a shell that is elsewhere only this is known: who types a relative path of the clone stands in it.
    # Nor is RELAY_CONFIG known: ours may come from the script that started us.
    path = locate.find(None, {}, _clone() if _Room.away else None)
    return f"`{program()} {words}{_option(path)}`"


def script(words: str, config: Path | None = None) -> str:
    """One of the clone's scripts, in backquotes: `bash scripts/start.sh`, with its whole path where the working
    directory is not the clone or above it. Their usual configuration stands beside them; `config` (absolute; None:
    the one this process is about) is the one to name."""
    name, blank, rest = words.partition(" ")
    return f"`bash {_shown(_clone() / name, name)}{blank}{rest}{_option(_clone() / 'config.json', config)}`"
