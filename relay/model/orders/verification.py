"""What people order of verification and landing, as values (`relay.model.actions`).

Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

from relay.model.orders.action import Action, mentioned


class Verifying(Action):
    """An action on verifications, approvals and the landing queue."""


@dataclass(frozen=True)
class Land(Verifying, word="/land"):
    """Put the branches of these agents into the landing queue; `every`: of all that have work; `squash`: each lands
    as one commit; `anyway`: although it undoes what another landed, or brings back what somebody took back."""

    agents: tuple[str, ...] = ()
    every: bool = False
    squash: bool = False
    anyway: bool = False

    def named(self) -> tuple[str, ...]:
        return self.agents

    def line(self) -> str:
        how = " squash" * self.squash + " anyway" * self.anyway
        return f"{self.word} {'all' if self.every else mentioned(self.agents)}{how}"


class ShowLanding(Verifying, word="/land"):
    """What is in the landing queue, and what each waits for."""


@dataclass(frozen=True)
class TakeFromQueue(Verifying, word="/land"):
    """Take an agent's branch out of the landing queue again."""

    agent: str

    def named(self) -> tuple[str, ...]:
        return (self.agent,)

    def line(self) -> str:
        return f"{self.word} cancel @{self.agent}"


@dataclass(frozen=True)
class RequireLanding(Action, word="/landing"):
    """Whether agents' branches land by the queue only."""

    required: bool

    def line(self) -> str:
        return f"{self.word} required {'on' if self.required else 'off'}"


@dataclass(frozen=True)
class Verify(Verifying, word="/verify"):
    """Verify something anew (`verification` is its room number), or the work of `agent` as it stands."""

    verification: int | None = None
    agent: str | None = None

    def named(self) -> tuple[str, ...]:
        return (self.agent,) if self.agent else ()


@dataclass(frozen=True)
class Approve(Verifying, word="/approve"):
    """A person agrees to what asks for it (`approval` is its room number); without one: show what is open."""

    approval: int | None = None


@dataclass(frozen=True)
class Reject(Verifying, word="/reject"):
    """A person does not agree."""

    approval: int
    reason: str
