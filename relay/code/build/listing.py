"""Which files of a repository are in the graph, and git's hash of each.

Invariant: git says which files there are (tracked, or untracked and not ignored); none of its calls reads the
user's or the system's configuration, runs a hook or a file system monitor, or writes to the repository.
Symbolic links and submodules are not followed.
"""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

from relay.code.read.extract import LARGEST, unfit
from relay.code.read.grammar import language_of

#: Folders of other people's or of built code, tracked or not (linguist's vendor.yml names the same).
VENDORED = frozenset(
    {
        "node_modules",
        "bower_components",
        "jspm_packages",
        "vendor",
        "dist",
        "venv",
        ".venv",
        "site-packages",
        "__pycache__",
        ".tox",
        ".nox",
        ".yarn",
        ".git",
        ".relay",
    }
)
#: Seconds for one call of git; a listing of 50,000 files takes less than one.
GIT_S = 60.0
_SAFE = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "core.quotePath=false")
_ENVIRONMENT = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}


class ListingError(Exception):
    """git could not list the repository; the message says why."""


def is_vendored(path: str) -> bool:
    """Whether a path lies in a folder that the graph leaves out."""
    return not VENDORED.isdisjoint(path.split("/")[:-1])


def blob_hash(data: bytes) -> str:
    """git's object id of a blob with this content (SHA-1)."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def listed(root: Path, only: Iterable[str] = ()) -> list[str]:
    """The paths that git knows, tracked or untracked and not ignored; of `only`, if given. Raises ListingError."""
    arguments = ["ls-files", "-z", "-c", "-o", "--exclude-standard", "--deduplicate", "--", *only]
    environment = {key: os.environ[key] for key in ("PATH", "HOME") if key in os.environ} | _ENVIRONMENT
    try:
        done = subprocess.run(
            ["git", *_SAFE, *arguments],
            cwd=root,
            env=environment,
            capture_output=True,
            timeout=GIT_S,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ListingError(f"git could not list the files of {root}: {error}") from error
    if done.returncode:
        message = done.stderr.decode("utf-8", "replace").strip()
        raise ListingError(f"git could not list the files of {root}: {message[-300:]}")
    return sorted(os.fsdecode(name) for name in done.stdout.split(b"\0") if name and not name.endswith(b"/"))


def wanted(path: str) -> bool:
    """Whether a path is of a language that is read, and not vendored."""
    return language_of(path) is not None and not is_vendored(path)


def read_file(root: Path, path: str) -> bytes | None:
    """The content of a regular file, None when there is none; of one that is too large, only too much."""
    try:
        descriptor = os.open(f"{root}/{path}", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except (OSError, ValueError):
        return None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return None
        data = os.read(descriptor, min(status.st_size, LARGEST) + 1)
        while len(data) <= LARGEST and (more := os.read(descriptor, LARGEST + 1 - len(data))):
            data += more
        return data
    except OSError:
        return None
    finally:
        os.close(descriptor)


def hashes(root: Path, paths: Iterable[str]) -> tuple[dict[str, str], dict[str, str]]:
    """(path -> blob, path -> why it is left out) of the files among these that are wanted and there."""
    blobs: dict[str, str] = {}
    left: dict[str, str] = {}
    for path in paths:
        data = read_file(root, path) if wanted(path) else None
        if data is None:
            continue
        why = unfit(path, data)
        if why:
            left[path] = why
        else:
            blobs[path] = blob_hash(data)
    return blobs, left


def digest(blobs: Mapping[str, str]) -> str:
    """One hash over all paths and their content."""
    hasher = hashlib.sha256()
    for path in sorted(blobs):
        hasher.update(os.fsencode(path) + b"\0" + blobs[path].encode() + b"\n")
    return hasher.hexdigest()
