"""What the lines of a member's transcript become: entries of the room, each once, and notices.

Invariants:
- a line proves nobody: it counts as a person's at most, marked unverified, and it opens nothing in the name of an
  agent or of the room;
- a line whose entry the room has is not admitted again. It stands for that entry where it says the same;
- every function runs in the caller's transaction.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from relay.log.encoding import dumps
from relay.log.events import Lane
from relay.model import Kind, Message
from relay.model.speaker_names import is_reserved
from relay.room.dispatch.roster import Roster
from relay.room.journal import admitting, ledger
from relay.room.journal.ledger import NewMessage, Q
from relay.room.parsing.line_format import Entry, Junk, Parsed, Plain, Reason
from relay.room.transcript.file_position import Line
from relay.room.transcript.standing import Standing
from relay.store.ports import Tx

_QUIET = (Reason.BLANK, Reason.EMPTY)


@dataclass(frozen=True, slots=True)
class Notice:
    """Something about the file that the room is told once. `what` is the notice's kind."""

    text: str
    what: str


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a line is from. `history`: it was there before the room read this file; `by_an_agent`: an agent may have
    written it."""

    history: bool
    by_an_agent: bool


@dataclass(slots=True)
class _Run:
    """Lines that follow each other and open nothing but cycles: they are put together, in a few statements."""

    lines: list[Line] = field(default_factory=list)
    news: list[NewMessage] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)
    digests: set[str] = field(default_factory=set)

    def add(self, line: Line, new: NewMessage) -> None:
        self.lines.append(line)
        self.news.append(new)
        self.ids.add(new.id)
        if new.plain_digest:
            self.digests.add(new.plain_digest)


class Admission:
    """Takes the lines of one file into the room. `name`: what the room calls the file; `in_order`: the file follows
    the log's order."""

    def __init__(self, roster: Roster, name: str, clock: Callable[[], float], *, in_order: bool) -> None:
        self._roster, self._name, self._clock, self._in_order = roster, name, clock, in_order
        self._max_entry_bytes = roster.rules.max_entry_bytes

    async def admit(
        self, tx: Tx, group: Sequence[tuple[Line, Parsed | None, Origin]], standing: Standing
    ) -> tuple[int, list[Notice]]:
        """Admit what is new of these lines; how many are, and what is to be said of the others. `standing` says
        afterwards what stands in the file."""
        known = await _known(tx, [entry.id for _, entry, _ in group if isinstance(entry, Entry)])
        notices: list[Notice] = []
        admitted = junk = forged = 0
        run = _Run()
        # An agent's processes all end with its turn.
        working, now = bool(await tx.all(Q.active_jobs)), self._clock()

        async def put() -> None:
            nonlocal run
            for line, message in zip(run.lines, await self._put(tx, run.news, now), strict=True):
                standing.put(message.number, line.start, line.size)
                known[message.id] = message
            run = _Run()

        for line, entry, origin in group:
            # What stands in the file is told in the order of its lines.
            if run.news and isinstance(entry, Entry) and (entry.id in known or entry.id in run.ids):
                await put()
            if entry is None:
                notices.append(self._too_large(line))
            elif isinstance(entry, Junk):
                junk += entry.reason not in _QUIET and not origin.history
            elif isinstance(entry, Entry) and entry.id in known:
                its = known[entry.id]
                if (its.speaker, its.body) != (entry.speaker, entry.body):
                    forged += not origin.history
                    standing.drop(line.start, line.size)
                elif its.kind is entry.kind or standing.has(its.number):
                    standing.put(its.number, line.start, line.size)
                else:
                    standing.drop(line.start, line.size)
            elif self._is_too_large(entry.body):
                notices.append(self._too_large(line))
            else:
                new = self._new(entry, origin, now)
                if origin.history and new.plain_digest:
                    if new.plain_digest in run.digests:
                        await put()
                    if rows := await tx.all(Q.plain_known, plain_digest=new.plain_digest):
                        await put()
                        _stands(standing, line, [row["number"] for row in rows])
                        continue
                admitted += 1
                what = await self._opening(tx, new, origin, origin.by_an_agent or working)
                if what is None or (what.routes and not what.slip):
                    run.add(line, replace(new, routes=what is not None))
                    continue
                await put()
                message = await admitting.admit_as(tx, new, what, self._roster.rules)
                standing.put(message.number, line.start, line.size)
                known[message.id] = message
        await put()
        return admitted, [*notices, *self._of_lines(forged, junk)]

    def _of_lines(self, forged: int, junk: int) -> list[Notice]:
        notices = []
        if forged:
            what = "a line that changes" if forged == 1 else f"{forged} lines that change"
            notices.append(
                Notice(
                    f"{self._name} has {what} the text or the speaker of an entry that the room already has. "
                    "The room keeps its own version.",
                    "transcript_forged",
                )
            )
        if junk:
            what, them, stay = (
                ("a line", "it", "It stays") if junk == 1 else (f"{junk} lines", "them", "They stay")
            )
            notices.append(
                Notice(
                    f"The room left out {what} of {self._name}, since it is not clear who wrote {them}. {stay} "
                    "in the file. A message begins with `[NAME] `.",
                    "transcript_junk",
                )
            )
        return notices

    def _too_large(self, line: Line) -> Notice:
        return Notice(
            f"An entry of {line.size:,} bytes in the transcript was refused: the largest is "
            f"{self._max_entry_bytes:,} (`workspace.max_entry_bytes`). Put it into a file and name its path.",
            "entry_too_large",
        )

    def _is_too_large(self, body: str) -> bool:
        most = self._max_entry_bytes
        return len(body) > most or (4 * len(body) > most and len(body.encode("utf-8", "replace")) > most)

    def _new(self, entry: Entry | Plain, origin: Origin, at: float) -> NewMessage:
        meta: dict[str, Any] = {"unverified": True}
        if entry.damaged:
            meta["damaged"] = True
        if origin.history:
            meta["history"] = True
        # Not the person's own lane: that one holds what was proven to be theirs.
        lane = Lane(ledger.ROOM, f"unverified:{entry.speaker}")
        kind = Kind.HUMAN if isinstance(entry, Plain) else entry.kind
        if is_reserved(entry.speaker, self._roster.rules.agents) or kind is not Kind.HUMAN:
            # Who really wrote it is unknown; it is shown, and it speaks for nobody. In a replaced or imported
            # file the room's own old entries look just like this, and keep their kind.
            meta["claims"] = entry.speaker
            kind = kind if origin.history else Kind.HUMAN
        if isinstance(entry, Plain):
            digest = hashlib.sha256(f"{entry.speaker}\0{entry.body}".encode()).hexdigest()[:24]
            return NewMessage(entry.speaker, kind, entry.body, at, lane=lane, meta=meta, plain_digest=digest)
        ts = entry.ts if origin.history else ""
        return NewMessage(
            *(entry.speaker, kind, entry.body, at),
            id=entry.id,
            ts=ts,
            lane=lane,
            in_reply_to=entry.in_reply_to,
            meta=meta,
        )

    async def _opening(
        self, tx: Tx, new: NewMessage, origin: Origin, by_an_agent: bool
    ) -> admitting.Opening | None:
        """What an entry opens; None: it is only shown."""
        if origin.history or "claims" in new.meta:
            return None
        return await admitting.opening(tx, new, self._roster.rules, by_an_agent=by_an_agent)

    async def _put(self, tx: Tx, news: Sequence[NewMessage], now: float) -> Sequence[Message]:
        if not news:
            return ()
        messages = await ledger.put_messages(tx, news)
        routed = [message for message, new in zip(messages, news, strict=True) if new.routes]
        if routed:
            await ledger.open_cycles(tx, routed, self._roster.rules, now=now, newest=messages[-1].number)
        return messages


async def _known(tx: Tx, ids: Sequence[str]) -> dict[str, Message]:
    rows = await tx.all(Q.messages_by_ids, ids=dumps(list(ids))) if ids else ()
    return {row["id"]: ledger.as_written(row) for row in rows}


def _stands(standing: Standing, line: Line, numbers: Sequence[int]) -> None:
    """A plain line of a file that is read once more, as one of the room's entries that were plain lines like it."""
    if due := [number for number in numbers if not standing.has(number)]:
        standing.put(due[0], line.start, line.size)
