"""Verifications as agents and programs ask for them. The database is all that it needs, so it works while no daemon
runs; what is told then is verified once one does.

Invariants:
- what an agent tells is its own work: the change has the caller's name, whatever the request says;
- the same `delivery_id` of the same agent is the same changeset;
- nobody gives a verdict here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from relay.log.encoding import dumps
from relay.model import Caller
from relay.store.ports import Store, Tx
from relay.verification import approvals, journal
from relay.verification.approvals import Approval
from relay.verification.verification import (
    Change,
    Result,
    Source,
    Verification,
    asked_for,
    last_lines,
    newest,
)

Json = dict[str, Any]
#: Verifications that one look without a name shows.
SHOWN = 5


class Verifications:
    """The verifications of one room."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def tell(
        self,
        caller: Caller,
        *,
        summary: str,
        commit: str | None = None,
        base: str | None = None,
        branch: str | None = None,
        files: Sequence[str] | None = None,
        task: str | None = None,
        delivery: str | None = None,
    ) -> Json:
        """Queue a change of the caller's: `{success, changeset_id, number, reference, state, repeated?}`. `files`:
        what the caller says that it changed; `delivery`: the same one twice is one changeset."""
        about = {"agent": {"session": caller.session, "agent_type": caller.agent_type, "delivery": delivery}}
        change = Change(
            journal.new_id(),
            Source.AGENT,
            caller.agent,
            caller.agent,
            branch or "",
            commit,
            base,
            files=None if files is None else tuple(dict.fromkeys(files)),
            summary=summary,
            task=task,
            about=about,
        )
        key = None if delivery is None else f"agent:{dumps([caller.agent, delivery])}"
        made = await self._store.write(lambda tx: journal.ask(tx, change, source_key=key), durable=True)
        return queued(made, change)

    async def status(self, caller: Caller, changeset: str) -> Json:
        """All of one verification, with its results and approvals; by the changeset's id or `v12`. Raises Refusal."""

        async def look(tx: Tx) -> Json:
            found = await journal.find(tx, changeset)
            shown = found.as_json(await journal.results_of(tx, found.number))
            asked = await approvals.of_verification(tx, found.number)
            return {"success": True, **shown, "approvals": [each.as_json() for each in asked]}

        return await self._store.read(look)

    async def look(self, caller: Caller, changeset: str | None = None) -> Json:
        """`{success, verifications}` in short: the one of this name, else the newest of the caller's. Raises
        Refusal."""

        async def work(tx: Tx) -> Json:
            if changeset is not None:
                found = [await journal.find(tx, changeset)]
            else:
                found = await journal.newest_of_agent(tx, caller.agent, SHOWN)
            shown = []
            for each in found:
                results = await journal.results_of(tx, each.number)
                asked = await approvals.of_verification(tx, each.number)
                shown.append(in_short(each, results, asked))
            return {"success": True, "verifications": shown}

        return await self._store.read(work)


def queued(made: Verification, change: Change) -> Json:
    """The answer for a change that is to be verified. `repeated`: it was told before, and is the same changeset."""
    told: Json = {
        "success": True,
        "changeset_id": made.change.id,
        "number": made.number,
        "reference": made.name,
        "state": made.state.value,
    }
    return {**told, "repeated": True} if made.change.id != change.id else told


def in_short(verification: Verification, results: Sequence[Result], asked: Sequence[Approval]) -> Json:
    """What an agent needs to go on: how it stands, and where it failed, the last lines of it. Pure."""
    results = asked_for(verification, results)
    lines = last_lines(results)
    waiting = [each.name for each in asked if each.state is approvals.Answer.WAITING]
    change = verification.change
    return {
        "changeset_id": change.id,
        "reference": verification.name,
        "state": verification.state.value,
        "reason": verification.reason,
        "summary": change.summary,
        "branch": change.branch,
        "commit": change.commit,
        "decides": verification.decides,
        "results": [
            {"policy": one.policy, "state": one.state.value, "reason": one.reason} for one in newest(results)
        ],
        **({"waits_for": waiting} if waiting else {}),
        **({"lines": lines} if lines else {}),
    }
