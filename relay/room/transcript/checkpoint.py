"""The kept place of a member's tail, and how the file under it is exchanged for a shorter one.

Invariants:
- each member of a fleet has a place of its own, in a file of its own; the only relay of a room is the member '';
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
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from relay.log import events
from relay.log.encoding import dumps
from relay.room.journal import ledger
from relay.room.journal.ledger import Q
from relay.room.parsing import line_format
from relay.room.transcript import file_position
from relay.room.transcript.file_position import Place
from relay.room.transcript.standing import Ranges, counted
from relay.store.ports import Store, Tx, of_row

_ANNOUNCED = "transcript_swap"
#: No member's name begins so: a name has no line break.
_FORGOTTEN = "\n"


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


async def kept_place(tx: Tx, member: str) -> Place | None:
    """Where the tail stands; None for a member that has never read its transcript."""
    row = await tx.one(Q.tail, member=member)
    if row is None:
        return None
    return of_row(
        Place, row, ahead=_ranges(json.loads(row["ahead"])), blank=_ranges(json.loads(row["blank"]))
    )


async def _keep(tx: Tx, member: str, place: Place) -> None:
    await tx.execute(Q.put_tail, member=member, **_columns(place))


def _columns(place: Place) -> dict[str, Any]:
    return {**asdict(place), "ahead": dumps(list(place.ahead)), "blank": dumps(list(place.blank))}


def _ranges(pairs: Iterable[Sequence[int]]) -> Ranges:
    return tuple((first, behind) for first, behind in pairs)


async def move(tx: Tx, member: str, here: Place, after: Place) -> None:
    """Move the kept place from `here` to `after`. Raises PlaceMoved."""
    if await announced(tx, member) is not None or await kept_place(tx, member) not in (None, here):
        raise PlaceMoved
    await _keep(tx, member, after)


async def move_beside(tx: Tx, member: str, here: Place, after: Place) -> bool:
    """`move` as one statement, for a single write. False: nothing was changed, since there is no kept place yet, or
    for what `move` raises PlaceMoved."""
    new = {f"new_{name}": value for name, value in _columns(after).items()}
    row = await tx.one(
        Q.move_tail, member=member, announced=_announced_under(member), **_columns(here), **new
    )
    return row is not None and bool(row["moved"])


async def lacking(tx: Tx, place: Place) -> tuple[int, float | None]:
    """How many of the room's entries do not stand in the member's file yet, and since when (Unix seconds)."""
    newest = await tx.one(Q.last_number)
    count = (newest["number"] if newest else 0) - place.upto - counted(place.ahead)
    oldest = await tx.one(Q.message_by_number, number=place.upto + 1) if count > 0 else None
    return max(0, count), None if oldest is None else oldest["at"]


async def announced(tx: Tx, member: str) -> Swap | None:
    text = await events.setting(tx, _announced_under(member))
    if not text:
        return None
    values = json.loads(text)
    after = values["after"]
    # An earlier version kept no ranges.
    ahead, blank = _ranges(after.pop("ahead", ())), _ranges(after.pop("blank", ()))
    return Swap(Place(**after, ahead=ahead, blank=blank), values["device"], values["inode"])


def _announced_under(member: str) -> str:
    return f"{_ANNOUNCED}:{member}" if member else _ANNOUNCED


async def announce(tx: Tx, member: str, here: Place, swap: Swap) -> None:
    """Say, holding the append lock, that another file is about to be put there. Raises PlaceMoved."""
    await move(tx, member, here, here)
    await events.put_setting(tx, _announced_under(member), dumps(asdict(swap)))


async def settle(store: Store, path: Path, lock: Path, member: str) -> None:
    """Bring an announced exchange to its end, however far its maker came; waits for one that still works."""
    async with holding(lock):
        await settle_held(store, path, member)


async def settle_held(store: Store, path: Path, member: str) -> None:
    """`settle` for a caller that holds the append lock."""
    swap = await store.read(lambda tx: announced(tx, member))
    if swap is None:
        return
    done = await asyncio.to_thread(_is_there, path, swap)

    async def work(tx: Tx) -> None:
        here = await kept_place(tx, member)
        if done and here is not None:
            # The same entries stand in it, some of them in the archive. Nothing has moved since it was announced.
            await _keep(tx, member, replace(swap.after, upto=here.upto, ahead=here.ahead))
        await events.put_setting(tx, _announced_under(member), "")

    await store.write(work, durable=True)


def _is_there(path: Path, swap: Swap) -> bool:
    try:
        status = path.stat()
    except FileNotFoundError:
        return False
    return (status.st_dev, status.st_ino) == (swap.device, swap.inode) and file_position.continues(
        path, swap.after
    )


async def left_behind(tx: Tx) -> list[str]:
    """Under which names places are kept that a member may go on from: of the room's only relay, and of members that
    were forgotten."""
    names = [str(row["member"]) for row in await tx.all(Q.tails)]
    return [name for name in names if not name or name.startswith(_FORGOTTEN)]


async def adopt(store: Store, path: Path, left_by: str, member: str) -> Place | None:
    """Take over the place that was kept under the name `left_by`, where the file at `path` is the one it is in; else
    None. So the relay that made the room goes on in its file as the first member of a fleet, and one that was
    forgotten takes no line of its file in again."""
    left = await store.read(lambda tx: kept_place(tx, left_by))
    swap = await store.read(lambda tx: announced(tx, left_by))
    if left is None or not left.offset:
        return None
    found = left
    if swap is not None and await asyncio.to_thread(_is_there, path, swap):
        found = replace(swap.after, upto=left.upto, ahead=left.ahead)
    elif not await asyncio.to_thread(file_position.continues, path, left):
        return None

    async def work(tx: Tx) -> Place | None:
        if await kept_place(tx, left_by) != left or await kept_place(tx, member) is not None:
            return None
        await _keep(tx, member, found)
        await tx.execute(Q.drop_tail, member=left_by)
        await events.put_setting(tx, _announced_under(left_by), "")
        return found

    return await store.write(work)


async def forget(tx: Tx, member: str) -> None:
    """The member is gone: whoever has its name next may have another file, and begins in that one. Its place is kept
    aside for who comes with this file (`adopt`). A daemon that still lives goes on from what it has in memory."""
    place, swap = await kept_place(tx, member), await events.setting(tx, _announced_under(member))
    if place is not None:
        aside = _FORGOTTEN + member
        await _keep(tx, aside, place)
        await events.put_setting(tx, _announced_under(aside), swap or "")
    await tx.execute(Q.drop_tail, member=member)
    await events.put_setting(tx, _announced_under(member), "")


async def begin_anew(tx: Tx, member: str, here: Place, fresh: Place, *, now: float) -> None:
    """The file is not the one that was read to `here`: what is in it now is history, and the room hears it.

    `fresh`: the place at its beginning. Raises PlaceMoved.
    """
    await move(tx, member, here, fresh)
    whose = f" of {member}" if member else ""
    text = (
        f"The transcript file{whose} was replaced or cut. What is in it now is shown as history and starts no work; "
        "new lines are read as usual."
    )
    await ledger.say(tx, text, now=now, meta={"notice": "transcript_replaced"})
