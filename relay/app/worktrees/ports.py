"""The ports of a worktree: a range of its own, and who listens on them.

Invariant: two worktrees of a room never have the same port, and none is assigned on which something listens.

Blocking, for milliseconds: call it in a thread.
"""

from __future__ import annotations

import os
import socket
import zlib
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from relay.config.airspace import PortSettings

LAST = 65535
#: Where the ports of rooms begin, each at another place: below those that systems give to outgoing connections.
LOWEST, ROOMS, EACH = 20000, 1200, 10
#: Seconds that a look at one port may take. On this machine the answer comes at once.
LOOK_S = 0.2


@dataclass(frozen=True, slots=True)
class PortRange:
    """`count` ports, one after the other."""

    first: int
    count: int

    @property
    def last(self) -> int:
        return self.first + self.count - 1

    def __str__(self) -> str:
        return str(self.first) if self.count == 1 else f"{self.first}-{self.last}"

    def ports(self) -> range:
        return range(self.first, self.first + self.count)

    def fits(self, first: int, count: int) -> bool:
        """Is it one of the ranges of `count` ports that follow each other from `first` on?"""
        offset = self.first - first
        return self.count == count and offset >= 0 and offset % count == 0

    def overlaps(self, other: PortRange) -> bool:
        return self.first <= other.last and other.first <= self.last

    def as_env(self) -> dict[str, str]:
        """`RELAY_PORT` (the first), `RELAY_PORT_0` and so on, and `RELAY_PORTS` (`21000-21009`)."""
        env = {"RELAY_PORT": str(self.first), "RELAY_PORTS": f"{self.first}-{self.last}"}
        return env | {f"RELAY_PORT_{at}": str(port) for at, port in enumerate(self.ports())}


def first_port(settings: PortSettings, room: Path) -> int:
    """Where the ports of a room begin; `room`: its folder."""
    if settings.first is not None:
        return settings.first
    return LOWEST + zlib.crc32(os.fsencode(room)) % ROOMS * EACH


def free_range(first: int, count: int, taken: Collection[PortRange]) -> PortRange | None:
    """The first range of `count` ports from `first` on that nobody has and nobody listens in; None: there is none."""
    for at in range(first, LAST - count + 2, count):
        wanted = PortRange(at, count)
        if any(wanted.overlaps(other) for other in taken):
            continue
        if not any(listens(port) for port in wanted.ports()):
            return wanted
    return None


def listens(port: int) -> bool:
    """Does anything on this machine take a connection on this port?"""
    return any(_connects(family, host, port) for family, host in _LOOPBACK)


_LOOPBACK = ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"))


def _connects(family: socket.AddressFamily, host: str, port: int) -> bool:
    try:
        with socket.socket(family, socket.SOCK_STREAM) as tried:
            tried.settimeout(LOOK_S)
            return tried.connect_ex((host, port)) == 0
    except OSError:
        return False  # no IPv6 here


def listening_ports(pid: int) -> list[int]:
    """The ports on which a process or one below it listens, the lowest first."""
    found: set[int] = set()
    with suppress(psutil.Error, OSError):
        top = psutil.Process(pid)
        for process in (top, *top.children(recursive=True)):
            with suppress(psutil.Error, OSError):
                there = process.net_connections(kind="tcp")
                found |= {each.laddr.port for each in there if each.status == psutil.CONN_LISTEN}
    return sorted(found)
