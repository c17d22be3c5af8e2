"""The agents' panel and the queue: everything that can be changed there is changed in the room."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from tests.browser.conftest import configuration, furnish
from tests.browser.person import Person
from tests.fakes.ollama import FakeOllama
from tests.outside import Outside, room

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


async def test_the_panel_changes_the_configuration(ann: Person, house: Outside) -> None:
    await ann.page.get_by_test_id("agent-CLAUDE").click()
    panel = ann.page.get_by_test_id("agent-panel")
    await panel.get_by_label("Model").fill("sonnet")
    await panel.get_by_label("Effort").fill("high")
    await panel.get_by_role("button", name="Save").click()
    await expect(ann.page.get_by_test_id("toast")).to_contain_text("written to config.json")
    await expect(ann.page.get_by_test_id("agent-CLAUDE")).to_contain_text("sonnet")
    written = json.loads(house.path.read_text())["agents"][0]
    assert (written["model"], written["effort"]) == ("sonnet", "high")
    await ann.sees("ann set CLAUDE: model = sonnet, effort = high.", "RELAY")
    await panel.get_by_label("Effort").fill("")
    await panel.get_by_role("button", name="Save").click()
    await ann.sees(re.compile("ann set CLAUDE: effort = "), "RELAY")
    await expect(panel.get_by_role("button", name="Save")).to_have_count(0)
    assert "effort" not in json.loads(house.path.read_text())["agents"][0]


async def test_pause_resume_and_switching_off(ann: Person) -> None:
    await ann.page.get_by_test_id("agent-CODEX").click()
    panel = ann.page.get_by_test_id("agent-panel")
    health = panel.get_by_test_id("health")
    await panel.get_by_role("button", name="Pause").click()
    await expect(health).to_contain_text("paused")
    await ann.sees("/pause @CODEX", "ann")
    await panel.get_by_role("button", name="Resume").click()
    await expect(health).to_contain_text("ready")
    await panel.get_by_role("button", name="Switch off").click()
    await expect(health).to_contain_text("switched off")
    await panel.get_by_role("button", name="Switch on").click()
    await expect(health).to_contain_text("ready")


async def test_a_running_turn_is_seen_and_ended(ann: Person) -> None:
    asked = await ann.say("@CLAUDE hang once more")
    await expect(ann.page.get_by_test_id("stream")).to_contain_text("I have begun")
    await ann.page.get_by_test_id("agent-CLAUDE").click()
    panel = ann.page.get_by_test_id("agent-panel")
    await expect(panel.get_by_test_id("health")).to_contain_text("working")
    await panel.get_by_role("button", name="what it is working on").click()
    await expect(asked).to_be_focused()
    await panel.get_by_role("button", name="Cancel turn").click()
    await expect(panel.get_by_test_id("health")).to_contain_text("ready")
    await expect(ann.page.get_by_test_id("stream")).to_have_count(0)
    await panel.get_by_role("button", name="Close").click()
    await expect(panel).to_have_count(0)


async def test_what_is_missing_says_so(ann: Person) -> None:
    row = ann.page.get_by_test_id("agent-GHOST")
    await expect(row).to_contain_text("not installed")
    await row.click()
    await expect(ann.page.get_by_test_id("agent-panel")).to_contain_text("no-such-program-here")


async def test_a_failed_job_is_asked_again(ann: Person, house: Outside) -> None:
    mended = house.folder / "mended"
    mended.unlink(missing_ok=True)
    asked = await ann.say("@FLAKY what about now?")
    await expect(ann.receipt(asked, "FLAKY")).to_have_attribute("data-state", "dead")
    await ann.page.get_by_test_id("agent-FLAKY").click()
    await expect(ann.page.get_by_test_id("agent-log")).to_contain_text("the disk of the model is full")
    await ann.page.get_by_role("button", name="Close").click()
    await ann.go("queue")
    await ann.page.get_by_test_id("filter-dead").click()
    row = ann.page.get_by_test_id("job").filter(has_text="what about now?")
    await expect(row).to_contain_text("the disk of the model is full")
    mended.touch()
    await row.get_by_role("button", name="Retry").click()
    await expect(row).to_have_count(0)
    await ann.page.get_by_test_id("filter-done").click()
    await expect(row).to_contain_text("answered")
    await row.get_by_role("button", name="what about now?").click()
    await expect(asked).to_be_focused()
    await expect(ann.receipt(asked, "FLAKY")).to_contain_text("answered")
    await ann.sees("It works again.", "FLAKY")
    mended.unlink()


async def test_an_agent_that_failed_too_often_is_tried_now(
    chromium: Browser, ollama: FakeOllama, tmp_path: Path
) -> None:
    told = configuration(ollama)
    told["locks"] = {"circuit_breaker": {"failure_threshold": 1}}
    async with room(tmp_path / "broken", told) as one:
        await furnish(one)
        await one.start()
        ann = await Person.arrive(chromium, one, "ann")
        first = await ann.say("@FLAKY go")
        await expect(ann.receipt(first, "FLAKY")).to_have_attribute("data-state", "dead")
        asked = await ann.say("@FLAKY go on")
        await expect(ann.receipt(asked, "FLAKY")).to_contain_text("skipped: circuit open")
        await ann.page.get_by_test_id("agent-FLAKY").click()
        panel = ann.page.get_by_test_id("agent-panel")
        await expect(panel.get_by_test_id("breaker")).to_contain_text("until one attempt succeeds")
        # It fails again: told, open as before, and the button is there once more.
        await panel.get_by_test_id("try-now").click()
        await expect(ann.page.get_by_test_id("toast").last).to_contain_text("Trying again: FLAKY")
        await expect(ann.receipt(asked, "FLAKY")).to_have_attribute("data-state", "dead")
        (one.folder / "mended").touch()
        await panel.get_by_test_id("try-now").click()
        await ann.sees("It works again.", "FLAKY")
        await expect(panel.get_by_test_id("breaker")).to_have_count(0)
        await ann.leave()
