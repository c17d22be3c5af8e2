"""Worktrees in the page: one click runs the app of an agent's branch and links its port (docs/worktrees.md)."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from playwright.async_api import Browser, Locator, expect

from tests.browser.person import Person
from tests.e2e.test_worktree_apps import SERVER, SETUP
from tests.e2e.test_worktrees import in_git
from tests.git.repository import git
from tests.outside import agent, room, settings

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]
IDLE = '- say: "hm"\n'


#: Is the last line of what the setup printed in sight, and nothing over it?
END_IN_SIGHT = """() => {
  const pre = [...document.querySelectorAll('[data-testid="app-printed"] pre')].at(-1);
  const [range, text] = [document.createRange(), pre.firstChild];
  range.setStart(text, text.data.trimEnd().length - 2);
  range.setEnd(text, text.data.trimEnd().length);
  const { left, top, height } = range.getBoundingClientRect();
  return document.elementFromPoint(left, top + height / 2) === pre;
}"""


def row(person: Person, name: str) -> Locator:
    return person.page.locator(f'[data-testid="worktree"][data-agent="{name}"]')


async def test_a_person_runs_the_app_of_a_branch_and_mends_a_setup(
    chromium: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "room"
    folder.mkdir()
    (folder / "server.py").write_text(SERVER)
    (folder / "idle.yaml").write_text(IDLE)
    in_git(folder)
    with (folder / ".gitignore").open("a") as ignored:
        ignored.write(".env\ntools/\n")
    git(folder, "commit", "-qam", "ignore")
    configured = settings(agent("AVA", "idle.yaml"), agent("BEN", "idle.yaml"))
    configured["worktrees"] = {
        "setup": f"seq 60; {SETUP.replace('mkdir', 'mkdir -p')}",
        "run": ["python3", str(folder / "server.py")],
        "copy": [".env"],
        "ports": {"first": 32000 + os.getpid() % 50 * 10, "per_worktree": 2},
    }
    async with room(folder, configured) as house:
        await house.start()
        ann = await Person.arrive(chromium, house, "ann")
        await ann.go("worktrees")
        ava = row(ann, "AVA")
        await expect(ava.get_by_test_id("setup-state")).to_have_text(
            "setup failed: it ended with exit code 1"
        )
        (folder / ".env").write_text("SECRET=1\n")
        await ava.get_by_test_id("setup-again").click()
        await expect(ava.get_by_test_id("setup-state")).to_have_count(0)

        run = ava.get_by_test_id("app-run")
        await run.focus()
        await ann.page.keyboard.press("Enter")
        link = ava.get_by_test_id("app-link")
        port = json.loads((folder / "config.json").read_text())["worktrees"]["ports"]["first"]
        told = await house.get("/api/worktrees/AVA/app")
        assert told["ports"][0] in (port, port + 2)
        await expect(link).to_contain_text(f":{told['ports'][0]}")
        async with ann.page.context.expect_page() as opened:
            await link.click()
        app = await opened.value
        await expect(app.locator("body")).to_contain_text("AVA: made for AVA")
        # A browser sends the cookies of a host to each of its ports.
        assert await ann.page.evaluate("location.hostname") == "127.0.0.1"
        assert not await app.context.cookies(app.url)
        await app.close()

        await ava.get_by_test_id("app-output").click()
        printed = ann.page.get_by_test_id("app-printed")
        await expect(printed).to_contain_text("serving on")
        await expect(printed).to_contain_text("made for AVA")
        await ann.page.wait_for_function(END_IN_SIGHT)
        assert await ann.page.evaluate("document.scrollingElement.scrollWidth - innerWidth") <= 0
        await ann.page.set_viewport_size({"width": 390, "height": 844})
        await expect(printed).to_be_visible()
        await ann.page.wait_for_function(END_IN_SIGHT)
        assert await ann.page.evaluate("document.scrollingElement.scrollWidth - innerWidth") <= 0
        await ava.get_by_test_id("app-stop").click()
        await expect(run).to_be_visible()
        await expect(link).to_have_count(0)
        await expect(printed).to_contain_text("stopped")
        # Nor does the answer that comes below it take the end away.
        await expect(ann.page.get_by_text("ann stopped the app of AVA.", exact=True)).to_be_visible()
        await ann.page.wait_for_function(END_IN_SIGHT)
        await house.until_said("ann stopped the app of AVA", speaker="RELAY")

        # Who had it open when the room went finds why its link is dead.
        await run.click()
        await expect(link).to_be_visible()
        house.kill()
        await house.start()
        ann = await Person.arrive(chromium, house, "ann")
        await ann.go("worktrees")
        state = row(ann, "AVA").get_by_test_id("app-state")
        await expect(state).to_have_text("was running when the room stopped; Run starts it again")
        await row(ann, "AVA").get_by_test_id("app-run").click()
        await expect(row(ann, "AVA").get_by_test_id("app-link")).to_be_visible()
        await expect(state).to_have_count(0)
