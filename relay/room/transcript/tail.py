"""The tail of the transcript file: each line of it enters the room once, each message of the room enters it once.

Invariants:
- the offset commits in the same transaction as the messages that were read up to it;
- before anything of ours is appended, the file is read to its end under the append lock; so an entry that a
  killed process had appended already is seen, and is not appended again;
- a line of the file proves nobody: it counts as a person's at most, marked unverified, and it opens nothing in
  the name of an agent or of the room;
- a file that is not the continuation of what was read is history: shown, opening no cycle, with one notice;
- the place in memory is a copy. The stored one moves from there, or the tail reads again (`checkpoint.py`).
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import structlog

from relay.base.files import NotRegular
from relay.log.encoding import dumps
from relay.log.events import Lane
from relay.model import Kind, TurnLimits
from relay.model.speaker_names import is_reserved
from relay.room.dispatch.roster import Roster
from relay.room.journal import ledger
from relay.room.journal.admission_rules import Rules
from relay.room.journal.ledger import NewMessage, Q
from relay.room.parsing import line_format
from relay.room.parsing.line_format import Entry, Junk, Parsed, Plain, Reason
from relay.room.transcript import checkpoint, file_position
from relay.room.transcript.checkpoint import PlaceMoved
from relay.room.transcript.file_position import Chunk, Line, Place
from relay.store.ports import Store, Tx

log = structlog.get_logger(__name__)
#: Seconds between two looks when nothing wakes us.
POLL_S = 1.0
#: Seconds between two looks at the outbox while nothing is heard of it.
OUTBOX_S = 10.0
#: Milliseconds in which watchfiles gathers changes before it wakes us; each is a wake-up of an idle room too.
WATCH_STEP_MS = 10
#: Seconds until a watch that could not be had is tried again.
WATCH_AGAIN_S = 30.0
#: Seconds between two looks at a file that is not what it was, until it stands still, and how many looks an
#: editor gets that has moved the file away or emptied it and has not written the new one yet.
SETTLE_S = 0.2
SETTLE_LOOKS = 5
#: Entries appended at once.
BATCH = 500
#: Seconds after which a step of the tail that has not ended is said to be stuck.
STUCK_S = 10.0
_QUIET = (Reason.BLANK, Reason.EMPTY)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the tail is, for the state and the health check. `size`: bytes in the file."""

    offset: int
    size: int
    catching_up: bool


@dataclass(frozen=True, slots=True)
class Notice:
    """Something about the file that the room is told once. `what` is the notice's kind."""

    text: str
    what: str


class Transcript:
    """Reads the file into the room and writes the room's outbox into the file."""

    def __init__(
        self,
        store: Store,
        path: Path,
        lock: Path,
        roster: Roster,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self.path = path
        self._lock = lock
        self._roster = roster
        self._max_entry_bytes = max_entry_bytes = roster.rules.max_entry_bytes
        # A body may grow sixfold as JSON, and an agent's answer has a limit of its own: what is longer than this
        # cannot be a line of ours.
        self._largest_line = 6 * max(max_entry_bytes, TurnLimits().max_output_bytes) + (64 << 10)
        self._clock = clock
        self._place: Place | None = None
        self._wake = asyncio.Event()
        #: There may be something in the outbox.
        self._outbox = True
        self._reading = asyncio.Lock()
        #: Bytes up to here may be an agent's: they were there when its turn ended.
        self._agents_until = 0
        self._size = 0
        #: The file was read to its end once.
        self._caught_up = False
        self.ingested = 0
        self._trouble = ""
        # When the step began that is under way, on the monotonic clock in seconds; None between two.
        self._step: float | None = None

    @property
    def progress(self) -> Progress:
        offset = self._place.offset if self._place else 0
        return Progress(
            offset, self._size, not self._caught_up or self._size > offset + self._max_entry_bytes
        )

    @property
    def trouble(self) -> str:
        """Why the file is not read or appended to now; empty when it is."""
        since = None if self._step is None else time.monotonic() - self._step
        if not self._trouble and since is not None and since > STUCK_S:
            return f"the transcript {self.path} makes no progress for {since:.0f} s"
        return self._trouble

    def poke(self) -> None:
        """Something was put into the outbox, or appended in this process: look now."""
        self._outbox = True
        self._wake.set()

    async def run(self) -> None:
        """Tail and append for ever."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch(), name="transcript-watch")
            group.create_task(self._watch_outbox(), name="transcript-outbox")
            while True:
                try:
                    await self.sync(outbox=self._outbox)
                    self._caught_up = True
                    self._trouble = ""
                except OSError as error:
                    self._trouble = f"the transcript {self.path} cannot be used: {error.strerror}"
                    if isinstance(error, NotRegular):
                        self._trouble += "; move it away"
                    log.warning("transcript not reachable", path=str(self.path), error=str(error))
                    await asyncio.sleep(POLL_S)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(POLL_S):
                        await self._wake.wait()
                self._wake.clear()

    async def sync(self, *, outbox: bool = True) -> None:
        """Read to the end of the file, then append what the outbox holds. Raises OSError (disk, permission).

        `outbox` False: nothing was put into that since it was last found empty.
        """
        async with self._reading:
            try:
                await self._read_on()
                if not outbox:
                    return
                while await self._append_outbox():
                    await self._read_on()
            finally:
                self._step = None

    async def _watch(self) -> None:
        from watchfiles import awatch  # 60 ms that a start need not wait for

        while True:
            watched = await asyncio.to_thread(_inode, self.path)
            try:
                async for _ in awatch(
                    self.path, watch_filter=None, step=WATCH_STEP_MS, debounce=50, recursive=False
                ):
                    self._wake.set()
                    # The watch is on the file, not on its name: it says nothing of the file that took its place.
                    if await asyncio.to_thread(_inode, self.path) != watched:
                        break
            except FileNotFoundError:
                pass
            except (OSError, RuntimeError) as error:
                # No watch to be had (the system's limit, say): the poll reads on.
                log.warning("transcript not watched", path=str(self.path), error=str(error))
                await asyncio.sleep(WATCH_AGAIN_S)
            # The file has gone or was replaced: the poll reads on, and the new file is watched in a moment.
            await asyncio.sleep(0.2)

    async def _watch_outbox(self) -> None:
        """Another process may fill the outbox; and our own commits wake this too."""
        with contextlib.closing(self._store.wakeup([ledger.POSTED])) as wakeup:
            while True:
                await wakeup.wait(OUTBOX_S)
                if await self._store.read(lambda tx: tx.one(Q.outbox_first), single=True) is not None:
                    self.poke()

    async def read_on(self) -> None:
        """Admit every whole line behind the place where the tail stands."""
        await self.sync(outbox=False)

    async def before_end(self) -> None:
        """Read on when a turn's processes have ended and its jobs have not. What is in the file now may be theirs,
        even a line without an end."""
        with contextlib.suppress(FileNotFoundError):
            status = await asyncio.to_thread(self.path.stat)
            self._agents_until = max(self._agents_until, status.st_size)
        await self.read_on()

    async def _read_on(self) -> None:
        while True:
            self._step = time.monotonic()
            here = self._place or await self._first_place()
            chunk = await self._look(here)
            self._size = chunk.size
            if not chunk.replaced and not chunk.lines:
                self._place = here
                return
            try:
                self._place = await (self._replaced if chunk.replaced else self._admit)(here, chunk)
            except PlaceMoved:
                await self._stand_anew()

    async def _stand_anew(self) -> None:
        """The file, or the place in it, was exchanged beside us (`relay archive`): go on from what is kept."""
        await checkpoint.settle(self._store, self.path, self._lock)
        self._place, self._agents_until = None, 0

    async def _look(self, here: Place) -> Chunk:
        """Read on; a file that is not what it was is judged only once it stands still.

        Editors empty the file and write it anew, or move it away first: half-way through, what stood there
        would look like new lines.
        """
        chunk = await asyncio.to_thread(file_position.read, self.path, here, self._largest_line)
        for _ in range(SETTLE_LOOKS):
            if not chunk.replaced:
                break
            await asyncio.sleep(SETTLE_S)
            size = chunk.size
            chunk = await asyncio.to_thread(file_position.read, self.path, here, self._largest_line)
            if size and chunk.size == size:
                break
        return chunk

    async def _first_place(self) -> Place:
        place = await self._store.read(checkpoint.kept_place)
        if place is not None:
            return place
        # A room that has never read this file answers what nobody has answered; the rest is history.
        until = await asyncio.to_thread(file_position.answered_until, self.path)
        return Place(history_until=until)

    async def _replaced(self, before: Place, chunk: Chunk) -> Place:
        """The file is another one now: all that is in it is history."""
        self._agents_until = 0
        fresh = await self._store.write(
            lambda tx: checkpoint.begin_anew(tx, before, chunk.size, now=self._clock())
        )
        log.warning("transcript replaced", path=str(self.path), offset=before.offset, size=chunk.size)
        return fresh

    async def _admit(self, here: Place, chunk: Chunk) -> Place:
        parsed = await asyncio.to_thread(_parse, chunk.lines)
        group = list(zip(chunk.lines, parsed, strict=True))
        self.ingested += await self._store.write(lambda tx: self._admit_group(tx, group, here, chunk.place))
        return chunk.place

    async def _admit_group(
        self, tx: Tx, group: list[tuple[Line, Parsed | None]], here: Place, after: Place
    ) -> int:
        ids = [entry.id for _, entry in group if isinstance(entry, Entry)]
        waiting: Mapping[str, bytes] = {}
        known: dict[str, tuple[str, str]] = {}
        if ids:
            rows = await tx.all(Q.outbox_among, ids=dumps(ids))
            waiting = {row["message_id"]: row["line"] for row in rows}
            known_rows = await tx.all(Q.known_among, ids=dumps(ids))
            known = {row["id"]: (row["speaker"], row["body"]) for row in known_rows}
        rules = self._roster.rules
        notices: list[Notice] = []
        seen: list[str] = []
        admitted = 0
        junk = forged = 0
        for line, entry in group:
            history = line.start < after.history_until
            if entry is None:
                notices.append(self._too_large(line))
            elif isinstance(entry, Junk):
                junk += entry.reason not in _QUIET and not history
            elif isinstance(entry, Entry) and entry.id in known:
                if waiting.get(entry.id, b"").rstrip(b"\n") == line.text:
                    seen.append(entry.id)
                else:
                    forged += known[entry.id] != (entry.speaker, entry.body) and not history
            elif self._is_too_large(entry.body):
                notices.append(self._too_large(line))
            else:
                if isinstance(entry, Entry):
                    known[entry.id] = (entry.speaker, entry.body)
                by_an_agent = line.start < self._agents_until
                admitted += await self._admit_one(tx, entry, rules, history, by_an_agent)
        if seen:
            await tx.execute(Q.seen_in_file, ids=dumps(seen))
        if forged:
            what = "a line that changes" if forged == 1 else f"{forged} lines that change"
            notices.append(
                Notice(
                    f"{self.path.name} has {what} the text or the speaker of an entry that the room already has. "
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
                    f"The room left out {what} of {self.path.name}, since it is not clear who wrote {them}. {stay} "
                    "in the file. A message begins with `[NAME] `.",
                    "transcript_junk",
                )
            )
        await checkpoint.move(tx, here, after)
        for notice in notices:
            await ledger.say(tx, notice.text, now=self._clock(), meta={"notice": notice.what})
        return admitted

    def _too_large(self, line: Line) -> Notice:
        return Notice(
            f"An entry of {line.size:,} bytes in the transcript was refused: the largest is "
            f"{self._max_entry_bytes:,} (`workspace.max_entry_bytes`). Put it into a file and name its path.",
            "entry_too_large",
        )

    def _is_too_large(self, body: str) -> bool:
        most = self._max_entry_bytes
        return len(body) > most or (4 * len(body) > most and len(body.encode("utf-8", "replace")) > most)

    async def _admit_one(
        self, tx: Tx, entry: Entry | Plain, rules: Rules, history: bool, by_an_agent: bool
    ) -> int:
        meta: dict[str, Any] = {"unverified": True}
        if entry.damaged:
            meta["damaged"] = True
        if history:
            meta["history"] = True
        # Not the person's own lane: that one holds what was proven to be theirs.
        lane = Lane(ledger.ROOM, f"unverified:{entry.speaker}")
        new = NewMessage(
            entry.speaker, Kind.HUMAN, entry.body, self._clock(), lane=lane, meta=meta, in_file=True
        )
        if isinstance(entry, Plain):
            digest = hashlib.sha256(f"{entry.speaker}\0{entry.body}".encode()).hexdigest()[:24]
            if history and await tx.one(Q.plain_known, plain_digest=digest) is not None:
                return 0
            new = replace(new, plain_digest=digest)
        else:
            ts = entry.ts if history else ""
            new = replace(new, id=entry.id, kind=entry.kind, ts=ts, in_reply_to=entry.in_reply_to)
        if is_reserved(entry.speaker, rules.agents) or new.kind is not Kind.HUMAN:
            # Who really wrote it is unknown; it is shown, and it speaks for nobody. In a replaced or imported
            # file the room's own old entries look just like this, and keep their kind.
            meta["claims"] = entry.speaker
            await ledger.put_message(tx, new if history else replace(new, kind=Kind.HUMAN))
            return 1
        if history:
            await ledger.put_message(tx, new)
        else:
            await ledger.admit(tx, new, rules, by_an_agent=by_an_agent)
        return 1

    async def _append_outbox(self) -> bool:
        """Append the next entries of the outbox; False when it is empty.

        Also False when somebody appended meanwhile: then there is something to read first.
        """
        self._step = time.monotonic()
        self._outbox = False  # what comes while it is looked at sets it again
        rows = await self._store.read(lambda tx: tx.all(Q.outbox, limit=BATCH), single=True)
        if not rows:
            return False
        self._outbox = True
        lines = b"".join(row["line"] for row in rows)
        here = self._place or Place()
        after = await asyncio.to_thread(file_position.append_at_end, self.path, self._lock, here, lines)
        if after is None:
            return True
        ids = [row["message_id"] for row in rows]

        async def work(tx: Tx) -> None:
            await checkpoint.move(tx, here, after)
            await tx.execute(Q.seen_in_file, ids=dumps(ids))

        try:
            await self._store.write(work)
        except PlaceMoved:
            await self._stand_anew()  # what we appended is there, and is read like any other line
            return True
        self._place, self._size = after, after.offset
        return True


def _parse(lines: Sequence[Line]) -> list[Parsed | None]:
    return [None if line.text is None else line_format.decode(line.text) for line in lines]


def _inode(path: Path) -> int:
    try:
        return path.stat().st_ino
    except OSError:
        return 0  # missing, or out of reach: the tail says so
