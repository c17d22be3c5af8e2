"""The graph's rows in the database: what was read of each content, and the edges of the last whole build.

Invariant: a row is found by git's hash of the content and the language it was read as; rows of another extractor
are never read. The tables are a cache: emptied, they cost one build. The event `graph.built` stands for each
snapshot.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from relay.code.read.facts import EXTRACTOR
from relay.log import events
from relay.log.events import Lane, NewEvent
from relay.store.ports import Queries, Store, Tx
from relay.store.ports import Row as DatabaseRow

#: Its tables are made by the airspace's migrations.
Q = Queries(Path(__file__).parent)
BUILT = "graph.built"
#: Seconds after which a row that no graph used is dropped: a branch may rest for some weeks.
KEPT_S = 30 * 86_400.0
#: Seconds after which a row that is used is marked as used again.
MARK_S = 86_400.0

Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Row:
    """What was read of one content; `facts` and `symbols` packed."""

    facts: bytes
    symbols: bytes
    trouble: str
    used_at: float = 0.0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The edges of a whole build. `good`: path -> (blob, language) of the last content that parsed."""

    digest: str
    edges: Mapping[str, tuple[str, ...]]
    good: Mapping[str, Key]


async def load(store: Store, repo: str) -> tuple[dict[Key, Row], DatabaseRow | None]:
    """(what was read, the snapshot for `unpack_snapshot`)."""

    async def work(tx: Tx) -> tuple[dict[Key, Row], DatabaseRow | None]:
        rows = {
            (row["blob"], row["language"]): Row(row["facts"], row["symbols"], row["trouble"], row["used_at"])
            for row in await tx.all(Q.graph_files, extractor=EXTRACTOR)
        }
        return rows, await tx.one(Q.graph_snapshot, repo=repo, extractor=EXTRACTOR)

    return await store.read(work, long=True)


def unpack_snapshot(row: DatabaseRow | None) -> Snapshot | None:
    """None when there is none, or it is not ours."""
    if row is None or row["edges"] is None or row["good"] is None:
        return None
    try:
        targets_by_path = json.loads(zlib.decompress(row["edges"]))
        keys_by_path = json.loads(zlib.decompress(row["good"]))
    except (ValueError, zlib.error):
        return None
    return Snapshot(
        row["digest"],
        {path: tuple(targets) for path, targets in targets_by_path.items()},
        {path: (blob, language) for path, (blob, language) in keys_by_path.items()},
    )


def pack_json(value: Any) -> bytes:
    return zlib.compress(json.dumps(value, separators=(",", ":")).encode(), 1)


async def put_rows(store: Store, rows: Mapping[Key, Row], now: float) -> None:
    async def work(tx: Tx) -> None:
        for (blob, language), row in rows.items():
            await tx.execute(
                Q.put_graph_file,
                blob=blob,
                language=language,
                extractor=EXTRACTOR,
                facts=row.facts,
                symbols=row.symbols,
                trouble=row.trouble,
                now=now,
            )

    if rows:
        await store.write(work)


async def keep(
    store: Store,
    repo: str,
    packed: tuple[str, bytes, bytes],
    used: Iterable[Key],
    summary: dict[str, Any],
    now: float,
) -> None:
    """Save the snapshot (digest, edges, good), mark what is used and drop what is old."""
    digest, edges, good = packed

    async def work(tx: Tx) -> None:
        for blob, language in used:
            await tx.execute(Q.use_graph_file, blob=blob, language=language, now=now)
        await tx.execute(
            Q.put_graph_snapshot,
            repo=repo,
            extractor=EXTRACTOR,
            digest=digest,
            edges=edges,
            good=good,
            now=now,
        )
        await tx.execute(Q.prune_graph_files, before=now - KEPT_S, extractor=EXTRACTOR)
        await tx.execute(Q.prune_graph_snapshots, before=now - KEPT_S)
        lane = Lane("room", f"graph:{digest[:16]}:{int(now * 1000)}", short=True)
        await events.append(tx, NewEvent(BUILT, lane, outputs=summary))

    await store.write(work)
