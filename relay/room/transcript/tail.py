"""The tail of a member's transcript file: each line of it enters the room once, each entry of the room the file once.

Invariants:
- the offset, and which entries stand in the file, commit in the same transaction as the messages that were read;
- before anything of ours is appended, the file is read to its end under the append lock; so an entry that a
  killed process had appended already is seen, and is not appended again;
- entries are appended in the order of the log. In a file of a fleet's member all stand in that order: a line that
  came when others were due is overwritten with spaces, and its entry appended when it is due. The only relay of a
  room leaves lines where they came;
- a file that is not the continuation of what was read is history: shown, opening no cycle, with one notice;
- the place in memory is a copy. The stored one moves from there, or the tail reads again (`checkpoint.py`).
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import structlog

from relay.base.files import NotRegular
from relay.model import TurnLimits
from relay.room.dispatch.roster import Roster
from relay.room.journal import ledger
from relay.room.journal.ledger import Q
from relay.room.parsing import line_format
from relay.room.transcript import checkpoint, file_position, file_watch, joining
from relay.room.transcript.admission import Admission, Origin
from relay.room.transcript.checkpoint import PlaceMoved
from relay.room.transcript.file_position import Chunk, Line, Place
from relay.room.transcript.joining import ForeignTranscript
from relay.room.transcript.standing import Standing, counted
from relay.store.ports import OutcomeUnknown, Store, Tx

log = structlog.get_logger(__name__)
#: Seconds between two looks when nothing wakes us.
POLL_S = 1.0
#: Seconds between two looks for new entries of the room while nothing is heard of any.
ENTRIES_S = 10.0
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


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the tail is, for the state and the health check. `size`: bytes in the file."""

    offset: int
    size: int
    catching_up: bool


class Transcript:
    """Reads a member's file into the room and writes the room's entries into the file. `member`: its name in the
    fleet, '' for the only relay of a room."""

    def __init__(
        self,
        store: Store,
        path: Path,
        lock: Path,
        roster: Roster,
        *,
        member: str = "",
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store, self._member, self._in_order = store, member, member != ""
        self.path = path
        self._lock = lock
        name = f"{path.name} of {member}" if member else path.name
        self._admission = Admission(roster, name, clock, in_order=self._in_order)
        self._max_entry_bytes = max_entry_bytes = roster.rules.max_entry_bytes
        # A body may grow sixfold as JSON, and an agent's answer has a limit of its own: what is longer than this
        # cannot be a line of ours.
        self._largest_line = 6 * max(max_entry_bytes, TurnLimits().max_output_bytes) + (64 << 10)
        self._clock = clock
        self._place: Place | None = None
        self._wake = asyncio.Event()
        #: There may be something that is to be appended, or to become blank.
        self._behind = True
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
        """Something was said, or appended in this process: look now."""
        self._behind = True
        self._wake.set()

    def lacking(self, newest: int) -> int:
        """How many of the room's entries, whose last number is `newest`, are not in the file yet."""
        here = self._place or Place()
        return max(0, newest - here.upto - counted(here.ahead))

    async def run(self) -> None:
        """Tail and append for ever."""
        # A database that was away may have come back as it was some time before.
        async with self._reading:
            self._place = None
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch(), name="transcript-watch")
            group.create_task(self._watch_entries(), name="transcript-entries")
            while True:
                try:
                    await self.sync(append=self._behind)
                    self._caught_up = True
                    self._trouble = ""
                except OSError as error:
                    if not self._trouble:
                        await self._say_unwritten(error)
                    self._trouble = f"the transcript {self.path} cannot be used: {error.strerror}"
                    if isinstance(error, NotRegular):
                        self._trouble += "; move it away"
                    log.warning("transcript not reachable", path=str(self.path), error=str(error))
                    await asyncio.sleep(POLL_S)
                except ForeignTranscript as error:
                    self._trouble = str(error)
                    await asyncio.sleep(POLL_S)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(POLL_S):
                        await self._wake.wait()
                self._wake.clear()

    async def _say_unwritten(self, error: OSError) -> None:
        """The other members hear that this one's file is behind: the room itself is not."""
        if not self._member or error.errno not in (errno.ENOSPC, errno.EDQUOT):
            return
        text = (
            f"The disk of {self._member} is full: its transcript file is behind. The room has every entry; they come "
            "into the file once there is space."
        )
        meta = {"notice": "transcript", "member": self._member}
        await self._store.write(lambda tx: ledger.say(tx, text, now=self._clock(), meta=meta))

    async def catch_up(self) -> None:
        """Read the file to its end and append all that it lacks: a member does so before it accepts anything. Raises
        ForeignTranscript, OSError (disk, permission)."""
        await self.sync()

    async def sync(self, *, append: bool = True) -> None:
        """Read to the end of the file, then append the entries that it lacks. Raises as `catch_up`.

        `append` False: nothing was said since all was last found there.
        """
        while True:
            # Given back between two rounds: where others always say something, the end of a turn would wait for ever.
            async with self._reading:
                try:
                    await self._read_on()
                    if not append or not await self._append():
                        return
                finally:
                    self._step = None

    async def _watch(self) -> None:
        while True:
            try:
                async for _ in file_watch.changes(self.path):
                    self._wake.set()
            except FileNotFoundError:
                pass
            except (OSError, RuntimeError) as error:
                # No watch to be had (the system's limit, say): the poll reads on.
                log.warning("transcript not watched", path=str(self.path), error=str(error))
                await asyncio.sleep(WATCH_AGAIN_S)
            # The file has gone or was replaced: the poll reads on, and the new file is watched in a moment.
            await asyncio.sleep(0.2)

    async def _watch_entries(self) -> None:
        """Another process may say something; and our own commits wake this too."""
        with contextlib.closing(self._store.wakeup([ledger.POSTED])) as wakeup:
            while True:
                await wakeup.wait(ENTRIES_S)
                newest = await self._store.read(lambda tx: tx.one(Q.last_number), single=True)
                if newest is not None and self.lacking(newest["number"]):
                    self.poke()

    async def read_on(self) -> None:
        """Admit every whole line behind the place where the tail stands."""
        await self.sync(append=False)

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
            else:
                self._behind = self._behind or bool(self._place.blank or self._place.ahead)

    async def _stand_anew(self) -> None:
        """The file, or the place in it, was exchanged beside us (`relay archive`): go on from what is kept."""
        await checkpoint.settle(self._store, self.path, self._lock, self._member)
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
        place = await self._store.read(lambda tx: checkpoint.kept_place(tx, self._member))
        return place or await joining.first_place(self._store, self.path, self._member)

    async def _replaced(self, before: Place, chunk: Chunk) -> Place:
        """The file is another one now: all that is in it is history."""
        self._agents_until = 0
        fresh = await joining.fresh_place(self._store, self.path, self._member, before, chunk.size)
        await self._store.write(
            lambda tx: checkpoint.begin_anew(tx, self._member, before, fresh, now=self._clock())
        )
        log.warning("transcript replaced", path=str(self.path), offset=before.offset, size=chunk.size)
        self._behind = True
        return fresh

    async def _admit(self, here: Place, chunk: Chunk) -> Place:
        group = await asyncio.to_thread(_parse, chunk, here.history_until, self._agents_until)

        async def work(tx: Tx) -> tuple[int, Place]:
            standing = Standing(here.upto, here.ahead, here.blank, in_order=self._in_order)
            admitted, notices = await self._admission.admit(tx, group, standing)
            after = here.standing_at(chunk.offset, chunk.head, chunk.last, standing.blank)
            after = replace(after, upto=standing.upto, ahead=standing.ahead)
            await checkpoint.move(tx, self._member, here, after)
            for notice in notices:
                await ledger.say(tx, notice.text, now=self._clock(), meta={"notice": notice.what})
            return admitted, after

        # In a fleet on disk before others see it: their files have its line then, under this id. A server that forgot
        # it would have it twice, from here under another id and from there.
        admitted, after = await self._store.write(work, durable=self._in_order)
        self.ingested += admitted
        return after

    async def _append(self) -> bool:
        """Append the next entries that the file lacks; False when it lacks none, and nothing is to become blank.

        Also True when somebody appended meanwhile: then there is something to read first.
        """
        self._step = time.monotonic()
        self._behind = False  # what comes while it is looked at sets it again
        here = self._place or await self._first_place()
        rows = await self._store.read(
            lambda tx: tx.all(Q.messages_from, after=here.upto, limit=BATCH), single=True
        )
        standing = Standing(here.upto, here.ahead, (), in_order=False)
        missing = [row for row in rows if not standing.has(row["number"])]
        if not missing and not here.blank:
            return False
        self._behind = True

        def write() -> Place | None:
            lines = b"".join(ledger.line_of(row) for row in missing)
            return file_position.append_at_end(self.path, self._lock, here, lines)

        after = await asyncio.to_thread(write)
        if after is None:
            return True
        for row in missing:
            standing.put(row["number"], 0, 0)
        after = replace(after, upto=standing.upto, ahead=standing.ahead)
        try:
            await self._note(here, after)
        except PlaceMoved:
            await self._stand_anew()  # what we appended is there, and is read like any other line
            return True
        self._place, self._size = after, after.offset
        return True

    async def _note(self, here: Place, after: Place) -> None:
        """Keep the place behind what was appended. Raises PlaceMoved."""
        # Each member does so for each message, so it must not have the room alone, and it is nobody else's news.
        try:
            moved = await self._store.write(
                lambda tx: checkpoint.move_beside(tx, self._member, here, after), single=True, quiet=True
            )
        except OutcomeUnknown:
            moved = False  # if it was kept, the place is not `here` any more, which the next write sees
        if not moved:
            await self._store.write(lambda tx: checkpoint.move(tx, self._member, here, after))


def _parse(
    chunk: Chunk, history_until: int, agents_until: int
) -> list[tuple[Line, line_format.Parsed | None, Origin]]:
    def one(line: Line) -> tuple[Line, line_format.Parsed | None, Origin]:
        parsed = None if line.text is None else line_format.decode(line.text)
        return line, parsed, Origin(line.start < history_until, line.start < agents_until)

    return [one(line) for line in chunk.lines]
