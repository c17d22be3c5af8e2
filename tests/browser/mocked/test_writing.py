"""Signing in, writing, reading: the transcript as a person uses it."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import Page, expect

from scripts.bench.mock_room import TOKEN, MockRoom
from tests.browser.mocked.conftest import OpenPage

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


def entries(page: Page, text: str | re.Pattern[str] | None = None):  # type: ignore[no-untyped-def]
    found = page.get_by_test_id("entry")
    return found.filter(has_text=text) if text else found


async def write(page: Page, text: str) -> None:
    await page.get_by_test_id("composer").fill(text)
    await page.get_by_test_id("composer").press("Enter")


async def test_a_link_signs_in_once_and_leaves_the_address_bar(room: MockRoom, open_page: OpenPage) -> None:
    page = await open_page(link="one-time-secret")
    assert "one-time-secret" not in page.url
    await expect(page.get_by_test_id("room-name")).to_have_text("payments")
    second = await open_page(link="one-time-secret", wait=False)
    await expect(second.get_by_test_id("sign-in")).to_contain_text("relay link")
    await second.get_by_test_id("token").fill("wrong")
    await second.get_by_test_id("token").press("Enter")
    await expect(second.get_by_role("alert")).to_be_visible()
    await expect(second.get_by_test_id("link-command")).to_contain_text("relay link")
    await second.get_by_test_id("token").fill(TOKEN)
    await second.get_by_test_id("token").press("Enter")
    await expect(second.get_by_test_id("room-name")).to_be_visible()


async def test_a_first_visit_asks_for_a_name_and_remembers_it(room: MockRoom, open_page: OpenPage) -> None:
    page = await open_page(name=None)
    await page.get_by_test_id("name").fill("mira")
    await page.get_by_test_id("name").press("Enter")
    await write(page, "hello")
    await expect(entries(page, "hello")).to_contain_text("mira")
    await page.reload()
    await expect(entries(page, "hello")).to_be_visible()
    await expect(page.get_by_test_id("name-dialog")).to_have_count(0)


async def test_a_reserved_name_is_told_kindly_and_nothing_is_lost(
    room: MockRoom, open_page: OpenPage
) -> None:
    page = await open_page(name="CLAUDE")
    await write(page, "precious words")
    dialog = page.get_by_test_id("name-dialog")
    await expect(dialog).to_contain_text("an agent's name")
    await dialog.get_by_test_id("name").fill("claudia")
    await dialog.get_by_test_id("name").press("Enter")
    await expect(entries(page, "precious words")).to_contain_text("claudia")
    assert [e["speaker"] for e in room.entries] == ["claudia"]


async def test_sending_shows_one_entry_and_enter_with_shift_is_a_new_line(
    room: MockRoom, open_page: OpenPage
) -> None:
    page = await open_page()
    composer = page.get_by_test_id("composer")
    await composer.press_sequentially("first line")
    await composer.press("Shift+Enter")
    await composer.press_sequentially("second line")
    await composer.press("Enter")
    await expect(entries(page, "first line")).to_have_count(1)
    await expect(page.get_by_test_id("outgoing")).to_have_count(0)
    await expect(composer).to_have_value("")
    assert room.entries[0]["body"] == "first line\nsecond line"


async def test_a_draft_outlives_the_page(room: MockRoom, open_page: OpenPage) -> None:
    page = await open_page()
    await page.get_by_test_id("composer").fill("half a thought")
    await page.reload()
    await expect(page.get_by_test_id("composer")).to_have_value("half a thought")


async def test_a_lost_answer_does_not_make_a_second_message(room: MockRoom, open_page: OpenPage) -> None:
    page = await open_page()
    room.lose_answers = 1
    await write(page, "only once")
    await expect(page.get_by_test_id("outgoing")).to_have_count(0)
    await expect(entries(page, "only once")).to_have_count(1)
    assert len({post["client_id"] for post in room.posts}) == 1
    assert [e["body"] for e in room.entries] == ["only once"]


async def test_what_is_written_offline_is_sent_when_the_room_is_back(
    room: MockRoom, open_page: OpenPage
) -> None:
    page = await open_page()
    room.down = True
    await room.drop_clients()
    await expect(page.get_by_test_id("connection")).to_have_attribute("data-state", "offline")
    await write(page, "from the train")
    await expect(page.get_by_test_id("outgoing")).to_contain_text("from the train")
    await page.get_by_test_id("outgoing").filter(has_text="waiting").wait_for()
    room.down = False
    await expect(entries(page, "from the train")).to_have_count(1)
    await expect(page.get_by_test_id("connection")).to_have_attribute("data-state", "live")
    await expect(page.get_by_test_id("outgoing")).to_have_count(0)
    assert [e["body"] for e in room.entries] == ["from the train"]


async def test_a_dropped_line_resumes_without_a_gap_or_a_double(room: MockRoom, open_page: OpenPage) -> None:
    for number in range(1, 6):
        room.say("ben", f"before {number}")
    page = await open_page()
    await expect(entries(page)).to_have_count(5)
    await room.drop_clients()
    for number in range(1, 6):
        room.say("ben", f"while away {number}")
    await expect(entries(page)).to_have_count(10)
    room.lag()
    room.say("ben", "after the lag")
    await expect(entries(page, "after the lag")).to_have_count(1)
    numbers = await entries(page).evaluate_all("rows => rows.map(r => Number(r.dataset.number))")
    assert numbers == list(range(1, 12))
    assert room.resumed_from == ["5", "5", "10"]

    # A page that is back before the room has read its transcript says so, and no longer than that.
    room.tail = {"catching_up": True, "offset": 0, "size": 0}
    await room.drop_clients()
    notice = page.locator(".notice").filter(has_text="still reading the transcript")
    await expect(notice).to_be_visible()
    room.tail = {"catching_up": False, "offset": 9, "size": 9}
    await expect(notice).to_have_count(0)


async def test_a_stream_grows_and_turns_into_the_entry(room: MockRoom, open_page: OpenPage) -> None:
    page = await open_page()
    question = room.say("ann", "@CLAUDE why?")
    job = room.receipt(question, "CLAUDE", "active")
    room.stream(job, "Because **of", 0, tool="Read a.py")
    stream = page.get_by_test_id("stream")
    await expect(stream).to_contain_text("Because")
    await expect(stream).to_contain_text("Read a.py")
    room.stream(job, " that**.", 12)
    await expect(stream.locator("strong")).to_have_text("of that")
    answer = room.say("CLAUDE", "Because **of that**.", "agent", job=job["id"], in_reply_to=question["id"])
    room.receipt(question, "CLAUDE", "done", answer_id=answer["id"])
    await expect(stream).to_have_count(0)
    await expect(entries(page, "Because of that.")).to_have_count(1)


async def test_a_long_answer_that_was_joined_midway_shows_the_gap(
    room: MockRoom, open_page: OpenPage
) -> None:
    page = await open_page()
    job = room.receipt(room.say("ann", "@CODEX go"), "CODEX", "active")
    room.stream(job, "the rest of it", 4000)
    await expect(page.get_by_test_id("stream")).to_contain_text("…")
    await expect(page.get_by_test_id("stream")).to_contain_text("the rest of it")


async def test_mentions_and_commands_are_completed_with_the_keyboard(
    room: MockRoom, open_page: OpenPage
) -> None:
    page = await open_page()
    composer = page.get_by_test_id("composer")
    await composer.press_sequentially("hi @co")
    await expect(page.get_by_role("option")).to_have_count(1)
    await composer.press("Tab")
    await expect(composer).to_have_value("hi @CODEX ")
    await composer.fill("")
    await composer.press_sequentially("/mov")
    await expect(page.get_by_role("option")).to_have_count(2)
    await composer.press("ArrowDown")
    await composer.press("Enter")
    await expect(composer).to_have_value("/moveall ")
    await composer.press("Escape")
    await expect(page.get_by_test_id("usage")).to_contain_text("/moveall <pending|in_progress|done>")
    assert room.posts == []


async def test_every_receipt_is_told_and_a_dead_one_is_asked_again(
    room: MockRoom, open_page: OpenPage
) -> None:
    question = room.say("ann", "@all look")
    for agent, state, more in [
        ("CLAUDE", "pending", {}),
        ("CODEX", "active", {}),
        ("GEMINI", "skipped", {"reason": "circuit open"}),
        ("QWEN", "dead", {"reason": "crashed: exit code 137", "attempts": 5}),
    ]:
        room.receipt(question, agent, state, **more)
    page = await open_page()
    receipt = page.get_by_test_id("receipt")
    await expect(receipt).to_have_count(4)
    await expect(receipt.filter(has_text="CLAUDE")).to_contain_text("queued")
    await expect(receipt.filter(has_text="CODEX")).to_contain_text("working")
    await expect(receipt.filter(has_text="GEMINI")).to_contain_text("skipped: circuit open")
    dead = receipt.filter(has_text="QWEN")
    await expect(dead.get_by_label("exit code 137")).to_be_visible()
    await dead.get_by_role("button", name="Retry").click()
    await expect(dead).to_contain_text("queued")
    answer = room.say("CODEX", "looked", "agent", in_reply_to=question["id"])
    room.receipt(question, "CODEX", "done", answer_id=answer["id"])
    await receipt.filter(has_text="CODEX").get_by_role("button").click()
    await expect(entries(page, "looked")).to_be_focused()


async def test_a_decision_is_shown_and_can_be_overruled(room: MockRoom, open_page: OpenPage) -> None:
    page = await open_page()
    question = room.say("ann", "who knows the ledger?")
    room.cycle(question, "routing")
    await expect(page.get_by_test_id("routing")).to_be_visible()
    room.cycle(question, "routed", action="route", agents=["CLAUDE"], reason="changed it last", took_ms=420)
    decision = page.get_by_test_id("decision")
    await expect(decision).to_contain_text("routed to CLAUDE")
    await expect(decision).to_contain_text("changed it last")
    await expect(decision).to_contain_text("420 ms")
    await decision.get_by_role("button", name="Overrule").click()
    form = page.get_by_role("form", name="Choose who answers")
    await form.get_by_label("CLAUDE").uncheck()
    await form.get_by_label("CODEX").check()
    await form.get_by_role("button", name="Route").click()
    await expect(page.get_by_test_id("receipt")).to_contain_text("CODEX")
    assert room.routed == [(question["id"], ["CODEX"])]


async def test_marks_footer_and_replies(room: MockRoom, open_page: OpenPage) -> None:
    first = room.say("OPS", "deployed", meta={"unverified": True})
    room.say("ben", "old", meta={"history": True})
    footer = {"decision": "Task done", "owner": "ann", "blockers": "None"}
    room.say("CLAUDE", "done", "agent", meta={"footer": footer, "tools": ["Edit a.py"]})
    page = await open_page()
    await expect(page.get_by_test_id("mark-unverified")).to_be_visible()
    await expect(page.get_by_test_id("mark-history")).to_be_visible()
    await expect(page.get_by_test_id("footer-chip")).to_have_count(3)
    await entries(page, "deployed").hover()
    await entries(page, "deployed").get_by_role("button", name="Reply").click()
    await expect(page.get_by_test_id("replying")).to_contain_text("OPS")
    await write(page, "thanks for that")
    await expect(entries(page, "thanks for that").get_by_test_id("quote")).to_contain_text("deployed")
    assert room.entries[-1]["in_reply_to"] == first["id"]
    await entries(page, "thanks for that").get_by_test_id("quote").click()
    await expect(entries(page).first).to_be_focused()


async def test_an_agent_that_works_is_steered_and_what_it_heard_stands_there(
    room: MockRoom, open_page: OpenPage
) -> None:
    room.agents[0]["channel"] = {"name": "stream-json input", "hears": "boundary", "why": "It says so."}
    page = await open_page()
    question = room.say("ben", "@CLAUDE build it")
    job = room.receipt(question, "CLAUDE", "active")
    room.stream(job, "I begin.", 0, tool="Bash: make test")
    stream = page.get_by_test_id("stream")
    await expect(stream).to_contain_text("gets this at its next tool")
    await stream.get_by_role("button", name="Steer").click()
    await page.get_by_test_id("steer-text").fill("leave the tests alone")
    await page.keyboard.press("Enter")
    told = entries(page, "/steer @CLAUDE leave the tests alone")
    await expect(told).to_be_visible()
    heard = {"heard_at": "2026-01-01T00:00:00Z", "heard_after": "Bash: make test"}
    room.receipt(room.entries[-1], "CLAUDE", "active", **heard)
    await expect(told.get_by_test_id("receipt")).to_contain_text("heard after Bash")
    await expect(stream.get_by_test_id("heard")).to_contain_text("leave the tests alone")
    last = room.entries[-1]
    meta = {
        "heard": [
            {"message": last["id"], "number": last["number"], "speaker": "ann", "after": "Bash: make test"}
        ]
    }
    room.say("CLAUDE", "Done, without the tests.", "agent", in_reply_to=question["id"], meta=meta)
    answer = entries(page, "Done, without the tests.").get_by_test_id("heard")
    await expect(answer).to_contain_text("heard after Bash: make test")
    await answer.get_by_role("button").click()
    await expect(told.first).to_be_focused()


HOSTILE = """<img src=x onerror="window.pwned=1"> <script>window.pwned=1</script>
<svg onload="window.pwned=1"><a xlink:href="javascript:window.pwned=1">x</a></svg>
[js](javascript:window.pwned=1) [JS](JaVaScRiPt:window.pwned=1) [data](data:text/html,<script>1</script>)
[vb](vbscript:x) ![pic](https://example.org/spy.png) ![x](javascript:window.pwned=1) <javascript:window.pwned=1>
[ok](https://example.org/ "title\\" onmouseover=\\"window.pwned=1")

```html"><img src=x onerror=window.pwned=1>
<b onclick="window.pwned=1">code</b>
```
<style>body{display:none}</style><iframe src="javascript:window.pwned=1"></iframe>
<form action="https://example.org"><input name=x></form>"""


async def test_text_is_never_html(room: MockRoom, open_page: OpenPage) -> None:
    room.say("<img src=x onerror=window.pwned=1>", HOSTILE)
    room.say("CLAUDE", HOSTILE, "agent", meta={"tools": [HOSTILE], "footer": {"decision": HOSTILE}})
    page = await open_page()
    job = room.receipt(room.say("ben", "@CODEX x"), "CODEX", "active", reason=HOSTILE)
    room.stream(job, HOSTILE, 0, tool=HOSTILE)
    await expect(page.get_by_test_id("stream")).to_be_visible()
    for text in await page.locator(".md").all():
        assert await text.locator("img, script, svg, iframe, style, form, input, object, embed").count() == 0
    links = await page.locator(".md a").evaluate_all(
        "all => all.map(a => [a.getAttribute('href'), a.target, a.rel, a.getAttributeNames().join()])"
    )
    assert links
    for href, target, rel, names in links:
        assert re.match(r"https?:|mailto:|#\d+$", href), href
        assert href.startswith("#") or (target, rel) == ("_blank", "noopener noreferrer")
        assert "on" not in [name[:2] for name in names.split(",")]
    await expect(page.locator(".md").first).to_contain_text('<img src=x onerror="window.pwned=1">')
    await page.get_by_test_id("open-search").click()
    await page.get_by_test_id("search").fill("onerror")
    await expect(page.get_by_test_id("hit").first.locator("mark")).to_have_text("onerror")
    assert await page.get_by_test_id("hit").locator("img, script").count() == 0
    assert await page.evaluate("window.pwned") is None


async def test_a_long_text_without_end_keeps_its_words(room: MockRoom, open_page: OpenPage) -> None:
    """Read in pieces; and what is nested deeper than its reader goes is shown as it was written."""
    room.say("CLAUDE", "[" * 4000 + "\n" + "a.py:1 **b** m1 " * 300, "agent")
    room.say("CLAUDE", ">" * 5000 + " deep", "agent")
    page = await open_page()
    long = entries(page).first.locator(".md")
    await expect(long.locator("strong")).to_have_count(300)
    assert (await long.text_content() or "").count("a.py:1 b m1 ") >= 299
    await expect(entries(page).last.locator(".md p")).to_have_text(">" * 5000 + " deep")


async def test_code_is_coloured_and_copied(room: MockRoom, open_page: OpenPage) -> None:
    room.say("CLAUDE", "```python\ndef f():\n    return 1\n```", "agent")
    page = await open_page()
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await expect(page.locator(".hljs-keyword").first).to_have_text("def")
    await page.get_by_role("button", name="Copy code").click()
    assert await page.evaluate("navigator.clipboard.readText()") == "def f():\n    return 1\n"
