"""What the verifications say of an agent's work, and of the main branch, as they stand now.

Invariants:
- a verdict belongs to the tree that was tested. `of_work` alone decides which verification speaks of a worktree, and
  whether its files are still those; every interface takes it from here;
- what failed in the landing queue is the branch's only where the queue put the branch out for it: else the main
  branch fails by itself, or that is not known yet;
- `of_main` alone decides whether the main branch fails its tests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from relay.store.ports import Tx
from relay.verification import journal
from relay.verification.landing import journal as landings
from relay.verification.landing.entry import EntryState
from relay.verification.verification import OVER, Source, State, Verification

#: Verifications that are looked at, the newest first: of one agent, and of the main branch and batches.
MOST, MOST_OF_MAIN = 20, 50
#: Whose name the verifications of the main branch by itself have.
RELAY = "RELAY"
#: In `Change.about` of a test of the main branch once more: the number of the verification that it repeats.
OF = "of"


@dataclass(frozen=True, slots=True)
class Standing:
    """The verification that speaks of an agent's work. `present`: the files are still those that were tested. `main`:
    by which what the work stands on fails by itself, None: that is not known of it."""

    of: Verification
    present: bool = True
    main: Verification | None = None

    @property
    def fails(self) -> bool:
        """The tests failed on the files that stand there now."""
        return self.present and self.of.state is State.FAILED

    @property
    def said(self) -> str:
        """What somebody should know who is about to merge the work, in a sentence; empty: nothing."""
        name = self.of.name
        match self.of.state:
            case State.FAILED:
                also = f", as those of what it stands on do ({self.main.name})" if self.main else ""
                return (
                    f"Its tests failed ({name}){also}{'' if self.present else ', and it was changed since'}."
                )
            case State.PASSED if not self.present:
                return f"It was changed since its tests passed ({name})."
            case State.ERROR:
                return f"It could not be verified ({name})."
            case State.WAITING:
                return f"A person has to agree to it, and nobody has yet ({name})."
            case State.QUEUED | State.RUNNING:
                return f"Its tests have not ended ({name})."
        return ""

    def as_json(self) -> dict[str, Any]:
        """`{number, reference, state, reason, agent, summary, present, said}`."""
        of = self.of
        return {
            "number": of.number,
            "reference": of.name,
            "state": of.state.value,
            "reason": of.reason,
            "agent": of.change.agent,
            "summary": of.change.summary,
            "present": self.present,
            "said": self.said,
        }


def of_tree(newest: Sequence[Verification], tree: str) -> Standing | None:
    """`newest`: as of `telling`; `tree`: what stands in the agent's worktree, empty = not known. Nobody asks of a
    branch of which nothing is to land: no verdict speaks of that. Pure."""
    if not newest:
        return None
    last = newest[0]
    # The queue tests a branch together with the main branch: what fails there is the branch, whatever its tree is.
    if not tree or last.state not in OVER or (_landing(last) and last.state is not State.PASSED):
        return Standing(last)
    same = next((each for each in newest if each.change.tree == tree), None)
    if same is not None:
        return Standing(same)
    tested = last.state in (State.PASSED, State.FAILED, State.ERROR) and last.change.tree is not None
    return Standing(last, present=not tested)


async def of_work(tx: Tx, trees: Mapping[str, str]) -> dict[str, Standing]:
    """By agent, what speaks of its work. `trees`: by agent, as of `of_tree`."""
    found = {agent: of_tree(await telling(tx, agent), tree) for agent, tree in trees.items()}
    told = {agent: standing for agent, standing in found.items() if standing is not None}
    failed = [agent for agent, standing in told.items() if standing.of.state is State.FAILED]
    newest_main = await newest_of_main(tx) if failed else ()
    for agent in failed:
        told[agent] = replace(told[agent], main=_below(newest_main, told[agent].of.change.base))
    return told


async def fails_below(tx: Tx, base: str | None) -> Verification | None:
    """By which verification the main branch's commit that some work stands on fails by itself."""
    return _below(await newest_of_main(tx), base)


def _below(newest_main: Sequence[Verification], base: str | None) -> Verification | None:
    at = red([each for each in newest_main if base and each.change.commit == base])
    return at.of if at is not None else None


async def telling(tx: Tx, agent: str) -> list[Verification]:
    """The verifications that say something of the agent's work, the newest first."""
    newest = [each for each in await journal.newest_of_agent(tx, agent, MOST) if _tells(each)]
    return [each for each in newest if await _its_own(tx, each)]


async def _its_own(tx: Tx, verification: Verification) -> bool:
    """Not the failure of a test in the landing queue for which the queue did not put the branch out."""
    entries = verification.change.about.get("entries")
    if not _landing(verification) or verification.state is not State.FAILED or not entries:
        return True
    entry = await landings.load(tx, entries[0])
    return entry.state is EntryState.PUT_OUT and entry.verification == verification.number


@dataclass(frozen=True, slots=True)
class RedMain:
    """The main branch fails its tests. `failing`: the verifications that say so, and that none which passed has
    refuted, the oldest first; `told`: the one that said so first; `unclear`: one of a commit before, which has no
    verdict yet; `again`: one that tests it again now."""

    failing: tuple[Verification, ...]
    told: Verification
    unclear: Verification | None
    again: Verification | None

    @property
    def of(self) -> Verification:
        """The verification of the newest commit that fails."""
        return self.failing[-1]

    @property
    def branch(self) -> str:
        """The main branch's name."""
        return self.of.change.branch or "the main branch"

    @property
    def id(self) -> str:
        """The same as long as it fails, whatever else is merged and tested meanwhile."""
        return f"main-fails:{self.told.name}"

    @property
    def merge(self) -> Mapping[str, Any] | None:
        """`{agent, by, commit}`: the merge after which it was seen first; None: it was seen after something else, or
        nobody knows yet whether it failed before."""
        return None if self.unclear is not None else self.failing[0].change.about.get("merge")


def is_of_main(verification: Verification) -> bool:
    """Is it of the main branch by itself, with nobody's work?"""
    return _landing(verification) and verification.change.about.get("agents") == []


async def of_main(tx: Tx) -> RedMain | None:
    """Whether the main branch fails its tests, as far as is known; None: nobody knows that it does. Whoever moves it
    while it fails has it tested again (`relay.app.verification.main_branch`)."""
    return red(await newest_of_main(tx))


async def newest_of_main(tx: Tx) -> list[Verification]:
    """The verifications of the main branch by itself, the newest first, without those that nobody wanted any more."""
    newest = await journal.newest_of_agent(tx, RELAY, MOST_OF_MAIN)
    return [each for each in newest if is_of_main(each) and each.state is not State.CANCELLED]


def place(verification: Verification) -> int:
    """Where its commit stands among those of the main branch: a test of the same once more stands where the first
    does."""
    return int(verification.change.about.get(OF, verification.number))


def covers(later: Verification, failed: Verification) -> bool:
    """Does it test what failed, on the same commit of the main branch or on a later one? Pure."""
    files = {*(later.change.files or ())}
    return place(later) >= place(failed) and files.issuperset(failed.change.files or ())


def red(newest: Sequence[Verification]) -> RedMain | None:
    """`newest`: as of `newest_of_main`. What failed stays failed until the same passes, there or on a later commit;
    what has no verdict (it is not over, or could not be tested) says nothing. Pure."""
    failing, told, unknown = list[Verification](), list[Verification](), list[Verification]()
    unclear: Verification | None = None
    for each in sorted(newest, key=lambda each: (place(each), each.number)):
        match each.state:
            case State.FAILED:
                if not failing:
                    before = (one for one in unknown if one.change.commit != each.change.commit)
                    unclear, told = next(before, None), []
                failing.append(each)
                told.append(each)
            case State.PASSED:
                failing = [failed for failed in failing if not covers(each, failed)]
                unknown = []
            case State.QUEUED | State.RUNNING | State.WAITING | State.ERROR:
                unknown.append(each)
    if not failing:
        return None
    again = [each for each in unknown if each.state is not State.ERROR and covers(each, failing[-1])]
    first = min(told, key=lambda each: (each.ended or each.at, each.number))
    return RedMain(tuple(failing), first, unclear, again[-1] if again else None)


def _landing(verification: Verification) -> bool:
    return verification.change.source is Source.LANDING


def _tells(verification: Verification) -> bool:
    """Not what nobody wanted any more, what is of a variant, and what people were only asked about."""
    change = verification.change
    return not (
        verification.state is State.CANCELLED
        or change.source is Source.EXPLORATION
        or change.about.get("part") in ("entry", "join")
    )
