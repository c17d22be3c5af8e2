"""The places in the code that an agent's tools name, as the rest of the room knows them.

Invariant: a path that leaves here is relative to the turn's folder, with `/`, and is inside of it, also when a
link leads out of the folder.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from relay.files import inside
from relay.model import Location


def within(places: Sequence[Location], folder: Path | None) -> list[Location]:
    """The places inside `folder`, with paths relative to it."""
    root = folder or Path.cwd()
    named = [(place, inside(root, place.path)) for place in places]
    return [replace(place, path=path) for place, path in named if path is not None]
