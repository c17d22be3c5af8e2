"""The routes by which people answer conflicts of merges in the page (docs/landing.md).

Invariant: an answer is an action of the person in the room, by the same function as a typed `/resolve`, so everybody
sees it. Agents' keys answer by the tool `resolve`, and nothing here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aiohttp import web

from relay.airspace.worktrees.registry import WorktreeRegistry
from relay.faces.http.requests.errors import answer
from relay.faces.http.requests.parsing import Query, bad
from relay.faces.http.requests.reader import RequestReader, only_person
from relay.git.run import Git, GitError
from relay.git.trial_merge import ConflictPart
from relay.merge.resolution import answers, journal
from relay.merge.resolution.journal import AskedConflict
from relay.merge.text.lines import place_of, rows_with_ends
from relay.model.actions import Resolve
from relay.room.person_actions import PersonActions
from relay.store.ports import Store

#: Lines above and below a conflict that are shown with it.
AROUND = 4
_SIDES = ("base", "ours", "theirs")
_NUMBER = "{number:[cC]?[0-9]{1,9}}"


class ConflictRoutes:
    """The handlers. `registry` has the repository."""

    def __init__(
        self, store: Store, actions: PersonActions, registry: WorktreeRegistry, reader: RequestReader
    ) -> None:
        self._store, self._actions, self._registry, self._reader = store, actions, registry, reader

    def table(self) -> list[web.RouteDef]:
        return [
            web.get(f"/api/conflicts/{_NUMBER}", self.one),
            web.post(f"/api/conflicts/{_NUMBER}", self.choose),
        ]

    async def one(self, request: web.Request) -> web.Response:
        """A conflict as `GET /api/conflicts` has it, with `around`: `{base, ours, theirs}`, each `{line, above,
        below, others}` of its own file, null where that is not known: the number of the conflict's first line, up to
        4 lines above and below it, and the other conflicts that have some of these, `{reference, lines: [first,
        last]}`. 404 for a number that is none."""
        Query(request)
        number = int(request.match_info["number"].lstrip("cC"))
        asked = await self._store.read(lambda tx: journal.conflict(tx, number))
        return answer({**asked.as_json(), "around": await self._around(asked)})

    async def choose(self, request: web.Request) -> web.Response:
        """`{name, choice: 1-5, agent?, text?}` -> `{success, reason}`; `agent` to choice 3, `text` (what is to stand
        there) to choice 4."""
        body = await self._reader.body(request, "choice", "agent", "text")
        only_person(request, "chooses", "The tool `resolve` answers what you were asked.")
        choice, agent, text = body.values.get("choice"), body.maybe_text("agent"), body.maybe_text("text")
        if isinstance(choice, bool) or not isinstance(choice, int) or not 1 <= choice <= 5:
            raise bad(f"choice is {choice!r}.", "choice is a whole number from 1 to 5.")
        if (text is not None) != (choice == 4):
            raise bad("text goes with choice 4, and with no other.", 'Send {"choice": 4, "text": "..."}.')
        if agent is not None and choice != 3:
            raise bad("agent goes with choice 3.", 'Send {"choice": 3, "agent": "NAME"}.')
        checked = None if text is None else answers.checked(text)
        action = Resolve(int(request.match_info["number"].lstrip("cC")), choice, agent, checked)
        return answer((await self._actions.act(action, by=self._reader.speaker(request, body))).as_json())

    async def _around(self, asked: AskedConflict) -> dict[str, Any]:
        part, question, main = asked.part, asked.question, self._registry.main
        if main is None or part.whole:
            return dict.fromkeys(_SIDES)
        git = self._registry.scratch.git(main)
        beside = [
            other
            for other in await self._store.read(journal.newest)
            if other.part.path == part.path
            and other.question.agent == question.agent
            and other.state != journal.GONE
            and other.number != asked.number
        ]
        base = await git.maybe("merge-base", question.ours_at, question.theirs_at)
        found = dict[str, Any]()
        for side, commit in enumerate((base, question.ours_at, question.theirs_at)):
            rows = None if commit is None else await _rows(git, commit, part.path)
            found[_SIDES[side]] = None if rows is None else _placed(rows, part, side, beside)
        return found


async def _rows(git: Git, commit: str, path: str) -> list[str] | None:
    """The lines of a file, with their ends; None: it is not there, or no text."""
    try:
        return rows_with_ends((await git.run("cat-file", "blob", f"{commit}:{path}")).out.decode("utf-8"))
    except (GitError, UnicodeDecodeError):
        return None


def _placed(
    rows: list[str], part: ConflictPart, side: int, beside: Sequence[AskedConflict]
) -> dict[str, Any] | None:
    """A side's lines around the conflict, of its own file; None: its place there is not known."""
    span = _span(rows, part, side)
    if span is None:
        return None
    first, last = span
    low, high = max(0, first - AROUND), min(len(rows), last + AROUND)
    others = [
        {"reference": other.name, "lines": [at[0] + 1, at[1]]}
        for other in beside
        if (at := _span(rows, other.part, side)) and at[0] < at[1] and at[0] < high and at[1] > low
    ]
    above, below = ([row.rstrip("\n") for row in some] for some in (rows[low:first], rows[last:high]))
    return {"line": first + 1, "above": above, "below": below, "others": others}


def _span(rows: list[str], part: ConflictPart, side: int) -> tuple[int, int] | None:
    """Where the lines of a conflict stand in a side's file: from 0, without the last. The file is what counts: a
    place at which it says something else is none."""
    lines, place = rows_with_ends((part.base, part.ours, part.theirs)[side]), part.places[side]
    if place is None:
        return place_of(rows, lines, (), ()) if lines else None
    span = place[0] - 1, place[1]
    return span if rows[slice(*span)] == lines else None
