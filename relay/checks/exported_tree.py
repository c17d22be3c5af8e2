"""A git tree as files in a folder of its own, and their removal.

Invariant: what is written is the tree: its modes, its links as links, its names byte by byte; and nothing of the
repository's configuration, hooks or filters runs for it. Nothing is removed outside of the folder: a link is removed,
never what it leads to.
"""

from __future__ import annotations

import os
import shutil
import stat
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from relay.git.run import LONG_S, Git

#: A repository may lie on a file system that has no links and no modes; where trees are exported has both.
_AS_THEY_ARE = ("core.bare=false", "core.symlinks=true", "core.fileMode=true")


async def tree_id(git: Git, tree: str) -> str:
    """The id of a tree, or of a commit's tree. Raises GitError when there is no such object."""
    return await git.line("rev-parse", "--verify", "--end-of-options", f"{tree}^{{tree}}")


async def export_tree(git: Git, tree: str, into: Path, index: Path) -> None:
    """Write the files of a tree into the folder `into`, which is made; `index` is git's own file for it. Submodules
    are empty folders. Raises GitError, OSError."""
    into.mkdir(mode=0o700)
    env = {**git.env, "GIT_WORK_TREE": str(into), "GIT_INDEX_FILE": str(index)}
    exporting = replace(git, folder=into, env=env, config=(*git.config, *_AS_THEY_ARE))
    await exporting.run("read-tree", tree, timeout_s=LONG_S)
    await exporting.run("checkout-index", "--all", "--quiet", timeout_s=LONG_S)


def remove_folder(folder: Path) -> None:
    """Remove a folder with all that is in it, read-only folders too; what cannot be removed stays. Blocks."""
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:
        return
    except OSError:
        # A program took its own right to write away, as Go's module cache does.
        _make_writable(folder)
        shutil.rmtree(folder, ignore_errors=True)


def _make_writable(folder: Path) -> None:
    waiting = [folder]
    while waiting:
        place = waiting.pop()
        with suppress(OSError):
            if stat.S_ISDIR(place.lstat().st_mode):
                place.chmod(0o700)
                waiting += [Path(entry) for entry in os.scandir(place) if entry.is_dir(follow_symlinks=False)]
