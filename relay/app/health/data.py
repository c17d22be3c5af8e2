"""What the database says: its soundness, the log, the queue, the breakers, the followers, the projections,
the memory's index.

Invariant: nothing here writes. A table that cannot be read is a failure with its reason.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from relay.app.health.context import Check, CheckContext, Q, Status, failed, ok, warning, worst
from relay.app.health.files import mends
from relay.app.wiring.schema import SCHEMAS
from relay.base.durations import clock_time
from relay.config.command_line import command, script
from relay.coordination.tasks.projection import TasksFile, strays
from relay.log import events
from relay.log.verify import verify
from relay.model import STEWARD, references
from relay.room.dispatch.breaker import BreakerState, in_a_row
from relay.room.journal import ledger
from relay.store.ports import Row, Tx, load_migrations, schema_id
from relay.verification import present

#: Events that are verified; of a longer log, the newest so many.
VERIFIED = 20_000
#: Bytes of the store's journal from which a checkpoint is overdue.
JOURNAL_BYTES = 64 << 20


#: What a person does about a database that is damaged.
DAMAGED = (
    "Stop relay and restore a copy of the database, or save what can still be read (docs/service.md, "
    '"When the database is damaged").'
)


async def database(context: CheckContext) -> Check:
    """It opens, it is sound, its tables are those of this relay, its journal is small."""
    store = context.store
    if store is None:
        if context.store_is_missing and context.open:
            fix = f"{script('stop.sh')}, then {script('healthcheck.sh --repair')}, then {script('scripts/start.sh')}."
            return failed("database", f"{context.no_store}, and relay runs: it was removed", fix)
        status = Status.WARNING if context.store_is_missing else Status.FAILED
        fix = "It is created at the first start." if context.store_is_missing else ""
        return Check("database", status, context.no_store, fix)
    seen = [failed("database", wrong, DAMAGED) for wrong in (await store.check())[:3]]
    seen += [warning("database", note, "See docs/postgres.md.") for note in store.notes]
    try:
        applied = await store.read(lambda tx: tx.all(Q.applied_migrations))
        seen += _schema(applied, store.engine, live=context.live)
    except store.errors as error:
        if not seen:
            raise
        seen.append(failed("database", f"its list of migrations cannot be read: {error}", DAMAGED))
    size = await store.size()
    if size.journal > JOURNAL_BYTES:
        text = f"its write-ahead log has {size.journal >> 20} MiB"
        seen.append(warning("database", text, mends()))
    return worst("database", seen, f"{store.place} is sound ({size.data >> 10:,} KiB)")


def _schema(applied: Sequence[Row], engine: str, *, live: bool) -> list[Check]:
    seen = []
    for folder in SCHEMAS:
        wing, known = schema_id(folder), load_migrations(folder, engine)
        have = {row["version"]: row["sha256"] for row in applied if row["wing"] == wing}
        edited = [
            step.version for step in known if have.get(step.version, _digest(step.sql)) != _digest(step.sql)
        ]
        if edited:
            text = f"migration {wing} {edited[0]} was edited since it was applied"
            seen.append(failed("database", text, "Restore the file as it was."))
        if max(have, default=0) > len(known):
            text = f"version {max(have)} of {wing!r} is from a newer relay (this one knows {len(known)})"
            seen.append(failed("database", text, "Update relay."))
        elif len(have) < len(known):
            text = f"the tables of {wing!r} are at version {max(have, default=0)} of {len(known)}"
            fix = "Restart the daemon." if live else "The next start brings them up to date."
            seen.append(warning("database", text, fix))
    return seen


def _digest(sql: str) -> str:
    return hashlib.sha256(sql.encode()).hexdigest()


async def log(context: CheckContext) -> Check:
    """The log's hashes, causes and lanes: of all its events, or of the newest `VERIFIED`."""
    assert context.store is not None
    last = await context.store.read(events.last_pos)
    faults = await verify(context.store, after=max(0, last - VERIFIED))
    which = f"all {last:,} events" if last <= VERIFIED else f"the newest {VERIFIED:,} of {last:,} events"
    if not faults:
        return ok("log", f"{which} are unchanged since they were recorded")
    first, more = faults[0], len(faults) - 1
    text = f"event {first.id[:12]} at {first.pos} is damaged: {first.what}"
    text += f" (and {more} more)" if more else ""
    return failed("log", text, "It cannot be repaired; restore a copy of the database.")


async def queue(context: CheckContext) -> Check:
    """Nothing is stuck (held beyond its lease), nothing is dead."""
    assert context.store is not None
    settings, now, seen = context.settings.queue, context.now, []

    async def look(tx: Tx) -> tuple[Sequence[Row], Sequence[Row], Sequence[Row]]:
        active, dead = (
            await tx.all(ledger.Q.active_jobs),
            await tx.all(ledger.Q.jobs_in_state, state="dead", limit=1000),
        )
        return active, dead, await tx.all(ledger.Q.state_counts)

    active, dead, counts = await context.store.read(look)
    turns: dict[tuple[str, str], list[Row]] = {}
    for row in active:
        turns.setdefault((row["agent"], row["holder"]), []).append(row)
    for (agent, _), rows in turns.items():
        since = now - min(row["started_at"] or now for row in rows)
        what = f"the turn of {agent} ({_ids(rows)}), begun {since:.0f} s ago,"
        if min(row["lease_until"] or 0.0 for row in rows) < now:
            seen.append(failed("queue", f"{what} is stuck: its lease is not renewed", mends()))
        elif not context.live:
            seen.append(warning("queue", f"{what} was cut off", mends()))
        elif since > settings.stale_after_s:
            seen.append(warning("queue", f"{what} is still running", f"`/cancel @{agent}` ends it."))
    known = set(context.settings.agent_names) | {STEWARD}
    # Of an agent that is gone nobody will try it again, and nobody needs to.
    dead = [row for row in dead if row["agent"] in known]
    if dead:
        text = f"the room has given up {_ids(dead)} after the last attempt ({len(dead)} dead)"
        fix = f"`/retry {references.job(dead[0]['id'])}` in the room tries again."
        seen.append(warning("queue", text, fix))
    text = ", ".join(f"{row['jobs']:,} {row['state']}" for row in counts) or "empty"
    return worst("queue", seen, text)


def _ids(rows: Sequence[Row], most: int = 5) -> str:
    return ", ".join(references.job(row["id"]) for row in rows[:most]) + ", ..." * (len(rows) > most)


_STATES = {"open": ("open", "it gets no work"), "half_open": ("half open", "its next turn decides")}


async def breakers(context: CheckContext) -> Check:
    assert context.store is not None
    seen = []
    known = set(context.settings.agent_names)
    for row in await context.store.read(lambda tx: tx.all(ledger.Q.breakers)):
        parked = row["parked_until"]
        if row["agent"] not in known:
            continue
        if row["state"] != BreakerState.CLOSED:
            state, so = _STATES[row["state"]]
            text = f"{row['agent']}'s circuit is {state} after {in_a_row(row['failures'])}: {so}"
            seen.append(
                warning(
                    "breakers",
                    text,
                    f"`/try @{row['agent']}` in the room tries it now, `/resume @{row['agent']}` closes it.",
                )
            )
        elif parked is not None and parked > context.now:
            text = f"{row['agent']} is rate limited until {clock_time(parked, context.now)}"
            seen.append(warning("breakers", text))
    return worst("breakers", seen, "every circuit is closed: no agent failed several times in a row")


async def main_branch(context: CheckContext) -> Check:
    assert context.store is not None
    red = await context.store.read(present.of_main)
    if red is None:
        return ok("main", "no test of the main branch by itself failed")
    text = f"{red.of.change.branch or 'the main branch'} fails its tests ({red.of.name}): {red.of.reason}"
    return warning("main", text, f"{command('inbox')} says since when, and what can be done.")


async def followers(context: CheckContext) -> Check:
    """Events that a follower could not take five times, and that were passed over."""
    assert context.store is not None
    parked = await context.store.read(lambda tx: tx.all(events.Q.parked))
    seen = [
        warning("followers", f"{row['follower']} skipped {row['event_id'][:12]}: {row['error']}")
        for row in parked[-3:]
    ]
    if len(parked) > len(seen):
        seen.append(warning("followers", f"and {len(parked) - len(seen)} more"))
    return worst("followers", seen, "none skipped an event")


async def projections(context: CheckContext) -> Check:
    """The board's table is what the log says, and tasks.json what the table says."""
    assert context.store is not None
    seen = [failed("projections", wrong, mends()) for wrong in (await context.store.read(strays))[:3]]
    path = context.settings.tasks_path
    if not await TasksFile(context.store, path).is_current():
        text = f"{path.name} is {'out of date' if path.exists() else 'missing'}"
        seen.append(warning("projections", text, mends()))
    return worst("projections", seen, f"the board and {path.name} agree with the log")


async def memory(context: CheckContext) -> Check:
    """Each memory is in the index by which it is found, or waits to be."""
    assert context.store is not None
    row = await context.store.read(lambda tx: tx.one(Q.memory_index))
    count, waiting, missing = (row["memories"], row["waiting"], row["missing"]) if row else (0, 0, 0)
    seen = []
    if missing:
        text = f"{missing:,} of {count:,} memories are in no index, so no question finds them"
        seen.append(failed("memory", text, f"{command('memory rebuild')} makes it anew."))
    if waiting:
        text = f"{waiting:,} of {count:,} memories wait to be indexed"
        seen.append(warning("memory", text, f"The room does it; {command('memory rebuild')} does it now."))
    return worst(
        "memory", seen, f"each of {count:,} memories is in the index" if count else "none is kept yet"
    )


#: What needs the database, in the order of the report; each function has the name of its check.
OF_THE_DATABASE = (log, queue, breakers, followers, projections, memory)
