"""Figures that both stores have alike, from the calls of `coordination_store`."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import AsyncIterator, Iterator
from typing import Any

from scripts.bench.coordination_store import Desk, alternately, claims
from scripts.bench.figures import Figure, at_most, single, spread


def gathered(figures: AsyncIterator[Figure]) -> Iterator[Figure]:
    """The figures of a coroutine, each as it comes."""
    with asyncio.Runner() as runner:
        while True:
            try:
                yield runner.run(anext(figures))  # type: ignore[arg-type]
            except StopAsyncIteration:
                return


def rate_of(runs: list[Any], count: int) -> float:
    return statistics.median(count / took for took, *_ in runs)


async def of_claims(
    store: str, free: Desk, waiting: Desk, blocked: int, given: int, rounds: int, callers: int = 1
) -> AsyncIterator[Figure]:
    """Claims behind nothing and behind many, in turns."""
    plain, behind = await alternately(
        lambda: claims(free, given, callers), lambda: claims(waiting, given, callers), rounds
    )
    rates, several = [], "" if callers == 1 else f", {callers} callers"
    what = "claims" if callers == 1 else "claim + complete"
    for there, runs in ((0, plain), (blocked, behind)):
        rates.append(rate_of(runs, given))
        yield single(
            f"{what}, {store}{several}, behind {there:,} blocked", rates[-1], "claims/s", n=given * rounds,
            note=f"median of {rounds} runs; public reference 92-136 behind 5,000" if there else "",
        )  # fmt: skip
        yield spread(
            f"get_work, {store}{several}, behind {there:,} blocked", [t for run in runs for t in run[1]]
        )
    yield single(
        f"{what}, {store}{several}, behind none / behind {blocked:,}", rates[0] / rates[1], "times",
        limits=at_most(value=1.5), note="flat = 1; half as much again is allowed for the machine's other work",
    )  # fmt: skip
    yield spread(f"complete_work, {store}{several}", [took for run in behind for took in run[2]])
