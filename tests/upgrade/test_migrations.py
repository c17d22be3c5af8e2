"""No migration changes once it has been in a release, not even in a comment: every database holds its checksum, and a
relay whose file says otherwise refuses to open it."""

from __future__ import annotations

from pathlib import Path

from relay.app.wiring.schema import SCHEMAS
from relay.store.ports import load_migrations
from tests.upgrade.earlier_room import STORES

#: `sha256  STORE/WING/NUMBER_name`, as a database knows them. A new migration gets a line here; no line ever changes.
RECORD = Path(__file__).parent / "data" / "migrations.txt"


def test_every_migration_is_as_it_was_applied() -> None:
    recorded = [line.split() for line in RECORD.read_text("utf-8").splitlines()]
    now = [
        [step.digest, f"{store}/{step.wing}/{step.version:04}_{step.name}"]
        for store in STORES
        for folder in SCHEMAS
        for step in load_migrations(folder, store)
    ]
    assert now == recorded

    # A database knows a step by its wing's name, which may be no folder's any more.
    wings = {line.split("/")[1] for _, line in recorded}
    assert wings == {
        "log",
        "coordination",
        "critical",
        "room",
        "airspace",
        "memory",
        "knowledge",
        "checks",
        "timeline",
        "exploration",
        "resolution",
        "verification",
        "fleet",
        "faces",
        "rights",
    }
