"""The room's files: the runtime folder, the transcript, the disk under them.

Invariant: looks only. A line of the transcript without its end is left to the daemon: the next writer
begins a line of its own, and cutting it off could cut a writer short.
"""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

from relay.app.health.context import Check, CheckContext, Status, failed, ok, warning, worst
from relay.base.files import reading
from relay.config.command_line import command, script
from relay.room.transcript import file_position
from relay.room.transcript.checkpoint import kept_place, lacking
from relay.room.transcript.file_position import Place
from relay.store.ports import Store, Tx

GIB = 1 << 30
WARN_FREE = GIB
FAIL_FREE = 100 << 20
#: Seconds after which what a live daemon has not read or appended is late.
LATE_S = 30.0


def mends() -> str:
    """What a person can do about what a repair mends."""
    return f"{script('healthcheck.sh --repair')} repairs it."


def folder(context: CheckContext) -> Check:
    """.relay is there and is its owner's alone; so is the token."""
    path, seen = context.settings.runtime_dir, []
    if not path.is_dir():
        return warning("folder", f"{path} does not exist yet", mends())
    for checked, wanted in ((path, 0o700), (context.settings.token_path, 0o600)):
        if checked.exists() and stat.S_IMODE(checked.stat().st_mode) & 0o077:
            mode = stat.S_IMODE(checked.stat().st_mode)
            text = f"{checked.name} is open to other users (mode {mode:o} instead of {wanted:o})"
            seen.append(failed("folder", text, mends()))
    token = context.settings.token_path
    if not os.path.lexists(token) and (context.open or context.settings.db_path.exists()):
        status = Status.FAILED if context.open else Status.WARNING
        text = f"{token.name} is missing: programs that read it cannot sign in"
        seen.append(Check("folder", status, text, mends()))
    elif os.path.lexists(token) and not token.is_file():
        seen.append(failed("folder", f"{token.name} is not a regular file", "Move it away."))
    if not os.access(path, os.W_OK | os.X_OK):
        seen.append(failed("folder", f"{path} is not writable", "Fix its owner or its mode."))
    return worst("folder", seen, f"{path} is readable by its owner only")


def disk(context: CheckContext) -> Check:
    where = context.settings.runtime_dir
    while not where.exists():
        where = where.parent
    return disk_of(shutil.disk_usage(where).free, where)


def disk_of(free: int, where: Path) -> Check:
    """`free`: bytes."""
    text = f"{free / GIB:.1f} GiB free at {where}"
    if free < FAIL_FREE:
        return failed("disk", text, "Free disk space: at least 100 MiB are needed.")
    if free < WARN_FREE:
        return warning("disk", text, "Free disk space: less than 1 GiB is left.")
    return ok("disk", text)


def last_line_is_open(path: Path) -> bool:
    """Does the file end in the middle of a line?"""
    with reading(path) as file:
        if file.seek(0, os.SEEK_END) == 0:
            return False
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"


async def transcript(context: CheckContext) -> Check:
    """There, writable, whole; the tail's place is in it; no entry of the room waits for it."""
    path, seen = context.settings.transcript_path, []
    size = 0
    if not os.path.lexists(path) and await _nothing_said(context):
        return ok("transcript", f"{path} is created with the first entry")
    if not os.path.lexists(path):
        status = Status.FAILED if context.live else Status.WARNING
        fix = (
            "The daemon creates it with the next entry."
            if context.live
            else "It is created at the next start."
        )
        seen.append(Check("transcript", status, f"{path} is missing", fix))
    elif not path.is_file():
        text = f"{path} is not a regular file"
        return failed("transcript", text, "Move it away.")
    elif not os.access(path, os.R_OK | os.W_OK):
        return failed("transcript", f"{path} is not writable", "Fix its owner or its mode.")
    else:
        info = path.stat()
        size = info.st_size
        if last_line_is_open(path) and context.now - info.st_mtime > LATE_S:
            fix = "The next entry starts a new line. If you wrote this line, end it with a line break."
            seen.append(warning("transcript", "its last line is not ended", fix))
    if context.store is None:
        status = Status.WARNING if context.store_is_missing else Status.FAILED
        seen.append(Check("transcript", status, "what is read of it was not checked: see `database`"))
    else:
        seen += await _tail(context, path, size)
    return worst("transcript", seen, f"{path}, {size:,} bytes, read to the end")


async def _nothing_said(context: CheckContext) -> bool:
    """Has the room never written or read a line?"""
    if context.store is None or not context.live:
        return False
    here, waiting, _ = await _kept(context, context.store)
    return (here is None or here.offset == 0) and not waiting


async def _kept(context: CheckContext, store: Store) -> tuple[Place | None, int, float]:
    """The kept place, how many entries wait for the file, and since when."""

    async def work(tx: Tx) -> tuple[Place | None, int, float]:
        here = await kept_place(tx, context.settings.member)
        waiting, since = await lacking(tx, here or Place())
        return here, waiting, since or 0.0

    return await store.read(work)


async def _tail(context: CheckContext, path: Path, size: int) -> list[Check]:
    assert context.store is not None
    here, waiting, since = await _kept(context, context.store)
    seen = []
    chunk = file_position.read(path, here or Place(), context.settings.workspace.max_entry_bytes)
    if here is not None and chunk.size < here.offset:
        text = (
            f"it is read to byte {here.offset:,}, past its end ({chunk.size:,}): the file was cut or replaced"
        )
        seen.append(failed("transcript", text, mends()))
    elif chunk.replaced:
        text = "the file was replaced since it was read: its content counts as history"
        seen.append(warning("transcript", text, mends()))
    elif chunk.lines:
        late = not context.live or context.now - path.stat().st_mtime > LATE_S
        fix = "They are read at the next start." if not context.live else f"{command('log')} may say why."
        text = f"{size - chunk.lines[0].start:,} bytes are not read yet"
        seen += [warning("transcript", text, fix)] if late else []
    if waiting:
        late = not context.live or context.now - since > LATE_S
        fix = f"{command('log')} may say why." if context.live else "The next start appends it."
        text = f"{waiting:,} of the room's entries are not in the file yet"
        seen += [warning("transcript", text, fix)] if late else []
    return seen
