"""A cache by identity: for what is made of a frozen object whose hash would cost as much as making it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

Source = TypeVar("Source")
Made = TypeVar("Made")


class IdentityCache(Generic[Source, Made]):
    """What was made of at most `most` objects; one more empties it."""

    def __init__(self, most: int) -> None:
        self._most = most
        #: The object is held with the result, so that its identity is not given away while it is a key.
        self._results: dict[int, tuple[Source, Made]] = {}

    def get(self, source: Source, make: Callable[[Source], Made]) -> Made:
        known = self._results.get(id(source))
        if known is not None and known[0] is source:
            return known[1]
        made = make(source)
        if len(self._results) >= self._most:
            self._results.clear()
        self._results[id(source)] = (source, made)
        return made
