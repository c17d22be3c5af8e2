"""Every view of the page, for `scripts.screenshots`: one day of four agents and two people in a real room.

Something stands in each view: work under way, a collision, a conflict, an approval, a branch that can land, one that
was put out, an agent that fails, memories, locks, variants of a task.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, Page

from tests.e2e.test_worktrees import in_git
from tests.git.repository import commit, git
from tests.outside import Json, Outside, agent, eventually, room, settings

OpenPage = Callable[..., Awaitable[Page]]
SIZES = ({"width": 1400, "height": 900}, {"width": 390, "height": 844})
VIEWS = (
    *("room", "needs", "board", "agents", "queue", "airspace", "locks", "worktrees", "timeline", "memory"),
    *("conflicts", "landing", "approvals", "explore", "metrics"),
)
#: What opens over a view or from it: its name, the address ("" = the entry that began a thread), what is pressed to
#: open it (else None), and what is then to be seen.
PANELS = (
    ("review", "review?of=BEN", None, '[data-testid="review-file"]'),
    ("task", "board?task=1", None, "dialog[open]"),
    ("thread", "", "replies", ".thread"),
    ("merge", "worktrees", "merge", '[data-testid="merge-dialog"]'),
)

LOGIN = "import session\n\n\ndef login(name):\n    return session.of(name){}\n"
CART = "def total(lines):\n    return sum(line.price for line in lines){}\n"
AUTH = (
    "import secrets\n\n\ndef same(token, given):\n"
    '    """Compare in a time that does not depend on what is equal."""\n'
    "    return secrets.compare_digest(token, given)\n"
)
#: The words of what an agent is asked -> what it writes, and what it answers.
WORK: dict[str, dict[str, tuple[dict[str, str], str]]] = {
    "AVA": {
        "two accounts": (
            {"src/login.py": LOGIN.format(".account or choose(name)")},
            "`login()` asks which account is meant when a person has two. The tests pass.",
        ),
        "Cache": (
            {
                "src/rates.py": "from functools import cache\n\n\n@cache\ndef rate(currency):\n    return 1.0\n"
            },
            "With `functools.cache`.",
        ),
    },
    "BEN": {
        "Round prices": (
            {
                "src/cart.py": CART.format(".quantize(CENT)"),
                "tests/test_cart.py": "def test_cent():\n    assert True\n",
            },
            "A cart of three lines of 0.335 is 1.01 now: it rounds **once**, behind the sum.",
        ),
        "Cache": (
            {
                "src/rates.py": "RATES = {}\n\n\ndef rate(currency):\n    return RATES.setdefault(currency, 1.0)\n"
            },
            "With a dictionary of its own.",
        ),
        "slow": ({}, ""),
    },
    "CLEO": {
        "from the session": (
            {"src/login.py": LOGIN.format("[0]")},
            "`login()` takes the first account of the session.",
        ),
    },
    "DAN": {
        "constant time": ({"src/auth/token.py": AUTH}, "Tokens are compared in constant time."),
        "invoices": (
            {"src/invoice.py": 'def number(year, count):\n    return f"{year}-{count:05d}"\n'},
            "Numbered by year.",
        ),
    },
}
ABOUT = {
    "AVA": "Sign-in and sessions",
    "BEN": "Prices and carts",
    "CLEO": "Sign-in, too",
    "DAN": "All that must be safe",
}


def _script(name: str) -> str:
    rules: list[dict[str, Any]] = []
    for words, (files, answer) in WORK[name].items():
        usage = {
            "input_tokens": 5210,
            "cache_write_tokens": 3100,
            "cache_read_tokens": 86_000,
            "output_tokens": 1640,
            "cost_usd": 0.21,
        }
        if files:
            tool = [{"name": "Edit", "summary": path, "paths": [path]} for path in files]
            rules.append({"match": words, "tool": tool, "write": files, "say": answer, "usage": usage})
        else:
            tool = [
                {"name": "Read", "summary": "src/checkout.py"},
                {"name": "Bash", "summary": "pytest tests/checkout -q"},
            ]
            rules.append(
                {
                    "match": words,
                    "tool": tool,
                    "say": ["The query runs once a line. I write the join", "."],
                    "pause_s": 900,
                }
            )
    rules.append(
        {
            "match": "another length",
            "say": "No: then it returns at once. Our tokens all have 43 characters, so it tells nobody anything.",
        }
    )
    rules.append({"match": "Answer within", "say": "I hold, and go on with the tests.\nINTENT: none"})
    rules.append({"say": "Noted."})
    return json.dumps(rules)


def _policies() -> list[dict[str, Any]]:
    runs: dict[str, Any] = {"executor": "inline", "sandbox": "off"}
    return [
        {
            "name": "unit tests",
            "tier": 1,
            "patterns": ["src/"],
            "run": [sys.executable, "-c", "print('214 passed in 4.2s')"],
            **runs,
        },
        {
            "name": "security review",
            "tier": 4,
            "executor": "manual",
            "patterns": ["**/auth/**"],
            "requires_approval": True,
        },
    ]


async def views(browser: Browser, open_page: OpenPage, out: Path, folder: Path) -> None:
    """Writes VIEW-WIDTH-SCHEME.webp into `out`."""
    out.mkdir(parents=True, exist_ok=True)
    config = settings(
        *(agent(name, f"{name}.yaml", about=ABOUT[name]) for name in WORK),
        agent("EVE", "eve.yaml", about="Release notes"),
        locks={"circuit_breaker": {"failure_threshold": 1, "reset_timeout": 900}},
        queue={"max_attempts": 1},
    )
    async with room(folder, config) as one:
        for name in WORK:
            (folder / f"{name}.yaml").write_text(_script(name))
        (folder / "eve.yaml").write_text("- fail: not_signed_in\n  detail: Not signed in. Run `eve login`.\n")
        in_git(folder)
        git(folder, "config", "user.name", "Ann")
        git(folder, "config", "user.email", "ann@shop.example")
        ignored = (folder / ".gitignore").read_text().replace("*.py", "/*.py\n/policies")
        commit(
            folder,
            {
                ".gitignore": ignored,
                "src/login.py": LOGIN.format(""),
                "src/cart.py": CART.format(""),
                "src/session.py": "def of(name):\n    return name\n",
            },
        )
        (folder / "policies").mkdir()
        (folder / "policies" / "all.yaml").write_text(json.dumps(_policies()))
        await one.start()
        for name in ("ann", "bob"):
            page = await open_page(browser, one, size=SIZES[0], scheme="light")
            await page.evaluate(f"localStorage.setItem('relay.name', '{name}')")
            await page.reload()
        thread = await _day(one)
        for scheme in ("light", "dark"):
            for size in SIZES:
                page = await open_page(browser, one, size=size, scheme=scheme)
                for view in VIEWS:
                    await page.goto(f"{one.url}/#/{view}")
                    await page.locator(f'main[data-view="{view}"] .view > *').first.wait_for()
                    # What a view reads, and the picture of the airspace, come after it.
                    await page.wait_for_timeout(4000 if view in ("airspace", "timeline") else 900)
                    await picture(page, out / f"{view}-{size['width']}-{scheme}.webp")
                for name, address, pressed, seen in PANELS:
                    await page.goto("about:blank")
                    await page.goto(f"{one.url}/#/{address}" if address else f"{one.url}/#{thread}")
                    if pressed:
                        await page.locator(f'[data-testid="{pressed}"]:enabled').first.click()
                    await page.locator(seen).first.wait_for()
                    await page.wait_for_timeout(900)
                    await picture(page, out / f"{name}-{size['width']}-{scheme}.webp")
                await page.context.close()


async def picture(page: Page, path: Path) -> None:
    """As WebP: a quarter of a PNG's bytes."""
    await page.mouse.move(0, 0)
    client = await page.context.new_cdp_session(page)
    taken = await client.send("Page.captureScreenshot", {"format": "webp", "quality": 82})
    path.write_bytes(base64.b64decode(taken["data"]))
    await client.detach()


async def _day(one: Outside) -> str:
    """Gives the reference of the message that began a thread."""

    async def work(name: str, words: str) -> Json:
        posted = await one.post(f"@{name} {words}", "ann")
        await one.reply_to(posted["id"], name)
        return posted

    async def land(name: str) -> None:
        status, told = await one.ask("POST", "/api/landing", json={"name": "bob", "agents": [name]})
        assert (status, told["success"]) == (200, True), told

    async def verified() -> bool:
        newest = (await one.get("/api/verifications"))["verifications"]
        return not any(each["state"] in ("queued", "running") for each in newest)

    await one.post("/remember never mock the clock here, it hid a bug", "ann")
    await one.post("/decide use PostgreSQL because two hosts write", "bob")
    for title in (
        "Round prices once per cart\n\nThe cart is **off by a cent** sometimes. Round behind the sum:\n\n"
        "- `src/cart.py`, `total()`\n- a test with three lines of 0.335",
        "Alert when checkout is over 400 ms",
        "Write down how a release is rolled back",
        "Number the invoices by year",
    ):
        await one.post(f"/task {title}", "bob")
    await one.until_said("Number the invoices")
    await one.post("/move t3 done", "bob")
    for line in ("t1 priority 2", "t1 files src/cart.py tests/test_cart.py", "t4 depends t1"):
        await one.post(f"/task {line}", "bob")
    await one.post("/give t1 @BEN", "bob")
    await one.until_said("three lines of 0.335 is 1.01", speaker="BEN")
    await work("AVA", "sign-in fails for people with two accounts. Ask which one they mean")
    tokens = await work("DAN", "compare tokens in constant time")
    beside = await one.post(
        "Is the time equal for tokens of another length, too?", "bob", in_reply_to=tokens["id"]
    )
    await one.reply_to(beside["id"], "DAN")
    await work("CLEO", "take the account from the session in src/login.py")

    async def collided() -> bool:
        return any(each["kind"] == "collision" for each in await one.get("/api/needs"))

    await eventually(collided, "AVA and CLEO collide")
    await one.post("@EVE write the release notes", "ann")
    await eventually(verified, "what they changed is verified")
    await land("DAN")
    asked = await one.post("/explore 2 Cache the answers of rate()", "ann")
    await one.reply_to(asked["id"], "RELAY")

    async def explored() -> bool:
        told = await one.get("/api/explorations")
        return any(each["state"] == "waiting" for each in told["explorations"])

    await eventually(explored, "the variants wait")
    await land("AVA")

    async def landed() -> bool:
        return bool((await one.get("/api/landing"))["ended"])

    await eventually(landed, "AVA's branch has landed")
    await one.ask(
        "POST", "/locks/acquire", json={"file_path": "src/cart.py", "reason": "rounding", "agent_id": "bob"}
    )
    await one.post("@BEN why is checkout slow since yesterday?", "ann")

    async def works() -> bool:
        return any(each["running"] for each in (await one.get("/api/state"))["agents"])

    await eventually(works, "BEN works")
    # CLEO's branch conflicts with what has landed: the merge asks.
    await land("CLEO")

    async def asked_about() -> bool:
        return bool(await one.get("/api/conflicts"))

    await eventually(asked_about, "the conflict is asked about")
    await expect_settled(one)
    return f"m{tokens['number']}"


async def expect_settled(one: Outside) -> None:
    """The airspace and the worktrees have been looked at after the last change."""

    async def looked() -> bool:
        trees = (await one.get("/api/worktrees"))["worktrees"]
        return any(tree["merges"] == "conflicts" for tree in trees)

    await eventually(looked, "the worktrees are looked at")
