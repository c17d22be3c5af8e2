"""Snapshots that are kept: commits under `refs/relay/snapshots/` and `refs/relay/checkpoints/` of the repository.

Invariants:
- a kept snapshot has all of its objects in the repository itself, and git's own `gc` keeps them as long as its ref is
  there; no branch has it, so `git log --branches` and a push of branches do not see it;
- its commit needs nobody's name: relay signs it, with the time of the snapshot;
- the repository is the only record of what is kept. A tree that a lane keeps again is kept once, by its latest time.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from relay.config.settings import TimelineSettings
from relay.git.checkout import Checkout
from relay.git.scratch_repository import ScratchRepository
from relay.git.snapshot import commit_tree, signed_by_relay

SNAPSHOTS, CHECKPOINTS = "refs/relay/snapshots/", "refs/relay/checkpoints/"
_FORMAT = "%(refname)%00%(objectname)%00%(tree)%00%(committerdate:unix)%00%(contents:subject)"
#: Refs that one call of git deletes.
_AT_ONCE = 1000


@dataclass(frozen=True, slots=True)
class KeptSnapshot:
    """`commit` holds `tree`. `at`: Unix seconds, whole ones as git has them. `lane`: whose, as in the ref's name;
    `reason`: why it was kept."""

    ref: str
    commit: str
    tree: str
    at: int
    lane: str
    reason: str

    @property
    def checkpoint(self) -> bool:
        return self.ref.startswith(CHECKPOINTS)


class KeptSnapshots:
    """The kept snapshots of one repository. `main` is any checkout of it, `scratch` where snapshots are taken."""

    def __init__(self, scratch: ScratchRepository, main: Checkout) -> None:
        self._scratch, self._main = scratch, main

    async def keep(
        self,
        tree: str,
        parents: Sequence[str],
        *,
        lane: str,
        reason: str,
        at: float,
        checkpoint: bool = False,
        series: str = "",
    ) -> KeptSnapshot:
        """Keep a tree of the scratch on top of these commits. `lane`: its key, or any name. `series`: a name of one
        ref for many snapshots of a lane; whoever keeps the next one gives the commit before as its parent, so the ref
        has them all. Raises GitError."""
        date = int(at)
        git = self._scratch.git(self._main)
        commit = await commit_tree(git, tree, parents, f"{reason}\n", signed_by_relay(date))
        await self._scratch.publish(self._main, commit, parents)
        owner = ref_component(lane)
        ref = f"{CHECKPOINTS if checkpoint else SNAPSHOTS}{owner}/{ref_component(series) if series else tree}"
        await self._main.git.run("update-ref", "--no-deref", ref, commit)
        return KeptSnapshot(ref, commit, tree, date, owner, reason)

    async def all(self) -> list[KeptSnapshot]:
        """Every one, the oldest first."""
        asked = ("for-each-ref", "--sort=committerdate", f"--format={_FORMAT}", SNAPSHOTS, CHECKPOINTS)
        kept = []
        for line in (await self._main.git.line(*asked)).split("\n"):
            if line:
                ref, commit, tree, at, reason = line.split("\0", 4)
                kept.append(KeptSnapshot(ref, commit, tree, int(at), ref.split("/")[3], reason))
        return kept

    async def find(self, tree: str) -> KeptSnapshot | None:
        """The latest that holds this tree; None: it is not kept (any more)."""
        return next((kept for kept in reversed(await self.all()) if kept.tree == tree), None)

    async def prune(
        self, policy: TimelineSettings, now: float, held: Collection[str] = ()
    ) -> list[KeptSnapshot]:
        """Let go of what the policy does not keep, but for the trees in `held`; gives those. Raises GitError."""
        going = [kept for kept in expired(await self.all(), policy, now) if kept.tree not in held]
        for start in range(0, len(going), _AT_ONCE):
            # The commit is named too: a ref that was moved meanwhile is a snapshot of now, and git refuses.
            lines = "".join(f"delete {kept.ref} {kept.commit}\n" for kept in going[start : start + _AT_ONCE])
            await self._main.git.run("update-ref", "--no-deref", "--stdin", stdin=lines.encode())
        return going


def expired(snapshots: Iterable[KeptSnapshot], policy: TimelineSettings, now: float) -> list[KeptSnapshot]:
    """Those, oldest first, that the policy does not keep. Pure."""
    in_order = sorted((kept for kept in snapshots if not kept.checkpoint), key=lambda kept: kept.at)
    last_of_hour = {(kept.lane, kept.at // 3600): kept.ref for kept in in_order}

    def stays(kept: KeptSnapshot) -> bool:
        age = now - kept.at
        last = last_of_hour[kept.lane, kept.at // 3600] == kept.ref
        return age < policy.keep_all_s or (age < policy.keep_days * 86_400 and last)

    return [kept for kept in in_order if not stays(kept)]


def ref_component(name: str) -> str:
    """A name as one component of a ref, another one for each name. What git may refuse there (git check-ref-format)
    is written as the bytes of its UTF-8, `%` and two digits each, and so is `/`."""

    def written(match: re.Match[str]) -> str:
        return "".join(f"%{byte:02x}" for byte in match[0].encode("utf-8", "surrogatepass"))

    return re.sub(r"[^A-Za-z0-9_-]", written, name) or "%"
