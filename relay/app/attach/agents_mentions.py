"""An agent's entry that names a person's own session is for that session (docs/attach.md).

Invariant: the session is told it once, with its next prompt or at the end of its turn; nobody is set to work by it.
"""

from __future__ import annotations

from relay.app.attach.told_messages import tell
from relay.base.durations import parse_iso
from relay.coordination import attached
from relay.log.events import Event
from relay.model import Kind
from relay.room.journal import ledger
from relay.room.parsing.mentions import mentions
from relay.store.ports import Tx

#: Seconds after which an entry is none for those who are here now.
RECENT_S = 600.0


class AgentsMentions:
    """A follower of the log (`relay.log.follow`)."""

    name = "attached-mentions"
    reads = frozenset({ledger.POSTED})
    emits = frozenset({ledger.QUEUED})

    async def apply(self, tx: Tx, event: Event) -> None:
        said = (event.outputs or {}).get("message") or {}
        if said.get("kind") != Kind.AGENT or "@" not in said.get("body", ""):
            return
        if await tx.now() - parse_iso(event.at) > RECENT_S:
            return  # a follower that begins anew: who is here now was not meant
        here = [session.agent for session in await attached.here(tx) if session.agent != said["speaker"]]
        named = mentions(said["body"], (), also=here)
        message = await ledger.message(tx, said["id"]) if named else None
        if message is not None:
            await tell(tx, message, event.id, named)
