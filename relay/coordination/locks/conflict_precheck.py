"""Which locks a request meets, found out before the writer's turn: a comparison of patterns may take long.

Invariants:
- what was compared is what stood on record up to one fencing token. A lock keeps its token, its kind and its key for
  as long as it stands, and tokens are drawn in the order of commits, so only locks with a later token are compared
  when the request is granted (locks.sql);
- the answer is what `overlap.overlaps` says of each pair; of most pairs the folders before their first wildcards say
  already that they do not meet.

Pure but for the one look into the table. (docs/coordination.md, "Locks".)
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from relay.coordination.paths.targets import Target, above
from relay.log.encoding import dumps

#: A lock's kind, key and base, as the table has them.
LockKey = tuple[str, str, str | None]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Up to the fencing token `upto`: which locks (`kind:key`) meet each target."""

    upto: int = 0
    met: Mapping[Target, str] = field(default_factory=dict)

    def of(self, target: Target) -> dict[str, Any]:
        """The parameters of the statements that look for what meets this target."""
        known = self.met.get(target)
        return {"compared": 0, "met": "[]"} if known is None else {"compared": self.upto, "met": known}


NO_COMPARISON = Comparison()


def compare(targets: Iterable[Target], held: Sequence[LockKey], upto: int) -> Comparison:
    """Blocking: for a thread."""
    near = _LocksByFolder(held)
    met = {
        target: dumps([f"{kind}:{key}" for kind, key, _ in near.to(target) if target.meets(kind, key)])
        for target in targets
        if target.kind != "key"
    }
    return Comparison(upto, met)


class _LocksByFolder:
    """Locks by the folder before their first wildcard (of a path: by the path)."""

    def __init__(self, held: Sequence[LockKey]) -> None:
        self._at: dict[str, list[LockKey]] = defaultdict(list)
        for kind, key, base in held:
            self._at[key if base is None else base].append((kind, key, base))
        self._places = sorted(self._at)

    def to(self, target: Target) -> Iterator[LockKey]:
        """Those that may meet it: one of the two folders is in the other."""
        place = target.key if target.base is None else target.base
        for folder in ("", *above(place)):
            yield from self._at.get(folder, ())
        if not place:
            first, end = 0, len(self._places)
            first += bool(self._places and not self._places[0])
        else:
            first, end = bisect_left(self._places, place + "/"), bisect_left(self._places, place + "0")
        for folder in self._places[first:end]:
            yield from self._at[folder]
