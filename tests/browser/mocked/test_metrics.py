"""The metrics in the page: a card each, with target, number and definition; read when it opens, and not again."""

from __future__ import annotations

import pytest
from playwright.async_api import Locator, Page, expect

from scripts.bench.mock_room import MockRoom
from tests.browser.mocked.conftest import OpenPage
from tests.browser.test_look import PALE, UNNAMED

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


def card(page: Page, name: str) -> Locator:
    return page.locator(f'[data-testid="metric"][data-metric="{name}"]')


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_each_metric_says_what_it_is_of(room: MockRoom, open_page: OpenPage, scheme: str) -> None:
    room.metrics.values |= {
        "lock_conflicts": (2, 6),
        "first_pass": (0.9, 10),
        "landed_change_cost": (0.75, 2),
    }
    page = await open_page(scheme=scheme)
    await page.get_by_test_id("tab-metrics").click()
    await expect(page.get_by_test_id("metric")).to_have_count(9)
    conflicts = card(page, "lock_conflicts")
    await expect(conflicts.locator(".metric-value")).to_have_text("2")
    await expect(conflicts.locator(".metric-facts")).to_have_text("target 0missedn = 6 merges tried")
    await expect(conflicts).to_contain_text("failed for a conflict; each try counts.")
    await expect(card(page, "first_pass").locator(".metric-facts")).to_contain_text("target > 80 %met")
    await expect(card(page, "landed_change_cost").locator(".metric-value")).to_have_text("$0.75")
    nothing = card(page, "task_completion")
    await expect(nothing).to_contain_text("nothing to measure yet")
    await expect(nothing.locator(".metric-met, .metric-missed")).to_have_count(0)
    assert await page.evaluate(UNNAMED) == []
    assert await page.evaluate(PALE) == []
    assert room.metrics.asked == [""]


async def test_a_window_is_chosen_and_the_address_leads_there(room: MockRoom, open_page: OpenPage) -> None:
    page = await open_page(path="#/metrics")
    await expect(page.get_by_text("since the beginning of the log")).to_be_visible()
    await page.get_by_test_id("metrics-7").click()
    await expect(page.get_by_text("since 2026-11-16, 00:00 UTC")).to_be_visible()
    await expect(page.get_by_test_id("metrics-7")).to_have_attribute("aria-pressed", "true")
    await page.keyboard.press("g")
    await page.keyboard.press("b")
    await page.keyboard.press("g")
    await page.keyboard.press("f")
    await expect(page.get_by_test_id("metric")).to_have_count(9)
    assert room.metrics.asked == ["", "7", ""]
