"""The room's own routes (docs/http.md), as the OpenAPI document shows them: they were built for people and the page.

Invariant: every route of the room that is no operation, no file of the page and no WebSocket stands here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Json = Mapping[str, Any]

_TEXT: Json = {"type": "string", "minLength": 1}
#: Characters that no name has: brackets and unprintable ones (`str.isprintable`, without those not yet assigned).
_NOT_SEEN = (
    r"\[\]\u0000-\u001f\u007f-\u00a0\u00ad\u061c\u1680\u180e\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000"
    r"\ud800-\uf8ff\ufeff\ufff0-\ufffb"
)
#: A name as `relay.model.speaker_names.clean_name` takes it: no sign of a mention or a command in front.
NAME = f"^ *[^ @/{_NOT_SEEN}][^{_NOT_SEEN}]*$"
_MAYBE: Json = {"type": ["string", "null"]}
_FLAG: Json = {"type": "boolean"}
_TEXTS: Json = {"type": "array", "items": {"type": "string"}}
_PATHS: Json = {"type": ["array", "null"], "items": _TEXT}
_NAME: Json = {"type": ["string", "null"], "minLength": 1, "maxLength": 32, "pattern": NAME}
_SAYING: Json = {**_TEXT, "pattern": r"\S"}
_TIME: Json = {"type": "string", "format": "date-time"}
_CURSOR: Json = {"type": "string", "pattern": "^[0-9]{1,18}$"}
_WHO = {"name": _NAME, "agent_id": _NAME}
_STATES: Json = {"enum": ["pending", "active", "done", "failed", "skipped", "dead", ""]}
_STATUS = ["pending", "in_progress", "done"]


def not_both(first: str, other: str) -> dict[str, Any]:
    """One of the two fields is left out, or null."""
    return {"anyOf": [{"properties": {name: {"type": "null"}}} for name in (first, other)]}


def at_least_one(*fields: str) -> dict[str, Any]:
    """One of these fields is there."""
    return {"anyOf": [{"required": [name]} for name in fields]}


def exactly_one(*fields: str) -> dict[str, Any]:
    """One of these fields has a value; the others are left out, or null."""
    null, present = {"type": "null"}, {"not": {"type": "null"}}
    return {
        "anyOf": [
            {"required": [given], "properties": {name: present if name == given else null for name in fields}}
            for given in fields
        ]
    }


def _limit(most: int) -> Json:
    return {"type": "integer", "minimum": 1, "maximum": most}


@dataclass(frozen=True, slots=True)
class RoomRoute:
    """One route. `body`: the fields of its request, None = it has none; `required` of them, and the `rules` that hold
    between them; `needed` of the query; `open`: wants no key; `lists`: it answers a list."""

    method: str
    path: str
    summary: str
    query: Mapping[str, Json] = field(default_factory=dict)
    body: Mapping[str, Json] | None = None
    required: tuple[str, ...] = ()
    status: int = 200
    kind: str = "application/json"
    open: bool = False
    rules: tuple[Json, ...] = ()
    needed: tuple[str, ...] = ()
    lists: bool = False


ROOM_ROUTES = (
    RoomRoute("GET", "/health", "Does the room run?", open=True),
    RoomRoute("GET", "/openapi.json", "This document."),
    RoomRoute("GET", "/reference", "This document as a page.", kind="text/html"),
    RoomRoute("GET", "/reference.css", "The style sheet of that page.", kind="text/css"),
    RoomRoute("GET", "/metrics", "Metrics for Prometheus.", kind="text/plain"),
    RoomRoute(
        "POST",
        "/api/sign-in",
        "Begin a session of the page.",
        body={"link": _MAYBE, "key": _MAYBE},
        open=True,
    ),
    RoomRoute(
        "POST",
        "/webhook/github",
        "A delivery of GitHub's, signed with the webhook's secret.",
        status=202,
        open=True,
    ),
    RoomRoute("POST", "/api/sign-out", "End the page's session.", body={}),
    RoomRoute("POST", "/api/links", "A sign-in link.", body={}),
    RoomRoute(
        "GET",
        "/api/state",
        "The room, its agents, tasks and people.",
        {"commands": {"enum": ["no"]}, "tasks": {"enum": ["claimed"]}},
    ),
    RoomRoute(
        "GET",
        "/api/transcript",
        "A page of the transcript.",
        {"after": _CURSOR, "before": _CURSOR, "around": _TEXT, "thread": _TEXT, "limit": _limit(1000)},
    ),
    RoomRoute(
        "GET",
        "/api/search",
        "Entries with these words.",
        {"q": _SAYING, "limit": _limit(1000)},
        needed=("q",),
    ),
    RoomRoute(
        "GET",
        "/api/queue",
        "Jobs of the dispatch queue.",
        {"state": _STATES, "messages": {"type": "string", "pattern": "[^,]"}, "limit": _limit(1000)},
    ),
    RoomRoute("GET", "/api/tasks", "The board.", {"status": {"enum": ["pending", "in_progress", "done"]}}),
    RoomRoute("GET", "/api/tasks/{number}", "One task, with its history and what it led to."),
    RoomRoute(
        "POST",
        "/api/tasks",
        "A new task.",
        body={"title": _SAYING, "description": _MAYBE, **_WHO},
        required=("title",),
        status=201,
    ),
    RoomRoute(
        "POST",
        "/api/tasks/undo",
        "Undo the last change of the board.",
        body={"message": {"type": ["string", "null"]}, **_WHO},
    ),
    RoomRoute(
        "PATCH",
        "/api/tasks/{number}",
        "Change a task.",
        body={
            "status": {"enum": _STATUS},
            "title": _SAYING,
            "description": _MAYBE,
            "priority": _limit(10),
            "files": {"type": ["array", "null"], "items": _SAYING},
            "depends_on": {"type": ["array", "null"], "items": _limit(999_999_999)},
            **_WHO,
        },
        rules=(at_least_one("status", "title", "description", "priority", "files", "depends_on"),),
    ),
    RoomRoute(
        "POST",
        "/api/tasks/some",
        "Change several tasks at once, or give them to an agent.",
        body={
            "tasks": {"type": "array", "items": _limit(999_999_999), "minItems": 1, "maxItems": 200},
            "action": {"enum": ["give", "move", "priority", "archive"]},
            "to": _MAYBE,
            **_WHO,
        },
        required=("tasks", "action"),
    ),
    RoomRoute(
        "POST",
        "/api/tasks/import",
        "Make tasks of issues, as `gh issue list --json` writes them.",
        body={"issues": {"type": ["array", "object"]}, **_WHO},
        required=("issues",),
    ),
    RoomRoute("GET", "/api/agents/{agent}/log", "What an agent's program wrote.", {"limit": _limit(2000)}),
    RoomRoute(
        "PATCH",
        "/api/agents/{agent}",
        "Set an agent's model, effort or whether it works.",
        body={"model": _MAYBE, "effort": _MAYBE, "enabled": _FLAG, **_WHO},
        rules=(at_least_one("model", "effort", "enabled"),),
    ),
    RoomRoute("POST", "/api/agents/{agent}/pause", "Pause an agent (`all`: every one).", body=_WHO),
    RoomRoute("POST", "/api/agents/{agent}/resume", "Resume it.", body=_WHO),
    RoomRoute(
        "POST",
        "/api/agents/{agent}/try",
        "Give an agent whose circuit is open its one attempt now.",
        body=_WHO,
    ),
    RoomRoute("POST", "/api/agents/{agent}/cancel", "End an agent's turn.", body=_WHO),
    RoomRoute("GET", "/api/events/{event}/why", "The causes of an event or a message, nearest first."),
    RoomRoute(
        "POST",
        "/api/messages",
        "Say something in the room.",
        body={
            "body": _SAYING,
            "in_reply_to": _MAYBE,
            "client_id": {**_MAYBE, "minLength": 1, "maxLength": 128},
            **_WHO,
        },
        required=("body",),
        status=201,
    ),
    RoomRoute(
        "POST",
        "/api/messages/{message}/route",
        "Say who answers a message.",
        body={"agents": {**_TEXTS, "minItems": 1}, **_WHO},
        required=("agents",),
    ),
    RoomRoute("GET", "/api/messages/{message}/versions", "What a message said before it was changed."),
    RoomRoute(
        "POST",
        "/api/messages/{message}/edit",
        "Change what a message of your own says.",
        body={"body": _SAYING, **_WHO},
        required=("body",),
    ),
    RoomRoute("POST", "/api/messages/{message}/delete", "Delete a message of your own.", body=_WHO),
    RoomRoute("POST", "/api/messages/{message}/pin", "Keep an entry on top of the room.", body=_WHO),
    RoomRoute("POST", "/api/messages/{message}/unpin", "Take a pinned entry down.", body=_WHO),
    RoomRoute(
        "GET",
        "/api/code",
        "The code that a message speaks of, as it stood then.",
        {
            "path": _TEXT,
            "at": _TEXT,
            "lines": {"type": "string", "pattern": "^[1-9][0-9]{0,8}(-[1-9][0-9]{0,8})?$"},
        },
        needed=("path", "at"),
    ),
    RoomRoute(
        "POST",
        "/api/files",
        "Give the room a file, as the body, so that a message can name it.",
        {"name": _TEXT},
        status=201,
        needed=("name",),
    ),
    RoomRoute(
        "GET", "/api/files/{file}", "A file of a message.", {"name": _TEXT}, kind="application/octet-stream"
    ),
    RoomRoute("GET", "/api/pins", "What is pinned, what was pinned last first."),
    RoomRoute("POST", "/api/queue/{job}/retry", "Try a job again.", body=_WHO),
    RoomRoute("POST", "/api/repair", "Repair what healthcheck.sh finds."),
    RoomRoute(
        "POST",
        "/api/guard",
        "May an agent change this file now, or each of these, or run this command of a shell?",
        body={
            "agent": _TEXT,
            "path": {**_MAYBE, "pattern": r"\S"},
            "paths": _PATHS,
            "lines": {
                "type": ["array", "null"],
                "items": {"type": "integer", "minimum": 1, "maximum": 2**31 - 1},
                "minItems": 2,
                "maxItems": 2,
                "description": "first and last, both included",
            },
            "content": {**_MAYBE, "description": "the whole file as it would stand"},
            "edits": {
                "type": ["array", "null"],
                "items": {
                    "type": "object",
                    "properties": {
                        "old": {"type": "string"},
                        "new": {"type": "string"},
                        "all": {"type": "boolean"},
                    },
                    "required": ["old", "new"],
                },
                "description": "exchanges of texts, one after the other",
            },
            "tool": _MAYBE,
            "session": _MAYBE,
            "command": {**_MAYBE, "pattern": r"\S", "description": "what a shell is about to run"},
            "cwd": {**_MAYBE, "description": "the folder that it runs in"},
        },
        required=("agent",),
        rules=(
            exactly_one("path", "paths", "command"),
            not_both("paths", "lines"),
            *(not_both("command", other) for other in ("lines", "content", "edits")),
        ),
    ),
    RoomRoute(
        "POST",
        "/api/guard/write",
        "May these files be committed, merged or pushed now?",
        body={
            "agent": {**_NAME, "maxLength": 64},
            "session": _MAYBE,
            "paths": {"type": "array", "items": _TEXT},
            "act": {"enum": ["commit", "merge", "push"]},
            "override": _MAYBE,
        },
        required=("paths", "act"),
    ),
    RoomRoute(
        "POST",
        "/api/inbox/take",
        "What the running turn of this session is told now, for a hook of its program.",
        body={"agent": _TEXT, "session": _TEXT},
        required=("agent", "session"),
    ),
    RoomRoute(
        "POST",
        "/api/inbox/heard",
        "The program has been told these messages, after this tool.",
        body={"agent": _TEXT, "session": _TEXT, "messages": _TEXTS, "after": _MAYBE},
        required=("agent", "session", "messages"),
    ),
    RoomRoute("GET", "/api/locks", "The locks that hold, who waits for them, and the sessions that live."),
    RoomRoute(
        "POST",
        "/api/locks/release",
        "Take a lock from its holder, with a message in the room.",
        body={"path": _SAYING, "reason": _SAYING, **_WHO},
        required=("path", "reason"),
    ),
    RoomRoute("GET", "/api/permissions", "What agents ask people for."),
    RoomRoute(
        "POST",
        "/api/permissions/{request}",
        "Answer one.",
        body={"option": _SAYING, **_WHO},
        required=("option",),
    ),
    RoomRoute(
        "GET", "/api/usage", "What the agents' turns used since midnight, and by hour of the last day."
    ),
    RoomRoute("GET", "/api/needs", "What needs a person now, the newest first.", lists=True),
    RoomRoute(
        "GET",
        "/api/since",
        "What came behind a message, for a reader, in short.",
        {
            "after": {"type": "string", "pattern": "^m?[0-9]{1,9}$"},
            "name": {"type": "string"},
            "worded": {"type": "string", "enum": ["true", "false"]},
        },
        needed=("after",),
    ),
    RoomRoute(
        "POST",
        "/api/needs/{need}",
        "Do one of the things that can be done about it.",
        body={"action": _SAYING, "text": _SAYING, **_WHO},
        required=("action",),
    ),
    RoomRoute(
        "GET",
        "/api/review/{agent}",
        "What a branch changes, and what was said of it.",
        {"name": _TEXT, "path": _TEXT},
    ),
    RoomRoute(
        "POST",
        "/api/review/{agent}/reviewed",
        "Mark files as reviewed, until they change.",
        body={"paths": {**_TEXTS, "items": _SAYING}, "undo": _FLAG, **_WHO},
        required=("paths",),
    ),
    RoomRoute(
        "POST",
        "/api/review/{agent}/comments",
        "Tell the agent what is said of its lines, as one message.",
        body={"comments": {"type": "array", "items": {"type": "object"}}, **_WHO},
        required=("comments",),
    ),
    RoomRoute(
        "POST",
        "/api/review/{agent}/apply",
        "Commit what a comment suggests onto the branch, or take that back.",
        body={"comment": _SAYING, "undo": _FLAG, **_WHO},
        required=("comment",),
    ),
    RoomRoute("GET", "/api/airspace", "How close agents are.", {"files": {"enum": ["all", "touched"]}}),
    RoomRoute("GET", "/api/airspace/history", "How close they were.", {"from": _TIME, "to": _TIME}),
    RoomRoute("GET", "/api/airspace/advisories", "The newest advisories.", {"limit": _limit(1000)}),
    RoomRoute(
        "POST",
        "/api/airspace/advisories/{advisory}/mark",
        "Was an advisory useful?",
        body={"mark": {"enum": ["useful", "noise", None]}, **_WHO},
        required=("mark",),
    ),
    RoomRoute(
        "POST",
        "/api/airspace/intent",
        "Say which files an agent will touch.",
        body={"agent": _SAYING, "paths": {**_TEXTS, "items": _SAYING}, "own": _FLAG, **_WHO},
        required=("agent", "paths"),
    ),
    RoomRoute(
        "POST",
        "/api/airspace/decide",
        "Decide where agents conflict: who goes first, who stops, who merges the main branch.",
        body={"action": {"enum": ["first", "stop", "update"]}, "agent": _SAYING, **_WHO},
        required=("action", "agent"),
    ),
    RoomRoute("GET", "/api/worktrees", "The worktrees; `stands`: is one `ready` to land, or why not."),
    RoomRoute("GET", "/api/worktrees/{agent}/diff", "What one holds.", {"path": _TEXT}),
    RoomRoute(
        "GET",
        "/api/worktrees/{agent}/merge",
        "What a merge of it would commit: message, author, committer.",
        {"method": {"enum": ["merge", "squash"]}, "name": _TEXT},
    ),
    RoomRoute(
        "POST",
        "/api/worktrees/{agent}/merge",
        "Merge one.",
        body={
            "method": {"enum": ["merge", "squash", None]},
            "message": _MAYBE,
            "head": _MAYBE,
            **dict.fromkeys(("untested", "anyway"), _FLAG),
            **{"joined": _MAYBE, **_WHO},
        },
    ),
    RoomRoute("POST", "/api/worktrees/{agent}/discard", "Discard its work; git keeps it.", body=_WHO),
    RoomRoute(
        "POST",
        "/api/worktrees/{agent}/restore",
        "Bring discarded work back.",
        body={"kept": _MAYBE, **_WHO},
    ),
    RoomRoute(
        "POST",
        "/api/worktrees/{agent}/abort",
        "Give up a merge of the main branch into its own.",
        body={"settle": _FLAG, **_WHO},
    ),
    RoomRoute("POST", "/api/worktrees/{agent}/remove", "Remove one.", body=_WHO),
    RoomRoute("GET", "/api/worktrees/{agent}/app", "What runs in one, and what it printed."),
    RoomRoute("POST", "/api/worktrees/{agent}/run", "Start the app of its branch.", body=_WHO),
    RoomRoute("POST", "/api/worktrees/{agent}/stop", "End the app of its branch.", body=_WHO),
    RoomRoute("POST", "/api/worktrees/{agent}/setup", "Set it up again.", body=_WHO),
)
