"""The configuration of the airspace and of worktrees (`airspace`, `worktrees`, `workspace.checkouts`)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from relay.config.checks import Problem, setting

ProfileName = Literal["calibrated", "coefficient", "seed"]

#: Files that everybody touches and git or their tool merges: an advisory about them alone helps nobody.
MUTED = (
    "**/package-lock.json",
    "**/yarn.lock",
    "**/pnpm-lock.yaml",
    "**/Cargo.lock",
    "**/poetry.lock",
    "**/uv.lock",
    "**/go.sum",
    "**/CHANGELOG*",
    "**/CHANGES*",
    "**/HISTORY*",
)


@dataclass(frozen=True, slots=True)
class Checkout:
    """A person's own checkout of the codebase, seen in the airspace like an agent's worktree."""

    name: str = setting("whose it is: the person's name in the room", empty=False)
    path: Path = setting("the folder of the checkout")


@dataclass(frozen=True, slots=True)
class AirspaceSettings:
    """How close agents may come before an advisory. Risks are collision probabilities, 0 to 1."""

    enabled: bool = setting("false = nothing is measured and nobody is told", True)
    profile: ProfileName = setting("the formula (docs/airspace.md)", "calibrated")
    half_life_s: float = setting("seconds after which an edit's weight has halved", 1800.0, low=1)
    tick_s: float = setting("least seconds between two scans", 2.0, low=0.1, high=3600)
    cooldown_s: float = setting(
        "seconds between two advisories to one pair of agents, at least", 300.0, low=0
    )
    answer_s: float = setting("seconds to answer an advisory in before people are asked", 180.0, low=1)
    steer_s: float = setting("seconds that the steering agent has to leave the contested files", 300.0, low=1)
    interrupt_s: float = setting(
        "seconds of a standing resolution advisory after which a turn that cannot be asked is cancelled and "
        "resumed with it",
        20.0,
        low=0,
    )
    floor: float = setting("the live scan keeps pairs of agents of at least this risk", 0.05, low=0, high=1)
    muted: tuple[str, ...] = setting("globs of files that advisories ignore", MUTED)
    ignored: tuple[str, ...] = setting("globs of generated files that working sets leave out", ())
    history_h: float = setting("hours of positions that the page can replay", 24.0, low=0.1, high=720)


@dataclass(frozen=True, slots=True)
class PortSettings:
    """The ports of the worktrees."""

    first: int | None = setting(
        "the first port that a worktree may get; null = by the room's folder, from 20000 to 31990, so that two rooms "
        "of one machine seldom meet",
        None,
        low=1024,
        high=65535,
    )
    per_worktree: int = setting("ports that each worktree gets, one after the other", 10, low=1, high=100)


@dataclass(frozen=True, slots=True)
class WorktreeSettings:
    """What makes an agent's worktree usable, and runs the app of its branch (docs/worktrees.md). Where it is
    tracked, no agent's branch lands that changes it: what agents write must not say what runs here."""

    setup: tuple[str, ...] = setting(
        "what is run once in a new worktree, before its agent's first turn", (), empty=False, shell=True
    )
    run: tuple[str, ...] = setting(
        "what starts the app of an agent's branch, and goes on until it is stopped",
        (),
        empty=False,
        shell=True,
    )
    archive: tuple[str, ...] = setting(
        "what is run before a worktree is removed, or its work discarded", (), empty=False, shell=True
    )
    setup_timeout_s: float = setting("seconds until `setup` is ended", 600.0, low=1, high=86400)
    archive_timeout_s: float = setting("seconds until `archive` is ended", 60.0, low=1, high=3600)
    env_pass: tuple[str, ...] = setting(
        "more environment variables of the daemon that the three commands get, by name", ()
    )
    copy: tuple[str, ...] = setting(
        "files that git ignores, such as `.env` or `config/*.local`: copied from the main checkout into a new "
        "worktree. Paths from its top; `**/` is any number of folders",
        (),
    )
    ports: PortSettings = setting("", PortSettings)
    disk_cap_mb: int | None = setting(
        "megabytes of all worktrees together above which no new one is made; null = no limit", None, low=1
    )


def worktree_problems(tree: object) -> list[Problem]:
    """What types cannot say of `worktrees`, looked at in the plain tree."""
    section = tree.get("worktrees") if isinstance(tree, dict) else None
    if not isinstance(section, dict):
        return []
    problems = []
    copy = section.get("copy")
    for index, glob in enumerate(copy if isinstance(copy, list) else []):
        parts = glob.split("/") if isinstance(glob, str) else []
        if isinstance(glob, str) and (not glob.strip() or glob.startswith(("/", "~", ":")) or ".." in parts):
            rule = "a path from the top of the checkout, without `..`"
            problems.append(Problem(f"worktrees.copy[{index}]", f"found {json.dumps(glob[:60])}", rule))
    for name in ("setup", "run", "archive"):
        words = section.get(name)
        if isinstance(words, list) and words and all(isinstance(word, str) for word in words):
            bad = not words[0].strip() or any("\0" in word for word in words)
            if bad:
                problems.append(
                    Problem(f"worktrees.{name}", "names no program", "the program, then its arguments")
                )
    return problems
