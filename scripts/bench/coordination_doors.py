"""What an agent waits for: HTTP with a key on one connection, and `relay mcp` over its pipes.

Invariant: a real daemon and a real process; the clock runs from before the request until its answer was read.
"""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from scripts.bench.coordination_store import OTHER_GLOBS, OTHER_LOCKS, other_paths
from scripts.bench.figures import Figure, at_most, run, spread, stopwatch
from scripts.bench.room_daemon import ROOT, Daemon, running

Json = dict[str, Any]


def measure(folder: Path, quick: bool) -> Iterator[Figure]:
    count, starts = (20, 1) if quick else (2_000, 9)
    with running(folder / "doors", {"dispatcher": {"enabled": False}}) as daemon:
        with closing(HttpAgent(daemon)) as agent, mcp(daemon, "AGENT-1") as tools:
            yield from of_locks(agent, tools, count, "", targets=True)
            others = (60, 5) if quick else (OTHER_LOCKS, OTHER_GLOBS)
            hold_others(agent, *others)
            yield from of_locks(agent, tools, count, f", {others[0]:,} other locks and {others[1]} globs")
        answered, listed, used = [], [], []
        for _ in range(starts):
            with mcp(daemon, "AGENT-2") as tools:
                answered.append(tools.ready_s)
                tools.ask("tools/list")
                listed.append(time.perf_counter() - tools.began)
                used.append(time.clock_gettime((~tools.process.pid << 3) | 2))
        yield spread("relay mcp, start to the answer to initialize", answered, limits=at_most(max=2000))
        yield spread("relay mcp, start to the answer to tools/list", listed, limits=at_most(max=2000))
        yield spread("relay mcp, start to tools/list, processor time", used, limits=at_most(p50=700))


def of_locks(
    agent: HttpAgent, tools: Mcp, count: int, where: str, *, targets: bool = False
) -> Iterator[Figure]:
    """The two interfaces in turns, so that what else the machine does meets both."""
    took: dict[str, list[float]] = {
        f"{name} {act}": [] for name in ("HTTP", "MCP") for act in ("acquire", "release")
    }
    for number in range(count):
        for client, name in ((agent, "HTTP"), (tools, "MCP")):
            path = f"src/{name}/file{number % 50}.py"
            for act in ("acquire", "release"):
                with stopwatch(took[f"{name} {act}"]):
                    answer = client.call(f"{act}_lock", file_path=path)
                if answer["success"] is not True:
                    raise RuntimeError(f"it was not done: {answer}")
    limits = {"HTTP acquire": at_most(p50=3), "MCP acquire": at_most(p50=4)} if targets else {}
    notes = {
        "HTTP acquire": "a real daemon, one keep-alive connection, an API key; public reference 8-9 ms",
        "MCP acquire": "relay mcp over its pipes, beside the daemon; public reference 5-8 ms, another peer 102 ms",
    }
    for what, samples in took.items():
        yield spread(
            what + where, samples, limits=limits.get(what), note=notes.get(what, "") if targets else ""
        )


class HttpAgent:
    """One keep-alive connection with the key of an agent."""

    def __init__(self, daemon: Daemon) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=60)
        self.key = daemon.token
        self.key = self.ask("/keys", {"identity": "AGENT-0"})["key"]

    def ask(self, path: str, body: Json) -> Json:
        body_bytes = json.dumps(body).encode()
        self.connection.request(
            "POST", path, body_bytes, {"X-API-Key": self.key, "Content-Type": "application/json"}
        )
        answer = self.connection.getresponse()
        payload: Json = json.loads(answer.read())
        if answer.status != 200:
            raise RuntimeError(f"{path}: {answer.status} {payload}")
        return payload

    def call(self, operation: str, **said: Any) -> Json:
        return self.ask("/locks/" + operation.removesuffix("_lock"), said)

    def close(self) -> None:
        self.connection.close()


def hold_others(agent: HttpAgent, locks: int, globs: int) -> None:
    """Locks of another session that meet nothing of ours."""
    for paths in other_paths(locks, globs):
        body = {"file_paths": paths, "ttl_minutes": 480, "session_id": "others"}
        if not agent.ask("/locks/acquire", body)["success"]:
            raise RuntimeError("the other locks were not taken")


class Mcp:
    """An MCP server on its pipes, spoken to line by line. `ready_s`: from its start until it answered initialize."""

    def __init__(self, process: subprocess.Popen[bytes], began: float) -> None:
        self.process, self.began, self.number = process, began, 0
        client = {"name": "bench", "version": "1"}
        self.ask("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client})
        self.ready_s = time.perf_counter() - began
        self._send({"method": "notifications/initialized"})

    def _send(self, said: Json) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **said}).encode() + b"\n")
        self.process.stdin.flush()

    def ask(self, method: str, params: Json | None = None) -> Any:
        self.number += 1
        self._send({"id": self.number, "method": method, "params": params or {}})
        assert self.process.stdout is not None
        while True:
            line = self.process.stdout.readline()
            if not line:
                raise RuntimeError(f"the MCP server ended with {self.process.wait()}")
            answer = json.loads(line)
            if answer.get("id") == self.number:
                return answer["result"]

    def call(self, operation: str, **said: Any) -> Json:
        payload: Json = self.ask("tools/call", {"name": operation, "arguments": said})["structuredContent"]
        return payload


@contextmanager
def mcp(daemon: Daemon, agent: str) -> Iterator[Mcp]:
    config = str(daemon.folder / "config.json")
    words = [sys.executable, "-m", "relay.cli", "mcp", "--config", config, "--agent", agent]
    with speaking(words, daemon.folder) as server:
        yield server


@contextmanager
def speaking(words: Sequence[str], folder: Path) -> Iterator[Mcp]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    began = time.perf_counter()
    with (folder / "mcp.err").open("ab") as log:
        process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, cwd=folder, env=environment
        )
    try:
        yield Mcp(process, began)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


if __name__ == "__main__":
    sys.exit(run("coordination_doors", measure, "What an agent waits for at HTTP and MCP."))
