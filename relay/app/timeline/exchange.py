"""`relay timeline push` and `pull`: this room's events to others, and theirs to here, through a git remote.

Invariant: works beside a running room and without one; writes the log and refs of relay's own, no branch and no file.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from relay.base.files import read_regular
from relay.base.terminal_text import safe_line
from relay.config.settings import Settings
from relay.git.checkout import Checkout, UnusableCheckout, open_checkout
from relay.git.kept_snapshots import KeptSnapshots
from relay.git.run import GitError
from relay.git.scratch_repository import ScratchRepository
from relay.model import Refusal
from relay.store.ports import Store
from relay.timeline.sync.exchange import AppendResult, TimelineExchange
from relay.timeline.sync.importing import ImportResult
from relay.timeline.sync.privacy import Sharing

#: Lines about events that stayed out.
MOST_LINES = 20


@asynccontextmanager
async def opened_exchange(
    store: Store, settings: Settings
) -> AsyncIterator[tuple[TimelineExchange, Checkout]]:
    """The exchange of a room, and its main checkout. What git refuses within is raised as Refusal."""
    try:
        checkout = await open_checkout(settings.repo)
        kept = KeptSnapshots(ScratchRepository(settings.runtime_dir / "airspace.git"), checkout)
        yield TimelineExchange(store, checkout.git, kept), checkout
    except UnusableCheckout as error:
        raise Refusal(str(error), "") from error
    except GitError as error:
        raise Refusal(f"git could not do it: {error}.", "") from error


async def run(store: Store, settings: Settings, args: argparse.Namespace) -> tuple[Any, str]:
    """Do what was asked for; the result as JSON and for people. Raises Refusal."""
    async with opened_exchange(store, settings) as (exchange, _):
        try:
            if args.action == "pull":
                return _pulled(await exchange.pull(args.remote), args.remote)
            await exchange.keep()
            sharing = Sharing.of(settings.timeline.share, await asyncio.to_thread(_secrets, settings))
            return _pushed(await exchange.push(args.remote, sharing), args.remote)
        except GitError as error:
            message = f"The exchange with {safe_line(args.remote)} came to nothing: {error}."
            raise Refusal(message, "") from error


def _secrets(settings: Settings) -> list[str]:
    """The room's token, which looks like nothing."""
    try:
        return [read_regular(settings.token_path).decode().strip()]
    except (OSError, ValueError):
        return []


def _pushed(done: AppendResult, remote: str) -> tuple[Any, str]:
    value = {
        "replica": done.replica,
        "events": done.events,
        "packs": done.packs,
        "snapshots": done.trees,
        "withheld": done.withheld,
        "held": list(done.held),
    }
    lines = [f"Gave {done.events:,} events with {done.trees:,} snapshots to {safe_line(remote)}."]
    if done.withheld:
        lines.append(f"{done.withheld:,} payloads stayed here: something in them looks like a secret.")
    lines += [f"{safe_line(lane)} is held back: a path or a name looks like a secret." for lane in done.held]
    return value, "\n".join(lines)


def _pulled(done: ImportResult, remote: str) -> tuple[Any, str]:
    text = f"Took in {done.added:,} events from {safe_line(remote)}."
    return {"added": done.added, **left_out(done)}, "\n".join([text, *words_of_left_out(done)])


def left_out(done: ImportResult) -> dict[str, Any]:
    """What stayed out, as JSON: `{refused: [{id, replica, reason}], waiting: [{id, replica, missing}]}`."""
    return {
        "refused": [
            {"id": event.id, "replica": event.origin, "reason": event.reason} for event in done.refused
        ],
        "waiting": [
            {"id": event.id, "replica": event.origin, "missing": list(event.missing)}
            for event in done.waiting
        ],
    }


def words_of_left_out(done: ImportResult) -> list[str]:
    """The same, a line each."""
    out = [f"refused {event.id[:12]} of {event.origin}: {safe_line(event.reason)}" for event in done.refused]
    out += [
        f"waiting {event.id[:12]} of {event.origin}: {event.missing[0][:12]} is missing"
        for event in done.waiting
    ]
    more = [f"and {len(out) - MOST_LINES:,} more (--json has all)"] if len(out) > MOST_LINES else []
    return [*out[:MOST_LINES], *more]
