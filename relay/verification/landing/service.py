"""The landing queue as people and agents ask of it; the queue itself is carried by the daemon.

Invariant: what is asked here is a row and an event, so it works where no daemon runs, and is done when one does.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from relay.model import Caller, Fault, Refusal, references
from relay.store.ports import Store, Tx
from relay.verification import approvals
from relay.verification import journal as verifications
from relay.verification.landing import journal
from relay.verification.landing.entry import Entry, EntryState
from relay.verification.verification import Outcome, State, newest

Json = dict[str, Any]
#: Entries that are over which one answer has.
MOST_ENDED = 30


class Landings:
    """Of one room. `check`: in a running one, what of these agents' work has to be said before it lands; raises
    Refusal."""

    def __init__(self, store: Store) -> None:
        self.store = self._store = store
        self.check: Callable[[Sequence[str]], Awaitable[None]] | None = None

    async def ask(
        self, caller: Caller, agent: str | None = None, *, task: str | None = None, anyway: bool = False
    ) -> Json:
        """Put a branch into the queue: an agent its own, a person anybody's. `anyway`: whatever there is to say
        before. Raises Refusal."""
        name = agent or caller.agent
        if not caller.person and name != caller.agent:
            fix = "A person can land another's branch: `/land` in the room."
            raise Refusal(f"{caller.agent} lands its own branch only.", fix, Fault.FORBIDDEN, "not_yours")
        if self.check is not None and not anyway:
            await self.check([name])

        async def work(tx: Tx) -> Json:
            async with tx.as_room():
                entry, _ = await journal.ask(tx, name, by=caller.agent, task=task)
                place = [each.number for each in await journal.open_entries(tx)].index(entry.number) + 1
            return {"success": True, "agent": name, "state": entry.state.value, "place": place}

        return await self._store.write(work, actor=caller, durable=True)

    async def state(self) -> Json:
        """`{queue: [...], ended: [...]}`: what is in the queue, in the order of asking, and what is over."""
        return await self._store.read(_state)

    async def entry(self, number: int) -> Entry:
        """Raises Refusal."""
        return await self._store.read(lambda tx: journal.load(tx, number))


async def _state(tx: Tx) -> Json:
    return {
        "queue": [await _shown(tx, entry) for entry in await journal.open_entries(tx)],
        "ended": [await _over(tx, entry) for entry in await journal.newest_ended(tx, MOST_ENDED)],
    }


async def _shown(tx: Tx, entry: Entry) -> Json:
    """An entry with what a card of it has: its verification's state, and what a person is asked."""
    shown = entry.as_json()
    if entry.verification is not None and entry.state is EntryState.TESTING:
        tested = await verifications.load(tx, entry.verification)
        results = await verifications.results_of(tx, tested.number)
        shown["testing"] = tested.as_json(results, output=False)
    if entry.approval is not None:
        shown["approvals"] = [each.as_json() for each in await asked_about(tx, entry)]
    return shown


async def asked_about(tx: Tx, entry: Entry) -> list[approvals.Approval]:
    """What people are, or were, asked about an entry."""
    if entry.approval is None:
        return []
    asked = await approvals.of_verification(tx, entry.approval)
    if not asked:
        waiting = await verifications.results_of(tx, entry.approval)
        same = await approvals.covering(tx, [each for each in waiting if each.state is Outcome.WAITING])
        asked = [] if same is None else [same]
    return asked


async def _over(tx: Tx, entry: Entry) -> Json:
    """An entry that is over; one that landed says by what it was tested."""
    shown = entry.as_json()
    if entry.state is EntryState.LANDED and entry.verification is not None:
        tested = await verifications.load(tx, entry.verification)
        results = newest(await verifications.results_of(tx, tested.number))
        shown["tested"] = tested.state is State.PASSED
        shown["results"] = [result.as_json(output=False) for result in results]
        agreed = await approvals.agreed(tx, entry.approval)
        shown["approved"] = [each.as_json() for each in agreed]
    return shown


def entry_words(entry: Entry) -> str:
    """How an entry stands, without a full stop. Pure."""
    where = {
        EntryState.ASKED: "waits",
        EntryState.WAITING: "waits",
        EntryState.TESTING: "is being tested",
        EntryState.LANDED: f"landed as {(entry.landed_as or '')[:9]}",
        EntryState.PUT_OUT: "did not land",
        EntryState.CANCELLED: "was taken out",
    }[entry.state]
    if entry.verification is not None and entry.state is not EntryState.WAITING:
        where += f" ({references.verification(entry.verification)})"
    why = entry.note or entry.reason
    return f"{entry.agent} {where}" + (f": {why}" if why else "")
