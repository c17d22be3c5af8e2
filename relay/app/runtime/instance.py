"""The single-instance record (`speaker.lock`): which daemon runs this room, and does it still?

Invariant: of any number of daemons that claim one path at once exactly one wins, and a record is replaced or
removed only by its own daemon or when that daemon is gone. A pid alone proves nothing: a process is the
record's own only when it also began when the record says.

The file is JSON and always whole: it is replaced in one step, under a lock on its folder (so no second file
stays behind). A claim by a process that was killed is found to be stale by asking for the process, not by
waiting. Blocking, for milliseconds: call it in a thread.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import socket
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path

import psutil

from relay.base.files import alone_in, read_regular, write_atomically
from relay.config.loading import ConfigError, load
from relay.config.locate import add_config_option
from relay.config.settings import Settings


class InstanceError(Exception):
    """The record could not be claimed or kept; the message says why."""


class AlreadyRunning(InstanceError):
    """Another daemon holds the room; `record` is its own."""

    def __init__(self, record: InstanceRecord) -> None:
        self.record = record
        where = f" at {record.address}" if record.address else ""
        super().__init__(f"relay runs already{where} (pid {record.pid} on {record.host})")


class InstanceLost(InstanceError):
    """The record is another daemon's by now. The daemon that finds this must stop."""


class DamagedRecord(InstanceError):
    """The file is there but is no record."""


class DaemonState(StrEnum):
    """How it stands with a record's daemon."""

    RUNNING = "running"
    #: The process is there but has not written its heartbeat within `locks.ttl`: busy, stopped or hung.
    SILENT = "silent"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class InstanceRecord:
    """Who runs the room.

    `started_at`: the process's start, Unix seconds (psutil). `heartbeat_at`: Unix seconds. `address`: the
    page's, None until HTTP is served. `mark` names the process's start without the wall clock, which
    may be stepped; empty where the system has no such thing.
    """

    pid: int
    started_at: float
    host: str
    heartbeat_at: float
    address: str | None = None
    mark: str = ""

    @property
    def holder(self) -> str:
        """How this daemon signs the jobs and keys that it holds: enough to tell later whether it still lives."""
        return json.dumps([self.pid, self.started_at, self.host, self.mark])

    @classmethod
    def own(cls, address: str | None = None) -> InstanceRecord:
        """A record for this process."""
        pid = os.getpid()
        started_at = psutil.Process(pid).create_time()
        return cls(pid, started_at, socket.gethostname(), time.time(), address, _mark(pid))


def _mark(pid: int) -> str:
    if not sys.platform.startswith("linux"):
        return ""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        # After the last ")", since a program's name may hold blanks and brackets; starttime is field 22.
        ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""
    return f"{boot}/{ticks}"


def holder_is_dead(holder: str) -> bool:
    """Is the process gone that signed so (`InstanceRecord.holder`)? One of another machine is not known to be dead:
    its lease decides."""
    try:
        pid, started_at, host, mark = json.loads(holder)
    except (ValueError, TypeError):
        return True
    if host != socket.gethostname():
        return False
    return process_of(InstanceRecord(pid, started_at, host, 0.0, mark=mark)) is None


def died_here(holder: str) -> bool:
    """The same, where machines share the room: only of a process of this machine since it was started. Two machines
    may have one name, so what another start of a machine signed, and what is not read, is not known to be dead."""
    try:
        _, _, host, mark = json.loads(holder)
    except (ValueError, TypeError):
        return False
    own = _mark(os.getpid()).partition("/")[0]
    if host != socket.gethostname() or (own and own != str(mark).partition("/")[0]):
        return False
    return holder_is_dead(holder)


def process_of(record: InstanceRecord) -> psutil.Process | None:
    """The record's process when it is alive on this machine and is really that one, else None."""
    if record.host != socket.gethostname():
        return None
    try:
        process = psutil.Process(record.pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        mark = _mark(record.pid)
        if record.mark and mark:
            return process if mark == record.mark else None
        return process if abs(process.create_time() - record.started_at) < 1.0 else None
    except (psutil.Error, ValueError, OverflowError):
        return None


def daemon_state(record: InstanceRecord, ttl: float, now: float | None = None) -> DaemonState:
    """How it stands with the daemon; `ttl` in seconds. On another machine only the heartbeat can tell."""
    fresh = (time.time() if now is None else now) - record.heartbeat_at <= ttl
    if record.host != socket.gethostname():
        return DaemonState.RUNNING if fresh else DaemonState.GONE
    if process_of(record) is None:
        return DaemonState.GONE
    return DaemonState.RUNNING if fresh else DaemonState.SILENT


def is_live(record: InstanceRecord, ttl: float) -> bool:
    """Must a second daemon keep out? Yes too for one that is only silent: it may write at any moment."""
    return daemon_state(record, ttl) is not DaemonState.GONE


def read(path: Path) -> InstanceRecord | None:
    """The record at `path`, None when there is none. Raises DamagedRecord."""
    try:
        text = read_regular(path).decode()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DamagedRecord(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise DamagedRecord(f"{path} cannot be read: {error}") from None
    return _parse(text, path)


def running(settings: Settings) -> InstanceRecord | None:
    """The record of the daemon that runs the room, None where none does. Raises DamagedRecord."""
    record = read(settings.lock_path)
    return record if record is not None and is_live(record, settings.locks.ttl) else None


def _parse(text: str, path: Path) -> InstanceRecord:
    try:
        fields = json.loads(text)
        record = InstanceRecord(
            pid=fields["pid"],
            started_at=float(fields["started_at"]),
            host=fields["host"],
            heartbeat_at=float(fields["heartbeat_at"]),
            address=fields.get("address"),
            mark=fields.get("mark", ""),
        )
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
        raise DamagedRecord(f"{path} is not an instance record") from None
    texts = isinstance(record.host, str) and isinstance(record.mark, str)
    if not texts or type(record.pid) is not int or record.pid < 1:
        raise DamagedRecord(f"{path} is not an instance record")
    return record


def claim(path: Path, ttl: float, record: InstanceRecord | None = None) -> InstanceRecord:
    """Make this process (or `record`'s) the one that runs the room; gives the record that stands then.

    Raises AlreadyRunning with the other's record. What is stale or damaged is replaced.
    """
    mine = record or InstanceRecord.own()
    path.parent.mkdir(parents=True, exist_ok=True)
    with _guard(path):
        other = _standing_one(path)
        if other is not None and not _same(other, mine) and is_live(other, ttl):
            raise AlreadyRunning(other)
        _write(path, mine)
    return mine


def heartbeat(path: Path, record: InstanceRecord) -> InstanceRecord:
    """Write the record with a fresh heartbeat (and its address, as given); gives what stands then.

    A record that was removed or damaged by hand is written again. Raises InstanceLost when it is another's.
    """
    beat = replace(record, heartbeat_at=time.time())
    with _guard(path):
        other = _standing_one(path)
        if other is not None and not _same(other, record):
            raise InstanceLost(f"{path} is pid {other.pid}'s on {other.host} by now")
        _write(path, beat)
    return beat


def release(path: Path, record: InstanceRecord) -> bool:
    """Remove the record if it is still `record`'s own; says whether it did."""
    with _guard(path):
        other = _standing_one(path)
        if other is None or not _same(other, record):
            return False
        path.unlink(missing_ok=True)
    return True


def remove_stale(path: Path, ttl: float) -> bool:
    """Remove the record if its daemon is gone or it is damaged; says whether it did."""
    with _guard(path):
        if not path.exists():
            return False
        other = _standing_one(path)
        if other is not None and is_live(other, ttl):
            return False
        path.unlink(missing_ok=True)
    return True


def _standing_one(path: Path) -> InstanceRecord | None:
    try:
        return read(path)
    except DamagedRecord:
        return None


def _same(record: InstanceRecord, other: InstanceRecord) -> bool:
    return (record.pid, record.host, record.started_at) == (other.pid, other.host, other.started_at)


def _write(path: Path, record: InstanceRecord) -> None:
    # Not worth a wait for the disk: a record is of no use to another boot.
    write_atomically(path, json.dumps(asdict(record)) + "\n", durable=False)


@contextlib.contextmanager
def _guard(path: Path) -> Iterator[None]:
    """Alone with `path`."""
    if not path.parent.exists():
        yield  # no folder, so nothing to be alone with
        return
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(alone_in(path.parent))
        except TimeoutError as error:
            raise InstanceError(str(error.strerror)) from None
        yield


def main(arguments: list[str] | None = None) -> int:
    """For scripts: exit code 0 and a line that says where when a daemon runs, 1 when none does."""
    parser = argparse.ArgumentParser(prog="python -m relay.app.runtime.instance", description=main.__doc__)
    add_config_option(parser)
    try:
        record = running(load(parser.parse_args(arguments).config))
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 1
    except DamagedRecord:
        return 1
    if record is None:
        return 1
    print(AlreadyRunning(record))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
