"""What carries a policy's run out, wherever it runs.

Invariant: an executor that has no tool, key or environment for a run says so with `Outcome.ERROR`; it never takes
that for success. What it began is over, or known by the run's id to whoever asks again, when it returns or is
cancelled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from relay.git.run import Git
from relay.verification.policies import Policy
from relay.verification.verification import Change, Outcome


@dataclass(frozen=True, slots=True)
class Run:
    """One attempt of a policy on a change. `id`: the same whenever this attempt is begun again, and of no other one;
    `argv`: the program with its arguments. `tree`: what it runs on, which `git` has; empty = nobody has it here.
    `resumed`: an earlier process may have begun it. `watch` gets what it prints, as it comes. `name`: what people
    call the verification (`v12`)."""

    id: str
    policy: Policy
    change: Change
    tree: str
    argv: tuple[str, ...]
    git: Git
    resumed: bool = False
    watch: Callable[[bytes], None] = field(default=lambda data: None)
    name: str = ""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run ended. `reason`: why it is no success; `head`, `tail`: the first and last 20 kB of what it printed;
    `sandboxed`: None = it ran elsewhere. `url`: where a person sees it."""

    state: Outcome
    reason: str = ""
    exit_code: int | None = None
    seconds: float = 0.0
    head: str = ""
    tail: str = ""
    output_bytes: int = 0
    sandboxed: bool | None = None
    url: str = ""


class PolicyExecutor(Protocol):
    """One way to carry runs out."""

    async def run(self, run: Run) -> Ended:
        """Carry it out to its end. A cancelled call ends what it began on this machine. It raises nothing of its own:
        what fails is `Outcome.ERROR` with the reason."""
        ...


def failed_to_run(reason: str) -> Ended:
    return Ended(Outcome.ERROR, reason)
