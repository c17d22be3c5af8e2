"""Helpers of agents on the timeline: each is a row of its own, saying who started it and what came of it. Pure."""

from __future__ import annotations

from typing import Any

from relay.base.terminal_text import safe_line
from relay.model.names import HELPER_ENDED, HELPER_STARTED

HELPERS = (HELPER_STARTED, HELPER_ENDED)


def words_of_helper(type_: str, outputs: dict[str, Any]) -> str:
    """What a helper's first or last event is, in a few words for a line."""
    by = safe_line(outputs["by"], 40)
    if type_ == HELPER_STARTED:
        return f"began, started by {by}: {safe_line(outputs['brief'], 80)}"
    how = "failed" if outputs["failed"] else f"answered {by}"
    if "why" in outputs:
        how = f"ended, since {safe_line(outputs['why'], 60)}"
    result = safe_line(outputs["result"], 80)
    return f"{how}: {result}" if result else how
