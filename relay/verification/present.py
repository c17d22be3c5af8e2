"""What the verifications say of an agent's work as it stands now.

Invariant: a verdict belongs to the tree that was tested. `of_work` alone decides which verification speaks of a
worktree, and whether its files are still those; every interface takes it from here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from relay.store.ports import Tx
from relay.verification import journal
from relay.verification.verification import OVER, Source, State, Verification

#: Verifications of one agent that are looked at, the newest first.
MOST = 20


@dataclass(frozen=True, slots=True)
class Standing:
    """The verification that speaks of an agent's work. `present`: the files are still those that were tested."""

    of: Verification
    present: bool = True

    @property
    def said(self) -> str:
        """What somebody should know who is about to merge the work, in a sentence; empty: nothing."""
        name = self.of.name
        match self.of.state:
            case State.FAILED:
                return f"Its tests failed ({name})" + ("." if self.present else ", and it was changed since.")
            case State.PASSED if not self.present:
                return f"It was changed since its tests passed ({name})."
            case State.ERROR:
                return f"It could not be verified ({name})."
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
    """`newest`: of one agent, the newest first; `tree`: what stands in its worktree, empty = not known, or nothing of
    it is to land. Pure."""
    found = [each for each in newest if _tells(each)]
    if not found:
        return None
    last = found[0]
    # The queue tests a branch together with the main branch: what fails there is the branch, whatever its tree is.
    if not tree or last.state not in OVER or (_landing(last) and last.state is not State.PASSED):
        return Standing(last)
    same = next((each for each in found if each.change.tree == tree), None)
    if same is not None:
        return Standing(same)
    tested = last.state in (State.PASSED, State.FAILED, State.ERROR) and last.change.tree is not None
    return Standing(last, present=not tested)


async def of_work(tx: Tx, trees: Mapping[str, str]) -> dict[str, Standing]:
    """By agent, what speaks of its work. `trees`: by agent, as of `of_tree`."""
    found = {
        agent: of_tree(await journal.newest_of_agent(tx, agent, MOST), tree) for agent, tree in trees.items()
    }
    return {agent: standing for agent, standing in found.items() if standing is not None}


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
