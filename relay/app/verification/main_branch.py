"""Tests of the main branch by itself: behind a merge that nothing tested, and as long as it fails, whenever it moves.

Invariant: `relay.verification.present.of_main` says what came of them; here they are only asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from relay.airspace.worktrees.registry import WorktreeRegistry
from relay.app.verification.trees import NoTree, look_up
from relay.app.verification.verifier import Verifier
from relay.model import Refusal
from relay.store.ports import Store, Tx
from relay.verification import journal, present
from relay.verification.verification import OVER, Change, Source, State, Verification

#: Seconds after which what could not be verified is tried again.
AGAIN_S = 60.0


def of_main(commit: str, by: str, into: str = "", summary: str = "", **about: object) -> Change:
    """The main branch as it is at this commit, to be verified; `about`: what is to be known of it later."""
    told = {"part": "batch", "entries": [], "agents": [], **about}
    summary = summary or f"{into or 'the main branch'} by itself"
    return Change(
        journal.new_id(), Source.LANDING, present.RELAY, by, into, commit, summary=summary[:300], about=told
    )


async def behind_merge(tx: Tx, agent: str, by: str, into: str, commit: str) -> Change | None:
    """What is to be verified after `by` merged the agent's work, as `commit`, without the landing queue. None: it is
    asked for already, or the main branch fails as it was, so that the queue has it tested when it moves."""
    newest = await present.newest_of_main(tx)
    if present.red(newest) is not None or any(each.change.commit == commit for each in newest):
        return None
    merge = {"agent": agent, "by": by, "commit": commit}
    return of_main(commit, by, into, f"{into} with {agent}'s work, which {by} merged", merge=merge)


async def again(tx: Tx, was: Verification, by: str, cause: Sequence[str] = ()) -> Verification:
    """Test a commit of the main branch once more, by the policies for all that failed there, as a verification of its
    own: until that is over, what is known of the commit stands. Raises Refusal."""
    same = [each for each in await present.newest_of_main(tx) if each.change.commit == was.change.commit]
    if running := next((each for each in same if each.state not in OVER), None):
        raise Refusal(f"{running.name} tests it again already.", "Wait for its end.", code="not_over")
    known = [was, *same]
    files = {path for each in known for path in each.change.files or ()}
    about = {"part": "batch", "entries": [], "agents": [], "fresh": True}
    about[present.OF] = max(present.place(each) for each in known)
    change = replace(was.change, id=journal.new_id(), asker=by, files=tuple(sorted(files)), about=about)
    return await journal.ask(tx, change, cause=cause)


async def _try_again(tx: Tx, tests: Sequence[Verification]) -> None:
    """Those of these that could not be carried out a while ago."""
    for each in tests:
        if each.state is State.ERROR and await tx.now() - (each.ended or 0.0) > AGAIN_S:
            await journal.again(tx, each, by=present.RELAY)


class MainBranch:
    """The main branch of one room, for the landing queue."""

    def __init__(self, store: Store, registry: WorktreeRegistry, verifier: Verifier) -> None:
        self._store, self._registry, self._verifier = store, registry, verifier

    async def fails(self) -> bool:
        return await self._store.read(present.of_main) is not None

    async def look(self) -> None:
        """Where the main branch has moved since its tests failed, have it tested as it is now, by the same policies
        at least; and once more after a while where it could not be tested. Raises GitError."""
        newest = await self._store.read(present.newest_of_main)
        red, target = present.red(newest), await self._registry.target()
        if red is None or target is None:
            return
        tests = [each for each in newest if each.change.commit == target.commit]
        if all(any(present.covers(each, failed) for each in tests) for failed in red.failing):
            await self._store.write(lambda tx: _try_again(tx, tests))
            return
        before = red.of.change.commit
        files = {path for each in red.failing for path in each.change.files or ()}
        change = of_main(target.commit, present.RELAY, target.branch or "")
        try:
            moved = await look_up(self._registry, replace(change, base=before))
            files |= {*(moved.files or ())}
        except NoTree:
            pass  # the same files in another commit
        change = replace(change, base=before, files=tuple(sorted(files)))
        key = f"main:{target.commit}:{red.of.number}"
        await self._store.write(lambda tx: journal.ask(tx, change, source_key=key))

    async def tested(self, by: str, into: str, main: str, files: tuple[str, ...]) -> Verification | None:
        """The commit `main` by itself, verified by the policies for these files; None: it has moved on."""
        target = await self._registry.target()
        if target is None or target.commit != main:
            return None
        change = replace(of_main(main, by, into), base=main, files=files)
        made = await self._store.write(lambda tx: journal.ask(tx, change))
        return await self._verifier.finished(made.number)
