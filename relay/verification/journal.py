"""The verifications of a room as rows: where each stands, so that whoever goes on knows what is next.

Invariants:
- a row changes in the transaction that records what it says, so a process that is killed at any instant leaves each
  verification before a step or behind it. Only that a run has begun is written without an event;
- what was begun by one event (`source_key`) is one verification, however often it is told;
- a result that is over never changes: another run of it is another attempt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import uuid_utils

from relay.log import events
from relay.log.encoding import dumps, loads
from relay.log.events import Lane, NewEvent
from relay.model import Fault, Refusal, references
from relay.model.references import Thing
from relay.store.ports import Queries, Row, Store, Tx, of_row
from relay.verification.attempts import reused_run
from relay.verification.policies import Executor
from relay.verification.verification import (
    OPEN,
    OVER,
    Change,
    Outcome,
    Result,
    Source,
    State,
    Verification,
    asked_for,
    failing_lines,
    last_lines,
    newest,
)

FOLDER = Path(__file__).parent
Q = Queries(FOLDER)
#: The events: it was asked for, it was routed and runs, a policy's run is over, all are.
ASKED, ROUTED = "verification.asked", "verification.routed"
RESULT, ENDED = "verification.result", "verification.ended"
TYPES = (ASKED, ROUTED, RESULT, ENDED)
#: Lines of a failed run that the event of the verification's end has.
MOST_LINES = 30


def lane_of(number: int) -> Lane:
    """The short lane of the room's own events about a verification."""
    return Lane("room", f"verification:{number}", short=True)


def new_id() -> str:
    """The id of a new changeset."""
    return str(uuid_utils.uuid7())


async def ask(
    tx: Tx, change: Change, *, cause: Sequence[str] = (), source_key: str | None = None
) -> Verification:
    """Record that a change is to be verified; the same `source_key` twice is one."""
    if source_key is not None:
        row = await tx.one(Q.verification_by_source, source_key=source_key)
        if row is not None:
            return _verification(row)
    number = await events.next_number(tx, "verification")
    made = Verification(number, change, State.QUEUED, at=await tx.now(), cause=cause[0] if cause else None)
    await tx.execute(Q.put_verification, **_columns(made), source_key=source_key)
    outputs = {"number": number, "changeset_id": change.id, "source": change.source.value}
    outputs |= {"agent": change.agent, "asker": change.asker, "task": change.task, "summary": change.summary}
    outputs |= {"about": dict(change.about)}
    new = NewEvent(
        ASKED,
        lane_of(number),
        outputs=outputs,
        parents=list(cause),
        branch=change.branch or None,
        snapshot=change.tree,
    )
    await events.append(tx, new)
    return made


async def routed(tx: Tx, verification: Verification, results: Sequence[Result]) -> None:
    """Record which policies verify it; each has a first row in `results`."""
    await save(tx, verification)
    for result in results:
        await save_result(tx, result)
    outputs = {
        "number": verification.number,
        "tier": verification.tier,
        "decides": verification.decides,
        "policies": [result.policy for result in results],
        "files": list(verification.change.files or ()),
    }
    new = NewEvent(ROUTED, lane_of(verification.number), outputs=outputs, snapshot=verification.change.tree)
    await events.append(tx, new)


async def begin(tx: Tx, result: Result) -> Result:
    """A run begins, or goes on."""
    begun = replace(result, state=Outcome.RUNNING, began=result.began or await tx.now())
    await save_result(tx, begun)
    return begun


async def reuse(tx: Tx, result: Result, known: Result) -> None:
    """Record that the end of a run is known already, from another one."""
    await record(tx, reused_run(result, known, await tx.now()))


async def record(tx: Tx, result: Result) -> Result:
    """Record how a run ended, now; nothing where nobody wants it any more (cancelled)."""
    if (await load(tx, result.verification)).state in OVER:
        return replace(result, state=Outcome.CANCELLED)
    result = replace(result, ended=await tx.now())
    await save_result(tx, result)
    outputs = {"number": result.verification, **result.as_json(output=False)}
    if result.state in (Outcome.FAILED, Outcome.TIMED_OUT):
        outputs["lines"] = failing_lines(result, MOST_LINES)
    await events.append(
        tx, NewEvent(RESULT, lane_of(result.verification), outputs=outputs, snapshot=result.tree)
    )
    return result


async def end(tx: Tx, verification: Verification, state: State, reason: str = "") -> Verification:
    """Record that a verification is over."""
    results = asked_for(verification, await results_of(tx, verification.number))
    ended = replace(verification, state=state, reason=reason, ended=await tx.now())
    await save(tx, ended)
    outputs = ended.as_json([], output=False) | {
        "results": [result.as_json(output=False) for result in newest(results)],
        "first_pass": state is State.PASSED and all(result.state is Outcome.PASSED for result in results),
        "lines": last_lines(results, MOST_LINES),
    }
    change = verification.change
    new = NewEvent(
        ENDED,
        lane_of(verification.number),
        outputs=outputs,
        parents=[verification.cause] if verification.cause else [],
        branch=change.branch or None,
        snapshot=change.tree,
    )
    await events.append(tx, new)
    return ended


async def again(tx: Tx, verification: Verification, *, by: str, cause: Sequence[str] = ()) -> Verification:
    """Verify the same once more, each policy in another attempt of its own, whatever ran before. Raises Refusal: it
    is not over."""
    if verification.state not in OVER:
        message = f"{verification.name} is {verification.state.value}: it is not over yet."
        raise Refusal(message, "Wait for its end.", code="not_over")
    change = replace(verification.change, about={**verification.change.about, "fresh": True})
    asked = replace(
        verification,
        change=change,
        state=State.QUEUED,
        reason="",
        tier=None,
        decides=None,
        began=None,
        ended=None,
    )
    await save(tx, asked)
    outputs = {"number": asked.number, "changeset_id": change.id, "source": change.source.value}
    outputs |= {"agent": change.agent, "asker": by, "task": change.task, "again": True}
    await events.append(tx, NewEvent(ASKED, lane_of(asked.number), outputs=outputs, parents=list(cause)))
    return asked


async def save(tx: Tx, verification: Verification) -> None:
    """Change the row."""
    columns = _columns(verification)
    for name in ("id", "source", "agent", "asker", "summary", "task", "at", "cause"):
        del columns[name]
    await tx.execute(Q.change_verification, **columns)


async def save_result(tx: Tx, result: Result) -> None:
    """Put the row, new or changed."""
    row = {name: getattr(result, name) for name in Result.__slots__}
    row["state"], row["executor"] = result.state.value, str(result.executor)
    row["always"], row["flaky"] = int(result.always), int(result.flaky)
    row["sandboxed"] = None if result.sandboxed is None else int(result.sandboxed)
    await tx.execute(Q.put_result, **row)


async def load(tx: Tx, number: int) -> Verification:
    """The verification of this room number. Raises Refusal."""
    row = await tx.one(Q.verification, number=number)
    if row is None:
        name = references.verification(number)
        raise Refusal(f"There is no verification {name}.", "The room named its number.", Fault.UNKNOWN)
    return _verification(row)


async def find(tx: Tx, changeset: str) -> Verification:
    """By the changeset's id, or by `v12`. Raises Refusal."""
    row = await tx.one(Q.verification_by_id, id=changeset)
    if row is not None:
        return _verification(row)
    read = references.read(changeset, Thing.VERIFICATION)
    if read is None or read[0] is not Thing.VERIFICATION:
        message = f"There is no changeset {changeset[:64]}."
        raise Refusal(message, "It has been asked for nowhere: see GET /api/verifications.", Fault.UNKNOWN)
    return await load(tx, read[1])


async def open_verifications(tx: Tx) -> list[Verification]:
    """Those that are not over, the oldest first."""
    return [_verification(row) for row in await tx.all(Q.open_verifications)]


async def newest_verifications(tx: Tx, limit: int, before: int = 2**62) -> list[Verification]:
    """The newest, the last one first."""
    return [_verification(row) for row in await tx.all(Q.newest_verifications, limit=limit, before=before)]


async def newest_of_agent(tx: Tx, agent: str, limit: int = 1, before: int = 2**62) -> list[Verification]:
    rows = await tx.all(Q.newest_of_agent, agent=agent, limit=limit, before=before)
    return [_verification(row) for row in rows]


async def newest_of_task(tx: Tx, task: str, limit: int = 1, before: int = 2**62) -> list[Verification]:
    rows = await tx.all(Q.newest_of_task, task=task, limit=limit, before=before)
    return [_verification(row) for row in rows]


async def numbered(tx: Tx, numbers: Sequence[int]) -> list[Verification]:
    """Those of these numbers that are there, the newest first."""
    rows = [await tx.one(Q.verification, number=number) for number in sorted({*numbers}, reverse=True)]
    return [_verification(row) for row in rows if row is not None]


async def results_of(tx: Tx, number: int) -> list[Result]:
    """All attempts of all policies."""
    return [_result(row) for row in await tx.all(Q.results_of, verification=number)]


async def same_run(tx: Tx, result: Result) -> Result | None:
    """How the newest run of the same on the same tree ended by itself; None: there was none, or nobody has the tree
    here (empty), so that no two are known to be the same. What a person said of a run is no run."""
    if not result.tree:
        return None
    same = {"tree": result.tree, "digest": result.digest, "executor": str(result.executor)}
    row = await tx.one(Q.same_run, **same)
    return None if row is None else _result(row)


async def waiting_like(tx: Tx, result: Result) -> list[Result]:
    """What waits for a person's word on the same tree by the same policy, in any verification."""
    if not result.tree:
        return [result]
    rows = await tx.all(Q.waiting_like, tree=result.tree, digest=result.digest)
    return [_result(row) for row in rows]


async def forget_output(store: Store, before: float) -> int:
    """Drop what runs printed that ended before then (Unix seconds); how they ended stays. Gives their number."""
    return await store.write(lambda tx: tx.execute(Q.forget_output, before=before))


async def cancel(tx: Tx, verification: Verification, reason: str) -> Verification:
    """Nobody wants it any more."""
    for result in await results_of(tx, verification.number):
        if result.state in OPEN:
            await save_result(tx, replace(result, state=Outcome.CANCELLED, ended=await tx.now()))
    return await end(tx, verification, State.CANCELLED, reason)


def _columns(verification: Verification) -> dict[str, Any]:
    change = verification.change
    return {
        "number": verification.number,
        "id": change.id,
        "source": change.source.value,
        "agent": change.agent,
        "asker": change.asker,
        "branch": change.branch,
        "at_commit": change.commit,
        "base": change.base,
        "tree": change.tree,
        "files": None if change.files is None else dumps(list(change.files)),
        "summary": change.summary,
        "task": change.task,
        "about": dumps(dict(change.about)),
        "state": verification.state.value,
        "tier": verification.tier,
        "decides": verification.decides,
        "reason": verification.reason,
        "at": verification.at,
        "began": verification.began,
        "ended": verification.ended,
        "cause": verification.cause,
    }


def _verification(row: Row) -> Verification:
    files = row["files"]
    change = of_row(
        Change,
        row,
        source=Source(row["source"]),
        commit=row["at_commit"],
        files=None if files is None else tuple(loads(files)),
        about=loads(row["about"]),
    )
    return of_row(Verification, row, change=change, state=State(row["state"]))


def _result(row: Row) -> Result:
    return of_row(
        Result,
        row,
        state=Outcome(row["state"]),
        executor=Executor(row["executor"]),
        always=bool(row["always"]),
        flaky=bool(row["flaky"]),
        sandboxed=None if row["sandboxed"] is None else bool(row["sandboxed"]),
    )
