"""What git's own text merge answers.

Invariant: the answer is that of `git merge` (the strategy ort, no renames to find): the three texts become commits in
a git directory of this process, and git merges these. Nothing of the user's configuration or attributes is read.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from relay.git.environment import ENVIRONMENT, OVERRIDES
from relay.merge.text.lines import common_ends

#: Letters in a conflict marker, at the least; more where a text has a line that begins with so many.
MARKER = 47
#: How git shows conflicts (`merge.conflictStyle`), and the one that shows all of both sides and the base.
STYLES, STYLE = ("merge", "diff3", "zdiff3"), "diff3"
#: Seconds for one merge.
TIMEOUT_S = 20.0
_NAME = b"text"
_RUN = re.compile(rb"^(?:<++|\|++|=++|>++)", re.MULTILINE)


class GitTextError(Exception):
    """git did not answer; the message says why."""


@dataclass(frozen=True, slots=True)
class Hunk:
    """A part of git's answer. `merged`: the lines, where git is sure; else the three sides. All with line ends."""

    merged: bytes | None
    base: bytes = b""
    ours: bytes = b""
    theirs: bytes = b""


@dataclass(frozen=True, slots=True)
class GitAnswer:
    """git's merge of three texts. `text`: where it is clean."""

    text: bytes | None
    hunks: tuple[Hunk, ...] = ()

    def marked(self, labels: tuple[str, str, str], size: int = 7, *, base: bool = True) -> bytes:
        """The text with conflict markers. `labels`: of ours, the base and theirs; `base`: it stands there too."""
        if self.text is not None:
            return self.text
        out = bytearray()
        for hunk in self.hunks:
            if hunk.merged is not None:
                out += hunk.merged
                continue
            parts = [(b"<", labels[0], hunk.ours), (b"=", "", hunk.theirs), (b">", labels[2], b"")]
            if base:
                parts.insert(1, (b"|", labels[1], hunk.base))
            for sign, label, part in parts:
                named = b" " + label.encode("utf-8", "surrogateescape") if label else b""
                out += sign * size + named + b"\n" + part
                out += b"\n" if part and not part.endswith(b"\n") else b""
        return bytes(out)


class GitText:
    """Merges texts by git, in a git directory of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        objects = folder / "objects"
        (objects / "info").mkdir(parents=True, exist_ok=True)
        (folder / "refs").mkdir(exist_ok=True)
        (folder / "info").mkdir(exist_ok=True)
        (folder / "HEAD").write_text("ref: refs/heads/main\n")
        (folder / "config").write_text("[core]\n\trepositoryformatversion = 0\n\tbare = true\n")
        self._size = 0
        self._objects = objects
        self._written: set[str] = set()

    def merge(self, base: bytes, ours: bytes, theirs: bytes, *, style: str = STYLE) -> GitAnswer:
        """`style`: one of STYLES, how conflicts are shown. Raises GitTextError."""
        size = marker_size((base, ours, theirs))
        if size != self._size:
            attributes = f"* -text merge=text conflict-marker-size={size}\n"
            (self.folder / "info" / "attributes").write_text(attributes)
            self._size = size
        root = self._commit(base)
        sides = [self._commit(text, root) for text in (ours, theirs)]
        words = ["git"]
        for setting in OVERRIDES:
            words += ["-c", setting]
        words += ["-c", f"merge.conflictStyle={style}"]
        words += ["merge-tree", "--write-tree", "-z", "--no-messages", *sides]
        env = {"PATH": os.environ.get("PATH", os.defpath), **ENVIRONMENT, "GIT_DIR": str(self.folder)}
        try:
            done = subprocess.run(
                words, env=env, cwd=self.folder, capture_output=True, timeout=TIMEOUT_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise GitTextError(f"git merge-tree: {error}") from error
        if done.returncode not in (0, 1):
            raise GitTextError(f"git merge-tree: {done.stderr.decode('utf-8', 'replace').strip()}")
        tree = self._read(done.stdout.split(b"\0", 1)[0].decode("ascii"))
        merged = self._read(tree[tree.index(b"\0") + 1 :][:20].hex())
        if done.returncode == 0:
            return GitAnswer(merged)
        return GitAnswer(None, tuple(_hunks(merged, size)))

    def shown(self, hunk: Hunk, style: str) -> tuple[Hunk, ...]:
        """A conflict that others than git found, as git shows one: `zdiff3` takes the lines out of it that both sides
        begin or end with, `merge` all that both have. Raises GitTextError."""
        if style == "zdiff3":
            ours, theirs = _split(hunk.ours), _split(hunk.theirs)
            start, end = common_ends([ours, theirs])
            if start + end < max(len(ours), len(theirs)):
                first, last = ours[:start], ours[len(ours) - end :]
                inside = [b"".join(side[start : len(side) - end]) for side in (ours, theirs)]
                around = (b"".join(first), b"".join(last))
                parts = (Hunk(around[0]), Hunk(None, hunk.base, *inside), Hunk(around[1]))
                return tuple(part for part in parts if part.merged != b"")
        elif style == "merge" and hunk.ours and hunk.theirs:
            answer = self.merge(b"", hunk.ours, hunk.theirs, style=style)
            if answer.text is None:
                return answer.hunks
        return (hunk,)

    def _commit(self, text: bytes, parent: str = "") -> str:
        blob = self._write("blob", text)
        tree = self._write("tree", b"100644 " + _NAME + b"\0" + bytes.fromhex(blob))
        lines = [f"tree {tree}", *([f"parent {parent}"] if parent else [])]
        lines += ["author r <r> 0 +0000", "committer r <r> 0 +0000", "", ""]
        # Two sides alike are two commits: git would see one that has nothing of its own.
        return self._write("commit", "\n".join(lines).encode())

    def _write(self, kind: str, body: bytes) -> str:
        content = f"{kind} {len(body)}".encode() + b"\0" + body
        name = hashlib.sha1(content, usedforsecurity=False).hexdigest()
        if name not in self._written:
            path = self._objects / name[:2] / name[2:]
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(zlib.compress(content, 1))
            self._written.add(name)
        return name

    def _read(self, name: str) -> bytes:
        try:
            content = zlib.decompress((self._objects / name[:2] / name[2:]).read_bytes())
        except (OSError, zlib.error) as error:
            raise GitTextError(f"git merge-tree: its answer {name} cannot be read") from error
        return content[content.index(b"\0") + 1 :]


def marker_size(texts: Iterable[bytes], least: int = MARKER) -> int:
    """How many letters a marker has so that no line of the texts begins with as many and no more."""
    long = b"=" * least
    many = {
        len(run)
        for text in texts
        if any(long.replace(b"=", sign) in text for sign in (b"<", b"|", b"=", b">"))
        for run in _RUN.findall(text)
    }
    return next(size for size in count(least) if size not in many)


def _hunks(text: bytes, size: int) -> Iterator[Hunk]:
    """The parts of a text with markers of that size."""
    parts: dict[bytes, bytearray] = {}
    at = b""
    merged = bytearray()
    for line in _split(text):
        sign = line[:1]
        if _is_marker(line, sign, size) and _follows(at, sign):
            if sign == b"<":
                if merged:
                    yield Hunk(bytes(merged))
                merged = bytearray()
                parts = {each: bytearray() for each in (b"<", b"|", b"=")}
            if sign == b">":
                yield Hunk(None, bytes(parts[b"|"]), bytes(parts[b"<"]), bytes(parts[b"="]))
            at = b"" if sign == b">" else sign
        elif at:
            parts[at] += line
        else:
            merged += line
    if merged:
        yield Hunk(bytes(merged))


def _is_marker(line: bytes, sign: bytes, size: int) -> bool:
    run = sign * size
    return sign in (b"<", b"|", b"=", b">") and line.startswith(run) and not line.startswith(run + sign)


def _split(text: bytes) -> list[bytes]:
    lines = text.split(b"\n")
    return [line + b"\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


def _follows(at: bytes, sign: bytes) -> bool:
    """`merge` shows no base, so the second side may come right behind the first."""
    return at in {b"<": (b"",), b"|": (b"<",), b"=": (b"|", b"<"), b">": (b"=",)}[sign]


@contextmanager
def git_text() -> Iterator[GitText]:
    """git for texts, in a folder that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="relay-merge-") as folder:
        yield GitText(Path(folder))
