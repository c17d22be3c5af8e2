"""What came of the work in a room, as figures: merges, memories, tasks, verifications, landings, dollars.

Five are the source's (004, "Success Metrics").

Invariants:
- a figure comes from events of the log alone, so whoever reads the log again gets it again;
- what nothing was measured of has no value: neither 0 nor 100 %;
- a window is whole days in UTC. What takes long counts on the day of its end, a task on that of its first claim;
- what is held is small, however long the log is: sums by day, and what is open, of which the oldest is given up
  beyond a bound.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeVar

from relay.base.durations import parse_iso
from relay.log.events import Event

WORKTREE, FEEDBACK, TASK, ADVISORY = "worktree.changed", "memory.feedback", "task.changed", "advisory.changed"
TURN_ENDED, VERIFIED = "turn.ended", "verification.ended"
LANDED, PUT_OUT = "landing.landed", "landing.put_out"
#: The events that are looked at.
READS = frozenset({WORKTREE, FEEDBACK, TASK, ADVISORY, TURN_ENDED, VERIFIED, LANDED, PUT_OUT})
#: Words on memories and claimed tasks that are held, and advisories whose end is not known.
MOST_HELD, MOST_ADVISORIES = 50_000, 1_000

K = TypeVar("K")
V = TypeVar("V")
Pair = tuple[str, str]
Json = Mapping[str, Any]


class Unit(StrEnum):
    """COUNT and USD: as it is; RATIO: 0 to 1; SECONDS: of the clock."""

    COUNT = "count"
    RATIO = "ratio"
    SECONDS = "seconds"
    USD = "usd"


@dataclass(frozen=True, slots=True)
class Target:
    """What a figure should be: equal to (`=`), above (`>`) or below (`<`) the value."""

    sign: str
    value: float

    def met(self, value: float) -> bool:
        return {"=": value == self.value, ">": value > self.value, "<": value < self.value}[self.sign]


@dataclass(frozen=True, slots=True)
class Metric:
    """A figure. `of`: what it is counted among; `definition`: what exactly is counted; `source`: its name among
    the metrics of 004, None = it is relay's own."""

    name: str
    label: str
    unit: Unit
    of: str
    definition: str
    target: Target | None = None
    source: str | None = None


@dataclass(frozen=True, slots=True)
class Measured:
    """`value`: None = nothing was measured; `n`: how many of `metric.of` it is of."""

    metric: Metric
    value: float | None
    n: int

    @property
    def met(self) -> bool | None:
        """Is the target met? None: there is none, or no value."""
        target = self.metric.target
        return None if target is None or self.value is None else target.met(self.value)

    def as_json(self) -> dict[str, Any]:
        """What interfaces show (docs/verification.md)."""
        metric, target = self.metric, self.metric.target
        return {
            "name": metric.name,
            "label": metric.label,
            "value": None if self.value is None else round(self.value, 6),
            "unit": metric.unit.value,
            "n": self.n,
            "of": metric.of,
            "target": None if target is None else {"sign": target.sign, "value": target.value},
            "met": self.met,
            "definition": metric.definition,
            "source": metric.source,
        }


_MERGES = Metric(
    "lock_conflicts",
    "Merge conflicts",
    Unit.COUNT,
    "merges tried",
    "Merges of an agent's branch into the main branch that failed for a conflict; each try counts.",
    Target("=", 0),
    "Merge conflicts",
)
_MEMORIES = Metric(
    "useful_memories",
    "Useful memories",
    Unit.RATIO,
    "words of feedback",
    "Share of the feedback on memories that says useful; of each reader, on each memory, the last word.",
    Target(">", 0.7),
    "Memory retrieval relevance",
)
_TASKS = Metric(
    "task_completion",
    "Task completion",
    Unit.RATIO,
    "claimed tasks",
    "Share of the tasks that somebody has claimed which are completed now. One that is still worked on is not, nor "
    "one that is open again because its change did not pass.",
    Target(">", 0.9),
    "Task completion rate",
)
_FIRST_PASS = Metric(
    "first_pass",
    "First-pass rate",
    Unit.RATIO,
    "changes",
    "Share of the changes that passed in the first run of every policy, among those that passed, failed or could not "
    "be verified. In the landing queue a branch counts when it lands tested, or is put out because its tests fail. A "
    "verification that is asked for again does not count.",
    Target(">", 0.8),
    "Verification pass rate",
)
_VERIFY = Metric(
    "time_to_verify",
    "Mean time to verify",
    Unit.SECONDS,
    "verifications",
    "Mean time from when a verification was asked for until it passed or failed, a wait for a person's approval "
    "included. One that is asked for again does not count.",
    Target("<", 300),
    "Mean time to verify",
)
_FORESEEN = Metric(
    "collisions_foreseen",
    "Collisions foreseen",
    Unit.COUNT,
    "advisories",
    "Pairs of agents that an advisory of the room told that they come near each other; a pair counts once an "
    "advisory.",
)
_AVOIDED = Metric(
    "collisions_avoided",
    "Collisions avoided",
    Unit.COUNT,
    "foreseen collisions that are decided",
    "Foreseen pairs whose branches were both merged afterwards, without a conflict in the advisory's files once one "
    "of them was merged. Whether they would have collided untold, nobody can know.",
)
_LAND = Metric(
    "time_to_land",
    "Mean time to land",
    Unit.SECONDS,
    "branches that landed",
    "Mean time from when a branch was put into the landing queue until it was on the main branch.",
)
_DOLLARS = Metric(
    "landed_change_cost",
    "US dollars a landed change",
    Unit.USD,
    "landed changes",
    "Mean of what an agent's turns cost between two merges of its branch, by what its program reports. Merges before "
    "which none was reported do not count.",
)
METRICS = (_MERGES, _MEMORIES, _TASKS, _FIRST_PASS, _VERIFY, _FORESEEN, _AVOIDED, _LAND, _DOLLARS)


@dataclass(slots=True)
class _Tally:
    """Of one metric on one day: `total` of `n`."""

    total: float = 0.0
    n: int = 0


@dataclass(slots=True)
class _Advisory:
    """One that was said. `pairs`: of each the agents that were merged since, None = it is decided."""

    files: frozenset[str] = frozenset()
    pairs: dict[Pair, set[str] | None] = field(default_factory=dict)
    over: bool = False

    @property
    def done(self) -> bool:
        """Can nothing come of it any more?"""
        return self.over and all(merged is None for merged in self.pairs.values())


class MetricFold:
    """The figures of the events that were applied, in the log's order."""

    def __init__(self) -> None:
        self._days: dict[str, dict[str, _Tally]] = {}
        #: The last word of a reader on a memory, with its day.
        self._words: dict[tuple[int, str], tuple[str, bool]] = {}
        #: Of claimed tasks the day, and whether they are completed.
        self._claimed: dict[str, tuple[str, bool]] = {}
        #: Dollars since an agent's last merge, and the commit of that.
        self._spent: dict[str, float] = {}
        self._merged: dict[str, str] = {}
        self._advisories: dict[str, _Advisory] = {}
        self._apply: dict[str, Callable[[str, Json, Event], None]] = {
            WORKTREE: self._worktree,
            FEEDBACK: self._feedback,
            TASK: self._tasks,
            ADVISORY: self._advisory,
            TURN_ENDED: self._turn,
            VERIFIED: self._verified,
            LANDED: self._landed,
            PUT_OUT: self._put_out,
        }

    def apply(self, event: Event) -> None:
        """Count an event; one whose form is not known here counts nowhere."""
        if (apply := self._apply.get(event.type)) is not None:
            with suppress(KeyError, TypeError, ValueError):
                apply(event.at[:10], event.outputs or {}, event)

    def measured(self, since: str = "") -> list[Measured]:
        """Every metric. `since`: the first day that counts, as `2026-11-22`."""
        days = [tallies for day, tallies in self._days.items() if day >= since]
        return [_measured(metric, days) for metric in METRICS]

    def _tally(self, day: str, metric: Metric) -> _Tally:
        return self._days.setdefault(day, {}).setdefault(metric.name, _Tally())

    def _count(self, day: str, metric: Metric, value: float, n: int = 1) -> None:
        tally = self._tally(day, metric)
        tally.total += value
        tally.n += n

    # -- each event

    def _worktree(self, day: str, change: Json, event: Event) -> None:
        what, agent = change.get("change"), str(change.get("agent"))
        conflicts = frozenset(map(str, change.get("conflicts") or ()))
        match what:
            case "merged":
                commit = str(change.get("commit"))
                if self._merged.get(agent) == commit:
                    return  # merged by hand, and the landing queue finds it there
                _hold(self._merged, agent, commit, MOST_HELD)
                self._count(day, _MERGES, 0)
                if dollars := self._spent.pop(agent, 0.0):
                    self._count(day, _DOLLARS, dollars)
                self._decide(day, agent)
            case "conflicted":
                self._count(day, _MERGES, 1)
                self._decide(day, agent, conflicts)
            case "taking" if conflicts:
                self._decide(day, agent, conflicts)
            case "discarded":
                self._decide(day, agent, gone=True)

    def _feedback(self, day: str, outputs: Json, event: Event) -> None:
        feedback = outputs["feedback"]
        key, useful = (int(feedback["number"]), str(feedback["agent_id"])), bool(feedback["useful"])
        if (before := self._words.pop(key, None)) is not None:
            self._count(before[0], _MEMORIES, -before[1], -1)
        _hold(self._words, key, (day, useful), MOST_HELD)
        self._count(day, _MEMORIES, useful)

    def _tasks(self, day: str, outputs: Json, event: Event) -> None:
        for pair in outputs.get("tasks") or ():
            task = pair["after"]
            id_, status = task["id"], task["status"]
            if (known := self._claimed.get(id_)) is not None:
                claimed, before = known
                now = status == "completed"
                self._count(claimed, _TASKS, now - before, 0)
                self._claimed[id_] = claimed, now
            elif status == "claimed":
                _hold(self._claimed, id_, (day, False), MOST_HELD)
                self._count(day, _TASKS, 0)
            if task.get("archived_at") is not None:
                self._claimed.pop(id_, None)

    def _turn(self, day: str, outputs: Json, event: Event) -> None:
        # The lane is the agent's. What reports nothing has 0.
        dollars = float((outputs.get("usage") or {}).get("cost_usd") or 0.0)
        if dollars > 0:
            self._spent[event.lane] = self._spent.get(event.lane, 0.0) + dollars

    def _verified(self, day: str, outputs: Json, event: Event) -> None:
        if (outputs.get("about") or {}).get("fresh"):
            return
        if outputs["state"] in ("passed", "failed"):
            self._count(day, _VERIFY, float(outputs["seconds"]))
        elif outputs["state"] != "error":
            return
        if outputs["source"] != "landing":
            self._count(day, _FIRST_PASS, bool(outputs["first_pass"]))

    def _landed(self, day: str, outputs: Json, event: Event) -> None:
        self._count(day, _LAND, parse_iso(outputs["ended"]) - parse_iso(outputs["at"]))
        if outputs.get("tested"):
            self._count(day, _FIRST_PASS, 1)

    def _put_out(self, day: str, outputs: Json, event: Event) -> None:
        if outputs.get("failed"):
            self._count(day, _FIRST_PASS, 0)

    # -- collisions

    def _advisory(self, day: str, outputs: Json, event: Event) -> None:
        record = (event.inputs or {}).get("record")
        # Said: the room has a message of it. Without a pair it only says that a branch does not merge into main.
        if record is None or not record["message_id"] or not record["pairs"]:
            return
        known = self._advisories.get(record["id"])
        if record["closed_at"] is not None:
            if known is not None:
                known.over = True
                self._forget_done()
            return
        if known is None:
            known = _Advisory()
            _hold(self._advisories, record["id"], known, MOST_ADVISORIES)
            self._count(day, _FORESEEN, 0)
        known.files = frozenset(record["files"])
        for a, b in record["pairs"]:
            if (a, b) not in known.pairs:
                known.pairs[a, b] = set()
                self._count(day, _FORESEEN, 1, 0)

    def _decide(
        self, day: str, agent: str, conflicts: frozenset[str] = frozenset(), *, gone: bool = False
    ) -> None:
        """What becomes of the agent's foreseen collisions: its branch was merged, or conflicts in these files, or its
        work is `gone`."""
        for advisory in self._advisories.values():
            for pair, merged in advisory.pairs.items():
                if merged is None or agent not in pair:
                    continue
                if gone:
                    advisory.pairs[pair] = None
                elif conflicts:
                    # What another agent merged is no collision of this pair.
                    if merged - {agent} and conflicts & advisory.files:
                        advisory.pairs[pair] = None
                        self._count(day, _AVOIDED, 0)
                else:
                    merged.add(agent)
                    if merged == {*pair}:
                        advisory.pairs[pair] = None
                        self._count(day, _AVOIDED, 1)
        self._forget_done()

    def _forget_done(self) -> None:
        self._advisories = {id_: known for id_, known in self._advisories.items() if not known.done}


def _hold(held: dict[K, V], key: K, value: V, most: int) -> None:
    held[key] = value
    if len(held) > most:
        del held[next(iter(held))]


def _measured(metric: Metric, days: list[dict[str, _Tally]]) -> Measured:
    tallies = [tallies[metric.name] for tallies in days if metric.name in tallies]
    total, n = sum(tally.total for tally in tallies), sum(tally.n for tally in tallies)
    if not n:
        return Measured(metric, None, 0)
    return Measured(metric, int(total) if metric.unit is Unit.COUNT else total / n, n)
