"""The board comes when something asks for it: the first load is as small with a full board as without one."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

from scripts.bench.mock_room import MockRoom
from tests.browser.mocked.conftest import OpenPage

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


async def test_the_board_is_read_when_something_asks_for_it(room: MockRoom, open_page: OpenPage) -> None:
    for number in range(1, 31):
        room.task(f"Task number {number}", "done" if number % 3 == 0 else "pending")
    room.change_task(5, status="in_progress", assignee="CLAUDE")
    room.say("ann", "See t9, and t900.")
    page = await open_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    await page.reload()
    # What the first screen says of tasks: how many are to be done, who has which, and what a number leads to.
    badge = page.get_by_test_id("tab-board").locator("em")
    await expect(badge).to_have_text("20")
    await expect(page.get_by_test_id("task-CLAUDE")).to_have_text("Has t5: Task number 5")
    link = page.locator("a[href='#t9']")
    await expect(link).to_be_visible()
    await expect(page.locator("a[href='#t900']")).to_have_count(0)
    # It goes on as tasks change, whoever has them.
    room.change_task(7, status="done")
    room.task("One more", assignee="CODEX")
    room.task("And one")
    await expect(badge).to_have_text("21")
    await expect(page.get_by_test_id("task-CODEX")).to_have_text("Has t31: One more")
    room.change_task(5, status="done")
    await expect(badge).to_have_text("20")
    await expect(page.get_by_test_id("task-CLAUDE")).to_have_count(0)
    assert not [url for url in asked if "/api/tasks" in url]
    await link.click()
    await expect(page.get_by_test_id("column-done").get_by_test_id("task")).to_have_count(12)
    await expect(page.get_by_test_id("column-pending").get_by_test_id("task")).to_have_count(20)
    room.change_task(8, status="done")
    await expect(page.get_by_test_id("column-done").get_by_test_id("task")).to_have_count(13)
    await expect(badge).to_have_text("19")
    # Read once, and again after a break alone.
    before = len([url for url in asked if url.endswith("/api/tasks")])
    await page.keyboard.press("Control+k")
    await page.get_by_test_id("search").fill("number 14")
    await expect(page.get_by_test_id("palette")).to_contain_text("Task number 14")
    assert len([url for url in asked if url.endswith("/api/tasks")]) == before
    await room.drop_clients()
    room.change_task(10, status="done")
    await expect(page.get_by_test_id("column-done").get_by_test_id("task")).to_have_count(14)
