"""The configuration of coordination, of PostgreSQL, of a fleet on it, and of people's own sessions (`coordination`,
`postgres`, `fleet`, `attach`)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from relay.config.checks import setting

WhenGone = Literal["requeue", "park"]
Say = Literal["asked", "all"]
Wake = Literal["mentions", "never"]


@dataclass(frozen=True, slots=True)
class CoordinationSettings:
    """How long what agents hold stays theirs without a word from them (docs/coordination.md)."""

    session_lease_s: float = setting(
        "seconds after its last call that a named session lives", 1800.0, low=1, high=86400
    )
    process_lease_s: float = setting(
        "seconds after its last sign of life that a session of a process lives", 90.0, low=1, high=86400
    )
    claim_lease_s: float = setting("seconds that a claimed task stays claimed without a call", 1800.0, low=1)
    max_attempts: int = setting(
        "attempts before the room gives up a task (it is dead), unless the task sets its own",
        3,
        low=1,
        high=100,
    )
    backoff_s: float = setting("seconds before a task's second attempt; doubles with each one", 5.0, low=0)
    backoff_max_s: float = setting("the longest wait between attempts, in seconds", 600.0, low=0)
    sweep_s: float = setting("seconds between two checks for dead sessions", 5.0, low=0.1, high=3600)


@dataclass(frozen=True, slots=True)
class PostgresSettings:
    """Where the database is, with `storage` postgres. The address itself is a secret: it stands in the environment
    (RELAY_POSTGRES_DSN) or in a file, never here."""

    dsn_file: Path | None = setting(
        "the file with the address, when RELAY_POSTGRES_DSN is not set; for its owner only", None
    )
    pool: int = setting("connections of one process at most", 8, low=4, high=100)
    connect_s: float = setting("seconds to wait for a connection", 10.0, low=0.1, high=300)


@dataclass(frozen=True, slots=True)
class FleetSettings:
    """How this relay is a member of its room's fleet (docs/fleet.md). Without PostgreSQL a room has one relay."""

    name: str | None = setting("its name in the fleet; null = host and folder", None, empty=False)
    lease_s: float = setting(
        "seconds without a sign of life after which a member counts as gone", 30.0, low=3, high=3600
    )
    gone: WhenGone = setting(
        "what becomes of the jobs of a member that is gone: `requeue` = they wait for whoever can run them; `park` = "
        "they stay with it until it is back, but those of an agent that a live member has too",
        "requeue",
    )
    remote: str = setting(
        "the git remote by which members bring each other their agents' branches", "origin", empty=False
    )
    push_main: bool = setting(
        "true = what lands is pushed to the main branch of that remote, which is the one of all members", True
    )
    share_text: bool = setting(
        "true = what members tell each other of a change has its lines of text too", False
    )


@dataclass(frozen=True, slots=True)
class AttachSettings:
    """What people's own sessions say in the room, and what wakes them (docs/attach.md)."""

    say: Say = setting(
        "`asked`: what a session says at the end of a turn is an entry where the room had told it something in that "
        "turn; `all`: after every turn",
        "asked",
    )
    wake: Wake = setting(
        "`mentions`: a person's message that names an idle session wakes it, where its program can be woken; "
        "`never`: every message waits for its next prompt",
        "mentions",
    )
