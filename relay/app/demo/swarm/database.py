"""A PostgreSQL database for the machines of the swarm: of a server of its own, or of the one of RELAY_POSTGRES_DSN.

Invariant: what is made here is taken away, however the demo ends; no database that was there is touched.
"""

from __future__ import annotations

import asyncio
import os
import pwd
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from relay.app.demo.stage import LOOK_S, START_S, DemoError
from relay.store.postgres.address import VARIABLE

_END_S = 10.0


@asynccontextmanager
async def database() -> AsyncIterator[str]:
    """The address of a new database. Raises DemoError."""
    if given := os.environ.get(VARIABLE, "").strip():
        async with _beside(given) as dsn:
            yield dsn
    else:
        async with _server(_programs()) as dsn:
            yield dsn


def _programs() -> Path:
    """The folder with PostgreSQL's programs."""
    named = shutil.which("initdb")
    places = [Path(named).resolve().parent] if named else []
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    for place in places:
        if (place / "initdb").exists() and (place / "postgres").exists():
            return place
    raise DemoError(
        "--machines needs PostgreSQL, and there is no program `initdb` here. Install it (Debian: apt install "
        f"postgresql; macOS: brew install postgresql), or set {VARIABLE} to a server where a database can be made."
    )


@asynccontextmanager
async def _beside(given: str) -> AsyncIterator[str]:
    """A database beside the one of this address."""
    name = f"relay_demo_{secrets.token_hex(4)}"
    try:
        connection = await asyncpg.connect(given)
        try:
            await connection.execute(f'CREATE DATABASE "{name}"')
        finally:
            await connection.close()
    except (OSError, ValueError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        # The error may show the address, which has a password.
        raise DemoError(f"no database can be made by {VARIABLE}: {type(error).__name__}") from None
    try:
        yield urlunsplit(urlsplit(given)._replace(path=f"/{name}"))
    finally:
        connection = await asyncpg.connect(given)
        try:
            await connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        finally:
            await connection.close()


@asynccontextmanager
async def _server(programs: Path) -> AsyncIterator[str]:
    """A server on a socket in a folder of its own. PostgreSQL refuses to run as root: then it runs as `nobody`."""
    folder = Path(tempfile.mkdtemp(prefix="relay-demo-pg-", dir="/tmp"))  # a socket's path has to be short
    user = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
    ids: dict[str, Any] = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if user else {}
    if user:
        os.chown(folder, user.pw_uid, user.pw_gid)
    data, environ = folder / "data", {"PATH": os.defpath, "LC_ALL": "C"}
    child = None
    try:
        words = ("-D", str(data), "-U", "relay", "-A", "trust", "-E", "UTF8", "--locale=C")
        made = await asyncio.to_thread(
            lambda: subprocess.run(
                [programs / "initdb", *words],
                cwd=folder,
                env=environ,
                capture_output=True,
                text=True,
                check=False,
                **ids,
            )
        )
        if made.returncode:
            raise DemoError(f"PostgreSQL's initdb failed: {(made.stderr or made.stdout).strip()[-1000:]}")
        with (folder / "server.log").open("wb") as said:
            child = await asyncio.create_subprocess_exec(
                *(str(programs / "postgres"), "-D", str(data), "-k", str(folder)),
                *("-c", "listen_addresses=", "-c", "max_connections=200"),
                cwd=folder,
                env=environ,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                start_new_session=True,
                **ids,
            )
        dsn = f"postgres://relay@/postgres?host={folder}"
        await _answers(dsn, child, folder / "server.log")
        yield dsn
    finally:
        if child is not None and child.returncode is None:
            child.send_signal(2)
            try:
                await asyncio.wait_for(child.wait(), _END_S)
            except TimeoutError:
                child.send_signal(3)
                await child.wait()
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


async def _answers(dsn: str, child: asyncio.subprocess.Process, said: Path) -> None:
    async with asyncio.timeout(START_S):
        while True:
            try:
                await (await asyncpg.connect(dsn)).close()
                return
            except (OSError, asyncpg.PostgresError):
                if child.returncode is not None:
                    raise DemoError(
                        f"PostgreSQL did not start: {said.read_text(errors='replace')[-1000:]}"
                    ) from None
            await asyncio.sleep(LOOK_S)
