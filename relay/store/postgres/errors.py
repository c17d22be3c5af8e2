"""Failures of PostgreSQL as errors of ours.

Invariant: no message holds the database's address; `again` says whether the whole work may run again, because nothing
of it can have been kept.
"""

from __future__ import annotations

import enum
import os
import ssl

import asyncpg
from asyncpg import exceptions as pg

from relay.store.fence import Fenced
from relay.store.ports import OutcomeUnknown, StoreAway, StoreBusy, StoreError


class Retry(enum.Enum):
    """Why the work may run again."""

    NO = "no"
    #: The server undid it because of another transaction.
    CONFLICT = "conflict"
    #: The connection was lost before anything was committed.
    LOST = "lost"


class PostgresFault(StoreError):
    """The server, or the driver, refused a statement. `code` is its SQLSTATE, where there is one."""

    again = Retry.NO

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.code = code


class PostgresAway(PostgresFault, StoreBusy):
    """The database is not available now: away, full, or held by another. Nothing was changed."""

    def __init__(self, message: str, code: str = "", again: Retry = Retry.NO) -> None:
        super().__init__(message, code)
        self.again = again


class PostgresLost(PostgresAway, StoreAway):
    """There is no connection: the server is down, starting, or cut off. Nothing was changed."""

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message, code, Retry.LOST)


class CommitUnknown(PostgresFault, OutcomeUnknown, StoreAway):
    """The connection was lost while the transaction was being committed: it is kept, or it is not."""

    @classmethod
    def on(cls, place: str) -> CommitUnknown:
        return cls(
            f"the connection to {place} was lost while a change was being committed: it may be kept or not. "
            "Check whether it is there before you do it again"
        )


#: What the driver raises; its own errors (InterfaceError) are ValueErrors too.
ENGINE = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError, TimeoutError)
#: The connection is gone with these. A FATAL of the server arrives as one of the last four.
_LOST = (
    pg.PostgresConnectionError,
    pg.AdminShutdownError,
    pg.CrashShutdownError,
    pg.CannotConnectNowError,
    pg.IdleInTransactionSessionTimeoutError,
    OSError,
    TimeoutError,
)
_CONFLICT = (pg.TransactionRollbackError, pg.InvalidCachedStatementError, pg.OutdatedSchemaCacheError)
#: Full, out of memory, cancelled by a person: the same may work later.
_LATER = (pg.InsufficientResourcesError, pg.OperatorInterventionError)


def translated(error: BaseException, place: str) -> PostgresFault:
    """An error of a statement as one of ours."""
    code = str(getattr(error, "sqlstate", None) or "")
    if isinstance(error, pg.LockNotAvailableError):
        return PostgresAway(
            f"{place}: another process held the room's database for too long; nothing was changed, try again",
            code,
        )
    if isinstance(error, _CONFLICT):
        return PostgresAway(f"{place}: another transaction was in the way; try again", code, Retry.CONFLICT)
    if code == "RY001":
        raise Fenced(f"{place}: {_message(error)}; nothing was changed") from error
    closed = type(error) is asyncpg.InterfaceError and "closed" in str(error)
    # The driver's words for a statement that is sent just as the connection is lost.
    torn = isinstance(error, asyncpg.InternalClientError) and "cannot switch to state" in str(error)
    if isinstance(error, _LOST) or closed or torn:
        return PostgresLost(f"the connection to {place} was lost; nothing was changed, try again", code)
    if isinstance(error, pg.ReadOnlySQLTransactionError):
        return PostgresAway(
            f"{place} can only be read now (a standby?); nothing was changed. Check which server is the primary",
            code,
        )
    if isinstance(error, _LATER):
        return PostgresAway(
            f"{place} is not available now: {_message(error)}; nothing was changed, try again", code
        )
    return PostgresFault(f"{place} refused a statement: {_message(error)}", code)


def cannot_connect(error: BaseException, place: str) -> PostgresFault:
    """An error of connecting as one of ours. The driver's message is not quoted: it may hold parts of the address."""
    code = str(getattr(error, "sqlstate", None) or "")
    for kind, reason in _REFUSALS:
        if isinstance(error, kind):
            return PostgresFault(f"{place} {reason}", code)
    if isinstance(error, pg.TooManyConnectionsError):
        return PostgresAway(f"{place} {_FULL}", code)
    if isinstance(error, asyncpg.InterfaceError) and "pool is clos" in str(error):
        return PostgresFault("the store is closed")
    if isinstance(error, ssl.SSLError):
        return PostgresFault(
            f"{place}: TLS failed ({getattr(error, 'reason', None) or error.strerror}); {_TLS}", code
        )
    if isinstance(error, ConnectionError) and "SSL" in str(error):
        return PostgresFault(f"{place} offers no TLS, and the address asks for it; {_TLS}", code)
    if isinstance(error, (asyncpg.InterfaceError, asyncpg.InternalClientError, ValueError)):
        return PostgresFault(f"the address of {place} cannot be used; check its parameters", code)
    if isinstance(error, asyncpg.PostgresError) and not isinstance(error, (*_LOST, *_LATER)):
        return PostgresFault(f"{place} refused the connection (SQLSTATE {code})", code)
    return PostgresLost(f"{place} cannot be reached ({_why(error)}); check whether the server runs", code)


#: Refusals of a connection, the special before the general, and what to do. The server's message is not quoted
#: either.
_REFUSALS: tuple[tuple[type[Exception], str], ...] = (
    (pg.InvalidPasswordError, "does not let this user in; check its name and password"),
    (
        pg.InvalidAuthorizationSpecificationError,
        "does not let this user in from here; check its name, and the server's pg_hba.conf",
    ),
    (
        pg.InvalidCatalogNameError,
        "is not there: there is no such database; make it (CREATE DATABASE), or correct the address",
    ),
    (
        pg.InsufficientPrivilegeError,
        "does not let this user in; let its owner do it: GRANT CONNECT ON DATABASE ... TO <this user>",
    ),
    (
        pg.ObjectNotInPrerequisiteStateError,
        "takes no connections; let its owner do it: ALTER DATABASE ... ALLOW_CONNECTIONS true",
    ),
    (
        pg.ProtocolViolationError,
        "refused how the connection began; a pooler takes only settings that its ignore_startup_parameters names: "
        "remove what follows ? in the address",
    ),
    (
        pg.UndefinedObjectError,
        "does not know a setting that the address asks for; what follows ? must be a setting or an option of "
        "libpq",
    ),
)
_FULL = (
    "has no connection left for this user; each process of relay takes up to `postgres.pool`: lower that, or raise "
    "the server's max_connections (or the CONNECTION LIMIT of the user or the database)"
)
_TLS = "switch it on in the server, check its certificate, or set sslmode=disable where the network is safe"


def _why(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, pg.CannotConnectNowError):
        return "it is starting or stopping"
    if isinstance(error, ConnectionRefusedError) and error.errno:
        return os.strerror(error.errno)  # the loop's own words hold the address once more
    return getattr(error, "strerror", None) or type(error).__name__.removesuffix("Error")


def _message(error: BaseException) -> str:
    return str(getattr(error, "message", None) or error)
