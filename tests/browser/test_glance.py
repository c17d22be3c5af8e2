"""The first screen says who does what, what needs somebody, and what it costs, without a click."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from tests.browser.person import Person, open_view, shot
from tests.e2e.test_landing import IGNORED, UNIT, ended
from tests.git.repository import commit, git
from tests.outside import agent, room, settings

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

WORKS = """\
- match: docs|again
  say: Written.
- match: quickly
  say: It is done.
  usage: {input_tokens: 1200, cache_read_tokens: 30000, output_tokens: 40, cost_usd: 0.75}
- tool: {name: Read, summary: src/login.py}
  say: ["I read it.", "It is done."]
  pause_s: 300
"""
FAILS = "- fail: crash\n  detail: The disk is full.\n"


async def test_the_first_screen_answers_who_on_what_needs_me_and_cost(
    chromium: Browser, tmp_path: Path
) -> None:
    folder = tmp_path / "room"
    folder.mkdir()
    (folder / "works.yaml").write_text(WORKS)
    (folder / "fails.yaml").write_text(FAILS)
    agents = [
        agent("AVA", "works.yaml", about="Knows the login page"),
        agent("BEN", "works.yaml"),
        agent("CLEO", "fails.yaml"),
    ]
    circuit = {"circuit_breaker": {"failure_threshold": 1, "reset_timeout": 600}}
    async with room(folder, settings(*agents, locks=circuit, queue={"max_attempts": 1})) as house:
        await house.start()
        desk = await Person.arrive(chromium, house, "ann", viewport={"width": 1400, "height": 900})
        page = desk.page
        await expect(page.get_by_test_id("transcript")).to_be_visible()
        await expect(page.get_by_test_id("glance")).to_have_count(0)

        done = await house.post("@BEN quickly")
        await house.reply_to(done["id"], "BEN")
        await expect(page.get_by_test_id("cost-BEN")).to_have_text("$0.75")
        await expect(page.get_by_test_id("glance-cost")).to_have_text("today $0.75")
        # An agent that waits for work says what it did last, and the task that it has and has not begun.
        await expect(page.get_by_test_id("last-BEN")).to_have_text(
            re.compile(r"^Last: quickly, .*(now|ago)$")
        )
        await expect(page.get_by_test_id("task-BEN")).to_have_count(0)
        await house.post("/task Write the docs")
        await house.post("/give t1 @BEN")
        await expect(page.get_by_test_id("last-BEN")).to_contain_text("Last: t1: Write the docs")
        await expect(page.get_by_test_id("task-BEN")).to_have_count(0)
        again = await house.post("@BEN once again")
        await house.reply_to(again["id"], "BEN")
        await page.reload()
        await expect(page.get_by_test_id("task-BEN")).to_have_text("Has t1: Write the docs")
        await expect(page.get_by_test_id("last-BEN")).to_contain_text("Last: once again, ")
        await house.post("/move t1 done")
        await expect(page.get_by_test_id("task-BEN")).to_have_count(0)

        await house.post("@AVA, mend the login page")
        row = page.get_by_test_id("agent-AVA")
        await expect(row.get_by_test_id("doing-AVA")).to_have_text("mend the login page")
        await expect(row.get_by_test_id("tool-AVA")).to_have_text("Read: src/login.py")
        await expect(row).to_contain_text(re.compile("working"))
        await expect(page.get_by_test_id("glance-working")).to_contain_text("1 working")
        await house.post("@CLEO mend the build")
        await expect(page.get_by_test_id("glance-needs")).to_have_text("1 needs you: CLEO")

        # Its last tool is known to who comes later, and the names have colours of their own.
        phone = await Person.arrive(chromium, house, "bob", viewport={"width": 390, "height": 844})
        chips = phone.page.get_by_test_id("agent-chips").get_by_role("button")
        await expect(chips).to_have_count(3)
        # Who is in trouble comes first, then who works.
        await expect(chips.first).to_contain_text("CLEO")
        working = chips.filter(has_text="AVA")
        await expect(working).to_contain_text("working")
        await expect(working).to_contain_text("mend the login page")
        await expect(chips.filter(has_text="BEN")).to_contain_text("Last: once again, ")
        colours = await chips.locator("b").evaluate_all("all => all.map(e => getComputedStyle(e).color)")
        assert len(set(colours)) == 3
        await working.click()
        panel = phone.page.get_by_test_id("agent-panel")
        await expect(panel.get_by_test_id("asked")).to_have_text("ann: mend the login page")
        await expect(panel).to_contain_text("Read: src/login.py")
        await expect(panel.get_by_test_id("about")).to_have_text("Knows the login page")

        # The @-menu says what an agent is for.
        await page.get_by_label("Message", exact=False).first.click()
        await page.keyboard.type("@A")
        await expect(page.get_by_test_id("completion")).to_contain_text("Knows the login page")
        await page.keyboard.press("Escape")

        await page.get_by_test_id("glance-cost").click()
        await expect(page.get_by_test_id("usage-total")).to_contain_text("$0.75")
        await expect(page.get_by_test_id("usage-total")).to_contain_text("1.2k fresh, 30k cached, 40 output")
        bars = page.locator(".day-bar")
        assert (
            await bars.evaluate_all("all => all.filter(e => e.getBoundingClientRect().height > 20).length")
            == 1
        )
        await expect(page.get_by_test_id("today").first).to_contain_text("1.2k fresh")
        # Where no price was told, none is shown: not by hour, and not of a task.
        table = page.get_by_test_id("usage").get_by_role("table")
        await expect(table).to_contain_text("$0.75+")
        await expect(table).to_contain_text("not told")
        await expect(table).not_to_contain_text("$0.00")
        await desk.go("board")
        await page.get_by_test_id("task").filter(has_text="Write the docs").first.click()
        await expect(page.get_by_test_id("task-cost")).to_contain_text("no price told")


async def test_ten_agents_fit_beside_the_views_that_a_person_needs(chromium: Browser, tmp_path: Path) -> None:
    folder = tmp_path / "room"
    folder.mkdir()
    (folder / "works.yaml").write_text(WORKS)
    names = ("AVA", "BEN", "CLEO", "DAN", "EVE", "FAY", "GUS", "HAL", "IDA", "JON")
    async with room(folder, settings(*(agent(name, "works.yaml") for name in names))) as house:
        await house.start()
        desk = await Person.arrive(chromium, house, "ann", viewport={"width": 1400, "height": 900})
        page = desk.page
        for name in names:
            await house.post(f"@{name} mend the login page of {name.lower()}")
        for name in names:
            await expect(page.get_by_test_id(f"doing-{name}")).to_contain_text(f"of {name.lower()}")
            await expect(page.get_by_test_id(f"doing-{name}")).to_be_in_viewport()
        colours = await page.locator(".agent-list .agent-name").evaluate_all(
            "all => all.map(e => getComputedStyle(e).color)"
        )
        assert len(set(colours)) == len(names)

        # The other views are one click away, by their keys as before, and the open one is always there.
        await expect(page.get_by_test_id("tab-memory")).to_have_count(0)
        await page.get_by_test_id("tabs-more").click()
        await page.get_by_test_id("tab-memory").click()
        await page.get_by_test_id("tabs-more").click()
        await expect(page.get_by_test_id("tab-memory")).to_have_attribute("aria-current", "page")
        await page.keyboard.press("g")
        await page.keyboard.press("q")
        await expect(page.get_by_test_id("tab-queue")).to_have_attribute("aria-current", "page")
        await expect(page.get_by_test_id("tab-memory")).to_have_count(0)


async def test_a_main_that_fails_is_seen_at_once_and_put_right_from_there(
    chromium: Browser, tmp_path: Path
) -> None:
    folder = tmp_path / "room"
    (folder / "policies").mkdir(parents=True)
    (folder / "w.yaml").write_text('- write: {app.py: "BROKEN = 1\\n"}\n  say: done\n')
    (folder / "policies" / "all.yaml").write_text(json.dumps([UNIT]))
    git(folder, "init", "-q", "-b", "main")
    commit(folder, {".gitignore": IGNORED, "app.py": "x = 1\n"})
    async with room(folder, settings(agent("CLEO", "w.yaml"))) as house:
        await house.start()
        asked = await house.post("@CLEO sort the users")
        await house.reply_to(asked["id"], "CLEO")
        await ended(house, "turn", "failed")
        status, merged = await house.ask(
            "POST", "/api/worktrees/CLEO/merge", json={"name": "ann", "anyway": True}
        )
        assert status == 200 and merged["success"], merged
        await house.post("@CLEO again", name="bob")
        desk = await Person.arrive(chromium, house, "ann", viewport={"width": 1400, "height": 900})
        page = desk.page
        chip = page.get_by_test_id("glance-main")
        await expect(chip).to_have_text("main fails")
        await shot(page, "main-fails-glance")
        await page.set_viewport_size({"width": 390, "height": 844})
        await expect(chip).to_be_visible()
        await shot(page, "main-fails-glance-phone")
        await chip.click()
        card = page.get_by_test_id("need").filter(has_text="Main fails its tests")
        await expect(card).to_be_focused()
        await shot(page, "main-fails-need-phone")
        await page.set_viewport_size({"width": 1400, "height": 900})
        await shot(page, "main-fails-need")
        await card.get_by_text("Show log").click()
        await expect(page.get_by_role("dialog")).to_contain_text("app.py is broken")
        await shot(page, "main-fails-log")
        await page.keyboard.press("Escape")
        # Who leaves it is not asked any more, and sees all the same that it fails.
        await expect(card.get_by_role("button", name="Take back CLEO's merge")).to_be_visible()
        await card.get_by_role("button", name="Leave it").click()
        await expect(card).to_have_count(0)
        await open_view(page, "room")
        await expect(chip).to_have_text("main fails")
        await house.post(f"/takeback @CLEO {merged['commit']}")
        await expect(chip).to_have_count(0)
        assert (folder / "app.py").read_text() == "x = 1\n"
        await desk.leave()
