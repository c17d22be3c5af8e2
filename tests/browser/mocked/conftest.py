"""The page in front of a mock room, for what a real one is hard to bring to: lost answers, lag, broken lines.

One event loop for all: the test drives both ends. The browser is the one of `tests/browser/conftest.py`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest_asyncio
from playwright.async_api import Browser, Page, ViewportSize

from tests.browser.mock_room import MockRoom
from tests.browser.person import PATIENCE

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
    do not wait for the live line.
    """
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

    yield opened
    for context in contexts:
        await context.close()
    assert complaints == []
