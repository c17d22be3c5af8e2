"""Which files the entries name (`relay.room.parsing.file_names`).

Invariant: what an entry said before it was edited names files too, for people look at it. A deleted entry names none,
nor does what brought its text.
"""

from __future__ import annotations

import json

from relay.model import references
from relay.room.journal import pages
from relay.room.journal.ledger import Q
from relay.room.parsing.file_names import NAMED
from relay.store.ports import Tx


async def named(tx: Tx) -> set[str]:
    """The ids of all files that entries name. Runs in the caller's transaction; takes as long as there are entries
    that name files."""
    ids: set[str] = set()
    for row in await tx.all(Q.messages_with_files):
        meta = json.loads(row["meta"])
        if "deleted" in meta or ("short" in meta and await _is_deleted(tx, meta["short"])):
            continue
        ids.update(NAMED.findall(f"{row['body']}\n{row['said'] or ''}"))
    return ids


async def _is_deleted(tx: Tx, number: int) -> bool:
    row = await pages.row_at(tx, references.message(number))
    return row is not None and "deleted" in json.loads(row["meta"])
