"""The routes of reviews (docs/review.md).

Invariant: each is the action that its command makes, carried out by the same function. A mark concerns the person
alone, so it makes no entry of the room.
"""

from __future__ import annotations

from aiohttp import web

from relay.app.review.comments import wanted
from relay.app.review.reviews import Reviews
from relay.faces.http.requests.errors import answer
from relay.faces.http.requests.parsing import Body, Query, bad
from relay.faces.http.requests.reader import RequestReader, only_person
from relay.model.actions import ApplySuggestion, MarkReviewed
from relay.room.parsing.arguments import WrongArguments
from relay.room.parsing.wings.review import comment_of
from relay.room.person_actions import PersonActions


class ReviewRoutes:
    """The handlers."""

    def __init__(self, reviews: Reviews, actions: PersonActions, reader: RequestReader) -> None:
        self._reviews, self._actions, self._reader = reviews, actions, reader

    def table(self) -> list[web.RouteDef]:
        return [
            web.get("/api/review/{agent}", self.show),
            web.post("/api/review/{agent}/reviewed", self.mark),
            web.post("/api/review/{agent}/comments", self.send),
            web.post("/api/review/{agent}/apply", self.apply),
        ]

    async def show(self, request: web.Request) -> web.Response:
        """`?name=&path=` -> what the branch changes, with that person's marks, and the comments."""
        query = Query(request, "name", "path")
        person = self._reader.claimed(request, {"name": query.text("name")})
        agent = request.match_info["agent"]
        return answer(await self._reviews.state(agent, person, query.text("path") or ""))

    async def mark(self, request: web.Request) -> web.Response:
        """`{name, paths: [...], undo?}` -> `{success, reason}`."""
        agent, by, body = await self._order(request, "paths", "undo")
        undo = "undo" in body and body.flag("undo")
        action = MarkReviewed(agent, tuple(dict.fromkeys(body.names("paths"))), undo)
        return answer({"success": True, "reason": await self._reviews.mark(action, by)})

    async def send(self, request: web.Request) -> web.Response:
        """`{name, comments: [{path, side?, first, last?, blob?, text, suggestion?}]}` -> `{success, reason}`: one
        message of the person to the agent."""
        agent, by, body = await self._order(request, "comments")
        comments = body.values.get("comments")
        if not isinstance(comments, list):
            raise bad("comments is not a list.", "Send comments: [{path, first, text}].")
        action, record = await self._reviews.prepared(agent, wanted(comments))
        return answer((await self._actions.act(action, by=by, also=record)).as_json())

    async def apply(self, request: web.Request) -> web.Response:
        """`{name, comment: "m17.2", undo?}` -> `{success, reason}`."""
        agent, by, body = await self._order(request, "comment", "undo")
        try:
            message, place = comment_of(body.text("comment"))
        except WrongArguments as wrong:
            raise bad(str(wrong), "GET /api/review/AGENT has their names.") from None
        action = ApplySuggestion(agent, message, place, "undo" in body and body.flag("undo"))
        return answer((await self._actions.act(action, by=by)).as_json())

    async def _order(self, request: web.Request, *fields: str) -> tuple[str, str, Body]:
        """The agent that the path names, the person who orders it, and the body."""
        only_person(request, "reviews a branch")
        body = await self._reader.body(request, *fields)
        return request.match_info["agent"], self._reader.speaker(request, body), body
