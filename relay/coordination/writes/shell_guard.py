"""A shell's command, before it runs: may its session write what the command would write?

Invariants:
- refused is only what the words of the command surely say that it writes. What it may write is noted, and what nobody
  can tell before it ran passes: the room sees it after the tool, and git's hooks ask again;
- a folder that is written stands for the files in it: a lock on another file of it holds nothing up;
- a command is parsed beside the event loop, never on it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from relay.base.terminal_text import flat
from relay.code.shell.writes import writes_of
from relay.coordination.writes.lock_guard import MOST_TOLD, LockGuard, caller_of
from relay.model import GuardDecision, Location, LockRefusal

#: Files of folders that one command writes, at most; of more, nobody says before what it writes.
MOST_BELOW = 2_000
#: Files of a command that the airspace is asked about one by one; of the others only the locks are looked at.
MOST_ADVISED = 50
#: Refused files that a reason names.
MOST_NAMED = 3
#: Characters of a command that are kept with what it wrote.
MOST_COMMAND = 1_000


@dataclass(frozen=True, slots=True)
class Foreseen:
    """What a command would write in the codebase, relative to the top of a checkout: `sure`, its words say so;
    `perhaps`, it depends on what it finds. `unknown`: what in it may write anything, each a line for people."""

    sure: tuple[str, ...] = ()
    perhaps: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


def foresee(command: str, cwd: str, place: Callable[[str], str | None]) -> Foreseen:
    """Read a command that a shell is to run in `cwd`. `place`: where an absolute path is in its checkout, None = in
    none. Blocking."""
    writes = writes_of(command, cwd)
    found: dict[bool, dict[str, None]] = {True: {}, False: {}}
    unknown, left = list(writes.unknown), MOST_BELOW
    for write in writes.paths:
        # `rm LINK` takes the link away, `> LINK` writes what it leads to.
        names = found[write.sure and not Path(write.path).is_symlink()]
        path = place(write.path)
        if path is not None:
            names[path] = None
        if not write.below:
            continue
        inside = place(f"{write.path}/_")
        if inside is None:
            continue
        for name in _files(write.path):
            if left == 0:
                unknown.append(f"a folder of more than {MOST_BELOW} files")
                break
            names[inside[:-1] + name] = None
            left -= 1
    sure = tuple(found[True])
    return Foreseen(sure, tuple(path for path in found[False] if path not in found[True]), tuple(unknown))


def _files(folder: str) -> Iterator[str]:
    """The files below a folder, relative to it, but those of git and of other checkouts in it."""
    for place, folders, names in os.walk(folder):
        folders[:] = [
            name for name in folders if name != ".git" and not os.path.lexists(f"{place}/{name}/.git")
        ]
        for name in names:
            yield Path(place, name).relative_to(folder).as_posix()


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
    for path in foreseen.sure[:MOST_ADVISED]:
        decision = await guard.decide(agent, Location(path, None, True, command=said), session)
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


def refusal_text(pairs: Sequence[tuple[str, str]]) -> str:
    """Why a command must not run: of each file that it would write and must not, its path and what stands against
    it."""
    told = [f"This shell command would write {flat(path)}. {reason}" for path, reason in pairs[:MOST_NAMED]]
    more = len(pairs) - MOST_NAMED
    if more > 0:
        told.append(f"It would write {more} more file{'s' * (more > 1)} that you must not write now.")
    return " ".join([*told, "Nothing of the command ran."])


def _refusal(refused: Sequence[tuple[str, GuardDecision]]) -> GuardDecision:
    _, first = refused[0]
    return replace(first, reason=refusal_text([(path, decision.reason) for path, decision in refused]))
