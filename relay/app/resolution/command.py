"""`relay merge resolve`: look at a conflict that the room asked about, and write by hand what is to stand there.

Invariant: the same with a running room and without one. Exit code 0 = done, 1 = could not, 2 = wrong use.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from relay.app.memory.room_operations import room_operations
from relay.app.runtime.identity import WrongUse
from relay.base.terminal_text import fail, flat, safe, safe_line
from relay.config.loading import load_for_command
from relay.config.locate import add_config_option
from relay.config.settings import Settings
from relay.merge.resolution.journal import LEVEL
from relay.merge.resolution.service import of_json
from relay.merge.resolution.wording import shown
from relay.model import Fault, Refusal

MARKS = ("<<<<<<<", "|||||||", "=======", ">>>>>>>")


def main(words: Sequence[str]) -> int:
    """The command; gives its exit code."""
    parser = argparse.ArgumentParser(
        prog="relay merge resolve",
        description="Write what is to stand in a conflict. Without one: the conflicts that wait.",
    )
    add_config_option(parser)
    parser.add_argument("conflict", nargs="?", metavar="CONFLICT", help="its number, like c3")
    parser.add_argument("--show", action="store_true", help="print it, and write nothing")
    parser.add_argument("--text", metavar="FILE", help="the lines, instead of your editor")
    parser.add_argument("--name", help="your name in the room (the one that git has for you)")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    args = parser.parse_args(words)
    settings = load_for_command(args.config)
    try:
        return asyncio.run(_run(settings, args))
    except WrongUse as error:
        return fail(str(error), 2)
    except Refusal as refusal:
        if args.json and refusal.code:
            print(json.dumps(refusal.as_json()))
        return fail(str(refusal), 2 if refusal.fault is Fault.MALFORMED else 1)
    except OSError as error:
        return fail(f"{error.filename or 'the text'}: {error.strerror or error}")


async def _run(settings: Settings, args: argparse.Namespace) -> int:
    async with room_operations(settings, args.name) as perform:
        found: list[dict[str, Any]] = await perform("conflicts", {})
        if args.conflict is None:
            waiting = [one for one in reversed(found) if one["state"] == "open"]
            print(json.dumps(waiting) if args.json else safe(_listed(waiting)))
            return 0
        asked = next((one for one in found if one["reference"] == args.conflict.lower().lstrip("#")), None)
        if asked is None:
            return fail(
                f"there is no conflict {safe_line(args.conflict, 40)}; without one its list is printed"
            )
        editor = _editor()
        if args.text is None and (args.show or editor is None or asked["level"] != LEVEL or asked["whole"]):
            print(json.dumps(asked) if args.json else safe(_shown(asked, args.show)))
            return 0
        if asked["level"] != LEVEL:
            return fail(f"there is nothing to write: {asked['reference']} is of level {asked['level']}")
        if args.text is not None:
            text = await asyncio.to_thread(Path(args.text).read_text, "utf-8", "surrogateescape")
        else:
            text = await asyncio.to_thread(_in_editor, editor, marked(asked), Path(asked["path"]).suffix)
        done = await perform("resolve", {"id": asked["reference"], "text": text})
    merges = f"When nothing else conflicts, {asked['agent']}'s work merges with it."
    print(json.dumps(done) if args.json else safe(f"{asked['reference']} is settled. {merges}"))
    return 0


def marked(asked: dict[str, Any]) -> str:
    """Both sides and the base between markers, as git writes them."""
    names = (asked["a"]["lane"] or asked["into"], "base", asked["agent"])
    texts = (asked["a"]["after"], asked["base"], asked["b"]["after"])
    rows = [
        f"{MARKS[0]} {names[0]}\n",
        texts[0],
        f"{MARKS[1]} {names[1]}\n",
        texts[1],
        f"{MARKS[2]}\n",
        texts[2],
    ]
    return (
        "".join(row if row.endswith("\n") or not row else row + "\n" for row in rows)
        + f"{MARKS[3]} {names[2]}\n"
    )


def _shown(asked: dict[str, Any], only: bool) -> str:
    """The conflict as the room shows it; unless that was asked for, why there is nothing to write here."""
    text = shown(of_json(asked))
    if only or asked["level"] != LEVEL:
        return text
    if asked["whole"]:
        return f"{text}\n\nThere are no lines to write: choose in the room, or in the page."
    return f"{text}\n\nNo editor is here: set EDITOR, or give the lines by `--text FILE`."


def _editor() -> str | None:
    """What opens a text; None: there is nothing here."""
    wanted = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    return wanted or ("vi" if sys.stdin.isatty() and sys.stdout.isatty() and shutil.which("vi") else None)


def _in_editor(editor: str | None, text: str, suffix: str) -> str:
    assert editor is not None
    with tempfile.TemporaryDirectory(prefix="relay-resolve-") as made:
        path = Path(made) / f"CONFLICT{suffix}"
        path.write_text(text, "utf-8", "surrogateescape")
        # As git does it: what EDITOR holds is words of a shell.
        done = subprocess.run(["sh", "-c", f'{editor} "$@"', editor, str(path)], check=False)
        if done.returncode != 0:
            raise Refusal(
                f"The editor {editor} ended with {done.returncode}: nothing is settled.", "Set EDITOR."
            )
        return path.read_text("utf-8", "surrogateescape")


def _listed(waiting: Sequence[dict[str, Any]]) -> str:
    return "\n".join(map(_row, waiting)) or "No conflict waits for a decision."


def _row(one: dict[str, Any]) -> str:
    where = ", ".join(part for part in (one["path"], one["entity"]) if part) or "the merged tree"
    if one["agent"] is not None:
        return f"{one['reference']}  {where}: {one['kind']} ({one['agent']} into {one['into']})"
    # Of levels 3 and 4: git merges it, so there is nothing to write.
    said = flat(" ".join(one["evidence"]))
    about = f"{' and '.join(one['agents'])}, level {one['level']}, {one['severity']}"
    return f"{one['reference']}  {where}: {about}. {said}"
