"""Refuses what would have to go through a git filter: relay runs none, since a file of the repository names it."""

from __future__ import annotations

from collections.abc import Sequence

from relay.airspace.worktrees.merging.wording import some_paths
from relay.git.checkout import Checkout
from relay.git.diff import Record, attributes, changed_files, filtered
from relay.git.run import Git, name_of
from relay.git.scratch_repository import ScratchRepository
from relay.model import Refusal


async def refuse_filtered(git: Git, before: str, tree: str, what: str, fix: str) -> None:
    """Raise Refusal where a filter belongs to a file that `tree` changes: it would be committed as it is on disk, and
    that is not what is wanted."""
    changed = await changed_files(git, before, tree, renames=False)
    paths = [record.path for record in changed if record.letter != "D"]
    if attributed := await attributes(git, ["filter"], paths):
        names = some_paths([name_of(path) for path in attributed])
        raise Refusal(f"{what} go through a git filter, which relay does not run: {names}.", fix)


async def refuse_to_filter(
    scratch: ScratchRepository, checkout: Checkout, changed: Sequence[Record], tree: str, fix: str
) -> None:
    """Raise Refusal where git would send one of these files through a filter when it writes `tree`."""
    if paths := await filtered(scratch, checkout, tree, [record.path for record in changed]):
        message = "The merge writes files that go through a git filter, which relay does not run: "
        raise Refusal(f"{message}{some_paths(paths)}.", fix)
