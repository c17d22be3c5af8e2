"""The configuration of the airspace and of worktrees (`airspace`, `workspace.checkouts`)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from relay.config.checks import setting

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
