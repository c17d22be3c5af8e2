"""What the steward knows of the room when it answers: plain values, filled in by the caller.

Invariant: no clock in here. Every time is a duration in seconds, seen from the moment of the answer, so
that a rendering is a pure function of its view.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from relay.model import Program


@dataclass(frozen=True, slots=True)
class BudgetView:
    """One spent-against-limit pair; `what` is in people's words: "turns an hour", "tokens", "US dollars"."""

    what: str
    used: float
    limit: float

    @property
    def spent(self) -> bool:
        return self.used >= self.limit


@dataclass(frozen=True, slots=True)
class RunningView:
    """The turn an agent is at; `message` is the room number of the message that asked, 0 if unknown."""

    message: int
    for_s: float


@dataclass(frozen=True, slots=True)
class LastView:
    """What an agent worked on last for a person: the message, how it begins, and how long ago that ended."""

    message: int
    text: str
    ago_s: float


@dataclass(frozen=True, slots=True)
class AgentView:
    """`detail` and `fix` as the probe gave them; `breaker` is closed, open or half_open, and `retry_in_s` the
    time until an open one lets an attempt through; `parked_s` the rest of a rate limit, 0 for none."""

    name: str
    kind: str = "command"
    preset: str = ""
    installed: bool = True
    #: What it lacks is no program: its own file has a fault.
    broken: bool = False
    detail: str = ""
    fix: str = ""
    enabled: bool = True
    paused: bool = False
    breaker: str = "closed"
    retry_in_s: float = 0.0
    parked_s: float = 0.0
    budgets: tuple[BudgetView, ...] = ()
    running: RunningView | None = None
    last: LastView | None = None
    #: The open tasks of the board that are its own, by their numbers.
    tasks: tuple[int, ...] = ()
    queued: int = 0
    #: Does it hear what is urgent while it works?
    hears: bool = False
    #: Where it lives, "" = in a room of one relay; why that member cannot be reached, "" = it can; and since when.
    member: str = ""
    absence: str = ""
    unheard_s: float = 0.0
    #: What its preset runs, None = not known.
    program: Program | None = None

    @property
    def active(self) -> bool:
        """Can it be given work at all? A breaker or a spent budget passes with time, this does not."""
        return self.enabled and self.installed and not self.paused and not self.absence


@dataclass(frozen=True, slots=True)
class TaskView:
    number: int
    title: str
    status: str
    badge: str = ""
    assignee: str = ""
    #: Why it stands where it stands: an error, or a note of the queue.
    why: str = ""
    #: Numbers of the tasks on the board that it still waits for.
    waits_for: tuple[int, ...] = ()
    #: The attempt that runs, or that comes next; of so many (0 = nobody counts).
    attempt: int = 1
    attempts: int = 0


#: Which lock: path, holder and session.
LockIdentity = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class LockView:
    """A lock that is held. `held_s` since, `left_s` until its end; `waiting` those who stand in line for it."""

    path: str
    holder: str
    session: str = ""
    shared: bool = False
    reason: str = ""
    held_s: float = 0.0
    left_s: float = 0.0
    waiting: tuple[str, ...] = ()

    @property
    def identity(self) -> LockIdentity:
        return self.path, self.holder, self.session


@dataclass(frozen=True, slots=True)
class VisitorView:
    """An agent that somebody runs beside the room. `heard_s` since its last call; `holds` and `state` in words."""

    name: str
    kind: str = "agent"
    heard_s: float = 0.0
    holds: str = ""
    state: str = ""


@dataclass(frozen=True, slots=True)
class JobView:
    """A row of the queue. `state` is pending, active, done, failed, skipped or dead; `reason` why it is so;
    `age_s` the time since it came into that state; `retry_in_s` until a pending or failed one is tried."""

    id: int
    message: int
    agent: str
    state: str
    reason: str = ""
    age_s: float = 0.0
    retry_in_s: float = 0.0


@dataclass(frozen=True, slots=True)
class DispatcherView:
    """`state` is ok, fallback, off or unknown."""

    state: str = "unknown"
    model: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class StewardView:
    """The room at one moment.

    `jobs` holds what waits and runs, and the latest that were skipped, failed or died, newest first; `config`
    is the path of the configuration as people should type it.
    """

    agents: tuple[AgentView, ...] = ()
    people: tuple[str, ...] = ()
    tasks: tuple[TaskView, ...] = ()
    jobs: tuple[JobView, ...] = ()
    locks: tuple[LockView, ...] = ()
    visitors: tuple[VisitorView, ...] = ()
    dispatcher: DispatcherView = DispatcherView()
    address: str = ""
    config: str = "config.json"
    #: The programs that relay knows, by the preset's name.
    programs: Mapping[str, Program] = field(default_factory=dict)

    @property
    def active(self) -> tuple[AgentView, ...]:
        return tuple(agent for agent in self.agents if agent.active)
