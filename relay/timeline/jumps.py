"""Going to a moment to look: a fresh worktree with its files, on no branch; nobody's files move.

Invariants:
- each has a folder of its own below `FOLDER`, which no agent's name can be: the room takes none for an agent's;
- git lists it as any worktree, and its HEAD keeps its commit; no filter and no hook runs;
- one that has something of its own is not removed: an edit, a file that git does not keep, a commit that no ref has.
"""

from __future__ import annotations

import asyncio
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from relay.git.checkout import Checkout, list_worktrees, open_checkout
from relay.git.kept_snapshots import KeptSnapshots, ref_component
from relay.git.run import LONG_S, Git, name_of
from relay.git.scratch_repository import ScratchRepository
from relay.git.snapshot import Snapshotter
from relay.model import Fault, Refusal
from relay.store.ports import Store, Tx
from relay.timeline import moments
from relay.timeline.compare import MAIN, kept_tree, tree_at
from relay.timeline.moments import Moment
from relay.timeline.projection import last_tree

#: Below the folder of the agents' worktrees. A name of an agent has no dot.
FOLDER = ".moments"
#: In each such worktree, and of no other: the commit that it was made with.
_BEGAN = "refs/worktree/relay-began"
#: Files that a refusal names, and places of HEAD that are looked at.
_MOST_NAMED, _MOST_PLACES = 8, 500


@dataclass(frozen=True, slots=True)
class Jumps:
    """The worktrees of moments of one repository. `base`: the folder that they are made in."""

    store: Store
    scratch: ScratchRepository
    main: Checkout
    base: Path

    async def make(self, to: str, lane: str | None = None) -> dict[str, Any]:
        """A worktree at the moment `to` (of `lane`): `{folder, moment, lane, tree, commit}`, and of a handoff's
        checkpoint `validation_passed`. Raises Refusal, GitError, OSError, UnusableCheckout."""
        git = self.scratch.git(self.main)

        async def work(tx: Tx) -> tuple[Moment, str, str | None]:
            moment = await moments.resolve(tx, to)
            known = await last_tree(tx, MAIN, moment.pos)
            tree = await tree_at(tx, moment, lane)
            return moment, tree, known.commit if known is not None and known.tree == tree else None

        moment, tree, landed = await self.store.read(work)
        tree = await kept_tree(git, tree, moment)
        commit = await self._commit(git, tree, landed, moment)
        folder = await self._free_folder(f"{moment.words} {tree[:8]}")
        await asyncio.to_thread(folder.parent.mkdir, 0o700, True, True)
        asked = ("worktree", "add", "-q", "--detach", "--no-checkout", str(folder), commit)
        await self.main.git.run(*asked)
        made = await open_checkout(folder)
        await made.git.run("update-ref", _BEGAN, commit)
        own = self.scratch.git(made, made.index)
        await own.run("read-tree", "-m", "-u", commit, timeout_s=LONG_S)
        return {
            "folder": str(folder),
            "moment": moment.as_json(),
            "lane": lane,
            "tree": tree,
            "commit": commit,
            **({} if moment.passed is None else {"validation_passed": moment.passed}),
        }

    async def list(self) -> list[dict[str, Any]]:
        """Those that are there: `[{folder, commit}]`. Raises GitError."""
        base = await asyncio.to_thread(self.base.resolve)
        found = []
        for listed in await list_worktrees(self.main.git):
            if listed.path.parent == base and not listed.gone:
                commit = await self.main.git.at(listed.path).maybe("rev-parse", "-q", "--verify", "HEAD")
                found.append({"folder": str(listed.path), "commit": commit})
        return found

    async def remove(self, folder: str) -> dict[str, Any]:
        """Take one away: its folder, or its name below ours. Raises Refusal when it is none or has something of its
        own, GitError, OSError, UnusableCheckout."""
        base = await asyncio.to_thread(self.base.resolve)
        path = await asyncio.to_thread((base / folder).resolve)
        there = [each["folder"] for each in await self.list()]
        if str(path) not in there:
            known = ", ".join(Path(each).name for each in there) or "none"
            raise Refusal(
                f"{folder[:200]!r} is no worktree of a moment.",
                f"There are: {known}.",
                Fault.UNKNOWN,
                "unknown_jump",
                details={"candidates": there},
            )
        await self._check_nothing_is_lost(await open_checkout(path))
        # A check of git's own would run the filters.
        await self.main.git.run("worktree", "remove", "--force", str(path), timeout_s=LONG_S)
        return {"removed": str(path)}

    async def _check_nothing_is_lost(self, checkout: Checkout) -> None:
        """Raises Refusal where something would go with the worktree that is nowhere else."""
        path, git = checkout.top, checkout.git
        or_drop = f"or `git worktree remove --force {path}` drops it."
        await self.scratch.borrow([self.main, checkout])
        snapshot = await Snapshotter(self.scratch, checkout, f"jump-{ref_component(path.name)}").take()
        edited, head = snapshot.dirty, snapshot.head.commit
        if head is not None and not edited:
            index = self.scratch.git(checkout, checkout.index)
            edited = bool((await index.run("diff-index", "--cached", "--quiet", head, "--", ok=(0, 1))).code)
        if edited:
            raise Refusal(f"{path} was edited since.", f"Commit that to a branch, {or_drop}")
        listed = await git.run("ls-files", "-z", "--others", "--directory", "--no-empty-directory")
        if files := [name_of(each) for each in listed.out.split(b"\0") if each]:
            more = f" and {len(files) - _MOST_NAMED} more" * (len(files) > _MOST_NAMED)
            raise Refusal(
                f"{path} has files that git does not keep: {', '.join(files[:_MOST_NAMED])}{more}.",
                f"Move them away, {or_drop}",
            )
        began = await git.maybe("rev-parse", "-q", "--verify", f"{_BEGAN}^{{commit}}")
        # What HEAD was here: the history of it goes with the worktree.
        walked = await git.maybe("rev-list", "-g", f"--max-count={_MOST_PLACES}", "HEAD", "--")
        places = dict.fromkeys([*([head] if head else []), *(walked or "").split()])
        asked = ("rev-list", "--max-count=1", "--ignore-missing", "--single-worktree", *places)
        without = ("--not", *([began] if began else []), "--all", "--")
        if places and (lost := (await self.main.git.run(*asked, *without)).text):
            raise Refusal(
                f"{path} has commits that no branch has: {lost[:12]}.",
                f"`git branch NAME {lost[:12]}` keeps it, {or_drop}",
            )

    async def _commit(self, git: Git, tree: str, landed: str | None, moment: Moment) -> str:
        """A commit of the repository with these files: the main branch's own, what keeps them, or a new one."""
        if landed is not None and await self.main.git.maybe(
            "rev-parse", "-q", "--verify", f"{landed}^{{commit}}"
        ):
            return landed
        kept = KeptSnapshots(self.scratch, self.main)
        if (snapshot := await kept.find(tree)) is not None:
            return snapshot.commit
        head = await self.main.git.maybe("rev-parse", "-q", "--verify", "HEAD^{commit}")
        reason = f"looked at: {moment.words}"
        made = await kept.keep(tree, [head] if head else [], lane="room/jump", reason=reason, at=time.time())
        return made.commit

    async def _free_folder(self, words: str) -> Path:
        slug = re.sub(r"[^a-z0-9]+", "-", words.casefold()).strip("-")[:60]
        base = await asyncio.to_thread(self.base.resolve)

        def first_free() -> Path:
            number, path = 1, base / slug
            while path.exists():
                number += 1
                path = base / f"{slug}-{number}"
            return path

        return await asyncio.to_thread(first_free)
