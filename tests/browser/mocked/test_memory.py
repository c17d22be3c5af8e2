"""The memory view in front of a mock room: an empty one, errors, late answers, keys, and ten thousand entries."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page, Route, expect

from scripts.bench.mock_room import MockRoom
from tests.browser.mocked.conftest import OpenPage
from tests.browser.test_look import FOCUS_SEEN, PALE, UNNAMED

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

STATIC = Path(__file__).parents[3] / "relay" / "faces" / "static" / "assets"
PHONE = (390, 844)
WIDE = "document.scrollingElement.scrollWidth - innerWidth"


def lessons(room: MockRoom, count: int = 3) -> None:
    for at in range(1, count + 1):
        more = {"tags": ["money"]} if at == 1 else {"outcome": "failure"} if at == 2 else {}
        room.memory.remember(
            "ann" if at % 2 else "CODEX", f"Lesson {at} about the clock", days=count - at, **more
        )


def numbers(page: Page):  # type: ignore[no-untyped-def]
    return page.get_by_test_id("memory")


@pytest.mark.parametrize("size", [(1280, 800), PHONE])
async def test_an_empty_memory_says_how_it_fills(
    room: MockRoom, open_page: OpenPage, size: tuple[int, int]
) -> None:
    page = await open_page(path="#/memory", size=size, scheme="dark" if size == PHONE else "light")
    empty = page.get_by_test_id("mem-empty")
    for said in ("fills this by itself", "/remember", "/decide", "relay memory import"):
        await expect(empty).to_contain_text(said)
    await page.get_by_test_id("mem-as-graph").click()
    await expect(page.get_by_test_id("kg-empty")).to_contain_text("PROBLEM:")
    assert await page.evaluate(WIDE) <= 0
    assert await page.evaluate(UNNAMED) == []
    # A line of an example that does not fit goes on inside of its box.
    edges = "(all) => all.map((code) => code.getClientRects().length)"
    assert set(await page.locator(".mem-empty code").evaluate_all(edges)) == {1}
    # What is said meanwhile is remembered, and shown without being asked for.
    await page.get_by_test_id("mem-as-list").click()
    await expect(empty).to_be_visible()
    lessons(room, 1)
    room.say("ann", "Lesson 1 about the clock")
    await expect(numbers(page)).to_have_count(1)


async def test_each_thing_that_goes_wrong_is_said(room: MockRoom, open_page: OpenPage) -> None:
    lessons(room)
    page = await open_page()
    answers: list[int] = [500]

    async def fail(route: Route) -> None:
        error = {"code": "internal", "message": "The disk is full.", "fix": "Make room on it."}
        await route.fulfill(status=answers[0], json={"error": error})

    for pattern in ("**/api/memory?*", "**/knowledge?*"):
        await page.route(pattern, fail)
    await page.get_by_test_id("tab-memory").click()
    alert = page.get_by_role("alert")
    await expect(alert).to_have_text("The disk is full. Make room on it.")
    # It does not go on looking, and does not say that there is nothing.
    await expect(page.get_by_test_id("mem-status")).to_have_text("")
    await expect(page.get_by_test_id("mem-empty")).to_have_count(0)
    await page.get_by_test_id("mem-as-graph").click()
    await expect(alert).to_have_text("The disk is full. Make room on it.")
    await page.unroute("**/api/memory?*")
    await page.unroute("**/knowledge?*")
    await page.get_by_test_id("mem-as-list").click()
    await expect(numbers(page)).to_have_count(3)
    await expect(alert).to_have_count(0)
    await page.get_by_test_id("mem-search").fill("zebra")
    await expect(page.get_by_test_id("mem-none")).to_contain_text(
        "Nothing is remembered that bears on “zebra”"
    )
    # A refusal of who may not forget stands in the dialog, and nothing is gone.
    await page.get_by_test_id("mem-search").fill("clock")
    room.memory.refusal = {"success": False, "reason": "r3 is not yours.", "fix": "Ask ann."}
    await numbers(page).first.get_by_test_id("forget").click()
    await page.get_by_test_id("forget-now").click()
    await expect(page.get_by_test_id("forget-dialog").get_by_role("alert")).to_have_text(
        "r3 is not yours. Ask ann."
    )
    await page.get_by_role("button", name="Keep it").click()
    await expect(numbers(page)).to_have_count(3)

    # An entry that is not there: said, although the list comes, and later.
    async def late(route: Route) -> None:
        await asyncio.sleep(0.5)
        await route.continue_()

    await page.route("**/knowledge?*", late)
    await page.route("**/knowledge?near=*", fail)
    answers[0] = 404
    async with page.expect_response(lambda got: "/knowledge?" in got.url and "near=" not in got.url):
        await page.goto(f"{room.url}/#/memory?as=graph&entry=k77")
    await expect(page.get_by_test_id("kg-chosen")).to_have_count(0)
    await expect(alert).to_be_visible()
    await expect(page.get_by_test_id("kg-status")).to_have_text("")


async def test_the_answer_to_the_last_question_stands(room: MockRoom, open_page: OpenPage) -> None:
    """An answer that comes late is none to what is asked by then."""
    room.memory.remember("ann", "the slow answer")
    room.memory.remember("ann", "the quick answer")
    page = await open_page(path="#/memory")
    await expect(numbers(page)).to_have_count(2)
    asked, free = asyncio.Event(), asyncio.Event()

    async def late(route: Route) -> None:
        asked.set()
        await free.wait()
        await route.continue_()

    await page.route(re.compile(r"/api/memory\?.*q=slow"), late)
    await page.get_by_test_id("mem-search").fill("slow")
    await asked.wait()
    await page.get_by_test_id("mem-search").fill("quick")
    await expect(numbers(page)).to_have_count(1)
    await expect(numbers(page)).to_have_text(re.compile("the quick answer"))
    async with page.expect_response(re.compile("q=slow")):
        free.set()
    await page.evaluate("new Promise((go) => requestAnimationFrame(() => requestAnimationFrame(go)))")
    await expect(numbers(page)).to_have_text(re.compile("the quick answer"))


async def test_what_ended_says_so_and_no_text_leaves_its_box(room: MockRoom, open_page: OpenPage) -> None:
    room.memory.remember("ann", "Kafka carries the messages", is_valid=False)
    piled = {
        "outcome": "o" + "\u0301" * 400,
        "tags": ["t" + "\u0301" * 400],
        "event_type": "e" + "\u0301" * 400,
    }
    room.memory.remember("ann", "s" + "\u0301" * 400, lessons=["l" + "\u0301" * 400], **piled)
    page = await open_page(path="#/memory")
    await expect(numbers(page)).to_have_count(2)
    ended = page.get_by_text("no longer holds", exact=True)
    await expect(ended).to_have_count(1)
    await expect(page.locator('[data-testid="memory"][data-number="1"]')).to_contain_text("no longer holds")
    boxes = page.locator('[data-number="2"]').locator(
        ".mem-kind, .mem-outcome, .mem-tag, .mem-text, .mem-lessons li"
    )
    await expect(boxes).to_have_count(5)
    for box in await boxes.all():
        await expect(box).to_have_css("overflow-y", "clip")


async def test_filters_keys_and_the_way_back(room: MockRoom, open_page: OpenPage) -> None:
    lessons(room, 60)
    room.memory.memories[0] |= {"lessons": ["Round once."], "outcome": "success"}
    page = await open_page()
    await page.keyboard.press("g")
    await page.keyboard.press("m")
    await expect(numbers(page)).to_have_count(25)
    await expect(page.get_by_test_id("mem-status")).to_have_text("The newest 25 or more")
    await page.get_by_test_id("mem-more").click()
    await expect(numbers(page)).to_have_count(50)
    await page.get_by_test_id("mem-more").click()
    await expect(numbers(page)).to_have_count(60)
    await expect(page.get_by_test_id("mem-more")).to_have_count(0)
    await page.get_by_test_id("mem-agent").select_option("CODEX")
    await page.get_by_test_id("mem-time").select_option("week")
    await expect(page.get_by_test_id("mem-status")).to_have_text("The newest 4")
    asked = room.memory.asked[-1][1]
    assert (asked["agent"], asked["since"][:4].isdigit()) == ("CODEX", True)
    await page.get_by_test_id("mem-clear").click()
    # The lessons, the outcome and the tag of the oldest; a tag filters.
    await page.get_by_test_id("mem-search").fill("r1")
    await expect(numbers(page)).to_have_count(1)
    await expect(numbers(page)).to_contain_text("Round once.")
    await expect(numbers(page)).to_contain_text("success")
    await page.get_by_role("button", name="Only with the tag money").click()
    await expect(page.get_by_test_id("mem-tag")).to_have_value("money")
    # One step back is out of the view, with all that was asked for; forward again is the same question.
    await expect(page).to_have_url(f"{room.url}/#/memory?q=r1&tag=money")
    await page.go_back()
    await expect(page.get_by_test_id("tab-room")).to_have_attribute("aria-current", "page")
    await page.go_forward()
    await expect(page.get_by_test_id("mem-tag")).to_have_value("money")
    await expect(numbers(page)).to_have_count(1)
    # Keys: from memory to memory, and forgetting puts the focus on the next.
    await page.goto(f"{room.url}/#/memory?q=clock")
    await expect(numbers(page)).to_have_count(25)
    await page.keyboard.press("/")
    await expect(page.get_by_test_id("mem-search")).to_be_focused()
    await page.keyboard.press("ArrowDown")
    await expect(numbers(page).first).to_be_focused()
    await page.keyboard.press("ArrowDown")
    await expect(numbers(page).nth(1)).to_be_focused()
    assert await page.evaluate(FOCUS_SEEN) == ""
    for _ in ("useful", "useless", "forget"):
        await page.keyboard.press("Tab")
    await expect(numbers(page).nth(1).get_by_test_id("forget")).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("button", name="Keep it")).to_be_focused()
    await page.keyboard.press("Tab")
    await page.keyboard.press("Enter")
    await expect(page.get_by_test_id("toast")).to_contain_text("r59 is forgotten.")
    await expect(page.locator('[data-testid="memory"][data-number="59"]')).to_have_count(0)
    await expect(page.locator('[data-testid="memory"][data-number="58"]')).to_be_focused()
    assert room.memory.asked[-1] == ("forget", {"number": 59, "name": "ann"})


def given(memory: dict[str, Any], source: dict[str, Any] | None) -> dict[str, Any]:
    """A memory as the list of what an agent was given has it."""
    told = {"id": memory["memory_id"], "reference": f"r{memory['number']}", "author": memory["agent_id"]}
    told |= {name: memory[name] for name in ("memory_type", "number", "event_id", "outcome", "tags")}
    at, message = memory["created_at"], source and source["message"]
    return told | {
        "at": at,
        "message": message,
        "source": source,
        "forgotten": False,
        "text": memory["summary"],
    }


@pytest.mark.parametrize(("size", "scheme"), [((1280, 800), "light"), (PHONE, "dark")])
async def test_what_an_agent_was_given_is_judged_forgotten_and_leads_on(
    room: MockRoom, open_page: OpenPage, size: tuple[int, int], scheme: str
) -> None:
    asked = room.say("ann", "@CLAUDE may I mock the clock?")
    said = {"type": "message.posted", "event": 1, "message": asked["id"], "task": None, "moment": 1}
    sources = [said | {"type": "task.changed", "message": None, "task": 1}, said, None]
    memories = [room.memory.remember("ann", f"Lesson {at} about the clock") for at in (1, 2, 3)]
    names = [{"id": memory["memory_id"]} for memory in memories]
    answer = room.say("CLAUDE", "No.", "agent", in_reply_to=asked["id"], meta={"memories": names})
    room.memory.given[answer["id"]] = list(map(given, memories, sources))
    room.memory.given[answer["id"]][2]["is_valid"] = False
    page = await open_page(size=size, scheme=scheme)
    await page.get_by_test_id("given-open").click()
    row = page.get_by_test_id("given-memory")
    await expect(row).to_have_count(3)
    await expect(row.nth(0).get_by_role("button", name="Open task t1")).to_be_visible()
    await expect(row.nth(1).get_by_role("button", name="Open the message")).to_be_visible()
    await expect(row.nth(2).get_by_role("button", name=re.compile("^Open"))).to_have_count(0)
    ended = page.get_by_text("no longer holds", exact=True)
    await expect(ended).to_have_count(1)
    await expect(row.nth(2)).to_contain_text("no longer holds")
    # What was said is seen, and not by its count alone.
    look = "(e) => { const s = getComputedStyle(e); return [s.backgroundColor, s.borderColor, s.color]; }"
    useful, useless = (row.nth(0).get_by_test_id(word) for word in ("useful", "useless"))
    assert await useful.evaluate(look) == await useless.evaluate(look)
    await useful.click()
    await expect(useful).to_have_attribute("aria-pressed", "true")
    for pointer in ((5, 5), None):
        await (page.mouse.move(*pointer) if pointer else useful.hover())
        pairs = zip(await useful.evaluate(look), await useless.evaluate(look), strict=True)
        assert all(said != other for said, other in pairs), pointer
    assert await page.evaluate(PALE) == []
    # Forgotten: the focus goes to the next; behind the last to what opens the list.
    for at in (1, 2):
        await row.nth(at).get_by_test_id("given-forget").click()
        await page.get_by_test_id("forget-now").click()
        await expect(row.nth(at)).to_have_attribute("data-gone", "true")
        to = row.nth(2).locator("button").first if at == 1 else page.get_by_test_id("given-open")
        await expect(to).to_be_focused()
    assert await page.evaluate(WIDE) <= 0


async def test_the_numbers_of_memories_are_links_where_the_room_says_them(
    room: MockRoom, open_page: OpenPage
) -> None:
    room.memory.remember("ann", "Lesson 1 about the clock")
    told = (
        "> r1 ann, 2026-11-23 14:02 UTC: the backups lie in R2\n\n`/forget r1` and nobody is told it again."
    )
    room.say("ann", "is r1 better than #r1?")
    room.say("RELAY", told, "system")
    page = await open_page()
    links = page.locator(".entry a.ref")
    # In people's words only what says so: another thing may have that name.
    await expect(links).to_have_text(["#r1", "r1"])
    await links.nth(1).click()
    await expect(page).to_have_url(f"{room.url}/#/memory?q=r1")
    await expect(numbers(page)).to_contain_text("Lesson 1 about the clock")


async def test_what_was_said_next_to_it_and_what_was_said_again(room: MockRoom, open_page: OpenPage) -> None:
    why = {"words": [], "tags": [], "neighbour": ["clock"], "author": None}
    for text in ("an emu", "another emu"):
        room.memory.remember("bob", text, days=3, why=why, beside=True)
    again = room.memory.remember("ann", "Never mock the clock", days=2, merged=2)
    again["updated_at"] = room.memory.remember("ann", "The clock is injected", days=1)["created_at"]
    page = await open_page(path="#/memory?q=clock")
    await expect(numbers(page)).to_have_count(4)
    # They bear on nothing, so nobody counts them.
    await expect(page.get_by_test_id("mem-status")).to_have_text("2 memories bear on it, the best first")
    lists = page.locator(".mem-list")
    await expect(lists.nth(0).get_by_test_id("memory")).to_have_count(2)
    await expect(page.get_by_test_id("mem-beside")).to_have_text("Said next to it")
    await expect(lists.nth(1)).to_contain_text("“clock” was said next to it")
    await numbers(page).nth(1).focus()
    await page.keyboard.press("ArrowDown")
    await expect(numbers(page).nth(2)).to_be_focused()
    # What was said again says when last, as the newest are in that order.
    await expect(numbers(page).nth(1).locator("time")).to_have_text(re.compile("3 times, last yesterday"))
    assert await page.evaluate(UNNAMED) == []
    # Where all that had the word is forgotten here, the others still do not count.
    for _ in range(2):
        await numbers(page).first.get_by_test_id("forget").click()
        await page.get_by_test_id("forget-now").click()
        await expect(page.get_by_test_id("forget-dialog")).to_have_count(0)
    await expect(page.get_by_test_id("mem-status")).to_have_text("No memories bear on it")


async def test_the_changes_of_one_file_are_one_row(room: MockRoom, open_page: OpenPage) -> None:
    for at in range(33):
        change = {"topics": ["file_modification"], "related_files": ["fg.log"]}
        room.memory.know("CODEX", "fact", f"Modified file: fg.log {at}", days=2 - at / 100, **change)
    room.memory.know("ann", "decision", "Use tabs", days=4)
    page = await open_page(path="#/memory?as=graph", size=PHONE)
    await expect(page.get_by_test_id("kg-status")).to_have_text(
        "1 entry, the newest first, then 33 changes of files"
    )
    fold = page.get_by_test_id("kg-fold")
    await expect(fold.locator("summary")).to_contain_text("fg.log 33 changes, last")
    row = page.get_by_test_id("kg-row")
    assert await row.filter(visible=True).count() == 1
    # The keys go from row to row, into what is open and past what is not.
    await row.filter(has_text="Use tabs").focus()
    await page.keyboard.press("ArrowDown")
    await expect(fold.locator("summary")).to_be_focused()
    await page.keyboard.press("Enter")
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("Enter")
    await expect(page.get_by_test_id("kg-chosen")).to_contain_text("Modified file: fg.log 32")
    assert await page.evaluate(UNNAMED) == []


async def test_a_small_graph_on_a_phone_leaves_room_for_its_list(room: MockRoom, open_page: OpenPage) -> None:
    problem = room.memory.know("ann", "problem", "The walrus cache loses writes when two are flushed at once")
    solution = room.memory.know("ann", "solution", "Flush the walrus cache under the lock of its store")
    room.memory.relate(solution, "solves", problem)
    page = await open_page(path=f"#/memory?as=graph&entry={solution['id']}", size=PHONE)
    await expect(page.get_by_test_id("kg-row")).to_be_in_viewport(ratio=1)
    middle = """() => {
      const stage = document.querySelector('.kg-stage').getBoundingClientRect();
      const spot = document.querySelector('.kg-spot.chosen circle').getBoundingClientRect();
      return Math.abs(spot.x + spot.width / 2 - stage.x - stage.width / 2);
    }"""
    assert await page.evaluate(middle) < 1
    names = await page.locator(".kg-name").all_text_contents()
    assert len(names) == 2 and not any("…" in name for name in names)
    assert await page.evaluate(WIDE) <= 0


async def test_the_graph_by_pointer_and_keyboard(room: MockRoom, open_page: OpenPage) -> None:
    know, relate = room.memory.know, room.memory.relate
    new = know(
        "ann", "decision", "PostgreSQL", rationale="row locks", alternatives=["SQLite"], topics=["stores"]
    )
    old = know("CLAUDE", "decision", "SQLite only", days=9)
    problem = know("CODEX", "problem", "Writers wait", days=3)
    far = know("CODEX", "contract", "One transaction", days=2)
    relate(new, "supersedes", old)
    relate(new, "solves", problem)
    relate(far, "depends_on", problem)
    page = await open_page(path=f"#/memory?as=graph&entry={new['id']}")
    spot = page.get_by_test_id("kg-spot")
    await expect(spot).to_have_count(3)
    row = page.get_by_test_id("kg-row")
    await expect(row).to_have_text([re.compile("is replaced by it"), re.compile("is solved by it")])
    # What is closed is dimmed, here and in the list.
    closed = page.locator(f'[data-testid="kg-spot"][data-id="{old["id"]}"]')
    await expect(closed).to_have_css("opacity", "0.5")
    await expect(row.first).to_contain_text("no longer holds")
    # What the list points at is marked in the picture.
    await row.nth(1).focus()
    await expect(page.locator(f'[data-testid="kg-spot"][data-id="{problem["id"]}"]')).to_have_class(
        re.compile("pointed")
    )
    await page.get_by_test_id("kg-steps-2").click()
    await expect(spot).to_have_count(4)
    await expect(row.nth(2)).to_contain_text("2 steps away")
    # A click in the picture and a key in the list choose; the way back goes through what was chosen.
    await page.locator(f'[data-testid="kg-spot"][data-id="{problem["id"]}"]').click()
    chosen = page.get_by_test_id("kg-chosen")
    await expect(chosen).to_contain_text("Writers wait")
    await row.filter(has_text="One transaction").focus()
    await page.keyboard.press("Enter")
    await expect(chosen).to_contain_text("One transaction")
    await expect(chosen).to_be_focused()
    await page.go_back()
    await expect(chosen).to_contain_text("Writers wait")
    await page.go_back()
    await expect(chosen).to_contain_text("row locks")
    await expect(chosen).to_contain_text("stores")
    await page.get_by_test_id("kg-back").click()
    await expect(row).to_have_count(4)
    await page.get_by_test_id("kg-kind").select_option("decision")
    await expect(row).to_have_count(2)
    await page.keyboard.press("Escape")
    await page.get_by_test_id("kg-search").press("ArrowDown")
    await expect(row.first).to_be_focused()
    # What is known and is no memory is forgotten by its id, and the focus goes to what is left.
    await row.filter(has_text="SQLite only").click()
    await page.get_by_test_id("kg-forget").click()
    await expect(page.get_by_test_id("forget-dialog")).to_contain_text("SQLite only")
    await page.get_by_test_id("forget-now").click()
    await expect(chosen).to_have_count(0)
    await expect(row).to_have_count(1)
    await expect(row).to_be_focused()
    assert ("forget", {"entry": old["id"], "name": "ann"}) in room.memory.asked


@pytest.mark.parametrize(("size", "scheme"), [((1280, 800), "light"), (PHONE, "dark")])
async def test_ten_thousand_entries(
    room: MockRoom, open_page: OpenPage, size: tuple[int, int], scheme: str
) -> None:
    room.memory.much(10_000)
    first = next(iter(room.memory.entries))
    page = await open_page(path="#/memory?as=graph", size=size, scheme=scheme)
    await expect(page.get_by_test_id("kg-row")).to_have_count(60)
    await expect(page.get_by_test_id("kg-status")).to_have_text(
        "60 entries, the newest first. There are more"
    )
    await page.goto(f"{room.url}/#/memory?as=graph&entry={first}")
    await expect(page.get_by_test_id("kg-spot")).not_to_have_count(0)
    drawn = await page.get_by_test_id("kg-spot").count()
    assert 12 <= drawn <= 120
    # All three steps of a hub: the picture stays legible, the list has them all.
    await page.get_by_test_id("kg-steps-3").click()
    await expect(page.get_by_test_id("kg-row")).to_have_count(299)
    await expect(page.get_by_test_id("kg-more")).to_contain_text(
        re.compile(r"The nearest \d+ are drawn. The list has 299, and there are more.")
    )
    for at in range(3):
        await page.get_by_test_id("kg-row").nth(at).click()
        await expect(page.get_by_test_id("kg-chosen")).to_be_focused()
    assert await page.evaluate(WIDE) <= 0
    assert await page.evaluate(UNNAMED) == []
    assert await page.evaluate(PALE) == []
    # Each spot is a target that a finger or a pointer meets: in the picture, and none on another.
    inside = """() => {
      const box = document.querySelector('.kg-stage').getBoundingClientRect();
      const spots = [...document.querySelectorAll('.kg-spot circle')].map((e) => e.getBoundingClientRect());
      return spots.every((s) => s.left >= box.left && s.right <= box.right) &&
        spots.every((s) => s.top >= box.top && s.bottom <= box.bottom);
    }"""
    assert await page.evaluate(inside)


async def test_the_graphs_library_is_no_part_of_what_is_loaded_first(built_page: Path) -> None:
    index = re.search(r"assets/(index-[^\"]+\.js)", built_page.read_text())
    assert index
    (graph,) = STATIC.glob("graph-*.js")
    assert "alphaDecay" in graph.read_text()
    assert "alphaDecay" not in (STATIC / index[1]).read_text()


async def test_unverified_and_what_replaced_it_stand_beside_the_name(
    room: MockRoom, open_page: OpenPage
) -> None:
    forged = {"unverified": True, "tags": ["unverified"], "is_valid": False, "replaced_by": "r2"}
    memory = room.memory.remember("mallory", "use XML logs", **forged)
    room.memory.remember("ann", "use JSON logs")
    old = room.memory.know("mallory", "decision", "use XML logs", unverified=True, number=1)
    room.memory.relate(room.memory.know("ann", "decision", "use JSON logs", number=2), "supersedes", old)
    old["replaced_by"] = "r2"
    answer = room.say("CLAUDE", "XML.", "agent", meta={"memories": [{"id": memory["memory_id"]}]})
    room.memory.given[answer["id"]] = [
        given(memory, None) | {"unverified": True, "is_valid": False, "replaced_by": "r2"}
    ]
    page = await open_page()
    await page.get_by_test_id("given-open").click()
    head = page.locator(".given-head")
    await expect(head).to_contain_text("malloryunverified")
    await expect(head).to_contain_text("no longer holds: r2 replaced it")
    await page.get_by_test_id("tab-memory").click()
    hit = page.locator('[data-testid="memory"][data-number="1"]')
    await expect(hit.locator("header")).to_contain_text("malloryunverified")
    await expect(hit.locator(".mem-tag")).to_have_count(0)
    await page.get_by_test_id("mem-as-graph").click()
    row = page.locator(f'[data-testid="kg-row"][data-id="{old["id"]}"]')
    await expect(row).to_contain_text("malloryunverified")
    await row.click()
    chosen = page.get_by_test_id("kg-chosen")
    await expect(chosen).to_contain_text("malloryunverified")
    await expect(chosen).to_contain_text("no longer holds: r2 replaced it")
    assert await page.evaluate(UNNAMED) == []
    # What replaced it is one click away.
    await chosen.get_by_role("button", name="r2").click()
    await expect(numbers(page)).to_have_count(1)
    await expect(numbers(page)).to_have_text(re.compile("use JSON logs"))


async def test_the_number_of_a_forgotten_memory_says_so(room: MockRoom, open_page: OpenPage) -> None:
    lessons(room)
    room.memory.forgotten.add(2)
    page = await open_page(path="#/memory?q=r2")
    await expect(page.get_by_test_id("mem-none")).to_contain_text("r2 is forgotten")
    await page.get_by_test_id("mem-search").fill("r7")
    await expect(page.get_by_test_id("mem-none")).to_contain_text("Nothing is remembered")


async def test_what_opens_at_the_end_leaves_the_line_clicked_where_it_is(
    room: MockRoom, open_page: OpenPage
) -> None:
    for at in range(30):
        room.say("ann", f"the weather is fine on day {at}")
    memories = [
        room.memory.remember("ann", f"Lesson {at} about the clock. " + "It is so. " * 30) for at in range(8)
    ]
    names = [{"id": memory["memory_id"]} for memory in memories]
    answer = room.say("CLAUDE", "No.", "agent", meta={"memories": names})
    room.memory.given[answer["id"]] = [given(memory, None) for memory in memories]
    page = await open_page()
    opener = page.get_by_test_id("given-open")
    await expect(page.get_by_test_id("transcript")).to_have_attribute("data-pinned", "true")
    before = await opener.bounding_box()
    await opener.click()
    await expect(page.get_by_test_id("given-memory")).to_have_count(8)
    await page.evaluate("new Promise((go) => requestAnimationFrame(() => requestAnimationFrame(go)))")
    after = await opener.bounding_box()
    assert before and after and abs(after["y"] - before["y"]) < 2
    # What is said meanwhile moves it neither.
    room.say("bob", "and on the last day")
    await expect(page.get_by_test_id("jump-latest")).to_contain_text("1 new")
    last = await opener.bounding_box()
    assert last and abs(last["y"] - before["y"]) < 2


async def test_the_message_that_was_opened_stays_marked_and_is_the_address(
    room: MockRoom, open_page: OpenPage
) -> None:
    for at in range(60):
        room.say("ann", f"the weather is fine on day {at}")
    said = room.say("ann", "never mock the clock here")
    for at in range(60):
        room.say("ann", f"it rains on day {at}")
    source = {"type": "message.posted", "event": 1, "message": said["id"], "task": None, "moment": 1}
    room.memory.remember("ann", "never mock the clock here", source=source)
    page = await open_page(path="#/memory?q=clock")
    await page.get_by_test_id("from").click()
    entry = page.locator(f'[data-testid="entry"][data-number="{said["number"]}"]')
    await expect(entry).to_be_in_viewport()
    await expect(page).to_have_url(re.compile(rf"#m{said['number']}$"))
    # The light goes out, the mark stays.
    await expect(entry).not_to_have_class(re.compile(r"\blit\b"))
    await expect(entry).to_have_attribute("aria-current", "true")
    await page.go_back()
    await expect(page).to_have_url(re.compile(r"#/memory\?q=clock$"))
    await page.go_forward()
    await expect(entry).to_have_attribute("aria-current", "true")
    # Who goes on leaves it.
    await page.get_by_test_id("jump-latest").click()
    await expect(page).to_have_url(re.compile("#/room$"))
    await expect(page.locator("[aria-current=true][data-testid=entry]")).to_have_count(0)
