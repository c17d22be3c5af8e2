"""Going to a moment to look: a fresh worktree with its files, on no branch; nobody's files move.

Invariants:
- each has a folder of its own below `FOLDER`, which no agent's name can be: the room takes none for an agent's;
- git lists it as any worktree, and its HEAD keeps its commit; no filter and no hook runs;
- one that somebody has edited is not removed.
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
from relay.git.run import LONG_S, Git
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


@dataclass(frozen=True, slots=True)
class Jumps:
    """The worktrees of moments of one repository. `base`: the folder that they are made in."""

    store: Store
    scratch: ScratchRepository
    main: Checkout
    base: Path

    async def make(self, to: str, lane: str | None = None) -> dict[str, Any]:
        """A worktree at the moment `to` (of `lane`): `{folder, moment, lane, tree, commit}`. Raises Refusal,
        GitError, OSError, UnusableCheckout."""
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
        own = self.scratch.git(made, made.index)
        await own.run("read-tree", "-m", "-u", commit, timeout_s=LONG_S)
        return {
            "folder": str(folder),
            "moment": moment.as_json(),
            "lane": lane,
            "tree": tree,
            "commit": commit,
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
        """Take one away: its folder, or its name below ours. Raises Refusal when it is none or was edited, GitError,
        OSError, UnusableCheckout."""
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
        checkout = await open_checkout(path)
        await self.scratch.borrow([self.main, checkout])
        snapshot = await Snapshotter(self.scratch, checkout, f"jump-{ref_component(path.name)}").take()
        if snapshot.dirty:
            raise Refusal(
                f"{path} was edited since.", "Commit that to a branch, or `git worktree remove --force` it."
            )
        # A check of git's own would run the filters.
        await self.main.git.run("worktree", "remove", "--force", str(path), timeout_s=LONG_S)
        return {"removed": str(path)}

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
