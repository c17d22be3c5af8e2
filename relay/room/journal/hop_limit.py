"""The hop limit: how often agents may get a turn without a person.

Invariant: each turn that no verified person asked for is counted, whether an agent's mention asks for it or a line
that was appended to the file, which an agent can do as well as anybody. Beyond the limit nothing is lost: the message
is held and waits for `/continue`.

Lines that arrive before any agent has worked again are one hop: a person who writes five lines at once has not talked
five times with an agent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from relay.log import events
from relay.log.encoding import dumps, loads
from relay.store.ports import Queries, Tx

Q = Queries(Path(__file__).parents[1])
#: Turns that nobody verified has asked for since a person spoke, and whether an agent worked since the last.
_COUNT = "hops"
_WORKED = "hops_worked"


@dataclass(frozen=True, slots=True)
class HeldMessage:
    """A message that the limit holds. `agents` are those it mentions; none: it opens a cycle."""

    message_id: str
    agents: tuple[str, ...]


async def reset(tx: Tx) -> None:
    """A verified person spoke: the count begins anew."""
    await events.put_setting(tx, _COUNT, "0")


async def take(tx: Tx, limit: int) -> bool:
    """Count one more; False, with nothing counted, when there were `limit` already."""
    count = int(await events.setting(tx, _COUNT) or "0") + 1
    if count > limit:
        return False
    await events.put_setting(tx, _COUNT, str(count))
    return True


async def take_line(tx: Tx, limit: int) -> bool:
    """`take` for a line that no verified person wrote."""
    count = int(await events.setting(tx, _COUNT) or "0")
    if count and count <= limit and await events.setting(tx, _WORKED) == "0":
        return True
    if not await take(tx, limit):
        return False
    await events.put_setting(tx, _WORKED, "0")
    return True


async def worked(tx: Tx) -> None:
    """An agent's turn begins."""
    await events.put_setting(tx, _WORKED, "1")


async def hold(tx: Tx, message_id: str, agents: Sequence[str]) -> bool:
    """Keep a message for `/continue`. True when it is the first, and the room has to be told."""
    first = await tx.one(Q.any_held) is None
    await tx.execute(Q.hold, message_id=message_id, agents=dumps(list(agents)))
    return first


async def release(tx: Tx) -> list[HeldMessage]:
    """Take all held messages, oldest first; none is held any more."""
    rows = await tx.all(Q.held)
    await tx.execute(Q.release_held)
    return [HeldMessage(row["message_id"], tuple(loads(row["agents"]))) for row in rows]
