"""Single entries in the page: changed, deleted, pinned, answered beside (docs/entries.md)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, ViewportSize, expect

from tests.browser.axe import everywhere
from tests.browser.person import PHONE, Person, shot
from tests.e2e.test_worktrees import in_git
from tests.git.repository import commit
from tests.outside import ECHO, agent, room, settings

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

DESK: ViewportSize = {"width": 1400, "height": 900}
#: Pastes a picture, with this text if it is not empty; gives whether the browser is left to paste it.
PASTE = """async (area, text) => {
  const canvas = document.createElement("canvas");
  canvas.width = 300; canvas.height = 180;
  const brush = canvas.getContext("2d");
  brush.fillStyle = "#2a7"; brush.fillRect(0, 0, 300, 180);
  const blob = await new Promise((done) => canvas.toBlob(done, "image/png"));
  const data = new DataTransfer();
  data.items.add(new File([blob], "shot.png", { type: "image/png" }));
  if (text) data.setData("text/plain", text);
  const how = { clipboardData: data, bubbles: true, cancelable: true };
  return area.dispatchEvent(new ClipboardEvent("paste", how));
}"""


async def test_a_person_changes_and_deletes_a_message_and_others_see_it(
    chromium: Browser, tmp_path: Path
) -> None:
    folder = tmp_path / "room"
    folder.mkdir()
    (folder / "echo.yaml").write_text(ECHO)
    async with room(folder, settings(agent("AVA"))) as house:
        await house.start()
        ann = await Person.arrive(chromium, house, "ann")
        bob = await Person.arrive(chromium, house, "bob", viewport=PHONE, color_scheme="dark")
        mine = await ann.say("The login page is ready")
        number = await mine.get_attribute("data-number")
        place = f"#{await mine.get_attribute('id')}"
        mine, theirs = ann.page.locator(place), bob.page.locator(place)
        await expect(theirs).to_contain_text("The login page is ready")
        await expect(theirs.get_by_test_id("edit")).to_have_count(0)

        await mine.focus()
        await mine.get_by_test_id("edit").click()
        field = ann.page.get_by_label("The new text")
        await expect(field).to_be_focused()
        await field.press("Escape")
        await expect(mine).to_be_focused()
        await mine.get_by_test_id("edit").click()
        await field.fill("The **start** page is ready")
        await shot(ann.page, "edit-box")
        await field.press("Enter")
        await expect(ann.page.get_by_test_id("toast").last).to_contain_text(f"ann edited m{number}.")
        for entry in (mine, theirs):
            await expect(entry.locator("strong")).to_have_text("start")
            await expect(entry.get_by_test_id("edited")).to_contain_text("edited")
        # The side bar, too, has the words that stand there now.
        last = ann.page.get_by_test_id("last-AVA")
        await expect(last).to_contain_text("The start page is ready")
        await theirs.get_by_test_id("edited").click()
        await expect(theirs.get_by_test_id("versions")).to_contain_text("The login page is ready")
        await shot(bob.page, "edited-phone")
        # The command says which message, and the text stands there alone.
        await expect(
            bob.page.get_by_test_id("fold").filter(has_text=re.compile(f"/edit m{number} · "))
        ).to_be_visible()

        await mine.focus()
        await mine.get_by_test_id("delete").click()
        now = ann.page.get_by_test_id("delete-now")
        await expect(now).to_be_focused()
        await ann.page.keyboard.press("Escape")
        await expect(now).to_have_count(0)
        await mine.get_by_test_id("delete").click()
        await shot(ann.page, "delete-box")
        await now.click()
        for entry in (mine, theirs):
            await expect(entry.get_by_test_id("deleted")).to_have_text("ann deleted this message.")
            await expect(entry).not_to_contain_text("start")
        await shot(ann.page, "deleted")
        await bob.reload()
        await expect(theirs.get_by_test_id("deleted")).to_be_visible()
        await ann.leave()
        await bob.leave()


async def test_what_was_deleted_is_quoted_by_nobody_and_asks_nobody(
    chromium: Browser, tmp_path: Path
) -> None:
    folder = tmp_path / "room"
    folder.mkdir()
    (folder / "echo.yaml").write_text("- say: It is done.\n")
    (folder / "fails.yaml").write_text("- fail: crash\n")
    agents = (agent("AVA"), agent("BEN", "fails.yaml"))
    async with room(folder, settings(*agents, queue={"max_attempts": 1})) as house:
        await house.start()
        ann = await Person.arrive(chromium, house, "ann")
        mine = await ann.say("Build the secret page")
        mine = ann.page.locator(f"#{await mine.get_attribute('id')}")
        await expect(mine.get_by_role("button", name="Overrule")).to_be_visible()
        await expect(mine.get_by_role("button", name="Retry BEN now")).to_be_visible()
        last = ann.page.get_by_test_id("last-AVA")
        await expect(last).to_contain_text("Last: Build the secret page")
        await ann.say("@AVA And the next one")
        await mine.focus()
        await mine.get_by_role("button", name="Reply").click()
        answer = await ann.say("@AVA No, not that")
        await expect(answer.get_by_test_id("quote")).to_contain_text("Build the secret page")

        await mine.focus()
        await mine.get_by_test_id("delete").click()
        await ann.page.get_by_test_id("delete-now").click()
        await expect(answer.get_by_test_id("quote")).to_have_text("anndeleted")
        await expect(ann.page.get_by_test_id("last-BEN")).to_contain_text("Last: deleted")
        for name in ("Overrule", "Retry BEN now"):
            await expect(mine.get_by_role("button", name=name)).to_have_count(0)
        await shot(ann.page, "deleted-quoted")
        await ann.go("queue")
        row = ann.page.get_by_test_id("job").filter(has_text="BEN").filter(has_text="deleted")
        await expect(row).to_have_count(1)
        await expect(row.get_by_role("button", name="Retry")).to_have_count(0)
        await ann.leave()


async def test_what_is_pinned_stands_on_top_folded(chromium: Browser, tmp_path: Path) -> None:
    folder = tmp_path / "room"
    folder.mkdir()
    async with room(folder, settings(agent("AVA"))) as house:
        await house.start()
        ann = await Person.arrive(chromium, house, "ann")
        bob = await Person.arrive(chromium, house, "bob", viewport=PHONE, color_scheme="dark")
        said = await ann.say("Prices are in cents everywhere")
        await ann.say("One more thing")
        await said.focus()
        await said.get_by_test_id("pin-it").click()
        await expect(said.get_by_test_id("pin-it")).to_have_attribute("aria-pressed", "true")
        for person in (ann, bob):
            bar = person.page.get_by_test_id("pins")
            await expect(bar).to_contain_text("1 pinned")
            await expect(bar).to_contain_text("ann: Prices are in cents everywhere")
            await expect(bar.get_by_test_id("pin")).to_have_count(0)
            await bar.get_by_test_id("pins-open").press("Enter")
            await expect(bar.get_by_test_id("pin")).to_contain_text("Prices are in cents everywhere")
            await shot(person.page, f"pins-{person.name}")
        assert not await bob.page.evaluate("document.documentElement.scrollWidth > innerWidth")
        await ann.page.get_by_test_id("pin").get_by_role("button").first.click()
        await expect(said).to_have_attribute("aria-current", "true")
        await bob.page.get_by_test_id("unpin").click()
        for person in (ann, bob):
            await expect(person.page.get_by_test_id("pins")).to_have_count(0)
        await ann.leave()
        await bob.leave()


async def test_a_thread_opens_beside_and_is_answered_there(chromium: Browser, tmp_path: Path) -> None:
    folder = tmp_path / "room"
    folder.mkdir()
    (folder / "echo.yaml").write_text(ECHO)
    async with room(folder, settings(agent("AVA"), agent("BEN"))) as house:
        await house.start()
        ann = await Person.arrive(chromium, house, "ann", viewport=DESK)
        bob = await Person.arrive(chromium, house, "bob", viewport=PHONE, color_scheme="dark")
        # Bob is here, and has said nothing: who names him asks him, and no agent.
        await ann.page.get_by_test_id("composer").fill("@bob are you there now?")
        await expect(ann.page.get_by_test_id("composer-told")).to_have_text("for bob; no agent is asked")
        await shot(ann.page, "told-hint")
        aside = await ann.say("@bob are you there now?")
        await expect(aside.get_by_test_id("told")).to_have_text("for bob; no agent is asked")
        await expect(aside.locator(".mention")).to_have_text("@bob")
        asked = await ann.say("@AVA which database?")
        place = f"#{await asked.get_attribute('id')}"
        await ann.sees("AVA heard", "AVA")
        # The one answer of whom was asked is no conversation.
        await expect(asked.get_by_test_id("replies")).to_have_count(0)
        for each in ("receipt", "decision", "routing"):
            await expect(aside.get_by_test_id(each)).to_have_count(0)
        await shot(bob.page, "told-bob")
        await asked.focus()
        await asked.get_by_test_id("answer-beside").click()
        panel = ann.page.get_by_test_id("thread")
        field = ann.page.get_by_test_id("thread-composer")
        await expect(field).to_be_focused()
        await expect(panel.get_by_test_id("thread-entry")).to_have_count(2)
        await field.press_sequentially("@BE")
        await field.press("Tab")
        await field.press_sequentially("is that right?")
        await field.press("Enter")
        await expect(panel.get_by_test_id("thread-entry")).to_have_count(4)
        await expect(panel.get_by_test_id("thread-entry").last).to_contain_text(
            "BEN heard @BEN is that right?"
        )
        await expect(ann.page.locator(place).get_by_test_id("replies")).to_have_text("3 replies")
        await shot(ann.page, "thread")
        assert await everywhere(ann.page) == []
        await ann.page.set_viewport_size(DESK)
        await field.press("Escape")
        await expect(panel).to_have_count(0)
        await expect(ann.page.locator(place)).to_be_focused()

        replies = bob.page.locator(place).get_by_test_id("replies")
        await expect(replies).to_have_text("3 replies")
        await replies.click()
        await expect(bob.page.get_by_test_id("thread-entry")).to_have_count(4)
        assert not await bob.page.evaluate("document.documentElement.scrollWidth > innerWidth")
        await shot(bob.page, "thread-phone")
        await bob.page.get_by_test_id("thread-close").click()
        # As it was read, not only as it came.
        await bob.reload()
        await expect(replies).to_have_text("3 replies")
        # Who answers in the room answers in the thread too.
        answer = await house.reply_to((await asked.get_attribute("id") or "")[2:], "AVA")
        await house.post("@AVA more, please", name="ann", in_reply_to=answer["id"])
        await expect(replies).to_have_text("5 replies")
        await ann.leave()
        await bob.leave()


async def test_a_file_with_lines_leads_to_the_code_as_of_then(chromium: Browser, tmp_path: Path) -> None:
    folder = tmp_path / "room"
    folder.mkdir()
    (folder / "said.yaml").write_text(
        '- say: "It is in `src/app.ts:41-43`, and see https://example.com/a.py:12."\n'
    )
    async with room(folder, settings(agent("AVA", "said.yaml"))) as house:
        in_git(folder)
        commit(folder, {"src/app.ts": "".join(f"function f{n}() {{\n  return {n};\n}}\n" for n in range(60))})
        await house.start()
        desk: dict[str, Any] = {"viewport": DESK}
        for name, how in (("ann", desk), ("bob", {"viewport": PHONE, "color_scheme": "dark"})):
            person = await Person.arrive(chromium, house, name, **how)
            said = await person.say(f"{name} asks @AVA of src/app.ts:4 at 12:30")
            await expect(said.locator("a.place")).to_have_text("src/app.ts:4")
            answer = await house.reply_to((await said.get_attribute("id") or "")[2:], "AVA")
            row = person.page.locator(f"#e-{answer['id']}")
            await expect(row.locator("code a.place")).to_have_text("src/app.ts:41-43")
            await expect(row.locator("a.place")).to_have_count(1)
            await row.locator("a.place").click()
            panel = person.page.get_by_test_id("code-panel")
            await expect(panel.locator(".lit-line")).to_have_count(3)
            await expect(panel.locator('[data-line="41"]')).to_contain_text("return 13")
            await expect(panel.locator(".hljs-keyword").first).to_be_visible()
            await expect(panel).to_contain_text("in the worktree of AVA")
            await shot(person.page, f"code-{name}")
            if name == "ann":
                assert await everywhere(person.page) == []
                await person.page.set_viewport_size(DESK)
            assert not await person.page.evaluate("document.documentElement.scrollWidth > innerWidth")
            await person.page.keyboard.press("Escape")
            await expect(panel).to_have_count(0)
            await person.leave()


async def test_a_picture_is_pasted_and_a_file_is_chosen(chromium: Browser, tmp_path: Path) -> None:
    folder = tmp_path / "room"
    folder.mkdir()
    (folder / "notes.txt").write_text("some notes")
    async with room(folder, settings(agent("AVA"), room={"max_file_bytes": 20_000})) as house:
        await house.start()
        ann = await Person.arrive(chromium, house, "ann", viewport=DESK)
        bob = await Person.arrive(chromium, house, "bob", viewport=PHONE, color_scheme="dark")
        await ann.composer.fill("It looks like this:")
        # As the clipboard of a screenshot has it.
        await ann.composer.evaluate(PASTE, "")
        # Nobody reads 64 digits: the field has the first of them, and the picture stands above it.
        pasted = re.compile(r"^It looks like this: !\[shot\.png\]\(relay-file:[0-9a-f]{8}\) $")
        await expect(ann.composer).to_have_value(pasted)
        small = ann.page.get_by_test_id("composer-pictures").get_by_role("img", name="shot.png")
        await expect(small).to_have_count(1)
        assert await small.evaluate("async (one) => { await one.decode(); return one.naturalWidth; }") == 300
        await shot(ann.page, "pasted-1400")
        await ann.page.reload()
        await expect(ann.composer).to_have_value(pasted)
        # An office program copies text with a picture of it: the browser is left to paste the text.
        assert await ann.composer.evaluate(PASTE, "Sums of May") is True
        # Files that were copied in a folder come with their names.
        assert await ann.composer.evaluate(PASTE, "shot.png") is False
        twice = re.compile(r"^It looks like this: (!\[shot\.png\]\(relay-file:[0-9a-f]{8}\) ){2}$")
        await expect(ann.composer).to_have_value(twice)
        await ann.composer.fill((await ann.composer.input_value()).rsplit("!", 1)[0])
        await ann.page.get_by_test_id("file-field").set_input_files(str(folder / "notes.txt"))
        await expect(ann.composer).to_have_value(re.compile(r"\[notes\.txt\]\(relay-file:[0-9a-f]{8}\)"))
        await ann.composer.press("Enter")
        for person in (ann, bob):
            row = await person.sees("It looks like this:", "ann")
            image = row.locator("img")
            await expect(image).to_have_attribute("alt", "shot.png")
            assert (
                await image.evaluate("async (one) => { await one.decode(); return one.naturalWidth; }") == 300
            )
            async with person.page.expect_download() as coming:
                await row.locator("a.file-link").click()
            download = await coming.value
            assert download.suggested_filename == "notes.txt"
            assert Path(await download.path()).read_text() == "some notes"
            await shot(person.page, f"files-{person.name}")
            assert not await person.page.evaluate("document.documentElement.scrollWidth > innerWidth")
        # Too large: it is said, and the text stays.
        (folder / "large.bin").write_bytes(bytes(30_000))
        await ann.composer.fill("and this")
        await ann.page.get_by_test_id("file-field").set_input_files(str(folder / "large.bin"))
        largest = "large.bin has 30,000 bytes; the largest file has 20,000."
        await expect(ann.page.get_by_test_id("toast").last).to_contain_text(largest)
        await expect(ann.composer).to_have_value("and this")
        await ann.leave()
        await bob.leave()
