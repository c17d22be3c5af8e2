"""Stops the room's daemon, and says what it did (`bash stop.sh`).

Invariant: no process is signalled that was not proven to be this room's own: the daemon by its record (pid,
start, host) or by having this room's database or log open for writing, an agent by being its child or by carrying
this room's configuration and an agent's name in its environment. What was not seen to end is not said to have ended.

First the daemon is asked (TERM) and may drain for `stop.drain_s`; only one that is still there 10 s after
that is killed, with its process group. Exit code: 0 stopped or was not running, 1 could not, 2 wrong use.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import psutil

from relay.app.runtime import instance
from relay.base.files import read_regular
from relay.config.loading import ConfigError, load, parse
from relay.config.locate import add_config_option, find
from relay.config.settings import Settings

GRACE_S = 10.0
#: The shims end their agents within 2 s of the daemon's death; the rest is for a loaded machine.
SHIMS_S = 5.0
#: Seconds for the database to say whether a daemon on another machine has it.
ASK_S = 5.0
_STEP_S = 0.05


class CannotStop(Exception):
    """The daemon (or an agent) is still there; the message says why and what to do."""


def say(text: str) -> None:
    print(text, flush=True)


def main(arguments: list[str] | None = None) -> int:
    """The command; gives its exit code."""
    parser = argparse.ArgumentParser(prog="stop.sh", description="Stop the room's daemon and its agents.")
    add_config_option(parser)
    named = parser.parse_args(arguments).config
    path = find(named)
    if named and not path.exists() and not (path.parent / ".relay").exists():
        print(f"relay: there is no {path}, and no room beside it; give the room's own file", file=sys.stderr)
        return 2
    settings = _settings(path)
    try:
        stop(settings)
    except (CannotStop, instance.InstanceError) as error:
        print(f"relay: {error}", file=sys.stderr)
        return 1
    return 0


def _settings(path: Path) -> Settings:
    """A configuration that was broken since the start must not keep the daemon from being stopped."""
    try:
        return load(path)
    except ConfigError as error:
        print(f"relay: {error}\nrelay: using the usual places of its files", file=sys.stderr)
        return parse("{}", path)


def stop(settings: Settings) -> None:
    """Stop the daemon of this room, if there is one, and tidy up. Raises CannotStop."""
    daemon = _daemon(settings)
    if daemon is None:
        _end_rest(_agents(settings))
        if not _tidy(settings):
            say("relay is not running.")
        if other := _elsewhere(settings):
            say(f"the daemon of this room's database is {other}; stop it there")
        return
    # Asked for before it ends: afterwards nobody knows whose children they were.
    family = _children(daemon)
    say(f"stopping relay (pid {daemon.pid}); running turns get {settings.stop.drain_s:g} s to end")
    _signal(daemon, signal.SIGTERM)
    if not _gone([daemon], settings.stop.drain_s + GRACE_S, family):
        say(f"it did not exit within {settings.stop.drain_s + GRACE_S:g} s: killing it")
        _kill(daemon)
        if not _gone([daemon], SHIMS_S):
            raise CannotStop(f"pid {daemon.pid} does not exit, not even when killed (is it stuck on a disk?)")
    _end_rest([*family.values(), *_agents(settings)])
    _tidy(settings)
    say("relay has stopped.")


def _daemon(settings: Settings) -> psutil.Process | None:
    """The daemon's process, proven to be it. Raises CannotStop when it runs on another machine."""
    try:
        record = instance.read(settings.lock_path)
    except instance.DamagedRecord as error:
        say(str(error))
        record = None
    if record is not None:
        process = instance.process_of(record)
        if process is not None:
            return process
        if instance.is_live(record, settings.locks.ttl):
            raise CannotStop(f"it runs on {record.host} (pid {record.pid}); stop it there")
        if record.host == os.uname().nodename and _in_use(record.pid):
            say(f"pid {record.pid} is another program's now; it was left alone")
    return _by_pid_file(settings)


def _elsewhere(settings: Settings) -> str:
    """Whose daemon the room's database has, where it may be another machine's; empty where it cannot be asked: that
    nothing runs here is so in any case."""
    if settings.storage != "postgres":
        return ""
    from relay.store.open import daemon_of
    from relay.store.ports import StoreError

    try:
        return asyncio.run(asyncio.wait_for(daemon_of(settings), ASK_S))
    except (StoreError, OSError, TimeoutError):
        return ""


def _by_pid_file(settings: Settings) -> psutil.Process | None:
    """The daemon when its record was lost: the pid file's, if that process writes our database, or our log (the
    database may be a server's)."""
    try:
        process = psutil.Process(int(read_regular(settings.pid_path).split()[0]))
        # On Linux a file's mode is told too: one that only reads our log is another's.
        files = process.open_files()
        opened = {Path(file.path).resolve() for file in files if getattr(file, "mode", "a") != "r"}
    except (OSError, ValueError, IndexError, OverflowError, psutil.Error):
        return None
    return process if {settings.db_path.resolve(), settings.log_file.resolve()} & opened else None


def _children(process: psutil.Process) -> dict[int, psutil.Process]:
    with contextlib.suppress(psutil.Error):
        return {child.pid: child for child in process.children(recursive=True)}
    return {}


def _agents(settings: Settings) -> list[psutil.Process]:
    """Processes with this room's configuration and an agent's name; never this one or those above it."""
    above = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    agents, room = [], settings.path.resolve()
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            environ = process.environ() if process.pid not in above else {}
            named = environ.get("RELAY_AGENT_ID") and environ.get("RELAY_CONFIG")
            if named and Path(named).resolve() == room and process.status() != psutil.STATUS_ZOMBIE:
                agents.append(process)
    return agents


def _signal(process: psutil.Process, number: signal.Signals) -> None:
    try:
        process.send_signal(number)  # psutil looks at the start time once more before it does
    except psutil.NoSuchProcess:
        return
    except psutil.AccessDenied:
        raise CannotStop(f"pid {process.pid} is another user's; stop it as that user") from None


def _kill(daemon: psutil.Process) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        # Only a group of its own: in the foreground of a shell it may share one with other programs.
        if os.getpgid(daemon.pid) == daemon.pid and daemon.is_running():
            os.killpg(daemon.pid, signal.SIGKILL)
            return
    _signal(daemon, signal.SIGKILL)


def _gone(
    processes: Iterable[psutil.Process], timeout_s: float, family: dict[int, psutil.Process] | None = None
) -> bool:
    """Wait until all have ended; `family` gathers their children meanwhile, for turns that begin late."""
    left = list(processes)
    deadline = time.monotonic() + timeout_s
    while True:
        left = [process for process in left if _alive(process)]
        if not left:
            return True
        if time.monotonic() > deadline:
            return False
        if family is not None:
            for process in left:
                family |= {pid: child for pid, child in _children(process).items() if pid not in family}
        time.sleep(_STEP_S)


def _in_use(pid: int) -> bool:
    try:
        return _alive(psutil.Process(pid))
    except psutil.NoSuchProcess:
        return False


def _alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _end_rest(rest: Iterable[psutil.Process]) -> None:
    """End the agents that outlive the daemon. Their shims do that first; an agent without a shim is ended here."""
    above = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    left = {process.pid: process for process in rest if process.pid not in above and _alive(process)}
    if not left or _gone(left.values(), SHIMS_S):
        return
    left = {pid: process for pid, process in left.items() if _alive(process)}
    say(f"ending {len(left)} of its remaining processes: {', '.join(map(str, left))}")
    for process in left.values():
        _signal(process, signal.SIGKILL)
    if not _gone(left.values(), SHIMS_S):
        raise CannotStop(f"these do not exit: {', '.join(str(p.pid) for p in left.values() if _alive(p))}")


def _tidy(settings: Settings) -> bool:
    """Remove what a daemon that is gone left behind; says so, and whether there was anything."""
    removed = []
    if instance.remove_stale(settings.lock_path, settings.locks.ttl):
        removed.append(settings.lock_path.name)
    # A record that is still there is that of a daemon which has just begun; so is the pid file then.
    if settings.pid_path.exists() and not settings.lock_path.exists():
        settings.pid_path.unlink(missing_ok=True)
        removed.append(settings.pid_path.name)
    if removed:
        say(f"removed {' and '.join(removed)}, left by a daemon that is gone")
    return bool(removed)


if __name__ == "__main__":
    raise SystemExit(main())
