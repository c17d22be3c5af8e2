"""What the members of a fleet tell each other of the airspace: each its own agents' work, the leader what it saw.

Invariant: a row is written when it changed, by whose it is: a member's by its own daemon, the picture by the leader,
whose writes are fenced (relay/store/fence.py). What is written anew has another version, so a reader takes only what
is new.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from relay.log.encoding import dumps, loads
from relay.store.ports import Queries, Tx

Q = Queries(Path(__file__).parent)
#: A row by the member and the agent.
Key = tuple[str, str]


async def tell(tx: Tx, member: str, works: Mapping[str, Any], gone: Collection[str]) -> None:
    """Tell what these agents of a member have in hand now, and that those that are `gone` have nothing any more."""
    for agent, work in works.items():
        await tx.execute(Q.put_work, member=member, agent=agent, work=dumps(work))
    for agent in gone:
        await tx.execute(Q.drop_work, member=member, agent=agent)


async def told(tx: Tx, member: str) -> list[str]:
    """The agents of which this member has told."""
    return [row["agent"] for row in await tx.all(Q.told_agents, member=member)]


async def heard(tx: Tx, member: str, known: Mapping[Key, int]) -> tuple[dict[Key, int], dict[Key, Any]]:
    """The versions of all that the other members tell, and what of it is newer than what is known."""
    rows = await tx.all(Q.work_versions, member=member)
    versions = {(row["member"], row["agent"]): int(row["version"]) for row in rows}
    new = {}
    for key, version in versions.items():
        if known.get(key) != version:
            row = await tx.one(Q.work, member=key[0], agent=key[1])
            assert row is not None
            new[key] = loads(row["work"])
    return versions, new


async def changed_at(tx: Tx, agent: str) -> list[tuple[str, float]]:
    """The members that have work of this agent in hand, each with the time of its last change (Unix seconds)."""
    found = []
    for row in await tx.all(Q.works_of, agent=agent):
        work = loads(row["work"])
        if work["commit"] or work["files"]:
            # Work of which no file's time is known is as old as what was told of it.
            at = max((file["at"] for file in work["files"]), default=0.0) or row["version"] / 1e6
            found.append((row["member"], at))
    return found


async def put_picture(tx: Tx, picture: Mapping[str, Any]) -> None:
    """Show the other members what the leader saw."""
    await tx.execute(Q.put_picture, picture=dumps(dict(picture)))


async def picture(tx: Tx, known: int) -> tuple[int, Mapping[str, Any]] | None:
    """What the leader saw last, with its version; None when that is what is known."""
    row = await tx.one(Q.picture, known=known)
    return None if row is None else (int(row["version"]), loads(row["picture"]))
