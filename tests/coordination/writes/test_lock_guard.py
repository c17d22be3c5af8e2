"""What stands against a write, in which order, and what is recorded of it; by real locks on a real store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from relay.coordination.paths.targets import target
from relay.coordination.writes import lock_guard as guard
from relay.coordination.writes.changesets import MOST_SUMMARY, Changesets, coverage
from relay.coordination.writes.fencing import FEW, LockCheck
from relay.coordination.writes.lock_guard import ANY_SESSION, LockGuard, caller_of, check
from relay.model import LOCKED, STALE, WHICH, Caller, Fault, GuardDecision, Location, LockRefusal, Refusal
from relay.store.ports import StoreBusy
from tests import engines
from tests.coordination.desk import Desk, over
from tests.engines import BOTH, SCHEMAS, Clock, all_events
from tests.standing import Standing

pytestmark = BOTH

CLAUDE, CODEX = Caller("CLAUDE", "s1"), Caller("CODEX", "s1")
CLAUDE2, ANN = Caller("CLAUDE", "s2"), Caller("ann", "web", person=True)


@dataclass
class Bench:
    desk: Desk
    judge: LockCheck
    clock: Clock
    log: list[tuple[Caller, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.store, self.locks = self.desk.store, self.desk.locks

    def guard(self, *contested: str) -> LockGuard:
        return LockGuard(self.store, self.judge, Standing(*contested), self)

    def refused(self, caller: Caller, refusals: Sequence[LockRefusal]) -> None:
        self.log.append((caller, refusals[0].path))

    async def lock(self, caller: Caller, *paths: str, **more: Any) -> int:
        answer = await self.locks.acquire(caller, paths, **more)
        assert answer["success"], answer
        token: int = answer["fencing_token"]
        return token

    async def against(
        self, caller: Caller, *paths: str, token: int | None = None
    ) -> list[tuple[str, str, str]]:
        found = await self.store.read(lambda tx: self.judge.refusals(tx, caller, paths, token))
        # Of many files all locks are read at once, of few each is asked for: the answer is the same.
        more = [f"zz/{number}" for number in range(FEW)]
        many = await self.store.read(lambda tx: self.judge.refusals(tx, caller, [*paths, *more], token))
        assert [one for one in many if one.path not in more] == found
        return [(one.path, one.code, one.locked_by) for one in found]

    async def told(self, *types: str) -> list[Any]:
        found = await all_events(self.store, *types)
        return [one.outputs for one in found]


class Away(LockCheck):
    """The locks of a database that cannot be read."""

    async def look(self, *asked: Any) -> tuple[list[LockRefusal], set[str]]:
        raise StoreBusy("locked for 30 s")


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    clock = Clock()
    store = await engines.open_store(tmp_path, SCHEMAS, clock=clock)
    yield Bench(over(store), LockCheck(), clock)
    await store.close()


async def test_which_locks_meet_a_file(bench: Bench) -> None:
    """A table: what another holds, and the files that may not be written then."""
    files = ["a.py", "src/a.py", "src/deep/b.py", "src/[id]/p.tsx", "a*.py", "api:x", "größe.py", "src"]
    table: list[tuple[str, set[str]]] = [
        ("a.py", {"a.py"}),
        ("src", {"src/a.py", "src/deep/b.py", "src/[id]/p.tsx", "src"}),
        ("src/**", {"src/a.py", "src/deep/b.py", "src/[id]/p.tsx", "src"}),
        ("src/*.py", {"src/a.py"}),
        ("**", set(files)),
        ("**/*.py", {"a.py", "src/a.py", "src/deep/b.py", "a*.py", "größe.py"}),
        ("**/deep", {"src/deep/b.py"}),
        ("s*/{a,z}.py", {"src/a.py"}),
        ("a\\*.py", {"a*.py"}),
        ("src/[id]/p.tsx", {"src/[id]/p.tsx", "src"}),
        ("api:x", set()),
        ("./api:x", {"api:x"}),
        ("gro\u0308ße.py", {"größe.py"}),
        ("src/deep/b.py/x", {"src/deep/b.py", "src"}),
    ]
    for locked, met in table:
        await bench.lock(CODEX, locked)
        found = {path for path, code, _ in await bench.against(CLAUDE, *files) if code == LOCKED}
        assert found == met, locked
        assert await bench.against(CODEX, *files) == [], locked
        await bench.locks.release(CODEX, locked)
    odd = ["new\nline.py", "src/bell\a", "x" * 2000, "/absolute", "../out", "", "src/\u202eyp.exe"]
    await bench.lock(CODEX, "src/*")
    found = await bench.against(CLAUDE, *odd)
    assert found == [(path, LOCKED, "CODEX") for path in ("src/bell\a", "src/\u202eyp.exe")]


async def test_who_is_refused_and_who_is_not(bench: Bench) -> None:
    token = await bench.lock(CLAUDE, "a.py", ttl_s=60.0)
    assert await bench.against(CLAUDE, "a.py") == await bench.against(CLAUDE, "a.py", token=token) == []
    assert await bench.against(CLAUDE2, "a.py") == [("a.py", LOCKED, "CLAUDE")]
    assert await bench.against(CLAUDE, "b.py", token=token + 1) == [("b.py", STALE, "CLAUDE")]
    await bench.lock(CODEX, "s.py", mode="shared")
    await bench.lock(CLAUDE, "s.py", mode="shared")
    assert await bench.against(CLAUDE, "s.py") == [("s.py", LOCKED, "CODEX")], "shared is for reading"
    bench.clock.now += 61
    assert await bench.against(CLAUDE, "a.py") == [("a.py", STALE, "CLAUDE")]
    assert await bench.against(CLAUDE2, "a.py") == [] == await bench.against(ANN, "a.py")
    await bench.lock(CODEX, "a.py")
    assert await bench.against(CLAUDE, "a.py") == [("a.py", LOCKED, "CODEX")]
    assert await bench.against(CLAUDE, "a.py", token=token) == [("a.py", STALE, "CLAUDE")]
    await bench.locks.release(CODEX, "a.py")
    newer = await bench.lock(CLAUDE, "a.py")
    assert newer > token and await bench.against(CLAUDE, "a.py", token=newer) == []
    assert await bench.against(CLAUDE, "a.py", token=token) == [("a.py", STALE, "CLAUDE")]


async def test_a_file_system_that_folds_case(bench: Bench) -> None:
    folding = LockCheck(fold=True)
    locks = over(bench.store, fold=True).locks
    assert (await locks.acquire(CODEX, ["Src/A.py"]))["success"]
    found = await bench.store.read(lambda tx: folding.refusals(tx, CLAUDE, ["src/a.PY", "src/b.py"]))
    assert [one.path for one in found] == ["src/a.PY"]


async def test_the_order_of_an_edits_decision(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    may_be = guard._may_be
    asked = bench.guard("a.py", "steered.py")
    place = Location("a.py", None, True)

    async def said(agent: str, path: str, session: str | None) -> tuple[str, str | None]:
        told = (await asked.decide(agent, Location(path, None, True), session)).as_json()
        return told["decision"], told["locked_by"]

    assert await said("CLAUDE", "free.py", "s1") == ("allow", None)
    assert await said("CLAUDE", "steered.py", "s1") == ("steer", None)
    await bench.lock(CLAUDE, "a.py", ttl_s=60.0, reason="mine")
    assert await said("CLAUDE", "a.py", "s1") == ("allow", None), (
        "who holds it is not told to steer clear of it"
    )
    assert await said("CLAUDE", "a.py", "s2") == ("locked", "CLAUDE")
    assert await said("CLAUDE", "a.py", None) == ("allow", None), "its one session is meant"
    assert await said("CODEX", "a.py", None) == ("locked", "CLAUDE")
    told = (await asked.decide("CODEX", place, "s1")).as_json()
    assert told["expires_at"] == "2027-01-15T08:01:00+00:00" and told["fencing_token"] == 1
    assert '"mine"' in told["reason"] and "acquire_lock" in told["reason"]
    assert (await asked.decide("CODEX", Location("a.py", None, False), "s1")).steer, "to read is no write"
    bench.clock.now += 61
    assert await said("CLAUDE", "a.py", "s1") == ("stale", "CLAUDE")
    assert await said("CODEX", "a.py", "s1") == ("steer", None)
    await bench.lock(CODEX, "steered.py", mode="shared")
    assert await said("CODEX", "steered.py", "s1") == ("steer", None), "a shared lock is no right to write"
    assert [(caller.agent, path) for caller, path in bench.log] == [
        *[("CLAUDE", "a.py"), ("CODEX", "a.py"), ("CODEX", "a.py"), ("CLAUDE", "a.py")]
    ]
    looked: list[str] = []
    monkeypatch.setattr(
        guard, "_may_be", lambda tx, caller: looked.append(caller.agent) or may_be(tx, caller)
    )
    assert not (await asked.decide("CODEX", Location("a.py", None, True), None)).lock and looked == ["CODEX"]
    asked = LockGuard(bench.store, Away(), Standing("a.py"))
    gone = await asked.decide("CODEX", Location("free.py", None, True), "s1")
    assert not gone.refused and "could not be read" in gone.reason
    assert (await asked.decide("CODEX", place, "s1")).steer, "advisories are answered for all the same"


async def test_a_name_without_a_session(bench: Bench) -> None:
    """Its one living session, else its last; of several, what depends on which of them writes is refused."""
    asked = bench.guard()

    async def said(path: str) -> tuple[str, str]:
        answer = await check(bench.store, bench.judge, caller_of("CLAUDE", None), [path], act="commit")
        edit = (await asked.decide("CLAUDE", Location(path, None, True), None)).as_json()
        assert (edit["decision"] == "allow") is (answer.decision == "allow"), path
        assert [edit["code"]] == ([one.code for one in answer.refusals] or [None]), path
        return answer.decision, "".join(one.code for one in answer.refusals)

    assert await said("a.py") == ("allow", ""), "nobody has heard of it"
    await bench.lock(CLAUDE, "a.py", ttl_s=60.0)
    await bench.lock(CODEX, "codex.py")
    assert await said("a.py") == ("allow", "") and await said("codex.py") == ("locked", LOCKED)
    await bench.lock(CLAUDE2, "b.py", "api:x")
    assert await said("a.py") == ("locked", WHICH) == await said("b.py")
    assert await said("codex.py") == ("locked", LOCKED), "whichever of them it is"
    assert await said("free.py") == ("allow", "")
    answer = await check(
        bench.store, bench.judge, caller_of("CLAUDE", None), ["a.py", "codex.py"], act="commit"
    )
    assert [(one.path, one.code) for one in answer.refusals] == [("codex.py", LOCKED), ("a.py", WHICH)]
    assert "CLAUDE has 2 living sessions" in answer.refusals[1].text and "s1" not in answer.refusals[1].text
    assert "you.session_id" in answer.refusals[1].fix
    bench.clock.now += 61
    assert await said("a.py") == ("locked", WHICH), "one of them slept past its lease"
    # Nobody of that name lives: it is the last one that did.
    await bench.desk.sessions.end(CLAUDE2)
    assert await said("a.py") == ("stale", STALE) and await said("b.py") == ("allow", "")
    bench.clock.now += 86_400
    assert await said("a.py") == ("stale", STALE)


async def test_a_check_records_what_it_refuses_and_what_is_overridden(bench: Bench) -> None:
    await bench.lock(CODEX, "a.py", "b.py")
    told = await check(bench.store, bench.judge, CLAUDE, ["a.py", "c.py"], act="commit", override="please")
    assert (told.decision, [one.path for one in told.refusals], told.overridable) == (
        "locked",
        ["a.py"],
        False,
    )
    assert (await check(bench.store, bench.judge, CLAUDE, ["c.py"], act="commit")).decision == "allow"
    told = await check(bench.store, bench.judge, ANN, ["a.py", "b.py"], act="push", override=" it burns ")
    assert (told.decision, told.as_json()["overridable"]) == ("overridden", True)
    (refused,) = await bench.told(guard.REFUSED)
    (overridden,) = await bench.told(guard.OVERRIDDEN)
    assert (refused["by"], refused["paths"], refused["act"]) == ("CLAUDE", ["a.py"], "commit")
    assert (overridden["by"], overridden["reason"]) == ("ann", "it burns")
    # A person is one, wherever it sits; and who does not say in which session is not stopped by its own name.
    await bench.lock(ANN, "mine.py")
    for agent, session, path, decision in (
        ("ann", None, "mine.py", "allow"),
        ("CODEX", None, "a.py", "allow"),
        ("CODEX", "s9", "a.py", "locked"),
    ):
        caller = caller_of(agent, session, person=agent == "ann")
        assert (await check(bench.store, bench.judge, caller, [path], act="x")).decision == decision
    assert caller_of("x", None).session == ANY_SESSION
    with pytest.raises(Refusal):
        caller_of("x", "no session!")


def test_a_refusal_says_who_until_when_and_what_to_do() -> None:
    one = LockRefusal(LOCKED, "src/a.py", "src", "CODEX", "s1", 1_800_000_000.0, 7, "a move")
    assert (
        one.text
        == 'src/a.py is locked by CODEX (by its lock on src) until 2027-01-15T08:00:00+00:00: "a move".'
    )
    asked = replace(one, now=1_800_000_000.0 - 250)
    assert "until 2027-01-15T08:00:00+00:00 (free in 4 min 10 s)" in asked.text and asked == one
    assert "(1 h ago)" in replace(one, code=STALE, now=1_800_000_000.0 + 3601).text
    told = GuardDecision.of_lock(one).as_json()
    assert (told["decision"], told["file_path"], told["session"], told["advisory"]) == (
        "locked",
        "src",
        "s1",
        None,
    )
    assert set(GuardDecision().as_json()) == set(told)


class Git:
    """What git would say."""

    def __init__(self, changed: list[str] | None) -> None:
        self.changed, self.asked = changed, []

    async def changed_files(
        self, agent: str, base: str | None = None, head: str | None = None
    ) -> list[str] | None:
        self.asked.append((agent, base, head))  # type: ignore[attr-defined]
        return self.changed


def changesets(bench: Bench, changed: list[str] | None) -> Changesets:
    return Changesets(bench.store, bench.judge, Git(changed), bench.desk.heartbeat, bench.locks)


async def test_a_changeset_sets_what_is_said_against_what_was_done(bench: Bench) -> None:
    made = changesets(bench, ["src/a.py", "src/b.py", "x.py"])
    answer = await made.record(
        CLAUDE, "a change", ["./src//a.py", "src/a.py", "gone.py"], base="main", head="HEAD"
    )
    assert answer["declared"] == ["gone.py", "src/a.py"] and answer["changed"] == [
        "src/a.py",
        "src/b.py",
        "x.py",
    ]
    assert (answer["undeclared"], answer["missing"]) == (["src/b.py", "x.py"], ["gone.py"])
    unknown = await changesets(bench, None).record(CODEX, "who knows", ["a.py"])
    assert (unknown["changed"], unknown["undeclared"], unknown["missing"]) == (None, None, None)
    latest, first = await made.list(ANN)
    assert (latest["agent_id"], latest["changed"], first["base"], first["changeset_id"]) == (
        *("CODEX", None, "main"),
        answer["changeset_id"],
    )
    for only, summaries in (
        ({"session": "s1"}, ["who knows", "a change"]),
        ({"agent": "CLAUDE"}, ["a change"]),
        ({"agent": "CODEX", "session": "s1"}, ["who knows"]),
        ({"agent": "CODEX", "session": "s2"}, []),
        ({"session": "s2"}, []),
    ):
        for reader in (CLAUDE, CODEX, ANN):
            assert [one["summary"] for one in await made.list(reader, **only)] == summaries, (reader, only)
    told = await bench.told("changeset.recorded", "session.started")
    assert told[1]["changeset"]["undeclared"] == ["src/b.py", "x.py"], (
        "a changeset is a call: its session is there"
    )


async def test_a_changeset_over_a_lock_or_by_a_lost_lease_is_refused(bench: Bench) -> None:
    made = changesets(bench, ["a.py", "b.py"])
    token = await bench.lock(CLAUDE, "a.py", ttl_s=60.0)
    await bench.lock(CODEX, "b.py", ttl_s=30.0)
    with pytest.raises(Refusal) as locked:
        await made.record(CLAUDE, "s", ["a.py"])
    assert locked.value.code == "locked" and locked.value.as_json()["locked_by"] == "CODEX"
    bench.clock.now += 31
    assert (await made.record(CLAUDE, "s", ["a.py"], fencing_token=token))["success"]
    bench.clock.now += 31
    with pytest.raises(Refusal) as stale:
        await made.record(CLAUDE, "s", ["a.py"], fencing_token=token)
    answer = stale.value.as_json()
    assert (answer["success"], answer["reason"], answer["fencing_token"]) == (False, "stale_token", token)
    assert len(await made.list(ANN)) == 1
    long = "x" * (MOST_SUMMARY + 1)
    for summary, files in ((" ", ["a.py"]), ("s", ["../out"]), ("s", ["/abs"]), (long, [])):
        with pytest.raises(Refusal) as bad:
            await made.record(CLAUDE, summary, files)
        assert bad.value.fault is Fault.MALFORMED


def test_what_is_declared_covers_what_a_lock_on_it_would() -> None:
    """A table: what is declared, what was changed, what of it no declaration covers, and which covers nothing."""
    changed = ["src/a.py", "src/deep/b.py", "srcx.py"]
    table: list[tuple[list[str], list[str], list[str], list[str]]] = [
        (["src"], changed, ["srcx.py"], []),
        (["src/deep", "srcx.py"], changed, ["src/a.py"], []),
        ([], changed, changed, []),
        (["src", "src/deep", "other", "src/a.py"], changed, ["srcx.py"], ["other"]),
        (["src/**"], changed, ["srcx.py"], []),
        (["src/*.py", "{srcx,b}.py"], changed, ["src/deep/b.py"], []),
        (["**/*.py", "docs/**"], changed, [], ["docs/**"]),
        (["*/deep"], changed, ["src/a.py", "srcx.py"], []),
        (["a\\*.py"], ["a*.py", "ab.py"], ["ab.py"], []),
        (["a*.py"], ["a*.py", "ab.py"], [], []),
        (["app/[id]/{{x}}.ts"], ["app/[id]/{{x}}.ts"], [], []),
        (["api:x"], ["api:x"], ["api:x"], []),
        (["./api:x"], ["api:x"], [], []),
        (["src"], ["src/bell\a", "x" * 300], ["x" * 300], []),
        (["SRC/A.py"], changed, changed, ["SRC/A.py"]),
    ]
    for declared, done, undeclared, missing in table:
        found = coverage([target(path) for path in declared], done)
        assert (found.undeclared, found.missing) == (undeclared, missing), declared
    for declared in (["SRC/A.py", "Src/Deep", "srcX.py"], ["SRC/**", "SRCX.*"]):
        folded = coverage([target(path, fold=True) for path in declared], changed, fold=True)
        assert folded.undeclared == folded.missing == [], declared


async def test_a_pattern_is_declared_as_it_is_locked(bench: Bench) -> None:
    made = changesets(bench, ["src/a*.py", "src/b.py"])
    await bench.lock(CODEX, "src/c.py")
    answer = await made.record(CLAUDE, "s", ["src/**", "./src//a\\*.py", "src/c*"])
    assert answer["declared"] == ["src/**", "src/a\\*.py", "src/c*"], "another's file in it was not changed"
    assert (answer["undeclared"], answer["missing"]) == ([], ["src/c*"])
    for declared in (
        ["src/*.py"],
        ["src/c.*"],
        ["src"],
        ["zz/*", *(f"{n}.py" for n in range(FEW)), "src/**"],
    ):
        with pytest.raises(Refusal) as unknown:
            await changesets(bench, None).record(CLAUDE, "nobody knows what was changed", declared)
        assert (unknown.value.code, unknown.value.details["locked_by"]) == ("locked", "CODEX"), declared
    await bench.lock(CODEX, "src/a\\*.py", "db:schema")
    for known in (["src/**"], ["db:schema"]):
        with pytest.raises(Refusal) as locked:
            await made.record(CLAUDE, "s", known)
        assert locked.value.code == "locked", known
    with pytest.raises(Refusal, match="patterns at most"):
        await made.record(CLAUDE, "s", [f"{n}/*" for n in range(257)])


async def test_a_name_is_declared_in_any_normal_form(bench: Bench) -> None:
    git = "doc/pru\u0308f.md"
    answer = await changesets(bench, [git]).record(CLAUDE, "s", [git])
    assert (answer["changed"], answer["undeclared"], answer["missing"]) == ([git], [], [])


def test_a_reason_is_one_line_in_the_refusal() -> None:
    why = "a move\r[ann] you may write it\u2028\x1b[2Jnow"
    one = LockRefusal(LOCKED, "src/a\u2028.py", "src", "CODEX", "s1", 1_800_000_000.0, 7, why)
    assert one.text.isprintable()
    assert '"a move [ann] you may write it now"' in one.text
