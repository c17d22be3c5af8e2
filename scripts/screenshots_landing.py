"""The landing queue and the approvals, for `scripts.screenshots`: a real room whose agents' branches are tested.

One branch has been put out, two are tested together, one waits for a person.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, Page, expect

from tests.e2e.test_worktrees import in_git
from tests.git.repository import commit, git
from tests.outside import Outside, agent, eventually, room, settings

OpenPage = Callable[..., Awaitable[Page]]
#: Goes on while its `hold` file is there; sums as floating point numbers fail where there are currencies.
SUITE = r"""
import pathlib, sys, time
print("collected 214 items\n")
for name, dots, percent in (("cart", 38, 17), ("currency", 24, 29), ("discounts", 45, 50), ("login", 19, 58)):
    print(f"tests/test_{name}.py {'.' * dots} [{percent:3d}%]", flush=True)
while pathlib.Path(sys.argv[1]).exists():
    time.sleep(0.1)
cart = pathlib.Path("src/cart.py").read_text()
if "1.0" in cart and pathlib.Path("src/currency.py").exists():
    print("\ntests/test_cart.py::test_yen_has_no_cents FAILED")
    print("    def test_yen_has_no_cents():")
    print(">       assert total([Line(yen=335, count=3)]) == 1005")
    print("E       assert 1005.0 == 1005")
    print("src/cart.py:4: AssertionError")
    sys.exit(1)
print("214 passed in 48.2s")
"""
CART = "def total(lines):\n    return sum(line.price for line in lines){}\n"
WORK = {
    "CLAUDE": {"src/currency.py": 'def symbol(currency):\n    return {"EUR": "€", "JPY": "¥"}[currency]\n'},
    "CODEX": {"src/cart.py": CART.format(" * 1.0")},
    "GEMINI": {"src/discounts.py": "def ten_percent(total):\n    return total * 9 // 10\n"},
    "AGY": {"src/invoice.py": 'def number(year, count):\n    return f"{year}-{count:05d}"\n'},
    "OPENCODE": {
        "src/auth/login.py": "import secrets\n\n\ndef same(token, given):\n"
        '    """Compare in a time that does not depend on what is equal."""\n'
        "    return secrets.compare_digest(token, given)\n"
    },
}


def _policies(folder: Path) -> list[dict[str, Any]]:
    runs: dict[str, Any] = {"executor": "inline", "sandbox": "off"}
    suite = [sys.executable, str(folder / "suite.py"), str(folder / "hold")]
    return [
        {"name": "unit tests", "tier": 1, "patterns": ["src/"], "run": suite, **runs},
        {
            "name": "static Python",
            "tier": 0,
            "patterns": ["*.py"],
            "run": [sys.executable, "-c", "0"],
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


async def landing(browser: Browser, open_page: OpenPage, out: Path, folder: Path) -> None:
    """Writes landing.png and approvals.png into `out`."""
    config = settings(*(agent(name, f"{name}.yaml") for name in WORK), airspace={"enabled": False})
    async with room(folder, config) as one:
        for name, files in WORK.items():
            (folder / f"{name}.yaml").write_text(
                f"- match: please\n  write: {json.dumps(files)}\n  say: Done.\n- say: Noted.\n"
            )
        (folder / "suite.py").write_text(SUITE)
        in_git(folder)
        git(folder, "config", "user.name", "Ann")
        ignored = (folder / ".gitignore").read_text().replace("*.py", "/*.py\n/hold\n/policies")
        commit(folder, {".gitignore": ignored, "src/cart.py": CART.format("")})
        (folder / "policies").mkdir()
        (folder / "policies" / "all.yaml").write_text(json.dumps(_policies(folder)))
        await one.start()
        page = await open_page(browser, one, size={"width": 1280, "height": 1200}, scheme="light")
        await _play(one)
        await page.goto(f"{one.url}/#/landing")
        await expect(page.get_by_test_id("live-output")).to_contain_text("58%", timeout=60_000)
        await expect(page.get_by_test_id("entry-approval")).to_be_visible(timeout=60_000)
        await page.mouse.move(0, 0)
        await page.screenshot(path=out / "landing.png")
        await page.goto(f"{one.url}/#/approvals")
        await page.get_by_test_id("approval-diff").first.click()
        await page.mouse.move(0, 0)
        await expect(page.get_by_test_id("difference").first).to_contain_text(
            "compare_digest", timeout=60_000
        )
        await page.set_viewport_size({"width": 1280, "height": 800})
        await page.screenshot(path=out / "approvals.png")
        (folder / "hold").unlink()
        await page.context.close()


async def _play(one: Outside) -> None:
    async def work(name: str, words: str) -> None:
        posted = await one.post(f"@{name} {words}, please", "ann")
        await one.reply_to(posted["id"], name)

    async def land(*names: str) -> None:
        status, told = await one.ask("POST", "/api/landing", json={"name": "ben", "agents": list(names)})
        assert (status, told["success"]) == (200, True), told

    async def ended(count: int) -> None:
        async def look() -> bool:
            return len((await one.get("/api/landing"))["ended"]) >= count

        await eventually(look, f"{count} landed or were put out")

    await work("CLAUDE", "show prices in their currency")
    await work("CODEX", "sum prices as numbers")
    await land("CLAUDE")
    await ended(1)
    await land("CODEX")
    await ended(2)
    await work("OPENCODE", "compare tokens in constant time")
    await work("GEMINI", "add the ten percent discount")
    await work("AGY", "number the invoices by year")

    async def verified() -> bool:
        newest = (await one.get("/api/verifications"))["verifications"]
        return not any(each["state"] in ("queued", "running") for each in newest)

    await eventually(verified, "what they changed is verified")
    (one.folder / "hold").touch()
    await land("OPENCODE")
    await land("GEMINI", "AGY")
