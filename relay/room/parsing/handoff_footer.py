"""The optional handoff footer at the end of an agent's answer (002, section 6).

Invariant: a footer is only ever read from the last line that holds anything, and never from code. It is for
people to see (chips); it changes no state.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from relay.room.parsing.markdown import prose

#: A longer line is no footer but text that happens to look like one.
MAX_LINE = 600
_LINE = re.compile(r"[ \t]*[*_]{0,3}\[(?P<fields>.*)\][*_]{0,3}[ \t]*")
_FIELDS = ("decision", "owner", "blockers")


@dataclass(frozen=True, slots=True)
class Footer:
    """The fields as the agent wrote them, trimmed; empty when it left one out. `decision` never is."""

    decision: str
    owner: str = ""
    blockers: str = ""

    def as_meta(self) -> dict[str, str]:
        """The value of an entry's `meta.footer`."""
        return {"decision": self.decision, "owner": self.owner, "blockers": self.blockers}


def footer(body: str) -> Footer | None:
    """The footer of an answer: `[DECISION: .. | OWNER: .. | BLOCKERS: ..]`, in any case and order of fields.

    DECISION must be there; an unknown or repeated field makes it some other bracket. The body stays whole.
    """
    trimmed = body.rstrip()
    start = max(trimmed.rfind("\n"), trimmed.rfind("\r")) + 1
    line = trimmed[start:]
    if len(line) > MAX_LINE or "decision" not in line.lower():
        return None
    match = _LINE.fullmatch(line)
    if match is None:
        return None
    bracket = start + match.start("fields") - 1
    if prose(body)[bracket] != "[":
        return None
    return _read(match["fields"])


def _read(text: str) -> Footer | None:
    fields: dict[str, str] = {}
    for part in text.split("|"):
        key, colon, value = part.partition(":")
        key = key.strip().lower()
        if not colon or key not in _FIELDS or key in fields:
            return None
        fields[key] = value.strip()
    if not fields.get("decision"):
        return None
    return Footer(fields["decision"], fields.get("owner", ""), fields.get("blockers", ""))
