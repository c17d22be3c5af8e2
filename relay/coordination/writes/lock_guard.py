"""Where a write happens: may this session change these files now?

Invariants:
- a write that meets another session's lock is refused. So is a write that meets the session's own lock whose lease
  ran out (`stale_token`): a holder that was paused learns it before it writes;
- a session that holds a file exclusively is never told by an advisory to steer clear of it: nobody else may write
  there, and of two agents one may always go on;
- a caller that gives a name and no session stands for the one living session of that name, or else for its last one.
  If several live and only some of them may write, the write is refused (`which_session`);
- a check changes nothing; a refusal, and an override of one, is an event.

docs/guard.md has the order of decisions and the interfaces.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from relay.coordination.sessions import Q, lane_of
from relay.coordination.writes.fencing import LockCheck
from relay.log import events
from relay.log.events import Event, NewEvent
from relay.model import LOCKED, STALE, WHICH, Caller, Guard, GuardDecision, Json, Location, LockRefusal
from relay.store.ports import Store, StoreError, Tx

REFUSED = "guard.refused"
OVERRIDDEN = "guard.overridden"
#: The session of a caller that did not name one.
ANY_SESSION = "-"
#: Refusals that an answer or an event lists; a count tells of the rest. As many paths fit a screen.
MOST_TOLD = 20
#: Characters of the reason of an override that are kept.
MOST_WHY = 500


def against(refusals: Sequence[LockRefusal], caller: Caller) -> list[LockRefusal]:
    """Those that count for this caller: a person is one, in however many windows."""
    return [refusal for refusal in refusals if not (caller.person and refusal.locked_by == caller.agent)]


async def _may_be(tx: Tx, caller: Caller) -> tuple[int, list[Caller]]:
    """How many living sessions this may be, and those of them that differ in what they hold: the caller itself when
    it said its session."""
    if caller.person or caller.session != ANY_SESSION:
        return 1, [caller]
    living = await tx.all(Q.living_sessions_of, agent=caller.agent, now=await tx.now())
    if not living:
        last = await tx.one(Q.last_session_of, agent=caller.agent)
        return 0, [caller if last is None else replace(caller, session=last["id"])]
    # One that never asked for a lock may write what every other such one may.
    holding = [row["id"] for row in living if row["locks"]]
    without = [row["id"] for row in living if not row["locks"]][:1]
    return len(living), [replace(caller, session=id) for id in (*holding, *without)]


async def _refused(
    tx: Tx, lock_check: LockCheck, caller: Caller, paths: Sequence[str]
) -> tuple[list[LockRefusal], set[str]]:
    """What stands against this write, another's lock first, and the files that one of the sessions that it may be of
    (`_may_be`) holds exclusively."""
    living, who = await _may_be(tx, caller)
    looks = [await lock_check.look(tx, possible, paths) for possible in who]
    owned = set[str]().union(*(own for _, own in looks))
    by_session = [against(refusals, one) for (refusals, _), one in zip(looks, who, strict=True)]
    if len(who) == 1:
        return ordered(by_session[0]), owned
    by_path = [{refusal.path: refusal for refusal in refusals} for refusals in by_session]
    every = [
        refusal if all(refusal.path in refused for refused in by_path) else _which(refusal, caller, living)
        for path in dict.fromkeys(paths)
        for refusal in [next((refused[path] for refused in by_path if path in refused), None)]
        if refusal is not None
    ]
    return ordered(every), owned


def _which(refusal: LockRefusal, caller: Caller, living: int) -> LockRefusal:
    sentence = (
        f"{caller.agent} has {living} living sessions, and not all of them may write {refusal.path} now. "
        "It is not known which of them this is."
    )
    return LockRefusal(
        WHICH, refusal.path, refusal.lock, caller.agent, ANY_SESSION, None, None, said=sentence
    )


def caller_of(agent: str, session: str | None, *, person: bool = False) -> Caller:
    """The caller that is about to write. Raises Refusal for a bad session id."""
    return Caller(agent, session or ANY_SESSION, agent_type="person" if person else "agent", person=person)


class RefusalLog(Protocol):
    """Notes the edits that were refused by a lock."""

    def refused(self, caller: Caller, refusals: Sequence[LockRefusal]) -> None: ...


class MergedFiles(Protocol):
    """Knows what a merge of the main branch brings into an agent's checkout."""

    async def brought(self, agent: str, path: str) -> bool:
        """Does the file stand there as on the main branch?"""
        ...


class EditClaims(Protocol):
    """Hears of the edits that an agent is about to make."""

    def claimed(self, agent: str, place: Location) -> None: ...

    def ran(self, agent: str, command: str) -> None:
        """A shell of the agent is about to run this."""
        ...


class LockGuard:
    """`relay.model.Guard`: the locks, and then what `then` says."""

    def __init__(
        self,
        store: Store,
        lock_check: LockCheck,
        then: Guard,
        log: RefusalLog | None = None,
        merged: MergedFiles | None = None,
        edits: EditClaims | None = None,
    ) -> None:
        self._store, self._lock_check, self._then = store, lock_check, then
        self._log, self._merged, self._edits = log, merged, edits
        #: What keeps the locks from being read.
        self.troubles = (StoreError, store.transient, store.errors)

    async def decide(self, agent: str, location: Location, session: str | None = None) -> GuardDecision:
        """Another's lock, an own lease that ran out, an own exclusive lock (the edit goes on), an advisory."""
        (decision,) = await self.decide_all(agent, [location], session)
        return decision

    async def decide_all(
        self, agent: str, locations: Sequence[Location], session: str | None = None
    ) -> list[GuardDecision]:
        """As `decide` of each, in their order, with one look at the locks."""
        caller = caller_of(agent, session)
        paths = list(dict.fromkeys(location.path for location in locations if location.writes is not False))
        refused: dict[str, LockRefusal] = {}
        owned: set[str] = set()
        note = ""
        try:
            if paths:
                refused, owned = await self._store.read(lambda tx: self._look(tx, caller, paths))
        except self.troubles as error:
            note = f"The locks could not be read ({error}), so none was checked."
        return [
            await self._decided(caller, location, session, refused, owned, note) for location in locations
        ]

    async def _decided(
        self,
        caller: Caller,
        location: Location,
        session: str | None,
        refused: Mapping[str, LockRefusal],
        owned: Collection[str],
        note: str,
    ) -> GuardDecision:
        agent, path = caller.agent, location.path
        if location.writes is not False and path in refused:
            decision = GuardDecision.of_lock(refused[path])
        elif location.writes is not False and path in owned:
            decision = GuardDecision(reason=f"You hold {path} exclusively.")
        else:
            decision = await self._then.decide(agent, location, session)
            if note and location.writes is not False and not decision.refused:
                decision = replace(decision, reason=note)
        merged = self._merged if decision.refused and location.made else None
        if merged and await merged.brought(agent, path):
            return GuardDecision(reason=f"{path} stands as on the main branch.")
        if decision.lock is not None and self._log is not None:
            self._log.refused(caller, [decision.lock])
        if self._edits is not None and not decision.refused and location.writes is not False:
            self._edits.claimed(agent, location)
        return decision

    async def standing(self, caller: Caller, paths: Sequence[str]) -> list[LockRefusal]:
        """The locks that stand against writing these files, with one look however many they are. Records nothing.
        Raises one of `troubles` when nobody can tell."""
        refusals, _ = await self._store.read(
            lambda tx: _refused(tx, self._lock_check, caller, list(dict.fromkeys(paths)))
        )
        return refusals

    def runs(self, agent: str, command: str) -> None:
        """A command that was asked about may run."""
        if self._edits is not None:
            self._edits.ran(agent, command)

    async def check(self, caller: Caller, paths: Sequence[str], *, act: str, override: str = "") -> Answer:
        """May `caller` make this write? As the function `check`."""
        return await check(self._store, self._lock_check, caller, paths, act=act, override=override)

    async def _look(
        self, tx: Tx, caller: Caller, paths: Sequence[str]
    ) -> tuple[dict[str, LockRefusal], set[str]]:
        """What stands against each of these files, and those that the caller holds exclusively."""
        refusals, owned = await _refused(tx, self._lock_check, caller, paths)
        refused: dict[str, LockRefusal] = {}
        for refusal in refusals:
            refused.setdefault(refusal.path, refusal)
        return refused, owned - refused.keys()


def ordered(refusals: Sequence[LockRefusal]) -> list[LockRefusal]:
    """Another's lock says more than an own lease that ran out: it comes first."""
    return sorted(refusals, key=lambda refusal: refusal.code != LOCKED)


@dataclass(frozen=True, slots=True)
class Answer:
    """May these files be written? `override`: it was let through over what stands against it, for this reason."""

    refusals: tuple[LockRefusal, ...] = ()
    override: str = ""
    overridable: bool = False

    @property
    def decision(self) -> str:
        if not self.refusals:
            return "allow"
        if self.override:
            return "overridden"
        return "stale" if self.refusals[0].code == STALE else "locked"

    def as_json(self) -> Json:
        """As `POST /api/guard/write` answers (docs/guard.md)."""
        return {
            "decision": self.decision,
            "refusals": [refusal.as_json() for refusal in self.refusals[:MOST_TOLD]],
            "more": max(0, len(self.refusals) - MOST_TOLD),
            "overridable": self.overridable,
        }


async def judged(
    tx: Tx, lock_check: LockCheck, caller: Caller, paths: Sequence[str], *, override: str = ""
) -> Answer:
    """Looks, and records nothing. An override is a person's."""
    refusals, _ = await _refused(tx, lock_check, caller, paths)
    return Answer(tuple(refusals), override.strip()[:MOST_WHY] if caller.person else "", caller.person)


async def check(
    store: Store, lock_check: LockCheck, caller: Caller, paths: Sequence[str], *, act: str, override: str = ""
) -> Answer:
    """May `caller` make this write (`act`: commit, push, ...)? What is refused or let through is recorded.

    Raises StoreError, or what the store's engine raises, when nobody can tell.
    """
    answer = await store.read(lambda tx: judged(tx, lock_check, caller, paths, override=override))
    if not answer.refusals:
        return answer

    async def work(tx: Tx) -> Answer:
        # Anew, since a lock may have gone or come between the two.
        now = await judged(tx, lock_check, caller, paths, override=override)
        if now.refusals:
            await record(tx, caller, now.refusals, act=act, override=now.override)
        return now

    return await store.write(work)


async def record(
    tx: Tx,
    caller: Caller,
    refusals: Sequence[LockRefusal],
    *,
    act: str,
    override: str = "",
) -> Event:
    """The event of a write that was refused, or let through over what stood against it."""
    outputs = {
        "paths": [refusal.path for refusal in refusals[:MOST_TOLD]],
        "more": max(0, len(refusals) - MOST_TOLD),
        "reason": override or refusals[0].text,
        "by": caller.agent,
        "act": act,
        "refusals": [refusal.as_json() for refusal in refusals[:MOST_TOLD]],
    }
    role = "human" if caller.person else "agent"
    event = NewEvent(OVERRIDDEN if override else REFUSED, lane_of(caller), outputs=outputs, role=role)
    return await events.append(tx, event)
