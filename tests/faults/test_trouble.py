"""What may befall a room besides kill -9 at random: a full disk, a locked database, a clock that is stepped,
agents that do not want to end, two daemons at once."""

from __future__ import annotations

import asyncio
import os
import re
import resource
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests.outside import Outside, agent, eventually, program, room, settings

pytestmark = pytest.mark.faults

#: Notes what it is asked and its pid; hangs where it is told to, deaf to TERM and with a grandchild of its own.
HANGER = """
import os, signal, subprocess, sys, time
asked = sys.stdin.read()
with open("asked", "a") as file:
    file.write(asked + "\\n=====\\n")
if "hang" in asked.rsplit("The message to answer:", 1)[1] and not os.path.exists("go-on"):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    children = [subprocess.Popen([sys.executable, "-c", deaf], start_new_session=own) for own in (True, False)]
    open("hangs", "w").write(" ".join(str(p) for p in [os.getpid(), *(c.pid for c in children)]))
    time.sleep(600)
print("I am done.")
"""


@pytest.fixture
async def hanging(tmp_path: Path) -> AsyncIterator[Outside]:
    """A room whose agent has begun a turn that ends only by KILL."""
    async with room(tmp_path / "room", settings(program("HANGER", "hanger.py"))) as one:
        (one.folder / "hanger.py").write_text(HANGER)
        await one.start()
        await one.post("@HANGER hang", name="ann")
        await eventually(_async((one.folder / "hangs").exists), "the agent to hang")
        assert len(one.agent_processes("HANGER")) >= 3
        yield one


def _async(look: Callable[[], object]) -> Callable[[], object]:
    async def asked() -> object:
        return look()

    return asked  # type: ignore[return-value]


def _pids(one: Outside) -> list[int]:
    return [int(pid) for pid in (one.folder / "hangs").read_text().split()]


def _alive(pids: list[int]) -> list[int]:
    found = []
    for pid in pids:
        try:
            if psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                found.append(pid)
        except psutil.NoSuchProcess:
            continue
    return found


# -- processes


async def test_a_killed_daemon_leaves_no_agent(hanging: Outside) -> None:
    pids = _pids(hanging)
    hanging.kill()
    began = time.monotonic()
    # The promise is 2 s; here it is given more, since the machine may be loaded.
    await eventually(_async(lambda: not _alive(pids)), "the agents to end", within_s=10, every_s=0.02)
    await eventually(_async(lambda: not hanging.agent_processes()), "shims to end", within_s=10)
    print(f"gone {time.monotonic() - began:.2f} s after the kill")


async def test_an_interrupted_turn_is_resumed_and_told_so(hanging: Outside) -> None:
    hanging.kill()
    (hanging.folder / "go-on").touch()
    await hanging.start()
    await hanging.until_said("^I am done.$", speaker="HANGER")
    first, second = (hanging.folder / "asked").read_text().split("\n=====\n")[:2]
    assert "was cut off" not in first
    assert "Your last attempt at the message below was cut off" in second
    assert second.rstrip().endswith("hang")
    answers = [one for one in await hanging.entries() if one["speaker"] == "HANGER"]
    assert len(answers) == 1


async def test_stop_ends_an_agent_that_ignores_TERM(hanging: Outside) -> None:
    pids = _pids(hanging)
    assert hanging.process is not None
    stopping = asyncio.create_task(hanging.script("stop.sh"))
    await eventually(_async(lambda: hanging.process.poll() is not None), "the daemon's end")  # type: ignore[union-attr]
    ran = await stopping
    assert ran.code == 0, ran.all
    assert not _alive(pids)
    assert not hanging.agent_processes()
    assert not (hanging.folder / "speaker.lock").exists()
    assert not (hanging.runtime / "relay.pid").exists()
    again = await hanging.script("stop.sh")
    assert again.code == 0
    assert "not running" in again.out


async def test_of_two_daemons_at_once_one_wins_and_the_other_says_where(tmp_path: Path) -> None:
    async with room(tmp_path / "room", settings(agent("ECHO"))) as one:
        both = [one.launch(), one.launch()]
        try:

            async def one_left() -> list[subprocess.Popen[bytes]]:
                return [process for process in both if process.poll() is not None]

            (loser,) = await eventually(one_left, "one daemon to give up")
            (winner,) = [process for process in both if process is not loser]
            assert loser.returncode == 1
            one.process = winner
            await one.until_open()
            assert re.search(rf"runs already|relay runs.*pid {winner.pid}", one.said())
            third = await one.relay("run", "--foreground")
            assert third.code == 1
            assert one.url in third.all
            assert str(winner.pid) in third.all
            posted = await one.post("@ECHO still here?")
            await one.reply_to(posted["id"], "ECHO")
        finally:
            for process in both:
                if process.poll() is None and process is not one.process:
                    process.kill()


# -- the disk


@contextmanager
def _small_disk(folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", folder], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def _may_mount() -> bool:
    if os.geteuid() != 0 or shutil.which("mount") is None:
        return False
    probe = subprocess.run(
        ["unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/mnt"], capture_output=True, check=False
    )
    return probe.returncode == 0


class FullDisk:
    """A disk that really is full: a small file system, filled by a file."""

    def __init__(self, one: Outside) -> None:
        self._filler = one.folder / "filler"

    def fill(self) -> None:
        with self._filler.open("wb", buffering=0) as file:
            for size in (1 << 20, 4096, 1):
                try:
                    while file.write(b"x" * size):
                        pass
                except OSError:
                    continue

    def free(self) -> None:
        self._filler.unlink()


class NoMore:
    """For those who may not mount: the daemon may write no file beyond what its database has by now."""

    def __init__(self, one: Outside) -> None:
        assert one.process is not None
        self._one, self._pid = one, one.process.pid

    def fill(self) -> None:
        resource.prlimit(self._pid, resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))

    def free(self) -> None:
        resource.prlimit(self._pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


WAYS = ["limit", "tmpfs"] if _may_mount() else ["limit"]


@pytest.mark.parametrize("way", WAYS)
async def test_a_full_disk_is_said_and_loses_nothing(tmp_path: Path, way: str) -> None:
    folder = tmp_path / "room"
    configuration = settings(agent("ECHO"), locks={"ttl": 3})
    if way == "limit":
        async with room(folder, configuration) as one:
            await one.start()
            await _through_a_full_disk(one, NoMore(one))
        return
    with _small_disk(folder):
        async with room(folder, configuration) as one:
            await one.start()
            await _through_a_full_disk(one, FullDisk(one))


async def _through_a_full_disk(one: Outside, disk: FullDisk | NoMore) -> None:
    kept = [await one.post(f"@ECHO before-{n}", client_id=f"before-{n}") for n in range(3)]
    await one.reply_to(kept[-1]["id"], "ECHO")
    disk.fill()
    refused: list[str] = []

    async def full() -> bool:
        body = f"@ECHO while-{len(kept)}-{len(refused)} {'x' * 2000}"
        status, told = await one.ask("POST", "/api/messages", json={"body": body, "name": "ann"})
        if status == 201:  # what the journal still had room for
            kept.append(told)
            return False
        assert status == 503, (status, told)
        assert told["error"]["message"]
        refused.append(body.split()[1])
        return True

    await eventually(full, "a post to be refused", every_s=0)

    async def unwell() -> bool:
        async with one.session.get(f"{one.url}/health") as answer:
            return answer.status == 503

    await eventually(unwell, "the health to say it")
    disk.free()

    async def takes() -> bool:
        status, told = await one.ask(
            "POST", "/api/messages", json={"body": "@ECHO after", "name": "ann", "client_id": "after"}
        )
        if status == 201:
            kept.append(told)
        return status == 201

    await eventually(takes, "posts to be taken again")
    await eventually(_negated(unwell), "the health to be well again", within_s=90)
    for posted in kept:
        await one.until_job(posted["id"], "ECHO", "done")
    entries = await one.entries()
    ids = Counter(entry["id"] for entry in entries)
    assert all(ids[posted["id"]] == 1 for posted in kept)
    assert not any(token in entry["body"] for entry in entries for token in refused)

    async def in_the_file() -> bool:
        found = Counter(told["id"] for _, told in one.file_lines() if isinstance(told, dict))
        return all(found[id] == 1 for id in ids)

    await eventually(in_the_file, "the file to have every entry once")
    told = [line for line in one.log_lines() if line["level"] in ("warning", "error")]
    assert told, "nothing of it is in the log"
    verified = await one.relay("verify")
    assert verified.code == 0, verified.all


def _negated(look: Callable[[], object]) -> Callable[[], object]:
    async def asked() -> bool:
        return not await look()  # type: ignore[misc]

    return asked


async def test_a_transcript_that_cannot_be_written_is_said_and_written_later(tmp_path: Path) -> None:
    async with room(tmp_path / "room", settings(agent("ECHO"))) as one:
        await one.start()
        first = await one.post("@ECHO first")
        await one.reply_to(first["id"], "ECHO")
        away = one.transcript.with_name("away")
        one.transcript.rename(away)
        one.transcript.mkdir()
        second = await one.post("@ECHO second")
        await one.reply_to(second["id"], "ECHO")

        async def unwell() -> bool:
            async with one.session.get(f"{one.url}/health") as answer:
                return answer.status == 503

        await eventually(unwell, "the health to say it")
        one.transcript.rmdir()
        away.rename(one.transcript)

        async def written() -> bool:
            ids = [told["id"] for _, told in one.file_lines() if isinstance(told, dict)]
            return ids.count(second["id"]) == 1 and len(ids) == len(set(ids)) == len(await one.entries())

        await eventually(written, "the file to have what was said meanwhile")
        await eventually(_negated(unwell), "the health to be well again")


# -- the database

HOLDER = """
import sqlite3, sys, time
connection = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=30)
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
time.sleep(float(sys.argv[2]))
connection.execute("ROLLBACK")
"""


async def test_a_database_locked_for_ten_seconds_costs_time_only(tmp_path: Path) -> None:
    async with room(tmp_path / "room", settings(agent("ECHO"), agent("SLOW", "slow.yaml"))) as one:
        (one.folder / "slow.yaml").write_text('- delay_s: 2\n  say: "{agent} heard {body}"\n')
        await one.start()
        slow = await one.post("@SLOW begun-before")
        await one.until_job(slow["id"], "SLOW", "active")
        holder = await asyncio.create_subprocess_exec(
            sys.executable, "-c", HOLDER, str(one.runtime / "events.db"), "10", stdout=subprocess.PIPE
        )
        assert holder.stdout is not None
        assert await holder.stdout.readline() == b"held\n"
        one.echo("[dan] @ECHO by-hand")
        posts = [asyncio.create_task(one.post_stubbornly(f"@ECHO locked-{n}", "ann")) for n in range(20)]
        # Reading goes on meanwhile.
        assert (await one.get("/api/state"))["room"]["cursor"]
        assert not any(post.done() for post in posts)
        assert await holder.wait() == 0
        ids = await asyncio.gather(*posts)
        for id in ids:
            await one.until_job(id, "ECHO", "done")
        await one.until_job(slow["id"], "SLOW", "done")
        await one.until_said("ECHO heard.*by-hand")
        counts = Counter(entry["id"] for entry in await one.entries())
        assert all(counts[id] == 1 for id in ids)
        answers = [entry for entry in await one.entries() if entry["speaker"] == "SLOW"]
        assert len(answers) == 1


async def test_a_database_that_stays_locked_refuses_and_the_health_says_it(tmp_path: Path) -> None:
    async with room(tmp_path / "room", settings(agent("ECHO"))) as one:
        await one.start()
        holder = await asyncio.create_subprocess_exec(
            sys.executable, "-c", HOLDER, str(one.runtime / "events.db"), "36", stdout=asyncio.subprocess.PIPE
        )
        assert holder.stdout is not None
        assert await holder.stdout.readline() == b"held\n"
        asked = [
            one.ask(
                "POST", "/api/messages", json={"body": f"@ECHO {n}", "name": "ann", "client_id": f"c-{n}"}
            )
            for n in range(5)
        ]
        for status, told in await asyncio.gather(*asked):
            assert status == 503
            assert "locked" in told["error"]["message"]
        async with one.session.get(f"{one.url}/health") as answer:
            assert answer.status == 503
        assert await holder.wait() == 0
        posted = [await one.post(f"@ECHO {n}", client_id=f"c-{n}") for n in range(5)]
        for one_posted in posted:
            await one.until_job(one_posted["id"], "ECHO", "done")

        async def well() -> bool:
            # A task that gave up on the lock counts as well once it has run for a while again.
            async with one.session.get(f"{one.url}/health") as answer:
                return answer.status == 200

        await eventually(well, "the room to be well again")
        bodies = Counter(entry["body"] for entry in await one.entries())
        assert [bodies[f"@ECHO {n}"] for n in range(5)] == [1] * 5


# -- the clock


def _faketime() -> str:
    for folder in ("/usr/lib", "/usr/local/lib", "/opt/homebrew/lib"):
        found = sorted(Path(folder).glob("**/faketime/libfaketime*.so.1"))
        if found:
            return str(found[0])
    raise AssertionError("libfaketime is missing; apt install faketime")


async def test_a_clock_that_is_stepped_back_an_hour_holds_nothing_up(tmp_path: Path) -> None:
    configuration = settings(
        agent("ECHO"),
        agent("FLAKY", "flaky.yaml"),
        jitter={"quiet_s": 5, "medium_s": 5, "busy_s": 5},
        queue={"backoff_s": 5, "backoff_max_s": 5, "max_attempts": 2},
        locks={"ttl": 6},
    )
    async with room(tmp_path / "room", configuration) as one:
        (one.folder / "flaky.yaml").write_text("- exit: 3\n")
        offset = one.folder / "offset"
        offset.write_text("+0")
        env = {
            "LD_PRELOAD": _faketime(),
            "FAKETIME_TIMESTAMP_FILE": str(offset),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "DONT_FAKE_MONOTONIC": "1",
        }
        await one.start(env=env)
        failed = await one.post("@FLAKY try")
        await one.until_job(failed["id"], "FLAKY", "failed")
        waiting = await one.post("to whom it may concern")
        offset.write_text("-3600")
        # The wait between attempts, the jitter and new turns all end in their seconds, not in an hour.
        await one.until_job(failed["id"], "FLAKY", "dead")
        await one.until_job(waiting["id"], "ECHO", "done")
        posted = await one.post("@ECHO later, and earlier")
        answer = await one.reply_to(posted["id"], "ECHO")
        before = next(entry for entry in await one.entries() if entry["id"] == waiting["id"])
        assert answer["ts"] < before["ts"], "the clock was not stepped"
        assert int(answer["cursor"]) > int(before["cursor"])
        health = await one.script("healthcheck.sh", "--json")
        assert '"daemon"' in health.out
        again = await one.relay("run")
        assert "runs already" in again.out
        assert (await one.relay("verify")).code == 0
