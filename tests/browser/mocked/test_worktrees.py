"""The agents' worktrees: the list, the diff, and the merge."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import Locator, Page, Route, expect

from scripts.bench import airspace_scenes as scenes
from scripts.bench.mock_airspace import new_worktree
from scripts.bench.mock_room import MockRoom
from tests.browser.mocked.conftest import OpenPage
from tests.browser.person import open_view
from tests.browser.test_look import PALE

PHONE = (390, 844)
WIDE = "document.scrollingElement.scrollWidth - innerWidth"
pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


def row(page: Page, agent: str) -> Locator:
    return page.locator(f'[data-testid="worktree"][data-agent="{agent}"]')


async def test_the_list_says_how_each_stands(room: MockRoom, open_page: OpenPage) -> None:
    scenes.trees(room.air)
    page = await open_page()
    await open_view(page, "worktrees")
    claude = row(page, "CLAUDE")
    await expect(claude).to_contain_text("relay/claude")
    await expect(claude).to_contain_text("↑ 3 ahead")
    await expect(claude).to_contain_text("↓ 2 behind")
    await expect(claude).to_contain_text("uncommitted")
    await expect(claude).to_contain_text("4 files +10 −3")
    await expect(claude).to_contain_text("merges clean")
    await expect(row(page, "CODEX").get_by_test_id("merges")).to_contain_text(
        f"conflicts with main in {scenes.SESSION} (lines 40-58)"
    )
    await expect(row(page, "GEMINI").get_by_test_id("merge")).to_be_disabled()
    await expect(row(page, "GEMINI")).to_contain_text("nothing to merge: main has all of it")
    await expect(row(page, "GEMINI").get_by_test_id("diff-open")).to_be_disabled()
    await expect(row(page, "ann")).to_contain_text("own checkout")
    # Where it is narrow the name of a branch breaks behind a slash, and a size stands together.
    room.air.trees = [
        new_worktree(
            "CLAUDE", branch="tw/ann/claude", ports=[27880, 27889], disk={"bytes": 9, "whole": True}, app=None
        )
    ]
    await page.reload()
    cut = "all => all.filter((one) => one.offsetHeight > 24).map((one) => one.textContent)"
    for width in (1400, 1000, 800, 390):
        await page.set_viewport_size({"width": width, "height": 900})
        await expect(row(page, "CLAUDE")).to_contain_text("<1 MB")
        parts = row(page, "CLAUDE").locator(".branch code > span, .runs-size")
        await expect(parts).to_have_count(4)
        assert await parts.evaluate_all(cut) == [], width


async def test_whom_a_merge_sets_back_is_said_before_it(room: MockRoom, open_page: OpenPage) -> None:
    def hit(agent: str, path: str) -> dict[str, object]:
        return {"agent": agent, "paths": [path]}

    room.air.trees = [
        new_worktree("CLAUDE", collides=[hit("CODEX", "src/cart.py")]),
        new_worktree("CODEX", collides=[hit("CLAUDE", "src/cart.py"), hit("GEMINI", "src/tax.py")]),
        new_worktree("GEMINI", collides=[hit("CODEX", "src/tax.py")]),
    ]
    room.air.order = [
        {"agent": "CLAUDE", "first": "", "sets_back": [hit("CODEX", "src/cart.py")]},
        {"agent": "GEMINI", "first": "", "sets_back": []},
        {"agent": "CODEX", "first": "merge main into its branch", "sets_back": []},
    ]
    page = await open_page()
    await open_view(page, "worktrees")
    told = row(page, "CLAUDE").get_by_test_id("merges")
    await expect(told).to_contain_text("merges clean into main")
    await expect(told.get_by_test_id("collides")).to_contain_text("conflicts with CODEX in src/cart.py")
    await expect(page.get_by_test_id("merge-order")).to_contain_text(
        "CLAUDE, GEMINI, CODEX (after it has merged main)"
    )
    await row(page, "CODEX").get_by_test_id("merge").click()
    dialog = page.get_by_test_id("merge-dialog")
    await expect(dialog).to_contain_text("This sets CLAUDE back: it will conflict with main in src/cart.py")
    await expect(dialog).to_contain_text("This sets GEMINI back")
    await expect(dialog).to_contain_text("Better merge CLAUDE first")
    # So does the dialog that lands it; of several, only those behind it are set back.
    plan = [
        {"agent": tree["agent"], "branch": tree["branch"], "merges": "clean", "collides": tree["collides"]}
        | {"files": ["src/cart.py"], "policies": ["tests"], "needs_approval": False, "why": ""}
        for tree in room.air.trees
    ]
    shown = [plan[1]]

    async def answer(route: Route) -> None:
        await route.fulfill(json={"plan": shown})

    await page.route("**/api/landing/plan*", answer)
    await dialog.get_by_test_id("merge-land").click()
    landing = page.get_by_test_id("land-dialog")
    await expect(landing).to_contain_text("What tests it: tests")
    back = landing.get_by_test_id("plan-sets-back")
    await expect(back).to_contain_text(["This sets CLAUDE back: it will conflict", "This sets GEMINI back"])
    await page.keyboard.press("Escape")
    shown[:] = plan
    await row(page, "CODEX").get_by_test_id("merge").click()
    await dialog.get_by_test_id("merge-land").click()
    await expect(back).to_contain_text(["This sets CODEX back", "This sets GEMINI back"])


async def test_the_diff_is_read_as_text(room: MockRoom, open_page: OpenPage) -> None:
    scenes.trees(room.air)
    page = await open_page()
    await open_view(page, "worktrees")
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
    await open_view(page, "worktrees")
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
    await open_view(page, "worktrees")
    await row(page, "CLAUDE").get_by_test_id("merge").click()
    dialog = page.get_by_test_id("merge-dialog")
    await expect(dialog).to_contain_text("3 commits of relay/claude come into the main branch: 4 files")
    await expect(dialog.get_by_test_id("merge-signed")).to_contain_text("Ann Lee <ann@example.com>")
    await expect(dialog).to_contain_text("not committed yet is committed onto this branch")
    await dialog.get_by_role("button", name="Not now").click()
    assert room.air.merged == []
    await row(page, "CLAUDE").get_by_test_id("merge").click()
    await dialog.get_by_test_id("merge-now").click()
    await expect(page.get_by_test_id("toast")).to_contain_text("relay/claude is merged. (9b1c2d3e4f)")
    await expect(row(page, "CLAUDE")).to_contain_text("nothing to merge: main has all of it")
    assert room.air.merged == ["CLAUDE"]


DIFF = """diff --git a/src/cart.py b/src/cart.py
index 1111111..2222222 100644
--- a/src/cart.py
+++ b/src/cart.py
@@ -1,3 +1,4 @@
 import csv
+import decimal
 import json
 
diff --git a/src/tax.py b/src/tax.py
index 1111111..2222222 100644
--- a/src/tax.py
+++ b/src/tax.py
@@ -8,0 +9,3 @@ def rate():
+
+def reduced():
+    return 7
"""


@pytest.mark.parametrize(("size", "scheme"), [((1280, 800), "light"), (PHONE, "dark")])
async def test_what_relay_joins_is_shown_before_it_lands(
    room: MockRoom, open_page: OpenPage, size: tuple[int, int], scheme: str
) -> None:
    files = [
        {"path": "src/cart.py", "by": ["imports"], "how": "imports"},
        {"path": "src/tax.py", "by": ["added"], "how": "additions"},
    ]
    room.air.trees = [
        new_worktree("CLAUDE", merges="joins", joined=files),
        new_worktree("CODEX", joins=[{"agent": "CLAUDE", "files": files[:1]}]),
    ]
    room.air.joined = {"joined": files, "diff": DIFF, "tree": "c0ffee00c0ffee00"}
    page = await open_page(size=size, scheme=scheme)
    await open_view(page, "worktrees")
    words = "merges into main; relay joins src/cart.py by imports, src/tax.py by additions"
    await expect(row(page, "CLAUDE").get_by_test_id("merges")).to_contain_text(words)
    told = row(page, "CODEX").get_by_test_id("joins")
    await expect(told).to_contain_text("joins with CLAUDE in src/cart.py")
    await row(page, "CLAUDE").get_by_test_id("merge").click()
    joined = page.get_by_test_id("merge-joined")
    await expect(joined).to_contain_text("git alone conflicts in 2 files; relay joins src/cart.py by imports")
    planned = page.get_by_test_id("merge-dialog").locator(".plan")
    await expect(planned).to_contain_text(words.replace("merges", "Merges", 1))
    await expect(planned).not_to_contain_text("git merges")
    await expect(joined.get_by_test_id("diff-file")).to_have_count(2)
    await expect(joined).to_contain_text("import decimal")
    assert await page.evaluate(PALE) == []
    assert await page.evaluate(WIDE) <= 0
    await page.get_by_test_id("merge-now").click()
    await expect(page.get_by_test_id("toast")).to_contain_text("is merged")
    assert room.air.asked[-1]["joined"] == "c0ffee00c0ffee00"


async def test_a_refused_merge_names_what_is_in_the_way(room: MockRoom, open_page: OpenPage) -> None:
    scenes.trees(room.air)
    page = await open_page()
    await open_view(page, "worktrees")
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
    # What conflicts is merged by no click; the room asks about it.
    await row(page, "CLAUDE").get_by_test_id("merge").click()
    await expect(dialog.get_by_test_id("merge-now")).to_have_count(0)
    await dialog.get_by_test_id("merge-ask").click()
    await expect(page.get_by_test_id("toast")).to_contain_text("The room is asked about c1")
    await expect(dialog).to_have_count(0)


async def test_a_merge_whose_tests_fail_takes_another_click(room: MockRoom, open_page: OpenPage) -> None:
    scenes.trees(room.air)
    page = await open_page()
    await open_view(page, "worktrees")
    await row(page, "CLAUDE").get_by_test_id("merge").click()
    reason = (
        "relay joins src/money.py, and the tests fail on the merged tree: exit code 1\nrows is broken\nno row"
    )
    refused = {"code": "tests_failed", "message": reason, "fix": "\nrelay worktrees merge CLAUDE --dry-run"}
    room.air.merge_answers["CLAUDE"] = {"error": refused}
    dialog = page.get_by_test_id("merge-dialog")
    await dialog.get_by_test_id("merge-now").click()
    told = dialog.get_by_test_id("merge-refused")
    await expect(told).to_contain_text("the tests fail on the merged tree")
    # What the tests said last stands there in its own lines.
    assert "exit code 1\nrows is broken\nno row \nrelay worktrees" in await told.inner_text()
    del room.air.merge_answers["CLAUDE"]
    await dialog.get_by_test_id("merge-untested").click()
    await expect(page.get_by_test_id("toast")).to_contain_text("is merged")
    assert room.air.asked[-1]["untested"] is True


async def test_no_worktree_says_how_to_get_one(room: MockRoom, open_page: OpenPage) -> None:
    page = await open_page()
    await open_view(page, "worktrees")
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


async def test_what_will_be_committed_is_shown_and_changed(room: MockRoom, open_page: OpenPage) -> None:
    scenes.trees(room.air)
    page = await open_page()
    await open_view(page, "worktrees")
    await row(page, "CLAUDE").get_by_test_id("merge").click()
    dialog = page.get_by_test_id("merge-dialog")
    message = dialog.get_by_label("Commit message")
    await expect(message).to_have_value(
        "Merge relay/claude: Round totals to cents\n\nAdded `total()`, which rounds half up.\n"
    )
    await expect(dialog.get_by_test_id("merge-trailers")).to_have_text(
        "Co-authored-by: Bo Berg <bo@example.net>"
    )
    await dialog.get_by_test_id("merge-as-squash").click()
    await expect(message).to_have_value("Round totals to cents\n\nAdded `total()`, which rounds half up.\n")
    await message.fill("")
    await expect(dialog.get_by_test_id("merge-now")).to_be_disabled()
    await message.fill("Round totals\n\nBanker's rounding.")
    await dialog.get_by_test_id("merge-now").click()
    await expect(page.get_by_test_id("toast")).to_contain_text("is merged")
    [sent] = room.air.asked
    assert (sent["method"], sent["head"]) == ("squash", "4f2a9c1d")
    assert sent["message"] == "Round totals\n\nBanker's rounding."
    # The kind of merge is remembered, the words are not.
    await row(page, "ann").get_by_test_id("merge").click()
    await expect(dialog.get_by_test_id("merge-as-squash")).to_have_attribute("aria-pressed", "true")
    await expect(message).to_have_value("Round totals to cents\n\nAdded `total()`, which rounds half up.\n")


async def test_a_merge_that_is_not_possible_says_so_before_the_click(
    room: MockRoom, open_page: OpenPage
) -> None:
    scenes.trees(room.air)
    room.air.note = "git knows no name and e-mail address here. `git config --global user.name` sets it."
    room.air.first = "Ursula decided that BEN goes first"
    refused = {"success": False, "reason": "`src/money.py` is locked by BEN.", "fix": "Wait.", "commit": None}
    room.air.proposals["CLAUDE"] = refused
    page = await open_page()
    await open_view(page, "worktrees")
    await row(page, "CLAUDE").get_by_test_id("merge").click()
    dialog = page.get_by_test_id("merge-dialog")
    await expect(dialog.get_by_test_id("merge-problem")).to_have_text("src/money.py is locked by BEN. Wait.")
    await expect(dialog.get_by_test_id("merge-now")).to_be_disabled()
    del room.air.proposals["CLAUDE"]
    await dialog.get_by_test_id("merge-as-squash").click()
    await expect(dialog.get_by_test_id("merge-note")).to_contain_text("git knows no name")
    await expect(dialog.get_by_test_id("merge-decided")).to_have_text("Ursula decided that BEN goes first.")
    await expect(dialog.get_by_test_id("merge-now")).to_be_enabled()


async def test_discarded_work_comes_back(room: MockRoom, open_page: OpenPage) -> None:
    scenes.trees(room.air)
    page = await open_page()
    await open_view(page, "worktrees")
    await expect(row(page, "ann").get_by_test_id("discard")).to_have_count(0)
    await expect(row(page, "GEMINI").get_by_test_id("discard")).to_be_disabled()
    await row(page, "CLAUDE").get_by_test_id("discard").click()
    dialog = page.get_by_test_id("discard-dialog")
    await expect(dialog).to_contain_text("3 commits, 4 changed files, with what is not committed")
    await dialog.get_by_role("button", name="Keep it").click()
    await expect(row(page, "CLAUDE")).to_contain_text("merges clean")
    await row(page, "CLAUDE").get_by_test_id("discard").click()
    await dialog.get_by_test_id("discard-now").click()
    await expect(page.get_by_test_id("toast")).to_contain_text("kept in refs/relay/kept/claude/1")
    # What was discarded did not land.
    await expect(row(page, "CLAUDE")).to_contain_text("nothing to merge")
    await expect(row(page, "CLAUDE")).not_to_contain_text("has all of it")
    await page.get_by_role("button", name="Bring it back").click()
    await expect(row(page, "CLAUDE")).to_contain_text("merges clean")
    assert room.air.restored == ["refs/relay/kept/claude/1"]


async def test_a_merge_that_is_under_way_is_shown_and_given_up(room: MockRoom, open_page: OpenPage) -> None:
    torn = {"merges": "conflicts", "conflicts": ["src/cart.py"], "lines": {"src/cart.py": [[2, 8]]}}
    room.air.trees = [new_worktree("BEN", merging=True, unsettled=True, **torn), new_worktree("AVA")]
    page = await open_page()
    await open_view(page, "worktrees")
    told = row(page, "BEN").get_by_test_id("merges")
    await expect(told).to_contain_text("conflicts not settled in src/cart.py (lines 2-8)")
    await expect(told).to_contain_text("a merge into it is under way")
    await expect(row(page, "AVA").get_by_test_id("abort")).to_have_count(0)
    await row(page, "BEN").get_by_test_id("abort").click()
    await expect(page.get_by_test_id("toast")).to_contain_text("kept in refs/relay/kept/ben/1")
    await expect(told).to_contain_text("conflicts with main in src/cart.py (lines 2-8)")
    await expect(row(page, "BEN").get_by_test_id("abort")).to_have_count(0)


async def test_a_turn_that_changed_nothing_leaves_its_branch_ready(
    room: MockRoom, open_page: OpenPage
) -> None:
    turn = {"job": 1, "message_id": "m", "since": None, "asked": {"by": "ann", "text": "@CLAUDE why?"}}
    room.air.trees = [new_worktree("CLAUDE", working=True)]
    room.agent("CLAUDE", running=turn)
    page = await open_page()
    await expect(page.get_by_test_id("doing-CLAUDE")).to_have_text("why?")
    await expect(page.get_by_test_id("glance-ready")).to_have_count(0)
    room.air.trees = [new_worktree("CLAUDE")]
    room.agent("CLAUDE", running=None)
    await expect(page.get_by_test_id("stands-CLAUDE")).to_contain_text("ready to land")
    await expect(page.get_by_test_id("glance-ready")).to_have_text("ready to land: CLAUDE")


def verdict(state: str, said: str, *, present: bool = True) -> dict[str, object]:
    told = {"number": 7, "reference": "v7", "reason": "", "agent": "CLAUDE", "summary": "a discount"}
    return {**told, "state": state, "present": present, "said": said}


async def test_a_verdict_is_shown_as_one_of_the_files_that_were_tested(
    room: MockRoom, open_page: OpenPage
) -> None:
    room.air.trees = [new_worktree("CLAUDE", verified=verdict("passed", "")), new_worktree("CODEX")]
    page = await open_page()
    await expect(page.get_by_test_id("glance-ready")).to_have_text("ready to land: CLAUDE, CODEX")
    said = "It was changed since its tests passed (v7)."
    room.air.trees[0]["verified"] = verdict("passed", said, present=False)
    await open_view(page, "worktrees")
    mark = row(page, "CLAUDE").get_by_test_id("vmark")
    await expect(mark).to_contain_text("passed, changed since")
    await expect(mark).to_have_class(re.compile(r"\bvmark-warn\b"))
    await expect(page.get_by_test_id("stands-CLAUDE")).to_contain_text("changed since its tests passed")
    await expect(page.get_by_test_id("stands-CODEX")).to_contain_text("ready to land")
    await expect(page.get_by_test_id("ways-land-CLAUDE")).to_have_count(0)
    room.air.trees[0]["verified"] = verdict("failed", "Its tests failed (v7).")
    room.air.order = [
        {"agent": "CODEX", "first": "", "failed": "", "sets_back": []},
        {"agent": "CLAUDE", "first": "", "failed": "v7", "sets_back": []},
        {"agent": "GEMINI", "first": "", "failed": "v8", "sets_back": []},
    ]
    await page.get_by_test_id("worktrees-again").click()
    await expect(page.get_by_test_id("merge-order")).to_contain_text(
        "CODEX, last CLAUDE (its tests failed, v7), GEMINI (its tests failed, v8)."
    )
    undone = {"agent": "GEMINI", "path": "src/cart.py", "commit": "1" * 40}
    room.air.order[1] |= {"failed": "", "undoes": [undone]}
    await page.get_by_test_id("worktrees-again").click()
    await expect(page.get_by_test_id("merge-order")).to_contain_text(
        "CODEX, last CLAUDE (it would undo what GEMINI landed in src/cart.py), GEMINI (its"
    )
    room.air.order[1]["undoes"][0]["did"] = "took back"
    await page.get_by_test_id("worktrees-again").click()
    await expect(page.get_by_test_id("merge-order")).to_contain_text(
        "last CLAUDE (it would bring back what GEMINI took back in src/cart.py), GEMINI"
    )
    await row(page, "CLAUDE").get_by_test_id("merge").click()
    dialog = page.get_by_test_id("merge-dialog")
    await expect(dialog.get_by_test_id("merge-tests")).to_contain_text("Its tests failed (v7).")
    await expect(dialog.get_by_test_id("merge-land")).to_have_class(re.compile(r"\bprimary\b"))
    await expect(dialog.get_by_test_id("merge-now")).to_have_text("Merge anyway")
    await expect(dialog.get_by_test_id("merge-now")).not_to_have_class(re.compile(r"\bprimary\b"))
    planned = {"agent": "CLAUDE", "branch": "tw/ann/claude", "merges": "clean", "collides": []}
    planned |= {"files": ["a.py"], "policies": ["tests"], "needs_approval": False, "why": ""}

    async def answer(route: Route) -> None:
        await route.fulfill(json={"plan": [planned]})

    await page.route("**/api/landing/plan*", answer)
    await dialog.get_by_test_id("merge-land").click()
    await expect(page.get_by_test_id("plan-tests")).to_have_text("Its tests failed (v7).")
    await page.keyboard.press("Escape")
    await row(page, "CLAUDE").get_by_test_id("merge").click()
    await dialog.get_by_test_id("merge-now").click()
    await expect(dialog).to_have_count(0)
    assert room.air.asked[-1]["anyway"] is True
