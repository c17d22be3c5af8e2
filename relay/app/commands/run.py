"""`relay run`: start the room's daemon, in the background or in the foreground."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from relay.app.runtime.daemon_requests import ask_daemon, state_of
from relay.app.runtime.lean_imports import lean_imports
from relay.base.files import open_regular
from relay.base.terminal_text import fail
from relay.config.command_line import command
from relay.config.loading import load_for_command
from relay.config.settings import Settings
from relay.store.ports import StoreError

if TYPE_CHECKING:
    from relay.app.daemon.daemon import Daemon

#: Seconds that a start in the background may take until the room answers.
START_S = 60.0


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--foreground", action="store_true", help="stay in the foreground, for service managers"
    )
    parser.add_argument("--detached", action="store_true", help=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    """The command; gives its exit code."""
    settings = load_for_command(args.config, away=args.detached)
    if args.foreground or args.detached:
        return _serve(settings, readable=not args.detached)
    return _start(settings)


def _serve(settings: Settings, *, readable: bool) -> int:
    with lean_imports():
        from relay.app.daemon.daemon import CannotStart, Daemon
        from relay.base import logging_setup
    gc.freeze()  # what was imported stays

    try:
        settings.runtime_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        logging_setup.configure(settings.log_file, readable=readable)
    except OSError as error:
        return fail(f"{settings.runtime_dir} cannot be written: {error.strerror}")
    if sys.version_info < (3, 12) and hasattr(os, "pidfd_open"):
        # The older default starts a thread for each child, and the event loop waits for that.
        asyncio.set_child_watcher(asyncio.PidfdChildWatcher())
    try:
        asyncio.run(_serving(Daemon(settings), readable))
    except (CannotStart, StoreError) as error:
        return fail(str(error))
    except OSError as error:
        return fail(f"{error.filename or 'the system'}: {error.strerror}")
    return 0


async def _serving(daemon: Daemon, readable: bool) -> None:
    if not readable:
        await daemon.run()
        return
    greeting = asyncio.create_task(_greet(daemon.settings), name="greeting")
    try:
        # Not in a group with it: what stops the daemon is to reach the caller as it is.
        await daemon.run()
    finally:
        greeting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await greeting


async def _greet(settings: Settings) -> None:
    """In the foreground, say where the room is once it answers."""
    # The daemon writes it into a file.
    while (state := state_of(settings)) is None or state.get("pid") != os.getpid():  # noqa: ASYNC110
        await asyncio.sleep(0.05)
    print(f"The room is open at {state['url']}", flush=True)
    # Every reader of a link can open the room: it belongs on a terminal, not in a service manager's journal.
    if sys.stdout.isatty():
        from relay.app.runtime.sign_in import NoLink, new_link

        try:
            link = await asyncio.to_thread(new_link, state["url"], settings.token_path)
        except NoLink as error:
            print(f"No sign-in link: {error}", file=sys.stderr, flush=True)
        else:
            print(f"Sign in: {link}", flush=True)
    else:
        print(f"{command('link')} prints a sign-in link.", flush=True)


def _start(settings: Settings) -> int:
    """Start a daemon in a session of its own, and wait until its HTTP server answers."""
    from relay.app.runtime import instance
    from relay.app.runtime.sign_in import NoLink, new_link

    try:
        record = instance.running(settings)
    except instance.DamagedRecord:
        record = None  # the daemon replaces it when it claims the room
    if record is not None:
        at = f" at {record.address}" if record.address else ""
        print(f"The room runs already{at} (pid {record.pid}). {command('link')} prints a sign-in link.")
        return 0
    settings.runtime_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    # -P: the folder is mostly the codebase, and no module of it may stand in for one of ours.
    words = [sys.executable, "-P", "-m", "relay.cli", "run", "--detached", "--config", str(settings.path)]
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
    with os.fdopen(open_regular(settings.log_file, flags), "ab") as log:
        began = log.tell()
        child = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            cwd=settings.folder,
        )
    give_up = time.monotonic() + START_S
    while time.monotonic() < give_up:
        state = state_of(settings)
        if state is not None and state.get("pid") == child.pid and _healthy(state["url"]):
            print(f"The room is open at {state['url']} (pid {child.pid}).", flush=True)
            try:
                print(f"Sign in: {new_link(state['url'], settings.token_path)}")
            except NoLink as error:
                return fail(f"no sign-in link: {error}")
            print(f"The link works once, within 10 minutes; {command('link')} prints another.")
            return 0
        if child.poll() is not None:
            return fail(f"the daemon ended with code {child.returncode}.\n{_last_words(settings, began)}")
        time.sleep(0.05)
    child.terminate()
    return fail(f"the room did not answer within {START_S:g} s; {settings.log_file} has the details")


def _last_words(settings: Settings, began: int) -> str:
    """The end of what was logged since the log had `began` bytes: what stands before is of another start."""
    try:
        with settings.log_file.open("rb") as log:
            # A log that is shorter by now was begun anew.
            log.seek(began if log.seek(0, os.SEEK_END) >= began else 0)
            lines = log.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return ""
    plain = [line for line in lines[-12:] if not line.startswith("{")]
    return "\n".join(plain[-6:] or lines[-3:])


def _healthy(url: str) -> bool:
    try:
        ask_daemon(f"{url}/health", timeout_s=2.0)
    except (OSError, ValueError):
        return False
    return True
