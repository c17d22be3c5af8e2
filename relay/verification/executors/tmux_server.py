"""The tmux server of one room, by libtmux.

Invariants: it has a socket of its own, so no window of a person's is touched, and reads no configuration of theirs.
Its one session is there as long as a window is, and a window as long as its program. Nothing in a window's name is an
instruction to tmux. Everything here blocks.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from relay.checks.sandbox import tmux_sockets

if TYPE_CHECKING:
    from libtmux.common import tmux_cmd

SESSION = "relay"
#: The option of a window that says whose it is.
MARK = "@relay_run"
#: Columns and lines while nobody is attached.
SIZE = ("-x", "200", "-y", "50")
#: Seconds until a window's process that does not go is killed; it ends its program first.
END_S = 8.0
#: A window may end the session, and the server with it, between two looks.
TRIES = 20
PAUSE_S = 0.05
_PLAIN = re.compile(r"[^\w .-]+")


class TmuxServer:
    """`socket`: the name of its socket (`tmux -L`). Every call raises OSError with what tmux says."""

    def __init__(self, socket: str) -> None:
        self.socket = socket

    @property
    def attach(self) -> str:
        """What a person types to see the windows."""
        own = bool(os.environ.get("TMUX_TMPDIR"))
        where = f"-S {tmux_sockets() / self.socket}" if own else f"-L {self.socket}"
        return f"tmux {where} attach -t {SESSION}"

    @staticmethod
    def missing() -> str:
        """Why there is none; empty: there is."""
        return "" if shutil.which("tmux") else "tmux is not installed (apt install tmux)"

    def open(self, name: str, mark: str, words: Sequence[str]) -> str:
        """A window that runs these words, with no shell between; its id."""
        named = ("-d", "-P", "-F", "#{window_id}", "-n", _PLAIN.sub("-", name)[:60], "-c", "/")
        ways = (
            ("new-window", "-t", f"={SESSION}:", *named, "--", *words),
            ("new-session", "-s", SESSION, *SIZE, *named, "--", *words),
        )
        said = ""
        for _ in range(TRIES):
            for way in ways:
                done = self._tmux(*way)
                if done.returncode == 0 and done.stdout:
                    window = str(done.stdout[0])
                    self._tmux("set-option", "-w", "-t", window, MARK, mark)
                    return window
                said = " ".join(done.stderr)
            time.sleep(PAUSE_S)
        raise OSError(f"tmux: {said or 'it opens no window'}")

    def close(self, window: str) -> None:
        """End what runs in a window, which goes with it. One that is gone is none."""
        listed = self._tmux("list-panes", "-t", window, "-F", "#{pane_pid}")
        self._tmux("kill-window", "-t", window)
        processes = []
        for pid in listed.stdout if listed.returncode == 0 else ():
            with suppress(psutil.Error, ValueError):
                processes.append(psutil.Process(int(pid)))
        until = time.monotonic() + END_S
        while (alive := [process for process in processes if _lives(process)]) and time.monotonic() < until:
            time.sleep(0.01)
        for process in alive:
            with suppress(psutil.Error):
                process.kill()

    def close_marked(self, mark: str) -> None:
        """Close the windows that were opened with this mark."""
        listed = self._tmux("list-windows", "-a", "-F", f"#{{window_id}} #{{{MARK}}}")
        for line in listed.stdout if listed.returncode == 0 else ():
            window, _, its = line.partition(" ")
            if its == mark:
                self.close(window)

    def windows(self) -> list[str]:
        """The names of all windows."""
        listed = self._tmux("list-windows", "-a", "-F", "#{window_name}")
        return list(listed.stdout) if listed.returncode == 0 else []

    def end(self) -> None:
        """Close every window. Without a socket there is no server, and each start of a room asks for this."""
        if not (tmux_sockets() / self.socket).exists():
            return
        listed = self._tmux("list-windows", "-a", "-F", "#{window_id}")
        for window in listed.stdout if listed.returncode == 0 else ():
            self.close(window)

    def _tmux(self, *words: str) -> tmux_cmd:
        import libtmux  # late: half as much as aiohttp, and few rooms have a policy that runs in tmux
        from libtmux.exc import LibTmuxException

        try:
            return libtmux.Server(socket_name=self.socket, config_file=os.devnull).cmd(*words)
        except LibTmuxException as error:
            raise OSError(f"tmux: {error}") from error


def socket_of(folder: Path) -> str:
    """The name of the socket of the room that has this folder: the same whenever it is asked for, and short, since a
    socket's path has 107 bytes at most."""
    return f"relay-{hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:8]}"


def _lives(process: psutil.Process) -> bool:
    """A zombie does not: the server may be gone before it has collected its last child."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False
