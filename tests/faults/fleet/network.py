"""Machines in network namespaces of their own, each with one cable to one switch, and what can happen to a cable.

Invariant: a machine's namespaces are those of one process, its `holder`; they end with it. A cable that is cut loses
what is sent without a word, as a broken network does: a queue with room for no packet drops each. One end has a queue
of its own, so the two directions are cut by themselves.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import socket
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import aiohttp

_BRIDGE, _NET = "switch", "10.77.0"
_CLONE_NEWNET = 0x40000000
_PATIENCE_S = 20.0


class Cut(StrEnum):
    """What is cut: what the machine sends, what it would receive, both, or the cable is pulled out of its socket,
    which its system notices."""

    OUT = "out"
    IN = "in"
    BOTH = "both"
    PULLED = "pulled"


def command(*words: str) -> None:
    """Run a command of the network; raises RuntimeError with what it said."""
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=_PATIENCE_S)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip()}")


def make_switch() -> None:
    """The switch, in the cage's own namespace."""
    command("ip", "link", "set", "lo", "up")
    command("ip", "link", "add", "name", _BRIDGE, "type", "bridge")
    command("ip", "link", "set", _BRIDGE, "up")


@dataclass
class Machine:
    """A machine of this name. `number` is the last one of its address."""

    name: str
    number: int
    holder: subprocess.Popen[bytes] = field(init=False)
    _door: ThreadPoolExecutor = field(init=False)

    def __post_init__(self) -> None:
        # `hostname` says that the namespaces are there; the end of our end of the pipe ends the holder.
        script = f"hostname {self.name} && echo there && read _"
        self.holder = subprocess.Popen(
            ["unshare", "--net", "--uts", "sh", "-c", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert self.holder.stdout is not None
        if self.holder.stdout.readline() != b"there\n":
            raise RuntimeError(f"there is no namespace for {self.name}")
        cable = ("ip", "link", "add", "name", self.name, "type", "veth")
        command(*cable, "peer", "name", "eth0", "netns", str(self.holder.pid))
        command("ip", "link", "set", self.name, "master", _BRIDGE, "up")
        for words in (
            ("ip", "link", "set", "lo", "up"),
            ("ip", "addr", "add", f"{self.address}/24", "dev", "eth0"),
            ("ip", "link", "set", "eth0", "up"),
        ):
            command(*self.words(), *words)
        self._door = ThreadPoolExecutor(1, initializer=_enter, initargs=(self.holder.pid,))

    @property
    def address(self) -> str:
        return f"{_NET}.{self.number}"

    def words(self) -> list[str]:
        """What stands before a command to run it on this machine."""
        return ["nsenter", "--target", str(self.holder.pid), "--net", "--uts", "--"]

    # -- the cable

    def cut(self, how: Cut) -> None:
        if how is Cut.PULLED:
            command("ip", "link", "set", self.name, "down")
        if how in (Cut.OUT, Cut.BOTH):
            command(*self.words(), *_queue("add", "eth0"))
        if how in (Cut.IN, Cut.BOTH):
            command(*_queue("add", self.name))

    def mend(self, how: Cut) -> None:
        if how is Cut.PULLED:
            command("ip", "link", "set", self.name, "up")
        if how in (Cut.OUT, Cut.BOTH):
            command(*self.words(), *_queue("del", "eth0"))
        if how in (Cut.IN, Cut.BOTH):
            command(*_queue("del", self.name))

    # -- a program that sits at it

    def socket(self, family: int, type: int, protocol: int) -> socket.socket:
        """A socket of this machine: it belongs to the namespace that it was made in, whoever uses it."""
        return self._door.submit(socket.socket, family, type, protocol).result()

    def session(self, **more: Any) -> aiohttp.ClientSession:
        """HTTP as a program on this machine has it. For use within an event loop."""
        connector = aiohttp.TCPConnector(socket_factory=lambda info: self.socket(info[0], info[1], info[2]))
        return aiohttp.ClientSession(connector=connector, **more)

    def end(self) -> None:
        # By its name: the kernel takes what is in a namespace away a while after the namespace's end.
        with suppress(RuntimeError):
            command("ip", "link", "del", self.name)
        self._door.shutdown()
        self.holder.kill()
        self.holder.wait()


def _queue(act: str, device: str) -> Sequence[str]:
    words = ("tc", "qdisc", act, "dev", device, "root")
    return (*words, "pfifo", "limit", "0") if act == "add" else words


def _enter(pid: int) -> None:
    """This thread is at the machine from now on."""
    namespace = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    try:
        if ctypes.CDLL(None, use_errno=True).setns(namespace, _CLONE_NEWNET):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
    finally:
        os.close(namespace)


async def reaches(one: Machine, address: str, port: int, within_s: float) -> bool:
    """Does a connection from this machine come to stand?"""
    made = one.socket(socket.AF_INET, socket.SOCK_STREAM, 0)
    made.setblocking(False)
    try:
        async with asyncio.timeout(within_s):
            await asyncio.get_running_loop().sock_connect(made, (address, port))
    except OSError:  # TimeoutError too
        return False
    finally:
        made.close()
    return True


def machines(names: Mapping[str, int]) -> dict[str, Machine]:
    """Machines of these names and numbers, on a new switch."""
    make_switch()
    return {name: Machine(name, number) for name, number in names.items()}


def end(places: Mapping[str, Machine]) -> None:
    """Take the machines and their switch away: others may be made then."""
    for machine in places.values():
        machine.end()
    command("ip", "link", "del", _BRIDGE)
