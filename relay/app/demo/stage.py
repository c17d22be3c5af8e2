"""A throw-away room for the demo: a codebase, a configuration, a real daemon, and the requests to it.

Invariant: what a stage starts it ends, however the demo ends; nothing is written outside of its folder.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from relay.app.runtime import stop
from relay.config.loading import load
from relay.config.settings import Settings

Json = dict[str, Any]
#: Seconds until the room must answer, and that any one scene may take on a slow machine.
START_S = 60.0
SCENE_S = 120.0
LOOK_S = 0.2
#: Seconds that a room gets to end when it is told to.
END_S = 8.0


#: The person in the demo.
YOU = "you"


class DemoError(Exception):
    """The demo cannot go on; the message says why."""


def commit_codebase(code: Path, files: Mapping[str, str]) -> None:
    """A repository with these files on its main branch. Blocks. Raises DemoError."""
    for name, text in files.items():
        (code / name).parent.mkdir(parents=True, exist_ok=True)
        (code / name).write_text(text)
    quiet = ["-c", "core.hooksPath=/dev/null", "-c", "commit.gpgSign=false"]
    # For later merges, too: where git knows no name, each of them would end with a warning.
    steps = (
        ["init", "-q", "-b", "main"],
        ["config", "user.name", "demo"],
        ["config", "user.email", "demo@relay"],
        # Where main has been is read from its log, whatever the user's own configuration says of it.
        ["config", "core.logAllRefUpdates", "true"],
        ["add", "."],
        ["commit", "-qm", "The shop"],
    )
    for words in steps:
        ran = subprocess.run(["git", *quiet, *words], cwd=code, capture_output=True, check=False)
        if ran.returncode:
            raise DemoError(f"git {words[0]} failed: {ran.stderr.decode(errors='replace').strip()}")


def build(
    folder: Path,
    files: Mapping[str, str],
    agents: Sequence[Json],
    *,
    airspace: bool,
    port: int,
    tick_s: float = 0.5,
    **more: Any,
) -> Path:
    """Make the codebase and the room's configuration (`configure`); gives the configuration's path. Blocks."""
    commit_codebase(folder / "code", files)
    return configure(folder, agents, airspace=airspace, port=port, tick_s=tick_s, **more)


def configure(
    folder: Path, agents: Sequence[Json], *, airspace: bool, port: int, tick_s: float = 0.5, **more: Any
) -> Path:
    """Make the configuration of a room whose codebase is in `folder`/code, `more` of it too; gives its path.
    `tick_s`: of the airspace. Blocks."""
    settings = {
        "agents": list(agents),
        "workspace": {"repo": "code"},
        "ui": {"port": port},
        "dispatcher": {"enabled": False},
        "jitter": {"busy_s": 0, "medium_s": 0, "quiet_s": 0},
        "room": {"name": "demo"},
        "stop": {"drain_s": 2},
        # What the story tells is what git's own merge would meet.
        "merge": {"ladder": "git"},
        "airspace": {
            "enabled": airspace,
            "tick_s": tick_s,
            "cooldown_s": 5,
            "answer_s": 30,
            "steer_s": 10,
            "interrupt_s": 5,
        },
        **more,
    }
    path = folder / "config.json"
    path.write_text(json.dumps(settings, indent=2) + "\n")
    return path


def player(name: str, pace_s: float, *words: str) -> Json:
    """The configuration of an agent that this demo plays, with more `words` for its program."""
    program = [sys.executable, "-P", "-m", "relay.app.demo.agent", "--pace", str(pace_s)]
    return {"name": name, "kind": "command", "cmd": [*program, *words], "env_pass": ["PYTHONPATH"]}


class Stage:
    """The running room, asked over HTTP and its WebSocket only."""

    def __init__(self, settings: Settings, url: str, http: aiohttp.ClientSession) -> None:
        self.settings, self.url, self._http = settings, url, http

    async def get(self, path: str) -> Json:
        reply: Json = await self._request("GET", path)
        return reply

    async def listed(self, path: str) -> list[Json]:
        """What is answered as a list."""
        reply: list[Json] = await self._request("GET", path)
        return reply

    async def post(self, path: str, body: Json | None = None) -> Json:
        reply: Json = await self._request("POST", path, body or {})
        return reply

    async def _request(self, method: str, path: str, body: Json | None = None) -> Any:
        async with self._http.request(method, self.url + path, json=body) as answer:
            reply = await answer.json()
        if answer.status >= 400:
            raise DemoError(f"{path}: {reply.get('error', {}).get('message', answer.status)}")
        return reply

    async def ask(self, text: str) -> str:
        """Post as a person; gives the message's id."""
        posted = await self.post("/api/messages", {"body": text, "name": YOU})
        return str(posted["id"])

    async def order(self, text: str) -> str:
        """Give a command as a person; gives what the room answers."""
        message = await self.ask(text)
        async with self.limit(f"the room's answer to {text}"):
            while True:
                page = await self.get("/api/transcript?limit=100")
                for entry in page["entries"]:
                    if entry["in_reply_to"] == message and entry["speaker"] == "RELAY":
                        return str(entry["body"])
                await asyncio.sleep(LOOK_S)

    async def frames(self) -> AsyncIterator[Json]:
        """What the room tells from its begin on, in the order of its log, for ever (docs/http.md, "WebSocket")."""
        async with self._http.ws_connect(self.url + "/ws") as socket:
            await socket.send_json({"after": "0"})
            async for message in socket:
                yield message.json()

    async def quiet(self) -> None:
        """Wait until no agent works and nothing waits for one."""
        calm = 0
        async with self.limit("the agents to finish"):
            while calm < 5:
                answer = await self.get("/api/queue?limit=50")
                busy = [job for job in answer["jobs"] if job["state"] in ("pending", "active")]
                calm = 0 if busy else calm + 1
                await asyncio.sleep(LOOK_S)

    @asynccontextmanager
    async def limit(self, what: str) -> AsyncIterator[None]:
        """A demo that waits too long fails, and says what it waited for."""
        try:
            async with asyncio.timeout(SCENE_S):
                yield
        except TimeoutError:
            raise DemoError(
                f"waited {SCENE_S:g} s for {what}; {self.settings.log_file} has the details"
            ) from None


@asynccontextmanager
async def open_stage(path: Path, **more: str) -> AsyncIterator[Stage]:
    """Start the room of this configuration with `more` in its environment, and end it. Raises DemoError."""
    settings = load(path)
    settings.runtime_dir.mkdir(mode=0o700, exist_ok=True)
    words = [sys.executable, "-P", "-m", "relay.cli", "run", "--detached", "--config", str(path)]
    out = (path.parent / "daemon.out").open("wb")
    environ = {name: value for name, value in os.environ.items() if not name.startswith("RELAY_")}
    environ |= more
    child = await asyncio.create_subprocess_exec(
        *words, stdout=out, stderr=out, stdin=asyncio.subprocess.DEVNULL, env=environ, start_new_session=True
    )
    try:
        url = await _until_open(settings, child)
        key = settings.token_path.read_text().strip()
        async with aiohttp.ClientSession(headers={"X-API-Key": key}) as http:
            yield Stage(settings, url, http)
    finally:
        out.close()
        await _end(settings, child)


async def _until_open(settings: Settings, child: asyncio.subprocess.Process) -> str:
    give_up = time.monotonic() + START_S
    while time.monotonic() < give_up:
        with contextlib.suppress(OSError, ValueError):
            state = json.loads(settings.state_path.read_text())
            if state["pid"] == child.pid:
                return str(state["url"])
        if child.returncode is not None:
            output = (settings.folder / "daemon.out").read_text(errors="replace")[-2000:]
            raise DemoError(f"the room did not start:\n{output}")
        await asyncio.sleep(0.05)
    raise DemoError(f"the room did not start within {START_S:g} s; {settings.log_file} has the details")


async def _end(settings: Settings, child: asyncio.subprocess.Process) -> None:
    """End the room, also one that is only about to open and has no record yet. Not to be cancelled half-way."""
    ending = asyncio.ensure_future(_ended(settings, child))
    while not ending.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.shield(ending)
    ending.result()


async def _ended(settings: Settings, child: asyncio.subprocess.Process) -> None:
    if child.returncode is None and settings.lock_path.exists():
        await asyncio.to_thread(_stop_quietly, settings)
    await end_group(child, END_S)


async def end_group(child: asyncio.subprocess.Process, patience_s: float) -> None:
    """End a program with its group; one that has not ended after `patience_s` seconds is killed."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if child.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, number)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(child.wait(), patience_s)


def _stop_quietly(settings: Settings) -> None:
    with (
        Path(os.devnull).open("w") as nowhere,
        contextlib.redirect_stdout(nowhere),
        contextlib.suppress(stop.CannotStop),
    ):
        stop.stop(settings)
