"""The name that a command gives to the room when its caller named none."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path

from relay.git.signing import system_user
from relay.model import RESERVED_NAMES
from relay.model.speaker_names import clean_name, is_reserved

GIT_S = 5.0


def git_name(repo: Path, agents: Iterable[str]) -> str | None:
    """The name that git has for the person who types in this repository (`user.name`, which signs their merges
    too); None where git has none, or one that an agent has."""
    try:
        asked = ["git", "-C", str(repo), "config", "--get", "user.name"]
        output = subprocess.run(asked, capture_output=True, timeout=GIT_S, check=True).stdout.decode()
        name = clean_name(output)
        if not is_reserved(name, [*agents, *RESERVED_NAMES]):
            return name
    except (OSError, ValueError, subprocess.SubprocessError):
        pass
    return None


def git_person(repo: Path, agents: Iterable[str]) -> str:
    """The name that git has for the person (`git_name`), else the system's user."""
    return git_name(repo, agents) or system_user()
