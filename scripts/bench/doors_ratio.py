"""What a lock costs over HTTP and MCP, and how many times what a bare server costs, in one run.

The floors: a bare aiohttp server that echoes JSON, for HTTP and MCP over HTTP; the official MCP SDK's server with one
tool that echoes, for MCP over stdio.

Invariant: all are asked in turns on kept connections, so that what else the machine does meets all alike; a ratio is
of two medians of the same run. Processor time is that of the endpoint's processes and, on PostgreSQL, of the
database's processes that serve its database: it says what a request costs on a loaded machine too. It has the
processes' own work meanwhile in it (look-outs, heartbeats).
"""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from scripts.bench import postgres_server as postgres
from scripts.bench.coordination_doors import HttpAgent, Mcp, mcp, speaking
from scripts.bench.figures import Figure, at_most, beside, run, spread, stopwatch, turns, unmeasured
from scripts.bench.room_daemon import Daemon, running

ECHO = "the bare echo"
SDK = "the SDK's echo"
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
#: The official SDK's server over its pipes.
_SDK = """
from mcp.server.mcpserver import MCPServer
server = MCPServer("echo")
@server.tool()
def acquire_lock(file_path: str) -> dict[str, str | bool]:
    return {"success": True, "file_path": file_path}
server.run("stdio")
"""
Ask = Callable[[int], None]
#: Requests of one endpoint in a turn.
BURST = 25
#: Times the p50 of its floor, on SQLite and on PostgreSQL (issue 11).
GOALS = {"HTTP acquire": 2.5, "MCP over stdio acquire": 1.5, "MCP over HTTP acquire": 5.0}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """`ask` makes one request; `pids` are the processes that answer it; `database`: the server that they ask, and its
    database's name there; `floor`: the endpoint that it stands beside."""

    ask: Ask
    pids: tuple[int, ...]
    database: tuple[int, str] | None = None
    floor: str = ECHO

    def cpu_s(self) -> float:
        """What its processes have taken of the processor so far, in seconds."""
        pids = [*self.pids]
        if self.database is not None:
            server, name = self.database
            pids += [
                process.pid
                for process in psutil.Process(server).children()
                if name in " ".join(process.cmdline())
            ]
        # The clock of another process: clock_getcpuclockid(3). What the system counts in `times` is too coarse.
        return sum(time.clock_gettime((~pid << 3) | 2) for pid in pids)


def measure(folder: Path, quick: bool) -> Iterator[Figure]:
    count = 25 if quick else 1_000
    plain = {"dispatcher": {"enabled": False}}
    with ExitStack() as stack:
        endpoints = {ECHO: stack.enter_context(echo()), SDK: stack.enter_context(sdk_echo(folder))}
        endpoints |= of_daemon(stack, "SQLite", folder / "sqlite", plain)
        programs = postgres.binaries()
        if programs is None:
            yield unmeasured("locks over HTTP and MCP on PostgreSQL", postgres.LACKING)
        else:
            server = postgres.make_server(programs, {"listen_addresses": ""})
            stack.callback(server.end)
            place = folder / "postgres"
            place.mkdir()
            name = server.new_database()
            (place / "dsn").touch(mode=0o600)
            (place / "dsn").write_text(server.dsn(name))
            settings = {**plain, "storage": "postgres", "postgres": {"dsn_file": "dsn"}}
            assert server.process is not None
            endpoints |= of_daemon(stack, "PostgreSQL", place, settings, (server.process.pid, name))
        took, used = _in_turns(endpoints, count)
    size = "50 locks of the caller's, no others"
    for name, endpoint in endpoints.items():
        wall = spread(name, took[name], size="" if name in (ECHO, SDK) else size)
        cost = spread(f"{name}, processor time", used[name], size=wall.size)
        if name not in (ECHO, SDK):
            goal = GOALS.get(name.rpartition(",")[0])
            floor = endpoint.floor
            wall = beside(wall, spread(floor, took[floor]), at_most(ratio=goal) if goal else {})
            cost = beside(cost, spread(f"{floor}, processor time", used[floor]))
        yield from (wall, cost)


def _in_turns(
    endpoints: dict[str, Endpoint], count: int
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Of each endpoint the seconds of each request, and in each turn the processor's seconds for one."""
    took: dict[str, list[float]] = {name: [] for name in endpoints}
    used: dict[str, list[float]] = {name: [] for name in endpoints}
    for endpoint in endpoints.values():
        for number in range(60):
            endpoint.ask(number)
    for name in turns(endpoints, count // BURST):
        endpoint = endpoints[name]
        before = endpoint.cpu_s()
        for _ in range(BURST):
            with stopwatch(took[name]):
                endpoint.ask(len(took[name]))
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

        yield Endpoint(ask, (process.pid,))
        connection.close()
    finally:
        process.kill()
        process.wait()


@contextmanager
def sdk_echo(folder: Path) -> Iterator[Endpoint]:
    with speaking([sys.executable, "-c", _SDK], folder) as server:
        yield Endpoint(_by_tool(server, "sdk"), (server.process.pid,))


def _by_tool(server: Mcp, folder: str) -> Ask:
    def ask(number: int) -> None:
        _done(server.call("acquire_lock", file_path=f"src/{folder}/file{number % 50}.py"))

    return ask


def of_daemon(
    stack: ExitStack,
    engine: str,
    folder: Path,
    settings: dict[str, Any],
    database: tuple[int, str] | None = None,
) -> dict[str, Endpoint]:
    """A lock, by HTTP, by MCP over HTTP and by `relay mcp`: the first fifty are taken, and then refreshed."""
    daemon = stack.enter_context(running(folder, settings))
    agent = stack.enter_context(closing(HttpAgent(daemon)))
    tools = _Tools(daemon, agent)
    stack.callback(tools.connection.close)

    def by_http(number: int) -> None:
        _done(agent.call("acquire_lock", file_path=f"src/http/file{number % 50}.py"))

    def both(number: int) -> None:
        for act in ("acquire_lock", "release_lock"):
            _done(agent.call(act, file_path=f"src/both/file{number % 50}.py"))

    stdio = stack.enter_context(mcp(daemon, "AGENT-1"))
    pid = daemon.process.pid
    return {
        f"HTTP acquire, {engine}": Endpoint(by_http, (pid,), database),
        f"HTTP acquire and release, {engine}": Endpoint(both, (pid,), database),
        f"MCP over HTTP acquire, {engine}": Endpoint(tools.acquire, (pid,), database),
        f"MCP over stdio acquire, {engine}": Endpoint(
            _by_tool(stdio, "stdio"), (pid, stdio.process.pid), database, SDK
        ),
    }


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


if __name__ == "__main__":
    sys.exit(run("doors_ratio", measure, "What a lock costs over HTTP and MCP, beside bare servers."))
