"""What agents do from other processes shows in the page at once, and a person takes a lock from one of them.

The daemon runs as a process of its own; the agents' work is done here, in the test's process, straight in the room's
database, as `relay mcp` does it.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Locator, expect

from relay.app.wiring.schema import SCHEMAS
from relay.config.loading import load
from relay.config.settings import LiveSettings
from relay.faces.services import Services, services_of
from relay.model import Caller, Refusal
from relay.store.open import open_store
from tests.browser.person import Person
from tests.outside import Outside

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]
CLAUDE, CODEX = Caller("CLAUDE", "elsewhere-1", process=True), Caller("CODEX", "elsewhere-2")
DEV = Caller("dev-codex", "elsewhere-3", "codex", process=True)


@pytest_asyncio.fixture(loop_scope="session")
async def elsewhere(house: Outside) -> AsyncIterator[Services]:
    """Another process at the room's database."""
    settings = load(house.folder / "config.json")
    store = await open_store(settings, SCHEMAS)
    services = services_of(store, LiveSettings(settings))
    yield services
    for one in (CLAUDE, CODEX, DEV):
        await services.sessions.end(one)
    await store.close()


def row(ann: Person, path: str) -> Locator:
    return ann.page.locator(f'[data-testid="lock"][data-path="{path}"]')


async def test_locks_of_another_process_show_and_are_taken(
    ann: Person, elsewhere: Services, house: Outside
) -> None:
    await ann.go("locks")
    await elsewhere.locks.acquire(CLAUDE, ["src/app.py"], reason="a new door")
    await expect(row(ann, "src/app.py")).to_contain_text("CLAUDE")
    await expect(row(ann, "src/app.py")).to_contain_text("a new door")
    await expect(row(ann, "src/app.py").get_by_test_id("left")).to_contain_text(re.compile(r"29:|30:"))
    # One that a person runs, of no name that the room knows: it is here with what it does, and asked by nobody.
    await elsewhere.locks.acquire(DEV, ["lib/**"])
    listed = ann.page.get_by_test_id("visitor-dev-codex")
    await expect(listed).to_contain_text("1 lock")
    await listed.click()
    panel = ann.page.get_by_test_id("agent-panel")
    for words in ("codex, connected over MCP", "heard", "lib/**", "cannot start"):
        await expect(panel).to_contain_text(words)
    await expect(panel.get_by_role("button", name=re.compile("Pause|Cancel|Switch"))).to_have_count(0)
    await ann.go("room")
    await ann.composer.fill("@dev-codex are you there?")
    await expect(ann.page.get_by_test_id("composer-note")).to_contain_text("dev-codex works on its own")
    asked = await ann.say("@dev-codex are you there?")
    await ann.sees("@dev-codex works on its own: the room does not start it", "RELAY")
    await expect(asked.get_by_test_id("receipt")).to_have_count(0)
    await ann.say("/who")
    await ann.sees("dev-codex (codex) heard", "RELAY")
    await elsewhere.sessions.end(DEV)
    await expect(listed).to_contain_text("left just now")
    await expect(panel).to_contain_text("was connected")
    await ann.page.get_by_role("button", name="Close").click()
    await ann.go("locks")
    session = ann.page.locator('[data-session="elsewhere-1"]')
    await expect(session).to_contain_text("1 lock")
    await elsewhere.locks.acquire(CODEX, ["docs/**"], mode="shared")
    await expect(row(ann, "docs/**")).to_contain_text("pattern")
    await elsewhere.locks.release(CODEX, "docs/**")
    await expect(row(ann, "docs/**")).to_have_count(0)
    # By force: the room says so, and the holder is told at its next call.
    await row(ann, "src/app.py").get_by_test_id("release").click()
    await ann.page.get_by_test_id("release-reason").fill("it's mine now")
    await ann.page.get_by_test_id("release-now").click()
    await expect(row(ann, "src/app.py")).to_have_count(0)
    with pytest.raises(Refusal) as refused:
        await elsewhere.locks.release(CLAUDE, "src/app.py")
    assert (refused.value.code, refused.value.details["forced_by"]) == ("stale_token", "ann")
    await ann.go("room")
    await ann.sees("/unlock src/app.py it's mine now", "ann")
    await ann.sees("src/app.py is free: CLAUDE no longer holds it", "RELAY")
    await ann.sees("ann took the lock on src/app.py from @CLAUDE", "RELAY")
    await ann.say("/unlock src/app.py again")
    await ann.sees("Nobody holds a lock on exactly src/app.py", "RELAY")
    await elsewhere.locks.acquire(CODEX, ["src/other.py"])
    await ann.say("/locks src")
    await ann.sees("src/other.py CODEX for", "RELAY")
    assert await ann.entries(re.compile("src/other.py"), "CODEX").count() == 0
    # From a shell, which is one more process; and a session that ends leaves nothing behind.
    await elsewhere.locks.acquire(CODEX, ["src/third.py"])
    ran = await house.relay("locks", "release", "src/other.py", "--reason", "tidying", "--name", "ben")
    assert (ran.code, ran.out) == (0, "src/other.py is free: CODEX held it, and has been told.\n")
    await ann.sees("ben took the lock on src/other.py from @CODEX. tidying", "RELAY")
    await ann.go("locks")
    await expect(row(ann, "src/third.py")).to_be_visible()
    await expect(row(ann, "src/other.py")).to_have_count(0)
    await elsewhere.sessions.end(CODEX)
    await expect(row(ann, "src/third.py")).to_have_count(0)
    await expect(ann.page.locator('[data-session="elsewhere-2"]')).to_contain_text("ended")


async def test_work_of_another_process_shows_on_the_board(ann: Person, elsewhere: Services) -> None:
    await ann.go("board")
    build = await elsewhere.work.submit(
        CODEX, "build", "Build the shed", files=["shed/**"], input_data={"size": 3}
    )
    ship = await elsewhere.work.submit(CODEX, "ship", "Ship the shed", depends_on=[build["task_id"]])

    def card(title: str, status: str) -> Locator:
        column = ann.page.get_by_test_id(f"column-{status}")
        return column.get_by_test_id("task").filter(has_text=title)

    await expect(card("Ship the shed", "pending")).to_contain_text(f"waits for t{build['number']}")
    await elsewhere.work.get(CLAUDE, ["build"])
    await expect(card("Build the shed", "in_progress")).to_contain_text("CLAUDE")
    await expect(card("Build the shed", "in_progress")).to_contain_text("lease ")
    await ann.go("locks")
    await expect(row(ann, "shed/**")).to_contain_text("CLAUDE")
    await ann.go("board")
    await elsewhere.work.complete(CLAUDE, build["task_id"], True, result={"boards": 12})
    await expect(card("Build the shed", "done")).to_be_visible()
    await expect(card("Ship the shed", "pending")).not_to_contain_text("blocked")
    await card("Build the shed", "done").get_by_test_id("task-open").click()
    dialog = ann.page.get_by_test_id("task-dialog")
    await expect(dialog.get_by_test_id("task-input")).to_contain_text("size: 3")
    await expect(dialog.get_by_test_id("task-result")).to_contain_text("boards: 12")
    for words in ("CODEX made it", "CLAUDE took it", "CLAUDE completed it"):
        await expect(dialog.get_by_test_id("task-history")).to_contain_text(words)
    await ann.page.keyboard.press("Escape")
    await elsewhere.work.get(CLAUDE, ["ship"])
    await elsewhere.work.complete(CLAUDE, ship["task_id"], False, error_message="the road is closed")
    await expect(card("Ship the shed", "done")).to_contain_text("failed")
    await expect(card("Ship the shed", "done")).to_contain_text("the road is closed")
    await card("Ship the shed", "done").get_by_test_id("task-open").click()
    await dialog.get_by_test_id("reopen").click()
    await expect(card("Ship the shed", "pending")).to_be_visible()
    await ann.page.keyboard.press("Escape")
    await ann.go("room")
    assert (
        await ann.entries(re.compile("shed"), "RELAY").count() == 1
    )  # the move, and nothing of what agents did
