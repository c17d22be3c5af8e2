"""The airspace view's figures: `python -m scripts.bench.airspace_view`, 50,000 files and 50 agents in Chromium.

The room is the mock of the page's tests, so what is measured is the page: from the click on its tab until the
cloud is drawn, what a frame costs while the picture is turned, what a tick costs, and that a still picture draws
nothing. Without a graphics card Chromium draws WebGL in software (SwiftShader): then a frame's interval is the
processor's, and the note says so. The page must have been built. This one alone needs more than `start.sh` sets up:
the browser of `scripts/test.sh`.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from scripts.bench import airspace_scenes as scenes
from scripts.bench.figures import Figure, at_most, run, single, spread, unmeasured
from scripts.bench.mock_room import STATIC, MockRoom

try:
    from playwright.async_api import Browser, Page, async_playwright
except ModuleNotFoundError as missing:
    raise SystemExit(
        f"the page's figures need {missing.name}. To install it: bash scripts/test.sh --co"
    ) from None

CHROMIUM = os.environ.get("RELAY_CHROMIUM", "/usr/bin/chromium")
LACKING = f"there is no Chromium at {CHROMIUM}: install it, or name one in RELAY_CHROMIUM"
SOFTWARE_GL = ["--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
WATCH = """
localStorage.setItem('relay.name', 'ann');
window.spent = [];
const ask = window.requestAnimationFrame.bind(window);
window.requestAnimationFrame = (work) => ask((now) => {
  const start = performance.now();
  work(now);
  window.spent.push(performance.now() - start);
});
"""
OPEN = """async () => {
  const start = performance.now();
  document.querySelector('[data-testid="tab-airspace"]').click();
  const frame = () => new Promise((done) => setTimeout(done, 4));
  while (!(Number(document.querySelector('.air-picture')?.dataset.frames) > 0)) await frame();
  return performance.now() - start;
}"""
TURN = """async (times) => {
  const picture = document.querySelector('.air-picture');
  const next = () => new Promise((done) => requestAnimationFrame(() => done(performance.now())));
  await next();
  window.spent.length = 0;
  const gaps = [];
  let last = await next();
  for (let i = 0; i < times; i++) {
    picture.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowLeft', bubbles: true }));
    const now = await next();
    gaps.push(now - last);
    last = now;
  }
  return { gaps, spent: window.spent.filter((ms) => ms > 0.2) };
}"""
FRAMES = "Number(document.querySelector('.air-picture').dataset.frames)"


def first_load() -> Iterator[Figure]:
    """Sizes of what the page loads, gzip, in kB of 1000 bytes."""
    index = (STATIC / "index.html").read_text()
    parts = {"first load": 0, "airspace view": 0, "three.js": 0, "worktrees": 0}
    for file in (STATIC / "assets").iterdir():
        if file.suffix not in {".js", ".css"}:
            continue
        size = len(gzip.compress(file.read_bytes(), 9))
        if file.name in index:
            parts["first load"] += size
        for start, name in (("view-", "airspace view"), ("space-", "three.js"), ("worktrees-", "worktrees")):
            parts[name] += size if file.name.startswith(start) else 0
    for name, size in parts.items():
        yield single(f"{name}, script and style", size / 1000, "kB gzip")


async def enter(browser: Browser, room: MockRoom, mode: str) -> Page:
    secret = f"bench-{mode}"
    room.links.add(secret)
    context = await browser.new_context(viewport={"width": 1280, "height": 800})
    await context.add_init_script(WATCH + f"localStorage.setItem('relay.airspace', '{mode}');")
    page = await context.new_page()
    await page.goto(f"{room.url}/#link={secret}")
    await page.locator('[data-testid="connection"][data-state="live"]').wait_for()
    await page.wait_for_timeout(1500)
    return page


async def look(mode: str, quick: bool) -> list[Figure]:
    files, agents, turns, ticks = (2_000, 10, 10, 3) if quick else (50_000, 50, 120, 10)
    room = MockRoom()
    await room.start()
    scenes.crowd(room.air, files, agents)
    data = f"{len(room.air.cloud):,} files, {agents} agents, {len(room.air.links)} links"
    state = len(json.dumps(room.air.state()))
    figures = [single("the whole state", state / 1000, "kB", note="JSON")] if mode == "space" else []
    async with async_playwright() as playwright:
        flags = ["--no-sandbox", "--disable-dev-shm-usage", *(SOFTWARE_GL if mode == "space" else [])]
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        page = await enter(browser, room, mode)
        opened = await page.evaluate(OPEN)
        note = f"{data}; WebGL in software" if mode == "space" else data
        limits = at_most(value=2000.0)
        figures.append(single(f"{mode}: click to first picture", opened, "ms", limits=limits, note=note))
        turned = await page.evaluate(TURN, turns)
        spent = [ms / 1000 for ms in turned["spent"]]
        figures.append(spread(f"{mode}: script of a frame", spent, limits=at_most(p95=16.0), note=note))
        gaps = [ms / 1000 for ms in turned["gaps"]]
        figures.append(spread(f"{mode}: from frame to frame while turning", gaps, note=note))
        for n in range(ticks):
            for agent, at in room.air.positions.items():
                room.air.positions[agent] = [at[0] + 0.01 * (n + 1), at[1], at[2]]
            room.air.tick(cloud=False)
            await page.wait_for_timeout(1100)
        before = await page.evaluate(FRAMES)
        await page.wait_for_timeout(2000)
        still = await page.evaluate(FRAMES) - before
        what = f"{mode}: frames in 2 s in which nothing moves"
        figures.append(single(what, still, "frames", limits=at_most(value=0.0)))
        await browser.close()
    await room.stop()
    return figures


def measure(_: Path, quick: bool) -> Iterator[Figure]:
    yield from first_load()
    if not Path(CHROMIUM).exists():
        yield unmeasured("the airspace in a browser", LACKING)
        return
    for mode in ("space", "plan"):
        yield from asyncio.run(look(mode, quick))


if __name__ == "__main__":
    sys.exit(run("airspace_view", measure, __doc__ or ""))
