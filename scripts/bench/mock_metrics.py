"""The metrics of a mock room: what they are is set, and which windows were asked for is kept."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from relay.verification.metrics import METRICS, Measured

Json = dict[str, Any]


class MockMetrics:
    """`values`: (value, n) by name; a metric without one has none. `asked`: the windows, in days or empty."""

    def __init__(self) -> None:
        self.values: dict[str, tuple[float, int]] = {}
        self.asked: list[str] = []

    def add_routes(self, router: web.UrlDispatcher) -> None:
        router.add_get("/api/metrics", self._metrics)

    async def _metrics(self, request: web.Request) -> web.Response:
        days = request.query.get("days", "")
        self.asked.append(days)
        shown = [Measured(metric, *self.values.get(metric.name, (None, 0))).as_json() for metric in METRICS]
        since = "2026-11-16T00:00:00.000Z" if days else None
        return web.json_response({"days": int(days) if days else None, "since": since, "metrics": shown})
