"""Who holds what, and who is here: the locks view, live, and a person's forced release."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from playwright.async_api import Locator, Page, expect

from scripts.bench.mock_room import MockRoom
from tests.browser.mocked.conftest import OpenPage
from tests.browser.person import open_view
from tests.browser.test_look import PALE, UNNAMED

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


def row(page: Page, path: str) -> Locator:
    return page.locator(f'[data-testid="lock"][data-path="{path}"]')


def need(task: dict[str, Any]) -> dict[str, Any]:
    return {"id": task["id"], "number": task["number"]}


async def go(page: Page) -> None:
    await open_view(page, "locks")


async def test_locks_come_and_go_by_themselves(room: MockRoom, open_page: OpenPage) -> None:
    # The browser's clock is two hours behind the room's: what counts is the room's.
    room.held.ahead = timedelta(hours=2)
    room.held.lock("src/app.py", "CLAUDE", reason="a new door", acquired_at=room.held.at(-120))
    room.held.wait("src/app.py", "CODEX", 12)
    room.held.lock("docs/**", "GEMINI", kind="glob", mode="shared")
    page = await open_page()
    await expect(page.get_by_test_id("tab-locks")).to_contain_text("2")
    await page.get_by_test_id("tab-agents").click()
    await page.get_by_test_id("holds").get_by_text("holds 1 lock").click()
    await expect(row(page, "src/app.py")).to_contain_text("CLAUDE")
    await expect(row(page, "src/app.py")).to_contain_text("a new door")
    await expect(row(page, "src/app.py")).to_contain_text("2 min ago")
    await expect(row(page, "src/app.py").get_by_test_id("left")).to_contain_text("29:")
    await expect(row(page, "src/app.py").get_by_test_id("waiting")).to_contain_text("CODEX waits")
    await expect(row(page, "docs/**")).to_contain_text("pattern")
    await expect(row(page, "docs/**")).to_contain_text("shared")
    # Another process takes one, and lets one go; a third lapses without a word.
    room.held.lock("src/b.py", "CODEX", 3.5)
    await expect(row(page, "src/b.py").get_by_test_id("left")).to_have_class("left soon")
    room.held.release("docs/**")
    await expect(row(page, "docs/**")).to_have_count(0)
    await expect(row(page, "src/b.py")).to_have_count(0)
    # One whose lease was extended without a word is looked up before it is given up.
    lock = room.held.lock("src/c.py", "CODEX", 2)
    room.held.locks = [
        one | {"expires_at": room.held.at(600)} if one is lock else one for one in room.held.locks
    ]
    await expect(row(page, "src/c.py").get_by_test_id("left")).to_contain_text("9:")
    assert [frame["type"] for frame in room.log if frame["type"] == "entry"] == []


async def test_a_session_ends_and_its_locks_are_free(room: MockRoom, open_page: OpenPage) -> None:
    page = await open_page()
    await go(page)
    await expect(page.get_by_test_id("no-locks")).to_contain_text("relay mcp install")
    room.held.session("CLAUDE", claims=1)
    room.held.lock("src/app.py", "CLAUDE")
    session = page.get_by_test_id("session")
    await expect(session).to_contain_text("CLAUDE")
    await expect(session).to_contain_text("a process")
    await expect(session).to_contain_text("1 lock, 1 task")
    await expect(row(page, "src/app.py")).to_be_visible()
    room.held.session("CLAUDE", "ended", end_reason="not heard from")
    await expect(row(page, "src/app.py")).to_have_count(0)
    await expect(session).to_contain_text("ended just now")
    await expect(session).to_contain_text("not heard from")
    # What changed while the line was down is read when it is back.
    room.down = True
    await room.drop_clients()
    room.held.locks = []
    room.held.lock("src/later.py", "CODEX")
    room.log.pop()
    room.down = False
    await expect(row(page, "src/later.py")).to_be_visible()


async def test_a_person_takes_a_lock_with_a_reason(room: MockRoom, open_page: OpenPage) -> None:
    room.held.lock("src/app.py", "CLAUDE", reason="a new door")
    room.held.wait("src/app.py", "CODEX", 12)
    page = await open_page()
    await go(page)
    await row(page, "src/app.py").get_by_test_id("release").click()
    dialog = page.get_by_test_id("release-dialog")
    await expect(dialog).to_contain_text("CLAUDE holds it alone")
    await expect(dialog).to_contain_text("The room tells CLAUDE, with your name and reason. CODEX waits")
    await expect(dialog.get_by_test_id("release-reason")).to_be_focused()
    await expect(dialog.get_by_test_id("release-now")).to_be_disabled()
    await page.keyboard.type("it's mine")
    room.held.refusal = "Nobody holds `src/app.py`."
    await page.keyboard.press("Enter")
    await expect(dialog.get_by_role("alert")).to_contain_text("Nobody holds src/app.py.")
    room.held.refusal = ""
    await page.keyboard.press("Enter")
    await expect(dialog).to_have_count(0)
    await expect(row(page, "src/app.py")).to_have_count(0)
    assert room.held.taken == [("src/app.py", "it's mine", "ann")]
    # One that is let go while the question stands is not asked for any more.
    room.held.lock("src/b.py", "CODEX")
    await row(page, "src/b.py").get_by_test_id("release").click()
    room.held.release("src/b.py")
    await expect(dialog).to_contain_text("CODEX does not hold it any more")
    await page.keyboard.press("Escape")
    await expect(dialog).to_have_count(0)


async def test_a_card_says_why_it_does_not_go_on(room: MockRoom, open_page: OpenPage) -> None:
    first = room.task("Build", task_type="build", priority=2, attempts=1, max_attempts=3)
    bad = room.task("Test", "done", badge="failed", assignee="CODEX", error_message="exit code 1")
    room.task("Ship", badge="blocked", depends_on=[need(first), need(bad)])
    page = await open_page()
    await page.get_by_test_id("tab-board").click()

    def card(title: str) -> Locator:
        return page.get_by_test_id("task").filter(has_text=title)

    await expect(card("Ship")).to_contain_text("waits for t1, t2 (failed)")
    await expect(card("Test")).to_contain_text("exit code 1")
    await card("Test").locator(".badge").hover()
    await expect(page.locator(".tooltip.on")).to_have_text("An agent said that it could not do it.")
    await expect(card("Build")).to_contain_text("buildP2")
    await expect(card("Build")).to_contain_text("1 of 3 attempts made")
    room.change_task(1, status="in_progress", assignee="CLAUDE", lease_until=room.held.at(1500), attempts=1)
    running = page.get_by_test_id("column-in_progress").get_by_test_id("task")
    await expect(running).to_contain_text("attempt 2 of 3")
    await expect(running).to_contain_text("lease 24:")
    await expect(running).to_contain_text("CLAUDE")
    room.held.story(
        2,
        ("ann", "submitted", ""),
        ("CODEX", "claimed", ""),
        ("CODEX", "failed", "exit code 1"),
        input_data={"suite": "unit"},
        result="<b>3 failed</b>",
    )
    await card("Test").focus()
    await page.keyboard.press("Space")
    dialog = page.get_by_test_id("task-dialog")
    await expect(dialog.get_by_test_id("task-error")).to_have_text("exit code 1")
    await expect(dialog.get_by_test_id("task-input")).to_contain_text("suite: unit")
    await expect(dialog.get_by_test_id("task-result")).to_have_text("<b>3 failed</b>")
    await expect(dialog.get_by_test_id("task-history").locator("li")).to_have_count(3)
    await dialog.get_by_test_id("reopen").click()
    await expect(page.get_by_test_id("column-pending")).to_contain_text("Test")
    await page.keyboard.press("Escape")
    await expect(dialog).to_have_count(0)


async def test_thousands_of_tasks_do_not_slow_the_board_down(room: MockRoom, open_page: OpenPage) -> None:
    first = room.task("First")
    at = first["created_at"]
    room.tasks += [
        first
        | {"id": f"t{n}", "number": n, "title": f"Task {n}", "badge": "blocked", "depends_on": [need(first)]}
        for n in range(2, 5002)
    ]
    page = await open_page()
    await page.get_by_test_id("tab-board").click()
    pending = page.get_by_test_id("column-pending")
    await expect(pending.get_by_test_id("task")).to_have_count(100)
    await expect(pending.get_by_test_id("task").first).to_contain_text("First")
    await pending.get_by_role("button", name="4,901 more").click()
    await expect(pending.get_by_test_id("task")).to_have_count(200)
    room.change_task(5001, badge=None, created_at=at, title="Free now", priority=1)
    await expect(pending.get_by_test_id("task").first).to_contain_text("Free now")


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_it_can_be_read_on_a_phone(room: MockRoom, open_page: OpenPage, scheme: str) -> None:
    room.held.session("CLAUDE", kind="given", session_id="a" * 120)
    room.held.lock("packages/" + "very-long-name/" * 12 + "app.py", "CLAUDE", 30, reason="w" * 300)
    room.held.lock("docs/**", "CODEX", kind="glob", mode="shared")
    room.held.wait("docs/**", "GEMINI", 12)
    room.held.session("GEMINI", "ended")
    room.task("Build", "done", badge="dead", note="n" * 300, task_type="t" * 60, attempts=3, max_attempts=3)
    room.held.story(1, ("ann", "submitted", ""), input_data={"x": "y" * 400}, result="z" * 400)
    page = await open_page(size=(360, 740), scheme=scheme)
    wide = "document.scrollingElement.scrollWidth - innerWidth"

    async def can_be_read() -> None:
        assert await page.evaluate(wide) <= 0
        assert await page.evaluate(UNNAMED) == []
        assert await page.evaluate(PALE) == []

    await go(page)
    await expect(row(page, "docs/**").get_by_test_id("waiting")).to_be_visible()
    await can_be_read()
    assert await page.locator(".locks-box").evaluate("(e) => e.scrollWidth - e.clientWidth") <= 0
    await row(page, "docs/**").get_by_test_id("release").click()
    await expect(page.get_by_test_id("release-dialog")).to_be_in_viewport()
    await can_be_read()
    await page.keyboard.press("Escape")
    await page.get_by_test_id("tab-board").click()
    await can_be_read()
    await page.get_by_test_id("task-open").click()
    await expect(page.get_by_test_id("task-result")).to_be_attached()
    await expect(page.get_by_test_id("reopen")).to_be_in_viewport()
    await can_be_read()
