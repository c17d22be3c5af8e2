"""Several members of a fleet on one store, each with a transcript of its own: the same entries in the log's order."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import subprocess
import sys
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from relay.log import events
from relay.log.encoding import dumps
from relay.model import Kind, Message
from relay.room.journal import ledger
from relay.room.journal.admission_rules import Rules
from relay.room.journal.ledger import NewMessage, Q
from relay.room.parsing import line_format
from relay.room.parsing.line_format import Junk
from relay.room.transcript import checkpoint, rotation
from relay.room.transcript.file_position import Place
from relay.room.transcript.joining import ForeignTranscript
from relay.room.transcript.tail import Transcript
from relay.store import ports
from relay.store.ports import Migration, Store
from relay.store.postgres import store as postgres_store
from relay.store.sqlite import store as sqlite_store
from tests import engines, postgres
from tests.engines import BOTH, Clock
from tests.room.parts import PATIENT_S, SCHEMAS, all_messages, notices, open_room, post, roster_of, until

pytestmark = BOTH
ROOT = Path(__file__).parents[3]
RULES = Rules(agents=("ALPHA", "BETA"))
Said = list[tuple[str, str]]


class Member:
    """A member with its file, and the tail of a daemon that may begin again."""

    def __init__(self, store: Store, folder: Path, name: str) -> None:
        self.store, self.name, self.folder = store, name, folder / (name or "only")
        self.folder.mkdir(exist_ok=True)
        self.file = self.folder / "transcript.log"
        self.lock = line_format.lock_path(self.folder, self.file)
        self.tail = self.begin()

    def begin(self) -> Transcript:
        self.tail = Transcript(
            self.store, self.file, self.lock, roster_of(RULES), member=self.name, clock=Clock()
        )
        return self.tail

    def write(self, text: str | bytes) -> None:
        with self.file.open("ab", buffering=0) as file:
            file.write(text.encode() if isinstance(text, str) else text)

    def entries(self) -> Said:
        """Who says what in the file, as any reader of it finds."""
        data = self.file.read_bytes() if self.file.exists() else b""
        found = [line_format.decode(line) for line in data.split(b"\n")]
        return [(entry.speaker, entry.body) for entry in found if not isinstance(entry, Junk)]

    async def place(self) -> Place:
        return await self.store.read(lambda tx: checkpoint.kept_place(tx, self.name)) or Place()


def fleet(store: Store, folder: Path, *names: str) -> list[Member]:
    return [Member(store, folder, name) for name in names]


async def in_room(store: Store) -> Said:
    return [(message.speaker, message.body) for message in await all_messages(store)]


async def settled(store: Store, members: list[Member]) -> None:
    """All files have the entries of the room in the log's order once every member has caught up, and each member
    knows that of its file."""
    for member in [*members, *members]:
        await member.tail.catch_up()
    said = await in_room(store)
    for member in members:
        assert member.entries() == said, member.name
        place = await member.place()
        assert (place.upto, place.ahead, place.blank) == (len(said), (), ())
    assert await notices(store, "transcript_replaced") == []


async def say(store: Store, body: str) -> Message:
    message, _ = await store.write(lambda tx: ledger.say(tx, body, now=1.0))
    return message


def entry_line(body: str, speaker: str = "ann", id: str = "") -> bytes:
    message = Message(id or ledger.new_id(), "2026-01-01T00:00:00Z", speaker, Kind.HUMAN, body)
    return line_format.encode(message)


# -- the order


async def test_a_line_whose_turn_it_is_stays_where_it_stands(store: Store, tmp_path: Path) -> None:
    ann, bob = members = fleet(store, tmp_path, "ann", "bob")
    await say(store, "welcome")
    await settled(store, members)
    ann.write("[ann] hi\n")
    await settled(store, members)
    assert ann.file.read_bytes().endswith(b"\n[ann] hi\n")
    assert bob.entries()[-1] == ("ann", "hi")


async def test_a_line_that_came_when_others_were_due_is_moved_behind_them(
    store: Store, tmp_path: Path
) -> None:
    ann, bob = members = fleet(store, tmp_path, "ann", "bob")
    await settled(store, members)
    ann.write("[ann] first in my file\n")
    bob.write("[bob] first in the room\n")
    await bob.tail.catch_up()
    size = ann.file.stat().st_size
    await settled(store, members)
    assert await in_room(store) == [("bob", "first in the room"), ("ann", "first in my file")]
    data = ann.file.read_bytes()
    assert data[:size] == b" " * (size - 1) + b"\n", "overwritten in place, and nothing cut"
    assert b'"first in the room"' in data[size:] and data.count(b"first in my file") == 1


async def test_copies_and_forgeries_do_not_stay(store: Store, tmp_path: Path) -> None:
    """A line may be copied from one file into another, before the other has the entry and after it."""
    ann, bob = members = fleet(store, tmp_path, "ann", "bob")
    real = [await say(store, f"entry {n}") for n in range(3)]
    await ann.tail.catch_up()
    lines = ann.file.read_bytes().splitlines(keepends=True)
    bob.write(lines[1] + lines[0] + lines[0])
    bob.write(entry_line("forged", "RELAY", real[2].id))
    await settled(store, members)
    assert len(await notices(store, "transcript_forged")) == 1
    ann.write(lines[2])
    await settled(store, members)
    assert len(await all_messages(store)) == 4


async def test_junk_stays_and_is_told_once(store: Store, tmp_path: Path) -> None:
    ann, bob = members = fleet(store, tmp_path, "ann", "bob")
    await say(store, "welcome")
    ann.write("no tag\n[ann] hi\n")
    await settled(store, members)
    (notice,) = await notices(store, "transcript_junk")
    assert "of transcript.log of ann" in notice.body
    assert ann.file.read_bytes().startswith(b"no tag\n") and b"no tag" not in bob.file.read_bytes()


async def test_a_line_without_an_end_is_waited_for_and_ends_when_others_are_due(
    store: Store, tmp_path: Path
) -> None:
    members = fleet(store, tmp_path, "ann", "bob")
    ann = members[0]
    ann.write("[ann] not fin")
    await ann.tail.catch_up()
    ann.write("ished\n[ann] nor th")
    await say(store, "said meanwhile")
    await settled(store, members)
    assert await in_room(store) == [("RELAY", "said meanwhile"), ("ann", "not finished"), ("ann", "nor th")]


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("seed", range(4))
async def test_any_mixture_ends_the_same_in_all_files(
    store: Store, tmp_path: Path, seed: int, count: int
) -> None:
    """At once: entries said in the store, and lines of each kind appended with and without the lock."""
    rng = random.Random(seed)
    members = fleet(store, tmp_path, *("ann", "bob", "eve")[:count])
    await settled(store, members)
    by_hand: Counter[str] = Counter()

    async def hand(member: Member) -> None:
        for number in range(25):
            body = f"{member.name} {number} " + "w" * rng.choice((0, 1, 300, 5000))
            by_hand[body.strip()] += 1
            line = f"[{member.name}] {body}\n".encode() if rng.random() < 0.6 else entry_line(body.strip())
            if rng.random() < 0.5:
                await asyncio.to_thread(line_format.append, member.file, member.lock, line)
            else:
                member.write(line)
            await asyncio.sleep(rng.choice((0, 0, 0.002, 0.01)))

    async def doors() -> None:
        for number in range(30):
            await post(store, f"@ALPHA by a door {number}", 1.0, by="door")
            await asyncio.sleep(rng.choice((0, 0.003, 0.01)))

    async def tails(member: Member, over: asyncio.Event) -> None:
        while not over.is_set():
            if rng.random() < 0.1:
                member.begin()
            await (member.tail.catch_up() if rng.random() < 0.7 else member.tail.read_on())
            await asyncio.sleep(rng.choice((0, 0.002, 0.02)))

    over = asyncio.Event()
    running = [asyncio.create_task(tails(member, over)) for member in members]
    try:
        await asyncio.gather(doors(), *(hand(member) for member in members))
    finally:
        over.set()
        await asyncio.gather(*running)
    await settled(store, members)
    said = Counter(body for _, body in await in_room(store))
    assert {body: said[body] for body in by_hand} == dict(by_hand), "each line once"
    assert sum(said.values()) == 30 + 25 * count
    assert await notices(store) == []


async def test_members_hear_of_each_other_while_they_run(store: Store, tmp_path: Path) -> None:
    """Each with a connection of its own, as on a machine of its own."""
    async with AsyncExitStack() as stack:
        members = []
        for name in ("ann", "bob", "eve"):
            opened = await open_room(tmp_path)
            stack.push_async_callback(opened.close)
            members.append(Member(opened, tmp_path, name))
        running = [asyncio.create_task(member.tail.run()) for member in members]
        try:
            for number in range(10):
                for member in members:
                    member.write(f"[{member.name}] line {number}\n")

            async def all_there() -> bool:
                said = await in_room(store)
                return len(said) == 30 and all(
                    member.file.exists() and member.entries() == said for member in members
                )

            await until(all_there)
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
        await settled(store, members)


# -- the note of how far the file is


class Recorded:
    """A store that keeps how each write was asked for, and what came of it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.writes: list[tuple[dict[str, Any], Any]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def write(self, work: ports.Work[Any], **more: Any) -> Any:
        try:
            result = await self._store.write(work, **more)
        except Exception as error:
            self.writes.append((more, type(error)))
            raise
        self.writes.append((more, result))
        return result


BESIDE = {"single": True, "quiet": True}


async def test_an_append_is_noted_beside_other_writers(store: Store, tmp_path: Path) -> None:
    asked = Recorded(store)
    ann, bob = Member(asked, tmp_path, "ann"), Member(store, tmp_path, "bob")
    await say(store, "welcome")
    await ann.tail.catch_up()
    for number in range(3):
        asked.writes.clear()
        await say(store, f"entry {number}")
        await ann.tail.catch_up()
        assert asked.writes == [(BESIDE, True)]
    await settled(store, [ann, bob])

    # A place that an earlier version wrote in another form is not found so, and the general way writes it anew.
    engines.change(tmp_path, "UPDATE tail SET ahead = '[ ]' WHERE member = 'ann'")
    asked.writes.clear()
    await say(store, "in another form")
    await ann.tail.catch_up()
    assert asked.writes == [(BESIDE, False), ({}, None)]
    await settled(store, [ann, bob])


@pytest.mark.parametrize("kept", [True, False])
async def test_a_note_whose_outcome_is_unknown_is_settled_by_a_general_write(
    store: Store, tmp_path: Path, kept: bool
) -> None:
    class Lost(Recorded):
        async def write(self, work: ports.Work[Any], **more: Any) -> Any:
            if more != BESIDE:
                return await super().write(work, **more)
            if kept:
                await self._store.write(work, **more)
            raise ports.OutcomeUnknown("lost")

    (ann,) = members = fleet(store, tmp_path, "ann")
    await say(store, "welcome")
    await settled(store, members)
    ann.store = asked = Lost(store)
    ann.begin()
    await say(store, "next")
    await ann.tail.catch_up()
    assert asked.writes == [({}, checkpoint.PlaceMoved if kept else None)]
    await settled(store, members)


async def test_a_note_waits_for_an_exchange_that_is_being_announced(store: Store, tmp_path: Path) -> None:
    """`relay archive` has the room's lock while it announces. The note that waits for it must see what it said."""
    asked = Recorded(store)
    members = [Member(asked, tmp_path, "ann"), Member(store, tmp_path, "bob")]
    ann = members[0]
    await say(store, "welcome")
    await settled(store, members)
    before = await ann.place()
    await say(store, "said meanwhile")
    asked.writes.clear()
    archive = engines.Blocker(tmp_path)
    await archive.take()
    try:
        # The file of which it speaks is never put there: its maker dies.
        text = dumps(asdict(checkpoint.Swap(Place(), 0, 0)))
        await archive.change(
            "INSERT INTO settings (name, value) VALUES ($1, $2)", "transcript_swap:ann", text
        )
        noting = asyncio.create_task(ann.tail.catch_up())

        async def waits() -> bool:
            return ("RELAY", "said meanwhile") in ann.entries() and await archive.keeps_waiting()

        await until(waits)
        assert await ann.place() == before
        await archive.commit()
    finally:
        await archive.let_go()
    await noting
    assert asked.writes[:2] == [(BESIDE, False), ({}, checkpoint.PlaceMoved)]
    assert await store.read(lambda tx: checkpoint.announced(tx, "ann")) is None
    await settled(store, members)


# -- joining


async def test_a_member_that_was_away_catches_up(store: Store, tmp_path: Path) -> None:
    ann, bob = members = fleet(store, tmp_path, "ann", "bob")
    await settled(store, members)

    async def talk(tx: ports.Tx) -> None:
        for number in range(2_500):
            await ledger.say(tx, f"entry {number}", now=1.0)

    for _ in range(4):
        await store.write(talk)
    await ann.tail.catch_up()
    bob.write("[bob] I am back\n")
    await bob.tail.catch_up()
    assert len(bob.entries()) == 10_001
    await settled(store, members)


async def test_the_first_member_imports_what_nobody_has_read(store: Store, tmp_path: Path) -> None:
    ann, bob = members = fleet(store, tmp_path, "ann", "bob")
    ann.write(b"[ann] old question\n" + entry_line("old answer") + b"[ann] new question\n")
    before = ann.file.read_bytes()
    await settled(store, members)
    assert ann.file.read_bytes() == before
    assert [body for _, body in bob.entries()] == ["old question", "old answer", "new question"]


async def test_of_two_that_begin_an_empty_room_one_imports(store: Store, tmp_path: Path) -> None:
    members = fleet(store, tmp_path, "ann", "bob")
    for member in members:
        member.write(entry_line(f"old room of {member.name}"))
    ended = await asyncio.gather(*(member.tail.catch_up() for member in members), return_exceptions=True)
    refused = [member for member, end in zip(members, ended, strict=True) if end is not None]
    assert len(refused) == 1 and isinstance(ended[members.index(refused[0])], ForeignTranscript)
    refused[0].file.rename(refused[0].folder / "old.log")
    await settled(store, members)
    assert len(await all_messages(store)) == 1


async def test_a_transcript_of_another_room_is_refused_until_it_is_moved(
    store: Store, tmp_path: Path
) -> None:
    ann, bob = members = fleet(store, tmp_path, "ann", "bob")
    await say(store, "welcome")
    await ann.tail.catch_up()
    bob.write(b"[bob] mine\n" + entry_line("of my old room"))
    before = bob.file.read_bytes()
    for _ in range(2):
        with pytest.raises(ForeignTranscript, match=r"not this room's transcript: 1 of its entries.*Move it"):
            await bob.begin().catch_up()
    assert bob.file.read_bytes() == before
    running = asyncio.create_task(bob.begin().run())
    try:

        async def refused() -> bool:
            return "Move it away" in bob.tail.trouble

        await until(refused)
        bob.file.rename(bob.folder / "old.log")

        async def well() -> bool:
            return not bob.tail.trouble and bob.file.exists()

        await until(well)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert await in_room(store) == [("RELAY", "welcome")]
    await settled(store, members)


async def test_a_file_of_this_room_is_continued(store: Store, tmp_path: Path) -> None:
    ann, bob = members = fleet(store, tmp_path, "ann", "bob")
    for number in range(4):
        await say(store, f"entry {number}")
    await ann.tail.catch_up()
    copied = ann.file.read_bytes()
    await say(store, "after the copy")
    bob.write(copied)
    await settled(store, members)
    assert bob.file.read_bytes().startswith(copied)


async def test_a_part_of_this_rooms_file_is_continued_from_its_first_entry(
    store: Store, tmp_path: Path
) -> None:
    ann, bob = fleet(store, tmp_path, "ann", "bob")
    for number in range(4):
        await say(store, f"entry {number}")
    await ann.tail.catch_up()
    lines = ann.file.read_bytes().splitlines(keepends=True)
    bob.write(lines[3] + lines[2])
    await say(store, "after the copy")
    await bob.tail.catch_up()
    assert [body for _, body in bob.entries()] == ["entry 2", "entry 3", "after the copy"]


async def test_the_relay_that_made_the_room_goes_on_as_its_first_member(store: Store, tmp_path: Path) -> None:
    (only,) = fleet(store, tmp_path, "")
    await say(store, "welcome")
    only.write("[ann] hi\n")
    await only.tail.catch_up()
    await say(store, "not in the file yet")
    before = only.file.read_bytes()
    bob = Member(store, tmp_path, "bob")
    await bob.tail.catch_up()  # another machine: the place is not in its file
    assert bob.entries() == await in_room(store)
    ann = Member(store, tmp_path, "ann")
    ann.file.write_bytes(before)
    await ann.tail.catch_up()
    assert await store.read(lambda tx: checkpoint.kept_place(tx, "")) is None
    assert ann.file.read_bytes().startswith(before)
    assert ann.entries()[-1] == ("RELAY", "not in the file yet")
    assert len(ann.entries()) == 3 and await notices(store) == []


@pytest.mark.parametrize("name", ["bob", "another"])
async def test_who_was_forgotten_takes_no_line_of_its_file_in_again(
    store: Store, tmp_path: Path, name: str
) -> None:
    """Also under another name; and what was appended meanwhile is new, even where it says the same."""
    ann, bob = fleet(store, tmp_path, "ann", "bob")
    await say(store, "welcome")
    await settled(store, [ann, bob])
    bob.write("[zed] hi\n")
    await settled(store, [bob, ann])
    assert b"\n[zed] hi\n" in bob.file.read_bytes()
    await store.write(lambda tx: checkpoint.forget(tx, "bob"))
    await say(store, "meanwhile")
    bob.write("[zed] hi\n[zed] there\n")
    bob.name = name
    bob.begin()
    await settled(store, [ann, bob])
    said = [("RELAY", "welcome"), ("zed", "hi"), ("RELAY", "meanwhile"), ("zed", "hi"), ("zed", "there")]
    assert await in_room(store) == said
    # It is a member again, and may be forgotten again; a machine that has its name then has a file of its own.
    await store.write(lambda tx: checkpoint.forget(tx, name))
    other = Member(store, tmp_path / "ann", name)
    await settled(store, [ann, other])
    bob.name = "later"
    bob.begin()
    await settled(store, [ann, other, bob])
    assert await in_room(store) == said


async def test_a_file_that_was_cut_is_filled_again(store: Store, tmp_path: Path) -> None:
    ann, bob = fleet(store, tmp_path, "ann", "bob")
    for number in range(4):
        await say(store, f"entry {number}")
    ann.write("[ann] hi\n")
    for member in (ann, bob):
        await member.tail.catch_up()
    lines = ann.file.read_bytes().splitlines(keepends=True)
    ann.file.write_bytes(b"".join(lines[:2]) + b"[eve] put in by an editor\n" + lines[2])
    for member in (ann, bob):
        await member.tail.catch_up()
    (notice,) = await notices(store)
    assert "The transcript file of ann was replaced or cut" in notice.body
    assert ann.entries() == bob.entries() == await in_room(store)
    assert ("eve", "put in by an editor") in ann.entries()


# -- killed

CHILD = """
import asyncio, os, signal, sys
from pathlib import Path
from tests import engines
from tests.room.parts import SCHEMAS, roster_of
from relay.room.journal.admission_rules import Rules
from relay.room.parsing import line_format
from relay.room.transcript import file_position
from relay.room.transcript.tail import Transcript

folder, address, member, step = Path(sys.argv[1]), *sys.argv[2:5]

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def dies(real, when):
    calls = 0
    def killed(*args):
        nonlocal calls
        calls += 1
        if calls < int(step[-1]):
            return real(*args)
        if when == "half":
            real(args[0], args[1][: len(args[1]) // 2], *args[2:])
        elif when == "after":
            real(*args)
        die()
    return killed

name, when = step[:-1].split()
if name == "overwrite":
    file_position.overwrite_held = dies(file_position.overwrite_held, when)
elif name == "pwrite":
    os.pwrite = dies(os.pwrite, when)
elif name == "write":
    os.write = dies(os.write, when)
elif name == "append":
    line_format.append_held = dies(line_format.append_held, when)

class Store:
    def __init__(self, store):
        self.store, self.writes = store, 0
    def __getattr__(self, name):
        return getattr(self.store, name)
    async def write(self, work, **more):
        self.writes += 1
        last = name == "commit" and self.writes == int(step[-1])
        if last and when == "before":
            die()
        done = await self.store.write(work, **more)
        if last:
            die()
        return done

async def main():
    store = Store(await engines.join(address, SCHEMAS))
    file = folder / "transcript.log"
    lock = line_format.lock_path(folder, file)
    await Transcript(store, file, lock, roster_of(Rules(agents=("ALPHA",))), member=member).catch_up()

asyncio.run(main())
"""
STEPS = [
    "commit before1",
    "commit after1",
    "overwrite before1",
    "pwrite before1",
    "pwrite half1",
    "pwrite after1",
    "overwrite after1",
    "append before1",
    "write half1",
    "append after1",
    "commit before2",
    "commit after2",
]


async def run_child(member: Member, address: str, step: str) -> int:
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", CHILD, str(member.folder), address, member.name, step, cwd=ROOT
    )
    async with asyncio.timeout(PATIENT_S):
        return await child.wait()


@pytest.mark.parametrize("step", STEPS)
async def test_killed_between_commit_blanking_and_append(store: Store, tmp_path: Path, step: str) -> None:
    members = fleet(store, tmp_path, "ann", "bob")
    ann = members[0]
    await say(store, "welcome")
    ann.write("[ann] stays\n")
    await settled(store, members)
    await say(store, "due first")
    ann.write("[ann] one\n" + "".join(f"[ann] more {n} {'x' * 3000}\n" for n in range(4)))
    assert await run_child(ann, engines.address_of(tmp_path), step) == -signal.SIGKILL
    await say(store, "said while it is away")
    ann.write("[ann] written while it is away\n")
    ann.begin()
    if step == "write half1":
        # A line that was cut off in its middle is junk for whoever reads it, and told.
        await ann.tail.catch_up()
        assert len(await notices(store, "transcript_junk")) <= 1
    await settled(store, members)
    bodies = Counter(body for _, body in await in_room(store))
    assert set(bodies.values()) == {1}
    assert {"stays", "one", "written while it is away", "said while it is away"} <= set(bodies)


DAEMONS = """
import asyncio, sys
from pathlib import Path
from tests import engines
from tests.room.parts import SCHEMAS, roster_of
from relay.model import Kind
from relay.room.journal.admitting import admit
from relay.room.journal.ledger import NewMessage
from relay.room.journal.admission_rules import Rules
from relay.room.parsing import line_format
from relay.room.transcript.tail import Transcript

async def main(folder: Path, address: str, start: int) -> None:
    store = await engines.join(address, SCHEMAS)
    rules = Rules(agents=("ALPHA",))
    async with asyncio.TaskGroup() as group:
        for name in ("ann", "bob"):
            file = folder / name / "transcript.log"
            lock = line_format.lock_path(folder / name, file)
            group.create_task(Transcript(store, file, lock, roster_of(rules), member=name).run())
        n = start
        while True:
            new = NewMessage("door", Kind.HUMAN, f"door {n}", 1.0)
            await store.write(lambda tx: admit(tx, new, rules), durable=True)
            print(f"door {n}", flush=True)
            n += 1
            await asyncio.sleep(0.003)

asyncio.run(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
"""


async def test_killed_at_random_instants(store: Store, tmp_path: Path) -> None:
    rng = random.Random(7)
    members = fleet(store, tmp_path, "ann", "bob")
    acknowledged: list[str] = []
    written: list[str] = []
    for start in range(4):
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            DAEMONS,
            str(tmp_path),
            engines.address_of(tmp_path),
            str(start * 100_000),
            cwd=ROOT,
            stdout=subprocess.PIPE,
        )
        assert child.stdout is not None
        for _ in range(rng.randrange(20, 70)):
            async with asyncio.timeout(PATIENT_S):
                acknowledged.append((await child.stdout.readline()).decode().strip())
            member = rng.choice(members)
            written.append(f"line {len(written)}")
            member.write(f"[{member.name}] {written[-1]}\n")
        child.send_signal(signal.SIGKILL)
        acknowledged += [line for line in (await child.stdout.read()).decode().split("\n")[:-1] if line]
        await child.wait()
    await settled(store, members)
    said = Counter(body for _, body in await in_room(store))
    assert set(said.values()) == {1}
    assert {*acknowledged, *written} <= set(said)


# -- the archive, and the upgrade


async def test_an_archive_of_a_members_file(store: Store, tmp_path: Path) -> None:
    """Also with bytes that are to become blank, before the place where it is cut and behind it."""
    ann, bob = members = fleet(store, tmp_path, "ann", "bob")
    for number in range(6):
        await say(store, f"entry {number}")
    await settled(store, members)
    await say(store, "due first")
    ann.write("[ann] came early\n")
    await ann.tail.read_on()
    assert (await ann.place()).blank
    folder = tmp_path / "archive"
    done = await rotation.rotate(store, ann.file, ann.lock, folder, keep=2, member="ann")
    assert (done.moved, done.kept) == (4, 2)
    assert done.file is not None and b"came early" not in done.file.read_bytes()
    for tail in (ann.tail, ann.begin()):
        await tail.catch_up()
    await bob.tail.catch_up()
    assert ann.entries() == (await in_room(store))[4:]
    assert bob.entries() == await in_room(store)
    ann.write("[ann] and on\n")
    for member in members:
        await member.tail.catch_up()
    assert ann.entries() == (await in_room(store))[4:]
    assert await notices(store) == []


async def test_a_line_says_the_same_whenever_it_is_made(store: Store, tmp_path: Path) -> None:
    ann, bob = fleet(store, tmp_path, "ann", "bob")
    message = await post(store, "who answers?", 1.0)
    await ann.tail.catch_up()

    async def decide(tx: ports.Tx) -> None:
        await ledger.add_meta(tx, message.id, decision={"action": "route"})
        await ledger.add_meta(tx, message.id, folded_into=ledger.new_id())

    await store.write(decide)
    await bob.tail.catch_up()
    assert ann.file.read_bytes() == bob.file.read_bytes()
    (row,) = await store.read(lambda tx: tx.all(Q.messages_from, after=0, limit=10))
    assert set(json.loads(row["meta"])) == {"decision", "folded_into"}


OLD_TAIL = """
INSERT INTO tail ({id}, "offset", head_len, head_sha, last_len, last_sha, history_until)
VALUES (1, $1, $2, $3, $4, $5, 0)
"""


async def test_the_outbox_of_an_earlier_version_is_what_the_file_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Entries 2 and 4 of five were in it; 4 was appended by a process that was killed before it said so."""
    every = ports.load_migrations

    def before(folder: Path, dialect: str) -> list[Migration]:
        steps = every(folder, dialect)
        return steps[:5] if folder.name == "room" else steps

    with monkeypatch.context() as patched:
        patched.setattr(ports, "load_migrations", before)
        opened, address = await _empty(tmp_path)
    said = []

    async def fill(tx: ports.Tx) -> None:
        said.clear()
        for number in range(5):
            new = NewMessage("ann", Kind.HUMAN, f"entry {number + 1}", 1.0)
            said.append((await ledger.put_message(tx, new))[0])

    # What writes the entries is of today, and knows a column more.
    await _change(address, "ALTER TABLE messages ADD COLUMN thread TEXT")
    await opened.write(fill)
    rows = await opened.read(lambda tx: tx.all(Q.messages_from, after=0, limit=10))
    lines = [ledger.line_of({**dict(row), "said": None}) for row in rows]
    await opened.close()
    await _change(address, "ALTER TABLE messages DROP COLUMN thread")
    only = tmp_path / "transcript.log"
    only.write_bytes(lines[0] + lines[2] + lines[4])
    from relay.room.transcript.file_position import stand_at

    place = stand_at(only, only.stat().st_size, Place())
    values = (place.offset, place.head_len, place.head_sha, place.last_len, place.last_sha)
    await _change(address, OLD_TAIL.format(id="id"), *values)
    for number in (2, 4):
        await _change(
            address,
            "INSERT INTO outbox (message_id, number, line) VALUES ($1, $2, $3)",
            said[number - 1].id,
            number,
            lines[number - 1],
        )
    with only.open("ab") as file:
        file.write(lines[3])
    again = await engines.join(address, SCHEMAS if "://" not in address else engines.SCHEMAS)
    try:
        kept = await again.read(lambda tx: checkpoint.kept_place(tx, ""))
        assert kept is not None and (kept.upto, kept.ahead) == (1, ((3, 4), (5, 6)))
        lock = line_format.lock_path(tmp_path, only)
        tail = Transcript(again, only, lock, roster_of(RULES))
        await tail.catch_up()
        assert only.read_bytes() == lines[0] + lines[2] + lines[4] + lines[3] + lines[1]
        kept = await again.read(lambda tx: checkpoint.kept_place(tx, ""))
        assert kept is not None and (kept.upto, kept.ahead) == (5, ())
        assert len(await all_messages(again)) == 5
    finally:
        await again.close()
        if "://" in address:
            postgres.server().drop_database(address.rpartition("/")[2].partition("?")[0])


async def _empty(folder: Path) -> tuple[Store, str]:
    """A store in a database that is new, and its address for `engines.join`."""
    if engines.current() == "sqlite":
        file = folder / "old.db"
        return await sqlite_store.open_store(file, SCHEMAS), str(file)
    server = postgres.server()
    name = server.new_database()
    opened = await postgres_store.open_store(server.address(name), engines.SCHEMAS)
    return opened, server.dsn(name)


async def _change(address: str, statement: str, *values: object) -> None:
    if "://" not in address:
        import sqlite3
        from contextlib import closing

        with closing(sqlite3.connect(address, isolation_level=None)) as connection:
            connection.execute(statement.replace("$", "?"), values)
        return
    import asyncpg

    connection = await asyncpg.connect(address, server_settings={"search_path": postgres_store.SCHEMA})
    try:
        await connection.execute(statement, *values)
    finally:
        await connection.close()


async def test_a_forgotten_exchange_of_an_earlier_version_keeps_what_stands(
    store: Store, tmp_path: Path
) -> None:
    """`relay archive` of an earlier version was killed once the new file was there: its announcement says nothing of
    the numbers."""
    (only,) = fleet(store, tmp_path, "")
    for number in range(4):
        await say(store, f"entry {number}")
    await only.tail.catch_up()
    lines = only.file.read_bytes().splitlines(keepends=True)
    shorter = only.folder / "shorter"
    shorter.write_bytes(b"".join(lines[2:]))
    from relay.room.transcript.file_position import stand_at

    after = stand_at(shorter, shorter.stat().st_size, Place())
    status = shorter.stat()
    shorter.replace(only.file)
    old = {
        "offset": after.offset,
        "head_len": after.head_len,
        "head_sha": after.head_sha,
        "last_len": after.last_len,
        "last_sha": after.last_sha,
        "history_until": 0,
    }
    text = json.dumps({"after": old, "device": status.st_dev, "inode": status.st_ino})
    await store.write(lambda tx: events.put_setting(tx, "transcript_swap", text))
    await say(store, "and on")
    await only.begin().catch_up()
    assert [body for _, body in only.entries()] == ["entry 2", "entry 3", "and on"]
