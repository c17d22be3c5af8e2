"""Turns as they run: in parallel, cancelled, stopped, streamed, and recorded whatever happens."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path

import asyncpg
import pytest

from relay.log import events
from relay.log.events import NewEvent
from relay.model import (
    Changes,
    EndPart,
    FailureClass,
    Kind,
    Location,
    LogPart,
    Part,
    SessionPart,
    TextPart,
    ToolPart,
    Turn,
    UsagePart,
    Workplace,
)
from relay.model.touches import Kind as TouchKind
from relay.model.touches import Touch
from relay.room.dispatch.queue import load_spent
from relay.room.dispatch.roster import Member, Roster
from relay.room.dispatch.running import TurnHooks
from relay.room.dispatch.turn_output import within
from relay.room.dispatch.turns import Plan
from relay.room.journal.ledger import Q
from relay.room.journal.live_bus import LiveFeed
from relay.room.journal.values import Frame, Job
from relay.store.ports import Store, Tx
from tests import engines
from tests.engines import BOTH, SQLITE, Blocker
from tests.room.floor import Floor, Play
from tests.room.parts import PATIENT_S, Played, all_jobs, all_messages, open_room, until

pytestmark = BOTH


@pytest.fixture
async def floor(store: Store) -> AsyncIterator[Floor]:
    one = Floor(store)
    yield one
    await one.close()


def held(gate: asyncio.Event, begun: asyncio.Event | None = None) -> Play:
    """An agent that answers once the gate is open."""

    async def play(turn: Turn) -> AsyncIterator[Part]:
        if begun is not None:
            begun.set()
        await gate.wait()
        yield TextPart(f"after the gate: {turn.prompt}")
        yield EndPart()

    return play


def saying(*parts: Part) -> Play:
    async def play(turn: Turn) -> AsyncIterator[Part]:
        for part in parts:
            yield part

    return play


async def test_a_slow_agent_holds_nobody_up(floor: Floor) -> None:
    gate = asyncio.Event()
    floor.add("ALPHA", held(gate))
    floor.add("BETA")
    await floor.ask("@all hello")
    await floor.ask("@BETA and you")
    await floor.reach("active", "done", "done")
    gate.set()
    await floor.reach("done", "done", "done")


@pytest.mark.parametrize("engine", ["postgres"], indirect=True)
@pytest.mark.parametrize("shared", [True, False])
async def test_the_turn_of_an_agent_that_others_have_too_is_begun_for_certain(
    floor: Floor, tmp_path: Path, shared: bool
) -> None:
    """A server that forgets it lets two members run it at once."""
    seen = (
        "CREATE TABLE seen (how TEXT)",
        "CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN "
        "INSERT INTO relay.seen VALUES (current_setting('synchronous_commit')); RETURN NULL; END $$",
        "CREATE TRIGGER see AFTER UPDATE ON dispatch_queue FOR EACH ROW "
        "WHEN (NEW.state = 'active' AND OLD.state = 'pending') EXECUTE FUNCTION see()",
    )
    for statement in seen:
        await asyncio.to_thread(engines.change, tmp_path, statement)
    floor.policy = replace(floor.policy, shared=shared)
    floor.add("ALPHA")
    await floor.ask("@ALPHA hello")
    await floor.reach("done")
    admin = await asyncpg.connect(engines.address_of(tmp_path))
    try:
        assert [row["how"] for row in await admin.fetch("SELECT how FROM relay.seen")] == [
            "on" if shared else "off"
        ]
    finally:
        await admin.close()


async def test_agents_work_at_the_same_time(floor: Floor) -> None:
    both = asyncio.Barrier(2)

    async def play(turn: Turn) -> AsyncIterator[Part]:
        await both.wait()
        yield TextPart("met")
        yield EndPart()

    floor.add("ALPHA", play)
    floor.add("BETA", play)
    await floor.ask("@all meet")
    await floor.reach("done", "done")


async def test_what_arrives_during_a_turn_is_one_next_turn(floor: Floor) -> None:
    gate, begun = asyncio.Event(), asyncio.Event()
    agent = floor.add("ALPHA", held(gate, begun))
    await floor.ask("@ALPHA one")
    await begun.wait()
    await floor.ask("@ALPHA two")
    await floor.ask("@ALPHA three")
    await floor.reach("active", "pending", "pending")
    gate.set()
    await floor.reach("done", "done", "done")
    assert [turn.prompt for turn in agent.turns] == [
        "[ann] @ALPHA one",
        "[ann] @ALPHA two\n\n[ann] @ALPHA three",
    ]


async def test_cancel_ends_the_turn_and_the_agent_goes_on(floor: Floor) -> None:
    gate, begun = asyncio.Event(), asyncio.Event()
    agent = floor.add("ALPHA", held(gate, begun))
    await floor.ask("@ALPHA one")
    await begun.wait()
    assert floor.turns.cancel("ALPHA", "ann")
    assert not floor.turns.cancel("ALPHA", "ann")
    (job,) = await floor.reach("skipped")
    assert (job.error_class, job.error) == ("cancelled", "cancelled by ann")
    assert agent.ended == 1
    gate.set()
    await floor.ask("@ALPHA two")
    await floor.reach("skipped", "done")
    assert not floor.turns.cancel("ALPHA", "ann")


@pytest.mark.parametrize("drain_s", [0.0, PATIENT_S])
async def test_a_stop_waits_and_then_cuts_off(floor: Floor, drain_s: float) -> None:
    gate, begun = asyncio.Event(), asyncio.Event()
    agent = floor.add("ALPHA", held(gate, begun))
    await floor.ask("@ALPHA one")
    await begun.wait()
    stopping = asyncio.create_task(floor.workers.stop(drain_s))
    if drain_s:
        await asyncio.sleep(0.05)
        assert not stopping.done()
        gate.set()
    await stopping
    # All is recorded by the time that the stop is done.
    (job,) = await all_jobs(floor.store)
    if drain_s:
        assert (job.state, await floor.answers()) == ("done", ["after the gate: [ann] @ALPHA one"])
    else:
        assert (job.state, job.interruptions, job.attempts) == ("pending", 1, 0)
        assert await floor.answers() == []
    assert agent.ended == 1
    await floor.ask("@ALPHA two")
    await asyncio.sleep(0.05)
    assert len(agent.turns) == 1


async def test_a_turn_that_was_cut_off_goes_on_in_its_conversation(store: Store) -> None:
    begun, never = asyncio.Event(), asyncio.Event()

    async def play(turn: Turn) -> AsyncIterator[Part]:
        yield SessionPart("conversation-7")
        begun.set()
        await never.wait()

    first = Floor(store)
    first.add("ALPHA", play)
    await first.ask("@ALPHA long work")
    await begun.wait()
    await first.close()
    second = Floor(store)
    try:
        agent = second.add("ALPHA")
        await second.reach("done")
        (turn,) = agent.turns
        assert (turn.interrupted, turn.resume) == (True, "conversation-7")
    finally:
        await second.close()


async def test_an_agent_that_raises_is_a_crash_and_its_worker_lives(floor: Floor) -> None:
    async def play(turn: Turn) -> AsyncIterator[Part]:
        yield TextPart("half")
        raise RuntimeError("broken inside")

    floor.policy = replace(floor.policy, max_attempts=2, threshold=10)
    agent = floor.add("ALPHA", play)
    await floor.ask("@ALPHA go")
    (job,) = await floor.reach("dead")
    assert (job.error_class, job.attempts, job.error) == ("crash", 2, "RuntimeError: broken inside")
    assert agent.ended == 2
    assert await floor.answers() == []


@pytest.mark.parametrize(
    ("parts", "error_class"),
    [
        ((EndPart(),), "empty"),
        ((TextPart(" \n"), EndPart()), "empty"),
        ((TextPart("no end"),), "crash"),
        ((TextPart("x"), EndPart(FailureClass.TIMEOUT, "too slow")), "timeout"),
        ((EndPart(FailureClass.NOT_INSTALLED, "gone"),), "not_installed"),
    ],
)
async def test_failures_are_classed(floor: Floor, parts: tuple[Part, ...], error_class: str) -> None:
    floor.policy = replace(floor.policy, max_attempts=1)
    floor.add("ALPHA", saying(*parts))
    await floor.ask("@ALPHA go")

    async def ended() -> list[Job]:
        return [job for job in await all_jobs(floor.store) if job.state in ("dead", "skipped")]

    (job,) = await until(ended)
    assert job.error_class == error_class
    assert await floor.answers() == []


async def test_an_agent_that_ignores_its_timeout_is_cut_off(
    floor: Floor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("relay.room.dispatch.worker.GRACE_S", 0.05)

    async def play(turn: Turn) -> AsyncIterator[Part]:
        yield UsagePart(10, 20, 0.5)
        await asyncio.Event().wait()

    floor.policy = replace(floor.policy, max_attempts=1)
    agent = floor.add("ALPHA", play, timeout_s=0.05)
    await floor.ask("@ALPHA go")
    (job,) = await floor.reach("dead")
    assert (job.error_class, agent.ended) == ("timeout", 1)
    spent = await floor.store.read(lambda tx: load_spent(tx, "ALPHA", job.started_at or 0.0))
    assert (spent.tokens, spent.usd) == (30, 0.5)


async def test_half_a_character_stops_nobody(floor: Floor) -> None:
    floor.add(
        "ALPHA",
        saying(
            ToolPart("read\ud800", "\udfff"),
            LogPart("log \ud83d"),
            TextPart("half \ud83d"),
            TextPart("\ude00 and \ud800."),
            EndPart(),
        ),
    )
    await floor.ask("@ALPHA go")
    await floor.reach("done")
    assert await floor.answers() == ["half 😀 and \ufffd."]
    assert "log \ufffd" in [line["text"] for line in floor.turns.log_of("ALPHA", 10)]


async def test_an_answer_that_cannot_be_recorded_is_a_failure_and_said(floor: Floor) -> None:
    floor.policy = replace(floor.policy, max_attempts=1)
    floor.add("ALPHA", saying(TextPart("x"), UsagePart(1 << 70, 0), EndPart()))
    await floor.ask("@ALPHA go")
    (job,) = await floor.reach("dead")
    assert "could not be recorded" in (job.error or "")


async def test_pieces_are_streamed_with_their_place(floor: Floor) -> None:
    feed = floor.live.feed()
    floor.add(
        "ALPHA",
        saying(TextPart("Hello, "), ToolPart("read", "a.py"), TextPart("wörld"), TextPart("!"), EndPart()),
    )
    asked = await floor.ask("@ALPHA go")
    (job,) = await floor.reach("done")
    frames = await taken(feed)
    assert [(f.data["offset"], f.data["text"], f.data.get("tool")) for f in frames] == [
        (0, "Hello, ", None),
        (7, "", "read: a.py"),
        (7, "wörld", None),
        (12, "!", None),
    ]
    assert {(f.cursor, f.type, f.data["job"], f.data["message_id"]) for f in frames} == {
        (None, "stream", job.id, asked)
    }
    (answer,) = [m for m in await all_messages(floor.store) if m.kind is Kind.AGENT]
    assert answer.body == "Hello, wörld!"
    assert answer.meta["tools"] == ["read: a.py"]


async def taken(feed: LiveFeed) -> list[Frame]:
    frames: list[Frame] = []
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(0.1):
            async for frame in feed:
                frames.append(frame)
    return frames


async def test_the_whole_text_at_the_end_replaces_the_pieces(floor: Floor) -> None:
    floor.add("ALPHA", saying(TextPart("thinking aloud"), EndPart(text="the answer", truncated=True)))
    await floor.ask("@ALPHA go")
    await floor.reach("done")
    (answer,) = [m for m in await all_messages(floor.store) if m.kind is Kind.AGENT]
    assert (answer.body, answer.meta["truncated"]) == ("the answer", True)


async def test_a_locked_database_delays_the_answer_and_doubles_nothing(tmp_path: Path) -> None:
    store = await open_room(tmp_path, busy_timeout_s=0.2)
    floor = Floor(store)
    gate, begun = asyncio.Event(), asyncio.Event()
    agent = floor.add("ALPHA", held(gate, begun))
    try:
        await floor.ask("@ALPHA go")
        await begun.wait()
        blocker = Blocker(tmp_path)
        await blocker.take()
        gate.set()

        async def waits() -> bool:
            return any("waits for the database" in one["text"] for one in floor.turns.log_of("ALPHA", 10))

        await until(waits)
        await asyncio.sleep(0.5)
        await blocker.let_go()
        await floor.reach("done")
        assert len(await floor.answers()) == len(agent.turns) == 1
    finally:
        await floor.close()
        await store.close()


async def test_a_session_that_cannot_be_kept_does_not_end_the_turn(tmp_path: Path) -> None:
    store = await open_room(tmp_path, busy_timeout_s=0.1)
    floor = Floor(store)
    blocker = Blocker(tmp_path)

    async def play(turn: Turn) -> AsyncIterator[Part]:
        await blocker.take()
        yield SessionPart("conversation-8")
        await blocker.let_go()
        yield TextPart("done all the same")
        yield EndPart()

    floor.add("ALPHA", play)
    try:
        await floor.ask("@ALPHA go")
        await floor.reach("done")
    finally:
        await blocker.let_go()
        await floor.close()
        await store.close()


async def test_a_cancel_while_the_end_is_recorded_loses_nothing(tmp_path: Path) -> None:
    store = await open_room(tmp_path, busy_timeout_s=0.2)
    floor = Floor(store)
    gate, begun = asyncio.Event(), asyncio.Event()
    floor.add("ALPHA", held(gate, begun))
    try:
        await floor.ask("@ALPHA go")
        await begun.wait()
        blocker = Blocker(tmp_path)
        await blocker.take()
        gate.set()
        await until(lambda: _noted(floor))
        floor.turns.cancel("ALPHA", "ann")
        await asyncio.sleep(0.05)
        await blocker.let_go()
        await floor.reach("done")
        await floor.ask("@ALPHA again")
        await floor.reach("done", "done")
    finally:
        await floor.close()
        await store.close()


async def _noted(floor: Floor) -> bool:
    return bool(floor.turns.log_of("ALPHA", 10))


async def test_a_turn_cancelled_before_its_first_step_ends(floor: Floor) -> None:
    """Between the claim and the turn's first step nothing of the turn runs that could record its end."""
    agent = floor.add("ALPHA")
    asked = []

    def wish(name: str) -> None:
        if not asked and name in floor.turns.by_agent:
            asked.append(floor.turns.cancel(name, "ann"))

    floor.hooks.state_changed = wish  # type: ignore[method-assign]
    await floor.ask("@ALPHA one")
    await floor.reach("skipped")
    assert asked == [True]
    assert agent.turns == []
    await floor.ask("@ALPHA two")
    await floor.reach("skipped", "done")


async def test_a_job_cancelled_while_it_is_claimed_does_not_begin(floor: Floor) -> None:
    agent = floor.add("ALPHA")
    assert floor.turns.cancel("ALPHA", "ann", job=1) is False
    await floor.ask("@ALPHA one")
    jobs = await floor.reach("skipped")
    assert "cancelled by ann" in (jobs[0].error or "")
    assert agent.turns == []
    # One that had ended when its cancel came is no other turn of that job.
    assert floor.turns.cancel("ALPHA", "ann", job=2, began=1.0) is False
    await floor.ask("@ALPHA two")
    await floor.reach("skipped", "done")


@SQLITE
async def test_the_lease_of_a_running_turn_is_kept(floor: Floor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("relay.room.dispatch.worker.RENEW_S", 0.1)
    gate, begun = asyncio.Event(), asyncio.Event()
    floor.add("ALPHA", held(gate, begun))
    await floor.ask("@ALPHA one")
    await begun.wait()

    async def lease() -> float:
        row = (await floor.store.read(lambda tx: tx.all(Q.active_jobs)))[0]
        until_s: float = row["lease_until"]
        return until_s

    first = await lease()

    async def renewed() -> bool:
        return await lease() > first

    await until(renewed)
    gate.set()


async def test_what_has_to_wait_wakes_nobody(floor: Floor) -> None:
    """A job of a paused agent is looked at when something changes, not round and round."""
    asked = 0
    member = Member("ALPHA", "played", replace(floor.policy, agent="ALPHA"), agent=Played("ALPHA"))

    class Counting(Roster):
        @property
        def members(self) -> Mapping[str, Member]:
            nonlocal asked
            asked += 1
            return {"ALPHA": member}

        @members.setter
        def members(self, members: Mapping[str, Member]) -> None: ...

    await floor.store.write(lambda tx: tx.execute(Q.set_paused, name="ALPHA", paused=1))
    floor.roster = Counting()
    floor.use(floor.hooks)
    floor.set_members()
    await floor.ask("@ALPHA one")
    await asyncio.sleep(0.5)
    assert 1 <= asked < 20
    await floor.store.write(lambda tx: tx.execute(Q.set_paused, name="ALPHA", paused=0))
    await floor.ask("@ALPHA two")
    await floor.reach("done", "done")


async def test_an_interrupted_turn_begins_again_at_once_with_the_advice(floor: Floor) -> None:
    begun = asyncio.Event()

    async def play(turn: Turn) -> AsyncIterator[Part]:
        yield SessionPart("conversation-7")
        yield UsagePart(10, 5)
        begun.set()
        if "STEER" not in turn.prompt:
            await asyncio.Event().wait()
        yield TextPart("steered clear")
        yield EndPart()

    floor.policy = replace(floor.policy, max_attempts=1, threshold=1)
    agent = floor.add("ALPHA", play)
    await floor.ask("@ALPHA go")
    await begun.wait()
    assert await floor.turns.interrupt("ALPHA", "STEER: BETA holds a.py")
    (job,) = await floor.reach("done")
    first, second = agent.turns
    assert (first.interrupted, first.resume) == (False, None)
    assert (second.interrupted, second.resume) == (True, "conversation-7")
    assert second.prompt == f"[RELAY] STEER: BETA holds a.py\n\n{first.prompt}"
    assert (job.attempts, agent.ended) == (1, 2)
    assert await floor.answers() == ["steered clear"]
    spent = await floor.store.read(lambda tx: load_spent(tx, "ALPHA", job.ended_at or 0.0))
    assert spent.tokens == 30


async def test_the_advice_of_an_interrupted_turn_survives_the_daemon(store: Store) -> None:
    first, begun = Floor(store), asyncio.Event()
    try:
        first.add("ALPHA", held(asyncio.Event(), begun))
        await first.ask("@ALPHA go")
        await begun.wait()
        first.set_members()  # it takes no further turn
        assert await first.turns.interrupt("ALPHA", "STEER clear of a.py")
        (job,) = await all_jobs(store)
        assert (job.state, job.error, job.error_class) == ("pending", "STEER clear of a.py", "advisory")
    finally:
        await first.close()
    second = Floor(store)
    try:
        agent = second.add("ALPHA")
        await second.reach("done")
        assert agent.turns[0].prompt.startswith("[RELAY] STEER clear of a.py\n\n")
    finally:
        await second.close()


async def test_there_is_nothing_to_interrupt(floor: Floor) -> None:
    gate, begun = asyncio.Event(), asyncio.Event()
    floor.add("ALPHA", held(gate, begun))
    assert not await floor.turns.interrupt("ALPHA", "no turn")
    assert not await floor.turns.interrupt("NOBODY", "no such agent")
    await floor.ask("@ALPHA go")
    await begun.wait()
    floor.turns.cancel("ALPHA", "ann")
    assert not await floor.turns.interrupt("ALPHA", "a person was quicker")
    (job,) = await floor.reach("skipped")
    assert job.error_class == "cancelled"


async def test_a_turn_interrupted_before_its_first_step_begins_again(floor: Floor) -> None:
    wishes: list[asyncio.Task[bool]] = []

    def wish(name: str) -> None:
        if name in floor.turns.by_agent and not wishes:
            wishes.append(asyncio.create_task(floor.turns.interrupt(name, "at once")))

    floor.hooks.state_changed = wish  # type: ignore[method-assign]
    agent = floor.add("ALPHA")
    await floor.ask("@ALPHA go")
    await floor.reach("done")
    if await wishes[0]:
        assert agent.turns[-1].prompt.startswith("[RELAY] at once")


async def test_the_places_that_tools_name_are_told(floor: Floor, tmp_path: Path) -> None:
    told: list[tuple[str, tuple[Location, ...]]] = []
    floor.hooks.locations_named = lambda agent, places: told.append((agent, tuple(places)))  # type: ignore[method-assign]
    root = tmp_path / "tree"
    (root / "src").mkdir(parents=True)
    (root / "out").symlink_to(tmp_path)
    inside = Location(str(root / "src" / "a.py"), (3, 9), True)
    outside = [
        Location("/etc/passwd"),
        Location(str(root / "out" / "b.py")),
        Location("../c.py"),
        Location("."),
    ]
    floor.add(
        "ALPHA",
        saying(
            ToolPart("edit", "a.py", (inside.path, "src/../b.py"), (inside, *outside)),
            ToolPart("", "", (), (Location("late.py", (1, 1), False),)),
            ToolPart("shell", "make"),
            TextPart("done"),
            EndPart(),
        ),
        cwd=root,
    )
    await floor.ask("@ALPHA go")
    await floor.reach("done")
    assert told == [
        ("ALPHA", (Location("src/a.py", (3, 9), True), Location("b.py"))),
        ("ALPHA", (Location("late.py", (1, 1), False),)),
    ]
    (answer,) = [m for m in await all_messages(floor.store) if m.kind is Kind.AGENT]
    assert answer.meta["tools"] == ["edit: a.py", "shell: make"]


class Meadow(TurnHooks):
    """Gives every agent a folder of its own, and counts."""

    def __init__(
        self, folder: Path, changes: Changes | None = None, fails: bool = False, done: str = ""
    ) -> None:
        self.folder, self.changes, self.fails, self.done = folder, changes, fails, done
        self.told: list[str] = []

    async def before_turn(self, plan: Plan, *, take_main: bool) -> Workplace | None:
        self.told.append(f"before {plan.agent}{' taking main' * take_main}")
        return Workplace(self.folder / plan.agent, may_edit=True, done=self.done)

    async def after_turn(self, plan: Plan) -> Changes | None:
        self.told.append(f"after {plan.agent}")
        if self.fails:
            raise RuntimeError("no idea")
        return self.changes

    async def record_changes(self, tx: Tx, plan: Plan, changes: Changes) -> None:
        self.told.append(f"recorded {plan.agent}")
        await events.append(tx, NewEvent("note", plan.lane, parents=[plan.event_id]))


async def test_a_turn_works_in_its_place_and_its_answer_says_what_it_changed(
    floor: Floor, tmp_path: Path
) -> None:
    changes = Changes("relay/alpha", 2, 30, 4)
    floor.use(meadow := Meadow(tmp_path, changes))
    agent = floor.add("ALPHA", cwd=tmp_path / "elsewhere")
    await floor.ask("@ALPHA change it")
    await floor.reach("done")
    assert [(turn.cwd, turn.may_edit) for turn in agent.turns] == [(tmp_path / "ALPHA", True)]
    assert meadow.told == ["before ALPHA", "after ALPHA", "recorded ALPHA"]
    answer = next(message for message in await all_messages(floor.store) if message.kind is Kind.AGENT)
    assert answer.meta["worktree"] == changes.as_json()


async def test_a_turn_in_which_nothing_is_left_to_do_is_skipped_with_the_reason(
    floor: Floor, tmp_path: Path
) -> None:
    why = "relay/alpha has all of main: nothing is left to do"
    floor.use(meadow := Meadow(tmp_path, done=why))
    agent = floor.add("ALPHA")
    await floor.advise("ALPHA")
    (job,) = await floor.reach("skipped")
    assert (job.error, agent.turns, await floor.answers()) == (why, [], [])
    assert meadow.told == ["before ALPHA taking main", "after ALPHA"]
    # It reads of it in its next turn; a person's message begins one whatever the room has asked besides.
    begun, gate = asyncio.Event(), asyncio.Event()
    agent = floor.add("ALPHA", held(gate, begun))
    await floor.ask("@ALPHA go on")
    await begun.wait()
    assert "merge main into your branch" in agent.turns[0].context
    await floor.ask("@ALPHA and this")
    await floor.advise("ALPHA")
    gate.set()
    await floor.reach("skipped", "done", "done", "done")
    assert "and this" in agent.turns[1].prompt and "merge main" in agent.turns[1].prompt


async def test_a_cancelled_turn_leaves_its_place_too(floor: Floor, tmp_path: Path) -> None:
    begun = asyncio.Event()
    floor.use(meadow := Meadow(tmp_path))
    floor.add("ALPHA", held(asyncio.Event(), begun))
    await floor.ask("@ALPHA change it")
    await begun.wait()
    assert floor.turns.cancel("ALPHA", "ann")
    await floor.reach("skipped")
    assert meadow.told == ["before ALPHA", "after ALPHA"]


async def test_an_answer_is_worth_more_than_what_it_changed(floor: Floor, tmp_path: Path) -> None:
    floor.use(Meadow(tmp_path, fails=True))
    floor.add("ALPHA")
    await floor.ask("@ALPHA change it")
    await floor.reach("done")
    assert len(await floor.answers()) == 1


async def test_an_answer_is_worth_more_than_the_record_of_what_it_changed(
    floor: Floor, tmp_path: Path
) -> None:
    class Unrecorded(Meadow):
        async def record_changes(self, tx: Tx, plan: Plan, changes: Changes) -> None:
            if changes.touches:
                raise RuntimeError("no idea")

    touches = (Touch("a.py", None, "1", TouchKind.WRITE),)
    floor.use(Unrecorded(tmp_path, Changes("relay/alpha", 1, 1, 0, touches=touches)))
    floor.add("ALPHA")
    await floor.ask("@ALPHA change it")
    await floor.reach("done")
    assert len(await floor.answers()) == 1


def test_places_are_told_from_the_top_of_the_checkout(tmp_path: Path) -> None:
    (tmp_path / "tree" / "src").mkdir(parents=True)
    named = [
        Location("a.py"),
        Location("../b.py"),
        Location("../../c.py"),
        Location(str(tmp_path / "tree/d.py")),
    ]
    found = within(named, tmp_path / "tree" / "src", tmp_path / "tree")
    assert [place.path for place in found] == ["src/a.py", "b.py", "d.py"]
