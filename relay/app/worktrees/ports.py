"""The ports of a worktree: a range of its own, and who listens on them.

Invariant: two worktrees of a room never have the same port, and none is assigned on which something listens.

Blocking, for milliseconds: call it in a thread.
"""

from __future__ import annotations

import socket
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass

import psutil

from relay.config.airspace import PortSettings

LAST = 65535
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

    def fits(self, settings: PortSettings) -> bool:
        """Is it a range as they are configured now?"""
        offset = self.first - settings.first
        return self.count == settings.per_worktree and offset >= 0 and offset % self.count == 0

    def overlaps(self, other: PortRange) -> bool:
        return self.first <= other.last and other.first <= self.last

    def as_env(self) -> dict[str, str]:
        """`RELAY_PORT` (the first), `RELAY_PORT_0` and so on, and `RELAY_PORTS` (`21000-21009`)."""
        env = {"RELAY_PORT": str(self.first), "RELAY_PORTS": f"{self.first}-{self.last}"}
        return env | {f"RELAY_PORT_{at}": str(port) for at, port in enumerate(self.ports())}


def free_range(settings: PortSettings, taken: Collection[PortRange]) -> PortRange | None:
    """The first range that nobody has and nobody listens in; None: there is none."""
    count = settings.per_worktree
    for first in range(settings.first, LAST - count + 2, count):
        wanted = PortRange(first, count)
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
