"""What is written of the landing queue's entries: what each waits for, and how it ends.

Invariant: an entry's row, its event and what the room is told of it are one transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from relay.airspace.worktrees.lifecycle import MERGED, WorktreeChange
from relay.airspace.worktrees.registry import WorktreeRegistry
from relay.app.verification import landing_words as words
from relay.app.verification.landing_git import Link
from relay.app.verification.landing_words import LandingWords
from relay.store.ports import Store, Tx
from relay.verification import approvals
from relay.verification import journal as verifications
from relay.verification.landing import journal
from relay.verification.landing.entry import OPEN, Carried, Entry, EntryState
from relay.verification.verification import State, Verification


class _Said(Exception):
    """It is said already how the entry ended: nothing is written twice."""


class LandingRecord:
    """Of the entries of one room."""

    def __init__(self, store: Store, registry: WorktreeRegistry, words: LandingWords) -> None:
        self._store, self._registry, self._words = store, registry, words
        #: What was said of all, by the entry that it was said with: who looks at an entry anew takes its note away.
        self._said_of_all: set[tuple[int, str]] = set()

    async def hold(self, entry: Entry, note: str, *, held_on: str | None = None, say: bool = False) -> None:
        """Say of an entry what it waits for; in the room once."""

        async def work(tx: Tx) -> None:
            now = await journal.load(tx, entry.number)
            if now.state in (EntryState.ASKED, EntryState.WAITING) and (now.note, now.held_on) != (
                note,
                held_on,
            ):
                held = await journal.change(tx, replace(now, note=note, held_on=held_on), journal.HELD)
                if say and now.note != note:
                    await self._words.waits(tx, held)

        await self._store.write(work)

    async def hold_all(self, note: str) -> None:
        for at, entry in enumerate(await self._store.read(journal.open_entries)):
            await self.hold(entry, note, say=at == 0 and (entry.number, note) not in self._said_of_all)
            self._said_of_all.add((entry.number, note))

    async def say_also(self, tx: Tx, entry: Entry, members: Sequence[str]) -> None:
        """Say that other members have work of the agent too, which does not land by this entry."""
        await self._words.also(tx, entry, members)

    async def passed_over(self, entries: Sequence[Entry]) -> None:
        """Count a batch that others took before these."""

        async def work(tx: Tx) -> None:
            for each in entries:
                entry = await journal.load(tx, each.number)
                if entry.state in OPEN:
                    await journal.save(tx, replace(entry, passed_over=entry.passed_over + 1))

        if entries:
            await self._store.write(work)

    async def back(self, entries: Sequence[Entry]) -> None:
        """What was tested waits again, until it is said what becomes of it."""

        async def work(tx: Tx) -> None:
            for each in entries:
                entry = await journal.load(tx, each.number)
                if entry.state is EntryState.TESTING:
                    await journal.save(tx, replace(entry, state=EntryState.WAITING))

        await self._store.write(work)

    async def planned(self, entry: Entry) -> list[str]:
        """The commits that were to land for the entry's work, the newest first; known before main moves to one."""
        return await self._store.read(lambda tx: journal.planned(tx, entry))

    async def landed(
        self,
        entry: Entry,
        commit: str,
        link: Link | None = None,
        tested: Verification | None = None,
        left: str = "",
        kept: str = "",
    ) -> None:
        """Of work that is on the main branch as `commit`. `left`: why its worktree did not follow; `kept`: the ref
        that holds the commits of which one was made."""
        results = []
        if tested is not None:
            number = tested.number
            results = await self._store.read(lambda tx: verifications.results_of(tx, number))
        agreed = await self._store.read(lambda tx: approvals.agreed(tx, entry.approval))
        carried = await self._carried(entry, commit)
        text = words.landed(entry, link, tested, results, left, agreed, carried)
        text += f" {entry.branch} as it was is kept in `{kept}`." if kept else ""
        details = {**words.details(link, tested), "kept": kept or None}
        details |= {"method": "squash" if entry.squash else "merge"}
        change = WorktreeChange(MERGED, entry.agent, entry.branch, entry.asker, text, commit, details)
        verification = tested.number if tested is not None else entry.verification
        more = {"tested": tested is not None and tested.state is State.PASSED}

        async def also(tx: Tx) -> None:
            now = await journal.load(tx, entry.number)
            ends = {"landed_as": commit, "verification": verification, "more": more}
            ends |= {"branch": entry.branch, "at_commit": entry.at_commit, "tree": entry.tree}
            if await journal.end(tx, entry.number, EntryState.LANDED, **ends) is None:
                raise _Said
            if now.state is EntryState.ASKED or now.at_commit != entry.at_commit:
                # Asked once more between the main branch's move and this: for newer work, which has not landed. In a
                # fleet its member may have looked at that work by now.
                await journal.ask(tx, now.agent, by=now.asker, task=now.task, squash=now.squash)

        with suppress(_Said):
            await self._registry.room.record(change, also)

    async def _carried(self, entry: Entry, commit: str) -> list[Carried]:
        """What was on a member's main and came to the common one with this merge, and not before."""
        told = await self._store.read(lambda tx: journal.carried(tx, entry.number))
        main = self._registry.main
        if not told or main is None:
            return []
        git = self._registry.scratch.git(main)
        new = await git.maybe("rev-list", "--no-merges", f"{commit}^1..{entry.at_commit}", "--")
        there = frozenset((new or "").split())
        return [each for each in told if each.commit in there]

    async def put_out(
        self, entry: Entry, reason: str, output: str = "", verification: int | None = None
    ) -> None:
        """`verification`: the one whose tests its work fails; None = it is put out for something else."""

        async def work(tx: Tx) -> None:
            if (await journal.load(tx, entry.number)).at_commit != entry.at_commit:
                return  # its member has looked at newer work meanwhile, which is not what this is about
            ends: dict[str, Any] = {"reason": reason, "output": output}
            if verification is not None:
                ends |= {"verification": verification, "more": {"failed": True}}
            ended = await journal.end(tx, entry.number, EntryState.PUT_OUT, **ends)
            if ended is not None:
                await self._words.put_out(tx, ended)

        await self._store.write(work, durable=True)
