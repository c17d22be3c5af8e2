"""Find a room's configuration when none is named: one rule for every command.

Invariant: a room is never taken for another one. The nearest room upwards counts, as git looks for its repository;
where that one's configuration has another name, it is named, and none above it is taken instead.

Standard library only, and little of it: every message that names a command asks here (relay/config/command_line.py).
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from argparse import ArgumentParser

CONFIG = "config.json"
RUNTIME = ".relay"
#: The sections of a configuration (relay.config.settings.Settings; a test holds the two together): by them a file
#: is known.
SECTIONS = frozenset(
    [
        "agents",
        "workspace",
        "locks",
        "ui",
        "dispatcher",
        "jitter",
        "queue",
        "stop",
        "room",
        "storage",
        "landing",
        "notify",
        "postgres",
        "fleet",
        "worktrees",
        "airspace",
        "coordination",
        "timeline",
        "handoffs",
        "memory",
        "merge",
        "verification",
        "attach",
    ]
)
#: Bytes of a file that is looked into: a configuration has a few thousand.
MOST_BYTES = 200_000
#: Characters of a worktree's `.git` file.
MOST_LINK = 8_192
#: Files of a folder that are looked into for a configuration, in the order of their names.
MOST_FILES = 50


def find(
    option: str | os.PathLike[str] | None = None,
    environ: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Path:
    """The absolute path of the configuration, which need not be there: `--config`, else RELAY_CONFIG, else
    `config.json` of the room that `folder` (None: the current one) lies in (docs/configuration.md, "Which room")."""
    here = Path.cwd() if folder is None else folder
    named = option or (os.environ if environ is None else environ).get("RELAY_CONFIG")
    if named:
        return (here / Path(named).expanduser()).absolute()
    return room_of(here) / CONFIG


def room_of(folder: Path) -> Path:
    """The folder of the room that `folder` lies in: the nearest upwards with `.relay/`; `folder` itself where it has
    a configuration that was never started, and where there is no room."""
    # What lies in a room's own folder is a copy: an agent's worktree of a codebase that has a config.json.
    if RUNTIME not in folder.parts and is_configuration(folder / CONFIG):
        return folder
    return next((place for place in (folder, *folder.parents) if (place / RUNTIME).is_dir()), folder)


def is_configuration(path: Path) -> bool:
    """Does it read like a configuration of relay's: an object with agents, or with sections of one only? One with a
    mistake in it does too: it is to be told of, and not passed over."""
    try:
        if not path.is_file() or path.stat().st_size > MOST_BYTES:
            return False
        text = path.read_bytes()
        tree = json.loads(text)
    except OSError:
        return False
    except (ValueError, RecursionError):
        return b'"agents"' in text
    return isinstance(tree, dict) and ("agents" in tree or (bool(tree) and tree.keys() <= SECTIONS))


def others(folder: Path) -> list[Path]:
    """Configurations of another name, in the nearest folder upwards that has any."""
    for place in (folder, *folder.parents):
        try:
            files = sorted(place.glob("*.json"))[:MOST_FILES]
        except OSError:
            continue
        if matches := [file for file in files if is_configuration(file)]:
            return matches
        if (place / RUNTIME).is_dir():
            break
    return []


def advice(folder: Path) -> str:
    """What to do where `find` found nothing: the file that is probably meant, or how to make one."""
    if paths := others(folder):
        shown = [path.name if path.parent == folder else os.path.relpath(path, folder) for path in paths]
        return f"use --config {' or '.join(map(shlex.quote, shown))}"
    room = room_of(folder)
    if (room / RUNTIME).is_dir():
        return f"{room} has a room, but its configuration is missing: give --config PATH, or write {CONFIG} there"
    if (main := _main_checkout(folder)) is not None and (paths := others(main)):
        return f"this is a worktree of {main}: use --config {' or '.join(shlex.quote(str(path)) for path in paths)}"
    return 'give --config PATH or RELAY_CONFIG; the smallest configuration is {"agents": []}'


def _main_checkout(folder: Path) -> Path | None:
    """The folder of the repository that `folder` lies in a linked worktree of (git-worktree(1), `.git` as a file);
    None: it lies in none."""
    for place in (folder, *folder.parents):
        link = place / ".git"
        try:
            if not link.is_file():
                if link.exists():
                    return None
                continue
            with link.open(encoding="utf-8") as file:
                said = file.read(MOST_LINK)
        except (OSError, ValueError):
            return None
        # PATH/.git/worktrees/NAME; a submodule's is elsewhere.
        own = place / said.removeprefix("gitdir:").strip()
        return own.parents[2] if own.parts[-3:-1] == (".git", "worktrees") else None
    return None


def add_config_option(parser: ArgumentParser) -> None:
    """The option of every command that names the room's configuration."""
    parser.add_argument(
        "--config", help="the configuration (else RELAY_CONFIG, else the room this folder is in)"
    )
