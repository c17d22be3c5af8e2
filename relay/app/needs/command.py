"""`relay inbox`: what needs you in the running room, and doing something about it (docs/inbox.md)."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from relay.access.git_person import git_person
from relay.app.needs.words import MOST_LABEL, unheard
from relay.app.runtime.daemon_requests import agents_key, asked
from relay.base.durations import parse_iso, rough_duration
from relay.base.terminal_text import fail, safe, safe_line, tame
from relay.config.command_line import command
from relay.config.loading import load_for_command
from relay.config.locate import add_config_option, find


def main(words: Sequence[str]) -> int:
    """The command; gives its exit code: 0 = did it, 1 = could not, 2 = wrong use."""
    args = _parser().parse_args(words)
    if (args.need is None) != (args.action is None) or "" in (args.need, args.action):
        return fail("give the id of what needs you and an action, as `relay inbox` shows them", 2)
    if agents_key():
        return fail("the inbox is a person's, and this is an agent's turn")
    settings = load_for_command(find(args.config))
    if args.need is None:
        needs = asked(settings, "/api/needs", as_json=args.json)
        if args.json:
            print(json.dumps(needs))
            return 0
        print(safe(_listed(tame(needs))))
        members = asked(settings, "/api/state")["fleet"]["members"]
        if away := [safe_line(each["name"]) for each in members if each["state"] == "away"]:
            print(f"\n{unheard(away)}")
        return 0
    person = args.name or git_person(settings.repo, settings.agent_names)
    body = {"action": args.action, **({"text": args.text} if args.text else {})}
    path = f"/api/needs/{quote(args.need, safe='')}"
    done = asked(settings, path, person=person, body=body, as_json=args.json)
    if args.json:
        print(json.dumps(done))
    else:
        print(safe(str(tame(done)["reason"])))
        if done.get("undo"):
            print(f"`{safe_line(done['undo'])}` in the room takes it back.")
    return 0 if done.get("success") else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="relay inbox",
        description="What needs you: what expires soon, then the newest. With an ID and an ACTION: do it.",
    )
    parser.add_argument("need", nargs="?", metavar="ID", help="of what needs you")
    parser.add_argument("action", nargs="?", metavar="ACTION", help="what is to be done about it")
    parser.add_argument("text", nargs="?", metavar="TEXT", help="where the action takes one")
    parser.add_argument("--name", help="your name in the room (the one that git has for you)")
    parser.add_argument("--json", action="store_true", help="print the answer as JSON")
    add_config_option(parser)
    return parser


def _listed(needs: Sequence[dict[str, Any]]) -> str:
    if not needs:
        return "Nothing needs you."
    lines = []
    for need in needs:
        age = rough_duration(max(0.0, time.time() - parse_iso(need["at"])))
        lines += [f"{safe_line(need['about'])}, {age} ago: {safe_line(need['text'], 400)}"]
        for action in need["actions"]:
            text = f' "<{action["asks"]}>"' if action["asks"] else ""
            typed = command(f"inbox {need.get('short') or need['id']} {action['name']}{text}").strip("`")
            lines.append(f"  {safe_line(action['label'], MOST_LABEL):<28} {typed}")
        lines.append("")
    return "\n".join(lines).rstrip()
