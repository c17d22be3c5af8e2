"""The timeline of a real room: of two agents in one file one is taken back, and undo brings it back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Page, expect

from tests.browser.conftest import Come
from tests.browser.person import Person
from tests.e2e.test_handoffs import DEVELOPER, RECEIVER, handoffs
from tests.e2e.test_worktrees import in_git
from tests.outside import Outside, agent, eventually, program, room, settings

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

WRITES = """
- match: begin
  write: {{notes.md: "one\\ntwo\\n{name}\\n", "{name}.md": "of {name}\\n"}}
  say: "Done."
- match: more
  write: {{notes.md: "{name} first\\none\\ntwo\\n{name}\\n"}}
  say: "Done."
- say: "heard"
"""


@pytest_asyncio.fixture(loop_scope="session")
async def worked(tmp_path: Path) -> AsyncIterator[Outside]:
    """WRITER has written twice and OTHER once, each in a worktree of its own."""
    # Nobody gets a turn that no test asked for.
    quiet = {"enabled": False}
    config = settings(agent("WRITER", "w.yaml"), agent("OTHER", "o.yaml"), airspace=quiet)
    async with room(tmp_path / "timeline", config) as one:
        for file, name in (("w.yaml", "writer"), ("o.yaml", "other")):
            (one.folder / file).write_text(WRITES.format(name=name))
        in_git(one.folder)
        await one.start()
        for text in ("@WRITER begin", "@OTHER begin", "@WRITER more"):
            posted = await one.post(text)
            await one.reply_to(posted["id"], text[1:].split()[0])

        async def recorded() -> bool:
            found = (await one.get("/api/timeline/heads"))["number"]
            return len(found) >= 9

        await eventually(recorded, "what the agents wrote is recorded")
        yield one


async def written(one: Outside, who: str) -> list[int]:
    """The numbers of what it changed."""
    events = (await one.get(f"/api/timeline?lane={who}&type=files.changed"))["events"]
    return [event["number"] for event in events]


async def open_event(page: Page, number: int) -> None:
    await page.goto(f"{page.url.partition('#')[0]}#/timeline?event={number}")
    await expect(page.get_by_test_id("tl-event-panel")).to_have_attribute("data-number", str(number))


async def take_back(person: Person, number: int) -> None:
    page = person.page
    await open_event(page, number)
    await page.get_by_test_id("tl-take-back").click()
    await expect(page.get_by_test_id("tl-preview")).to_contain_text("notes.md")


async def test_work_is_taken_back_and_undone(come: Come, worked: Outside) -> None:
    ann = await come("ann", worked)
    page = ann.page
    tree = worked.folder / ".relay" / "worktrees" / "writer"
    before = (tree / "notes.md").read_text()
    first, second = await written(worked, "WRITER")
    await ann.go("timeline")
    await expect(page.get_by_test_id("tl-row-WRITER")).to_be_visible()
    await expect(page.get_by_test_id("tl-row-OTHER")).to_be_visible()
    await take_back(ann, second)
    await expect(page.get_by_test_id("tl-plan")).to_contain_text("as it was before")
    assert (tree / "notes.md").read_text() == before, "a preview writes nothing"
    await page.get_by_test_id("tl-go").click()
    await expect(page.get_by_test_id("toast")).to_contain_text("Taken back what WRITER did, in 1 file.")
    assert (tree / "notes.md").read_text() == "one\ntwo\nwriter\n"
    assert (tree / "writer.md").exists(), "only what was done from there"
    panel = page.get_by_test_id("tl-event-panel")
    # The page opens what was done, once it is there.
    await expect(panel).not_to_have_attribute("data-number", str(second))
    await expect(panel).to_contain_text("ann took back what WRITER did")
    await take_back(ann, first)
    await page.get_by_test_id("tl-go").click()
    await expect(page.get_by_test_id("tl-dialog")).to_have_count(0)
    assert not (tree / "writer.md").exists()
    # Undo goes one further back each time.
    for left in ("one\ntwo\nwriter\n", before):
        await page.get_by_test_id("tl-undo").click()
        await expect(page.get_by_test_id("tl-preview")).to_contain_text("notes.md")
        await page.get_by_test_id("tl-go").click()
        await expect(page.get_by_test_id("tl-dialog")).to_have_count(0)
        assert (tree / "notes.md").read_text() == left
    await page.get_by_test_id("tl-undo").click()
    await expect(page.get_by_test_id("tl-refused")).to_be_visible()
    assert (worked.folder / ".relay" / "worktrees" / "other" / "other.md").read_text() == "of other\n"


async def test_the_files_of_a_moment_and_what_differs(come: Come, worked: Outside) -> None:
    ann = await come("ann", worked)
    page = ann.page
    first, second = await written(worked, "WRITER")
    await open_event(page, second)
    await page.get_by_test_id("tl-lines").click()
    await expect(page.get_by_test_id("diff-file")).to_contain_text("writer first")
    await page.get_by_test_id("tl-files-here").click()
    moment = page.get_by_test_id("tl-moment")
    entry = moment.locator('[data-path="notes.md"]')
    await expect(entry).to_contain_text("WRITER")
    await entry.get_by_role("button", name="notes.md").click()
    await expect(moment.get_by_test_id("tl-file")).to_contain_text("writer first")
    await page.get_by_test_id("tl-compare").click()
    await open_event(page, first)
    await page.goto(f"{page.url.partition('#')[0]}#/timeline?at={first}&with={second}")
    await expect(moment.get_by_test_id("diff-file")).to_contain_text("writer first")


async def test_a_day_of_rewinds_and_a_handoff(come: Come, tmp_path: Path) -> None:
    """An offer to undo ends when it is stale, what is taken back says so until it is undone, and people answer a
    handoff by buttons."""
    agents = (
        program("AVA", "-c", DEVELOPER, role="developer"),
        program("BEN", "-c", RECEIVER, role="qa"),
    )
    config = settings(*agents, airspace={"enabled": False}, handoffs=handoffs(max_retries=0))
    async with room(tmp_path / "day", config) as one:
        in_git(one.folder)
        await one.start()
        for at in (1, 2):
            posted = await one.post("@AVA begin")
            await one.reply_to(posted["id"], "AVA")

            async def recorded(at: int = at) -> bool:
                return len(await written(one, "AVA")) == at

            await eventually(recorded, "what AVA wrote is recorded")
        ann = await come("ann", one)
        page = ann.page
        _, second = await written(one, "AVA")
        toast, gone = page.get_by_test_id("toast"), page.get_by_test_id("tl-gone")
        row = page.locator(f'[data-testid="tl-event"][data-number="{second}"]')

        async def take_it_back() -> None:
            await open_event(page, second)
            await page.get_by_test_id("tl-as-list").click()
            await page.get_by_test_id("tl-take-back").click()
            await page.get_by_test_id("tl-go").click()
            await expect(toast).to_contain_text("Taken back what AVA did")
            await expect(row).to_contain_text("taken back by ann in the worktree of AVA, #")

        await take_it_back()
        await row.click()
        await expect(gone).to_contain_text("Taken back by ann")
        await one.post("/rewind undo", "zoe")
        await expect(toast).to_have_count(0)
        await expect(row).not_to_contain_text("taken back")
        await expect(gone).to_have_count(0)
        await page.goto(f"{page.url.partition('#')[0]}#/timeline")
        await take_it_back()
        await toast.get_by_role("button", name="Undo").click()
        await expect(toast).to_have_count(0)
        await page.get_by_test_id("tl-go").click()
        await expect(toast).to_contain_text("What AVA did is back")
        await expect(row).not_to_contain_text("taken back")

        order = {"name": "zoe", "from": "developer", "to": "qa", "text": "look at it"}
        assert (await one.ask("POST", "/api/handoffs", json=order))[0] == 200
        await one.until_said("What now", speaker="RELAY")
        await ann.go("room")
        asked = await ann.sees("What now?")
        await expect(asked.get_by_test_id("handoff-answers").get_by_role("button")).to_have_text(
            ["Try again", "Hand on anyway…", "On a branch…", "End it here"]
        )
        (event,) = (await one.get("/api/timeline?type=handoff"))["events"]
        await open_event(page, event["number"])
        answers = page.get_by_test_id("tl-handoff")
        await answers.get_by_test_id("handoff-skip").click()
        await answers.get_by_test_id("handoff-value").fill("ann looked at it")
        await answers.get_by_test_id("handoff-send").click()
        await expect(answers).to_have_count(0)
        told = await one.until_said("WAS TOLD", speaker="BEN")
        assert "Skipped by ann: ann looked at it." in told["body"]
        await ann.go("room")
        await expect(page.get_by_test_id("handoff-answers")).to_have_count(0)


async def test_the_heads_want_a_key(worked: Outside) -> None:
    for path in ("/api/timeline/heads", "/api/timeline"):
        async with worked.session.get(f"{worked.url}{path}", headers={"X-API-Key": "none"}) as refused:
            assert refused.status == 401
    status, told = await worked.ask("GET", "/api/timeline/heads?limit=5000")
    assert (status, told["error"]["code"]) == (400, "bad_request")
