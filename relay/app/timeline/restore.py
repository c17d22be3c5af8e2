"""`relay timeline restore`: the log of a lost database, brought back from git alone.

Invariants:
- only an empty database is written, and only while no room runs on it. A run that was cut off is gone on with;
- a dry run does the same in a database of its own, which goes with it, so what it says is what would be.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

from relay.airspace.advisories.table import bring_back
from relay.app.runtime import instance
from relay.app.timeline.exchange import MOST_LINES, left_out, opened_exchange, words_of_left_out
from relay.app.wiring.schema import SCHEMAS
from relay.base.terminal_text import safe_line
from relay.config.command_line import script
from relay.config.settings import Settings
from relay.log import events
from relay.model import Refusal
from relay.store.open import opened_store
from relay.store.ports import Store, StoreMissing
from relay.timeline.archive import FOLDER
from relay.timeline.sync.lost_events import LostEvents, find_lost


async def run(settings: Settings, args: argparse.Namespace) -> tuple[Any, str]:
    """Do what was asked for; the result as JSON and for people. Raises Refusal."""
    _refuse_running(settings)
    if not args.dry_run:
        async with opened_store(settings, SCHEMAS, create=True) as store:
            return await _restore(store, settings, args)
    try:
        async with opened_store(settings, create=False) as store:
            if await store.read(events.last_pos):
                raise Refusal(
                    "The database has a log, and one is brought back into an empty database only.",
                    "Stop the room, move its database away, and do this again.",
                )
    except StoreMissing:
        pass
    with tempfile.TemporaryDirectory(prefix="relay-restore-") as folder:
        aside = Settings(Path(folder).resolve() / "config.json")
        async with opened_store(aside, SCHEMAS, create=True) as store:
            return await _restore(store, settings, args)


def _refuse_running(settings: Settings) -> None:
    try:
        record = instance.running(settings)
    except instance.DamagedRecord as error:
        raise Refusal(f"It is not known whether the room runs: {error}.", "") from error
    if record is not None:
        raise Refusal(
            f"The room runs ({record.pid} on {record.host}), and has a database.",
            f"Stop it first: {script('stop.sh')}.",
        )


async def _restore(store: Store, settings: Settings, args: argparse.Namespace) -> tuple[Any, str]:
    async with opened_exchange(store, settings) as (exchange, checkout):
        done = await exchange.restore(args.replica, settings.runtime_dir / FOLDER)
        lost = await find_lost(store, checkout.git)
    await store.write(lambda tx: bring_back(tx, time.time()))
    value = {
        "restored": done.added,
        **left_out(done),
        "lost": [{"id": event.id, "commit": event.commit, "agent": event.agent} for event in lost.events],
        "lanes": [{"lane": run.lane, "first": run.first, "last": run.last} for run in lost.runs],
        "dry_run": args.dry_run,
    }
    verb = "Would bring back" if args.dry_run else "Brought back"
    lines = [f"{verb} {done.added:,} events.", *words_of_left_out(done), *_lost_lines(lost)]
    return value, "\n".join(lines)


def _lost_lines(lost: LostEvents) -> list[str]:
    lines = [
        f"lost {event.id[:12]} of {safe_line(event.agent)}, which the commit {event.commit[:12]} names"
        for event in lost.events[:MOST_LINES]
    ]
    if len(lost.events) > MOST_LINES:
        lines.append(f"and {len(lost.events) - MOST_LINES:,} more (--json has all)")
    lines += [f"lost of {safe_line(run.lane)}: {run.first:,} to {run.last:,}" for run in lost.runs]
    return lines
