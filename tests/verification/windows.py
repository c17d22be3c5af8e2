"""tmux for a test: sockets in a folder of its own, and a person who is attached."""

from __future__ import annotations

import asyncio
import os
import pty
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.outside import eventually


@pytest.fixture
def tmux_folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """tmux's sockets are there; pytest's own folders have paths too long for one."""
    folder = Path(tempfile.mkdtemp(prefix="tmux-"))
    monkeypatch.setenv("TMUX_TMPDIR", str(folder))
    monkeypatch.delenv("TMUX", raising=False)
    yield folder
    shutil.rmtree(folder)


class Person:
    """Somebody with a terminal."""

    def __init__(self, terminal: int) -> None:
        self._terminal = terminal
        self.seen = b""

    async def sees(self, text: bytes) -> None:
        async def look() -> bool:
            with suppress(BlockingIOError):
                self.seen += os.read(self._terminal, 65_536)
            return text in self.seen

        await eventually(look, f"{text!r} on the terminal", every_s=0.02)

    def types(self, keys: bytes) -> None:
        os.write(self._terminal, keys)


@contextmanager
def attached(command: str) -> Iterator[Person]:
    """A person who has typed this command."""
    ours, theirs = pty.openpty()
    os.set_blocking(ours, False)
    env = {**os.environ, "TERM": "xterm", "LC_ALL": "C.UTF-8"}
    process = subprocess.Popen(
        shlex.split(command), stdin=theirs, stdout=theirs, stderr=theirs, env=env, start_new_session=True
    )
    os.close(theirs)
    try:
        yield Person(ours)
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def tmux(socket: str, *words: str) -> str:
    """A command to the server of this socket; what it prints."""
    return subprocess.run(["tmux", "-L", socket, *words], check=True, capture_output=True, text=True).stdout


async def until(look: Callable[[], object], what: str) -> None:
    """Wait until a function that blocks says yes."""
    await eventually(lambda: asyncio.to_thread(look), what, every_s=0.05)
