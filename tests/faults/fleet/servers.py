"""Two PostgreSQL servers on machines of their own: one is written, the other follows it, and they change places.

The follower is synchronous, so what relay asks to be durable is on both before it is acknowledged. What it asks for
without (locks, claims) may be missing there: that is what "a standby that is behind" means here.
"""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import asyncpg
import psutil

from tests import postgres
from tests.faults.fleet.network import Cut, Machine
from tests.outside import eventually

OWNER, FOLLOWER = "relay_room", "follower"
_PORT = 5432
#: Seconds within which a commit is on disk that nobody waits for: three times the server's wal_writer_delay.
FLUSH_S = 0.6
_PATIENCE_S = 60.0
SETTINGS = {
    **postgres.SETTINGS,
    "listen_addresses": "*",
    "wal_level": "replica",
    "hot_standby": "on",
    "max_wal_senders": "8",
    "wal_keep_size": "512MB",
    "wal_sender_timeout": "5s",
    "wal_receiver_timeout": "5s",
    "wal_retrieve_retry_interval": "500ms",
    "log_min_messages": "warning",
}


class PostgresServer:
    """One server: its machine, its folder, and its process while it runs."""

    def __init__(self, machine: Machine, folder: Path, programs: Path) -> None:
        self.machine, self.folder, self.programs = machine, folder, programs
        self.data = folder / "data"
        self.process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True)
        folder.chmod(0o755)
        if os.geteuid() == 0:
            shutil.chown(folder, "nobody")

    def _as(self) -> list[str]:
        """PostgreSQL refuses to run as root."""
        if os.geteuid() != 0:
            return []
        group = pwd.getpwnam("nobody").pw_gid
        return ["setpriv", "--reuid", "nobody", "--regid", str(group), "--clear-groups"]

    def program(self, name: str, *arguments: str) -> None:
        """Run one of PostgreSQL's programs on this machine, to its end."""
        command = [*self.machine.words(), *self._as(), str(self.programs / name), *arguments]
        done = subprocess.run(
            command, cwd=self.folder, capture_output=True, text=True, check=False, timeout=_PATIENCE_S
        )
        if done.returncode:
            raise RuntimeError(f"{name} failed: {done.stdout[-1000:]}{done.stderr[-1000:]}")

    def make(self) -> None:
        """A new, empty server."""
        self.program(
            "initdb", "-D", str(self.data), "-U", "relay", "-A", "trust", "-E", "UTF8", "--locale=C", "-N"
        )
        with (self.data / "pg_hba.conf").open("a") as file:
            file.write("host all all 10.77.0.0/24 trust\nhost replication all 10.77.0.0/24 trust\n")

    async def start(self) -> None:
        """Start it, and wait until it answers."""
        options = [word for name, value in SETTINGS.items() for word in ("-c", f"{name}={value}")]
        server = [str(self.programs / "postgres"), "-D", str(self.data), "-k", str(self.folder), *options]
        with (self.folder / "server.log").open("ab") as log:
            self.process = subprocess.Popen(  # noqa: ASYNC220 -- it is started, not waited for
                [*self.machine.words(), *self._as(), *server],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        give_up = time.monotonic() + _PATIENCE_S
        while True:
            try:
                await self.ask("SELECT 1")
                return
            except (OSError, asyncpg.PostgresError):
                if self.process.poll() is not None or time.monotonic() > give_up:
                    said = (self.folder / "server.log").read_text()[-2000:]
                    raise RuntimeError(f"the server did not start: {said}") from None
            await asyncio.sleep(0.1)

    async def stop(self, number: signal.Signals = signal.SIGINT) -> None:
        """SIGINT cuts every connection; SIGQUIT and SIGKILL are crashes."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)
            await asyncio.to_thread(self.process.wait, _PATIENCE_S)
            if number is signal.SIGKILL:
                await self._backends_gone()

    async def _backends_gone(self) -> None:
        """The processes of a killed server notice it one by one, and may commit until then."""

        async def none() -> bool:
            return not await asyncio.to_thread(self._backends)

        await eventually(none, "the server's processes to end", every_s=0.05)

    def _backends(self) -> bool:
        for process in psutil.process_iter():
            with suppress(psutil.Error, OSError):
                if process.cwd() == str(self.data) and process.status() != psutil.STATUS_ZOMBIE:
                    return True
        return False

    async def ask(self, statement: str, *values: Any, database: str = "postgres") -> Any:
        """The rows of a statement, by the server's socket, which no cut reaches."""
        connection = await asyncpg.connect(
            host=str(self.folder), user="relay", database=database, timeout=5.0, statement_cache_size=0
        )
        try:
            return await connection.fetch(statement, *values, timeout=30.0)
        finally:
            with suppress(OSError, asyncpg.PostgresError, TimeoutError):
                await connection.close(timeout=5.0)


class Servers:
    """`first` is the one that is written."""

    def __init__(self, folder: Path, first: Machine, second: Machine, programs: Path) -> None:
        self.first = PostgresServer(first, folder / first.name, programs)
        self.second = PostgresServer(second, folder / second.name, programs)
        #: When a server that crashed need not have kept what it acknowledged (docs/postgres.md, "After a crash of the
        #: server"): from, until, by the clock of the notes.
        self.forgot: list[tuple[float, float]] = []
        self._hosts = ",".join(f"{machine.address}:{_PORT}" for machine in (first, second))

    def dsn_of(self, database: str) -> str:
        """Names both, in an order that never changes: which of them is written is asked anew for each connection."""
        return f"postgres://{OWNER}@{self._hosts}/{database}?target_session_attrs=primary"

    async def make(self, *databases: str) -> None:
        await asyncio.to_thread(self.first.make)
        await self.first.start()
        await self.first.ask(f"CREATE ROLE {OWNER} LOGIN CREATEROLE")
        for database in databases:
            await self.first.ask(f"CREATE DATABASE {database} OWNER {OWNER}")
        await self.follow()

    async def follow(self) -> None:
        """Make the second server anew, as a copy of the first that follows it."""
        await self.second.stop(signal.SIGKILL)
        shutil.rmtree(self.second.data, ignore_errors=True)
        source = f"host={self.first.machine.address} user=relay application_name={FOLLOWER}"
        await asyncio.to_thread(
            self.second.program, "pg_basebackup", "-D", str(self.second.data), "-d", source, "-R", "-c", "fast"
        )  # fmt: skip
        await self.second.start()
        await self._until(
            self.first, f"SELECT 1 FROM pg_stat_replication WHERE application_name = '{FOLLOWER}'"
        )
        await self._synchronous(FOLLOWER)
        await self._until(self.first, "SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'")

    async def fail_over(self, *, behind_s: float) -> None:
        """The first server crashes after the second has heard nothing for `behind_s`, and the second takes its
        place: it has what was durable, and lacks the rest."""
        began = time.monotonic()
        self.second.machine.cut(Cut.BOTH)
        try:
            await asyncio.sleep(behind_s)
            await self.first.stop(signal.SIGKILL)
        finally:
            self.second.machine.mend(Cut.BOTH)
            self.forgot.append((began - FLUSH_S, time.monotonic()))
        self.first, self.second = self.second, self.first
        await self._synchronous("")
        await self.first.ask("SELECT pg_promote(true, 60)")

    async def crash(self) -> None:
        """The first server crashes, and recovers."""
        began = time.monotonic()
        await self.first.stop(signal.SIGQUIT)
        self.forgot.append((began - FLUSH_S, time.monotonic()))
        await self.first.start()

    async def open_transactions(self, address: str) -> bool:
        """Does the machine of this address leave a transaction open now?"""
        asked = (
            "SELECT 1 FROM pg_stat_activity WHERE client_addr = $1::inet AND state = 'idle in transaction'"
        )
        return bool(await self.first.ask(asked, address))

    async def _synchronous(self, names: str) -> None:
        """Said in a file, since a server that follows can be told so too."""
        with (self.first.data / "postgresql.auto.conf").open("a") as file:
            file.write(f"synchronous_standby_names = '{names}'\n")
        await self.first.ask("SELECT pg_reload_conf()")

    async def _until(self, server: PostgresServer, statement: str) -> None:
        await eventually(lambda: server.ask(statement), statement)

    async def end(self) -> None:
        for server in (self.first, self.second):
            with suppress(Exception):
                await server.stop(signal.SIGKILL)
