"""Several relays in one room, as a person sees them in the page: who lives where, who is away, and a relay that is
cut off from the room's database."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, expect

from tests import postgres
from tests.browser.person import Person
from tests.e2e.test_fleet_landing import remote_of
from tests.git.repository import git
from tests.outside import REPO, Json, Outside, agent, eventually, room, settings
from tests.proxy import Way, way

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


JOIN = (sys.executable, str(REPO / "scripts" / "join.py"))


@asynccontextmanager
async def fleet(
    folder: Path, *members: tuple[str, Sequence[Json]], **more: Any
) -> AsyncIterator[tuple[Way, list[Outside]]]:
    """Members of these names and agents, all started. The first one's way to the database can be cut."""
    server = postgres.server()
    database = server.new_database()
    async with AsyncExitStack() as stack:
        port = server.settings.get("port") or 5432
        cable = await stack.enter_async_context(way(f"{server.folder}/.s.PGSQL.{port}"))
        made = []
        for name, agents in members:
            told = settings(*agents, storage="postgres", fleet={"name": name, "lease_s": 4}, **more)
            one = await stack.enter_async_context(room(folder / name, told))
            direct = server.dsn(database)
            through = f"postgres://relay@127.0.0.1:{cable.port}/{database}"
            one.env = {"RELAY_POSTGRES_DSN": direct if made else through}
            await one.start()
            made.append(one)
        yield cable, made


async def test_a_person_sees_who_lives_where_and_who_is_away(chromium: Browser, tmp_path: Path) -> None:
    async with fleet(tmp_path, ("tower", [agent("ALFA")]), ("laptop", [agent("BRAVO")])) as (_, made):
        tower, laptop = made
        ann = await Person.arrive(chromium, tower, "ann")
        page = ann.page
        bravo, member = page.get_by_test_id("agent-BRAVO"), page.get_by_test_id("member-laptop")
        await expect(bravo).to_contain_text("at laptop")
        await expect(member).to_have_attribute("data-state", "live")
        await expect(page.get_by_test_id("member-tower")).to_contain_text("this one, leads")
        await page.get_by_test_id("composer").fill("@BRAVO hello")
        await expect(page.get_by_test_id("composer-away")).to_have_count(0)

        # Without a reload.
        laptop.kill()
        await expect(member).to_have_attribute("data-state", "away")
        await expect(member).to_contain_text(re.compile(r"away since \d\d:\d\d"))
        await expect(bravo).to_contain_text(re.compile(r"away since \d\d:\d\d"))
        await expect(page.get_by_test_id("composer-away")).to_contain_text(
            re.compile(
                r"BRAVO is away: laptop has given no sign of life since \d\d:\d\d\. It reads this when"
            )
        )
        said = await ann.say("@BRAVO tok-late")
        await expect(ann.receipt(said, "BRAVO")).to_contain_text("waits for laptop")
        await bravo.click()
        panel = page.get_by_test_id("agent-panel")
        await expect(panel.get_by_test_id("away")).to_contain_text("What is written to BRAVO waits for it")
        await expect(panel).to_contain_text("at laptop")
        await page.keyboard.press("Escape")
        await ann.go("queue")
        await expect(page.get_by_test_id("job").filter(has_text="BRAVO")).to_contain_text("waits for laptop")
        await ann.go("agents")
        card = page.get_by_test_id("member-card-laptop")
        await expect(card).to_contain_text("no sign of life since")
        await expect(card).to_contain_text("relay fleet forget laptop")
        await expect(page.get_by_test_id("lives-BRAVO")).to_contain_text("at laptop")
        asked = await tower.post("/who")
        told = (await tower.reply_to(asked["id"], "RELAY"))["body"]
        assert "**BRAVO** is away: laptop has given no sign of life for" in told and "1 message waits" in told

        await laptop.start()
        await expect(card).to_have_attribute("data-state", "live")
        await ann.go("room")
        await expect(ann.receipt(said, "BRAVO")).to_have_attribute("data-state", "done")
        await expect(bravo).to_contain_text("at laptop")
        # Stopped, which is said as such.
        assert (await laptop.script("stop.sh")).code == 0
        await expect(member).to_have_attribute("data-state", "left")
        await expect(member).to_contain_text("stopped since")
        await ann.leave()


async def test_who_leads_and_who_works_elsewhere_is_seen(chromium: Browser, tmp_path: Path) -> None:
    members = ("tower", [agent("ALFA")]), ("laptop", [agent("BRAVO", "slow.yaml")])
    (tmp_path / "laptop").mkdir()
    (tmp_path / "laptop" / "slow.yaml").write_text("- delay_s: 60\n  say: late\n")
    async with fleet(tmp_path, *members) as (_, (tower, laptop)):
        ann = await Person.arrive(chromium, laptop, "ann")
        ben = await Person.arrive(chromium, tower, "ben")
        await ann.say("@BRAVO go")
        await expect(ben.page.get_by_test_id("agent-BRAVO")).to_contain_text("working")
        await expect(ann.page.get_by_test_id("member-tower")).to_contain_text("leads")
        await ben.leave()
        tower.kill()
        await expect(ann.page.get_by_test_id("member-laptop")).to_contain_text("this one, leads")
        await ann.leave()


async def test_the_worktrees_of_other_relays_are_seen_and_landed_and_nothing_else(
    chromium: Browser, tmp_path: Path
) -> None:
    common = remote_of(tmp_path)
    for name in ("tower", "laptop"):
        (tmp_path / name).mkdir()
        git(tmp_path / name, "clone", "-q", str(common), "code")
        write = f'- match: change\n  write: {{"{name}.py": "x = 1\\n"}}\n  say: done\n'
        (tmp_path / name / "w.yaml").write_text(write)
    members = ("tower", [agent("ALFA", "w.yaml")]), ("laptop", [agent("BRAVO", "w.yaml")])
    async with fleet(tmp_path, *members, workspace={"repo": "code"}) as (_, (tower, laptop)):
        posted = await tower.post("@ALFA @BRAVO change")
        for name in ("ALFA", "BRAVO"):
            await tower.reply_to(posted["id"], name)
        ann = await Person.arrive(chromium, tower, "ann")
        await ann.go("worktrees")
        row = ann.page.locator('[data-testid="worktree"][data-agent="BRAVO"]')
        await expect(row.get_by_test_id("tree-member")).to_have_text("at laptop")
        await expect(row.get_by_test_id("merges")).to_contain_text("merges clean into main")
        await expect(row.get_by_role("button", name="Land")).to_be_enabled()
        for what in ("merge", "discard", "diff-open", "abort"):
            await expect(row.get_by_test_id(what)).to_have_count(0)
        own = ann.page.locator('[data-testid="worktree"][data-agent="ALFA"]')
        await expect(own.get_by_test_id("tree-member")).to_have_count(0)
        await expect(own.get_by_test_id("discard")).to_be_enabled()
        await row.get_by_role("button", name="Land").click()
        await expect(ann.page.get_by_test_id("planned")).to_contain_text("at laptop")
        await ann.page.get_by_test_id("land-now").click()
        await expect(row.get_by_test_id("merges")).to_contain_text("nothing to merge")
        await expect(row.get_by_role("button", name="Land")).to_be_disabled()
        assert "laptop.py" in git(common, "ls-tree", "--name-only", "main").split()
        assert (await laptop.script("stop.sh")).code == 0
        await ann.page.get_by_test_id("worktrees-again").click()
        await expect(row.get_by_test_id("tree-member")).to_have_text("at laptop, away")
        await ann.leave()


async def test_a_room_with_one_relay_says_nothing_of_a_fleet(chromium: Browser, tmp_path: Path) -> None:
    async with fleet(tmp_path, ("tower", [agent("ALFA")])) as (_, (tower,)):
        ann = await Person.arrive(chromium, tower, "ann")
        await expect(ann.page.get_by_test_id("agent-ALFA")).to_be_visible()
        await expect(ann.page.get_by_test_id("fleet-list")).to_have_count(0)
        await ann.go("agents")
        await expect(ann.page.get_by_role("heading", name="Agents").first).to_be_visible()
        await expect(ann.page.get_by_test_id("fleet")).to_have_count(0)
        await ann.leave()


async def test_what_is_written_while_cut_off_is_marked_and_sent_once_in_order(
    chromium: Browser, tmp_path: Path
) -> None:
    members = ("tower", [agent("ALFA")]), ("laptop", [agent("BRAVO")])
    async with fleet(tmp_path, *members) as (cable, (tower, laptop)):
        ann = await Person.arrive(chromium, tower, "ann")
        page = ann.page
        await ann.say("@ALFA before")
        await ann.sees("ALFA heard @ALFA before", "ALFA")
        cable.cut()
        notice = page.get_by_test_id("cut-off")
        await expect(notice).to_contain_text("cannot reach the room's database")
        await expect(page.get_by_test_id("connection")).to_contain_text("cut off")
        # What was there stays there, and nothing says that all is well.
        await expect(page.locator(".side-scroll.stale")).to_contain_text("Agents, as of")
        await ann.sees("ALFA heard @ALFA before", "ALFA")
        for text in ("first", "second"):
            await ann.composer.fill(f"@ALFA tok-{text}")
            await ann.composer.press("Enter")
        outgoing = page.get_by_test_id("outgoing")
        await expect(outgoing).to_have_count(2)
        await expect(outgoing.first).to_contain_text("not sent yet")
        await _nothing_is_locked_or_claimed(tower)
        # The others see it go, and go on.
        await laptop.until_said(r"^The relay tower gives no sign of life", speaker="RELAY")
        away = await laptop.agent("ALFA")
        assert (away["away"], away["absence"]) == (True, "tower has given no sign of life")

        await page.reload()
        card = page.get_by_test_id("cut-off-page")
        await expect(card).to_contain_text("what was said cannot be shown")
        await expect(card.get_by_test_id("kept").locator("li")).to_have_text(
            ["@ALFA tok-first", "@ALFA tok-second"]
        )

        cable.mend()
        await ann.is_live()
        await expect(notice).to_have_count(0)
        await expect(outgoing).to_have_count(0)
        await ann.sees("@ALFA tok-second", "ann")
        bodies = [entry["body"] for entry in await laptop.entries() if entry["speaker"] == "ann"]
        assert bodies == ["@ALFA before", "@ALFA tok-first", "@ALFA tok-second"]
        await laptop.until_said(r"^The relay tower is back", speaker="RELAY")
        await ann.leave()


async def test_a_cable_that_is_pulled_is_seen_where_no_connection_breaks(
    chromium: Browser, tmp_path: Path
) -> None:
    async with fleet(tmp_path, ("tower", [agent("ALFA")])) as (cable, (tower,)):
        ann = await Person.arrive(chromium, tower, "ann")
        cable.cut(silently=True)
        # Nothing says so but the answers that do not come, for which a busy machine waits longer.
        seen = expect(ann.page.get_by_test_id("cut-off"))
        await seen.to_contain_text("cannot reach the room's database", timeout=120_000)
        status, told = await tower.ask("GET", "/api/transcript")
        assert (status, told["reason"]) == (503, "cut_off"), told
        await ann.composer.fill("@ALFA tok-late")
        await ann.composer.press("Enter")
        await expect(ann.page.get_by_test_id("outgoing")).to_contain_text("not sent yet")
        cable.mend()
        await ann.is_live()
        await ann.sees("ALFA heard @ALFA tok-late", "ALFA")
        assert await ann.entries("@ALFA tok-late", "ann").count() == 1
        await ann.leave()


async def _nothing_is_locked_or_claimed(one: Outside) -> None:
    """Over HTTP and over MCP, in words that say why and what to do."""
    for path, body in (("/locks/acquire", {"file_path": "a.py"}), ("/work/claim", {})):
        status, told = await one.ask("POST", path, json=body)
        assert (status, told["success"], told["reason"]) == (503, False, "cut_off"), told
        assert "cut off from the room's database" in told["message"], told
        assert "nothing can be locked, claimed or written here" in told["fix"], told
    call = {"name": "acquire_lock", "arguments": {"file_path": "a.py"}}
    asks = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    mcp = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}
    async with one.session.post(
        f"{one.url}/mcp", headers={**mcp, "X-API-Key": one.token}, json=asks
    ) as answer:
        text = await answer.text()
        result = json.loads(text.partition("data: ")[2] or text)["result"]
    assert result["isError"] and result["structuredContent"]["reason"] == "cut_off", result
    assert "cut off from the room's database" in result["structuredContent"]["message"]


async def test_join_keeps_what_is_typed_while_cut_off(tmp_path: Path) -> None:
    async with fleet(tmp_path, ("tower", [agent("ALFA")])) as (cable, (tower,)):
        cable.cut()

        async def away() -> bool:
            return (await tower.ask("GET", "/api/state"))[0] == 503

        await eventually(away, "the relay to be cut off")
        join = asyncio.create_task(tower.run(*JOIN, "--name", "ann", "--say", "@ALFA tok-kept"))
        told = await tower.run(*JOIN, "--last", "3")
        assert told.code == 1 and "cut off from the room's database" in told.all, told.all
        cable.mend()
        assert (await join).code == 0, (await join).all
        posted = [entry for entry in await tower.entries() if entry["speaker"] == "ann"]
        assert [entry["body"] for entry in posted] == ["@ALFA tok-kept"]
        await tower.reply_to(posted[0]["id"], "ALFA")
