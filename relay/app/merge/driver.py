"""relay as git's merge driver: `relay merge driver BASE OURS THEIRS SIZE PATH [LABELS]`, which git runs for a file
that both sides changed.

Invariant: OURS has the result, and the exit code is 0 = merged, 1 = conflicts. The merge runs in a child process: one
that crashes or takes too long costs its time, and the answer is git's own. Conflicts are shown as git would, by
`merge.conflictStyle`; what relay did beyond git is one line of standard error.
"""

from __future__ import annotations

import argparse
import os
import pickle
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from relay.base.terminal_text import safe_line
from relay.config.merge import MergeSettings
from relay.git.trial_merge import JoinedFile
from relay.merge.text.file_merge import BINARY_KIND, MergedFile, is_binary, merge_file
from relay.merge.text.git_text import STYLES, GitTextError, git_text
from relay.merge.text.ladder import Labels

#: Milliseconds that one file may take at most.
MOST_MS = 600_000


def main(words: Sequence[str]) -> int:
    """The driver; gives its exit code."""
    parser = argparse.ArgumentParser(
        prog="relay merge driver", description="git's merge driver; git runs it."
    )
    for name in ("base", "ours", "theirs"):
        parser.add_argument(name)
    parser.add_argument("size", type=int, nargs="?", default=7)
    parser.add_argument("path", nargs="?", default="")
    parser.add_argument("labels", nargs="*", default=[], help="of the base, ours and theirs (git 2.44)")
    parser.add_argument("--timeout-ms", type=milliseconds, default=MergeSettings().timeout_ms)
    args = parser.parse_args(words)
    base, ours, theirs = (Path(name).read_bytes() for name in (args.base, args.ours, args.theirs))
    labels = labels_of(args.labels, args.size, conflict_style())
    answer = in_child((base, ours, theirs), args.path, labels, args.timeout_ms / 1000)
    data, clean = answer if answer is not None else by_git((base, ours, theirs), args.path, labels)
    Path(args.ours).write_bytes(data)
    return 0 if clean else 1


def milliseconds(text: str) -> int:
    """A time from 1 ms to 10 minutes, as `merge.timeout_ms` takes it. Raises ArgumentTypeError."""
    if re.fullmatch(r"0*+[1-9][0-9]{0,5}", text) is None or int(text) > MOST_MS:
        raise argparse.ArgumentTypeError(f"{text!r}: give whole milliseconds, from 1 to {MOST_MS}")
    return int(text)


def labels_of(given: Sequence[str], size: int, style: str) -> Labels:
    """What stands behind the markers. `given`: git's labels of the base, ours and theirs. git before 2.44 knows none
    and leaves `%S` as it is; then, and where they are left out, it is `base`, `ours` and `theirs`."""
    marks = ("%S", "%X", "%Y")
    texts = dict(zip(marks, given, strict=False)) if len(given) == len(marks) else {}
    base, ours, theirs = (
        name if texts.get(mark, mark) == mark else texts[mark]
        for mark, name in zip(marks, ("base", "ours", "theirs"), strict=True)
    )
    return Labels(ours=ours, base=base, theirs=theirs, size=size, style=style)


def conflict_style() -> str:
    """How this user wants git to show conflicts (`merge.conflictStyle`); git's own default where nothing is said."""
    done = subprocess.run(
        ["git", "config", "--get", "merge.conflictStyle"], capture_output=True, text=True, check=False
    )
    said = done.stdout.strip()
    return said if said in STYLES else STYLES[0]


def in_child(
    versions: tuple[bytes, bytes, bytes], path: str, labels: Labels, timeout_s: float
) -> tuple[bytes, bool] | None:
    """The merge and whether it is clean, from a child; None when it crashed or was too late."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(read)
            with os.fdopen(write, "wb") as out:
                pickle.dump(_merged(versions, path, labels), out)
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


def _merged(versions: tuple[bytes, bytes, bytes], path: str, labels: Labels) -> tuple[bytes, bool]:
    with git_text() as git:
        merged = merge_file(git, *versions, path, labels)
    _tell(*said_of(merged, path))
    return merged.data, merged.clean


def said_of(merged: MergedFile, path: str) -> list[str]:
    """What a person is told of a merge beyond what git says: what relay joined, and what looks wrong."""
    steps = tuple(step for step in merged.steps if step != "git")
    if any(conflict.kind == BINARY_KIND for conflict in merged.conflicts):
        said = [f"{path}: {BINARY_KIND}; ours stands there"]
    elif steps:
        left = len(merged.conflicts)
        rest = f"; {left} conflict{'s' * (left > 1)} left" if left else ""
        said = [f"joined {'parts of ' * (left > 0)}{JoinedFile(path, steps)}{rest}"]
    else:
        said = []
    return said + [f"{path}: {warning}" for warning in merged.warnings]


def _tell(*lines: str) -> None:
    for line in lines:
        print(safe_line(f"relay merge: {line}"), file=sys.stderr, flush=True)


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


def by_git(versions: tuple[bytes, bytes, bytes], path: str, labels: Labels) -> tuple[bytes, bool]:
    """git's own answer; ours, in conflict, where git has none (a binary file, say)."""
    _, ours, _ = versions
    if any(map(is_binary, versions)):
        _tell(f"{path}: {BINARY_KIND}; ours stands there")
        return ours, False
    try:
        with git_text() as git:
            merged = merge_file(git, *versions, path, labels, ladder=False)
    except GitTextError as error:
        _tell(f"{path}: {error}")
        return ours, False
    _tell(f"{path}: relay took too long or failed; this is git's own merge")
    return merged.data, merged.clean
