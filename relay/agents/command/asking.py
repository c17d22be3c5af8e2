"""What a program asks on its own pipe, before an edit and a shell's command: the room's guard answers, in here.

Invariant: an edit waits for `ANSWER_S` at most. What cannot be judged goes on, and a note says so: the commit is
asked about again (docs/guard.md). As `relay/app/guard/hook.py`, which asks for programs that run it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import structlog

from relay.agents.process.session import Question
from relay.base.files import inside, reading
from relay.code.shell.foreseen import foresee, refusal_text
from relay.model import Guard, Location, Turn

log = structlog.get_logger(__name__)
#: Seconds that an edit waits for the guard.
ANSWER_S = 2.0
#: Bytes of a file whose edit is tried in a merge.
MOST_EDITED = 1_048_576
#: Files that the guard is asked about for one command of a shell; what else it wrote is seen after it.
MOST_ASKED = 50
#: Characters of a command that are kept with what it wrote.
MOST_COMMAND = 1_000
SHELLS = ("Bash",)
PATH_KEYS = ("file_path", "notebook_path", "absolute_path", "path")


class Asking:
    """Answers the questions of one turn. `cwd`: where it works. `guard` None: nothing is contested."""

    def __init__(self, agent: str, turn: Turn, cwd: Path, guard: Guard | None) -> None:
        self._agent, self._session, self._cwd, self._guard = agent, turn.room_session or None, cwd, guard
        self._root = turn.root or cwd

    async def decide(self, question: Question) -> tuple[str, str]:
        """Why the program may not do this, empty = it may, and what its model is to know."""
        if self._guard is None:
            return "", ""
        try:
            async with asyncio.timeout(ANSWER_S):
                return await self._judged(question, self._guard)
        except TimeoutError:
            log.warning("guard gave no answer", agent=self._agent, tool=question.tool, within_s=ANSWER_S)
        except Exception:  # the program waits for an answer, whatever is wrong with the room's database
            log.exception("guard failed", agent=self._agent, tool=question.tool)
        return "", ""

    async def _judged(self, question: Question, guard: Guard) -> tuple[str, str]:
        command = question.given.get("command")
        if question.tool in SHELLS and isinstance(command, str):
            return await self._command(command, question, guard), ""
        reasons: dict[str, None] = {}
        notes: dict[str, None] = {}
        for place in await asyncio.to_thread(places_of, question, self._root, self._cwd):
            decision = await guard.decide(self._agent, place, self._session)
            if decision.refused:
                reasons[decision.reason] = None
            elif decision.note:
                notes[decision.note] = None
        return " ".join(reasons), " ".join(notes)

    async def _command(self, command: str, question: Question, guard: Guard) -> str:
        """Why a shell must not run this, by what it would surely write in the turn's checkout; empty = it may."""
        folder = question.folder or str(self._cwd)
        foreseen = await asyncio.to_thread(foresee, command, folder, partial(inside, self._root))
        refused = []
        for path in foreseen.sure[:MOST_ASKED]:
            place = Location(path, None, True, command=command[:MOST_COMMAND])
            decision = await guard.decide(self._agent, place, self._session)
            if decision.refused:
                refused.append((path, decision.reason))
        if refused:
            return refusal_text(refused)
        guard.runs(self._agent, command[:MOST_COMMAND])
        return ""


def places_of(question: Question, root: Path, cwd: Path) -> list[Location]:
    """What the tool would change in the checkout `root`. Blocking: it reads the file that an edit is of."""
    folder = Path(question.folder) if question.folder else cwd
    named = [value for key in PATH_KEYS if isinstance(value := question.given.get(key), str) and value]
    paths = [inside(root, str(folder / name)) for name in named]
    return [_location(root, path, question.given) for path in dict.fromkeys(paths) if path is not None]


def _location(root: Path, path: str, given: Mapping[str, Any]) -> Location:
    content = given.get("content")
    if isinstance(content, str):
        return Location(path, None, True, text=content.encode("utf-8", "replace"))
    edits = given["edits"] if isinstance(given.get("edits"), list) else [given]
    try:
        with reading(root / path) as file:
            before = file.read(MOST_EDITED + 1)
    except OSError:
        before = b""
    after, lines = _edited(before, edits)
    return Location(path, lines, True, text=after)


def _edited(text: bytes, edits: list[Any]) -> tuple[bytes | None, tuple[int, int] | None]:
    """The file as it would stand, None = not known; and the lines that an exchange of one text changes."""
    lines = None
    for edit in edits:
        old, new = (
            (edit.get("old_string"), edit.get("new_string")) if isinstance(edit, Mapping) else (None, None)
        )
        if not isinstance(old, str) or not isinstance(new, str) or len(text) > MOST_EDITED:
            return None, lines
        before = old.encode("utf-8", "replace")
        at = text.find(before)
        if at < 0 or (text and not before):
            return None, lines
        if len(edits) == 1 and before:
            first = text.count(b"\n", 0, at) + 1
            lines = (first, first + old.rstrip("\n").count("\n"))
        every = edit.get("replace_all") is True and bool(before)
        text = text.replace(before, new.encode("utf-8", "replace"), -1 if every else 1)
    return text, lines
