"""The agents' worktrees: the list, the diff, and the merge."""

from __future__ import annotations

import pytest
from playwright.async_api import Locator, Page, expect

from tests.browser import airspace_scenes as scenes
from tests.browser.mock_airspace import new_worktree
from tests.browser.mock_room import MockRoom
from tests.browser.mocked.conftest import OpenPage

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


def row(page: Page, agent: str) -> Locator:
    return page.get_by_test_id("worktree").filter(has=page.get_by_text(agent, exact=True))


async def test_the_list_says_how_each_stands(room: MockRoom, open_page: OpenPage) -> None:
    scenes.trees(room.air)
    page = await open_page()
    await page.get_by_test_id("tab-worktrees").click()
    claude = row(page, "CLAUDE")
    await expect(claude).to_contain_text("relay/claude")
    await expect(claude).to_contain_text("↑ 3 ahead")
    await expect(claude).to_contain_text("↓ 2 behind")
    await expect(claude).to_contain_text("uncommitted")
    await expect(claude).to_contain_text("4 files +10 −3")
    await expect(claude).to_contain_text("merges clean")
    await expect(row(page, "CODEX").get_by_test_id("merges")).to_contain_text("conflicts in 1")
    await expect(row(page, "CODEX").get_by_test_id("merge")).to_be_disabled()
    await expect(row(page, "GEMINI")).to_contain_text("nothing to merge")
    await expect(row(page, "GEMINI").get_by_test_id("diff-open")).to_be_disabled()
    await expect(row(page, "ann")).to_contain_text("own checkout")


async def test_the_diff_is_read_as_text(room: MockRoom, open_page: OpenPage) -> None:
    scenes.trees(room.air)
    page = await open_page()
    await page.get_by_test_id("tab-worktrees").click()
    await row(page, "CODEX").get_by_test_id("diff-open").click()
    await expect(page.get_by_test_id("diff-conflicts")).to_contain_text(scenes.SESSION)
    files = page.get_by_test_id("diff-file")
    await expect(files).to_have_count(4)
    first = files.first
    await expect(first).to_contain_text("conflicts")
    await expect(first.locator(".diff-add")).to_have_count(4)
    await expect(first.locator(".diff-remove")).to_have_count(2)
    await expect(first.locator(".diff-remove").first).to_contain_text("40")
    await expect(files.nth(1)).to_contain_text("# <script>window.hacked = 1</script>")
    await expect(files.nth(2)).to_contain_text("A binary file")
    await expect(files.nth(3)).to_contain_text("src/checkout/old_money.py → src/checkout/money.py")
    await first.get_by_role("button", name=scenes.SESSION).click()
    await expect(first.locator(".diff-add")).to_have_count(0)
    # The list of files opens it again, and goes there.
    await page.get_by_role("navigation", name="Files of the diff").get_by_role("button").first.click()
    await expect(first.locator(".diff-add")).to_have_count(4)
    await page.get_by_label("Wrap lines").uncheck()
    assert await page.evaluate("window.hacked") is None


async def test_a_big_diff_is_opened_piece_by_piece(room: MockRoom, open_page: OpenPage) -> None:
    lines = 3000
    text = "".join(
        f"diff --git a/f{n} b/f{n}\nnew file mode 100644\n--- /dev/null\n+++ b/f{n}\n@@ -0,0 +1,{lines} @@\n"
        + "+x\n" * lines
        for n in range(8)
    )
    room.air.trees = [new_worktree("CLAUDE", files=8, insertions=8 * lines)]
    files = [
        {"path": f"f{n}", "change": "added", "insertions": lines, "deletions": 0, "binary": False}
        for n in range(9)
    ]
    told = {"agent": "CLAUDE", "branch": "relay/claude", "base": "4f2a9c1d", "truncated": True}
    room.air.diffs["CLAUDE"] = told | {"diff": text, "files": files}
    page = await open_page()
    await page.get_by_test_id("tab-worktrees").click()
    await row(page, "CLAUDE").get_by_test_id("diff-open").click()
    await expect(page.get_by_text("The diff is longer than the room sends")).to_be_visible()
    await expect(page.get_by_role("navigation", name="Files of the diff")).to_contain_text(
        "f8not in the text"
    )
    shown = page.locator(".diff-line")
    await expect(shown.first).to_be_visible()
    before = await shown.count()
    assert before <= 1500
    await page.get_by_test_id("diff-file").first.get_by_role("button", name="Show 1600 more").click()
    await expect(shown).to_have_count(before + 1600)


async def test_a_merge_is_asked_for_and_told(room: MockRoom, open_page: OpenPage) -> None:
    scenes.trees(room.air)
    page = await open_page()
    await page.get_by_test_id("tab-worktrees").click()
    await row(page, "CLAUDE").get_by_test_id("merge").click()
    dialog = page.get_by_test_id("merge-dialog")
    await expect(dialog).to_contain_text("3 commits of relay/claude come into the main branch: 4 files")
    await expect(dialog).to_contain_text("not committed yet is committed onto this branch")
    await dialog.get_by_role("button", name="Not now").click()
    assert room.air.merged == []
    await row(page, "CLAUDE").get_by_test_id("merge").click()
    await dialog.get_by_test_id("merge-now").click()
    await expect(page.get_by_test_id("toast")).to_contain_text("relay/claude is merged. (9b1c2d3e4f)")
    await expect(row(page, "CLAUDE")).to_contain_text("nothing to merge")
    assert room.air.merged == ["CLAUDE"]


async def test_a_refused_merge_names_what_is_in_the_way(room: MockRoom, open_page: OpenPage) -> None:
    scenes.trees(room.air)
    page = await open_page()
    await page.get_by_test_id("tab-worktrees").click()
    await row(page, "CLAUDE").get_by_test_id("merge").click()
    # Somebody was quicker: what merged clean a moment ago does not any more.
    reason = "git found conflicts"
    room.air.merge_answers["CLAUDE"] = {"success": False, "reason": reason, "commit": None}
    room.air.trees[0] = room.air.trees[0] | {"merges": "conflicts", "conflicts": ["src/money.py"]}
    dialog = page.get_by_test_id("merge-dialog")
    await dialog.get_by_test_id("merge-now").click()
    await expect(dialog.get_by_test_id("merge-refused")).to_contain_text("Not merged: git found conflicts")
    await expect(dialog).to_contain_text("src/money.py")
    await dialog.get_by_role("button", name="Close").click()
    await expect(row(page, "CLAUDE").get_by_test_id("merge")).to_be_disabled()


async def test_no_worktree_says_how_to_get_one(room: MockRoom, open_page: OpenPage) -> None:
    page = await open_page()
    await page.get_by_test_id("tab-worktrees").click()
    await expect(page.get_by_test_id("no-worktrees")).to_contain_text(
        "Each agent that the room drives gets one"
    )


async def test_an_answer_that_changed_files_leads_to_its_diff(room: MockRoom, open_page: OpenPage) -> None:
    scenes.trees(room.air)
    changed = {"branch": "relay/codex", "files": 5, "insertions": 88, "deletions": 41}
    room.say("CODEX", "Done.", "agent", meta={"worktree": changed})
    page = await open_page()
    told = page.get_by_test_id("changed")
    await expect(told).to_contain_text("relay/codex5 files +88 −41")
    await told.get_by_test_id("show-diff").click()
    await expect(page.get_by_test_id("diff")).to_be_visible()
    await expect(row(page, "CODEX").get_by_test_id("diff-open")).to_have_attribute("aria-pressed", "true")
