"""`relay message`: entries of the running room, one by one (docs/entries.md)."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from relay.access.git_person import git_person
from relay.app.runtime.daemon_requests import agents_key, asked
from relay.base.terminal_text import fail, safe, safe_line, tame
from relay.config.loading import load_for_command
from relay.config.locate import add_config_option, find


def main(words: Sequence[str]) -> int:
    """The command; gives its exit code: 0 = did it, 1 = could not, 2 = wrong use."""
    args = _parser().parse_args(words)
    if args.do in _WRITES and agents_key():
        return fail("people do that, and this is an agent's turn")
    settings = load_for_command(find(args.config))
    try:
        path, body = _request(args)
    except OSError as error:
        return fail(f"{args.file} cannot be read: {error.strerror or error}")
    person = args.name or git_person(settings.repo, settings.agent_names)
    done = asked(settings, path, person=person, body=body, as_json=args.json)
    print(json.dumps(done) if args.json else safe(_text(args.do, tame(done))))
    return 0 if done.get("success", True) else 1


#: The lines behind a path: `src/app.py:12-20`.
_PLACE = re.compile(r":[0-9]+(?:-[0-9]+)?$")
_WRITES = ("edit", "delete", "pin", "unpin", "file")


def _request(args: argparse.Namespace) -> tuple[str, dict[str, Any] | bytes | None]:
    """The path of the request, and its body, None = a GET. Raises OSError."""
    if args.do == "file":
        return f"/api/files?{urlencode({'name': args.file.name})}", args.file.read_bytes()
    if args.do == "pins":
        return "/api/pins", None
    if args.do == "code":
        path, _, lines = args.place.rpartition(":") if _PLACE.search(args.place) else (args.place, "", "")
        place = {"path": path, "at": args.message, **({"lines": lines} if lines else {})}
        return f"/api/code?{urlencode(place)}", None
    if args.do == "thread":
        return f"/api/transcript?{urlencode({'thread': args.message, 'limit': 1000})}", None
    if args.do == "reply":
        return "/api/messages", {"body": f"/reply {args.message} {' '.join(args.text)}"}
    at = f"/api/messages/{quote(args.message, safe='')}"
    match args.do:
        case "edit":
            return f"{at}/edit", {"body": " ".join(args.text)}
        case "delete" | "pin" | "unpin":
            return f"{at}/{args.do}", {}
        case _:
            return f"{at}/versions", None


def _text(do: str, done: dict[str, Any]) -> str:
    if do == "file":
        return f"{done['reference']}\n{done['path']}"
    if do == "reply":
        return f"m{done['number']}"
    if do in _WRITES:
        return str(done["reason"])
    if do == "pins":
        lines = [f"m{pin['number']} {pin['speaker']}: {safe_line(pin['body'], 200)}" for pin in done["pins"]]
        return "\n".join(lines) or "Nothing is pinned."
    if do == "code":
        numbered = enumerate(done["lines"], done["start"])
        marks = range(done["first"] or 0, (done["last"] or -1) + 1)
        new = ", in no commit" if done["uncommitted"] else ""
        head = (
            f"{done['path']} of {done['of']} at {done['message']} ({(done['commit'] or 'unknown')[:12]}{new})"
        )
        return "\n".join([head, *(f"{'>' if n in marks else ' '}{n:5} {line}" for n, line in numbered)])
    if do == "thread":
        return "\n".join(f"m{each['number']} {each['speaker']}: {each['body']}" for each in done["entries"])
    return "\n".join(f"{safe_line(each['ts'])}  {each['body']}" for each in done["versions"])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="relay message",
        description="One message of the running room: answer, change, delete or pin it, look at it.",
    )
    commands = parser.add_subparsers(dest="do", required=True, metavar="COMMAND")
    _of_one(commands, "edit", "change what a message of your own says").add_argument(
        "text", nargs="+", metavar="TEXT", help="what it says from now on"
    )
    _of_one(commands, "reply", "answer a message, in its thread").add_argument(
        "text", nargs="+", metavar="TEXT", help="without a mention it goes to whom it answers"
    )
    _of_one(commands, "delete", "take a message of your own out of the room; the transcript file keeps it")
    _of_one(commands, "pin", "keep a message on top of the room")
    _of_one(commands, "unpin", "take a pinned message down")
    _command(commands, "pins", "show what is pinned")
    _of_one(commands, "thread", "show a message with what it answers and what answers it")
    _of_one(commands, "code", "show the code that a message speaks of, as it stood then").add_argument(
        "place", metavar="PATH[:LINES]", help="like src/app.py:12-20"
    )
    _command(
        commands, "file", "give the room a file; prints how a message names it, and where it is"
    ).add_argument("file", type=Path, metavar="FILE", help="it is copied")
    _of_one(commands, "versions", "show what a message said before it was changed")
    return parser


def _of_one(commands: Any, name: str, what: str) -> argparse.ArgumentParser:
    parser = _command(commands, name, what)
    parser.add_argument("message", metavar="MESSAGE", help="its number, like m12, or its id")
    return parser


def _command(commands: Any, name: str, what: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=what, description=f"{what[0].upper()}{what[1:]}."
    )
    parser.add_argument("--name", help="your name in the room (the one that git has for you)")
    parser.add_argument("--json", action="store_true", help="print the answer as JSON")
    add_config_option(parser)
    return parser
