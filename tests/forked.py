"""Daemons and commands that are forked from a process which has done the imports: they are most of a start's
processor time, and the tests start many hundreds. Each is a process of its own, with session, folder, environment,
output and end, as one of `python -m relay.cli` is; only its command line is another. What a new interpreter does, the
tests of `relay run` and of the scripts see (tests/e2e/test_running.py).
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

REPO = Path(__file__).resolve().parents[1]
MOST_BYTES = 1 << 20


class Forked:
    """A started process, with what the tests use of a `subprocess.Popen`."""

    #: The exit code, once that was read.
    returncode: int | None = None

    def __init__(self, maker: _Maker, pid: int) -> None:
        self.pid = pid
        self._maker = maker
        self._ends = os.pidfd_open(pid)

    def __del__(self) -> None:
        os.close(self._ends)

    def poll(self) -> int | None:
        """The exit code, None while it runs; a signal's number is negative."""
        return self.wait(0) if select.select([self._ends], [], [], 0)[0] else None

    def wait(self, timeout: float | None = None) -> int:
        if not select.select([self._ends], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired("relay run", timeout or 0)
        return self._maker.code_of(self)

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class _Maker:
    """The process that forks. It ends when this one does."""

    def __init__(self) -> None:
        #: By number: the system gives a number again once its process has ended.
        self._running: dict[int, Forked] = {}
        self._lock = threading.Lock()
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.forked", str(theirs.fileno())],
                cwd=REPO,
                env={**os.environ, "PYTHONPATH": str(REPO)},
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    def make(self, words: Sequence[str], cwd: Path, env: Mapping[str, str], *files: int) -> Forked:
        with self._lock:
            asked = json.dumps({"words": words, "cwd": str(cwd), "env": {**env}}).encode()
            socket.send_fds(self._line, [asked], files)
            while True:
                told = self._told()
                if "pid" in told:
                    made = self._running[told["pid"]] = Forked(self, told["pid"])
                    return made

    def code_of(self, forked: Forked) -> int:
        """The exit code of a process that has ended."""
        with self._lock:
            while forked.returncode is None:
                self._told()
            return forked.returncode

    def _told(self) -> dict[str, int]:
        data = self._line.recv(MOST_BYTES)
        if not data:
            raise RuntimeError("the process that forks daemons has ended")
        told: dict[str, int] = json.loads(data)
        if "ended" in told:
            self._running.pop(told["ended"]).returncode = told["code"]
        return told


_makers: dict[int, _Maker] = {}


def fork(words: Sequence[str], cwd: Path, env: Mapping[str, str], out: int, err: int) -> Forked | None:
    """Start `python -m relay.cli WORDS`, which writes to the files `out` and `err` (their numbers). None where that
    takes a new interpreter: its variables differ from those of this one, or the system has no `pidfd_open`."""
    here = {**os.environ, "PYTHONPATH": str(REPO)}
    own = {name for name in {*env, *here} if name.startswith(("PYTHON", "LD_"))}
    if not hasattr(os, "pidfd_open") or any(env.get(name) != here.get(name) for name in own):
        return None
    if os.getpid() not in _makers:
        _makers[os.getpid()] = _Maker()
    return _makers[os.getpid()].make(words, cwd, env, out, err)


def _serve(line: socket.socket) -> list[str] | None:
    """Fork whenever it is asked for; gives the words in the forked process, None at the end of the tests."""
    running: dict[int, int] = {}
    while True:
        for fd in select.select([line, *running], [], [])[0]:
            if fd is not line:
                pid = running.pop(fd)
                os.close(fd)
                code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                line.send(json.dumps({"ended": pid, "code": code}).encode())
                continue
            data, files, _, _ = socket.recv_fds(line, MOST_BYTES, 2)
            if not data:
                return None
            asked = json.loads(data)
            pid = os.fork()
            if not pid:
                _become(asked["cwd"], asked["env"], *files)
                words: list[str] = asked["words"]
                return words
            running[os.pidfd_open(pid)] = pid
            for one in files:
                os.close(one)
            line.send(json.dumps({"pid": pid}).encode())


def _become(cwd: str, env: Mapping[str, str], out: int, err: int) -> None:
    os.setsid()
    os.dup2(out, 1)
    os.dup2(err, 2)
    os.closerange(3, 1024)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    sys.path[0] = cwd


def main(fd: int) -> int:
    from relay.app.runtime.lean_imports import lean_imports

    with lean_imports():
        from relay import cli
        from relay.app.commands import run  # noqa: F401
        from relay.app.daemon import daemon  # noqa: F401
        from relay.base import logging_setup  # noqa: F401
    gc.freeze()
    line = socket.socket(fileno=fd)
    words = _serve(line)
    if words is None:
        return 0
    line.detach()  # closed by the number
    sys.argv[1:] = words
    return cli.main()


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
