"""A path with its symbolic links followed, so that one file has one lock whichever way it is reached.

Invariants:
- links are followed by `relay.base.git_checkouts.within`, as they are before an edit: both say the same of every
  path;
- only folders and files that are named are followed: a wildcard follows no link, nor does what stands behind one;
- a link that itself leads nowhere in the repository is a file of it like others; what lies behind one is in no
  repository, and no lock can be about it.

Blocking, for a look at each name of a path; `unlinked` for so few that it may be asked on the event loop.
"""

from __future__ import annotations

import errno
import os
import unicodedata
from functools import lru_cache
from itertools import takewhile
from pathlib import Path

from relay.base.git_checkouts import within
from relay.coordination.paths.patterns import ANY, FOLDERS, STAR, BadPattern, Name, parse
from relay.coordination.paths.targets import MAX_BYTES, is_key, malformed

#: Names of a path that are looked at on the event loop at most.
FEW = 32
_SPELLED = {STAR: "*", ANY: "?"}


def followed(text: str, root: Path) -> str:
    """What an agent that works in `root`, the top of a checkout, means by `text`. Text that is no path comes back as
    it is. Raises Refusal (malformed): a link in it leads out of the repository, or in a circle."""
    alternatives = _parsed(text)
    leads = [_lead(names, root) for names in alternatives]
    if not any(leads):
        return text
    written = []
    for names, lead in zip(alternatives, leads, strict=True):
        if lead is None:
            written.append(_spelled(names))
            continue
        count, path = lead
        if path is None:
            why = "a link in it leads out of the repository, or in a circle"
            raise malformed(text, why, "Give the file's own path, below the root of the repository.")
        written.append("/".join(filter(None, (_escaped(path), _spelled(names[count:])))))
    return written[0] if len(written) == 1 else "{" + ",".join(written) + "}"


def unlinked(text: str, root: Path) -> bool:
    """Is it one path, of few names, with no link among them? Then nothing is to be followed. Some microseconds."""
    alternatives = _parsed(text)
    if len(alternatives) != 1 or len(alternatives[0]) > FEW:
        return False
    return _first_link(str(root), _plain(alternatives[0])) is None


@lru_cache(maxsize=4096)
def _parsed(text: object) -> tuple[tuple[Name, ...], ...]:
    """The alternatives; none of what is no path, which `targets.target` refuses or takes as a key."""
    if not isinstance(text, str) or len(text) > MAX_BYTES or is_key(text) or text.startswith("/"):
        return ()
    try:
        return parse(unicodedata.normalize("NFC", text)).alternatives
    except BadPattern:
        return ()


def _lead(names: tuple[Name, ...], root: Path) -> tuple[int, str | None] | None:
    """How many of the first names are plain, and the path that they lead to, None = nowhere in the repository. None:
    no link is among them."""
    plain = _plain(names)
    first = _first_link(str(root), plain)
    if first is None:
        return None
    path = within(root, root / "/".join(plain))
    if path is None and first == len(names) - 1:
        return None
    return len(plain), path


def _plain(names: tuple[Name, ...]) -> list[str]:
    """The names before the first wildcard."""
    return [name for name in takewhile(lambda name: isinstance(name, str), names) if isinstance(name, str)]


def _first_link(at: str, names: list[str]) -> int | None:
    """Which of the names is a symbolic link; None: none is, as far as they are there."""
    for number, name in enumerate(names):
        at = f"{at}/{name}"
        try:
            os.readlink(at)  # noqa: PTH115 - this is on the way of every lock
        except OSError as error:
            if error.errno != errno.EINVAL:
                return None
        except ValueError:  # a NUL, which is refused later
            return None
        else:
            return number
    return None


def _spelled(names: tuple[Name, ...]) -> str:
    return "/".join(
        "**"
        if name == FOLDERS
        else _escaped(name)
        if isinstance(name, str)
        else "".join(_SPELLED[char] if isinstance(char, int) else _escaped(char) for char in name)
        for name in names
    )


def _escaped(text: str) -> str:
    """The text that means these very characters, within braces too."""
    return "".join(f"\\{char}" if char in "*?{},\\" else char for char in text)
