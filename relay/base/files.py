"""Files that are replaced whole, files that are no files, and being alone with a folder.

Invariants:
- a reader of a file that is written here sees the old one or the new one, never a part, and a failed write leaves
  nothing behind;
- nothing that another may have put in a file's place (a pipe, a device, a folder) is waited for: it is refused.

Blocking, for milliseconds: call it in a thread.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

#: Bytes of a file that is read whole, at most, and of a token.
MOST_READ = 16 << 20
TOKEN_BYTES = 4096


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
        sync_folder(path.parent)
    return written


def sync_folder(folder: Path) -> None:
    """Bring the names of a folder's files to disk. Raises OSError."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


class NotRegular(OSError):
    """What has the name is no regular file (a pipe, a device, a folder), and is not read."""

    def __init__(self, path: str | Path, mode: int) -> None:
        super().__init__(
            errno.EINVAL, f"{Path(path).name} is {_KINDS.get(stat.S_IFMT(mode), 'no file')}, not a file"
        )


_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFDIR: "a folder",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def open_regular(path: str | Path, flags: int = os.O_RDONLY) -> int:
    """A descriptor of a regular file, opened without waiting: to open a pipe would wait for its other end, for ever.

    Raises NotRegular, OSError.
    """
    # Looked at before too: to open a device may do something.
    with contextlib.suppress(FileNotFoundError):
        _refuse_other(path, Path(path).stat().st_mode)
    fd = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, 0o600)
    try:
        _refuse_other(path, os.fstat(fd).st_mode)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _refuse_other(path: str | Path, mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise NotRegular(path, mode)


def reading(path: str | Path) -> BinaryIO:
    """A regular file to read from, as `path.open("rb")` gives. Raises NotRegular, OSError."""
    return os.fdopen(open_regular(path), "rb")


def read_regular(path: str | Path, most: int = MOST_READ) -> bytes:
    """A small file of the room's, whole. Raises NotRegular, OSError; EFBIG when it has more than `most` bytes."""
    with reading(path) as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise OSError(errno.EFBIG, f"{Path(path).name} has more than {most:,} bytes")
    return data


def stamp_of(path: Path) -> tuple[int, int, int] | None:
    """What changes when the file does; None when there is none. Raises OSError."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


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
                    reason = f"{folder} is locked by another program"
                    raise TimeoutError(errno.ETIMEDOUT, reason) from None
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
        root = resolved(folder)
        return below(root, resolved(os.path.join(root, path)))  # noqa: PTH118 - see `resolved`
    except (OSError, ValueError):  # too long, a NUL, links in a circle
        return None


def resolved(path: str | Path) -> str:
    """As `Path.resolve`, which takes four times as long: absolute and without links; the file need not exist. Raises
    OSError for links in a circle, ValueError for what no system takes."""
    real = os.path.realpath(path)
    try:
        os.stat(real)  # noqa: PTH116 - as above
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise
    return real


def resolver() -> Callable[[str], str]:
    """`resolved` for many absolute paths at one moment: each folder is looked at once."""
    seen: dict[str, str] = {}

    def look(path: str) -> str:
        if not path.startswith("/") or "/../" in f"{path}/":
            return resolved(path)
        if "\0" in path:
            raise ValueError("a path with a NUL")
        named = real = ""
        for name in path.split("/"):
            if name in ("", "."):
                continue
            named = f"{named}/{name}"
            if named not in seen:
                there = f"{real}/{name}"
                seen[named] = resolved(there) if os.path.islink(there) else there  # noqa: PTH114 - for the time
            real = seen[named].rstrip("/")
        return real or "/"

    return look


def below(root: str, path: str) -> str | None:
    """`path` relative to `root`, both resolved, with `/`; None when it is not below it."""
    start = root.rstrip("/") + "/"
    return path[len(start) :] if path.startswith(start) and path != start else None
