"""The page's first load and its room: `python -m scripts.bench.room_view`, a daemon with 10,000 entries in Chromium.

The board of the room has 200 tasks. The first load is what the browser got over the network, with the headers, until
the page is live and still: as the daemon served it, to a browser that had nothing of it. The room is then scrolled
from its end into its past and back, by gestures of a wheel, and a trace of the browser (`timeline_view`) says how
much script each frame took. It is the processor's time of the page's main thread. Then somebody writes 200 messages
within 10 seconds while it is looked at: a long task is one of the page's main thread that takes over 50 ms of the
processor. What the page holds of memory is read after a garbage collection. The page must have been built. It needs
the browser of `scripts/test.sh`.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import uuid_utils

from relay.model import Kind, Message
from relay.room.parsing import line_format
from scripts.bench.figures import Figure, at_most, run, single, spread, unmeasured
from scripts.bench.room import MAX_NUMBER
from scripts.bench.room_daemon import Daemon, running
from scripts.bench.timeline_view import MOST_MS, script_of_frames, traced

try:
    from playwright.async_api import Browser, BrowserContext, CDPSession, Page, async_playwright
except ModuleNotFoundError as missing:
    raise SystemExit(f"room_view needs {missing.name}. To install it: bash scripts/test.sh --co") from None

#: Bytes of the first load that the issue asks for, in kB of 1000 bytes.
MOST_KB = 100.0
#: Gestures up, pixels of one, and pixels a second: a wheel that is turned hard.
SWIPES, SWIPE_PX, SPEED = 10, 40_000, 20_000
#: Milliseconds until the newest entry is drawn, that the issue asks for.
FIRST_MS = 1000.0
#: Messages of the burst, and the seconds in which they are written.
BURST, BURST_S = 200, 10.0
#: Tasks of the board: the first load has no more of them than somebody works on.
BOARD = 200
#: MB of 1000 x 1000 bytes that the page's script may hold, however much was read or came.
MOST_MB = 25.0
#: When the entry of a number is drawn: the first frame that has it, in milliseconds from the navigation's start.
DRAWN = """(number) => new Promise((done) => {
  const look = () => document.querySelector(`.entry[data-number="${number}"]`)
    ? requestAnimationFrame(() => done(performance.now())) : requestAnimationFrame(look);
  look();
})"""
#: Milliseconds from which on a task of the main thread is long.
LONG_MS = 50.0
#: The category of a trace that has each task of a thread.
TASKS = "disabled-by-default-devtools.timeline"
#: Each frame has a callback, so that the trace tells one frame from the next.
TICK = "localStorage.setItem('relay.name', 'ann'); (function tick() { requestAnimationFrame(tick); })();"
#: What people and agents write, in turn.
BODIES = (
    "Does the parser take a line without an end? I saw one in the log of last night.",
    "It does. See `line_format.py`:\n\n```python\ndef read(line: bytes) -> Entry:\n    return Entry(line)\n```\n\n"
    "Three things follow:\n\n- the tag decides **who** speaks\n- a torn line is junk\n- nothing is lost",
    "Good. @CLAUDE write it into the docs, and give the lock back.",
    "Done, see #12. The tests pass again:\n\n| part | tests | s |\n|---|---:|---:|\n| room | 212 | 14 |\n"
    "| log | 96 | 3 |\n\nThe lock on `docs/room.md` is free. " + "What is left is in the task. " * 6,
)


def measure(folder: Path, quick: bool) -> Iterator[Figure]:
    entries = 600 if quick else 10_000
    path = folder / ".relay" / "transcript.log"
    path.parent.mkdir(parents=True, mode=0o700)
    path.write_bytes(b"".join(_line(number) for number in range(entries)))
    with running(folder, {"dispatcher": {"enabled": False}}) as daemon:
        daemon.wait_until("the import", lambda: daemon.ask(MAX_NUMBER) >= entries, 120)
        yield from asyncio.run(look(daemon, entries))


def _line(number: int) -> bytes:
    agent = number % 2 == 1
    return line_format.encode(
        Message(
            id=str(uuid_utils.uuid7()),
            ts=f"2026-01-{1 + number // 400:02}T{number % 400 // 20:02}:{number % 20 * 3:02}:00.000Z",
            speaker="CLAUDE" if agent else "ann",
            kind=Kind.AGENT if agent else Kind.HUMAN,
            body=f"{number}: {BODIES[number % len(BODIES)]}",
        )
    )


async def look(daemon: Daemon, entries: int) -> list[Figure]:
    async with async_playwright() as playwright:
        path = os.environ.get("RELAY_CHROMIUM", "/usr/bin/chromium")
        flags = ["--no-sandbox", "--disable-dev-shm-usage"]
        browser = await playwright.chromium.launch(executable_path=path, args=flags)
        context = await browser.new_context(viewport={"width": 1440, "height": 900})
        url = f"http://127.0.0.1:{daemon.port}"
        signed = await context.request.post(f"{url}/api/sign-in", data={"key": daemon.token})
        if not signed.ok:
            raise RuntimeError(await signed.text())
        issues = [
            {
                "number": number,
                "title": f"Task {number}",
                "body": body,
                "url": f"https://example.org/{number}",
            }
            for number, body in zip(range(BOARD), cycle(BODIES), strict=False)
        ]
        taken = await context.request.post(f"{url}/api/tasks/import", data={"name": "ann", "issues": issues})
        if len((await taken.json()).get("made", ())) != BOARD:
            raise RuntimeError(await taken.text())
        # What is looked for is a person's: the room's word of the import may come behind it.
        posted = await context.request.post(f"{url}/api/messages", data={"name": "ben", "body": BODIES[0]})
        newest = daemon.ask("SELECT number FROM messages WHERE id = ?", (await posted.json())["id"])
        page, figures = await first_load(context, url, newest)
        line = await context.new_cdp_session(page)
        figures += await held(page, line, "after the first load")
        figures += await scrolled(browser, page, line, entries)
        figures += await burst(browser, page, context, url)
        figures += await held(page, line, "after scrolling and the burst")
        await browser.close()
    return figures


async def first_load(context: BrowserContext, url: str, entries: int) -> tuple[Page, list[Figure]]:
    """Open the page, and say what came over the network, by kind, and when the newest entry stood there. kB of 1000
    bytes."""
    await context.add_init_script(TICK)
    page = await context.new_page()
    line = await context.new_cdp_session(page)
    kinds: dict[str, str] = {}
    got: Counter[str] = Counter()

    def answered(event: dict[str, Any]) -> None:
        kinds[event["requestId"]] = event["type"]

    def came(event: dict[str, Any]) -> None:
        got[kinds[event["requestId"]]] += event["encodedDataLength"]

    def told(event: dict[str, Any]) -> None:
        got["WebSocket"] += len(event["response"]["payloadData"])

    line.on("Network.responseReceived", answered)
    line.on("Network.loadingFinished", came)
    line.on("Network.webSocketFrameReceived", told)
    await line.send("Network.enable")
    await page.goto(url, wait_until="commit")
    newest = await page.evaluate(DRAWN, entries)
    await page.locator('[data-testid="connection"][data-state="live"]').wait_for()
    await page.wait_for_timeout(3000)
    if lacking := {"Document", "Script", "Fetch", "WebSocket"} - got.keys():
        raise RuntimeError(f"of the page nothing was seen of {sorted(lacking)}")
    parts = ", ".join(f"{kind} {size / 1000:.1f}" for kind, size in got.most_common())
    whole = single("first load", got.total() / 1000, "kB", limits=at_most(value=MOST_KB), note=parts)
    note = f"{entries:,} entries, {BOARD} tasks, nothing in the browser's cache"
    return page, [
        whole,
        single("newest entry drawn", newest, "ms", limits=at_most(value=FIRST_MS), note=note),
    ]


async def scrolled(browser: Browser, page: Page, line: CDPSession, entries: int) -> list[Figure]:
    """Script of each frame, from the room's end into its past, back, and by a jump to the end."""

    async def swipe(pixels: int) -> None:
        gesture = {"x": 800, "y": 400, "yDistance": pixels, "speed": SPEED, "gestureSourceType": "mouse"}
        await line.send("Input.synthesizeScrollGesture", gesture)

    async def up(_: Page) -> None:
        for _ in range(SWIPES):
            await swipe(SWIPE_PX)

    async def down(_: Page) -> None:
        for _ in range(SWIPES // 2):
            await swipe(-SWIPE_PX)

    async def jump(page: Page) -> None:
        await swipe(SWIPE_PX // 8)  # a short room was at its end again
        await page.get_by_test_id("jump-latest").click()

    figures = []
    for name, act in (("into the past", up), ("back again", down), ("by a jump to the end", jump)):
        spent = await traced(browser, page, act)
        note = f"{entries:,} entries, 1440 x 900, {SPEED:,} pixels a second"
        limits = at_most(p99=MOST_MS, max=MOST_MS)
        figures.append(spread(f"script of a frame, {name}", spent, limits=limits, note=note))
    return figures


async def burst(browser: Browser, page: Page, context: BrowserContext, url: str) -> list[Figure]:
    """200 messages in 10 s, while somebody looks at the end of the room."""
    await browser.start_tracing(page=page, categories=["devtools.timeline", "v8", TASKS])
    began = time.monotonic()
    for number in range(BURST):
        body = f"{number} of the burst: {BODIES[number % 3]}"
        posted = await context.request.post(f"{url}/api/messages", data={"name": "ben", "body": body})
        if not posted.ok:
            raise RuntimeError(await posted.text())
        await asyncio.sleep(max(0.0, began + (number + 1) * BURST_S / BURST - time.monotonic()))
    await page.locator(".entry", has_text=f"{BURST - 1} of the burst").wait_for()
    took = time.monotonic() - began
    await page.wait_for_timeout(400)
    trace = await browser.stop_tracing()
    if took > BURST_S * 1.2:
        return [
            unmeasured("a burst of messages", f"the machine was too busy: {BURST} took {took:.1f} s to write")
        ]
    tasks = tasks_of(trace)
    note = f"{BURST} messages in {BURST_S:.0f} s"
    longest = f"{note}; the longest of {len(tasks):,} took {max(tasks):.1f} ms"
    long = sum(one > LONG_MS for one in tasks)
    limits = at_most(p99=MOST_MS, max=MOST_MS)
    return [
        spread("script of a frame, in a burst", script_of_frames(trace), limits=limits, note=note),
        single("long tasks in a burst", long, "tasks", limits=at_most(value=0.0), note=longest),
    ]


def tasks_of(trace: bytes) -> list[float]:
    """Milliseconds of the processor that each task of the page's main thread took, drawing included."""
    events = json.loads(trace)["traceEvents"]
    threads = Counter(
        (event["pid"], event["tid"]) for event in events if event["name"] == "FireAnimationFrame"
    )
    thread = threads.most_common(1)[0][0]
    return [
        event["tdur"] / 1000
        for event in events
        if event["name"] == "RunTask" and (event["pid"], event["tid"]) == thread and "tdur" in event
    ]


async def held(page: Page, line: CDPSession, when: str) -> list[Figure]:
    """What the page's script holds, and how many rows stand in it."""
    await line.send("HeapProfiler.collectGarbage")
    await line.send("Performance.enable")
    metrics = {one["name"]: one["value"] for one in (await line.send("Performance.getMetrics"))["metrics"]}
    rows = await page.locator(".entry").count()
    note = f"{rows} rows of the transcript stand in the page, {metrics['Nodes']:.0f} nodes in all"
    size = metrics["JSHeapUsedSize"] / 1e6
    return [
        single(f"held by the page's script, {when}", size, "MB", limits=at_most(value=MOST_MB), note=note)
    ]


if __name__ == "__main__":
    sys.exit(run("room_view", measure, __doc__ or ""))
