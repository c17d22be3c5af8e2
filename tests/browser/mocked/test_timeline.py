"""The timeline view: the picture by pointer and keyboard, the list, filters, moments, and what a rewind asks."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import Locator, Page, expect

from scripts.bench.mock_room import MockRoom
from tests.browser.mocked.conftest import OpenPage
from tests.browser.test_look import PALE, UNNAMED

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

NOW = 1_800_000_000_000
MINUTE = 60_000
ANSWER = {
    "rewind": "r" * 64,
    "lane": "CODEX",
    "to": "#3",
    "removed": ["e4"],
    "files": [
        {"path": "src/app.py", "before": "1", "after": "2", "action": "merged"},
        {"path": "src/new.py", "before": "3", "after": None, "action": "deleted"},
    ],
    "invalidated": [{"event": "6" * 64, "lane": "claude-1/CLAUDE", "read": "src/app.py", "wrote": "4" * 64}],
    "conflicts": [],
    "branch": None,
    "undo_with": "relay timeline undo",
}


def morning(room: MockRoom) -> None:
    """CLAUDE and CODEX in one file, ten minutes from event to event; CODEX writes once without having looked."""
    add = room.timeline.add
    for at, who, kind, path, more in (
        (0, "CLAUDE", "turn.started", "", {}),
        (1, "CLAUDE", "files.changed", "src/app.py", {}),
        (2, "CODEX", "turn.started", "", {}),
        (3, "CODEX", "files.changed", "src/app.py", {"causes": [2]}),
        (4, "CODEX", "files.changed", "src/new.py", {"unseen": 1}),
        (5, "CLAUDE", "files.changed", "src/app.py", {"causes": [4]}),
        (6, "CODEX", "turn.ended", "", {}),
        (7, "ann", "checkpoint.made", "", {"word": "before lunch"}),
        (8, "CLAUDE", "worktree.changed", "", {"word": "merged", "causes": [6]}),
    ):
        add(who, kind, *([path] if path else []), at=NOW + at * 10 * MINUTE, **more)
    nobody = {"by": None, "event": None, "number": None, "at": None}
    file = {"mode": "100644", "blob": "b" * 40, "size": 12, "kind": "file"}
    room.timeline.folders = {
        "": [{**nobody, "path": "src", "kind": "folder", "mode": "040000", "blob": "", "size": None}],
        "src": [
            {**file, "path": "src/app.py", "by": "codex-1/CODEX", "event": "e4", "number": 4, "at": None}
        ],
    }
    room.timeline.files = {"src/app.py": "import app\n"}
    patch = (
        "diff --git a/src/app.py b/src/app.py\n--- a/src/app.py\n+++ b/src/app.py\n@@ -1 +1 @@\n-one\n+two\n"
    )
    room.timeline.patches = [
        {"path": "src/app.py", "kind": "write", "before": "1", "after": "2", "patch": patch}
    ]
    room.timeline.answer = dict(ANSWER)


async def opened(room: MockRoom, open_page: OpenPage, path: str = "#/timeline", **how: object) -> Page:
    morning(room)
    page = await open_page(path=path, **how)
    await expect(page.get_by_test_id("tl-counts")).to_have_attribute("data-count", "9")
    return page


def said(page: Page) -> Locator:
    return page.get_by_test_id("tl-said")


async def spot(page: Page, who: str, minutes: float) -> tuple[float, float]:
    """Where a time of a row is drawn, in the window."""
    box = await page.get_by_test_id("tl-picture").bounding_box()
    row = await page.get_by_test_id(f"tl-row-{who}").bounding_box()
    looking = page.get_by_test_id("tl-looking")
    start = float(await looking.get_attribute("data-from") or 0)
    span = float(await looking.get_attribute("data-span") or 1)
    assert box is not None and row is not None
    x = box["x"] + (NOW + minutes * MINUTE - start) / span * box["width"]
    return x, row["y"] + row["height"] / 2


async def test_a_click_says_what_its_author_had_seen(room: MockRoom, open_page: OpenPage) -> None:
    page = await opened(room, open_page)
    await page.mouse.click(*await spot(page, "CODEX", 30))
    panel = page.get_by_test_id("tl-event-panel")
    await expect(panel).to_have_attribute("data-number", "4")
    await expect(panel).to_contain_text("CODEX wrote 1: src/app.py")
    await expect(panel.get_by_test_id("tl-seen")).to_contain_text("CLAUDE wrote 1: src/app.py")
    await expect(panel.get_by_test_id("tl-effects")).to_contain_text("CLAUDE wrote 1: src/app.py")
    await panel.get_by_test_id("tl-lines").click()
    await expect(panel.get_by_test_id("diff-file")).to_contain_text("two")
    await page.mouse.move(*await spot(page, "CODEX", 40))
    await expect(page.locator(".air-tip")).to_contain_text("wrote 1, 1 unseen: src/new.py")
    await page.mouse.click(*await spot(page, "CODEX", 40))
    await expect(panel.get_by_test_id("tl-unseen")).to_contain_text("src/new.py")
    assert page.url.endswith("#/timeline?event=5")
    await page.get_by_test_id("tl-close").click()
    await expect(panel).to_have_count(0)


async def test_the_keyboard_zooms_and_goes_from_event_to_event(room: MockRoom, open_page: OpenPage) -> None:
    page = await opened(room, open_page)
    picture, looking = page.get_by_test_id("tl-picture"), page.get_by_test_id("tl-looking")
    await picture.focus()
    whole = float(await looking.get_attribute("data-span") or 0)
    for _ in range(3):
        await page.keyboard.press("+")
    await expect(looking).to_have_attribute("data-span", re.compile(f"^{round(whole / 1.6**3)}"))
    await page.keyboard.press("0")
    await expect(looking).to_have_attribute("data-span", str(round(whole)))
    await page.keyboard.press("ArrowRight")
    await expect(said(page)).to_contain_text("CLAUDE wrote 1: src/app.py")
    await expect(said(page)).to_contain_text("Event 2.")
    await page.keyboard.press("ArrowRight")
    await expect(said(page)).to_contain_text("Event 6.")
    await page.keyboard.press("ArrowDown")
    await expect(said(page)).to_contain_text("Event 5.")
    await page.keyboard.press("ArrowLeft")
    await expect(said(page)).to_contain_text("Event 4.")
    await page.keyboard.press("End")
    await expect(said(page)).to_contain_text("Event 5.")
    for _ in range(40):
        await page.keyboard.press("+")
    await expect(looking).to_have_attribute("data-span", "2000")
    await page.keyboard.press("Escape")
    await expect(page.get_by_test_id("tl-event-panel")).to_have_count(0)


async def test_the_wheel_zooms_where_it_points_and_dragging_moves(
    room: MockRoom, open_page: OpenPage
) -> None:
    page = await opened(room, open_page)
    looking = page.get_by_test_id("tl-looking")
    x, y = await spot(page, "CODEX", 30)
    await page.mouse.move(x, y)
    before = await looking.get_attribute("data-span")
    await page.mouse.wheel(0, -400)
    await expect(looking).not_to_have_attribute("data-span", before or "")
    assert (await spot(page, "CODEX", 30))[0] == pytest.approx(x, abs=1.5)
    await page.mouse.down()
    await page.mouse.move(x - 90, y, steps=3)
    await page.mouse.up()
    await page.wait_for_timeout(60)
    assert (await spot(page, "CODEX", 30))[0] == pytest.approx(x - 90, abs=2)
    await expect(page.get_by_test_id("tl-event-panel")).to_have_count(0)


async def test_two_fingers_zoom_and_one_moves(room: MockRoom, open_page: OpenPage) -> None:
    page = await opened(room, open_page, size=(390, 844))
    looking = page.get_by_test_id("tl-looking")
    hand = await page.context.new_cdp_session(page)

    async def fingers(kind: str, *at: tuple[float, float]) -> None:
        points = [{"x": x, "y": y, "id": finger} for finger, (x, y) in enumerate(at)]
        await hand.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    x, y = await spot(page, "CODEX", 30)
    before = float(await looking.get_attribute("data-span") or 0)
    await fingers("touchStart", (x - 20, y), (x + 20, y))
    for step in range(1, 7):
        await fingers("touchMove", (x - 20 - 5 * step, y), (x + 20 + 5 * step, y))
    await fingers("touchEnd")
    await page.wait_for_timeout(60)
    assert float(await looking.get_attribute("data-span") or 0) == pytest.approx(before * 40 / 100, rel=0.05)
    assert (await spot(page, "CODEX", 30))[0] == pytest.approx(x, abs=6)
    x = (await spot(page, "CODEX", 30))[0]
    await fingers("touchStart", (x, y))
    for step in range(1, 7):
        await fingers("touchMove", (x - 10 * step, y))
    await fingers("touchEnd")
    await page.wait_for_timeout(60)
    assert (await spot(page, "CODEX", 30))[0] == pytest.approx(x - 60, abs=6)
    await expect(page.get_by_test_id("tl-event-panel")).to_have_count(0)


async def test_taking_back_shows_its_plan_first(room: MockRoom, open_page: OpenPage) -> None:
    page = await opened(room, open_page, path="#/timeline?event=4")
    await page.get_by_test_id("tl-take-back").click()
    dialog = page.get_by_test_id("tl-dialog")
    await expect(dialog.get_by_test_id("tl-plan")).to_contain_text("others' lines stay")
    await expect(dialog.get_by_test_id("tl-invalidated")).to_contain_text("CLAUDE had read src/app.py")
    wanted = {"lane": "CODEX", "to": "#3", "into": None, "dry_run": True, "partial": False, "name": "ann"}
    assert room.timeline.asked == [("rewind", wanted)]
    await dialog.get_by_test_id("tl-into-main").check()
    await expect(dialog.get_by_test_id("tl-go")).to_be_enabled()
    room.timeline.add("ann", "timeline.rewound", "src/app.py", word="CODEX", at=NOW + 100 * MINUTE)
    room.timeline.taken["undo"] = ANSWER["rewind"]
    await dialog.get_by_test_id("tl-go").click()
    await expect(dialog).to_have_count(0)
    assert room.timeline.asked[-1] == ("rewind", wanted | {"into": "main", "dry_run": False})
    toast = page.get_by_test_id("toast")
    await expect(toast).to_contain_text("Taken back what CODEX did, in 2 files.")
    await expect(page.get_by_test_id("tl-counts")).to_have_attribute("data-count", "10")
    await toast.get_by_role("button", name="Undo").click()
    await expect(dialog.get_by_test_id("tl-preview")).to_be_visible()
    await dialog.get_by_test_id("tl-go").click()
    await expect(toast.last).to_contain_text("What CODEX did is back")
    assert [act for act, _ in room.timeline.asked[-2:]] == ["undo", "undo"]
    await page.get_by_test_id("tl-redo").click()
    await expect(dialog.get_by_test_id("tl-go")).to_have_text("Redo")


async def test_a_conflict_is_named_and_a_refusal_is_the_rooms(room: MockRoom, open_page: OpenPage) -> None:
    page = await opened(room, open_page, path="#/timeline?event=4")
    conflict = {"path": "src/app.py", "before": "1", "after": "1", "action": "conflict"}
    room.timeline.answer = {**ANSWER, "files": [conflict, ANSWER["files"][1]], "conflicts": ["src/app.py"]}
    await page.get_by_test_id("tl-take-back").click()
    dialog = page.get_by_test_id("tl-dialog")
    await expect(dialog.get_by_test_id("tl-conflicts")).to_contain_text("1 file cannot be taken apart")
    await expect(dialog.get_by_test_id("tl-go")).to_be_disabled()
    await dialog.get_by_test_id("tl-partial").check()
    await expect(dialog.get_by_test_id("tl-go")).to_be_enabled()
    assert room.timeline.asked[-1][1]["partial"] is True
    room.timeline.refusal = {
        "success": False,
        "reason": "CODEX's turn is running.",
        "fix": "Wait for its end.",
    }
    await dialog.get_by_test_id("tl-go").click()
    refused = dialog.get_by_test_id("tl-refused")
    await expect(refused).to_have_text("CODEX's turn is running. Wait for its end.")


async def test_filters_are_kept_in_the_address(room: MockRoom, open_page: OpenPage) -> None:
    page = await opened(room, open_page)
    await page.get_by_test_id("tl-as-list").click()
    events = page.get_by_test_id("tl-event")
    await expect(events).to_have_count(9)
    await page.get_by_test_id("tl-agent").select_option("CODEX")
    await expect(events).to_have_count(4)
    await page.get_by_test_id("tl-kind").select_option("write")
    await expect(events).to_have_count(2)
    await page.get_by_test_id("tl-path").fill("src/new.py")
    await page.get_by_test_id("tl-path").press("Enter")
    await expect(events).to_have_count(1)
    await expect(events).to_contain_text("src/new.py")
    assert page.url.endswith("#/timeline?who=CODEX&file=src%2Fnew.py&kind=write&as=list")
    await page.reload()
    await expect(events).to_have_count(1)
    await page.get_by_test_id("tl-clear").click()
    await expect(events).to_have_count(9)
    await page.go_back()
    await expect(events).to_have_count(1)


async def test_the_list_has_the_same_by_keyboard(room: MockRoom, open_page: OpenPage) -> None:
    page = await opened(room, open_page, path="#/timeline?as=list")
    first = page.get_by_test_id("tl-event").first
    await expect(first).to_contain_text("CLAUDE")
    await first.focus()
    for _ in range(5):
        await page.keyboard.press("Tab")
    await page.keyboard.press("Enter")
    await expect(page.get_by_test_id("tl-event-panel")).to_have_attribute("data-number", "4")
    await expect(page.get_by_test_id("tl-take-back")).to_be_visible()
    assert await page.evaluate(UNNAMED) == []


async def test_a_list_of_many_comes_by_pages(room: MockRoom, open_page: OpenPage) -> None:
    room.timeline.history(5000)
    page = await open_page(path="#/timeline?as=list")
    await expect(page.get_by_test_id("tl-counts")).to_have_attribute("data-count", "5000")
    events = page.get_by_test_id("tl-event")
    await expect(events).to_have_count(50)
    await expect(events.first).to_have_attribute("data-number", "5000")
    await page.get_by_test_id("tl-older").click()
    await expect(events.first).to_have_attribute("data-number", "4950")


async def test_the_slider_shows_files_and_two_moments_compare(room: MockRoom, open_page: OpenPage) -> None:
    page = await opened(room, open_page)
    slider = page.get_by_test_id("tl-slider")
    await slider.focus()
    moment = page.get_by_test_id("tl-moment")
    for number in ("8", "6", "5"):
        await page.keyboard.press("ArrowLeft")
        await expect(moment).to_have_attribute("data-at", number)
    await moment.get_by_role("button", name="src/").click()
    await moment.locator('[data-path="src/app.py"]').get_by_role("button", name="app.py").click()
    await expect(moment.get_by_test_id("tl-file")).to_contain_text("import app")
    await moment.get_by_role("button", name="Close the file").click()
    await page.get_by_test_id("tl-compare").click()
    await expect(page.get_by_test_id("tl-compare-hint")).to_be_visible()
    await page.mouse.click(*await spot(page, "ann", 15))
    await expect(moment).to_have_attribute("data-at", "2")
    await expect(moment.get_by_test_id("diff-file")).to_contain_text("two")
    assert page.url.endswith("#/timeline?at=2&with=5")


async def test_a_moment_has_a_name(room: MockRoom, open_page: OpenPage) -> None:
    page = await opened(room, open_page)
    await page.get_by_test_id("tl-open-moments").click()
    dialog = page.get_by_test_id("tl-moments")
    await dialog.get_by_test_id("tl-checkpoint-name").fill("after lunch")
    await dialog.get_by_test_id("tl-checkpoint-lane").select_option("CODEX")
    await dialog.get_by_test_id("tl-checkpoint-make").click()
    made = dialog.get_by_test_id("tl-checkpoints").get_by_role("button", name="after lunch")
    await expect(made).to_be_visible()
    wanted = {"checkpoint": "after lunch", "lane": "CODEX", "name": "ann"}
    assert room.timeline.asked == [("checkpoint", wanted)]
    await made.click()
    await expect(page.get_by_test_id("tl-moment")).to_have_attribute("data-at", "10")
    await page.get_by_test_id("tl-open-moments").click()
    await dialog.get_by_test_id("tl-moment-text").fill("99")
    await dialog.get_by_test_id("tl-moment-go").click()
    await expect(dialog.get_by_role("alert")).to_have_text("There is no event #99.")
    await dialog.get_by_test_id("tl-moment-text").fill("4")
    await dialog.get_by_test_id("tl-moment-go").click()
    await expect(page.get_by_test_id("tl-event-panel")).to_have_attribute("data-number", "4")


async def test_new_events_come_while_it_is_open(room: MockRoom, open_page: OpenPage) -> None:
    page = await opened(room, open_page)
    room.timeline.add("GEMINI", "files.changed", "docs/a.md", at=NOW + 95 * MINUTE)
    await expect(page.get_by_test_id("tl-counts")).to_have_attribute("data-count", "10")
    await expect(page.get_by_test_id("tl-row-GEMINI")).to_be_visible()


async def test_nothing_yet_says_what_it_is_for(room: MockRoom, open_page: OpenPage) -> None:
    page = await open_page(path="#/timeline")
    await expect(page.get_by_test_id("tl-none")).to_contain_text("Nothing has happened yet")
    room.timeline.add("GEMINI", "files.changed", "docs/a.md")
    await expect(page.get_by_test_id("tl-row-GEMINI")).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_a_phone_shows_all_of_it(room: MockRoom, open_page: OpenPage, scheme: str) -> None:
    page = await opened(room, open_page, path="#/timeline?event=4&at=4", size=(390, 844), scheme=scheme)
    await expect(page.get_by_test_id("tl-picture")).to_be_in_viewport()
    await expect(page.get_by_test_id("tl-moment")).to_contain_text("src/")
    assert await page.evaluate("document.scrollingElement.scrollWidth - innerWidth") <= 0
    assert await page.evaluate(UNNAMED) == []
    assert await page.evaluate(PALE) == []
    await page.get_by_test_id("tl-as-list").click()
    await expect(page.get_by_test_id("tl-event").first).to_be_visible()
    assert await page.evaluate("document.scrollingElement.scrollWidth - innerWidth") <= 0
    assert await page.evaluate(PALE) == []


async def test_the_number_of_a_handoff_leads_to_what_was_said_of_it(
    room: MockRoom, open_page: OpenPage
) -> None:
    morning(room)
    asked = room.say("RELAY", "AVA hands on to BEN (h1).", "tool", meta={"handoff": 1})
    page = await open_page()
    room.say("ann", "see h1 and handoff #1, also #h7; not h2, x/h1 or h1.large")
    entry = page.get_by_test_id("entry").filter(has_text="not h2")
    await expect(entry.locator("a.ref")).to_have_text(["h1", "handoff #1", "#h7"])
    await entry.get_by_role("link", name="h1", exact=True).click()
    await expect(page.locator(f'[data-number="{asked["number"]}"]')).to_be_focused()
    await entry.get_by_role("link", name="#h7", exact=True).click()
    await expect(page.get_by_test_id("tl-list")).to_be_visible()
    assert "kind=handoff" in page.url


OTHER = "3f2a91bc" + "0" * 56


async def test_other_rooms_have_rows_and_a_filter_and_no_take_back(
    room: MockRoom, open_page: OpenPage
) -> None:
    morning(room)
    at = NOW + 45 * MINUTE
    room.timeline.add("CLAUDE@3f2a91bc", "files.changed", "a.py", at=at, lane="zz/CLAUDE", replica=OTHER)
    page = await open_page(path="#/timeline?event=10")
    why = page.get_by_test_id("tl-why-not")
    await expect(why).to_have_text("Another room (3f2a91bc) recorded this: it is taken back there.")
    await expect(page.get_by_test_id("tl-take-back")).to_have_count(0)
    row = page.get_by_test_id("tl-row-CLAUDE@3f2a91bc")
    await expect(row).to_be_visible()
    await page.get_by_test_id("tl-others").uncheck()
    await expect(row).to_have_count(0)
    await page.get_by_test_id("tl-as-list").click()
    await expect(page.get_by_test_id("tl-event")).to_have_count(9)
    assert "here=1" in page.url


async def test_what_cannot_be_taken_back_says_why(room: MockRoom, open_page: OpenPage) -> None:
    morning(room)
    room.timeline.add("main", "files.changed", "src/app.py", lane="room/main", causes=[6, 9], at=NOW)
    page = await open_page(path="#/timeline?event=10")
    why = page.get_by_test_id("tl-why-not")
    await expect(why).to_contain_text("relay carried this for CLAUDE: take it back from CLAUDE’s row.")
    await why.get_by_role("button", name="Go there").click()
    await expect(page.get_by_test_id("tl-event-panel")).to_have_attribute("data-number", "6")
    await expect(page.get_by_test_id("tl-take-back")).to_be_visible()


async def test_compared_moments_are_named_and_each_can_be_removed(
    room: MockRoom, open_page: OpenPage
) -> None:
    page = await opened(room, open_page, path="#/timeline?at=2&with=5")
    bar = page.get_by_test_id("tl-compared")
    await expect(bar).to_contain_text("#2")
    await expect(bar).to_contain_text("#5")
    await page.get_by_test_id("tl-remove-A").click()
    await expect(bar).to_have_count(0)
    await expect(page.get_by_test_id("tl-moment")).to_have_attribute("data-at", "5")
    await page.get_by_test_id("tl-compare").click()
    await expect(bar).to_contain_text("choose A")
    await page.get_by_test_id("tl-compared-end").click()
    await expect(bar).to_have_count(0)
    assert await page.evaluate(PALE) == []


async def test_a_phone_lists_events_as_cards(room: MockRoom, open_page: OpenPage) -> None:
    page = await opened(room, open_page, path="#/timeline?as=list", size=(390, 844))
    for card in await page.get_by_test_id("tl-event").all():
        who, deed = [await card.locator(part).bounding_box() for part in ("b", ".tl-deed")]
        assert who is not None and deed is not None
        assert deed["y"] >= who["y"] + who["height"], "what was done stands below who did it"
        assert deed["width"] > 250
