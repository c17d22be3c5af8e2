"""The operations on locks (docs/coordination.md, "Locks"; 004, "File Locking").

Invariant: names and shapes are the document's. The locks, not this file, say what a path means.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from relay.coordination.locks.lock import MAX_REASON, MAX_TTL_S, MAX_WAIT_S
from relay.coordination.paths.targets import MAX_BYTES, MAX_TARGETS
from relay.faces.operations.operation import HEARD, Answer, Name, Request, Shown, Text, Token, need, operation
from relay.faces.services import Services
from relay.model import ADMIN, Caller
from relay.model.actions import ForceRelease
from relay.model.pages import MOST_PAGE, PAGE

Json = dict[str, Any]
Mode = Literal["exclusive", "shared"]
#: From one second, as people write it, to the longest lease. The schema says it; the locks refuse it, in their words.
_BOUNDS: dict[str, Any] = {"minimum": 0.0166, "maximum": MAX_TTL_S / 60}
Minutes = Annotated[float, Field(gt=0, json_schema_extra=_BOUNDS)]
Reason = Annotated[Text, Field(max_length=MAX_REASON)]
#: The locks say what it means, and count its bytes too.
Path = Annotated[Name, Field(max_length=MAX_BYTES)]
Paths = Annotated[list[Path], Field(max_length=MAX_TARGETS)]
Cursor = Annotated[Name, Field(max_length=300)]
_PATH = "path, pattern or key"
#: For models, which read this and nothing else before they lock.
_WHAT = (
    "relative to the repository's root: a file, a folder (with all below), "
    "a pattern (src/**/*.py) or a name (api:GET /v1/users)"
)


class AcquireLock(Request):
    file_path: Path | None = Field(None, description=_WHAT)
    file_paths: Annotated[Paths, Field(min_length=1)] | None = Field(None, description="several: all or none")
    reason: Reason | None = Field(None, description="what for: who is blocked reads it")
    ttl_minutes: Minutes = Field(30, description="1 s to 8 h")
    mode: Mode = Field("exclusive", description="shared: to read beside others")
    wait_seconds: float = Field(0, ge=0, le=MAX_WAIT_S, description="wait in line so long")
    idempotency_key: Annotated[Name, Field(max_length=200)] | None = None

    exactly_one = ("file_path", "file_paths")

    @property
    def paths(self) -> list[str]:
        return [self.file_path] if self.file_path is not None else list(self.file_paths or ())


class Lock(Shown):
    """A lock that holds."""

    file_path: str
    locked_by: str
    expires_at: str
    session: str | None = None
    mode: Mode = "exclusive"
    fencing_token: int | None = None
    reason: str | None = None
    acquired_at: str | None = None
    kind: str | None = None


class AcquireAnswer(Answer):
    action: Literal["acquired", "refreshed", "blocked"] | None = None
    expires_at: str | None = None
    fencing_token: int | None = None
    locked_by: str | None = None


class ReleaseLock(Request):
    file_path: Path = Field(description=_PATH)
    fencing_token: Token | None = Field(None, description="only if it is that lease")


class ReleaseAnswer(Answer):
    released: bool | None = None


class CheckLocks(Request):
    file_paths: Paths | None = Field(None, description="only locks that overlap these")
    limit: int = Field(PAGE, ge=1, le=MOST_PAGE)
    cursor: Cursor | None = Field(None, description="next of the previous answer")


class Renew(Request):
    kind: Literal["lock", "claim"]
    id: Name = Field(description="path, or task_id")
    ttl_minutes: Minutes | None = None


class RenewAnswer(Answer):
    expires_at: str | None = None
    fencing_token: int | None = None


class ThisLock(Request):
    """One path, by its own name or as the tools `renew` and `explain` ask for it."""

    file_path: Path | None = Field(None, description=_PATH)
    kind: Literal["lock"] | None = Field(None, description="as the tool says it")
    id: Name | None = Field(None, description="the same as file_path")

    exactly_one = ("file_path", "id")

    @property
    def path(self) -> str:
        return self.file_path or self.id or ""


class RenewLock(ThisLock):
    ttl_minutes: Minutes | None = Field(None, description="1 s to 8 h; as at first")


class Explain(Request):
    kind: Literal["lock", "work", "task", "claim"]
    id: Name = Field(description="path, or task_id")


class ExplainAnswer(Shown):
    success: bool | None = None


class ForceReleaseRequest(Request):
    model_config = ConfigDict(title="ForceRelease")

    file_path: Path = Field(description=_PATH)
    reason: Reason = Field(description="what its holder is told")


class StatusPath(Request):
    path: Path = Field(description=_PATH)


class LockStatus(Shown):
    file_path: str
    locked: bool
    locks: list[Lock]
    waiting: list[Json]


def _seconds(minutes: float) -> float:
    """To the hundredth: a second is 1/60 of a minute, and people write 0.0166."""
    return round(minutes * 60, 2)


@operation("POST", "/locks/acquire", AcquireAnswer, scope="locks", tool=True, beats=True, tag="locks")
async def acquire_lock(services: Services, caller: Caller, request: AcquireLock) -> Json:
    """Lock files before you edit them; again = refresh.

    blocked: nothing was locked; locked_by has it until expires_at. Do other work, or ask again with
    wait_seconds to stand in line (deadlock: release what you hold first). acquired: edit, renew before
    expires_at, release_lock when done; fencing_token proves the lease.
    """
    return await services.locks.acquire(
        caller,
        request.paths,
        mode=request.mode,
        ttl_s=_seconds(request.ttl_minutes),
        reason=request.reason,
        wait_s=request.wait_seconds,
        idempotency_key=request.idempotency_key,
        on_wait=HEARD.get(),
    )


@operation("POST", "/locks/release", ReleaseAnswer, scope="locks", tool=True, beats=True, tag="locks")
async def release_lock(services: Services, caller: Caller, request: ReleaseLock) -> Json:
    """Give a lock back as soon as your edits are done.

    not_held, not_yours: nothing was released. stale_token: your lease was over before; look at the file anew
    before you write.
    """
    return await services.locks.release(caller, request.file_path, fencing_token=request.fencing_token)


@operation(
    "POST",
    "/locks/check",
    Lock,
    scope="read",
    aliases=(("GET", "/locks"),),
    tool=True,
    result_list=True,
    read_only=True,
    beats=True,
    tag="locks",
)
async def check_locks(services: Services, caller: Caller, request: CheckLocks) -> list[Json]:
    """See who holds which locks, before you plan.

    Each has file_path, locked_by, expires_at, mode; an empty list: all is free. It takes nothing:
    acquire_lock does. What is near your locks comes first; next: there are more.
    """
    return await services.locks.check(caller, request.file_paths, limit=request.limit, cursor=request.cursor)


@operation("POST", "/renew", RenewAnswer, scope="", tool=True, beats=True)
async def renew(services: Services, caller: Caller, request: Renew) -> Json:
    """Keep a lock or a claimed task for longer, before its expires_at or lease_until.

    stale_token: it was over; get it again and look at what changed. files_held: others hold these files of
    the task by now.
    """
    seconds = None if request.ttl_minutes is None else _seconds(request.ttl_minutes)
    if request.kind == "lock":
        need(caller, "locks")
        return await services.locks.renew(caller, request.id, ttl_s=seconds)
    need(caller, "work")
    return await services.work.renew(caller, request.id, lease_s=seconds)


@operation("POST", "/explain", ExplainAnswer, scope="read", tool=True, read_only=True, beats=True)
async def explain(services: Services, caller: Caller, request: Explain) -> Json:
    """Ask why a path is blocked, or a task cannot be claimed; it changes nothing.

    lock: free, yours, why, locks, waiting, and your position. work: claimable, and every reason against it.
    """
    if request.kind == "lock":
        return await services.locks.explain(caller, request.id)
    return await services.work.explain(caller, request.id)


@operation("POST", "/locks/renew", RenewAnswer, scope="locks", beats=True, tag="locks")
async def renew_lock(services: Services, caller: Caller, request: RenewLock) -> Json:
    """Keep a lock for longer."""
    seconds = None if request.ttl_minutes is None else _seconds(request.ttl_minutes)
    return await services.locks.renew(caller, request.path, ttl_s=seconds)


@operation("POST", "/locks/explain", ExplainAnswer, scope="read", read_only=True, beats=True, tag="locks")
async def explain_lock(services: Services, caller: Caller, request: ThisLock) -> Json:
    """Who holds what overlaps a path, who waits, and where you are in line."""
    return await services.locks.explain(caller, request.path)


@operation(
    "GET",
    "/locks/status/{path}",
    LockStatus,
    scope="read",
    aliases=(("GET", "/locks/status"),),
    read_only=True,
    beats=True,
    tag="locks",
)
async def lock_status(services: Services, caller: Caller, request: StatusPath) -> Json:
    """Whether a path is locked, by whom, and who waits."""
    return await services.locks.status(caller, request.path)


@operation("POST", "/locks/force-release", Answer, scope=ADMIN, beats=True, tag="locks")
async def force_release_lock(services: Services, caller: Caller, request: ForceReleaseRequest) -> Json:
    """Take a lock from its holder, who is told why in the room; only a person can."""
    return await services.locks.force_release(caller, ForceRelease(request.file_path, request.reason))
