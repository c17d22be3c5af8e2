"""Does the file system of a folder fold case?

Invariant: the file system is asked, not the operating system: a Mac may have a disk that does not, and Linux one that
does. Nothing is left behind.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def folds_case(folder: Path) -> bool:
    """Are `a` and `A` one file in this folder? Raises OSError when it cannot be looked at."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.swapcase() != entry.name:
                return _same(folder / entry.name, folder / entry.name.swapcase())
    try:
        with tempfile.NamedTemporaryFile(prefix="relay-case-", dir=folder) as probe:
            path = Path(probe.name)
            return _same(path, path.with_name(path.name.swapcase()))
    except PermissionError:
        # An empty folder that we may not write: what holds of the folder's own name is the best guess there is.
        return _same(folder, folder.with_name(folder.name.swapcase()))


def _same(path: Path, other: Path) -> bool:
    try:
        return path.samefile(other)
    except FileNotFoundError:
        return False
