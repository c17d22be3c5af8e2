"""The page by keyboard alone, what a reader of the screen is told, and WCAG 2.2 AA by axe-core in a real room.

Views that are full of everything stand in front of a mock room: tests/browser/mocked/test_accessible.py. What is
merged and landed is looked at where its tests bring it to be: test_conflicts.py and test_landing_page.py.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, expect

from tests.browser.axe import everywhere
from tests.browser.conftest import Come
from tests.browser.person import Person
from tests.browser.test_look import FOCUS_SEEN, lively
from tests.outside import Outside, agent, room, settings

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

VIEWS = ("room", "needs", "board", "agents", "queue", "locks", "timeline", "memory", "worktrees")
ASKS = '- match: "which|The table"\n  say: "Which of the two do you **want**?"\n- say: It is done.\n'
FAILS = "- fail: crash\n  detail: The disk is full.\n"
#: Every sentence that the page's polite region was given.
LISTEN = """() => {
  window.heard = [];
  const region = document.querySelector('[data-testid=said]');
  const all = { childList: true, characterData: true, subtree: true };
  new MutationObserver(() => heard.push(region.textContent)).observe(region, all);
}"""
#: Regions that speak by themselves, those of a view or a dialog that a person opened left out.
SPEAKING = """[...document.querySelectorAll('[aria-live], [role=status], [role=alert], [role=log]')]
  .filter((e) => e.getAttribute('aria-live') !== 'off' && !e.closest('.view, dialog')).map((e) => e.dataset.testid)"""
#: Buttons of entries that, in focus, lie below the button that leads to the newest.
COVERED_BY_JUMP = """() => [...document.querySelectorAll('.transcript .entry-actions button')].filter((one) => {
  one.focus();
  const box = one.getBoundingClientRect();
  return document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2)?.closest('.jump');
}).map((one) => one.ariaLabel)"""


@pytest.mark.parametrize("view", VIEWS)
async def test_axe_finds_nothing_in(come: Come, house: Outside, view: str) -> None:
    if view == "room":
        await lively(house)
    ann = await come("ann")
    await ann.go(view)
    await ann.page.wait_for_load_state("networkidle")
    found = await everywhere(ann.page)
    assert not found, "\n".join(found)


async def tab_to(page: Page, testid: str) -> None:
    """By the Tab key, as far as it takes, and one sees where one is."""
    wanted = page.get_by_test_id(testid).first
    for _ in range(80):
        if await wanted.evaluate("(e) => e === document.activeElement"):
            return
        await page.keyboard.press("Tab")
        # Behind the last one the browser's own controls come, and then the page's first.
        if await page.evaluate("document.activeElement !== document.body"):
            assert await page.evaluate(FOCUS_SEEN) == ""
    raise AssertionError(f"Tab does not come to {testid}")


async def test_all_of_it_by_keyboard(chromium: Browser, tmp_path: Path) -> None:
    folder = tmp_path / "room"
    folder.mkdir()
    for name, script in (("asks", ASKS), ("fails", FAILS)):
        (folder / f"{name}.yaml").write_text(script)
    agents = [agent("AVA", "asks.yaml"), agent("CLEO", "fails.yaml")]
    circuit = {"circuit_breaker": {"failure_threshold": 1, "reset_timeout": 600}}
    async with room(folder, settings(*agents, locks=circuit, queue={"max_attempts": 1})) as house:
        await house.start()
        ann = await Person.signed_out(chromium, house, "")
        page, keys = ann.page, ann.page.keyboard
        await page.goto(house.url)
        # In, by the key of the room, and with a name.
        await expect(page.get_by_test_id("sign-in")).to_be_visible()
        await tab_to(page, "token")
        await keys.type((folder / ".relay" / "token").read_text().strip())
        await keys.press("Enter")
        await expect(page.get_by_test_id("name")).to_be_focused()
        await keys.type("ann")
        await keys.press("Enter")
        await ann.is_live()
        await page.evaluate(LISTEN)
        # Write.
        await keys.press("c")
        await expect(ann.composer).to_be_focused()
        await keys.type("@AVA which of them?")
        await keys.press("Enter")
        await ann.sees("Which of the two", "AVA")
        await expect(page.get_by_test_id("said")).to_contain_text("AVA: Which of the two do you want?")
        await keys.type("@CLEO mend the build")
        await keys.press("Enter")
        # To the view, to a need, and its button.
        await keys.press("Escape")
        await expect(page.get_by_test_id("transcript")).to_be_focused()
        await keys.press("g")
        await keys.press("n")
        await expect(page.get_by_role("main")).to_be_focused()
        needs = page.get_by_test_id("need")
        await expect(needs.filter(has_text="Failed agent")).to_be_visible()
        await expect(needs.filter(has_text="Question")).to_be_visible()
        # What is put off is brought back from the toast, by the key that leads there.
        await tab_to(page, "act-later")
        await keys.press("Enter")
        await expect(page.get_by_test_id("toast").filter(has_text="gives no answer")).to_be_visible()
        await keys.press("u")
        await expect(page.get_by_role("button", name="Undo")).to_be_focused()
        await keys.press("Enter")
        await expect(needs.filter(has_text="Question")).to_be_visible()
        await tab_to(page, "act-answer")
        await keys.press("Enter")
        await expect(page.get_by_test_id("need-text")).to_be_focused()
        assert await page.evaluate(FOCUS_SEEN) == ""
        await keys.press("Escape")
        await expect(needs.filter(has_text="Question")).to_be_focused()
        await tab_to(page, "act-answer")
        await keys.press("Enter")
        await keys.type("The table.")
        await keys.press("Enter")
        toast = page.get_by_test_id("toast").last
        await expect(toast).to_contain_text("Said to AVA")
        # The focus is not lost with the button: it is in the view.
        await page.wait_for_function("() => document.activeElement.closest('[data-testid=needs-view]')")
        assert await page.evaluate(FOCUS_SEEN) == ""
        # The toast covers nothing: neither the view's box nor, in the room, where one writes and what is newest.
        await keys.press("g")
        await keys.press("r")
        await expect(page.get_by_test_id("entry").last).to_be_in_viewport()
        if box := await toast.bounding_box():
            for other in (ann.composer, page.get_by_test_id("entry").last, page.get_by_test_id("transcript")):
                there = await other.bounding_box()
                assert there and (
                    there["y"] + there["height"] <= box["y"] or box["y"] + box["height"] <= there["y"]
                )
        # A dialog, and back to where it was opened from.
        await tab_to(page, "open-search")
        await keys.press("Enter")
        await expect(page.get_by_test_id("search")).to_be_focused()
        await keys.press("Escape")
        await expect(page.get_by_test_id("palette")).to_have_count(0)
        await expect(page.get_by_test_id("open-search")).to_be_focused()
        # From a button of an entry to the next entry, and from an old one to the newest.
        entry = page.get_by_test_id("entry")
        await tab_to(page, "answer-beside")
        await keys.press("j")
        await expect(entry.nth(1)).to_be_focused()
        await keys.press("End")
        await expect(page.locator(".entry[id]").last).to_be_focused()
        # One region speaks, and what it says is short.
        assert await page.evaluate(SPEAKING) == ["said"]
        for one in await page.evaluate("heard"):
            assert len(one) < 400 and not re.search(r"\*\*|`", one), one
        await ann.leave()


async def test_a_burst_is_one_sentence(come: Come, house: Outside) -> None:
    ann = await come("ann")
    await ann.page.evaluate(LISTEN)
    for number in range(12):
        await house.post(f"{number} of many", "ben")
    await ann.sees("11 of many", "ben")
    await ann.page.wait_for_function(r"() => heard.join(' ').match(/\d+ new messages: .*ben \d+/)")
    said = await ann.page.evaluate("heard.length")
    assert said <= 4, await ann.page.evaluate("heard")
    # Older rows that come in while one scrolls are not told.
    await ann.page.get_by_test_id("transcript").evaluate("(e) => { e.scrollTop = 0; }")
    await expect(ann.page.get_by_test_id("jump-latest")).to_be_visible()
    # The button that leads to the newest covers nothing that the focus comes to.
    assert await ann.page.evaluate(COVERED_BY_JUMP) == []
    log = ann.page.get_by_role("log")
    await expect(log).to_have_attribute("aria-live", "off")
