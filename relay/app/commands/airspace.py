"""`relay airspace`: who is near whom in a running room; measure code-space without one; declare an intent.

Invariant: exit code 0 = did it, 1 = could not, 2 = wrong use.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import ProxyHandler, Request, build_opener

from relay.app.runtime.git_person import git_person
from relay.base.files import read_regular
from relay.base.terminal_text import indented, safe
from relay.config.command_line import about, script
from relay.config.loading import load
from relay.config.locate import add_config_option
from relay.config.settings import Settings

#: Seconds that the room gets to answer; the steward may have to finish another command first.
ANSWER_S = 30.0


def main(words: list[str]) -> int:
    """`relay airspace WORDS...`; gives the exit code."""
    from relay.app.commands import airspace_risk, airspace_scan

    text = "How close agents are in the code."
    parser = argparse.ArgumentParser(prog="relay airspace", description=text)
    add_config_option(parser)
    parser.add_argument("--json", action="store_true", help="print the room's answer as JSON")
    parser.set_defaults(command=_show)
    commands = parser.add_subparsers(metavar="COMMAND", help="without one: who is near whom now")
    decisions = [_add_decision(commands, *word) for word in _DECISIONS]
    for made in (airspace_scan.add(commands), airspace_risk.add(commands), _add_intent(commands), *decisions):
        # Every command takes it; these two need no room, and so no configuration.
        if not any(action.dest == "config" for action in made._actions):
            made.add_argument("--config", help=argparse.SUPPRESS)
    args = parser.parse_args(words)
    command: Callable[[argparse.Namespace], int] = args.command
    return command(args)


def _add_intent(commands: Any) -> argparse.ArgumentParser:
    text = "Say which files an agent will touch; no path = none. Agents call it themselves."
    made: argparse.ArgumentParser = commands.add_parser("intent", help=text, description=text)
    made.add_argument("paths", nargs="*", metavar="PATH", help="files, relative to the repository")
    named = os.environ.get("RELAY_AGENT_ID")
    made.add_argument("--agent", default=named, help="whose intent (else RELAY_AGENT_ID)")
    add_config_option(made)
    made.add_argument("--json", action="store_true", help="print the room's answer as JSON")
    made.set_defaults(command=_intent)
    return made


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
    add_config_option(made)
    made.add_argument("--json", action="store_true", help="print the room's answer as JSON")
    made.set_defaults(command=lambda args: _decide(args, name))
    return made


def _show(args: argparse.Namespace) -> int:
    """What `/airspace` answers in the room."""
    settings = load(args.config)
    about(settings.path)
    return _post_and_print(settings, "?files=touched", None, args.json, lambda answer: str(answer["text"]))


def _decide(args: argparse.Namespace, action: str) -> int:
    settings = load(args.config)
    about(settings.path)
    name = args.name or git_person(settings.repo, settings.agent_names)
    body = {"action": action, "agent": args.agent.upper(), "name": name}
    return _post_and_print(settings, "/decide", body, args.json, lambda answer: str(answer["reason"]))


def _post_and_print(
    settings: Settings,
    path: str,
    body: dict[str, Any] | None,
    as_json: bool,
    words: Callable[[dict[str, Any]], str],
) -> int:
    """Send it to the room (`body` None: only ask), and print what it answers."""
    try:
        state = json.loads(read_regular(settings.state_path))
        key = read_regular(settings.token_path).decode().strip()
        answer = _post(f"{state['url']}/api/airspace{path}", key, body)
    except (OSError, ValueError) as error:
        reason = error.reason if isinstance(error, URLError) else error
        start = script("scripts/start.sh")
        print(indented(f"relay: the room does not answer ({reason}); start it with {start}"), file=sys.stderr)
        return 1
    if as_json:
        print(json.dumps(answer))
    elif answer.get("success", body is None):
        # The lines of what was only asked for are our own; each name in them is on one line.
        print((safe if body is None else indented)(words(answer)))
    else:
        print(indented(f"relay: {answer.get('reason') or answer}"), file=sys.stderr)
    return 0 if answer.get("success", body is None) else 1


def _intent(args: argparse.Namespace) -> int:
    if not args.agent:
        print("relay: whose intent? Give --agent NAME, or set RELAY_AGENT_ID", file=sys.stderr)
        return 2
    settings = load(args.config)
    about(settings.path)
    own = args.agent == os.environ.get("RELAY_AGENT_ID")
    body = {"agent": args.agent, "paths": args.paths, **({"own": True} if own else {})}

    def words(answer: dict[str, Any]) -> str:
        said = f"{args.agent} intends to touch {', '.join(answer.get('intent', args.paths)) or 'nothing'}."
        return "\n".join([said, *answer.get("in_hand", ())])

    return _post_and_print(settings, "/intent", body, args.json, words)


def _post(url: str, key: str, body: dict[str, Any] | None) -> dict[str, Any]:
    headers = {"X-API-Key": key, "Content-Type": "application/json"}
    data, method = (None, "GET") if body is None else (json.dumps(body).encode(), "POST")
    request = Request(url, data, headers, method=method)
    try:
        # The room is on this machine: a proxy from the environment has no business here.
        with build_opener(ProxyHandler({})).open(request, timeout=ANSWER_S) as answer:
            reply: dict[str, Any] = json.load(answer)
    except HTTPError as error:
        refused = json.load(error).get("error", {})
        return {"success": False, "reason": f"{refused.get('message', '')} {refused.get('fix', '')}".strip()}
    return reply
