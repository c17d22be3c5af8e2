"""The room for agents and people that call an operation, with or without a daemon: post, read, and who is here.

Invariants:
- an entry and its event on its author's lane commit together. A daemon appends it to the transcript file, at once or
  when it next runs;
- an entry's clock holds what its author was shown: what the session read here, and what it replies to;
- an agent's entry gives turns by the rule of an agent's answer (`room.agent_mentions`, the hop limit), a person's
  entry by the rule of a person's message. A caller is a person by its credential, never by its own word.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from relay.log.encoding import dumps, loads
from relay.log.events import Lane
from relay.model import Caller, Fault, Holds, Kind, Message, Refusal
from relay.model.messages import checked_body
from relay.room.dispatch.roster import Roster
from relay.room.journal import hop_limit, ledger, pages
from relay.room.journal.admitting import admit
from relay.room.journal.agent_mentions import pass_on
from relay.room.journal.ledger import NewMessage, Q
from relay.room.journal.routing_notes import NOBODY, Present, why
from relay.room.journal.speakers import spoke
from relay.room.journal.values import message_of_row
from relay.room.journal.visitors import people, reached, refuse_posing, visitors
from relay.store.ports import Row, Store, Tx

Json = dict[str, Any]

#: How many of the entries that a session read its next entry names as seen. Their clocks cover most of the rest.
MOST_SEEN = 50


class Callers:
    """The room for callers of an operation."""

    def __init__(self, store: Store, roster: Roster, holds: Holds) -> None:
        self._store, self._roster, self._holds = store, roster, holds

    async def post(
        self, caller: Caller, body: str, *, in_reply_to: str | None = None, client_id: str | None = None
    ) -> Json:
        """An entry of the caller; on disk, with all that it opens, when this returns. Raises Refusal.

        `{success, id, number, cursor, asked, why?}`: `asked` are the agents that get a turn for it, `why` says in
        sentences why nobody does, or not everybody whom it names, or not now.
        """
        text = checked_body(body, self._roster.rules.max_entry_bytes, fix_empty="Say something in body.")

        async def work(tx: Tx) -> Json:
            known = await _known(tx, caller, client_id)
            if known is not None:
                jobs = await tx.all(Q.jobs_of_message, message_id=known.id)
                place = known.in_reply_to
                reply = None if place is None else await tx.one(Q.message, id=place)
                return await self._posted(tx, caller, known, reply, [row["agent"] for row in jobs])
            reply = await _replied(tx, in_reply_to)
            make = self._person if _is_person(caller) else self._agent
            message, asked = await make(tx, caller, text, reply, client_id)
            return await self._posted(tx, caller, message, reply, asked)

        return await self._store.write(work, durable=True)

    async def _posted(
        self, tx: Tx, caller: Caller, message: Message, reply: Row | None, asked: Sequence[str]
    ) -> Json:
        answer = {
            "success": True,
            "id": message.id,
            "number": message.number,
            "cursor": str(message.cursor),
            "asked": list(asked),
        }
        reason = why(
            message.body,
            asked,
            self._roster.rules,
            speaker=caller.agent,
            person=_is_person(caller),
            number=message.number,
            to_advisory=reply is not None and reply["kind"] == Kind.ADVISORY,
            away=await self._away(tx) if asked else None,
            present=await self._present(tx) if "@" in message.body else NOBODY,
        )
        return answer if reason is None else answer | {"why": reason}

    async def _present(self, tx: Tx) -> Present:
        sessions = await self._holds.sessions(tx)
        present_visitors = visitors(sessions, self._roster.names)
        names = [visitor.name for visitor in present_visitors]
        return Present(names, people(sessions, await spoke(tx)), reached(present_visitors))

    async def _away(self, tx: Tx) -> dict[str, str]:
        """Which agents take no turn up now, and what becomes of one (`queue.claim_next_dispatch`)."""
        open_ones = [row["agent"] for row in await tx.all(Q.breakers) if row["state"] == "open"]
        away = dict.fromkeys(open_ones, "failed several times in a row, so its turn may be skipped")
        paused = [row["name"] for row in await tx.all(Q.agents) if row["paused"]]
        away |= dict.fromkeys(paused, "is paused, so its turn waits for `/resume`")
        off = [member.name for member in self._roster.members.values() if not member.enabled]
        return away | dict.fromkeys(off, "is switched off, so its turn is skipped")

    async def _person(
        self, tx: Tx, caller: Caller, body: str, reply: Row | None, client_id: str | None
    ) -> tuple[Message, Sequence[str]]:
        new = NewMessage(
            caller.agent,
            Kind.HUMAN,
            body,
            await tx.now(),
            parents=[reply["event_id"]] if reply else (),
            in_reply_to=reply["id"] if reply else None,
            client_id=client_id,
        )
        refuse_posing(caller.agent, people(await self._holds.sessions(tx)))
        present = await self._present(tx) if "@" in body else NOBODY
        message = await admit(
            *(tx, new, self._roster.rules),
            visitors=present.visitors,
            attached=present.attached,
            people=present.people,
        )
        await hop_limit.reset(tx)
        jobs = await tx.all(Q.jobs_of_message, message_id=message.id)
        return message, [row["agent"] for row in jobs]

    async def _agent(
        self, tx: Tx, caller: Caller, body: str, reply: Row | None, client_id: str | None
    ) -> tuple[Message, Sequence[str]]:
        now, rules = await tx.now(), self._roster.rules
        mark = await tx.one(Q.read_mark, agent=caller.agent, session=caller.session)
        message, event = await ledger.put_message(
            tx,
            NewMessage(
                caller.agent,
                Kind.AGENT,
                body,
                now,
                lane=Lane(caller.session, caller.agent),
                parents=[reply["event_id"]] if reply else (),
                causal_deps=loads(mark["seen"]) if mark else (),
                in_reply_to=reply["id"] if reply else None,
                meta={"session": caller.session},
                client_id=client_id,
            ),
        )
        if mark is not None and mark["seen"] != "[]":
            # They are in the lane's clock from here on.
            await _mark(tx, caller, mark["upto"], [])
        # What an agent says to an advisory sets nobody to work.
        if not rules.agent_mentions or (reply is not None and reply["kind"] == Kind.ADVISORY):
            return message, ()
        attached = (await self._present(tx)).attached if "@" in body else {}
        names = (*rules.agents, *attached)
        return message, await pass_on(tx, message, event.id, names=names, hop_limit=rules.hop_limit, now=now)

    async def read(
        self, caller: Caller, *, cursor: str | None = None, limit: int = 50, to_me: bool = False
    ) -> Json:
        """`{entries, next, more}`: behind the cursor, or the newest; oldest first; `more`: there is more at `next`.
        It counts as seen. `to_me`: only what names the caller, is addressed to it or answers it."""
        after = None if cursor is None else int(cursor)
        if to_me:
            page = await self._store.read(
                lambda tx: pages.addressed(tx, caller.agent, after=after, limit=limit)
            )
        else:
            page = await self._store.read(lambda tx: pages.page(tx, after=after, before=None, limit=limit))
        others = [message for message in page.entries if message.speaker != caller.agent]
        if others and not _is_person(caller):
            # A page of what is addressed to the caller leaves entries out, which it has not seen.
            await self._seen(caller, others, 0 if to_me else page.next)
        return {
            "entries": [message.as_json() for message in page.entries],
            "next": str(page.next),
            # Without a cursor the page ends at the newest; what it has more of lies before it.
            "more": page.more and after is not None,
        }

    async def _seen(self, caller: Caller, entries: Sequence[Message], upto: int) -> None:
        ids = [message.id for message in entries[-MOST_SEEN:]]

        async def work(tx: Tx) -> None:
            mark = await tx.one(Q.read_mark, agent=caller.agent, session=caller.session)
            event_ids = {
                row["id"]: row["event_id"] for row in await tx.all(Q.events_of_messages, ids=dumps(ids))
            }
            seen = [
                *(loads(mark["seen"]) if mark else ()),
                *(event_ids[id] for id in ids if id in event_ids),
            ]
            newest = list(dict.fromkeys(reversed(seen)))[:MOST_SEEN][::-1]
            await _mark(tx, caller, max(upto, mark["upto"] if mark else 0), newest)

        if not upto or await self._store.read(lambda tx: _news(tx, caller, entries[-1])):
            await self._store.write(work)

    async def present(self) -> Json:
        """`{agents, visitors, people}`: those of the configuration, as far as the database knows how they stand;
        VISITOR of each that works on its own; the names of the persons who are connected, or spoke of late."""

        async def work(tx: Tx) -> Json:
            sessions = await self._holds.sessions(tx)
            present_visitors = visitors(sessions, self._roster.names)
            return {
                "agents": await self._agents(tx),
                "visitors": [visitor.as_json() for visitor in present_visitors],
                "people": list(people(sessions, await spoke(tx))),
            }

        return await self._store.read(work)

    async def _agents(self, tx: Tx) -> list[Json]:
        states = {row["name"]: row for row in await tx.all(Q.agents)}
        breakers = {row["agent"]: row["state"] for row in await tx.all(Q.breakers)}
        waiting = {row["agent"]: row["waiting"] for row in await tx.all(Q.open_counts)}
        working = {row["agent"] for row in await tx.all(Q.active_jobs)}
        return [
            {
                "name": member.name,
                "kind": member.kind,
                "preset": member.preset,
                "model": member.model,
                "enabled": member.enabled,
                "paused": bool(member.name in states and states[member.name]["paused"]),
                "breaker": breakers.get(member.name, "closed"),
                "working": member.name in working,
                "queued": waiting.get(member.name, 0),
            }
            for member in self._roster.members.values()
        ]


def _is_person(caller: Caller) -> bool:
    """A person's credential may also speak for a program, which then is an agent."""
    return caller.person and caller.agent_type == "person"


async def _news(tx: Tx, caller: Caller, newest: Message) -> bool:
    """Whether the session has not read this far yet. A session that asks again and again writes nothing."""
    mark = await tx.one(Q.read_mark, agent=caller.agent, session=caller.session)
    return mark is None or mark["upto"] < newest.cursor


async def _mark(tx: Tx, caller: Caller, upto: int, seen: Sequence[str]) -> None:
    await tx.execute(
        Q.put_read_mark, agent=caller.agent, session=caller.session, upto=upto, seen=dumps(list(seen))
    )


async def _known(tx: Tx, caller: Caller, client_id: str | None) -> Message | None:
    """The entry that this client_id has made already."""
    row = await tx.one(Q.message_by_client, client_id=client_id) if client_id is not None else None
    if row is None:
        return None
    if row["speaker"] != caller.agent:
        raise Refusal(
            "Another sender has used this client_id.",
            "Send a UUID of your own.",
            Fault.REFUSED,
            "client_id_taken",
        )
    return message_of_row(row)


async def _replied(tx: Tx, place: str | None) -> Row | None:
    """The entry of this id or number. Raises Refusal when there is none."""
    if place is None:
        return None
    row = await pages.row_at(tx, place.strip())
    if row is None:
        raise Refusal(
            f"There is no message {place[:60]} to reply to.",
            "read_room shows ids and numbers.",
            Fault.UNKNOWN,
        )
    return row
