"""Rewinds, as the agents are told of them whose files they changed.

Invariant: nothing of what is told can pass for a line of somebody else's.
"""

from __future__ import annotations

from relay.base.terminal_text import safe_line
from relay.log.events import Event
from relay.timeline.rewind.history import UNDONE, Target

#: Files that an agent is told the names of.
MOST_NAMED = 20


def concerns(event: Event, agent: str, worktree: str) -> bool:
    """Did it change files of an agent's worktree (as the log calls it), or take what it had out of the main branch? A
    new branch concerns nobody yet."""
    into_main = event.inputs["into"] == Target.MAIN and (
        event.inputs["lane"].rpartition("/")[2].upper() == agent
    )
    changed = any(file["before"] != file["after"] for file in event.outputs["files"])
    return bool(changed and (event.inputs["worktree"] == worktree or into_main))


def told(event: Event, agent: str) -> str:
    """A rewind, for the agent that it concerns. Nothing of it can pass for a line of somebody else's."""
    files = [safe_line(file["path"]) for file in event.outputs["files"] if file["before"] != file["after"]]
    more = f" and {len(files) - MOST_NAMED} more" * (len(files) > MOST_NAMED)
    place = "on the main branch" if event.inputs["into"] == Target.MAIN else "in your worktree"
    where = f"{place}: {', '.join(files[:MOST_NAMED])}{more}"
    by, to = safe_line(event.inputs["by"]), safe_line(event.inputs["to"])
    lane = safe_line(event.inputs["lane"].rpartition("/")[2], 40)
    if lane.upper() != agent:
        # Of another agent's work in the same checkout.
        act = "brought back" if event.type == UNDONE else "took back"
        return f"[RELAY] {by} {act} what {lane} did, {where}."
    if event.type == UNDONE:
        return f"[RELAY] {by} brought back what had been taken back of your work, {where}."
    return (
        f"[RELAY] {by} took back what you did{f' since {to}' if to else ''}, {where}. These files are as they were "
        "before. Do not do the same again unless you are asked to."
    )
