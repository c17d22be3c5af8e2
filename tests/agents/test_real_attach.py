"""The real Claude Code and Codex, as a person runs them in a terminal, in an attached checkout: who is here, what
they are told, and how they are woken."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.fakes.llm import FakeService
from tests.git.repository import git
from tests.outside import Outside, eventually, room, settings

pytestmark = pytest.mark.real_agents
KEY = "sk-ant-none-of-the-real-ones"
SETTINGS = ".claude/settings.local.json"
OWN = json.dumps({"permissions": {"allow": ["Bash"]}}, indent=2) + "\n"
WITHIN_S = 90.0


class Terminal:
    """Windows of one tmux server of the test's own."""

    def __init__(self, name: str) -> None:
        self._tmux = ("tmux", "-L", name, "-f", os.devnull)
        #: Variables of each window's program.
        self.env: dict[str, str] = {}

    def open(self, window: str, folder: Path, *words: str) -> None:
        given = [f"{key}={value}" for key, value in self.env.items()]
        size = ("-x", "150", "-y", "50")
        self._run("new-session", "-d", "-s", window, *size, "-c", str(folder), "env", *given, *words)

    def shown(self, window: str) -> str:
        return self._run("capture-pane", "-p", "-t", window)

    def close(self, window: str) -> None:
        self._run("kill-session", "-t", window)

    def end(self) -> None:
        subprocess.run([*self._tmux, "kill-server"], check=False, capture_output=True)

    def _run(self, *words: str) -> str:
        return subprocess.run([*self._tmux, *words], check=True, capture_output=True, text=True).stdout


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not installed")
    one = Terminal(f"relay-{os.getpid()}")
    yield one
    one.end()


async def members(one: Outside) -> dict[str, dict[str, Any]]:
    told = await one.get("/sessions")
    return {entry["agent_id"]: entry["attached"] for entry in told if entry["attached"]}


def repository(one: Outside) -> None:
    git(one.folder, "init", "-q", "-b", "main")
    git(one.folder, "config", "user.name", "Ada")
    git(one.folder, "config", "user.email", "ada@example.org")
    git(one.folder, "add", "echo.yaml")
    git(one.folder, "commit", "-qm", "first")


async def test_a_persons_claude_is_in_the_room_hears_it_and_is_woken(
    real_programs: Path, terminal: Terminal, tmp_path: Path
) -> None:
    async with room(tmp_path / "code", settings()) as one, FakeService().serve() as service:
        repository(one)
        (one.folder / SETTINGS).parent.mkdir()
        (one.folder / SETTINGS).write_text(OWN)
        assert (await one.relay("attach", "claude", "--yes")).code == 0
        await one.start()
        home = tmp_path / "home"
        home.mkdir()
        trusted = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
        known = {
            "hasCompletedOnboarding": True,
            "theme": "dark",
            "customApiKeyResponses": {"approved": [KEY[-20:]], "rejected": []},
            "projects": {str(one.folder.resolve()): trusted},
        }
        (home / ".claude.json").write_text(json.dumps(known))
        terminal.env = {
            **one.environ(),
            "HOME": str(home),
            "ANTHROPIC_BASE_URL": service.url,
            "ANTHROPIC_API_KEY": KEY,
            "DISABLE_AUTOUPDATER": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        }
        go = tmp_path / "go"
        # A tool that runs until the test has said something in the room.
        service.call = ("Bash", {"command": f"until [ -e {go} ]; do sleep 0.1; done", "description": "wait"})
        terminal.open("first", one.folder, str(real_programs / "claude"), "go on")

        async def until(state: str, name: str = "Ada-claude", tool: str | None = None) -> None:
            async def look() -> bool:
                told = (await members(one)).get(name, {})
                return told.get("state") == state and tool in (None, told.get("tool"))

            try:
                await eventually(look, f"{name} is {state}", within_s=WITHIN_S)
            except AssertionError as error:
                raise AssertionError(f"{error}\n{await members(one)}\n{terminal.shown('first')}") from None

        async def until_asked(text: str) -> None:
            async def look() -> bool:
                return any(text in request for request in service.requests)

            await eventually(look, f"the model reads {text!r}", within_s=WITHIN_S)

        await until("working", tool="Bash")
        assert any("You are Ada-claude" in request for request in service.requests)
        posted = await one.post("@Ada-claude turn left")
        go.touch()
        await until_asked("turn left")
        job = await one.until_job(posted["id"], "Ada-claude", "done")
        assert job["heard_after"] == "Bash"
        assert (await one.reply_to(posted["id"], "Ada-claude"))["body"] == "Hello there."

        # It is idle: a person who names it wakes it.
        await until("idle")
        woken = await one.post("@Ada-claude are you awake?")
        await until_asked("are you awake?")
        assert (await one.reply_to(woken["id"], "Ada-claude"))["body"] == "Hello there."
        for text in ("turn left", "are you awake?"):
            # Once: in the requests that follow it stands in the history, and no second time.
            assert service.requests[-1].count(text) == 1, text

        terminal.open("second", one.folder, str(real_programs / "claude"), "you too")
        await until("idle", "Ada-claude-2")
        terminal.close("second")
        terminal.close("first")

        async def empty() -> bool:
            return not await members(one)

        await eventually(empty, "both are gone", within_s=WITHIN_S)
        assert (await one.relay("detach")).code == 0
        assert (one.folder / SETTINGS).read_text() == OWN


@pytest.fixture
def codex_home() -> Iterator[Path]:
    """Codex keeps a server of its own for all windows of one home, which stays when they are closed."""
    with tempfile.TemporaryDirectory(prefix="relay-codex-", dir=Path.home()) as home:
        yield Path(home)
        for process in psutil.process_iter(["exe"]):
            if str(process.info["exe"] or "").startswith(home):
                with suppress(psutil.Error):
                    process.kill()
                    process.wait(30)


async def test_a_persons_codex_is_in_the_room_and_is_woken(
    real_programs: Path, terminal: Terminal, tmp_path: Path, codex_home: Path
) -> None:
    async with room(tmp_path / "code", settings()) as one, FakeService().serve() as service:
        one.env |= {"CODEX_HOME": str(codex_home), "PATH": f"{real_programs}:{os.environ['PATH']}"}
        repository(one)
        (codex_home / "config.toml").write_text(
            f'openai_base_url = "{service.url}/v1"\n'
            f'[projects."{one.folder.resolve()}"]\ntrust_level = "trusted"\n'
        )
        signed = await asyncio.create_subprocess_exec(
            *(str(real_programs / "codex"), "login", "--with-api-key"),
            env=one.environ(),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        await signed.communicate(b"sk-none")
        attached = await one.relay("attach", "codex", "--yes")
        assert attached.code == 0 and "Codex trusts them" in attached.out, attached.all
        await one.start()
        terminal.env = one.environ()
        terminal.open("first", one.folder, str(real_programs / "codex"), "say hello")

        async def idle() -> bool:
            return (await members(one)).get("Ada-codex", {}).get("state") == "idle"

        try:
            await eventually(idle, "Ada-codex is idle", within_s=WITHIN_S)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{terminal.shown('first')}") from None

        async def greeted() -> bool:
            # Its start is a hook of its first prompt, so it may be idle once before that is asked.
            return any("You are Ada-codex" in request for request in service.requests) and await idle()

        await eventually(greeted, "the model reads who it is", within_s=WITHIN_S)
        woken = await one.post("@Ada-codex are you awake?")
        assert (await one.reply_to(woken["id"], "Ada-codex"))["body"] == "Hello there."
        # Codex asks the model for other things too, as a title.
        assert max(request.count("are you awake?") for request in service.requests) == 1
        terminal.close("first")
