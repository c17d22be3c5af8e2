"""What has begun in a checkout and not ended, for who wants to merge its work, or to decide a conflict of it.

Invariant: reads only. A merge of the main branch that relay began is told from one that somebody began with git.
"""

from __future__ import annotations

import shlex

from relay.config.command_line import command
from relay.git.checkout import Checkout
from relay.git.merge_state import StartedMerge, merge_heads, operation_under_way, started_merge
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
