"""`relay timeline push` and `pull`: this room's events to others, and theirs to here, through a git remote.

Invariant: works beside a running room and without one; writes the log and refs of relay's own, no branch and no file.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from relay.access.git_person import git_person
from relay.app.runtime.room_token import room_secrets
from relay.base.terminal_text import safe_line
from relay.config.settings import Settings
from relay.git.checkout import Checkout, UnusableCheckout, open_checkout
from relay.git.kept_snapshots import KeptSnapshots
from relay.git.run import GitError
from relay.git.scratch_repository import ScratchRepository
from relay.log.events import Event, Lane
from relay.log.imported import ROOM
from relay.model import Refusal
from relay.store.ports import Store
from relay.timeline.sync.exchange import AppendResult, TimelineExchange
from relay.timeline.sync.importing import ImportResult
from relay.timeline.sync.merged import merge_timelines
from relay.timeline.sync.privacy import Sharing, SuspectText

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
    async with opened_exchange(store, settings) as (exchange, checkout):
        try:
            if args.action == "pull":
                done = await exchange.pull(args.remote)
                return _pulled(done, await _merge(store, settings, checkout, args.remote), args.remote)
            await exchange.keep()
            shared, passed = settings.timeline.share, settings.timeline.not_secret
            sharing = Sharing.of(shared, await asyncio.to_thread(room_secrets, settings), passed)
            value, text = _pushed(await exchange.push(args.remote, sharing), args.remote)
            if not settings.timeline.share:
                text += "\nNobody is shared: name agents and people in `timeline.share`."
            return value, text
        except GitError as error:
            message = f"The exchange with {safe_line(args.remote)} came to nothing: {error}."
            raise Refusal(message, "") from error


async def _merge(store: Store, settings: Settings, checkout: Checkout, remote: str) -> Event | None:
    """Record that the timelines came together, where both went on. In a scratch of its own: the room has its."""
    person = await asyncio.to_thread(git_person, settings.repo, settings.agent_names)
    with tempfile.TemporaryDirectory(prefix="relay-merge-") as folder:
        scratch = ScratchRepository(Path(folder).resolve() / "scratch.git")
        await scratch.empty(checkout.hash)
        await scratch.borrow([checkout])
        kept, by = KeptSnapshots(scratch, checkout), Lane(ROOM, f"human:{person}")
        return await merge_timelines(store, checkout.git, scratch.git(checkout), kept, by, remote)


def _pushed(done: AppendResult, remote: str) -> tuple[Any, str]:
    value = {
        "replica": done.replica,
        "events": done.events,
        "packs": done.packs,
        "snapshots": done.trees,
        "withheld": done.withheld,
        "unsafe": [{"event": event, "paths": list(paths)} for event, paths in done.unsafe],
        "held": list(done.held),
        "suspects": [asdict(suspect) for suspect in done.suspects],
    }
    lines = [f"Gave {done.events:,} events with {done.trees:,} snapshots to {safe_line(remote)}."]
    if done.trees:
        lines.append(
            "A snapshot has all files of its worktree, so others' work that stood there goes with it."
        )
    if done.withheld:
        lines.append(f"{done.withheld:,} payloads stayed here: something in them looks like a secret.")
    unsafe = [
        f"The files of the event {event[:12]} stayed here: a secret seems to stand in "
        f"{', '.join(map(safe_line, paths))}."
        for event, paths in done.unsafe
    ]
    if len(unsafe) > MOST_LINES:
        unsafe = [*unsafe[:MOST_LINES], f"and those of {len(unsafe) - MOST_LINES:,} more (--json has all)"]
    lines += unsafe
    lines += [f"{safe_line(lane)} is held back: a path or a name looks like a secret." for lane in done.held]
    places: dict[str, SuspectText] = {}
    for suspect in done.suspects:
        places.setdefault(suspect.digest, suspect)
    if named := [suspect for digest, suspect in places.items() if digest]:
        lines += [
            f"  {suspect.digest}  {suspect.event[:12]}  {safe_line(suspect.where)}"
            for suspect in named[:MOST_LINES]
        ]
        lines.append("What is no secret passes when its digest stands in `timeline.not_secret`.")
    return value, "\n".join(lines)


def _pulled(done: ImportResult, merged: Event | None, remote: str) -> tuple[Any, str]:
    lines = [f"Took in {done.added:,} events from {safe_line(remote)}."]
    value: dict[str, Any] = {"added": done.added, **left_out(done), "merged": None}
    if merged is not None:
        value["merged"] = {"event": merged.id, "snapshot": merged.snapshot, **merged.outputs}
        lines.append(f"Both sides went on: merged in the event {merged.id[:12]}.")
        lines += [f"conflict  {safe_line(path)}" for path in merged.outputs["conflicts"]]
    return value, "\n".join([*lines, *words_of_left_out(done)])


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
