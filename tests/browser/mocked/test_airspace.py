"""The airspace view: who is near whom, why, when, and what of it stands elsewhere in the page."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta

import pytest
from playwright.async_api import Page, expect

from scripts.bench import airspace_scenes as scenes
from scripts.bench.mock_airspace import new_advisory, new_link, reading, stamp
from scripts.bench.mock_room import MockRoom
from tests.browser.mocked.conftest import OpenPage
from tests.browser.person import open_view, shot

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

NO_WEBGL = """
const ask = HTMLCanvasElement.prototype.getContext;
HTMLCanvasElement.prototype.getContext = function (kind, ...more) {
  return kind.startsWith('webgl') ? null : ask.call(this, kind, ...more);
};
"""
FRAMES = "Number(document.querySelector('.air-picture').dataset.frames ?? 0)"
#: Returns when the picture is still and was so for a while. On a busy machine a frame can take longer than that.
AT_REST = """async () => {
  const picture = document.querySelector('.air-picture');
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  for (let before = ''; before !== picture.dataset.frames || picture.dataset.still !== 'true';) {
    before = picture.dataset.frames;
    await new Promise((done) => setTimeout(done, 400));
    await frame();
    await frame();
  }
}"""


#: How many colours the cloud alone has. Read in the frame in which it is drawn: later the buffer is given away.
COLOURS = """() => new Promise((done) => {
  const picture = document.querySelector('.air-picture');
  picture.dispatchEvent(new KeyboardEvent('keydown', { key: '+', bubbles: true }));
  requestAnimationFrame(() => {
    const cloud = document.querySelector('.air-cloud');
    const copy = document.createElement('canvas');
    [copy.width, copy.height] = [cloud.width, cloud.height];
    const pen = copy.getContext('2d');
    pen.drawImage(cloud, 0, 0);
    const words = new Uint32Array(pen.getImageData(0, 0, copy.width, copy.height).data.buffer);
    done(new Set(words).size);
  });
})"""


async def fly(page: Page, mode: str = "plan") -> None:
    await open_view(page, "airspace")
    await page.get_by_test_id(f"air-{mode}").click()
    await page.locator(f".air-cloud[data-mode={mode}]").wait_for()
    await drawn(page)


async def drawn(page: Page) -> None:
    await expect(page.get_by_test_id("air-picture")).to_have_attribute("data-frames", re.compile("[1-9]"))


async def marker(page: Page, agent: str) -> tuple[float, float]:
    """Where it is drawn in the window; what is not seen is nowhere."""
    box = await page.get_by_test_id("air-picture").bounding_box()
    assert box is not None
    at = await page.get_by_test_id(f"air-agent-{agent}").get_attribute("data-at")
    x, y = (float(part) for part in (at or "inf,inf").split(","))
    return box["x"] + x, box["y"] + y


async def test_an_agent_and_a_link_show_their_evidence(room: MockRoom, open_page: OpenPage) -> None:
    scenes.shop(room.air)
    page = await open_page()
    await fly(page)
    await page.get_by_test_id("air-agent-CODEX").click()
    agent = page.get_by_test_id("pick-agent")
    await expect(agent).to_contain_text("relay/codex")
    await expect(agent).to_contain_text("src/checkout/money.py:1–9")
    await agent.get_by_role("button", name="CLAUDE resolution 0.94").click()
    link = page.get_by_test_id("pick-link")
    overlap = link.get_by_test_id("channel-overlap")
    await expect(overlap).to_contain_text("0.90 × 1.00 = 0.90")
    await expect(overlap).to_contain_text("both change lines 44-51 of src/checkout/session.py")
    await expect(overlap.get_by_role("meter")).to_have_attribute("aria-valuenow", "0.9")
    await expect(link.get_by_test_id("channel-symbol")).to_contain_text("Session.renew")
    await expect(link.get_by_test_id("channel-dependency")).to_contain_text(
        "never raises a resolution advisory"
    )
    card = link.get_by_test_id("advisory-card")
    await expect(card).to_contain_text("STEER: CODEX")
    await expect(card).to_contain_text("I finish renew() and its tests")
    await expect(card).to_contain_text("for CODEX")
    await card.get_by_test_id("mark-useful").click()
    await expect(card.get_by_test_id("mark-useful")).to_have_attribute("aria-pressed", "true")
    assert room.air.marks == [("adv-1", "useful")]
    await page.get_by_test_id("air-unpick").click()
    await expect(link).to_have_count(0)


async def test_the_mouse_picks_what_it_points_at(room: MockRoom, open_page: OpenPage) -> None:
    air = room.air
    air.cloud = {"a.py": [-1, -0.2, 0], "b.py": [1, 0.2, 0], "c.py": [0, 0.9, 0.1]}
    air.fly("A", {"a.py": []}, at=[-0.5, 0, 0])
    air.fly("B", {"b.py": []}, at=[0.5, 0, 0])
    air.links = [new_link("A", "B", 0.5, "advisory", tree=reading(0.5, 1.0))]
    page = await open_page()
    await fly(page)
    (ax, ay), (bx, by) = await marker(page, "A"), await marker(page, "B")
    x, y = (ax + bx) / 2, (ay + by) / 2
    await page.mouse.move(x, y)
    await expect(page.locator(".air-tip")).to_have_text("A ↔ B")
    await page.mouse.click(x, y)
    await expect(page.get_by_test_id("pick-link")).to_contain_text("Risk 0.50")
    await page.mouse.click(ax, ay)
    await expect(page.get_by_test_id("pick-agent")).to_contain_text("Working set, 1 file")
    # Dragging moves the plan, and picks nothing else.
    await page.mouse.move(x, y + 120)
    await page.mouse.down()
    await page.mouse.move(x + 80, y + 150, steps=4)
    await page.mouse.up()
    await expect(page.get_by_test_id("pick-agent")).to_be_visible()
    assert (await marker(page, "A"))[0] == pytest.approx(ax + 80, abs=2)
    await page.get_by_test_id("air-reset").click()
    await page.evaluate(AT_REST)
    assert (await marker(page, "A"))[0] == pytest.approx(ax, abs=2)


async def test_a_tick_moves_agents_and_not_the_map(room: MockRoom, open_page: OpenPage) -> None:
    scenes.shop(room.air)
    page = await open_page()
    await fly(page)
    await page.evaluate(AT_REST)
    codex, gemini = await marker(page, "CODEX"), await marker(page, "GEMINI")
    at = room.air.positions["ann"]
    was = await marker(page, "ann")
    room.air.positions["ann"] = [at[0] + 0.4, at[1], at[2]]
    room.air.tick()
    while await marker(page, "ann") == was:
        await page.wait_for_timeout(20)
    await page.evaluate(AT_REST)
    assert await marker(page, "CODEX") == codex
    assert await marker(page, "GEMINI") == gemini
    # The frame had the coordinates of some files; the others are still there.
    summary = page.get_by_role("group", name=f"5 agents among {len(room.air.cloud)} files")
    await expect(summary).to_have_count(1)
    frames = await page.evaluate(FRAMES)
    await page.wait_for_timeout(600)
    assert await page.evaluate(FRAMES) == frames, "a picture in which nothing moves draws nothing"


def far_apart(room: MockRoom) -> None:
    """Three agents and seven files; two agents stand where no file is."""
    air = room.air
    places = [
        [-1, 0, 0.2],
        [-0.9, 0.1, 0],
        [1, 0.3, 0],
        [0.8, -0.4, 0.5],
        [0.1, 0.6, -0.7],
        [0, 0, 0],
        [0.3, -0.2, 0.1],
    ]
    air.cloud = {f"src/{n}.py": [float(v) for v in at] for n, at in enumerate(places)}
    air.fly("CLAUDE", {"src/0.py": []}, at=[-2.6, -1.2, 1.4])
    air.fly("CODEX", {"src/2.py": []}, at=[2.2, 1.6, 0.9])
    air.fly("GEMINI", {"src/4.py": []}, at=[0.2, 0.5, -0.6])
    air.links = [new_link("CLAUDE", "CODEX", 0.45, "advisory", tree=reading(0.5, 1.0))]


async def all_in_picture(page: Page) -> None:
    """Every agent's name, which stands beside its marker, is seen whole."""
    await page.evaluate(AT_REST)
    box = await page.get_by_test_id("air-picture").bounding_box()
    assert box is not None
    for agent in ("CLAUDE", "CODEX", "GEMINI"):
        name = page.get_by_test_id(f"air-agent-{agent}")
        await expect(name).not_to_have_class(re.compile("nowhere"))
        at = await name.bounding_box()
        assert at is not None
        assert box["x"] <= at["x"] and at["x"] + at["width"] <= box["x"] + box["width"], (agent, at, box)
        assert box["y"] <= at["y"] and at["y"] + at["height"] <= box["y"] + box["height"], (agent, at, box)


@pytest.mark.parametrize("mode", ["plan", "space"])
@pytest.mark.parametrize("size", [(1200, 800), (360, 740)])
async def test_all_agents_are_in_the_picture(
    room: MockRoom, open_drawing: OpenPage, mode: str, size: tuple[int, int]
) -> None:
    far_apart(room)
    page = await open_drawing(size=size)
    await fly(page, mode)
    await all_in_picture(page)
    was = await marker(page, "CLAUDE")
    # Who moves within the picture does not move the camera.
    room.air.positions["GEMINI"] = [0.4, 0.5, -0.5]
    gemini = await marker(page, "GEMINI")
    room.air.tick()
    while await marker(page, "GEMINI") == gemini:
        await page.wait_for_timeout(20)
    await page.evaluate(AT_REST)
    assert await marker(page, "CLAUDE") == was
    # Who leaves it does, until the person has moved the camera.
    room.air.positions["GEMINI"] = [9.0, -7.0, 1.0]
    room.air.tick()
    while await marker(page, "CLAUDE") == was:
        await page.wait_for_timeout(20)
    await all_in_picture(page)
    await page.get_by_role("button", name="Nearer").click()
    await page.evaluate(AT_REST)
    was, gemini = await marker(page, "CODEX"), await marker(page, "GEMINI")
    room.air.positions["GEMINI"] = [14.0, 9.0, -3.0]
    room.air.tick()
    while await marker(page, "GEMINI") == gemini:
        await page.wait_for_timeout(20)
    await page.evaluate(AT_REST)
    assert await marker(page, "CODEX") == was
    await page.get_by_test_id("air-reset").click()
    await all_in_picture(page)


async def test_the_keyboard_turns_zooms_and_picks(room: MockRoom, open_page: OpenPage) -> None:
    scenes.shop(room.air)
    page = await open_page()
    await fly(page)
    await page.evaluate(AT_REST)
    was = await marker(page, "ann")
    await page.get_by_test_id("air-picture").focus()
    await page.keyboard.press("ArrowRight")
    await page.evaluate(AT_REST)
    assert (await marker(page, "ann"))[0] < was[0] - 20
    await page.keyboard.press("0")
    await page.evaluate(AT_REST)
    assert await marker(page, "ann") == was
    await page.keyboard.press("Tab")
    await page.keyboard.press("Enter")
    await expect(page.get_by_test_id("pick-agent")).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(page.get_by_test_id("pick-agent")).to_have_count(0)


async def test_in_space_it_is_drawn_with_webgl(room: MockRoom, open_drawing: OpenPage) -> None:
    scenes.shop(room.air)
    page = await open_drawing()
    await fly(page, "space")
    await page.evaluate(AT_REST)
    # The picture without what lies over the cloud: not of one colour, so points were drawn.
    assert await page.evaluate(COLOURS) > 50
    was = await marker(page, "ann")
    await page.get_by_test_id("air-picture").focus()
    await page.keyboard.press("ArrowLeft")
    await page.evaluate(AT_REST)
    assert await marker(page, "ann") != was
    await page.get_by_test_id("air-agent-QWEN").click()
    await expect(page.get_by_test_id("pick-agent")).to_contain_text("src/auth/rights.py")


#: Of an ink's line between two places, the part in which something is drawn.
DRAWN_BETWEEN = """([a, b]) => {
  const ink = document.querySelector('.air-ink');
  const ratio = ink.width / ink.clientWidth;
  const pen = ink.getContext('2d');
  let drawn = 0;
  for (let i = 1; i < 20; i++) {
    const [x, y] = [0, 1].map((k) => Math.round((a[k] + ((b[k] - a[k]) * i) / 20) * ratio));
    drawn += pen.getImageData(x, y, 1, 1).data[3] > 0 ? 1 : 0;
  }
  return drawn / 19;
}"""


#: Names that are not seen, and pairs of labels that stand on each other.
COVERED = """() => {
  const all = [...document.querySelectorAll('.air-label')];
  const boxes = all.map((label) => [label.dataset.testid, label.getBoundingClientRect()]);
  const on = ([, s], [, t]) => s.left < t.right && t.left < s.right && s.top < t.bottom && t.top < s.bottom;
  const covers = boxes.flatMap((one, i) =>
    boxes.slice(i + 1).filter((other) => on(one, other)).map((other) => [one[0], other[0]]));
  const hidden = all.filter((label) => label.classList.contains('nowhere'));
  return [...hidden.map((label) => label.dataset.testid), ...covers];
}"""


async def pairs_drawn(page: Page) -> dict[str, tuple[str, float, float]]:
    """Each pair that is named in the picture: the words on its line, the pixels between its markers, and the part of
    the line between them that is drawn."""
    await page.evaluate(AT_REST)
    assert await page.evaluate(COVERED) == []
    found = {}
    for label in await page.locator(".air-between:not(.nowhere)").all():
        name = str(await label.get_attribute("data-testid")).removeprefix("air-link-")
        ends = []
        for agent in name.split("-"):
            at = await page.get_by_test_id(f"air-agent-{agent}").get_attribute("data-at")
            ends.append([float(part) for part in str(at).split(",")])
        apart = math.dist(*ends)
        found[name] = (await label.inner_text(), apart, await page.evaluate(DRAWN_BETWEEN, ends))
    return found


@pytest.mark.parametrize("size", [(1280, 820), (390, 844)])
async def test_both_views_draw_the_same_pairs_apart_with_their_file(
    room: MockRoom, open_drawing: OpenPage, size: tuple[int, int]
) -> None:
    scenes.shop(room.air)
    # As near as two can come: the room gives both one place.
    room.air.positions["CODEX"] = room.air.positions["CLAUDE"]
    page = await open_drawing(size=size)

    async def both() -> list[dict[str, tuple[str, float, float]]]:
        found = []
        for mode in ("space", "plan"):
            await fly(page, mode)
            found.append(await pairs_drawn(page))
        return found

    def same(views: list[dict[str, tuple[str, float, float]]], **wanted: str) -> None:
        for view in views:
            assert {name: words for name, (words, _, _) in view.items()} == wanted
            for name, (_, apart, drawn) in view.items():
                assert apart >= 80, (name, apart)
                # A traffic advisory's line is dashed.
                assert drawn > (0.95 if "session.py" in wanted[name] and "0.9" in wanted[name] else 0.4)

    first = {"CLAUDE-CODEX": "session.py 0.94", "CODEX-QWEN": "session.py 0.48"}
    same(await both(), **first)
    # Later: both views show the later pair.
    room.air.links = [
        new_link(
            "GEMINI",
            "QWEN",
            0.97,
            "resolution",
            overlap=reading(0.9, 1.0, {"text": "x", "path": "a/session.py"}),
        )
    ]
    room.air.advisories.clear()
    room.air.positions["QWEN"] = room.air.positions["GEMINI"]
    room.air.tick()
    await expect(page.get_by_test_id("air-link-GEMINI-QWEN")).to_be_visible()
    same(await both(), **{"GEMINI-QWEN": "session.py 0.97"})
    await page.get_by_test_id("air-link-GEMINI-QWEN").press("Enter")
    await expect(page.get_by_test_id("air-link-GEMINI-QWEN")).to_have_attribute("aria-pressed", "true")


#: The longest dash of an ink's line between two places, in pixels.
LONGEST_DASH = """([a, b]) => {
  const ink = document.querySelector('.air-ink');
  const ratio = ink.width / ink.clientWidth;
  const pen = ink.getContext('2d');
  const length = Math.hypot(b[0] - a[0], b[1] - a[1]) * ratio;
  let run = 0, longest = 0;
  for (let i = 0.2 * length; i < 0.8 * length; i++) {
    const [x, y] = [0, 1].map((k) => Math.round((a[k] + ((b[k] - a[k]) * i) / length) * ratio));
    run = pen.getImageData(x, y, 1, 1).data[3] > 60 ? run + 1 : 0;
    longest = Math.max(longest, run);
  }
  return longest / ratio;
}"""


async def test_what_is_foretold_has_a_line_and_words_of_its_own(
    room: MockRoom, open_drawing: OpenPage
) -> None:
    """Both views, and the replay of both."""
    scenes.shop(room.air)
    links = [{"a": "GEMINI", "b": "ann", "risk": 0.12, "level": "clear"}]
    for at, ahead in ((60, False), (30, True)):
        time = stamp(datetime.now(UTC) - timedelta(minutes=at))
        told = [one | {"ahead": True} for one in links] if ahead else links
        room.air.samples.append(
            {"at": time, "positions": room.air.positions, "links": told, "advisories": []}
        )
    room.air.samples = room.air.samples[-2:]
    room.air.links = [new_link("GEMINI", "ann", 0.12, "clear") | {"ahead": True}]
    page = await open_drawing()

    async def dash() -> float:
        await page.evaluate(AT_REST)
        ends = []
        for one in ("GEMINI", "ann"):
            at = await page.get_by_test_id(f"air-agent-{one}").get_attribute("data-at")
            ends.append([float(part) for part in str(at).split(",")])
        return float(await page.evaluate(LONGEST_DASH, ends))

    for mode in ("space", "plan"):
        await fly(page, mode)
        live = await dash()
        then = []
        for minutes in (50, 20):
            moment = int((datetime.now(UTC) - timedelta(minutes=minutes)).timestamp() * 1000)
            await page.get_by_test_id("air-slider").evaluate(
                "(it, at) => { it.value = at; it.dispatchEvent(new Event('input', { bubbles: true })); }",
                moment,
            )
            then.append(await dash())
        dots, dashes = then
        assert dots < 4.5 < dashes < 9 and live > 4.5, (mode, dots, dashes, live)
        await page.get_by_test_id("air-live").click()
    await expect(page.get_by_test_id("term-ahead").first).to_have_text("may collide later")
    await page.get_by_test_id("air-table").click()
    await expect(page.get_by_test_id("air-links")).to_contain_text("may collide later")


async def test_a_lost_context_leaves_the_plan(room: MockRoom, open_drawing: OpenPage) -> None:
    scenes.shop(room.air)
    page = await open_drawing()
    await fly(page, "space")
    await page.evaluate(
        "document.querySelector('.air-cloud').getContext('webgl2').getExtension('WEBGL_lose_context').loseContext()"
    )
    await expect(page.get_by_test_id("air-hint")).to_contain_text("The graphics context was lost")
    await expect(page.get_by_test_id("air-picture")).to_have_attribute("data-mode", "plan")
    await page.get_by_test_id("air-space").click()
    await expect(page.get_by_test_id("air-picture")).to_have_attribute("data-mode", "space")
    await expect(page.get_by_test_id("air-hint")).to_have_count(0)
    # Leaving frees the context, and coming back makes another.
    for _ in range(3):
        await page.get_by_test_id("tab-board").click()
        await open_view(page, "airspace")
        await drawn(page)
    await expect(page.get_by_test_id("air-picture")).to_have_attribute("data-mode", "space")


async def test_without_webgl_it_is_the_plan(room: MockRoom, open_page: OpenPage) -> None:
    scenes.shop(room.air)
    page = await open_page(script=NO_WEBGL)
    await open_view(page, "airspace")
    await expect(page.get_by_test_id("air-picture")).to_have_attribute("data-mode", "plan")
    await page.get_by_test_id("air-space").click()
    await expect(page.get_by_test_id("air-hint")).to_contain_text(
        "This browser has no WebGL. This is the plan."
    )
    await expect(page.get_by_test_id("air-picture")).to_have_attribute("data-mode", "plan")
    await page.get_by_test_id("air-agent-CLAUDE").click()
    await expect(page.get_by_test_id("pick-agent")).to_be_visible()


async def test_three_is_loaded_only_for_space(room: MockRoom, open_page: OpenPage) -> None:
    scenes.shop(room.air)
    page = await open_page(script=NO_WEBGL)
    loaded: list[str] = []
    page.on("request", lambda request: loaded.append(request.url))
    await fly(page)
    assert any("/assets/view-" in url for url in loaded)
    assert not any("/assets/space-" in url for url in loaded)
    await page.get_by_test_id("air-space").click()
    await expect(page.get_by_test_id("air-hint")).to_be_visible()
    assert any("/assets/space-" in url for url in loaded)


async def test_the_past_is_replayed(room: MockRoom, open_page: OpenPage) -> None:
    scenes.shop(room.air)
    page = await open_page()
    await fly(page)
    clock, near = page.get_by_test_id("air-clock"), page.get_by_test_id("air-near")
    slider = page.get_by_test_id("air-slider")
    await expect(clock).to_contain_text("live")
    await expect(near).to_contain_text("CLAUDE ↔ CODEX resolution 0.94")
    now = await marker(page, "GEMINI")
    then = int((datetime.now(UTC) - timedelta(minutes=67)).timestamp() * 1000)
    await slider.evaluate(
        "(it, at) => { it.value = at; it.dispatchEvent(new Event('input', { bubbles: true })); }", then
    )
    await expect(clock).not_to_contain_text("live")
    await expect(near).to_contain_text("CLAUDE ↔ GEMINI resolution 0.82")
    # The counts stay those of the present, and say so.
    await expect(page.get_by_test_id("air-counts")).to_have_text(re.compile("^now: 5 agents"))
    await expect(near).not_to_contain_text("CODEX")
    await page.evaluate(AT_REST)
    assert await marker(page, "GEMINI") != now
    # What is told meanwhile does not pull the reader back.
    room.air.tick(cloud=False)
    await page.get_by_test_id("air-table").click()
    await expect(page.get_by_test_id("air-links")).to_contain_text("0.82")
    await page.get_by_test_id("air-plan").click()
    before = await clock.inner_text()
    await page.get_by_role("button", name="Play").click()
    await expect(clock).not_to_have_text(before)
    await page.get_by_role("button", name="Pause").click()
    await page.get_by_test_id("air-live").click()
    await expect(clock).to_contain_text("live")
    await expect(near).to_contain_text("CLAUDE ↔ CODEX")
    await slider.focus()
    await page.keyboard.press("ArrowLeft")
    await expect(clock).not_to_contain_text("live")


async def test_files_that_are_not_parsed_are_counted_too(room: MockRoom, open_page: OpenPage) -> None:
    """The graph has the parsed files only: "2 files touched of 1" it said."""
    room.air.graph["files"] = 1
    room.air.fly("CLAUDE", {"README.md": [], "src/a.py": []})
    page = await open_page()
    await fly(page)
    await expect(page.get_by_test_id("air-counts")).to_have_text("1 agent · 0 pairs · 2 files touched")


async def test_all_of_it_stands_in_tables(room: MockRoom, open_page: OpenPage) -> None:
    scenes.shop(room.air)
    page = await open_page()
    await fly(page)
    # Beside the picture for readers of the screen, and in its place for everybody.
    await expect(page.get_by_role("table", name="Agents now")).to_have_count(1)
    await page.get_by_test_id("air-table").click()
    agents, links = page.get_by_test_id("air-agents"), page.get_by_test_id("air-links")
    await expect(agents.get_by_role("row")).to_have_count(6)
    await expect(links.get_by_role("row")).to_have_count(5)
    await expect(links.get_by_role("row", name="CLAUDE ↔ CODEX")).to_contain_text("RA resolution")
    await expect(agents.get_by_role("row", name="ann person")).to_contain_text("clear CLAUDE")
    await links.get_by_role("button", name="CODEX ↔ QWEN").click()
    await expect(page.get_by_test_id("pick-link")).to_contain_text(
        "src/auth/session.py imports src/auth/token.py"
    )


async def test_the_list_follows_the_advisories(room: MockRoom, open_page: OpenPage) -> None:
    air = room.air
    air.fly("A", {"src/checkout/cart.py": []})
    air.fly("B", {"src/auth/login.py": []})
    page = await open_page()
    await fly(page)
    await expect(page.get_by_test_id("precision-none")).to_have_text("no outcome known yet")
    await expect(page.get_by_text("None yet. When two agents come near each other")).to_be_visible()
    evidence = [{"text": "both change lines 1-9 of src/checkout/cart.py"}]
    air.advise(new_advisory(1, ["A", "B"], "advisory", evidence=evidence))
    rows = page.get_by_test_id("advisories-open").get_by_test_id("advisory")
    await expect(rows).to_have_count(1)
    await expect(rows.first).to_contain_text("both change lines 1-9")
    await expect(page.get_by_test_id("tab-airspace")).to_contain_text("1")
    air.advise(air.advisories["adv-1"] | {"level": "resolution", "steer": ["B"], "hold": ["A"]})
    await expect(rows.first).to_have_attribute("data-level", "resolution")
    await expect(rows.first).to_contain_text("hold A · steer B")
    await rows.first.click()
    await expect(page.get_by_test_id("pick-advisory")).to_be_visible()
    closed = {"closed_at": datetime.now(UTC).isoformat(), "level": "clear", "outcome": True}
    traffic = air.precision | {"true": 1, "false": 2}
    ahead = {"true": 2, "false": 10, "open": 1}
    air.precision = air.precision | {"true": 1, "traffic": traffic, "lookahead": ahead}
    air.advise(air.advisories["adv-1"] | closed)
    air.tick(cloud=False)
    await expect(page.get_by_test_id("advisories-closed").get_by_test_id("advisory")).to_have_count(1)
    await expect(page.get_by_test_id("pick-advisory")).to_contain_text("True alarm")
    await expect(page.get_by_test_id("precision-resolution")).to_have_text("resolution: 1 of 1 true")
    await expect(page.get_by_test_id("precision-traffic")).to_have_text("traffic: 1 of 3 true")
    await expect(page.get_by_test_id("precision-look-ahead")).to_have_text("look-ahead: 2 of 12 true, 1 open")


async def test_a_person_decides_by_a_button(room: MockRoom, open_page: OpenPage) -> None:
    scenes.shop(room.air)
    update = {"name": "update", "agent": "CODEX", "label": "Ask CODEX to merge main into its branch"}
    stop = {"name": "stop", "agent": "CODEX", "label": "Stop CODEX"}
    first = {"name": "first", "agent": "CLAUDE", "label": "CLAUDE goes first"}
    offered = [one | {"command": f"/{one['name']} @{one['agent']}"} for one in (first, stop, update)]
    told = {"actions": offered[1:], "agents": ["CODEX"]} | {
        "set_back": [
            {
                "agent": "CODEX",
                "branch": "main",
                "said": "conflicts with main",
                "paths": ["src/cart.py"],
                "lines": {},
            }
        ]
    }
    room.air.advise(room.air.advisories["adv-1"] | told)
    meta = {"advisory": "adv-1", "level": "resolution", "actions": offered}
    room.say("RELAY", "CODEX does not merge into main now", "advisory", meta=meta, to=["CODEX"])
    page = await open_page()
    said = page.get_by_test_id("said-advisory")
    # What was offered then and cannot be decided any more is not shown.
    await expect(said.get_by_test_id("choices").get_by_role("button")).to_have_count(2)
    await said.get_by_role("button", name="Ask CODEX to merge main into its branch").click()
    await expect(page.get_by_test_id("toast")).to_contain_text("CODEX was asked.")
    await said.get_by_test_id("show-in-airspace").click()
    panel = page.get_by_test_id("pick-advisory")
    await expect(panel.get_by_test_id("set-back")).to_contain_text("CODEX does not merge into main now")
    await panel.get_by_role("button", name="Stop CODEX").click()
    await expect(page.get_by_test_id("toast").nth(1)).to_contain_text("CODEX was asked.")
    assert room.air.said == [("update", "CODEX"), ("stop", "CODEX")]
    room.air.advise(room.air.advisories["adv-1"] | {"closed_at": room.air.state()["at"], "level": "clear"})
    await expect(said.get_by_test_id("choices")).to_have_count(0)


async def test_the_rest_of_the_page_knows_of_it(room: MockRoom, open_page: OpenPage) -> None:
    scenes.shop(room.air)
    scenes.trees(room.air)
    room.task("Grace period", "in_progress", assignee="CODEX")
    room.task("Something else", "in_progress", assignee="GEMINI")
    words = "both change lines 44-51 of src/checkout/session.py; HOLD: CLAUDE, STEER: CODEX"
    meta = {"advisory": "adv-1", "level": "resolution"}
    room.say("RELAY", words, "advisory", meta=meta, to=["CLAUDE", "CODEX"])
    page = await open_page()
    said = page.get_by_test_id("said-advisory")
    await expect(said).to_contain_text("CLAUDE↔ CODEX")
    await expect(said).to_contain_text("HOLD: CLAUDE")
    await said.get_by_test_id("show-in-airspace").click()
    await expect(page.get_by_test_id("pick-advisory")).to_contain_text("for CODEX")
    await page.get_by_test_id("tab-board").click()
    badge = page.get_by_test_id("near-badge")
    await expect(badge).to_have_count(1)
    await expect(badge).to_contain_text("collides with CLAUDE")
    await page.get_by_test_id("agent-CODEX").click()
    whereabouts = page.get_by_test_id("agent-panel").get_by_test_id("whereabouts")
    await expect(whereabouts).to_contain_text("relay/codex 5 files +88 −41")
    await expect(whereabouts).to_contain_text("CLAUDE 0.94")
    await badge.click()
    await expect(page.get_by_test_id("pick-advisory")).to_be_visible()


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({"missing": "No repository is configured."}, "No repository is configured. Set workspace.repo."),
        ({"enabled": False}, "The airspace is switched off"),
        ({}, "Nobody is at work here."),
        (
            {"graph": {"files": 12, "edges": 0, "failed": ["a.py"], "building": True}},
            "is being built (12 files so far)",
        ),
    ],
)
async def test_what_is_missing_is_explained(
    room: MockRoom, open_page: OpenPage, state: dict[str, object], words: str
) -> None:
    for key, value in state.items():
        setattr(room.air, key, value)
    page = await open_page()
    await open_view(page, "airspace")
    await expect(page.get_by_role("region", name="Airspace")).to_contain_text(words)


async def test_one_agent_is_alone(room: MockRoom, open_page: OpenPage) -> None:
    room.air.fly("A", {"src/checkout/cart.py": []})
    page = await open_page()
    await open_view(page, "airspace")
    await expect(page.get_by_test_id("air-hint")).to_contain_text("There is only one agent")


async def test_who_is_not_installed_and_has_nothing_is_not_drawn(room: MockRoom, open_page: OpenPage) -> None:
    next(one for one in room.agents if one["name"] == "CODEX")["installed"] = False
    room.air.fly("CODEX", {})
    page = await open_page()
    await open_view(page, "airspace")
    sky = page.get_by_role("region", name="Airspace")
    await expect(sky).to_contain_text("Nobody is at work here. This shows who works where in the code")
    await expect(sky).to_contain_text("CODEX is not installed.")
    await expect(sky.locator(".air-label")).to_have_count(0)
    await expect(page.get_by_test_id("air-counts")).to_have_text("0 agents · 0 pairs")


async def test_what_comes_from_outside_is_text(room: MockRoom, open_page: OpenPage) -> None:
    hostile = "<img src=x onerror=window.hacked=1>"
    air = room.air
    air.cloud = {f"{hostile}/a.py": [0, 0, 0], "b.py": [1, 1, 0]}
    air.fly(hostile, {f"{hostile}/a.py": []})
    air.fly("B", {"b.py": []})
    air.links = [new_link("B", hostile, 0.9, "resolution", **{hostile: reading(0.9, 1.0, {"text": hostile})})]
    air.advise(new_advisory(1, ["B", hostile], "resolution", evidence=[{"text": hostile}], reason=hostile))
    page = await open_page()
    await fly(page)
    await page.get_by_test_id("air-agent-B").click()
    await expect(page.get_by_test_id("pick-agent")).to_contain_text(hostile)
    await page.get_by_test_id("advisory").click()
    await expect(page.get_by_test_id("pick-advisory")).to_contain_text(hostile)
    await page.get_by_test_id("air-table").click()
    await expect(page.get_by_test_id("air-agents")).to_contain_text(hostile)
    assert await page.evaluate("window.hacked") is None


async def test_on_a_phone_it_is_the_plan_and_scrolls(room: MockRoom, open_page: OpenPage) -> None:
    scenes.shop(room.air)
    page = await open_page(size=(360, 740))
    await open_view(page, "airspace")
    await expect(page.get_by_test_id("air-picture")).to_have_attribute("data-mode", "plan")
    await page.get_by_test_id("air-agent-CODEX").click()
    heading = page.get_by_test_id("pick-agent").get_by_role("heading", name="CODEX")
    await expect(heading).to_be_in_viewport()
    assert await page.evaluate("document.documentElement.scrollWidth") == 360


async def test_the_words_of_the_field_are_explained_where_they_stand(
    room: MockRoom, open_page: OpenPage
) -> None:
    scenes.shop(room.air)
    page = await open_page()
    await fly(page)
    tooltip = page.locator(".tooltip.on")
    # Beside the picture, where the list is made of buttons: on hover.
    await page.get_by_test_id("advisories-open").locator(".level").first.hover()
    await expect(tooltip).to_contain_text("Resolution advisory: the changes of two agents collide")
    # What slides under the pointer while it rests was not asked about, until the pointer moves.
    await page.evaluate(
        """() => {
          const other = document.createElement("div");
          other.dataset.tip = "Something else";
          other.id = "slid";
          other.style = "position: fixed; inset: 0; z-index: 99";
          document.body.append(other);
        }"""
    )
    await expect(tooltip).to_have_count(0)
    await page.wait_for_timeout(600)
    await expect(tooltip).to_have_count(0)
    await page.mouse.move(0, 0)
    await page.evaluate("document.getElementById('slid').remove()")
    # In the panel: by the keyboard and by a finger, and a screen reader is told it.
    await page.get_by_test_id("advisory").first.click()
    panel = page.get_by_test_id("pick-advisory")
    steer = panel.get_by_test_id("term-steer").first
    await expect(steer).to_have_text("STEER")
    await expect(steer).to_have_accessible_description(re.compile("^Steer: this agent stops changing"))
    await panel.get_by_test_id("term-hold").first.focus()
    await page.keyboard.press("Tab")
    await expect(steer).to_be_focused()
    await expect(tooltip).to_contain_text("Steer: this agent stops")
    await panel.get_by_test_id("term-risk").click()
    await expect(tooltip).to_contain_text("from 0 (not at all) to 1")
    await page.get_by_test_id("air-picture").focus()
    await page.keyboard.press("?")
    words = page.get_by_test_id("words")
    for word in ("RA", "TA", "HOLD", "STEER", "one attempt", "lease", "fencing token", "lane"):
        await expect(words.locator("dt", has_text=re.compile(f"^{word}$"))).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_an_agent_whose_machine_is_away_is_marked(
    room: MockRoom, open_drawing: OpenPage, scheme: str
) -> None:
    scenes.shop(room.air)
    room.air.away = {
        "GEMINI": {"member": "laptop", "away": True},
        "QWEN": {"member": "tower", "away": False},
    }
    page = await open_drawing(scheme=scheme)
    await fly(page)
    gemini, qwen = page.get_by_test_id("air-agent-GEMINI"), page.get_by_test_id("air-agent-QWEN")
    await expect(gemini).to_have_attribute("aria-label", "GEMINI away, agent, clear")
    await expect(gemini).to_contain_text("away")
    await expect(qwen).not_to_contain_text("away")
    await shot(page, f"airspace-away-{scheme}")
    await page.get_by_test_id("air-table").click()
    rows = page.get_by_test_id("air-agents").locator("tbody tr")
    await expect(rows.filter(has_text="GEMINI")).to_contain_text("away with laptop")
    # It is back.
    room.air.away = {}
    room.air.tick()
    await expect(rows.filter(has_text="laptop")).to_have_count(0)
    await page.get_by_test_id("air-plan").click()
    await expect(gemini).to_have_attribute("aria-label", "GEMINI, agent, clear")
