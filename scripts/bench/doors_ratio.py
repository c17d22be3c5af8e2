"""What a lock costs at the doors, as JSON: how many times what a bare aiohttp server costs, in one run.

    python -m scripts.bench.doors_ratio [--count N]

Invariant: all are asked in turns, one request each on one kept connection, so that what else the machine does meets
all alike; a ratio is of two medians of the same run. `cpu_ms` is the processor time that the door's process takes for
a request, by bursts in turns: what stands on a loaded machine too. It has the process's own work meanwhile in it
(look-outs, heartbeats). PostgreSQL is left out, and said to be, where there is none.
"""

from __future__ import annotations

import argparse
import http.client
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from scripts.bench import postgres_server as postgres
from scripts.bench.coordination_doors import HttpAgent, closing_http
from scripts.bench.room_daemon import Daemon, running

ECHO = "the bare echo"
#: The echo: it reads JSON and answers JSON, and does nothing else.
_SERVER = """
from aiohttp import web
async def echo(request):
    return web.json_response({"success": True, "said": await request.json()})
app = web.Application()
app.router.add_post("/echo", echo)
async def main():
    import asyncio
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()
import asyncio
asyncio.run(main())
"""
Ask = Callable[[int], None]
#: Requests in a burst whose processor time is counted: the system counts it in hundredths of a second.
BURST = 100


@dataclass(frozen=True, slots=True)
class Door:
    """`ask` makes one request; `pid` is the process that answers it."""

    ask: Ask
    pid: int

    def cpu_ms(self) -> float:
        """What its process has taken of the processor so far."""
        used = psutil.Process(self.pid).cpu_times()
        return float(used.user + used.system) * 1000


def measure(count: int) -> dict[str, Any]:
    """Medians in milliseconds, and how many times the echo's each is."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="relay-bench-")))
        doors: dict[str, Door] = {ECHO: stack.enter_context(echo())}
        plain = {"dispatcher": {"enabled": False}}
        doors |= of_daemon(stack, "SQLite", folder / "sqlite", plain)
        found = postgres.binaries()
        if found is not None:
            server = postgres.make_server(found, {"listen_addresses": ""})
            stack.callback(server.end)
            place = folder / "postgres"
            place.mkdir()
            (place / "dsn").touch(mode=0o600)
            (place / "dsn").write_text(server.dsn(server.new_database()))
            kept = {**plain, "storage": "postgres", "postgres": {"dsn_file": "dsn"}}
            doors |= of_daemon(stack, "PostgreSQL", place, kept)
        for door in doors.values():
            for number in range(60):
                door.ask(number)
        took: dict[str, list[float]] = {name: [] for name in doors}
        for number in range(count):
            for name, door in doors.items():
                began = time.perf_counter()
                door.ask(number)
                took[name].append((time.perf_counter() - began) * 1000)
        used: dict[str, list[float]] = {name: [] for name in doors}
        for _ in range(max(1, count // BURST)):
            for name, door in doors.items():
                before = door.cpu_ms()
                for number in range(BURST):
                    door.ask(number)
                used[name].append((door.cpu_ms() - before) / BURST)
    costs = {name: statistics.mean(bursts) for name, bursts in used.items()}
    medians = {name: statistics.median(samples) for name, samples in took.items()}
    return {
        "count": count,
        "postgres": found is not None,
        "p50_ms": {name: round(value, 3) for name, value in medians.items()},
        "ratio": {name: round(value / medians[ECHO], 2) for name, value in medians.items()},
        "cpu_ms": {name: round(value, 3) for name, value in costs.items()},
        "cpu_ratio": {name: round(value / costs[ECHO], 2) for name, value in costs.items() if costs[ECHO]},
    }


@contextmanager
def echo() -> Iterator[Door]:
    process = subprocess.Popen([sys.executable, "-c", _SERVER], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        connection = http.client.HTTPConnection("127.0.0.1", int(process.stdout.readline()), timeout=60)

        def ask(number: int) -> None:
            _post(connection, "/echo", {"file_path": f"src/file{number % 50}.py"}, {})

        yield Door(ask, process.pid)
        connection.close()
    finally:
        process.kill()
        process.wait()


def of_daemon(stack: ExitStack, engine: str, folder: Path, settings: dict[str, Any]) -> dict[str, Door]:
    """A lock, by HTTP and by MCP over HTTP: the first fifty are taken, and then refreshed."""
    daemon = stack.enter_context(running(folder, settings))
    agent = stack.enter_context(closing_http(daemon))
    tools = _Tools(daemon, agent)
    stack.callback(tools.connection.close)

    def by_http(number: int) -> None:
        _done(agent.call("acquire_lock", file_path=f"src/http/file{number % 50}.py"))

    def both(number: int) -> None:
        for act in ("acquire_lock", "release_lock"):
            _done(agent.call(act, file_path=f"src/both/file{number % 50}.py"))

    asks: dict[str, Ask] = {
        f"HTTP acquire, {engine}": by_http,
        f"HTTP acquire and release, {engine}": both,
        f"MCP over HTTP acquire, {engine}": tools.acquire,
    }
    return {name: Door(ask, daemon.process.pid) for name, ask in asks.items()}


class _Tools:
    """MCP at the daemon's own address, with the agent's key."""

    def __init__(self, daemon: Daemon, agent: HttpAgent) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=60)
        self.headers = {"X-API-Key": agent.key, "Accept": "application/json, text/event-stream"}
        self._number = 0
        version = "2025-06-18"
        self._ask(
            "initialize",
            {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "b", "version": "1"}},
        )
        self.headers["MCP-Protocol-Version"] = version

    def _ask(self, method: str, params: dict[str, Any]) -> Any:
        self._number += 1
        said = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        told = _post(self.connection, "/mcp", said, self.headers)
        if "result" not in told:
            raise RuntimeError(f"{method} was refused: {told}")
        return told["result"]

    def acquire(self, number: int) -> None:
        path = f"src/mcp/file{number % 50}.py"
        told = self._ask("tools/call", {"name": "acquire_lock", "arguments": {"file_path": path}})
        _done(told.get("structuredContent") or json.loads(told["content"][0]["text"]))


def _done(answer: dict[str, Any]) -> None:
    if answer.get("success") is not True:
        raise RuntimeError(f"it was not done: {answer}")


def _post(
    connection: http.client.HTTPConnection, path: str, body: dict[str, Any], headers: dict[str, str]
) -> Any:
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json", **headers})
    answer = connection.getresponse()
    text = answer.read().decode()
    session = answer.getheader("Mcp-Session-Id")
    if session:
        headers["Mcp-Session-Id"] = session
    if answer.status >= 300:
        raise RuntimeError(f"HTTP {answer.status}: {text[:300]}")
    if text.startswith(("event:", "data:")):
        text = next(line[5:] for line in text.splitlines() if line.startswith("data:"))
    return json.loads(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=500)
    print(json.dumps(measure(parser.parse_args().count), indent=1))


if __name__ == "__main__":
    main()
