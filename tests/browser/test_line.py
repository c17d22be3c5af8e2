"""The line to the room breaks: nothing is missing afterwards, and nothing stands there twice."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.async_api import Browser, WebSocketRoute, expect

from scripts.bench.mock_room import TOKEN, MockRoom
from tests.browser.conftest import configuration, furnish
from tests.browser.person import Person
from tests.fakes.ollama import FakeOllama
from tests.outside import Outside, room

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


async def bodies(person: Person, pattern: str) -> list[str]:
    """The texts that match, in the order of the transcript."""
    texts = await person.entries(re.compile(pattern), "ben").locator(".md").all_inner_texts()
    return [found[0] for text in texts if (found := re.search(pattern, text))]


async def test_a_dropped_socket_resumes_where_it_was(house: Outside, chromium: Browser) -> None:
    ann = await Person.signed_out(chromium, house, "ann")
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
    await ann.is_live()
    await house.post("/who drop 5", "ben")
    await ann.sees("/who drop 5", "ben")
    assert await bodies(ann, r"drop \d") == [f"drop {at}" for at in range(1, 6)]
    await ann.leave()


#: Kept from here on, at every frame: is the text on the page, and what does the line say?
_WATCH = """text => {
  window.watched = [];
  const look = () => {
    const shown = [...document.querySelectorAll('[data-testid=entry], [data-testid=outgoing]')]
      .some(one => one.innerText.includes(text));
    window.watched.push([shown, document.querySelector('[data-testid=connection]').innerText]);
    requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
}"""


async def test_what_was_sent_stays_on_the_page_until_its_entry_is_there(
    house: Outside, chromium: Browser
) -> None:
    """The room took it over HTTP while the socket is not back yet: it must not vanish meanwhile."""
    ann = await Person.signed_out(chromium, house, "ann")
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
    held["closed"] = True
    await lines[-1].close(code=1011)
    line = ann.page.get_by_test_id("connection")
    await expect(line).not_to_have_attribute("data-state", "live")
    await ann.composer.fill("/who is never lost")
    await ann.composer.press("Enter")
    await expect(ann.page.get_by_test_id("outgoing")).to_contain_text("is never lost")
    await ann.page.evaluate(_WATCH, "is never lost")
    await house.until_said("/who is never lost", speaker="ann")
    # Taken, and said so; not an entry yet.
    await expect(ann.page.get_by_test_id("outgoing")).to_have_attribute("data-state", "sent")
    await expect(ann.page.get_by_test_id("outgoing")).to_contain_text("sent")
    held["closed"] = False
    await ann.is_live()
    await ann.sees("is never lost", "ann")
    await expect(ann.page.get_by_test_id("outgoing")).to_have_count(0)
    watched = await ann.page.evaluate("window.watched")
    assert len(watched) > 3
    assert all(shown for shown, _ in watched)
    assert await ann.entries("/who is never lost", "ann").count() == 1
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
        await ann.go("needs")
        await ann.go("room")
        one.kill()
        await expect(ann.page.get_by_test_id("connection")).to_have_attribute("data-state", "offline")
        await ann.composer.fill("@CODEX written while nobody listened")
        await ann.composer.press("Enter")
        await expect(ann.page.get_by_test_id("outgoing")).to_contain_text("waiting for the room")
        # The inbox names the command that starts this very room, as the room's view does.
        await ann.page.evaluate("location.hash = '#/needs'")
        await expect(ann.page.locator(".needs-view .problem, .view .problem").first).to_contain_text(
            "--config"
        )
        await ann.go("room")
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
        # Each entry has one row, or stands on one line with its command: no gap, and nothing twice.
        shown = await ann.page.evaluate(
            "[...document.querySelectorAll('.entry[data-number]')].map((e) => +e.dataset.number)"
        )
        told = {entry["number"] for entry in await one.entries() if entry["kind"] in ("human", "agent")}
        assert len(shown) == len(set(shown)) and told <= set(shown)
        await ann.leave()


async def test_what_is_hard_to_provoke_is_shown(chromium: Browser) -> None:
    """Lagging takes a client that does not read for minutes, a hold four rounds of agents: the mock says it."""
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
        # What the hop limit holds back, and the way to let it go on.
        mock.say("ben", "@CODEX go on", meta={"unverified": True, "held": True}, to=["CODEX"])
        held = page.get_by_test_id("held")
        await expect(held).to_contain_text("held back")
        await held.get_by_role("button", name="Let them continue").click()
        await expect(page.get_by_test_id("entry").last).to_contain_text("/continue")
        assert mock.posts[-1]["body"] == "/continue"
    finally:
        await context.close()
        await mock.stop()
