"""The routes of verifications and approvals (docs/verification.md).

Invariant: each order is an action of the person in the room, by the same rules as a typed command, so everybody sees
it. An agent's key orders nothing here, and approves nothing. What is shown is what the rows say.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aiohttp import web

from relay.airspace.worktrees.registry import WorktreeRegistry
from relay.faces.http.requests.errors import answer
from relay.faces.http.requests.parsing import Body, Query, bad, numbered
from relay.faces.http.requests.reader import RequestReader, only_person
from relay.git.diff import unified
from relay.git.run import GitError
from relay.model import Fault, Refusal
from relay.model.actions import Action, Approve, Reject, Verify
from relay.model.references import Thing
from relay.room.person_actions import PersonActions
from relay.store.ports import Store, Tx
from relay.verification import approvals, journal
from relay.verification.verification import Outcome, Verification

Json = dict[str, Any]
#: Rows of one answer, bytes of one difference.
MOST_SHOWN, MOST_DIFF = 100, 1_048_576
_VERIFICATION = "{number:[vV]?[0-9]{1,9}}"
_APPROVAL = "{number:[aA]?[0-9]{1,9}}"


class VerificationRoutes:
    """The handlers. `live`: what a running program has printed last, by verification and policy."""

    def __init__(
        self,
        store: Store,
        actions: PersonActions,
        registry: WorktreeRegistry,
        reader: RequestReader,
        live: Callable[[int, str], str],
    ) -> None:
        self._store, self._actions, self._registry = store, actions, registry
        self._reader, self._live = reader, live

    def table(self) -> list[web.RouteDef]:
        return [
            web.get("/api/verifications", self.newest),
            web.post("/api/verifications", self.begin),
            web.get(f"/api/verifications/{_VERIFICATION}", self.one),
            web.post(f"/api/verifications/{_VERIFICATION}", self.again),
            web.get(f"/api/verifications/{_VERIFICATION}/diff", self.diff),
            web.get("/api/approvals", self.approvals),
            web.post(f"/api/approvals/{_APPROVAL}", self.decide),
        ]

    async def newest(self, request: web.Request) -> web.Response:
        """`?agent=&task=&numbers=v3,v4&before=&limit=`: `{verifications: [...]}`, the newest first, without what
        their runs printed. `agent`, `task` (its id): of these alone; `numbers`: exactly these."""
        query = Query(request, "agent", "task", "numbers", "before", "limit")
        limit = query.whole("limit", 30, high=MOST_SHOWN)
        agent, task = query.text("agent"), query.text("task")
        before = query.whole("before", 2**31, high=2**31)
        numbers = _numbers(query.text("numbers") or "")

        async def find(tx: Tx) -> list[Verification]:
            if numbers:
                return await journal.numbered(tx, numbers)
            if task:
                return await journal.newest_of_task(tx, task, limit, before)
            if agent:
                return await journal.newest_of_agent(tx, agent, limit, before)
            return await journal.newest_verifications(tx, limit, before)

        async def work(tx: Tx) -> list[Json]:
            found = await find(tx)
            return [each.as_json(await journal.results_of(tx, each.number), output=False) for each in found]

        return answer({"verifications": await self._store.read(work)})

    async def one(self, request: web.Request) -> web.Response:
        """One of them, with what its runs printed, also those that run, and who was asked. 404 for none."""
        Query(request)
        number = _number(request, "vV")

        async def work(tx: Tx) -> Json:
            found = await journal.load(tx, number)
            shown = found.as_json(await journal.results_of(tx, number))
            asked = await approvals.of_verification(tx, number)
            return {**shown, "approvals": [each.as_json() for each in asked]}

        shown = await self._store.read(work)
        for result in shown["results"]:
            if result["state"] == Outcome.RUNNING:
                result["output"] = self._live(number, result["policy"])
        return answer(shown)

    async def diff(self, request: web.Request) -> web.Response:
        """`{diff, truncated}`: what the change changes."""
        Query(request)
        number = _number(request, "vV")
        change = (await self._store.read(lambda tx: journal.load(tx, number))).change
        main = self._registry.main
        if main is None or change.base is None or change.tree is None:
            raise Refusal("It is not known yet what it changes.", "", Fault.BUSY)
        try:
            git = self._registry.scratch.git(main)
            text, truncated = await unified(git, change.base, change.tree, MOST_DIFF)
        except GitError as error:
            if "diff" in change.about:  # of a merge that another member of the fleet has made
                return answer({"diff": change.about["diff"], "truncated": False})
            raise Refusal(f"git could not show it: {error}.", "", Fault.UNKNOWN) from error
        return answer({"diff": text, "truncated": truncated})

    async def begin(self, request: web.Request) -> web.Response:
        """`{name?, agent}` -> `{success, reason}`: an agent's work as it stands is verified."""
        body = await self._reader.body(request, "agent")
        return await self._order(request, body, Verify(agent=body.text("agent")))

    async def again(self, request: web.Request) -> web.Response:
        """`{name?}` -> `{success, reason}`: it is verified once more."""
        body = await self._reader.body(request, optional=True)
        return await self._order(request, body, Verify(_number(request, "vV")))

    async def approvals(self, request: web.Request) -> web.Response:
        """`?limit=`: `{approvals: [...]}`: those that wait first, then the newest; each with its `change`."""
        limit = Query(request, "limit").whole("limit", 30, high=MOST_SHOWN)

        async def work(tx: Tx) -> list[Json]:
            waiting = await approvals.waiting(tx)
            known = {each.number for each in waiting}
            rest = [each for each in await approvals.newest(tx, limit) if each.number not in known]
            shown = []
            for each in (*waiting, *rest):
                found: Verification = await journal.load(tx, each.verification)
                results = await journal.results_of(tx, each.verification)
                shown.append({**each.as_json(), "change": found.as_json(results, output=False)})
            return shown

        return answer({"approvals": await self._store.read(work)})

    async def decide(self, request: web.Request) -> web.Response:
        """`{name?, answer: approve|reject, reason?}` -> `{success, reason}`."""
        body = await self._reader.body(request, "answer", "reason")
        number = _number(request, "aA")
        match body.text("answer"):
            case "approve":
                return await self._order(request, body, Approve(number))
            case "reject":
                reason = " ".join(body.text("reason").split())
                if not reason:
                    raise bad("reason is empty.", "Say why: whoever asked is told.")
                return await self._order(request, body, Reject(number, reason[:300]))
            case other:
                raise bad(f"answer is {other[:40]!r}.", "answer is approve or reject.")

    async def _order(self, request: web.Request, body: Body, action: Action) -> web.Response:
        only_person(request, "orders that", "Ask a person.")
        return answer((await self._actions.act(action, by=self._reader.speaker(request, body))).as_json())


def _numbers(said: str) -> list[int]:
    """`v3,v4` as numbers. Raises BadRequest."""
    read = [numbered(one, Thing.VERIFICATION) for one in said.split(",") if one]
    found = [number for number in read if number is not None]
    if len(found) != len(read) or len(found) > MOST_SHOWN:
        raise bad("numbers names something else.", f"At most {MOST_SHOWN} verifications, as v3,v4.")
    return found


def _number(request: web.Request, letters: str) -> int:
    return int(request.match_info["number"].lstrip(letters))
