"""The line to the room breaks: nothing is missing afterwards, and nothing stands there twice."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.async_api import Browser, WebSocketRoute, expect

from tests.browser.conftest import configuration, furnish
from tests.browser.mock_room import TOKEN, MockRoom
from tests.browser.person import Person
from tests.fakes.ollama import FakeOllama
from tests.outside import Outside, room

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


async def bodies(person: Person, pattern: str) -> list[str]:
    """The texts that match, in the order of the transcript."""
    texts = await person.entries(re.compile(pattern), "ben").locator(".md").all_inner_texts()
    return [found[0] for text in texts if (found := re.search(pattern, text))]


async def test_a_dropped_socket_resumes_where_it_was(house: Outside, chromium: Browser) -> None:
    ann = await Person.before_the_door(chromium, house, "ann")
    lines: list[WebSocketRoute] = []
    held = {"closed": False}

    async def through(line: WebSocketRoute) -> None:
        if held["closed"]:
            await line.close(code=1001)
            return
        line.connect_to_server()
        lines.append(line)

    await ann.page.route_web_socket("**/ws", through)
    await ann.sign_in()
    await house.post("/who drop 1", "ben")
    await ann.sees("/who drop 1", "ben")
    held["closed"] = True
    await lines[-1].close(code=1011)
    await expect(ann.page.get_by_test_id("connection")).to_have_attribute("data-state", "offline")
    for at in (2, 3, 4):
        await house.post(f"/who drop {at}", "ben")
    held["closed"] = False
    await ann.page.get_by_test_id("connection").get_by_role("button", name="now").click()
    await ann.is_live()
    await house.post("/who drop 5", "ben")
    await ann.sees("/who drop 5", "ben")
    assert await bodies(ann, r"drop \d") == [f"drop {at}" for at in range(1, 6)]
    await ann.leave()


async def test_a_restarted_daemon_is_found_again(
    chromium: Browser, ollama: FakeOllama, tmp_path: Path
) -> None:
    async with room(tmp_path / "again", configuration(ollama)) as one:
        await furnish(one)
        await one.start()
        port = int(one.url.rsplit(":", 1)[1])
        one.configure(configuration(ollama, ui={"port": port}))
        ann = await Person.arrive(chromium, one, "ann")
        await one.post("@CODEX beat 1", "ben")
        await ann.sees("CODEX heard @CODEX beat 1", "CODEX")
        one.kill()
        await expect(ann.page.get_by_test_id("connection")).to_have_attribute("data-state", "offline")
        await ann.composer.fill("@CODEX written while nobody listened")
        await ann.composer.press("Enter")
        await expect(ann.page.get_by_test_id("outgoing")).to_contain_text("waiting for the room")
        one.echo("[ben] /who beat 2")
        await one.start()
        await ann.is_live()
        await ann.sees("written while nobody listened", "ann")
        await ann.sees("CODEX heard @CODEX written while nobody listened", "CODEX")
        await expect(ann.page.get_by_test_id("outgoing")).to_have_count(0)
        await one.post("/who beat 3", "ben")
        await ann.sees("/who beat 3", "ben")
        assert await bodies(ann, r"beat \d") == ["beat 1", "beat 2", "beat 3"]
        assert await ann.entries("written while nobody listened", "ann").count() == 1
        assert (
            await ann.page.get_by_role("link", name=re.compile("Copy link")).count()
            == len({entry["number"] for entry in await one.entries()})
            - await ann.page.locator(".entry.together").count()
        )
        await ann.leave()


async def test_a_client_that_was_too_slow_comes_again(chromium: Browser) -> None:
    """`lagging` takes a client that does not read for minutes: here the mock says it."""
    mock = MockRoom()
    await mock.start()
    context = await chromium.new_context()
    try:
        await context.add_init_script("localStorage.setItem('relay.name', 'ann')")
        page = await context.new_page()
        await page.goto(mock.url)
        await page.get_by_test_id("token").fill(TOKEN)
        await page.get_by_role("button", name="Sign in").click()
        mock.say("ben", "one")
        await expect(page.get_by_test_id("entry")).to_have_count(1)
        mock.lag()
        mock.say("ben", "two")
        mock.say("ben", "three")
        await expect(page.get_by_test_id("entry").locator(".md")).to_have_text(["one", "two", "three"])
        assert mock.resumed_from[-1] == "1"
        # A breaker that opens, told live.
        breaker = {"state": "open", "failures": 3, "threshold": 3, "retry_at": None}
        mock.agent("CODEX", breaker=breaker)
        await expect(page.get_by_test_id("agent-CODEX")).to_contain_text("circuit open")
        await page.get_by_test_id("agent-CODEX").click()
        await expect(page.get_by_test_id("breaker")).to_contain_text("3 failures in a row (limit 3)")
    finally:
        await context.close()
        await mock.stop()
