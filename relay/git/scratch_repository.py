"""A git directory of relay's own, that borrows the objects of the repositories it looks at.

Invariant: whatever reads or writes content runs here: it sees the files, the index and the objects of a
checkout and none of its configuration, so that no filter, driver or hook of it can run; and what it writes
(trees and commits of work that nobody committed) stays here until it is published. It is emptied at each start.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterable
from pathlib import Path

from relay.base.files import write_atomically
from relay.git.checkout import Checkout
from relay.git.run import Git

#: Bytes of commits and blobs that are carried into a repository in one go.
MOST_PUBLISHED = 512 * 1_048_576


class ScratchRepository:
    """Relay's own git directory at `folder`. `excluded` are patterns of files that are never work."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._borrowed: dict[Path, Path] = {}
        #: Held while branches have their names here.
        self.naming = asyncio.Lock()
        #: Three times git's own `gc.auto`, since all of it is thrown away at once.
        self.most_objects = 20_000

    async def empty(self, hash: str = "sha1") -> None:
        """Make it anew: nothing of before is kept."""
        await asyncio.to_thread(self._remove)
        where = str(self.folder)
        await Git(self.folder.parent).run(
            "init", "-q", "--bare", "--template=", f"--object-format={hash}", where
        )
        await self.borrow(())

    def _remove(self) -> None:
        self.folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def is_full(self) -> bool:
        """Are there more loose objects than git itself would leave? Guessed from one folder of 256, as it does."""
        try:
            return sum(1 for _ in (self.folder / "objects" / "17").iterdir()) * 256 > self.most_objects
        except FileNotFoundError:
            return False

    async def borrow(self, checkouts: Iterable[Checkout]) -> None:
        """See the objects of these too, and where their history was cut off (shallow clones)."""
        self._borrowed |= {checkout.objects: checkout.common / "shallow" for checkout in checkouts}
        await asyncio.to_thread(self._write_borrowed)

    def _write_borrowed(self) -> None:
        info = self.folder / "objects" / "info"
        info.mkdir(parents=True, exist_ok=True)
        # In one step: a git that reads half a list takes objects that are there for missing.
        borrowed = "".join(f"{_quoted(path)}\n" for path in self._borrowed)
        write_atomically(info / "alternates", borrowed, 0o644, durable=False)
        cut = {
            line for path in self._borrowed.values() if path.is_file() for line in path.read_text().split()
        }
        shallow = self.folder / "shallow"
        if cut:
            lines = "".join(f"{commit}\n" for commit in sorted(cut))
            write_atomically(shallow, lines, 0o644, durable=False)
        else:
            shallow.unlink(missing_ok=True)

    def git(self, checkout: Checkout, index: Path | None = None, excludes: Path | None = None) -> Git:
        """git over the files of a checkout with relay's own configuration. `index`: which one, if any."""
        env = {"GIT_DIR": str(self.folder), "GIT_WORK_TREE": str(checkout.top)}
        if index is not None:
            env["GIT_INDEX_FILE"] = str(index)
        config = ("core.bare=false", *checkout.settings)
        if excludes is not None:
            config += (f"core.excludesFile={excludes}",)
        return Git(checkout.top, env, config)

    async def publish(self, checkout: Checkout, commit: str, known: Iterable[str]) -> None:
        """Carry `commit`, with all it needs beyond the commits `known`, into the checkout's repository."""
        wanted = "".join(
            f"{revision}\n" for revision in (commit, *(f"^{revision}" for revision in known))
        ).encode()
        packed = await self.git(checkout).run(
            "pack-objects",
            "--revs",
            "--stdout",
            "-q",
            "--delta-base-offset",
            stdin=wanted,
            most=MOST_PUBLISHED,
        )
        await checkout.git.run("unpack-objects", "-q", stdin=packed.out)


def _quoted(path: Path) -> str:
    """A line of `alternates`; git reads a quoted one as C does."""
    text = str(path)
    if text.startswith('"') or "\n" in text:
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
    return text
