"""`relay timeline archive`: old events leave the database and stand in `.relay/archive/`, beside the transcript's.

Invariant: works beside a running room and without one. What is still needed is not archived: then the command says
what needs it, and up to where it could go. The space is given to the disk where no room runs, since nobody can write
meanwhile.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from relay.app.health import context
from relay.app.runtime import instance
from relay.base.terminal_text import safe_line
from relay.config.settings import Settings
from relay.log.archived import ArchivedPart, archived_parts
from relay.model import Refusal
from relay.store.ports import Store, Tx
from relay.timeline import moments
from relay.timeline.archive import FOLDER, ArchiveResult, Need, archive, needs, preview

#: Reasons that a refusal names.
MOST_NAMED = 5


async def run(store: Store, settings: Settings, args: argparse.Namespace) -> tuple[Any, str]:
    """Archive what came before `args.before`; the result as JSON and for people. Raises Refusal."""
    moment = await store.read(lambda tx: moments.resolve(tx, args.before))
    needed = sorted(
        [*await needs(store, moment.pos), *await _open_work(store, settings, moment.pos)], key=_place
    )
    if needed and not args.dry_run:
        most = needed[0].pos - 1
        goes = f'`--before "#{most}"` goes as far as it can now. ' if most else ""
        raise Refusal(
            _in_the_way(needed), f"{goes}What follows the log comes on within a minute, while relay runs."
        )
    folder = settings.runtime_dir / FOLDER
    if args.dry_run:
        done = await preview(store, moment.pos)
    else:
        try:
            from relay.coordination.tasks.task_events import TASK_EVENTS

            done = await archive(store, folder, moment.pos, sorted(TASK_EVENTS))
        except OSError as error:
            raise Refusal(
                f"{error.filename or folder}: {error.strerror}.", "Nothing is lost; try again."
            ) from error
    given, left = (0, "") if args.dry_run else await _give_back(store, settings)
    value = {
        "upto": done.upto,
        "events": done.events,
        "kept": done.kept,
        "files": [str(folder / part.file) for part in done.parts],
        "size": done.size,
        "before": done.before,
        "after": done.after,
        "given_back": given,
        "needed": [{"what": need.what, "number": need.pos} for need in needed],
    }
    archived = await store.read(older)
    cut = 0 if archived is None else archived["upto"]
    if not done.events and moment.pos <= cut:
        return (
            value,
            f"Everything before {moment.words} is archived already, up to #{cut}: give a later moment.{left}",
        )
    return value, _text(done, folder, moment.words, args.dry_run, needed) + left


async def _give_back(store: Store, settings: Settings) -> tuple[int, str]:
    """Let the database's file become smaller; the bytes, and a sentence about it."""
    if instance.running(settings) is not None:
        later = "an archive that is made while relay is stopped gives it to the disk"
        keeps = f" The database's file keeps the space for what comes; {later}."
        return 0, keeps if store.engine == "sqlite" else ""
    try:
        given = await store.give_back()
    except store.errors as error:
        return 0, f" The database's file keeps the space for what comes: {error}."
    return given, f" The disk has {given:,} bytes more." if given else ""


async def _open_work(store: Store, settings: Settings, upto: int) -> list[Need]:
    member = settings.member
    rows = await store.read(lambda tx: tx.all(context.Q.open_work, upto=upto, member=member))
    return [Need(row["what"], row["pos"]) for row in rows]


def _place(need: Need) -> int:
    return need.pos


def _in_the_way(needed: list[Need]) -> str:
    named = "; ".join(f"#{need.pos}: {safe_line(need.what)}" for need in needed[:MOST_NAMED])
    more = f"; and {len(needed) - MOST_NAMED} more" if len(needed) > MOST_NAMED else ""
    return f"These events are still needed: {named}{more}."


def _text(done: ArchiveResult, folder: Path, words: str, dry_run: bool, needed: list[Need]) -> str:
    if not done.events:
        return f"Nothing to archive before {words}."
    stay = f"{done.kept:,} of them stay here too"
    if dry_run:
        lines = [f"{done.events:,} events before {words} would go into {folder}; {stay}."]
        return "\n".join([*lines, *([_in_the_way(needed)] if needed else [])])
    return (
        f"{done.events:,} events are in {len(done.parts)} archives in {folder} now ({done.size:,} bytes); {stay}. "
        f"The database uses {done.after:,} bytes; before, {done.before:,}. `relay timeline verify` checks both."
    )


async def older(tx: Tx) -> dict[str, Any] | None:
    """Where the events are that have left the log: `{events, upto, files}`; None: all are here."""
    parts: list[ArchivedPart] = await archived_parts(tx)
    if not parts:
        return None
    return {
        "events": sum(part.events for part in parts),
        "upto": parts[-1].upto,
        "files": [part.file for part in parts],
    }


def older_line(found: dict[str, Any] | None) -> list[str]:
    """The line for people about what `older` found."""
    if found is None:
        return []
    files = found["files"]
    which = files[0] if len(files) == 1 else f"{len(files)} files"
    return [
        f"The {found['events']:,} events up to #{found['upto']} are archived ({which} in .relay/{FOLDER}/)."
    ]
