"""What the operations ask of the wings, as Protocols: floor 4 fills them in (`relay/app/wiring/services.py`).

Invariant: every method takes the caller first and gives the answer as docs/coordination.md shows it; what was not
done is a `relay.model.Refusal` or, for a lock that is held, an answer with `success: false`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from relay.model import Caller

Json = dict[str, Any]


class LocksApi(Protocol):
    async def acquire(
        self,
        caller: Caller,
        paths: Sequence[str],
        *,
        mode: str = "exclusive",
        ttl_s: float = 1800.0,
        reason: str | None = None,
        wait_s: float = 0.0,
        idempotency_key: str | None = None,
        on_wait: Callable[[str], None] | None = None,
    ) -> Json:
        """`on_wait` is told, in a sentence, where in line the caller stands and behind whom, each time it changes."""
        ...

    async def release(self, caller: Caller, path: str, *, fencing_token: int | None = None) -> Json: ...

    async def renew(self, caller: Caller, path: str, *, ttl_s: float | None = None) -> Json: ...

    async def check(
        self,
        caller: Caller,
        paths: Sequence[str] | None = None,
        *,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> list[Json]: ...

    async def status(self, caller: Caller, path: str) -> Json:
        """`{file_path, locked, locks: [LOCK], waiting: [...]}`."""
        ...

    async def explain(self, caller: Caller, path: str) -> Json: ...

    async def force_release(self, caller: Caller, path: str, *, reason: str) -> Json: ...


class WorkApi(Protocol):
    async def submit(
        self,
        caller: Caller,
        task_type: str,
        task_description: str,
        *,
        input_data: Any = None,
        priority: int = 5,
        depends_on: Sequence[str] = (),
        on_failed: str = "block",
        files: Sequence[str] = (),
        max_attempts: int | None = None,
        task_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> Json: ...

    async def get(
        self,
        caller: Caller,
        task_types: Sequence[str] | None = None,
        *,
        task_id: str | None = None,
        lease_s: float | None = None,
        wait_s: float = 0.0,
        on_wait: Callable[[str], None] | None = None,
    ) -> Json: ...

    async def complete(
        self,
        caller: Caller,
        task_id: str,
        success: bool,
        *,
        result: Any = None,
        error_message: str | None = None,
        fencing_token: int | None = None,
    ) -> Json: ...

    async def release(self, caller: Caller, task_id: str, *, reason: str | None = None) -> Json: ...

    async def renew(self, caller: Caller, task_id: str, *, lease_s: float | None = None) -> Json: ...

    async def explain(self, caller: Caller, task_id: str) -> Json: ...

    async def set_needs(self, caller: Caller, task_id: str, depends_on: Sequence[str]) -> Json: ...

    async def reopen(self, caller: Caller, task_id: str, *, reason: str | None = None) -> Json:
        """A person's: a new attempt of a finished task."""
        ...

    async def pending(self, caller: Caller, *, limit: int = 100) -> list[Json]:
        """Claimable now, in the order in which they would be given; each as `get` tells it, without a claim."""
        ...

    async def list(
        self,
        caller: Caller,
        *,
        status: str | None = None,
        task_type: str | None = None,
        assignee: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Json:
        """`{tasks, next}`: those on the board that are such, by number."""
        ...

    async def task(self, caller: Caller, task_id: str) -> Json: ...


class SessionsApi(Protocol):
    async def touch(self, caller: Caller) -> None:
        """The heartbeat of a call that writes nothing else."""
        ...

    async def end(self, caller: Caller, *, reason: str = "ended", by: str | None = None) -> Json:
        """`by`: the name of who ends it in the caller's place; None: it does itself."""
        ...

    async def list(
        self, caller: Caller, *, all: bool = False, limit: int | None = None, cursor: str | None = None
    ) -> Sequence[Json]:
        """SESSION = `{session_id, agent_id, agent_type, kind, alive, started_at, heartbeat_at, lease_until, ended_at,
        locks, claims}`: the living, or all, latest first."""
        ...


class MemoryApi(Protocol):
    async def remember(
        self,
        caller: Caller,
        event_type: str,
        summary: str,
        *,
        details: Any = None,
        outcome: str | None = None,
        lessons: Sequence[str] = (),
        tags: Sequence[str] = (),
        idempotency_key: str | None = None,
    ) -> Json: ...

    async def recall(
        self, caller: Caller, task_description: str, *, tags: Sequence[str] = (), limit: int = 10
    ) -> list[Json]: ...


class ChangesetsApi(Protocol):
    async def record(
        self,
        caller: Caller,
        summary: str,
        files: Sequence[str],
        *,
        base: str | None = None,
        head: str | None = None,
        fencing_token: int | None = None,
    ) -> Json: ...

    async def list(
        self, caller: Caller, *, session: str | None = None, agent: str | None = None, limit: int = 100
    ) -> Sequence[Json]:
        """The room's, whoever asks, latest first; only of that session, of that agent, or of both."""
        ...


class IntentsApi(Protocol):
    async def declare(self, caller: Caller, paths: Sequence[str]) -> Json:
        """`{success: true, paths}`: replaces what this session declared; no paths = nothing."""
        ...


class RoomDoor(Protocol):
    async def post(
        self, caller: Caller, body: str, *, in_reply_to: str | None = None, client_id: str | None = None
    ) -> Json:
        """`{success: true, id, number, cursor}`."""
        ...

    async def read(
        self, caller: Caller, *, cursor: str | None = None, limit: int = 50, to_me: bool = False
    ) -> Json:
        """`{entries: [ENTRY], next, more}`; no cursor = the newest."""
        ...

    async def who(self, caller: Caller) -> Json:
        """`{you: {...}, agents: [...], sessions: [SESSION]}`."""
        ...

    async def airspace(self, caller: Caller) -> Json:
        """The standing advisories and who is near whom, as far as the database says."""
        ...


@dataclass(frozen=True, slots=True)
class Services:
    """Everything that an operation can ask for."""

    locks: LocksApi
    work: WorkApi
    sessions: SessionsApi
    memory: MemoryApi
    changesets: ChangesetsApi
    intents: IntentsApi
    room: RoomDoor
    more: Mapping[str, Any]
