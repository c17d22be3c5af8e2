"""Conflicts that people and agents are asked about, and what they chose (003, sections 6.4 and 6.5).

Invariants:
- a row changes in the transaction that records its event;
- what is chosen is chosen for the three texts of one place (`ConflictPart.id`): as soon as a side says something else
  there, it counts for nothing;
- the last choice counts while its branch is not merged; the same once more is no second one.

Everything here runs in the caller's transaction.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from relay.git.trial_merge import ChosenText, ConflictPart, as_places
from relay.log import events
from relay.log.encoding import dumps
from relay.log.events import Event, Lane, NewEvent
from relay.model import Fault, Refusal, references
from relay.store.ports import Queries, Row, Tx

FOLDER = Path(__file__).parent
Q = Queries(FOLDER)
FOUND, RESOLVED = "conflict.found", "conflict.resolved"
OPEN, SETTLED, REJECTED, GONE = "open", "resolved", "rejected", "gone"
LEVEL = 2
#: 003, `ResolutionStrategy`, by what `merge.strategies` calls them; those by which agents are asked first.
STRATEGIES = {
    "join": "auto_merge_first",
    "ask": "always_escalate",
    "agent": "agent_resolve",
    "confidence": "prefer_higher_confidence",
}
BY_AGENTS = ("agent", "confidence")


@dataclass(frozen=True, slots=True)
class Behind:
    """Who is behind a side, and what they said that it is for. Empty: it is not known."""

    name: str = ""
    intent: str = ""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked about: the branch of `agent`, at the commit `theirs_at`, into `into_name` at `ours_at`."""

    agent: str
    into_name: str
    ours_at: str
    theirs_at: str
    ours: Behind = Behind()
    theirs: Behind = Behind()


@dataclass(frozen=True, slots=True)
class Resolution:
    """What was chosen (003, `ConflictResolution`). `strategy`: which way led to it; `type`: agent_resolved,
    human_resolved, side_chosen or rejected; `by`: who; `text`: what is to stand there, None of what was rejected;
    `chosen`: of a side, whose; `reason`: of a side or a rejection; `reasoning`, `confidence`: the resolver's own,
    None when it gave none."""

    strategy: str
    type: str
    by: str
    text: str | None = None
    chosen: str | None = None
    reason: str = ""
    reasoning: str | None = None
    confidence: float | None = None

    def as_json(self, id: str, *, validated: bool = False) -> dict[str, Any]:
        """`validated`: the tests have passed on a merge with it."""
        kinds: dict[str, dict[str, Any]] = {
            "agent_resolved": {"resolver_agent": self.by},
            "human_resolved": {"user_id": self.by},
            "side_chosen": {"chosen": self.chosen, "reason": self.reason, "user_id": self.by},
            "rejected": {"reason": self.reason, "user_id": self.by},
        }
        return {
            "conflict_id": id,
            "strategy_used": self.strategy,
            "resolution_type": {"type": self.type, **kinds[self.type]},
            "merged_content": self.text,
            "agent_reasoning": self.reasoning,
            "confidence": self.confidence,
            "validated": validated,
        }


@dataclass(frozen=True, slots=True)
class AskedConflict:
    """A row of `merge_conflicts`. `askees`: the agents that were asked to write what is to stand there; `is_new`: it
    was recorded, or decided, just now; `use`: the strategy of its path (`relay.config.merge`); `attempts`: how often
    agents were asked by it; `answers`: what they answered, `{agent, text, reasoning, confidence}`, while more are
    waited for."""

    number: int
    part: ConflictPart
    question: Question
    state: str
    event: str
    at: str
    text: str | None = None
    resolution: Mapping[str, Any] | None = None
    askees: tuple[str, ...] = ()
    is_new: bool = False
    use: str = "join"
    attempts: int = 0
    answers: tuple[Mapping[str, Any], ...] = ()

    @property
    def name(self) -> str:
        return references.conflict(self.number)

    def as_json(self) -> dict[str, Any]:
        """As docs/landing.md has it: a conflict's value (docs/conflicts.md) with its number, sides and resolution."""
        part, question = self.part, self.question
        sides = ((question.ours, part.ours), (question.theirs, part.theirs))
        a, b = (
            {
                "lane": behind.name or None,
                "intent": behind.intent or None,
                "event": None,
                "before": part.base,
                "after": text,
            }
            for behind, text in sides
        )
        return {
            "id": part.id,
            "number": self.number,
            "reference": self.name,
            "level": LEVEL,
            "kind": part.kind,
            "severity": part.severity,
            "path": part.path,
            "whole": part.whole,
            "entity": part.entity or None,
            "lines": dict(zip(("base", "a", "b"), part.places, strict=True)),
            "a": a,
            "b": b,
            "base": part.base,
            "evidence": [],
            "state": self.state,
            "agent": question.agent,
            "into": question.into_name,
            "ours_at": question.ours_at,
            "theirs_at": question.theirs_at,
            "resolution": self.resolution,
            "answers": list(self.answers),
            "at": self.at,
        }


async def ask(
    tx: Tx, question: Question, parts: Sequence[ConflictPart], use: Callable[[str], str] = lambda path: "join"
) -> list[AskedConflict]:
    """Record what conflicts in a merge that was wanted; each place once, also when it is found again. `use`: the
    strategy of a path."""
    known = {
        row["id"]: row for row in await tx.all(Q.conflicts_of_ids, ids=dumps([part.id for part in parts]))
    }
    found = []
    for part in parts:
        row = known.get(part.id)
        number = row["number"] if row is not None else await events.next_number(tx, "merge-conflict")
        if row is not None and row["state"] == OPEN and row["theirs_at"] == question.theirs_at:
            found.append(_of_row(row))
            continue
        lane = _lane(number)
        outputs = {
            "level": LEVEL,
            "number": number,
            "conflict": part.id,
            "sides": [question.agent, "main"],
            "paths": [part.path],
            **_texts(part),
            **asdict(question),
        }
        event = await events.append(tx, NewEvent(FOUND, lane, outputs=outputs, file_touches=[part.path]))
        attempts = 0 if row is None else _of_row(row).attempts
        asked = AskedConflict(
            number,
            part,
            question,
            OPEN,
            event.id,
            event.at,
            is_new=True,
            use=use(part.path),
            attempts=attempts,
        )
        await put(tx, asked)
        found.append(asked)
    return found


async def resolve(
    tx: Tx, asked: AskedConflict, resolution: Resolution, *, cause: Sequence[str] = ()
) -> AskedConflict:
    """Record a choice; nothing where it is the same as the last."""
    value = resolution.as_json(asked.part.id)
    if asked.resolution is not None and asked.state != GONE and _same(asked.resolution, value):
        return asked
    state = REJECTED if resolution.text is None else SETTLED
    outputs = {"level": LEVEL, "number": asked.number, "conflict": asked.part.id, "resolution": value}
    new = NewEvent(
        RESOLVED,
        _lane(asked.number),
        outputs=outputs,
        parents=[asked.event, *cause],
        file_touches=[asked.part.path],
    )
    event = await events.append(tx, new)
    made = replace(
        asked, state=state, event=event.id, at=event.at, text=resolution.text, resolution=value, is_new=True
    )
    await put(tx, made)
    return made


async def ask_agent(
    tx: Tx, asked: AskedConflict, agent: str, *, attempts: int | None = None
) -> AskedConflict:
    """This agent is asked to write what is to stand there. `attempts`: how often the strategy has asked by now."""
    askees = tuple(dict.fromkeys((*asked.askees, agent)))
    made = replace(asked, askees=askees, attempts=asked.attempts if attempts is None else attempts)
    await put(tx, made)
    return made


async def validated(tx: Tx, ids: Sequence[str]) -> None:
    """The tests have passed on a merge with what was chosen in these places."""
    for row in await tx.all(Q.conflicts_of_ids, ids=dumps(list(ids))) if ids else ():
        asked = _of_row(row)
        if asked.state != SETTLED or asked.resolution is None or asked.resolution["validated"]:
            continue
        value = {**asked.resolution, "validated": True}
        event = await _record(tx, RESOLVED, asked, {"resolution": value})
        await put(tx, replace(asked, event=event.id, at=event.at, resolution=value))


async def failed(
    tx: Tx, ids: Sequence[str], why: str, counts: Callable[[str], bool] = lambda path: True
) -> list[AskedConflict]:
    """The tests fail on a merge with what was chosen in these places: what an agent answered there by a strategy is
    taken back, where the tests count for that path. The conflicts that this opens, with `why` as their fault."""
    opened = []
    for row in await tx.all(Q.conflicts_of_ids, ids=dumps(list(ids))) if ids else ():
        asked = _of_row(row)
        resolved = (asked.resolution or {}).get("resolution_type", {}).get("type")
        if asked.state != SETTLED or resolved != "agent_resolved":
            continue
        if asked.use not in BY_AGENTS or not counts(asked.part.path):
            continue
        event = await _record(
            tx, FOUND, asked, {**_texts(asked.part), **asdict(asked.question), "fault": why}
        )
        made = replace(
            asked,
            state=OPEN,
            event=event.id,
            at=event.at,
            text=None,
            resolution=None,
            answers=(),
            is_new=True,
        )
        await put(tx, made)
        opened.append(replace(made, part=replace(asked.part, fault=why)))
    return opened


async def _record(tx: Tx, type: str, asked: AskedConflict, outputs: dict[str, Any]) -> Event:
    said = {
        "level": LEVEL,
        "number": asked.number,
        "conflict": asked.part.id,
        "sides": [asked.question.agent, "main"],
        "paths": [asked.part.path],
        **outputs,
    }
    new = NewEvent(
        type, _lane(asked.number), outputs=said, parents=[asked.event], file_touches=[asked.part.path]
    )
    return await events.append(tx, new)


def _texts(part: ConflictPart) -> dict[str, Any]:
    """What of a place is kept."""
    return {
        name: value
        for name, value in asdict(part).items()
        if name not in ("settled", "fault", "whole", "places")
    }


async def gone(tx: Tx, asked: AskedConflict) -> None:
    """The sides moved on: there is nothing to choose any more."""
    await put(tx, replace(asked, state=GONE, text=None))


async def conflict(tx: Tx, number: int) -> AskedConflict:
    """Raises Refusal: there is none."""
    row = await tx.one(Q.conflict, number=number)
    if row is None and (other := await tx.one(Q.finding, number=number)) is not None:
        raise Refusal(
            f"{references.conflict(number)} is of level {other['level']}: git merges both, so there is nothing to "
            "choose.",
            f"{other['a']} and {other['b']} have to agree; it ends when their work no longer conflicts.",
            code="no_choice",
        )
    if row is None:
        raise Refusal(
            f"There is no conflict {references.conflict(number)}.",
            "`/resolve` lists them.",
            Fault.UNKNOWN,
            "not_found",
        )
    return _of_row(row)


async def newest(tx: Tx, *, only_open: bool = False, limit: int = 100) -> list[AskedConflict]:
    """The newest first."""
    query = Q.open_conflicts if only_open else Q.newest_conflicts
    return [_of_row(row) for row in await tx.all(query, limit=limit)]


async def chosen(tx: Tx, ids: Sequence[str]) -> dict[str, ChosenText]:
    """What is to stand in those of these places of which somebody has said it."""
    if not ids:
        return {}
    return {
        asked.part.id: ChosenText(
            asked.text or "", (asked.resolution or {})["resolution_type"]["type"] == "agent_resolved"
        )
        for asked in await settled(tx, ids)
    }


async def settled(tx: Tx, ids: Sequence[str]) -> list[AskedConflict]:
    """Those of these places of which somebody has said what is to stand there, by their numbers."""
    rows = await tx.all(Q.conflicts_of_ids, ids=dumps(list(ids)))
    return sorted((_of_row(row) for row in rows if row["state"] == SETTLED), key=lambda each: each.number)


async def written_by(tx: Tx, ids: Sequence[str]) -> list[str]:
    """The people whose own lines are to stand in some of these places, each once, by the conflicts' numbers."""
    types = [(each.resolution or {})["resolution_type"] for each in await settled(tx, ids)]
    return list(dict.fromkeys(each["user_id"] for each in types if each["type"] == "human_resolved"))


async def choices(tx: Tx) -> int:
    """The position of the last choice in the log; 0: there is none."""
    row = await tx.one(Q.last_choice, type=RESOLVED)
    return 0 if row is None else row["pos"]


def _same(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    return (before["resolution_type"], before["merged_content"]) == (
        now["resolution_type"],
        now["merged_content"],
    )


def _lane(number: int) -> Lane:
    return Lane("room", f"merge-conflict:{number}", short=True)


async def put(tx: Tx, asked: AskedConflict) -> None:
    """Write its row. What changes by it is recorded in the same transaction."""
    part, question = asked.part, asked.question
    await tx.execute(
        Q.put_conflict,
        number=asked.number,
        id=part.id,
        **_texts(part),
        agent=question.agent,
        into_name=question.into_name,
        ours_at=question.ours_at,
        theirs_at=question.theirs_at,
        about=dumps(
            {
                "ours": asdict(question.ours),
                "theirs": asdict(question.theirs),
                "askees": list(asked.askees),
                "use": asked.use,
                "whole": part.whole,
                "places": part.places,
                "attempts": asked.attempts,
                "answers": list(asked.answers),
            }
        ),
        state=asked.state,
        text=asked.text,
        resolution=None if asked.resolution is None else dumps(asked.resolution),
        event=asked.event,
        at=asked.at,
    )


def _of_row(row: Row) -> AskedConflict:
    names = ("path", "entity", "kind", "severity", "base", "ours", "theirs")
    about = json.loads(row["about"])
    part = ConflictPart(
        **{name: row[name] for name in names},
        whole=about.get("whole", False),
        places=as_places(about.get("places", (None, None, None))),
    )
    question = Question(
        row["agent"],
        row["into_name"],
        row["ours_at"],
        row["theirs_at"],
        Behind(**about["ours"]),
        Behind(**about["theirs"]),
    )
    resolution = None if row["resolution"] is None else json.loads(row["resolution"])
    return AskedConflict(
        row["number"],
        part,
        question,
        row["state"],
        row["event"],
        row["at"],
        row["text"],
        resolution,
        tuple(about["askees"]),
        use=about.get("use", "join"),
        attempts=about.get("attempts", 0),
        answers=tuple(about.get("answers", ())),
    )
