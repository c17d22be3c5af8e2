"""What axe-core finds against WCAG 2.2 AA in the page as it stands, at both widths and in both colour schemes."""

from __future__ import annotations

from collections.abc import Iterable

from playwright.async_api import Page

from tests.outside import REPO

SOURCE = REPO / "web" / "node_modules" / "axe-core" / "axe.min.js"
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
SIZES = ((1400, 900), (390, 844))
#: What depends on the colour scheme; the rest is looked at once a width.
OF_COLOUR = ["color-contrast", "link-in-text-block"]
#: Violations in words: the rule, and of each element what it is and what is wrong with it.
RUN = """async ([tags, rules]) => {
  const runOnly = rules ? { type: 'rule', values: rules } : { type: 'tag', values: tags };
  const found = await axe.run(document, { runOnly, resultTypes: ['violations'] });
  return found.violations.flatMap((v) => v.nodes.map((n) =>
    `${v.id}: ${n.target.join(' ')} ${n.html.slice(0, 160)} `
    + `(${n.failureSummary.split('\\n').slice(1).join(' ').trim()})`));
}"""


async def violations(page: Page, rules: list[str] | None = None) -> list[str]:
    """Of what is open now."""
    if not await page.evaluate("'axe' in window"):
        await page.evaluate(SOURCE.read_text())
    return list(await page.evaluate(RUN, [TAGS, rules]))


async def everywhere(page: Page, sizes: Iterable[tuple[int, int]] = SIZES) -> list[str]:
    """At each width and in both schemes; each with where it was. The page is left at the last width."""
    found = []
    for width, height in sizes:
        await page.set_viewport_size({"width": width, "height": height})
        for scheme, rules in (("light", None), ("dark", OF_COLOUR)):
            await page.emulate_media(
                color_scheme="dark" if scheme == "dark" else "light", reduced_motion="reduce"
            )
            await page.wait_for_timeout(50)  # what a width changes is drawn by then
            found += [f"{width} {scheme} {one}" for one in await violations(page, rules)]
    await page.emulate_media(color_scheme=None, reduced_motion=None)
    return found
