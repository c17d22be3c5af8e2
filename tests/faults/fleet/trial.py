"""Does each fault do what it says? In a cage, python -m tests.faults.fleet.trial prints what came to be as JSON.

Without this a cut that cuts nothing would make every run of the fleet's faults hold.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress

from tests.faults.fleet import cage, network
from tests.faults.fleet.members import Member
from tests.faults.fleet.network import Cut, Machine, command, machines

_PORT = 4000


def main() -> int:
    command("mount", "-t", "tmpfs", "-o", "mode=755", "none", str(cage.FLOOR))
    places = machines({"m1": 21, "m2": 22})
    found: dict[str, object] = {}
    try:
        a, b = places.values()
        at_a, at_b = _socket(a), _socket(b)
        for how in Cut:
            _passes(at_a, b, at_b)  # both know where the other is
            _passes(at_b, a, at_a)
            a.cut(how)
            _send(at_a, b, b"while cut")
            _send(at_b, a, b"while cut")
            a.mend(how)
            found[how] = {"out": not _passes(at_a, b, at_b), "in": not _passes(at_b, a, at_a)}
        member = Member(a, "postgres://nobody@nowhere/room", ["ADA"], [], {}, cage.FLOOR / "notes")
        found["clock"] = {str(skew): _skewed(member, skew) for skew in (0, 3600, -3600)}
        member.fill()
        found["full"] = _refused(member)
        member.empty()
        found["empty"] = _refused(member)
        member.process = subprocess.Popen(["sleep", "60"])
        member.freeze()
        os.waitid(os.P_PID, member.pid, os.WSTOPPED)
        member.thaw()
        os.waitid(os.P_PID, member.pid, os.WCONTINUED)
        member.process.send_signal(signal.SIGKILL)
        found["ended"] = member.process.wait()
    finally:
        network.end(places)
    print(json.dumps(found))
    return 0


def _socket(machine: Machine) -> socket.socket:
    made = machine.socket(socket.AF_INET, socket.SOCK_DGRAM, 0)
    made.bind((machine.address, _PORT))
    made.settimeout(10)
    return made


def _send(sender: socket.socket, to: Machine, data: bytes) -> None:
    with suppress(OSError):  # a cable that is pulled is noticed
        sender.sendto(data, (to.address, _PORT))


def _passes(sender: socket.socket, to: Machine, receiver: socket.socket) -> bool:
    """Sends one datagram more, which comes; did one come before it?"""
    heard = []
    _send(sender, to, b"now")
    while not heard or heard[-1] != b"now":
        with suppress(TimeoutError):
            heard.append(receiver.recv(100))
            continue
        _send(sender, to, b"now")
    return len(heard) > 1


def _skewed(member: Member, skew: int) -> float:
    """By how many hours a program there has another time, and whether it measures as others do."""
    member.skew(skew)
    asked = "import time; print(time.time(), time.monotonic())"
    before, began = time.time(), time.monotonic()
    done = subprocess.run(
        [*member.machine.words(), sys.executable, "-c", asked],
        env={**os.environ, **member.clock()},
        capture_output=True,
        text=True,
        check=True,
    )
    wall, measured = map(float, done.stdout.split())
    assert began < measured < time.monotonic(), "the monotonic clock was skewed too"
    return round((wall - before) / 3600, 1)


def _refused(member: Member) -> bool:
    """Does its disk refuse one byte more?"""
    path = member.folder / "more"
    try:
        path.write_bytes(b"x" * 5000)
    except OSError:
        return True
    finally:
        with suppress(OSError):
            path.unlink()
    return False


if __name__ == "__main__":
    sys.exit(cage.live(main))
