"""Pictures of the page, taken from real rooms: `python -m scripts.screenshots [--views]`.

Runs a daemon in a temporary folder with scripted agents and a fake Ollama that decides who answers, plays a
short morning in it, and looks at it with Chromium (`RELAY_CHROMIUM`, else the system's). Writes
docs/images/room.png and board.png, landing.png and approvals.png of another room
(screenshots_landing.py), airspace.png and swarm.png of a `relay demo` and its `--swarm`; with `--views`, every
view, light and dark, 1400 and 390 wide, into docs/images/views instead (screenshots_views.py). The page
must have been built (`npm run build` in web/).
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

REPO = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPO))

from playwright.async_api import Browser, Page, Playwright, async_playwright, expect  # noqa: E402

from scripts.screenshots_landing import landing  # noqa: E402
from scripts.screenshots_views import views  # noqa: E402
from tests.fakes.ollama import FakeOllama, Request, asked, running  # noqa: E402
from tests.outside import Outside, agent, room, settings  # noqa: E402

IMAGES = REPO / "docs" / "images"
DESK = {"width": 1280, "height": 800}
#: At this width the page is a phone's.
PHONE_WIDTH = 760

CLAUDE = r"""
- match: off by a cent
  tool: [{name: Read, summary: Read src/checkout/money.py}, {name: Bash, summary: "pytest tests/money -q"}]
  say:
    - "Reproduced. `price_of()` rounds each line before it sums, so a cart of three 0.335 items is a cent off:\n\n"
    - "```python\ndef price_of(lines: list[Line]) -> Money:\n"
    - "    total = sum((line.unit * line.count for line in lines), Decimal(0))\n"
    - "    return Money(total.quantize(CENT, ROUND_HALF_UP))\n```\n\n"
    - "Now the tests for the currencies that have "
    - "no cents"
  pause_s: 3
  usage: {input_tokens: 5210, output_tokens: 640, cost_usd: 0.041}
- match: checkout
  tool:
    - {name: Bash, summary: "git log --since=yesterday -- src/checkout"}
    - {name: Read, summary: Read src/checkout/cart.py}
    - {name: Grep, summary: "Grep order_lines in migrations/"}
  say: |
    Found it: `load_cart()` runs **one query per line** since 3f9c2e1, and `order_lines.order_id` has no index.

    | | before | now |
    |---|---|---|
    | queries per cart | 2 | 1 + lines |
    | p95 | 180 ms | 1.9 s |

    One query brings it back:

    ```python
    lines = await db.fetch(
        "SELECT * FROM order_lines WHERE order_id = ANY($1)", order_ids
    )
    ```

    [DECISION: one query per cart | OWNER: CODEX | BLOCKERS: none]
  usage: {input_tokens: 18240, output_tokens: 912, cost_usd: 0.068}
"""
CODEX = r"""
- match: review
  tool: [{name: shell, summary: "pytest tests/checkout -q"}]
  say: |
    Looks right, and the tests pass. One thing before it merges: `ANY($1)` wants an array, so the call needs a list.

    ```diff
    -    order_ids = {line.order_id for line in cart}
    +    order_ids = list({line.order_id for line in cart})
    ```
  usage: {input_tokens: 9120, output_tokens: 388}
- say: Noted.
"""
GEMINI = r"""
- match: review
  fail: crash
  detail: "the model service closed the connection"
- say: Hello.
"""


def decide(request: Request) -> dict[str, Any]:
    """The fake mind: performance is CLAUDE's, thanks are answered, all else is asked back."""
    words = asked(request).lower()
    if "thanks" in words:
        return {
            "reason": "thanks, no work in it",
            "action": "absorb",
            "agents": [],
            "reply": "You are welcome.",
        }
    if "slow" in words or "cent" in words:
        return {
            "reason": "a question about the checkout code",
            "action": "route",
            "agents": ["CLAUDE"],
            "reply": "",
        }
    return {"reason": "unclear", "action": "clarify", "agents": [], "reply": "Which part do you mean?"}


def configuration(ollama: FakeOllama) -> dict[str, Any]:
    return settings(
        agent(
            "CLAUDE",
            "claude.yaml",
            model="opus",
            effort="high",
            budget={"turns_per_hour": 20, "usd_per_day": 5},
        ),
        agent("CODEX", "codex.yaml", model="gpt-5-codex"),
        agent("GEMINI", "gemini.yaml", budget={"turns_per_hour": 2}),
        dispatcher={"enabled": True, "ollama_host": ollama.url, "model": "llama3.2:latest"},
        queue={"max_attempts": 1},
        locks={"circuit_breaker": {"failure_threshold": 2}},
    )


async def morning(outside: Outside) -> None:
    """What was said before the picture is taken."""
    for title in (
        "Add an index on order_lines.order_id",
        "Round prices once per cart, not per line",
        "Currencies without cents in price_of()",
        "Alert when checkout p95 is over 400 ms",
        "Write down how a release is rolled back",
    ):
        await outside.post(f"/task {title}", "ann")
    await outside.until_said("Write down how a release")
    for number, status in ((5, "done"), (1, "in_progress"), (2, "in_progress")):
        await outside.ask("PATCH", f"/api/tasks/{number}", json={"status": status, "name": "ben"})
    for text in ("@GEMINI review the release notes", "@GEMINI please review them again"):
        posted = await outside.post(text, "ben")
        await outside.until_job(posted["id"], "GEMINI", "dead")
    slow = await outside.post("Checkout got slow: p95 went from 180 ms to 1.9 s since yesterday. Why?", "ann")
    await outside.until_job(slow["id"], "CLAUDE", "done")
    review = await outside.post("@CODEX @GEMINI review that before we merge, please", "ben")
    await outside.until_job(review["id"], "CODEX", "done")
    await outside.until_job(review["id"], "GEMINI", "skipped")
    cent = await outside.post("Also, carts are off by a cent sometimes, see t2", "ann")
    await outside.until_job(cent["id"], "CLAUDE", "active")


async def open_page(browser: Browser, outside: Outside, *, size: dict[str, int], scheme: str) -> Page:
    context = await browser.new_context(
        viewport=size,
        color_scheme=scheme,
        reduced_motion="reduce",
        device_scale_factor=1,
        has_touch=size["width"] <= PHONE_WIDTH,
        locale="en-GB",
    )
    await context.add_init_script(
        "localStorage.getItem('relay.name') || localStorage.setItem('relay.name', 'ann')"
    )
    page = await context.new_page()
    _, link = await outside.ask("POST", "/api/links")
    await page.goto(link["url"])
    await expect(page.get_by_test_id("connection")).to_have_attribute("data-state", "live", timeout=60_000)
    await page.evaluate("document.fonts.ready")
    return page


async def show(page: Page, view: str) -> None:
    await page.get_by_test_id(f"tab-{view}").click()


@asynccontextmanager
async def demo(browser: Browser, folder: Path, *arguments: str) -> AsyncIterator[Page]:
    """The page of a `relay demo`, which ends with the block."""
    room = await asyncio.create_subprocess_exec(
        *(
            Path(sys.executable).with_name("relay"),
            "demo",
            "--only-with",
            "--folder",
            str(folder),
            *arguments,
        ),
        cwd=REPO,
        stdout=asyncio.subprocess.PIPE,
    )
    assert room.stdout is not None
    try:
        while not (link := re.search(rb"http://\S+#link=\S+", await room.stdout.readline())):
            assert not room.stdout.at_eof(), "the demo has ended"
        context = await browser.new_context(
            viewport={"width": 1280, "height": 800}, color_scheme="dark", locale="en-GB"
        )
        await context.add_init_script("localStorage.setItem('relay.name', 'ann')")
        page = await context.new_page()
        await page.goto(link[0].decode())
        yield page
        await context.close()
    finally:
        room.send_signal(signal.SIGINT)
        # What it prints is read, so that it can end.
        await room.communicate()


async def swarm(browser: Browser, out: Path, folder: Path) -> None:
    """The board while eight agents and two people work, with 200 items on it."""
    async with demo(browser, folder, "--swarm") as page:
        await show(page, "board")
        done = page.get_by_test_id("column-done")
        await expect(done).to_have_attribute("aria-label", re.compile(r"^Done, [6-9]\d$"), timeout=900_000)
        await page.mouse.move(0, 0)
        await page.screenshot(path=out / "swarm.png")


async def airspace(browser: Browser, out: Path, folder: Path) -> None:
    """The airspace in space, with a resolution advisory that stands."""
    async with demo(browser, folder, "--stubborn", "--stay") as page:
        await show(page, "airspace")
        await page.get_by_test_id("air-space").click()
        await page.locator('[data-testid="advisory"][data-level="resolution"][data-open="true"]').click(
            timeout=120_000
        )
        await expect(page.get_by_test_id("pick-advisory")).to_contain_text("has not left", timeout=120_000)
        await page.get_by_test_id("air-reset").click()
        await page.mouse.move(0, 0)
        await page.wait_for_timeout(6000)  # the glow of an advisory has ended
        await page.screenshot(path=out / "airspace.png")


async def every_view(out: Path) -> None:
    work = Path(tempfile.mkdtemp(prefix="relay-pictures-")) / "shop"
    try:
        async with async_playwright() as playwright:
            browser = await launch(playwright)
            await views(browser, open_page, out, work)
            await browser.close()
    finally:
        shutil.rmtree(work.parent, ignore_errors=True)


async def launch(playwright: Playwright) -> Browser:
    return await playwright.chromium.launch(
        executable_path=os.environ.get("RELAY_CHROMIUM", "/usr/bin/chromium"),
        args=["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"],
    )


async def take(out: Path) -> None:
    work = Path(tempfile.mkdtemp(prefix="relay-pictures-")) / "shop"
    try:
        async with running() as ollama, room(work, configuration(ollama)) as outside:
            ollama.decide = decide
            for name, text in (("claude", CLAUDE), ("codex", CODEX), ("gemini", GEMINI)):
                (work / f"{name}.yaml").write_text(text)
            await outside.start()
            async with async_playwright() as playwright:
                browser = await launch(playwright)
                ben = await open_page(browser, outside, size=DESK, scheme="light")
                await ben.evaluate("localStorage.setItem('relay.name', 'ben')")
                await ben.reload()
                page = await open_page(browser, outside, size=DESK, scheme="light")
                await morning(outside)
                out.mkdir(parents=True, exist_ok=True)
                await expect(page.get_by_test_id("stream")).to_contain_text("ROUND_HALF_UP", timeout=60_000)
                await page.screenshot(path=out / "room.png")
                await show(page, "board")
                await page.screenshot(path=out / "board.png")
                await landing(browser, open_page, out, work.parent / "landing" / "shop")
                await airspace(browser, out, work.parent / "demo")
                await swarm(browser, out, work.parent / "swarm")
                await browser.close()
    finally:
        shutil.rmtree(work.parent, ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=IMAGES, help="where the pictures of docs/images go")
    parser.add_argument(
        "--views", action="store_true", help="every view instead, into the folder `views` in it"
    )
    chosen = parser.parse_args()
    asyncio.run(every_view(chosen.out / "views") if chosen.views else take(chosen.out))


if __name__ == "__main__":
    main()
