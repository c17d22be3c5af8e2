"""The board, the agents, the queue, search, long rooms, what is unread, themes, keys and small screens."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest
from playwright.async_api import Page, expect

from scripts.bench.mock_room import MockRoom
from scripts.bench.mock_state import NOTHING_USED, new_agent
from tests.browser.mocked.conftest import OpenPage
from tests.browser.person import open_view, shot

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


def column(page: Page, status: str):  # type: ignore[no-untyped-def]
    return page.get_by_test_id(f"column-{status}")


async def test_the_board_moves_by_dragging_by_keys_and_back(room: MockRoom, open_page: OpenPage) -> None:
    room.task("write the test")
    room.task("fix it", badge="blocked")
    page = await open_page()
    await page.get_by_test_id("tab-board").click()
    await expect(column(page, "pending").get_by_test_id("task")).to_have_count(2)
    await expect(page.get_by_text("blocked", exact=True)).to_be_visible()
    card = page.get_by_test_id("task").filter(has_text="write the test")
    await card.drag_to(column(page, "in_progress"))
    await expect(column(page, "in_progress")).to_contain_text("write the test")
    await expect(page.get_by_test_id("toast")).to_contain_text("t1")
    await card.focus()
    await page.keyboard.press("Shift+ArrowRight")
    await expect(column(page, "done")).to_contain_text("write the test")
    await expect(card).to_be_focused()
    # It says what it takes back, and can be pressed while there is something.
    await expect(page.get_by_test_id("undo")).to_have_attribute(
        "aria-description", "Takes back: ann changed the board"
    )
    await page.get_by_test_id("undo").click()
    await expect(column(page, "in_progress")).to_contain_text("write the test")
    await page.get_by_test_id("add-task").fill("a third")
    await page.get_by_test_id("add-task").press("Enter")
    await expect(column(page, "pending")).to_contain_text("a third")
    assert {t["title"]: t["status"] for t in room.tasks} == {
        "write the test": "in_progress",
        "fix it": "pending",
        "a third": "pending",
    }
    # A click opens a card wherever it falls; two on the title rewrite it; its buttons do what they say.
    dialog = page.get_by_test_id("task-dialog")
    for part in (".task-meta", ".task-title"):
        await card.locator(part).click()
        await expect(dialog).to_contain_text("write the test")
        await page.keyboard.press("Escape")
        await expect(dialog).to_have_count(0)
    await card.locator(".task-title").dblclick()
    await page.get_by_label("Title of task 1").fill("write it all")
    await page.keyboard.press("Enter")
    await expect(column(page, "in_progress")).to_contain_text("write it all")
    await page.get_by_role("button", name="Move t1 on").click()
    await expect(column(page, "done")).to_contain_text("write it all")
    await expect(dialog).to_have_count(0)


async def test_a_move_that_the_room_refuses_is_taken_back(room: MockRoom, open_page: OpenPage) -> None:
    room.task("gone elsewhere")
    page = await open_page()
    await page.get_by_test_id("tab-board").click()
    await expect(column(page, "pending").get_by_test_id("task")).to_have_count(1)
    room.tasks = []
    await page.get_by_test_id("task").focus()
    await page.keyboard.press("Shift+ArrowRight")
    await expect(page.get_by_test_id("toast")).to_contain_text("There is no task #1")
    await expect(column(page, "pending").get_by_test_id("task")).to_have_count(1)


@pytest.mark.parametrize("refused", [False, True])
async def test_a_title_in_hand_outlives_the_answer_that_moves_its_card(
    room: MockRoom, open_page: OpenPage, refused: bool
) -> None:
    tasks = [room.task("sweep the yard")]
    page = await open_page()
    await page.get_by_test_id("tab-board").click()
    room.answers.clear()
    await page.get_by_test_id("task").focus()
    await page.keyboard.press("Shift+ArrowRight")
    await expect(column(page, "in_progress").get_by_test_id("task")).to_be_focused()
    await page.keyboard.press("Enter")
    title = page.get_by_label("Title of task 1")
    await expect(title).to_be_focused()
    await page.keyboard.type(" and the")
    if refused:
        room.tasks = []
        room.answers.set()
        await expect(column(page, "pending").get_by_test_id("task")).to_have_count(1)
        room.tasks = tasks
    else:
        room.answers.set()
        await expect(page.get_by_test_id("toast")).to_contain_text("t1 is in progress now")
        # Somebody else moves it, both ways: a card is drawn anew before its old self goes, and after.
        for status in ("done", "pending"):
            room.change_task(1, status=status)
            await expect(column(page, status).get_by_test_id("task")).to_have_count(1)
    await expect(title).to_be_focused()
    await page.keyboard.type(" path")
    assert room.tasks[0]["title"] == "sweep the yard"
    await page.keyboard.press("Enter")
    await expect(page.locator(".task-title")).to_have_text("sweep the yard and the path")
    assert room.tasks[0]["title"] == "sweep the yard and the path"


async def test_agents_show_how_they_are_and_take_orders(room: MockRoom, open_page: OpenPage) -> None:
    room.agents.insert(2, new_agent("GEMINI", installed=False, fix="npm install -g @google/gemini-cli"))
    room.lines["CLAUDE"] = [{"ts": "2026-01-01T10:00:00Z", "text": "reading a.py"}]
    page = await open_page()
    await page.get_by_test_id("agent-GEMINI").click()
    panel = page.get_by_test_id("agent-panel")
    await expect(panel.get_by_test_id("fix")).to_contain_text("npm install -g @google/gemini-cli")
    await page.get_by_test_id("agent-CLAUDE").click()
    await expect(panel.get_by_test_id("agent-log")).to_contain_text("reading a.py")
    question = room.say("ann", "@CLAUDE x")
    since = datetime.now(UTC).isoformat()
    room.agent(
        "CLAUDE",
        running={"job": 1, "message_id": question["id"], "since": since},
        budget={
            "turns_per_hour": {"used": 12, "limit": 30},
            "tokens": {"used": 9, "limit": 90, "input": 2, "cache_write": 3, "output": 4, "cache_read": 800},
            "usd": {"used": 0.5, "limit": 5},
        },
    )
    await expect(panel.get_by_test_id("health")).to_contain_text("working")
    await expect(panel.get_by_role("meter", name="Turns this hour")).to_have_attribute("aria-valuenow", "12")
    tokens = panel.get_by_role("meter", name="Tokens in 24 h, without cache reads")
    await expect(tokens).to_have_attribute("aria-valuenow", "9")
    for count in ("new input (2)", "cache writes (3)", "output (4)", "Cache reads (800) do not count"):
        await expect(tokens.locator("..")).to_have_attribute("data-tip", re.compile(re.escape(count)))
    await expect(panel.get_by_role("meter", name="Dollars in 24 h")).to_be_visible()
    await panel.get_by_role("button", name="Cancel turn").click()
    await expect(panel.get_by_test_id("health")).to_contain_text("ready")
    await panel.get_by_role("button", name="Pause").click()
    await expect(panel.get_by_test_id("health")).to_contain_text("paused")
    await panel.get_by_role("button", name="Resume").click()
    await expect(panel.get_by_test_id("health")).to_contain_text("ready")
    await panel.get_by_label("Model").fill("sonnet")
    await panel.get_by_role("button", name="Save").click()
    await expect(page.get_by_test_id("toast").filter(has_text="config.json")).to_be_visible()
    room.agent("CLAUDE", budget={"turns_per_hour": {"used": 30, "limit": 30}, "tokens": None, "usd": None})
    await expect(panel.get_by_test_id("health")).to_contain_text("budget spent")
    broken = {"state": "open", "failures": 3, "threshold": 3, "retry_at": None}
    room.agent("CLAUDE", breaker=broken)
    await expect(panel.get_by_test_id("breaker")).to_contain_text("3 failures in a row")
    assert room.actions == [("CLAUDE", "cancel"), ("CLAUDE", "pause"), ("CLAUDE", "resume")]
    assert room.patches == [("CLAUDE", {"model": "sonnet"})]


async def test_the_name_of_an_agent_in_trouble_is_read_in_the_side_bar(
    room: MockRoom, open_page: OpenPage
) -> None:
    """Also once the cards of the agents, with styles of their own, were looked at."""
    room.agents[0]["breaker"] = {"state": "open", "failures": 3, "threshold": 3, "retry_at": 4e9}
    used = {**NOTHING_USED, "turns": 9, "input": 1_200_000, "output": 900_000, "unpriced": 9}
    room.usage |= {"total": used, "agents": {"CLAUDE": used}}
    page = await open_page()
    name = page.get_by_test_id("agent-CLAUDE").locator(".agent-name")
    whole = "name => name.clientWidth > 20 && name.scrollWidth <= name.clientWidth"
    await expect(page.get_by_test_id("agent-CLAUDE")).to_contain_text("circuit open")
    assert await name.evaluate(whole)
    await page.get_by_test_id("tab-agents").click()
    await expect(page.locator(".agents-view")).to_be_visible()
    assert await name.evaluate(whole)


async def test_a_room_without_agents_says_what_to_install(room: MockRoom, open_page: OpenPage) -> None:
    room.agents = [new_agent("CLAUDE", installed=False, fix="npm install -g @anthropic-ai/claude-code")]
    page = await open_page()
    await expect(page.get_by_test_id("welcome")).to_contain_text("npm install -g @anthropic-ai/claude-code")
    room.agent("CLAUDE", installed=True)
    await expect(page.get_by_test_id("welcome")).to_contain_text("CLAUDE is ready")
    await expect(page.get_by_test_id("welcome")).to_contain_text("a dispatcher decides who answers")
    room.dispatcher |= {"enabled": False, "state": "off"}
    await page.reload()
    await expect(page.get_by_test_id("welcome")).to_contain_text("every active agent answers")


async def test_of_a_long_queue_what_is_open_is_there_from_the_start(
    room: MockRoom, open_page: OpenPage
) -> None:
    """Read at first are the newest rows; one that waits is older."""
    room.receipt(room.say("ann", "@CODEX look"), "CODEX", "pending")
    for number in range(80):
        room.receipt(room.say("ann", f"@CLAUDE look {number}"), "CLAUDE", "done")
    page = await open_page()
    await expect(page.get_by_test_id("tab-queue").locator("em")).to_have_text("1")
    await expect(page.get_by_test_id("receipt").last).to_contain_text("CLAUDE")


async def test_the_queue_is_filtered_and_retried(room: MockRoom, open_page: OpenPage) -> None:
    question = room.say("ann", "@all look")
    room.receipt(question, "CLAUDE", "dead", reason="crashed", attempts=5)
    room.receipt(question, "CODEX", "active")
    page = await open_page()
    await page.get_by_test_id("tab-queue").click()
    await expect(page.get_by_test_id("job")).to_have_count(2)
    await page.get_by_test_id("filter-dead").click()
    await expect(page.get_by_test_id("job")).to_have_count(1)
    await page.get_by_test_id("job").get_by_role("button", name="Retry").click()
    await expect(page.get_by_test_id("job")).to_have_count(0)
    await page.get_by_test_id("filter-pending").click()
    await expect(page.get_by_test_id("job")).to_contain_text("CLAUDE")
    assert room.retried == [1]


async def test_search_finds_what_is_far_back_and_jumps_there(room: MockRoom, open_page: OpenPage) -> None:
    for number in range(1, 601):
        room.say("ben", "the needle is here" if number == 40 else f"hay {number}")
    page = await open_page()
    await page.keyboard.press("Control+k")
    await page.get_by_test_id("search").fill("needle")
    hit = page.get_by_test_id("hit")
    await expect(hit.locator("mark")).to_have_text("needle")
    await hit.click()
    found = page.get_by_test_id("entry").filter(has_text="the needle is here")
    await expect(found).to_be_in_viewport()
    await expect(found).to_be_focused()
    room.say("ben", "newest of all")
    await page.get_by_test_id("jump-latest").click()
    await expect(page.get_by_test_id("entry").filter(has_text="newest of all")).to_be_in_viewport()


async def test_a_permalink_opens_at_its_entry(room: MockRoom, open_page: OpenPage) -> None:
    for number in range(1, 401):
        room.say("ben", f"hay {number}")
    page = await open_page(path="#17")
    await expect(page.locator('[data-number="17"]')).to_be_in_viewport()


async def test_every_view_has_an_address(room: MockRoom, open_page: OpenPage) -> None:
    for number in range(1, 61):
        room.say("ben", f"hay {number}")
    room.task("write the test")
    page = await open_page()

    async def stands(view: str, address: str) -> None:
        await expect(page.get_by_test_id(f"tab-{view}")).to_have_attribute("aria-current", "page")
        await page.wait_for_function("address => location.hash === address", arg=address)

    dialog, panel = page.get_by_test_id("task-dialog"), page.get_by_test_id("agent-panel")
    steps = ("board", "agents", "queue", "airspace", "locks", "worktrees")
    for view in steps:
        await open_view(page, view)
        await stands(view, f"#/{view}")
    await expect(page).to_have_title(re.compile("Worktrees · .+ · relay"))
    for view in reversed(steps[:-1]):
        await page.go_back()
        await stands(view, f"#/{view}")
    await page.go_back()
    await stands("room", "")
    await page.go_forward()
    await stands("board", "#/board")
    # What lies over a view is in its address, closes by going back and comes again by going on.
    await page.get_by_test_id("task-open").click()
    await expect(dialog).to_be_visible()
    await stands("board", "#/board?task=1")
    await page.go_back()
    await expect(dialog).to_have_count(0)
    await page.go_forward()
    await expect(dialog).to_contain_text("write the test")
    await page.reload()
    await expect(dialog).to_contain_text("write the test")
    await page.keyboard.press("Escape")
    await stands("board", "#/board")
    await page.get_by_test_id("agent-CLAUDE").click()
    await expect(panel).to_be_visible()
    await stands("board", "#/board?agent=CLAUDE")
    await page.get_by_test_id("tab-locks").click()
    await page.reload()
    await stands("locks", "#/locks?agent=CLAUDE")
    await expect(panel).to_contain_text("CLAUDE")
    # An entry's own address is one to come back to.
    await page.evaluate("location.hash = '#3'")
    await expect(page.locator('[data-number="3"]')).to_be_in_viewport()
    await page.get_by_test_id("tab-queue").click()
    await page.go_back()
    await expect(page.locator('[data-number="3"]')).to_be_in_viewport()
    assert await page.evaluate("location.hash") == "#3"
    # A link that somebody shares, also one that names what is not here.
    other = await open_page(name="ben", path="#/board?task=1")
    await expect(other.get_by_test_id("task-dialog")).to_contain_text("write the test")
    other = await open_page(name="ben", path="#/agents?agent=NOBODY&task=x")
    await expect(other.get_by_test_id("tab-agents")).to_have_attribute("aria-current", "page")
    await expect(other.get_by_test_id("agent-panel")).to_have_count(0)


async def test_a_long_room_is_paged_and_the_dom_stays_small(room: MockRoom, open_page: OpenPage) -> None:
    for number in range(1, 601):
        room.say("ben" if number % 3 else "CLAUDE", f"entry {number} of many\n\nwith **text**")
    page = await open_page()
    transcript = page.get_by_test_id("transcript")
    await expect(page.locator('[data-number="600"]')).to_be_in_viewport()
    most = 0
    first = page.locator('[data-number="1"]')
    for _ in range(120):
        await transcript.evaluate("box => box.scrollTop = 0")
        await page.evaluate("new Promise(done => setTimeout(done, 40))")
        most = max(most, await page.get_by_test_id("entry").count())
        if await first.count() and await transcript.evaluate("box => box.scrollTop") == 0:
            break
    await expect(first).to_be_in_viewport()
    assert most <= 240
    assert await page.evaluate("document.querySelectorAll('*').length") < 12_000


async def test_a_reader_who_scrolled_up_stays_there(room: MockRoom, open_page: OpenPage) -> None:
    for number in range(1, 301):
        room.say("ben", f"entry {number}")
    page = await open_page()
    transcript = page.get_by_test_id("transcript")
    await expect(page.locator('[data-number="300"]')).to_be_in_viewport()
    await transcript.evaluate("box => box.scrollTop -= 1500")
    await expect(transcript).to_have_attribute("data-pinned", "false")
    await page.evaluate("new Promise(done => setTimeout(done, 200))")
    seen = (
        "() => { const box = document.querySelector('[data-testid=transcript]').getBoundingClientRect();"
        " const rows = [...document.querySelectorAll('.entry[id]')];"
        " const row = rows.find(r => r.getBoundingClientRect().top > box.top);"
        " return [row.id, Math.round(row.getBoundingClientRect().top)]; }"
    )
    before = await page.evaluate(seen)
    for number in range(40):
        room.say("ben", f"later {number}")
    await expect(page.get_by_test_id("jump-latest")).to_contain_text("40 new")
    assert await page.evaluate(seen) == before
    await expect(page).to_have_title("(40) payments · relay")
    await page.get_by_test_id("jump-latest").click()
    await expect(page.get_by_test_id("entry").filter(has_text="later 39")).to_be_in_viewport()
    await expect(page).to_have_title("payments · relay")


async def test_what_came_between_two_visits_is_marked(room: MockRoom, open_page: OpenPage) -> None:
    room.say("ben", "seen")
    page = await open_page()
    await expect(page.get_by_test_id("entry")).to_have_count(1)
    await page.wait_for_function("localStorage.getItem('relay.read') === '1'")
    await page.goto(f"{room.url}/health")
    room.say("ben", "unseen one")
    room.say("ben", "unseen two")
    await page.goto(room.url)
    line = page.get_by_test_id("new-line")
    await expect(line).to_have_count(1)
    after = await line.evaluate("line => line.nextElementSibling.dataset.number")
    assert after == "2"
    await page.get_by_test_id("composer").fill("I have read it")
    await page.get_by_test_id("composer").press("Enter")
    await expect(line).to_have_count(0)


async def test_the_theme_follows_the_system_until_it_is_chosen(room: MockRoom, open_page: OpenPage) -> None:
    page = await open_page(scheme="dark")
    ground = "getComputedStyle(document.body).backgroundColor"
    dark = await page.evaluate(ground)
    await page.get_by_test_id("theme").click()
    await page.wait_for_function(f"{ground} !== '{dark}'")
    await page.reload()
    await page.get_by_test_id("theme").wait_for()
    assert await page.evaluate(ground) != dark
    await page.get_by_test_id("theme").click()
    await page.wait_for_function(f"{ground} === '{dark}'")


async def test_keys_lead_everywhere(room: MockRoom, open_page: OpenPage) -> None:
    room.say("ben", "one")
    room.say("ann", "two")
    page = await open_page()
    await expect(page.get_by_test_id("entry")).to_have_count(2)
    for key, heading in [("b", "Board"), ("a", "Agents"), ("q", "Queue")]:
        await page.keyboard.press("g")
        await page.keyboard.press(key)
        await expect(page.get_by_role("heading", name=heading, exact=True, level=1)).to_be_visible()
    await page.keyboard.press("?")
    await expect(page.get_by_test_id("help")).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(page.get_by_test_id("help")).to_have_count(0)
    await page.keyboard.press("/")
    await expect(page.get_by_test_id("composer")).to_be_focused()
    await expect(page.get_by_test_id("composer")).to_have_value("")
    await page.keyboard.press("Escape")
    await page.keyboard.press("k")
    await page.keyboard.press("k")
    await page.keyboard.press("r")
    await expect(page.get_by_test_id("replying")).to_contain_text("ben")


async def test_a_phone_has_everything_without_scrolling_sideways(room: MockRoom, open_page: OpenPage) -> None:
    question = room.say("ann", "@CLAUDE @CODEX averyveryverylongwordwithoutanyblank" + "x" * 200)
    room.receipt(
        question, "CLAUDE", "skipped", reason="a reason that goes on for much longer than a phone is wide"
    )
    room.say("CLAUDE", "| a | b |\n|-|-|\n|" + "wide " * 60 + "| 2 |\n\n```\n" + "y" * 300 + "\n```", "agent")
    room.task("a task")
    page = await open_page(size=(360, 740))
    await expect(page.get_by_test_id("entry")).to_have_count(2)
    for view in ("room", "board", "agents", "queue"):
        await open_view(page, view)
        assert await page.evaluate("document.documentElement.scrollWidth") <= 360, view
        if view == "room":
            row = "Math.max(...[...document.querySelectorAll('.entry')].map(e => e.getBoundingClientRect().right))"
            assert await page.evaluate(row) <= 360
    await page.get_by_test_id("tab-room").click()
    await page.get_by_test_id("composer").fill("/mo")
    cut = "[...document.querySelectorAll('.completion li')].filter((row) => row.scrollWidth > row.clientWidth).length"
    await expect(page.get_by_test_id("completion")).to_contain_text("/move")
    assert await page.evaluate(cut) == 0
    await page.get_by_test_id("composer").fill("")
    await page.get_by_test_id("tab-board").click()
    await page.get_by_role("button", name="Move t1 on").click()
    await expect(column(page, "in_progress")).to_contain_text("a task")
    # Its tasks are what one sees, in whichever column they are; and of the agents who is in trouble is the first.
    room.agent("CODEX", breaker={"state": "open", "failures": 3, "threshold": 3, "retry_at": 4e9})
    await expect(page.get_by_test_id("agent-chips").get_by_role("button").first).to_contain_text("CODEX")
    await page.get_by_test_id("tab-room").click()
    await page.get_by_test_id("tab-board").click()
    await expect(column(page, "in_progress")).to_be_in_viewport(ratio=0.95)
    await page.get_by_test_id("tab-agents").click()
    await page.get_by_role("button", name="Open CLAUDE").click()
    await expect(page.get_by_test_id("agent-panel")).to_be_in_viewport(ratio=0.9)


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_the_bar_of_a_phone_has_names_and_the_rest_behind_more(
    room: MockRoom, open_page: OpenPage, scheme: str
) -> None:
    page = await open_page(size=(390, 844), scheme=scheme)
    bar, more = page.locator(".bottom-tabs > .tabs > *"), page.get_by_test_id("tabs-more")
    sheet = page.get_by_test_id("tab-sheet")
    await expect(bar).to_have_text(
        [re.compile(one) for one in ("Room", "Needs you", "Board", "Agents", "More")]
    )
    await shot(page, f"bar-{scheme}")
    cut = "(all) => all.filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.textContent)"
    assert await page.locator(".bottom-tabs > .tabs span").evaluate_all(cut) == []
    # By keyboard: in, to a view, and the focus comes back.
    await more.focus()
    await page.keyboard.press("Enter")
    await expect(sheet).to_be_visible()
    await expect(more).to_have_attribute("aria-expanded", "true")
    await expect(sheet.get_by_test_id("tab-queue")).to_be_focused()
    await shot(page, f"sheet-{scheme}")
    await page.keyboard.press("Escape")
    await expect(sheet).to_have_count(0)
    await expect(more).to_be_focused()
    await more.click()
    names = await sheet.locator("a > span").all_inner_texts()
    assert {"Airspace", "Locks", "Worktrees", "Timeline", "Memory", "Metrics"} <= set(names)
    await sheet.get_by_test_id("tab-memory").click()
    await expect(sheet).to_have_count(0)
    # The view that is open is in the bar, wherever it was.
    await expect(bar.filter(has_text="Memory")).to_have_attribute("aria-current", "page")
    await expect(bar).to_have_count(5)
    await page.get_by_test_id("tab-room").click()
    await expect(page.get_by_test_id("tab-memory")).to_have_count(0)
