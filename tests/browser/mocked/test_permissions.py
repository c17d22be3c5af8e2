"""What agents ask leave for: seen from every view, answered once, gone when it is settled."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

from scripts.bench import airspace_scenes as scenes
from scripts.bench.mock_room import MockRoom
from tests.browser.mocked.conftest import OpenPage
from tests.browser.person import shot

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


async def test_a_request_is_seen_and_answered_from_anywhere(room: MockRoom, open_page: OpenPage) -> None:
    ann, ben = await open_page(), await open_page(name="ben")
    await ann.get_by_test_id("tab-board").click()
    room.air.ask(scenes.request(1, "CODEX"))
    for page, name in ((ann, "Board · payments · relay"), (ben, "payments · relay")):
        card = page.get_by_test_id("permission")
        await expect(card).to_contain_text("CODEX asks: Write src/checkout/session.py")
        await expect(card.locator("time")).to_contain_text("1:")
        await expect(page).to_have_title(f"CODEX asks · {name}")
    meta = {"notice": "permission", "agent": "CODEX", "permission": "ask-1", "request": "p1"}
    room.say("RELAY", "CODEX asks for permission: `x`. `/allow p1`", kind="system", meta=meta)
    await expect(ben.get_by_text("CODEX asks for permission")).to_be_visible()
    await expect(ben.get_by_test_id("request-over")).to_have_count(0)
    await ben.get_by_test_id("option-no").click()
    await expect(ben.get_by_test_id("toast")).to_contain_text(
        "CODEX: Reject “Write src/checkout/session.py”."
    )
    for page, name in ((ann, "Board · payments · relay"), (ben, "payments · relay")):
        await expect(page.get_by_test_id("permission")).to_have_count(0)
        await expect(page).to_have_title(name)
    assert room.air.decided == [("ask-1", "no")]
    # What the room said of it says so for whoever reads it later.
    await expect(ben.get_by_test_id("request-over")).to_have_text("This request is over.")


@pytest.mark.parametrize("size", [(1400, 900), (390, 844)])
async def test_a_request_shows_all_of_what_would_run(
    room: MockRoom, open_page: OpenPage, size: tuple[int, int]
) -> None:
    """Nothing of it is cut beside the buttons, also with a thread open."""
    room.say("ann", "@CODEX upgrade it")
    page = await open_page(size=size)
    command = "pip install --upgrade requests && rm -rf /tmp/cache-of-the-shop"
    options = scenes.request()["options"]
    options[1] = {**options[1], "name": "Always allow (as its program keeps it)"}
    title = "pip install --upgrade requests"
    room.air.ask(
        scenes.request(1, "CODEX", title=title, tool="execute", command=command, paths=[], options=options)
    )
    runs = page.get_by_test_id("asks-command")
    cut = "one => one.scrollWidth > one.clientWidth || one.scrollHeight > one.clientHeight"
    # On a phone the thread has the whole screen.
    for thread in (False, True)[: 2 if size[0] > 760 else 1]:
        if thread:
            await page.get_by_test_id("entry").first.focus()
            await page.get_by_test_id("answer-beside").first.click()
            await expect(page.get_by_test_id("thread")).to_be_visible()
        await expect(runs).to_have_text(command)
        await expect(runs).to_be_in_viewport(ratio=1)
        assert not await runs.evaluate(cut)
        await expect(page.get_by_test_id("option-once")).to_be_in_viewport(ratio=1)
        await expect(page.get_by_test_id("asks-more")).to_have_count(0)
        await shot(page, f"permission-command-{size[0]}{'-thread' if thread else ''}")


async def test_of_a_long_command_the_card_says_that_there_is_more(
    room: MockRoom, open_page: OpenPage
) -> None:
    for size in ((1400, 900), (390, 844)):
        page = await open_page(size=size)
        command = "npm test\n" * 30 + "rm -rf /"
        room.air.ask(scenes.request(size[0], "CODEX", tool="execute", command=command, paths=[]))
        runs, more = page.get_by_test_id("asks-command"), page.get_by_test_id("asks-more")
        await expect(more).to_be_in_viewport(ratio=1)
        await expect(page.get_by_test_id("option-once")).to_be_in_viewport(ratio=1)
        await shot(page, f"permission-long-{size[0]}")
        await runs.focus()
        await page.keyboard.press("End")
        await expect(more).to_have_count(0)
        room.air.settle(f"ask-{size[0]}")
        await page.close()


async def test_its_agent_asks_and_the_inbox_is_not_covered(room: MockRoom, open_page: OpenPage) -> None:
    page = await open_page()
    row = page.get_by_test_id("agent-CODEX")
    await expect(row).not_to_contain_text("asks you")
    asked = room.say("ann", "@CODEX do it")
    room.receipt(asked, "CODEX", "active", started_at=asked["ts"], attempts=1)
    receipt, job = page.get_by_test_id("receipt"), page.get_by_test_id("job")
    await expect(receipt).to_contain_text("working")
    room.air.ask(scenes.request(1, "CODEX"))
    await expect(page.get_by_test_id("permission")).to_be_visible()
    await expect(row).to_contain_text("asks you 1:")
    # Wherever its turn is shown, it is said to ask, not to work.
    await expect(receipt).to_contain_text("asks you 1:")
    await page.keyboard.press("g")
    await page.keyboard.press("q")
    await expect(job).to_contain_text("asks you 1:")
    await page.keyboard.press("g")
    await page.keyboard.press("n")
    await expect(page.get_by_test_id("needs-view")).to_be_visible()
    await expect(page.get_by_test_id("permission")).to_have_count(0)
    await page.get_by_test_id("tab-board").click()
    await page.get_by_test_id("permission").get_by_test_id("option-no").click()
    await expect(row).not_to_contain_text("asks you")
    await page.get_by_test_id("tab-queue").click()
    await expect(job).to_contain_text("working")


#: What a person works with that lies under the bar, of what stands beside it.
COVERED = """() => {
  const bar = document.querySelector(".asks-bar").getBoundingClientRect();
  return [...document.querySelectorAll("main .view, .transcript, .composer, .bottom-tabs, .side, .top, .chips")]
    .filter((one) => !one.querySelector(".asks-bar"))
    .filter((one) => {
      const box = one.getBoundingClientRect();
      const across = Math.min(box.right, bar.right) - Math.max(box.left, bar.left);
      return across > 1 && Math.min(box.bottom, bar.bottom) - Math.max(box.top, bar.top) > 1;
    })
    .map((one) => one.className);
}"""


@pytest.mark.parametrize("size", [(1400, 900), (390, 844)])
async def test_it_takes_room_and_covers_nothing(
    room: MockRoom, open_page: OpenPage, size: tuple[int, int]
) -> None:
    room.say("ben", "one")
    page = await open_page(size=size)
    for number in range(1, 6):
        room.air.ask(scenes.request(number, "CODEX"))
    bar = page.get_by_test_id("permissions")
    for view in [
        "room",
        "board",
        "agents",
        "queue",
        "airspace",
        "locks",
        "worktrees",
        "timeline",
        "memory",
        "landing",
        "metrics",
    ]:
        await page.goto(f"{room.url}/#/{view}")
        await expect(page.locator(f'main[data-view="{view}"] .view > *').first).to_be_visible()
        await expect(bar.get_by_test_id("permission")).to_have_count(5)
        assert await page.evaluate(COVERED) == [], view
        # Of many the bar is scrolled, and the view keeps most of the screen.
        assert await bar.evaluate("one => one.offsetHeight") <= 0.41 * size[1]
        await bar.get_by_test_id("option-no").last.scroll_into_view_if_needed()
        await expect(bar.get_by_test_id("option-no").last).to_be_in_viewport()
        await shot(page, f"asks-{view}-{size[0]}")


async def test_under_a_hand_no_card_moves(room: MockRoom, open_page: OpenPage) -> None:
    page = await open_page()
    await page.emulate_media(reduced_motion="reduce")
    room.air.ask(scenes.request(1, "CODEX"))
    room.air.ask(scenes.request(2, "CLAUDE"))
    cards, settled = page.get_by_test_id("permission"), page.get_by_test_id("permission-settled")
    second = page.locator('.asks[data-agent="CLAUDE"]')
    # Where it comes, it takes no press at first, also where nothing may move.
    allow = second.get_by_test_id("option-once")
    await allow.wait_for()
    first = page.locator('.asks[data-agent="CODEX"]').get_by_test_id("option-once")
    await expect(first).to_be_enabled()
    await first.hover()
    before = await second.bounding_box()
    room.air.settle("ask-1")
    await expect(settled).to_contain_text("settled")
    await expect(settled.get_by_test_id("option-once")).to_be_disabled()
    await expect(cards).to_have_count(1)
    assert await second.bounding_box() == before
    assert room.air.decided == []
    # The hand is gone, and so is the card; the other takes its place, and no press at first.
    await page.mouse.move(5, 5)
    await expect(settled).to_have_count(0)
    await allow.click()
    await expect(cards).to_have_count(0)
    assert room.air.decided == [("ask-2", "once")]
    # The same for who is in it with the keys.
    room.air.ask(scenes.request(3, "CODEX"))
    room.air.ask(scenes.request(4, "CLAUDE"))
    await expect(allow).to_be_enabled()
    await allow.focus()
    room.air.settle("ask-3")
    await expect(settled).to_have_count(1)
    await expect(allow).to_be_focused()
    await page.get_by_role("textbox", name="Message").focus()
    await expect(settled).to_have_count(0)


async def test_one_that_was_there_before_the_page(room: MockRoom, open_page: OpenPage) -> None:
    room.air.requests.append(scenes.request(1, "CODEX"))
    page = await open_page()
    await expect(page.get_by_test_id("permission")).to_be_visible()
    room.air.settle("ask-1")
    await expect(page.get_by_test_id("permission")).to_have_count(0)


async def test_in_the_panel_of_its_agent(room: MockRoom, open_page: OpenPage) -> None:
    room.air.requests.append(scenes.request(1, "CODEX"))
    page = await open_page()
    await page.get_by_test_id("agent-CODEX").click()
    card = page.get_by_test_id("agent-panel").get_by_test_id("permission")
    await expect(card).to_be_visible()
    await expect(page.get_by_test_id("permission")).to_have_count(1)
    await card.get_by_test_id("option-once").click()
    await expect(card).to_have_count(0)
    assert room.air.decided == [("ask-1", "once")]


async def test_an_open_task_hides_no_request(room: MockRoom, open_page: OpenPage) -> None:
    """It covers the view and its bar, in every view and also the inbox; so the bar stands in it."""
    task = room.task("Count the carts")
    page = await open_page(size=(1400, 900))
    card = page.get_by_test_id("permission")
    for number, view in enumerate(("board", "needs")):
        await page.goto(f"{room.url}/#/{view}?task={task['number']}")
        dialog = page.get_by_test_id("task-dialog")
        await expect(dialog).to_be_visible()
        room.air.ask(scenes.request(number, "CODEX"))
        await expect(card).to_have_count(1)
        await expect(card).to_be_in_viewport(ratio=1)
        await shot(page, f"permission-task-{view}-1400")
        await dialog.get_by_test_id("option-no").click()
        await expect(card).to_have_count(0)
        assert room.air.decided.pop() == (f"ask-{number}", "no")


async def test_when_its_time_is_over_it_goes(room: MockRoom, open_page: OpenPage) -> None:
    page = await open_page()
    room.air.ask(scenes.request(1, "CODEX", seconds=3))
    await expect(page.get_by_test_id("permission")).to_be_visible()
    await expect(page.get_by_test_id("permission")).to_have_count(0)


async def test_too_late_is_said(room: MockRoom, open_page: OpenPage) -> None:
    page = await open_page()
    room.air.ask(scenes.request(1, "CODEX"))
    card = page.get_by_test_id("permission")
    await expect(card).to_be_visible()
    # Answered elsewhere, and the page was not told of it yet.
    room.air.requests = []
    await card.get_by_test_id("option-once").click()
    await expect(page.get_by_test_id("toast")).to_contain_text("CODEX: The request was answered already.")
    await expect(card).to_have_count(0)
    assert room.air.decided == []


async def test_an_advisory_against_it_is_shown(room: MockRoom, open_page: OpenPage) -> None:
    scenes.shop(room.air)
    page = await open_page()
    room.air.ask(scenes.request(1, "CODEX", advisory="adv-1"))
    card = page.get_by_test_id("permission")
    await expect(card).to_contain_text("both change lines 44-51 of src/checkout/session.py")
    await expect(card.locator(".button.primary")).to_have_count(0)
    await card.get_by_role("button", name="evidence").click()
    await expect(page.get_by_test_id("pick-advisory")).to_be_visible()
    await expect(card).to_be_visible()


async def test_what_an_agent_asks_is_text(room: MockRoom, open_page: OpenPage) -> None:
    hostile = "<img src=x onerror=window.hacked=1>"
    page = await open_page()
    asked = scenes.request(1, "CODEX", title=hostile, paths=[hostile], tool=hostile)
    asked["options"] = [{"id": "no", "name": hostile, "kind": "reject_once"}]
    room.air.ask(asked)
    await expect(page.get_by_test_id("permission")).to_contain_text(hostile)
    assert await page.evaluate("window.hacked") is None
