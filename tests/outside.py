"""A whole room as a person outside has it: a folder with a configuration, a real daemon, its interfaces and files.

Nothing here looks inside the daemon: it goes by what docs/http.md and the runtime folder's files say. The
folder is laid out like a clone that was set up (`stop.sh`, `healthcheck.sh`, `.venv/bin/python`), so the
scripts run as they are.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import aiohttp
import psutil

from relay.app.guard.git_hook import MARKS
from tests.forked import Forked, fork

REPO = Path(__file__).resolve().parents[1]
#: Seconds that anything may take on a loaded machine before a test says that it does not come.
PATIENCE_S = 60.0

Json = dict[str, Any]

#: A scripted agent that repeats the words of the form tok-... that it was asked with.
ECHO = '- say: "{agent} heard {body}"\n'


def agent(name: str, script: str = "echo.yaml", **more: Any) -> Json:
    """A scripted agent of the configuration."""
    return {"name": name, "kind": "scripted", "script": script, **more}


def program(name: str, *words: str, **more: Any) -> Json:
    """A command agent of the configuration: a Python program in the room's folder."""
    return {"name": name, "kind": "command", "cmd": [sys.executable, *words], "cwd": ".", **more}


def settings(*agents: Json, **more: Any) -> Json:
    """A configuration that waits for nobody: no dispatcher, no jitter, short backoff, any port."""
    base: Json = {
        "agents": list(agents),
        "ui": {"port": 0},
        "dispatcher": {"enabled": False},
        "jitter": {"busy_s": 0, "medium_s": 0, "quiet_s": 0},
        "queue": {"backoff_s": 0.1, "backoff_max_s": 0.5},
        "stop": {"drain_s": 2},
    }
    for key, value in more.items():
        base[key] = {**base[key], **value} if isinstance(base.get(key), dict) else value
    return base


async def eventually(
    look: Callable[[], Awaitable[Any]], what: str, *, within_s: float = PATIENCE_S, every_s: float = 0.1
) -> Any:
    """What `look` gives as soon as it is true; AssertionError with the last thing seen when it never is."""
    give_up = time.monotonic() + within_s
    while True:
        seen = await look()
        if seen:
            return seen
        assert time.monotonic() < give_up, f"{what}: not within {within_s:g} s"
        await asyncio.sleep(every_s)


@dataclass(frozen=True, slots=True)
class Ran:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def all(self) -> str:
        return self.out + self.err


class Outside:
    """One room. `start` and `kill` may be called as often as wanted; `end` leaves nothing behind."""

    def __init__(self, folder: Path, configuration: Json) -> None:
        #: Variables of every process of this room: where its database is, for example.
        self.env: dict[str, str] = {}
        self.folder = folder
        self.path = folder / "config.json"
        self.runtime = folder / ".relay"
        self.transcript = self.runtime / "transcript.log"
        self.process: subprocess.Popen[bytes] | Forked | None = None
        self._said = folder / "daemon.out"
        self._session: aiohttp.ClientSession | None = None
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "echo.yaml").write_text(ECHO)
        self.configure(configuration)
        python = folder / ".venv" / "bin" / "python"
        if not python.exists():
            python.parent.mkdir(parents=True)
            python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
            python.chmod(0o755)
            for script in ("stop.sh", "healthcheck.sh"):
                shutil.copy(REPO / script, folder / script)

    # -- the configuration and the processes

    def configure(self, configuration: Json | str) -> None:
        """Write config.json, as an editor that saves by replacing does."""
        text = configuration if isinstance(configuration, str) else json.dumps(configuration, indent=2)
        new = self.path.with_suffix(".new")
        new.write_text(text)
        new.replace(self.path)

    def environ(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """The environment of a person's shell without anything of relay's in it."""
        marks = {mark for mark, _ in MARKS}
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("RELAY_") and name not in marks
        }
        return {**kept, "PYTHONPATH": str(REPO), **self.env, **(more or {})}

    def launch(
        self, *, words: Sequence[str] = (), env: Mapping[str, str] | None = None, detached: bool = True
    ) -> subprocess.Popen[bytes] | Forked:
        """Start a daemon without waiting for it. `words` stand before it (`prlimit ...`)."""
        command = ["run", "--detached" if detached else "--foreground", "--config", str(self.path)]
        environ = self.environ(env)
        process: subprocess.Popen[bytes] | Forked | None = None
        with self._said.open("ab") as said:
            if detached and not words:
                process = fork(command, self.folder, environ, said.fileno(), said.fileno())
            if process is None:
                process = subprocess.Popen(
                    [*words, sys.executable, "-m", "relay.cli", *command],
                    cwd=self.folder,
                    env=environ,
                    stdin=subprocess.DEVNULL,
                    stdout=said,
                    stderr=said,
                    start_new_session=True,
                )
        self.process = process
        return process

    async def start(self, **how: Any) -> None:
        """Start the daemon and wait until it answers over HTTP."""
        self.launch(**how)
        await self.until_open()

    def state_file(self) -> Json | None:
        """`.relay/state.json`, None when there is none."""
        try:
            told: Json = json.loads((self.runtime / "state.json").read_text())
        except (OSError, ValueError):
            return None
        return told

    def is_open(self) -> bool:
        """Does the state file speak of the daemon that was started last?"""
        told, process = self.state_file(), self.process
        return told is not None and process is not None and told["pid"] == process.pid

    async def until_open(self, within_s: float = PATIENCE_S) -> None:
        async def look() -> bool:
            process = self.process
            assert process is not None
            assert process.poll() is None, f"the daemon ended with {process.returncode}:\n{self.said()}"
            return self.is_open()

        await eventually(look, "the daemon's HTTP", within_s=within_s, every_s=0.02)

    def kill(self) -> None:
        """SIGKILL to the daemon alone, as `kill -9` does."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(PATIENCE_S)

    def said(self) -> str:
        """The end of what the daemon printed and logged."""
        texts = []
        for path in (self._said, self.runtime / "relay.log"):
            with suppress(OSError):
                texts.append(path.read_text(errors="replace")[-4000:])
        return "\n".join(texts)

    def log_lines(self) -> list[Json]:
        """The daemon's log."""
        text = (self.runtime / "relay.log").read_text(errors="replace")
        return [json.loads(line) for line in text.splitlines() if line.startswith("{")]

    async def run(self, *words: str, env: Mapping[str, str] | None = None) -> Ran:
        """A command in the room's folder."""
        if words[:3] == (sys.executable, "-m", "relay.cli"):
            with TemporaryFile() as out, TemporaryFile() as err:
                fds = (out.fileno(), err.fileno())
                if forked := fork(words[3:], self.folder, self.environ(env), *fds):
                    code = await asyncio.to_thread(forked.wait, 2 * PATIENCE_S)
                    return Ran(code, *(os.pread(fd, os.fstat(fd).st_size, 0).decode() for fd in fds))
        process = await asyncio.create_subprocess_exec(
            *words,
            cwd=self.folder,
            env=self.environ(env),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(2 * PATIENCE_S):
            out, err = await process.communicate()
        assert process.returncode is not None
        return Ran(process.returncode, out.decode(), err.decode())

    async def relay(self, command: str, *words: str) -> Ran:
        """`relay COMMAND --config ... WORDS`."""
        return await self.run(sys.executable, "-m", "relay.cli", command, "--config", str(self.path), *words)

    async def script(self, name: str, *words: str) -> Ran:
        """`bash stop.sh` or `bash healthcheck.sh` of this folder."""
        return await self.run("bash", name, *words)

    async def end(self) -> None:
        """Leave nothing behind, however the test went."""
        if self._session is not None:
            await self._session.close()
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            try:
                await asyncio.to_thread(self.process.wait, 20)
            except subprocess.TimeoutExpired:
                self.kill()
        told = self.state_file()
        if told is not None and psutil.pid_exists(told["pid"]):
            with suppress(psutil.Error):
                process = psutil.Process(told["pid"])
                if str(self.path) in process.cmdline():
                    process.kill()
        for left in self.agent_processes():
            with suppress(psutil.Error):
                left.kill()

    # -- what runs

    def agent_processes(self, name: str | None = None) -> list[psutil.Process]:
        """Living processes that carry this room's configuration and an agent's name in their environment."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error, OSError):
                environ = process.environ()
                who = environ.get("RELAY_AGENT_ID")
                ours = who and environ.get("RELAY_CONFIG") == str(self.path)
                if ours and (name is None or who == name) and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found

    # -- HTTP

    @property
    def url(self) -> str:
        told = self.state_file()
        if told is None:
            raise ConnectionRefusedError("the room has no address now")
        return str(told["url"])

    @property
    def token(self) -> str:
        return (self.runtime / "token").read_text().strip()

    @property
    def session(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=PATIENCE_S))
        return self._session

    async def ask(self, method: str, path: str, **more: Any) -> tuple[int, Any]:
        """A request with the room's token."""
        async with self.session.request(
            method, f"{self.url}{path}", headers={"X-API-Key": self.token}, **more
        ) as answer:
            return answer.status, await answer.json()

    async def get(self, path: str) -> Any:
        status, told = await self.ask("GET", path)
        assert status == 200, (path, status, told)
        return told

    async def post(self, body: str, name: str = "ann", **more: Any) -> Json:
        """A message; its `{id, cursor, number}`."""
        status, told = await self.ask("POST", "/api/messages", json={"body": body, "name": name, **more})
        assert status == 201, (status, told)
        posted: Json = told
        return posted

    async def post_stubbornly(self, body: str, name: str) -> str:
        """As a program does that must not lose a message: the same client_id until it is acknowledged."""
        client_id = str(uuid.uuid4())
        give_up = time.monotonic() + 2 * PATIENCE_S
        while True:
            with suppress(aiohttp.ClientError, ConnectionError, TimeoutError, OSError, ValueError):
                status, told = await self.ask(
                    "POST", "/api/messages", json={"body": body, "name": name, "client_id": client_id}
                )
                if status == 201:
                    return str(told["id"])
                assert status == 503, (status, told)
            assert time.monotonic() < give_up, "nobody takes the message"
            await asyncio.sleep(0.05)

    async def entries(self) -> list[Json]:
        """Every entry of the room, oldest first."""
        found: list[Json] = []
        after = "0"
        while True:
            page = await self.get(f"/api/transcript?after={after}&limit=1000")
            found += page["entries"]
            if not page["entries"]:
                return found
            after = page["next"]

    async def jobs(self) -> list[Json]:
        jobs: list[Json] = (await self.get("/api/queue?limit=1000"))["jobs"]
        return jobs

    async def agent(self, name: str) -> Json:
        """An agent as the state shows it."""
        agents: list[Json] = (await self.get("/api/state"))["agents"]
        return next(one for one in agents if one["name"] == name)

    async def until_said(
        self, pattern: str, *, speaker: str | None = None, within_s: float = PATIENCE_S
    ) -> Json:
        """The first entry whose body matches."""

        async def look() -> Json | None:
            for one in await self.entries():
                if speaker in (None, one["speaker"]) and re.search(pattern, one["body"]):
                    return one
            return None

        found: Json = await eventually(look, f"an entry {pattern!r} by {speaker}", within_s=within_s)
        return found

    async def reply_to(self, message: str, speaker: str | None = None) -> Json:
        """The first entry in reply to a message."""

        async def look() -> Json | None:
            for one in await self.entries():
                if one["in_reply_to"] == message and speaker in (None, one["speaker"]):
                    return one
            return None

        found: Json = await eventually(look, f"{speaker}'s reply to {message}")
        return found

    async def until_job(self, message: str, name: str, *states: str) -> Json:
        """The job of an agent for a message, once it is in one of these states."""

        async def look() -> Json | None:
            for job in await self.jobs():
                if job["message_id"] == message and job["agent"] == name and job["state"] in states:
                    return job
            return None

        found: Json = await eventually(look, f"{name}'s job {' or '.join(states)}")
        return found

    # -- the file

    def echo(self, line: str) -> None:
        """`echo 'LINE' >> transcript.log`."""
        with self.transcript.open("ab") as file:
            file.write(line.encode() + b"\n")

    def file_lines(self) -> list[tuple[str, Json | str]]:
        """(tag, JSON or plain text) of each line of the transcript."""
        found: list[tuple[str, Json | str]] = []
        for line in self.transcript.read_bytes().split(b"\n"):
            match = re.fullmatch(r"\[([^\]]+)\] (.*)", line.decode("utf-8", "replace"))
            if match is None:
                assert not line.strip(), f"a torn line: {line[:200]!r}"
                continue
            text: Json | str = match[2]
            if match[2].startswith("{"):
                text = json.loads(match[2])
            found.append((match[1], text))
        return found

    @asynccontextmanager
    async def socket(self, after: str | None) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        """The room's WebSocket from a cursor on; the hello has not been read yet."""
        async with self.session.ws_connect(
            f"{self.url}/ws", headers={"X-API-Key": self.token}, max_msg_size=0
        ) as socket:
            await socket.send_json({"after": after})
            yield socket


@asynccontextmanager
async def room(folder: Path, configuration: Json) -> AsyncIterator[Outside]:
    """A room that is not started yet."""
    one = Outside(folder, configuration)
    try:
        yield one
    finally:
        await one.end()
