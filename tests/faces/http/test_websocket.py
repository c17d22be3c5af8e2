"""The socket: greeting, resuming, the fan-out, and what a slow client costs the others (nothing)."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from relay import __version__
from relay.faces.http import hub as fanout
from relay.faces.http.app import HUB
from relay.faces.http.hub import wire
from relay.faces.http.requests.limits import Limits
from relay.model import Fault, Refusal
from relay.room.journal.values import Frame
from tests.faces.house import House, house
from tests.faces.memory_room import MemoryRoom

LONG_S = 30.0


@pytest_asyncio.fixture
async def home(tmp_path: Path) -> AsyncIterator[House]:
    async with house(tmp_path) as one:
        yield one


async def frames(line: Any, until: Callable[[dict[str, Any]], bool]) -> list[dict[str, Any]]:
    """What comes, up to the frame that ends it."""
    got: list[dict[str, Any]] = []
    async with asyncio.timeout(LONG_S):
        while not got or not until(got[-1]):
            message = await line.receive()
            assert message.type is aiohttp.WSMsgType.TEXT, message
            got.append(json.loads(message.data))
    return got


async def holds(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(LONG_S):
        while not condition():  # noqa: ASYNC110 (the conditions are other tasks' doing, and have no event)
            await asyncio.sleep(0.01)


def says(body: str) -> Callable[[dict[str, Any]], bool]:
    return lambda frame: frame["data"].get("body") == body


def bodies(got: list[dict[str, Any]]) -> list[str]:
    return [one["data"]["body"] for one in got if one["type"] == "entry"]


async def test_from_now_on(home: House) -> None:
    await home.room.post("before", name="ann")
    async with home.ws() as line:
        await line.send_json({"after": None})
        (hello,) = await frames(line, lambda one: one["type"] == "hello")
        assert hello == {
            "cursor": None,
            "type": "hello",
            "data": {"cursor": "3", "version": __version__},
        }
        await home.room.post("after", name="ann")
        (entry,) = await frames(line, says("after"))
        assert (entry["cursor"], entry["type"], entry["data"]["speaker"]) == ("5", "entry", "ann")


@pytest.mark.parametrize("after", ["0", 0, "3", "4"])
async def test_from_a_cursor_on(home: House, after: Any) -> None:
    for body in ("one", "two", "three"):
        await home.room.post(body, name="ann")
    async with home.ws() as line:
        await line.send_json({"after": after})
        got = await frames(line, says("three"))
        await home.room.post("four", name="ann")
        got += await frames(line, says("four"))
    expected = ["one", "two", "three", "four"]
    assert bodies(got) == expected[0 if str(after) == "0" else 1 :]
    assert got[0]["type"] == "hello"


@pytest.mark.parametrize(
    ("first", "code"),
    [
        ("", 4400),
        ("{", 4400),
        ("null", 4400),
        ("{}", 4400),
        ('{"after": "x"}', 4400),
        ('{"after": -1}', 4400),
        ('{"after": 1.5}', 4400),
        ('{"after": true}', 4400),
        ('{"after": null, "more": 1}', 4400),
        ('{"after": null, "name": "CLAUDE"}', 4400),
        ('{"after": null, "name": "CL\u0410UDE"}', 4400),  # a Cyrillic A
        ('{"after": null, "name": 1}', 4400),
        ("[" * 4000, 4400),
        ("x" * 5000, 1009),
        (b"\x00", 4400),
    ],
)
async def test_a_first_frame_that_says_nothing(home: House, first: str | bytes, code: int) -> None:
    async with home.ws() as line:
        await (line.send_str(first) if isinstance(first, str) else line.send_bytes(first))
        async with asyncio.timeout(LONG_S):
            message = await line.receive()
        assert message.type is aiohttp.WSMsgType.CLOSE and message.data == code


async def test_a_client_that_does_not_say_where_it_stands(tmp_path: Path) -> None:
    async with house(tmp_path, limits=Limits(first_frame_s=0.1)) as home, home.ws() as line:
        async with asyncio.timeout(LONG_S):
            message = await line.receive()
        assert message.data == 4408 and "after" in message.extra


async def test_a_cursor_of_another_room(home: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("relay.faces.http.websocket.NEW_CURSOR_S", 0.05)
    async with home.ws() as line:
        await line.send_json({"after": "1000"})
        async with asyncio.timeout(LONG_S):
            assert (await line.receive()).data == 4404


async def test_a_cursor_that_is_newer_than_what_was_published_so_far(home: House) -> None:
    async with home.ws() as line:
        await line.send_json({"after": "3"})
        await asyncio.sleep(0.1)
        await home.room.post("one", name="ann")
        await home.room.post("two", name="ann")
        assert bodies(await frames(line, says("two"))) == ["two"]


async def test_frames_that_are_not_stored(home: House) -> None:
    async with home.ws() as line:
        await line.send_json({"after": None})
        await frames(line, lambda one: one["type"] == "hello")
        for at in range(20):
            home.room.say_live(Frame(None, "stream", {"text": "ä", "offset": at}))
        got = await frames(line, lambda one: one["data"]["offset"] == 19)
    assert [one["data"]["offset"] for one in got] == list(range(20))
    assert all(one["cursor"] is None and one["data"]["text"] == "ä" for one in got)


async def test_who_comes_while_an_agent_writes_gets_what_it_has_written(home: House) -> None:
    await home.room.post("write it", name="ann")
    home.room.writing = [Frame(None, "stream", {"job": 1, "text": "so far", "offset": 0})]
    for after in (None, "0"):
        async with home.ws() as line:
            await line.send_json({"after": after})
            # After the stored frames: one of those may tell of the end of a former attempt.
            got = await frames(line, lambda one: one["type"] == "stream")
            assert [one["type"] for one in got] == ["hello", *(["entry"] if after else []), "stream"]
            home.room.say_live(Frame(None, "stream", {"job": 1, "text": "!", "offset": 6}))
            (more,) = await frames(line, lambda one: one["type"] == "stream")
            assert more["data"]["offset"] == 6


async def test_what_happens_now_is_listened_to_only_while_somebody_is_connected(home: House) -> None:
    assert home.room.feeds == 0
    for at in range(2):
        async with home.ws() as line:
            await line.send_json({"after": None})
            await frames(line, lambda one: one["type"] == "hello")
            home.room.say_live(Frame(None, "stream", {"text": "", "offset": at}))
            got = await frames(line, lambda one: one["type"] == "stream")
            assert got[-1]["data"]["offset"] == at
            assert home.room.feeds == 1
        await holds(lambda: home.room.feeds == 0)


async def test_who_is_here_while_connected(home: House) -> None:
    async with home.ws() as line:
        await line.send_json({"after": None, "name": "ann"})
        await holds(lambda: home.room.people == ["ann"])
    await holds(lambda: home.room.people == [])
    await holds(lambda: home.app[HUB].clients == 0)


async def test_a_page_that_signs_out_is_disconnected(home: House) -> None:
    await home.client.post("/api/sign-in", json={"key": home.token})
    async with home.ws(headers={}) as page, home.ws() as program:
        for line in (page, program):
            await line.send_json({"after": None})
            await frames(line, lambda one: one["type"] == "hello")
        await home.client.post("/api/sign-out")
        async with asyncio.timeout(LONG_S):
            assert (await page.receive()).data == 4401
        await home.room.post("on", name="ann")
        await frames(program, says("on"))


async def test_a_page_whose_session_is_over_is_disconnected(tmp_path: Path) -> None:
    async with house(tmp_path, limits=Limits(session_look_s=0.02)) as home:
        await home.client.post("/api/sign-in", json={"key": home.token})
        async with home.ws(headers={}) as page, home.ws() as program:
            for line in (page, program):
                await line.send_json({"after": None})
                await frames(line, lambda one: one["type"] == "hello")
            home.clock.now += 31 * 86400
            async with asyncio.timeout(LONG_S):
                assert (await page.receive()).data == 4401
            await home.room.post("on", name="ann")
            await frames(program, says("on"))


async def test_only_so_many_at_once(tmp_path: Path) -> None:
    async with house(tmp_path, limits=Limits(sockets=2)) as home:
        async with home.ws(), home.ws():
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await home.ws()
            assert refused.value.status == 503
        async with asyncio.timeout(LONG_S):
            while True:
                try:
                    async with home.ws():
                        break
                except aiohttp.WSServerHandshakeError:
                    await asyncio.sleep(0.01)


async def test_a_stop_ends_connections_at_once(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        line, silent = await home.ws(), await home.ws()
        await line.send_json({"after": None})
        await frames(line, lambda one: one["type"] == "hello")
        async with asyncio.timeout(LONG_S / 3):
            await asyncio.gather(home.server.close(), line.receive(), silent.receive())
        assert line.close_code == 1001


async def test_a_room_that_fails_under_a_connection_closes_it(
    home: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails() -> int:
        raise Refusal("no", "", Fault.BUSY)

    async with home.ws() as line:
        monkeypatch.setattr(home.room, "last_cursor", fails)
        await line.send_json({"after": None})
        async with asyncio.timeout(LONG_S):
            assert (await line.receive()).data == 1011


# --- no gap, nothing twice -----------------------------------------------------------------------------


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    before=st.integers(0, 60),
    ring=st.integers(1, 40),
    batch=st.integers(1, 9),
    breaks=st.lists(st.integers(1, 15), min_size=1, max_size=5),
)
def test_resuming_while_others_post(
    tmp_path_factory: pytest.TempPathFactory, before: int, ring: int, batch: int, breaks: list[int]
) -> None:
    """A client that breaks off after so many frames, again and again, has each entry once at the end."""

    async def scene() -> None:
        async with house(tmp_path_factory.mktemp("room"), batch=batch) as home:
            for at in range(before):
                await home.room.post(str(at), name="ann")
            total = before + 60
            got: list[str] = []

            async def talk() -> None:
                for at in range(before, total):
                    await home.room.post(str(at), name="ann")
                    await asyncio.sleep(0)

            async def follow() -> None:
                cursor = "0"
                for stay in [*breaks, total + 1]:
                    async with home.ws() as line:
                        await line.send_json({"after": cursor})
                        for _ in range(stay + 1):
                            if len(got) == total:
                                return
                            frame = await line.receive_json()
                            if frame["type"] == "entry":
                                got.append(frame["data"]["body"])
                                cursor = frame["cursor"]

            async with asyncio.timeout(LONG_S), asyncio.TaskGroup() as group:
                group.create_task(talk())
                group.create_task(follow())
            assert got == [str(at) for at in range(total)]
            await holds(lambda: home.room.readers == 1)  # the hub's own: none is left behind

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fanout, "RING_FRAMES", ring)
        patch.setattr(fanout, "SEED", 10)
        asyncio.run(scene())


@pytest.mark.parametrize("ring", [1, 100])
async def test_what_one_event_told_beside_its_entry_is_not_lost_when_the_line_breaks_between(
    home: House, monkeypatch: pytest.MonkeyPatch, ring: int
) -> None:
    monkeypatch.setattr(fanout, "RING_FRAMES", ring)
    for at in (3, 5, 7):
        receipts = [Frame(at, "receipt", {"id": at * 10 + n}) for n in range(2)]
        await home.room.store(Frame(at, "entry", {"body": str(at)}), *receipts)
    await holds(lambda: home.app[HUB].head == 7)
    async with home.ws() as line:
        await line.send_json({"after": "5"})
        got = await frames(line, lambda one: one["data"].get("id") == 71)
    assert [one["data"].get("body") or one["data"].get("id") for one in got[1:]] == [50, 51, "7", 70, 71]


async def test_the_feeds_failure_is_survived_without_a_gap(
    home: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = home.room.frames
    calls = 0

    async def breaks(after: int | None) -> AsyncIterator[list[Frame]]:
        nonlocal calls
        calls += 1
        async for batch in real(after):
            yield batch
            if calls < 3:
                raise OSError("the store is away")

    monkeypatch.setattr(home.room, "frames", breaks)
    async with home.ws() as line:
        await line.send_json({"after": "0"})
        for at in range(6):
            await home.room.post(str(at), name="ann")
            await asyncio.sleep(0.05)
        got = await frames(line, says("5"))
    assert bodies(got) == [str(at) for at in range(6)]


# --- the slow one --------------------------------------------------------------------------------------


def deaf(home: House) -> socket.socket:
    """A connection that has said its first word and reads nothing."""
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    raw.connect(("127.0.0.1", home.server.port))
    key = base64.b64encode(os.urandom(16)).decode()
    first = b'{"after":"0"}'
    raw.sendall(
        f"GET /ws HTTP/1.1\r\nHost: {home.at}\r\nX-API-Key: {home.token}\r\nUpgrade: websocket\r\n"
        f"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n".encode()
        + bytes((0x81, 0x80 | len(first), 0, 0, 0, 0))
        + first
    )
    return raw


async def test_a_client_that_does_not_read_is_cut_off_and_nobody_waits_for_it(tmp_path: Path) -> None:
    limits = Limits(socket_buffer_bytes=64 * 1024, close_s=0.2)
    async with house(tmp_path, limits=limits) as home:
        raw = deaf(home)
        try:
            async with home.ws() as line:
                await line.send_json({"after": "0"})
                await frames(line, lambda one: one["type"] == "hello")
                await holds(lambda: home.app[HUB].clients == 2)
                sent = 0
                async with asyncio.timeout(LONG_S):
                    while home.app[HUB].clients == 2:
                        await home.room.post(f"{sent}:" + "x" * 65536, name="ann")
                        sent += 1
                        (got,) = await frames(line, lambda _: True)
                        assert got["data"]["body"].startswith(f"{sent - 1}:")
                assert sent > 1
                await home.room.post("on it goes", name="ann")
                await frames(line, says("on it goes"))
            await holds(lambda: home.app[HUB].clients == 0)
        finally:
            raw.close()


async def test_a_slow_client_is_told_that_it_lags(tmp_path: Path) -> None:
    async with house(tmp_path, limits=Limits(socket_buffer_bytes=64 * 1024)) as home:
        line = await home.client.ws_connect("/ws", headers=home.key, max_msg_size=0)
        await line.send_json({"after": "0"})
        await frames(line, lambda one: one["type"] == "hello")
        await holds(lambda: home.app[HUB].clients == 1)
        sent = 0
        while home.app[HUB].clients and sent < 2000:  # nobody takes what comes, so it piles up on the way
            await home.room.post(f"{sent}:" + "x" * 65536, name="ann")
            await asyncio.sleep(0)
            sent += 1
        got = await frames(line, lambda one: one["type"] == "lagging")
        assert got[-1]["data"]["dropped"] >= 1 and got[-1]["cursor"] is None
        entries = [int(one.split(":")[0]) for one in bodies(got)]
        assert entries == list(range(len(entries))) and len(entries) < sent
        async with asyncio.timeout(LONG_S):
            assert (await line.receive()).data == 1013
        async with home.ws(max_msg_size=0) as again:  # back with its cursor, it misses nothing
            await again.send_json({"after": [one["cursor"] for one in got if one["cursor"]][-1]})
            rest = await frames(again, lambda one: one["data"].get("number") == sent)
        assert [int(one.split(":")[0]) for one in bodies(rest)] == list(range(len(entries), sent))


async def test_one_great_entry_is_no_lag(tmp_path: Path) -> None:
    async with house(tmp_path, limits=Limits(socket_buffer_bytes=1024)) as home:
        async with home.ws(max_msg_size=0) as line:
            await line.send_json({"after": "0"})
            await frames(line, lambda one: one["type"] == "hello")
            await home.room.post("x" * 8_000_000, name="ann")
            await home.room.post("small", name="ann")
            got = await frames(line, says("small"))
        assert [len(one) for one in bodies(got)] == [8_000_000, 5]


async def test_history_goes_at_the_readers_pace(tmp_path: Path) -> None:
    """A client far behind is not sent more than it reads, so it is never cut off for having slept."""
    async with house(tmp_path, limits=Limits(socket_buffer_bytes=1024), batch=50) as home:
        for at in range(300):
            await home.room.post(f"{at}:" + "x" * 65536, name="ann")
        async with home.ws(max_msg_size=0) as line:
            await line.send_json({"after": "0"})
            got = await frames(line, lambda one: one["data"].get("number") == 300)
        assert [int(one.split(":")[0]) for one in bodies(got)] == list(range(300))


@pytest.mark.parametrize("size", [0, 1, 125, 126, 127, 65535, 65536, 70000])
def test_a_frame_on_the_wire_is_what_the_standard_says(size: int) -> None:
    frame = wire("x" * size)
    assert frame[0] == 0x81 and frame.endswith(b"x" * size)
    length = {126: int.from_bytes(frame[2:4], "big"), 127: int.from_bytes(frame[2:10], "big")}.get(
        frame[1], frame[1]
    )
    assert length == size
    assert len(frame) - size == (2 if size < 126 else 4 if size < 65536 else 10)


async def test_the_log_is_read_less_often_while_nobody_is_connected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Agents who take and release locks write hundreds of events a second; who comes is told the rest at once."""
    monkeypatch.setattr(fanout, "ALONE_S", 3600.0)
    came = asyncio.Event()

    async def read(_after: int | None) -> AsyncIterator[list[Frame]]:
        yield [Frame(1, "lock", {})]
        came.set()
        yield [Frame(2, "lock", {})]
        await asyncio.Event().wait()

    room = MemoryRoom()
    monkeypatch.setattr(room, "frames", read)
    hub = fanout.Hub(room)
    following = asyncio.create_task(hub._follow_stored())
    try:
        await holds(lambda: hub.head == 1)
        for _ in range(20):
            await asyncio.sleep(0)
        assert hub.head == 1 and not came.is_set()
        hub.enter(fanout.Client(asyncio.Transport(), "key", 0, 1024))
        await holds(lambda: hub.head == 2)
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
