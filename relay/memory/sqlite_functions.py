"""What SQLite asks of this wing while it runs a statement."""

from __future__ import annotations

from relay.memory.relevance import decay

#: By name: the number of arguments, and the function.
FUNCTIONS = {"relay_decay": (2, decay)}
