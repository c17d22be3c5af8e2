"""The address of the PostgreSQL database. It is a secret: it may hold a password.

Invariant: the address is in no message, no log and no answer; people see `place` (host and database).
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

from relay.base.files import reading
from relay.store.ports import StoreError

#: The environment's name for it (INTERFACES, "Configuration").
VARIABLE = "RELAY_POSTGRES_DSN"
_FORM = "postgres://USER:PASSWORD@HOST:PORT/DATABASE"
#: The characters of a user or a password that have a meaning in an address (RFC 3986, section 2.1).
_ENCODED = (
    "In the user and the password these are percent-encoded: `@` is %40, `/` is %2F, `:` is %3A, `?` is %3F, "
    "`#` is %23, `%` is %25"
)
_STRAY = re.compile("%(?![0-9A-Fa-f]{2})")
_MOST_BYTES = 8192


@dataclass(frozen=True, slots=True)
class Address:
    """The address, and `place`, which may be shown."""

    dsn: str = field(repr=False)
    place: str


def find_address(dsn_file: Path | None, environ: Mapping[str, str] | None = None) -> Address:
    """The address in RELAY_POSTGRES_DSN, else in `postgres.dsn_file`. Raises StoreError, which never shows it."""
    named = (os.environ if environ is None else environ).get(VARIABLE, "").strip()
    if named:
        return read_address(named, VARIABLE)
    if dsn_file is None:
        raise StoreError(
            "storage is postgres, and this process has no address of the database. Set it here, whether the room "
            f"runs or not: export {VARIABLE}='{_FORM}'. Or once for every command: write the address into a file "
            "that only you can read, and name that as `postgres.dsn_file` in the configuration"
        )
    return read_address(_text_of(dsn_file), str(dsn_file))


def _text_of(path: Path) -> str:
    try:
        with reading(path) as file:
            status = os.fstat(file.fileno())
            if stat.S_IMODE(status.st_mode) & 0o077:
                raise StoreError(
                    f"{path} holds the database's address and others may read it; run: chmod 600 {path}"
                )
            return file.read(_MOST_BYTES).decode("utf-8").strip()
    except UnicodeDecodeError:
        raise StoreError(f"{path} is not text; it must have one line: {_FORM}") from None
    except OSError as error:
        raise StoreError(f"{path} (postgres.dsn_file) cannot be read: {error.strerror}") from None


def read_address(dsn: str, source: str) -> Address:
    """Check an address. `source`: where it stands, for the error."""
    wrong = StoreError(
        f"{source} is not the address of a PostgreSQL database. An address looks like this: {_FORM}. {_ENCODED}"
    )
    try:
        parts = urlsplit(dsn)
        # Of several hosts (HOST1:PORT1,HOST2:PORT2) each has a port of its own.
        for place in parts.netloc.rpartition("@")[2].split(","):
            _ = urlsplit(f"//{place}").port
    except ValueError:
        raise wrong from None
    # A `/`, `?` or `#` in a password ends the part that it stands in: the rest would be taken for a database's name,
    # which is shown.
    spilt = parts.fragment or "@" in parts.path or ("@" in parts.query and "@" not in parts.netloc)
    if (
        parts.scheme not in ("postgres", "postgresql")
        or not dsn.isprintable()
        or parts.netloc.count("@") > 1
        or spilt
        or _STRAY.search(parts.netloc)
    ):
        raise wrong
    database = unquote(parts.path.lstrip("/")) or _queried(parts, "dbname") or _queried(parts, "database")
    if not database:
        raise StoreError(
            f"the address in {source} names no database. An address looks like this: {_FORM}. {_ENCODED}"
        )
    _check_files(parts, source)
    # asyncpg understands several hosts and sockets; `place` shows the text between @ and /.
    host = parts.netloc.rpartition("@")[2] or _queried(parts, "host") or "localhost"
    return Address(dsn, f"{unquote(host)}/{database}")


#: The files that an address may name, for TLS.
_FILES = ("sslrootcert", "sslcert", "sslkey", "sslcrl")


def _check_files(parts: SplitResult, source: str) -> None:
    """The driver says of a missing file what it says of a missing server. Raises StoreError, without the path."""
    for name in _FILES:
        path = _queried(parts, name)
        if not path:
            continue
        if not Path(path).is_absolute():
            raise StoreError(
                f"`{name}` in {source} must be the whole path of a file (/PATH/FILE): a daemon and a command may "
                "be started in different folders"
            )
        try:
            with reading(path):
                pass
        except OSError as error:
            raise StoreError(
                f"the file that `{name}` in {source} names cannot be read: {error.strerror}"
            ) from None
    if _queried(parts, "sslmode") in ("verify-ca", "verify-full") and not any(
        (_queried(parts, "sslrootcert"), os.environ.get("PGSSLROOTCERT"), _has_own_authority())
    ):
        raise StoreError(
            f"the address in {source} has the server's certificate checked, and names no authority: add "
            "`&sslrootcert=/PATH/authority.pem` (of public authorities: the system's file of them, like "
            "/etc/ssl/certs/ca-certificates.crt)"
        )


def _has_own_authority() -> bool:
    """Whether there is the file that the driver takes without `sslrootcert`, as libpq does."""
    try:
        return (Path.home() / ".postgresql" / "root.crt").is_file()
    except RuntimeError:
        return False  # this user has no home


def _queried(parts: SplitResult, name: str) -> str:
    return (parse_qs(parts.query).get(name) or [""])[0]
