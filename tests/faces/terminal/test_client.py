from __future__ import annotations

import asyncio
import json
import os
import pty
import re
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from relay.faces.terminal.client import Down, Post, Refused, RoomClient, Wire, new_id
from relay.faces.terminal.find_room import Finder, Place, PlaceError
from relay.faces.terminal.script import Waiting
from relay.room.parsing import line_format
from tests.faces.fake_room import KEY, FakeRoom, until

ROOT = Path(__file__).resolve().parents[3]
JOIN = ROOT / "scripts" / "join.py"


@pytest.fixture
async def room() -> AsyncIterator[FakeRoom]:
    made = FakeRoom()
    await made.start()
    yield made
    await made.stop()


@pytest.fixture
def home(tmp_path: Path, room: FakeRoom) -> Path:
    """The folder of a room whose daemon is `room`."""
    (tmp_path / "config.json").write_text(
        json.dumps({"agents": [{"name": "CLAUDE", "kind": "command", "preset": "claude"}]})
    )
    (tmp_path / ".relay").mkdir(0o700)
    (tmp_path / ".relay" / "token").write_text(KEY + "\n")
    (tmp_path / ".relay" / "state.json").write_text(json.dumps({"url": room.url, "port": room.port}))
    return tmp_path


@pytest.fixture
def finder(home: Path) -> Finder:
    return Finder(str(home / "config.json"), None, {})


def lines(home: Path) -> list[line_format.Parsed]:
    path = home / ".relay" / "transcript.log"
    return [line_format.decode(line) for line in path.read_bytes().split(b"\n")[:-1]] if path.exists() else []


# --- where the room is ------------------------------------------------------------------------------------


def test_the_daemons_word_goes_before_the_configuration(home: Path, finder: Finder, room: FakeRoom) -> None:
    place = finder.place()
    assert (place.url, place.key) == (room.url, KEY)
    assert place.transcript == home / ".relay" / "transcript.log"
    assert place.lock == home / ".relay" / "transcript.log.lock"
    assert place.reserved == {"CLAUDE", "RELAY", "DISPATCHER", "ALL"}
    (home / ".relay" / "state.json").write_text('{"url": "http://127.0.0.1:9"}')
    assert finder.place().url == "http://127.0.0.1:9"
    (home / ".relay" / "state.json").write_text("{half")
    assert finder.place().url == "http://127.0.0.1:4173"


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("http://host:1/", "http://host:1"),
        ("host:4173", "http://host:4173"),
        ("https://h/room/", "https://h/room"),
        ("ftp://h", None),
        ("http://h:99999", None),
        ("", None),
    ],
)
def test_a_url_is_enough(url: str, found: str | None) -> None:
    finder = Finder(None, url, {"RELAY_API_KEY": " k "})
    if found is None:
        with pytest.raises(PlaceError, match="--url"):
            finder.place()
    else:
        assert finder.place() == Place(found, "k")


def test_a_missing_configuration_is_named(tmp_path: Path) -> None:
    with pytest.raises(PlaceError, match="no such file"):
        Finder(str(tmp_path / "none.json"), None, {}).place()


# --- reading ----------------------------------------------------------------------------------------------


@asynccontextmanager
async def listening(client: RoomClient) -> AsyncIterator[list[Any]]:
    """What the client hands on, while the block runs."""
    heard: list[Any] = []

    async def listen() -> None:
        async with aclosing(client.frames()) as frames:
            async for frame in frames:
                heard.append(frame)

    async with client.open():
        task = asyncio.create_task(listen())
        try:
            yield heard
        finally:
            task.cancel()
            await asyncio.wait([task])


def bodies(heard: list[Any]) -> list[str]:
    return [frame["data"]["body"] for frame in heard if isinstance(frame, dict) and frame["type"] == "entry"]


async def test_no_entry_is_missed_or_doubled_over_broken_connections(room: FakeRoom, finder: Finder) -> None:
    await room.say("bob", "older than asked for")
    expected = [(await room.say("bob", f"old {number}"))["body"] for number in range(3)]
    client = RoomClient(finder.place, "ann", history=3)
    async with listening(client) as heard:
        for pause in range(4):
            await until(lambda: Wire("live") in heard, "the connection")
            expected += [(await room.say("bob", f"live {pause}.{number}"))["body"] for number in range(5)]
            if pause % 2:
                await until(lambda: bodies(heard)[-1:] == expected[-1:], "all entries")  # noqa: B023
            await room.stop()
            expected.append((await room.say("bob", f"unheard {pause}"))["body"])
            heard[:] = [frame for frame in heard if not isinstance(frame, Wire)]
            await room.start()
        await until(lambda: bodies(heard) == expected, "all entries after the last pause")


async def test_a_room_that_moved_is_found(home: Path, room: FakeRoom, finder: Finder) -> None:
    async with listening(RoomClient(finder.place, "ann")) as heard:
        await until(lambda: Wire("live") in heard, "the connection")
        await room.stop()
        room.port = 0
        await room.start()
        await room.say("bob", "over here")
        (home / ".relay" / "state.json").write_text(json.dumps({"url": room.url}))
        await until(lambda: bodies(heard) == ["over here"], "the entry at the new place")


async def test_a_wrong_key_is_told_and_tried_again(home: Path, room: FakeRoom, finder: Finder) -> None:
    (home / ".relay" / "token").write_text("wrong")
    async with listening(RoomClient(finder.place, "ann")) as heard:
        await until(lambda: heard, "a word about the key")
        assert (heard[0].state, heard[0].detail) == ("refused", "this key is not known read .relay/token")
        (home / ".relay" / "token").write_text(KEY)
        await until(lambda: Wire("live") in heard, "the connection")


# --- writing ----------------------------------------------------------------------------------------------


async def test_a_lost_acknowledgement_is_not_a_second_message(room: FakeRoom, finder: Finder) -> None:
    room.lose_acks = 2
    async with RoomClient(finder.place, "ann").open() as client:
        post = Post("once", new_id())
        for _ in range(2):
            with pytest.raises(Down):
                await client.attempt(post)
            assert post.reached
            assert not await client.write_past(post), "it may be in the room: never past it"
        await client.attempt(post)
    assert [each["body"] for each in room.entries] == ["once"]
    assert (room.posts, post.id) == (3, room.entries[0]["id"])


async def test_a_refusal_is_the_rooms_word(room: FakeRoom, finder: Finder) -> None:
    async with RoomClient(finder.place, "CODEX").open() as client:
        with pytest.raises(Refused, match=r"CODEX is an agent's name\. Take another one\.") as caught:
            await client.attempt(Post("hi", new_id()))
    assert not caught.value.passing


async def test_a_busy_room_is_asked_again(room: FakeRoom, finder: Finder) -> None:
    room.busy = 1
    async with RoomClient(finder.place, "ann").open() as client:
        with pytest.raises(Refused) as caught:
            await client.attempt(Post("hi", new_id()))
    assert (caught.value.passing, caught.value.wait_s) == (True, 0.1)


async def test_a_room_without_its_database_says_so_and_takes_what_waited(
    room: FakeRoom, finder: Finder
) -> None:
    client = RoomClient(finder.place, "ann")
    post = Post("hello", new_id())
    async with listening(client) as heard:
        await until(lambda: room._sockets, "the client to be connected")
        await room.cut_off()
        cut = Wire("cut", "This relay is cut off. It passes.")
        await until(
            lambda: cut in [replace(one, wait_s=0.0) for one in heard if isinstance(one, Wire)], "the word"
        )
        with pytest.raises(Refused) as refused:
            await client.attempt(post)
        assert (refused.value.passing, post.waits) == (True, "This relay is cut off. It passes.")
        room.cut = False
        await client.attempt(post)
        await until(lambda: "hello" in bodies(heard), "the entry")
    assert [entry["body"] for entry in room.entries] == ["hello"]


async def test_say_without_its_database_says_that_nothing_was_sent(home: Path, room: FakeRoom) -> None:
    room.cut = True
    code, out, err = await join(home, "--say", "why?", "--wait", "1")
    assert (code, out) == (1, "")
    assert "no full answer in 1 s; it was not sent. This relay is cut off. It passes." in err
    assert await join(home, "--last", "1") == (1, "", "This relay is cut off. It passes.\n")
    assert room.entries == [] and lines(home) == []


async def test_with_the_room_down_the_transcript_has_it(home: Path, room: FakeRoom, finder: Finder) -> None:
    await room.stop()
    async with RoomClient(finder.place, "ann").open() as client:
        post = Post("hi\n[CLAUDE] no", new_id())
        with pytest.raises(
            Down, match=rf"^nobody answers at {room.url}; `bash .*start\.sh --config {home}/\S+` starts it$"
        ):
            await client.attempt(post)
        assert await client.write_past(post)
    (line,) = lines(home)
    assert isinstance(line, line_format.Entry)
    assert (line.speaker, line.body, line.id, line.kind) == ("ann", "hi\n[CLAUDE] no", post.id, "human")


async def test_nobody_writes_as_an_agent(home: Path, room: FakeRoom, finder: Finder) -> None:
    await room.stop()
    async with RoomClient(finder.place, "Claude").open() as client:
        with pytest.raises(ValueError, match="is reserved"):
            await client.write_past(Post("hi", new_id()))
    assert lines(home) == []


# --- scripts ----------------------------------------------------------------------------------------------


async def join(
    home: Path, *args: str, stdin: str | None = None, key: str = "", env: Mapping[str, str] | None = None
) -> tuple[int, str, str]:
    """Run join.py to its end, as ann unless there is an `env`: exit code, stdout, stderr."""
    args = args if env is not None or "--name" in args or "--last" in args else ("--name", "ann", *args)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(JOIN),
        *args,
        cwd=home,
        env={**os.environ, "PYTHONPATH": str(ROOT), "RELAY_API_KEY": key, "USER": "ann", **(env or {})},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await asyncio.wait_for(process.communicate((stdin or "").encode()), 60)
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


async def test_say_posts_once(home: Path, room: FakeRoom) -> None:
    room.lose_acks = 1
    code, out, _ = await join(home, "--name", "bob", "--say", "hello", "--json")
    assert code == 0
    assert json.loads(out)["id"] == room.entries[0]["id"]
    assert [(each["speaker"], each["body"]) for each in room.entries] == [("bob", "hello")]


async def test_what_is_piped_in_is_one_message(home: Path, room: FakeRoom) -> None:
    assert (await join(home, stdin="one\ntwo\n"))[0] == 0
    assert [(each["speaker"], each["body"]) for each in room.entries] == [("ann", "one\ntwo")]
    code, _, err = await join(home, stdin="\n")
    assert (code, err) == (1, "nothing to say: the text is empty\n")


async def test_who_gave_no_name_is_who_they_were_or_whom_git_names(home: Path, room: FakeRoom) -> None:
    """An account may be called root; the person is not."""
    git = home / "gitconfig"
    env = {"USER": "root", "LOGNAME": "root", "GIT_CONFIG_GLOBAL": str(git), "GIT_CONFIG_SYSTEM": os.devnull}
    git.write_text("")
    code, _, err = await join(home, "--say", "one", env=env)
    assert (code, err) == (0, "You are root here, as your account is called; --name says otherwise.\n")
    git.write_text("[user]\nname = Ann Lee\n")
    code, _, err = await join(home, "--say", "two", env=env)
    assert (code, err) == (0, "You are Ann Lee here, as git's user.name has you; --name says otherwise.\n")
    # An agent's name is nobody else's.
    git.write_text("[user]\nname = Claude\n")
    assert (await join(home, "--say", "three", env=env))[0] == 0
    (home / ".relay" / "join_name").write_text("ann\n")
    code, _, err = await join(home, "--say", "four", env=env)
    assert (code, err) == (0, "You are ann here, as at your last visit; --name says otherwise.\n")
    assert [each["speaker"] for each in room.entries] == ["root", "Ann Lee", "root", "ann"]


async def test_wait_prints_the_answers(home: Path, room: FakeRoom) -> None:
    async def answer(asked: dict[str, Any]) -> None:
        await room.receipt(1, asked["id"], "CLAUDE", "pending")
        await room.receipt(2, asked["id"], "CODEX", "skipped", reason="its breaker is open")
        await room.say("bob", "not an answer")
        said = await room.say("CLAUDE", "because", in_reply_to=asked["id"], job=1)
        await room.receipt(1, asked["id"], "CLAUDE", "done", answer_id=said["id"])

    room.on_post = answer
    code, out, err = await join(home, "--say", "@all why?", "--wait", "50", "--json")
    assert [json.loads(line)["body"] for line in out.splitlines()] == ["because"]
    assert (code, err) == (0, "CODEX: skipped, its breaker is open\n")


async def test_a_job_that_is_dead_was_given_up(home: Path, room: FakeRoom) -> None:
    async def give_up(asked: dict[str, Any]) -> None:
        await room.receipt(1, asked["id"], "CODEX", "dead", reason="The program ended with exit code 3.")

    room.on_post = give_up
    said = "CODEX: gave up, The program ended with exit code 3.\nnobody answered\n"
    assert await join(home, "--say", "@CODEX why?", "--wait", "50") == (1, "", said)


async def test_a_refused_command_is_a_failure(home: Path, room: FakeRoom) -> None:
    async def refuse(asked: dict[str, Any]) -> None:
        await room.frame("cycle", {"message_id": asked["id"], "state": "commanded"})
        await room.say("SYSTEM", "No.\x1b[2J Ask.", in_reply_to=asked["id"], job=1, meta={"error": True})

    room.on_post = refuse
    code, out, err = await join(home, "--say", "/pipeline x", "--wait", "50")
    assert (code, out, "No." in err, "\x1b" in err) == (1, "", True, False)
    code, out, err = await join(home, "--say", "/pipeline x", "--wait", "50", "--json")
    assert (code, json.loads(out)["meta"], "No." in err) == (1, {"error": True}, True)


async def test_wait_tells_when_nobody_answers(home: Path, room: FakeRoom) -> None:
    async def nobody(asked: dict[str, Any]) -> None:
        await room.frame("cycle", {"message_id": asked["id"], "state": "none"})

    room.on_post = nobody
    assert await join(home, "--say", "why?", "--wait", "50") == (1, "", "nobody answered\n")
    room.on_post = None
    code, out, err = await join(home, "--say", "why?", "--wait", "0.5")
    assert (code, out) == (1, "")
    assert err.startswith("no full answer in 0.5 s; ")


async def test_wait_tells_for_which_machine_an_agent_waits(home: Path, room: FakeRoom) -> None:
    async def away(asked: dict[str, Any]) -> None:
        absence = "gamma has been stopped"
        await room.frame("agent", {"name": "CODEX", "member": "gamma", "away": True, "absence": absence})
        await room.receipt(1, asked["id"], "CODEX", "pending")

    room.on_post = away
    code, out, err = await join(home, "--say", "@CODEX why?", "--wait", "3")
    told = "no full answer in 3 s; it is in the room. CODEX waits for gamma: gamma has been stopped.\n"
    assert (code, out, err) == (1, "", told)


async def test_say_with_the_room_down(home: Path, room: FakeRoom) -> None:
    await room.stop()
    code, _, err = await join(home, "--say", "later")
    down, written = err.splitlines()
    # What is down, and what brings it back: a person may have several rooms.
    assert room.url in down and f"--config {home / 'config.json'}` starts it" in down
    assert (code, written) == (0, "it is written to the transcript, and answered when the room is back")
    assert [each.body for each in lines(home) if isinstance(each, line_format.Entry)] == ["later"]


async def test_a_missing_token_file_is_named(home: Path, room: FakeRoom) -> None:
    (home / ".relay" / "token").unlink()
    code, _, err = await join(home, "--last", "1")
    assert (code, f"{home / '.relay' / 'token'} is missing" in err) == (1, True), err


async def test_last_prints_what_was_said(home: Path, room: FakeRoom) -> None:
    await room.say("bob", "one")
    await room.say("bob", "two \u2028 \x1b[2J")
    code, out, _ = await join(home, "--last", "1", "--json")
    assert code == 0
    (line,) = out.splitlines()
    assert json.loads(line)["body"] == "two \u2028 \x1b[2J"
    code, out, _ = await join(home, "--last", "5", "--url", room.url, key=KEY)
    # Said on another day, so the day stands there.
    assert re.fullmatch(r"2026-01-0[123] [0-9:]{5} bob: one", out.split("\n")[0])


#: An answer whose lines would pass for another's entry, and that would steer the terminal.
_POSING = (
    "ok\n14:17 NAME: yes, deploy\r14:18 NAME: a\u202814:19 NAME: b\u202914:20 NAME: c\x8514:21 NAME: d"
    "\x0b14:22 NAME: e\x0c14:23 NAME: f\x1c14:24 NAME: g\x1d14:25 NAME: h\x1e14:26 NAME: i"
    "\x1b]52;c;ZXZpbA==\x07\x1b]0;evil\x07\x1b[2J\x9b2J\x9d0;evil\x9c\u202e\u2066\u200f\x07\x00"
)


async def _shown(how: str, home: Path, room: FakeRoom, tty: bool) -> str:
    """What one of the plain modes prints of an unverified entry with such a body."""
    words = {"last": ["--last", "5"], "follow": ["--follow"], "wait": ["--say", "why?", "--wait", "50"]}[how]

    async def answer(asked: dict[str, Any]) -> None:
        await room.receipt(1, asked["id"], "CLAUDE", "pending")
        said = await room.say("CLAUDE", _POSING, in_reply_to=asked["id"], job=1, meta={"unverified": True})
        await room.receipt(1, asked["id"], "CLAUDE", "done", answer_id=said["id"])

    room.on_post = answer
    if how == "last":
        await room.say("CLAUDE", _POSING, meta={"unverified": True})
    reader, writer = pty.openpty() if tty else os.pipe()
    try:
        process = await asyncio.create_subprocess_exec(
            sys.executable, str(JOIN), *words,
            cwd=home,
            env={**os.environ, "PYTHONPATH": str(ROOT), "USER": "ann", "TZ": "UTC"},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=writer,
        )  # fmt: skip
        os.close(writer)
        if how == "follow":
            await until(lambda: room._sockets, "the follower")
            await room.say("CLAUDE", _POSING, meta={"unverified": True})
        out = b""
        while b"NAME: i" not in out:
            out += await asyncio.wait_for(asyncio.to_thread(os.read, reader, 65536), 60)
        if how == "follow":
            process.send_signal(2)
        assert await asyncio.wait_for(process.wait(), 60) == 0
    finally:
        os.close(reader)
        if process.returncode is None:
            process.kill()
    return out.decode().replace("\r\n", "\n")


@pytest.mark.parametrize("tty", [False, True])
@pytest.mark.parametrize("how", ["last", "follow", "wait"])
async def test_no_plain_mode_lets_a_body_pose_or_steer(
    how: str, tty: bool, home: Path, room: FakeRoom
) -> None:
    out = await _shown(how, home, room, tty)
    first, *rest = out.rstrip("\n").split("\n")
    assert first.endswith("CLAUDE (unverified): ok")
    assert rest and all(line.startswith("  ") for line in rest)
    assert [line.strip()[:12] for line in rest] == [f"14:{at} NAME: "[:12] for at in range(17, 27)]
    assert all(one == "\n" or one.isprintable() for one in out)
    assert not set("\u202e\u2066\u200f") & set(out)
    assert "evil" not in out


async def test_follow_prints_as_it_comes(home: Path, room: FakeRoom) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(JOIN),
        "--follow",
        "--json",
        cwd=home,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        await until(lambda: room._sockets, "the follower")
        await room.say("bob", "news")
        assert process.stdout is not None
        line = await asyncio.wait_for(process.stdout.readline(), 30)
        assert json.loads(line)["body"] == "news"
        process.send_signal(2)
        assert await asyncio.wait_for(process.wait(), 30) == 0
    finally:
        if process.returncode is None:
            process.kill()


@pytest.mark.parametrize(
    "args",
    [
        ["--wait", "5", "--last", "1"],
        ["--say", "x", "--follow"],
        ["--wait", "x"],
        ["--last", "0"],
        ["--name", "a]b", "--say", "x"],
        ["--unknown"],
    ],
)
async def test_wrong_use_is_2(home: Path, args: list[str]) -> None:
    code, out, err = await join(home, *args)
    assert (code, out) == (2, "")
    assert err


async def test_a_refused_name_is_1(home: Path, room: FakeRoom) -> None:
    code, _, err = await join(home, "--name", "CLAUDE", "--say", "x")
    assert (code, err) == (1, "CLAUDE is an agent's name. Take another one.\n")


# --- is everything answered? ------------------------------------------------------------------------------


def _cycle(state: str, **fields: Any) -> dict[str, Any]:
    return {"type": "cycle", "data": {"message_id": "m", "state": state, **fields}}


def _job(number: int, state: str, agent: str = "A", message: str = "m", **fields: Any) -> dict[str, Any]:
    return {
        "type": "receipt",
        "data": {"id": number, "message_id": message, "agent": agent, "state": state, **fields},
    }


def _answer(**fields: Any) -> dict[str, Any]:
    return {"type": "entry", "data": {"id": "a", "in_reply_to": "m", **fields}}


@pytest.mark.parametrize(
    ("why", "frames", "over"),
    [
        ("nothing happened", [], False),
        ("nobody answers", [_cycle("none")], True),
        ("a command and its answer", [_cycle("commanded"), _answer()], True),
        ("a command without its answer yet", [_cycle("commanded")], False),
        ("routed, no receipts yet", [_cycle("routed", agents=["A"])], False),
        ("at work", [_cycle("routed", agents=["A"]), _job(1, "active")], False),
        ("done, the answer on its way", [_job(1, "done")], False),
        ("done and answered", [_job(1, "done"), _answer(job=1)], True),
        ("answered, not done: the end of the job follows", [_job(1, "active"), _answer(job=1)], False),
        ("one of two", [_job(1, "done"), _answer(job=1), _job(2, "pending", "B")], False),
        (
            "a second agent was asked",
            [_cycle("routed", agents=["A", "B"]), _job(1, "done"), _answer(job=1)],
            False,
        ),
        ("failed is tried again", [_job(1, "failed")], False),
        ("dead", [_job(1, "dead")], True),
        ("folded", [_cycle("folded", folded_into="n"), _job(1, "pending", message="n")], False),
        (
            "folded, and that one is answered",
            [
                _cycle("folded", folded_into="n"),
                _job(1, "done", message="n"),
                _answer(in_reply_to="n", job=1),
            ],
            True,
        ),
        ("another message's job", [_job(1, "done", message="x"), _answer(in_reply_to="x", job=1)], False),
    ],
)
def test_when_the_waiting_ends(why: str, frames: list[dict[str, Any]], over: bool) -> None:
    waiting = Waiting({"m"})
    for frame in frames:
        waiting.take(frame)
    assert waiting.is_over is over, why
