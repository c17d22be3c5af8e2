"""The inbox in the page: what needs a person comes, is acted on with one click, and is gone (docs/inbox.md)."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from playwright.async_api import Browser, Locator, expect

from tests.browser.person import Person
from tests.outside import agent, room, settings

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

ASKS = '- say: "Which of the two do you **want**?"\n'
FAILS = "- fail: crash\n  detail: The disk is full.\n"
WORKS = "- say: It is done.\n"


def need(person: Person, kind: str) -> Locator:
    return person.page.get_by_test_id("need").and_(person.page.locator(f'[data-kind="{kind}"]'))


async def test_each_need_has_its_buttons_and_is_gone_when_it_is_settled(
    chromium: Browser, tmp_path: Path
) -> None:
    folder = tmp_path / "room"
    folder.mkdir()
    for name, script in (("asks", ASKS), ("fails", FAILS), ("works", WORKS)):
        (folder / f"{name}.yaml").write_text(script)
    agents = [
        agent("AVA", "asks.yaml"),
        agent("BEN", "works.yaml", budget={"turns_per_hour": 1}),
        agent("CLEO", "fails.yaml"),
    ]
    circuit = {"circuit_breaker": {"failure_threshold": 1, "reset_timeout": 600}}
    async with room(folder, settings(*agents, locks=circuit, queue={"max_attempts": 1})) as house:
        await house.start()
        ann = await Person.arrive(chromium, house, "ann", viewport={"width": 390, "height": 844})
        page, badge = ann.page, ann.page.get_by_test_id("tab-needs").locator("em")
        await ann.go("needs")
        await expect(page.get_by_test_id("needs-empty")).to_be_visible()
        await expect(badge).to_have_count(0)

        await house.post("@AVA keep the visits")
        await expect(need(ann, "question")).to_contain_text("Which of the two do you want?")
        await expect(badge).to_have_text("1")
        await expect(page).to_have_title(re.compile("^1 needs you"))
        await need(ann, "question").get_by_test_id("act-answer").click()
        field = need(ann, "question").get_by_test_id("need-text")
        await expect(field).to_be_focused()
        await page.keyboard.press("Escape")
        await expect(field).to_have_count(0)
        await need(ann, "question").get_by_test_id("act-answer").click()
        await field.fill("The table.")
        await field.press("Enter")
        await expect(page.get_by_test_id("toast").last).to_contain_text("Said to AVA")
        await house.until_said("/steer @AVA The table.", speaker="ann")

        failing = await house.post("@CLEO mend the build")
        await expect(need(ann, "failed_agent")).to_contain_text("The disk is full.")
        await need(ann, "failed_agent").get_by_test_id("act-give-BEN").click()
        await house.reply_to(failing["id"], "BEN")
        await need(ann, "failed_agent").get_by_test_id("need-open").click()
        await expect(page.get_by_test_id("agent-panel")).to_contain_text("CLEO")
        await page.get_by_role("button", name="Close").click()

        await need(ann, "budget").get_by_test_id("act-raise").click()
        await expect(need(ann, "budget")).to_have_count(0)
        assert json.loads(house.path.read_text())["agents"][1]["budget"] == {"turns_per_hour": 2}
        # Nothing sticks out of a phone's screen.
        wide = "document.documentElement.scrollWidth > innerWidth"
        assert not await page.evaluate(wide)
        await ann.leave()
