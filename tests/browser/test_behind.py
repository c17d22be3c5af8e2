"""Two agents' work is joined, and the page shows beside each line of the landed change who is behind it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Page, expect

from tests.browser.conftest import Come
from tests.browser.person import shot
from tests.browser.test_conflicts import script
from tests.e2e.test_worktrees import in_git
from tests.git.repository import commit
from tests.outside import Outside, agent, eventually, room, settings

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

BASE = '"""Where things are."""\n\nfrom os import path\n\n\ndef here():\n    return path.curdir\n'
AVA = BASE.replace("import path", "import path, sep") + "\n\ndef parts(name):\n    return name.split(sep)\n"
BEN = (
    BASE.replace("import path", "import getcwd, path")
    + "\n\ndef there():\n    return path.join(getcwd(), 'there')\n"
)


@pytest_asyncio.fixture(loop_scope="session")
async def joined(tmp_path: Path) -> AsyncIterator[tuple[Outside, int]]:
    """AVA's and BEN's work have landed, BEN's joined; the number of the event that says so of the main branch."""
    config = settings(agent("AVA", "a.yaml"), agent("BEN", "b.yaml"), airspace={"enabled": False})
    async with room(tmp_path / "joined", config) as one:
        for file, text in (("a.yaml", AVA), ("b.yaml", BEN)):
            (one.folder / file).write_text(script(text, text))
        in_git(one.folder)
        ignored = (one.folder / ".gitignore").read_text().replace("*.py", "/*.py")
        commit(one.folder, {".gitignore": ignored, "src/cart.py": BASE})
        await one.start()
        for text in ("@AVA please split names", "@BEN please say where it is"):
            posted = await one.post(text)
            await one.reply_to(posted["id"], text[1:4])
        status, done = await one.ask("POST", "/api/worktrees/AVA/merge", json={"name": "ann"})
        assert (status, done["success"]) == (200, True), done
        status, shown = await one.ask("GET", "/api/worktrees/BEN/merge?method=merge&name=ann")
        assert status == 200 and shown["joined"], shown
        seen = {"name": "ann", "joined": shown["tree"]}
        status, done = await one.ask("POST", "/api/worktrees/BEN/merge", json=seen)
        assert (status, done["success"]) == (200, True), done

        async def landed() -> int:
            found: list[Any] = (await one.get("/api/timeline?path=src/cart.py&type=files.changed"))["events"]
            for event in reversed(found):
                whole = await one.get(f"/api/timeline/events/{event['number']}")
                if whole["outputs"].get("commit") == done["commit"]:
                    return int(event["number"])
            return 0

        yield one, await eventually(landed, "the merge is recorded of the main branch")


async def marks(page: Page) -> dict[str, str]:
    """The kind of mark by the line's text."""
    found: dict[str, str] = await page.evaluate(
        "() => Object.fromEntries([...document.querySelectorAll('[data-testid=behind]')].map("
        "(mark) => [mark.parentElement.querySelector('code').textContent, mark.dataset.kind + ' ' + mark.innerText]))"
    )
    return {line: " ".join(mark.split()) for line, mark in found.items()}


async def test_each_line_of_a_landed_change_says_who_is_behind_it(
    joined: tuple[Outside, int], come: Come
) -> None:
    one, number = joined
    for scheme, width in (("light", 1280), ("dark", 1280), ("light", 390)):
        ann = await come("ann", one, color_scheme=scheme, viewport={"width": width, "height": 900})
        page = ann.page
        await page.goto(f"{page.url.partition('#')[0]}#/timeline?event={number}")
        await expect(page.get_by_test_id("tl-event-panel")).to_have_attribute("data-number", str(number))
        await page.get_by_test_id("tl-lines").click()
        await expect(page.get_by_test_id("behind").first).to_be_visible()
        await page.get_by_test_id("behind").first.scroll_into_view_if_needed()
        await shot(page, f"behind-{width}-{scheme}")
        told = await marks(page)
        assert told["from os import getcwd, path, sep"].startswith("merged ◐")
        assert told["def there():"].startswith("agent ●") and told["def here():"].startswith("person ○")
        if width > 1000:
            assert told["from os import getcwd, path, sep"] == "merged ◐ both, BEN"
        # The whole file at that moment has the same.
        await page.goto(f"{page.url.partition('#')[0]}#/timeline?at={number}")
        await page.get_by_test_id("tl-moment").get_by_role("button", name="src/").click()
        await page.get_by_test_id("tl-moment").get_by_role("button", name="cart.py").click()
        await expect(page.get_by_test_id("tl-file").get_by_test_id("behind").first).to_be_visible()
        await shot(page, f"behind-file-{width}-{scheme}")
        assert (await marks(page))["def parts(name):"].startswith("agent ●")
