"""Put a person's message into the room.

Invariants: a message is on disk, with all that it opens, when `post` returns. Nobody posts under the name of an agent
or of the room, or under one that reads like the name of somebody who is here.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import structlog

from relay.model import RESERVED_NAMES, Fault, Holds, Kind, Message, Refusal
from relay.model.actions import Action
from relay.model.messages import check_client_id, checked_body
from relay.model.speaker_names import clean_name, is_reserved
from relay.room.dispatch.roster import Roster
from relay.room.journal import hop_limit
from relay.room.journal.admitting import admit
from relay.room.journal.ledger import NewMessage, Q
from relay.room.journal.live_bus import Live
from relay.room.journal.pages import IDS_FIX
from relay.room.journal.values import message_of_row
from relay.room.journal.visitors import Visitor, reached, refuse_posing, visitors
from relay.store.ports import Store, StoreBusy, StoreMoved, Tx

log = structlog.get_logger(__name__)
#: Seconds for which the room is unhealthy after a message was refused, unless one is accepted before.
REFUSED_S = 15.0
Result = TypeVar("Result")


class Poster:
    """Writes what people say. `live` knows who is here, `holds` the sessions of visitors."""

    def __init__(
        self,
        store: Store,
        roster: Roster,
        live: Live,
        holds: Holds,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store, self._roster, self._live, self._holds, self._clock = store, roster, live, holds, clock
        self._refused: tuple[float, str] | None = None

    @property
    def trouble(self) -> str:
        """Why a message was refused a moment ago; empty when none was."""
        if self._refused is None or time.monotonic() - self._refused[0] >= REFUSED_S:
            return ""
        return self._refused[1]

    async def post(
        self,
        body: str,
        *,
        name: str,
        in_reply_to: str | None = None,
        client_id: str | None = None,
        verified: bool = True,
        action: Action | None = None,
        id: str = "",
        also: Callable[[Tx, Message], Awaitable[None]] | None = None,
    ) -> Message:
        """A person's message; on disk, with all that it opens, when this returns. `action`: what an interface orders
        by it; `id`: the message's, empty = a new one; `also`: what else is written in its transaction."""
        speaker = self.person(name)
        body = checked_body(body, self._roster.rules.max_entry_bytes, fix_empty="Write something.")
        check_client_id(client_id)

        async def work(tx: Tx) -> Message:
            if client_id is not None:
                known = await tx.one(Q.message_by_client, client_id=client_id)
                if known is not None:
                    return message_of_row(known)
            cause = None
            if in_reply_to is not None:
                cause = await tx.one(Q.event_of_message, id=in_reply_to)
                if cause is None:
                    raise Refusal(
                        f"There is no message {in_reply_to[:60]} to reply to.", IDS_FIX, Fault.UNKNOWN
                    )
            new = NewMessage(
                speaker,
                Kind.HUMAN,
                body,
                self._clock(),
                id=id,
                action=action,
                parents=[cause["event_id"]] if cause else (),
                in_reply_to=in_reply_to,
                client_id=client_id,
                meta={} if verified else {"unverified": True},
            )
            present = await self._visitors(tx) if "@" in body else ()
            admitted = await admit(
                tx,
                new,
                self._roster.rules,
                by_an_agent=not verified and bool(await tx.all(Q.active_jobs)),
                visitors=[visitor.name for visitor in present],
                attached=reached(present),
                people=self._live.people,
            )
            if verified:
                await hop_limit.reset(tx)
            if also is not None:
                await also(tx, admitted)
            return admitted

        return await self.write(work, durable=True)

    async def _visitors(self, tx: Tx) -> tuple[Visitor, ...]:
        return visitors(await self._holds.sessions(tx), self._roster.names)

    def person(self, name: str) -> str:
        """The name a person may post under. Raises Refusal: unusable or reserved."""
        try:
            clean = clean_name(name)
        except ValueError as error:
            raise Refusal(str(error), "Take another name.", Fault.MALFORMED) from None
        if is_reserved(clean, [*self._roster.names, *RESERVED_NAMES]):
            raise Refusal(
                f"{clean} is the name of an agent or of the room; nobody posts under it.",
                "Choose a name of your own.",
                Fault.FORBIDDEN,
                "reserved",
            )
        refuse_posing(clean, self._live.people)
        return clean

    async def write(
        self, work: Callable[[Tx], Coroutine[Any, Any, Result]], *, durable: bool = False
    ) -> Result:
        """Run a transaction of a person. Raises Refusal (busy, unavailable) where the store raises."""
        try:
            result = await self._store.write(work, durable=durable)
        except (StoreBusy, self._store.transient) as error:
            text = f"The database cannot take it now: {error}"
            if self._refused is None:
                log.warning("messages are refused", error=str(error))
            self._refused = time.monotonic(), text
            if isinstance(error, StoreMoved):
                raise Refusal(text, f"Nothing was posted. {error.fix}", Fault.UNAVAILABLE) from error
            raise Refusal(text, "Nothing was posted; send it again.", Fault.BUSY) from error
        if self._refused is not None:
            # Logged now too: on a full disk the first line had no room.
            log.warning("messages are taken again", refused_with=self._refused[1])
            self._refused = None
        return result
