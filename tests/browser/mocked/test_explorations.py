"""A task done in several ways, in the page: cards with budgets, the comparison, differences, and the choice."""

from __future__ import annotations

import pytest
from playwright.async_api import Locator, Page, expect

from scripts.bench.mock_explorations import variant
from scripts.bench.mock_room import MockRoom
from tests.browser.mocked.conftest import OpenPage
from tests.browser.test_look import PALE, UNNAMED

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

DIFF = """\
diff --git a/cache.py b/cache.py
index 1111111..2222222 100644
--- a/cache.py
+++ b/cache.py
@@ -1 +1 @@
-none = 1
+{name} = 1
"""


def card(page: Page, name: str) -> Locator:
    return page.locator(f'[data-testid="variant"][data-variant="{name}"]')


def explored(room: MockRoom) -> None:
    room.explorations.add(
        variant(
            "redis",
            "CLAUDE",
            resource_usage={"seconds": 45.0, "tokens": 6200, "tool_calls": 30, "cost_usd": 0.85},
        ),
        variant(
            "memcached",
            "CODEX",
            status="budget_exceeded",
            which="max_cost_usd",
            weighted_score=None,
            passing=None,
            metrics={},
            resource_usage={"seconds": 52.0, "tokens": 9800, "tool_calls": 12, "cost_usd": 2.01},
        ),
        variant(
            "in-memory",
            "GEMINI",
            resource_usage={"seconds": 22.0, "tokens": None, "tool_calls": 4, "cost_usd": None},
        ),
        recommendation="in-memory has the highest score, 1.000.",
    )
    for name in ("redis", "memcached", "in-memory"):
        room.explorations.diffs[name, ""] = DIFF.format(name=name.replace("-", "_"))
    room.explorations.diffs["in-memory", "redis"] = DIFF.format(name="other")


async def test_a_person_sees_what_each_uses_and_takes_one_with_a_file_of_another(
    room: MockRoom, open_page: OpenPage
) -> None:
    explored(room)
    page = await open_page()
    await page.get_by_test_id("tab-explore").click()
    redis = card(page, "redis")
    await expect(redis.get_by_test_id("bar-max_duration_seconds")).to_contain_text("45 s / 1:00")
    await expect(redis.get_by_role("meter", name="Dollars used by redis")).to_have_attribute(
        "aria-valuenow", "0.85"
    )
    await expect(card(page, "memcached")).to_contain_text("stopped at its budget: dollars")
    await expect(card(page, "memcached").get_by_test_id("bar-max_cost_usd")).to_have_class("meter spent")
    await expect(card(page, "in-memory").get_by_test_id("bar-max_cost_usd")).to_contain_text(
        "unknown / $2.00"
    )
    await expect(page.get_by_test_id("comparison")).to_contain_text("not run")
    assert await page.evaluate(UNNAMED) == []
    assert await page.evaluate(PALE) == []

    await card(page, "redis").get_by_test_id("variant-diff").click()
    await expect(page.get_by_test_id("variant-difference")).to_contain_text("redis = 1")
    await page.get_by_test_id("take-file").check()
    await card(page, "in-memory").get_by_test_id("variant-diff").click()
    await page.get_by_test_id("diff-against").select_option("redis")
    await expect(page.get_by_test_id("variant-difference")).to_contain_text("other = 1")
    take = card(page, "in-memory").get_by_test_id("variant-take")
    await expect(take).to_have_text("Take this one, with 1 file of others")
    await expect(card(page, "redis").get_by_test_id("variant-take")).to_have_text("Take this one")
    await take.click()
    await expect(page.get_by_test_id("exploration")).to_have_attribute("data-state", "done")
    await expect(card(page, "in-memory")).to_contain_text("winner")
    (asked,) = room.explorations.asked
    assert asked == {"name": "ann", "answer": "take", "variant": "in-memory", "files": ["cache.py=redis"]}


async def test_what_a_variant_uses_grows_while_somebody_looks(room: MockRoom, open_page: OpenPage) -> None:
    usage = {"seconds": 1.0, "tokens": None, "tool_calls": 0, "cost_usd": None}
    working = variant("redis", "CLAUDE", status="in_progress", commit=None, resource_usage=usage)
    made = room.explorations.add(working, variant("b", "CODEX"), state="running")
    page = await open_page()
    await page.get_by_test_id("tab-explore").click()
    bar = card(page, "redis").get_by_test_id("bar-max_duration_seconds")
    await expect(bar).to_contain_text("1 s / 1:00")
    usage |= {"seconds": 50.0, "tokens": 9000}
    await expect(bar).to_have_class("meter near")
    await expect(card(page, "redis").get_by_test_id("bar-max_tokens")).to_contain_text("9.0k / 10k")
    made["state"] = "ended"
    await expect(page.get_by_test_id("exploration")).to_have_attribute("data-state", "ended")


async def test_a_room_that_explored_nothing_has_no_tab_and_says_how(
    room: MockRoom, open_page: OpenPage
) -> None:
    page = await open_page()
    await expect(page.get_by_test_id("tab-memory")).to_be_visible()
    await expect(page.get_by_test_id("tab-explore")).to_have_count(0)
    await page.keyboard.press("g")
    await page.keyboard.press("x")
    await expect(page.get_by_text("Nothing was explored yet")).to_be_visible()
