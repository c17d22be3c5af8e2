"""What is verified and what lands, in the page: the queue, approvals, results, and landing by the queue only."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Locator, Page, Route, expect

from relay.app.wiring.schema import SCHEMAS
from relay.config.loading import load
from relay.config.settings import LiveSettings
from relay.faces.services import services_of
from relay.model import Caller
from relay.store.open import open_store
from tests.browser.axe import OF_COLOUR, violations
from tests.browser.conftest import Come
from tests.browser.person import Person
from tests.browser.test_look import PALE, UNNAMED
from tests.e2e.test_worktrees import in_git
from tests.git.repository import commit, git
from tests.outside import Outside, agent, eventually, room, settings

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

#: A suite that goes on while its `hold` file is there. Two branches fail only together, and `flaky` once.
SUITE = r"""
import pathlib, sys, time
hold, flaky = map(pathlib.Path, sys.argv[1:])
ava, ben = pathlib.Path("src/ava.py"), pathlib.Path("src/ben.py")
print("collected 214 items", flush=True)
print("\x1b[32mtests/test_cart.py\x1b[0m ....... [  3%]", flush=True)
while hold.exists():
    time.sleep(0.05)
if flaky.exists():
    flaky.unlink()
    sys.exit("tests/test_clock.py::test_midnight FAILED: it is one second late")
if ava.exists() and ben.exists() and "CLASH" in ben.read_text():
    print("tests/test_cart.py::test_total FAILED")
    print("E   assert total([{'price': 2}]) == 2")
    print("E   ben.py:1: CLASH with ava.py")
    sys.exit(1)
print("214 passed")
"""
WORK = """
- match: "did not land|mend"
  write: {src/%(low)s.py: "fine = 1\\n"}
  say: Mended.
- match: login
  write: {src/auth/login.py: "def login(name):\\n    return name == 'ann'\\n", notes.txt: "login\\n"}
  say: The login asks for a name.
- match: please
  write: {src/%(low)s.py: "%(text)s = 1\\n"}
  say: Done.
- say: heard
"""
AGENTS = ("AVA", "BEN", "CLEO")
SCHEMES = ("light", "dark")
SIZES = ((1400, 900), (390, 844))
#: What stands out of a part that scrolls down alone.
CUT = """[...document.querySelectorAll('.land-body, .task-body, .land-dialog .layer-body')]
  .filter((e) => e.scrollWidth > e.clientWidth + 1).map((e) => e.className)"""
WIDE = "document.scrollingElement.scrollWidth - innerWidth"


class Place:
    """A room with policies, agents at work, and the files that steer the suite."""

    def __init__(self, one: Outside) -> None:
        self.room = one
        self.hold, self.flaky = one.folder / "hold", one.folder / "flaky"

    def policies(self, *more: dict[str, Any]) -> list[dict[str, Any]]:
        suite = [sys.executable, str(self.room.folder / "suite.py"), str(self.hold), str(self.flaky)]
        runs: dict[str, Any] = {"executor": "inline", "sandbox": "off"}
        return [
            {"name": "unit tests", "tier": 1, "patterns": ["src/"], "run": suite, **runs},
            {"name": "style", "tier": 0, "patterns": ["*.py"], "run": [sys.executable, "-c", "0"], **runs},
            {
                "name": "security review",
                "tier": 4,
                "executor": "manual",
                "patterns": ["**/auth/**"],
                "requires_approval": True,
            },
            *more,
        ]

    def have(self, policies: list[dict[str, Any]] | str) -> None:
        """The policies of the folder from now on; JSON is YAML."""
        folder = self.room.folder / "policies"
        folder.mkdir(exist_ok=True)
        text = policies if isinstance(policies, str) else json.dumps(policies, indent=1)
        (folder / "all.yaml").write_text(text)

    async def work(self, *names: str, words: str = "please change it") -> None:
        for name in names:
            posted = await self.room.post(f"@{name} {words}")
            await self.room.reply_to(posted["id"], name)

    async def verified(self, number: int, *states: str) -> Any:
        async def look() -> Any:
            found = await self.room.get(f"/api/verifications?numbers=v{number}")
            return [one for one in found["verifications"] if one["state"] in states]

        [one] = await eventually(look, f"v{number} {' or '.join(states)}")
        return one


@pytest_asyncio.fixture(loop_scope="session")
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    config = settings(*(agent(name, f"{name}.yaml") for name in AGENTS), airspace={"enabled": False})
    async with room(tmp_path / "shop", config) as one:
        made = Place(one)
        for name in AGENTS:
            text = "CLASH" if name == "BEN" else "fine"
            (one.folder / f"{name}.yaml").write_text(WORK % {"low": name.lower(), "text": text})
        (one.folder / "suite.py").write_text(SUITE)
        in_git(one.folder)
        ignored = (one.folder / ".gitignore").read_text().replace("*.py", "/*.py\n/hold\n/flaky")
        commit(one.folder, {".gitignore": ignored, "src/app.py": "def total(cart):\n    return 0\n"})
        made.have(made.policies())
        await one.start()
        yield made


async def look(page: Page, name: str, *, whole: str = "") -> None:
    """It can be read in both themes, and nothing stands out of it at either width. RELAY_SHOTS names a folder for
    pictures; `whole`: what scrolls, of which a second picture has the end."""
    before = page.viewport_size
    for width, height in SIZES:
        await page.set_viewport_size({"width": width, "height": height})
        for scheme in SCHEMES:
            await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # type: ignore[arg-type]
            assert await page.evaluate(PALE) == [], (name, scheme)
            found = await violations(page, None if scheme == "light" else OF_COLOUR)
            assert not found, (name, width, scheme, *found)
            if folder := os.environ.get("RELAY_SHOTS"):
                await page.wait_for_timeout(250)
                await page.screenshot(path=Path(folder) / f"{name}-{width}-{scheme}.png")
                if whole and await page.locator(whole).count():
                    await page.locator(whole).first.evaluate("(e) => e.scrollTo(0, e.scrollHeight)")
                    await page.screenshot(path=Path(folder) / f"{name}-{width}-{scheme}-below.png")
                    await page.locator(whole).first.evaluate("(e) => e.scrollTo(0, 0)")
        assert await page.evaluate(WIDE) <= 0, (name, width)
        assert await page.evaluate(CUT) == [], (name, width)
        assert await page.evaluate(UNNAMED) == [], (name, width)
    await page.emulate_media(color_scheme="light")
    await page.set_viewport_size(before or {"width": 1280, "height": 800})


def card(page: Page, kind: str, name: str) -> Locator:
    return page.locator(f'[data-testid="{kind}"][data-agent="{name}"]')


BODY = ".land-body"


async def test_the_queue_shows_what_is_tested_and_why_one_is_put_out(place: Place, come: Come) -> None:
    await place.work("AVA", "BEN")
    for number in (1, 2):
        await place.verified(number, "passed")
    ann = await come("ann", place.room)
    page = ann.page
    # Whoever reads the branch sees how its tests ended, beside what lands it.
    await page.evaluate("location.hash = '#/review?of=AVA'")
    line = page.get_by_test_id("review-line")
    await expect(line.get_by_test_id("vmark")).to_have_text(re.compile(r"v\d.*passed"))
    await expect(line.get_by_test_id("review-task")).to_have_text("m1 Change it")
    await expect(line.get_by_test_id("review-standing")).to_have_text("ready to land")
    await expect(line.get_by_test_id("review-cost")).to_have_text("no price told today")
    await look(page, "review-line")
    await ann.go("landing")
    await expect(page.get_by_test_id("no-landing")).to_be_visible()
    await expect(page.get_by_test_id("landing-summary")).to_have_text("nothing in the queue, 3 policies")
    await look(page, "landing-empty")

    place.hold.touch()
    await page.get_by_test_id("land-all").click()
    dialog = page.get_by_test_id("land-dialog")
    await expect(dialog.get_by_test_id("planned")).to_have_count(2)
    await expect(dialog).to_contain_text("What tests it: unit tests, style.")
    # Those that are ready to land are chosen, and one can be left out.
    box, now = card(page, "planned", "BEN").get_by_test_id("plan-choose"), dialog.get_by_test_id("land-now")
    await expect(now).to_have_text("Land 2 branches")
    await box.focus()
    await page.keyboard.press("Space")
    await expect(now).to_have_text("Land 1 branch")
    await box.check()
    await expect(now).to_have_text("Land 2 branches")
    await look(page, "land-dialog")
    await dialog.get_by_test_id("land-now").press("Enter")
    batch = page.get_by_test_id("batch")
    await expect(batch).to_contain_text("Tested together: AVA and BEN")
    # What the suite prints comes as it is printed, without the colours of a terminal.
    live = batch.get_by_test_id("live-output")
    await expect(live).to_have_text("collected 214 items\ntests/test_cart.py ....... [  3%]")
    assert await page.locator(".land-body [aria-live], .land-body [role=log]").count() == 0
    await expect(batch.locator('[data-policy="unit tests"]')).to_contain_text("running")
    await expect(card(page, "entry-card", "BEN")).to_contain_text("asked by ann")
    await expect(card(page, "entry-card", "BEN")).to_contain_text("1 file: src/ben.py")
    # One that comes meanwhile restarts nothing, and says what it waits for.
    await place.work("CLEO")
    await place.room.post("/land @CLEO", "dana")
    waits = card(page, "entry-card", "CLEO")
    await expect(waits.get_by_test_id("entry-waits")).to_have_text("Waits until v3 is tested")
    await expect(waits).to_contain_text("asked by dana")
    await expect(page.get_by_test_id("tab-landing").locator("em")).to_have_text("3")
    await card(page, "entry-card", "BEN").get_by_test_id("entry-diff").click()
    await expect(page.get_by_test_id("difference")).to_contain_text("src/ben.py")
    await look(page, "landing-testing", whole=BODY)
    # Beside its worktree it says so too.
    await ann.go("worktrees")
    await expect(page.get_by_test_id("in-queue")).to_have_count(3)
    await look(page, "worktrees-queued")
    await ann.go("landing")

    place.hold.unlink()
    out = card(page, "ended-card", "BEN").first
    await expect(out).to_have_attribute("data-state", "put_out")
    await expect(out.get_by_test_id("entry-reason")).to_contain_text("unit tests failed (exit code 1)")
    await expect(out.get_by_test_id("entry-reason")).to_contain_text("AVA, which landed before")
    await expect(out.get_by_test_id("entry-output")).to_contain_text("ben.py:1: CLASH with ava.py")
    landed = card(page, "ended-card", "AVA")
    await expect(landed.get_by_test_id("entry-how")).to_contain_text("tested by unit tests, style")
    await expect(card(page, "ended-card", "CLEO")).to_have_attribute("data-state", "landed")
    await look(page, "landing-ended", whole=BODY)
    await out.get_by_test_id("vmark").click()
    results = page.get_by_test_id("results")
    await expect(results.locator('[data-policy="unit tests"]')).to_have_count(2)
    await expect(results.get_by_test_id("run-output").first).to_contain_text("CLASH with ava.py")
    await look(page, "results-failed", whole=".task-body")
    await page.keyboard.press("Escape")

    # BEN was told with the lines, and mends it by itself.
    await eventually(lambda: _mended(place), "what BEN mends")
    # The side bar says of it what the inbox says.
    await expect(page.get_by_test_id("stands-BEN")).to_contain_text("did not land")
    await out.get_by_test_id("land-again").click()
    again = card(page, "ended-card", "BEN").first
    await expect(again).to_have_attribute("data-state", "landed")
    # Only the newest of an agent can be asked for again.
    await expect(page.get_by_test_id("land-again")).to_have_count(0)
    assert "fine = 1" in git(place.room.folder, "show", "main:src/ben.py")
    # What landed is taken back from here, after a question, and says so from then on.
    ava = card(page, "ended-card", "AVA")
    await ava.get_by_test_id("take-back").click()
    asked = page.get_by_test_id("take-back-dialog")
    await expect(asked).to_contain_text("Take back what AVA landed?")
    await look(page, "landing-take-back")
    await asked.get_by_test_id("take-back-now").press("Enter")
    await expect(ava.get_by_test_id("entry-taken-back")).to_contain_text("taken back by ann")
    await expect(ava.locator("header")).to_contain_text("taken back")
    await expect(ava.get_by_test_id("take-back")).to_have_count(0)
    await expect(again.get_by_test_id("take-back")).to_have_count(1)
    assert git(place.room.folder, "ls-tree", "--name-only", "main", "src/ava.py") == ""
    await look(page, "landing-taken-back", whole=BODY)
    # It does not land again with all others: its row says once why it is not chosen.
    await page.get_by_test_id("land-all").click()
    row = card(page, "planned", "AVA")
    await expect(row.get_by_test_id("plan-undoes")).to_have_text(
        ["This would bring back what ann took back in src/ava.py."]
    )
    await expect(row.get_by_test_id("plan-stands")).to_have_count(0)
    await expect(row.get_by_test_id("plan-choose")).not_to_be_checked()
    await expect(now).to_be_disabled()
    await look(page, "land-dialog-undoes")
    await row.get_by_test_id("plan-choose").check()
    await now.click()
    await expect(ava.first).to_have_attribute("aria-label", "AVA: landed")
    assert "fine = 1" in git(place.room.folder, "show", "main:src/ava.py")


async def _mended(place: Place) -> bool:
    diff = (await place.room.get("/api/worktrees/BEN/diff"))["diff"]
    return "fine = 1" in diff


async def test_nothing_tests_it_and_that_is_said_everywhere(place: Place, come: Come) -> None:
    place.have([])
    await place.work("AVA", "BEN")
    ann = await come("ann", place.room)
    page = ann.page
    # No policy, nothing landed: the tab is not there, and the keys lead to what to do.
    await expect(page.get_by_test_id("tab-worktrees")).to_be_visible()
    await expect(page.get_by_test_id("tab-landing")).to_have_count(0)
    await page.keyboard.press("g")
    await page.keyboard.press("d")
    await expect(page.get_by_test_id("install-policies")).to_contain_text("verify-policy install")
    await look(page, "landing-no-policies")
    await ann.go("worktrees")
    await page.locator('[data-agent="AVA"]').get_by_test_id("land").click()
    await expect(page.get_by_test_id("planned")).to_contain_text("It lands as not tested")
    await page.get_by_test_id("land-now").click()
    await page.get_by_test_id("toast").get_by_role("button", name="Show the queue").click()
    how = card(page, "ended-card", "AVA").get_by_test_id("entry-how")
    await expect(how).to_have_attribute("data-tested", "false")
    await expect(how).to_contain_text("not tested: no policy was for it")
    await card(page, "ended-card", "AVA").get_by_test_id("entry-diff").click()
    await expect(page.get_by_test_id("difference")).to_contain_text("+fine = 1".removeprefix("+"))
    # Policies with a fault: what is wrong, by file and line; nothing lands by them.
    place.have("- name: unit\n  tier: 9\n")
    await page.get_by_test_id("tab-room").click()
    await ann.go("landing")
    await expect(page.get_by_test_id("landing-trouble")).to_contain_text("all.yaml")
    await look(page, "landing-trouble", whole=BODY)
    await page.get_by_test_id("land-all").click()
    await expect(card(page, "planned", "BEN")).to_contain_text("the policies cannot be used")
    await expect(page.get_by_test_id("land-now")).to_be_disabled()


async def test_a_person_approves_once_and_a_second_click_shows_it(place: Place, come: Come) -> None:
    ann = await come("ann", place.room)
    page = ann.page
    await expect(page.get_by_test_id("tab-approvals")).to_have_count(0)
    await place.work("AVA", words="ask for a login")
    await expect(page.get_by_test_id("tab-approvals").locator("em")).to_have_text("1")
    asked = page.get_by_test_id("approval-asked")
    await expect(asked).to_have_attribute("data-state", "waiting")
    await look(page, "room-approval")
    await asked.get_by_role("button", name="Look at it and decide").click()
    assert page.url.endswith("#/approvals?of=a1")
    one = page.locator('[data-testid="approval"][data-approval="a1"]')
    await expect(one).to_contain_text("security review")
    await expect(one).to_contain_text("asked by ann")
    await expect(one).to_contain_text("2 files; your approval is wanted for src/auth/login.py")
    await expect(one.locator('[data-policy="unit tests"]')).to_contain_text("passed")
    await expect(one.get_by_test_id("difference")).to_contain_text("return name == 'ann'")
    await expect(one.get_by_test_id("approval-deadline")).to_contain_text("left")
    await look(page, "approval-waiting", whole=BODY)

    # The page of dana does not hear what ann decides, until she clicks.
    dana = await come("dana", place.room)
    await dana.go("approvals")
    hers = dana.page.locator('[data-testid="approval"][data-approval="a1"]')
    await expect(hers.get_by_test_id("approve")).to_be_enabled()
    hears = asyncio.Event()

    async def reads(route: Route) -> None:
        await (route.continue_() if hears.is_set() else route.abort())

    async def clicks(route: Route) -> None:
        hears.set()
        await route.continue_()

    await dana.page.route("**/api/approvals", reads)
    await dana.page.route("**/api/approvals/1", clicks)
    await one.get_by_test_id("approve").press("Enter")
    await expect(one.get_by_test_id("approval-decided")).to_contain_text("ann approved it")
    await expect(page.get_by_test_id("tab-approvals").locator("em")).to_have_count(0)
    await hers.get_by_test_id("reject").click()
    await hers.get_by_test_id("reject-reason").fill("not like that")
    await hers.get_by_test_id("reject-reason").press("Enter")
    await expect(hers.get_by_test_id("approval-decided")).to_contain_text("ann approved it")
    await expect(hers.get_by_test_id("approval-late")).to_contain_text("That was before you")
    await look(dana.page, "approval-decided-by-another")
    # It is among the decided for whoever comes later, and in the room.
    await ann.go("room")
    await expect(asked).to_have_attribute("data-state", "approved")
    await ann.go("landing")
    await page.get_by_test_id("to-approvals").click()
    over = page.get_by_test_id("approval-over")
    await expect(over).to_contain_text("ann approved it")
    await over.get_by_test_id("vmark").click()
    await expect(page.get_by_test_id("results-state")).to_contain_text("passed")
    await look(page, "results-approved", whole=".task-body")


async def test_a_rejected_branch_says_why_and_is_verified_again(place: Place, come: Come) -> None:
    await place.work("AVA", words="ask for a login")
    ann = await come("ann", place.room)
    page = ann.page
    # Landing needs it, too, and people are asked once: nothing of it is tested before a person agrees.
    await place.room.ask("POST", "/api/landing", json={"name": "dana", "agents": ["AVA"]})
    await ann.go("landing")
    waits = card(page, "entry-card", "AVA")
    await expect(waits.get_by_test_id("entry-waits")).to_contain_text("a person has to approve it")
    await look(page, "landing-waits-for-approval")
    await waits.get_by_test_id("entry-approval").click()
    await expect(page.get_by_test_id("approval").first).to_be_visible()
    for name in ("a1",):
        one = page.locator(f'[data-testid="approval"][data-approval="{name}"]')
        await one.get_by_test_id("reject").press("Enter")
        reason = one.get_by_test_id("reject-reason")
        await expect(reason).to_be_focused()
        if name == "a1":
            await look(page, "approval-reject")
        await reason.fill("names are not secrets")
        await reason.press("Enter")
        await expect(one.get_by_test_id("approval-decided")).to_contain_text(
            "ann rejected it: names are not secrets"
        )
    await look(page, "approvals-rejected", whole=BODY)
    await ann.go("landing")
    out = card(page, "ended-card", "AVA")
    await expect(out.get_by_test_id("entry-reason")).to_contain_text("names are not secrets")
    await ann.go("room")
    mark = page.get_by_test_id("changed").get_by_test_id("vmark")
    await expect(mark).to_have_attribute("data-state", "failed")
    await look(page, "room-failed")
    await mark.click()
    results = page.get_by_test_id("results")
    await expect(results.get_by_test_id("results-reason")).to_contain_text("names are not secrets")
    assert "results=v1" in page.url
    await results.get_by_test_id("results-diff").click()
    await expect(results.get_by_test_id("difference")).to_contain_text("src/auth/login.py")
    await results.get_by_test_id("verify-again").click()
    await expect(results.get_by_test_id("results-state")).to_contain_text("waits for a person")
    await expect(results.locator('[data-policy="unit tests"][data-attempt="2"]')).to_contain_text("passed")
    await page.keyboard.press("Escape")
    await expect(results).to_have_count(0)


async def test_results_say_what_was_flaky_reused_or_not_sandboxed(place: Place, come: Come) -> None:
    place.flaky.touch()
    missing = {"name": "deploy check", "tier": 2, "executor": "inline", "patterns": ["src/"]}
    place.have(place.policies({**missing, "run": ["no-such-tool"], "env": ["DEPLOY_KEY"]}))
    await place.work("CLEO")
    first = await place.verified(1, "error", "failed")
    assert first["state"] == "error", first
    ann = await come("ann", place.room)
    page = ann.page
    status, told = await place.room.ask("GET", "/api/verifications?numbers=v1,m2")
    assert (status, told["error"]["fix"]) == (400, "At most 100 verifications, as v3,v4.")
    assert [
        one["number"] for one in (await place.room.get("/api/verifications?numbers=9,v1"))["verifications"]
    ] == [1]
    # The same tree again: what ended by itself is not run twice.
    await ann.go("worktrees")
    row = page.locator('[data-testid="worktree"][data-agent="CLEO"]')
    await expect(row.get_by_test_id("vmark")).to_have_attribute("data-state", "error")
    await row.get_by_test_id("diff-open").click()
    await page.get_by_test_id("verify-work").click()
    await place.verified(2, "error")
    # By a reference in people's words, and by the address.
    await ann.go("room")
    said = await ann.say("look at v1 and v2, please")
    await said.get_by_role("link", name="v1").click()
    results = page.get_by_test_id("results")
    tests = results.locator('[data-policy="unit tests"]')
    await expect(tests.first).to_contain_text("flaky: it failed, and passed when it was run again")
    await expect(tests.first).to_contain_text("without a sandbox")
    await expect(tests.nth(1)).to_contain_text("failed")
    await expect(results.locator('[data-policy="deploy check"]')).to_contain_text("could not run")
    await look(page, "results-flaky", whole=".task-body")
    await page.keyboard.press("Escape")
    await page.goto(f"{place.room.url}/#v2")
    await expect(results.locator('[data-policy="style"]')).to_contain_text("reused from v1")
    await look(page, "results-reused", whole=".task-body")
    await results.locator('[data-policy="style"]').get_by_role("button", name="v1").click()
    await expect(results).to_contain_text("flaky")


async def test_a_task_shows_its_verifications(place: Place, come: Come) -> None:
    await place.work("CLEO")
    await place.verified(1, "passed")
    config = load(place.room.path)
    store = await open_store(config, SCHEMAS)
    work, cleo = services_of(store, LiveSettings(config)).work, Caller("CLEO", "elsewhere")
    made = await work.submit(Caller("ann", "here", person=True), "task", "Round once per cart")
    await work.get(cleo)
    await work.complete(cleo, made["task_id"], success=True, result={"ok": True})
    await store.close()
    await place.verified(2, "passed")
    ann = await come("ann", place.room)
    page = ann.page
    await ann.go("board")
    await expect(page.get_by_test_id("task").get_by_test_id("vmark")).to_contain_text("v2 ✓passed")
    await look(page, "board-verified")
    # A task in work is marked with what is verified of its agent's work, on its card and in its heading.
    await place.room.post("/task please mend the cart")
    await place.room.post("/give t2 @AVA")
    await place.verified(3, "passed")
    given = page.get_by_test_id("task").filter(has_text="please mend the cart")
    await expect(given.get_by_test_id("vmark")).to_contain_text("v3 ✓passed")
    await given.click()
    heading = page.get_by_test_id("task-dialog").locator("header").first
    await expect(heading.get_by_test_id("vmark")).to_contain_text("v3 ✓passed")
    await look(page, "task-heading")
    await page.keyboard.press("Escape")
    # A verdict is the task's that the agent worked on then, and a task that is done with failing tests says so.
    (place.room.folder / "AVA.yaml").write_text('- say: Done.\n  write: {src/ben.py: "CLASH = 1\\n"}\n')
    await place.room.post("/task please break the cart")
    await place.room.post("/give t3 @AVA")
    await place.verified(4, "failed")
    other = page.get_by_test_id("task").filter(has_text="please break the cart")
    await expect(other.get_by_test_id("vmark")).to_contain_text("v4 ✕failed")
    await expect(given.get_by_test_id("vmark")).to_contain_text("v3 –passed, changed since")
    await place.room.post("/move t3 done")
    await expect(other).to_contain_text("done, not landed, tests failed")
    await expect(other.get_by_test_id("vmark")).to_contain_text("v4 ✕failed")
    await expect(given.get_by_test_id("vmark")).to_contain_text("v3 –passed, changed since")
    await look(page, "board-failed")
    (need,) = [one for one in await place.room.get("/api/needs") if one["id"] == "answered:t2"]
    assert "it was changed since its tests passed (v3). Is it done?" in need["text"], need
    # Mended later by a message about no task: the branch as it stands counts, as long as the work is in it.
    (place.room.folder / "AVA.yaml").write_text('- say: Done.\n  write: {src/ben.py: "FINE = 1\\n"}\n')
    await place.room.post("@AVA please mend your branch")
    await place.verified(5, "passed")
    await expect(other.get_by_test_id("vmark")).to_contain_text("v5 ✓passed")
    await expect(other).not_to_contain_text("not landed")
    await expect(given.get_by_test_id("vmark")).to_contain_text("v5 ✓passed")
    await page.get_by_test_id("task").filter(has_text="Round once").click()
    await expect(page.get_by_test_id("task-verified")).to_contain_text("v2")
    await look(page, "task-verified")
    # The results lie over the task, and Escape leads back to it.
    await page.get_by_test_id("task-verified").get_by_test_id("vmark").click()
    await expect(page.get_by_test_id("results")).to_contain_text("a task that is done")
    await page.keyboard.press("Escape")
    await expect(page.get_by_test_id("results")).to_have_count(0)
    await expect(page.get_by_test_id("task-dialog")).to_be_visible()


async def test_one_click_makes_the_queue_the_only_way(place: Place, come: Come) -> None:
    await place.work("AVA")
    ann, dana = await come("ann", place.room), await come("dana", place.room)
    page = ann.page
    await dana.go("worktrees")
    row = dana.page.locator('[data-testid="worktree"][data-agent="AVA"]')
    merge, land = row.get_by_test_id("merge"), row.get_by_test_id("land")
    await expect(merge).to_be_enabled()
    await merge.click()
    await expect(dana.page.get_by_test_id("merge-message")).to_be_visible()
    await look(dana.page, "merge-dialog")
    await ann.go("landing")
    rule = page.get_by_test_id("require-landing")
    await expect(rule).to_have_attribute("aria-checked", "false")
    await rule.focus()
    await page.keyboard.press("Space")
    await expect(rule).to_have_attribute("aria-checked", "true")
    assert json.loads(place.room.path.read_text())["landing"]["required"] is True
    await look(page, "landing-required")
    # The page of dana hears of it: merging is not offered any more, and why.
    await expect(dana.page.get_by_test_id("by-queue")).to_contain_text("land by the queue only")
    await expect(dana.page.get_by_test_id("merge-now")).to_have_count(0)
    await look(dana.page, "merge-dialog-required")
    await dana.page.get_by_test_id("merge-land").click()
    await expect(dana.page.get_by_test_id("land-dialog")).to_contain_text("What tests it")
    await dana.page.keyboard.press("Escape")
    await expect(merge).to_have_count(0)
    await expect(dana.page.get_by_test_id("landing-required")).to_contain_text("land by the queue only")
    await look(dana.page, "worktrees-required")
    status, told = await place.room.ask("POST", "/api/worktrees/AVA/merge", json={"name": "dana"})
    assert (status, told["success"]) == (200, False) and "`/land @AVA`" in told["fix"]
    # Taken out again, while it is tested: on a main branch that has moved, so its own test does not stand for that.
    commit(place.room.folder, {"src/other.py": "x = 1\n"})
    place.hold.touch()
    await land.click()
    await dana.page.get_by_test_id("land-now").click()
    waits = card(page, "entry-card", "AVA")
    await expect(waits).to_have_attribute("data-state", "testing")
    await waits.get_by_test_id("take-out").click()
    await expect(card(page, "ended-card", "AVA")).to_contain_text("ann took it out")
    await look(page, "landing-taken-out")
    place.hold.unlink()
    await rule.click()
    await expect(rule).to_have_attribute("aria-checked", "false")
    await expect(merge).to_be_enabled()


async def _tab(ann: Person, name: str) -> None:
    await expect(ann.page.get_by_test_id(f"tab-{name}")).to_have_attribute("aria-current", "page")


async def test_keys_lead_there(place: Place, come: Come) -> None:
    ann = await come("ann", place.room)
    for keys, name in (("gd", "landing"), ("gp", "approvals")):
        for key in keys:
            await ann.page.keyboard.press(key)
        await _tab(ann, name)
    await expect(ann.page.get_by_test_id("no-approvals")).to_contain_text("Agents cannot approve.")
    await look(ann.page, "approvals-empty")
