"""The board, by mouse and by keyboard."""

from __future__ import annotations

import json
import re

import pytest
from playwright.async_api import Locator, expect

from tests.browser.person import Person, shot
from tests.outside import Outside

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


async def add(ann: Person, title: str) -> Locator:
    await ann.go("board")
    await ann.page.get_by_test_id("add-task").fill(title)
    await ann.page.get_by_test_id("add-task").press("Enter")
    card = ann.page.get_by_test_id("task").filter(has_text=title)
    await expect(card).to_be_visible()
    return card


def column(ann: Person, status: str) -> Locator:
    return ann.page.get_by_test_id(f"column-{status}")


async def test_a_card_is_dragged_and_the_change_undone(ann: Person, house: Outside) -> None:
    card = await add(ann, "Paint the fence")
    number = await card.get_attribute("data-task")
    await card.drag_to(column(ann, "in_progress"))
    await expect(column(ann, "in_progress").get_by_text("Paint the fence")).to_be_visible()
    await expect(ann.page.get_by_test_id("toast")).to_contain_text(f"t{number} is in progress now")
    await ann.page.get_by_test_id("toast").get_by_role("button", name="Undo").click()
    await expect(column(ann, "pending").get_by_text("Paint the fence")).to_be_visible()
    await ann.go("room")
    await ann.sees(f"ann moved task t{number} to in_progress: Paint the fence", "RELAY")
    await ann.sees("/undo", "ann")
    assert {one["title"]: one["status"] for one in (await house.get("/api/tasks"))["tasks"]}[
        "Paint the fence"
    ] == "pending"


async def test_a_card_is_moved_and_renamed_by_keyboard(ann: Person) -> None:
    card = await add(ann, "Sweep the yard")
    await card.focus()
    await ann.page.keyboard.press("Shift+ArrowRight")
    moved = column(ann, "in_progress").get_by_test_id("task").filter(has_text="Sweep the yard")
    await expect(moved).to_be_focused()
    await expect(moved).to_contain_text("ann")
    await ann.page.keyboard.press("Shift+ArrowRight")
    done = column(ann, "done").get_by_test_id("task").filter(has_text="Sweep the yard")
    await expect(done).to_be_focused()
    await ann.page.keyboard.press("Enter")
    title = ann.page.get_by_label(re.compile("Title of task"))
    await expect(title).to_be_focused()
    await title.fill("Sweep the whole yard")
    await title.press("Enter")
    await expect(column(ann, "done").get_by_text("Sweep the whole yard")).to_be_visible()
    await ann.page.get_by_test_id("undo").click()
    await expect(column(ann, "done").get_by_text("Sweep the yard", exact=True)).to_be_visible()
    await done.hover()
    await done.get_by_role("button", name=re.compile("back")).click()
    await expect(column(ann, "in_progress").get_by_text("Sweep the yard")).to_be_visible()


async def test_others_see_the_board_change(ann: Person, house: Outside) -> None:
    await ann.go("board")
    await house.post("/task Water the flowers", "ben")
    card = ann.page.get_by_test_id("task").filter(has_text="Water the flowers")
    await expect(column(ann, "pending").get_by_text("Water the flowers")).to_be_visible()
    await expect(card).to_contain_text("by ben")
    number = await card.get_attribute("data-task")
    await house.post(f"/move #{number} done", "ben")
    await expect(column(ann, "done").get_by_text("Water the flowers")).to_be_visible()
    # Before and after: what Undo takes back, and whose it is.
    undo, did = ann.page.get_by_test_id("undo"), f"ben moved task t{number} to done: Water the flowers"
    await expect(undo).to_contain_text(did)
    await expect(undo).to_have_accessible_description(f"Takes back: {did}")
    await shot(ann.page, "board-undo-1280")
    await undo.click()
    await expect(ann.page.get_by_test_id("toast").last).to_contain_text(
        f"ann undid the move of t{number} to done (by ben): Water the flowers"
    )


async def test_a_task_is_written_given_and_ended_from_the_board(ann: Person, house: Outside) -> None:
    page = ann.page
    await house.post("/clearall", "ben")
    first = await add(ann, "Lay the foundation")
    await add(ann, "Show me code for the clock")
    needed = await first.get_attribute("data-task")
    card = page.get_by_test_id("task").filter(has_text="Show me code for the clock")
    number = await card.get_attribute("data-task")

    # Everything about it is written beside the board, by keyboard.
    await card.focus()
    await page.keyboard.press("Space")
    dialog = page.get_by_test_id("task-dialog")
    await expect(dialog.get_by_role("heading", name="Show me code for the clock")).to_be_focused()
    await shot(page, "task-focus-1280")
    await dialog.get_by_test_id("task-description-edit").click()
    await dialog.get_by_test_id("task-description-field").fill("It **ticks**.\n\n- twice")
    await page.keyboard.press("Control+Enter")
    await expect(dialog.get_by_test_id("task-description").locator("strong")).to_have_text("ticks")
    await expect(dialog.get_by_test_id("task-description-edit")).to_be_focused()
    await dialog.get_by_test_id("task-files-edit").click()
    await dialog.get_by_test_id("task-files-field").fill("src/clock.py\ndocs/**")
    await dialog.get_by_test_id("task-files-save").click()
    await expect(dialog.get_by_test_id("task-files")).to_contain_text("docs/**")
    await dialog.get_by_test_id("task-priority").select_option("2")
    await dialog.get_by_test_id("task-depends-edit").click()
    await dialog.get_by_test_id("task-depends-field").fill(f"t{needed}")
    await dialog.get_by_test_id("task-depends-field").press("Enter")
    await expect(dialog.get_by_test_id("task-depends")).to_contain_text(f"t{needed} pending")
    # Escape leaves the field first, then the dialog.
    await dialog.get_by_test_id("task-name-edit").click()
    await page.keyboard.press("Escape")
    await expect(dialog).to_be_visible()

    # What waits for others is not given: it says for which.
    await expect(dialog.get_by_test_id("give")).to_be_disabled()
    await expect(dialog.get_by_test_id("give")).to_have_accessible_description(f"waits for t{needed}")
    # A refusal stands in the dialog, where it is read, until something goes well.
    await dialog.get_by_test_id("task-depends-edit").click()
    await dialog.get_by_test_id("task-depends-field").fill(f"t{number}")
    await dialog.get_by_test_id("task-depends-field").press("Enter")
    refusal = dialog.get_by_test_id("toast")
    await expect(refusal).to_contain_text("itself")
    await expect(refusal).to_be_in_viewport(ratio=1)
    await shot(page, "task-refused-1280")
    await page.keyboard.press("Escape")
    await dialog.get_by_test_id("task-priority").select_option("3")
    await expect(refusal).to_have_count(0)
    await page.keyboard.press("Escape")
    await expect(dialog).not_to_be_visible()
    await house.post(f"/move t{needed} done", "ben")
    await expect(column(ann, "done").get_by_text("Lay the foundation")).to_be_visible()

    # Given: the card is its agent's, and the message, its answer and the cost stand in the dialog.
    await card.focus()
    await page.keyboard.press("Shift+G")
    await expect(dialog.get_by_test_id("give-to")).to_be_focused()
    await dialog.get_by_test_id("give-to").select_option("CLAUDE")
    await dialog.get_by_test_id("give").click()
    await expect(column(ann, "in_progress").get_by_text("Show me code for the clock")).to_be_attached()
    said = dialog.get_by_test_id("task-conversation")
    await expect(said).to_contain_text("def tick(n: int)")
    await expect(said).to_contain_text("CLAUDE answered")
    await expect(dialog.get_by_test_id("task-cost")).to_contain_text("$0.01")
    await expect(dialog.get_by_test_id("task-cost")).to_contain_text("1 turn")
    # An answer is no proof: a person says that it is done.
    assert (await house.get(f"/api/tasks/{number}"))["task"]["status"] == "in_progress"
    await dialog.get_by_test_id("task-done").click()
    await expect(dialog.get_by_test_id("reopen")).to_be_visible()
    # The message is the person's, and one like any other.
    await said.get_by_role("button").first.click()
    entry = await ann.sees(f"@CLAUDE t{number}: Show me code for the clock", "ann")
    await expect(ann.receipt(entry, "CLAUDE")).to_contain_text("answered")
    await house.post("/clearall", "ben")


async def test_cards_are_found_selected_and_changed_together(ann: Person, house: Outside) -> None:
    page = ann.page
    await house.post("/clearall", "ben")
    await ann.go("board")
    await expect(page.get_by_test_id("task")).to_have_count(0)
    for title in ("Rake the leaves", "Rake the gravel", "Prune the hedge"):
        await add(ann, title)
    await page.evaluate("document.activeElement.blur()")
    await page.keyboard.press("/")
    search = page.get_by_test_id("board-search")
    await expect(search).to_be_focused()
    await search.fill("rake THE")
    cards = page.get_by_test_id("task")
    await expect(cards).to_have_count(2)
    await expect(page.locator(".board-found")).to_contain_text("2 tasks of 3")
    await search.press("ArrowDown")
    await page.keyboard.press("x")
    bar = page.get_by_test_id("selected-bar")
    await expect(bar).to_contain_text("1 task selected")
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("x")
    await expect(bar).to_contain_text("2 tasks selected")
    await bar.get_by_test_id("some-level").select_option("1")
    await bar.get_by_test_id("some-priority").click()
    await expect(cards.filter(has_text="P1")).to_have_count(2)
    await bar.get_by_test_id("some-archive").click()
    await expect(cards).to_have_count(0)
    await expect(bar).not_to_be_visible()
    await page.get_by_test_id("toast").last.get_by_role("button", name="Undo").click()
    await expect(cards).to_have_count(2)
    await page.get_by_test_id("filter-none").click()
    await page.get_by_test_id("filter-who").select_option(label="Nobody's")
    await page.get_by_test_id("filter-state").select_option("done")
    await expect(cards).to_have_count(0)
    await page.get_by_test_id("filter-none").click()
    await expect(cards).to_have_count(3)

    # Issues come as a file; what is none is named.
    issues = [
        {
            "number": 4,
            "title": "The gate squeaks",
            "url": "https://example.org/issues/4",
            "labels": [{"name": "P0"}],
        },
        {"number": 5, "title": "No address"},
    ]
    await page.get_by_test_id("import-file").set_input_files(
        {"name": "issues.json", "mimeType": "application/json", "buffer": json.dumps(issues).encode()}
    )
    told = page.get_by_test_id("import-told")
    await expect(told).to_contain_text("1 new")
    await expect(told).to_contain_text("It has no url that begins with http.")
    await page.keyboard.press("Enter")
    await expect(told).not_to_be_visible()
    gate = cards.filter(has_text="The gate squeaks")
    await expect(gate).to_contain_text("P1")
    await gate.get_by_test_id("task-open").click()
    await expect(page.get_by_test_id("task-source")).to_have_attribute("href", "https://example.org/issues/4")
    await expect(page.get_by_test_id("task-input")).to_contain_text("labels: P0")
    await page.keyboard.press("Escape")
    await house.post("/clearall", "ben")
