"""The memory of a real room: what a person said reaches an agent, stands under its answer, and is forgotten there."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Locator, expect

from tests.browser.conftest import Come
from tests.browser.person import Person
from tests.browser.test_look import PALE, UNNAMED
from tests.outside import REPO, Outside, eventually, program, room, settings

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

#: Says how many memories stood before what it was asked, and whether the lesson was one of them.
TELLER = """
import sys
given = [line for line in sys.stdin.read().splitlines() if line.startswith("> ")]
lesson = "with" if any("never mock" in line for line in given) else "without"
print(f"I was given {len(given)}, {lesson} the lesson.")
"""
LESSON = "never mock the clock here, it hid a bug"
OTHERS = (
    "deploys of the shop need the VPN",
    "invoices are rounded once, after the sum",
    "the cache is warm by nine",
)
ASKED = "may I mock the clock here, or is it true that this hid a bug?"


@pytest_asyncio.fixture(loop_scope="session")
async def learned(tmp_path: Path) -> AsyncIterator[Outside]:
    """ann has said her lesson, and two agents that have heard nothing yet stand ready."""
    agents = [program(name, "teller.py") for name in ("FIRST", "SECOND")]
    config = settings(*agents, airspace={"enabled": False}, workspace={"context_len": 200})
    async with room(tmp_path / "memory", config) as one:
        (one.folder / "teller.py").write_text(TELLER)
        await one.start()
        # Not a message: neither agent reads it with its turn anyway.
        said = await one.post(f"/remember {LESSON}", "ann")
        assert "r1" in (await one.reply_to(said["id"], "RELAY"))["body"]
        # Among other things: of two memories alone no word is rare.
        for other in OTHERS:
            noted = await one.post(f"/remember {other}", "bob")
            await one.reply_to(noted["id"], "RELAY")
        decided = await one.post("/decide keep the clock injected because it can be stepped by hand", "ann")
        await one.reply_to(decided["id"], "RELAY")

        async def known() -> bool:
            return bool((await one.get("/knowledge?about=injected"))["entries"])

        await eventually(known, "the decision to be known")
        yield one


async def at_the_terminal(one: Outside, line: str) -> str:
    """What `join.py` shows after this line."""
    join = str(REPO / "scripts" / "join.py")
    words = ("--config", str(one.path), "--name", "zoe", "--wait", "60", "--say", line)
    ran = await one.run(sys.executable, join, *words)
    assert ran.code == 0, ran.all
    return ran.out


async def on_the_command_line(one: Outside, text: str) -> list[str]:
    ran = await one.relay("memory", "recall", text, "--json")
    return [memory["content"] for memory in json.loads(ran.out)["memories"]]


async def answered(person: Person, agent: str) -> Locator:
    """Its answer to `ASKED`; asked again where the machine was too slow for the room to recall anything in time."""
    answers = person.entries("I was given", agent)
    for attempt in range(5):
        before = timed_out(person.room)
        await person.say(f"@{agent} {ASKED}")
        await expect(answers).to_have_count(attempt + 1)
        if timed_out(person.room) == before:
            break
    return answers.last


def timed_out(one: Outside) -> int:
    return sum("nothing recalled for a turn" in str(line) for line in one.log_lines())


async def test_what_an_agent_was_given_is_shown_and_forgotten_under_its_answer(
    come: Come, learned: Outside
) -> None:
    zoe = await come("zoe", learned)
    page = zoe.page
    answer = await answered(zoe, "FIRST")
    await expect(answer).to_contain_text("with the lesson.")
    (count,) = re.findall(r"I was given (\d+)", await answer.inner_text())
    await expect(answer.get_by_test_id("given-open")).to_contain_text(f"was given {count} ")
    await answer.get_by_test_id("given-open").click()
    given = answer.get_by_test_id("given-memory")
    await expect(given).to_have_count(int(count))
    lesson = given.filter(has_text=LESSON)
    await expect(lesson).to_contain_text("r1")
    await expect(lesson).to_contain_text("ann")
    # Whether it helped is said here, the last word counts, and it stays.
    useful, useless = (lesson.get_by_test_id(word) for word in ("useful", "useless"))
    for button, other in ((useful, useless), (useless, useful)):
        await button.click()
        await expect(button).to_have_attribute("aria-pressed", "true")
        await expect(other).to_have_attribute("aria-pressed", "false")
    for _ in ("closed", "open"):
        await answer.get_by_test_id("given-open").click()
    await expect(useless).to_have_attribute("aria-pressed", "true")
    assert await page.evaluate(UNNAMED) == []
    # The terminal and the command line tell the same.
    assert LESSON in await at_the_terminal(learned, "/recall mock the clock")
    assert any(LESSON in content for content in await on_the_command_line(learned, "mock the clock"))

    # Who keeps it keeps it.
    await lesson.get_by_test_id("given-forget").click()
    dialog = page.get_by_test_id("forget-dialog")
    await expect(dialog).to_contain_text(LESSON)
    await expect(dialog.get_by_role("button", name="Keep it")).to_be_focused()
    await page.keyboard.press("Escape")
    await expect(lesson).to_have_count(1)
    await lesson.get_by_test_id("given-forget").click()
    await dialog.get_by_test_id("forget-now").click()
    await expect(dialog).to_have_count(0)
    await expect(given.filter(has_text=LESSON)).to_have_count(0)
    await expect(answer.locator("[data-gone]")).to_contain_text("r1 is forgotten")
    await zoe.sees("r1 is forgotten", "RELAY")

    # Nobody is told it again: no agent, no search, no other reader; and so it is after a reload.
    other = await answered(zoe, "SECOND")
    await expect(other).to_contain_text("without the lesson.")
    await zoe.reload()
    answer = await zoe.sees("with the lesson.", "FIRST")
    await answer.get_by_test_id("given-open").click()
    await expect(answer.locator("[data-gone]")).to_contain_text("r1 is forgotten")
    await expect(answer).not_to_contain_text(LESSON)
    assert LESSON not in await at_the_terminal(learned, "/recall mock the clock")
    assert not any(LESSON in content for content in await on_the_command_line(learned, "mock the clock"))
    await zoe.go("memory")
    await page.get_by_test_id("mem-search").fill("hid a bug")
    await expect(page.get_by_test_id("memory").first.locator("mark").first).to_be_visible()
    await expect(page.get_by_test_id("memory").filter(has_text=LESSON)).to_have_count(0)
    await page.goto(f"{learned.url}/#r1")
    await expect(page.get_by_test_id("mem-none")).to_be_visible()


async def test_a_memory_is_found_judged_and_leads_to_where_it_comes_from(
    come: Come, learned: Outside
) -> None:
    ann = await come("ann", learned)
    page = ann.page
    await ann.go("memory")
    await page.get_by_test_id("mem-search").fill("mocked clocks")
    hit = page.get_by_test_id("memory").first
    await expect(hit).to_contain_text(LESSON)
    await expect(hit.locator("mark")).to_have_text(["mock", "clock"])
    await expect(hit).to_contain_text("ann")
    await expect(page).to_have_url(f"{learned.url}/#/memory?q=mocked+clocks")
    assert await page.evaluate(UNNAMED) == []
    assert await page.evaluate(PALE) == []
    # A judgement stays, and the last one counts.
    await hit.get_by_test_id("useful").click()
    await expect(hit.get_by_test_id("useful")).to_have_attribute("aria-pressed", "true")
    await hit.get_by_test_id("useless").click()
    await ann.reload()
    await expect(hit.get_by_test_id("useless")).to_have_attribute("aria-pressed", "true")
    await expect(hit.get_by_test_id("useful")).to_have_attribute("aria-pressed", "false")
    (told,) = [each for each in (await learned.get("/api/memory?q=r1&name=ann"))["memories"]]
    assert told["feedback"] == {"useful": 0, "useless": 1, "mine": False}
    # Its message opens, and the way back leads to the search.
    await hit.get_by_test_id("from").click()
    await expect(page.locator(".entry.lit")).to_contain_text(LESSON)
    await page.go_back()
    await expect(page.get_by_test_id("mem-search")).to_have_value("mocked clocks")
    # What was imported says by whom, and opens no moment of this room.
    line = {
        "event_type": "lesson",
        "summary": "an older lesson",
        "at": "2025-03-01T10:00:00Z",
        "agent": "OLD",
    }
    assert (await learned.ask("POST", "/memory/import", json={"lines": [line], "name": "ann"}))[0] == 200
    await page.get_by_test_id("mem-search").fill("older lesson")
    await expect(hit).to_contain_text("imported by ann")
    await expect(hit).to_contain_text("OLD")
    await expect(hit.get_by_test_id("from")).to_have_count(0)
    # A filter that nothing fits says so, and how to go on.
    await page.get_by_test_id("mem-search").fill("")
    await page.get_by_test_id("mem-kind").select_option("decision")
    await expect(page.get_by_test_id("memory")).to_have_count(1)
    await expect(page.get_by_test_id("memory")).to_contain_text("keep the clock injected")
    await page.get_by_test_id("mem-search").fill("zebra")
    await page.get_by_test_id("mem-none").get_by_role("button").click()
    await expect(page.get_by_test_id("mem-kind")).to_have_value("")

    # What is known: by the keyboard from the search to the entry and to its message.
    await page.get_by_test_id("mem-as-graph").click()
    await page.get_by_test_id("kg-search").fill("injected")
    row = page.get_by_test_id("kg-row")
    await expect(row).to_have_count(1)
    await row.focus()
    await page.keyboard.press("Enter")
    chosen = page.get_by_test_id("kg-chosen")
    await expect(chosen).to_be_focused()
    await expect(chosen).to_contain_text("it can be stepped by hand")
    await expect(page.get_by_test_id("kg-status")).to_have_text("Nothing relates to it yet")
    assert await page.evaluate(UNNAMED) == []
    await ann.reload()
    await chosen.get_by_test_id("kg-from").click()
    await expect(page.locator(".entry.lit")).to_contain_text("keep the clock injected")


async def test_a_room_that_goes_away_is_said_and_asked_again(come: Come, learned: Outside) -> None:
    port = int(learned.url.rsplit(":", 1)[1])
    learned.configure(json.loads(learned.path.read_text()) | {"ui": {"port": port}})
    ann = await come("ann", learned)
    page = ann.page
    await ann.go("memory")
    await expect(page.get_by_test_id("memory")).to_have_count(5)
    learned.kill()
    await page.get_by_test_id("mem-search").fill("clock")
    alert = page.get_by_role("alert").filter(has_text="cannot be reached")
    await expect(alert).to_be_visible()
    await learned.start()
    await ann.is_live()
    await expect(alert).to_have_count(0)
    await expect(page.get_by_test_id("memory").first.locator("mark")).to_have_text(["clock"])
