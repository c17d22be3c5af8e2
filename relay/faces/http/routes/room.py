"""The routes of the room: reading it, writing messages, and ordering actions (docs/http.md).

Invariant: a handler reads the request, asks the room once and shows its answer; no rule of the domain lives here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler
from prometheus_client import CollectorRegistry, generate_latest

from relay.faces.http.requests.auth import Auth
from relay.faces.http.requests.errors import answer, packed
from relay.faces.http.requests.limits import Limits
from relay.faces.http.requests.middleware import CREDENTIAL
from relay.faces.http.requests.parsing import Body, Query, bad, numbered
from relay.faces.http.requests.reader import RequestReader
from relay.faces.http.routes.operations import caller_of, session_of
from relay.faces.services import Services
from relay.model import TASK_STATUSES, Fault, Message, Refusal
from relay.model.actions import Action, Cancel, EditTasks, Field, Pause, Resume, SetAgent, TryNow, Undo
from relay.model.messages import check_client_id
from relay.model.orders.board import NOTHING
from relay.model.references import Thing
from relay.room.journal.values import JobState
from relay.room.service import Room

Json = dict[str, Any]
#: The word in the place of an agent's name that stands for all of them.
_ALL = "ALL"
#: Messages whose jobs may be asked for at once: what a line of HTTP holds of ids.
_MOST_MESSAGES = 150


class RoomRoutes:
    """The handlers. `services`: where an agent's message goes; `max_entry`: bytes of one."""

    def __init__(
        self,
        room: Room,
        auth: Auth,
        reader: RequestReader,
        services: Services | None,
        metrics: CollectorRegistry | None,
        *,
        max_entry: int,
    ) -> None:
        self._room, self._auth, self._reader = room, auth, reader
        self._services, self._metrics, self._max_entry = services, metrics, max_entry

    def table(self) -> list[web.RouteDef]:
        return [
            web.get("/health", self.health),
            web.get("/metrics", self.metrics),
            web.get("/api/state", self.state),
            web.get("/api/transcript", self.transcript),
            web.get("/api/search", self.search),
            web.get("/api/queue", self.queue),
            web.get("/api/tasks", self.tasks),
            web.get("/api/usage", self.usage),
            web.get("/api/agents/{agent}/log", self.agent_log),
            web.get("/api/events/{event}/why", self.why),
            web.post("/api/messages", self.post),
            web.post("/api/messages/{message}/route", self.route),
            web.post("/api/queue/{job}/retry", self.retry),
            web.post("/api/agents/{agent}/pause", self._order(lambda request: Pause(_agents(request)))),
            web.post("/api/agents/{agent}/resume", self._order(lambda request: Resume(_agents(request)))),
            web.post("/api/agents/{agent}/try", self._order(lambda request: TryNow(_agent(request)))),
            web.post("/api/agents/{agent}/cancel", self._order(lambda request: Cancel(_agent(request)))),
            web.patch("/api/agents/{agent}", self.set_agent),
            web.post("/api/tasks", self.create_task),
            web.post("/api/tasks/undo", self.undo),
            web.patch("/api/tasks/{number:[tT]?[0-9]+}", self.change_task),
        ]

    async def health(self, request: web.Request) -> web.Response:
        """Tells anybody whether the room is well, and a caller with the room's token also what is wrong."""
        trouble = self._room.trouble
        health: Json = {"ok": not trouble}
        if trouble and self._auth.is_token(request.headers.get("X-API-Key", "")):
            health["trouble"] = trouble
        return answer(health, status=503 if trouble else 200)

    # --- reading ------------------------------------------------------------------------------------------

    async def metrics(self, _request: web.Request) -> web.Response:
        if self._metrics is None:
            raise Refusal("This room has no metrics.", "", Fault.UNKNOWN)
        kind = "text/plain; version=0.0.4; charset=utf-8"
        return web.Response(body=generate_latest(self._metrics), headers={"Content-Type": kind})

    async def state(self, request: web.Request) -> web.Response:
        commands = Query(request, "commands").text("commands")
        if commands not in (None, "no"):
            raise bad(f"commands is {commands[:40]!r}.", "It is no, or left out.")
        state = await self._room.status.as_json()
        if commands == "no":
            state.pop("commands", None)
        return packed(state)

    async def transcript(self, request: web.Request) -> web.Response:
        query = Query(request, "after", "before", "around", "thread", "limit")
        after, before = query.cursor("after"), query.cursor("before")
        around, thread = query.text("around"), query.text("thread")
        if sum(place is not None for place in (after, before, around, thread)) > 1:
            raise bad("after, before, around and thread exclude each other.", "Send one of them.")
        limit = query.whole("limit", 100, high=1000)
        if thread is not None:
            page = await self._room.reader.thread(thread.strip(), limit=limit)
        elif around is None:
            page = await self._room.reader.transcript(after=after, before=before, limit=limit)
        elif around.strip():
            page = await self._room.reader.around(around.strip(), limit=limit)
        else:
            raise bad("around is empty.", "Send a message's id, its number as %2312, or a cursor.")
        shown = {
            "entries": [
                entry_json(message, replies=page.replies.get(message.id, 0)) for message in page.entries
            ],
            "next": str(page.next),
            "more": page.more,
        }
        return packed(shown if around is None else {**shown, "more_after": page.more_after})

    async def search(self, request: web.Request) -> web.Response:
        query = Query(request, "q", "limit")
        text = query.text("q")
        if text is None or not text.strip():
            raise bad("q is missing.", "Send what to look for: /api/search?q=TEXT.")
        hits = await self._room.reader.search(text, limit=query.whole("limit", 50, high=1000))
        return answer({"entries": [entry_json(message, snippet=snippet) for message, snippet in hits]})

    async def queue(self, request: web.Request) -> web.Response:
        query = Query(request, "state", "messages", "limit")
        state = query.text("state") or None
        if state is not None and state not in list(JobState):
            raise bad(f"state is {state[:40]!r}.", f"It is one of: {', '.join(JobState)}.")
        named = query.text("messages")
        messages = None if named is None else [id for id in named.split(",") if id]
        if messages is not None and not 0 < len(messages) <= _MOST_MESSAGES:
            raise bad(
                f"messages names {len(messages)}.", f"Send 1 to {_MOST_MESSAGES} ids, with commas between."
            )
        limit = query.whole("limit", 200, high=1000)
        jobs = await self._room.reader.jobs(state=state, messages=messages, limit=limit)
        return packed({"jobs": jobs})

    async def tasks(self, request: web.Request) -> web.Response:
        status = Query(request, "status").text("status")
        if status is not None and status not in TASK_STATUSES:
            raise bad(f"status is {status[:40]!r}.", f"It is one of: {', '.join(TASK_STATUSES)}.")
        tasks = await self._room.reader.tasks()
        listed = [task for task in tasks if status in (None, task["status"])]
        return answer({"tasks": listed, "undo": await self._room.reader.undoable()})

    async def usage(self, request: web.Request) -> web.Response:
        """What the agents' turns used since midnight, and by hour of the last day."""
        Query(request)
        return packed(await self._room.reader.usage())

    async def agent_log(self, request: web.Request) -> web.Response:
        limit = Query(request, "limit").whole("limit", 200, high=2000)
        lines = await self._room.reader.agent_log(request.match_info["agent"], limit=limit)
        return answer({"lines": list(lines)})

    async def why(self, request: web.Request) -> web.Response:
        return answer({"chain": list(await self._room.reader.why(request.match_info["event"]))})

    # --- writing ------------------------------------------------------------------------------------------

    async def post(self, request: web.Request) -> web.Response:
        limit = message_bytes(self._max_entry, self._reader.limits)
        fields = ("body", "in_reply_to", "client_id")
        body = await self._reader.body(request, *fields, limit=limit)
        text = body.text("body")
        if len(text.encode()) > self._max_entry:
            raise Refusal(
                f"An entry has {self._max_entry} bytes at most.",
                "Send it in parts, or name a file; workspace.max_entry_bytes is the limit.",
                Fault.MALFORMED,
                "too_large",
            )
        client_id = body.maybe_text("client_id")
        check_client_id(client_id)
        name, reply = self._reader.speaker(request, body), body.maybe_text("in_reply_to")
        if not request[CREDENTIAL].person:
            return await self._post_as_agent(request, name, text, reply, client_id)
        posted = await self._room.poster.post(text, name=name, in_reply_to=reply, client_id=client_id)
        cursor = str(posted.cursor)
        return answer({"id": posted.id, "cursor": cursor, "number": posted.number}, status=201)

    async def _post_as_agent(
        self, request: web.Request, name: str, text: str, reply: str | None, client_id: str | None
    ) -> web.Response:
        """An agent's key speaks as its agent: the entry is an agent's, and opens what an agent's may."""
        if self._services is None:
            raise Refusal("An agent cannot post here.", "Use POST /room/messages.", Fault.FORBIDDEN, "scope")
        caller = caller_of(request[CREDENTIAL], name, session=session_of(request))
        posted = await self._services.room.post(caller, text, in_reply_to=reply, client_id=client_id)
        return answer({field: posted[field] for field in ("id", "cursor", "number")}, status=201)

    async def route(self, request: web.Request) -> web.Response:
        body = await self._reader.body(request, "agents")
        agents = body.names("agents")
        done = await self._room.actions.route(
            request.match_info["message"], agents, by=self._reader.speaker(request, body)
        )
        return answer(done.as_json())

    async def retry(self, request: web.Request) -> web.Response:
        job = _number(request, "job", Thing.JOB)
        body = await self._reader.body(request, optional=True)
        return answer((await self._room.actions.retry(job, by=self._reader.speaker(request, body))).as_json())

    async def set_agent(self, request: web.Request) -> web.Response:
        body = await self._reader.body(request, "model", "effort", "enabled")
        # null is said on purpose here: it takes the key out of the configuration.
        texts = {field: body.maybe_text(field) for field in ("model", "effort") if field in body}
        for field, text in texts.items():
            if text == "":
                raise bad(f"{field} is empty.", "Send null for the one that its program takes.")
        enabled = body.flag("enabled") if "enabled" in body else None
        action = SetAgent(request.match_info["agent"], **texts, enabled=enabled)
        if not action.changes:
            raise bad("There is nothing to change.", "Send model, effort or enabled.")
        by = self._reader.speaker(request, body)
        return answer(await self._room.actions.set_agent(action, by=by))

    async def create_task(self, request: web.Request) -> web.Response:
        body = await self._reader.body(request, "title", "description")
        title, by = body.text("title"), self._reader.speaker(request, body)
        task = await self._room.actions.create_task(title, body.maybe_text("description"), by=by)
        return answer({"task": task}, status=201)

    async def change_task(self, request: web.Request) -> web.Response:
        number = _number(request, "number", Thing.TASK)
        body = await self._reader.body(request, "status", "title", *_EDITS)
        changes: Json = {field: body.text(field) for field in ("status", "title") if field in body}
        edits = _edits(number, body)
        if not changes and not edits:
            raise bad("There is nothing to change.", f"Send status, title, {', '.join(_EDITS)}.")
        if changes.get("status", "done") not in TASK_STATUSES:
            raise bad(f"status is {changes['status'][:40]!r}.", f"It is one of: {', '.join(TASK_STATUSES)}.")
        by = self._reader.speaker(request, body)
        task = {**await self._room.actions.change_task(number, changes, edits, by=by)}
        back = {"undo": task.pop("undo")} if "undo" in task else {}
        return answer({"task": task, **back})

    async def undo(self, request: web.Request) -> web.Response:
        """`{name, message?: "m17"}` -> `{success, reason}`. `message`: what that did, if it is the last change."""
        body = await self._reader.body(request, "message", optional=True)
        named = body.maybe_text("message")
        number = None if named is None else numbered(named, Thing.MESSAGE)
        if named is not None and number is None:
            raise bad(f"message is {named[:40]!r}.", "It is a message's number, like m17.")
        return answer(
            (await self._room.actions.act(Undo(number), by=self._reader.speaker(request, body))).as_json()
        )

    def _order(self, make: Callable[[web.Request], Action]) -> Handler:
        """The handler of an action of which the body says only who orders it."""

        async def handle(request: web.Request) -> web.Response:
            body = await self._reader.body(request, optional=True)
            done = await self._room.actions.act(make(request), by=self._reader.speaker(request, body))
            return answer(done.as_json())

        return handle


#: What a request changes of a task beside its title and column.
_EDITS = ("description", "priority", "files", "depends_on")


def _edits(number: int, body: Body) -> list[EditTasks]:
    """Raises Refusal."""
    edits = []
    if "description" in body:
        text = (body.maybe_text("description") or "").strip("\n").rstrip()
        edits.append(EditTasks((number,), Field.DESCRIPTION, text or NOTHING))
    if "priority" in body:
        priority = body.values["priority"]
        if not isinstance(priority, int) or isinstance(priority, bool) or not 1 <= priority <= 10:
            raise bad(f"priority is {str(priority)[:40]}.", "It is a whole number from 1 (first) to 10.")
        edits.append(EditTasks((number,), Field.PRIORITY, str(priority)))
    if "files" in body:
        files = body.values["files"] or []
        if not isinstance(files, list) or not all(isinstance(path, str) and path.strip() for path in files):
            raise bad("files is no list of paths.", 'Send paths or patterns: ["src/app.py"].')
        edits.append(EditTasks.files(number, files))
    if "depends_on" in body:
        needs = body.values["depends_on"] or []
        if not isinstance(needs, list) or not all(
            isinstance(need, int) and not isinstance(need, bool) and 0 < need < 10**9 for need in needs
        ):
            raise bad("depends_on is no list of tasks.", "Send their numbers: [3, 5].")
        edits.append(EditTasks.depends(number, needs))
    return edits


def entry_json(message: Message, **more: Any) -> Json:
    """ENTRY: the message with its cursor as the opaque text that clients send back."""
    return {**message.as_json(), "cursor": str(message.cursor), **more}


def message_bytes(max_entry: int, limits: Limits) -> int:
    """The limit of a request that has an entry. One byte of the entry may need six in JSON (\\u0001); the entry's own
    limit is checked where it is put into the room."""
    return 6 * max_entry + limits.body_bytes


def _agent(request: web.Request) -> tuple[str, ...]:
    """The agent that the path names."""
    return (request.match_info["agent"],)


def _agents(request: web.Request) -> tuple[str, ...]:
    """The agent that the path names; none = all."""
    return () if request.match_info["agent"].upper() == _ALL else _agent(request)


def _number(request: web.Request, name: str, thing: Thing) -> int:
    number = numbered(request.match_info[name], thing)
    if number is None:
        raise Refusal(f"There is no {name} with that number.", f"A {name} has a number.", Fault.UNKNOWN)
    return number
