"""Which merges into the main branch were taken back, by whom and when.

Invariant: the landing queue, the tasks, the inbox and what came since somebody left say it by these functions.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from relay.airspace.worktrees.lifecycle import CHANGED, TAKEN_BACK
from relay.base.durations import iso, parse_iso, since
from relay.base.terminal_text import flat
from relay.log import events
from relay.store.ports import Tx

#: Takebacks that are looked at, the newest.
MOST = 1000


class TakenBack(NamedTuple):
    """`at`: when, in Unix seconds."""

    by: str
    at: float

    def words(self, now: float) -> str:
        """ "taken back by ann, 5 min ago"."""
        return f"taken back by {flat(self.by)}, {since(self.at, now)}"

    def as_json(self) -> dict[str, Any]:
        return {"by": self.by, "at": iso(self.at)}


def taken_merge(change: Mapping[str, Any]) -> str | None:
    """The merge that a change of a worktree (the outputs of its event) took back. Pure."""
    return change.get("merge") if change["change"] == TAKEN_BACK else None


async def taken_back(tx: Tx, merges: Collection[str | None]) -> Mapping[str, TakenBack]:
    """Those of these merges (commits of the main branch) that were taken back."""
    if not any(merges):
        return {}
    # An index has the events of one type, and there are few of these: they are looked for in the whole log.
    window = await events.last_pos(tx) + 1
    done = await events.about(tx, f'"{TAKEN_BACK}"', types=[CHANGED], window=window, limit=MOST)
    found = {
        taken_merge(event.outputs): TakenBack(event.outputs["by"], parse_iso(event.at)) for event in done
    }
    return {merge: found[merge] for merge in merges if merge and merge in found}
