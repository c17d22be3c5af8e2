"""The wings that have tables, in the order in which their migrations run.

Invariant: names folders and imports nothing of them, so that a process that starts often (`relay mcp`, a hook)
does not pay for wings that it does not use.
"""

from __future__ import annotations

from pathlib import Path

_ROOT = Path(__file__).parents[2]
#: The folder of each; each has `<dialect>/migrations` and `<dialect>/*.sql`.
SCHEMAS = tuple(
    _ROOT / name
    for name in (
        "log",
        "coordination",
        "coordination/critical",
        "room",
        "airspace",
        "memory",
        "memory/knowledge",
        "checks",
        "timeline",
        "merge/exploration",
        "merge/resolution",
        "verification",
        "fleet",
        "access",
        "access/rights",
    )
)
