"""The branches of the timeline: agents', rewinds' and retries'.

Invariant: reads only. A branch has landed when the main branch has its commit, or all that it changes (a squash).
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

from relay.git.branch_names import AGENTS, FORMER
from relay.git.checkout import Checkout, list_worktrees
from relay.git.scratch_repository import ScratchRepository
from relay.git.trial_merge import merge_trees
from relay.store.ports import Store, Tx
from relay.timeline import reading
from relay.timeline.projection import Q
from relay.timeline.reading import Filter
from relay.timeline.rewind.apply import HEADS
from relay.timeline.rewind.service import BRANCHES

#: Branches that are looked at, the newest first.
MOST_BRANCHES = 200
_RETRY = re.compile(r"-retry-\d+$")


async def branches(
    store: Store, scratch: ScratchRepository, main: Checkout, into: str, worktrees: Path
) -> list[dict[str, Any]]:
    """`[{branch, kind, head, lane, ahead, behind, landed, worktree}]`, the newest first. `kind`: agent, rewind or
    retry; `lane`: whose work it has, null = not known; `ahead`, `behind`: commits against the commit `into`;
    `worktree`: the folder that has it checked out. `main`: the main checkout; `worktrees`: the folder of the agents'
    worktrees. Raises GitError."""
    git = main.git
    listed = await git.run(
        "for-each-ref",
        "--sort=-committerdate",
        f"--count={MOST_BRANCHES}",
        "--format=%(refname:lstrip=2)%00%(objectname)",
        *(f"{HEADS}{prefix}" for prefix in (AGENTS, FORMER, BRANCHES)),
    )
    heads = [line.split("\0") for line in listed.text.split("\n") if line]
    owners = await store.read(_owners)
    folders = {each.branch: each.path for each in await list_worktrees(git) if each.branch and not each.gone}
    base, found = await asyncio.to_thread(worktrees.resolve), list[dict[str, Any]]()
    tree = await git.line("rev-parse", f"{into}^{{tree}}")
    for branch, head in heads:
        behind, ahead = (await git.line("rev-list", "--left-right", "--count", f"{into}...{head}")).split()
        landed = ahead == "0"
        if not landed:
            merged = await merge_trees(scratch.git(main), into, head)
            landed = merged is not None and not merged.conflicts and merged.tree == tree
        folder, lane = folders.get(branch), owners.get(branch)
        if lane is None and folder is not None and folder.parent == base:
            lane = folder.name.upper()
        elif lane is None and branch.startswith(FORMER):
            lane = branch.removeprefix(FORMER).upper()
        found.append(
            {
                "branch": branch,
                "kind": _kind(branch),
                "head": head,
                "lane": lane,
                "ahead": int(ahead),
                "behind": int(behind),
                "landed": landed,
                "worktree": None if folder is None else str(folder),
            }
        )
    return found


async def _owners(tx: Tx) -> dict[str, str]:
    """Whose work each branch has, as far as the log says it lately."""
    owners: dict[str, str] = {}
    wanted = Filter(types=("worktree.changed", "handoff"))
    for event in await reading.page(tx, wanted, reading.MOST_PAGE):
        if event.branch:
            owners[event.branch] = reading.author(event)
    for row in await tx.all(Q.rewound_branches):
        owners[row["place"].removeprefix(HEADS)] = row["lane"].rpartition("/")[2]
    return owners


def _kind(branch: str) -> str:
    if branch.startswith(BRANCHES):
        return "rewind"
    return "retry" if _RETRY.search(branch) else "agent"
