"""relay as git's merge driver: `relay merge driver BASE OURS THEIRS SIZE PATH`, which git runs for a file that both
sides changed.

Invariant: OURS has the result, and the exit code is 0 = merged, 1 = conflicts. The merge runs in a child process: one
that crashes or takes too long costs its time, and the answer is git's own.
"""

from __future__ import annotations

import argparse
import os
import pickle
import select
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from relay.merge.text.git_text import GitTextError, git_text

DEFAULT_MS = 2000


def main(words: Sequence[str]) -> int:
    """The driver; gives its exit code."""
    parser = argparse.ArgumentParser(
        prog="relay merge driver", description="git's merge driver; git runs it."
    )
    for name in ("base", "ours", "theirs"):
        parser.add_argument(name)
    parser.add_argument("size", type=int, nargs="?", default=7)
    parser.add_argument("path", nargs="?", default="")
    parser.add_argument("--timeout-ms", type=int, default=DEFAULT_MS)
    args = parser.parse_args(words)
    base, ours, theirs = (Path(name).read_bytes() for name in (args.base, args.ours, args.theirs))
    answer = in_child((base, ours, theirs), args.path, args.size, args.timeout_ms / 1000)
    data, clean = answer if answer is not None else by_git(base, ours, theirs, args.size)
    Path(args.ours).write_bytes(data)
    return 0 if clean else 1


def in_child(
    versions: tuple[bytes, bytes, bytes], path: str, size: int, timeout_s: float
) -> tuple[bytes, bool] | None:
    """The merge and whether it is clean, from a child; None when it crashed or was too late."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(read)
            with os.fdopen(write, "wb") as out:
                pickle.dump(_merged(versions, path, size), out)
            code = 0
        finally:
            os._exit(code)
    os.close(write)
    try:
        data = _until(read, time.monotonic() + timeout_s)
    finally:
        os.close(read)
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    if data is None:
        return None
    try:
        found: tuple[bytes, bool] = pickle.loads(data)
    except (pickle.UnpicklingError, EOFError, ValueError):
        return None
    return found


def _merged(versions: tuple[bytes, bytes, bytes], path: str, size: int) -> tuple[bytes, bool]:
    from relay.merge.text.file_merge import merge_file
    from relay.merge.text.ladder import Labels

    with git_text() as git:
        merged = merge_file(git, *versions, path, Labels(size=size))
    for warning in merged.warnings:
        print(f"relay merge: {path}: {warning}", file=sys.stderr, flush=True)
    return merged.data, merged.clean


def _until(pipe: int, deadline: float) -> bytes | None:
    """All that comes out of a pipe, None when that takes too long."""
    data = bytearray()
    while True:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([pipe], [], [], left)[0]:
            return None
        chunk = os.read(pipe, 1_048_576)
        if not chunk:
            return bytes(data)
        data += chunk


def by_git(base: bytes, ours: bytes, theirs: bytes, size: int) -> tuple[bytes, bool]:
    """git's own answer; ours, in conflict, where git has none (a binary file, say)."""
    if any(b"\0" in data[:8000] for data in (base, ours, theirs)):
        return ours, False
    try:
        with git_text() as git:
            answer = git.merge(base, ours, theirs)
    except GitTextError as error:
        print(f"relay merge: {error}", file=sys.stderr)
        return ours, False
    return answer.marked(("ours", "base", "theirs"), size), answer.text is not None
