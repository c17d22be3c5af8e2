"""How it looks and handles: themes, contrast, keyboard, names for readers of the screen, phone width."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser, expect

from tests.browser.conftest import Come
from tests.browser.person import PHONE, Person
from tests.outside import Outside

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

VIEWS = ("room", "board", "agents", "queue", "locks", "timeline", "memory")

#: Controls and landmarks that a reader of the screen could not name, and ids that are there twice.
UNNAMED = """() => {
  const name = (e) => (e.getAttribute('aria-label') || e.innerText || e.textContent || e.title ||
    [...(e.labels || [])].map((l) => l.textContent).join('') || '').trim();
  const found = [];
  const controls = 'button, a[href], input, textarea, select, summary, [role=button], [tabindex="0"]';
  for (const e of document.querySelectorAll(controls))
    if (e.checkVisibility() && !name(e)) found.push(e.outerHTML.slice(0, 120));
  for (const e of document.querySelectorAll('img:not([alt]), svg:not([aria-hidden])'))
    found.push(e.outerHTML.slice(0, 120));
  const ids = [...document.querySelectorAll('[id]')].map((e) => e.id);
  found.push(...ids.filter((id, at) => ids.indexOf(id) !== at).map((id) => 'twice: ' + id));
  for (const what of ['main', 'nav', 'h1'])
    if (document.querySelectorAll(what).length < 1) found.push('no ' + what);
  return found;
}"""

#: Texts whose contrast with what is behind them is less than 4.5:1 (3:1 for large ones).
PALE = """() => {
  const canvas = document.createElement('canvas');
  const pen = canvas.getContext('2d', { willReadFrequently: true });
  canvas.width = canvas.height = 1;
  const linear = (c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => 0.2126 * linear(r / 255) + 0.7152 * linear(g / 255) + 0.0722 * linear(b / 255);
  const paint = (colours) => {
    for (const colour of colours) {
      pen.fillStyle = colour;
      pen.fillRect(0, 0, 1, 1);
    }
    return pen.getImageData(0, 0, 1, 1).data;
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let text = walker.nextNode(); text; text = walker.nextNode()) {
    const e = text.parentElement;
    if (!text.textContent.trim() || !e.checkVisibility({ opacityProperty: true, visibilityProperty: true })) continue;
    if (e.closest('[disabled], .offscreen, noscript, script, style')) continue;
    const line = [];
    for (let up = e; up; up = up.parentElement) line.unshift(up);
    if (line.some((up) => Number(getComputedStyle(up).opacity) < 1)) continue;
    const grounds = ['#fff', ...line.map((up) => getComputedStyle(up).backgroundColor)];
    const style = getComputedStyle(e);
    const below = light(paint(grounds)), above = light(paint([...grounds, style.color]));
    const ratio = (Math.max(below, above) + 0.05) / (Math.min(below, above) + 0.05);
    const size = parseFloat(style.fontSize), large = size >= 24 || (size >= 18.6 && Number(style.fontWeight) >= 700);
    if (ratio < (large ? 3 : 4.5))
      found.push(`${ratio.toFixed(2)} ${e.className}: ${text.textContent.trim().slice(0, 40)}`);
  }
  return found;
}"""

#: The focus is on something, and one sees where.
FOCUS_SEEN = """() => {
  const e = document.activeElement;
  if (!e || e === document.body) return 'nothing has the focus';
  const seen = (x) => {
    const style = getComputedStyle(x);
    return (style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0) || style.boxShadow !== 'none';
  };
  return seen(e) || (e.parentElement && seen(e.parentElement)) ? '' : e.outerHTML.slice(0, 160);
}"""


#: The fonts' files that came, without the digest in their names.
FONTS = """performance.getEntriesByType('resource').map((e) => e.name.match(/([^/]*)-[^/]{8}[.]woff2$/)?.[1])
  .filter(Boolean).sort()"""


async def lively(house: Outside) -> None:
    """Something of every kind to look at."""
    who = {"agent_id": "somebody-elses-agent-of-a-long-name", "agent_type": "codex"}
    status, told = await house.ask("POST", "/sessions/heartbeat", json=who)
    assert status == 200, told
    await house.post("/task Look at the page", "ben")
    await house.until_said("Look at the page", speaker="RELAY")
    code = await house.post("@CLAUDE some code", "ben")
    failed = await house.post("@FLAKY @GHOST be so kind", "ben")
    routed = await house.post("what says codex?", "ben")
    await house.until_job(code["id"], "CLAUDE", "done")
    await house.until_job(failed["id"], "FLAKY", "dead", "skipped")
    await house.until_job(routed["id"], "CODEX", "done")


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_every_view_can_be_read(come: Come, house: Outside, scheme: str) -> None:
    await lively(house)
    ann = await come("ann", color_scheme=scheme, reduced_motion="reduce")
    for view in VIEWS:
        await ann.go(view)
        assert await ann.page.evaluate(UNNAMED) == [], view
        assert await ann.page.evaluate(PALE) == [], (view, scheme)
    await ann.page.get_by_test_id("agent-FLAKY").click()
    await expect(ann.page.get_by_test_id("agent-panel")).to_be_visible()
    await ann.page.get_by_test_id("open-search").click()
    assert await ann.page.evaluate(UNNAMED) == []
    assert await ann.page.evaluate(PALE) == []


async def test_the_keyboard_goes_everywhere_and_is_seen(ann: Person) -> None:
    page = ann.page
    await page.get_by_test_id("open-search").focus()
    for _ in range(12):
        await page.keyboard.press("Tab")
        assert await page.evaluate(FOCUS_SEEN) == ""
    await page.evaluate("document.activeElement.blur()")
    for keys, view in (("gb", "board"), ("ga", "agents"), ("gq", "queue"), ("gr", "room")):
        for key in keys:
            await page.keyboard.press(key)
        await expect(page.get_by_test_id(f"tab-{view}")).to_have_attribute("aria-current", "page")
    await page.keyboard.press("?")
    await expect(page.get_by_test_id("help")).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(page.get_by_test_id("help")).to_have_count(0)
    await page.keyboard.press("c")
    await expect(ann.composer).to_be_focused()
    await ann.say("@CODEX by keyboard")
    await ann.sees("heard @CODEX by keyboard", "CODEX")
    await ann.composer.press("Escape")
    await page.keyboard.press("k")
    await expect(await ann.sees("heard @CODEX by keyboard", "CODEX")).to_be_focused()
    assert await page.evaluate(FOCUS_SEEN) == ""
    await page.keyboard.press("r")
    await expect(page.get_by_test_id("replying")).to_contain_text("CODEX")
    await expect(ann.composer).to_be_focused()


async def test_the_theme_is_kept(come: Come) -> None:
    ann = await come("ann", color_scheme="light")
    ground = "getComputedStyle(document.body).backgroundColor"
    light = await ann.page.evaluate(ground)
    theme = ann.page.get_by_test_id("theme")
    await theme.click()
    await expect(theme).to_have_attribute("aria-label", "Theme: light")
    await theme.click()
    await expect(theme).to_have_attribute("aria-label", "Theme: dark")
    dark = await ann.page.evaluate(ground)
    assert dark != light
    await ann.reload()
    assert await ann.page.evaluate(ground) == dark


async def test_a_phone_shows_all_of_it(come: Come, house: Outside) -> None:
    await lively(house)
    await house.post("/who " + "averylongwordwithoutanyspaceinit" * 12, "ben")
    ann = await come("ann", viewport=PHONE, has_touch=True)
    wide = "document.scrollingElement.scrollWidth - innerWidth"
    for view in VIEWS:
        await ann.go(view)
        assert await ann.page.evaluate(wide) <= 0, view
        assert await ann.page.evaluate(UNNAMED) == [], view
        head = ann.page.locator(".view-head")
        if view != "room":
            await expect(head.get_by_role("heading")).to_be_in_viewport()
    await ann.go("room")
    await ann.say("@CODEX from a phone")
    await ann.sees("heard @CODEX from a phone", "CODEX")
    assert await ann.page.locator(".transcript").evaluate("(e) => e.scrollWidth - e.clientWidth") <= 0
    await ann.go("agents")
    await ann.page.get_by_role("button", name="Open CLAUDE").click()
    await expect(ann.page.get_by_test_id("agent-panel")).to_be_in_viewport()
    assert await ann.page.evaluate(wide) <= 0


async def test_only_the_letters_that_are_shown_are_loaded(chromium: Browser, house: Outside) -> None:
    ann = await Person.signed_out(chromium, house, "ann")
    page = ann.page
    await page.goto(house.url)
    await expect(page.get_by_test_id("sign-in")).to_be_visible()
    await page.evaluate("document.fonts.ready")
    assert await page.evaluate(FONTS) == ["mono-400", "sans"]
    await page.evaluate("document.querySelector('h1').append(' — “so” · 2 × 3…')")
    await page.evaluate("(document.body.offsetHeight, document.fonts.ready)")
    assert await page.evaluate(FONTS) == ["mono-400", "sans"]
    await page.evaluate("document.querySelector('h1').append('Gruß')")
    await page.evaluate("(document.body.offsetHeight, document.fonts.ready)")
    assert await page.evaluate(FONTS) == ["ibm-plex-sans-latin-wght-normal", "mono-400", "sans"]
    await ann.leave()
