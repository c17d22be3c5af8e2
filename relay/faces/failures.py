"""A failure of the store as an answer: `busy` and `cut_off`, which pass, or `unavailable`, which somebody mends.

It is the same for every interface. Nothing heavy is imported, since a process that an agent's program starts uses it
too.
"""

from __future__ import annotations

import structlog

from relay.model import CUT_OFF, Fault, Refusal
from relay.store.failures import trouble_of
from relay.store.ports import is_away

log = structlog.get_logger(__name__)


def store_failed(error: BaseException) -> Refusal | None:
    """The answer to this error; None when it is not a failure of the store."""
    trouble = None if isinstance(error, Refusal) else trouble_of(error)
    if trouble is None:
        return None
    if not is_away(error):  # the store itself logs that, once
        log.warning("the database cannot be used", error=repr(error))
    fault = Fault.BUSY if trouble.passes else Fault.UNAVAILABLE
    code = CUT_OFF if trouble.cut_off else str(fault)
    return Refusal(f"{trouble.message.rstrip('.')}.", trouble.fix, fault, code)
