"""A merge into the main branch asks the locks, as any write does.

Invariant: what the branch changes and somebody else holds is not merged; who merges a branch writes it for its agent,
so that one's own locks, in whatever session, are no hindrance, nor are those of the person who merges.
"""

from __future__ import annotations

from collections.abc import Sequence

from relay.airspace.worktrees.merge import MayLand
from relay.coordination.writes.guard import caller_of
from relay.coordination.writes.lock_check import LockJudge
from relay.model import LOCKED, Refusal
from relay.store.ports import Store


def may_land(store: Store, judge: LockJudge) -> MayLand:
    """Raises Refusal for what must not be merged now, and what the store raises when nobody can tell."""

    async def ask(agent: str, by: str, paths: Sequence[str]) -> None:
        caller = caller_of(agent, None)
        refusals = await store.read(lambda tx: judge.refusals(tx, caller, paths))
        held = [
            refusal for refusal in refusals if refusal.code == LOCKED and refusal.locked_by not in (agent, by)
        ]
        if held:
            more = f" {len(held) - 1} more of its files are locked too." if len(held) > 1 else ""
            raise Refusal(
                f"{held[0].text}{more}",
                f"Wait, or take the lock from {held[0].locked_by} (`/unlock {held[0].lock} why`), and merge again.",
            )

    return ask
