"""A request that was not done, and who asks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from relay.model.names import SCOPES


class Refusal(Exception):
    """A request that the domain refuses: nothing was changed. `fix` says what would make it succeed."""

    def __init__(self, reason: str, fix: str = "") -> None:
        super().__init__(f"{reason} {fix}".strip())
        self.reason = reason
        self.fix = fix


class Fault(StrEnum):
    """What kind of answer a request that was not done gets; each door has its own form for each."""

    #: The domain says no (a lock is held, the task is not yours): an answer, `{success: false, reason, ...}`.
    REFUSED = "refused"
    #: The request itself is wrong: a missing field, a bad id, a path outside of the root.
    MALFORMED = "malformed"
    #: An id or a path that is none of this room's.
    UNKNOWN = "unknown"
    #: The caller may not: another's identity, or a scope that its key lacks.
    FORBIDDEN = "forbidden"
    #: Not just now: the store is locked or away, or a limit is reached.
    BUSY = "busy"
    #: Not until a person mends something: the store cannot be read, is another relay's, or its disk is full.
    UNAVAILABLE = "unavailable"


class Rejected(Refusal):
    """An operation that was not done, and changed nothing.

    `code` is for programs (`stale_token`), `message` one sentence for people, `fix` what would make it succeed;
    `details` are further fields of the answer (JSON values).
    """

    def __init__(
        self, fault: Fault, code: str, message: str, fix: str = "", details: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message, fix)
        self.fault = fault
        self.code = code
        self.message = message
        self.details = dict(details or {})

    def as_json(self) -> dict[str, Any]:
        """The answer, the same on every door."""
        error = {"code": self.code, "message": self.message, "fix": self.fix}
        return {"success": False, "reason": self.code, "message": self.message, "fix": self.fix} | (
            self.details | {"error": error}
        )


#: What a session's id may be: it stands in lanes ("session/lane"), headers and the environment.
SESSION_ID = re.compile(r"[A-Za-z0-9._:@+~-]{1,128}")


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks for an operation: an agent (or a person) in one session.

    The pair of `agent` and `session` is the holder of locks and claims (INTERFACES, "MCP and sessions").
    `process`: the session is this process's own and ends with it; else it was given (RELAY_SESSION_ID, a header, a
    key's default) and ends by its lease. `person`: may overrule agents. `scopes`: what its key allows; `key`: the
    public id of the API key that it came with, None = it came with none.
    """

    agent: str
    session: str
    agent_type: str = "agent"
    process: bool = False
    person: bool = False
    scopes: frozenset[str] = SCOPES
    key: str | None = None

    def __post_init__(self) -> None:
        if not SESSION_ID.fullmatch(self.session):
            raise Rejected(
                Fault.MALFORMED,
                "bad_session",
                f"{self.session[:60]!r} is not a session id.",
                "It has 1 to 128 letters, digits and . _ : @ + ~ -",
            )
