"""Copies files that git ignores, and that a checkout needs all the same, into a new worktree: `.env` and the like.

Invariants: what git tracks is never written, and a file that is there stays as it is. What is copied is ignored in
the worktree too, so nobody commits it. Nothing is read outside of the main checkout and nothing is written outside of
the worktree, whatever links there are.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from relay.git.checkout import Checkout
from relay.git.run import Git, name_of

#: Files that are copied at most, and bytes of all of them.
MOST_FILES, MOST_BYTES = 1_000, 256 * 1_048_576
#: Files that are named of those which were not copied.
MOST_NAMED = 20
#: Everywhere else a path is a path, also one that looks like a pattern.
_WITH_GLOBS = {"GIT_LITERAL_PATHSPECS": None}


@dataclass(frozen=True, slots=True)
class Copied:
    """`files`: what was copied, from the top of the checkout; `notes`: what was not, each with why."""

    files: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


async def copy_files(
    main: Checkout, worktree: Checkout, globs: Sequence[str], ignoring: Git, never: Sequence[Path] = ()
) -> Copied:
    """Copy what the globs (git's own, from the top) match of the main checkout's untracked files. `ignoring`: git in
    the worktree, as it looks at its work there; `never`: folders of which nothing is copied. Raises GitError."""
    if not globs or main.top == worktree.top:
        return Copied()
    specs = [f":(glob,top){glob}" for glob in globs]
    git = Git(main.top, _WITH_GLOBS)
    listed = await git.run("ls-files", "-z", "--others", "--", *specs)
    paths = sorted({path for path in listed.out.split(b"\0") if path and not path.endswith(b"/")})
    notes: list[str] = []
    if len(paths) > MOST_FILES:
        notes.append(f"{len(paths) - MOST_FILES} more files: {MOST_FILES} are copied at most")
        paths = paths[:MOST_FILES]
    if not paths:
        return Copied((), tuple(notes))
    tracked = await worktree.git.run("ls-files", "-z")
    known = set(tracked.out.split(b"\0"))
    wanted = [path for path in paths if path not in known]
    # Git answers nothing at all when it is asked about one.
    linked = await asyncio.to_thread(lambda: {path for path in wanted if _linked(worktree.top, path)})
    notes += [f"`{name_of(path)}`: its folder is a link in the worktree" for path in wanted if path in linked]
    wanted = [path for path in wanted if path not in linked]
    # With the folder before it, none is taken for a pattern.
    asked = b"".join(b"./" + path + b"\0" for path in wanted)
    git = Git(ignoring.folder, {**ignoring.env, **_WITH_GLOBS}, ignoring.config)
    ignored = await git.run("check-ignore", "-z", "--stdin", stdin=asked, ok=(0, 1))
    hidden = {path.removeprefix(b"./") for path in ignored.out.split(b"\0")}
    notes += [f"`{name_of(path)}`: git does not ignore it" for path in wanted if path not in hidden]
    may = [path for path in wanted if path in hidden]
    files, more = await asyncio.to_thread(_copy_all, main.top, worktree.top, may, never)
    return Copied(tuple(files), tuple([*notes, *more][:MOST_NAMED]))


def _linked(top: Path, path: bytes) -> bool:
    """Is a folder of this path a link there?"""
    inner = Path(os.fsdecode(path)).parent
    return any((top / folder).is_symlink() for folder in (inner, *inner.parents))


def _copy_all(
    main: Path, top: Path, paths: Sequence[bytes], never: Sequence[Path]
) -> tuple[list[str], list[str]]:
    files, notes, left = list[str](), list[str](), MOST_BYTES
    main, top, never = main.resolve(), top.resolve(), [folder.resolve() for folder in never]
    for path in paths:
        name = name_of(path)
        try:
            source = (main / os.fsdecode(path)).resolve(strict=True)
            if any(source.is_relative_to(folder) for folder in never):
                continue
            size = _copy(main, top, os.fsdecode(path), source, left)
        except (OSError, ValueError, RuntimeError) as error:
            notes.append(f"`{name}`: {getattr(error, 'strerror', None) or error}")
            continue
        if size is not None:
            left -= size
            files.append(name)
    return files, notes


def _copy(main: Path, top: Path, name: str, source: Path, most: int) -> int | None:
    """Copy one file, or the one that a link leads to; its size, None where one is there. Raises OSError, and
    ValueError with the reason."""
    target = top / name
    if not source.is_relative_to(main) or ".git" in source.relative_to(main).parts:
        raise ValueError("it is a link that leads out of the checkout")
    if not source.is_file():
        raise ValueError("it is no regular file")
    if os.path.lexists(target):
        return None
    if (size := source.stat().st_size) > most:
        raise ValueError(f"the copied files are limited to {MOST_BYTES // 1_048_576} MB")
    if not target.parent.resolve().is_relative_to(top):
        raise ValueError("a link leads out of the worktree there")
    target.parent.mkdir(parents=True, exist_ok=True)
    with source.open("rb") as read, target.open("xb") as written:
        os.fchmod(written.fileno(), source.stat().st_mode & 0o777)
        shutil.copyfileobj(read, written)
    return size
