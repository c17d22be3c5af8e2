"""`relay verify`: check every event of the log."""

from __future__ import annotations

import argparse
import asyncio
import json

from relay.app.wiring.schema import SCHEMAS
from relay.base.terminal_text import fail, indented
from relay.config.loading import load_for_command
from relay.config.settings import Settings
from relay.log.verify import LogFault, verify
from relay.store.open import opened_store
from relay.store.ports import StoreMissing
from relay.timeline.archive import FOLDER as ARCHIVES
from relay.timeline.archive import check_archives


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print what was found as JSON")


def run(args: argparse.Namespace) -> int:
    """The command; gives its exit code."""
    settings = load_for_command(args.config)
    try:
        damage, faults = asyncio.run(_faults(settings))
    except StoreMissing as missing:
        return fail(f"{missing}; the room has not run yet")
    wrong = bool(damage or faults)
    if args.json:
        result = {"ok": not wrong, "faults": [fault.as_json() for fault in faults], "damage": damage}
        print(json.dumps(result))
        return 1 if wrong else 0
    for what in damage:
        print(indented(f"The database is damaged: {what}."))
    for fault in faults:
        print(indented(f"event {fault.id} (pos {fault.pos}): {fault.what}"))
    if damage:
        print(
            "Stop relay, and restore a copy of the database, or save what can still be read: docs/service.md."
        )
    elif faults:
        print(f"{len(faults)} damaged events.")
    else:
        print("The log is intact.")
    return 1 if wrong else 0


async def _faults(settings: Settings) -> tuple[list[str], list[LogFault]]:
    """What is wrong with the database, and with the events in it, as far as they can be read."""
    async with opened_store(settings, SCHEMAS, create=False) as store:
        damage = await store.check()
        try:
            folder = settings.runtime_dir / ARCHIVES
            return damage, [*await check_archives(store, folder), *await verify(store)]
        except store.errors as error:
            return damage or [f"the log cannot be read: {error}"], []
