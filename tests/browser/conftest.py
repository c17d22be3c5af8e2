"""A real daemon, a fake Ollama beside it, one Chromium, and the people who look at the page.

The daemon and the browser live as long as the session; every person has a browser context of their own and
comes in by a link that `POST /api/links` made, as `relay link` does. When a person leaves, the page must not
have thrown, and nothing may have been stopped by its content security policy.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, async_playwright

from tests.browser.person import ARGS, Person
from tests.fakes.ollama import FakeOllama, by_words, running
from tests.outside import REPO, Json, Outside, agent, program, room, settings

CLAUDE = r"""
- match: hang
  say: ["I have begun", "never"]
  pause_s: 600
- match: code
  tool: {name: Read, summary: Read src/clock.py}
  usage: {input_tokens: 1200, output_tokens: 34, cost_usd: 0.0123}
  say:
    - "Here:\n\n```python\ndef tick(n: int) -> int:\n    return n + 1\n```\n\n"
    - "[DECISION: ship it | OWNER: CODEX | BLOCKERS: none]"
- match: hostile
  say: |
    <img src=x onerror="window.hacked = 1"> <script>window.hacked = 2</script>
    [a link](javascript:window.hacked=3) [another](data:text/html,<script>window.hacked=4</script>)
    ![a picture](https://tracker.invalid/pixel.png) <svg/onload=window.hacked=5>
    <a href="#" onclick="window.hacked=6">click</a> <iframe srcdoc="<script>parent.hacked=7</script>"></iframe>
    `<b>code</b>` <style>body { display: none }</style> [x](vbscript:hacked) &lt;img onerror=1&gt;
- say: "{agent} heard {body}"
"""
#: Fails until somebody mends it.
FLAKY = """
import pathlib, sys
sys.stdin.read()
if not pathlib.Path("mended").exists():
    sys.exit("the disk of the model is full")
print("It works again.")
"""
#: Says the rest when it may.
SLOW = """
import pathlib, sys, time
sys.stdin.read()
print("First comes this, ", end="", flush=True)
while not pathlib.Path("go").exists():
    time.sleep(0.02)
print("then **that**.")
"""


def configuration(ollama: FakeOllama, **more: object) -> Json:
    return settings(
        agent("CLAUDE", "claude.yaml", model="opus", budget={"turns_per_hour": 500}),
        agent("CODEX"),
        program("FLAKY", "flaky.py"),
        program("SLOW", "slow.py"),
        {"name": "GHOST", "kind": "command", "cmd": ["no-such-program-here"]},
        dispatcher={"enabled": True, "ollama_host": ollama.url, "model": "llama3.2:latest"},
        queue={"max_attempts": 1},
        # Tests let FLAKY fail, each for itself.
        locks={"circuit_breaker": {"failure_threshold": 50}},
        **more,
    )


async def furnish(one: Outside) -> None:
    """The agents' files."""
    (one.folder / "claude.yaml").write_text(CLAUDE)
    (one.folder / "flaky.py").write_text(FLAKY)
    (one.folder / "slow.py").write_text(SLOW)


@pytest.fixture(scope="session")
def built_page() -> Path:
    index = REPO / "relay" / "faces" / "static" / "index.html"
    assert index.is_file(), "the page is not built: npm ci && npm run build in web/ (scripts/test.sh does it)"
    return index


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def chromium(built_page: Path) -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=os.environ.get("RELAY_CHROMIUM", "/usr/bin/chromium"),
            args=ARGS,
        )
        yield browser
        await browser.close()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def ollama() -> AsyncIterator[FakeOllama]:
    async with running() as fake:
        fake.decide = by_words
        yield fake


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def house(tmp_path_factory: pytest.TempPathFactory, ollama: FakeOllama) -> AsyncIterator[Outside]:
    """The room that most tests share; each leaves it as it found it."""
    async with room(tmp_path_factory.mktemp("browser") / "house", configuration(ollama)) as one:
        await furnish(one)
        await one.start()
        yield one


Come = Callable[..., Awaitable[Person]]


@pytest_asyncio.fixture(loop_scope="session")
async def come(chromium: Browser, house: Outside) -> AsyncIterator[Come]:
    """`await come("ann")`: a person in front of the page, signed in by a link, in the shared room."""
    here: list[Person] = []

    async def arrive(name: str = "ann", one: Outside = house, **context: object) -> Person:
        person = await Person.arrive(chromium, one, name, **context)
        here.append(person)
        return person

    yield arrive
    for person in here:
        await person.leave()


@pytest_asyncio.fixture(loop_scope="session")
async def ann(come: Come) -> Person:
    return await come("ann")
