"""What a shell's command would write in a checkout, for who is asked whether it may, and the words of a refusal."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from relay.base.terminal_text import flat
from relay.code.shell.writes import writes_of

#: Files of folders that one command writes, at most; of more, nobody says before what it writes.
MOST_BELOW = 2_000
#: Refused files that a reason names.
MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class Foreseen:
    """What a command would write in the codebase, relative to the top of a checkout: `sure`, its words say so;
    `perhaps`, it depends on what it finds. `unknown`: what in it may write anything, each a line for people."""

    sure: tuple[str, ...] = ()
    perhaps: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


def foresee(command: str, cwd: str, place: Callable[[str], str | None]) -> Foreseen:
    """Read a command that a shell is to run in `cwd`. `place`: where an absolute path is in its checkout, None = in
    none. Blocking."""
    writes = writes_of(command, cwd)
    found: dict[bool, dict[str, None]] = {True: {}, False: {}}
    unknown, left = list(writes.unknown), MOST_BELOW
    for write in writes.paths:
        # `rm LINK` takes the link away, `> LINK` writes what it leads to.
        names = found[write.sure and not os.path.islink(write.path)]
        path = place(write.path)
        if path is not None:
            names[path] = None
        if not write.below:
            continue
        inside = place(f"{write.path}/_")
        if inside is None:
            continue
        for name in _files(write.path):
            if left == 0:
                unknown.append(f"a folder of more than {MOST_BELOW} files")
                break
            names[inside[:-1] + name] = None
            left -= 1
    sure = tuple(found[True])
    return Foreseen(sure, tuple(path for path in found[False] if path not in found[True]), tuple(unknown))


def _files(folder: str) -> Iterator[str]:
    """The files below a folder, relative to it, but those of git and of other checkouts in it."""
    for place, folders, names in os.walk(folder):
        folders[:] = [
            name for name in sorted(folders) if name != ".git" and not os.path.lexists(f"{place}/{name}/.git")
        ]
        for name in sorted(names):
            yield Path(place, name).relative_to(folder).as_posix()


def refusal_text(pairs: Sequence[tuple[str, str]]) -> str:
    """Why a command must not run: of each file that it would write and must not, its path and what stands against
    it."""
    told = [f"This shell command would write {flat(path)}. {reason}" for path, reason in pairs[:MOST_NAMED]]
    more = len(pairs) - MOST_NAMED
    if more > 0:
        told.append(f"It would write {more} more file{'s' * (more > 1)} that you must not write now.")
    return " ".join([*told, "Nothing of the command ran."])
