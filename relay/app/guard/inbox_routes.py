"""The routes by which an agent's hook takes what its running turn is told (relay/app/guard/told_hook.py).

Invariant: a key takes its own agent's messages only; a turn is named by its session, so what is left of an earlier
turn takes nothing of the one that runs now.
"""

from __future__ import annotations

from aiohttp import web

from relay.faces.http.requests.errors import answer
from relay.faces.http.requests.middleware import CREDENTIAL
from relay.faces.http.requests.parsing import Body
from relay.faces.http.requests.reader import RequestReader
from relay.model import Fault, Refusal
from relay.room.dispatch.steering import told_by_hook
from relay.room.dispatch.worker import WorkerPool


class InboxRoutes:
    """The handlers."""

    def __init__(self, workers: WorkerPool, reader: RequestReader) -> None:
        self._workers, self._reader = workers, reader

    def table(self) -> list[web.RouteDef]:
        return [web.post("/api/inbox/take", self.take), web.post("/api/inbox/heard", self.heard)]

    async def take(self, request: web.Request) -> web.Response:
        """`{agent, session}` -> `{text, messages: [id]}`: what the running turn of this session is told now."""
        body = await self._own(request, "agent", "session")
        taken = await self._workers.take(body.text("agent"), body.text("session"))
        return answer({"text": told_by_hook(taken), "messages": [message.id for message in taken]})

    async def heard(self, request: web.Request) -> web.Response:
        """`{agent, session, messages: [id], after?}` -> `{heard}`: are they in the turn now? False: it is over, and
        they come with the next one."""
        body = await self._own(request, "agent", "session", "messages", "after")
        after = body.maybe_text("after") or ""
        heard = await self._workers.heard(
            body.text("agent"), body.names("messages"), after, session=body.text("session")
        )
        return answer({"heard": heard})

    async def _own(self, request: web.Request, *fields: str) -> Body:
        body = await self._reader.exact_body(request, *fields)
        identity = request[CREDENTIAL].identity
        if identity is not None and identity != body.text("agent"):
            raise Refusal(
                f"This key is {identity}'s; agent names another.",
                f"Ask as {identity}.",
                Fault.FORBIDDEN,
                "foreign_identity",
            )
        return body
