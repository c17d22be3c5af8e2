"""The services that operations use, built from a store and the settings: in the daemon, `relay mcp` or a command.

Invariants:
- every method takes the caller first and gives the answer as docs/coordination.md shows it. A refusal is a
  `relay.model.Refusal` or, for a lock that is held, an answer with `success: false`;
- nothing here needs a daemon, starts a task or imports something heavy before it is asked for: a process that an
  agent's program starts must answer within two seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from relay.access.keys import Keys
from relay.base.case_folding import folds_case
from relay.base.git_checkouts import top_of
from relay.config.settings import LiveSettings, Settings
from relay.coordination.idempotency import once
from relay.coordination.locks.service import Locks
from relay.coordination.sessions import Heartbeat, Sessions
from relay.coordination.tasks.claims import working_on
from relay.coordination.tasks.service import WorkQueue
from relay.coordination.writes.changesets import Changesets
from relay.coordination.writes.fencing import LockCheck
from relay.faces.merge_look import MergeLook
from relay.faces.room import IntentService, RoomService, roster_of
from relay.faces.timeline_look import TimelineLook
from relay.memory.embedding import EmbeddingModel
from relay.memory.episodic.memory import EpisodicMemory
from relay.memory.episodic.vectors import Vectors
from relay.memory.knowledge.service import KnowledgeGraph
from relay.memory.procedural import Skills
from relay.memory.summaries import LocalSummaries
from relay.memory.working import WorkingMemory
from relay.merge.resolution.service import MergeConflicts
from relay.model import Caller, ChangedFiles
from relay.model.ports import Checkouts
from relay.room.dispatch.roster import Roster
from relay.room.journal import ledger
from relay.store.ports import Store, Tx
from relay.verification.landing.service import Landings
from relay.verification.metrics_reader import MetricReader
from relay.verification.policy_list import Policies
from relay.verification.service import Verifications


@dataclass(frozen=True, slots=True)
class Services:
    """The services of one room."""

    locks: Locks
    work: WorkQueue
    sessions: Sessions
    memory: EpisodicMemory
    working: WorkingMemory
    skills: Skills
    knowledge: KnowledgeGraph
    changesets: Changesets
    intents: IntentService
    room: RoomService
    keys: Keys
    timeline: TimelineLook
    conflicts: MergeConflicts
    merges: MergeLook
    landings: Landings
    policies: Policies
    metrics: MetricReader
    verifications: Verifications

    async def revoke_key(self, caller: Caller, key_id: str) -> dict[str, Any]:
        """Revoke a key and end the session that is its own, so that what it held is free now; a session that it named
        itself ends with its lease. Raises Refusal as `Keys.revoke` does."""
        revoked = await self.keys.revoke(caller, key_id)
        own = Caller(revoked["identity"], f"key-{revoked['id']}", revoked["agent_type"])
        await self.sessions.end(own, reason="its key was revoked", by=caller.agent)
        return revoked


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
    now = settings.current
    fold = folds(now) if fold is None else fold
    keys = Keys(store, lambda: settings.current.agent_names)
    heartbeat = Heartbeat(now.coordination, fold=fold, keys=keys)
    locks = Locks(store, heartbeat, fold=fold, root=top_of(now.repo), checkouts=checkouts)
    skills = Skills(store, sessions=heartbeat, working=working_on)
    work = WorkQueue(store, now.coordination, heartbeat=heartbeat, locks=locks, outcomes=skills)
    sessions = Sessions(store, heartbeat, locks, work.claims)
    changes = changes or _RevisionChanges(now.repo)
    return Services(
        locks=locks,
        work=work,
        sessions=sessions,
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
        skills=skills,
        knowledge=KnowledgeGraph(store),
        changesets=Changesets(store, LockCheck(fold=fold), changes, heartbeat, locks, fold=fold),
        intents=IntentService(store, settings),
        room=RoomService(store, settings, sessions, roster or roster_of(now)),
        keys=keys,
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


def folds(settings: Settings) -> bool:
    """Does the file system of the codebase fold case? A look into one folder, which blocks for a moment."""
    try:
        return folds_case(settings.repo)
    except OSError:
        # No such folder: there is no file in it to lock in two spellings either.
        return False


class _RevisionChanges:
    """`RepoChanges` of the main checkout alone, imported at the first question: git's part takes its time."""

    def __init__(self, repo: Path) -> None:
        self._repo = repo

    async def changed_files(
        self, agent: str, base: str | None = None, head: str | None = None
    ) -> Sequence[str] | None:
        from relay.airspace.worktrees.changes import RepoChanges

        return await RepoChanges(self._repo).changed_files(agent, base, head)
