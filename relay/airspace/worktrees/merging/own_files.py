"""Which files of a checkout the room itself goes by: what stands in them decides what it runs, as its own user.

Invariant: a file counts by each name that leads to it, so a link hides none.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from relay.config.settings import Settings

#: Links that are followed, one to the other.
_MOST_LINKS = 40


def own_files(settings: Settings, top: Path, paths: Iterable[str]) -> list[str]:
    """Those of `paths` (from the top of the checkout at `top`) that are the room's configuration or one of its
    policies, there or to be, or a folder above. Blocks."""
    roots = {top, top.resolve()}
    folders = {parts for name in _names(settings.policies_dir) for parts in _inside(name, roots)}
    files = {parts for name in _names(settings.path) for parts in _inside(name, roots)}
    with suppress(OSError):
        for policy in settings.policies_dir.iterdir():
            if _is_policy(policy.name):
                files |= {parts for name in _names(policy) for parts in _inside(name, roots)}

    def own(path: str) -> bool:
        parts = tuple(path.casefold().split("/"))
        if parts[:-1] in folders and _is_policy(parts[-1]):
            return True
        # A link or a file in the place of a folder is another folder.
        return any(each[: len(parts)] == parts for each in (*files, *folders))

    return [path for path in paths if own(path)]


def _is_policy(name: str) -> bool:
    return name.casefold().endswith((".yaml", ".yml"))


def _names(path: Path) -> Iterator[Path]:
    """A path, each that it links to, and where it leads in the end."""
    at = Path(os.path.normpath(path))
    for _ in range(_MOST_LINKS):
        yield at
        try:
            at = Path(os.path.normpath(at.parent / at.readlink()))
        except OSError:
            break
    yield Path(os.path.realpath(path))


def _inside(path: Path, roots: Iterable[Path]) -> Iterator[tuple[str, ...]]:
    """The parts of a path from the checkout's top, where it is inside. Case is folded: a disk may do so."""
    for root in roots:
        if path.is_relative_to(root):
            yield tuple(part.casefold() for part in path.relative_to(root).parts)
