"""The configuration of people's own sessions in the room (`attach`; docs/attach.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from relay.config.checks import setting

Say = Literal["asked", "all"]
Wake = Literal["mentions", "never"]


@dataclass(frozen=True, slots=True)
class AttachSettings:
    """What attached sessions say in the room, and what wakes them."""

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
