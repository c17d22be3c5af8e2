from __future__ import annotations

import asyncio
import time

from structlog.testing import capture_logs

from relay.watchdog import Watchdog


def hold_the_loop(seconds: float) -> None:
    time.sleep(seconds)


async def test_a_blocked_loop_is_reported_with_its_stack() -> None:
    watchdog = Watchdog(asyncio.get_running_loop())
    with capture_logs() as logs:
        watchdog.start()
        try:
            await asyncio.sleep(0.2)
            assert watchdog.blocks == 0, "a loop that waits is not blocked"
            hold_the_loop(0.6)
            async with asyncio.timeout(10):
                while not watchdog.blocks:  # noqa: ASYNC110 (it counts on a thread of its own)
                    await asyncio.sleep(0.01)
        finally:
            watchdog.stop()
    (report,) = [line for line in logs if line["event"] == "event loop blocked"]
    assert "hold_the_loop" in report["stack"]
    assert watchdog.take_lag() > 0.1
    assert watchdog.take_lag() == 0.0
