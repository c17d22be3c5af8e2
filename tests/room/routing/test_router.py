"""Routing with the dispatcher behind a real socket: decisions, failures, folding, restarts, people's word."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from relay.log import events
from relay.model import DISPATCHER, Kind, Message
from relay.room.dispatch.roster import Member, Policy, Roster
from relay.room.dispatch.running import TurnHooks
from relay.room.journal import ledger
from relay.room.journal.ledger import Q
from relay.room.journal.live_bus import Live
from relay.room.journal.values import CycleState
from relay.room.routing import router as cycle
from relay.room.routing.local_model import Dispatcher
from relay.room.routing.router import Router
from relay.store.ports import Store
from tests.engines import BOTH, SQLITE, T0, Clock, all_events
from tests.fakes.ollama import FakeOllama, Mode, by_words
from tests.room.parts import PATIENT_S, all_jobs, all_messages, notices, plan_of, post, until, waiting_cycles

pytestmark = BOTH


def roster_of(*names: str, **more: Any) -> Roster:
    return Roster({name: Member(name, "played", Policy(name), **more) for name in names})


ROSTER = roster_of("ALPHA", "BETA")


@asynccontextmanager
async def routing(
    store: Store,
    fake: FakeOllama,
    clock: Clock,
    *,
    roster: Roster = ROSTER,
    timeout_s: float = PATIENT_S,
    enabled: bool = True,
) -> AsyncIterator[Router]:
    """A router that runs."""
    dispatcher = Dispatcher("llama3.2", host=fake.url, timeout_s=timeout_s, enabled=enabled)
    router = Router(store, Live(), dispatcher, roster, TurnHooks(), clock=clock)
    running = asyncio.create_task(router.run())
    try:
        yield router
        assert not running.done(), running
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await dispatcher.close()


async def decided(store: Store, message: Message) -> dict[str, Any]:
    """The decision on a message, as its entry shows it."""

    async def known() -> Any:
        found = await store.read(lambda tx: ledger.message(tx, message.id))
        assert found is not None
        return found.meta.get("decision")

    return dict(await until(known))


async def state_of(store: Store, message: Message) -> str:
    row = await store.read(lambda tx: tx.one(Q.cycle, message_id=message.id))
    assert row is not None
    return str(row["state"])


async def jobs_of(store: Store, message: Message) -> list[str]:
    return [job.agent for job in await all_jobs(store) if job.message_id == message.id]


@pytest.mark.parametrize(
    ("body", "action", "state", "agents", "reply"),
    [
        ("please look at the parser, beta", "route", CycleState.ROUTED, ["BETA"], None),
        ("alpha and beta, which is better?", "route", CycleState.ROUTED, ["ALPHA", "BETA"], None),
        ("thanks!", "absorb", CycleState.ABSORBED, [], "You are welcome."),
        ("fix it", "clarify", CycleState.CLARIFIED, [], "What is broken?"),
    ],
)
async def test_a_decision_is_carried_out_and_seen(
    store: Store,
    fake_ollama: FakeOllama,
    clock: Clock,
    body: str,
    action: str,
    state: CycleState,
    agents: Sequence[str],
    reply: str | None,
) -> None:
    fake_ollama.decide = by_words
    asked = await post(store, body, clock())
    clock.move(2)
    async with routing(store, fake_ollama, clock):
        decision = await decided(store, asked)
    assert decision["action"] == action
    assert {"reason", "took_ms", "model"} <= set(decision)
    assert await state_of(store, asked) == state
    assert await jobs_of(store, asked) == agents
    said = [m for m in await all_messages(store) if m.kind is Kind.DISPATCHER]
    assert [(m.speaker, m.body, m.in_reply_to) for m in said] == (
        [(DISPATCHER, reply, asked.id)] if reply else []
    )
    (event,) = await all_events(store, ledger.DECIDED)
    assert event.outputs["cycles"][-1]["action"] == action
    assert [job["agent"] for job in event.outputs["jobs"]] == agents
    chain = await store.read(lambda tx: events.why(tx, event.id))
    assert chain[-1].outputs["message"]["id"] == asked.id


@SQLITE
@pytest.mark.parametrize(
    "mode",
    [
        Mode.HANG,
        Mode.BAD_CONTENT,
        Mode.UNKNOWN_AGENT,
        Mode.EMPTY,
        Mode.ERROR,
        Mode.MISSING_MODEL,
        Mode.NOT_JSON,
        Mode.CUT,
    ],
)
async def test_whatever_is_wrong_all_active_agents_are_asked_and_the_room_hears_it_once(
    store: Store, fake_ollama: FakeOllama, clock: Clock, mode: Mode
) -> None:
    fake_ollama.mode = mode
    async with routing(store, fake_ollama, clock, timeout_s=1.0 if mode is Mode.HANG else PATIENT_S):
        for i in range(3):
            asked = await post(store, f"question {i}", clock())
            clock.move(2)
            assert (await decided(store, asked))["action"] == "fallback"
            assert await jobs_of(store, asked) == ["ALPHA", "BETA"]
        assert len(await notices(store, "dispatcher")) == 1
        fake_ollama.mode = Mode.ANSWER
        asked = await post(store, "and now?", clock())
        clock.move(2)
        assert (await decided(store, asked))["action"] == "route"
    told = await notices(store, "dispatcher")
    assert [("decides again" in notice.body) for notice in told] == [False, True]


async def test_no_server_at_all_and_back_again_by_the_probe(
    store: Store, fake_ollama: FakeOllama, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("relay.room.routing.router.PROBE_EVERY_S", 0.05)
    await fake_ollama.stop()
    async with routing(store, fake_ollama, clock) as router:
        asked = await post(store, "anybody?", clock())
        clock.move(2)
        assert (await decided(store, asked))["agents"] == ["ALPHA", "BETA"]
        assert router.state_json()["state"] == "fallback"
        await fake_ollama.start()

        async def back() -> bool:
            return len(await notices(store, "dispatcher")) == 2

        await until(back)
        assert router.state_json()["state"] == "ok"


async def test_what_is_shown_is_what_happens_however_often_it_falls_back(
    store: Store, fake_ollama: FakeOllama, clock: Clock
) -> None:
    """When the room hears that it is over may wait until it lasts; what the interfaces show may not."""
    asked_at = 0
    async with routing(store, fake_ollama, clock) as router:
        for mode, action in (
            (Mode.BAD_CONTENT, "fallback"),
            (Mode.ANSWER, "route"),
            (Mode.BAD_CONTENT, "fallback"),
            (Mode.ANSWER, "route"),
            (Mode.UNKNOWN_AGENT, "fallback"),
            (Mode.ANSWER, "route"),
        ):
            fake_ollama.mode = mode
            asked_at += 1
            asked = await post(store, f"question {asked_at}", clock())
            clock.move(2)
            assert (await decided(store, asked))["action"] == action
            shown = router.state_json()
            assert shown["state"] == ("fallback" if action == "fallback" else "ok"), asked_at
            assert bool(shown["detail"]) == (action == "fallback"), asked_at


async def test_that_the_server_is_there_ends_no_fallback_that_its_answers_caused(
    store: Store, fake_ollama: FakeOllama, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("relay.room.routing.router.PROBE_EVERY_S", 0.02)
    fake_ollama.mode = Mode.BAD_CONTENT
    async with routing(store, fake_ollama, clock) as router:
        asked = await post(store, "anybody?", clock())
        clock.move(2)
        assert (await decided(store, asked))["action"] == "fallback"
        looks = fake_ollama.looks

        async def looked() -> bool:
            return fake_ollama.looks > looks + 2

        await until(looked)
        shown = router.state_json()
        assert shown["state"] == "fallback"
        assert "no usable decision" in shown["detail"]


async def test_switched_off_is_no_outage(store: Store, fake_ollama: FakeOllama, clock: Clock) -> None:
    asked = await post(store, "hello", clock())
    clock.move(2)
    async with routing(store, fake_ollama, clock, enabled=False) as router:
        assert (await decided(store, asked))["action"] == "off"
        assert router.state_json()["state"] == "off"
    assert await jobs_of(store, asked) == ["ALPHA", "BETA"]
    assert await notices(store) == []
    assert fake_ollama.requests == []


async def test_only_the_latest_opens_a_cycle_with_the_others_in_its_context(
    store: Store, fake_ollama: FakeOllama, clock: Clock
) -> None:
    first = await post(store, "the parser", clock())
    mentioned = await post(store, "@BETA hello", clock.move(0.1))
    second = await post(store, "is broken", clock.move(0.1))
    last = await post(store, "who can look?", clock.move(0.1))
    clock.move(5)
    async with routing(store, fake_ollama, clock):
        await decided(store, last)
    assert [await state_of(store, m) for m in (first, second, last)] == ["folded", "folded", "routed"]
    assert [await jobs_of(store, m) for m in (first, mentioned, second, last)] == [
        [],
        ["BETA"],
        [],
        ["ALPHA"],
    ]
    found = {m.id: m.meta for m in await all_messages(store)}
    assert [found[m.id].get("folded_into") for m in (first, second, last)] == [last.id, last.id, None]
    (event,) = await all_events(store, ledger.DECIDED)
    assert [(c["message_id"], c["state"]) for c in event.outputs["cycles"]] == [
        (first.id, "folded"),
        (second.id, "folded"),
        (last.id, "routed"),
    ]
    assert len(fake_ollama.requests) == 1
    plan = await plan_of(store, Policy("ALPHA"), clock())
    assert plan.context == "[ann] the parser\n[ann] @BETA hello\n[ann] is broken"


@pytest.mark.parametrize(("before", "wait_s"), [(0, 2.0), (2, 1.0), (4, 0.5)])
async def test_a_busy_room_waits_less(
    store: Store, fake_ollama: FakeOllama, clock: Clock, before: int, wait_s: float
) -> None:
    """`jitter.busy` 5 and `jitter.medium` 3 entries in the last minute, the message itself included."""
    await post(store, "@BETA long ago", clock())
    clock.move(61)
    for _ in range(before):
        await post(store, "@BETA talk", clock())
    asked = await post(store, "question", clock())
    async with routing(store, fake_ollama, clock):
        clock.move(wait_s - 0.01)
        await post(store, "@BETA wakes the router", clock())
        await asyncio.sleep(0.1)
        assert await waiting_cycles(store) == [asked.id]
        clock.move(0.02)
        await decided(store, asked)


async def test_typing_on_puts_a_cycle_off_but_not_for_ever(
    store: Store, fake_ollama: FakeOllama, clock: Clock
) -> None:
    async with routing(store, fake_ollama, clock):
        asked = []
        for i in range(30):
            asked.append(await post(store, f"word {i}", clock()))
            if i < 10:
                assert len(await waiting_cycles(store)) == i + 1
            clock.move(0.4)
        assert clock() - T0 > cycle.LONGEST_WAIT_S

        async def one_decided() -> bool:
            return len(await waiting_cycles(store)) < 30

        await until(one_decided)


async def test_a_restart_resumes_a_cycle(store: Store, fake_ollama: FakeOllama, clock: Clock) -> None:
    fake_ollama.mode = Mode.HANG
    asked = await post(store, "hello", clock())
    clock.move(2)
    async with routing(store, fake_ollama, clock):
        await asyncio.wait_for(fake_ollama.answering.wait(), PATIENT_S)
    assert await state_of(store, asked) == "routing"
    fake_ollama.mode = Mode.ANSWER
    async with routing(store, fake_ollama, clock):
        assert (await decided(store, asked))["action"] == "route"
    assert await jobs_of(store, asked) == ["ALPHA"]
    assert await notices(store) == []


async def overrule(store: Store, message: Message, agents: list[str], now: float) -> list[str]:
    return await store.write(lambda tx: cycle.overrule(tx, message, agents, by="bob", now=now, parents=[]))


async def test_a_person_decides_before_the_dispatcher_does(
    store: Store, fake_ollama: FakeOllama, clock: Clock
) -> None:
    fake_ollama.mode = Mode.LATE
    fake_ollama.delay_s = 0.3
    asked = await post(store, "hello", clock())
    clock.move(2)
    async with routing(store, fake_ollama, clock):
        await asyncio.wait_for(fake_ollama.answering.wait(), PATIENT_S)
        assert await overrule(store, asked, ["BETA"], clock()) == ["BETA"]
        other = await post(store, "next", clock())
        clock.move(2)
        await decided(store, other)
    assert await jobs_of(store, asked) == ["BETA"]
    assert (await decided(store, asked))["by"] == "bob"
    assert len([m for m in await all_messages(store) if m.kind is Kind.DISPATCHER]) == 0


async def test_a_person_overrules_what_was_decided(
    store: Store, fake_ollama: FakeOllama, clock: Clock
) -> None:
    asked = await post(store, "hello", clock())
    clock.move(2)
    async with routing(store, fake_ollama, clock):
        await decided(store, asked)
    assert await overrule(store, asked, ["BETA"], clock()) == ["BETA"]
    assert [(j.agent, j.state, j.error_class) for j in await all_jobs(store)] == [
        ("ALPHA", "skipped", "overruled"),
        ("BETA", "pending", None),
    ]
    # And back again: the agent that was skipped is asked anew.
    assert await overrule(store, asked, ["ALPHA"], clock()) == ["ALPHA"]
    assert [(j.agent, j.state) for j in await all_jobs(store)] == [("ALPHA", "pending"), ("BETA", "skipped")]
    assert await overrule(store, asked, ["ALPHA"], clock()) == []


@pytest.mark.parametrize(
    "roster", [Roster(), roster_of("ALPHA", installed=False), roster_of("ALPHA", enabled=False)]
)
async def test_with_nobody_to_ask_the_steward_answers(
    store: Store, fake_ollama: FakeOllama, clock: Clock, roster: Roster
) -> None:
    asked = await post(store, "hello", clock())
    clock.move(2)
    async with routing(store, fake_ollama, clock, roster=roster):
        assert (await decided(store, asked))["action"] == "steward"
    assert await state_of(store, asked) == "steward"
    assert await jobs_of(store, asked) == ["RELAY"]
    assert fake_ollama.requests == []


async def test_paused_agents_are_not_asked(store: Store, fake_ollama: FakeOllama, clock: Clock) -> None:
    await store.write(lambda tx: tx.execute(Q.set_paused, name="ALPHA", paused=1))
    asked = await post(store, "hello", clock())
    clock.move(2)
    async with routing(store, fake_ollama, clock):
        await decided(store, asked)
    assert await jobs_of(store, asked) == ["BETA"]


async def test_half_a_character_in_a_decision_stops_nothing(
    store: Store, fake_ollama: FakeOllama, clock: Clock
) -> None:
    fake_ollama.decide = lambda _: {
        "reason": "half \ud83d",
        "action": "absorb",
        "agents": [],
        "reply": "Hi \ud800 there",
    }
    asked = await post(store, "hello", clock())
    clock.move(2)
    async with routing(store, fake_ollama, clock):
        await decided(store, asked)
    assert [m.body for m in await all_messages(store) if m.kind is Kind.DISPATCHER] == ["Hi ? there"]


async def test_a_clock_that_was_stepped_back_holds_no_cycle(
    store: Store, fake_ollama: FakeOllama, clock: Clock
) -> None:
    asked = await post(store, "hello", clock())
    clock.move(-3600)
    async with routing(store, fake_ollama, clock):
        await decided(store, asked)


async def test_a_dispatcher_that_is_replaced_in_the_middle_of_a_decision_is_no_outage(
    store: Store, fake_ollama: FakeOllama, clock: Clock
) -> None:
    other = FakeOllama(("better:latest",))
    await other.start()
    better = Dispatcher("better", host=other.url, timeout_s=PATIENT_S)
    fake_ollama.mode = Mode.HANG
    try:
        async with routing(store, fake_ollama, clock) as router:
            message = await post(store, "fix the parser", clock())
            clock.move(2)
            async with asyncio.timeout(PATIENT_S):
                await fake_ollama.answering.wait()
            await router.use(better).retire()
            assert router.state_json()["state"] == "unknown"
            await fake_ollama.stop()  # the decision under way breaks off
            assert (await decided(store, message))["model"] == "better"
            assert await notices(store, "dispatcher") == []
    finally:
        await better.close()
        await other.stop()
