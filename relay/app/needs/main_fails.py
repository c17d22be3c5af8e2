"""The main branch fails its tests: since when, who waits for that, and what a person does about it."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from relay.airspace.worktrees.merging.takebacks import taken_back
from relay.app.needs.need import Kind, Need, NeedAction, later
from relay.app.needs.words import short
from relay.base.terminal_text import flat
from relay.model import actions
from relay.model.names import listed
from relay.store.ports import Tx
from relay.verification import present
from relay.verification.landing.entry import Entry, EntryState

#: Digits of a commit.
DIGITS = 7


async def main_fails(tx: Tx, queue: Sequence[Entry], members: Collection[str]) -> list[Need]:
    """One need as long as the main branch fails (`present.of_main`). `queue`: the open entries of the landing queue;
    `members`: who can be asked."""
    red = await present.of_main(tx)
    if red is None:
        return []
    failed, merge = red.of, red.merge
    into = flat(failed.change.branch) or "the main branch"
    text = f"{into[0].upper()}{into[1:]} fails its tests ({failed.name})"
    buttons = []
    if red.unclear is not None:
        text += (
            f", first seen at {red.failing[0].name}; {red.unclear.name} of a commit before has no verdict yet"
        )
    if merge is not None:
        agent, commit = merge["agent"], merge["commit"][:DIGITS]
        text += f", first seen after {flat(merge['by'])} merged {flat(agent)}'s work ({commit})"
        if agent in members:
            if not await taken_back(tx, [merge["commit"]]):
                undo = actions.TakeBackMerge(agent, merge["commit"])
                buttons.append(NeedAction("takeback", f"Take back {agent}'s merge", undo))
            ask = f"{into} fails its tests ({failed.name}) since your work was merged ({commit}): "
            ask += f"{short(failed.reason)} Mend it on your branch."
            buttons.append(NeedAction("ask", f"Ask {agent} to mend it", actions.Steer((agent,), ask)))
    text += f". {short(failed.reason)}"
    if merge is not None and merge["agent"] not in members:
        text += f" `git revert -m 1 {merge['commit'][:DIGITS]}` in its checkout takes the merge back."
    if red.again is not None:
        text += f" {red.again.name} tests it again."
    waiting = [entry.agent for entry in queue if entry.held_on and entry.state is EntryState.WAITING]
    if waiting:
        verb = "wait" if len(waiting) > 1 else "waits"
        text += f" {flat(listed(waiting))} {verb} in the landing queue for that."
    if red.again is None:
        buttons.append(NeedAction("again", "Test it again", actions.Verify(failed.number)))
    buttons.append(later("Leave it", red.id))
    at = red.told.ended or red.told.at
    return [Need(red.id, Kind.MAIN_FAILS, at, into, text, tuple(buttons), failed.name)]
