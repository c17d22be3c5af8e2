"""The kept place of the tail, and how the file under it is exchanged for a shorter one.

Invariants:
- the stored place moves only from the place that its mover has read from. A mover that has read from another place,
  or from a file that was exchanged meanwhile, gets `PlaceMoved`, commits nothing and reads again. So a daemon need
  not be told that `relay archive` ran beside it;
- an exchange is announced in the database (the place in the new file, and its inode) before the file is put
  there. While it is announced nobody moves the place without the append lock. A process that finds an announcement
  whose maker has died looks which file is there, and settles it. So a process killed at any instant leaves
  neither an unread line taken for history nor a read one to be read again.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from relay.log import events
from relay.log.encoding import dumps
from relay.room.journal import ledger
from relay.room.journal.ledger import Q
from relay.room.parsing import line_format
from relay.room.transcript import file_position
from relay.room.transcript.file_position import Place
from relay.store.ports import Store, Tx, of_row

_ANNOUNCED = "transcript_swap"


class PlaceMoved(Exception):
    """The kept place is not where its mover stands; nothing was changed. Settle, and read from the kept one."""


@dataclass(frozen=True, slots=True)
class Swap:
    """`after`: the kept place in the file that is to be put there, which is `inode` on device `device`."""

    after: Place
    device: int
    inode: int


@asynccontextmanager
async def holding(lock: Path) -> AsyncIterator[None]:
    """Hold the append lock without blocking the event loop for it."""
    held = line_format.holding(lock)
    await asyncio.to_thread(held.__enter__)
    try:
        yield
    finally:
        held.__exit__(None, None, None)


async def kept_place(tx: Tx) -> Place | None:
    """Where the tail stands; None in a room that has never read its transcript."""
    row = await tx.one(Q.tail)
    return None if row is None else of_row(Place, row)


async def move(tx: Tx, here: Place, after: Place) -> None:
    """Move the kept place from `here` to `after`. Raises PlaceMoved."""
    if await announced(tx) is not None or await kept_place(tx) not in (None, here):
        raise PlaceMoved
    await tx.execute(Q.put_tail, **asdict(after))


async def announced(tx: Tx) -> Swap | None:
    text = await events.setting(tx, _ANNOUNCED)
    if not text:
        return None
    values = json.loads(text)
    return Swap(Place(**values["after"]), values["device"], values["inode"])


async def announce(tx: Tx, here: Place, swap: Swap) -> None:
    """Say, holding the append lock, that another file is about to be put there. Raises PlaceMoved."""
    await move(tx, here, here)
    await events.put_setting(tx, _ANNOUNCED, dumps(asdict(swap)))


async def settle(store: Store, path: Path, lock: Path) -> None:
    """Bring an announced exchange to its end, however far its maker came; waits for one that still works."""
    async with holding(lock):
        await settle_held(store, path)


async def settle_held(store: Store, path: Path) -> None:
    """`settle` for a caller that holds the append lock."""
    swap = await store.read(announced)
    if swap is None:
        return
    done = await asyncio.to_thread(_is_there, path, swap)

    async def work(tx: Tx) -> None:
        if done:
            await tx.execute(Q.put_tail, **asdict(swap.after))
        await events.put_setting(tx, _ANNOUNCED, "")

    await store.write(work, durable=True)


def _is_there(path: Path, swap: Swap) -> bool:
    try:
        status = path.stat()
    except FileNotFoundError:
        return False
    return (status.st_dev, status.st_ino) == (swap.device, swap.inode) and file_position.continues(
        path, swap.after
    )


async def begin_anew(tx: Tx, here: Place, size: int, *, now: float) -> Place:
    """The file is not the one that was read to `here`: its `size` bytes are history, and the room hears it.

    Raises PlaceMoved.
    """
    fresh = Place(history_until=size)
    await move(tx, here, fresh)
    text = (
        "The transcript file was replaced or cut. What is in it now is shown as history and starts no work; "
        "new lines are read as usual."
    )
    await ledger.say(tx, text, now=now, meta={"notice": "transcript_replaced"})
    return fresh
