"""Quiet in the room: what folds, what is told once, and what came since one left (docs/inbox.md)."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import expect

from tests.browser.axe import everywhere
from tests.browser.conftest import Come
from tests.browser.person import Person, shot
from tests.fakes.ollama import FakeOllama, by_words
from tests.outside import Outside

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

#: The visit that ended last ended ten minutes ago.
LONG_AGO = "localStorage.setItem('relay.looked', String(Date.now() - 600_000))"


async def test_a_command_and_its_answer_stand_on_one_line(ann: Person, house: Outside) -> None:
    page = ann.page
    for title in ("Sweep the yard", "Mend the gate"):
        await house.post(f"/task {title}", "ben")
        await house.until_said(title, speaker="RELAY")
    asked = await house.post("/tasks", "ben")
    answer = await house.reply_to(asked["id"], "RELAY")
    line = page.get_by_test_id("fold").and_(page.locator(f'[data-number="{asked["number"]}"]'))
    await expect(line).to_contain_text(re.compile(r"ben\s*/tasks · .* more lines"))
    assert await page.locator(f"#e-{answer['id']}").count() == 0
    await shot(page, "quiet-fold-light")
    # By keyboard: opened, and folded again.
    await line.get_by_role("button").focus()
    await page.keyboard.press("Enter")
    told = page.locator(f"#e-{answer['id']}")
    await expect(told).to_contain_text("Mend the gate")
    await page.get_by_test_id("fold-close").last.click()
    await expect(told).to_have_count(0)
    # What leads to the answer opens it.
    await page.evaluate(f"location.hash = '#m{answer['number']}'")
    await expect(told).to_be_focused()
    # What one typed oneself stands open while one reads it, and is a line at the next visit.
    await ann.say("/tasks")
    command = await house.until_said("/tasks", speaker="ann")
    mine = await house.reply_to(command["id"], "RELAY")
    await expect(page.locator(f"#e-{mine['id']}")).to_be_visible()
    await page.goto(f"{house.url}/#/room")
    await ann.reload()
    await expect(page.get_by_test_id("fold").last).to_contain_text("ann /tasks")
    await expect(page.locator(f"#e-{mine['id']}")).to_have_count(0)


async def test_a_skip_is_told_once(ann: Person, house: Outside) -> None:
    asked = await ann.say("@GHOST are you there?")
    skipped = ann.receipt(asked, "GHOST")
    await expect(skipped).to_contain_text("skipped: ")
    notice = await house.until_said("GHOST does not answer", speaker="RELAY")
    await ann.say("@CODEX a word")
    await ann.sees("heard @CODEX a word", "CODEX")
    assert await ann.page.locator(f"#e-{notice['id']}").count() == 0
    # Its number leads to it all the same.
    await ann.page.evaluate(f"location.hash = '#m{notice['number']}'")
    await expect(ann.page.locator(f"#e-{notice['id']}")).to_contain_text("GHOST does not answer")


async def test_who_comes_back_is_told_what_came(come: Come, house: Outside, ollama: FakeOllama) -> None:
    ann = await come("ann")
    page = ann.page
    await ann.say("@CODEX I am off")
    await ann.sees("heard @CODEX I am off", "CODEX")
    await page.wait_for_function("() => localStorage.getItem('relay.read') !== null")
    await page.goto(f"{house.url}/health")
    await page.evaluate(LONG_AGO)
    for n in range(9):
        last = await house.post(f"@CODEX part{n} of the import fails with discount{n}.", "ben")
    for name in ("alexandra", "bartholomew", "constantine", "evangeline", "maximilian", "wilhelmina"):
        last = await house.post(f"@CODEX {name} waits for the import.", name)
    await house.until_job(last["id"], "CODEX", "done")
    await page.goto(house.url)
    await ann.is_live()
    since = page.get_by_test_id("since")
    await expect(since).to_contain_text(
        re.compile(r"Since you left, 10 min.*: \d\d messages: CODEX answered \d+, ben said 9")
    )
    await expect(page.get_by_test_id("new-line")).to_contain_text("New since")
    # On a phone it is two lines, and all of it once it is opened.
    size = page.viewport_size
    await page.set_viewport_size({"width": 390, "height": 844})
    line = since.locator("summary")
    folded = await line.evaluate("e => [e.clientHeight, parseFloat(getComputedStyle(e).lineHeight)]")
    assert folded[0] <= 2 * folded[1] + 1, folded
    await shot(page, "quiet-since-folded-390")
    await line.click()
    assert await line.evaluate("e => e.clientHeight") > 3 * folded[1]
    await shot(page, "quiet-since-opened-390")
    await line.click()
    assert size is not None
    await page.set_viewport_size(size)
    # The model is asked when the box is opened; what it says of a message that nobody sent is not shown.
    points = [
        {"text": "The import fails with every discount.", "messages": [last["number"], 999_999]},
        {"text": "All of it is mended.", "messages": [999_999]},
    ]
    ollama.decide = lambda asked: (
        {"points": points} if "points" in asked["format"]["properties"] else by_words(asked)
    )
    await since.locator("summary").click()
    await expect(since).to_contain_text("In short, by llama3.2:latest:")
    worded = since.get_by_test_id("since-worded")
    await expect(worded).to_have_text(f"The import fails with every discount. m{last['number']}")
    ollama.decide = by_words
    await shot(page, "quiet-since-light")
    size = page.viewport_size
    assert await everywhere(page) == [] and size is not None
    await page.set_viewport_size(size)
    first = since.get_by_role("button", name=re.compile(r"^m\d+$")).first
    number = (await first.inner_text())[1:]
    await first.click()
    await expect(page.locator(f'.entry[data-number="{number}"]')).to_be_focused()
    await page.set_viewport_size({"width": 390, "height": 844})
    await shot(page, "quiet-since-390")
    await page.get_by_test_id("since-close").click()
    await expect(since).to_have_count(0)
    # A short absence, or little that came, is not summed up.
    await ann.reload()
    await expect(page.get_by_test_id("entry").last).to_be_visible()
    await expect(since).to_have_count(0)
