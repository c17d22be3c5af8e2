"""The scopes that an API key needs on the routes that are no operations: those of the page, made for people.

Invariants: a route that is not named here needs `admin`. The room's token and the page's cookie are a person's, and
may do everything. No key makes a sign-in link, whatever its scopes: the page's session would know neither the key's
name nor its end. An operation's own scope is checked where it runs (`relay.faces.operations.operation.need`).
"""

from __future__ import annotations

from relay.config.command_line import command
from relay.faces.http.requests.auth import Credential, CredentialKind
from relay.faces.operations.registry import OPERATIONS
from relay.model import ADMIN, Fault, Refusal

_OWN_CHECK = frozenset(endpoint for operation in OPERATIONS.values() for endpoint in operation.endpoints)
#: Routes that are open to any good key: also the guard and the inbox of a running turn, which a key asks for its own
#: agent, and MCP, where each call is an operation that checks its own scope.
_FREE = frozenset(
    {("POST", "/api/sign-out"), ("POST", "/api/guard"), ("POST", "/api/guard/write"), ("POST", "/mcp")}
    | {("POST", "/api/inbox/take"), ("POST", "/api/inbox/heard")}
    | {("GET", path) for path in ("/openapi.json", "/reference", "/reference.css")}
)
#: Routes that write, and their scopes.
_SCOPES = {
    ("POST", "/api/messages"): "room",
    ("POST", "/api/airspace/intent"): "locks",
    ("POST", "/api/timeline/rewind"): "work",
}
#: Routes of a person's acts, which the room shows as messages of that person: the scope, and what an agent uses
#: instead.
_PERSONS = {
    ("POST", "/api/tasks"): ("work", "POST /work/submit"),
    ("PATCH", "/api/tasks/{number}"): ("work", "POST /work/claim and /work/complete"),
    ("POST", "/api/tasks/undo"): ("work", "POST /work/release"),
    ("POST", "/api/timeline/undo"): ("work", "POST /api/timeline/rewind for your own work"),
    ("POST", "/api/timeline/redo"): ("work", "POST /api/timeline/rewind for your own work"),
    ("POST", "/api/timeline/jump"): ("work", "GET /api/timeline/tree and /file to look"),
    ("POST", "/api/timeline/jump/remove"): ("work", "GET /api/timeline/tree and /file to look"),
    ("POST", "/api/timeline/checkpoint"): ("work", "GET /api/timeline/checkpoints to look"),
    ("POST", "/api/airspace/advisories/{advisory}/mark"): ("room", "POST /room/messages"),
}


#: Routes that are closed to keys.
_CLOSED = frozenset({("POST", "/api/links")})


def check(credential: Credential, method: str, path: str) -> None:
    """May this credential ask for `method` of `path` (as the table of routes has it)? Raises Refusal."""
    if credential.kind is not CredentialKind.KEY:
        return
    asked = ("GET" if method == "HEAD" else method, path)
    if asked in _OWN_CHECK or asked in _FREE or path == "-":
        return
    if asked in _CLOSED:
        raise Refusal(
            f"A sign-in link opens the page to any person, and this key is {credential.identity}'s.",
            f"Run {command('link')} on the room's machine, or ask with the room's token.",
            Fault.FORBIDDEN,
            "scope",
        )
    persons = _PERSONS.get(asked)
    if persons is not None and not credential.person:
        raise Refusal(
            f"Only a person can do this, and this key is the agent {credential.identity}'s.",
            f"Use {persons[1]}.",
            Fault.FORBIDDEN,
            "scope",
        )
    scope = persons[0] if persons else _SCOPES.get(asked, "read" if asked[0] == "GET" else ADMIN)
    if not credential.allows(scope):
        typed = command(f"keys create {credential.identity} --scopes {scope},...")
        fix = (
            "A person can do this, with the room's token or in the page."
            if scope == ADMIN
            else f"Ask for a key with that scope: {typed}"
        )
        message = f"{credential.identity}'s key does not allow this: it lacks the scope {scope!r}."
        raise Refusal(message, fix, Fault.FORBIDDEN, "scope", details={"scope": scope})
