"""Why work is not merged into the main branch."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from relay.airspace.worktrees.merging.wording import some_paths
from relay.airspace.worktrees.room import LastLanding
from relay.config.command_line import command
from relay.git.trial_merge import Merge
from relay.model import Refusal

#: The code of the refusal for files of the main checkout that git does not know.
IN_THE_WAY = "in_the_way"


def nothing_left(agent: str, branch: str, into: str) -> Refusal:
    """Of work whose conflicts were decided, all for the branch that it was to be merged into."""
    return Refusal(
        f"{branch} of {agent} has nothing left to merge: by what was chosen in its conflicts, {into} stays as it is.",
        f"Choose otherwise (`/resolve c<number>` shows a conflict), or {command(f'worktrees discard {agent}')} takes "
        "the work off its branch, and keeps it.",
    )


class Conflict(Refusal):
    """The two cannot be merged: `paths` are in conflict. `merge`: what was found of it, None where the conflicts are
    in the branch's own files; `into`: the branch and the commit that it was to be merged into."""

    def __init__(
        self,
        paths: Sequence[str],
        reason: str,
        fix: str,
        merge: Merge | None = None,
        into: tuple[str, str] = ("", ""),
    ) -> None:
        super().__init__(reason, fix)
        self.paths, self.merge = tuple(paths), merge
        self.into, self.main = into


class NothingToMerge(Refusal):
    """There is nothing of it that the main branch has not. `landed`: as of `WorktreeRoom.landed`."""

    def __init__(self, agent: str, branch: str, into: str, landed: Mapping[str, LastLanding]) -> None:
        said = f": {into} has all of it, {landed[agent].said}" if agent in landed else ""
        super().__init__(f"{branch} of {agent} has nothing to merge{said}.")


def own_files_named(own: Sequence[str]) -> str:
    """What a branch does that changes these files of the room's own."""
    return f"it changes what this room itself goes by, which a person has to look at: {some_paths(own)}"


class OwnFiles(Refusal):
    """The work changes files that say what the room runs, so no queue and no agent merges it."""

    def __init__(
        self, agent: str, branch: str, into: str, own: Sequence[str], top: Path, *, required: bool
    ) -> None:
        git = f"git -C {shlex.quote(str(top))}"
        by_hand = f"look at `{git} diff {into}...{branch}`, then `{git} merge {branch}`"
        direct = f"look at its difference in the page, and merge it there or by {command(f'worktrees merge {agent}')}"
        super().__init__(
            f"{branch} of {agent} does not land by itself: {own_files_named(own)}.",
            f"For a person: {by_hand if required else direct}. For {agent}: take these files out of the branch.",
            code="own_files",
        )
