"""The operation on the room's metrics (docs/verification.md, "Metrics")."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

from relay.faces.operations.operation import Answer, Request, operation
from relay.faces.services import Services
from relay.model import Caller
from relay.verification.metrics_reader import MOST_DAYS


class AskMetrics(Request):
    days: int | None = Field(
        None, ge=1, le=MOST_DAYS, description="only the last days in UTC, today among them"
    )


class MetricTarget(BaseModel):
    sign: Literal["=", ">", "<"]
    value: float


class MetricShown(BaseModel):
    name: str
    label: str
    value: float | None = Field(description="null where nothing was measured")
    unit: Literal["count", "ratio", "seconds", "usd"]
    n: int = Field(description="how many it is of")
    of: str = Field(description="what n counts")
    target: MetricTarget | None
    met: bool | None
    definition: str
    source: str | None = Field(description="its name in the source")


class MetricsAnswer(Answer):
    days: int | None = None
    since: str | None = None
    metrics: list[MetricShown] | None = None


@operation("GET", "/api/metrics", MetricsAnswer, scope="read", read_only=True, tag="verification")
async def metrics(services: Services, caller: Caller, request: AskMetrics) -> dict[str, Any]:
    """What came of the work, as figures with their targets and definitions; `/metrics` has them for Prometheus."""
    return {"success": True, **await services.metrics.now(request.days)}
