"""Where the variants of an exploration work, and what keeps their work.

Invariants:
- each variant has a worktree of its own, on a branch of its own, that begins at one commit; nothing here writes the
main
  branch, its checkout or its index;
- what a variant left is a commit under `refs/relay/explorations/` before its worktree is removed, and a branch is
removed
  only at the commit that this ref keeps;
- every step may be done again: one that was done before changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from relay.airspace.worktrees.registry import WorktreeRegistry
from relay.git.branch_names import agent_branch, branch_in_the_way, branch_user
from relay.git.checkout import Checkout, UnusableCheckout, list_worktrees, open_checkout
from relay.git.diff import changed_files
from relay.git.kept_snapshots import ref_component
from relay.git.run import Git
from relay.git.signing import of_person, of_relay, signed
from relay.git.snapshot import Snapshotter, commit_tree
from relay.merge.exploration.journal import REFS, Exploration, VariantRun
from relay.model import Refusal


@dataclass(frozen=True, slots=True)
class Left:
    """What a variant left: `commit` with `tree`, kept by `ref`; `files`: how many differ from the base; `note`: what
    of it could not be kept."""

    commit: str
    tree: str
    ref: str
    files: int
    note: str = ""


def ref_of(number: int, variant: str) -> str:
    return f"{REFS}x{number}/{ref_component(variant)}"


class VariantPlaces:
    """In the repository of one room. `registry.open` was called."""

    def __init__(self, registry: WorktreeRegistry) -> None:
        self._registry = registry

    @property
    def main(self) -> Checkout:
        if self._registry.main is None:
            raise Refusal(f"There is no repository to explore in: {self._registry.trouble}")
        return self._registry.main

    @property
    def git(self) -> Git:
        """git over the objects of the repository and of the scratch."""
        return self._registry.scratch.git(self.main)

    def folder(self, number: int) -> Path:
        """The folder of one exploration's worktrees."""
        return self._registry.settings.runtime_dir / "explorations" / f"x{number}"

    def make_folder(self, number: int) -> Path:
        """As `folder`, made where it is not there, and hidden from everybody's git. Blocks."""
        folder = self.folder(number)
        folder.mkdir(0o700, True, True)
        ignored = folder.parent / ".gitignore"
        if not ignored.exists():
            ignored.write_text("*\n")
        return folder

    async def base(self) -> str:
        """The commit at which variants begin: where the main branch stands. Raises Refusal."""
        _ = self.main
        target = await self._registry.target()
        if target is None:
            raise Refusal(
                self._registry.no_main or "The repository has no commit yet.", "Make the first one."
            )
        return target.commit

    async def branch_of(self, exploration: Exploration, variant: str, wanted: str | None) -> str:
        """The name of a variant's branch, which is not there yet. Raises Refusal, GitError."""
        branch = wanted or agent_branch(await branch_user(self.main), exploration.name, variant)
        git = self.main.git
        if (await git.run("check-ref-format", "--branch", branch, ok=(0, 1, 128))).code:
            raise Refusal(f"git takes no branch called {branch!r}.", "Give another `branch_name`.")
        there = await git.maybe("rev-parse", "-q", "--verify", f"refs/heads/{branch}")
        if there is not None or (await branch_in_the_way(git, branch)) is not None:
            raise Refusal(f"A branch is where {branch} of {variant} would be.", "Give another `branch_name`.")
        return branch

    async def ensure(self, run: VariantRun, base: str) -> Checkout:
        """The variant's worktree, made at the commit `base` where it is not there. Raises UnusableCheckout,
        GitError."""
        lifecycle = self._registry.lifecycle
        assert lifecycle is not None
        path = await asyncio.to_thread((self.folder(run.exploration) / run.name).resolve)
        async with self._registry.exclusive:
            listed = {each.path: each for each in await list_worktrees(self.main.git)}
            if path in listed and not listed[path].gone:
                checkout = await open_checkout(path)
                await self._registry.scratch.borrow([checkout])
                return checkout
            if path.exists() and any(path.iterdir()):
                raise UnusableCheckout(f"{path} exists and is not a worktree: move it away")
            return await lifecycle.make(path, run.branch, base)

    async def keep(self, run: VariantRun, base: str, message: str) -> Left:
        """Commit all that stands in the variant's worktree onto its branch, and keep it by a ref. Raises
        UnusableCheckout, GitError."""
        path = self.folder(run.exploration) / run.name
        async with self._registry.exclusive:
            checkout = await open_checkout(path)
            scratch = self._registry.scratch
            await scratch.borrow([checkout])
            name = ref_component(f"x{run.exploration}-{run.name}")
            snapshot = await Snapshotter(
                scratch, checkout, name, self._registry.not_work(checkout.top)
            ).take()
            commit = snapshot.head.commit or base
            if snapshot.dirty:
                author = of_relay(run.agent)
                who = signed(author, await of_person(self.main) or author)
                parents = list(snapshot.parents)
                commit = await commit_tree(scratch.git(checkout), snapshot.tree, parents, message, who)
                await scratch.publish(self.main, commit, parents)
            ref = ref_of(run.exploration, run.name)
            why = f"relay: {run.name} of x{run.exploration}"
            await self.main.git.run("update-ref", "-m", why, ref, commit)
            if (await self._branch(run.branch)) is not None:
                await self.main.git.run("update-ref", "-m", why, f"refs/heads/{run.branch}", commit)
            changed = await changed_files(scratch.git(checkout), base, snapshot.tree)
        note = f"not kept: {', '.join(snapshot.left_out[:5])}" if snapshot.left_out else ""
        return Left(commit, snapshot.tree, ref, len(changed), note)

    async def remove(self, run: VariantRun) -> None:
        """Take the variant's worktree away, if it is there. Raises GitError."""
        path = await asyncio.to_thread((self.folder(run.exploration) / run.name).resolve)
        async with self._registry.exclusive:
            listed = {each.path for each in await list_worktrees(self.main.git)}
            if path in listed:
                await self.main.git.run("worktree", "remove", "--force", "--force", str(path))

    async def tidy(self, exploration: Exploration, runs: Sequence[VariantRun]) -> None:
        """Remove all worktrees and branches of an exploration; their refs stay. Raises GitError."""
        for run in runs:
            await self.remove(run)
            held = await self._commit(run.ref) if run.ref else None
            if held is None or not run.branch:
                continue
            if await self._branch(run.branch) == held:
                await self.main.git.run("update-ref", "-d", f"refs/heads/{run.branch}", held)

        def remove_folder() -> None:
            folder = self.folder(exploration.number)
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()

        await asyncio.to_thread(remove_folder)

    async def composed(
        self, exploration: Exploration, run: VariantRun, files: Mapping[str, VariantRun]
    ) -> str:
        """A commit on top of a variant's, in which these paths are as in other variants. Raises Refusal, GitError."""
        assert run.at_commit is not None
        if not files:
            return run.at_commit
        git, lines = self.git, list[bytes]()
        for path, other in files.items():
            if other.at_commit is None:
                raise Refusal(f"{other.name} has left nothing.", "Take the file from another variant.")
            listed = (await git.run("ls-tree", "-z", other.at_commit, "--", path)).out.rstrip(b"\0")
            mine = (await git.run("ls-tree", "-z", run.at_commit, "--", path)).out.rstrip(b"\0")
            if not (listed or mine) or b" tree " in (listed + mine):
                raise Refusal(f"{path} is no file of {other.name} or {run.name}.", "Give a path of a file.")
            about, _, name = (listed or mine).partition(b"\t")
            mode, _, blob = about.split(b" ")
            lines.append((b"%s %s\t%s" % (mode, blob, name)) if listed else b"0 %s\t%s" % (b"0" * 40, name))
        index = self._registry.scratch.folder / f"index-x{exploration.number}-composed"
        indexed = self._registry.scratch.git(self.main, index)
        async with self._registry.exclusive:
            await indexed.run("read-tree", run.at_commit)
            await indexed.run(
                "update-index", "-z", "--index-info", stdin=b"".join(line + b"\0" for line in lines)
            )
            tree = await indexed.line("write-tree")
            names = ", ".join(f"{path} of {other.name}" for path, other in files.items())
            author = of_relay(run.agent)
            who = signed(author, await of_person(self.main) or author)
            text = f"Take {names}\n\nThe rest is {run.name} of exploration {exploration.name}.\n"
            commit = await commit_tree(self.git, tree, [run.at_commit], text, who)
            await self._registry.scratch.publish(self.main, commit, [run.at_commit])
            await self.main.git.run("update-ref", ref_of(exploration.number, "taken"), commit)
        return commit

    async def _branch(self, branch: str) -> str | None:
        return await self._commit(f"refs/heads/{branch}")

    async def _commit(self, ref: str) -> str | None:
        return await self.main.git.maybe("rev-parse", "-q", "--verify", f"{ref}^{{commit}}")
