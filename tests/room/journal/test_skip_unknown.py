from __future__ import annotations

from pathlib import Path

from relay.app.daemon.daemon import SCHEMAS
from relay.model import Kind
from relay.room.dispatch.recovery import skip_unknown
from relay.room.journal.admission_rules import Rules
from relay.room.journal.admitting import admit
from relay.room.journal.ledger import NewMessage, Q
from relay.store.sqlite.store import open_store


async def test_what_waits_for_an_agent_that_has_gone_is_skipped_aloud(tmp_path: Path) -> None:
    store = await open_store(tmp_path / "events.db", SCHEMAS)
    try:
        new = NewMessage("ann", Kind.HUMAN, "@OLD and @NEW, please", 1.0)
        await store.write(lambda tx: admit(tx, new, Rules(agents=("OLD", "NEW"))))
        assert await store.write(lambda tx: skip_unknown(tx, ("NEW",), now=2.0)) == ["OLD"]
        assert await store.write(lambda tx: skip_unknown(tx, ("NEW",), now=3.0)) == []
        jobs = {row["agent"]: row for row in await store.read(lambda tx: tx.all(Q.jobs, limit=9))}
        assert (jobs["OLD"]["state"], jobs["NEW"]["state"]) == ("skipped", "pending")
        said = await store.read(lambda tx: tx.one(Q.message_by_number, number=2))
        assert said is not None and "OLD does not answer: it is not in the configuration" in said["body"]
    finally:
        await store.close()
