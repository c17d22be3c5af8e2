"""Runs a policy's program in a sandbox of E2B, on a machine of theirs.

Invariants: what is not there (the SDK, the key, a variable of the policy) is an error that names it. The program sees
the tree that a run inline sees, and of the room's environment only what the policy names. No sandbox outlives its
run: it is ended with it, however that ends; one that a killed daemon left is ended before the run begins anew, and by
the service itself when its time is over.
"""

from __future__ import annotations

import asyncio
import importlib
import io
import os
import shlex
import tarfile
import uuid
from collections.abc import Mapping
from pathlib import Path

from relay.base.terminal_text import safe_line
from relay.checks.exported_tree import export_tree, remove_folder
from relay.checks.tree_command import to_the_end
from relay.git.run import GitError
from relay.verification.executors.executor import Ended, Run, failed_to_run
from relay.verification.executors.inline import missing_of, not_set

#: Sandboxes at once; others wait.
AT_ONCE = 4
API_KEY, TEMPLATE = "E2B_API_KEY", "E2B_TEMPLATE"
#: The folder in the archive that has the tree, and beside it the script that runs the program in it.
TREE, SCRIPT = "tree", "run.sh"


class E2bExecutor:
    """`folder`: where trees are exported, this one's alone. `environ`: the variables of this process; `E2B_API_KEY`
    is the key, `E2B_TEMPLATE` the template of the sandboxes where it is not the service's own."""

    def __init__(
        self, folder: Path, *, at_once: int = AT_ONCE, environ: Mapping[str, str] | None = None
    ) -> None:
        self._folder = folder
        self._environ = os.environ if environ is None else environ
        self._free = asyncio.Semaphore(at_once)

    async def run(self, run: Run) -> Ended:
        missing = missing_of(run, self._environ)
        if not self._environ.get(API_KEY):
            missing = missing or not_set(API_KEY)
        if missing:
            return failed_to_run(missing)
        try:
            # Half a second, which only those who use it have to wait.
            service = await asyncio.to_thread(
                importlib.import_module, "relay.verification.executors.e2b_sandbox"
            )
        except ImportError as error:
            return failed_to_run(f'the SDK of E2B is not there: {error} (pip install "relay[e2b]")')
        async with self._free:
            place = self._folder / uuid.uuid4().hex
            try:
                try:
                    archive = await _archived(run, place)
                except (GitError, OSError) as error:
                    return failed_to_run(f"the tree could not be exported: {error}")
                ended: Ended = await service.run_in_sandbox(run, archive, self._environ)
                return ended
            except Exception as error:
                return failed_to_run(safe_line(f"E2B: {type(error).__name__}: {error}", 500))
            finally:
                await to_the_end(asyncio.to_thread(remove_folder, place))

    async def clean(self) -> None:
        """Remove what a killed process left in the folder. For a start, when nothing runs."""
        await asyncio.to_thread(remove_folder, self._folder)


async def _archived(run: Run, place: Path) -> Path:
    """The tree as it is exported for a run inline, and the script, in one file. An archive of git's own would leave
    out what the tree's attributes say. Raises GitError, OSError."""
    await asyncio.to_thread(place.mkdir, mode=0o700, parents=True)
    await export_tree(run.git, run.tree, place / TREE, place / "index")
    await asyncio.to_thread(_pack, place, run.argv)
    return place / "archive"


def _pack(place: Path, argv: tuple[str, ...]) -> None:
    # In a file, since one word of a command has 128 KiB at most; and the shell stays, to tell how the program ended.
    script = f'cd -- "${{0%/*}}/{TREE}" || exit\n{shlex.join(argv)}\nexit $?\n'.encode(
        "utf-8", "surrogateescape"
    )
    with tarfile.open(place / "archive", "w:gz", compresslevel=3) as archive:
        archive.add(place / TREE, TREE, filter=_nobodys)
        about = tarfile.TarInfo(SCRIPT)
        about.size = len(script)
        archive.addfile(about, io.BytesIO(script))


def _nobodys(about: tarfile.TarInfo) -> tarfile.TarInfo:
    about.uid = about.gid = 0
    about.uname = about.gname = ""
    return about
