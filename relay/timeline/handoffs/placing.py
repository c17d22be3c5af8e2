"""The tree that is handed on: made a commit of what its author left, and set into another checkout.

Invariants:
- a checkout that was set to a commit has its tree exactly: in its files, in its index, and by its HEAD;
- nothing is lost: what stands in a checkout must be in that commit's history, or in the main branch, before its files
  are written, or the checkout refuses with the names of the files. What was there is kept as a snapshot all the same;
- files are written all or none, and a process that is killed can go on (`CheckoutWriter`); branches move last.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from relay.git.branch_names import branch_in_the_way
from relay.git.checkout import Checkout, head_of
from relay.git.diff import changed_files
from relay.git.kept_snapshots import KeptSnapshots
from relay.git.merge_state import operation_under_way
from relay.git.run import Git, GitError, name_of
from relay.git.scratch_repository import ScratchRepository
from relay.git.signing import of_relay, signed
from relay.git.snapshot import Snapshot, commit_tree
from relay.model.refusals import Fault, Refusal
from relay.timeline.rewind.checkout_writer import CheckoutWriter, Outcome

#: Files that a refusal names.
MOST_NAMED = 8
_HEADS = "refs/heads/"
_MESSAGE = "relay: handoff"


@dataclass(frozen=True, slots=True)
class Left:
    """What an agent left: a commit of the repository with this tree, and the branch it stood on (None: detached)."""

    tree: str
    commit: str
    branch: str | None


class HandoffPlaces:
    """The checkouts of one repository, as work is handed from one to another. The caller holds the lock of each
    worktree that is passed, and its agent has no turn. `main`: any checkout of the repository."""

    def __init__(self, scratch: ScratchRepository, main: Checkout) -> None:
        self._scratch, self._main = scratch, main
        self._kept = KeptSnapshots(scratch, main)

    async def leave(self, author: str, snapshot: Snapshot, lane: str, text: str) -> Left:
        """A commit of what stands in a checkout, and a snapshot that keeps it; branches and files stay as they are.
        `text`: its message. Raises Refusal where a merge is not settled, GitError."""
        if snapshot.merging or snapshot.unsettled:
            raise Refusal(
                f"In {author}'s worktree a merge is under way.", "Let the agent settle it, or give it up."
            )
        head = snapshot.head.commit
        if head is not None and not snapshot.dirty:
            commit = head
        else:
            git, who = self._scratch.git(self._main), of_relay(author)
            commit = await commit_tree(git, snapshot.tree, snapshot.parents, text, signed(who, who))
            await self._scratch.publish(self._main, commit, snapshot.parents)
        await self._kept.keep(snapshot.tree, [commit], lane=lane, reason="handed on", at=time.time())
        return Left(snapshot.tree, commit, snapshot.head.branch)

    async def keep_for_ever(self, tree: str, commit: str, lane: str, reason: str) -> str:
        """Keep a tree under a checkpoint; the id of the commit that does. Raises GitError."""
        at = time.time()
        kept = await self._kept.keep(tree, [commit], lane=lane, reason=reason, at=at, checkpoint=True)
        return kept.commit

    async def check_free(
        self,
        agent: str,
        checkout: Checkout,
        snapshot: Snapshot,
        commit: str | None,
        main: str | None,
        landed: Callable[[str, str], Awaitable[bool]],
    ) -> None:
        """Raise Refusal unless all that stands in the checkout is in `commit` (what it is to become; None: not known
        yet) or in the commit `main` of the main branch. `landed(main, commit)`: a merge of that commit would change
        nothing there. GitError."""
        if doing := await operation_under_way(checkout):
            raise Refusal(f"In {agent}'s worktree {doing} is under way.", "Settle it or give it up first.")
        git = self._scratch.git(checkout)
        head = snapshot.head.commit
        for into in dict.fromkeys(filter(None, (commit, main))):
            if head is not None and not snapshot.dirty and await _is_ancestor(git, head, into):
                return
            if await landed(into, snapshot.commit):
                return
        base = None if main is None or head is None else await git.maybe("merge-base", head, main)
        records = await changed_files(git, base, snapshot.tree) if base else []
        names = sorted({name_of(record.path) for record in records})
        more = f" and {len(names) - MOST_NAMED} more" * (len(names) > MOST_NAMED)
        named = f": {', '.join(names[:MOST_NAMED])}{more}" if names else ""
        raise Refusal(
            f"{agent} has work of its own that has not landed{named}.",
            f"Merge it, or hand it on too (`/handoff @{agent} ...`), or discard it; then try again.",
            Fault.REFUSED,
            "unlanded_work",
            details={"paths": names},
        )

    async def write(self, checkout: Checkout, before: str, tree: str) -> None:
        """Bring a checkout's files from the tree `before` to this one. Raises Refusal (then they are as they were),
        GitError, OSError."""
        await self._borrow(checkout)
        await CheckoutWriter(self._scratch, checkout).write(before, tree, tree)

    async def recover(self, checkout: Checkout, before: str, tree: str) -> bool:
        """Go on where a process that wrote was ended; are the files as in `tree` now? Else they are as before, but
        for what was edited since. Raises GitError, OSError."""
        await self._borrow(checkout)
        outcome = await CheckoutWriter(self._scratch, checkout).recover(before, tree, tree, before)
        return outcome is Outcome.FINISHED

    async def settle(self, checkout: Checkout, commit: str, branch: str | None = None) -> None:
        """Let a checkout whose files are as in the commit stand on it, its index too: on the branch that it is on, or
        on `branch`, which is made or moved. May be done again. Raises GitError."""
        await self._borrow(checkout)
        git = checkout.git
        if branch is not None:
            await git.run("update-ref", "-m", _MESSAGE, f"{_HEADS}{branch}", commit)
            await git.run("symbolic-ref", "-m", _MESSAGE, "HEAD", f"{_HEADS}{branch}")
        else:
            await git.run("update-ref", "-m", _MESSAGE, "HEAD", commit)
        own = self._scratch.git(checkout, checkout.index)
        await own.run("read-tree", commit)
        await own.run("update-index", "-q", "--refresh", ok=(0, 1))

    async def go_back(self, checkout: Checkout, head: str, branch: str) -> bool:
        """Let a checkout that stands at the commit `head` stand on `branch`, which follows it there; files and index
        stay. False: that branch has commits of its own, and stays too. Raises GitError."""
        git, ref = checkout.git, f"{_HEADS}{branch}"
        there = await git.maybe("rev-parse", "-q", "--verify", f"{ref}^{{commit}}")
        if there is not None and not await _is_ancestor(git, there, head):
            return False
        await git.run("update-ref", "-m", _MESSAGE, ref, head, there or "")
        await git.run("symbolic-ref", "-m", _MESSAGE, "HEAD", ref)
        return True

    async def check_branch(self, name: str) -> None:
        """Could a branch of this name be made now? Raises Refusal, GitError."""
        git = self._main.git
        await self._check_form(name)
        if await git.maybe("rev-parse", "-q", "--verify", f"{_HEADS}{name}") is not None:
            raise Refusal(f"The branch {name} is there already.", "Give another name.")
        if (other := await branch_in_the_way(git, name)) is not None:
            raise Refusal(f"The branch {name} cannot be beside the branch {other}.", "Give another name.")

    async def _check_form(self, name: str) -> None:
        named = await self._main.git.run("check-ref-format", f"{_HEADS}{name}", ok=(0, 1))
        if named.code or name.startswith("-"):
            raise Refusal(f"{name[:200]!r} cannot be a branch's name.", "Give another one.", Fault.MALFORMED)

    async def take_branch(self, name: str, commit: str) -> None:
        """Make a branch at a commit; may be done again. Raises Refusal when it stands elsewhere, or cannot be one."""
        git = self._main.git
        await self._check_form(name)
        there = await git.maybe("rev-parse", "-q", "--verify", f"{_HEADS}{name}")
        if there == commit:
            return
        try:
            await git.run("update-ref", "-m", _MESSAGE, f"{_HEADS}{name}", commit, "")
        except GitError as error:
            why = "is there already" if there else "cannot be made"
            raise Refusal(f"The branch {name} {why}.", "Give another name.") from error

    async def keep_staged(self, checkout: Checkout, tree: str) -> None:
        """Keep what somebody staged as a snapshot, where it is neither HEAD nor what stands in the files. Raises
        GitError."""
        own = self._scratch.git(checkout, checkout.index)
        written = await own.run("write-tree", ok=(0, 128))
        head = await head_of(checkout.git)
        if written.code or head.commit is None:
            return
        if written.text not in (tree, await own.line("rev-parse", f"{head.commit}^{{tree}}")):
            lane = f"staged in {checkout.top.name}"
            await self._kept.keep(written.text, [head.commit], lane=lane, reason="was staged", at=time.time())

    async def _borrow(self, checkout: Checkout) -> None:
        await self._scratch.borrow([checkout])


async def _is_ancestor(git: Git, commit: str, of: str) -> bool:
    return (await git.run("merge-base", "--is-ancestor", commit, of, ok=(0, 1))).code == 0
