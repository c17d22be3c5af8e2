"""A command in a sandbox of bubblewrap, so that what an agent wrote may run.

Invariants: it sees the machine's files and writes only where it is told; it sees no process but its own, and ends
with whoever started it; without `network` it reaches nothing, its own machine included. What is `hidden` cannot be
read by it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

#: Seconds until a sandbox that does not start is taken for none.
TRIAL_S = 10.0
#: Where people keep keys, and by what programs are reached that may do more; below their home and from the root.
KEYS = (
    *(
        ".ssh",
        ".gnupg",
        ".aws",
        ".azure",
        ".kube",
        ".docker",
        ".netrc",
        ".git-credentials",
        ".npmrc",
        ".pypirc",
    ),
    *(".config/gh", ".config/gcloud", ".config/hub", ".claude", ".codex", ".gemini"),
)
SOCKETS = ("/run/user", "/run/docker.sock", "/var/run/docker.sock", "/run/postgresql", "/run/dbus")


@cache
def bubblewrap() -> tuple[str | None, str]:
    """(the program, "") where it works on this machine; else (None, what is missing). Blocks, once."""
    program = shutil.which("bwrap")
    if program is None:
        return None, "bubblewrap is not installed (apt install bubblewrap)"
    try:
        done = subprocess.run(
            [program, *_APART, "--ro-bind", "/", "/", "--", "/bin/sh", "-c", ":"],
            capture_output=True,
            timeout=TRIAL_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return None, f"bubblewrap does not start: {error}"
    said = done.stderr.decode("utf-8", "replace").strip()
    return (program, "") if done.returncode == 0 else (None, f"bubblewrap does not work here: {said}")


def tmux_sockets() -> Path:
    """Where tmux has this user's sockets. Who reaches one runs what they like outside."""
    return Path(os.environ.get("TMUX_TMPDIR") or "/tmp") / f"tmux-{os.getuid()}"


#: Apart from the machine's processes, users, names and network; it ends with its parent, and has no terminal.
_APART = ("--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL")


def in_sandbox(
    program: str,
    argv: Sequence[str],
    *,
    folder: Path,
    writable: Iterable[Path],
    hidden: Iterable[Path] = (),
    network: bool = False,
    home: Path | None = None,
) -> list[str]:
    """The words that run `argv` in the folder. `program`: bubblewrap; `writable`: folders that it may write;
    `hidden`: files and folders that it cannot read, beside the keys in `home` (this user's). Blocks."""
    own = home or Path.home()
    words = [program, *_APART, *(["--share-net"] if network else [])]
    words += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"]
    if (installed := _installed_in_tmp(argv[0])) is not None:
        words += ["--ro-bind", installed, installed]
    closed = (*(own / name for name in KEYS), *map(Path, SOCKETS), tmux_sockets(), *hidden)
    for path in dict.fromkeys(closed):
        real = Path(os.path.realpath(path))
        if real.is_dir():
            words += ["--tmpfs", str(real)]
        elif real.exists():
            words += ["--ro-bind", "/dev/null", str(real)]
    # Behind what hides: a folder to write in may lie in a hidden one.
    for path in writable:
        words += ["--bind", str(path), str(path)]
    return [*words, "--chdir", str(folder), "--", *argv]


def _installed_in_tmp(program: str) -> str | None:
    """Where a program is installed that stands below /tmp, which the sandbox has for its own: the folder above its
    `bin`, as of a virtual environment, or its own folder. None: it stands elsewhere."""
    path = Path(program)
    if not path.is_relative_to("/tmp"):
        return None
    for folder in (path.parents[path.parent.name == "bin"], path.parent):
        if folder != Path("/tmp"):
            return str(folder)
    return program
