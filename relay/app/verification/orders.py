"""What people order of verification and landing, as actions of the room (`relay.model.ports.Orders`).

Invariant: an order is one transaction; whoever carries it out is woken by its event.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from relay.airspace.worktrees.registry import WorktreeRegistry
from relay.airspace.worktrees.view import elsewhere, with_work
from relay.app.verification import main_branch
from relay.faces.landing import check_undone, said
from relay.model import Refusal, references
from relay.model.actions import (
    Approve,
    Land,
    Reject,
    ShowLanding,
    TakeFromQueue,
    Verify,
    Verifying,
)
from relay.model.names import listed
from relay.room.dispatch.permissions import code_span
from relay.store.ports import Tx
from relay.verification import approvals, journal, present
from relay.verification.approvals import Answer
from relay.verification.landing import journal as landings
from relay.verification.landing.entry import EntryState
from relay.verification.verification import Change, Source, State


def _nowhere(agent: str) -> bool:
    """No agent lives elsewhere: the room has one relay."""
    return False


class VerificationOrders:
    """`registry`: says whose work there is; `elsewhere`: whether an agent lives at another member of the fleet."""

    def __init__(self, registry: WorktreeRegistry, elsewhere: Callable[[str], bool] = _nowhere) -> None:
        self._registry, self._elsewhere = registry, elsewhere

    async def check(self, action: Land) -> None:
        """What git says before branches are put into the queue, and outside of the transaction. Raises Refusal."""
        if not action.anyway:
            await check_undone(self._registry, with_work(self._registry) if action.every else action.agents)

    async def carry_out(self, tx: Any, action: Verifying, *, by: str, cause: Sequence[str] = ()) -> str:
        match action:
            case Land():
                return await self._land(tx, action, by, cause)
            case ShowLanding():
                return await said(tx)
            case TakeFromQueue(agent):
                entry = await landings.open_entry(tx, agent)
                if entry is None:
                    raise Refusal(
                        f"{agent}'s branch is not in the landing queue.", "`/land` shows the queue."
                    )
                reason = f"{by} took it out"
                await landings.end(tx, entry.number, EntryState.CANCELLED, reason=reason, cause=cause)
                return f"{agent}'s branch is out of the landing queue."
            case Verify(verification, agent):
                return await self._verify(tx, verification, agent, by, cause)
            case Approve(None):
                return await _waiting(tx)
            case Approve(int(number)):
                made = await approvals.decide(tx, number, Answer.APPROVED, by=by, cause=cause)
                return f"{by} approved {made.name} ({', '.join(made.policies)}) of {made.agent}."
            case Reject(number, reason):
                made = await approvals.decide(tx, number, Answer.REJECTED, by=by, reason=reason, cause=cause)
                return f"{by} rejected {made.name} ({', '.join(made.policies)}) of {made.agent}: {reason}"
            case _:
                raise Refusal(f"The room does not know how to do {action!r}.")

    async def _land(self, tx: Tx, action: Land, by: str, cause: Sequence[str]) -> str:
        agents = action.agents
        if action.every:
            agents = with_work(self._registry)
            if not agents:
                raise Refusal("No agent has work that could land.", "`/airspace` shows who changes what.")
        for agent in agents:
            known = self._registry.find(agent) is not None or elsewhere(self._registry, agent) is not None
            if not (known or self._elsewhere(agent)) and self._registry.surveyed.is_set():
                raise Refusal(f"{agent} has no worktree, so there is no branch of it to land.", "")
        for agent in agents:
            await landings.ask(tx, agent, by=by, cause=cause, squash=action.squash)
        waiting = len(await landings.open_entries(tx))
        ahead = waiting - len(agents)
        behind = f", behind {ahead} other{'s' * (ahead != 1)}" if ahead > 0 else ""
        verb = "was" if len(agents) == 1 else "were"
        how = ", to land as one commit" + " each" * (len(agents) > 1) if action.squash else ""
        return f"{listed(list(agents))} {verb} put into the landing queue{behind}{how}. `/land` shows it."

    async def _verify(
        self, tx: Tx, number: int | None, agent: str | None, by: str, cause: Sequence[str]
    ) -> str:
        if number is not None:
            was = await journal.load(tx, number)
            if present.is_of_main(was) and was.state in (State.PASSED, State.FAILED):
                made = await main_branch.again(tx, was, by, cause)
                return f"{made.name} tests {was.change.branch or 'the main branch'} again. The room says how it ends."
            again = await journal.again(tx, was, by=by, cause=cause)
            return f"{again.name} is being verified again. The room says how it ends."
        assert agent is not None
        change = Change(journal.new_id(), Source.PERSON, agent, by, summary=f"{agent}'s work as it stands")
        made = await journal.ask(tx, change, cause=cause)
        name = references.verification(made.number)
        return f"{agent}'s work is being verified: {name}. The room says how it ends."


async def _waiting(tx: Tx) -> str:
    """What waits for people, as markdown."""
    lines = list[str]()
    for each in await approvals.waiting(tx):
        change = (await journal.load(tx, each.verification)).change
        files = f"{', '.join(map(code_span, each.files[:4]))}{' and more' * (len(each.files) > 4)}"
        lines.append(f"- {each.name}: {each.wanted(change, files)} ({', '.join(each.policies)})")
    if not lines:
        return "Nothing waits for an approval."
    return "\n".join([*lines, "", "`/approve a<number>`, or `/reject a<number> why`."])
