"""The routes of explorations (docs/explore.md).

Invariant: each order is an action of the person in the room, by the same rules as a typed command, so everybody sees
it. Agents' keys order nothing here. What is shown is what the rows say.
"""

from __future__ import annotations

from typing import Any

from aiohttp import web

from relay.airspace.worktrees.registry import WorktreeRegistry
from relay.faces.http.requests.errors import answer
from relay.faces.http.requests.parsing import Body, Query, bad
from relay.faces.http.requests.reader import RequestReader, only_person
from relay.git.diff import unified
from relay.git.run import GitError
from relay.merge.exploration import journal
from relay.merge.exploration.config import FEWEST, MOST
from relay.merge.exploration.journal import VariantRun
from relay.model import Fault, Refusal
from relay.model.actions import Action, EndExploration, Explore, TakeVariant
from relay.room.person_actions import PersonActions
from relay.store.ports import Store, Tx

#: Explorations of one answer, bytes of one difference.
MOST_SHOWN, MOST_DIFF = 50, 1_048_576
_NUMBER = "{number:[xX]?[0-9]{1,9}}"


class ExplorationRoutes:
    """The handlers. `registry` has the repository."""

    def __init__(
        self, store: Store, actions: PersonActions, registry: WorktreeRegistry, reader: RequestReader
    ) -> None:
        self._store, self._actions, self._registry, self._reader = store, actions, registry, reader

    def table(self) -> list[web.RouteDef]:
        return [
            web.get("/api/explorations", self.newest),
            web.post("/api/explorations", self.begin),
            web.get(f"/api/explorations/{_NUMBER}", self.one),
            web.post(f"/api/explorations/{_NUMBER}", self.choose),
            web.get(f"/api/explorations/{_NUMBER}/diff", self.diff),
        ]

    async def newest(self, request: web.Request) -> web.Response:
        """`?limit=`: `{explorations: [...]}`, the newest first, each as `relay explore compare --json` has it."""
        limit = Query(request, "limit").whole("limit", 10, high=MOST_SHOWN)

        async def work(tx: Tx) -> list[dict[str, Any]]:
            found = await journal.newest(tx, limit)
            return [each.as_json(await journal.variants_of(tx, each.number)) for each in found]

        return answer({"explorations": await self._store.read(work)})

    async def one(self, request: web.Request) -> web.Response:
        """One of them. 404 for a number that is none."""
        Query(request)
        number = _number(request)

        async def work(tx: Tx) -> dict[str, Any]:
            exploration = await journal.load(tx, number)
            return exploration.as_json(await journal.variants_of(tx, number))

        return answer(await self._store.read(work))

    async def diff(self, request: web.Request) -> web.Response:
        """`?variant=&against=`: `{variant, against, diff, truncated}`, how a variant differs from another one; from
        what all began with where `against` is left out."""
        query, number = Query(request, "variant", "against"), _number(request)
        name, against = query.text("variant"), query.text("against")
        if not name:
            raise bad("variant is missing.", "Name the variant.")
        exploration = await self._store.read(lambda tx: journal.load(tx, number))
        runs = {run.name: run for run in await self._store.read(lambda tx: journal.variants_of(tx, number))}
        commit = _commit(runs, name)
        base = _commit(runs, against) if against else exploration.base
        main = self._registry.main
        if main is None or base is None:
            raise Refusal("The repository is not known yet.", "", Fault.BUSY)
        try:
            git = self._registry.scratch.git(main)
            text, truncated = await unified(git, base, commit, MOST_DIFF)
        except GitError as error:
            raise Refusal(f"git could not compare them: {error}.", "", Fault.UNKNOWN) from error
        return answer({"variant": name, "against": against, "diff": text, "truncated": truncated})

    async def begin(self, request: web.Request) -> web.Response:
        """`{name, task, variants?}` -> `{success, reason}`."""
        body = await self._reader.body(request, "task", "variants")
        task = " ".join(body.text("task").split())
        count = body.values.get("variants", 3)
        if isinstance(count, bool) or not isinstance(count, int) or not FEWEST <= count <= MOST:
            raise bad(f"variants is {count!r}.", f"variants is a whole number from {FEWEST} to {MOST}.")
        if not task:
            raise bad("task is empty.", "Say what is to be done.")
        return await self._order(request, body, Explore(count, task))

    async def choose(self, request: web.Request) -> web.Response:
        """`{name, answer: take|end, variant?, files?: ["PATH=VARIANT"]}` -> `{success, reason}`."""
        body = await self._reader.body(request, "answer", "variant", "files")
        number = _number(request)
        match body.text("answer"):
            case "end":
                return await self._order(request, body, EndExploration(number))
            case "take":
                files = tuple(body.names("files")) if body.values.get("files") else ()
                if any(not all(word.rpartition("=")) for word in files):
                    raise bad("files has what is not PATH=VARIANT.", 'files is a list: ["src/a.py=redis"].')
                return await self._order(request, body, TakeVariant(number, body.text("variant"), files))
            case other:
                raise bad(f"answer is {other[:40]!r}.", "answer is take or end.")

    async def _order(self, request: web.Request, body: Body, action: Action) -> web.Response:
        only_person(request, "orders that", "Ask a person.")
        return answer((await self._actions.act(action, by=self._reader.speaker(request, body))).as_json())


def _number(request: web.Request) -> int:
    return int(request.match_info["number"].lstrip("xX"))


def _commit(runs: dict[str, VariantRun], name: str) -> str:
    run = runs.get(name)
    if run is None or run.at_commit is None:
        what = f"There is no variant {name[:60]}" if run is None else f"{name} has left nothing yet"
        raise Refusal(f"{what}.", f"Variants: {', '.join(runs)}.", Fault.UNKNOWN)
    return run.at_commit
