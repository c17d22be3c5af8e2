"""`relay notify`: who outside is told what needs people, how that goes, and a message to try it (docs/inbox.md)."""

from __future__ import annotations

import argparse
import asyncio
import json
import secrets
import time
from collections.abc import Sequence
from typing import Any

from relay.app.notify import told
from relay.app.notify.bodies import body_of, headers_of, trial
from relay.app.notify.places import Place, places_of
from relay.app.runtime.daemon_requests import agents_key, state_of
from relay.base.durations import iso
from relay.base.terminal_text import fail, safe_line
from relay.config.command_line import command
from relay.config.loading import load_for_command
from relay.config.locate import add_config_option, find
from relay.config.settings import Settings
from relay.store.open import open_store
from relay.store.ports import StoreMissing


def main(words: Sequence[str]) -> int:
    """The command; gives its exit code: 0 = did it, 1 = could not, 2 = wrong use."""
    args = _parser().parse_args(words)
    if agents_key():
        return fail("who is told what needs people is a person's matter, and this is an agent's turn")
    settings = load_for_command(find(args.config))
    places = places_of(settings.notify, of="this command, which sends it from here")
    if args.name is not None:
        known = ", ".join(place.name for place in places) or "none"
        places = tuple(place for place in places if place.name == args.name)
        if not places:
            return fail(f"`notify` in {settings.path} has no {safe_line(args.name, 40)}; it has: {known}", 2)
    if args.what == "test":
        if not places:
            return fail(f"nobody is told: `notify` in {settings.path} is empty (docs/inbox.md)")
        return _tried(asyncio.run(_try(places, settings)), args.json)
    return _listed(asyncio.run(_standing(places, settings)), args.json)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="relay notify",
        description="Who outside is told what needs people, and how that goes. `test`: send a message to try it.",
    )
    parser.add_argument(
        "what", nargs="?", choices=("list", "test"), default="list", help="list (default) or test"
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="this one alone")
    parser.add_argument("--json", action="store_true", help="print the answer as JSON")
    add_config_option(parser)
    return parser


async def _try(places: Sequence[Place], settings: Settings) -> list[dict[str, Any]]:
    """Send a message to each, one after the other."""
    from relay.app.notify import sending  # an HTTP client, which a list need not wait for

    state, done = state_of(settings), []
    page = str(state["url"]) if state else ""
    async with sending.session() as http:
        for place in places:
            began = time.monotonic()
            if place.trouble:
                answer = sending.Answer(None, place.trouble)
            else:
                now = time.time()
                url, body = body_of(place, trial(now), settings.room_name, place.page or page)
                headers = headers_of(place, f"msg_{secrets.token_hex(12)}", int(now), body)
                answer = await sending.post(http, place, url, body, headers)
            took = round(time.monotonic() - began, 3)
            told_of = {"name": place.name, "format": place.format, "host": place.host or None}
            done.append({**told_of, "ok": answer.ok, "status": answer.status, "said": answer.said, "s": took})
    return done


def _tried(done: Sequence[dict[str, Any]], as_json: bool) -> int:
    if as_json:
        print(json.dumps(done))
    else:
        for each in done:
            how = "took it" if each["ok"] else "did not take it"
            print(
                f"{each['name']} ({each['format']}) {how}: {safe_line(each['said'], 300)} ({each['s']:.2f} s)"
            )
    return 0 if all(each["ok"] for each in done) else 1


async def _standing(places: Sequence[Place], settings: Settings) -> list[dict[str, Any]]:
    names = [place.name for place in places]
    try:
        store = await open_store(settings, create=False)
    except StoreMissing:
        standing = {name: told.Standing() for name in names}
    else:
        try:
            standing = await store.read(lambda tx: told.load(tx, names))
        finally:
            await store.close()
    return [_as_json(place, standing[place.name]) for place in places]


def _as_json(place: Place, one: told.Standing) -> dict[str, Any]:
    last = max((each.told for each in one.needs.values() if each.told), default=None)
    return {
        "name": place.name,
        "format": place.format,
        "host": place.host or None,
        "kinds": sorted(place.kinds) or None,
        "signed": place.signs,
        "waiting": len(one.waiting),
        "told_at": None if last is None else iso(last),
        "trouble": one.trouble or None,
        "since": iso(one.since) if one.since else None,
        "next_at": iso(one.next) if one.tries and one.waiting else None,
    }


def _listed(found: Sequence[dict[str, Any]], as_json: bool) -> int:
    if as_json:
        print(json.dumps(found))
        return 0
    if not found:
        print("Nobody outside is told what needs people. docs/inbox.md says how.")
        return 0
    for each in found:
        kinds = ", ".join(each["kinds"] or ["everything"])
        print(f"{each['name']} ({each['format']}{', signed' if each['signed'] else ''}): {kinds}")
        if each["trouble"]:
            waits = f"; {each['waiting']} waiting" if each["waiting"] else ""
            print(f"  is not told: {safe_line(each['trouble'], 300)}{waits}")
    print(f"\n{command('notify test')} sends each of them a message.")
    return 0
