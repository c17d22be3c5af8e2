"""Where a member's tail begins in a file that it has not read before.

Invariant: a file is taken for the room's only where that can be told. A transcript of another room is refused, so
nobody's old room is poured into the team's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from relay.base.files import reading
from relay.log.encoding import dumps
from relay.room.journal.ledger import Q
from relay.room.parsing import line_format
from relay.room.parsing.line_format import Entry
from relay.room.transcript import checkpoint, file_position
from relay.room.transcript.file_position import Place
from relay.store.ports import Store, Tx

#: Ids that are looked up at once.
_AT_ONCE = 1000


class ForeignTranscript(Exception):
    """The file is not this room's; the message says what to do."""


async def first_place(store: Store, path: Path, member: str) -> Place:
    """The place of a member that has none yet. Raises ForeignTranscript, OSError."""
    if member:
        for left_by in await store.read(checkpoint.left_behind):
            if (taken := await checkpoint.adopt(store, path, left_by, member)) is not None:
                return taken
    # A room that has never read this file answers what nobody has answered; the rest is history.
    until = await asyncio.to_thread(file_position.answered_until, path)
    if not member:
        return Place(history_until=until)
    first = await store.read(lambda tx: _is_first(tx, member))
    numbers, others = ([], 0) if first else await _entries(store, path)
    if others:
        raise ForeignTranscript(
            f"{path} is not this room's transcript: {others:,} of its entries are not in the room. Move it away, "
            "and start relay again: it writes the room's transcript there"
        )
    place = Place(history_until=until, upto=min(numbers, default=1) - 1)

    async def work(tx: Tx) -> bool:
        if first and not await _is_first(tx, member):
            return False
        # Kept at once: what is written into the file from here on is this room's.
        await checkpoint.move(tx, member, place, place)
        return True

    # Of two that begin an empty room at once, one is the first.
    return place if await store.write(work) else await first_place(store, path, member)


async def _is_first(tx: Tx, member: str) -> bool:
    """Is this the first member of an empty room?"""
    newest = await tx.one(Q.last_number)
    others = [row["member"] for row in await tx.all(Q.tails) if row["member"] != member]
    return not (newest and newest["number"]) and not others


async def fresh_place(store: Store, path: Path, member: str, before: Place, size: int) -> Place:
    """The place at the beginning of a file of `size` bytes that was put where the one was that was read to `before`.

    A member's file follows the log from the first of the room's entries in it on; what came before is archived, say.
    Where it has none, no entry that was in the old file is appended again.
    """
    fresh = Place(history_until=size, upto=before.upto, ahead=before.ahead)
    numbers = (await _entries(store, path))[0] if member else []
    return replace(fresh, upto=min(numbers) - 1, ahead=()) if numbers else fresh


async def _entries(store: Store, path: Path) -> tuple[list[int], int]:
    """The numbers of the room's entries whose ids stand in a file, and how many ids the room does not know."""
    ids = await asyncio.to_thread(lambda: set(_ids(path)))
    numbers: list[int] = []
    every = sorted(ids)
    for first in range(0, len(every), _AT_ONCE):
        some = dumps(every[first : first + _AT_ONCE])
        rows = await store.read(lambda tx, some=some: tx.all(Q.numbers_among, ids=some))  # type: ignore[misc]
        numbers += [row["number"] for row in rows]
    return numbers, len(ids) - len(numbers)


def _ids(path: Path) -> Iterator[str]:
    try:
        with reading(path) as file:
            for line in file:
                entry = line_format.decode(line)
                if isinstance(entry, Entry):
                    yield entry.id
    except FileNotFoundError:
        return
