"""What the daemon counts, as Prometheus reads it (`GET /metrics`).

Invariant: a scrape costs no query; what has to be asked for is sampled on a slow beat of its own.
"""

from __future__ import annotations

import asyncio
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from relay.app.daemon.watchdog import Watchdog
from relay.faces.http.hub import Hub
from relay.room.dispatch.roster import Roster
from relay.room.journal.ledger import Q
from relay.room.journal.values import JobState
from relay.room.transcript.tail import Transcript
from relay.store.ports import Store

SAMPLE_EVERY_S = 5.0
_BREAKER = {"closed": 0, "half_open": 1, "open": 2}


class Metrics:
    """The registry and the beat that samples what is not counted as it happens."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        gauge = partial(Gauge, registry=registry)
        self.entries = gauge("relay_entries", "Entries in the room")
        self.ingested = gauge("relay_entries_ingested", "Entries read from the transcript since the start")
        self.decisions = Counter(
            "relay_decisions", "Decisions of the dispatcher", ["action"], registry=registry
        )
        self.jobs = gauge("relay_jobs", "Rows of the dispatch queue", ["state"])
        self.turns = Histogram(
            "relay_turn_seconds",
            "How long turns took",
            ["agent", "result"],
            buckets=(0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600),
            registry=registry,
        )
        self.breakers = gauge("relay_breaker_state", "0 closed, 1 half-open, 2 open", ["agent"])
        self.clients = gauge("relay_websocket_clients", "Connected WebSocket clients")
        self.outbox = gauge("relay_outbox", "Entries that wait for the transcript file")
        self.lag = gauge("relay_loop_lag_seconds", "Longest answer of the event loop since the last sample")
        self.blocks = gauge("relay_loop_blocks", "Times the event loop was blocked for more than 100 ms")

    def turn_ended(self, agent: str, result: str, seconds: float) -> None:
        self.turns.labels(agent, result).observe(max(0.0, seconds))

    def decided(self, action: str) -> None:
        self.decisions.labels(action).inc()

    async def run(
        self, store: Store, roster: Roster, transcript: Transcript, hub: Hub, watchdog: Watchdog
    ) -> None:
        """Sample for ever."""
        while True:
            newest = await store.read(lambda tx: tx.one(Q.last_number))
            counts = await store.read(lambda tx: tx.all(Q.state_counts))
            breakers = await store.read(lambda tx: tx.all(Q.breakers))
            entries = newest["number"] if newest else 0
            self.entries.set(entries)
            known = {row["state"]: row["jobs"] for row in counts}
            for state in JobState:
                self.jobs.labels(str(state)).set(known.get(str(state), 0))
            states = {row["agent"]: row["state"] for row in breakers}
            for name in roster.names:
                self.breakers.labels(name).set(_BREAKER.get(states.get(name, "closed"), 0))
            self.outbox.set(transcript.lacking(entries))
            self.clients.set(hub.clients)
            self.ingested.set(transcript.ingested)
            self.lag.set(watchdog.take_lag())
            self.blocks.set(watchdog.blocks)
            await asyncio.sleep(SAMPLE_EVERY_S)
