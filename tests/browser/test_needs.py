"""The inbox in the page: what needs a person comes, is acted on with one click, and is gone (docs/inbox.md)."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from playwright.async_api import Browser, Locator, Page, expect

from tests.browser.axe import everywhere, violations
from tests.browser.person import Person, shot
from tests.browser.test_look import FOCUS_SEEN
from tests.e2e.test_acp import speaker
from tests.outside import agent, eventually, room, settings

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

ASKS = '- say: "Which of the two do you **want**?"\n'
FAILS = "- fail: crash\n  detail: The disk is full.\n"
WORKS = "- say: It is done.\n"
#: A question that would do something, were it not a text.
HOSTILE = (
    "\x1b[2J <img src=x onerror=alert(1)> ![p](https://tracker.invalid/p.png) [go](javascript:alert(1)) "
    "\u202egnp.exe @CLEO " + "x" * 100_000 + "?"
)
#: What must never come of it in the page.
LIVE = """() => [...document.querySelectorAll('.needs *, .transcript *')].filter(
  (e) => ['IMG', 'SCRIPT', 'IFRAME'].includes(e.tagName) ||
    (e.tagName === 'A' && !/^(https?:|mailto:|#)/.test(e.getAttribute('href')))
).map((e) => e.outerHTML)"""


def need(person: Person, kind: str) -> Locator:
    return person.page.get_by_test_id("need").and_(person.page.locator(f'[data-kind="{kind}"]'))


async def test_each_need_has_its_buttons_and_is_gone_when_it_is_settled(
    chromium: Browser, tmp_path: Path
) -> None:
    folder = tmp_path / "room"
    folder.mkdir()
    evil = f"- say: {json.dumps(HOSTILE)}\n"
    for name, script in (("asks", ASKS), ("fails", FAILS), ("works", WORKS), ("evil", evil)):
        (folder / f"{name}.yaml").write_text(script)
    agents = [
        agent("AVA", "asks.yaml"),
        agent("EVE", "evil.yaml"),
        agent("BEN", "works.yaml", budget={"turns_per_hour": 1}),
        agent("CLEO", "fails.yaml"),
    ]
    circuit = {"circuit_breaker": {"failure_threshold": 1, "reset_timeout": 600}}
    async with room(folder, settings(*agents, locks=circuit, queue={"max_attempts": 1})) as house:
        await house.start()
        ann = await Person.arrive(chromium, house, "ann", viewport={"width": 390, "height": 844})
        page, badge = ann.page, ann.page.get_by_test_id("tab-needs").locator("em")
        await ann.go("needs")
        await expect(page.get_by_test_id("needs-empty")).to_be_visible()
        await expect(badge).to_have_count(0)

        await house.post("@AVA keep the visits")
        await expect(need(ann, "question")).to_contain_text("Which of the two do you want?")
        await expect(badge).to_have_text("1")
        await expect(page).to_have_title(re.compile("^1 needs you"))
        await need(ann, "question").get_by_test_id("act-answer").click()
        field = need(ann, "question").get_by_test_id("need-text")
        await expect(field).to_be_focused()
        await page.keyboard.press("Escape")
        await expect(field).to_have_count(0)
        await need(ann, "question").get_by_test_id("act-answer").click()
        await field.fill("The table.")
        await field.press("Enter")
        await expect(page.get_by_test_id("toast").last).to_contain_text("Said to AVA")
        await house.until_said("/steer @AVA The table.", speaker="ann")

        await page.mouse.move(0, 0)
        failing = await house.post("@CLEO mend the build")
        await expect(need(ann, "failed_agent")).to_contain_text("The disk is full.")
        give = need(ann, "failed_agent").get_by_test_id("act-give-BEN")
        await expect(give).to_have_text(f"Give m{failing['number']} “mend the build” to BEN")
        await give.click()
        await house.reply_to(failing["id"], "BEN")
        await need(ann, "failed_agent").get_by_test_id("need-open").click()
        await expect(page.get_by_test_id("agent-panel")).to_contain_text("CLEO")
        await page.get_by_role("button", name="Close").click()

        await page.mouse.move(0, 0)  # away from the list, which stands still below it
        await need(ann, "budget").get_by_test_id("act-raise").click()
        await expect(need(ann, "budget")).to_have_count(0)
        assert json.loads(house.path.read_text())["agents"][2]["budget"] == {"turns_per_hour": 2}
        # Taken back from the toast: by its command, and in the file.
        toast = page.get_by_test_id("toast").filter(has_text="set BEN's turns_per_hour to 2")
        await toast.get_by_role("button", name="Undo").click()
        await house.until_said("/budget @BEN turns_per_hour 1", speaker="ann")
        await expect(need(ann, "budget")).to_be_visible()
        assert json.loads(house.path.read_text())["agents"][2]["budget"] == {"turns_per_hour": 1}
        # What is refused is said where it was asked for.
        await need(ann, "budget").get_by_test_id("act-raise").click()
        await expect(need(ann, "budget")).to_have_count(0)
        whole = house.path.read_text()
        house.path.write_text("{ broken")
        await toast.last.get_by_role("button", name="Undo").click()
        refused = page.get_by_test_id("toast").filter(has_text="is not JSON")
        await expect(refused.first).to_contain_text(str(house.path))
        house.path.write_text(whole)
        # A hostile question is a text: in the page, in the room's answer, in a terminal.
        await house.post("@EVE keep the names")
        await expect(need(ann, "question").first).to_contain_text("onerror=alert(1)")
        asked = await house.post("/inbox")
        told = await house.reply_to(asked["id"], "RELAY")
        assert len(told["body"]) < 2000 and "\x1b" not in told["body"] and "\u202e" not in told["body"]
        assert await page.evaluate(LIVE) == []
        await ann.go("room")
        await ann.sees("things need you", "RELAY")
        assert await page.evaluate(LIVE) == []
        await ann.go("needs")
        listed = (await house.relay("inbox")).out
        assert "\x1b" not in listed and "\u202e" not in listed and len(listed) < 2500
        # Of many answers the newest alone stays long, with its undo.
        await page.mouse.move(0, 0)
        for name in ("EVE", "AVA"):
            asks = page.get_by_role("article", name=f"Question: {name}")
            await asks.get_by_test_id("act-later").click()
            await expect(page.get_by_test_id("toast").filter(has_text=f"{name}'s question")).to_be_visible()
        await expect(page.get_by_test_id("toast")).to_have_count(1, timeout=15_000)
        last = page.get_by_test_id("toast").filter(has_text="AVA's question")
        await expect(last.get_by_role("button", name="Undo")).to_be_visible()
        # Nothing sticks out of a phone's screen.
        wide = "document.documentElement.scrollWidth > innerWidth"
        assert not await page.evaluate(wide)
        await ann.leave()


#: Buttons of the inbox within what is scrolled to of their list, which a press at their middle does not reach.
COVERED = """view => Promise.all(view.getAnimations({ subtree: true }).map((one) => one.finished)).then(() =>
[...view.querySelectorAll(".needs button")].filter((one) => {
  const box = one.getBoundingClientRect(), list = one.closest(".needs-body, .needs-late").getBoundingClientRect();
  const x = box.left + box.width / 2, y = box.top + box.height / 2;
  return y > list.top && y < list.bottom && !one.contains(document.elementFromPoint(x, y));
}).map((one) => one.textContent))"""


async def places(page: Page) -> list[str]:
    return await page.locator(".needs > li > article").evaluate_all(
        "(all) => all.map((one) => `${one.dataset.need} ${Math.round(one.getBoundingClientRect().top)}`)"
    )


async def test_no_card_moves_while_a_person_is_in_the_list(chromium: Browser, tmp_path: Path) -> None:
    folder = tmp_path / "room"
    folder.mkdir()
    (folder / "asks.yaml").write_text(
        f"- match: Count the carts\n  say: I did.\n- match: look around\n  delay_s: 600\n{ASKS}"
    )
    agents = [agent(name, "asks.yaml") for name in ("AVA", "BEN", "CLEO", "DAN")]
    agents.append(speaker(str(tmp_path), "permit", FAKE_KIND="execute"))
    async with room(folder, settings(*agents)) as house:
        await house.start()
        ann = await Person.arrive(chromium, house, "ann", viewport={"width": 1400, "height": 900})
        page, cards, new = ann.page, need(ann, "question"), ann.page.get_by_test_id("needs-new")
        await ann.go("needs")
        for count, name in enumerate(("AVA", "BEN"), 1):
            await house.post(f"@{name} keep the visits")
            await expect(cards).to_have_count(count)  # the pointer is over the tabs: what comes is brought in

        # The pointer is over a button: what comes is counted, and said to who does not see it.
        answer = cards.nth(1).get_by_test_id("act-answer")
        # The tip of a button does not lie over the text that it is about.
        await answer.hover()
        tip = page.get_by_role("tooltip")
        await expect(tip).to_be_visible()
        at, of = await tip.bounding_box(), await answer.bounding_box()
        assert at is not None and of is not None and at["y"] > of["y"]
        await answer.hover()
        stood = await places(page)
        await house.post("@CLEO keep the visits")
        await expect(new).to_have_text("1 new")
        await expect(page.get_by_test_id("needs-view").get_by_role("status")).to_have_text(
            "1 new in the inbox"
        )
        assert await places(page) == stood
        await shot(page, "needs-new-1400-light")
        # What another person settles keeps its place, and nothing can be done about it.
        (first, _) = [one["id"] for one in await house.get("/api/needs") if one["about"] in ("AVA", "BEN")]
        await house.ask("POST", f"/api/needs/{first}", json={"name": "eve", "action": "later"})
        gone = page.get_by_test_id("need-gone")
        await expect(gone).to_contain_text("settled")
        await expect(gone.get_by_test_id("act-answer")).to_be_disabled()
        assert await places(page) == stood and await violations(page) == []
        # The pointer leaves: the list is as the room has it.
        await page.mouse.move(1300, 700)
        await expect(new).to_have_count(0)
        await expect(gone).to_have_count(0)
        await expect(cards.first).to_contain_text("CLEO")

        # What one settles oneself keeps its place, too, so that a second click at the same place decides nothing.
        stood = await places(page)
        box = await cards.first.get_by_test_id("act-later").bounding_box()
        assert box is not None
        await page.mouse.click(box["x"] + 5, box["y"] + 5)
        await expect(gone).to_contain_text("done")
        await expect(cards.first).to_be_focused()
        await page.mouse.click(box["x"] + 5, box["y"] + 5)
        assert await places(page) == stood
        await shot(page, "needs-own-1400-light")
        await page.mouse.move(1300, 700)
        await expect(gone).to_have_count(0)
        await expect(cards).to_have_count(1)
        await page.evaluate("document.activeElement.blur()")
        await house.post("@CLEO keep the names")
        await expect(cards).to_have_count(2)

        # The same by keyboard: the focus holds the list, and the button brings in what is new.
        await cards.nth(1).get_by_test_id("act-answer").focus()
        stood = await places(page)
        await house.post("@DAN keep the visits")
        await expect(new).to_have_text("1 new")
        assert await places(page) == stood
        await new.press("Enter")
        await expect(cards.first).to_contain_text("DAN")
        await expect(cards.first).to_be_focused()
        await expect(new).to_have_count(0)
        # What one settles oneself leaves at once, and the focus goes on: to a card, where a second Enter decides
        # nothing, and from there to the next one.
        await cards.first.get_by_test_id("act-later").press("Enter")
        await expect(cards).to_have_count(2)
        await expect(cards.first).to_be_focused()
        await page.keyboard.press("j")
        await expect(cards.nth(1)).to_be_focused()
        await page.keyboard.press("k")
        await expect(cards.first).to_be_focused()
        await page.keyboard.press("Enter")
        await expect(page.get_by_test_id("needs-view")).to_have_count(0)
        assert len([one for one in await house.get("/api/needs") if one["kind"] == "question"]) == 2
        await ann.go("needs")

        # A task opens as a whole, and its look changes nothing of the list's: one column, all as wide.
        await house.post("/task Count the carts")
        await house.post("/give t1 @AVA")
        await need(ann, "answered").get_by_test_id("need-open").click()
        await expect(page.get_by_role("dialog")).to_contain_text("Count the carts")
        await page.keyboard.press("Escape")
        await ann.go("needs")
        await expect(cards.first).to_be_visible()
        wide = "(all) => new Set(all.map((one) => Math.round(one.getBoundingClientRect().width))).size"
        assert await page.locator(".needs > li > article").evaluate_all(wide) == 1

        # It stays while its agent works on something else, and the board says the same.
        other = await house.post("@AVA look around")
        busy = f"Is it done? AVA is at work on m{other['number']} now."
        await expect(need(ann, "answered")).to_contain_text(busy)
        await shot(page, "needs-busy-1400-light")
        await ann.go("board")
        await expect(page.locator('[data-task="1"]')).to_contain_text(
            re.compile(r"AVA has answered \(m\d+\): is it done")
        )
        await house.post("/cancel @AVA")
        await ann.go("needs")
        await expect(need(ann, "answered")).not_to_contain_text("at work")

        # A pointer that only rests on the list, as after a change of the view by keyboard, holds nothing.
        await need(ann, "answered").hover()
        await page.keyboard.press("g")
        await page.keyboard.press("r")
        await expect(page.get_by_test_id("needs-view")).to_have_count(0)
        await page.keyboard.press("g")
        await page.keyboard.press("n")
        await expect(need(ann, "answered")).to_be_visible()
        before = await cards.count()
        await house.post("@BEN keep the names")
        await expect(cards).to_have_count(before + 1)
        await expect(new).to_have_count(0)
        await shot(page, "needs-1400-light")

        # What expires is held back by nothing: it comes to the end, and moves no card.
        await cards.nth(1).focus()
        stood = await places(page)
        await house.post("@ACE do it")
        await expect(need(ann, "permission")).to_contain_text("refused in")
        assert (await places(page))[:-1] == stood
        await expect(page.get_by_test_id("permission")).to_have_count(0)
        await expect(page.get_by_test_id("agent-ACE")).to_contain_text("asks you")
        await page.set_viewport_size({"width": 1400, "height": 480})
        await expect(need(ann, "permission")).to_be_in_viewport(ratio=0.9)
        assert await page.get_by_test_id("needs-view").evaluate(COVERED) == []
        await shot(page, "needs-late-1400-light")
        await page.set_viewport_size({"width": 1400, "height": 900})
        await need(ann, "permission").get_by_test_id("act-option-1").click()
        await expect(need(ann, "permission")).to_have_count(0)
        await ann.leave()


#: Notes what the browser is asked to show, and lets the test say whether the page is seen.
WATCHED = """
const seen = { hidden: false, shown: [], closed: [], asked: 0 };
window.seen = seen;
Object.defineProperty(document, "hidden", { get: () => seen.hidden, configurable: true });
const Real = window.Notification;
window.Notification = class extends Real {
  constructor(title, options) {
    super(title, options);
    seen.shown.push({ title, ...options });
    seen.last = this;
  }
  close() { seen.closed.push(this.tag); super.close(); }
  static requestPermission() { seen.asked += 1; return Real.requestPermission(); }
};
"""


HIDE = "seen.hidden = true, document.dispatchEvent(new Event('visibilitychange'))"


async def holds(page: Page, words: str) -> None:
    """Once this is true in the page."""
    await eventually(lambda: page.evaluate(words), words)


async def test_a_hidden_page_notifies_of_each_new_need_once(chromium: Browser, tmp_path: Path) -> None:
    folder = tmp_path / "room"
    folder.mkdir()
    for name, script in (("asks", ASKS), ("fails", FAILS)):
        (folder / f"{name}.yaml").write_text(script)
    agents = [agent("AVA", "asks.yaml"), agent("BEN", "asks.yaml"), agent("CLEO", "fails.yaml")]
    circuit = {"circuit_breaker": {"failure_threshold": 1, "reset_timeout": 600}}
    async with room(folder, settings(*agents, locks=circuit, queue={"max_attempts": 1})) as house:
        await house.start()
        ann = await Person.signed_out(chromium, house, "ann")
        await ann.context.add_init_script(WATCHED)
        await ann.sign_in()
        page = ann.page
        await ann.go("needs")
        opener = page.get_by_test_id("notify-open")

        # Refused by the browser: said, and nothing is on. It is asked on that click and never before.
        await expect(opener).to_have_text("Notify me")
        assert await page.evaluate("seen.asked") == 0
        await ann.context.clear_permissions()
        await opener.click()
        dialog, asks = page.get_by_test_id("notify-dialog"), page.get_by_test_id("notify-asks")
        if await page.evaluate("Notification.permission") != "denied":
            await asks.click()
        await expect(page.get_by_test_id("notify-standing")).to_contain_text("refuses notifications")
        await expect(asks).not_to_be_checked()
        assert await violations(page) == []
        await page.keyboard.press("Escape")

        # Allowed: one kind is turned on, by keyboard, and is kept in this browser.
        await ann.context.grant_permissions(["notifications"], origin=house.url)
        await ann.reload()
        await ann.go("needs")
        await opener.press("Enter")
        await asks.press("Space")
        await expect(asks).to_be_checked()
        assert await page.evaluate(FOCUS_SEEN) == ""
        await shot(page, "notify-1280-light")
        assert await everywhere(page) == []
        await page.set_viewport_size({"width": 1280, "height": 800})
        await page.get_by_test_id("notify-trial").click()
        assert [one["tag"] for one in await page.evaluate("seen.shown")] == ["relay-trial"]
        await dialog.get_by_role("button", name="Close").click()
        await expect(opener).to_have_text("Notifications are on")

        # Seen, nothing is shown; hidden, each new need of that kind is, once, and the title says it too.
        await house.post("@AVA keep the visits")
        await expect(need(ann, "question")).to_be_visible()
        await page.evaluate(f"seen.shown.length = 0, {HIDE}")
        await house.post("@CLEO mend the build")
        await house.post("@BEN keep the names")
        await holds(page, "seen.shown.length > 0")
        (told,) = await page.evaluate("seen.shown")
        assert told["title"] == "Question: BEN" and told["body"] == "Which of the two do you want?"
        listed = await house.get("/api/needs")
        assert told["tag"] in [one["id"] for one in listed if one["about"] == "BEN"]
        await expect(page).to_have_title(re.compile("^3 need you"))
        assert len(await page.evaluate("seen.shown")) == 1

        # A click on it leads to what it is about; what is settled takes its notification with it.
        await page.get_by_test_id("tab-room").click()
        await page.evaluate("seen.last.onclick(new Event('click'))")
        await expect(page).to_have_url(re.compile("#/needs$"))
        await expect(page.get_by_role("article", name="Question: BEN")).to_be_focused()
        await house.post("@AVA and once more")  # an answer to what it asked
        await holds(page, "seen.shown.length > 1")
        about = (await page.evaluate("seen.shown"))[1]["tag"]
        await house.ask("POST", f"/api/needs/{about}", json={"name": "ann", "action": "later"})
        await holds(page, f"seen.closed.includes({about!r})")

        # While another page of this browser is seen, nobody has to be called. What is off in one is off in all.
        other = await ann.context.new_page()
        await other.goto(house.url)
        await expect(other.get_by_test_id("connection")).to_have_attribute("data-state", "live")
        count = len(await page.evaluate("seen.shown"))
        await house.post("@BEN which comes first?")
        await house.post("@AVA and which last?")
        for each in (page, other):
            await expect(each).to_have_title(re.compile("^3 need you"))
        await other.evaluate(HIDE)
        await house.post("@AVA which of these?")
        told_of = (
            "(await navigator.locks.query()).held.filter((one) => one.name.startsWith('relay-need')).length"
        )
        await holds(page, f"(async () => {told_of} === 1)()")
        shown = [len(await each.evaluate("seen.shown")) for each in (page, other)]
        assert sum(shown) == count + 1, "one of the two pages"
        await page.get_by_test_id("notify-open").press("Enter")
        await asks.press("Space")
        await expect(asks).not_to_be_checked()
        await other.get_by_test_id("tab-needs").click()
        await expect(other.get_by_test_id("notify-open")).to_have_text("Notify me")
        await page.keyboard.press("Space")
        await page.keyboard.press("Escape")

        # The next visit remembers what is on, and sees when the browser no longer allows it.
        await ann.reload()
        await ann.go("needs")
        await expect(opener).to_have_text("Notifications are on")
        await ann.context.clear_permissions()
        await expect(opener).to_have_text("Notifications are refused")
        await ann.leave()
