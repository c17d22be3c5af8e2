"""`relay log`: show the daemon's log and follow it."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from relay.base.terminal_text import fail, indented
from relay.config.loading import load_for_command


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-n", "--lines", type=int, default=40, help="lines to begin with (40)")
    parser.add_argument("--no-follow", action="store_true", help="print them and exit")
    parser.add_argument("--json", action="store_true", help="the lines as they are, in JSON")


def run(args: argparse.Namespace) -> int:
    """The command; gives its exit code."""
    if args.lines < 0:
        return fail("--lines must be 0 or more", 2)
    settings = load_for_command(args.config)
    path = settings.log_file
    if not path.exists():
        return fail(f"there is no log yet at {path}")
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
        entry = json.loads(line)
    except ValueError:
        return line.rstrip("\n")
    if not isinstance(entry, dict):
        return line.rstrip("\n")
    at, level, what = entry.pop("timestamp", ""), entry.pop("level", ""), entry.pop("event", "")
    entry.pop("logger", None)
    more = entry.pop("exception", None) or entry.pop("stack", None)
    words = " ".join(f"{key}={value}" for key, value in entry.items() if value is not None)
    text = f"{at[11:23]} {level:<7} {what}  {words}".rstrip()
    return f"{text}\n{more}" if more else text
