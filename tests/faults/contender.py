"""One client of `contention`: takes and frees one path as often as it is told, and writes down what it saw.

Started as `python -m tests.faults.contender KIND NAME FOLDER ATTEMPTS PATH`, with its key (KIND http) and the room's
address in its environment. Says `ready`, waits for a line, and ends with a line of JSON.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import structlog

from relay.app.wiring.schema import SCHEMAS
from relay.faces.services import services_of

Json = dict[str, Any]
#: Every how many attempts one stands in line, and for how long, in seconds.
WAIT_EVERY, WAIT_S = 10, 0.2
#: What a blocked answer may say is the reason.
REASONS = {"locked", "queued", "deadlock", "timeout"}


class Way(Protocol):
    def call(self, operation: str, said: Json) -> Json: ...

    def close(self) -> None: ...


class InProcess:
    """The services over a store of this process's own."""

    def __init__(self, name: str, folder: Path) -> None:
        from relay.config.loading import load
        from relay.config.settings import LiveSettings
        from relay.model import Caller
        from relay.store.open import open_store

        self._runner = asyncio.Runner()
        settings = load(folder / "config.json")
        self._caller = Caller(name, f"session-{name}")
        self._store = self._runner.run(open_store(settings, SCHEMAS))
        self._locks = services_of(self._store, LiveSettings(settings)).locks

    def call(self, operation: str, said: Json) -> Json:
        if operation == "acquire_lock":
            wait = said.get("wait_seconds", 0.0)
            return self._runner.run(self._locks.acquire(self._caller, [said["file_path"]], wait_s=wait))
        return self._runner.run(
            self._locks.release(self._caller, said["file_path"], fencing_token=said["fencing_token"])
        )

    def close(self) -> None:
        self._runner.run(self._store.close())
        self._runner.close()


class Http:
    """A key, and one connection."""

    def __init__(self) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(os.environ["ROOM_URL"]).netloc, timeout=120)
        self._headers = {"X-API-Key": os.environ["ROOM_KEY"], "Content-Type": "application/json"}

    def call(self, operation: str, said: Json) -> Json:
        path = "/locks/" + operation.removesuffix("_lock")
        self._connection.request("POST", path, json.dumps(said).encode(), self._headers)
        answer = self._connection.getresponse()
        told: Json = json.loads(answer.read())
        assert answer.status == 200, (answer.status, told)
        return told

    def close(self) -> None:
        self._connection.close()


class Mcp:
    """`relay mcp` as a child."""

    def __init__(self, name: str, folder: Path) -> None:
        words = [
            sys.executable,
            "-m",
            "relay.cli",
            "mcp",
            "--config",
            str(folder / "config.json"),
            "--agent",
            name,
        ]
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._number = 0
        client = {"name": "contender", "version": "1"}
        self._ask("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client})

    def _ask(self, method: str, params: Json) -> Json:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._number += 1
        said = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        self._process.stdin.write(json.dumps(said).encode() + b"\n")
        self._process.stdin.flush()
        while True:
            told = json.loads(self._process.stdout.readline())
            if told.get("id") == self._number:
                result: Json = told["result"]
                return result

    def call(self, operation: str, said: Json) -> Json:
        told: Json = self._ask("tools/call", {"name": operation, "arguments": said})["structuredContent"]
        return told

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)


def contend(way: Way, name: str, folder: Path, attempts: int, path: str) -> Json:
    """`got` and `blocked`: how often; `wrong`: what must not be."""
    inside, tokens = folder / "inside", folder / "tokens"
    counts = {"got": 0, "blocked": 0}
    wrong: list[str] = []
    for number in range(attempts):
        said: Json = {"file_path": path}
        if number % WAIT_EVERY == WAIT_EVERY - 1:
            said["wait_seconds"] = WAIT_S
        answer = way.call("acquire_lock", said)
        if not answer["success"]:
            counts["blocked"] += 1
            named = all(answer.get(key) for key in ("locked_by", "locked_by_session", "expires_at"))
            if answer["action"] != "blocked" or not named or answer["reason"] not in REASONS:
                wrong.append(f"a blocked answer without a name: {answer}")
            elif answer["locked_by"] == name:
                wrong.append(f"blocked by itself: {answer}")
            continue
        counts["got"] += 1
        try:
            # Made by who is inside alone: a second one fails here.
            inside.touch(exist_ok=False)
        except FileExistsError:
            wrong.append(f"two holders: {answer}")
        with tokens.open("a") as file:
            file.write(f"{answer['fencing_token']} {answer['action']} {name}\n")
        inside.unlink(missing_ok=True)
        freed = way.call("release_lock", {"file_path": path, "fencing_token": answer["fencing_token"]})
        if not freed["success"]:
            wrong.append(f"a lock was not freed: {freed}")
    return {**counts, "wrong": wrong}


def main() -> int:
    kind, name, folder, attempts, path = sys.argv[1:]
    place = Path(folder)
    ways: dict[str, Callable[[], Way]] = {
        "http": Http,
        "mcp": lambda: Mcp(name, place),
        "process": lambda: InProcess(name, place),
    }
    way = ways[kind]()
    print("ready", flush=True)
    sys.stdin.readline()
    began = time.monotonic()
    told = contend(way, name, place, int(attempts), path)
    print(json.dumps({**told, "kind": kind, "seconds": round(time.monotonic() - began, 2)}), flush=True)
    way.close()
    return 0


if __name__ == "__main__":
    # Its lines on stdout are read by who started it.
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    sys.exit(main())
