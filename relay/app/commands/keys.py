"""`relay keys`: make, list and revoke API keys.

Invariant: it works on the database, with or without a daemon; a key's text is printed once, when it is made, and
kept nowhere. Exit code 0 = did it, 1 = could not, 2 = wrong use (`relay.cli`).
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import re
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from relay.access.keys import Keys
from relay.app.runtime.git_person import git_person
from relay.base.terminal_text import indented, safe, tame
from relay.config.command_line import about, command
from relay.config.settings import ConfigError, Settings, load
from relay.faces.ports import SessionsApi
from relay.model import ADMIN, SCOPES, STEWARD, Caller, Fault, Refusal
from relay.store.ports import StoreError

Json = dict[str, Any]
Act = Callable[[Keys, SessionsApi, Caller, argparse.Namespace], Awaitable[Any]]


def main(words: list[str]) -> int:
    """The command; gives its exit code."""
    args = _parser().parse_args(words)
    act: Act = args.act
    try:
        settings = load(args.config)
        about(settings.path)
        told = asyncio.run(_do(settings, act, args))
    except (ConfigError, StoreError) as error:
        return _fail(str(error), 1)
    except Refusal as error:
        return _fail(str(error), 2 if error.fault is Fault.MALFORMED else 1)
    if args.json:
        print(json.dumps(told))
    else:
        print(safe(args.text(tame(told))))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="relay keys", description="API keys, each for one agent or person.")
    acts = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, act: Any, text: Callable[[Any], str], about: str) -> argparse.ArgumentParser:
        made = acts.add_parser(name, help=about, description=about)
        made.add_argument(
            "--config", help="the configuration (else RELAY_CONFIG, else the room this folder is in)"
        )
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
    return parser


async def _do(
    settings: Settings,
    act: Act,
    args: argparse.Namespace,
) -> Any:
    from relay.app.wiring.schema import WINGS
    from relay.app.wiring.services import services_of
    from relay.store.open import open_store

    store = await open_store(settings, WINGS)
    try:
        keys = Keys(store, lambda: [agent.name for agent in settings.agents])
        return await act(keys, services_of(store, settings, keys=keys).sessions, _person(settings), args)
    finally:
        await store.close()


def _person(settings: Settings) -> Caller:
    """The person who types."""
    name = git_person(settings.repo, [agent.name for agent in settings.agents])
    plain = re.sub(r"[^A-Za-z0-9._-]", "_", name)
    session = f"cli-{plain}" if plain == name else f"cli-{hashlib.sha256(name.encode()).hexdigest()[:16]}"
    return Caller(name, session, "person", person=True, scopes=SCOPES | {ADMIN})


async def _create(keys: Keys, _sessions: SessionsApi, caller: Caller, args: argparse.Namespace) -> Json:
    scopes = None if args.scopes is None else [one.strip() for one in args.scopes.split(",") if one.strip()]
    return await keys.create(
        caller, args.name, agent_type=args.type, scopes=scopes, expires=args.expires, note=args.note
    )


async def _list(keys: Keys, _sessions: SessionsApi, caller: Caller, args: argparse.Namespace) -> list[Json]:
    return await keys.list(caller)


async def _revoke(keys: Keys, sessions: SessionsApi, caller: Caller, args: argparse.Namespace) -> Json:
    from relay.faces.operations.keys import revoke  # with pydantic, which the other commands do not need

    return await revoke(keys, sessions, caller, args.id)


def _created(told: Json) -> str:
    agents = told["agent_type"] != "person"
    whose = " It is an agent's key; `--type person` makes a person's." if agents else " It is a person's key."
    return (
        f"{told['key']}\n"
        f"Key {told['id']} of {told['identity']} ({', '.join(told['scopes'])}), "
        f"good until {told['expires_at'] or 'it is revoked'}. Keep it now: it is not shown again.\n"
        f"{whose.strip()}\n"
        f"Use it as RELAY_API_KEY for {command('mcp')}, or as X-API-Key on HTTP."
    )


def _listed(told: list[Json]) -> str:
    if not told:
        return f"There are no keys. {command('keys create NAME')} makes one."
    rows = [("ID", "NAME", "STATE", "SCOPES", "EXPIRES", "USED", "NOTE")]
    rows += [
        (
            one["id"],
            one["identity"],
            one["state"],
            ",".join(one["scopes"]),
            one["expires_at"] or "never",
            one["used_at"] or "never",
            _DAEMONS if _of_daemon(one) else one["note"],
        )
        for one in sorted(told, key=_of_daemon)
    ]
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


#: What stands for the note of a key that a daemon made: it holds which process that is, for the daemon alone.
_DAEMONS = "the daemon's, while it runs"


def _of_daemon(one: Json) -> bool:
    return bool(one["created_by"] == STEWARD)


def _revoked(told: Json) -> str:
    return f"Key {told['id']} of {told['identity']} is revoked."


def _fail(text: str, code: int) -> int:
    print(f"relay: {indented(text)}", file=sys.stderr)
    return code
