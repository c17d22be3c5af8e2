"""An entry as lines of a terminal, and the entries that stand on one line.

Invariant: whether an entry stands on the line of another hangs on what came before it alone. What asks a person
something never does. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any

from relay.base.terminal_text import safe, safe_line
from relay.faces.terminal import text
from relay.faces.terminal.text import Fragments
from relay.model import references
from relay.room.parsing.file_names import with_paths

Entry = dict[str, Any]

#: Notices that are for information, whose number is what matters when many come. The page has the same
#: (web/src/state/folds.ts); a test holds the two together.
QUIET = frozenset(
    (
        *("skipped", "coordination", "worktree", "visitor", "fleet", "agent_settings", "task"),
        *("circuit_closed", "rewind", "dispatcher", "recall", "no_agent"),
    )
)
_COMMAND = re.compile(r"/[a-z][^\n]*", re.IGNORECASE)
_ASKS = ("conflict", "handoff", "approval", "verification", "exploration", "actions", "heard", "error")
#: Rows of the memory that are named below an answer.
GIVEN = 3
#: Characters of an answer that stands on its command's line; seconds that a command waits for its answer.
SHORT, PATIENCE_S = 140, 2.0


@dataclass(slots=True)
class Folding:
    """Gathers entries that stand on one line: a command with what the room answered, and of what was said before one
    came (`past`) the notices of one kind."""

    held: list[Entry] = field(default_factory=list)
    since: float = 0.0

    def take(self, entry: Entry, now: float, *, past: bool) -> list[list[Entry]]:
        """What is to be printed now, an entry or more for each line. What is held comes first."""
        if self.held and _joins(self.held[0], entry):
            self.held.append(entry)
            return self.flush() if self.held[0].get("kind") == "human" else []
        ready = self.flush()
        command = entry.get("kind") == "human" and _COMMAND.fullmatch(str(entry.get("body")).strip())
        if command or (past and _kind(entry)):
            self.held, self.since = [entry], now
            return ready
        return [*ready, [entry]]

    def flush(self) -> list[list[Entry]]:
        """What is held waits for nothing more."""
        ready, self.held = [self.held] if self.held else [], []
        return ready


def _meta(entry: Entry) -> dict[str, Any]:
    return entry["meta"] if isinstance(entry.get("meta"), dict) else {}


def _kind(entry: Entry) -> str:
    """The kind of a quiet notice; "" = it is none."""
    meta = _meta(entry)
    quiet = entry.get("kind") == "system" and not any(key in meta for key in _ASKS)
    return str(meta["notice"]) if quiet and meta.get("notice") in QUIET else ""


def _joins(first: Entry, entry: Entry) -> bool:
    if first.get("kind") != "human":
        return bool(_kind(entry)) and _kind(entry) == _kind(first)
    return entry.get("kind") == "system" and entry.get("in_reply_to") == first.get("id")


def group_lines(
    group: list[Entry], numbers: Mapping[str, int], *, files: str, columns: int
) -> list[Fragments]:
    """The entries of a `Folding` as lines."""
    first, last = group[0], group[-1]
    body = str(last.get("body") or "").strip()
    whole = [entry_lines(entry, numbers, files=files, columns=columns) for entry in group]
    if len(group) == 1:
        return whole[0]
    if first.get("kind") != "human":
        head, *rest = whole[-1]
        return [[*head, ("class:quiet", f" (the last of {len(group)} such notices)")], *rest]
    if "\n" in body or len(body) > SHORT or len(whole[0]) > 1:
        return [line for lines in whole for line in lines]
    style = "class:warn" if "error" in _meta(last) else "class:quiet"
    return [[*whole[0][0], ("class:quiet", " → "), *text.inline(safe(body), style)]]


def clock(ts: str) -> datetime | None:
    """An entry's time in this machine's zone; None when the text is no time."""
    try:
        return datetime.fromisoformat(ts).astimezone()
    except (ValueError, OverflowError, OSError):
        return None


def entry_lines(
    entry: dict[str, Any],
    numbers: Mapping[str, int],
    *,
    today: date | None = None,
    files: str = "",
    columns: int = 0,
) -> list[Fragments]:
    """An entry as lines of a terminal: the speaker, marks like "unverified", and the body, with every line but the
    first indented. `numbers`: the messages' numbers, by id. `today` is given by scripts: the entry then has its date
    where that is another day, and the whole body as it was written, without styles. `columns`: of the terminal, for
    tables; 0 = there is none."""
    speaker, kind = safe_line(str(entry.get("speaker")), 64), entry.get("kind")
    at, number = clock(str(entry.get("ts"))), natural(entry.get("number"))
    meta = entry["meta"] if isinstance(entry.get("meta"), dict) else {}
    marks = [word for word in ("unverified", "history", "truncated", "edited") if meta.get(word)]
    body = "(deleted)" if meta.get("deleted") else with_paths(str(entry.get("body") or ""), files)
    if today is not None:
        day = f"{at:%Y-%m-%d} " if at and at.date() != today else ""
        suffix = f" ({', '.join(marks)})" if marks else ""
        first, *rest = text.plain(body, columns - 2) if columns else safe(body).split("\n")
        head = f"{day}{f'{at:%H:%M} ' if at else ''}{speaker}{suffix}: {first}"
        return [[("", head)], *([("", f"  {line}")] for line in rest)]
    quiet = kind in ("system", "dispatcher")
    base = {"system": "class:quiet", "dispatcher": "class:quiet", "advisory": "class:warn"}.get(str(kind), "")
    line: Fragments = [("class:quiet", f"{at:%H:%M} " if at else "  :   ")]
    line.append((base if quiet else f"bold {text.colour(speaker)}", speaker))
    asked = numbers.get(str(entry.get("in_reply_to")), 0)
    notes = [references.message(number)] if number else []
    notes += [f"to {references.message(asked)}"] if asked else []
    notes += [*marks, *_given(meta.get("memories")), *_changed(meta.get("worktree"))]
    notes += _told(meta.get("told"))
    line.append(("class:quiet", f" {' · '.join(notes)}" if notes else ""))
    shown = text.markdown(body, base, columns - 2)
    if len(shown) == 1:
        return [[*line, ("", "  "), *shown[0]]]
    return [line, *([("", "  "), *row] for row in shown)]


def _told(people: Any) -> list[str]:
    """Of a message for people alone: for whom it is."""
    names = [safe_line(str(name), 64) for name in people] if isinstance(people, list) else []
    return [f"for {', '.join(names)}; no agent is asked"] if names else []


def _given(told: Any) -> list[str]:
    """What the answer's agent was given of the room's memory, by its numbers: `was given r3, r14 of the memory`."""
    if not isinstance(told, list):
        return []
    names = [safe_line(str(memory.get("reference")), 20) for memory in told[:20] if isinstance(memory, dict)]
    more = f" and {len(names) - GIVEN} more" if len(names) > GIVEN else ""
    return [f"was given {', '.join(names[:GIVEN])}{more} of the memory"] if names else []


def _changed(told: Any) -> list[str]:
    """What an answer changed in its worktree: `relay/claude: 3 files +40 -2`."""
    if not isinstance(told, dict):
        return []
    files = natural(told.get("files"))
    lines = f"+{natural(told.get('insertions'))} -{natural(told.get('deletions'))}"
    beside = told.get("beside")
    others = ", ".join(safe_line(str(name), 40) for name in beside) if isinstance(beside, list) else ""
    with_theirs = f", with what {others} did there at once" if others else ""
    return [
        f"{safe_line(str(told.get('branch')), 64)}: {files} file{'s' * (files != 1)} {lines}{with_theirs}"
    ]


def natural(value: Any) -> int:
    return value if isinstance(value, int) and value > 0 else 0
