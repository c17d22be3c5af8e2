"""The permission requests of agents at work, and people's answers.

Invariant: a request has one answer: a person's, or none by its deadline, or none at once when nobody is connected and
nobody outside is told. A request is in memory only and ends with the turn that asks. What people see of it, and what
they answer, are messages of the room.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import structlog

from relay.base.durations import iso
from relay.base.terminal_text import flat
from relay.log import events
from relay.model import PermissionAnswer, PermissionOption, PermissionRequest, Refusal, references
from relay.room.journal import ledger
from relay.room.journal.live_bus import Live
from relay.store.ports import Store

log = structlog.get_logger(__name__)
#: Seconds in which the room says at most once of one agent that nobody was there to answer it.
NOTICE_EVERY_S = 60.0
ALLOW = ("allow_once", "allow_always")
REJECT = ("reject_once", "reject_always")
_HERE = "GET /api/permissions lists the open ones."


@dataclass(frozen=True, slots=True)
class Pending:
    """A request that waits. `number`: for people to quote, never used again; `id` is of this run of the daemon.
    Times are Unix seconds."""

    number: int
    id: str
    request: PermissionRequest
    asked_at: float
    deadline_at: float

    @property
    def options(self) -> tuple[PermissionOption, ...]:
        return self.request.options

    def as_json(self) -> dict[str, Any]:
        """As the interfaces show it (docs/airspace.md)."""
        request = self.request
        return {
            "id": self.id,
            "agent": request.agent,
            "title": request.title,
            "tool": request.tool,
            "command": request.command,
            "paths": list(request.paths),
            "options": [{"id": o.id, "name": o.label, "kind": o.kind} for o in request.options],
            "asked_at": iso(self.asked_at),
            "deadline_at": iso(self.deadline_at),
            "advisory": request.advisory,
        }

    def option(self, wanted: str | None, kinds: tuple[str, ...]) -> PermissionOption | None:
        """The option by its id, its name or its place (from 1); with None the first one of these kinds. A request
        without an option to reject it by is rejected by None. Raises Refusal."""
        options = self.options
        if wanted is None:
            matching = [option for kind in kinds for option in options if option.kind == kind]
            if matching or kinds == REJECT:
                return matching[0] if matching else None
            raise Refusal(
                f"{references.request(self.number)} has no option that allows it.", f"It has: {self._told()}."
            )
        for place, option in enumerate(options, 1):
            names = (option.name.casefold(), option.label.casefold())
            if wanted in (option.id, str(place)) or wanted.casefold() in names:
                return option
        raise Refusal(
            f"{references.request(self.number)} has no option `{wanted[:40]}`.", f"It has: {self._told()}."
        )

    def _told(self) -> str:
        return ", ".join(f"{place} ({option.name})" for place, option in enumerate(self.request.options, 1))


class PermissionBroker:
    """`relay.model.Permits`."""

    def __init__(
        self,
        store: Store,
        live: Live,
        *,
        told: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`told`: somebody is told of a request who is not connected."""
        self._told_outside = told
        self._store, self._live, self._clock = store, live, clock
        self._run = secrets.token_hex(2)
        self._last = 0
        self._open: dict[int, tuple[Pending, asyncio.Future[PermissionAnswer]]] = {}
        self._noticed: dict[str, float] = {}

    @property
    def pending(self) -> list[Pending]:
        """What waits for an answer, the oldest first."""
        return [request for request, _ in self._open.values()]

    def find(self, ref: str) -> Pending:
        """A waiting request by its number or its id. Raises Refusal."""
        named = references.read(ref, references.Thing.REQUEST)
        for pending in self.pending:
            if ref == pending.id or named == (references.Thing.REQUEST, pending.number):
                return pending
        raise Refusal(
            f"There is no open permission request {ref[:20]}: it was answered or has expired.", _HERE
        )

    async def ask(self, request: PermissionRequest, *, timeout_s: float) -> PermissionAnswer:
        """Wait for a person; see `relay.model.Permits`."""
        # Whoever is connected to another member of the fleet sees it in the inbox there.
        if not self._live.people and not self._told_outside():
            await self._nobody(request)
            return PermissionAnswer(None, reason="nobody who could answer is connected")
        number, now = await self._next(), self._clock()
        pending = Pending(number, f"{self._run}-{number}", request, now, now + timeout_s)
        answered: asyncio.Future[PermissionAnswer] = asyncio.get_running_loop().create_future()
        self._open[pending.number] = pending, answered
        state = "withdrawn"
        try:
            self._tell(pending, "open")
            await self._notice(
                f"{request.agent} asks for permission: {asked_words(request)}. "
                f"`/allow {references.request(pending.number)}` or `/deny {references.request(pending.number)}`; "
                f"without an answer it is refused in {timeout_s:g} s.",
                request.agent,
                permission=pending.id,
            )
            try:
                async with asyncio.timeout(timeout_s):
                    answer = await answered
                state = "answered"
            except TimeoutError:
                state = "expired"
                answer = PermissionAnswer(None, reason=f"nobody answered within {timeout_s:g} s")
        finally:
            self._open.pop(pending.number, None)
            self._tell(pending, state)
        if state == "expired":
            text = f"Nobody answered {request.agent} in time: {asked_words(request)} is refused."
            await self._notice(text, request.agent, permission=pending.id)
        return answer

    def answer(self, id: str, option: PermissionOption | None, by: str) -> bool:
        """Answer a waiting request; None rejects it. False when it does not wait any more."""
        for pending, answered in self._open.values():
            if pending.id == id and not answered.done():
                reason = "" if option is not None else f"{by} refused it"
                answered.set_result(PermissionAnswer(option, by, reason))
                return True
        return False

    async def _next(self) -> int:
        """The room's next number, over restarts: an old message's command answers no new request."""
        try:
            self._last = await self._store.write(lambda tx: events.next_number(tx, "permission"))
        except Exception as error:  # who asks waits for no database
            log.warning("permission number not kept", error=str(error))
            self._last += 1
        return self._last

    def _tell(self, pending: Pending, state: str) -> None:
        self._live.publish("permission", {**pending.as_json(), "state": state})

    async def _nobody(self, request: PermissionRequest) -> None:
        now = self._clock()
        if now - self._noticed.get(request.agent, float("-inf")) < NOTICE_EVERY_S:
            return
        self._noticed[request.agent] = now
        asked = f"{request.agent} asked for permission ({asked_words(request)})"
        await self._notice(f"{asked} while nobody was connected: refused.", request.agent)

    async def _notice(self, text: str, agent: str, **more: str) -> None:
        meta = {"notice": "permission", "agent": agent, **more}
        try:
            await self._store.write(lambda tx: ledger.say(tx, text, now=self._clock(), meta=meta))
        except Exception as error:  # the question stands in the page all the same
            log.warning("permission notice not posted", error=str(error))


def asked_words(request: PermissionRequest) -> str:
    """What it asks for, with the command where the title does not say it: "`execute a.py`: `npm run deploy`"."""
    title, command = code_span(request.title), code_span(request.command)
    known = not request.command or command[1:-1] in title
    return title if known else f"{title}: {command}"


def code_span(text: str) -> str:
    """A text of an agent's as the room shows it: one line, and nothing in it that ends the span."""
    line = flat(text.replace("`", "'"))
    return f"`{line if len(line) <= 160 else f'{line[:159]}…'}`"
