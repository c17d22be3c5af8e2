"""The services that operations use, built from a store and the settings: in the daemon, `relay mcp` or a command.

Invariants:
- every method takes the caller first and gives the answer as docs/coordination.md shows it. A refusal is a
  `relay.model.Refusal` or, for a lock that is held, an answer with `success: false`;
- nothing here needs a daemon, starts a task or imports something heavy before it is asked for: a process that an
  agent's program starts must answer within two seconds.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from relay.config.settings import LiveSettings, Settings
from relay.coordination.idempotency import once
from relay.faces.coordination import CoordinationServices, coordination_of
from relay.faces.merge_look import MergeLook
from relay.faces.room import IntentService, RoomService, roster_of
from relay.faces.timeline_look import TimelineLook
from relay.memory.embedding import EmbeddingModel
from relay.memory.episodic.memory import EpisodicMemory
from relay.memory.episodic.vectors import Vectors
from relay.memory.knowledge.service import KnowledgeGraph
from relay.memory.summaries import LocalSummaries
from relay.memory.working import WorkingMemory
from relay.merge.resolution.service import MergeConflicts
from relay.model import ChangedFiles
from relay.model.ports import Checkouts
from relay.room.dispatch.roster import Roster
from relay.room.journal import ledger
from relay.store.ports import Store, Tx
from relay.verification.landing.service import Landings
from relay.verification.metrics_reader import MetricReader
from relay.verification.policy_list import Policies
from relay.verification.service import Verifications


@dataclass(frozen=True, slots=True)
class Services(CoordinationServices):
    """The services of one room."""

    memory: EpisodicMemory
    working: WorkingMemory
    knowledge: KnowledgeGraph
    intents: IntentService
    room: RoomService
    timeline: TimelineLook
    conflicts: MergeConflicts
    merges: MergeLook
    landings: Landings
    policies: Policies
    metrics: MetricReader
    verifications: Verifications


def embedding_model(settings: Settings) -> EmbeddingModel:
    """What makes vectors of memories now."""
    return EmbeddingModel(settings.dispatcher.ollama_host, settings.memory.embedding_model)


def services_of(
    store: Store,
    settings: LiveSettings,
    *,
    roster: Roster | None = None,
    fold: bool | None = None,
    changes: ChangedFiles | None = None,
    checkouts: Checkouts | None = None,
) -> Services:
    """The services of one room.

    `roster`: the agents as they are now; None = as the settings have them. `fold`: the repository's file system folds
    case; None = it is asked (a look into one folder, which blocks a moment). `changes` tells what an agent changed;
    None = git in the repository, between revisions only. `checkouts`: those that agents work in; None = the main one.
    """
    given = coordination_of(store, settings, fold=fold, changes=changes, checkouts=checkouts)
    heartbeat = given.heartbeat
    return Services(
        **{field.name: getattr(given, field.name) for field in fields(given)},
        memory=EpisodicMemory(
            store,
            sessions=heartbeat,
            once=once,
            hop_decay=lambda: settings.current.memory.hop_decay,
            vectors=Vectors(store, lambda: embedding_model(settings.current)),
        ),
        working=WorkingMemory(
            store,
            sessions=heartbeat,
            budget=lambda: settings.current.memory.working_tokens,
            summarize=LocalSummaries(lambda: settings.current.dispatcher),
        ),
        knowledge=KnowledgeGraph(store),
        intents=IntentService(store, settings),
        room=RoomService(store, settings, given.sessions, roster or roster_of(settings.current)),
        timeline=TimelineLook(store, settings),
        conflicts=MergeConflicts(store, _tell),
        merges=MergeLook(store, settings),
        landings=Landings(store),
        policies=Policies(store, settings),
        metrics=MetricReader(store),
        verifications=Verifications(store),
    )


async def _tell(tx: Tx, text: str, parents: list[str], meta: dict[str, Any]) -> None:
    await ledger.say(tx, text, parents=parents, meta=meta)
