"""Which changes are verified by themselves: what agents' turns and tasks leave, suggestions that people applied, what
is handed on, what variants of an exploration are, and the main branch after a merge that nothing tested.

Invariants: a change is asked for once, in the transaction that moves the cursor, or that ends the turn; without
policies nothing is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from relay.airspace.worktrees.lifecycle import CHANGED, MERGED
from relay.airspace.worktrees.registry import WorktreeRegistry
from relay.app.fleet.fleet import Fleet
from relay.app.verification.main_branch import behind_merge
from relay.log.events import Event
from relay.model import Changes
from relay.room.dispatch.turns import Plan
from relay.store.ports import Tx
from relay.verification import journal
from relay.verification.policy_list import Policies
from relay.verification.verification import Change, Source

TASK_CHANGED, HANDED_ON, VARIANT = "task.changed", "handoff", "exploration.variant_ended"
APPLIED = "review.applied"


class ChangeSources:
    """A follower of the log (`relay.log.follow`). `registry` and `fleet` say who has a worktree, and where; None =
    there is one relay."""

    name = "verification-sources"
    reads = frozenset({TASK_CHANGED, HANDED_ON, VARIANT, APPLIED, CHANGED})
    emits = frozenset({journal.ASKED})

    def __init__(self, policies: Policies, registry: WorktreeRegistry, fleet: Fleet | None = None) -> None:
        self._policies, self._registry, self._fleet = policies, registry, fleet

    async def apply(self, tx: Tx, event: Event) -> None:
        changes = [change for change in [*self._changes(event), await self._merge(tx, event)] if change]
        if changes and await self._policies.are_there(tx):
            for at, change in enumerate(changes):
                await journal.ask(tx, change, cause=[event.id], source_key=f"verify:{event.id}:{at}")

    async def turn_ended(self, tx: Tx, plan: Plan, changes: Changes) -> None:
        """What a turn has changed; in the transaction of its end."""
        if not changes.after or not await self._policies.are_there(tx):
            return
        commit = changes.commits[0] if changes.commits else None
        # Beside `Change.task`, by whose verdict a task ends or is open again: here its agent, or a person, says that.
        given = {"task": told["task"]} if isinstance(told := plan.asked.meta.get("given"), dict) else {}
        member = {} if self._fleet is None else {"member": self._fleet.name}
        change = Change(
            journal.new_id(),
            Source.TURN,
            plan.agent,
            plan.asked.speaker,
            changes.branch,
            commit,
            tree=changes.after,
            summary=" ".join(plan.asked.body.split())[:300],
            about={"job": plan.primary.id, **given, **member},
        )
        await journal.ask(tx, change, cause=[plan.event_id], source_key=f"turn:{plan.event_id}")

    def _changes(self, event: Event) -> list[Change | None]:
        outputs = event.outputs or {}
        match event.type:
            case "task.changed" if outputs.get("change") == "completed":
                return [self._task(record["after"]) for record in outputs["tasks"]]
            case "handoff" if outputs.get("snapshot_id"):
                agent = str(outputs["from_agent"])
                text = f"handed on by {agent} to {outputs['to_agent']}"
                return [_kept(Source.HANDOFF, agent, outputs["snapshot_id"], outputs.get("commit"), text)]
            case "review.applied" if outputs.get("tree"):
                return [_applied(outputs)]
            case "exploration.variant_ended" if outputs.get("commit") and event.snapshot:
                text = f"variant {outputs['name']} of x{outputs['number']}"
                agent = str(outputs["agent"])
                return [_kept(Source.EXPLORATION, agent, event.snapshot, outputs["commit"], text)]
        return []

    async def _merge(self, tx: Tx, event: Event) -> Change | None:
        """The main branch behind a merge of a person's; the queue tests what it lands before. In a fleet each clone
        has a main branch of its own, and whoever leads need not have this one's commits."""
        told = event.outputs or {}
        if event.type != CHANGED or told["change"] != MERGED or told.get("landed") or self._fleet is not None:
            return None
        return await behind_merge(tx, told["agent"], told["by"], told.get("into", "main"), told["commit"])

    def _task(self, task: Mapping[str, Any]) -> Change | None:
        """What an agent's worktree holds when it says that its task is done."""
        agent = task.get("claimed_by")
        if not agent:
            return None
        here = self._registry.find(str(agent)) is not None
        if not here and (self._fleet is None or self._fleet.home_of(str(agent)) is None):
            return None
        title = " ".join(str(task["task_description"]).split())[:300]
        return Change(
            journal.new_id(), Source.TASK, str(agent), str(agent), summary=title, task=str(task["id"])
        )


def _applied(told: Mapping[str, Any]) -> Change:
    """A suggestion that a person has applied to an agent's branch, or taken back: as a turn's change."""
    done = "takes back" if told["undo"] else "applies"
    summary = f"{told['by']} {done} the suggestion {told['comment']} in {told['path']}"
    branch, commit, tree = str(told["branch"]), str(told["commit"]), str(told["tree"])
    agent, by = str(told["agent"]), str(told["by"])
    return Change(
        journal.new_id(), Source.REVIEW, agent, by, branch, commit, tree=tree, summary=summary[:300]
    )


def _kept(source: Source, agent: str, tree: str, commit: str | None, summary: str) -> Change:
    return Change(journal.new_id(), source, agent, agent, commit=commit, tree=tree, summary=summary)
