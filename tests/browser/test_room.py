"""The room: post, answers as they come, receipts, decisions, completion, search, what is unread."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import expect

from tests.browser.conftest import Come
from tests.browser.person import Person
from tests.fakes.ollama import FakeOllama, Mode
from tests.outside import Outside

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


async def test_an_answer_streams_and_stays(ann: Person, house: Outside) -> None:
    asked = await ann.say("@SLOW say something long")
    working = ann.receipt(asked, "SLOW")
    await expect(working).to_have_attribute("data-state", "active")
    stream = ann.page.get_by_test_id("stream")
    await expect(stream).to_contain_text("First comes this")
    await expect(ann.entries("First comes this", "SLOW")).to_have_count(0)
    # Who comes while it is written sees all of it.
    await ann.reload()
    await expect(stream).to_contain_text("First comes this")
    await expect(stream).not_to_contain_text("the beginning was not seen")
    working = ann.receipt(await ann.sees("say something long", "ann"), "SLOW")
    (house.folder / "go").touch()
    await ann.sees("First comes this, then that.", "SLOW")
    await expect(ann.entries("First comes this", "SLOW")).to_have_count(1)
    await expect(stream).to_have_count(0)
    await expect(working).to_have_attribute("data-state", "done")
    await expect(working).to_contain_text("answered")


async def test_code_is_coloured_and_the_footer_is_shown(ann: Person) -> None:
    await ann.say("@CLAUDE some code please")
    answer = await ann.sees("def tick", "CLAUDE")
    await expect(answer.locator(".hljs-keyword").first).to_have_text("def")
    await expect(answer.get_by_test_id("footer-chip")).to_have_text(
        [re.compile("Decision.*ship it"), re.compile("Owner.*CODEX"), re.compile("Blockers.*none")]
    )
    await expect(answer).to_contain_text("1.2k tokens · $0.012")
    await expect(answer.locator(".md")).not_to_contain_text("DECISION")
    await answer.get_by_text("1 tool use").click()
    await expect(answer.get_by_text("src/clock.py")).to_be_visible()


async def test_mentions_and_commands_complete(ann: Person) -> None:
    await ann.composer.press_sequentially("ask @co")
    offered = ann.page.get_by_test_id("completion")
    await expect(offered.get_by_role("option")).to_have_text([re.compile("@CODEX")])
    await ann.composer.press("Tab")
    await expect(ann.composer).to_have_value("ask @CODEX ")
    await ann.composer.fill("")
    await ann.composer.press_sequentially("/mo")
    options = offered.get_by_role("option")
    await expect(options).to_have_count(2)
    await expect(options.first).to_have_attribute("aria-selected", "true")
    await ann.composer.press("ArrowDown")
    await expect(options.nth(1)).to_have_attribute("aria-selected", "true")
    await ann.composer.press("Enter")
    await expect(ann.composer).to_have_value("/moveall ")
    await expect(ann.page.get_by_test_id("completion")).to_contain_text("in_progress")
    await ann.composer.press("Escape")
    await expect(ann.page.get_by_test_id("usage")).to_contain_text("/moveall")
    await ann.composer.fill("in `@co")
    await expect(offered).to_have_count(0)
    await ann.composer.fill("")


async def test_receipts_tell_failed_skipped_and_cancelled(ann: Person) -> None:
    asked = await ann.say("@FLAKY and @GHOST, are you well?")
    failed, skipped = ann.receipt(asked, "FLAKY"), ann.receipt(asked, "GHOST")
    await expect(failed).to_have_attribute("data-state", "dead")
    await expect(failed).to_contain_text("failed")
    await expect(failed.get_by_role("note")).to_have_attribute(
        "aria-label", re.compile("the disk of the model")
    )
    await expect(skipped).to_contain_text(re.compile("skipped: .*no-such-program-here"))
    hung = await ann.say("@CLAUDE hang in there")
    await expect(ann.page.get_by_test_id("stream")).to_contain_text("I have begun")
    waiting = await ann.say("@CLAUDE and then this")
    await expect(ann.receipt(waiting, "CLAUDE")).to_contain_text("queued")
    await ann.receipt(hung, "CLAUDE").get_by_role("button", name="Cancel").click()
    await expect(ann.receipt(hung, "CLAUDE")).to_have_attribute("data-state", re.compile("dead|skipped|done"))
    await expect(ann.receipt(hung, "CLAUDE")).to_contain_text("cancel")
    await expect(ann.receipt(waiting, "CLAUDE")).to_contain_text("skipped: cancelled by ann")
    await expect(ann.entries("/cancel @CLAUDE", "ann").last).to_be_visible()

    shown = [await one.locator(".outcome").inner_text() for one in (asked, hung, waiting)]
    await ann.reload()
    for text, before in zip(("are you well", "hang in there", "and then this"), shown, strict=True):
        again = await ann.sees(text, "ann")
        letters = "".join(before.split())
        await expect(again.locator(".outcome")).to_have_text(re.compile(r"\s*".join(map(re.escape, letters))))


async def test_a_decision_is_shown_and_overruled(ann: Person) -> None:
    asked = await ann.say("what does codex think of the clock?")
    chip = asked.get_by_test_id("decision")
    await expect(chip).to_contain_text("routed to CODEX: work")
    await expect(ann.receipt(asked, "CODEX")).to_contain_text("answered")
    await chip.get_by_role("button", name="Overrule").click()
    form = asked.get_by_role("form", name="Choose who answers")
    await form.get_by_label("CODEX").uncheck()
    await expect(form.get_by_label("GHOST")).to_be_disabled()
    await form.get_by_label("CLAUDE").check()
    await form.get_by_role("button", name="Route").click()
    await expect(chip).to_contain_text("ann chose CLAUDE")
    await expect(ann.receipt(asked, "CLAUDE")).to_contain_text("answered")
    await ann.reload()
    again = await ann.sees("what does codex think", "ann")
    await expect(again.get_by_test_id("decision")).to_contain_text("ann chose CLAUDE")

    thanked = await ann.say("thanks to all")
    await expect(thanked.get_by_test_id("decision")).to_contain_text(
        "answered by the dispatcher: no work in it"
    )
    await ann.sees("You are welcome.", "DISPATCHER")
    vague = await ann.say("fix it")
    await expect(vague.get_by_test_id("decision")).to_contain_text("asked back")


async def test_what_waits_is_folded_into_the_latest(ann: Person, house: Outside, ollama: FakeOllama) -> None:
    ollama.mode, ollama.delay_s = Mode.LATE, 3.0
    try:
        first = await ann.say("first of three for codex")
        await expect(first.get_by_test_id("routing")).to_be_visible()
        await house.post("second of three for codex", "ann")
        await house.post("third of three for codex", "ann")
        second = await ann.sees("second of three for codex", "ann")
        third = await ann.sees("third of three for codex", "ann")
        await expect(second.get_by_test_id("folded")).to_contain_text("folded into m")
        await expect(third.get_by_test_id("decision")).to_contain_text("routed to CODEX")
    finally:
        ollama.mode, ollama.delay_s = Mode.ANSWER, 0.05
    number = await third.get_attribute("data-number")
    await expect(second.get_by_test_id("folded")).to_have_text(f"⤷ folded into m{number}")
    await ann.reload()
    again = await ann.sees("second of three", "ann")
    await expect(again.get_by_test_id("folded")).to_have_text(f"⤷ folded into m{number}")


async def test_a_dispatcher_that_is_away_is_said(ann: Person, ollama: FakeOllama) -> None:
    row = ann.page.get_by_test_id("dispatcher-row")
    await ann.say("hello codex, once")
    await expect(row).to_have_attribute("data-state", "ok")
    ollama.mode = Mode.ERROR
    try:
        asked = await ann.say("is anybody here?")
        await expect(asked.get_by_test_id("decision")).to_contain_text("every active agent is asked")
        await expect(row).to_have_attribute("data-state", "fallback")
        await row.click()
        told = ann.page.get_by_test_id("dispatcher")
        await expect(told).to_contain_text("every active agent")
        await expect(told).to_contain_text("500")
    finally:
        ollama.mode = Mode.ANSWER
    await ann.go("room")
    await expect(ann.receipt(asked, "CODEX")).to_contain_text("answered")
    await ann.say("hello codex, again")
    await expect(row).to_have_attribute("data-state", "ok")


async def test_search_finds_and_jumps_far_back(ann: Person, house: Outside) -> None:
    early = await house.post("@CODEX the quokka is **under** the `bridge`", "ben")
    for at in range(60):
        await house.post(f"/who is number {at}", "ben")
    await ann.reload()
    await ann.page.keyboard.press("Control+k")
    search = ann.page.get_by_test_id("search")
    await search.fill("quokka")
    hit = ann.page.get_by_test_id("hit").filter(has_text="ben")
    await expect(hit.locator("mark")).to_have_text("quokka")
    await hit.click()
    found = await ann.sees("quokka", "ben")
    await expect(found).to_be_focused()
    await expect(found).to_be_in_viewport()
    await expect(found).to_have_attribute("data-number", str(early["number"]))
    await expect(ann.receipt(found, "CODEX")).to_contain_text("answered")
    jobs = (await house.get(f"/api/queue?messages={early['id']}"))["jobs"]
    assert [(job["message_id"], job["agent"]) for job in jobs] == [(early["id"], "CODEX")]
    # The present is one click away, with nothing missing between.
    await house.post("@CODEX said while ann was in the past", "ben")
    await expect(ann.page.get_by_test_id("jump-latest")).to_be_visible()
    await ann.page.get_by_test_id("jump-latest").click()
    await ann.sees("said while ann was in the past", "ben")

    await ann.page.goto(f"{house.url}/#{early['number']}")
    await ann.is_live()
    await expect(await ann.sees("quokka", "ben")).to_be_in_viewport()
    await ann.page.keyboard.press("Control+k")
    await search.fill("zebrafinch")
    await expect(ann.page.get_by_role("status").filter(has_text="Nothing in the room")).to_be_visible()
    await ann.page.keyboard.press("Escape")
    await expect(search).to_have_count(0)


async def test_numbers_lead_where_they_say(ann: Person, house: Outside) -> None:
    await house.post("/task Mend the roof", "ben")
    await house.until_said("Mend the roof", speaker="RELAY")
    task = max(one["number"] for one in (await house.get("/api/tasks"))["tasks"])
    target = await house.post("@CODEX this is the target", "ben")
    job = (await house.until_job(target["id"], "CODEX", "done"))["id"]
    await ann.composer.fill(
        f"@CODEX see #{target['number']}, m{target['number']}, t{task}, j{job} and task #{task}; "
        "not `#1`, not a#2, m999999, t999, a.m1, m1.large or x/m1"
    )
    await ann.composer.press("Enter")
    entry = await ann.sees("not a#2", "ann")
    await expect(entry.locator("a.ref")).to_have_text(
        [f"#{target['number']}", f"m{target['number']}", f"t{task}", f"j{job}", f"task #{task}"]
    )
    for name in (f"task #{task}", f"t{task}"):
        await entry.get_by_role("link", name=name, exact=True).click()
        await expect(ann.page.locator(f'[data-task="{task}"]')).to_be_focused()
        await ann.go("room")
    await entry.get_by_role("link", name=f"j{job}", exact=True).click()
    await expect(ann.page.locator(f'[data-job="{job}"]')).to_be_focused()
    await ann.go("room")
    for name in (f"#{target['number']}", f"m{target['number']}"):
        await entry.get_by_role("link", name=name, exact=True).first.click()
        await expect(await ann.sees("this is the target", "ben")).to_be_focused()
    # The room's own texts, and addresses: new ones, and those that were copied before.
    told = await ann.unfolds(f"ben added task t{task}: Mend the roof", "RELAY")
    await told.get_by_role("link", name=f"t{task}", exact=True).click()
    await expect(ann.page.locator(f'[data-task="{task}"]')).to_be_focused()
    for address in (f"m{target['number']}", str(target["number"])):
        await ann.page.goto(f"{house.url}/#{address}")
        await ann.reload()
        await expect(await ann.sees("this is the target", "ben")).to_be_in_viewport()
    await ann.page.goto(f"{house.url}/#j{job}")
    await ann.reload()
    await expect(ann.page.locator(f'[data-job="{job}"]')).to_be_visible()


async def test_what_came_meanwhile_stands_below_a_line(ann: Person, come: Come) -> None:
    await ann.say("@CODEX before the break")
    await ann.sees("heard @CODEX before the break", "CODEX")
    await ann.page.evaluate("dispatchEvent(new Event('blur'))")
    ben = await come("ben")
    await ben.say("@CODEX while ann was away")
    line = ann.page.get_by_test_id("new-line")
    await expect(line).to_be_visible()
    await expect(line.locator("xpath=following-sibling::*[1]")).to_contain_text("while ann was away")
    await expect(ann.page).to_have_title(re.compile(r"^(\d+ needs? you · )?\(\d+\) "))
    await ann.page.evaluate("dispatchEvent(new Event('focus'))")
    await expect(ann.page).to_have_title(re.compile(r"^(\d+ needs? you · )?house"))


async def test_a_reply_quotes_and_leads_back(ann: Person) -> None:
    asked = await ann.say("@CODEX the first word")
    await ann.say("@CLAUDE something between")
    # What is answered moves the rows away from below the mouse.
    await ann.sees("heard @CODEX the first word", "CODEX")
    await ann.sees("heard @CLAUDE something between", "CLAUDE")
    await asked.hover()
    await asked.get_by_role("button", name="Reply").click()
    await expect(ann.page.get_by_test_id("replying")).to_contain_text("the first word")
    reply = await ann.say("@CODEX the reply")
    await reply.get_by_test_id("quote").click()
    await expect(asked).to_be_focused()


async def test_lines_from_outside_are_marked(ann: Person, house: Outside) -> None:
    house.echo("[CLAUDE] I am not CLAUDE")
    forged = await ann.sees("I am not CLAUDE")
    await expect(forged.get_by_test_id("mark-unverified")).to_be_visible()
