# ruff: noqa: SIM105  `contextlib` is an import this script does not make
"""The small process that stands between the daemon and one program (an agent, a check).

Invariant: when this process ends, nothing that the program started is alive. It ends the program and every
descendant (TERM, one second, KILL) as soon as the program itself exits, the daemon closes the control socket,
or the daemon is gone, even by kill -9: the kernel closes the socket for it.

Usage: `python -I -S shim.py CONTROL_FD DAEMON_PID FILES PROGRAM [ARGUMENT...]`, in the working directory and with
the environment that the program shall have; FILES: how many files it may have open (the soft limit). Lines on the
control socket, each at most once, in this order: `started PID`, or `failed ERRNO` when PROGRAM could not be executed;
`exit CODE` or `signal NUMBER`. The end of the socket says that all is over.

It runs as a script and imports little but what is built into the interpreter: `os`, `signal` and `ctypes` alone
would double its start-up time, and an agent's start waits for it.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]  # what `signal` wraps, without `enum`
import posix
import resource
import select
import sys
import time

GRACE_S = 1.0
#: How often the daemon's life is looked at, should someone else hold the other end of the socket open.
WATCH_MS = 500
#: Only the daemon's end of the socket decides when the shim goes.
DEAF_TO = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36


def prctl(option: int, value: int) -> None:
    """Linux only; elsewhere a descendant that leaves the process group is out of reach."""
    if sys.platform != "linux":
        return
    try:
        import _ctypes

        libc = _ctypes.dlopen(None, 0)  # type: ignore[arg-type]  # the program itself
        _ctypes.call_function(_ctypes.dlsym(libc, "prctl"), (option, value, 0, 0, 0))
    except (ImportError, AttributeError, OSError):
        return  # the process group alone then


def parents() -> dict[int, int]:
    """Process id -> parent's id, of all processes that can be seen; empty where there is no /proc."""
    parent_of: dict[int, int] = {}
    try:
        names = posix.listdir("/proc")
    except OSError:
        return parent_of
    for name in names:
        if not name.isdigit():
            continue
        try:
            fd = posix.open(f"/proc/{name}/stat", posix.O_RDONLY)
        except OSError:
            continue
        try:
            stat = posix.read(fd, 4096)
        except OSError:
            continue
        finally:
            posix.close(fd)
        # The name in parentheses may itself hold parentheses and blanks: count from the last one.
        fields = stat[stat.rfind(b")") + 1 :].split()
        if len(fields) > 1:
            parent_of[int(name)] = int(fields[1])
    return parent_of


def descendants(root: int) -> list[int]:
    """Every process below `root`. With the subreaper set, none can leave this tree."""
    children: dict[int, list[int]] = {}
    for pid, parent in parents().items():
        children.setdefault(parent, []).append(pid)
    below_root: list[int] = []
    waiting = [root]
    while waiting:
        below = children.get(waiting.pop(), [])
        below_root += below
        waiting += below
    return below_root


def send(number: int, group: int) -> None:
    try:
        posix.killpg(group, number)
    except OSError:
        pass
    for pid in descendants(posix.getpid()):
        try:
            posix.kill(pid, number)
        except OSError:
            pass


def group_lives(group: int) -> bool:
    try:
        posix.killpg(group, 0)
    except OSError:
        return False
    return True


def tell(control: int, line: str) -> None:
    try:
        posix.write(control, line.encode())
    except OSError:
        pass  # the daemon is gone; there is nobody to tell


def reap(child: int, status: int | None, control: int) -> tuple[int | None, bool]:
    """Collect what has ended. Returns the child's status and whether anything is left to wait for."""
    while True:
        try:
            pid, ended = posix.waitpid(-1, posix.WNOHANG)
        except OSError:  # no child is left: without a subreaper the group may still have members
            return status, group_lives(child)
        if pid == 0:
            return status, True
        if pid == child:
            status = ended
            if posix.WIFSIGNALED(ended):
                tell(control, f"signal {posix.WTERMSIG(ended)}\n")
            else:
                tell(control, f"exit {posix.WEXITSTATUS(ended)}\n")


def start(argv: list[str]) -> tuple[int, int]:
    """Fork and execute. Returns (pid, errno): errno is 0 when the program runs."""
    reader, writer = posix.pipe()  # closed by a successful exec, else it carries the errno
    child = posix.fork()
    if child == 0:
        try:
            posix.setsid()
            prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            for number in (*DEAF_TO, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD):
                signal.signal(number, signal.SIG_DFL)
            posix.execv(argv[0], argv)
        except OSError as error:
            posix.write(writer, str(error.errno or 1).encode())
        finally:
            posix._exit(127)
    posix.close(writer)
    errno = posix.read(reader, 16)
    posix.close(reader)
    return child, int(errno or b"0")


def watch(control: int, daemon: int, wake: int, child: int) -> int | None:
    """Wait until the program has ended, the daemon wants it ended, or is gone. Returns its status, if any."""
    poll = select.poll()
    poll.register(control, select.POLLIN)
    poll.register(wake, select.POLLIN)
    status: int | None = None
    while True:
        for fd, _ in poll.poll(WATCH_MS):
            if fd == control:  # its end, or whatever was said: both mean "end it"
                return status
            posix.read(wake, 4096)
        status, _ = reap(child, status, control)
        if status is not None or posix.getppid() != daemon:
            return status


def end(control: int, child: int, status: int | None) -> None:
    """TERM, grace, KILL; returns when there is no descendant left."""
    began = time.monotonic()
    status, left = reap(child, status, control)
    if left:
        send(signal.SIGTERM, child)
    while left:
        time.sleep(0.01)
        if time.monotonic() - began > GRACE_S:
            send(signal.SIGKILL, child)
        status, left = reap(child, status, control)
        if time.monotonic() - began > 10 * GRACE_S:
            return  # a process in an uninterruptible wait: the kernel ends it when it wakes


def main(arguments: list[str]) -> int:
    control, daemon, files, argv = int(arguments[0]), int(arguments[1]), int(arguments[2]), arguments[3:]
    posix.set_inheritable(control, False)
    for number in DEAF_TO:
        signal.signal(number, signal.SIG_IGN)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    except (OSError, ValueError):
        pass  # the hard limit was lowered meanwhile: it is the soft one too
    wake, woken = posix.pipe()
    posix.set_blocking(woken, False)
    signal.set_wakeup_fd(woken)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    child, errno = start(argv)
    if errno:
        tell(control, f"failed {errno}\n")
        posix.waitpid(child, 0)
        return 1
    for fd in (0, 1, 2):
        posix.close(fd)  # the program's pipes must close when the program closes them
    tell(control, f"started {child}\n")
    end(control, child, watch(control, daemon, wake, child))
    return 0


if __name__ == "__main__":
    posix._exit(main(sys.argv[1:]))
