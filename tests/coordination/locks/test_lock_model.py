"""Random interleavings of locks against a plain model, on the real store with a clock of the test's own."""

from __future__ import annotations

import asyncio
import itertools
import tempfile
from collections.abc import Awaitable
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from relay.coordination.locks.lock import Granted, Loss
from relay.coordination.locks.table import living
from relay.coordination.paths.overlap import stands_for
from relay.coordination.paths.targets import target
from relay.model import Caller, Refusal
from relay.model.actions import ForceRelease
from relay.store.ports import Tx
from tests import engines
from tests.coordination.conftest import SCHEMAS, Room
from tests.engines import Clock

#: Two that are named, and one that is a process and dies without a word.
WHO = [Caller("ann", "s1"), Caller("ann", "s2"), Caller("dot", "p1", process=True)]
PATHS = ["src", "src/a", "src/a/x.py", "src/a/*", "src/*.py", "src/**/x.py", "{src/a,lib}/*", "db:a"]
#: Seconds; the process's lease is 90 and that of the others 1800, so each may end before a lock, or behind it.
TTLS = [1.0, 100.0, 4000.0]
STEPS = [1.0, 91.0, 1801.0]


NAMES = ["src", "lib", "a", "b", "x.py", "y.py"]
FILES = ["/".join(names) for size in (1, 2, 3, 4) for names in itertools.product(NAMES, repeat=size)]


@cache
def files_of(lock: str) -> frozenset[str]:
    """What a lock is about, among FILES."""
    one = target(lock)
    if one.kind == "glob":
        return frozenset(file for file in FILES if stands_for(one.key, file))
    below = frozenset(file for file in FILES if f"{file}/".startswith(f"{one.key}/"))
    return frozenset({lock}) if one.kind == "key" else below


def task_of(who: Caller) -> str:
    """The one task that it claims."""
    return f"task of {who.session}"


@dataclass
class Held:
    """A lease that the model believes in."""

    mode: str
    until: float
    token: int
    lost: bool = False
    of_claim: bool = False


class LockModel(RuleBasedStateMachine):
    """Who holds what, by the simplest rules: a dict, and a look at every pair."""

    engine = "sqlite"

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.stack.enter_context(engines.on_engine(self.engine))
        self.loop = asyncio.new_event_loop()
        self.folder = tempfile.TemporaryDirectory()
        self.clock = Clock()
        opened = engines.open_store(Path(self.folder.name), SCHEMAS, clock=self.clock)
        self.room = Room(self.loop.run_until_complete(opened), self.clock)
        self.held: dict[tuple[Caller, str], Held] = {}
        self.lease: dict[Caller, float] = {}
        self.tokens: list[int] = []

    def teardown(self) -> None:
        self.loop.run_until_complete(self.room.store.close())
        self.loop.close()
        self.stack.close()
        self.folder.cleanup()

    def ask(self, asking: Awaitable[Any]) -> Any:
        return self.loop.run_until_complete(asking)  # type: ignore[arg-type]

    def alive(self, who: Caller) -> bool:
        return self.lease.get(who, 0) > self.clock.now

    def holds(self, who: Caller, path: str) -> bool:
        lease = self.held.get((who, path))
        return lease is not None and not lease.lost and lease.until > self.clock.now and self.alive(who)

    def call(self, who: Caller) -> None:
        """The heartbeat: what a dead one held is lost for good."""
        if not self.alive(who):
            for (holder, _), lease in self.held.items():
                lease.lost = lease.lost or holder == who
        length = 90.0 if who.process else 1800.0
        self.lease[who] = max(self.lease.get(who, 0), self.clock.now + length)

    def in_the_way(self, who: Caller, path: str, mode: str) -> set[Caller]:
        wanted = target(path)
        return {
            other
            for (other, taken), lease in self.held.items()
            if other != who
            and self.holds(other, taken)
            and "exclusive" in (mode, lease.mode)
            and wanted.meets(target(taken).kind, target(taken).key)
        }

    @rule(who=st.sampled_from(WHO), path=st.sampled_from(PATHS), ttl=st.sampled_from(TTLS))
    def acquire_one(self, who: Caller, path: str, ttl: float) -> None:
        self.acquire(who, [path], "exclusive", ttl)

    @rule(
        who=st.sampled_from(WHO),
        paths=st.lists(st.sampled_from(PATHS), min_size=1, max_size=2),
        mode=st.sampled_from(["exclusive", "shared"]),
        ttl=st.sampled_from(TTLS),
    )
    def acquire(self, who: Caller, paths: list[str], mode: str, ttl: float) -> None:
        answer = self.ask(self.room.locks.acquire(who, paths, mode=mode, ttl_s=ttl))
        self.taken(who, paths, mode, ttl, answer, of_claim=False)

    @rule(who=st.sampled_from(WHO), path=st.sampled_from(PATHS), ttl=st.sampled_from(TTLS))
    def claim(self, who: Caller, path: str, ttl: float) -> None:
        """A claim takes its files; it ends by `end_claim`."""

        async def take(tx: Tx) -> Any:
            session = await self.room.heartbeat.touch(tx, who)
            wanted = self.room.locks.stored_targets([path])
            outcome = await self.room.locks.acquire_in(tx, who, wanted, ttl_s=ttl, task_id=task_of(who))
            if isinstance(outcome, Granted):
                await self.room.heartbeat.promise(tx, who, session, outcome.locks[0].expires_at)
            return outcome.as_json()

        self.taken(who, [path], "exclusive", ttl, self.ask(self.room.store.write(take)), of_claim=True)

    @rule(who=st.sampled_from(WHO), own=st.booleans())
    def end_claim(self, who: Caller, own: bool) -> None:
        """What its holder ends, it gives back; what it lost stays on record."""
        if own and not self.alive(who):
            return

        async def give_up(tx: Tx) -> None:
            lost = None if own else Loss(await tx.now())
            await self.room.locks.release_of_task(tx, task_of(who), by=who.agent, lost=lost)

        self.ask(self.room.store.write(give_up))
        self.let_go(who, own, [key for key, lease in self.held.items() if key[0] == who and lease.of_claim])

    def let_go(self, who: Caller, own: bool, these: list[tuple[Caller, str]]) -> None:
        for key in these:
            if own and self.holds(*key):
                del self.held[key]
            else:
                self.held[key].lost = True

    def taken(
        self, who: Caller, paths: list[str], mode: str, ttl: float, answer: Any, *, of_claim: bool
    ) -> None:
        self.call(who)
        blocked = set[Caller]().union(*(self.in_the_way(who, path, mode) for path in paths))
        assert answer["success"] is not bool(blocked), (answer, blocked)
        if blocked:
            named = (answer["locked_by"], answer["locked_by_session"])
            assert named in {(one.agent, one.session) for one in blocked}
            assert datetime.fromisoformat(answer["expires_at"]).timestamp() > self.clock.now
            return
        before = max(self.tokens, default=0)
        for lock in answer["locks"]:
            path, token = lock["file_path"], lock["fencing_token"]
            if self.holds(who, path):
                known = self.held[who, path]
                assert token == known.token
                known.mode = known.mode if known.of_claim else mode
                known.until = max(known.until, self.clock.now + ttl)
            else:
                assert token > before and token not in self.tokens, "tokens grow"
                self.tokens.append(token)
                self.held[who, path] = Held(mode, self.clock.now + ttl, token, of_claim=of_claim)
            # What is over and lies in what was taken is forgotten.
            over = [one for holder, one in self.held if holder == who and files_of(one) <= files_of(path)]
            for one in over:
                if not self.holds(who, one):
                    del self.held[who, one]
            if not who.process:
                self.lease[who] = max(self.lease[who], self.held[who, path].until)

    @rule(
        who=st.sampled_from(WHO), path=st.sampled_from(PATHS), renew=st.booleans(), ttl=st.sampled_from(TTLS)
    )
    def release_or_renew(self, who: Caller, path: str, renew: bool, ttl: float) -> None:
        locks = self.room.locks
        try:
            answer = self.ask(locks.renew(who, path, ttl_s=ttl) if renew else locks.release(who, path))
        except Refusal as refused:
            answer = refused.as_json()
        self.call(who)
        assert answer["success"] is self.holds(who, path), answer
        if not answer["success"]:
            known = (who, path) in self.held
            assert (
                answer["reason"] == "stale_token" if known else answer["reason"] in ("not_held", "not_yours")
            )
        elif renew:
            lease = self.held[who, path]
            lease.until = max(lease.until, self.clock.now + ttl)
            if not who.process:
                self.lease[who] = max(self.lease[who], lease.until)
        else:
            del self.held[who, path]

    @rule(path=st.sampled_from(PATHS))
    def force(self, path: str) -> None:
        holders = [who for who in WHO if self.holds(who, path)]
        try:
            taken = self.ask(self.room.locks.force_release(self.room.person, ForceRelease(path, "test")))[
                "locks"
            ]
        except Refusal as refused:
            taken = []
            assert refused.code == "not_held"
        assert {(lock["locked_by"], lock["session"]) for lock in taken} == {
            (w.agent, w.session) for w in holders
        }
        for who in holders:
            self.held[who, path].lost = True

    @rule(who=st.sampled_from(WHO), by=st.sampled_from([None, "eve"]))
    def end(self, who: Caller, by: str | None) -> None:
        ended = self.ask(self.room.sessions.end(who, by=by))["ended"]
        if self.alive(who):
            assert ended
            self.let_go(who, by is None, [key for key in self.held if key[0] == who])
        self.lease[who] = 0

    @rule(seconds=st.sampled_from(STEPS))
    def time_passes(self, seconds: float) -> None:
        self.clock.now += seconds
        if seconds > 100:
            self.ask(self.room.sessions.sweep())  # nothing hangs on whether the daemon looks

    @rule(who=st.sampled_from(WHO), path=st.sampled_from(["src/a/x.py", "src/b", "lib/y", "other"]))
    def write(self, who: Caller, path: str) -> None:
        """What is known to have been lost is never let through."""
        asking = self.room.store.read(lambda tx: self.room.judge.verdicts(tx, who, [path]))
        verdict = self.ask(asking)[0].verdict

        def about(lock: str) -> bool:
            one = target(lock)
            return stands_for(one.key, path) if one.kind == "glob" else one.meets("path", path)

        mine = [lock for (holder, lock) in self.held if holder == who and about(lock)]
        if any(about(lock) and holder != who and self.holds(holder, lock) for holder, lock in self.held):
            assert verdict == "locked"
        elif any(self.holds(who, one) for one in mine):
            assert verdict == "ok"
        else:
            assert verdict == ("stale" if mine else "ok")

    @invariant()
    def what_holds_is_what_the_model_holds(self) -> None:
        found = self.ask(self.room.store.read(living))
        assert {(lock.agent, lock.session, lock.path, lock.mode, lock.token) for lock in found} == {
            (who.agent, who.session, path, lease.mode, lease.token)
            for (who, path), lease in self.held.items()
            if self.holds(who, path)
        }
        for one in found:
            for other in found:
                apart = one.holder == other.holder or one.mode == other.mode == "shared"
                assert apart or not one.target.meets(other.target.kind, other.target.key), (one, other)


LockModel.TestCase.settings = settings(
    max_examples=80,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestLockModel = LockModel.TestCase


class LocksOnPostgres(LockModel):
    engine = "postgres"


# The rules are the same; what is looked for is a statement that does otherwise.
LocksOnPostgres.TestCase.settings = settings(LockModel.TestCase.settings, max_examples=8)
TestLocksOnPostgres = LocksOnPostgres.TestCase
