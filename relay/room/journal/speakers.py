"""Who spoke in the room, as its database knows, whichever relay they spoke at."""

from __future__ import annotations

from relay.model import Kind
from relay.room.journal.ledger import Q
from relay.store.ports import Tx

#: The latest messages whose speakers are looked at.
MOST_HEARD = 200


async def spoke(tx: Tx) -> list[str]:
    """The persons among the latest speakers."""
    rows = await tx.all(Q.latest_speakers, limit=MOST_HEARD)
    return [row["speaker"] for row in rows if row["kind"] == Kind.HUMAN]
