"""Who may read which knowledge (003, section 7.6).

Invariant: an entry, each of its words, its files and what is counted of it have an audience, and every statement that
an agent's question runs asks for the audiences of that agent. So nothing is read first and left out afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from relay.log.encoding import dumps
from relay.memory.knowledge.entry import PUBLIC, Access, Visibility
from relay.store.ports import Queries, StoreError, Tx

FOLDER = Path(__file__).parent
Q = Queries(FOLDER)
#: The audience of what everybody may read.
EVERYBODY = 0
#: That of what was forgotten; it has no readers.
NOBODY = -1


async def audience_of(tx: Tx, owner: str, access: Access) -> int:
    """The audience of what this owner shows so; made when it is the first such entry. The same entries in the same
    order give the same numbers."""
    if access == PUBLIC or access.visibility is Visibility.PUBLIC:
        return EVERYBODY
    key = {"agent": owner, "visibility": str(access.visibility), "names": dumps(list(access.names))}
    row = await tx.one(Q.audience, **key)
    if row is None:
        await tx.execute(Q.put_audience, **key)
        row = await tx.one(Q.audience, **key)
        if row is None:
            raise StoreError("the database did not keep who may read an entry")
        await tx.execute(Q.put_readers, audience=row["audience"], readers=dumps(list(access.readers(owner))))
    audience: int = row["audience"]
    return audience


async def put_roles(tx: Tx, roles: Mapping[str, str]) -> None:
    """The roles of the agents from now on, by name."""
    await tx.execute(Q.clear_roles)
    rows = [{"agent": agent, "role": role} for agent, role in sorted(roles.items())]
    await tx.execute(Q.put_roles, roles=dumps(rows))
