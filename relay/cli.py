"""`relay`: the room's commands.

Invariant: exit code 0 = did it, 1 = could not, 2 = wrong use; what went wrong is said on standard error, with
what to do. Each command imports only what it needs: `relay link` must not wait for a daemon's imports.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from relay import __version__
from relay.base.files import open_regular, read_regular
from relay.base.terminal_text import indented
from relay.config.command_line import about, script
from relay.config.command_line import command as typed
from relay.config.settings import ConfigError, Settings, load
from relay.store.ports import StoreError, StoreMissing

#: Commands with a module of their own (`relay/app/commands/NAME.py`).
_COORDINATION = {
    "locks": "Show who holds which files, or take a lock from its holder (`relay locks --help`).",
    "work": "Show the tasks, submit one, or reopen one (`relay work --help`).",
    "sessions": "Show the sessions of agents, or end one (`relay sessions --help`).",
    "changesets": "Show what sessions said they changed (`relay changesets --help`).",
}
#: Seconds that a start in the background may take until the room answers.
START_S = 60.0


def main(argv: list[str] | None = None) -> int:
    """The command; gives its exit code."""
    words = _options_last(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["join"]:
        from relay.faces.terminal.main import main as join

        return join(words[1:])
    # What programs run ends as they are told to; what people run, as below.
    if words[:1] == ["guard"] and words[1:2] and (words[1] == "hook" or words[1].startswith("pre-")):
        return _guard(words[1:])
    if words[:1] == ["mcp"] and words[1:2] != ["install"]:
        return _mcp(words[1:])
    code = 0
    try:
        code = _dispatch(words)
        sys.stdout.flush()  # here, where a reader that has gone is no error
        return code
    except ConfigError as error:
        return _fail(str(error))
    except KeyboardInterrupt:
        return 1
    except StoreError as error:
        return _fail(str(error))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return code


def _guard(words: list[str]) -> int:
    from relay.guard_cli import main as guard

    return guard(words)


def _mcp(words: list[str]) -> int:
    from relay.app.mcp.command import main as mcp

    return mcp(words)


def _options_last(words: list[str]) -> list[str]:
    """`relay COMMAND --config PATH --json REST` with its options behind the rest: a command that has commands of its
    own takes them on either side."""
    command, rest, options = words[:1], words[1:], list[str]()
    while rest and (rest[0] in ("--config", "--json") or rest[0].startswith("--config=")):
        many = 2 if rest[0] == "--config" else 1
        options, rest = options + rest[:many], rest[many:]
    return command + (rest + options if rest and not rest[0].startswith("-") else options + rest)


def _dispatch(words: list[str]) -> int:
    if words[:1] == ["guard"]:
        return _guard(words[1:])
    if words[:1] == ["mcp"]:
        return _mcp(words[1:])
    if words[:1] == ["airspace"]:
        from relay.app.commands.airspace import main as airspace

        return airspace(words[1:])
    if words[:1] and words[0] in _COORDINATION:
        own: Callable[[list[str]], int] = import_module(f"relay.app.commands.{words[0]}").main
        return own(words[1:])
    if words[:1] == ["keys"]:
        from relay.app.commands.keys import main as keys

        return keys(words[1:])
    args = _parser().parse_args(words)
    command: Callable[[argparse.Namespace], int] = args.command
    return command(args)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="relay", description="The shared room where people and coding agents work on one codebase."
    )
    parser.add_argument("--version", action="version", version=f"relay {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, command: Callable[[argparse.Namespace], int], text: str) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=text, description=text)
        made.add_argument(
            "--config", help="the configuration (else RELAY_CONFIG, else the room this folder is in)"
        )
        made.set_defaults(command=command)
        return made

    run = add("run", _run, "Start the room's daemon in the background, and wait until it answers.")
    run.add_argument("--foreground", action="store_true", help="stay in the foreground, for service managers")
    run.add_argument("--detached", action="store_true", help=argparse.SUPPRESS)
    commands.add_parser(
        "join", help="Join the room from this terminal (`relay join --help`).", add_help=False
    )
    commands.add_parser(
        "guard",
        help="Ask the room before each edit (`hook`), commit and push (`install`, `uninstall`, `status`).",
        add_help=False,
    )
    commands.add_parser(
        "mcp", help="The room's tools for an agent, over MCP (`relay mcp --help`).", add_help=False
    )
    commands.add_parser(
        "airspace", help="How close agents are in the code (`relay airspace --help`).", add_help=False
    )
    for name, text in _COORDINATION.items():
        commands.add_parser(name, help=text, add_help=False)
    commands.add_parser("keys", help="Make, list and revoke API keys (`relay keys --help`).", add_help=False)
    link = add("link", _link, "Print a sign-in link for the page: it works once, within 10 minutes.")
    link.add_argument("--json", action="store_true", help='print {"url", "expires_in_s"}')
    show = add("log", _log, "Show the daemon's log and follow it.")
    show.add_argument("-n", "--lines", type=int, default=40, help="lines to begin with (40)")
    show.add_argument("--no-follow", action="store_true", help="print them and exit")
    show.add_argument("--json", action="store_true", help="the lines as they are, in JSON")
    archive = add("archive", _archive, "Move old entries out of the transcript; they stay searchable.")
    archive.add_argument("--keep", type=int, default=1000, help="entries that stay in the file (1000)")
    archive.add_argument("--json", action="store_true", help="print what was done as JSON")
    worktrees = add("worktrees", _worktrees, "Show the agents' worktrees; merge, discard or remove one.")
    actions = ("list", "order", "show", "merge", "discard", "restore", "abort", "remove")
    what = "what to do (list); order: in which order to merge, so that the fewest are set back; "
    what += "abort: give up a merge of the main branch into the agent's own"
    worktrees.add_argument("action", nargs="?", choices=actions, default="list", help=what)
    worktrees.add_argument("agent", nargs="?", metavar="AGENT", help="whose worktree")
    worktrees.add_argument("--name", help="your name in the room (the one that git has for you)")
    worktrees.add_argument("--json", action="store_true", help="print the result as JSON")
    merging = worktrees.add_argument_group("merge")
    merging.add_argument(
        "-m",
        "--message",
        action="append",
        metavar="TEXT",
        help="the commit's message; each -m is a paragraph",
    )
    merging.add_argument("-e", "--edit", action="store_true", help="write the message in your editor first")
    merging.add_argument("--squash", action="store_true", help="as one commit, without a merge commit")
    merging.add_argument("--dry-run", action="store_true", help="print what would be committed, and exit")
    worktrees.add_argument("--kept", metavar="REF", help="restore: which work (what was discarded last)")
    worktrees.set_defaults(head="")
    verify = add("verify", _verify, "Check every event of the log against its hash, its causes and its lane.")
    verify.add_argument("--json", action="store_true", help="print what was found as JSON")
    demo = add("demo", _demo, "Three agents in a throw-away codebase: with the airspace, and without it.")
    demo.add_argument(
        "--folder", type=Path, help="a new folder to play in, which stays (else a temporary one)"
    )
    demo.add_argument("--port", type=int, default=0, help="the page's port (any free one)")
    demo.add_argument("--pace", type=float, default=1.0, help="seconds before each edit (1)")
    demo.add_argument("--stubborn", action="store_true", help="BEN pays no attention to advisories")
    demo.add_argument("--stay", action="store_true", help="keep the room open after the first part")
    demo.add_argument("--only-with", action="store_true", help="skip the part without the airspace")
    demo.add_argument("--json", action="store_true", help="print the outcome as JSON")
    return parser


def _worktrees(args: argparse.Namespace) -> int:
    from relay.app.commands.worktrees import run

    return run(args)


def _demo(args: argparse.Namespace) -> int:
    from relay.app.demo.story import Options, run

    if args.pace < 0:
        print("relay: --pace must be 0 or more", file=sys.stderr)
        return 2
    options = Options(
        folder=args.folder,
        stubborn=args.stubborn,
        pace_s=args.pace,
        port=args.port,
        stay=args.stay,
        only_with=args.only_with,
        as_json=args.json,
    )
    return run(options)


def _fail(text: str) -> int:
    print(f"relay: {indented(text)}", file=sys.stderr)
    return 1


# -- run


def _run(args: argparse.Namespace) -> int:
    settings = load(args.config)
    about(settings.path, away=args.detached)
    if args.foreground or args.detached:
        return _serve(settings, readable=not args.detached)
    return _start(settings)


def _serve(settings: Settings, *, readable: bool) -> int:
    from relay.app.daemon.daemon import CannotStart, Daemon
    from relay.base import logging_setup

    try:
        settings.runtime_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        logging_setup.configure(settings.log_file, readable=readable)
    except OSError as error:
        return _fail(f"{settings.runtime_dir} cannot be written: {error.strerror}")
    if sys.version_info < (3, 12) and hasattr(os, "pidfd_open"):
        # The older default starts a thread for each child, and the event loop waits for that.
        asyncio.set_child_watcher(asyncio.PidfdChildWatcher())
    try:
        asyncio.run(_serving(Daemon(settings), readable))
    except (CannotStart, StoreError) as error:
        return _fail(str(error))
    except OSError as error:
        return _fail(f"{error.filename or 'the system'}: {error.strerror}")
    return 0


async def _serving(daemon: Any, readable: bool) -> None:
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
    # The daemon says so in a file, to whoever waits.
    while (state := _state(settings)) is None or state.get("pid") != os.getpid():  # noqa: ASYNC110
        await asyncio.sleep(0.05)
    print(f"The room is open at {state['url']}", flush=True)
    # A link opens the room to whoever reads it: it belongs on a terminal, not in a service manager's journal.
    if sys.stdout.isatty():
        from relay.app.runtime.sign_in import NoLink, new_link

        try:
            link = await asyncio.to_thread(new_link, state["url"], settings.token_path)
        except NoLink as error:
            print(f"No sign-in link: {error}", file=sys.stderr, flush=True)
        else:
            print(f"Sign in: {link}", flush=True)
    else:
        print(f"{typed('link')} prints a sign-in link.", flush=True)


def _start(settings: Settings) -> int:
    """Start a daemon of its own session, and wait until its doors answer."""
    from relay.app.runtime import instance
    from relay.app.runtime.sign_in import NoLink, new_link

    try:
        record = instance.read(settings.lock_path)
    except instance.DamagedRecord:
        record = None  # the daemon replaces it when it claims the room
    if record is not None and instance.is_live(record, settings.locks.ttl):
        at = f" at {record.address}" if record.address else ""
        print(f"The room runs already{at} (pid {record.pid}). {typed('link')} prints a sign-in link.")
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
        state = _state(settings)
        if state is not None and state.get("pid") == child.pid and _healthy(state["url"]):
            print(f"The room is open at {state['url']} (pid {child.pid}).", flush=True)
            try:
                print(f"Sign in: {new_link(state['url'], settings.token_path)}")
            except NoLink as error:
                return _fail(f"no sign-in link: {error}")
            print(f"The link works once, within 10 minutes; {typed('link')} prints another.")
            return 0
        if child.poll() is not None:
            return _fail(f"the daemon ended with code {child.returncode}.\n{_last_words(settings, began)}")
        time.sleep(0.05)
    child.terminate()
    return _fail(f"the room did not answer within {START_S:g} s; {settings.log_file} has the details")


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


def _state(settings: Settings) -> dict[str, Any] | None:
    try:
        state: dict[str, Any] = json.loads(read_regular(settings.state_path))
    except (OSError, ValueError):
        return None
    return state


def _healthy(url: str) -> bool:
    from urllib.request import ProxyHandler, build_opener

    try:
        # The room is on this machine: a proxy from the environment has no business here.
        with build_opener(ProxyHandler({})).open(f"{url}/health", timeout=2.0) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


# -- link


def _link(args: argparse.Namespace) -> int:
    from relay.app.runtime import instance
    from relay.app.runtime.sign_in import NoLink, new_link

    settings = load(args.config)
    about(settings.path)
    try:
        record = instance.read(settings.lock_path)
    except instance.DamagedRecord as error:
        return _fail(
            f"{error}, so it is not known whether the room runs. A running one writes it again within "
            f"{settings.locks.ttl / 3:g} s: try again then, or start it with {script('scripts/start.sh')}"
        )
    state = _state(settings)
    if state is None or record is None or not instance.is_live(record, settings.locks.ttl):
        return _fail(f"the room is not running; start it with {script('scripts/start.sh')}")
    try:
        url = new_link(state["url"], settings.token_path)
    except NoLink as error:
        return _fail(str(error))
    print(json.dumps({"url": url, "expires_in_s": 600}) if args.json else url)
    return 0


# -- log


def _log(args: argparse.Namespace) -> int:
    if args.lines < 0:
        print("relay: --lines must be 0 or more", file=sys.stderr)
        return 2
    settings = load(args.config)
    about(settings.path)
    path = settings.log_file
    if not path.exists():
        return _fail(f"there is no log yet at {path}")
    show = (lambda line: line.rstrip("\n")) if args.json else (lambda line: indented(_readable(line)))
    with path.open("r", encoding="utf-8", errors="replace") as file:
        for line in deque(file, maxlen=args.lines):
            print(show(line))
        sys.stdout.flush()  # a pipe is shown them now, not with the next line
        if args.no_follow:
            return 0
        _follow(path, file, show)
    return 0


def _follow(path: Path, file: Any, show: Callable[[str], str]) -> None:
    part = ""
    while True:
        part += file.readline()
        if part.endswith("\n"):
            print(show(part), flush=True)
            part = ""
            continue
        time.sleep(0.2)
        try:
            rotated = path.stat().st_ino != os.fstat(file.fileno()).st_ino
        except FileNotFoundError:
            rotated = False
        if rotated:
            file.close()
            file = path.open("r", encoding="utf-8", errors="replace")


def _readable(line: str) -> str:
    try:
        told = json.loads(line)
    except ValueError:
        return line.rstrip("\n")
    if not isinstance(told, dict):
        return line.rstrip("\n")
    at, level, what = told.pop("timestamp", ""), told.pop("level", ""), told.pop("event", "")
    told.pop("logger", None)
    more = told.pop("exception", None) or told.pop("stack", None)
    words = " ".join(f"{key}={value}" for key, value in told.items() if value is not None)
    text = f"{at[11:23]} {level:<7} {what}  {words}".rstrip()
    return f"{text}\n{more}" if more else text


# -- archive and verify


def _archive(args: argparse.Namespace) -> int:
    from relay.app.commands.archive import ArchiveError, archive

    if args.keep < 0:
        print("relay: --keep must be 0 or more", file=sys.stderr)
        return 2
    settings = load(args.config)
    about(settings.path)
    try:
        done = asyncio.run(archive(settings, keep=args.keep))
    except ArchiveError as error:
        return _fail(str(error))
    print(json.dumps(done.as_json()) if args.json else indented(done.text()))
    return 0


def _verify(args: argparse.Namespace) -> int:
    settings = load(args.config)
    about(settings.path)
    try:
        damage, faults = asyncio.run(_faults(settings))
    except StoreMissing as missing:
        return _fail(f"{missing}; the room has not run yet")
    wrong = bool(damage or faults)
    if args.json:
        told = {"ok": not wrong, "faults": [fault.as_json() for fault in faults], "damage": damage}
        print(json.dumps(told))
        return 1 if wrong else 0
    for one in damage:
        print(indented(f"The database is damaged: {one}."))
    for fault in faults:
        print(indented(f"event {fault.id} (pos {fault.pos}): {fault.what}"))
    if damage:
        print(
            "Stop relay, and restore a copy of the database, or save what can still be read: docs/service.md."
        )
    elif faults:
        print(f"{len(faults)} damaged events.")
    else:
        print("The log is intact.")
    return 1 if wrong else 0


async def _faults(settings: Settings) -> tuple[list[str], list[Any]]:
    """What is wrong with the database, and with the events in it, as far as they can be read."""
    from relay.app.daemon.daemon import open_room_store
    from relay.log.verify import verify

    store = await open_room_store(settings, create=False)
    try:
        damage = await store.check()
        try:
            return damage, await verify(store)
        except store.errors as error:
            return damage or [f"the log cannot be read: {error}"], []
    finally:
        await store.close()


if __name__ == "__main__":
    sys.exit(main())
