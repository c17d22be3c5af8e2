"""A person in front of the page: what they see and do, by role, label and test id."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, BrowserContext, Locator, Page, TimeoutError, expect

from tests.outside import Outside

#: Milliseconds that anything may take on a loaded machine.
PATIENCE = 30_000
DESK = {"width": 1280, "height": 800}
PHONE = {"width": 360, "height": 740}

expect.set_options(timeout=PATIENCE)

#: How Chromium is started. The first three features cost each new window a renderer for its address bar, and two
#: fifths of its processor time. The others are off in Playwright's own list, which this one takes the place of.
ARGS = [
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--disable-features=WebUIOmniboxPopup,WebUIOmniboxAimPopup,WebUIOmniboxFullPopup,"
    "AvoidCorsURLLoaderRestartOnRedirect,AvoidUnnecessaryBeforeUnloadCheckSync,DestroyProfileOnBrowserClose,"
    "HttpsFirstBalancedModeAutoEnable,HttpsUpgrades,LensOverlay,MediaRouter,NetworkTimeServiceQuerying,"
    "OptimizationHints,PaintHolding,PreconnectToSearch,TcpPortRandomizationWin,ThirdPartyStoragePartitioning,AimEnabled",
]

#: What Chromium says when a request fails; a test that stops the daemon provokes it.
_NETWORK = re.compile(r"Failed to load resource|WebSocket connection to|ERR_")


async def open_view(page: Page, view: str) -> None:
    """By its tab, which may be behind "More" on a phone."""
    tab, more = page.get_by_test_id(f"tab-{view}"), page.get_by_test_id("tabs-more")
    await expect(tab.or_(more).first).to_be_visible()
    if not await tab.count():
        # A window that was just made wide has the tab itself a moment later, and no such button.
        with suppress(TimeoutError):
            await more.click(timeout=PATIENCE / 10)
    await tab.click()


async def shot(page: Page, name: str) -> None:
    """For whoever wants to look: RELAY_SHOTS names a folder."""
    if folder := os.environ.get("RELAY_SHOTS"):
        await page.wait_for_timeout(300)
        await page.screenshot(path=Path(folder) / f"{name}.png")


@dataclass
class Person:
    name: str
    room: Outside
    context: BrowserContext
    page: Page
    #: Exceptions of the page, and what its content security policy stopped.
    troubles: list[str] = field(default_factory=list)

    @classmethod
    async def arrive(cls, browser: Browser, room: Outside, name: str, **how: Any) -> Person:
        """With the name already given, signed in by a fresh link, and the line to the room live."""
        person = await cls.signed_out(browser, room, name, **how)
        await person.sign_in()
        return person

    @classmethod
    async def signed_out(cls, browser: Browser, room: Outside, name: str, **how: Any) -> Person:
        """A browser that has not opened anything yet."""
        context = await browser.new_context(**{"viewport": DESK, "locale": "en-GB", **how})
        context.set_default_timeout(PATIENCE)
        if name:
            script = f"localStorage.getItem('relay.name') || localStorage.setItem('relay.name', {name!r})"
            await context.add_init_script(script)
        person = cls(name, room, context, await context.new_page())
        person.page.on("pageerror", lambda error: person.troubles.append(f"threw: {error}"))
        person.page.on("console", lambda said: person._noted(said.type, said.text))
        return person

    def _noted(self, kind: str, text: str) -> None:
        if kind == "error" and not _NETWORK.search(text):
            self.troubles.append(text)

    async def sign_in(self) -> str:
        """By a new link, which is returned."""
        status, told = await self.room.ask("POST", "/api/links")
        assert status == 200, told
        await self.page.goto(told["url"])
        await self.is_live()
        return str(told["url"])

    async def leave(self) -> None:
        troubles = list(self.troubles)
        await self.context.close()
        assert not troubles, troubles

    async def is_live(self) -> None:
        await expect(self.page.get_by_test_id("connection")).to_have_attribute("data-state", "live")

    async def reload(self) -> None:
        await self.page.reload()
        await self.is_live()

    # -- the room

    @property
    def composer(self) -> Locator:
        return self.page.get_by_test_id("composer")

    async def say(self, text: str) -> Locator:
        """Post; the entry as it stands in the transcript."""
        await self.composer.fill(text)
        await self.composer.press("Enter")
        return await self.sees(text, self.name)

    async def sees(self, text: str | re.Pattern[str], speaker: str = "") -> Locator:
        """The newest entry with this text."""
        entry = self.entries(text, speaker).last
        await expect(entry).to_be_visible()
        return entry

    async def unfolds(self, text: str, speaker: str) -> Locator:
        """The newest entry with this text, taken out of the line that it is folded into."""
        line = self.page.get_by_test_id("fold").filter(has_text=text).last
        await line.get_by_role("button").click()
        return await self.sees(text, speaker)

    def entries(self, text: str | re.Pattern[str] = "", speaker: str = "") -> Locator:
        # A command and its answer stand on one line until somebody opens it.
        found = self.page.locator('[data-testid="entry"], [data-testid="fold"]')
        if text:
            body = self.page.locator(".md, .plain").filter(has_text=text)
            found = found.filter(has=body)
        if speaker:
            # On a folded line the room's answer stands beside the command's author.
            found = found.and_(self.page.locator(f'[aria-label^="{speaker},"], [data-testid="fold"]'))
        return found

    def receipt(self, entry: Locator, agent: str) -> Locator:
        return entry.get_by_test_id("receipt").and_(self.page.locator(f'[data-agent="{agent}"]'))

    async def go(self, view: str) -> None:
        await open_view(self.page, view)
