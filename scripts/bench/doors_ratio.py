"""What a lock costs over HTTP and MCP, and how many times what a bare aiohttp server costs, in one run.

    python -m scripts.bench.doors_ratio [--against FOLDER]

Invariant: all are asked in turns on kept connections, so that what else the machine does meets all alike; a ratio is
of two medians of the same run. Processor time is that of the endpoint's process and, on PostgreSQL, of the database's
processes that serve its database: it says what a request costs on a loaded machine too. It has the process's own work
meanwhile in it (look-outs, heartbeats). `--against` measures an older tree of relay beside this one. PostgreSQL is
left out where there is none.
"""

from __future__ import annotations

import argparse
import http.client
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from scripts.bench import postgres_server as postgres
from scripts.bench.coordination_doors import HttpAgent
from scripts.bench.figures import Figure, at_most, run, single, spread, stopwatch
from scripts.bench.room_daemon import ROOT, Daemon, running

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
#: Requests of one endpoint in a turn.
BURST = 25
#: Half of what issue 10 found: times the echo's p50.
GOALS = {
    "HTTP acquire, SQLite": 2.5,
    "HTTP acquire, PostgreSQL": 10,
    "MCP over HTTP acquire, SQLite": 7.5,
    "MCP over HTTP acquire, PostgreSQL": 17.5,
}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """`ask` makes one request; `pid` is the process that answers it; `database`: the server that it asks, and its
    database's name there."""

    ask: Ask
    pid: int
    database: tuple[int, str] | None = None

    def cpu_s(self) -> float:
        """What its processes have taken of the processor so far, in seconds."""
        pids = [self.pid]
        if self.database is not None:
            server, name = self.database
            pids += [
                process.pid
                for process in psutil.Process(server).children()
                if name in " ".join(process.cmdline())
            ]
        # The clock of another process: clock_getcpuclockid(3). What the system counts in `times` is too coarse.
        return sum(time.clock_gettime((~pid << 3) | 2) for pid in pids)


def measure(folder: Path, quick: bool, against: Path | None = None) -> Iterator[Figure]:
    count = 25 if quick else 1_000
    trees = {"": ROOT} | ({" (before)": against} if against else {})
    with ExitStack() as stack:
        endpoints: dict[str, Endpoint] = {ECHO: stack.enter_context(echo())}
        programs = postgres.binaries()
        if programs is not None:
            server = postgres.make_server(programs, {"listen_addresses": ""})
            stack.callback(server.end)
        for number, (when, root) in enumerate(trees.items()):
            plain = {"dispatcher": {"enabled": False}}
            endpoints |= of_daemon(stack, f"SQLite{when}", folder / f"sqlite{number}", plain, root)
            if programs is None:
                continue
            place = folder / f"postgres{number}"
            place.mkdir()
            name = server.new_database()
            (place / "dsn").touch(mode=0o600)
            (place / "dsn").write_text(server.dsn(name))
            settings = {**plain, "storage": "postgres", "postgres": {"dsn_file": "dsn"}}
            assert server.process is not None
            database = (server.process.pid, name)
            endpoints |= of_daemon(stack, f"PostgreSQL{when}", place, settings, root, database)
        took, used = _in_turns(endpoints, count)
    medians = {name: statistics.median(samples) for name, samples in took.items()}
    costs = {name: statistics.median(samples) for name, samples in used.items()}
    for name in endpoints:
        yield spread(name, took[name], note="50 locks of the caller's, no others" if name != ECHO else "")
        yield single(f"{name}, processor time", costs[name] * 1000, "ms", n=count)
        if name != ECHO:
            limits = at_most(value=GOALS[name]) if name in GOALS else {}
            yield single(
                f"{name}, times the echo", medians[name] / medians[ECHO], "x", n=count, limits=limits
            )
            yield single(f"{name}, processor time, times the echo", costs[name] / costs[ECHO], "x", n=count)


def _in_turns(
    endpoints: dict[str, Endpoint], count: int
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Of each endpoint the seconds of each request, and the processor's seconds for one, by turns."""
    took: dict[str, list[float]] = {name: [] for name in endpoints}
    used: dict[str, list[float]] = {name: [] for name in endpoints}
    for endpoint in endpoints.values():
        for number in range(60):
            endpoint.ask(number)
    for turn in range(count // BURST):
        for name, endpoint in endpoints.items():
            before = endpoint.cpu_s()
            for number in range(turn * BURST, (turn + 1) * BURST):
                with stopwatch(took[name]):
                    endpoint.ask(number)
            used[name].append((endpoint.cpu_s() - before) / BURST)
    return took, used


@contextmanager
def echo() -> Iterator[Endpoint]:
    process = subprocess.Popen([sys.executable, "-c", _SERVER], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        connection = http.client.HTTPConnection("127.0.0.1", int(process.stdout.readline()), timeout=60)

        def ask(number: int) -> None:
            _post(connection, "/echo", {"file_path": f"src/file{number % 50}.py"}, {})

        yield Endpoint(ask, process.pid)
        connection.close()
    finally:
        process.kill()
        process.wait()


def of_daemon(
    stack: ExitStack,
    engine: str,
    folder: Path,
    settings: dict[str, Any],
    root: Path,
    database: tuple[int, str] | None = None,
) -> dict[str, Endpoint]:
    """A lock, by HTTP and by MCP over HTTP: the first fifty are taken, and then refreshed."""
    daemon = stack.enter_context(running(folder, settings, root))
    agent = stack.enter_context(closing(HttpAgent(daemon)))
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
    return {name: Endpoint(ask, daemon.process.pid, database) for name, ask in asks.items()}


class _Tools:
    """MCP at the daemon's own address, with the agent's key."""

    def __init__(self, daemon: Daemon, agent: HttpAgent) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=60)
        self.headers = {"X-API-Key": agent.key, "Accept": "application/json, text/event-stream"}
        self._number = 0
        version, client = "2025-06-18", {"name": "b", "version": "1"}
        self._ask("initialize", {"protocolVersion": version, "capabilities": {}, "clientInfo": client})
        self.headers["MCP-Protocol-Version"] = version

    def _ask(self, method: str, params: dict[str, Any]) -> Any:
        self._number += 1
        request = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        answer = _post(self.connection, "/mcp", request, self.headers)
        if "result" not in answer:
            raise RuntimeError(f"{method} was refused: {answer}")
        return answer["result"]

    def acquire(self, number: int) -> None:
        path = f"src/mcp/file{number % 50}.py"
        result = self._ask("tools/call", {"name": "acquire_lock", "arguments": {"file_path": path}})
        _done(result.get("structuredContent") or json.loads(result["content"][0]["text"]))


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


def main() -> int:
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--against", type=Path)
    options, sys.argv[1:] = parser.parse_known_args()
    about = "What a lock costs over HTTP and MCP; --against FOLDER: an older tree of relay beside it."
    return run("doors_ratio", partial(measure, against=options.against), about)


if __name__ == "__main__":
    sys.exit(main())
