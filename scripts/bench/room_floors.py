"""What stands beside the room's figures: its rows in plain sqlite3, and a bare aiohttp server that broadcasts."""

from __future__ import annotations

import sqlite3
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

#: Answers a post, and sends its text to every WebSocket, as long as the room's frames for it are.
_SERVER = """
import asyncio, json, sys
from aiohttp import web
size, clients = int(sys.argv[1]), set()
async def post(request):
    said = await request.json()
    text = json.dumps({"type": "entry", "body": said["body"], "rest": ""})
    text = text[:-2] + "x" * (size - len(text)) + text[-2:]
    for client in list(clients):
        await client.send_str(text)
    return web.json_response({"success": True})
async def follow(request):
    socket = web.WebSocketResponse(compress=False)
    await socket.prepare(request)
    async for _ in socket:
        await socket.send_str('{"type":"hello"}')
        clients.add(socket)
    clients.discard(socket)
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
#: The tables with rows: none of SQLite's own, and not the full-text index, which a trigger of `messages` writes.
_TABLES = (
    "SELECT name FROM main.sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite!_%' ESCAPE '!' "
    "AND name NOT LIKE '%!_fts%' ESCAPE '!'"
)


@contextmanager
def broadcasting(size: int) -> Iterator[tuple[int, int]]:
    """The bare server's port and process. `size`: bytes that it sends a client for a message."""
    words = [sys.executable, "-c", _SERVER, str(size)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield int(process.stdout.readline()), process.pid
    finally:
        process.kill()
        process.wait()


class PlainRows:
    """A copy of a room's database that gets the rows that the room got: same tables, same indexes, same triggers, the
    same number of commits; nothing is read or made."""

    def __init__(self, live: Path, copy: Path) -> None:
        self._live = live
        self._connection = sqlite3.connect(copy, isolation_level=None, cached_statements=512)
        with closing(sqlite3.connect(f"file:{live}?mode=ro", uri=True)) as source:
            source.backup(self._connection)
        for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "wal_autocheckpoint=0", "cache_size=-16000"):
            self._connection.execute(f"PRAGMA {pragma}")
        self._commits = self._counted()

    def catch_up(self) -> tuple[float, int]:
        """Write what the room has got since; the seconds, and in how many commits."""
        before, self._commits = self._commits, self._counted()
        commits = self._commits - before
        run = self._connection.execute
        run("ATTACH ? AS live", (f"file:{self._live}?mode=ro",))
        new = {
            name: run(f'SELECT * FROM live."{name}" EXCEPT SELECT * FROM main."{name}"').fetchall()
            for (name,) in run(_TABLES).fetchall()
        }
        run("DETACH live")
        parts = [
            [
                (f'REPLACE INTO "{name}" VALUES ({", ".join("?" * len(rows[0]))})', part)
                for name, rows in new.items()
                if (part := rows[len(rows) * number // commits : len(rows) * (number + 1) // commits])
            ]
            for number in range(commits)
        ]
        began = time.perf_counter()
        for statements in parts:
            run("BEGIN IMMEDIATE")
            for sql, rows in statements:
                self._connection.executemany(sql, rows)
            run("COMMIT")
        return time.perf_counter() - began, commits

    def _counted(self) -> int:
        """The commits since the log was made: `iChange` of the header of its index (SQLite's src/wal.c)."""
        header = self._live.with_name(self._live.name + "-shm").read_bytes()[8:12]
        return int(struct.unpack("=I", header)[0])

    def close(self) -> None:
        self._connection.close()
