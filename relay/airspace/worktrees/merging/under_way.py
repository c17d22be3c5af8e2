"""What in a checkout stands against what is to be done with it: a merge that has begun and not ended, say.

Invariant: reads only. A merge of the main branch that relay began is told from one that somebody began with git.
"""

from __future__ import annotations

import shlex

from relay.airspace.worktrees.lifecycle import WorktreeLifecycle
from relay.airspace.worktrees.merging.wording import some_paths
from relay.airspace.worktrees.tracked_worktree import TrackedWorktree
from relay.config.command_line import command
from relay.git.checkout import Checkout
from relay.git.merge_state import StartedMerge, merge_heads, operation_under_way, started_merge
from relay.git.snapshot import Snapshot
from relay.model import Refusal


class UnderWay(Refusal):
    """Something has begun in an agent's worktree, and its work is not to be had as it stands."""


async def begun_by_relay(checkout: Checkout) -> StartedMerge | None:
    """The merge of the main branch into the agent's own that relay began here, while it is under way."""
    started = await started_merge(checkout)
    return started if started is not None and (started.other,) == await merge_heads(checkout) else None


async def under_way(agent: str, checkout: Checkout, *, own: bool) -> UnderWay | None:
    """Why the agent's work is not to be had as it stands, and what to do; None: nothing is under way. `own`: relay
    made this worktree."""
    if not (doing := await operation_under_way(checkout)):
        return None
    fix = way_out(checkout, doing)
    if own and await begun_by_relay(checkout):
        gives_up = command(f"worktrees abort {agent}")
        fix = f"`/update @{agent}` asks to settle it; {gives_up} gives it up."
    return UnderWay(f"In {agent}'s worktree {doing} is under way.", fix)


def way_out(checkout: Checkout, doing: str) -> str:
    """What ends it, for the person in whose checkout it is."""
    git = f"git -C {shlex.quote(str(checkout.top))} {doing.removeprefix('a ')}"
    return f"Settle it, then `{git} --continue`. Or give it up: `{git} --abort`."


async def check_removal(lifecycle: WorktreeLifecycle, worktree: TrackedWorktree) -> Snapshot:
    """What stands in a worktree, all of which git can keep. Raises Refusal: it is not to be taken away; GitError."""
    path = worktree.checkout.top
    locked = next((listed.locked for listed in await lifecycle.mine() if listed.path == path), None)
    if locked is not None:
        raise Refusal(f"{path} is locked ({locked or 'no reason given'}).", f"`git worktree unlock {path}`")
    snapshot = await worktree.take_snapshot(everything=True)
    if snapshot.left_out:
        raise Refusal(
            f"{path} has files that git would not store: {some_paths(snapshot.left_out)}.",
            "Move them away first.",
        )
    return snapshot
