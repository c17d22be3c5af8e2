"""The side bar: who works, and what can be done about it, without a scroll."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime

import pytest
from playwright.async_api import Route, expect

from scripts.bench import airspace_scenes as scenes
from scripts.bench.mock_airspace import new_worktree, stamp
from scripts.bench.mock_room import MockRoom
from scripts.bench.mock_state import NOTHING_USED, new_agent
from tests.browser.mocked.conftest import OpenPage
from tests.browser.person import shot

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

#: Lines of a row that lie under its buttons.
OVER = """all => all.flatMap((button) => {
  const box = button.getBoundingClientRect();
  return [...button.closest("li").querySelectorAll(".doing, .agent-first")].filter((line) => {
    const other = line.getBoundingClientRect();
    return Math.min(box.bottom, other.bottom) - Math.max(box.top, other.top) > 1;
  }).map((line) => line.textContent);
})"""


async def test_four_agents_and_the_people_are_seen_whole_in_the_side_bar(
    room: MockRoom, open_page: OpenPage
) -> None:
    """Also where each has much to say: nothing is cut but what can be, and nothing lies over anything."""
    used = {**NOTHING_USED, "turns": 9, "input": 1_200_000, "output": 900_000, "unpriced": 9}
    asked = {"by": "ann", "text": "@AVA add a discount for all who buy books to the cart", "number": 1}
    last = {"message_id": "m", "asked": asked, "at": stamp(datetime.now(UTC))}
    names = ("AVA", "BEN", "CLEOPATRA", "DEE")
    room.agents = [new_agent(name, model="opus", last=last) for name in names]
    room.agents[2]["breaker"] = {
        "state": "open",
        "failures": 3,
        "threshold": 3,
        "retry_at": time.time() + 290,
    }
    for name in names:
        room.usage["agents"][name] = used
        room.air.trees.append(new_worktree(name, merges="clean" if name in ("AVA", "BEN") else "nothing"))
    room.task("Add a discount for all who buy books to the cart", assignee="AVA")
    page = await open_page(size=(1400, 900))
    side = page.locator(".side")
    await expect(page.get_by_test_id("ways-land-BEN")).to_be_visible()
    for name in names:
        await expect(page.get_by_test_id(f"last-{name}")).to_be_in_viewport(ratio=1)
    await expect(page.get_by_test_id("task-AVA")).to_be_in_viewport(ratio=1)
    await expect(side.locator(".people li").first).to_be_in_viewport(ratio=1)
    assert await side.locator(".side-scroll").evaluate("one => one.scrollHeight <= one.clientHeight")
    whole = "all => all.filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.textContent)"
    assert (
        await side.locator(
            ".agent-name, .agent-line, .doing:not(.doing-last, [data-testid^=task])"
        ).evaluate_all(whole)
        == []
    )
    # A cost is there as a whole, or not at all.
    in_sight = "one => one.getBoundingClientRect().top < one.parentElement.getBoundingClientRect().bottom"
    assert await page.get_by_test_id("cost-AVA").evaluate(in_sight)
    assert not await page.get_by_test_id("cost-CLEOPATRA").evaluate(in_sight)
    assert await side.locator(".branch-ways button").evaluate_all(OVER) == []
    await shot(page, "side-four-1400")


async def test_a_room_that_has_just_started_is_said_to_look_still(
    room: MockRoom, open_page: OpenPage
) -> None:
    """Not as if nothing had failed and nothing could land."""
    room.agents = [new_agent(name) for name in ("AVA", "BEN")]
    room.air.trees.append(new_worktree("AVA", merges="clean"))
    room.air.surveyed = False
    page = await open_page(size=(1400, 900))
    ben, tab = page.get_by_test_id("agent-BEN"), page.get_by_test_id("tab-worktrees")
    # What is known is said.
    await expect(page.get_by_test_id("stands-AVA")).to_be_visible()
    await expect(page.get_by_test_id("agent-AVA")).not_to_contain_text("looking…")
    await expect(ben).to_contain_text("looking…")
    await expect(tab.locator("em")).to_have_text("1")
    high = await ben.evaluate("one => one.offsetHeight")
    await page.set_viewport_size({"width": 390, "height": 844})
    await expect(page.get_by_test_id("agent-chips")).to_contain_text("BEN looking…")
    await page.set_viewport_size({"width": 1400, "height": 900})
    # Without a word from the room, the page asks again.
    room.air.surveyed = True
    await expect(ben).not_to_contain_text("looking…")
    assert await ben.evaluate("one => one.offsetHeight") == high
    room.air.trees.clear()
    room.air.surveyed = False
    await page.reload()
    await expect(tab.locator("em")).to_have_text("…")


@pytest.mark.parametrize("many", [5, 10])
async def test_agents_at_work_and_a_visitor_are_seen_from_the_first_screen(
    room: MockRoom, open_page: OpenPage, many: int
) -> None:
    """Who does what, who needs somebody, collides, is ready, and what each cost: without a click and a scroll."""
    now = stamp(datetime.now(UTC))
    names = ("AVA", "BEN", "CLEO", "DAN", "EVE", "FAY", "GUS", "HAL", "IDA", "JON")[:many]
    for number, name in enumerate(names, 1):
        asked = {"by": "ann", "text": f"@{name} add a discount for all who buy books", "number": number}
        turn = {
            "message_id": f"m{number}",
            "job": number,
            "since": now,
            "asked": asked,
            "tool": "Bash: pytest -q",
        }
        done = {"message_id": f"m{number}", "asked": asked, "at": now}
        busy = name not in ("BEN", "CLEO", "HAL")
        room.agents.append(new_agent(name, running=turn if busy else None, last=None if busy else done))
        room.usage["agents"][name] = {**NOTHING_USED, "turns": 3, "usd": 0.31}
        about = {"number": number, "text": "Add a discount for all who buy books"}
        collides = {"AVA": "BEN", "BEN": "AVA"}.get(name)
        hits = [{"agent": collides, "paths": ["src/cart.py"]}] if collides else []
        room.air.trees.append(new_worktree(name, about=about, collides=hits, working=busy))
    room.agents = room.agents[-many:]
    room.task("Round the totals of the cart once", assignee="BEN")
    room.air.ask(scenes.request(1, "EVE"))
    attached = {"program": "claude", "person": "ann", "checkout": "/home/ann/shop", "branch": "main"}
    attached |= {"state": "working", "since": now, "paths": []}
    session = {
        "session_id": "attached-1",
        "agent_id": "ann-claude",
        "agent_type": "agent",
        "attached": attached,
    }
    room.held.sessions.append(
        {**session, "alive": True, "kind": "process", "started_at": now, "heartbeat_at": now}
    )
    page = await open_page(size=(1400, 900))
    side = page.locator(".side")
    await expect(page.get_by_test_id("visitor-ann-claude")).to_contain_text("working")
    await expect(page.get_by_test_id("stands-BEN")).to_contain_text("collides with AVA")
    await expect(page.get_by_test_id("ways-land-CLEO")).to_be_visible()
    for scheme in ("light", "dark"):
        await page.emulate_media(color_scheme=scheme)
        await shot(page, f"side-work-{many}-1400-{scheme}")
    assert await side.locator(".side-scroll").evaluate("one => one.scrollHeight <= one.clientHeight")
    for name in names:
        row = page.get_by_test_id(f"agent-{name}")
        await expect(row).to_contain_text("dd a discount")
        await expect(row).to_be_in_viewport(ratio=1)
        await expect(page.get_by_test_id(f"cost-{name}")).to_have_text("$0.31")
    await expect(side.locator(".people li").first).to_be_in_viewport(ratio=1)
    # Of many, they stand beside what the second line says.
    over = OVER if many == 5 else OVER.replace(".doing, ", "")
    assert await side.locator(".branch-ways button").evaluate_all(over) == []


async def test_people_keep_their_colours(room: MockRoom, open_page: OpenPage) -> None:
    """Over a reload, whoever came and went meanwhile, and however many."""
    page = await open_page()
    ben = await open_page(name="ben")
    who = page.locator(".people .agent-name")
    await expect(who).to_have_count(2)

    async def colours() -> dict[str, str]:
        said = "all => Object.fromEntries(all.map((one) => [one.textContent, getComputedStyle(one).color]))"
        return dict(await who.evaluate_all(said))

    before = await colours()
    assert len({*before.values()}) == 2
    for count in (25, 60):
        for number in range(count):
            session = {"session_id": f"mcp-{number}", "agent_id": f"guest-{number}", "agent_type": "agent"}
            at = stamp(datetime.now(UTC))
            room.held.sessions.append(
                {**session, "alive": True, "kind": "process", "started_at": at, "heartbeat_at": at}
            )
        for _ in range(2):
            await page.reload()
            await expect(page.get_by_test_id(f"visitor-guest-{count - 1}")).to_be_attached()
            await expect(who).to_have_count(2)
            assert await colours() == before
    await ben.close()


async def test_ten_agents_are_seen_with_what_they_are_on(room: MockRoom, open_page: OpenPage) -> None:
    """One whose second line says how its branch stands says on the first what that branch is about, not what it
    was asked last."""
    asked = {"by": "ann", "text": "And what is it?", "number": 2}
    last = {"message_id": "m", "asked": asked, "at": stamp(datetime.now(UTC))}
    about = {"number": 1, "text": "Add a discount"}
    names = [f"AGENT{at}" for at in range(10)]
    room.agents = [new_agent(name, model="opus", last=last) for name in names]
    for at, name in enumerate(names):
        room.air.trees.append(new_worktree(name, merges="clean" if at < 3 else "nothing", about=about))
    page = await open_page(size=(1400, 900))
    await expect(page.get_by_test_id("ways-land-AGENT0")).to_be_visible()
    for at, name in enumerate(names):
        said = page.get_by_test_id(f"{'about' if at < 3 else 'last'}-{name}")
        await expect(said).to_have_count(1)
        await expect(said).to_be_in_viewport(ratio=0.9)
        await expect(said).to_contain_text("Add a discount" if at < 3 else "And what is it?")
    cut = "all => all.filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.textContent)"
    assert await page.locator(".side .with-ways .agent-first + .doing").evaluate_all(cut) == []
    # Who begins a turn can land nothing any more, also before the worktrees are read again.
    turn = {"message_id": "m", "job": 7, "since": stamp(datetime.now(UTC)), "asked": asked, "tool": ""}
    await page.route("**/api/worktrees", lambda route: route.abort())
    room.agent(names[0], running=turn)
    await expect(page.get_by_test_id("ways-land-AGENT0")).to_have_count(0)
    await expect(page.get_by_test_id("ways-review-AGENT0")).to_have_count(0)
    await expect(page.get_by_test_id("glance-ready")).to_contain_text("ready to land: AGENT1, AGENT2")


async def test_who_asks_is_in_sight_among_many(room: MockRoom, open_page: OpenPage) -> None:
    """First is who waits for leave, then who failed; the rest keeps its order, and no row moves under the pointer."""
    names = [f"AGENT{at:02}" for at in range(14)]
    asked = {"by": "ann", "text": "Add a discount", "number": 1}
    last = {"message_id": "m", "asked": asked, "at": stamp(datetime.now(UTC))}
    room.agents = [new_agent(name, model="opus", last=last) for name in names]
    retry = {"state": "open", "failures": 3, "threshold": 3, "retry_at": time.time() + 290}
    room.agents[12]["breaker"] = retry
    page, phone = await open_page(size=(1400, 700)), await open_page(size=(390, 844))
    rows = page.locator(".agent-list .agent-row .agent-name")
    await expect(rows).to_have_text(["AGENT12", *(name for name in names if name != "AGENT12")])
    # The pointer is over a row: it stays there.
    await page.get_by_test_id("agent-AGENT02").hover()
    room.air.ask(scenes.request(1, "AGENT13"))
    await expect(page.get_by_test_id("agent-AGENT13")).to_contain_text("asks you")
    assert (await rows.all_text_contents())[-1] == "AGENT13"
    await shot(page, "side-many-1400")
    await page.mouse.move(700, 300)
    await expect(rows).to_have_text(["AGENT13", "AGENT12", *names[:12]])
    await expect(page.get_by_test_id("agent-AGENT13")).to_be_in_viewport(ratio=1)
    await expect(phone.get_by_test_id("agent-chips").get_by_role("button").first).to_contain_text("AGENT13")
    await shot(page, "side-asks-1400")


async def test_who_waits_for_nothing_is_last(room: MockRoom, open_page: OpenPage) -> None:
    """Ten agents with much to say and all the menu's counts are seen whole at 1400x900, and the people; on a lower
    screen what is hidden is idle."""
    now = stamp(datetime.now(UTC))
    names = ("AVA", "BEN", "CLEO", "DAN", "EVE", "FAY", "GUS", "HAL", "IDA", "JON")
    asked = {"by": "ann", "text": "add a discount for all who buy books", "number": 1}
    done = {"message_id": "m1", "asked": asked, "at": now}
    for name in names:
        turn = {"message_id": "m2", "job": 2, "since": now, "asked": asked, "tool": "Bash: pytest -q"}
        working = name == "IDA"
        room.agents.append(new_agent(name, running=turn if working else None, last=None if working else done))
        room.usage["agents"][name] = {**NOTHING_USED, "turns": 3, "usd": 0.31}
        about = {"number": 1, "text": "Add a discount for all who buy books"}
        merges = {"GUS": "conflicts", "HAL": "clean", "JON": "clean"}.get(name, "nothing")
        room.air.trees.append(new_worktree(name, about=about, merges=merges, merging=name == "GUS"))
        room.task(f"Round the totals of the cart once, {name}", assignee=name)
    room.agents = room.agents[-10:]
    need = {"id": "question:m9", "kind": "question", "at": now, "about": "FAY", "text": "Which?", "ref": "m9"}
    change = {"number": 1, "reference": "v1", "agents": {}, "files": [], "runs": []}
    told = {
        "needs": [{**need, "ends_at": None, "actions": []}],
        "approvals": {"approvals": [{"number": 1, "state": "waiting", "change": change}]},
        "landing": {"queue": [{"number": 1, "agent": "X", "state": "waiting", "branch": "x"}], "ended": []},
    }

    async def answer(route: Route) -> None:
        await route.fulfill(body=json.dumps(told[route.request.url.split("/")[-1].split("?")[0]]))

    page = await open_page(size=(1400, 900), wait=False)
    for view in told:
        await page.route(f"**/api/{view}", answer)
    await page.reload()
    for view in ("conflicts", "landing", "approvals"):
        await expect(page.get_by_test_id(f"tab-{view}").locator("em")).to_have_text("1")
    first = ["GUS", "IDA", "FAY", "HAL", "JON"]
    rows = page.locator(".agent-list .agent-row .agent-name")
    await expect(rows).to_have_text([*first, *(name for name in names if name not in first)])
    cut = "one => one.scrollHeight > one.clientHeight"
    for height, seen in ((900, names), (720, first)):
        await page.set_viewport_size({"width": 1400, "height": height})
        for name in seen:
            await expect(page.get_by_test_id(f"agent-{name}")).to_be_in_viewport(ratio=1)
        await expect(page.locator(".people li").first).to_be_in_viewport(ratio=1)
        await shot(page, f"side-full-{height}")
        assert await page.locator(".side-scroll").evaluate(cut) == (seen == first)
