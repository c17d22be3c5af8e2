"""What changed under a number of folders, told by a process of its own.

Invariant: the event loop never waits for the file system. To set up the watches of a large tree holds the
interpreter for a fifth of a second and more, and so does a flood of changes; both happen in a child (`serve`), which
ends when its standard input does. Changes that cannot be told path by path are told as "all of it". A watcher that
cannot start is an error, and its caller polls.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

#: Milliseconds: changes are gathered until none comes for `STEP_MS`, `DEBOUNCE_MS` at most.
STEP_MS, DEBOUNCE_MS = 50, 400
#: More paths than this in one batch are told as all: looking at all is cheaper, and the queue of the kernel (16,384
#: events by default) may have run over.
MOST_PATHS = 1000
#: Files of a git directory whose change moves HEAD or the index, or begins or ends a merge.
OF_GIT = frozenset({"HEAD", "MERGE_HEAD", "index", "packed-refs"})
LINE = 4 * 1_048_576
#: Isolated: nothing is imported from the working directory, which is mostly the repository itself.
_START = "import sys; sys.path.insert(0, {home!r}); from relay.git.folder_watch import serve; serve()"


class WatchError(Exception):
    """Changes cannot be told; the message says why."""


@dataclass(frozen=True, slots=True)
class Watched:
    """Folders by name. `trees`: everything below, but what is below `skip` or in a `.git`; `refs`: everything
    below; `gits`: only the files of a git directory that say where it stands."""

    trees: Mapping[str, Path] = field(default_factory=dict)
    refs: Mapping[str, Path] = field(default_factory=dict)
    gits: Mapping[str, Path] = field(default_factory=dict)
    skip: tuple[Path, ...] = ()

    def as_json(self) -> str:
        return json.dumps(asdict(self), default=str)


#: Of each name, the paths that changed (relative to its folder), None for all of it.
Changed = Mapping[str, frozenset[str] | None]


async def changes(watched: Watched) -> AsyncGenerator[Changed, None]:
    """Batches of changes, for ever; the first, empty one says that the watches stand. Raises WatchError."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",
        "-c",
        _START.format(home=str(Path(__file__).parents[2])),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        cwd="/",
        start_new_session=True,
        limit=LINE,
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        process.stdin.write(watched.as_json().encode() + b"\n")
        while line := await process.stdout.readline():
            notice: dict[str, Any] = json.loads(line)
            if "trouble" in notice:
                raise WatchError(notice["trouble"])
            yield {
                name: None if paths is None else frozenset(paths) for name, paths in notice["changed"].items()
            }
        raise WatchError("the process that watches the files has ended")
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await asyncio.shield(process.wait())


def sort_changes(paths: Iterable[str], watched: Mapping[str, Any]) -> dict[str, list[str] | None]:
    """Which paths belong to which folder; pure. `watched` is `Watched.as_json`, read back."""
    skip = watched["skip"]
    trees = sorted(watched["trees"].items(), key=lambda tree: -len(tree[1]))
    changed: dict[str, set[str] | None] = {}
    for path in paths:
        # The innermost folder, under each of its names: a person's checkout may be the main one.
        innermost = next((root for _, root in trees if _inside(path, root)), None)
        for name, root in trees:
            # A worktree inside the room's folder is looked at; the room's folder inside a checkout is not.
            skipped = any(_inside(path, folder) and not _inside(root, folder) for folder in skip)
            if root == innermost and not skipped:
                _note(changed, name, path[len(root) + 1 :])
        for name, root in watched["refs"].items():
            if path.startswith(f"{root}/") and not path.endswith(".lock"):
                changed[name] = None
        folder, _, base = path.rpartition("/")
        for name, root in watched["gits"].items():
            if folder == root and base in OF_GIT:
                changed[name] = None
    return {
        name: None if seen is None or len(seen) > MOST_PATHS else sorted(seen)
        for name, seen in changed.items()
    }


def _inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


def _note(changed: dict[str, set[str] | None], name: str, inner: str) -> None:
    """Add one path inside the folder of that name."""
    if ".git" in inner.split("/"):
        return
    seen = changed.setdefault(name, set())
    if not inner or "\ufffd" in inner:
        changed[name] = None  # the folder itself, or a name that is not UTF-8
    elif seen is not None:
        seen.add(inner)


def serve() -> None:
    """The child: watch what the first line of standard input says, until it ends."""
    from watchfiles._rust_notify import RustNotify  # late: its package loads much that no daemon needs

    watched = json.loads(sys.stdin.readline())
    deep = [*watched["trees"].values(), *watched["refs"].values()]
    groups = [(deep, True), (list(watched["gits"].values()), False)]
    groups = [(folders, recursive) for folders, recursive in groups if folders]
    alone, standing = threading.Lock(), threading.Semaphore(0)

    def say(what: dict[str, Any]) -> None:
        with alone:
            print(json.dumps(what), flush=True)

    def run(folders: list[str], recursive: bool) -> None:
        try:
            # Where it lets forbidden folders be, it lets missing ones be too.
            for folder in folders:
                Path(folder).stat()
            # What `watchfiles.watch` is made of: here it is known when the watches stand.
            with RustNotify(folders, False, False, 0, recursive, True) as notify:
                standing.release()
                while True:
                    batch = notify.watch(DEBOUNCE_MS, STEP_MS, 60_000, None)
                    if isinstance(batch, set) and (
                        changed := sort_changes((path for _, path in batch), watched)
                    ):
                        say({"changed": changed})
        except Exception as error:
            say({"trouble": f"{type(error).__name__}: {error}"})
            os._exit(1)

    for folders, recursive in groups:
        threading.Thread(target=run, args=(folders, recursive), daemon=True).start()
    for _ in groups:
        standing.acquire()
    say({"changed": {}})
    sys.stdin.read()
    os._exit(0)
