"""What SQLite asks of this wing while it runs a statement."""

from __future__ import annotations

from relay.coordination.paths.overlap import overlaps

#: By name: the number of arguments, and the function.
FUNCTIONS = {"relay_overlaps": (4, overlaps)}
