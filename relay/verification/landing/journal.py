"""The entries of the landing queue as rows.

Invariant: a row changes in the transaction that records what it says (`landing.*`); so whoever is killed at any
instant leaves each entry before a step or behind it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from relay.log import events
from relay.log.encoding import dumps, loads
from relay.log.events import Lane, NewEvent
from relay.model import Fault, Refusal
from relay.store.ports import Queries, Row, Tx, of_row
from relay.verification import approvals
from relay.verification.landing.entry import OPEN, Carried, Entry, EntryState

Q = Queries(Path(__file__).parents[1])
#: The events: somebody asked; the work is looked at; it is tested; it waits for something; and its three ends.
ASKED, QUEUED, TESTED, HELD = "landing.asked", "landing.queued", "landing.testing", "landing.held"
LANDED, PUT_OUT, CANCELLED = "landing.landed", "landing.put_out", "landing.cancelled"
TYPES = (ASKED, QUEUED, TESTED, HELD, LANDED, PUT_OUT, CANCELLED)
#: Tests of one entry whose commits are looked for on main: it moves to that of the newest.
MOST_PLANS = 8
_ENDS = {EntryState.LANDED: LANDED, EntryState.PUT_OUT: PUT_OUT, EntryState.CANCELLED: CANCELLED}


def lane_of(number: int) -> Lane:
    return Lane("room", f"landing:{number}", short=True)


async def ask(
    tx: Tx,
    agent: str,
    *,
    by: str,
    task: str | None = None,
    cause: Sequence[str] = (),
    squash: bool | None = None,
) -> tuple[Entry, bool]:
    """Put an agent's branch into the queue, to land as one commit with `squash`; the entry, and whether it is new.
    One that waits takes the newest work, and the newest wish of a person; None: it stays as it was wished, and is
    merged where nobody wished. Raises Refusal: it is being tested."""
    row = await tx.one(Q.newest_entry_of, agent=agent)
    before = None if row is None else _entry(row)
    if before is not None and before.state is EntryState.TESTING:
        raise Refusal(
            f"{agent}'s branch is being tested in the landing queue.",
            "Ask again when it has landed or is put out.",
            code="testing",
        )
    if before is not None and before.state in OPEN:
        again = replace(before, state=EntryState.ASKED, note="", held_on=None, task=task or before.task)
        again = again if squash is None else replace(again, squash=squash)
        return await change(tx, again, ASKED, cause=cause, again=True), False
    number = await events.next_number(tx, "landing")
    made = Entry(number, agent, by, task=task, at=await tx.now(), squash=bool(squash))
    return await change(tx, made, ASKED, cause=cause), True


async def change(
    tx: Tx, entry: Entry, what: str, *, cause: Sequence[str] = (), text: str = "", **more: Any
) -> Entry:
    """Put the row with the event that says why it is so; `more`: what else the event says."""
    await save(tx, entry)
    outputs: dict[str, Any] = {**entry.as_json(), **more}
    if text:
        outputs["text"] = text
    new = NewEvent(
        what,
        lane_of(entry.number),
        outputs=outputs,
        parents=list(cause),
        branch=entry.branch or None,
        snapshot=entry.tree or None,
    )
    await events.append(tx, new)
    return entry


async def end(tx: Tx, number: int, state: EntryState, **changes: Any) -> Entry | None:
    """End an open entry, once; None: it is over already. `cause` and the fields of the row."""
    cause: Sequence[str] = changes.pop("cause", ())
    more: Mapping[str, Any] = changes.pop("more", {})
    entry = await load(tx, number)
    if entry.state not in OPEN:
        return None
    await approvals.withdraw_of_entry(tx, number, "the branch is no longer in the landing queue")
    ended = replace(entry, state=state, note="", ended=await tx.now(), **changes)
    return await change(tx, ended, _ENDS[state], cause=cause, **more)


async def save(tx: Tx, entry: Entry) -> None:
    row = {name: getattr(entry, name) for name in Entry.__slots__}
    row["state"], row["policies"] = entry.state.value, dumps(list(entry.policies))
    row["squash"] = int(entry.squash)
    await tx.execute(Q.put_entry, **row)


async def carried(tx: Tx, number: int) -> list[Carried]:
    """What lands with an entry's work, as was seen when that was looked at last."""
    newest = await events.of_lane(tx, lane_of(number), QUEUED, limit=1)
    told = newest[0].outputs.get("carried", []) if newest else []
    return [Carried(**each) for each in told]


async def planned(tx: Tx, entry: Entry) -> list[str]:
    """The commits that were tested to land for the entry's work as it is now, the newest first."""
    told = [
        event.outputs for event in await events.of_lane(tx, lane_of(entry.number), TESTED, limit=MOST_PLANS)
    ]
    return [each["planned"] for each in told if each["at_commit"] == entry.at_commit and each.get("planned")]


async def load(tx: Tx, number: int) -> Entry:
    """Raises Refusal."""
    row = await tx.one(Q.entry, number=number)
    if row is None:
        raise Refusal(f"There is no entry {number} of the landing queue.", "", Fault.UNKNOWN)
    return _entry(row)


async def open_entry(tx: Tx, agent: str) -> Entry | None:
    """The agent's open entry."""
    row = await tx.one(Q.newest_entry_of, agent=agent)
    entry = None if row is None else _entry(row)
    return entry if entry is not None and entry.state in OPEN else None


async def open_entries(tx: Tx) -> list[Entry]:
    """By their numbers."""
    return [_entry(row) for row in await tx.all(Q.open_entries)]


async def newest_ended(tx: Tx, limit: int) -> list[Entry]:
    """Those that are over, the last one first."""
    return [_entry(row) for row in await tx.all(Q.newest_entries, limit=limit)]


def _entry(row: Row) -> Entry:
    state, policies = EntryState(row["state"]), tuple(loads(row["policies"]))
    return of_row(Entry, row, state=state, policies=policies, squash=bool(row["squash"]))
