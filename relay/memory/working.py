"""Working memory: what an agent holds ready in one session, within a budget of tokens.

Invariants:
- a note belongs to one agent in one session, and no other caller reads or writes it;
- every content that was stored is in the log, whole (but for keys and tokens, which are masked), whatever became of
  it here; `removed` names the newest of those events;
- after a store all of it fits the budget, and what is critical and what is newest stand word for word. Where these
  alone are above it, the store is refused and changes nothing;
- no transaction waits for a model.

(004, "Working Memory".)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from relay.base.secret_text import masked
from relay.base.terminal_text import flat, lines, safe
from relay.log import events
from relay.log.events import Event, Lane, NewEvent
from relay.memory.compression import Note, due, fitted, fixed, total
from relay.model import Caller, Json, Refusal
from relay.model.validation import malformed, text, unsecret
from relay.store.ports import Queries, Row, Store, Tx, of_row

FOLDER = Path(__file__).parent
Q = Queries(FOLDER)
#: Both are private (`relay.model.names.PRIVATE_EVENTS`).
STORED = "working.stored"
COMPRESSED = "working.compressed"
MOST_CONTENT = 1_048_576
MOST_KEY = 200
#: Notes of a session; and shortened or left out ones whose events are named, the newest, since each id costs its
#: reader what a sentence does.
MOST_NOTES, MOST_REMOVED = 1000, 100

#: Short forms of these notes by event id, as far as they came in time (`relay.memory.summaries`).
Summarize = Callable[[Sequence[Note]], Awaitable[Mapping[str, str]]]


class Heartbeat(Protocol):
    """The heartbeat of a call (`relay.coordination.sessions`)."""

    async def touch(self, tx: Tx, caller: Caller) -> Any: ...


class WorkingMemory:
    """The working memories of the room's sessions. `budget`: tokens of one; `summarize`: a model's, None = none."""

    def __init__(
        self,
        store: Store,
        *,
        sessions: Heartbeat,
        budget: Callable[[], int],
        summarize: Summarize | None = None,
    ) -> None:
        self._store, self._sessions, self._budget, self._summarize = store, sessions, budget, summarize

    async def read(self, caller: Caller) -> Json:
        """`{success, items, tokens, budget, compressed, removed}` of the caller's session."""
        notes = await self._store.read(lambda tx: notes_of(tx, caller.agent, caller.session), actor=caller)
        return self._shown(notes)

    async def store(
        self, caller: Caller, content: str, *, critical: bool = False, key: str | None = None
    ) -> Json:
        """Store a note, and give all of them as `read` does. The same `key` replaces it where it stands; an empty
        content takes it away. Raises Refusal: MALFORMED; REFUSED `over_budget`, `too_many`, `unknown_key`."""
        content = masked(text(content, "content", MOST_CONTENT, least=0)).strip()
        key = None if key is None else unsecret(text(key, "key", MOST_KEY).strip(), "key")
        if not content and key is None:
            raise malformed("content", "`content` is empty.", "Say what to hold, or the `key` to take away.")
        short = await self._short_forms(caller, content, critical, key)

        async def work(tx: Tx) -> list[Note] | Refusal:
            await self._sessions.touch(tx, caller)
            try:
                return await self._put(tx, caller, content, critical, key, short)
            except Refusal as refusal:
                return refusal  # not raised: what the heartbeat wrote stays

        notes = await self._store.write(work, actor=caller)
        if isinstance(notes, Refusal):
            raise notes
        return self._shown(notes)

    async def _short_forms(
        self, caller: Caller, content: str, critical: bool, key: str | None
    ) -> Mapping[str, str]:
        """What a model makes of the notes that are to give way, before the transaction."""
        if self._summarize is None or not content:
            return {}
        notes = await self._store.read(lambda tx: notes_of(tx, caller.agent, caller.session), actor=caller)
        planned, _ = _with(notes, content, critical, key)
        if total(fixed(planned)) > self._budget():
            return {}
        wanted = due(planned, self._budget())
        return await self._summarize(wanted) if wanted else {}

    async def _put(
        self,
        tx: Tx,
        caller: Caller,
        content: str,
        critical: bool,
        key: str | None,
        short: Mapping[str, str],
    ) -> list[Note]:
        before, lane = await notes_of(tx, caller.agent, caller.session), Lane(caller.session, caller.agent)
        if not content:
            return await _take_away(tx, caller, before, str(key), lane)
        notes, note = _with(before, content, critical, key)
        budget = self._budget()
        _check(notes, budget)
        said = {"key": note.key, "place": note.place, "content": content, "critical": critical}
        event = await events.append(tx, NewEvent(STORED, lane, outputs={"note": said}))
        placed = {"stored": event.pos, "event_id": event.id, "now": await tx.now()}
        await tx.execute(Q.put_note, **caller.ids, **{**said, "critical": int(critical)}, **placed)
        notes = [_placed(each, event) if each.place == note.place else each for each in notes]
        return await _fit(tx, caller, notes, event, budget, short)

    def _shown(self, notes: Sequence[Note]) -> Json:
        held = [note for note in notes if note.content]
        removed = sorted((note for note in notes if note.compressed), key=lambda note: note.stored)
        return {
            "success": True,
            "items": [
                {
                    "key": note.key,
                    "content": note.content,
                    "critical": note.critical,
                    "compressed": note.compressed,
                }
                for note in held
            ],
            "tokens": total(held),
            "budget": self._budget(),
            "compressed": bool(removed),
            "removed": [note.event_id for note in removed[-MOST_REMOVED:]],
        }


def _check(notes: Sequence[Note], budget: int) -> None:
    """Raises Refusal where what stays word for word is too much, or there are too many notes."""
    stays = total(fixed(notes))
    if stays > budget:
        critical = total(note for note in notes if note.critical)
        message = (
            f"What is critical and this note would be {stays:,} tokens; the working memory has {budget:,}."
        )
        fix = "Shorten it, or store notes that are no longer critical again: under their `key`, without `critical`."
        details = {"tokens": stays, "critical_tokens": critical, "budget": budget}
        raise Refusal(message, fix, code="over_budget", details=details)
    if sum(bool(note.content) for note in notes) > MOST_NOTES:
        fix = "Take notes away: their `key` with an empty `content`."
        raise Refusal(f"A working memory has {MOST_NOTES} notes at most.", fix, code="too_many")


async def _fit(
    tx: Tx, caller: Caller, notes: Sequence[Note], event: Event, budget: int, short: Mapping[str, str]
) -> list[Note]:
    """Shorten what has to give way, and say in the log what became of it."""
    after = fitted(notes, budget, short)
    shorter = [(old, new) for old, new in zip(notes, after, strict=True) if new.content != old.content]
    for _, note in shorter:
        await tx.execute(Q.compress_note, **caller.ids, place=note.place, content=note.content)
    if shorter:
        became = [
            {
                "key": new.key,
                "event_id": new.event_id,
                "content": new.content,
                "by": "model" if new.content == short.get(new.event_id, "").strip() else "sentences",
            }
            for _, new in shorter
        ]
        outputs = {"notes": became, "tokens": [total(notes), total(after)], "budget": budget}
        lane = Lane(caller.session, caller.agent)
        await events.append(tx, NewEvent(COMPRESSED, lane, outputs=outputs, parents=[event.id]))
    left_out = [note for note in after if not note.content]
    forgotten = left_out[: max(0, len(left_out) - MOST_REMOVED)]
    for note in forgotten:
        await tx.execute(Q.drop_note, **caller.ids, place=note.place)
    return [note for note in after if note not in forgotten]


async def notes_of(tx: Tx, agent: str, session: str) -> list[Note]:
    """The notes of an agent in a session, in their order; those without content were left out."""
    return [_note(row) for row in await tx.all(Q.working_notes, agent=agent, session=session)]


async def working_text(tx: Tx, agent: str, session: str) -> str:
    """What an agent holds ready in a session, as a part of its prompt; empty where it holds nothing. Every line of a
    note is moved in, so that none passes for one of the room's or a person's."""
    notes = [note for note in await notes_of(tx, agent, session) if note.content]
    if not notes:
        return ""
    parts = ["[WORKING MEMORY] your own notes from this conversation; check them against the code:"]
    for note in notes:
        marks = "".join([", critical" if note.critical else "", ", shortened" if note.compressed else ""])
        first, *rest = lines(safe(note.content))
        parts += [f"  - {flat(note.key)}{marks}: {first}", *(f"    {line}" for line in rest)]
    return "\n".join(parts)


def _note(row: Row) -> Note:
    return of_row(Note, row, critical=bool(row["critical"]), compressed=bool(row["compressed"]))


def _with(notes: Sequence[Note], content: str, critical: bool, key: str | None) -> tuple[list[Note], Note]:
    """The notes with one that is stored now, and that one. Its event is not known yet: it is the newest."""
    newest = max((note.stored for note in notes), default=0) + 1
    same = next((note for note in notes if note.key == key), None)
    place = max((note.place for note in notes), default=0) + 1 if same is None else same.place
    note = Note(key or _free_key(notes, place), place, content, critical, False, newest, "")
    if same is None:
        return [*notes, note], note
    return [note if each.place == place else each for each in notes], note


def _free_key(notes: Sequence[Note], place: int) -> str:
    """A key for a note that was given none, so that it can be replaced."""
    keys = {note.key for note in notes}
    number = place
    while f"note-{number}" in keys:
        number += 1
    return f"note-{number}"


def _placed(note: Note, event: Event) -> Note:
    return Note(note.key, note.place, note.content, note.critical, False, event.pos, event.id)


async def _take_away(tx: Tx, caller: Caller, notes: Sequence[Note], key: str, lane: Lane) -> list[Note]:
    note = next((note for note in notes if note.key == key), None)
    if note is None:
        fix = f"You have: {', '.join(note.key for note in notes)[:400] or 'none'}."
        raise Refusal(f"There is no note {key[:60]!r} in your working memory.", fix, code="unknown_key")
    said = {"key": key, "place": note.place, "content": "", "critical": False}
    await events.append(tx, NewEvent(STORED, lane, outputs={"note": said}, causal_deps=[note.event_id]))
    await tx.execute(Q.drop_note, **caller.ids, place=note.place)
    return [each for each in notes if each.place != note.place]
