"""Why a request was not done, and who asked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from relay.model.names import SCOPES


class Fault(StrEnum):
    """What kind of answer a request that was not done gets; each interface has its own form for each."""

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


#: The code while a relay has no connection to the room's database. Such a refusal is `BUSY`: it passes.
CUT_OFF = "cut_off"
#: The code of a refusal that names none. A refusal by the domain then has words only.
_CODES = {
    Fault.REFUSED: "",
    Fault.MALFORMED: "bad_request",
    Fault.UNKNOWN: "not_found",
    Fault.FORBIDDEN: "forbidden",
    Fault.BUSY: "busy",
    Fault.UNAVAILABLE: "unavailable",
}


class Refusal(Exception):
    """A request that was not done, and changed nothing. The one kind of error that every interface answers with.

    `message` is one sentence for people, `fix` says what would make it succeed. `code` is for programs
    (`stale_token`, "" = words only), `details` are further fields of the answer (JSON values).
    """

    def __init__(
        self,
        message: str,
        fix: str = "",
        fault: Fault = Fault.REFUSED,
        code: str = "",
        *,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(f"{message} {fix}".strip())
        self.message = message
        self.fix = fix
        self.fault = fault
        self.code = code or _CODES[fault]
        self.details = dict(details or {})

    def add(self, sentence: str) -> None:
        """Say one thing more, behind the message."""
        self.message = f"{self.message} {sentence}"
        self.args = (f"{self.message} {self.fix}".strip(),)

    def as_json(self) -> dict[str, Any]:
        """The answer, the same on every interface."""
        if not self.code:
            return {"success": False, "reason": self.message, "fix": self.fix}
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

    @property
    def holder(self) -> tuple[str, str]:
        """The agent and its session, which hold locks and claims."""
        return self.agent, self.session

    @property
    def ids(self) -> dict[str, str]:
        """The same, as statements name them."""
        return {"agent": self.agent, "session": self.session}

    def __post_init__(self) -> None:
        if not SESSION_ID.fullmatch(self.session):
            message = f"{self.session[:60]!r} is not a session id."
            fix = "It has 1 to 128 letters, digits and . _ : @ + ~ -"
            raise Refusal(message, fix, Fault.MALFORMED, "bad_session")
