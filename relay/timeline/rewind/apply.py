"""Carrying out what was begun: into the files of a checkout, onto the main branch, or onto a branch of its own.

Invariants:
- the operation's event is in the log before anything here happens, and its commit names it (five trailers, 003,
  section 3.2). So a branch that has that commit tells a later start that it was done;
- a branch moves only from the commit that was seen; the main branch moves together with the files of its checkout, or
  neither does;
- no `user.name` is needed, and no hook and no filter runs;
- what changes no file writes nothing: no commit and no branch.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import structlog

from relay.git.checkout import Checkout, UnusableCheckout, head_of, open_checkout
from relay.git.run import GitError
from relay.git.scratch_repository import ScratchRepository
from relay.git.signing import of_person, of_relay, signed
from relay.git.snapshot import commit_tree
from relay.log.commit_trailers import EVENT, commit_trailers
from relay.log.events import Event
from relay.model.refusals import Refusal
from relay.timeline.rewind.checkout_writer import CheckoutWriter, Outcome
from relay.timeline.rewind.history import REDONE, REWOUND, UNDONE, Operation, Target

log = structlog.get_logger(__name__)
HEADS = "refs/heads/"
_VERBS = {REWOUND: "Take back", UNDONE: "Bring back", REDONE: "Take back again"}


@dataclass(frozen=True, slots=True)
class RewindApplier:
    """Writes in one repository; `main` is its main checkout."""

    scratch: ScratchRepository
    main: Checkout

    async def check(self, target: Target, place: str, before: str, after: str) -> None:
        """Raise Refusal when `apply` would refuse. GitError."""
        if before == after:
            return
        if target is not Target.BRANCH:
            await CheckoutWriter(self.scratch, await self._checkout(place)).check(before, after)
        else:
            await self._free(place)

    async def apply(self, operation: Operation, event: Event) -> None:
        """Do it. Raises Refusal, GitError, OSError, and then nothing was changed."""
        if operation.before == operation.after:
            return
        match operation.target:
            case Target.WORKTREE:
                checkout = await self._checkout(operation.place)
                head = await head_of(checkout.git)
                writer = CheckoutWriter(self.scratch, checkout)
                await writer.write(operation.before, operation.after, head.commit)
            case Target.BRANCH:
                await self._free(operation.place)
                await self._move(operation, await self._commit(operation, event))
            case Target.MAIN:
                checkout = await self._checkout(operation.place)
                ref = await self._branch_of(event, checkout)
                commit = await self._commit(operation, event)
                writer = CheckoutWriter(self.scratch, checkout)
                await writer.write(operation.before, operation.after, operation.after)
                try:
                    await self._update_ref(ref, commit, operation.base or "")
                except Refusal:
                    await writer.write(operation.after, operation.before, operation.before)
                    raise

    async def recover(self, operation: Operation, event: Event) -> Outcome:
        """Settle what a process that was ended had begun: to the end, or as if it had not been. Raises GitError,
        OSError."""
        if operation.before == operation.after:
            return Outcome.FINISHED
        try:
            checkout = (
                self.main if operation.target is Target.BRANCH else await self._checkout(operation.place)
            )
        except Refusal:
            return Outcome.GONE  # the folder was removed, and what was in it
        if operation.target is Target.WORKTREE:
            head = await head_of(checkout.git)
            writer = CheckoutWriter(self.scratch, checkout)
            return await writer.recover(operation.before, operation.after, head.commit, head.commit)
        try:
            if operation.target is Target.BRANCH:
                if not await self._has_commit(operation.place, operation, event):
                    await self._move(operation, await self._commit(operation, event))
                return Outcome.FINISHED
            return await self._recover_main(checkout, operation, event)
        except Refusal as refusal:
            # A call of git that outlived the process that made it may just have moved the branch.
            ref = (
                operation.place
                if operation.target is Target.BRANCH
                else await self._branch_of(event, checkout)
            )
            if await self._has_commit(ref, operation, event):
                return Outcome.FINISHED
            log.info("a rewind is given up", event_id=operation.event, reason=str(refusal))
            return Outcome.GONE

    async def _recover_main(self, checkout: Checkout, operation: Operation, event: Event) -> Outcome:
        ref, writer = await self._branch_of(event, checkout), CheckoutWriter(self.scratch, checkout)
        if await self._has_commit(ref, operation, event):
            return Outcome.FINISHED  # the branch moves last
        before, after = operation.before, operation.after
        stands = await checkout.git.maybe("rev-parse", "-q", "--verify", ref)
        if stands != operation.base or ref != await self._head_ref(checkout):
            # Somebody has committed or switched since; the files go back to what they stand on.
            await writer.back(before, after, before)
            return Outcome.GONE
        outcome = await writer.recover(before, after, after, before)
        if outcome is Outcome.FINISHED:
            await self._update_ref(ref, await self._commit(operation, event), operation.base or "")
        return outcome

    async def _checkout(self, place: str) -> Checkout:
        try:
            checkout = await open_checkout(Path(place))
        except UnusableCheckout as error:
            raise Refusal(f"{place} is no checkout any more: {error}.", "Name another place.") from error
        await self.scratch.borrow([checkout])
        return checkout

    async def _branch_of(self, event: Event, checkout: Checkout) -> str:
        """The branch that was checked out when the operation was planned."""
        return f"{HEADS}{event.branch}" if event.branch else await self._head_ref(checkout)

    async def _head_ref(self, checkout: Checkout) -> str:
        branch = (await head_of(checkout.git)).branch
        if branch is None:
            raise Refusal(f"{checkout.top} is on no branch.", "Check out the branch to write to.")
        return f"{HEADS}{branch}"

    async def _free(self, ref: str) -> None:
        """Refuse a branch that somebody has checked out: its files would stay behind."""
        listed = await self.main.git.run("for-each-ref", "--format=%(worktreepath)", "--", ref)
        if listed.text:
            raise Refusal(
                f"{ref.removeprefix(HEADS)} is checked out in {listed.text}.",
                "Switch to another branch there.",
            )

    async def _commit(self, operation: Operation, event: Event) -> str:
        """The commit of the new tree on top of the base, in the repository; no branch has it yet."""
        assert operation.base is not None
        branch = operation.place.removeprefix(HEADS)
        if operation.target is Target.MAIN:
            branch = (await self._branch_of(event, self.main)).removeprefix(HEADS)
        subject = f"{_VERBS[operation.kind]} what {operation.lane} did"
        to = event.inputs["to"]
        text = f"{' '.join(subject.split())[:200]}\n\n" + (f"Since {' '.join(to.split())}.\n\n" if to else "")
        said = commit_trailers(event, agent=operation.lane, branch=branch, tree=operation.after)
        text += "".join(f"{line}\n" for line in said)
        author = of_relay(operation.author)
        who = signed(author, await of_person(self.main) or author)
        git = self.scratch.git(self.main)
        commit = await commit_tree(git, operation.after, [operation.base], text, who)
        await self.scratch.publish(self.main, commit, [operation.base])
        return commit

    async def stands(self, operation: Operation, event: Event) -> bool:
        """Has the branch that it was written to its commit, or the one that this was made on? Where that branch is
        gone: the one that is checked out."""
        git, ref = self.main.git, f"{HEADS}{event.branch}"
        if await git.maybe("rev-parse", "-q", "--verify", ref) is None:
            ref = "HEAD"
        asked = ("merge-base", "--is-ancestor", operation.base or "", ref)
        return (await git.run(*asked, ok=(0, 1, 128))).code == 0 or await self._has_commit(
            ref, operation, event
        )

    async def _has_commit(self, ref: str, operation: Operation, event: Event) -> bool:
        """Has the branch the commit of this event?"""
        format_ = f"--format=%(trailers:key={EVENT},valueonly)"
        said = await self.main.git.maybe("log", format_, f"{operation.base}..{ref}", "--")
        return said is not None and event.id in said.split()

    async def _move(self, operation: Operation, commit: str) -> None:
        """Let the branch stand at the commit: a new one, or one that stood at the base."""
        there = await self.main.git.maybe("rev-parse", "-q", "--verify", operation.place)
        await self._update_ref(operation.place, commit, operation.base or "" if there else "")

    async def _update_ref(self, ref: str, commit: str, old: str) -> None:
        try:
            await self.main.git.run("update-ref", "-m", "relay: rewind", ref, commit, old)
        except GitError as error:
            raise Refusal(f"{ref.removeprefix(HEADS)} changed while this ran.", "Try again.") from error
