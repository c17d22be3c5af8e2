"""What every check is given, and what every check gives.

Invariant: a check says what it saw. What it could not look at is a warning or a failure, never well.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from relay.app.runtime import instance
from relay.app.runtime.instance import DaemonState, DamagedRecord, InstanceRecord
from relay.config.loading import ConfigError, load, parse
from relay.config.locate import find
from relay.config.settings import Settings
from relay.store.failures import trouble_of
from relay.store.open import open_store
from relay.store.ports import Queries, Store, StoreError, StoreMissing

Q = Queries(Path(__file__).parent)


class Status(StrEnum):
    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Check:
    """What one check saw. `fix` is what a person can do; `mended` what a repair did about it."""

    name: str
    status: Status
    detail: str
    fix: str = ""
    mended: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """As INTERFACES.md fixes it, with `fix` and `mended` on top."""
        return {
            "name": self.name,
            "status": str(self.status),
            "detail": self.detail,
            "repaired": bool(self.mended),
            "fix": self.fix,
            "mended": list(self.mended),
        }


def ok(name: str, detail: str) -> Check:
    return Check(name, Status.OK, detail)


def warning(name: str, detail: str, fix: str = "") -> Check:
    return Check(name, Status.WARNING, detail, fix)


def failed(name: str, detail: str, fix: str = "") -> Check:
    return Check(name, Status.FAILED, detail, fix)


def worst(name: str, seen: list[Check], otherwise: str) -> Check:
    """One check of several findings: the worst status, every detail; `otherwise` when nothing was found."""
    if not seen:
        return Check(name, Status.OK, otherwise)
    order = list(Status)
    status = max((check.status for check in seen), key=order.index)
    fixes = dict.fromkeys(check.fix for check in seen if check.fix)
    return Check(name, status, "; ".join(check.detail for check in seen), " ".join(fixes))


@dataclass(frozen=True, slots=True)
class CheckContext:
    """The room as a health check finds it. `now` is Unix seconds.

    `store` None: `no_store` says why, `store_is_missing` that there is no database at all, and `store_is_away` that
    it does not answer just now.
    """

    settings: Settings
    now: float
    config_error: str = ""
    record: InstanceRecord | None = None
    record_error: str = ""
    daemon_state: DaemonState | None = None
    store: Store | None = None
    no_store: str = ""
    store_is_missing: bool = False
    store_is_away: bool = False

    @property
    def live(self) -> bool:
        """Is there a daemon, even a silent one? Then no other process repairs its files."""
        return self.daemon_state in (DaemonState.RUNNING, DaemonState.SILENT)

    @property
    def open(self) -> bool:
        """Has the daemon that is there come so far that it serves HTTP?"""
        return self.live and self.record is not None and bool(self.record.address)


def survey(config: str | None, now: float) -> CheckContext:
    """The settings and the record, without the database.

    A configuration that cannot be used is a finding like any other; the rest goes by the usual places.
    """
    path, error = find(config), ""
    try:
        settings = load(path)
    except ConfigError as wrong:
        settings, error = parse("{}", path), str(wrong)
    record, record_error = None, ""
    try:
        record = instance.read(settings.lock_path)
    except DamagedRecord as damaged:
        record_error = str(damaged)
    daemon_state = None if record is None else instance.daemon_state(record, settings.locks.ttl, now)
    return CheckContext(settings, now, error, record, record_error, daemon_state)


@asynccontextmanager
async def with_store(context: CheckContext) -> AsyncIterator[CheckContext]:
    """The context with its database open: never made, never migrated (the daemon may be an older relay)."""
    try:
        store = await open_store(context.settings, create=False)
    except StoreMissing as missing:
        yield replace(context, no_store=str(missing), store_is_missing=True)
        return
    except (StoreError, OSError) as error:
        trouble = trouble_of(error)
        yield replace(context, no_store=str(error), store_is_away=trouble is not None and trouble.passes)
        return
    try:
        yield replace(context, store=store)
    finally:
        await store.close()
