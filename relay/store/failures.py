"""What a failure of the store means for the caller: try again in a moment, or what a person has to mend first.

Invariant: only what passes by itself is called busy. A failure that neither passes nor can be mended from outside (a
wrong statement, a transaction that awaited elsewhere) is a fault of relay: None.

Sources: SQLite, "Result and Error Codes"; PostgreSQL, Appendix A, "Error Codes"; POSIX errno.
"""

from __future__ import annotations

import errno
import sqlite3
from dataclasses import dataclass, field

from relay.config.command_line import script
from relay.store.ports import AwaitedOutside, OutcomeUnknown, StoreAway, StoreBusy, StoreError, StoreMoved

_FULL = "Free space on its disk; nothing was changed by this call."
_RIGHTS = "Give the user that runs relay the right to read and write it, and its folder."
_ADDRESS = "Correct the address, name or password of the database (docs/postgres.md)."
#: `healthcheck.sh` names what to do.
_LOOK = ""

_SQLITE_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_PROTOCOL}
_SQLITE = {
    sqlite3.SQLITE_FULL: _FULL,
    sqlite3.SQLITE_READONLY: _RIGHTS,
    sqlite3.SQLITE_PERM: _RIGHTS,
    sqlite3.SQLITE_CANTOPEN: _RIGHTS,
    sqlite3.SQLITE_IOERR: _LOOK,
    sqlite3.SQLITE_CORRUPT: _LOOK,
    sqlite3.SQLITE_NOTADB: _LOOK,
}
#: SQLSTATE, whole or its class.
_POSTGRES = {"53100": _FULL, "42501": _ADDRESS, "28": _ADDRESS, "3D000": _ADDRESS, "58": _LOOK, "XX": _LOOK}
_ERRNO = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EACCES: _RIGHTS,
    errno.EPERM: _RIGHTS,
    errno.EROFS: _RIGHTS,
    errno.ENOENT: _LOOK,
    errno.EIO: _LOOK,
}


@dataclass(frozen=True, slots=True)
class Trouble:
    """`passes`: it passes by itself, in a moment; else `fix` is what a person has to do first. `cut_off`: there is no
    connection to the database."""

    passes: bool
    message: str
    fix: str = field(default_factory=lambda: f"Try again in a moment; if it persists, {_look()}.")
    cut_off: bool = False


def trouble_of(error: BaseException) -> Trouble | None:
    """What to tell the caller; None: it is no failure of the store."""
    if isinstance(error, BaseExceptionGroup):
        troubles = [trouble_of(inner) for inner in error.exceptions]
        return troubles[0] if troubles and None not in troubles else None
    code = getattr(error, "code", "")
    fix = _POSTGRES.get(code) or _POSTGRES.get(code[:2]) if isinstance(code, str) else None
    if isinstance(error, OutcomeUnknown):
        return Trouble(False, str(error), "Check whether it was done before you ask for it again.")
    if isinstance(error, StoreMoved):
        return Trouble(False, f"The database cannot be used: {error}.", error.fix)
    if isinstance(error, StoreError) and fix is not None:
        return _lasting(error, fix)
    if isinstance(error, StoreAway):
        return Trouble(True, f"This relay is cut off from the room's database: {error}", _cut_off(), True)
    if isinstance(error, StoreBusy):
        return Trouble(True, f"The database is busy: {error}")
    if isinstance(error, AwaitedOutside) or (isinstance(error, StoreError) and code):
        return None
    if isinstance(error, StoreError):
        # It could not be opened: the cause is beneath, where there is one; else the message says what to do.
        beneath = None if error.__cause__ is None else trouble_of(error.__cause__)
        if beneath is not None and beneath.passes:
            return Trouble(True, f"The database is busy: {error}")
        return _lasting(error, _LOOK if beneath is None else beneath.fix)
    if isinstance(error, sqlite3.Error):
        return _of_sqlite(error)
    if isinstance(error, OSError):
        mend = _ERRNO.get(error.errno or 0)
        message = error.strerror or type(error).__name__
        return Trouble(True, f"The database is away: {message}") if mend is None else _lasting(message, mend)
    return None


def _of_sqlite(error: sqlite3.Error) -> Trouble | None:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in _SQLITE_BUSY:
        return Trouble(True, f"The database is busy: {error}")
    return _lasting(error, _SQLITE[code]) if code in _SQLITE else None


def _lasting(error: object, fix: str) -> Trouble:
    message = f"The database cannot be used until somebody repairs it: {error}"
    fix = fix or f"{_look().replace('a ', 'A ', 1)}, which says what is wrong with it."
    return Trouble(False, message, f"Trying again does not help. {fix}")


def _cut_off() -> str:
    return (
        "It goes on by itself once the database answers. Until then nothing can be locked, claimed or written here. "
        f"If it stays away, look at this machine's network and at the server: {_look()}."
    )


def _look() -> str:
    return f"a person runs {script('healthcheck.sh')}"
