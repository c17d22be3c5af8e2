"""How long a message takes to 200 clients, and how many times what a bare aiohttp broadcast takes, in one run.

    python -m scripts.bench.delivery_ratio [--against FOLDER]

The bare server reads a message's JSON, sends every client as many bytes as the room makes of one, in one text, and
answers; it keeps nothing. All are asked by turns, so that what else the machine does meets all alike; a ratio is of
two figures of the same run. `--against` measures an older tree of relay beside this one.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import aiohttp

from scripts.bench.figures import Figure, at_most, run, single, spread
from scripts.bench.room import PROBE, ask, delivered
from scripts.bench.room_daemon import ROOT, Daemon, running

BARE = "a bare broadcast"
#: The bare server. What it sends comes on standard input, with BODY where the message's text stands.
_SERVER = """
import asyncio, sys
from aiohttp import web
pattern, clients = sys.stdin.read(), []
async def post(request):
    text = pattern.replace("BODY", (await request.json())["body"])
    for client in clients:
        await client.send_str(text)
    return web.json_response({"success": True}, status=201)
async def follow(request):
    socket = web.WebSocketResponse(compress=False)
    await socket.prepare(request)
    await socket.receive()
    await socket.send_str('{"type":"hello"}')
    clients.append(socket)
    async for _ in socket:
        pass
    clients.remove(socket)
    return socket
async def main():
    app = web.Application()
    app.add_routes([web.post("/api/messages", post), web.get("/ws", follow)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""
CLIENTS, RATE = 200, 50
#: Times the bare broadcast, at p50 and at p99 (issue 11).
GOAL = 3


def measure(folder: Path, quick: bool, against: Path | None = None) -> Iterator[Figure]:
    clients, rate, seconds, turns = (5, 20, 1, 1) if quick else (CLIENTS, RATE, 5, 6)
    trees = {"post to delivered": ROOT} | ({"post to delivered (before)": against} if against else {})
    took: dict[str, list[float]] = {}
    used: Counter[str] = Counter()
    with ExitStack() as stack:
        servers: dict[str, Daemon] = {}
        for number, (name, root) in enumerate(trees.items()):
            place = folder / str(number)
            probe = {"name": "PROBE", "kind": "command", "cmd": ["bash", "-c", PROBE], "cwd": str(place)}
            settings = {"dispatcher": {"enabled": False}, "agents": [probe]}
            servers[name] = stack.enter_context(running(place, settings, root))
            asyncio.run(ask(servers[name], "/api/agents/PROBE/pause", {}))
        frames = asyncio.run(_frames(servers["post to delivered"]))
        servers[BARE] = stack.enter_context(_bare(folder / "bare", frames))
        for _ in range(turns):
            for name, server in servers.items():
                _, arrived, share = delivered(server, clients, rate, seconds)
                took.setdefault(name, []).extend(arrived)
                used[name] += share / turns
    how = f"{clients} clients, {rate} messages/s, {len(frames)} frames and {sum(map(len, frames))} bytes each"
    seen = {name: spread(name, samples, note=how) for name, samples in took.items()}
    for name, figure in seen.items():
        yield figure
        yield single(f"{name}, processor", used[name], "% of a core", n=turns)
        if name == BARE:
            continue
        for rank in ("p50", "p99"):
            times = figure.values[rank] / seen[BARE].values[rank]
            yield single(
                f"{name}, times the bare broadcast, {rank}",
                times,
                "x",
                n=figure.n,
                limits=at_most(value=GOAL),
            )


async def _frames(daemon: Daemon) -> list[str]:
    """What the room sends a client of one message, with BODY as its text."""
    found: list[str] = []
    url = f"http://127.0.0.1:{daemon.port}"
    async with (
        aiohttp.ClientSession(headers={"X-API-Key": daemon.token}) as session,
        session.ws_connect(f"{url}/ws") as socket,
    ):
        await socket.send_str('{"after":null}')
        await socket.receive_str()
        async with session.post(f"{url}/api/messages", json={"name": "ann", "body": "BODY"}) as answer:
            answer.raise_for_status()
        try:
            while True:
                text = await socket.receive_str(timeout=1)
                if json.loads(text)["type"] in ("entry", "receipt", "cycle"):
                    found.append(text)
        except TimeoutError:
            return found


@contextmanager
def _bare(folder: Path, frames: list[str]) -> Iterator[Daemon]:
    """The bare server, where a daemon would stand."""
    (folder / ".relay").mkdir(parents=True)
    (folder / ".relay" / "token").write_text("none")
    process = subprocess.Popen(
        [sys.executable, "-c", _SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=folder
    )
    try:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write("".join(frames).encode())
        process.stdin.close()
        yield Daemon(folder, process, int(process.stdout.readline()), 0.0)
    finally:
        process.kill()
        process.wait()


def main() -> int:
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--against", type=Path)
    options, sys.argv[1:] = parser.parse_known_args()
    about = "A message to 200 clients, beside a bare broadcast; --against FOLDER: an older tree beside it."
    return run("delivery_ratio", partial(measure, against=options.against), about)


if __name__ == "__main__":
    sys.exit(main())
