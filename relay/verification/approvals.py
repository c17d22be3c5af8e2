"""Approvals: what waits for a person, and what a person said (004, "Manual review required").

Invariants:
- an approval is decided once: by one person, or by the time that it had;
- only a person decides; whose key it is, the interface has checked (`by_person`);
- the row, its event and what becomes of the policies that wait for it are one transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from relay.base.durations import iso, since
from relay.log import events
from relay.log.encoding import dumps, loads
from relay.log.events import Lane, NewEvent
from relay.model import Fault, Refusal, references
from relay.store.ports import Row, Tx, of_row
from relay.verification import journal
from relay.verification.journal import Q
from relay.verification.verification import Change, Outcome, Result, Verification

#: The events.
ASKED, DECIDED = "approval.asked", "approval.decided"
TYPES = (ASKED, DECIDED)
#: Approvals among which one is looked for that was given for the same.
MOST_SEARCHED = 200


class Answer(StrEnum):
    WAITING = "waiting"
    APPROVED = "approved"
    REJECTED = "rejected"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"


@dataclass(frozen=True, slots=True)
class Approval:
    """A row of `approval_queue`. `policies`: those that wait for it, `files`: what they are for; `asker`: who wants
    the change, `agent`: whose work it is. `at`, `expires`, `decided_at`: Unix seconds."""

    number: int
    verification: int
    policies: tuple[str, ...]
    files: tuple[str, ...]
    state: Answer
    asker: str
    agent: str
    at: float
    expires: float
    decided_by: str | None = None
    decided_at: float | None = None
    reason: str = ""

    @property
    def name(self) -> str:
        """`a12`."""
        return references.approval(self.number)

    def wanted(self, change: Change, files: str, needs: str = "") -> str:
        """What a person is asked about, in words. `files`: those that the policies name, as the caller shows them,
        which need not be all that land; `needs`: the verb."""
        whole = len({*(change.files or ()), *self.files})
        if whole == len(self.files):
            return f"{self.agent}'s change in {files}{needs}"
        return f"{self.agent}'s change of {whole} files{needs}; your approval is wanted for {files}"

    def as_json(self) -> dict[str, Any]:
        return {
            "number": self.number,
            "reference": self.name,
            "verification": references.verification(self.verification),
            "policies": list(self.policies),
            "files": list(self.files),
            "state": self.state.value,
            "asker": self.asker,
            "agent": self.agent,
            "at": iso(self.at),
            "expires": iso(self.expires),
            "decided_by": self.decided_by,
            "decided_at": None if self.decided_at is None else iso(self.decided_at),
            "reason": self.reason,
        }


def lane_of(number: int) -> Lane:
    return Lane("room", f"approval:{number}", short=True)


async def ask(
    tx: Tx, verification: Verification, policies: Sequence[str], files: Sequence[str], expires_s: float
) -> Approval:
    """Ask people about these policies of a verification."""
    number, now = await events.next_number(tx, "approval"), await tx.now()
    change = verification.change
    made = Approval(
        number,
        verification.number,
        tuple(policies),
        tuple(files),
        Answer.WAITING,
        change.asker,
        change.agent,
        now,
        now + expires_s,
    )
    await tx.execute(
        Q.put_approval,
        number=number,
        verification=verification.number,
        policies=dumps(list(policies)),
        files=dumps(list(files)),
        state=made.state.value,
        asker=made.asker,
        agent=made.agent,
        at=now,
        expires=made.expires,
    )
    outputs = {**made.as_json(), "changeset_id": change.id}
    parents = [verification.cause] if verification.cause else []
    await events.append(tx, NewEvent(ASKED, lane_of(number), outputs=outputs, parents=parents))
    return made


async def decide(
    tx: Tx, number: int, answer: Answer, *, by: str, reason: str = "", cause: Sequence[str] = ()
) -> Approval:
    """Decide it, once; what waited for it passes or fails. Raises Refusal: there is none, or it is decided."""
    before = await load(tx, number)
    now = await tx.now()
    row = await tx.one(
        Q.decide_approval, number=number, state=answer.value, decided_by=by, now=now, reason=reason
    )
    if row is None:
        over = before.state is Answer.WAITING
        how = "expired" if over else before.state.value
        who = f" by {before.decided_by}" if before.decided_by and not over else ""
        at = before.expires if over else before.decided_at
        when = f", {since(at, now)}" if at is not None else ""
        raise Refusal(
            f"{before.name} is {how}{who}{when}: it is decided once.",
            f"`/verify {references.verification(before.verification)}` asks anew.",
            code="decided",
        )
    made = _approval(row)
    await events.append(tx, NewEvent(DECIDED, lane_of(number), outputs=made.as_json(), parents=list(cause)))
    for result in await _waiting_for(tx, made):
        same = made.state in (Answer.APPROVED, Answer.REJECTED)
        for each in await journal.waiting_like(tx, result) if same else [result]:
            await journal.record(tx, _answered(each, made, now))
    return made


async def _waiting_for(tx: Tx, approval: Approval) -> list[Result]:
    """What waits for this approval."""
    return [
        result
        for result in await journal.results_of(tx, approval.verification)
        if result.policy in approval.policies and result.state is Outcome.WAITING
    ]


async def agreed(tx: Tx, verification: int | None) -> list[Approval]:
    """What people have approved of a verification, or of another one with the same policies on the same tree."""
    if verification is None:
        return []
    own = [each for each in await of_verification(tx, verification) if each.state is Answer.APPROVED]
    results = await journal.results_of(tx, verification)
    wanted = {(result.tree, result.digest) for result in results if result.state is Outcome.PASSED}
    if own or not wanted:
        return own
    for approval in await newest(tx, MOST_SEARCHED):
        if approval.state is Answer.APPROVED:
            of = await journal.results_of(tx, approval.verification)
            if wanted & {(each.tree, each.digest) for each in of if each.policy in approval.policies}:
                return [approval]
    return []


async def asks_all(tx: Tx, verification: int, results: Sequence[Result]) -> bool:
    """Are people asked already about all of these of a verification?"""
    asked = [each for each in await of_verification(tx, verification) if each.state is Answer.WAITING]
    return {result.policy for result in results} <= {name for each in asked for name in each.policies}


async def covering(tx: Tx, results: Sequence[Result]) -> Approval | None:
    """What people are asked already about all of this: the same policies on the same tree, of any verification."""
    wanted = {(result.tree, result.digest) for result in results}
    for approval in await waiting(tx):
        asked = {(result.tree, result.digest) for result in await _waiting_for(tx, approval)}
        if wanted and all(tree for tree, _ in wanted) and wanted <= asked:
            return approval
    return None


def _answered(result: Result, approval: Approval, now: float) -> Result:
    match approval.state:
        case Answer.APPROVED:
            return replace(
                result, state=Outcome.PASSED, reason=f"{approval.decided_by} approved it", ended=now
            )
        case Answer.REJECTED:
            why = f": {approval.reason}" if approval.reason else ""
            return replace(
                result, state=Outcome.FAILED, reason=f"{approval.decided_by} rejected it{why}", ended=now
            )
        case Answer.EXPIRED:
            return replace(result, state=Outcome.ERROR, reason="nobody has approved it in time", ended=now)
    return replace(result, state=Outcome.CANCELLED, reason=approval.reason, ended=now)


async def expire(tx: Tx) -> list[Approval]:
    """Those whose time is over now, decided so."""
    now = await tx.now()
    return [
        await decide(tx, approval.number, Answer.EXPIRED, by="RELAY", reason="nobody decided in time")
        for approval in await waiting(tx)
        if approval.expires <= now
    ]


async def withdraw(tx: Tx, verification: int, reason: str) -> None:
    """Ask nobody about a verification any more."""
    for approval in await of_verification(tx, verification):
        if approval.state is Answer.WAITING:
            await decide(tx, approval.number, Answer.WITHDRAWN, by="RELAY", reason=reason)


async def withdraw_of_entry(tx: Tx, entry: int, reason: str, part: str | None = None) -> None:
    """Ask nobody any more about an entry of the landing queue. `part`: about that part of it alone."""
    for each in await journal.open_verifications(tx):
        about = each.change.about
        if about.get("entry") != entry or part not in (None, about.get("part")):
            continue
        await withdraw(tx, each.number, reason)
        await journal.cancel(tx, each, reason)


async def load(tx: Tx, number: int) -> Approval:
    """By its room number. Raises Refusal."""
    row = await tx.one(Q.approval, number=number)
    if row is None:
        name = references.approval(number)
        raise Refusal(f"There is no approval {name}.", "The room and the page name them.", Fault.UNKNOWN)
    return _approval(row)


async def waiting(tx: Tx) -> list[Approval]:
    """Those that nobody has decided, the oldest first."""
    return [_approval(row) for row in await tx.all(Q.waiting_approvals)]


async def newest(tx: Tx, limit: int) -> list[Approval]:
    return [_approval(row) for row in await tx.all(Q.newest_approvals, limit=limit)]


async def of_verification(tx: Tx, verification: int) -> list[Approval]:
    return [_approval(row) for row in await tx.all(Q.approvals_of, verification=verification)]


def _approval(row: Row) -> Approval:
    return of_row(
        Approval,
        row,
        policies=tuple(loads(row["policies"])),
        files=tuple(loads(row["files"])),
        state=Answer(row["state"]),
    )
