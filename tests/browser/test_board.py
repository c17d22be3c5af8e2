"""The board, by mouse and by keyboard."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import Locator, expect

from tests.browser.person import Person
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
