"""What changes in the folder of a turn while its agent works, as the file system tells it.

An agent may edit without asking: by a program's own settings, by its shell, and by its own hand from the second
version of the Agent Client Protocol on, whose draft has no files of the client's. (docs/agents.md, "Files".)

Invariants: the loop is never blocked: watches are made and waited for in threads; when `watching` is left, its thread
has been told to end; a look that failed is said.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from watchfiles import Change, DefaultFilter
from watchfiles._rust_notify import RustNotify

#: Milliseconds in which changes are gathered, and between two looks for more.
GATHER_MS, STEP_MS = 100, 50
#: Milliseconds of one wait: a turn's end waits for two.
WAIT_MS = 200
#: Seconds that its thread gets to end.
LEAVE_S = 2.0


@asynccontextmanager
async def watching(
    folder: Path, changed: Callable[[str], Awaitable[None]], unseen: Callable[[str], None]
) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """Watch a folder while the context lasts. Gives a wait until all that was written before is dealt with.

    `changed` is called with each file below it that was written, made or removed (not in `.git` and the folders of
    tools), `unseen` with the reason when it cannot be watched.
    """
    stop, wanted = threading.Event(), DefaultFilter()
    told = asyncio.Event()

    async def look() -> None:
        try:
            with watcher:
                while not stop.is_set():
                    changes = await asyncio.to_thread(watcher.watch, GATHER_MS, STEP_MS, WAIT_MS, stop)
                    paths = changes if isinstance(changes, set) else ()
                    # Only the path counts, not what was done to it.
                    for path in sorted({path for change, path in paths if wanted(Change(change), path)}):
                        await changed(path)
                    told.set()
        except Exception as error:  # whatever it is, the turn goes on
            unseen(f"what it changes without asking is not seen any more: {error}")

    async def settled() -> None:
        # The wait under way may have begun before the last write; the one after it has not.
        for _ in range(2):
            told.clear()
            telling = asyncio.create_task(told.wait())
            await asyncio.wait([telling, looking], return_when=asyncio.FIRST_COMPLETED)
            telling.cancel()

    try:
        watcher = await asyncio.to_thread(RustNotify, [str(folder)], False, False, 0, True, False)
    except OSError as error:
        unseen(f"what it changes without asking is not seen: {error}")
        yield nothing
        return
    looking = asyncio.create_task(look(), name="acp-watch")
    try:
        yield settled
    finally:
        # Not cancelled at once: a watcher must not be closed while a thread waits for it.
        stop.set()
        await asyncio.wait([looking], timeout=LEAVE_S)
        looking.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await looking


async def nothing() -> None:
    """Nothing is watched: there is nothing to wait for."""
