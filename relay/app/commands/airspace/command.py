"""`relay airspace`: who is near whom in a running room; measure code-space without one; declare an intent.

Invariant: exit code 0 = did it, 1 = could not, 2 = wrong use.
"""

from __future__ import annotations

import argparse
import json
import os
import re
from collections.abc import Callable
from importlib import import_module
from typing import Any
from urllib.parse import quote, urlencode

from relay.access.git_person import git_person
from relay.app.runtime.daemon_requests import asked
from relay.base.terminal_text import fail, indented, safe
from relay.config.loading import load_for_command
from relay.config.locate import add_config_option
from relay.config.settings import Settings
from relay.model.orders.needs import MARKS

Command = Callable[[argparse.Namespace], int]


def main(words: list[str]) -> int:
    """`relay airspace WORDS...`; gives the exit code."""
    text = "How close agents are in the code."
    parser = _of_room(argparse.ArgumentParser(prog="relay airspace", description=text), _show)
    commands = parser.add_subparsers(metavar="COMMAND", help="without one: who is near whom now")
    decisions = [_add_decision(commands, *word) for word in _DECISIONS]
    measuring = [_add_measuring(commands, name, given=name in words) for name in _MEASURING]
    for made in (*measuring, _add_intent(commands), _add_mark(commands), *decisions):
        # Every command takes it; these two need no room, and so no configuration.
        if not any(action.dest == "config" for action in made._actions):
            made.add_argument("--config", help=argparse.SUPPRESS)
    args = parser.parse_args(words)
    command: Command = args.command
    return command(args)


#: Those that need no room; each has the module of its name here.
_MEASURING = {
    "scan": "Who is near whom in a scenario or in a repository's worktrees, and what they are told.",
    "risk": "Print the risk of each recorded pair of branches, a JSON object a line.",
}


def _add_measuring(commands: Any, name: str, *, given: bool) -> argparse.ArgumentParser:
    """Its module is loaded where it is `given`: numpy and all that measures takes its time."""
    text = _MEASURING[name]
    made: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text)
    if given:
        import_module(f"relay.app.commands.airspace.{name}").arguments(made)
    return made


def _add_intent(commands: Any) -> argparse.ArgumentParser:
    text = "Say which files an agent will touch; no path = none. Agents call it themselves."
    made: argparse.ArgumentParser = commands.add_parser("intent", help=text, description=text)
    made.add_argument("paths", nargs="*", metavar="PATH", help="files, relative to the repository")
    named = os.environ.get("RELAY_AGENT_ID")
    made.add_argument("--agent", default=named, help="whose intent (else RELAY_AGENT_ID)")
    return _of_room(made, _intent)


def _add_mark(commands: Any) -> argparse.ArgumentParser:
    text = "Say whether an advisory was of use."
    made: argparse.ArgumentParser = commands.add_parser("mark", help=text, description=text)
    made.add_argument(
        "advisory", metavar="MESSAGE", help="the room's message that tells of it, as m12; or its id"
    )
    made.add_argument("mark", choices=[*MARKS, "none"], help="none: take it back")
    made.add_argument("--name", help="your name in the room (the one that git has for you)")
    return _of_room(made, _mark)


#: What a person decides where agents collide; each is a command of the room too.
_DECISIONS = (
    ("first", "Say which agent goes first where two collide; the others give way."),
    ("stop", "End an agent's turn, cancel what waits for it, and start no new one."),
    ("update", "Ask an agent to merge the main branch into its own."),
)


def _add_decision(commands: Any, name: str, text: str) -> argparse.ArgumentParser:
    made: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text)
    made.add_argument("agent", metavar="AGENT", help="which agent")
    made.add_argument("--name", help="your name in the room (the one that git has for you)")
    return _of_room(made, lambda args: _decide(args, name))


def _of_room(parser: argparse.ArgumentParser, command: Command) -> argparse.ArgumentParser:
    """What every command has that asks the running room."""
    add_config_option(parser)
    parser.add_argument("--json", action="store_true", help="print the room's answer as JSON")
    parser.set_defaults(command=command)
    return parser


def _show(args: argparse.Namespace) -> int:
    """What `/airspace` answers in the room."""
    settings = load_for_command(args.config)
    return _post_and_print(settings, "?files=touched", None, args.json, lambda answer: str(answer["text"]))


def _decide(args: argparse.Namespace, action: str) -> int:
    settings = load_for_command(args.config)
    name = args.name or git_person(settings.repo, settings.agent_names)
    body = {"action": action, "agent": args.agent.upper()}
    return _post_and_print(settings, "/decide", body, args.json, lambda answer: str(answer["reason"]), name)


def _mark(args: argparse.Namespace) -> int:
    """As `/mark` in the room."""
    settings, id = load_for_command(args.config), args.advisory
    if re.fullmatch(r"[mM#]?[0-9]+", id):
        query = urlencode({"around": f"#{id.lstrip('mM#')}", "limit": 1})
        page = asked(settings, f"/api/transcript?{query}", as_json=args.json)
        id = next(
            (entry["meta"]["advisory"] for entry in page["entries"] if "advisory" in entry["meta"]), "-"
        )
    name = args.name or git_person(settings.repo, settings.agent_names)
    body = {"mark": None if args.mark == "none" else args.mark}
    path = f"/advisories/{quote(id, safe='')}/mark"
    said = f"The advisory is marked: {args.mark}."
    return _post_and_print(settings, path, body, args.json, lambda _: said, name)


def _post_and_print(
    settings: Settings,
    path: str,
    body: dict[str, Any] | None,
    as_json: bool,
    words: Callable[[dict[str, Any]], str],
    person: str = "",
) -> int:
    """Send it to the room (`body` None: only ask; `person`: who decides it), and print what it answers."""
    answer = asked(settings, f"/api/airspace{path}", person=person, body=body, as_json=as_json)
    success = answer.get("success", "error" not in answer)
    if as_json:
        print(json.dumps(answer))
    elif not success:
        return fail(f"{answer.get('reason') or answer}")
    else:
        # The lines of what was only asked for are our own; each name in them is on one line.
        print((safe if body is None else indented)(words(answer)))
    return 0 if success else 1


def _intent(args: argparse.Namespace) -> int:
    if not args.agent:
        return fail("whose intent? Give --agent NAME, or set RELAY_AGENT_ID", 2)
    settings = load_for_command(args.config)
    own = args.agent == os.environ.get("RELAY_AGENT_ID")
    body = {"agent": args.agent, "paths": args.paths, **({"own": True} if own else {})}

    def words(answer: dict[str, Any]) -> str:
        intent = f"{args.agent} intends to touch {', '.join(answer.get('intent', args.paths)) or 'nothing'}."
        return "\n".join([intent, *answer.get("in_hand", ())])

    return _post_and_print(settings, "/intent", body, args.json, words)
