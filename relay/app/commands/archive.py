"""`relay archive`: move the transcript's old entries into a file of their own; they stay searchable.

How the files are exchanged: `relay.room.transcript.rotation`.
"""

from __future__ import annotations

import argparse
import asyncio
import json

from relay.base.terminal_text import fail, indented
from relay.config.command_line import about
from relay.config.loading import load
from relay.config.settings import Settings
from relay.log import events
from relay.room.journal import ledger
from relay.room.parsing import line_format
from relay.room.transcript.rotation import Archived, ArchiveError, rotate
from relay.store.open import open_store
from relay.store.ports import StoreError, StoreMissing


async def archive(settings: Settings, *, keep: int) -> Archived:
    """Move all but the newest `keep` entries that the room has read into `.relay/archive/`.

    Raises ArchiveError, and then the transcript is as it was.
    """
    lock = line_format.lock_path(settings.runtime_dir, settings.transcript_path)
    try:
        store = await open_store(settings, (events.FOLDER, ledger.FOLDER), create=False)
    except StoreMissing as missing:
        raise ArchiveError(f"{missing}; the room has not run yet") from None
    except StoreError as error:
        raise ArchiveError(str(error)) from error
    try:
        folder = settings.runtime_dir / "archive"
        return await rotate(store, settings.transcript_path, lock, folder, keep=keep, member=settings.member)
    except OSError as error:
        raise ArchiveError(f"{error.filename or settings.transcript_path}: {error.strerror}") from error
    except (StoreError, store.transient) as error:
        raise ArchiveError(f"the database is not available now: {error}; try again") from error
    finally:
        await store.close()


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--keep", type=int, default=1000, help="entries that stay in the file (1000)")
    parser.add_argument("--json", action="store_true", help="print what was done as JSON")


def run(args: argparse.Namespace) -> int:
    """The command; gives its exit code."""
    if args.keep < 0:
        return fail("--keep must be 0 or more", 2)
    settings = load(args.config)
    about(settings.path)
    try:
        done = asyncio.run(archive(settings, keep=args.keep))
    except ArchiveError as error:
        return fail(str(error))
    print(json.dumps(done.as_json()) if args.json else indented(done.text()))
    return 0
