"""join.py as a person uses it: the real program in a real terminal (tmux), the room on a real socket."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from relay.room.parsing import line_format
from tests.faces.fake_room import KEY, FakeRoom, until

ROOT = Path(__file__).resolve().parents[3]


class Terminal:
    """A tmux server of its own, with join.py in its one window."""

    def __init__(self, home: Path) -> None:
        # A socket's path must be short, shorter than a test's own folder may be.
        self._home, self._folder = home, Path(tempfile.mkdtemp(prefix="relaytest-"))

    async def tmux(self, *args: str) -> str:
        process = await asyncio.create_subprocess_exec(
            "tmux",
            "-S",
            str(self._folder / "tmux"),
            "-f",
            os.devnull,
            *args,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await asyncio.wait_for(process.communicate(), 30)
        assert process.returncode == 0, err.decode()
        return out.decode()

    async def start(self, *args: str) -> None:
        join = shlex.join([sys.executable, str(ROOT / "scripts" / "join.py"), *args])
        home, path = shlex.quote(str(self._home)), shlex.quote(str(ROOT))
        command = f"cd {home} && PYTHONPATH={path} {join}; echo left with $?; cat"
        await self.tmux("-u", "new-session", "-d", "-x", "100", "-y", "30", command)
        await self.tmux("set-option", "-g", "set-clipboard", "on")

    async def stop(self) -> None:
        await self.tmux("kill-server")
        shutil.rmtree(self._folder)

    async def keys(self, *keys: str) -> None:
        await self.tmux("send-keys", *keys)

    async def text(self, text: str) -> None:
        await self.tmux("send-keys", "-l", text)

    async def screen(self, history: bool = True) -> str:
        return await self.tmux("capture-pane", "-p", *(["-S", "-"] if history else []))

    async def shows(self, *parts: str) -> None:
        seen = ""

        async def there() -> bool:
            nonlocal seen
            seen = await self.screen()
            return all(part in seen for part in parts)

        try:
            await until(there, f"{parts} on the screen")
        except AssertionError:
            raise AssertionError(f"{parts} is not on the screen:\n{seen}") from None


@pytest.fixture
async def room(tmp_path: Path) -> AsyncIterator[FakeRoom]:
    made = FakeRoom()
    await made.start()
    (tmp_path / "config.json").write_text('{"agents": []}')
    (tmp_path / ".relay").mkdir(0o700)
    (tmp_path / ".relay" / "token").write_text(KEY)
    (tmp_path / ".relay" / "state.json").write_text(json.dumps({"url": made.url}))
    yield made
    await made.stop()


@pytest.fixture
async def terminal(tmp_path: Path, room: FakeRoom) -> AsyncIterator[Terminal]:
    made = Terminal(tmp_path)
    await made.start("--name", "ann")
    try:
        await made.shows("ann ›", "● live")
        yield made
    finally:
        await made.stop()


async def test_what_is_typed_arrives_and_what_is_said_is_shown(terminal: Terminal, room: FakeRoom) -> None:
    await terminal.text("hello from a terminal")
    await terminal.keys("Enter")
    await terminal.shows("ann m1  hello from a terminal")
    assert [(each["speaker"], each["body"]) for each in room.entries] == [("ann", "hello from a terminal")]
    await room.say("CLAUDE", "It **joins**:\n- `a`\n- b", in_reply_to=room.entries[0]["id"])
    await terminal.shows("CLAUDE m2 · to m1", "  It joins:", "  • a", "  • b")


async def test_new_lines_and_pastes_are_one_message(terminal: Terminal, room: FakeRoom) -> None:
    await terminal.text("one")
    await terminal.keys("M-Enter")
    await terminal.text("two")
    await terminal.tmux("set-buffer", "three\nfour")
    await terminal.tmux("paste-buffer", "-p")
    await terminal.shows("four")
    assert room.entries == []
    await terminal.keys("Enter")
    await until(lambda: room.entries, "the message")
    assert [each["body"] for each in room.entries] == ["one\ntwothree\nfour"]


async def test_names_and_commands_are_completed(terminal: Terminal, room: FakeRoom) -> None:
    await terminal.text("ask @cl")
    await terminal.shows(" @CLAUDE")
    await terminal.keys("Tab", "Enter")
    await terminal.shows("ask @CLAUDE")
    await terminal.keys("C-c")
    await terminal.text("/ta")
    await terminal.shows("/task ", "make a task", "/tasks", "show the board")
    assert room.entries == []


async def test_a_turn_at_work_is_seen(terminal: Terminal, room: FakeRoom) -> None:
    asked = await room.say("bob", "@CLAUDE why?")
    await room.receipt(7, asked["id"], "CLAUDE", "active", started_at="2026-01-02T03:04:05Z")
    await room.frame(
        "stream", {"job": 7, "agent": "CLAUDE", "text": "Because of", "offset": 0, "tool": "Read a.py"}
    )
    await terminal.shows("CLAUDE is working on m1 ·", "Read a.py", "│ Because of")
    await room.say("CLAUDE", "Because of that.", in_reply_to=asked["id"], job=7)
    await room.receipt(7, asked["id"], "CLAUDE", "done")
    await room.receipt(8, asked["id"], "CODEX", "skipped", reason="its breaker is open")
    await terminal.shows("CLAUDE m2 · to m1  Because of that.", "· skipped CODEX m1: its breaker is open")
    assert "is working" not in await terminal.screen(history=False)


async def test_no_text_steers_the_terminal(terminal: Terminal, room: FakeRoom) -> None:
    await terminal.tmux("set-buffer", "mine")
    await room.say(
        "bob\x1b]0;evil\x07",
        "safe \x1b]52;c;ZXZpbA==\x07\x1b]0;evil\x07\x1b[2J\x1b[1;1H\x1b[?1049h\x9b31m"
        "\x1bP+q\x1b\\ \u202eover\r\n\x1b[8mseen",
        meta={"history": "\x1b[2J"},
    )
    await room.say("bob", "after")
    await terminal.shows("bob m1", "  safe  ‹U+202E›over", "  seen", "bob m2  after", "ann ›")
    assert await terminal.tmux("show-buffer") == "mine"
    assert "evil" not in await terminal.tmux("display-message", "-p", "#{pane_title} #{alternate_on}")


async def test_the_room_goes_and_comes_back(terminal: Terminal, room: FakeRoom, tmp_path: Path) -> None:
    await room.say("bob", "before")
    await terminal.shows("bob m1  before")
    await room.stop()
    await terminal.shows("the room is down", "○ down")
    await terminal.text("are you there?")
    await terminal.keys("Enter")
    await terminal.shows(
        "ann  are you there?", "it is written to the transcript, and answered when the room is back"
    )
    (line,) = (tmp_path / ".relay" / "transcript.log").read_bytes().splitlines()
    written = line_format.decode(line)
    assert isinstance(written, line_format.Entry)
    assert (written.speaker, written.body) == ("ann", "are you there?")
    await room.say("ann", written.body, id=written.id)
    await room.say("CLAUDE", "now I am", in_reply_to=written.id)
    await room.start()
    await terminal.shows(
        "the room is back", "has read what you wrote (m2)", "CLAUDE m3 · to m2  now I am", "● live"
    )
    assert len(re.findall("are you there", await terminal.screen())) == 1
    await terminal.text("good")
    await terminal.keys("Enter")
    await terminal.shows("ann m4  good")


async def test_a_lost_acknowledgement_is_one_message(terminal: Terminal, room: FakeRoom) -> None:
    room.lose_acks = 2
    await terminal.text("once")
    await terminal.keys("Enter")
    await until(lambda: room.posts == 3, "the third attempt")
    await terminal.shows("ann m1  once")
    assert [each["body"] for each in room.entries] == ["once"]


async def test_a_refused_message_comes_back_to_the_input(terminal: Terminal, room: FakeRoom) -> None:
    other = Terminal(terminal._home)
    await other.start("--name", "CODEX")
    try:
        await other.shows("CODEX ›", "● live")
        await other.text("it is me")
        await other.keys("Enter")
        await other.shows("not sent: CODEX is an agent's name. Take another one.", "CODEX › it is me")
    finally:
        await other.stop()


async def test_it_survives_another_size(terminal: Terminal, room: FakeRoom) -> None:
    await room.say("bob", "wide " + "x" * 150)
    await terminal.tmux("resize-window", "-x", "50", "-y", "12")
    await terminal.text("narrow")
    await terminal.keys("Enter")
    await terminal.shows("ann m2  narrow")
    await terminal.tmux("resize-window", "-x", "140", "-y", "40")
    await room.say("bob", "wide again")
    await terminal.shows("bob m3  wide again", "● live")


@pytest.mark.parametrize("keys", [["C-c"], ["C-d"], ["/quit", "Enter"]])
async def test_leaving(terminal: Terminal, keys: list[str]) -> None:
    await terminal.text("half a thought")
    await terminal.shows("half a thought")
    await terminal.keys("C-c")
    await until(lambda: _gone(terminal, "half a thought"), "the input cleared")
    await terminal.keys(*keys)
    await terminal.shows("left with 0")


async def _gone(terminal: Terminal, text: str) -> bool:
    return text not in await terminal.screen(history=False)


async def test_join_goes_on_in_the_python_of_the_checkout(tmp_path: Path) -> None:
    script, python = tmp_path / "scripts" / "join.py", tmp_path / ".venv" / "bin" / "python"
    for each in (script, python):
        each.parent.mkdir(parents=True)
    script.write_bytes((ROOT / "scripts" / "join.py").read_bytes())
    python.write_text('#!/bin/sh\necho "$@"\n')
    python.chmod(0o755)
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(script), "--name", "ann b", stdout=asyncio.subprocess.PIPE
    )
    out, _ = await asyncio.wait_for(process.communicate(), 30)
    assert out.decode() == f"{script} --name ann b\n"
