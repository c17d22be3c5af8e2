"""The places in the code that an agent's tools name.

Invariant: a path that is returned is relative to the top of the agent's checkout, with `/`, and inside it. A path
that a link leads out of the checkout is dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from relay.base.files import inside
from relay.model import Location


def within(places: Sequence[Location], folder: Path | None, top: Path | None = None) -> list[Location]:
    """The places inside `top` (None: `folder` itself), with paths relative to it. Their own are relative to
    `folder`, the turn's. Blocking."""
    cwd = folder or Path.cwd()
    named = [(place, inside(top or cwd, str(cwd / place.path))) for place in places]
    return [replace(place, path=path) for place, path in named if path is not None]
