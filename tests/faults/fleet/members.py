"""One member of the fleet: a relay on a machine of its own, with a small disk and a clock that can be set wrong."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiohttp

from relay.store.postgres.address import VARIABLE
from tests.faults.fleet import cage
from tests.faults.fleet.network import Machine, command
from tests.outside import PATIENCE_S, Json, Outside, Ran, eventually, program, settings

#: The disk of a member: its configuration, transcript, log and state.
DISK_MB = 64
_LIBRARIES = ("faketime/libfaketime.so.1",)
_PLACES = (
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib",
    "/usr/lib64",
    "/usr/local/lib",
)


def faketime() -> Path | None:
    """The library that tells a program another time; None where it is not installed."""
    found = (Path(place) / library for place in _PLACES for library in _LIBRARIES)
    return next((path for path in found if path.exists()), None)


class Member(Outside):
    """A relay and its machine. `agents`: of these names; `shared`: those of them that are another's too."""

    def __init__(
        self,
        machine: Machine,
        dsn: str,
        agents: Sequence[str],
        shared: Sequence[str],
        more: Json,
        notes: Path,
    ) -> None:
        self.machine, self.name = machine, machine.name
        self.agents = tuple(agents)
        folder = cage.FLOOR / machine.name
        folder.mkdir()
        command("mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m", "none", str(folder))
        self.notes, self.keys = notes, cage.FLOOR / "keys.json"
        self._clock = cage.FLOOR / f"{machine.name}.clock"
        self._ballast = folder / "ballast"
        words = ("worker.py", str(self.notes), str(self.keys))
        made = [
            program(name, *words, timeout_s=60, **({"shared": True} if name in shared else {}))
            for name in agents
        ]
        super().__init__(
            folder,
            settings(
                *made,
                storage="postgres",
                # A job that is interrupted again and again is not given up, and no lease is longer than a fault.
                queue={"max_attempts": 50, "lease_s": 5, "stale_after_s": 5},
                airspace={"enabled": False},
                **more,
            ),
        )
        self.env[VARIABLE] = dsn
        shutil.copy(Path(__file__).with_name("worker.py"), folder / "worker.py")
        self.skew(0)

    # -- its processes are at its machine

    def launch(
        self, *, words: Sequence[str] = (), env: Mapping[str, str] | None = None, detached: bool = True
    ) -> Any:
        return super().launch(
            words=[*self.machine.words(), *words], env={**self.clock(), **(env or {})}, detached=detached
        )

    def clock(self) -> dict[str, str]:
        """Variables that give a program this machine's clock, where the library for it is installed. The file is read
        for each question of the time, so that the clock jumps while the program runs. What is measured with (the
        monotonic clock) is left alone, as on a machine whose clock is set."""
        library = faketime()
        if library is None:
            return {}
        return {
            "LD_PRELOAD": str(library),
            "FAKETIME_TIMESTAMP_FILE": str(self._clock),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }

    async def run(self, *words: str, env: Mapping[str, str] | None = None) -> Ran:
        return await super().run(*self.machine.words(), *words, env=env)

    @property
    def session(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = self.machine.session(timeout=aiohttp.ClientTimeout(total=PATIENCE_S))
        return self._session

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    # -- what can happen to it

    def freeze(self) -> None:
        """The daemon stands still; its agents' programs go on."""
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def skew(self, seconds: int) -> None:
        """Set the machine's clock wrong by so much."""
        new = self._clock.with_suffix(".new")
        new.write_text(f"{seconds:+d}\n")
        new.replace(self._clock)

    def fill(self) -> None:
        """Fill the disk to its last byte."""
        with self._ballast.open("ab", buffering=0) as file, suppress(OSError):
            while True:
                file.write(b"x" * 4096)

    def empty(self) -> None:
        self._ballast.unlink(missing_ok=True)

    # -- what it shows

    async def well(self) -> bool:
        """Does it say that it is well?"""
        with suppress(aiohttp.ClientError, OSError, TimeoutError, ValueError):
            async with self.session.get(f"{self.url}/health") as answer:
                return answer.status == 200
        return False

    def lines(self) -> list[tuple[str, Json | str]]:
        """Its file's lines; one that is no entry is named as itself, so that it equals nothing."""
        found: list[tuple[str, Json | str]] = []
        data = self.transcript.read_bytes() if self.transcript.exists() else b""
        for line in data.split(b"\n"):
            text = line.decode("utf-8", "replace")
            if not text.strip():
                continue
            match = re.fullmatch(r"\[([^\]]+)\] (.*)", text)
            if match is None:
                found.append(("", text))
                continue
            told: Json | str = match[2]
            if match[2].startswith("{"):
                with suppress(ValueError):
                    told = json.loads(match[2])
            found.append((match[1], told))
        return found

    async def verify(self) -> list[str]:
        done = await self.relay("verify")
        return [] if done.code == 0 else [f"the log does not verify at {self.name}: {done.all[-1000:]}"]

    def keep(self, place: Path) -> None:
        """Copy what tells of it to a folder that stays."""
        place.mkdir(parents=True, exist_ok=True)
        for path in (self.path, self.transcript, self.runtime / "relay.log", self.folder / "daemon.out"):
            if path.exists():
                shutil.copy(path, place / path.name)

    async def end(self) -> None:
        if self.running():
            with suppress(ProcessLookupError):
                self.thaw()
        self.empty()
        await super().end()


async def all_well(members: Sequence[Member], within_s: float = 2 * PATIENCE_S) -> None:
    """Wait until every member says that it is well."""
    for member in members:
        await eventually(member.well, f"{member.name} to be well", within_s=within_s, every_s=0.2)
