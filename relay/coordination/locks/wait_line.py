"""The line of sessions that wait for locks: which one comes first, and which wait would never end.

Invariants:
- the line is fair: a session does not pass an earlier one that waits for something that meets its own request;
- a session that others wait for is let through: if an earlier one waits for me, directly or through others, it does
  not block me, since it cannot go on before I do. So the line itself never makes a cycle;
- a wait that would close a cycle of holders is refused when it begins; only the newcomer is refused;
- a process that died leaves the line: a wait that was not seen for `STALE_S` counts as gone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from relay.coordination.locks.lock import Blocked, Lock, LockRequest, Wait
from relay.coordination.locks.table import STALE_S, Q, meeting
from relay.coordination.paths.targets import Target
from relay.log.encoding import dumps, loads
from relay.model import Caller, Json
from relay.store.ports import Row, StoreError, Tx

#: Seconds between two times that a living wait says so: thrice, before it is given up.
SEEN_EVERY_S = 1.5
#: The place of a session that does not wait: behind all.
_LAST = 1 << 62

Holder = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Obstacle:
    """A target that a session waits for, and the lock that is in its way."""

    target: Target
    lock: Lock


def conflict(a: Wait, b: Wait) -> bool:
    """Do two requests of different sessions exclude each other?"""
    if a.holder == b.holder or (a.mode == b.mode == "shared"):
        return False
    return any(mine.meets(its.kind, its.key) for mine in a.wanted for its in b.wanted)


def compare_ahead(wait: Wait, request: LockRequest) -> None:
    """Compare what a session waits for with a request, so that a later `conflict` of the two is quick. Blocking."""
    for target in request.targets:
        for other in wait.wanted:
            target.meets(other.kind, other.key)


def wait_cycle(me: Wait, needs: Mapping[Holder, Sequence[Obstacle]]) -> tuple[Json, ...]:
    """The shortest circle of sessions that wait for each other's locks, from me on; empty when there is none."""
    came: dict[Holder, tuple[Holder, Obstacle]] = {}
    waiting = deque([me.holder])
    while waiting:
        holder = waiting.popleft()
        for need in needs.get(holder, ()):
            then = need.lock.holder
            if then in came:
                continue
            came[then] = (holder, need)
            if then == me.holder:
                return _steps(me.holder, came)
            waiting.append(then)
    return ()


def _steps(me: Holder, came: Mapping[Holder, tuple[Holder, Obstacle]]) -> tuple[Json, ...]:
    steps: list[Json] = []
    at = me
    while not steps or at != me:
        at, need = came[at]
        steps.append(
            {
                "agent": at[0],
                "session": at[1],
                "waits_for": need.lock.path,
                "held_by": need.lock.agent,
                "held_by_session": need.lock.session,
            }
        )
    return tuple(reversed(steps))


def in_front(me: Wait, waits: Sequence[Wait], needs: Mapping[Holder, Sequence[Obstacle]]) -> list[Wait]:
    """The earlier ones that I may not pass, in order. `waits` are all that live, without me, in order."""
    if not any(wait.id < me.id and conflict(wait, me) for wait in waits):
        return []
    graph = {holder: {need.lock.holder for need in obstacles} for holder, obstacles in needs.items()}
    for later in (*(wait for wait in waits if wait.id < me.id), me):
        passed_not = [
            wait
            for wait in waits
            if wait.id < later.id and conflict(wait, later) and not _reaches(graph, wait.holder, later.holder)
        ]
        if later is me:
            return passed_not
        graph.setdefault(later.holder, set()).update(wait.holder for wait in passed_not)
    return []


def _reaches(graph: Mapping[Holder, set[Holder]], start: Holder, end: Holder) -> bool:
    seen: set[Holder] = set()
    waiting = [start]
    while waiting:
        holder = waiting.pop()
        if holder == end:
            return True
        if holder not in seen:
            seen.add(holder)
            waiting.extend(graph.get(holder, ()))
    return False


def wait_of_row(row: Row) -> Wait:
    wanted = tuple(Target(**target) for target in loads(row["wanted"]))
    return Wait(
        row["id"], row["agent_id"], row["session_id"], wanted, row["mode"], row["since"], row["until"]
    )


async def line(tx: Tx) -> list[Wait]:
    """The sessions that wait now, in order."""
    now = await tx.now()
    return [wait_of_row(row) for row in await tx.all(Q.waits, now=now, seen=now - STALE_S)]


async def obstacle(
    tx: Tx, caller: Caller, request: LockRequest, place: int | None, *, waits_on: bool = False
) -> Blocked | None:
    """What keeps this request from being granted now; None: nothing.

    `place`: the caller's own in line, None = it has none. `waits_on`: it stands in line, or wants to, so a circle
    is looked for.
    """
    held: list[Obstacle] = []
    for target in request.targets:
        met = await meeting(tx, target, mode=request.mode, besides=caller.holder, compared=request.compared)
        held += [Obstacle(target, lock) for lock in met]
    standing = [wait for wait in await line(tx) if wait.id != place]
    now = await tx.now()
    place_or_last = _LAST if place is None else place
    me = Wait(place_or_last, *caller.holder, request.targets, request.mode, now, now)
    if not held and not any(conflict(wait, me) for wait in standing):
        return None
    needs = await _needs(tx, me, held, standing) if standing else {me.holder: held}
    cycle = wait_cycle(me, needs) if waits_on and held else ()
    front = in_front(me, standing, needs)
    reason: Literal["deadlock", "locked"] = "deadlock" if cycle else "locked"
    # A caller that does not wait, or may not, has no place.
    position = len(front) + 1 if (waits_on or place is not None) and not cycle else None
    if held:
        first = held[0]
        return Blocked(first.target, first.lock, now, reason, position, cycle, caller.agent)
    if front:
        contested = next(target for target in request.targets if wanting(front[:1], target))
        return Blocked(contested, front[0], now, "queued", position, reader=caller.agent)
    return None


async def _needs(
    tx: Tx, me: Wait, held: Sequence[Obstacle], standing: Sequence[Wait]
) -> dict[Holder, list[Obstacle]]:
    """For each session that waits, and for me: the locks that are in its way."""
    needs: dict[Holder, list[Obstacle]] = {me.holder: list(held)}
    for wait in standing:
        obstacles = needs.setdefault(wait.holder, [])
        for target in wait.wanted:
            locks = await meeting(tx, target, mode=wait.mode, besides=wait.holder)
            obstacles += [Obstacle(target, lock) for lock in locks]
    return needs


async def stand(tx: Tx, caller: Caller, request: LockRequest, until: float) -> int:
    """Go to the end of the line, until that time (Unix seconds); the place."""
    wanted = dumps([asdict(target) for target in request.targets])
    standing = {"wanted": wanted, "mode": request.mode, "now": await tx.now(), "until": until}
    row = await tx.one(Q.put_wait, **caller.ids, **standing)
    if row is None:
        raise StoreError("the database did not say where the wait was put")
    place: int = row["id"]
    return place


async def still(tx: Tx, place: int) -> bool:
    """Say that the wait at this place lives; False: it was given up meanwhile, and its place is lost."""
    now = await tx.now()
    return bool(await tx.execute(Q.see_wait, id=place, now=now, seen=now - STALE_S))


async def leave(tx: Tx, place: int) -> None:
    await tx.execute(Q.forget_wait, id=place)


def wanting(waits: Sequence[Wait], target: Target) -> list[Wait]:
    """Those that wait for what meets the target, in order."""
    return [wait for wait in waits if any(target.meets(wanted.kind, wanted.key) for wanted in wait.wanted)]
