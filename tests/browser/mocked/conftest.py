"""The page in front of a mock room, for what a real one is hard to bring to: lost answers, lag, broken lines.

One event loop for all: the test drives both ends. The browser is the one of `tests/browser/conftest.py`.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest_asyncio
from playwright.async_api import Browser, Page, ViewportSize, async_playwright

from scripts.bench.mock_room import MockRoom
from tests.browser.person import ARGS, PATIENCE

OpenPage = Callable[..., Awaitable[Page]]


@pytest_asyncio.fixture(loop_scope="session")
async def room(built_page: Path) -> AsyncIterator[MockRoom]:
    mock = MockRoom()
    await mock.start()
    yield mock
    await mock.stop()


@pytest_asyncio.fixture(loop_scope="session")
async def open_page(chromium: Browser, room: MockRoom) -> AsyncIterator[OpenPage]:
    """`await open_page(name="ann", ...)`: a signed-in page in a profile of its own, live. It may complain of nothing.

    `name=None` = a first visit; `link` = the secret in the address; `path` follows the address; `wait=False` =
    do not wait for the live line; `script` = runs before the page's own.
    """
    async with opener(chromium, room) as opened:
        yield opened


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def drawing_chromium(built_page: Path) -> AsyncIterator[Browser]:
    """A browser that draws WebGL in software, whatever the machine has."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=os.environ.get("RELAY_CHROMIUM", "/usr/bin/chromium"),
            args=[*ARGS, "--use-angle=swiftshader", "--enable-unsafe-swiftshader"],
        )
        yield browser
        await browser.close()


@pytest_asyncio.fixture(loop_scope="session")
async def open_drawing(drawing_chromium: Browser, room: MockRoom) -> AsyncIterator[OpenPage]:
    """As `open_page`, with WebGL."""
    async with opener(drawing_chromium, room) as opened:
        yield opened


@asynccontextmanager
async def opener(chromium: Browser, room: MockRoom) -> AsyncIterator[OpenPage]:
    complaints: list[str] = []
    contexts = []

    async def opened(
        *,
        name: str | None = "ann",
        link: str | None = None,
        path: str = "",
        size: tuple[int, int] = (1200, 800),
        scheme: str = "light",
        wait: bool = True,
        script: str = "",
    ) -> Page:
        secret = link or f"secret-{len(contexts)}"
        if link is None:
            room.links.add(secret)
        view: ViewportSize = {"width": size[0], "height": size[1]}
        context = await chromium.new_context(
            viewport=view, color_scheme="dark" if scheme == "dark" else "light"
        )
        contexts.append(context)
        context.set_default_timeout(PATIENCE)
        if name:
            remember = f"localStorage.getItem('relay.name') ?? localStorage.setItem('relay.name', '{name}')"
            await context.add_init_script(remember)
        if script:
            await context.add_init_script(script)
        page = await context.new_page()
        page.on("pageerror", lambda error: complaints.append(f"uncaught: {error}"))
        page.on(
            "console",
            lambda said: complaints.append(said.text) if "Content Security Policy" in said.text else None,
        )
        await page.goto(f"{room.url}/#link={secret}")
        if wait:
            await page.locator('[data-testid="connection"][data-state="live"]').wait_for()
        if path:
            await page.goto(f"{room.url}/{path}")
        return page

    try:
        yield opened
    finally:
        for context in contexts:
            await context.close()
    assert complaints == []
