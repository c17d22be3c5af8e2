from __future__ import annotations

import asyncio
import time

import structlog

from relay.app.daemon.watchdog import BLOCKED_S, EVERY_S, Watchdog


def block_the_loop(seconds: float) -> None:
    time.sleep(seconds)


async def test_a_block_is_reported_with_its_stack() -> None:
    watchdog = Watchdog(asyncio.get_running_loop())
    with structlog.testing.capture_logs() as logs:
        watchdog.start()
        try:
            await asyncio.sleep(2 * EVERY_S)
            block_the_loop(BLOCKED_S + 6 * EVERY_S)
            async with asyncio.timeout(30):
                while not logs:  # noqa: ASYNC110  the logs say nothing when they grow
                    await asyncio.sleep(EVERY_S)
        finally:
            watchdog.stop()
    told = next(line for line in logs if "block_the_loop" in line["stack"])
    assert told["event"] == "event loop blocked"
    assert told["seconds"] >= BLOCKED_S
    assert watchdog.blocks >= 1
    assert watchdog.take_lag() >= BLOCKED_S


async def test_it_ends_with_the_loop_still_blocked() -> None:
    watchdog = Watchdog(asyncio.get_running_loop())
    watchdog.start()
    block_the_loop(BLOCKED_S + 4 * EVERY_S)
    watchdog.stop()
    assert not watchdog._thread.is_alive()


async def test_the_lag_is_taken_once() -> None:
    watchdog = Watchdog(asyncio.get_running_loop())
    watchdog.start()
    try:
        block_the_loop(3 * EVERY_S)
        await asyncio.sleep(EVERY_S)
        assert watchdog.take_lag() >= EVERY_S
        assert watchdog.take_lag() == 0.0
    finally:
        watchdog.stop()
