"""Parses many files in a few worker processes.

Invariant: each file gets one answer, whatever it does to the process that reads it. A file on which two processes
died is answered with the reason, and the other files are read.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from relay.code.cache import Row
from relay.code.read.facts import FileSymbols, unpack_symbols
from relay.code.read.grammar import KEYWORDS
from relay.code.workers.process import WorkerDied, WorkerProcess

#: Files in one request. A file is answered at once, so a dead worker costs one file; a request costs some 0.3 ms.
BATCH = 32
#: Seconds for one answer, above the alarm that the worker sets itself (worker.FILE_S).
ANSWER_S = 20.0


@dataclass(frozen=True, slots=True)
class Read:
    """The answer for one file. `row` None: it is gone, or left out because of `left`; `died`: why it ended the
    parser."""

    path: str
    blob: str | None = None
    language: str = ""
    row: Row | None = None
    left: str = ""
    died: str = ""


class ParsePool:
    """As many parsing processes as the machine has cores; they run at low priority, so whoever else needs a core has
    it first."""

    def __init__(self, workers: int | None = None) -> None:
        count = (os.cpu_count() or 1) if workers is None else workers
        self.workers = [WorkerProcess("parse") for _ in range(count)]

    @property
    def restarts(self) -> int:
        return sum(worker.restarts for worker in self.workers)

    async def read(
        self, root: Path, paths: Sequence[str], took: Callable[[Read], Awaitable[None]] | None = None
    ) -> list[Read]:
        """Read these files; `took` is awaited for each as it comes."""
        waiting = deque(paths[at : at + BATCH] for at in range(0, len(paths), BATCH))
        results: list[Read] = []

        async def work(worker: WorkerProcess) -> None:
            while waiting:
                for result in await self._batch(worker, root, list(waiting.popleft())):
                    results.append(result)
                    if took is not None:
                        await took(result)

        async with asyncio.TaskGroup() as group:
            for worker in self.workers[: max(1, len(waiting))]:
                group.create_task(work(worker))
        return results

    async def _batch(self, worker: WorkerProcess, root: Path, paths: list[str]) -> list[Read]:
        results: list[Read] = []
        suspect = ""
        while paths:
            # A file that ended a process gets another one, alone: the cause may have been the files before it.
            asked = paths[:1] if paths[0] == suspect else paths
            message = {"do": "parse", "root": str(root), "paths": asked}
            try:
                answers = worker.ask_many(message, count=len(asked), timeout_s=ANSWER_S)
                async with contextlib.aclosing(answers):
                    async for answer, parts in answers:
                        results.append(_read(answer, parts))
                        paths = paths[1:]
            except WorkerDied:
                if paths[0] == suspect:
                    why = "the parser ended on it: too slow, too much memory, or a fault in the grammar"
                    results.append(Read(paths[0], died=why))
                    paths = paths[1:]
                else:
                    suspect = paths[0]
        return results

    async def ready(self, languages: Iterable[str]) -> None:
        """Start the process that reads a single changed file, with the grammars of these languages."""
        message = {"do": "ready", "languages": sorted(set(languages) & KEYWORDS.keys())}
        with contextlib.suppress(WorkerDied):  # then the next request starts it
            await self.workers[0].ask(message, timeout_s=ANSWER_S)

    async def text(self, path: str, data: bytes) -> FileSymbols | None:
        """The symbols of a text that is in no file yet; None when it does not parse or is not read."""
        try:
            message = {"do": "read_text", "path": path}
            answer, parts = await self.workers[-1].ask(message, [data], timeout_s=ANSWER_S)
        except WorkerDied:
            return None
        return unpack_symbols(parts[0]) if parts and not answer["trouble"] else None

    async def close(self) -> None:
        await asyncio.gather(*(worker.close() for worker in self.workers))


def _read(answer: dict[str, str], parts: list[bytes]) -> Read:
    if answer["blob"] is None:
        return Read(answer["path"], left=answer["left"])
    row = Row(parts[0], parts[1], answer["trouble"])
    return Read(answer["path"], answer["blob"], answer["language"], row)
