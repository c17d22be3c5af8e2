"""Pages of the transcript, read in the caller's transaction.

Invariant: a page is a run of neighbours, oldest first, without a gap; `more` and `more_after` are true only
when there is an entry on that side.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import replace

from relay.log import events
from relay.log.encoding import dumps
from relay.model import Message, references
from relay.room.journal.ledger import Q
from relay.room.journal.values import Page, message_of_row
from relay.room.parsing.mentions import mentions
from relay.room.parsing.search_snippet import snippet
from relay.store.ports import Row, Tx

#: Words of a search that are looked for; what comes behind them is not.
_WORDS = 16
#: Entries among which those for one reader are looked for, where no cursor says from where on.
MOST_LOOKED = 5000
_CURSOR = re.compile(r"[0-9]{1,18}")

#: The `fix` where an id names no message.
IDS_FIX = "GET /api/transcript lists the messages with their ids."


async def page(tx: Tx, *, after: int | None, before: int | None, limit: int) -> Page:
    """At most `limit` entries: behind `after`, or before `before`, or the newest."""
    if after is not None:
        rows = list(await tx.all(Q.messages_after, after=after, limit=limit + 1))
        more, rows = len(rows) > limit, rows[:limit]
        upto = rows[-1]["pos"] if rows else after
        return Page([message_of_row(row) for row in rows], upto if more else max(upto, after), more)
    last = await events.last_pos(tx)
    rows = list(
        await tx.all(Q.messages_before, before=last + 1 if before is None else before, limit=limit + 1)
    )
    more, rows = len(rows) > limit, rows[:limit][::-1]
    return Page([message_of_row(row) for row in rows], last if before is None else before, more)


async def addressed(tx: Tx, name: str, *, after: int | None, limit: int) -> Page:
    """As `page`, of the entries of others that name or address `name`, or answer an entry of it; without `after` the
    newest of the last MOST_LOOKED entries."""
    last = await events.last_pos(tx)
    about = {"name": name, "named": f"%@{_literal(name)}%", "to": f'%"{_literal(name)}"%', "limit": limit + 1}
    if after is None:
        rows = list(await tx.all(Q.newest_addressed, **about, most=MOST_LOOKED))[::-1]
        rows = rows[-limit:]
        return Page([entry for entry in map(message_of_row, rows) if _names(entry, name)], last, False)
    rows = list(await tx.all(Q.addressed_after, **about, after=after))
    more, rows = len(rows) > limit, rows[:limit]
    upto = rows[-1]["pos"] if more else max(last, after)
    return Page([entry for entry in map(message_of_row, rows) if _names(entry, name)], upto, more)


def _names(message: Message, name: str) -> bool:
    """Is it for this one? SQL found the name as a part of longer ones too."""
    replies = message.in_reply_to is not None and f"@{name}".casefold() not in message.body.casefold()
    addressed = any(addressee.casefold() in (name.casefold(), "all") for addressee in message.to)
    return addressed or replies or bool(mentions(message.body, [name]))


def _literal(text: str) -> str:
    return text.replace("!", "!!").replace("%", "!%").replace("_", "!_")


async def search(tx: Tx, text: str, *, limit: int) -> list[tuple[Message, str]]:
    """Entries with words that begin like all those of `text`, newest first, each with a snippet around the hits
    (which stand between U+0001 and U+0002)."""
    # No word has a control character or half a surrogate pair, and the index cannot be asked for them.
    spaced = "".join(" " if unicodedata.category(c) in {"Cc", "Cs"} else c for c in text)
    words = spaced.split()[:_WORDS]
    if not words:
        return []
    # How a database is asked for the beginnings of words stands in its own dialect's SQL.
    rows = await tx.all(Q.search, words=dumps(words), limit=limit)
    return [(message_of_row(row), snippet(row["body"], words)) for row in rows]


async def around(tx: Tx, place: str, *, limit: int) -> Page | None:
    """The entry at `place` and its neighbours: half of them before it, the rest from it on.

    `place` is an entry's id, its room number as `m12` or `#12`, or a cursor; None when no such entry exists (a cursor
    always has its place). `next` is the cursor to go on with towards the present.
    """
    at = await _position(tx, place)
    if at is None:
        return None
    half = limit // 2
    rest = limit - half
    older = list(await tx.all(Q.messages_before, before=at, limit=half + 1))
    newer = list(await tx.all(Q.messages_after, after=at - 1, limit=rest + 1))
    more, more_after = len(older) > half, len(newer) > rest
    rows = older[:half][::-1] + newer[:rest]
    upto = rows[-1]["pos"] if more_after else await events.last_pos(tx)
    return Page([message_of_row(row) for row in rows], upto, more, more_after)


async def _position(tx: Tx, place: str) -> int | None:
    if _CURSOR.fullmatch(place):
        return int(place)
    row = await row_at(tx, place)
    return None if row is None else int(row["pos"])


async def row_at(tx: Tx, place: str) -> Row | None:
    """The row of the entry with this id or room number (`m12`)."""
    number = references.read(place)
    if number is None:
        return await tx.one(Q.message, id=place)
    if number[0] is not references.Thing.MESSAGE:
        return None
    return await tx.one(Q.message_by_number, number=number[1])


async def thread(tx: Tx, place: str, *, limit: int) -> Page | None:
    """The thread that the entry at `place` (an id or `m12`) is in: the entry that began it, and the newest of its
    replies, the oldest first; None when there is no such entry. `more`: older replies are left out."""
    row = await row_at(tx, place)
    root = row if row is None or row["thread"] is None else await tx.one(Q.message, id=row["thread"])
    if root is None:
        return None
    replies = list(await tx.all(Q.thread, root=root["id"], limit=limit))
    more, last = len(replies) >= limit, await events.last_pos(tx)
    rows = [root, *replies[: limit - 1][::-1]]
    return Page([message_of_row(each) for each in rows], last, more)


async def with_replies(tx: Tx, page: Page) -> Page:
    """The page, with how many entries are in the threads that its entries began."""
    begun = [entry.id for entry in page.entries if entry.thread is None]
    rows = await tx.all(Q.replies_of, ids=dumps(begun)) if begun else ()
    return replace(page, replies={row["thread"]: row["replies"] for row in rows})
