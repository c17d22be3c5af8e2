"""The graph of one repository, kept up to date: the daemon's side.

Invariant: the event loop only moves bytes. Git, hashing, parsing and resolving run in worker processes, and large
answers are unpacked in a thread. `graph` is always whole: it is the last one that was built, and the next one
replaces it at once. A worker that dies is started again and gets everything that it knew.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
import zlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog

from relay.code import cache
from relay.code.build.builder import Patch
from relay.code.build.listing import digest, wanted
from relay.code.cache import Key, Row, Snapshot
from relay.code.code_graph import CodeGraph
from relay.code.parse_pool import ParsePool, Read
from relay.code.read.facts import FileSymbols
from relay.code.read.grammar import language_of
from relay.code.workers.process import WorkerDied, WorkerProcess
from relay.store.ports import Store

log = structlog.get_logger(__name__)
#: Seconds for the resolving worker's longest answer: a first resolve of 50,000 files takes some 5.
RESOLVE_S = 120.0
#: Rows a transaction while many files are read.
ROWS = 200
#: From so many changed paths on, the repository is listed anew: a checkout of another branch, not an edit.
MANY = 500
#: How often a resolving worker may die on one request.
TRIES = 3


class GraphError(Exception):
    """The graph could not be built; the message says why."""


@dataclass(frozen=True, slots=True)
class _File:
    """A file of the graph: its content's key and what was read of it. `good`: its last content that parsed."""

    key: Key
    row: Row
    good: tuple[Key, Row] | None

    @property
    def shown(self) -> Row:
        """The row whose symbols stand for the file."""
        return self.row if self.good is None else self.good[1]


class GraphService:
    """Call `start` once, then `changed` for each change. Read `graph` at any time."""

    def __init__(self, store: Store, *, workers: int | None = None) -> None:
        self._store = store
        self._pool = ParsePool(workers)
        self._resolver = WorkerProcess("resolve")
        self._files: dict[str, _File] = {}
        self._died: dict[str, str] = {}
        self._lock = asyncio.Lock()
        self._primed: asyncio.Task[None] | None = None
        self._saved = ""
        #: The number of the resolving worker's start whose process knows everything.
        self._told = 0
        self.root = Path()
        self.graph = CodeGraph()
        #: True from `start` until there is a graph.
        self.building = False
        #: Files read of files to read, while building.
        self.progress = (0, 0)
        #: Path -> why the file is left out (minified, generated, too large).
        self.left_out: Mapping[str, str] = {}
        #: Set at each new graph; the waiter clears it.
        self.updated = asyncio.Event()
        #: Awaited with each new graph.
        self.on_change: Callable[[CodeGraph], Awaitable[None]] | None = None

    @property
    def restarts(self) -> int:
        """How often a worker process had to be started again."""
        return self._pool.restarts + self._resolver.restarts

    async def start(self, repo: Path) -> None:
        """Build the graph of a repository's checkout, from the database as far as it can. Raises GraphError."""
        async with self._lock:
            self.root = await asyncio.to_thread(repo.resolve)
            self.building = True
            began = time.monotonic()
            try:
                await self._build()
            finally:
                self.building = False
            counts = self.graph.counts
            log.info(
                "the graph is built",
                files=counts.files,
                edges=counts.edges,
                failed=counts.failed,
                seconds=round(time.monotonic() - began, 2),
            )

    async def changed(self, paths: Iterable[str]) -> None:
        """Take in files or folders (relative to the repository) that may have changed, come or gone. Raises
        GraphError."""
        named = {os.path.normpath(path).replace(os.sep, "/") for path in paths}
        async with self._lock:
            await self._until_primed()
            touched, gone = await self._touched(named)
            if touched or gone:
                await self._reread(touched, gone)

    async def read(self, path: str, data: bytes) -> FileSymbols | None:
        """The symbols of a text under this name, in a worker; None when it does not parse or is not read."""
        return await self._pool.text(path, data)

    async def close(self) -> None:
        """Save the graph for the next start, then end the workers."""
        async with self._lock:
            if self._primed is not None:
                self._primed.cancel()
                await asyncio.gather(self._primed, return_exceptions=True)
            if self._files and not self.building:
                with contextlib.suppress(self._store.errors):
                    await self._save()
            await asyncio.gather(self._pool.close(), self._resolver.close())

    # -- building

    async def _build(self) -> None:
        listing = asyncio.create_task(self._list())
        try:
            rows, saved = await cache.load(self._store, str(self.root))
            snapshot = await asyncio.to_thread(cache.unpack_snapshot, saved)
        finally:
            listed = (await asyncio.gather(listing, return_exceptions=True))[0]
        if isinstance(listed, BaseException):
            raise listed
        self.left_out = listed["left"]
        self._files = {}
        missing = []
        for path, blob in listed["blobs"].items():
            key = (blob, language_of(path) or "")
            row = rows.get(key)
            if row is None:
                missing.append(path)
            else:
                self._files[path] = _File(key, row, _good(path, row, rows, snapshot))
        if missing:
            await self._read_missing(missing, rows, snapshot)
        elif snapshot is not None and snapshot.digest == listed["digest"]:
            self._saved = snapshot.digest
            await self._publish(snapshot.edges, fresh=True)
            # The graph is in use while the worker still learns what it needs for patches.
            self._primed = asyncio.create_task(self._prime(whole=True), name="graph-prime")
            return
        await self._publish(await self._whole(), fresh=True)
        await self._save()
        self._primed = asyncio.create_task(self._prime(whole=False), name="graph-prime")

    async def _list(self) -> dict[str, Any]:
        answer, _ = await self._ask_resolver({"do": "list", "root": str(self.root)})
        if "error" in answer:
            raise GraphError(answer["error"])
        return answer

    async def _ask_resolver(self, message: dict[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
        """A question whose answer does not depend on what the worker knows."""
        for _ in range(TRIES):
            with contextlib.suppress(WorkerDied):
                return await self._resolver.ask(message, timeout_s=RESOLVE_S)
        raise GraphError(f"the graph's worker died {TRIES} times when asked to {message['do']}")

    async def _read_missing(
        self, missing: list[str], rows: Mapping[Key, Row], snapshot: Snapshot | None
    ) -> None:
        fresh: dict[Key, Row] = {}
        done = 0

        async def took(result: Read) -> None:
            nonlocal done, fresh
            done += 1
            self.progress = (done, len(missing))
            if result.died:
                self._died[result.path] = result.died
            if result.blob is not None and result.row is not None:
                key = (result.blob, result.language)
                fresh[key] = result.row
                self._files[result.path] = _File(
                    key, result.row, _good(result.path, result.row, rows, snapshot)
                )
            if len(fresh) >= ROWS:
                now, fresh = fresh, {}
                await cache.put_rows(self._store, now, time.time())

        self.progress = (0, len(missing))
        await self._pool.read(self.root, missing, took)
        await cache.put_rows(self._store, fresh, time.time())

    # -- resolving

    async def _prime(self, *, whole: bool) -> None:
        """Make the workers ready for a changed file."""
        await self._pool.ready({file.key[1] for file in self._files.values()})
        if whole:
            await self._whole()

    async def _until_primed(self) -> None:
        if self._primed is None:
            return
        primed, self._primed = self._primed, None
        try:
            await primed
        except GraphError:
            log.exception("the graph's worker could not take in the graph; it is resolved anew")

    async def _whole(self) -> Patch:
        """Give the worker everything; returns all edges."""
        last: WorkerDied | None = None
        for _ in range(TRIES):
            try:
                patch = await self._update(list(self._files), [], whole=True)
                self._told = self._resolver.starts
                return patch
            except WorkerDied as error:
                last = error
        raise GraphError(f"the graph's worker died {TRIES} times while resolving: {last}") from last

    async def _update(self, paths: list[str], gone: list[str], *, whole: bool) -> Patch:
        files = [self._files[path] for path in paths]
        good = [path for path, file in zip(paths, files, strict=True) if file.good is not None]
        message = {"do": "update", "paths": paths, "gone": gone, "last_good": good, "whole": whole}
        parts = [self._files[path].shown.facts for path in good] + [file.row.facts for file in files]
        _, (packed,) = await self._resolver.ask(message, parts, timeout_s=RESOLVE_S)
        if len(packed) < 65_536:
            return _patch(packed)
        return await asyncio.to_thread(_patch, packed)

    async def _patched(self, paths: list[str], gone: list[str]) -> tuple[Patch, bool]:
        """(what changed, whether it is everything)."""
        if self._resolver.pid is not None and self._resolver.starts == self._told:
            with contextlib.suppress(WorkerDied):
                return await self._update(paths, gone, whole=False), False
        log.warning("the graph's worker died; it is told everything anew")
        return await self._whole(), True

    # -- changes

    async def _touched(self, named: set[str]) -> tuple[set[str], set[str]]:
        """Among these paths: (files to read, files of the graph that git no longer lists)."""
        anew = len(named) > MANY or any(path.rpartition("/")[2] in (".gitignore", ".") for path in named)
        folders = await asyncio.to_thread(_folders, self.root, named)
        if anew or folders:
            listed = await self._list()
            blobs: dict[str, str] = listed["blobs"]
            self.left_out = listed["left"]
            before = {path: file.key[0] for path, file in self._files.items()}
            differ = {path for path, blob in blobs.items() if before.get(path) != blob}
            return differ, before.keys() - blobs.keys()
        touched = named & (self._files.keys() | self._died.keys())
        unknown = sorted(path for path in named - touched if wanted(path))
        if unknown:
            answer, _ = await self._ask_resolver({"do": "known", "root": str(self.root), "paths": unknown})
            touched |= set(answer["paths"])
        # Of a folder that is gone, only its own name is reported.
        gone = tuple(f"{path}/" for path in named - touched)
        return touched | {path for path in self._files if gone and path.startswith(gone)}, set()

    async def _reread(self, paths: set[str], unlisted: set[str]) -> None:
        fresh: dict[Key, Row] = {}
        there: list[str] = []
        gone = sorted(unlisted)
        failing = dict(self._died)
        for path in gone:
            del self._files[path]
        for result in await self._pool.read(self.root, sorted(paths)):
            before = self._files.get(result.path)
            self._died.pop(result.path, None)
            if result.died:
                self._died[result.path] = result.died
            elif result.blob is None or result.row is None:
                if before is not None:
                    del self._files[result.path]
                    gone.append(result.path)
            elif before is None or before.key != (result.blob, result.language):
                key = (result.blob, result.language)
                fresh[key] = result.row
                self._files[result.path] = _File(key, result.row, _last_good(result.row, before))
                there.append(result.path)
        if there or gone:
            patch, whole = await self._patched(there, gone)
            await self._publish(patch, fresh=whole, symbols=[*there, *gone])
            await cache.put_rows(self._store, fresh, time.time())
        elif failing != self._died:
            await self._publish({}, symbols=[])

    async def _publish(
        self, patch: Patch, *, fresh: bool = False, symbols: Iterable[str] | None = None
    ) -> None:
        """The next graph. `fresh`: the patch holds every edge; `symbols`: the files whose symbols are new."""
        start = CodeGraph() if fresh else self.graph
        new: dict[str, bytes | None] = {}
        for path in self._files if fresh or symbols is None else symbols:
            file = self._files.get(path)
            new[path] = None if file is None else file.shown.symbols
        failed = {
            path: file.row.trouble for path, file in self._files.items() if file.row.trouble
        } | self._died
        # 2,000 edges change in about 10 ms.
        if len(patch) < 200 and len(self._files) < 20_000:
            self.graph = start.patched(patch, new, failed)
        else:
            self.graph = await asyncio.to_thread(start.patched, patch, new, failed)
        self.updated.set()
        if self.on_change is not None:
            await self.on_change(self.graph)

    async def _save(self) -> None:
        files = dict(self._files)
        graph = self.graph
        packed = await asyncio.to_thread(_packed, files, graph)
        if packed[0] == self._saved:
            return
        now = time.time()
        used = [file.key for file in files.values() if file.row.used_at < now - cache.MARK_S]
        used += [file.good[0] for file in files.values() if file.good is not None]
        counts = graph.counts
        summary = {"files": counts.files, "edges": counts.edges, "failed": sorted(graph.failed)[:50]}
        await cache.keep(self._store, str(self.root), packed, used, summary, now)
        self._saved = packed[0]


def _good(path: str, row: Row, rows: Mapping[Key, Row], snapshot: Snapshot | None) -> tuple[Key, Row] | None:
    """The last content that parsed of a file that does not."""
    if not row.trouble or snapshot is None or path not in snapshot.good:
        return None
    key = snapshot.good[path]
    return (key, rows[key]) if key in rows else None


def _last_good(row: Row, before: _File | None) -> tuple[Key, Row] | None:
    if not row.trouble or before is None:
        return None
    return before.good if before.row.trouble else (before.key, before.row)


def _packed(files: Mapping[str, _File], graph: CodeGraph) -> tuple[str, bytes, bytes]:
    """(digest, edges, good). A file that parses is its own good content, in case it fails while relay is down."""
    good = {
        path: file.good[0] if file.good else file.key
        for path, file in files.items()
        if file.good or not file.row.trouble
    }
    files_digest = digest({path: file.key[0] for path, file in files.items()})
    return files_digest, cache.pack_json(dict(graph.adjacency())), cache.pack_json(good)


def _patch(packed: bytes) -> Patch:
    targets_by_path = json.loads(zlib.decompress(packed))
    return {path: None if targets is None else tuple(targets) for path, targets in targets_by_path.items()}


def _folders(root: Path, paths: Iterable[str]) -> list[str]:
    return [path for path in paths if (root / path).is_dir() and not (root / path).is_symlink()]
