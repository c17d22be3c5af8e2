"""Indexes memories that are in no index yet: those of a database from before, and all when the words' rules change.

Invariant: a batch is a transaction of its own, so other writers come in between, and a process that is ended goes on
where it was; a memory that is done is not done again.
"""

from __future__ import annotations

from pathlib import Path

from relay.memory.episodic.keeping import index, new_counts, unindex
from relay.store.ports import Queries, Store, Tx

Q = Queries(Path(__file__).parents[1])
#: Memories of one transaction.
BATCH = 200


async def index_the_rest(store: Store) -> int:
    """Index what is not; gives how many memories that were."""
    done = 0
    # A look first: a process that only reads need not wait for a writer.
    while await store.read(lambda tx: tx.one(Q.unindexed_memories, limit=1)) is not None:
        done += await store.write(_batch)
    return done


async def index_anew(store: Store) -> int:
    """Index all memories anew, in such batches; gives how many."""
    await store.write(lambda tx: tx.execute(Q.unindex_all))
    return await index_the_rest(store)


async def _batch(tx: Tx) -> int:
    rows = await tx.all(Q.unindexed_memories, limit=BATCH)
    counts = new_counts()
    indexed = [row for row in rows if row["forgotten_at"] is None]
    await unindex(tx, indexed, counts)
    await index(tx, indexed, counts)
    await counts.write(tx)
    for row in rows:
        await tx.execute(Q.indexed_memory, number=row["number"])
    return len(rows)
