"""The endpoints of the registry: each operation at its method and path, for callers with a credential.

Invariant: the caller is decided here, first of all by the credential (docs/coordination.md, "Who asks"). The request
is decided by the operation's declaration; no operation is named in this file.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args
from urllib.parse import unquote_to_bytes

from aiohttp import web

from relay.faces.http.requests.auth import Credential, CredentialKind
from relay.faces.http.requests.errors import answer
from relay.faces.http.requests.middleware import CREDENTIAL
from relay.faces.http.requests.parsing import Body, bad, json_lines, read_bytes, read_values
from relay.faces.http.requests.reader import RequestReader
from relay.faces.operations.operation import Operation, perform
from relay.faces.operations.registry import OPERATIONS
from relay.faces.services import Services
from relay.model import Caller, Fault, Refusal
from relay.model.pages import Page
from relay.model.speaker_names import MAX_AGENT_NAME

#: The header that names a caller's session (INTERFACES, "MCP and sessions").
SESSION_HEADER = "X-Relay-Session"
#: The header with the cursor of the next page of a list that was too long for one answer.
NEXT = "X-Next-Cursor"
#: Fields about the caller that any request may have, beside those of its operation. One that the operation declares
#: itself says nothing of the caller.
WHO = ("agent_id", "agent_type", "session_id", "name")
_MOST_TYPE = 60
_PLACE = re.compile(r"\{(\w+)\}")
_NO_SESSION = re.compile(r"[^A-Za-z0-9._:@+-]")
#: Parameters of a path that may contain slashes.
_WHOLE = {"path": "{path:.+}"}


class OperationRoutes:
    """The handlers. `most`: bytes of a body."""

    def __init__(self, services: Services, reader: RequestReader, most: int | None = None) -> None:
        self._services, self._reader = services, reader
        self._most = reader.limits.body_bytes if most is None else most

    def table(self) -> list[web.RouteDef]:
        """The routes of all operations; fixed paths stand before those with a parameter."""
        ends = [(end, operation) for operation in OPERATIONS.values() for end in operation.endpoints]
        ends.sort(key=lambda route: "{" in route[0][1])
        fixed = [path for (_, path), _ in ends if "{" not in path]
        routes = [
            web.route(method, _route(path, fixed), self._handler(operation))
            for (method, path), operation in ends
        ]
        heads = [
            web.route("HEAD", _route(path, fixed), self._handler(operation))
            for (method, path), operation in ends
            if method == "GET"
        ]
        return routes + heads

    def _handler(self, operation: Operation) -> Callable[[web.Request], Any]:
        async def handle(request: web.Request) -> web.Response:
            values = await self._values(request, operation)
            about = [field for field in WHO if field not in operation.request.model_fields]
            caller = self.caller(request, {field: values.pop(field) for field in about if field in values})
            result = await perform(self._services, caller, operation, values)
            response = answer(result)
            if isinstance(result, Page) and result.next is not None:
                response.headers[NEXT] = result.next
            return response

        return handle

    async def _values(self, request: web.Request, operation: Operation) -> dict[str, Any]:
        """The values of the request: those of its body or its query, and those of its path."""
        fields = operation.request.model_fields
        _check_bytes(request)
        if request.method in ("GET", "HEAD", "DELETE"):
            values = _query(request, operation)
        else:
            if request.query_string:
                raise bad("This needs its fields in the body.", "Send a JSON object, and no query.")
            within_s = self._reader.limits.body_s
            if operation.json_lines:
                values = json_lines(await read_bytes(request, self._most, within_s), operation.json_lines)
            else:
                values = await read_values(
                    request, limit=self._most, within_s=within_s, optional=not _required(operation)
                )
        for name, text in request.match_info.items():
            if name in fields:
                if values.get(name, text) != text:
                    raise bad(f"{name} is given in the path and in the query.", "Give it in one of them.")
                values[name] = text
        return values

    def caller(self, request: web.Request, values: Mapping[str, Any]) -> Caller:
        """The caller. Raises Refusal."""
        credential = request[CREDENTIAL]
        body = Body(values)
        claims = {field: body.maybe_text(field) for field in ("agent_id", "name")}
        agent = self._reader.claimed(request, claims, most=MAX_AGENT_NAME)
        kind = body.maybe_text("agent_type")
        if kind is not None and not 0 < len(kind) <= _MOST_TYPE:
            raise bad(f"agent_type has 1 to {_MOST_TYPE} characters.", "Like claude_code, codex, person.")
        session = session_of(request, body.maybe_text("session_id"))
        return caller_of(
            credential, agent, session=session, agent_type=kind, claimed=bool(claims["agent_id"])
        )


def _route(path: str, fixed: Sequence[str]) -> str:
    """A path with its parameters as aiohttp reads them. A fixed path is no value of a parameter; otherwise it would
    have the methods of both routes."""

    def place(match: re.Match[str]) -> str:
        if match[1] in _WHOLE:
            return _WHOLE[match[1]]
        before = path[: match.start()]
        taken = [part.removeprefix(before) for part in fixed if part.startswith(before)]
        taken = [re.escape(part) for part in taken if part and "/" not in part]
        return f"{{{match[1]}:(?!(?:{'|'.join(taken)})$)[^/]+}}" if taken else match[0]

    return _PLACE.sub(place, path)


def caller_of(
    credential: Credential,
    agent: str,
    *,
    session: str | None = None,
    agent_type: str | None = None,
    claimed: bool = False,
) -> Caller:
    """The caller of a good credential that speaks as `agent`. `claimed`: by an `agent_id` of its own, as agents do.

    Raises Refusal when `session` is no id.
    """
    if credential.kind is CredentialKind.KEY:
        default, kind = f"key-{credential.key}", credential.agent_type
    else:
        default, kind = _person_session(agent), "agent" if claimed else "person"
    return Caller(
        agent,
        default if session is None else session,
        agent_type or kind,
        person=credential.person,
        scopes=credential.scopes,
        key=credential.key if credential.kind is CredentialKind.KEY else None,
    )


def session_of(request: web.Request, said: str | None = None) -> str | None:
    """The session that a request names in its header, or (`said`) in its body or query. Raises Refusal when it names
    two, since a lock of one session is not held by the other."""
    named = [(SESSION_HEADER, value) for value in request.headers.getall(SESSION_HEADER, [])]
    named += [] if said is None else [("session_id", said)]
    for where, session in named[1:]:
        if session != named[0][1]:
            raise sessions_differ(named[0], (where, session))
    return named[0][1] if named else None


def sessions_differ(first: tuple[str, str], other: tuple[str, str]) -> Refusal:
    """The refusal of a request that names two sessions, each by (where, which)."""
    message = f"{first[0]} says session {first[1][:128]!r}, and {other[0]} says {other[1][:128]!r}."
    sessions = [{"by": where, "session": session[:128]} for where, session in (first, other)]
    return Refusal(
        message,
        "Name one session, or leave one of the two out.",
        Fault.MALFORMED,
        "sessions_differ",
        details={"sessions": sessions},
    )


def _person_session(name: str) -> str:
    """The session id of a person. A name may have characters that a session id may not have."""
    plain = _NO_SESSION.sub("_", name)
    if plain == name:
        return f"person-{name}"
    return f"person-{plain}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def _required(operation: Operation) -> bool:
    return any(field.is_required() for field in operation.request.model_fields.values())


def _check_bytes(request: web.Request) -> None:
    """Raises Refusal for an address that is not UTF-8: the server would take its escapes for characters. For NUL too,
    which PostgreSQL has in no text."""
    try:
        text = unquote_to_bytes(request.raw_path).decode()
    except UnicodeError:
        raise bad("The address is not UTF-8.", "Escape the bytes of its characters in UTF-8.") from None
    if "\0" in text:
        raise bad("The address has the character NUL.", "Leave it out.")


def _query(request: web.Request, operation: Operation) -> dict[str, Any]:
    """The query's fields, each with the type of its declaration. Raises Refusal."""
    fields = operation.request.model_fields
    values: dict[str, Any] = {}
    for name in dict.fromkeys(request.query):
        texts = request.query.getall(name)
        if name in fields and "list" in str(fields[name].annotation):
            values[name] = texts
        elif len(texts) > 1:
            raise bad(f"{name[:40]} is given {len(texts)} times.", "Say it once.")
        else:
            values[name] = _typed(texts[0], fields[name].annotation) if name in fields else texts[0]
    return values


def _typed(text: str, kind: Any) -> Any:
    """The text of a query as a number or a boolean; the text itself when it is none, which the check refuses."""
    kinds = get_args(kind) or (kind,)
    if bool in kinds and text in ("true", "false"):
        return text == "true"
    if int in kinds and re.fullmatch(r"-?[0-9]{1,18}", text):
        return int(text)
    return text
