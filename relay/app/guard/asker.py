"""Who is about to write, and the error when the question cannot be answered."""

from __future__ import annotations

from dataclasses import dataclass


class Unasked(Exception):
    """The question has no answer; the message says why. `final`: the room runs and does not take the question."""

    def __init__(self, why: str, *, final: bool = False) -> None:
        super().__init__(why)
        self.final = final


@dataclass(frozen=True, slots=True)
class Asker:
    """Who is about to write. `agent` None: the person at the keyboard, or the key's own, or
    (`program`) somebody in that agent's program who gives no name."""

    agent: str | None
    session: str | None
    key: bool
    override: str
    program: str | None = None

    @property
    def person(self) -> bool:
        return self.agent is None and not self.key and self.program is None
