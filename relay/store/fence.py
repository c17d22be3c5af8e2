"""The fence of a leader's writes: what it decided while it led is kept only while it leads still.

Invariant: a store of several machines checks the fence in the transaction of each write, behind the room's lock, so a
write of a leader that was replaced is refused, however late it comes. A store of one machine has one process that
leads, and needs none.

Source: Kleppmann, "How to do distributed locking" (fencing tokens).
"""

from __future__ import annotations

from contextvars import ContextVar

from relay.store.ports import StoreError

#: The epoch of the leader on whose behalf this task writes; None: it writes for itself.
EPOCH: ContextVar[int | None] = ContextVar("relay_leader_epoch", default=None)


class Fenced(StoreError):
    """Another member leads by now: nothing was changed."""
