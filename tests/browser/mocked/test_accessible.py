"""WCAG 2.2 AA by axe-core, in views that are full of everything (a real room's: tests/browser/test_accessible.py)."""

from __future__ import annotations

import pytest
from playwright.async_api import Page

from scripts.bench import airspace_scenes as scenes
from scripts.bench.mock_room import MockRoom
from tests.browser.axe import everywhere
from tests.browser.mocked.conftest import OpenPage
from tests.browser.mocked.test_explorations import explored
from tests.browser.mocked.test_memory import lessons

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

TABLE = (
    "| a | b |\n|-|-|\n|"
    + "wide " * 80
    + "| 2 |\n\n```python\n# a comment\ndef f(x):\n    return 'y' * 1"
    + "0" * 200
)
TABLE += "\n```\n> said\n\n*so* [a link](https://example.org) `code`"


def furnished(room: MockRoom) -> str:
    """Something of every kind, and of every state. The id of an entry of what is known."""
    scenes.shop(room.air)
    scenes.trees(room.air)
    explored(room)
    room.timeline.history(300)
    lessons(room, 6)
    first = room.memory.know("CLAUDE", "decision", "Prices are kept in cents.")
    room.memory.relate(room.memory.know("CODEX", "fact", "A cart holds prices."), "supports", first)
    room.metrics.values |= {"lock_conflicts": (2, 6), "first_pass": (0.9, 10)}
    room.held.session("CLAUDE", kind="given")
    room.held.lock("docs/**", "CODEX", kind="glob", mode="shared")
    room.held.lock("src/app.py", "CLAUDE", 30, reason="the prices")
    room.held.wait("docs/**", "GEMINI", 12)
    question = room.say("ann", "@CLAUDE @CODEX please")
    for agent, state in (("CLAUDE", "active"), ("CODEX", "dead")):
        room.receipt(question, agent, state, reason="it failed" if state == "dead" else None)
    other = room.say("ben", "who does it?")
    room.cycle(other, "routed", action="route", agents=["CODEX"], reason="it is about money", took_ms=420)
    room.receipt(other, "CODEX", "pending")
    room.say("CLAUDE", TABLE, "agent", in_reply_to=question["id"])
    room.say("RELAY", "CODEX does not answer: it is paused.", "system")
    room.say("stranger", "written into the file", meta={"unverified": True})
    for n, status in enumerate(("pending", "in_progress", "done")):
        room.task(f"task {n}", status, badge="blocked" if n == 0 else None, note="why")
    room.held.story(1, ("ann", "submitted", ""), input_data={"x": "y"}, result="z")
    return str(first["id"])


#: The address of each view, and what stands in it when it is there.
PLACES = {
    "room": ("#/room", ".entry .receipt"),
    "needs": ("#/needs", ".view-head"),
    "board": ("#/board", '[data-testid="task"]'),
    "a task": ("#/board?task=1", '[data-testid="task-dialog"]'),
    "agents": ("#/agents", ".agent-card"),
    "an agent": ("#/agents?agent=CLAUDE", '[data-testid="agent-panel"]'),
    "queue": ("#/queue", "table tbody tr"),
    "airspace": ("#/airspace?near=CODEX", '[data-testid="pick-agent"]'),
    "locks": ("#/locks", ".locks-box"),
    "worktrees": ("#/worktrees?of=CLAUDE", '[data-testid="worktree"]'),
    "timeline": ("#/timeline", '[data-testid="tl-picture"], .tl-picture'),
    "events": ("#/timeline?as=list", ".view-head"),
    "memory": ("#/memory", '[data-testid="memory"]'),
    "graph": ("#/memory?as=graph&entry={first}", ".kg-legend"),
    "explore": ("#/explore", '[data-testid="variant"]'),
    "conflicts": ("#/conflicts", ".view-head, .empty"),
    "landing": ("#/landing", ".view-head, .empty"),
    "approvals": ("#/approvals", ".view-head, .empty"),
    "metrics": ("#/metrics", '[data-testid="metric"]'),
}


async def looked(page: Page, name: str) -> list[str]:
    return [f"{name}: {one}" for one in await everywhere(page)]


@pytest.mark.parametrize("name", PLACES)
async def test_axe_finds_nothing_in(room: MockRoom, open_page: OpenPage, name: str) -> None:
    first = furnished(room)
    address, there = PLACES[name]
    page = await open_page(path=address.format(first=first))
    await page.locator(there).first.wait_for()
    if name == "room":
        room.air.ask(scenes.request(1, "CODEX"))
        await page.get_by_test_id("permission").wait_for()
    found = await looked(page, name)
    assert not found, "\n".join(found)


async def test_axe_finds_nothing_in_what_lies_over_a_view(room: MockRoom, open_page: OpenPage) -> None:
    furnished(room)
    page = await open_page()
    found = []
    for key, layer in (("Control+k", "search"), ("?", "help")):
        await page.keyboard.press(key)
        await page.get_by_test_id(layer).wait_for()
        found += await looked(page, layer)
        await page.keyboard.press("Escape")
        await page.get_by_test_id(layer).wait_for(state="detached")
    await page.get_by_test_id("tabs-more").click()  # at phone width, where `everywhere` leaves the page
    found += await looked(page, "the sheet of views")
    assert not found, "\n".join(found)


async def test_axe_finds_nothing_where_somebody_comes_in(room: MockRoom, open_page: OpenPage) -> None:
    room.links.add("used")
    room.links.clear()
    out = await open_page(link="used", wait=False)
    await out.get_by_test_id("sign-in").wait_for()
    found = await looked(out, "sign-in")
    nameless = await open_page(name=None)
    await nameless.get_by_role("dialog").wait_for()
    found += await looked(nameless, "name")
    assert not found, "\n".join(found)
