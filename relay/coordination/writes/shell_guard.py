"""A shell's command, before it runs: may its session write what the command would write?

Invariants:
- refused is only what the words of the command surely say that it writes. What it may write is noted, and what nobody
  can tell before it ran passes: the room sees it after the tool, and git's hooks ask again;
- a folder that is written stands for the files in it: a lock on another file of it holds nothing up;
- a command is parsed beside the event loop, never on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from relay.code.shell.foreseen import MOST_NAMED, Foreseen, refusal_text
from relay.coordination.writes.lock_guard import MOST_TOLD, LockGuard, caller_of
from relay.model import GuardDecision, Location, LockRefusal

#: Files of a command that the airspace is asked about one by one; of the others only the locks are looked at.
MOST_ADVISED = 50
#: Characters of a command that are kept with what it wrote.
MOST_COMMAND = 1_000


@dataclass(frozen=True, slots=True)
class CommandAnswer:
    """`decision`: of the first file that is refused, with what is to be known of them all."""

    decision: GuardDecision
    foreseen: Foreseen = field(default_factory=Foreseen)

    def as_json(self) -> dict[str, Any]:
        """As `POST /api/guard` answers on a command (docs/guard.md)."""
        seen = self.foreseen
        writes = [
            {"path": path, "sure": sure}
            for paths, sure in ((seen.sure, True), (seen.perhaps, False))
            for path in paths
        ]
        return {
            **self.decision.as_json(),
            "writes": writes[:MOST_TOLD],
            "more": max(0, len(writes) - MOST_TOLD),
            "unknown": list(seen.unknown[:MOST_TOLD]),
        }


async def judge(
    guard: LockGuard, agent: str, command: str, foreseen: Foreseen, session: str | None = None
) -> CommandAnswer:
    """The guard's word on a command. Raises Refusal for a bad session id."""
    said = command[:MOST_COMMAND]
    refused: list[tuple[str, GuardDecision]] = []
    notes: dict[str, None] = {}
    rest = foreseen.sure[MOST_ADVISED:]
    standing: Sequence[LockRefusal] = ()
    if rest or foreseen.perhaps:
        caller = caller_of(agent, session)
        try:
            standing = await guard.standing(caller, [*rest, *foreseen.perhaps])
        except guard.troubles as error:
            notes[
                f"The locks could not be read ({error}), so not all that this command writes was checked."
            ] = None
    locked = [(lock.path, GuardDecision.of_lock(lock)) for lock in standing]
    first = [Location(path, None, True, command=said) for path in foreseen.sure[:MOST_ADVISED]]
    decisions = await guard.decide_all(agent, first, session)
    for path, decision in zip(foreseen.sure, decisions, strict=False):
        if decision.refused:
            refused.append((path, decision))
        elif decision.note:
            notes[decision.note] = None
    refused += [pair for pair in locked if pair[0] in set(rest)]
    if refused:
        return CommandAnswer(_refusal(refused), foreseen)
    for _, decision in [pair for pair in locked if pair[0] not in set(rest)][:MOST_NAMED]:
        notes[f"This command may write what is held: {decision.reason}"] = None
    guard.runs(agent, said)
    return CommandAnswer(GuardDecision(note=" ".join(notes)), foreseen)


def _refusal(refused: Sequence[tuple[str, GuardDecision]]) -> GuardDecision:
    _, first = refused[0]
    return replace(first, reason=refusal_text([(path, decision.reason) for path, decision in refused]))
