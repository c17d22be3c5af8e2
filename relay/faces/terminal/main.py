"""The command line of the terminal: `python scripts/join.py --name ann`, `relay join`.

Invariant: this module only reads the command line and chooses; heavy modules are imported when they are needed. In a
terminal it opens the room for a person (`app.py`). With `--say`, `--follow`, `--last` or `--json`, or with text piped
in, it does that one thing (`script.py`) and its exit code says whether it succeeded.
"""

from __future__ import annotations

import argparse
import asyncio
import getpass
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from relay.faces.terminal.find_room import Finder, Place, PlaceError

_EPILOG = """\
exit code: 0 did it, 1 could not (no answer in time, refused), 2 wrong use.

  join.py --name ann                               the room, live
  join.py --name ann --say "@CLAUDE why?" --wait 120   ask, print the answers
  git diff | join.py --name ann                    post what is piped in
  join.py --follow --json                          every entry as a line of JSON
"""


def parser() -> argparse.ArgumentParser:
    """The command line; `relay join` shows the same."""
    made = argparse.ArgumentParser(
        prog="relay join",
        description="Join the room: live above, your input below.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument(
        "--name",
        default=None,
        help="who you are in the room (else as at your last visit, as git has you, or $USER)",
    )
    made.add_argument(
        "--config",
        metavar="PATH",
        help="the configuration (else RELAY_CONFIG, else the room this folder is in)",
    )
    made.add_argument("--url", help="a room elsewhere, http://HOST:PORT; its key is in RELAY_API_KEY")
    made.add_argument("--say", metavar="TEXT", help="post one message and leave; - reads it from stdin")
    made.add_argument("--wait", metavar="SECONDS", type=_seconds, help="with --say: wait for the answers")
    made.add_argument("--last", metavar="N", type=_count, help="print the newest N entries (1-1000)")
    made.add_argument("--follow", action="store_true", help="print entries as they come, until Ctrl-C")
    made.add_argument("--json", action="store_true", help="print JSON, one object a line")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command. Returns the exit code: 0 did it, 1 could not, 2 wrong use."""
    made = parser()
    try:
        options = made.parse_args(argv)
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else 2
    typed = sys.stdin.isatty() and sys.stdout.isatty()
    reads = options.follow or options.last is not None
    posts = options.say is not None or (not reads and not sys.stdin.isatty())
    if options.wait is not None and not posts:
        print("--wait goes with --say or with text piped in", file=sys.stderr)
        return 2
    if posts and reads:
        print("--say goes without --follow and --last; --wait prints the answers", file=sys.stderr)
        return 2
    finder = Finder(options.config, options.url)
    try:
        place = finder.place()
        name, whence = (options.name, "") if options.name else _own_name(place)
        from relay.room.parsing.line_format import is_speaker

        if not is_speaker(name):
            print(f"{name!r} cannot be a name: 1 to 64 printable characters without [ ]", file=sys.stderr)
            return 2
        if whence and not reads:
            print(f"You are {name} here, {whence}; --name says otherwise.", file=sys.stderr)
        if not (posts or reads or options.json) and typed:
            from relay.faces.terminal.app import RoomApp

            _remember(place, name)
            return asyncio.run(RoomApp(finder.place, name, place.history, entries=50).run())
        from relay.faces.terminal import script

        if posts:
            body = sys.stdin.read() if options.say in (None, "-") else options.say
            return asyncio.run(script.say(finder.place, name, body, options.wait, options.json))
        last = options.last if options.last is not None else (0 if options.follow else 100)
        return asyncio.run(script.read(finder.place, name, last, options.follow, options.json))
    except PlaceError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 0 if options.follow else 1
    except BrokenPipeError:
        # The reader of our output has gone; Python must not flush it once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _own_name(place: Place) -> tuple[str, str]:
    """Who a person is that gave no name, and whence that is known."""
    from relay.access.git_person import git_name

    if place.own_name is not None:
        with suppress(OSError, ValueError):
            if known := place.own_name.read_text(encoding="utf-8").strip():
                return known, "as at your last visit"
    if signs := git_name(place.repo or Path.cwd(), place.reserved):
        return signs, "as git's user.name has you"
    return os.environ.get("USER") or getpass.getuser(), "as your account is called"


def _remember(place: Place, name: str) -> None:
    if place.own_name is not None:
        with suppress(OSError):
            place.own_name.write_text(f"{name}\n", encoding="utf-8")


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 < value < 86_400:
        raise argparse.ArgumentTypeError("must be between 0 and 86400 seconds")
    return value


def _count(text: str) -> int:
    value = int(text)
    if not 1 <= value <= 1000:
        raise argparse.ArgumentTypeError("must be between 1 and 1000")
    return value
