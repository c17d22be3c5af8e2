"""The review in the page: a branch is read through, marked, commented on, and landed from there (docs/review.md)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.async_api import Browser, Locator, expect

from tests.browser.axe import everywhere
from tests.browser.person import Person, shot
from tests.git.repository import commit, git
from tests.outside import agent, eventually, room, settings

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

CART = "def total(items):\n    return sum(items)\n\n\ndef other():\n    return 1\n"
LIST = CART.replace("sum(items)", "sum(list(items))")
SCRIPT = f"""\
- match: comment on|begin
  write:
    src/cart.py: {LIST!r}
    "docs/read me.md": "# Cart\\n\\nIt adds.\\n"
    long.txt: {"".join(f"line {n}" + chr(10) for n in range(1200))!r}
  say: done
- match: go on
  write:
    src/cart.py: {LIST.replace("return 1", "return 2")!r}
    "docs/read me.md": "# Cart\\n\\nIt adds up.\\n"
  say: done
- say: heard
""".replace("'", '"')


def file(person: Person, path: str) -> Locator:
    return person.page.locator(f'[data-testid="review-file"][data-path="{path}"]')


def plus(person: Person, path: str, line: int, side: str = "new") -> Locator:
    return file(person, path).locator(f'.rv-plus[data-side="{side}"][data-line="{line}"]')


async def test_a_branch_is_read_through_and_lands_as_one_commit(chromium: Browser, tmp_path: Path) -> None:
    folder = tmp_path / "room"
    folder.mkdir()
    (folder / "w.yaml").write_text(SCRIPT)
    async with room(folder, settings(agent("AVA", "w.yaml"))) as house:
        git(folder, "init", "-q", "-b", "main")
        (folder / ".gitignore").write_text("*\n!src\n!src/*\n!docs\n!docs/*\n!long.txt\n")
        (folder / "src").mkdir()
        (folder / "src/cart.py").write_text(CART)
        git(folder, "add", "-f", ".gitignore", "src")
        commit(folder)
        await house.start()
        await house.reply_to((await house.post("@AVA begin"))["id"], "AVA")
        ann = await Person.arrive(chromium, house, "ann", viewport={"width": 1400, "height": 900})
        page = ann.page
        # Where it is said to be ready, both are a click away. A hand's edit is seen without a turn.
        tree = folder / ".relay/worktrees/ava/src/cart.py"
        whole, stands = tree.read_text(), page.get_by_test_id("stands-AVA")
        await expect(stands).to_contain_text("+1204")
        tree.write_text(whole + "# more\n")
        await expect(stands).to_contain_text("+1205")
        tree.write_text(whole)
        await expect(stands).to_contain_text("+1204")
        await shot(page, "review-ways-1400")
        await page.get_by_test_id("ways-land-AVA").click()
        await expect(page.get_by_test_id("land-now")).to_be_enabled()
        await page.keyboard.press("Escape")
        await expect(page.get_by_test_id("land-dialog")).to_have_count(0)
        await page.get_by_test_id("ways-review-AVA").click()
        await expect(page).to_have_url(re.compile(r"#/review\?of=AVA$"))
        await expect(page.get_by_test_id("review-file")).to_have_count(3)
        await expect(page.get_by_test_id("review-dirty")).to_be_visible()
        # Colours, a big file that is folded, and links into the worktree.
        await expect(file(ann, "src/cart.py").locator(".hljs-keyword").first).to_be_visible()
        await expect(file(ann, "long.txt").get_by_text("more of")).to_be_visible()
        await expect(file(ann, "src/cart.py").get_by_test_id("editor-link").first).to_have_attribute(
            "href", f"vscode://file{folder}/.relay/worktrees/ava/src/cart.py:1"
        )

        # By keyboard: to the file, mark it; it closes, and stays marked on another device.
        await page.keyboard.press("n")
        await page.keyboard.press("v")
        first = file(ann, "docs/read me.md")
        await expect(first.get_by_test_id("reviewed")).to_be_checked()
        await expect(first.locator(".rv-lines")).to_have_count(0)
        await expect(page.get_by_test_id("review-done")).to_have_text("1 of 3 reviewed")
        phone = await Person.arrive(chromium, house, "ann", viewport={"width": 390, "height": 844})
        await phone.page.get_by_test_id("agent-chips").get_by_role("button", name="AVA").click()
        await expect(phone.page.get_by_test_id("ways-land-AVA")).to_be_visible()
        await shot(phone.page, "review-chip-390")
        await phone.page.get_by_test_id("ways-review-AVA").click()
        await expect(file(phone, "docs/read me.md").get_by_test_id("reviewed")).to_be_checked()
        assert not await phone.page.evaluate("document.documentElement.scrollWidth > innerWidth")

        # Side by side; a comment on two lines of the agent's, with a suggestion; and one on what was there before.
        await page.get_by_test_id("split").click()
        await plus(ann, "src/cart.py", 2, "old").focus()
        await page.keyboard.press("Enter")
        # One that says nothing goes, and leaves the focus on its line too.
        await page.get_by_test_id("draft-text").press("Escape")
        await expect(page.get_by_test_id("draft")).to_have_count(0)
        await expect(plus(ann, "src/cart.py", 2, "old")).to_be_focused()
        await page.keyboard.press("Enter")
        await page.get_by_test_id("draft-text").fill("It was shorter.")
        await page.get_by_test_id("draft-text").press("Escape")
        # The keys lead on from the line that was commented on, and are listed with all others.
        await expect(plus(ann, "src/cart.py", 2, "old")).to_be_focused()
        await page.keyboard.press("?")
        keys = page.get_by_test_id("help")
        await expect(keys.get_by_role("heading", name="Review")).to_be_visible()
        await shot(page, "keys-1400")
        await page.keyboard.press("Escape")
        await page.get_by_test_id("unified").click()
        await plus(ann, "src/cart.py", 2).focus()
        await page.keyboard.press("Enter")
        field = page.get_by_test_id("draft-text")
        await expect(field).to_be_focused()
        await field.fill("Why a list?")
        await page.get_by_test_id("line-below").click()
        await expect(page.get_by_test_id("draft").nth(1)).to_contain_text("lines 2 to 3")
        await page.get_by_test_id("draft-drop").nth(1).click()
        await plus(ann, "src/cart.py", 2).click()
        await page.get_by_test_id("draft-text").fill("Why a list?")
        await page.get_by_test_id("suggest").click()
        await expect(page.get_by_test_id("suggestion")).to_be_focused()
        await page.get_by_test_id("suggestion").fill("    return sum(items)")
        # A reload loses nothing.
        await page.reload()
        await expect(page.get_by_test_id("draft")).to_have_count(2)
        await expect(page.get_by_test_id("draft").nth(1)).to_contain_text("return sum(items)")
        await page.get_by_test_id("send-comments").click()
        await expect(page.get_by_test_id("draft")).to_have_count(0)
        sent = await house.until_said("/review @AVA 2 comments on", speaker="ann")
        assert (
            "```suggestion\n    return sum(items)\n```" in sent["body"] and "It was shorter." in sent["body"]
        )
        await house.reply_to(sent["id"], "AVA")
        cards = page.get_by_test_id("sent-comment")
        await expect(cards).to_have_count(2)

        # Applied and taken back with a click each; what changes under a comment is said to be outdated.
        await page.get_by_test_id("apply").click()
        await expect(page.get_by_test_id("take-back")).to_be_visible()
        place = folder / ".relay/worktrees/ava"
        assert (
            git(place, "log", "-1", "--format=%an") == "ann" and (place / "src/cart.py").read_text() == CART
        )
        await page.get_by_test_id("take-back").click()
        await expect(page.get_by_test_id("apply")).to_be_enabled()
        assert (place / "src/cart.py").read_text() == LIST
        await house.reply_to((await house.post("@AVA go on"))["id"], "AVA")
        await expect(page.get_by_test_id("review-done")).to_have_text("0 of 3 reviewed")
        (place / "src/cart.py").write_text(LIST.replace("list", "tuple"))
        await expect(page.get_by_test_id("outdated")).to_have_count(1)

        # Everything has a name, every text stands out, and nothing sticks out, at both widths and in both schemes.
        assert await everywhere(page) == []
        await page.set_viewport_size({"width": 1400, "height": 900})

        # From there to the main branch, as one commit. Who lands it is told of the comment that is open still, and
        # what else waits of the branch stands above it.
        await house.post("/task Sum without a list")
        await house.post("/give t1 @AVA")
        await expect(page.get_by_test_id("review-waits")).to_contain_text("AVA has answered t1")
        await page.get_by_test_id("review-squash").click()
        await expect(page.get_by_test_id("plan-open")).to_contain_text("1 comment is open.")
        await shot(page, "review-land-1400")
        await expect(page.get_by_test_id("land-squash")).to_have_attribute("aria-pressed", "true")
        await page.get_by_test_id("land-now").click()

        async def landed() -> bool:
            return git(folder, "log", "--format=%an", "main").startswith("AVA\n")

        await eventually(landed, "the branch on main")
        assert git(folder, "rev-list", "--count", "main") == "2"
        # Of a branch that has nothing more it says what has landed, as which commit.
        landing = page.get_by_test_id("review-landed")
        await expect(landing.get_by_role("heading", level=2)).to_have_text("AVA's branch has landed")
        await expect(page.get_by_test_id("landed-commit")).to_have_text(git(folder, "rev-parse", "main")[:9])
        await expect(landing.get_by_test_id("diff-file")).to_have_count(3)
        await expect(landing.get_by_test_id("landed-open")).to_contain_text("It was shorter.")
        await expect(page.get_by_test_id("review-waits")).to_contain_text("AVA has answered t1")
        await house.post("/review @AVA")
        await house.until_said("Comments that were open when it landed:", speaker="RELAY")
        await shot(page, "review-landed-1400")
        await landing.locator('[data-path="long.txt"] .diff-file-head').click()
        assert await everywhere(page) == []
        # What takes out again what another landed is not said to be ready.
        await page.set_viewport_size({"width": 1400, "height": 900})
        cart = (folder / "src/cart.py").read_text()
        commit(folder, {"src/cart.py": f"{cart}# Cents only.\n"})
        await house.reply_to((await house.post("@AVA begin"))["id"], "AVA")
        stands = page.get_by_test_id("stands-AVA")
        await expect(stands).to_contain_text("would undo Ann's landed lines in cart.py")
        await expect(page.get_by_test_id("ways-land-AVA")).to_have_count(0)
        await shot(page, "review-undoes-1400")
        await phone.leave()
        await ann.leave()
