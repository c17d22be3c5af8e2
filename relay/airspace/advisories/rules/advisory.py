"""An advisory: what stands between agents, what they were told, what they answered, and what came of it.

Invariant: a plain value with one stored form (`record`) and one that the doors show (`as_json`,
docs/airspace.md); its order is latched when it opens and only grows. Times are Unix seconds.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any

from relay.airspace.advisories.choices import FIRST, STOP, UPDATE, Choice
from relay.airspace.advisories.rules.grouping import (
    Contact,
    OpenAdvisory,
    Priority,
    Roles,
    evidence_of,
    latch_order,
    roles,
)
from relay.airspace.advisories.rules.set_back import SetBack
from relay.airspace.readings import Evidence, Level
from relay.base.durations import iso
from relay.model.working_set import Pair

#: Pieces of evidence that the doors show of one advisory.
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
    def known(self) -> OpenAdvisory:
        return OpenAdvisory(frozenset(self.contacts), self.latched)

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
        found = []
        roles = self.roles
        if self.between is Level.RESOLUTION:
            first = self.decided
            parties = [name for name in (*roles.hold, *roles.steer) if first is None or name != first.agent]
            found += [Choice(FIRST, name, f"{name} goes first") for name in parties if name in agents]
        late = {*roles.steer, *self.set_back} & set(agents)
        for name in (name for name in self.part if name in late):
            found.append(Choice(STOP, name, f"Stop {name}"))
            if name in self.set_back:
                found.append(Choice(UPDATE, name, f"Ask {name} to merge main into its branch"))
        return tuple(found)

    def as_json(self) -> dict[str, Any]:
        """As every door shows it. `verdict`: open, true, false, averted (`outcomes`); `outcome`: true and false of
        these as such, else null."""
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
                agent: {
                    "intent": list(answer.intent),
                    "text": answer.text,
                    "message_id": answer.message_id,
                    "at": iso(answer.at),
                }
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
        values = asdict(replace(self, contacts={}))
        values["contacts"] = [
            {
                "pair": list(pair),
                "level": int(contact.level),
                "risk": contact.risk,
                "files": list(contact.files),
                "evidence": [asdict(evidence) for evidence in contact.evidence],
            }
            for pair, contact in sorted(self.contacts.items())
        ]
        return {**values, "worst": int(self.worst)}

    @classmethod
    def of_record(cls, kept: Mapping[str, Any]) -> Advisory:
        values = dict(kept)
        values["contacts"] = {
            (one["pair"][0], one["pair"][1]): Contact(
                Level(one["level"]),
                one["risk"],
                tuple(one["files"]),
                tuple(_evidence(evidence) for evidence in one["evidence"]),
            )
            for one in kept["contacts"]
        }
        values["worst"] = Level(kept["worst"])
        values["set_back"] = {name: SetBack.of_record(one) for name, one in kept.get("set_back", {}).items()}
        values["was_set_back"] = tuple(kept.get("was_set_back", ()))
        values["latched"] = tuple(Priority(**one) for one in kept["latched"])
        values["pairs"] = tuple((one[0], one[1]) for one in kept["pairs"])
        values["files"] = tuple(kept["files"])
        values["asked"] = {agent: Asked(**one) for agent, one in kept["asked"].items()}
        values["answers"] = {
            agent: Answer(**{**one, "intent": tuple(one["intent"])}) for agent, one in kept["answers"].items()
        }
        values["stands"] = {
            agent: SteeringStart(one["digest"], one["left"], tuple(one.get("files", values["files"])))
            for agent, one in kept["stands"].items()
        }
        for name, kind in (("steering", Steering), ("outcome", Outcome), ("mark", Mark)):
            values[name] = kind(kept[name]) if kept[name] else None
        return cls(**values)


def _evidence(kept: Mapping[str, Any]) -> Evidence:
    lines = tuple((pair[0], pair[1]) for pair in kept["lines"])
    return Evidence(kept["text"], kept["path"], kept["other_path"], lines, kept["symbol"])


def right_of_way_reason(one: Priority, latched: tuple[Priority, ...]) -> str:
    """An agent's name with what gives it the right of way, for a person to check."""
    if one.by:
        return f"{one.agent} ({one.by} says so)"
    priorities = {priority.agent: priority for priority in latched}
    ahead = itertools.takewhile(
        lambda priority: priority.agent != one.agent, latch_order((), priorities, priorities)
    )
    passed = [priority.agent for priority in ahead if priority.back]
    if passed and not one.back:
        return f"{one.agent} ({' and '.join(passed)} {'was' if len(passed) == 1 else 'were'} set back)"
    if one.committed:
        count = f"{one.committed:g}"
        return f"{one.agent} ({count} file{'' if count == '1' else 's'} committed)"
    others = [other for other in latched if other.agent != one.agent]
    if one.started_at and any(not o.started_at or o.started_at > one.started_at for o in others):
        return f"{one.agent} (started first)"
    return f"{one.agent} (first by name)" if others else one.agent
