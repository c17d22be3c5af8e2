"""The routes by which people answer conflicts of merges in the page (docs/landing.md).

Invariant: an answer is an action of the person in the room, by the same function as a typed `/resolve`, so everybody
sees it. Agents' keys answer by the tool `resolve`, and nothing here.
"""

from __future__ import annotations

from typing import Any

from aiohttp import web

from relay.airspace.worktrees.registry import WorktreeRegistry
from relay.faces.http.requests.errors import answer
from relay.faces.http.requests.parsing import Query, bad
from relay.faces.http.requests.reader import RequestReader, only_person
from relay.git.run import GitError
from relay.merge.resolution import answers, journal
from relay.merge.resolution.journal import AskedConflict
from relay.model.actions import Resolve
from relay.room.person_actions import PersonActions
from relay.store.ports import Store

#: Lines above and below a conflict that are shown with it.
AROUND = 4
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
        """A conflict as `GET /api/conflicts` has it, with `around`: `{line, above, below}`, the number of its first
        line in the main branch's file and up to 4 lines above and below it, null where that is not known. 404 for a
        number that is none."""
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

    async def _around(self, asked: AskedConflict) -> dict[str, Any] | None:
        part, question = asked.part, asked.question
        sides = (
            (question.ours_at, part.ours, part.places[1]),
            (question.theirs_at, part.theirs, part.places[2]),
        )
        main = self._registry.main
        commit, lines, place = next((side for side in sides if side[1]), ("", "", None))
        if main is None or not lines:
            return None
        git = self._registry.scratch.git(main)
        try:
            text = (await git.run("cat-file", "blob", f"{commit}:{part.path}")).out.decode("utf-8")
        except (GitError, UnicodeDecodeError):
            return None
        found = [at for at in _starts(text) if text.startswith(lines, at)]
        if place is not None:
            found = [at for at in found if text.count("\n", 0, at) + 1 == place[0]]
        if len(found) != 1:
            return None
        above, below = text[: found[0]].split("\n")[:-1], text[found[0] + len(lines) :].split("\n")
        below = below[:-1] if below[-1:] == [""] else below
        return {"line": len(above) + 1, "above": above[-AROUND:], "below": below[:AROUND]}


def _starts(text: str) -> list[int]:
    """Where its lines begin."""
    return [0, *(at + 1 for at, sign in enumerate(text) if sign == "\n")]
