"""The timeline view's figures: `python -m scripts.bench.timeline_view`, 100,000 events of ten authors in Chromium.

The room is the mock of the page's tests, so what is measured is the page: from the click on its tab until all heads
are read, and how much script a frame takes while it is read, zoomed from months to seconds, moved along and
filtered. By a trace of the browser (`devtools.timeline`): the script of a frame is all of the page's callbacks,
events, promises and timers from one frame's callbacks to the next one's, with the garbage collection within them.
It is the processor's time of the page's main thread, so that other work of this machine does not count. The page
must have been built. It needs the browser of `scripts/test.sh`.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

from scripts.bench.airspace_view import CHROMIUM, LACKING, Browser, Page, async_playwright
from scripts.bench.figures import Figure, at_most, run, single, spread, unmeasured
from scripts.bench.mock_room import STATIC, MockRoom

#: What of a trace is the page's script. Those that lie within another are counted with it.
SCRIPT = {
    *("FireAnimationFrame", "EventDispatch", "TimerFire", "FunctionCall", "RunMicrotasks"),
    *("EvaluateScript", "v8.callFunction", "XHRReadyStateChange", "FireIdleCallback"),
}
#: Milliseconds of script a frame that the issue asks for.
MOST_MS = 10.0
READ_MS = 60_000
KEY = """async ([key, times, shift]) => {
  const picture = document.querySelector('.tl-picture');
  const next = () => new Promise((done) => requestAnimationFrame(done));
  for (let i = 0; i < times; i++) {
    picture.dispatchEvent(new KeyboardEvent('keydown', { key, shiftKey: shift, bubbles: true, cancelable: true }));
    await next();
  }
  await next();
}"""
Act = Callable[[Page], Awaitable[Any]]


def script_of_frames(trace: bytes) -> list[float]:
    """Seconds of script of each frame that ran any, by the main thread of the page."""
    events = json.loads(trace)["traceEvents"]
    frames = [event for event in events if event["name"] == "FireAnimationFrame" and event.get("ph") == "X"]
    if not frames:
        return []
    threads = [(event["pid"], event["tid"]) for event in frames]
    thread = max(set(threads), key=threads.count)
    done = sorted(
        (
            event["ts"],
            event["ts"] + event.get("dur", 0),
            event.get("tdur", event.get("dur", 0)),
            event["name"],
        )
        for event in events
        if event.get("ph") == "X" and (event["pid"], event["tid"]) == thread and event["name"] in SCRIPT
    )
    spent, now, end, framed = [], 0.0, 0.0, False
    for begin, until, cpu, name in done:
        if begin < end:
            continue  # within the one before
        if name == "FireAnimationFrame" and framed:
            spent.append(now)
            now, framed = 0.0, False
        framed = framed or name == "FireAnimationFrame"
        now += cpu / 1e6
        end = until
    return [*spent, now]


async def traced(browser: Browser, page: Page, act: Act) -> list[float]:
    await browser.start_tracing(page=page, categories=["devtools.timeline", "v8"])
    await act(page)
    await page.wait_for_timeout(400)
    return script_of_frames(await browser.stop_tracing())


async def enter(browser: Browser, room: MockRoom) -> Page:
    room.links.add("bench")
    context = await browser.new_context(viewport={"width": 1440, "height": 900}, device_scale_factor=2)
    await context.add_init_script("localStorage.setItem('relay.name', 'ann');")
    page = await context.new_page()
    await page.goto(f"{room.url}/#link=bench")
    await page.locator('[data-testid="connection"][data-state="live"]').wait_for()
    await page.wait_for_timeout(1500)
    return page


def press(key: str, times: int, *, shift: bool = False) -> Act:
    return lambda page: page.evaluate(KEY, [key, times, shift])


async def choose(page: Page) -> None:
    await page.get_by_test_id("tl-agent").select_option("CLAUDE")
    await page.wait_for_timeout(300)
    await page.get_by_test_id("tl-agent").select_option("")
    await page.get_by_test_id("tl-kind").select_option("write")
    await page.wait_for_timeout(300)
    await page.get_by_test_id("tl-kind").select_option("")


async def pick(page: Page) -> None:
    await press("End", 1)(page)
    await press("ArrowLeft", 20)(page)


async def look(quick: bool) -> list[Figure]:
    count, steps = (5_000, 5) if quick else (100_000, 24)
    room = MockRoom()
    await room.start()
    room.timeline.history(count)
    note = f"{count:,} events, 10 rows, 1440 x 900 at 2x"
    figures = []
    async with async_playwright() as playwright:
        flags = ["--no-sandbox", "--disable-dev-shm-usage"]
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        page = await enter(browser, room)

        async def read(page: Page) -> None:
            await page.get_by_test_id("tab-timeline").click()
            await page.locator(f'[data-testid="tl-counts"][data-count="{count}"]').wait_for(timeout=READ_MS)

        acts: tuple[tuple[str, Act], ...] = (
            ("while it is read", read),
            ("zooming from months to seconds", press("+", steps * 2)),
            ("zooming out again", press("-", steps * 2)),
            ("moving along, all in view", press("ArrowRight", steps, shift=True)),
            ("from event to event", pick),
            ("choosing what is shown", choose),
        )
        for name, act in acts:
            spent = await traced(browser, page, act)
            figures.append(
                spread(f"script of a frame, {name}", spent, limits=at_most(p95=MOST_MS), note=note)
            )
            worst = max(spent, default=0.0) * 1000
            figures.append(single(f"worst frame, {name}", worst, "ms", note=f"{len(spent)} frames"))
        still = "Number(document.querySelector('.tl-picture').dataset.frames)"
        await page.wait_for_timeout(1500)  # what was chosen last is counted, a few blocks a frame
        before = await page.evaluate(still)
        await page.wait_for_timeout(2000)
        drawn = await page.evaluate(still) - before
        figures.append(
            single("frames in 2 s in which nothing moves", drawn, "frames", limits=at_most(value=0.0))
        )
        await browser.close()
    await room.stop()
    return figures


def sizes() -> Iterator[Figure]:
    """What the view loads, gzip, in kB of 1000 bytes; the airspace's has the same name but for its hash."""
    for file in (STATIC / "assets").iterdir():
        if file.suffix == ".js" and b"tl-picture" in (content := file.read_bytes()):
            yield single("timeline view, script", len(gzip.compress(content, 9)) / 1000, "kB gzip")


def measure(_: Path, quick: bool) -> Iterator[Figure]:
    yield from sizes()
    if not Path(CHROMIUM).exists():
        yield unmeasured("the timeline in a browser", LACKING)
        return
    yield from asyncio.run(look(quick))


if __name__ == "__main__":
    sys.exit(run("timeline_view", measure, __doc__ or ""))
