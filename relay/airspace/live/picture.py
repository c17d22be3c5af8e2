"""The airspace as it was last seen: what a scan gives, and what the interfaces show of it (docs/airspace.md).

Invariant: plain values; each has one JSON form, made here. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from relay.airspace.advisories import wording
from relay.airspace.advisories.rules.advisory import Advisory
from relay.airspace.pair_facts import SemanticCheck
from relay.airspace.readings import Assessment, Evidence, Level, Reading
from relay.airspace.shared.shared_work import SharedWork
from relay.airspace.worktrees.merging.wording import flat
from relay.base.durations import iso
from relay.model.working_set import FileTouch, Pair, WorkingSet

Point = tuple[float, float, float]
#: What counts as a change that the history keeps: a move by 0.02 in units of D (relay.airspace.live.embedding),
#: which is some five pixels of a view in which D = 1 is a quarter of the screen; a risk that differs by half of the
#: hysteresis's slack (Thresholds.slack 0.05).
MOVED = 0.02
RISEN = 0.025


@dataclass(frozen=True, slots=True)
class Picture:
    """One scan. `links`: the pairs above the floor; `counts` as the scenario's scan prints them."""

    links: Mapping[Pair, Assessment] = field(default_factory=dict)
    positions: Mapping[str, Point] = field(default_factory=dict)
    file_coordinates: Mapping[str, Point] = field(default_factory=dict)


#: What is said of lines on two machines whose commits nobody could try to merge.
PREDICTED = "predicted, not tried"


def as_predicted(assessment: Assessment) -> Assessment:
    """What lies between two that git was not asked about; what both change says so."""

    def said(reading: Reading) -> Reading:
        told = (replace(piece, text=f"{piece.text} ({PREDICTED})") for piece in reading.evidence)
        return replace(reading, evidence=tuple(told))

    channels = {
        name: said(reading) if name == "overlap" else reading for name, reading in assessment.channels.items()
    }
    return assessment._replace(channels=channels)


def ahead_of_json(links: Iterable[Mapping[str, Any]]) -> dict[Pair, Assessment]:
    """Of links as `link_json` makes them, those of which a collision is foretold."""
    ahead = {}
    for link in links:
        if link["ahead"]:
            channels = {name: _reading(value) for name, value in link["readings"].items()}
            ahead[link["a"], link["b"]] = Assessment(link["risk"], Level.CLEAR, channels, ahead=True)
    return ahead


def _reading(value: Mapping[str, Any]) -> Reading:
    evidence = (
        Evidence(
            piece["text"],
            piece.get("path", ""),
            piece.get("other_path", ""),
            tuple((first, last) for first, last in piece.get("lines", ())),
            piece.get("symbol", ""),
        )
        for piece in value["evidence"]
    )
    return Reading(value["risk"], value["weight"], value["alone"], tuple(evidence))


def link_json(pair: Pair, assessment: Assessment, level: Level) -> dict[str, Any]:
    """`channels` are the bare r in [0, 1]; `readings` have weight and evidence. `ahead`: the pair is clear, and a
    foretold collision is worth drawing; the room is not told of it."""
    return {
        "a": pair[0],
        "b": pair[1],
        "risk": round(assessment.risk, 6),
        "distance": round(assessment.distance, 6),
        "level": level.word,
        "ahead": assessment.ahead and level is Level.CLEAR,
        "channels": {name: round(reading.risk, 6) for name, reading in assessment.channels.items()},
        "readings": {name: reading.as_json() for name, reading in assessment.channels.items()},
    }


def agent_json(
    working_set: WorkingSet,
    *,
    person: bool,
    branch: str | None,
    tree: str | None,
    position: Point | None,
    elsewhere: SharedWork | None = None,
) -> dict[str, Any]:
    """`tree`: another one when any file of its checkout is. `elsewhere`: as the other member tells it where the agent
    lives; then its name is there, and whether it is away."""
    place = {} if elsewhere is None else {"member": elsewhere.member, "away": elsewhere.away}
    return place | {
        "agentId": working_set.agent,
        "kind": "person" if person else "agent",
        "files": [_file_json(touch) for touch in working_set.files],
        "intent": [touch.path for touch in working_set.intent],
        "startedAt": iso(working_set.started_at or None),
        "committed": working_set.committed,
        "branch": branch,
        "tree": tree,
        "position": None if position is None else _point(position),
    }


def _file_json(touch: FileTouch) -> dict[str, Any]:
    return {
        "path": touch.path,
        "new_path": touch.new_path,
        "lines": [[span.start, span.end] for span in touch.lines],
        "weight": round(touch.weight, 4),
        "change": str(touch.change),
    }


def _point(point: Point) -> list[float]:
    return [round(each, 5) for each in point]


def points_json(points: Mapping[str, Point]) -> dict[str, list[float]]:
    return {name: _point(point) for name, point in points.items()}


def counts_json(agents: int, links: Mapping[Pair, Level], files: int) -> dict[str, int]:
    """`pairs`: all there are; those that are not among the links are clear."""
    levels = list(links.values())
    pairs = agents * (agents - 1) // 2
    near = levels.count(Level.TRAFFIC), levels.count(Level.RESOLUTION)
    return {
        "agents": agents,
        "pairs": pairs,
        "clear": pairs - sum(near),
        "advisory": near[0],
        "resolution": near[1],
        "files": files,
    }


def picture_json(
    picture: Picture,
    sets: Mapping[str, WorkingSet],
    levels: Mapping[Pair, Level],
    advisories: Iterable[Advisory],
    agents: Collection[str],
    branches: Mapping[str, str],
    trees: Mapping[str, str],
    others: Mapping[str, SharedWork],
) -> dict[str, Any]:
    """Everything of GET /api/airspace that was seen. `agents`: those of the room; `branches` and `trees`: by agent;
    `others`: the agents of the fleet's other members."""
    return {
        "agents": [
            agent_json(
                working_set,
                # An agent that somebody runs beside the room has no checkout, only what it declares and locks.
                person=working_set.agent not in agents
                and bool(working_set.files or working_set.agent in branches),
                branch=branches.get(working_set.agent),
                tree=trees.get(working_set.agent),
                position=picture.positions.get(working_set.agent),
                elsewhere=others.get(working_set.agent),
            )
            for working_set in sets.values()
        ],
        "links": [link_json(pair, assessment, levels[pair]) for pair, assessment in picture.links.items()],
        "advisories": [wording.shown(advisory) for advisory in advisories],
        "positions": points_json(picture.positions),
        "fileCoordinates": points_json(picture.file_coordinates),
        "counts": counts_json(len(sets), levels, len(picture.file_coordinates)),
    }


def unchecked_json(semantic: Mapping[Pair, SemanticCheck]) -> list[dict[str, Any]]:
    """The pairs that were not looked at across files as they stand. `why` it could not be done; None = not yet."""
    return [
        {"a": a, "b": b, "why": check.why or None}
        for (a, b), check in sorted(semantic.items())
        if check.why or check.pending
    ]


@dataclass(frozen=True, slots=True)
class PictureSample:
    """What the history keeps of one moment. `ahead`: the clear pairs of which a collision is foretold."""

    at: float
    positions: Mapping[str, Point]
    links: Mapping[Pair, tuple[float, Level]]
    advisories: tuple[str, ...]
    ahead: frozenset[Pair] = frozenset()

    def as_json(self) -> dict[str, Any]:
        return {
            "at": iso(self.at),
            "positions": points_json(self.positions),
            "links": [
                {"a": a, "b": b, "risk": round(risk, 4), "level": level.word}
                | ({"ahead": True} if (a, b) in self.ahead else {})
                for (a, b), (risk, level) in sorted(self.links.items())
            ],
            "advisories": list(self.advisories),
        }

    def worse_than(self, other: PictureSample | None) -> bool:
        """Has a pair entered a level, or a worse one, since `other`?"""
        before = {} if other is None else other.links
        return any(
            level > (before[pair][1] if pair in before else Level.CLEAR)
            for pair, (_, level) in self.links.items()
        )

    def differs(self, other: PictureSample | None) -> bool:
        """Does this picture differ visibly from `other`?"""
        if other is None:
            return bool(self.positions or self.links)
        if set(self.positions) != set(other.positions) or set(self.links) != set(other.links):
            return True
        if self.advisories != other.advisories or self.ahead != other.ahead:
            return True
        moved = any(
            abs(here - there) > MOVED
            for name, point in self.positions.items()
            for here, there in zip(point, other.positions[name], strict=True)
        )
        return moved or any(
            level is not other.links[pair][1] or abs(risk - other.links[pair][0]) > RISEN
            for pair, (risk, level) in self.links.items()
        )


def near_text(
    links: Mapping[Pair, tuple[Assessment, Level]],
    advisories: Sequence[Advisory],
    agents: Sequence[str],
    conflicts: Mapping[Pair, Sequence[str]] | None = None,
    semantic: Mapping[Pair, SemanticCheck] | None = None,
) -> str:
    """The near pairs, as markdown for the room: first the open advisories, as they are now and not as they were
    said, then the nearest other pairs. `conflicts`: by pair, the files that git cannot merge: these are not clear;
    nor are those that conflict across files (`semantic`), and nobody knows of those that could not be looked at."""
    if not agents:
        return "Nobody has anything in hand."
    lines = [f"- {_level(advisory.level)} {wording.line(advisory)}" for advisory in advisories]
    in_advisories = {pair for advisory in advisories for pair in advisory.contacts}
    lines += [
        f"- {a} and {b}: git cannot merge them together in {wording.files(paths)}"
        for (a, b), paths in sorted((conflicts or {}).items())
        if paths and (a, b) not in in_advisories
    ]
    checks = sorted((semantic or {}).items())
    lines += [
        f"- {a} and {b}: {flat(' '.join(check.conflicts[0].said))}"
        for (a, b), check in checks
        if check.conflicts and (a, b) not in in_advisories
    ]
    lines += [
        f"- {a} and {b}: what the one changes and the other relies on is not known: {flat(check.why)}"
        for (a, b), check in checks
        if check.why
    ]
    clear = sorted(
        (-assessment.risk, pair, assessment)
        for pair, (assessment, level) in links.items()
        if level is Level.CLEAR and not (conflicts or {}).get(pair) and not _unclear(pair, semantic)
    )
    lines += [
        f"- {a} and {b}: risk {near.risk:.2f}, {'clear, but may collide later' if near.ahead else 'clear'}"
        + (f" ({near.evidence[0].text})" if near.evidence else "")
        for _, (a, b), near in clear[:8]
    ]
    pending = sum(check.pending for _, check in checks)
    waiting = (
        f"{pending} pair{' is' if pending == 1 else 's are'} still to be compared across files."
        if pending
        else ""
    )
    if lines:
        near = "**In the airspace:**\n" + "\n".join(lines)
        return f"{near}\n\n{waiting}" if waiting else near
    named = ", ".join(agents)
    if waiting:
        return f"So far {named} are apart. {waiting}"
    return f"All is clear: {named} are apart." if len(agents) > 1 else f"All is clear: only {named} works."


def _unclear(pair: Pair, semantic: Mapping[Pair, SemanticCheck] | None) -> bool:
    check = (semantic or {}).get(pair)
    return check is not None and bool(check.conflicts or check.why)


def _level(level: Level) -> str:
    return {Level.TRAFFIC: "**traffic:**", Level.RESOLUTION: "**resolution:**"}.get(level, "clear:")
