"""The metrics of a scripted run, on both stores: agents act by the real services, and the values are worked out by
hand."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from relay.airspace.worktrees.lifecycle import CONFLICTED, MERGED, WorktreeChange
from relay.app.verification.metrics.gauges import MetricGauges
from relay.app.wiring.worktree_room import StoredWorktreeRoom
from relay.cli import main
from relay.config import loading
from relay.config.settings import LiveSettings
from relay.coordination.tasks.task_events import By
from relay.coordination.writes.fencing import LockCheck
from relay.faces.operations.operation import perform
from relay.faces.operations.registry import OPERATIONS
from relay.faces.services import services_of
from relay.log.events import Lane
from relay.model import Caller, FailureClass, Refusal
from relay.model.turns import UsagePart
from relay.room.dispatch.roster import Policy
from relay.room.dispatch.turns import Outcome
from relay.store.ports import Store
from relay.verification import journal
from relay.verification.landing import journal as landings
from relay.verification.landing.entry import EntryState
from relay.verification.metrics_reader import MetricReader
from relay.verification.policies import Executor
from relay.verification.verification import Change, Result, Source, State
from relay.verification.verification import Outcome as Ran
from tests import engines
from tests.airspace.parts import FILE, AirspaceRoom, near, work
from tests.app.verification.place import Open, policy, python
from tests.engines import BOTH, SCHEMAS, Clock, check_log
from tests.room import parts

ANN = Caller("ann", "p1", "person", person=True, scopes=frozenset({"read"}))
CLAUDE, CODEX, GEMINI = (Caller(name, name.lower()) for name in ("CLAUDE", "CODEX", "GEMINI"))


class Run:
    """A room in which a test says what happens and how long it takes."""

    def __init__(self, store: Store, clock: Clock, folder: Path) -> None:
        self.store, self.clock = store, clock
        settings = loading.parse(json.dumps({"agents": []}), folder / "config.json")
        self.services = services_of(store, LiveSettings(settings), fold=False)
        self.worktrees = StoredWorktreeRoom(store, LockCheck())
        self.airspace = AirspaceRoom(store, clock)

    async def figures(self) -> dict[str, Any]:
        told = await perform(self.services, ANN, OPERATIONS["metrics"], {})
        return {one["name"]: (one["value"], one["n"], one["met"]) for one in told["metrics"]}

    async def merged(self, agent: str, commit: str) -> None:
        await self.worktrees.record(WorktreeChange(MERGED, agent, f"b/{agent}", "ann", "merged", commit))

    async def conflicted(self, agent: str, *paths: str) -> None:
        details = {"conflicts": [*paths]}
        await self.worktrees.record(WorktreeChange(CONFLICTED, agent, f"b/{agent}", "ann", details=details))

    async def turn(self, agent: str, dollars: float, failure: FailureClass | None = None) -> None:
        await parts.post(self.store, f"@{agent} go on", self.clock(), agents=[agent])
        plan = await parts.plan_of(self.store, Policy(agent), self.clock())
        done = Outcome("done", failure, usage=UsagePart(output_tokens=10, cost_usd=dollars))
        assert await parts.end(self.store, plan, done, self.clock.move(1.0))

    async def meet(self, a: str, b: str) -> None:
        """The airspace sees two agents in one file, and says so."""
        self.airspace.sets = {a: work(a, FILE, committed=3.0), b: work(b, FILE, started_at=2.0)}
        self.airspace.seen = {(a, b): near(0.9)}
        await self.airspace.tick()

    async def part(self) -> None:
        """Nobody is near anybody any more, for longer than it takes to believe it."""
        self.airspace.sets, self.airspace.seen = {}, {}
        for _ in range(10):
            await self.airspace.tick(60.0)
        assert all(not one.open for one in await self.airspace.all())

    async def verify(self, seconds: float, state: State, *runs: Ran, source: Source = Source.TURN) -> int:
        """A verification that ends so after this time; `runs`: how one policy ended, by attempt."""
        change = Change(journal.new_id(), source, "CLAUDE", "ann", tree="t")
        made = await self.store.write(lambda tx: journal.ask(tx, change))
        results = [
            Result(made.number, "unit", attempt, 1, Executor.INLINE, "d", "t", ran)
            for attempt, ran in enumerate(runs, 1)
        ]
        running = replace(made, state=State.RUNNING)
        await self.store.write(lambda tx: journal.routed(tx, running, results))
        self.clock.move(seconds)
        await self.store.write(lambda tx: journal.end(tx, running, state))
        return made.number

    async def land(self, seconds: float, agent: str, state: EntryState, **more: Any) -> None:
        entry, _ = await self.store.write(lambda tx: landings.ask(tx, agent, by="ann"))
        self.clock.move(seconds)
        await self.store.write(lambda tx: landings.end(tx, entry.number, state, more=more))


@pytest.fixture
async def run(tmp_path: Path) -> AsyncIterator[Run]:
    clock = Clock()
    store = await engines.open_store(tmp_path, SCHEMAS, clock=clock)
    yield Run(store, clock, tmp_path)
    await check_log(store)
    await store.close()


async def the_story(run: Run) -> None:
    """What happens; the values that follow from it stand in `WORKED_OUT`."""
    queue, memory = run.services.work, run.services.memory

    # Six tasks, of which five are claimed: one is completed, one fails, one is given back and completed by another
    # (and counts once), one is still worked on, one is open again, since its change did not pass. 2 of 5.
    tasks = [(await queue.submit(ANN, "fix", f"Fix {n}"))["task_id"] for n in range(6)]
    for at, success in ((0, True), (1, False)):
        await queue.get(CLAUDE, task_id=tasks[at])
        await queue.complete(CLAUDE, tasks[at], success)
    await queue.get(CLAUDE, task_id=tasks[2])
    await queue.release(CLAUDE, tasks[2])
    run.clock.move(10.0)
    await queue.get(CODEX, task_id=tasks[2])
    await queue.complete(CODEX, tasks[2], True)
    await queue.get(GEMINI, task_id=tasks[3])
    await queue.get(CODEX, task_id=tasks[4])
    await queue.complete(CODEX, tasks[4], True)
    by = By("RELAY", Lane("room", "verification:0", short=True))
    await run.store.write(lambda tx: queue.claims.unverify(tx, tasks[4], "v0 failed", by))

    # Two memories, four words on them, of which one is taken back: useful, not, useful, useful. 3 of 4.
    first = (await memory.remember(CLAUDE, "lesson", "never mock the clock, it hid a bug"))["memory_id"]
    second = (await memory.remember(CLAUDE, "lesson", "the suite needs a PostgreSQL of its own"))["memory_id"]
    for reader, name, useful in (
        (CODEX, first, True),
        (GEMINI, first, False),
        (CODEX, second, True),
        (GEMINI, second, False),
        (GEMINI, second, True),
    ):
        await memory.feedback(reader, name, useful)

    # CLAUDE and CODEX are told that they meet. CLAUDE's branch is merged, for 0.30 + 0.20 dollars; CODEX's conflicts
    # in that file, and is merged after another turn, for 1.00 in all: this collision came.
    await run.meet("CLAUDE", "CODEX")
    await run.turn("CLAUDE", 0.30)
    await run.turn("CLAUDE", 0.20, FailureClass.CRASH)
    await run.merged("CLAUDE", "c1")
    await run.turn("CODEX", 0.75)
    await run.conflicted("CODEX", FILE)
    await run.turn("CODEX", 0.25)
    await run.merged("CODEX", "c2")
    await run.part()
    # CLAUDE and GEMINI are told, and both are merged: this one was avoided. GEMINI's program reports no dollars, and
    # CLAUDE had no turn since.
    await run.meet("CLAUDE", "GEMINI")
    await run.turn("GEMINI", 0.0)
    await run.merged("CLAUDE", "c3")
    await run.merged("GEMINI", "c4")
    await run.part()
    # CODEX and GEMINI are told; GEMINI's branch conflicts elsewhere, and CODEX's is not merged yet.
    await run.meet("CODEX", "GEMINI")
    await run.conflicted("GEMINI", "docs/other.md")

    # Seven verifications, one of them asked for again. Passed or failed: 60 + 120 + 240 + 30 = 450 s for 4, so
    # 112.5 s each. With a verdict, and no run of the landing queue: 4, of which 1 passed at once.
    await run.verify(60.0, State.PASSED, Ran.PASSED)
    flaky = await run.verify(120.0, State.PASSED, Ran.FAILED, Ran.PASSED)
    await run.verify(240.0, State.FAILED, Ran.FAILED, Ran.FAILED)
    await run.verify(5.0, State.ERROR, Ran.ERROR)
    await run.verify(5.0, State.NOT_TESTED)
    await run.verify(5.0, State.CANCELLED, Ran.CANCELLED)
    await run.verify(30.0, State.PASSED, Ran.PASSED, source=Source.LANDING)
    # Asked for again: it had its verdict.
    again = await run.store.write(lambda tx: journal.load(tx, flaky))
    again = await run.store.write(lambda tx: journal.again(tx, again, by="ann"))
    run.clock.move(500.0)
    await run.store.write(lambda tx: journal.end(tx, again, State.PASSED))

    # Four entries of the landing queue: 90 and 150 s for two that land, so 120 s each. One landed as tested, one is
    # put out for its tests: 1 more of 2 that passed, together 2 of 6.
    await run.land(90.0, "CLAUDE", EntryState.LANDED, tested=True)
    await run.land(150.0, "CODEX", EntryState.LANDED, tested=False)
    await run.land(40.0, "GEMINI", EntryState.PUT_OUT, failed=True)
    await run.land(7.0, "GEMINI", EntryState.PUT_OUT)


#: (value, n, met) by name.
WORKED_OUT = {
    # c1 to c4, and two that conflicted.
    "lock_conflicts": (2, 6, False),
    "useful_memories": (0.75, 4, True),
    "task_completion": (0.4, 5, False),
    "first_pass": (0.333333, 6, False),
    "time_to_verify": (112.5, 4, True),
    # Three pairs, by three advisories; two are decided.
    "collisions_foreseen": (3, 3, None),
    "collisions_avoided": (1, 2, None),
    "time_to_land": (120.0, 2, None),
    # (0.50 + 1.00) / 2: of c1 and c2.
    "landed_change_cost": (0.75, 2, None),
}


@BOTH
async def test_a_scripted_run_has_the_values_that_were_worked_out(run: Run) -> None:
    assert {figure for figure in (await run.figures()).values()} == {(None, 0, None)}
    await the_story(run)
    assert await run.figures() == WORKED_OUT
    # Who reads from the beginning reads the same, and so does who looked at each step.
    told = {
        one["name"]: (one["value"], one["n"], one["met"])
        for one in (await MetricReader(run.store).now())["metrics"]
    }
    assert told == WORKED_OUT


@BOTH
async def test_prometheus_scrapes_what_was_read_last(run: Run) -> None:
    gauges, registry = MetricGauges(run.store, run.services.metrics), CollectorRegistry()
    registry.register(gauges)
    empty = generate_latest(registry).decode()
    assert "# HELP relay_first_pass_ratio First-pass rate: Share of the changes" in empty
    assert "\nrelay_first_pass_ratio " not in empty
    assert 'relay_metric_n{metric="first_pass"} 0.0' in empty
    await the_story(run)
    looking = asyncio.create_task(gauges.run())
    try:
        await parts.until(lambda: _has(registry, "relay_first_pass_ratio 0.333"))
    finally:
        looking.cancel()
    scraped = generate_latest(registry).decode()
    for line in (
        "relay_lock_conflicts 2.0",
        "relay_useful_memories_ratio 0.75",
        "relay_task_completion_ratio 0.4",
        "relay_time_to_verify_seconds 112.5",
        "relay_collisions_foreseen 3.0",
        "relay_collisions_avoided 1.0",
        "relay_time_to_land_seconds 120.0",
        "relay_landed_change_cost_usd 0.75",
        'relay_metric_n{metric="first_pass"} 6.0',
    ):
        assert f"\n{line}\n" in scraped


async def _has(registry: CollectorRegistry, text: str) -> bool:
    return text in generate_latest(registry).decode()


@BOTH
async def test_the_landing_queues_own_verdicts_count(open_place: Open) -> None:
    """By the real queue: one branch lands tested, the other fails its tests."""
    place = await open_place("AVA", "BEN")
    place.have(policy("unit", python("import sys; sys.exit('BROKEN' in open('app.py').read())")))
    await place.work("AVA", {"ava.py": "x = 1\n"})
    await place.work("BEN", {"app.py": "BROKEN = 1\n"})
    states = [entry.state for entry in await place.land("AVA", "BEN")]
    assert states == [EntryState.LANDED, EntryState.PUT_OUT]
    shown = {one["name"]: one for one in (await MetricReader(place.store).now())["metrics"]}
    assert (shown["first_pass"]["value"], shown["first_pass"]["n"]) == (0.5, 2)
    assert shown["time_to_land"]["n"] == 1 and shown["time_to_land"]["value"] > 0
    assert (shown["lock_conflicts"]["value"], shown["lock_conflicts"]["n"]) == (0, 1)


async def test_a_window_is_checked(run: Run) -> None:
    told = await perform(run.services, ANN, OPERATIONS["metrics"], {"days": 7})
    assert told["days"] == 7 and told["since"].endswith("T00:00:00.000Z")
    for days in (0, 4000, "7"):
        with pytest.raises(Refusal, match="days"):
            await perform(run.services, ANN, OPERATIONS["metrics"], {"days": days})


def test_the_command_says_each_figure_beside_its_target_and_definition(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"agents": []}))

    def relay(*words: str) -> tuple[int, str, str]:
        code = main(["metrics", *words, "--config", str(config)])
        said = capsys.readouterr()
        return code, said.out, said.err

    code, out, err = relay()
    assert (code, out) == (1, "") and "there is no database" in err and not (tmp_path / ".relay").exists()

    async def happen() -> None:
        settings = loading.load(config)
        settings.runtime_dir.mkdir()
        clock = Clock()
        store = await engines.open_store(settings.db_path.parent, SCHEMAS, clock=clock)
        await the_story(Run(store, clock, tmp_path))
        await store.close()

    asyncio.run(happen())
    capsys.readouterr()
    code, out, _ = relay()
    assert code == 0 and out.startswith("Metrics since the beginning of the log\n")
    rows = [" ".join(line.split()) for line in out.splitlines()]
    assert "Merge conflicts 2 target 0 missed n = 6 merges tried" in rows
    assert "Mean time to verify 1 min 52 s target < 5 min met n = 4 verifications" in rows
    assert "First-pass rate 33.3 % target > 80 % missed n = 6 changes" in rows
    assert "US dollars a landed change $0.75 n = 2 landed changes" in rows
    assert "that failed for a conflict; each try counts." in " ".join(out.split())
    code, out, _ = relay("--days", "1", "--json")
    told = json.loads(out)
    assert code == 0 and told["days"] == 1 and told["since"] is not None
    assert {one["name"] for one in told["metrics"]} == {*WORKED_OUT}
    assert relay("--days", "0")[0] == 2
