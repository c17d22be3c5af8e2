"""`relay keys`: make, list and revoke API keys, and give the room another token.

Invariant: it works on the database, with or without a daemon; a key's text is printed once, when it is made, and
kept nowhere; the token's is in its file and never printed. Exit code 0 = did it, 1 = could not, 2 = wrong use
(`relay.cli`).
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import re
from collections.abc import Awaitable, Callable
from typing import Any

from relay.access.git_person import git_person
from relay.base.terminal_text import fail, safe, tame
from relay.config.command_line import command
from relay.config.loading import load_for_command
from relay.config.locate import add_config_option
from relay.config.settings import LiveSettings, Settings
from relay.faces.coordination import CoordinationServices, coordination_of
from relay.model import ADMIN, SCOPES, STEWARD, Caller, Fault, Refusal

Json = dict[str, Any]
Act = Callable[[CoordinationServices, Caller, argparse.Namespace], Awaitable[Any]]


def main(words: list[str]) -> int:
    """The command; gives its exit code."""
    args = _parser().parse_args(words)
    act: Act | None = args.act
    try:
        settings = load_for_command(args.config)
        answer = asyncio.run(_do(settings, act, args))
    except Refusal as error:
        return fail(str(error), 2 if error.fault is Fault.MALFORMED else 1)
    print(json.dumps(answer) if args.json else safe(args.text(tame(answer))))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="relay keys", description="API keys, each for one agent or person.")
    acts = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, act: Any, text: Callable[[Any], str], about: str) -> argparse.ArgumentParser:
        made = acts.add_parser(name, help=about, description=about)
        add_config_option(made)
        made.add_argument("--json", action="store_true", help="print it as JSON")
        made.set_defaults(act=act, text=text)
        return made

    create = add("create", _create, _created, "Make a key for one name; it is shown once.")
    create.add_argument("name", metavar="NAME", help="who the key speaks for, like CLAUDE")
    create.add_argument(
        "--type", default="agent", help="what it is: agent (the default), claude_code, person, ..."
    )
    scopes = ", ".join([*sorted(SCOPES), ADMIN])
    create.add_argument(
        "--scopes", help=f"its scopes, separated by commas, out of: {scopes} (all but {ADMIN})"
    )
    create.add_argument("--expires", default="never", help="like 30d, 12h, 45m (never)")
    create.add_argument("--note", default="", help="what it is for")
    add("list", _list, _listed, "Show the keys, without their secrets.")
    revoke = add("revoke", _revoke, _revoked, "Revoke a key; it is refused at once.")
    revoke.add_argument("id", metavar="ID", help="as `relay keys list` shows it")
    about = (
        "Give the room another token, at every relay of its database; the old one is refused within seconds."
    )
    add("new-token", None, lambda told: str(told["text"]), about)
    return parser


async def _do(settings: Settings, act: Act | None, args: argparse.Namespace) -> Any:
    from relay.app.runtime.room_token import new_token
    from relay.app.wiring.schema import SCHEMAS
    from relay.store.open import opened_store

    async with opened_store(settings, SCHEMAS) as store:
        person = _person(settings)
        if act is not None:
            return await act(coordination_of(store, LiveSettings(settings)), person, args)
        if not await new_token(store, settings.token_path, person.agent):
            fix = f"{settings.token_path} has that one. If you want yet another, run this again."
            raise Refusal("Somebody else gave the room another token just now.", fix)
        text = f"The room has a new token, in {settings.token_path}. The old one is refused within seconds."
        return {"success": True, "path": str(settings.token_path), "text": text}


def _person(settings: Settings) -> Caller:
    """The person who types."""
    name = git_person(settings.repo, settings.agent_names)
    plain = re.sub(r"[^A-Za-z0-9._-]", "_", name)
    session = f"cli-{plain}" if plain == name else f"cli-{hashlib.sha256(name.encode()).hexdigest()[:16]}"
    return Caller(name, session, "person", person=True, scopes=SCOPES | {ADMIN})


async def _create(services: CoordinationServices, caller: Caller, args: argparse.Namespace) -> Json:
    scopes = (
        None if args.scopes is None else [part.strip() for part in args.scopes.split(",") if part.strip()]
    )
    return await services.keys.create(
        caller, args.name, agent_type=args.type, scopes=scopes, expires=args.expires, note=args.note
    )


async def _list(services: CoordinationServices, caller: Caller, args: argparse.Namespace) -> list[Json]:
    return await services.keys.list(caller)


async def _revoke(services: CoordinationServices, caller: Caller, args: argparse.Namespace) -> Json:
    return await services.revoke_key(caller, args.id)


def _created(key: Json) -> str:
    agents = key["agent_type"] != "person"
    whose = " It is an agent's key; `--type person` makes a person's." if agents else " It is a person's key."
    return (
        f"{key['key']}\n"
        f"Key {key['id']} of {key['identity']} ({', '.join(key['scopes'])}), "
        f"good until {key['expires_at'] or 'it is revoked'}. Keep it now: it is not shown again.\n"
        f"{whose.strip()}\n"
        f"Use it as RELAY_API_KEY for {command('mcp')}, or as X-API-Key on HTTP."
    )


def _listed(keys: list[Json]) -> str:
    if not keys:
        return f"There are no keys. {command('keys create NAME')} makes one."
    rows = [("ID", "NAME", "STATE", "SCOPES", "EXPIRES", "USED", "NOTE")]
    rows += [
        (
            key["id"],
            key["identity"],
            key["state"],
            ",".join(key["scopes"]),
            key["expires_at"] or "never",
            key["used_at"] or "never",
            _DAEMONS if _of_daemon(key) else key["note"],
        )
        for key in sorted(keys, key=_of_daemon)
    ]
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


#: What stands for the note of a key that a daemon made: it holds which process that is, for the daemon alone.
_DAEMONS = "the daemon's, while it runs"


def _of_daemon(key: Json) -> bool:
    return bool(key["created_by"] == STEWARD)


def _revoked(key: Json) -> str:
    return f"Key {key['id']} of {key['identity']} is revoked."
