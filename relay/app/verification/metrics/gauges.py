"""The room's metrics for Prometheus, which scrapes what was read last.

Invariants: a scrape costs no query; a metric without a value has no sample.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import structlog
from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from relay.store.ports import Store, StoreError, is_away
from relay.verification.metrics import Unit
from relay.verification.metrics_reader import MetricReader

log = structlog.get_logger(__name__)
#: Seconds between two looks into the log.
LOOK_EVERY_S = 5.0


class MetricGauges(Collector):
    """One gauge a metric, of the whole log, its definition as the help; and of how many each is."""

    def __init__(self, store: Store, reader: MetricReader) -> None:
        self._store, self._reader = store, reader

    async def run(self) -> None:
        """Read what is new, for ever."""
        while True:
            try:
                await self._reader.catch_up()
            except (StoreError, self._store.transient) as error:
                if not is_away(error):
                    log.warning("metrics put off", reason=str(error))
            await asyncio.sleep(LOOK_EVERY_S)

    def collect(self) -> Iterator[Metric]:
        among = GaugeMetricFamily("relay_metric_n", "How many a metric is of", labels=["metric"])
        for measured in self._reader.known():
            metric = measured.metric
            unit = "" if metric.unit is Unit.COUNT else f"_{metric.unit}"
            gauge = GaugeMetricFamily(f"relay_{metric.name}{unit}", f"{metric.label}: {metric.definition}")
            if measured.value is not None:
                gauge.add_metric([], measured.value)
            among.add_metric([metric.name], measured.n)
            yield gauge
        yield among
