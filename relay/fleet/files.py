"""The way of a message's file from a member that has it to one that needs it: through the database, in parts, since
members know of each other by nothing else (docs/entries.md).

Invariant: a file stands in the database only while a member waits for it. Who asked takes it out, at its next start
at the latest.
"""

from __future__ import annotations

import base64

from relay.fleet.members import PART, WANTED, Q, members, tell
from relay.log import events
from relay.store.ports import Tx

#: Bytes of a part: each is a write of its own, between which the others write.
PART_BYTES = 512 * 1024
#: The setting which says where a file was sent to. That of who waits for one is "", and then the number of its parts.
_AT = "fleet_file_at:"


async def put_at(tx: Tx, id: str, member: str) -> None:
    """The file was sent to this member."""
    await events.put_setting(tx, f"{_AT}{id}", member)


async def at(tx: Tx, id: str) -> str:
    """The member that the file was sent to; "" = it is not known."""
    return await events.setting(tx, f"{_AT}{id}") or ""


async def forget(tx: Tx, id: str) -> None:
    """The file was removed."""
    await tx.execute(Q.forget_files, prefix=f"{_AT}{id}")


async def want(tx: Tx, id: str, member: str) -> None:
    """This member waits for the file."""
    await events.put_setting(tx, f"{WANTED}{member}:{id}", "")
    await _wake(tx, member)


async def wanted(tx: Tx) -> list[tuple[str, str]]:
    """The files that members wait for, and that nobody has given yet: the member and the id."""
    names = [row["name"].removeprefix(WANTED) for row in await tx.all(Q.files_wanted)]
    return [(member, id) for member, _, id in (name.rpartition(":") for name in names)]


async def put_part(tx: Tx, id: str, member: str, number: int, data: bytes) -> None:
    """A part of what this member waits for, from 0 on. One statement."""
    value = base64.b64encode(data).decode()
    await tx.one(Q.put_file_part, name=f"{PART}{member}:{id}:{number}", value=value)


async def give(tx: Tx, id: str, member: str, parts: int, by: str) -> None:
    """All parts are there, from the member `by`. Nothing stays where nobody waits any more."""
    if await tx.execute(Q.give_file, name=f"{WANTED}{member}:{id}", parts=str(parts)):
        await _wake(tx, by)
    else:
        await tx.execute(Q.forget_files, prefix=f"{PART}{member}:{id}:")


async def given(tx: Tx, id: str, member: str) -> int | None:
    """In how many parts the file is there for this member; None = it is not yet."""
    parts = await events.setting(tx, f"{WANTED}{member}:{id}")
    return int(parts) if parts else None


async def part(tx: Tx, id: str, member: str, number: int) -> bytes:
    """A part of the file; empty where it is not there."""
    return base64.b64decode(await events.setting(tx, f"{PART}{member}:{id}:{number}") or "")


async def stop_wanting(tx: Tx, member: str, id: str = "") -> None:
    """This member waits for the file no more; "" = for none."""
    for kind in (WANTED, PART):
        await tx.execute(Q.forget_files, prefix=f"{kind}{member}:{id}")


async def _wake(tx: Tx, name: str) -> None:
    known = next((member for member in await members(tx) if member.name == name), None)
    if known is not None:
        await tell(tx, known, "files")
