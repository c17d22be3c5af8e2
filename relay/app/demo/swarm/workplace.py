"""A checkout in which a worker of the swarm does items: its edits take time, and end as one commit each.

Invariant: an edit is made on what the file holds at that moment, as a careful editor's is.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from relay.app.demo.swarm.codebase import Item, change

#: No hook, signature or editor of the user's own has a part in the demo.
_QUIET = ("-c", "core.hooksPath=/dev/null", "-c", "commit.gpgSign=false", "-c", "gc.auto=0")

#: Where a worktree keeps what a remote's main branch is.
_REMOTE_MAIN = "refs/worktree/main"


def ran(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """git in a folder, however it ends."""
    return subprocess.run(["git", *_QUIET, *words], cwd=folder, capture_output=True, text=True, check=False)


def git(folder: Path, *words: str) -> str:
    """What git prints. Raises RuntimeError with its words."""
    ended = ran(folder, *words)
    if ended.returncode:
        raise RuntimeError(
            f"git {words[0]} failed in {folder}: {ended.stderr.strip() or ended.stdout.strip()}"
        )
    return ended.stdout.strip()


class Workplace:
    """`who` signs the commits; `pace_s`: the seconds that each file of an item takes."""

    def __init__(self, folder: Path, who: str, pace_s: float) -> None:
        self.folder, self.who, self.pace_s = folder, who, pace_s

    def git(self, *words: str) -> str:
        return git(self.folder, *words)

    def do(self, item: Item, may: Callable[[str, str], str] | None = None) -> str:
        """Change the item's files one after the other; gives the commit. `may`: asked with a path and its new text
        before each edit, says why not. Raises Refused."""
        for path in item.files:
            time.sleep(self.pace_s)
            place = self.folder / path
            text = change(item, path, place.read_text())
            if may is not None and (reason := may(path, text)):
                raise Refused(f"{path}: {reason}")
            place.write_text(text)
        self.git("add", "--all")
        who = ("-c", f"user.name={self.who}", "-c", "user.email=demo@relay")
        self.git(*who, "commit", "-qm", f"{item.title} (item {item.number})")
        return self.git("rev-parse", "HEAD")

    def learn_main(self, remote: str) -> str:
        """The name here of the main branch as it is now: that of a remote, or with '' of this repository."""
        if not remote:
            return "main"
        # A name of this worktree alone: others of the repository ask at the same time.
        self.git("fetch", "-q", "--refmap=", "--no-write-fetch-head", remote, f"+main:{_REMOTE_MAIN}")
        return _REMOTE_MAIN

    def has(self, branch: str, commit: str) -> bool:
        """Has the branch this commit?"""
        return ran(self.folder, "merge-base", "--is-ancestor", commit, branch).returncode == 0


class Refused(Exception):
    """The room does not let this edit be; the message says why."""
