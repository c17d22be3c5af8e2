"""Who spoke in the room, as its database knows, whichever relay they spoke at."""

from __future__ import annotations

from collections.abc import Iterable

from relay.model import Kind
from relay.room.journal.ledger import Q
from relay.room.parsing.mentions import mentions
from relay.store.ports import Tx

#: The latest messages whose speakers are looked at.
MOST_HEARD = 2000


async def spoke(tx: Tx) -> list[str]:
    """The persons among the latest speakers."""
    rows = await tx.all(Q.latest_speakers, kind=Kind.HUMAN, limit=MOST_HEARD)
    return [row["speaker"] for row in rows]


def others_named(body: str, people: Iterable[str], speaker: str) -> tuple[str, ...]:
    """Those of these people whom the speaker names in `body` with an @, besides themselves. Pure."""
    names = mentions(body, (), also=people)
    return tuple(name for name in names if name.casefold() != speaker.casefold())
