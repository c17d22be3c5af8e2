"""Taking the main branch into an agent's own: begun by relay, settled by the agent's edits, committed by relay.

Invariants: only a worktree that relay made is written, and only while its agent is not at work. What stood there
uncommitted is committed first; what a merge leaves is kept by a ref before it is given up. The merge is git's own
(`git merge-tree`), and its markers show the base. No hook, filter or driver runs. A daemon that is killed at any
point finds from `merge_state` how far it came, and `resume` goes on from there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress

from relay.airspace.worktrees.lifecycle import WorktreeLifecycle, in_the_way, is_ancestor
from relay.airspace.worktrees.merging.filters import refuse_filtered, refuse_to_filter
from relay.airspace.worktrees.merging.merge_into_main import BranchMerger
from relay.airspace.worktrees.merging.proposal import MergeSource
from relay.airspace.worktrees.merging.wording import some_paths
from relay.git.checkout import Checkout, Head
from relay.git.diff import changed_files
from relay.git.merge_state import (
    MERGE,
    MOST_BYTES,
    WRITTEN,
    Stage,
    StartedMerge,
    is_binary,
    marker_lines,
    merge_heads,
    stage_of,
    started_merge,
    started_merge_message,
)
from relay.git.run import LONG_S, Git, GitError, name_of
from relay.git.scratch_repository import ScratchRepository
from relay.git.signing import Signature, of_person, of_relay, signed
from relay.git.snapshot import Snapshot, commit_tree
from relay.git.trial_merge import JoinedFile, Merge, Target
from relay.model import Refusal

#: What git keeps beside MERGE_HEAD.
_BESIDE = ("MERGE_MSG", "MERGE_MODE", "AUTO_MERGE")
_GITLINK, _FILE = "160000", "100"
#: Merges as a person reads them best; and the same on every machine.
_STYLE = ("merge.conflictStyle=zdiff3",)


class UpdateFromMain:
    """Works in the worktrees of one repository, whose main checkout is `main`."""

    def __init__(
        self, main: Checkout, lifecycle: WorktreeLifecycle, scratch: ScratchRepository, merger: BranchMerger
    ) -> None:
        self._main, self._lifecycle, self._scratch, self._merger = main, lifecycle, scratch, merger

    async def begin(self, side: MergeSource, target: Target) -> tuple[str, Sequence[JoinedFile]] | None:
        """Merge the main branch into the side's branch: the commit, empty when files conflict (then `started_merge`
        names them), and what relay joined of what git could not merge; None when there is nothing to take in. Raises
        Refusal, GitError."""
        git, main = self._scratch.git(side.checkout), target.commit
        if side.snapshot.head.commit and await is_ancestor(git, main, side.snapshot.head.commit):
            return None
        branch = await self._merger.source(side)
        head = await self._committed(side, branch)
        if await is_ancestor(git, head, main):
            return None  # it has no work of its own: it is brought up to date as before every turn
        tree, stages, joined = await self._merge(git, (branch, head), (target.name, main))
        changed = await changed_files(git, head, tree, renames=False)
        by_hand = f"Merge {target.name} by hand in {side.checkout.top}."
        await refuse_to_filter(self._scratch, side.checkout, changed, tree, by_hand)
        if any(stage.mode == _GITLINK for stage in stages):
            raise Refusal("The two conflict in a submodule.", by_hand)
        if not stages:
            text = f"Merge {target.name} into {branch}\n"
            text = await self._merger.with_event(git, text, side.agent, branch, tree)
            who = signed(of_relay(side.agent), await self._committer(side.agent))
            commit = await commit_tree(git, tree, [head, main], text, who)
            await self._scratch.publish(side.checkout, commit, [head, main])
            await self._lifecycle.forward(side.checkout, branch, head, commit)
            return commit, joined
        tree, marked = await self._marked(side.checkout, tree, stages, branch, target.name)
        text = started_merge_message(target.name, stages, marked)
        commit = await commit_tree(
            git, tree, [head, main], text, signed(of_relay("relay"), of_relay("relay"))
        )
        if there := await in_the_way(self._scratch, side.checkout, head, commit):
            raise Refusal(
                f"Files that git does not know are where the merge would write: {some_paths(there)}."
            )
        await self._scratch.publish(side.checkout, commit, [head, main])
        await self._carry(side.checkout, stages)
        # Each step can be the last that a daemon makes; `resume` knows by the ref, MERGE_HEAD and the index.
        await side.checkout.git.run("update-ref", "-m", "relay: merge", MERGE, commit, "")
        await asyncio.to_thread(_write_heads, side.checkout, main, f"Merge {target.name} into {branch}\n")
        started = await started_merge(side.checkout)
        assert started is not None
        await self._fill(side.checkout, started, ("-m",), head)
        return "", joined

    async def resume(self, agent: str, checkout: Checkout, snapshot: Snapshot) -> StartedMerge | None:
        """The merge that relay began and that still is under way, brought to where its files and its index are
        written. The agent is not at work. Raises Refusal, GitError."""
        started = await started_merge(checkout)
        if started is None:
            return None
        if not await self.is_under_way(checkout, started, snapshot.head):
            return None
        if await checkout.git.maybe("rev-parse", "-q", "--verify", WRITTEN) != started.commit:
            # Cut off while they were written, or put back: some of the files may be, and half of one.
            await self._free(checkout, snapshot, started.commit)
            if snapshot.tree not in (
                await _tree(checkout, started.head),
                await _tree(checkout, started.commit),
            ):
                await self._lifecycle.keep(agent, checkout, snapshot)
            await self._fill(checkout, started, ("--reset",))
        return started

    async def is_under_way(self, checkout: Checkout, started: StartedMerge, head: Head) -> bool:
        """False: it was committed, or given up, by relay or with git; what was left of it is cleared away then."""
        other = await merge_heads(checkout)
        if head.commit and await is_ancestor(checkout.git, started.other, head.commit):
            await self._forget(checkout, heads=other == (started.other,))
            return False
        if other == (started.other,) and head.commit == started.head:
            return True
        await self._forget(checkout, heads=False)
        return False

    async def conclude(
        self, agent: str, checkout: Checkout, snapshot: Snapshot, started: StartedMerge
    ) -> str:
        """Commit the merge, all of whose files are settled; the commit. Raises Refusal, GitError."""
        git, fix = self._scratch.git(checkout), f"Commit the merge by hand in {checkout.top}."
        await refuse_filtered(git, started.commit, snapshot.tree, "Files of the merge", fix)
        branch = snapshot.head.branch
        if branch is None or snapshot.unsettled or snapshot.merging != (started.other,):
            raise Refusal("The worktree changed at the same time.", "Try again.")
        who = signed(of_relay(agent), await self._committer(agent))
        text, parents = f"Merge {started.into} into {branch}\n", [started.head, started.other]
        text = await self._merger.with_event(git, text, agent, branch, snapshot.tree)
        commit = await self._merger.commit(
            checkout, branch, snapshot.tree, parents, text, who, "relay: main is taken in"
        )
        await self._forget(checkout)
        return commit

    async def abort(self, agent: str, checkout: Checkout, snapshot: Snapshot, started: StartedMerge) -> str:
        """Put the files back to what the branch holds; the ref that keeps what stood in them. Raises Refusal,
        GitError."""
        if snapshot.left_out:
            raise Refusal(
                f"It has files that git would not store: {some_paths(snapshot.left_out)}.",
                "Move them away first.",
            )
        await self._free(checkout, snapshot, started.head)
        await self._scratch.publish(checkout, snapshot.commit, [started.head, started.other])
        ref = await self._lifecycle.hold(agent, snapshot.commit)
        # Without this ref nothing counts as settled. Who is cut off from here on finds the merge begun anew.
        await checkout.git.run("update-ref", "-d", WRITTEN)
        own = self._scratch.git(checkout, checkout.index)
        try:
            # First all that there is into the index: what the merge or its agent added goes as well, and is kept.
            await own.run("read-tree", "--reset", snapshot.commit)
            await own.run("update-index", "-q", "--refresh", ok=(0, 1))
            await own.run("read-tree", "--reset", "-u", started.head, timeout_s=LONG_S)
        except GitError as error:
            raise Refusal(
                f"git could not put the files back: {error}. The merge is still under way; what stood in the files "
                f"is kept in `{ref}`.",
                "Mend that, then give the merge up again.",
            ) from error
        await self._forget(checkout)
        return ref

    async def _free(self, checkout: Checkout, snapshot: Snapshot, after: str) -> None:
        """Refuse to write the files of `after` over such as the snapshot has not. Raises Refusal."""
        if there := await in_the_way(self._scratch, checkout, snapshot.commit, after):
            raise Refusal(
                f"Files that git does not know are where it would write: {some_paths(there)}.",
                "Move them away first.",
            )

    # -- the steps

    async def _merge(
        self, git: Git, ours: tuple[str, str], theirs: tuple[str, str]
    ) -> tuple[str, list[Stage], Sequence[JoinedFile]]:
        """The merge of two commits, in the scratch: its tree, with markers, the sides of what conflicts, and what was
        joined. `ours`, `theirs`: the name that stands behind the markers, and the commit."""
        asked = ("merge-tree", "--write-tree", "-z", "--no-messages")
        # The scratch has no branches: for this call it has these two.
        refs = {f"refs/heads/{name}": commit for name, commit in (ours, theirs)}
        async with self._scratch.naming:
            made = await git.run("update-ref", "--stdin", stdin=_lines("update", refs), ok=(0, 128))
            names = [name if made.code == 0 else commit[:12] for name, commit in (ours, theirs)]
            try:
                with_base = Git(git.folder, git.env, (*git.config, *_STYLE))
                done = await with_base.run(*asked, *names, ok=(0, 1))
            finally:
                await git.run("update-ref", "--stdin", stdin=_lines("delete", refs), ok=(0, 128))
        tree, *entries = done.out.rstrip(b"\0").split(b"\0")
        stages = [stage_of(entry) for entry in entries]
        if (done.code == 0) == bool(stages):
            raise GitError("merge-tree", done.code, "its answer cannot be read")
        if not stages:
            return tree.decode(), [], ()
        merge = Merge(tuple(dict.fromkeys(name_of(stage.path) for stage in stages)), tree.decode())
        merge = await self._merger.room.join(git, ours[1], theirs[1], merge)
        left = [stage for stage in stages if name_of(stage.path) in merge.conflicts]
        return merge.tree, left, merge.joined

    async def _committed(self, side: MergeSource, branch: str) -> str:
        if not side.snapshot.dirty:
            assert side.snapshot.head.commit is not None
            return side.snapshot.head.commit
        text = await self._merger.message_of_work(side)
        return await self._merger.commit_work(side, branch, text, await self._committer(side.agent))

    async def _committer(self, agent: str) -> Signature:
        return await of_person(self._main) or of_relay(agent)

    async def _marked(
        self, checkout: Checkout, tree: str, stages: Sequence[Stage], branch: str, into: str
    ) -> tuple[str, set[bytes]]:
        """The merge's tree, and which of its files in conflict have markers. One that only one side has gets them
        too, around all of it: git leaves none, and who settles by editing could not say that it is to stay."""
        git, marked = self._scratch.git(checkout), set[bytes]()
        wrapped: list[tuple[str, str, bytes]] = []
        for path in dict.fromkeys(stage.path for stage in stages):
            sides = {stage.number for stage in stages if stage.path == path} - {1}
            entry = (await git.run("ls-tree", "-z", tree, "--", name_of(path))).out.rstrip(b"\0")
            mode, _, oid = entry.partition(b"\t")[0].decode().partition(" ")
            oid = oid.rpartition(" ")[2]
            if not mode.startswith(_FILE):
                continue
            if int(await git.line("cat-file", "-s", oid)) > MOST_BYTES:
                raise Refusal(
                    f"They conflict in a file that relay does not read, it is too large: {name_of(path)}.",
                    f"Merge {into} by hand in {checkout.top}.",
                )
            data = (await git.run("cat-file", "blob", oid)).out
            if is_binary(data):
                continue
            if await marker_lines(git, oid, [stage for stage in stages if stage.path == path]):
                marked.add(path)
            elif len(sides) == 1:
                text = _around(data, branch, into, ours=2 in sides)
                blob = (await git.run("hash-object", "-w", "--no-filters", "--stdin", stdin=text)).text
                wrapped.append((mode, blob, path))
                marked.add(path)
        if not wrapped:
            return tree, marked
        index = self._scratch.folder / f"index-merge-{checkout.top.name}"
        own = self._scratch.git(checkout, index)
        try:
            await own.run("read-tree", tree)
            lines = b"".join(
                b"%s %s\t%s\0" % (mode.encode(), oid.encode(), path) for mode, oid, path in wrapped
            )
            await own.run("update-index", "-z", "--index-info", stdin=lines)
            return await own.line("write-tree"), marked
        finally:
            await asyncio.to_thread(index.unlink, True)

    async def _carry(self, checkout: Checkout, stages: Sequence[Stage]) -> None:
        """A base that git merged from several is in no commit: the index needs it in the repository."""
        git = self._scratch.git(checkout)
        for oid in {stage.oid for stage in stages}:
            if (await checkout.git.run("cat-file", "-e", oid, ok=(0, 1, 128))).code != 0:
                data = (await git.run("cat-file", "blob", oid)).out
                await checkout.git.run("hash-object", "-w", "--no-filters", "--stdin", stdin=data)

    async def _fill(self, checkout: Checkout, started: StartedMerge, how: Sequence[str], *since: str) -> None:
        """Write the files of the merge, then what conflicts into the index."""
        own = self._scratch.git(checkout, checkout.index)
        await own.run("update-index", "-q", "--refresh", ok=(0, 1))
        try:
            await own.run("read-tree", *how, "-u", *since, started.commit, timeout_s=LONG_S)
        except GitError as error:
            if since and error.code > 0:
                await self._forget(checkout)  # git refused, and wrote nothing
            raise
        await self._stage(checkout, started.stages)
        await checkout.git.run("update-ref", WRITTEN, started.commit)

    async def _stage(self, checkout: Checkout, stages: Sequence[Stage]) -> None:
        none = "0" * (64 if checkout.hash == "sha256" else 40)
        paths = dict.fromkeys(stage.path for stage in stages)
        lines = [b"0 %s\t%s" % (none.encode(), path) for path in paths]
        lines += [
            b"%s %s %d\t%s" % (stage.mode.encode(), stage.oid.encode(), stage.number, stage.path)
            for stage in stages
        ]
        own = self._scratch.git(checkout, checkout.index)
        await own.run("update-index", "-z", "--index-info", stdin=b"".join(line + b"\0" for line in lines))

    async def _forget(self, checkout: Checkout, *, heads: bool = True) -> None:
        """Nothing is under way any more; the ref that says so goes last."""
        if heads:
            await asyncio.to_thread(_remove, checkout, ("MERGE_HEAD", *_BESIDE))
        for ref in (WRITTEN, MERGE):
            await checkout.git.run("update-ref", "-d", ref)


def _lines(what: str, refs: Mapping[str, str]) -> bytes:
    """For `git update-ref --stdin`."""
    return "".join(f"{what} {ref} {commit}\n" for ref, commit in refs.items()).encode()


async def _tree(checkout: Checkout, commit: str) -> str:
    return await checkout.git.line("rev-parse", f"{commit}^{{tree}}")


def _around(data: bytes, branch: str, into: str, *, ours: bool) -> bytes:
    """A file that only one side has, as a conflict of all of it. Pure."""
    body = data if not data or data.endswith(b"\n") else data + b"\n"
    mine, theirs = branch.encode(), into.encode()
    if ours:
        return b"<<<<<<< %s\n%s=======\n>>>>>>> %s: no such file there\n" % (mine, body, theirs)
    return b"<<<<<<< %s: no such file there\n=======\n%s>>>>>>> %s\n" % (mine, body, theirs)


def _write_heads(checkout: Checkout, other: str, text: str) -> None:
    (checkout.git_dir / "MERGE_MSG").write_text(text)
    (checkout.git_dir / "MERGE_MODE").write_text("")
    made = checkout.git_dir / "MERGE_HEAD.relay"
    made.write_text(f"{other}\n")
    made.replace(checkout.git_dir / "MERGE_HEAD")


def _remove(checkout: Checkout, names: Sequence[str]) -> None:
    for name in names:
        with suppress(FileNotFoundError):
            (checkout.git_dir / name).unlink()
