"""What the room says of the landing queue, and tells agents whose branch is put out.

Invariant: what a program printed stands in a block of code, and names and paths in one line.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from relay.airspace.worktrees.merging.wording import joined_words
from relay.app.verification.landing_git import Link
from relay.base.terminal_text import fenced, flat
from relay.model.ports import Voice
from relay.room.journal import ledger
from relay.store.ports import Tx
from relay.verification.approvals import Answer, Approval
from relay.verification.landing.entry import Carried, Entry
from relay.verification.landing.journal import lane_of
from relay.verification.verification import (
    Outcome,
    Result,
    State,
    Verification,
    failing_lines,
    newest,
    said,
)

#: Lines of a failed run that the room quotes.
MOST_LINES = 20
#: Lines of a difference that the room shows.
MOST_DIFF = 60
#: Subjects of commits that the room quotes.
MOST_SUBJECTS = 5


class LandingWords:
    """`voice`: as of `LandingQueue`."""

    def __init__(self, voice: Voice | None) -> None:
        self._voice = voice

    async def put_out(self, tx: Tx, entry: Entry) -> None:
        """Tell the room, and the agent with a turn, why a branch does not land."""
        text = (
            f"{entry.agent}'s branch did not land: {entry.reason}"
            + (f"\n\n{fenced(entry.output)}" if entry.output else "")
            + (f"\n\nWhen it is mended, `/land @{entry.agent}` tries again." if entry.output else "")
        )
        await self._tell(tx, entry, text, ask=bool(entry.output))

    async def waits(self, tx: Tx, entry: Entry) -> None:
        """Tell the room what an entry waits for."""
        text = f"{entry.agent}'s branch waits in the landing queue: {entry.note}"
        meta = {"notice": "landing", "agent": entry.agent}
        await ledger.say(tx, text if text.endswith(".") else f"{text}.", meta=meta)

    async def also(self, tx: Tx, entry: Entry, members: Sequence[str]) -> None:
        """Tell the room that other members have work of the agent too."""
        text = (
            f"{entry.agent} has work at {', '.join(members)} too, which is not in what lands now: "
            f"`/land @{entry.agent}` lands it after that."
        )
        await ledger.say(tx, text, meta={"notice": "landing", "agent": entry.agent})

    async def _tell(self, tx: Tx, entry: Entry, text: str, *, ask: bool) -> None:
        meta = {"notice": "landing", "agent": entry.agent}
        reach = {} if self._voice is None else await self._voice.reach(tx, [entry.agent])
        if self._voice is None or reach.get(entry.agent) != "":
            await ledger.say(tx, text, meta=meta)
            return
        lane, asked = lane_of(entry.number), [entry.agent] if ask else []
        await self._voice.say(tx, text, now=await tx.now(), lane=lane, to=[entry.agent], ask=asked, meta=meta)


def landed(
    entry: Entry,
    link: Link | None,
    tested: Verification | None,
    results: Sequence[Result],
    left: str,
    agreed: Sequence[Approval] = (),
    carried: Sequence[Carried] = (),
) -> str:
    """What the room is told of a branch that has landed. `agreed`: what people have approved of it; `carried`: what
    landed with it."""
    if link is None:
        return f"{entry.branch} of {entry.agent} has landed: the main branch has it.{beside(carried)}"
    proposal = link.proposal
    text = (
        f"{entry.branch} of {entry.agent} landed on {proposal.into}, as {entry.asker} asked: "
        f"{proposal.files} file{'s' * (proposal.files != 1)}{' as one commit' * entry.squash}, "
        f"{how(tested, results, bool(agreed))}."
    )
    for each in [*agreed, *([link.look] if link.look is not None else [])]:
        text += f" {approved(each)}"
    text += beside(carried)
    text += proposal.to_look_at
    if left:
        text += f" {entry.agent}: {left}."
    if proposal.decided:
        text += f" Before that, {proposal.decided}."
    return text


def beside(carried: Sequence[Carried]) -> str:
    """What else landed, and whose it is, in a sentence with a blank before it; empty: nothing."""
    if not carried:
        return ""
    people = " and ".join(dict.fromkeys(f"{flat(each.author)}'s" for each in carried))
    number = f"a commit of {people}" if len(carried) == 1 else f"{len(carried)} commits of {people}"
    was = "was" if len(carried) == 1 else "were"
    subjects = ", ".join(flat(each.subject) for each in carried[:MOST_SUBJECTS])
    more = ", ..." if len(carried) > MOST_SUBJECTS else ""
    return f" It landed with {number} that {was} on main at {carried[0].member}: {subjects}{more}."


def approved(approval: Approval) -> str:
    """Who agreed to what, in a sentence."""
    return f"{approval.decided_by} approved it ({approval.name}: {', '.join(approval.policies)})."


def how(tested: Verification | None, results: Sequence[Result], agreed: bool = False) -> str:
    """By what it was verified, in words. `agreed`: a policy was for it that asks people."""
    if tested is None or tested.state is State.NOT_TESTED:
        return (
            "**not tested**: no policy runs a program for it"
            if agreed
            else "**not tested**: no policy covers it"
        )
    last = newest(results)
    passed = [result.policy + " (flaky)" * result.flaky for result in last if result.state is Outcome.PASSED]
    beside = " ".join(said(result) for result in last if result.state is not Outcome.PASSED)
    return f"tested by {', '.join(passed)} ({tested.name})" + (f"; {beside.rstrip('.')}" if beside else "")


def details(link: Link | None, tested: Verification | None) -> dict[str, Any]:
    """What the event of the merge says beside."""
    found: dict[str, Any] = {"landed": True}
    if link is not None:
        proposal = link.proposal
        found |= {"into": proposal.into, "files": proposal.files, "committed": False}
        if proposal.joined:
            found["joined"] = [file.as_json() for file in proposal.joined]
        if proposal.warnings:
            found["warnings"] = list(proposal.warnings)
    if tested is not None:
        found |= {"verification": tested.name, "tested": tested.state is State.PASSED}
    return found


def to_look_at(link: Link, asked: Sequence[Approval] = ()) -> str:
    """What an entry waits for whose merge relay joins and nothing tests. `asked`: what people are asked of it."""
    joined = f"relay joins {joined_words(link.proposal.joined)}, and nothing tests it: a person has to look"
    names = [each.name for each in asked if each.state is Answer.WAITING]
    return f"{joined} ({', '.join(names)})" if names else joined


def shortened(diff: str) -> str:
    """The first lines of a difference, and how many more there are."""
    lines = diff.rstrip("\n").split("\n")
    more = len(lines) - MOST_DIFF
    return "\n".join([*lines[:MOST_DIFF], *([f"... and {more} more lines"] if more > 0 else [])])


def broken(link: Link, failed: Verification, bad: Sequence[Result], before: Sequence[str]) -> tuple[str, str]:
    """Why an entry is put out, and the lines that failed."""
    reason = " ".join(said(result) for result in bad) or failed.reason
    into = link.proposal.into
    beside = f" with {', '.join(before)}, which landed before" if before else ""
    text = f"{flat(reason)} It was tested on {into}{beside} ({failed.name}); {into} passed without it then."
    if link.across:
        text += f" {' '.join(map(flat, link.across))}"
    return text, failing_lines(bad[0], MOST_LINES) if bad else ""
