"""Hostile text is text, whoever wrote it and wherever it is shown."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

from tests.browser.person import Person
from tests.outside import Outside

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

HOSTILE = (
    '<img src=x onerror="window.hacked=1"><script>window.hacked=2</script> [go](javascript:window.hacked=3) '
    "![p](https://tracker.invalid/p.png) <svg/onload=window.hacked=4> [x](JaVaScRiPt:alert(1)) "
    "<a href='data:text/html,x'>y</a> <style>*{display:none}</style> \u0001<b onclick=hacked>\u0002"
)
#: What must never come of a text: elements that load or run something, handlers, links that run.
LIVE = """() => [...document.querySelectorAll('.transcript *, .task *, .palette-list *, .jobs *')].filter((e) =>
  ['SCRIPT', 'IMG', 'IFRAME', 'STYLE', 'OBJECT', 'LINK', 'FORM', 'VIDEO'].includes(e.tagName) ||
  [...e.attributes].some((a) => a.name.startsWith('on')) ||
  (e.tagName === 'A' && !/^(https?:|mailto:|#)/.test(e.getAttribute('href')))).map((e) => e.outerHTML)"""


async def test_nothing_that_anybody_writes_runs(ann: Person, house: Outside) -> None:
    asked: list[str] = []
    ann.page.on("request", lambda request: asked.append(request.url))
    await ann.page.evaluate(
        "window.stopped = []; addEventListener('securitypolicyviolation', (e) => stopped.push(e.blockedURI))"
    )
    await ann.say("@CLAUDE be hostile")
    await ann.sees("window.hacked = 2", "CLAUDE")
    await house.post(f"@CODEX {HOSTILE}", "ben")
    await ann.sees("window.hacked=2", "ben")
    await ann.sees("window.hacked=2", "CODEX")
    await house.post(f"/task {HOSTILE[:180]}", "ben")
    await house.until_said("added task .*window.hacked", speaker="RELAY")
    assert await ann.page.evaluate(LIVE) == []
    for view in ("board", "queue"):
        await ann.go(view)
        await expect(ann.page.get_by_text("window.hacked").first).to_be_visible()
        assert await ann.page.evaluate(LIVE) == []
    await ann.page.keyboard.press("Control+k")
    await ann.page.get_by_test_id("search").fill("hacked")
    await expect(ann.page.get_by_test_id("hit").first).to_be_visible()
    assert await ann.page.evaluate(LIVE) == []
    assert await ann.page.evaluate("window.hacked") is None
    assert await ann.page.evaluate("stopped") == []
    assert [url for url in asked if not url.startswith((house.url, house.url.replace("http", "ws")))] == []


async def test_the_policy_allows_no_script_but_the_pages_own(ann: Person) -> None:
    answer = await ann.page.request.get(ann.room.url)
    policy = answer.headers["content-security-policy"]
    assert "script-src 'self'" in policy and "unsafe" not in policy
    ran = await ann.page.evaluate(
        "() => { const s = document.createElement('script'); s.textContent = 'window.ran = 1';"
        " document.body.append(s); return window.ran ?? null; }"
    )
    assert ran is None
    assert any("Content Security Policy" in one for one in ann.troubles)
    ann.troubles.clear()
