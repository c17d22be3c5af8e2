"""Two agents change one statement, and a person writes in the page what is to stand there."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import expect

from tests.browser.axe import everywhere
from tests.browser.conftest import Come
from tests.browser.person import shot
from tests.e2e.test_worktrees import in_git
from tests.git.repository import commit, git
from tests.outside import Outside, agent, eventually, room, settings

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

BASE = '''"""Carts and their prices."""

import json


def load(path):
    """The cart of a file."""
    return json.load(open(path))


def total(cart):
    return sum(item["price"] for item in cart)
'''
AVA_LOADS = "    text = open(path).read()\n    return json.loads(text)\n"
BEN_LOADS = '    return json.load(open(path, encoding="utf-8"))\n'
BOTH_LOAD = '    return json.loads(open(path, encoding="utf-8").read())\n'
AVA_SUMS = "    return sum(map(price_of, cart))\n"
BEN_SUMS = '    return sum(item["net"] + item["tax"] for item in cart)\n'
LOADS = "    return json.load(open(path))\n"
SUMS = '    return sum(item["price"] for item in cart)\n'
AVA = BASE.replace(LOADS, AVA_LOADS).replace(SUMS, AVA_SUMS)
BEN = BASE.replace(LOADS, BEN_LOADS).replace(SUMS, BEN_SUMS)


def script(text: str, later: str) -> str:
    """An agent that writes the file so, and later otherwise; it settles no merge."""
    return (
        "- match: Resolve the markers\n  say: Not yet.\n"
        f"- match: later\n  write: {{src/cart.py: {json.dumps(later)}}}\n  say: Changed.\n"
        f"- match: please\n  write: {{src/cart.py: {json.dumps(text)}}}\n  say: Done.\n"
        '- say: "heard"\n'
    )


@asynccontextmanager
async def landed(tmp_path: Path, **more: Any) -> AsyncIterator[Outside]:
    """AVA's work has landed, and BEN's conflicts with it in two places."""
    config = settings(agent("AVA", "a.yaml"), agent("BEN", "b.yaml"), **more)
    async with room(tmp_path / "conflicts", config) as one:
        (one.folder / "a.yaml").write_text(script(AVA, AVA))
        (one.folder / "b.yaml").write_text(script(BEN, BEN.replace("tax", "duty")))
        in_git(one.folder)
        ignored = (one.folder / ".gitignore").read_text().replace("*.py", "/*.py")
        commit(one.folder, {".gitignore": ignored, "src/cart.py": BASE})
        await one.start()
        for text in (
            "@AVA please take the prices from one function",
            "@BEN please add the tax, and read UTF-8",
        ):
            posted = await one.post(text)
            await one.reply_to(posted["id"], text[1:4])
        status, done = await one.ask("POST", "/api/worktrees/AVA/merge", json={"name": "ann"})
        assert (status, done["success"]) == (200, True), done
        yield one


@pytest_asyncio.fixture(loop_scope="session")
async def collided(tmp_path: Path) -> AsyncIterator[Outside]:
    """The room has asked about both, c1 and c2."""
    async with landed(tmp_path, airspace={"enabled": False}) as one:
        _, done = await one.ask("POST", "/api/worktrees/BEN/merge", json={"name": "ann"})
        assert "The room is asked about c1, c2" in done["fix"], done["fix"]
        yield one


@pytest_asyncio.fixture(loop_scope="session")
async def stuck(tmp_path: Path) -> AsyncIterator[Outside]:
    """BEN was set back, and is in the middle of a merge of main that it does not settle."""
    async with landed(tmp_path) as one:
        await one.until_said(r"BEN has not settled src/cart\.py", speaker="RELAY")
        yield one


async def test_a_person_compares_edits_and_sends(collided: Outside, come: Come) -> None:
    ann = await come("ann", collided)
    page = ann.page
    asked = page.locator('[data-testid="conflict-asked"][data-conflict="c1"]')
    await expect(asked).to_have_attribute("data-state", "open")
    await shot(page, "room-1280-light")
    await asked.get_by_role("button", name="Compare and edit").click()
    view = page.get_by_test_id("conflict")
    await expect(view).to_have_attribute("data-conflict", "c1")
    assert page.url.endswith("#/conflicts?of=c1")
    await expect(page.get_by_test_id("pane-base")).to_contain_text("return json.load(open(path))")
    await expect(page.get_by_test_id("pane-ours")).to_contain_text("return json.loads(text)")
    theirs = page.get_by_test_id("pane-theirs")
    await expect(theirs).to_contain_text("BEN")
    await expect(theirs).to_contain_text("add the tax, and read UTF-8")
    await expect(theirs).to_contain_text('encoding="utf-8"')
    # The lines around it are there, each side's own with their numbers in its file, and c2 is marked in them.
    await expect(theirs).to_contain_text('"""The cart of a file."""')
    for side, file in (("base", BASE), ("ours", AVA), ("theirs", BEN)):
        pane, rows = page.get_by_test_id(f"pane-{side}"), file.splitlines()
        await expect(pane.locator(".pane-other")).to_contain_text("c2")
        for shown in await pane.locator(".pane-line").all():
            number, line = await shown.locator(".no").inner_text(), await shown.locator("code").inner_text()
            assert line.strip() == rows[int(number) - 1].strip(), f"{side}, line {number}: {line}"
    for scheme in ("light", "dark"):
        await page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        await shot(page, f"conflict-1280-{scheme}")
    await page.set_viewport_size({"width": 390, "height": 844})
    for scheme in ("light", "dark"):
        await page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        await shot(page, f"conflict-390-{scheme}")
        await page.get_by_test_id("conflict-text").scroll_into_view_if_needed()
        await shot(page, f"conflict-390-{scheme}-below")
    wide = await page.evaluate("document.querySelector('.conflict-box').scrollWidth")
    assert wide <= 390, "nothing stands out of the page"
    assert (found := await everywhere(page)) == [], "\n".join(found)
    await page.emulate_media(color_scheme="light")
    await page.set_viewport_size({"width": 1280, "height": 800})
    # By keyboard: the next conflict and back, then to the text.
    await page.keyboard.press("j")
    await expect(view).to_have_attribute("data-conflict", "c2")
    await page.keyboard.press("k")
    await expect(view).to_have_attribute("data-conflict", "c1")
    await page.keyboard.press("4")
    text = page.get_by_test_id("conflict-text")
    await expect(text).to_be_focused()
    await page.get_by_test_id("begin-theirs").click()
    await expect(text).to_have_value(BEN_LOADS)
    await text.fill(BOTH_LOAD)
    await text.press("Control+Enter")
    await expect(view).to_have_attribute("data-state", "resolved")
    await expect(page.get_by_test_id("conflict-state")).to_contain_text("what ann wrote stands")
    # The next digit is not for it: what is decided is overruled by its buttons alone.
    await page.get_by_test_id("conflicts-count").click()
    await page.keyboard.press("2")
    await page.get_by_test_id("conflict-go-on").click()
    await expect(view).to_have_attribute("data-conflict", "c2")
    await page.go_back()
    await expect(page.get_by_test_id("conflict-state")).to_contain_text("what ann wrote stands")
    await shot(page, "conflict-settled-1280-light")
    # Closed at every door: the list, the command line, the room.
    [two, one] = await collided.get("/api/conflicts")
    assert (one["reference"], one["state"], two["state"]) == ("c1", "resolved", "open")
    assert one["resolution"]["resolution_type"] == {"type": "human_resolved", "user_id": "ann"}
    assert one["resolution"]["merged_content"] == BOTH_LOAD
    words = (sys.executable, "-m", "relay.cli", "merge", "resolve", "--config", os.fspath(collided.path))
    listed = await collided.run(*words)
    assert "c2" in listed.out and "c1" not in listed.out, listed.all
    await page.keyboard.press("Escape")
    await ann.go("room")
    await expect(asked).to_have_attribute("data-state", "resolved")
    await ann.sees("c1 is settled: what ann wrote stands. Left: c2.", "RELAY")
    # The other one by its number key; then all of BEN's merges.
    await page.goto(f"{collided.url}/#/conflicts?of=c2")
    await expect(view).to_have_attribute("data-conflict", "c2")
    await page.keyboard.press("2")
    await expect(view).to_have_attribute("data-state", "resolved")
    await expect(page.get_by_test_id("choose-2")).to_have_attribute("aria-pressed", "true")
    await page.get_by_test_id("conflict-merge").click()
    await expect(page.get_by_test_id("merge-dialog")).to_contain_text("BEN")
    await page.keyboard.press("Escape")
    await expect(page.get_by_test_id("tab-conflicts")).to_have_count(0)
    # Who reads the branch sees where other lines land than these, and what is to be decided.
    await page.evaluate("location.hash = '#/review?of=BEN'")
    await expect(page.get_by_test_id("review-settled")).to_have_text(
        "c1 is settled: in src/cart.py, what ann wrote lands there instead of the branch's lines."
    )
    await expect(page.get_by_test_id("review-waits")).to_contain_text(
        "c1 and c2 are settled, and BEN's work is not in main yet. Land it?"
    )
    await expect(page.get_by_test_id("review-task")).to_have_text("m3 Add the tax, and read UTF-8")
    await shot(page, "review-settled-1280-light")
    await page.set_viewport_size({"width": 390, "height": 844})
    await page.emulate_media(color_scheme="dark")
    await shot(page, "review-settled-390-dark")
    assert (found := await everywhere(page)) == [], "\n".join(found)
    await page.emulate_media(color_scheme="light")
    await page.set_viewport_size({"width": 1280, "height": 800})
    status, shown = await collided.ask("GET", "/api/worktrees/BEN/merge?method=merge&name=ann")
    assert status == 200, shown
    status, done = await collided.ask(
        "POST", "/api/worktrees/BEN/merge", json={"name": "ann", "joined": shown["tree"]}
    )
    assert (status, done["success"]) == (200, True), done
    # What is merged meanwhile is not offered, and that is said.
    await page.goto(f"{collided.url}/#/conflicts?of=c2")
    await expect(page.get_by_test_id("conflict-state")).to_contain_text(
        "Now, BEN's branch: nothing to merge: main has all of it."
    )
    await expect(page.get_by_test_id("conflict-merge")).to_have_count(0)
    landed = git(collided.folder, "show", "main:src/cart.py") + "\n"
    assert landed == BASE.replace(LOADS, BOTH_LOAD).replace(SUMS, BEN_SUMS)


async def test_what_is_decided_is_said_nowhere_to_be_open(collided: Outside, come: Come) -> None:
    """Who keeps the branches apart has nothing left to settle; and what others settle is seen without a reload."""
    ann = await come("ann", collided)
    page = ann.page
    stands = page.get_by_test_id("stands-BEN")
    await expect(stands).to_contain_text("conflicts with main")
    await expect(page.get_by_test_id("needs-BEN")).to_be_visible()
    for name in ("c1", "c2"):
        await page.goto(f"{collided.url}/#/conflicts?of={name}")
        view = page.get_by_test_id("conflict")
        await expect(view).to_have_attribute("data-conflict", name)
        await page.get_by_test_id("choose-5").click()
        await expect(view).to_have_attribute("data-state", "rejected")
    await expect(page.get_by_test_id("needs-BEN")).to_have_count(0)
    await expect(page.get_by_test_id("unasked")).to_have_count(0)
    await expect(page.get_by_test_id("conflicts-count")).to_have_text("none open")
    await expect(stands).to_contain_text("conflicts with main")
    await ann.go("room")
    for name in ("c1", "c2"):
        posted = await collided.post(f"/resolve {name} 2", name="bob")
        await collided.reply_to(posted["id"], "RELAY")
    await expect(stands).to_contain_text("ready to land")
    await ann.leave()


async def test_a_choice_that_comes_late_is_refused_with_how_it_stands_now(
    collided: Outside, come: Come
) -> None:
    ann = await come("ann", collided)
    page = ann.page
    await page.goto(f"{collided.url}/#/conflicts?of=c2")
    view = page.get_by_test_id("conflict")
    await expect(view).to_have_attribute("data-conflict", "c2")
    # BEN goes on in those lines while ann looks.
    posted = await collided.post("@BEN later")
    await collided.reply_to(posted["id"], "BEN")

    async def seen() -> bool:
        diff = (await collided.get("/api/worktrees/BEN/diff"))["diff"]
        return "duty" in diff

    await eventually(seen, "what BEN wrote since")
    await page.get_by_test_id("choose-1").click()
    await expect(page.get_by_test_id("conflict-refused")).to_contain_text(
        "c2 is gone: BEN or main has changed"
    )
    await expect(page.get_by_test_id("conflict-refused")).to_contain_text(
        re.compile(r"They conflict in src/cart\.py now")
    )
    await expect(view).to_have_attribute("data-state", "gone")
    await expect(page.get_by_test_id("choose-2")).to_be_disabled()
    await shot(page, "conflict-late-1280-light")
    assert [one["state"] for one in await collided.get("/api/conflicts")] == ["gone", "open"]


async def test_a_merge_that_an_agent_is_stuck_in_is_listed_and_given_up(stuck: Outside, come: Come) -> None:
    ann = await come("ann", stuck)
    page = ann.page
    # In sight from the first screen on, as is what is open.
    await page.goto(f"{stuck.url}/#/room")
    tab = page.get_by_test_id("tab-conflicts")
    await expect(tab.locator("em.alarm")).to_have_text("1")
    await tab.click()
    listed = page.get_by_test_id("unasked")
    await expect(listed).to_contain_text(
        "BEN is merging main in its worktree, and src/cart.py is not settled."
    )
    await expect(page.get_by_test_id("conflicts-count")).to_have_text("1 branch to settle")
    await shot(page, "conflict-stuck-1280-light")
    # Its review says so everywhere, and shows the branch's own lines, not git's markers.
    open_merge = "A merge is under way in BEN's worktree, with conflicts in src/cart.py."
    await page.goto(f"{stuck.url}/#/review?of=BEN")
    await expect(page.get_by_test_id("review-under-way")).to_contain_text(open_merge)
    code = page.locator('[data-testid="review-file"][data-path="src/cart.py"]')
    await expect(code).to_contain_text('encoding="utf-8"')
    await expect(code).not_to_contain_text("<<<<<<<")
    await shot(page, "review-merging-1280-light")
    await page.set_viewport_size({"width": 390, "height": 844})
    assert (found := await everywhere(page)) == [], "\n".join(found)
    await page.goto(f"{stuck.url}/#/worktrees?of=BEN")
    await expect(page.get_by_test_id("diff-under-way")).to_contain_text(open_merge)
    await expect(page.get_by_test_id("diff")).not_to_contain_text("<<<<<<<")
    for words in (("review", "BEN"), ("worktrees", "show", "BEN")):
        said = await stuck.relay(*words)
        assert said.code == 0 and open_merge in said.out, said
        assert "<<<<<<<" not in said.out and "not committed" not in said.out, said
    await stuck.post("/review @BEN")
    await stuck.until_said(open_merge, speaker="RELAY")
    await page.goto(f"{stuck.url}/#/conflicts")
    await expect(listed).to_be_visible()
    await page.set_viewport_size({"width": 390, "height": 844})
    await page.emulate_media(color_scheme="dark")
    await shot(page, "conflict-stuck-390-dark")
    assert (found := await everywhere(page)) == [], "\n".join(found)
    await page.get_by_test_id("conflict-give-up").click()
    await expect(listed).to_contain_text("BEN conflicts with main in src/cart.py.")
    # Asked again, BEN is stuck again; now one click gives that up and has the room ask.
    await stuck.post("/update @BEN")
    await expect(listed).to_contain_text("BEN is merging main in its worktree")
    await expect(page.get_by_test_id("conflict-settle")).to_be_enabled()
    await page.get_by_test_id("conflict-settle").click()
    await expect(page.get_by_test_id("conflict")).to_have_attribute("data-conflict", "c1")
    await expect(listed).to_have_count(0)
    # Settled, and nobody has tried to land it: no view says that it did not.
    for number in (1, 2):
        status, _ = await stuck.ask("POST", f"/api/conflicts/c{number}", json={"name": "ann", "choice": 2})
        assert status == 200
    side = page.get_by_test_id("agent-BEN")
    await page.set_viewport_size({"width": 1280, "height": 800})
    await expect(page.get_by_test_id("conflict")).to_have_attribute("data-state", "resolved")
    await expect(side).to_contain_text("ready to land")
    await expect(side).not_to_contain_text("did not land")


async def test_who_settles_a_merge_from_the_inbox_comes_to_its_conflict(stuck: Outside, come: Come) -> None:
    ann = await come("ann", stuck)
    page = ann.page
    await page.goto(f"{stuck.url}/#/needs")
    # Given up first: the same card has what is left to do then, and nothing of that merge.
    await page.get_by_test_id("act-abort-BEN").click()
    await expect(page.get_by_test_id("act-abort-BEN")).to_have_count(0)
    need = page.locator("[data-testid=need][data-kind=collision]")
    await expect(need).to_contain_text("git finds conflicts in src/cart.py")
    await page.mouse.move(0, 0)
    await shot(page, "needs-given-up-1280-light")
    await page.get_by_test_id("act-settle-BEN").click()
    await expect(page.get_by_test_id("conflict")).to_have_attribute("data-conflict", "c1")
    await expect(page).to_have_url(re.compile(r"#/conflicts\?of=c1$"))
    await expect(page.get_by_test_id("choose-1")).to_be_enabled()
    await page.go_back()
    await expect(page.locator("[data-testid=need][data-kind=conflict]")).to_have_count(2)
