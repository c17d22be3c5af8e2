"""A room of its own for a benchmark: its folder, its daemon, and looks into its database."""

from __future__ import annotations

import http.client
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).absolute().parents[2]
#: A daemon is still when it uses less than so many seconds of a processor (3 % of a core) within so many seconds.
STILL_S, STILL_FOR_S = 0.15, 5.0


@dataclass(slots=True)
class Daemon:
    """A running daemon. `ready_s`: seconds from the start of its process until /health said yes."""

    folder: Path
    process: subprocess.Popen[bytes]
    port: int
    ready_s: float

    @property
    def token(self) -> str:
        return (self.folder / ".relay" / "token").read_text().strip()

    @property
    def transcript(self) -> Path:
        return self.folder / ".relay" / "transcript.log"

    @property
    def append_lock(self) -> Path:
        return self.folder / ".relay" / "transcript.log.lock"

    def ask(self, sql: str, *params: Any) -> Any:
        """The first value of a query on the room's database."""
        with closing(sqlite3.connect(f"file:{self.folder}/.relay/events.db?mode=ro", uri=True)) as connection:
            return connection.execute(sql, params).fetchone()[0]

    def wait_until(
        self, what: str, asked: Callable[[], bool], timeout_s: float, every_s: float = 0.01
    ) -> float:
        """Wait until it holds; the monotonic time at which it was seen. Raises TimeoutError."""
        give_up = time.monotonic() + timeout_s
        while time.monotonic() < give_up:
            if asked():
                return time.monotonic()
            if self.process.poll() is not None:
                raise RuntimeError(f"the daemon ended with code {self.process.returncode}")
            time.sleep(every_s)
        raise TimeoutError(f"{what}: not within {timeout_s:g} s")

    def wait_until_still(self, timeout_s: float = 180) -> float:
        """Wait until a start's work is done: until the daemon and its processes used less than `STILL_S` of a
        processor in `STILL_FOR_S`. The monotonic time at which that was so. Raises TimeoutError."""
        give_up, before = time.monotonic() + timeout_s, cpu_s(self.process.pid, whole=True)
        while time.monotonic() < give_up:
            time.sleep(STILL_FOR_S)
            now = cpu_s(self.process.pid, whole=True)
            if now - before < STILL_S:
                return time.monotonic() - STILL_FOR_S
            before = now
        raise TimeoutError(f"the daemon is not still within {timeout_s:g} s")

    def rss_mb(self) -> float:
        return float(psutil.Process(self.process.pid).memory_info().rss) / 1e6

    def others_mb(self) -> float:
        """What its processes hold that they share with none."""
        below = psutil.Process(self.process.pid).children(recursive=True)
        return sum(float(each.memory_full_info().uss) for each in below) / 1e6


@contextmanager
def running(folder: Path, settings: Mapping[str, Any]) -> Iterator[Daemon]:
    """Start a daemon on the room in `folder` and stop it at the end, as `stop.sh` would."""
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "config.json"
    config.write_text(json.dumps({"ui": {"port": 0}, **settings}))
    state = folder / ".relay" / "state.json"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    words = [sys.executable, "-m", "relay.cli", "run", "--detached", "--config", str(config)]
    log = (folder / "daemon.out").open("ab")
    started = time.monotonic()
    process = subprocess.Popen(words, stdout=log, stderr=log, cwd=folder, env=environment)
    try:
        daemon = Daemon(folder, process, 0, 0.0)
        ready = daemon.wait_until("the daemon is healthy", lambda: _healthy(daemon, state), 120, 0.002)
        daemon.ready_s = ready - started
        yield daemon
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        log.close()


def cpu_s(pid: int, *, whole: bool = False) -> float:
    """Processor seconds of a process so far. `whole`: with its children, of those that have ended too."""
    process = psutil.Process(pid)
    own = process.cpu_times()
    used = own.user + own.system
    if whole:
        used += own.children_user + own.children_system
        for child in process.children():
            with suppress(psutil.NoSuchProcess):  # it has ended: from now on it counts as its parent's
                used += cpu_s(child.pid, whole=True)
    return float(used)


def _healthy(daemon: Daemon, state: Path) -> bool:
    try:
        recorded = json.loads(state.read_text())
    except (OSError, ValueError):
        return False
    if recorded["pid"] != daemon.process.pid:
        return False
    daemon.port = recorded["port"]
    connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=5)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()
