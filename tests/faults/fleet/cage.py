"""A cage: namespaces of network, mounts and processes that a whole run lives in, and that end with it.

Invariant: nothing of a run outlives it. Its first process ends with the last one that holds the cage, and then the
kernel ends every process within, unmounts what was mounted and takes every interface away: after an error, Ctrl-C and
`kill -9` alike. Nothing has a name outside, so runs do not meet. Root needs nothing more; another user gets the
rights within a user namespace, where the machine allows those.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil

_NAMESPACES = ("--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
#: Another user keeps his own number within: PostgreSQL refuses to run as root.
_OF_A_USER = ("--user", "--map-current-user", "--keep-caps")
#: What the cage's programs need, and the package of Debian that has it.
_PROGRAMS = {"unshare": "util-linux", "nsenter": "util-linux", "ip": "iproute2", "tc": "iproute2"}
#: A tmpfs is mounted over it, within the cage only; every machine has it.
FLOOR = Path("/mnt")


def words() -> list[str]:
    """What stands before a command to run it in a cage."""
    return ["unshare", *(() if os.geteuid() == 0 else _OF_A_USER), *_NAMESPACES]


def missing() -> str:
    """Why there can be no cage here, in words; "" where there can."""
    if sys.platform != "linux":
        return "network namespaces are Linux's"
    for program, package in _PROGRAMS.items():
        if shutil.which(program) is None:
            return f"{program} is missing: install {package}"
    # Everything that a run does to its network and its disks, once.
    tried = (
        "ip link set lo up && ip link add one type veth peer name two && ip link add name three type bridge"
    )
    tried += " && tc qdisc add dev one root pfifo limit 0 && unshare --net --uts hostname m1"
    tried += f" && mount -t tmpfs none {FLOOR}"
    done = subprocess.run(
        [*words(), "sh", "-c", tried], capture_output=True, text=True, check=False, timeout=60
    )
    if done.returncode:
        return f"this user may make no namespaces, or not all that is needed in them: {done.stderr.strip()}"
    return ""


def enter(module: str, arguments: Sequence[str]) -> int:
    """Run `python -m MODULE --caged ARGUMENTS` in a cage; its exit code."""
    command = [*words(), sys.executable, "-m", module, "--caged", *arguments]
    # Out of the terminal's group: who is within is told by us, and once.
    process = subprocess.Popen(command, start_new_session=True)
    told = {number: signal.signal(number, _interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        while True:
            try:
                return process.wait()
            except KeyboardInterrupt:
                for first in psutil.Process(process.pid).children():
                    first.send_signal(signal.SIGTERM)
    finally:
        for number, before in told.items():
            signal.signal(number, before)
        process.kill()


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def live(run: Callable[[], int]) -> int:
    """The first process of the cage: it runs `run` in a child and reaps what is orphaned meanwhile."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = run()
        except KeyboardInterrupt:
            code = 128 + signal.SIGINT
        except Exception:  # this process ends here, so nobody else would tell
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: os.kill(child, signal.SIGINT))
    while True:
        ended, status = os.wait()
        if ended == child:
            return os.waitstatus_to_exitcode(status) & 0xFF
