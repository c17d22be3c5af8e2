"""The explorations of a room as rows: where each stands, so that whoever goes on knows what is next.

Invariants:
- a row changes in the transaction that records what it says, so a process that is killed at any instant leaves each
  exploration before a step or behind it. Only what a variant has used so far is written without an event;
- a variant that has ended never runs again, and an exploration that is done or ended never changes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from relay.base.durations import now_iso
from relay.log import events
from relay.log.encoding import dumps
from relay.log.events import Event, Lane, NewEvent
from relay.merge.exploration.config import ExplorationConfig, of_json
from relay.merge.exploration.usage import Usage, unwatched
from relay.model import Fault, Refusal, references
from relay.store.ports import Queries, Row, Tx, of_row

Q = Queries(Path(__file__).parent)
FOLDER = Path(__file__).parent
#: The events: it was ordered, a variant has ended, the variants were compared (003, section 5.5: the result as an
#: event of the timeline), a person has chosen, and it is over.
BEGUN, VARIANT_ENDED = "exploration.begun", "exploration.variant_ended"
COMPARED, CHOSEN, ENDED = "exploration.compared", "exploration.chosen", "exploration.ended"
TYPES = (BEGUN, VARIANT_ENDED, COMPARED, CHOSEN, ENDED)

#: Where the work of variants is kept: each is `refs/relay/explorations/x<number>/<variant>`.
REFS = "refs/relay/explorations/"


class State(StrEnum):
    """What is next: variants are at work; they are measured and compared; an agent chooses; people choose; the winner
    is merged; nothing, as it was merged; nothing, as nothing was."""

    RUNNING = "running"
    COMPARING = "comparing"
    REVIEWING = "reviewing"
    WAITING = "waiting"
    MERGING = "merging"
    DONE = "done"
    ENDED = "ended"


#: Nothing changes any more.
OVER = (State.DONE, State.ENDED)


class Status(StrEnum):
    """How a variant stands (003, `VariantStatus`); `WAITING`: it has not begun."""

    WAITING = "waiting"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    BUDGET_EXCEEDED = "budget_exceeded"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class VariantRun:
    """A row of `exploration_variants`. `agent`: whose; `detail`: which limit was passed, or why it failed. `attempt`:
    how often its agent was started. `events`: parts of the agent's stream. `conversation`: the agent's own id of it.

    `at_commit` with `tree`: what it left; `ref` keeps it; None = nothing yet. `files`: how many it changed.
    `metrics`: figures by the metrics' names, `notes`: why one is missing, by name. `passing`: do its tests pass;
    None: none has run. `score`: 0 to 1; None: it was not compared.
    """

    exploration: int
    name: str
    place: int
    agent: str
    branch: str = ""
    status: Status = Status.WAITING
    detail: str = ""
    attempt: int = 0
    usage: Usage = field(default_factory=Usage)
    events: int = 0
    conversation: str | None = None
    at_commit: str | None = None
    tree: str | None = None
    ref: str | None = None
    files: int | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)
    passing: bool | None = None
    score: float | None = None

    @property
    def ended(self) -> bool:
        return self.status not in (Status.WAITING, Status.IN_PROGRESS)

    def as_json(self, config: ExplorationConfig) -> dict[str, Any]:
        """003, `VariantResult`: `{name, agent, branch, status, which?, reason?, metrics, notes, weighted_score,
        passing, resource_usage, unwatched, events_count, files_modified, commit, ref}`."""
        key = {Status.BUDGET_EXCEEDED: "which", Status.FAILED: "reason"}.get(self.status)
        return {
            "name": self.name,
            "agent": self.agent,
            "branch": self.branch,
            "status": self.status.value,
            **({key: self.detail} if key else {}),
            "metrics": dict(self.metrics),
            "notes": dict(self.notes),
            "weighted_score": self.score,
            "passing": self.passing,
            "resource_usage": self.usage.as_json(),
            "unwatched": list(unwatched(config.budget, self.usage)) if self.ended else [],
            "events_count": self.events,
            "files_modified": self.files,
            "commit": self.at_commit,
            "ref": self.ref,
        }


@dataclass(frozen=True, slots=True)
class Exploration:
    """A row of `explorations`. `asker`: who ordered it, `cause`: by which event, `at`: when (ISO). `base`: the commit
    that every variant begins at. `matrix`: each compared variant's share of each metric; `taken`: files of the winner
    that are from another variant. `merged`: the commit that brought it in; `trouble`: why it could not be merged."""

    number: int
    state: State
    config: ExplorationConfig
    asker: str
    at: str
    cause: str | None = None
    base: str | None = None
    winner: str | None = None
    recommendation: str = ""
    matrix: Mapping[str, Sequence[float]] = field(default_factory=dict)
    taken: Mapping[str, str] = field(default_factory=dict)
    merged: str | None = None
    trouble: str = ""

    @property
    def name(self) -> str:
        """`x12`."""
        return references.exploration(self.number)

    def as_json(self, runs: Sequence[VariantRun]) -> dict[str, Any]:
        """003, `ExplorationResult`, with what was asked for: `{exploration_id, number, state, task, asker, at, base,
        policy, metrics: [{name, weight, lower_is_better}], variants, comparison_matrix, winner, recommendation,
        taken, merged, trouble}`. `comparison_matrix` has a row for each variant, in their order; null = not
        compared."""
        config = self.config
        return {
            "exploration_id": self.name,
            "number": self.number,
            "state": self.state.value,
            "task": config.task,
            "asker": self.asker,
            "at": self.at,
            "base": self.base,
            "policy": config.policy.value,
            "budget": asdict(config.budget),
            "metrics": [
                {"name": metric.name, "weight": weight, "lower_is_better": metric.lower_is_better}
                for metric, weight in zip(config.metrics, config.weights, strict=True)
            ],
            "variants": [run.as_json(config) for run in runs],
            "comparison_matrix": [
                list(self.matrix[run.name]) if run.name in self.matrix else None for run in runs
            ],
            "winner": self.winner,
            "recommendation": self.recommendation,
            "taken": dict(self.taken),
            "merged": self.merged,
            "trouble": self.trouble,
        }


def lane_of(number: int) -> Lane:
    """The short lane of the room's own events about an exploration."""
    return Lane("room", f"exploration:{number}", short=True)


async def order(
    tx: Tx, config: ExplorationConfig, agents: Sequence[str], *, asker: str, cause: Sequence[str] = ()
) -> Exploration:
    """Record a new exploration; `agents`: whose each variant is, in their order."""
    number = await events.next_number(tx, "exploration")
    made = Exploration(number, State.RUNNING, config, asker, now_iso(), cause[0] if cause else None)
    runs = [
        VariantRun(number, variant.name, place, agent)
        for place, (variant, agent) in enumerate(zip(config.variants, agents, strict=True))
    ]
    await save(tx, made)
    for run in runs:
        await save_variant(tx, run)
    outputs = {"number": number, "asker": asker, "config": config.as_json(), "agents": list(agents)}
    await events.append(tx, NewEvent(BEGUN, lane_of(number), outputs=outputs, parents=list(cause)))
    return made


async def save(tx: Tx, exploration: Exploration) -> None:
    """Put the row, new or changed."""
    row = {name: getattr(exploration, name) for name in Exploration.__slots__}
    row["state"] = exploration.state.value
    row["config"] = dumps(exploration.config.as_json())
    row["matrix"] = dumps({name: list(shares) for name, shares in exploration.matrix.items()})
    row["taken"] = dumps(dict(exploration.taken))
    await tx.execute(Q.put_exploration, **row)


async def save_variant(tx: Tx, run: VariantRun) -> None:
    """Put the row, new or changed."""
    row = {name: getattr(run, name) for name in VariantRun.__slots__ if name != "usage"}
    row |= asdict(run.usage)
    row["status"] = run.status.value
    row["metrics"], row["notes"] = dumps(dict(run.metrics)), dumps(dict(run.notes))
    row["passing"] = None if run.passing is None else int(run.passing)
    await tx.execute(Q.put_variant, **row)


async def end_variant(tx: Tx, exploration: Exploration, run: VariantRun) -> None:
    """Record that a variant has ended, as its row says."""
    await save_variant(tx, run)
    outputs = {"number": run.exploration, **run.as_json(exploration.config)}
    await events.append(
        tx,
        NewEvent(
            VARIANT_ENDED, lane_of(run.exploration), outputs=outputs, snapshot=run.tree, branch=run.branch
        ),
    )


async def record_comparison(tx: Tx, exploration: Exploration, runs: Sequence[VariantRun]) -> Event:
    """Record the result of the comparison (003, section 5.5, step 5); gives its event."""
    await save(tx, exploration)
    for run in runs:
        await save_variant(tx, run)
    lane = lane_of(exploration.number)
    return await events.append(tx, NewEvent(COMPARED, lane, outputs=exploration.as_json(runs)))


async def finish(tx: Tx, exploration: Exploration, *, cause: Sequence[str] = ()) -> Event:
    """Record that an exploration is over, as its state says. `cause`: events because of which it is."""
    await save(tx, exploration)
    runs = await variants_of(tx, exploration.number)
    lane = lane_of(exploration.number)
    outputs = exploration.as_json(runs)
    return await events.append(tx, NewEvent(ENDED, lane, outputs=outputs, parents=list(cause)))


async def load(tx: Tx, number: int) -> Exploration:
    """The exploration of this room number. Raises Refusal."""
    row = await tx.one(Q.exploration, number=number)
    if row is None:
        name = references.exploration(number)
        raise Refusal(f"There is no exploration {name}.", "The room named its number.", Fault.UNKNOWN)
    return _exploration(row)


async def variants_of(tx: Tx, number: int) -> list[VariantRun]:
    """Its variants, in the order of the file."""
    return [_run(row) for row in await tx.all(Q.variants_of, number=number)]


async def open_explorations(tx: Tx) -> list[Exploration]:
    """Those that are not over, the oldest first."""
    return [_exploration(row) for row in await tx.all(Q.open_explorations)]


async def newest(tx: Tx, limit: int) -> list[Exploration]:
    """The newest, the last one first."""
    return [_exploration(row) for row in await tx.all(Q.newest_explorations, limit=limit)]


async def change(tx: Tx, number: int, was: State, **changes: Any) -> Exploration | None:
    """Change an exploration that still is in the state `was`; None: it is not, and nothing was changed."""
    exploration = await load(tx, number)
    if exploration.state is not was:
        return None
    changed = replace(exploration, **changes)
    await save(tx, changed)
    return changed


def _exploration(row: Row) -> Exploration:
    return of_row(
        Exploration,
        row,
        state=State(row["state"]),
        config=of_json(json.loads(row["config"])),
        matrix=json.loads(row["matrix"]),
        taken=json.loads(row["taken"]),
    )


def _run(row: Row) -> VariantRun:
    return of_row(
        VariantRun,
        row,
        status=Status(row["status"]),
        usage=of_row(Usage, row),
        metrics=json.loads(row["metrics"]),
        notes=json.loads(row["notes"]),
        passing=None if row["passing"] is None else bool(row["passing"]),
    )
