"""How a person types `relay` on this machine.

Invariant: a command in a message can be copied as it stands: the bare name only where a shell would find this
very installation under it.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from functools import cache
from pathlib import Path


@cache
def program() -> str:
    """`relay`, or the path of this installation's, relative to the working directory where it lies below."""
    own = Path(sys.prefix) / "bin" / "relay"
    found = shutil.which("relay")
    if not own.exists() or (found is not None and Path(found).resolve() == own.resolve()):
        return "relay"
    here = Path.cwd()
    shown = os.path.relpath(own, here) if own.is_relative_to(here) else str(own)
    return shlex.quote(shown)


def command(words: str) -> str:
    """What to type, in backquotes: `.venv/bin/relay link`."""
    return f"`{program()} {words}`"
