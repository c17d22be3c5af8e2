"""An advisory: what stands between agents, what they were told, what they answered, and what came of it.

Invariant: a plain value with one stored form (`record`) and one that the interfaces show (`as_json`,
docs/airspace.md); its order is latched when it opens and only grows. Times are Unix seconds.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Any

from relay.airspace.advisories.rules.grouping import Contact, Priority, Roles, evidence_of, latch_order, roles
from relay.airspace.advisories.rules.set_back import SetBack
from relay.airspace.readings import Evidence, Level
from relay.base.durations import iso
from relay.model.working_set import Pair

if TYPE_CHECKING:
    from pydantic import TypeAdapter

#: Pieces of evidence that the interfaces show of one advisory.
MOST_EVIDENCE = 12


class Steering(StrEnum):
    """Has the steering agent left the contested files?"""

    WAITING = "waiting"
    LEFT = "left"
    STAYED = "stayed"


class Outcome(StrEnum):
    """Was the alarm true? See `outcomes`."""

    TRUE = "true"
    FALSE = "false"
    AVERTED = "averted"


class Mark(StrEnum):
    """What a person says of an advisory."""

    USEFUL = "useful"
    NOISE = "noise"


@dataclass(frozen=True, slots=True)
class Choice:
    """What a person can decide: a button of the page, and the same as a command of the room. `name`: first, stop or
    update; `label`: the button's words."""

    name: str
    agent: str
    label: str

    @property
    def command(self) -> str:
        return f"/{self.name} @{self.agent}"

    def as_json(self) -> dict[str, str]:
        return {**asdict(self), "command": self.command}


@dataclass(frozen=True, slots=True)
class Asked:
    """An agent that was asked for an answer, by which message. `failed`: why it cannot answer."""

    message_id: str
    at: float
    answered: bool = False
    failed: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """What an agent (or a person) answered; `intent`: the paths that it says it will touch."""

    intent: tuple[str, ...]
    text: str
    message_id: str
    at: float


@dataclass(frozen=True, slots=True)
class SteeringStart:
    """A steering agent at the moment it was told: the files that it was to leave, and a digest of what it had
    in them."""

    digest: str
    left: bool = False
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Advisory:
    """`contacts`: its pairs that are not clear now. `set_back`: those of its agents that conflict with the main
    branch now, by name; an advisory is open while it has one or the other. `latched`: every agent that was ever
    part of it, the one that holds first. `worst`: the highest level it had. `conflict`: git could not merge two of
    its branches while it was open or when one was merged. `clean`: the last look showed that git can; None =
    unknown."""

    id: str
    opened_at: float
    latched: tuple[Priority, ...] = ()
    contacts: Mapping[Pair, Contact] = field(default_factory=dict)
    set_back: Mapping[str, SetBack] = field(default_factory=dict)
    #: Who ever was.
    was_set_back: tuple[str, ...] = ()
    worst: Level = Level.CLEAR
    #: Every pair and every file that was ever part of it.
    pairs: tuple[Pair, ...] = ()
    files: tuple[str, ...] = ()
    text: str = ""
    message_id: str | None = None
    number: int = 0
    asked: Mapping[str, Asked] = field(default_factory=dict)
    #: Agents that were addressed and not asked, and why.
    not_asked: Mapping[str, str] = field(default_factory=dict)
    #: The part that each agent was told to play: hold, steer, transmit.
    told: Mapping[str, str] = field(default_factory=dict)
    answers: Mapping[str, Answer] = field(default_factory=dict)
    deadline_at: float | None = None
    escalated_at: float | None = None
    steering: Steering | None = None
    stands: Mapping[str, SteeringStart] = field(default_factory=dict)
    steer_by: float | None = None
    #: Since when a resolution stands, for whoever interrupts a turn.
    resolved_at: float | None = None
    people_asked_at: float | None = None
    #: When people were asked who goes on: once.
    question_at: float | None = None
    conflict: bool = False
    clean: bool | None = None
    outcome: Outcome | None = None
    mark: Mark | None = None
    marked_by: str | None = None
    closed_at: float | None = None
    closed_why: str = ""
    #: The last event of its lane, which causes the next.
    event_id: str | None = None

    @property
    def open(self) -> bool:
        return self.closed_at is None

    @property
    def level(self) -> Level:
        return Level.RESOLUTION if self.set_back else self.between

    @property
    def between(self) -> Level:
        """The level between its agents, whatever the main branch takes."""
        return max((contact.level for contact in self.contacts.values()), default=Level.CLEAR)

    def level_of(self, pair: Pair) -> Level:
        """The level that is shown of one of its pairs: the advisory's own, where one of the two is set back."""
        if pair not in self.contacts:
            return Level.CLEAR
        return self.level if any(agent in self.set_back for agent in pair) else self.contacts[pair].level

    @property
    def risk(self) -> float:
        return max(
            (contact.risk for contact in self.contacts.values()), default=1.0 if self.set_back else 0.0
        )

    @property
    def founded(self) -> bool:
        """Is there a reason for it to be open?"""
        return bool(self.contacts or self.set_back)

    @property
    def part(self) -> tuple[str, ...]:
        """Everybody who is part of it now, in the latched order."""
        near = {agent for pair in self.contacts for agent in pair} | set(self.set_back)
        return tuple(priority.agent for priority in self.latched if priority.agent in near)

    @property
    def roles(self) -> Roles:
        return roles(self.latched, self.contacts)

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """Of the pair with the highest level and risk first, each once."""
        return evidence_of(self.contacts)

    @property
    def decided(self) -> Priority | None:
        """Of whom a person said that it goes first."""
        return next((priority for priority in self.latched if priority.by), None)

    def decided_against(self, agent: str) -> str:
        """What a person decided that this agent gives way by, in words; empty when nobody did."""
        first = self.decided
        holds = first is not None and first.agent in self.roles.ahead.get(agent, ())
        return f"{first.by} decided that {first.agent} goes first" if first is not None and holds else ""

    def without_decision(self, gone: Collection[str]) -> Advisory:
        """A person's word ends with the work that it was about: of who goes first, or of all the others."""
        first, names = self.decided, {priority.agent for priority in self.latched}
        if first is None or not (first.agent in gone or names - {first.agent} <= set(gone)):
            return self
        plain = {priority.agent: replace(priority, by="") for priority in self.latched}
        return replace(self, latched=latch_order((), plain, plain))

    @property
    def unanswered(self) -> tuple[str, ...]:
        """Who owes an answer and still is near somebody: whose work is merged owes none."""
        near = {agent for pair in self.contacts for agent in pair}
        return tuple(name for name, asked in self.asked.items() if not asked.answered and name in near)

    def choices(self, agents: Collection[str]) -> tuple[Choice, ...]:
        """What can be decided now, and does something: who goes first, who stops, who takes main in. `agents`:
        those of the room; people are told nothing by a button."""
        roles, choices = self.roles, list[Choice]()
        if self.between is Level.RESOLUTION:
            first = self.decided
            parties = [name for name in (*roles.hold, *roles.steer) if first is None or name != first.agent]
            choices += [Choice("first", name, f"{name} goes first") for name in parties if name in agents]
        late = {*roles.steer, *self.set_back} & set(agents)
        for name in (name for name in self.part if name in late):
            choices.append(Choice("stop", name, f"Stop {name}"))
            if (back := self.set_back.get(name)) is not None and not back.needless:
                label = asks_to_take_in(name, "main", unsettled=back.unsettled)
                # Who is in the middle of it is helped on before anybody stops it.
                choices.insert(-1 if back.unsettled else len(choices), Choice("update", name, label))
        return tuple(choices)

    def as_json(self) -> dict[str, Any]:
        """As every interface shows it. `verdict`: open, true, false, averted (`outcomes`); `outcome`: true and false
        of these as such, else null."""
        roles, part = self.roles, self.part
        shown = {Outcome.TRUE: True, Outcome.FALSE: False}
        everybody = [priority.agent for priority in self.latched]
        return {
            "id": self.id,
            "agents": list(part) if self.open else everybody,
            "order": everybody,
            "level": self.level.word,
            "worst": self.worst.word,
            "risk": round(self.risk, 6),
            "opened_at": iso(self.opened_at),
            "closed_at": iso(self.closed_at),
            "closed_why": self.closed_why,
            "files": list(self.files),
            "transmit": list(roles.agents) if self.open else self._told_to("transmit"),
            "steer": list(roles.steer) if self.open else self._told_to("steer"),
            "hold": list(roles.hold) if self.open else self._told_to("hold"),
            "set_back": [back.as_json() for back in self.set_back.values()],
            "actions": [choice.as_json() for choice in self.choices(part)] if self.open else [],
            "reason": self.reason,
            "evidence": [evidence.as_json() for evidence in self.evidence[:MOST_EVIDENCE]],
            "text": self.text,
            "message_id": self.message_id,
            "number": self.number or None,
            "asked": sorted(self.asked),
            "not_asked": dict(self.not_asked),
            "answers": {
                agent: {**asdict(answer), "intent": list(answer.intent), "at": iso(answer.at)}
                for agent, answer in self.answers.items()
            },
            "deadline_at": iso(self.deadline_at),
            "escalated_at": iso(self.escalated_at),
            "people_asked_at": iso(self.people_asked_at or self.escalated_at),
            "steering": self.steering and str(self.steering),
            "left": [agent for agent, stand in self.stands.items() if stand.left],
            "conflict": self.conflict,
            "outcome": shown.get(self.outcome) if self.outcome else None,
            "verdict": str(self.outcome or "open"),
            "mark": self.mark and str(self.mark),
            "marked_by": self.marked_by,
        }

    def _told_to(self, part: str) -> list[str]:
        """Of an advisory that is over: who was told to play this part."""
        return [priority.agent for priority in self.latched if self.told.get(priority.agent) == part]

    @property
    def reason(self) -> str:
        """Who holds and who steers, or who is set back and who transmits, with what the right of way rests on."""
        roles = self.roles
        if not roles.steer:
            back = f"SET BACK: {', '.join(self.set_back)}" if self.set_back else ""
            near = f"TRANSMIT: {', '.join(roles.agents)}" if roles.agents else ""
            return ", ".join(part for part in (back, near) if part)
        why = {priority.agent: right_of_way_reason(priority, self.latched) for priority in self.latched}
        parts = f"HOLD: {', '.join(why[agent] for agent in roles.hold)}, STEER: {', '.join(roles.steer)}"
        return f"{parts}, TRANSMIT: {', '.join(roles.near)}" if roles.near else parts

    def record(self) -> dict[str, Any]:
        """The stored form: JSON values."""
        contacts = [{"pair": pair, **asdict(contact)} for pair, contact in sorted(self.contacts.items())]
        return {**asdict(replace(self, contacts={})), "contacts": contacts}

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> Advisory:
        """Raises ValueError for what `record` did not make."""
        contacts = {tuple(contact["pair"]): contact for contact in record["contacts"]}
        # The versions before kept no files with a start: they were the advisory's.
        stands = {agent: {"files": record["files"], **start} for agent, start in record["stands"].items()}
        return stored_form().validate_python({**record, "contacts": contacts, "stands": stands})


@cache
def stored_form() -> TypeAdapter[Advisory]:
    """How a record is read. Made when it is first asked for, which takes some 50 ms."""
    from pydantic import TypeAdapter  # a tenth of a second, which no command has to wait for

    return TypeAdapter(Advisory)


def asks_to_take_in(agent: str, branch: str, *, unsettled: bool) -> str:
    """What asks an agent to take the main branch in, on a button. `unsettled`: it is in the middle of that."""
    if unsettled:
        return f"Ask {agent} again to settle the conflicts"
    return f"Ask {agent} to merge {branch} into its branch"


def right_of_way_reason(first: Priority, latched: tuple[Priority, ...]) -> str:
    """An agent's name with what gives it the right of way, for a person to check."""
    agent, others = first.agent, [priority for priority in latched if priority.agent != first.agent]
    if first.by:
        return f"{agent} ({first.by} says so)"
    priorities = {priority.agent: priority for priority in latched}
    ahead = itertools.takewhile(
        lambda priority: priority.agent != agent, latch_order((), priorities, priorities)
    )
    passed = [priority.agent for priority in ahead if priority.back]
    if passed and not first.back:
        return f"{agent} ({' and '.join(passed)} {'was' if len(passed) == 1 else 'were'} set back)"
    if first.committed:
        count = f"{first.committed:g}"
        return f"{agent} ({count} file{'' if count == '1' else 's'} committed)"
    if first.started_at and any(not o.started_at or o.started_at > first.started_at for o in others):
        return f"{agent} (started first)"
    return f"{agent} (first by name)" if others else agent
