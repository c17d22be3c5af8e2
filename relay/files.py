"""Files that are replaced whole, and being alone with a folder.

Invariant: a reader of a file that is written here sees the old one or the new one, never a part, and a failed
write leaves nothing behind. Blocking, for milliseconds: call it in a thread.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path


def write_atomically(
    path: Path, data: str | bytes, mode: int = 0o600, *, durable: bool = True
) -> os.stat_result:
    """Replace the file at `path` in one step; gives how it stood just before it was in place.

    `durable`: on disk when this returns. Raises OSError, and then the old file stands as it was.
    """
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(data.encode() if isinstance(data, str) else data)
            file.flush()
            if durable:
                os.fsync(file.fileno())
            written = os.fstat(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            Path(temporary).unlink()
        raise
    if durable:
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    return written


@contextlib.contextmanager
def alone_in(folder: Path, timeout_s: float = 10.0) -> Iterator[None]:
    """Hold the lock on `folder`, which the kernel takes back when its holder dies; no second file stays behind.

    Raises TimeoutError after `timeout_s` seconds, FileNotFoundError when there is no such folder.
    """
    handle = os.open(folder, os.O_RDONLY)
    try:
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    said = f"{folder} is locked by another program"
                    raise TimeoutError(errno.ETIMEDOUT, said) from None
                time.sleep(0.005)
        yield
    finally:
        os.close(handle)


def inside(folder: Path, path: str) -> str | None:
    """`path` (absolute, or relative to `folder`) relative to `folder`, with `/`; None when it is not below it.

    Links are followed, so that none leads out of the folder; the file need not exist. Raises nothing: a path that
    no system takes is in no folder.
    """
    try:
        root = folder.resolve()
        at = (root / path).resolve()
    except (OSError, ValueError, RuntimeError):  # too long, a NUL, links in a circle
        return None
    return at.relative_to(root).as_posix() if at != root and at.is_relative_to(root) else None
