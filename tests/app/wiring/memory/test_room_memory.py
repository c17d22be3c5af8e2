from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from relay.app.wiring.memory.observing import RoomMemory
from relay.app.wiring.memory.recalled import stands
from relay.app.wiring.memory.room_commands import MemoryActions
from relay.app.wiring.memory.turn_memories import TurnMemories
from relay.config.loading import parse
from relay.config.settings import LiveSettings
from relay.log import follow
from relay.log.events import Event, Lane
from relay.log.verify import verify
from relay.memory import given
from relay.memory.episodic import keeping
from relay.memory.episodic.forgetting import forget
from relay.memory.episodic.keeping import NewMemory, keep
from relay.memory.experience import Experience
from relay.memory.knowledge.entry import Access, Extractor, Visibility, entry_id
from relay.memory.knowledge.entry import Kind as KnowledgeKind
from relay.memory.knowledge.extractors import extract
from relay.memory.knowledge.ingest import KnowledgeFollower
from relay.memory.knowledge.line_forms import Statement
from relay.memory.knowledge.quotable import texts_by
from relay.memory.knowledge.recording import record
from relay.memory.prompt import HEADER, Quote
from relay.memory.ranking.counts import TEXTS, counts_of
from relay.memory.working import WorkingMemory
from relay.model import Caller, EndPart, FailureClass, Kind, Message, Part, TextPart, Turn
from relay.room.dispatch.running import TurnHooks
from relay.room.dispatch.turns import Given, Recollection
from relay.store.ports import Store
from tests import engines
from tests.coordination.standins import Beats
from tests.engines import BOTH, Clock, all_events
from tests.room.floor import Floor
from tests.room.office import Office
from tests.room.parts import all_messages, post, until

pytestmark = BOTH
SCHEMAS = engines.wings("log", "coordination", "room", "memory", "knowledge")
LESSON = "never mock the clock here, it hid a bug"
ASKED = "@ALPHA write a test for the scheduler; you may mock the clock"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def store(tmp_path: Path, clock: Clock) -> AsyncIterator[Store]:
    store = await engines.open_store(tmp_path, SCHEMAS, clock=clock)
    yield store
    assert await verify(store) == []
    await store.close()


@pytest.fixture
def settings(tmp_path: Path) -> LiveSettings:
    return live(tmp_path)


def live(folder: Path, **memory: Any) -> LiveSettings:
    return LiveSettings(parse(json.dumps({"agents": [], "memory": memory}), folder / "config.json"))


class Hooks(TurnHooks):
    def __init__(self, memories: TurnMemories) -> None:
        self._memories = memories

    async def recollect(self, agent: str, messages: Sequence[Message]) -> Recollection | None:
        return await self._memories.recollect(agent, messages)


class Remembering:
    """A room's memory whose followers a test drives."""

    def __init__(self, store: Store, settings: LiveSettings) -> None:
        self.store, self.memory = store, RoomMemory(store, settings)

    async def begin(self) -> None:
        await self.store.write(self.memory._begin)

    async def follow(self) -> None:
        while (await follow.step(self.store, self.memory.follower)).applied:
            pass

    async def remembered(self) -> list[dict[str, Any]]:
        rows = await self.store.read(lambda tx: tx.all(keeping.Q.newest_memories, limit=100))
        lists = ("details", "lessons", "tags")
        return [
            {**row, **{name: json.loads(row[name]) for name in lists}}
            for row in sorted(rows, key=lambda row: int(row["number"]))
        ]


@pytest.fixture
async def room(store: Store, settings: LiveSettings) -> Remembering:
    room = Remembering(store, settings)
    await room.begin()
    return room


async def test_the_room_remembers_what_is_said_once(room: Remembering) -> None:
    message = await post(room.store, LESSON, 1.0)
    await post(room.store, "thanks!", 2.0)
    await room.follow()
    await room.follow()
    (memory,) = await room.remembered()
    assert (memory["summary"], memory["agent_id"], memory["session_id"]) == (LESSON, "ann", "room")
    (posted, _) = await all_events(room.store, "message.posted")
    assert posted.id == memory["event_id"]
    assert posted.outputs["message"]["id"] == message.id
    assert await all_events(room.store, "memory.remembered") == [], "the message's event says it"


async def test_what_is_said_again_has_an_event_that_names_it(room: Remembering) -> None:
    """So that all of it is forgotten together."""
    for at in (1.0, 2.0):
        await post(room.store, LESSON, at)
        await room.follow()
    (memory,) = await room.remembered()
    (event,) = await all_events(room.store, "memory.remembered")
    first, again = (posted.id for posted in await all_events(room.store, "message.posted"))
    assert (memory["event_id"], list(event.parents)) == (first, [again])
    ann = Caller("ann", "room", person=True)
    await room.store.write(lambda tx: forget(tx, ann, "r1"))
    (forgotten,) = await all_events(room.store, "memory.forgotten")
    assert forgotten.outputs["memory"]["event_ids"] == sorted([first, again])


async def test_what_is_taken_in_together_is_as_one_by_one(store: Store, settings: LiveSettings) -> None:
    room = Remembering(store, settings)
    await room.begin()
    # Some are said again among those that are taken in together, and some of them later.
    said = [f"lesson {at % 3} about the scheduler of part {at % 2}" for at in range(20)]
    for at, text in enumerate(said):
        await post(store, text, float(at))
        if at >= len(said) // 2:
            await room.follow()
    memories = await room.remembered()
    kept = {memory["summary"]: memory["merged"] for memory in memories}
    assert kept == Counter(said)
    assert [memory["number"] for memory in memories] == [*range(1, len(kept) + 1)]
    assert [memory["summary"] for memory in memories] == list(dict.fromkeys(said))
    counted = await store.read(lambda tx: counts_of(tx, keeping.KIND, ["lesson", "schedul", "part"]))
    assert [counted[word] for word in ("lesson", "schedul", "part", TEXTS)] == [len(kept)] * 4


async def test_keys_and_tokens_are_masked(room: Remembering) -> None:
    await post(room.store, f"the key of the registry is sk-{'a1' * 20}", 1.0)
    await room.follow()
    (memory,) = await room.remembered()
    assert "a1a1" not in str(memory)


async def test_the_past_is_taken_in_behind_what_happens_now(store: Store, settings: LiveSettings) -> None:
    for at in range(45):
        await post(store, f"lesson number{at} about scheduling", float(at * 4000))
    room = Remembering(store, settings)
    await room.begin()
    await post(store, LESSON, 1_000_000.0)
    await room.follow()
    assert [memory["summary"] for memory in await room.remembered()] == [LESSON]
    await room.memory.take_in_past()
    assert len(await room.remembered()) == 46
    await Remembering(store, settings).memory.take_in_past()
    assert len(await room.remembered()) == 46
    kept = await store.read(lambda tx: tx.one(follow.Q.follower, name="memory-past"))
    assert kept is None, "an archive waits for whoever has a place in the log"


async def test_with_observe_off_nothing_is_kept(store: Store, tmp_path: Path) -> None:
    room = Remembering(store, live(tmp_path, observe=False))
    await room.begin()
    await post(store, LESSON, 1.0)
    await room.follow()
    assert await room.remembered() == []


@pytest.fixture
async def floor(room: Remembering, settings: LiveSettings) -> AsyncIterator[Floor]:
    floor = Floor(room.store)
    floor.use(Hooks(TurnMemories(room.store, settings)))
    yield floor
    await floor.close()


async def turns(room: Remembering) -> list[Event]:
    return await all_events(room.store, "turn.started")


async def test_a_turn_is_given_what_bears_on_it_and_keeps_what_it_was_given(
    room: Remembering, floor: Floor
) -> None:
    alpha = floor.add("ALPHA")
    await floor.ask("@ALPHA hello there, all of you")
    await floor.reach("done")
    id = await lesson_by_another(room)
    await floor.ask(ASKED)
    await floor.reach("done", "done")
    shown = alpha.turns[-1].memories.split("\n")
    assert shown[0] == HEADER
    assert shown[1].startswith("> r1 CODEX, ")
    assert shown[1].endswith(f": {LESSON}")
    assert len(shown) == 2
    last = (await turns(room))[-1]
    assert last.inputs["memories"] == [id]
    (remembered,) = [memory for memory in await room.remembered() if memory["id"] == id]
    (kept,) = await all_events(room.store, "memory.remembered")
    assert kept.id in last.causal_deps
    assert remembered["number"] == 1
    answer = [message for message in await all_messages(room.store) if message.speaker == "ALPHA"][-1]
    assert answer.meta["memories"] == [{"id": id, "memory_type": "episodic", "reference": "r1"}]


async def lesson_by_another(room: Remembering) -> str:
    """A memory of an agent that is no message of the room, so that no turn reads it anyway."""
    new = NewMemory(Experience("lesson", LESSON), "CODEX", "codex-1", 1.0)
    return (await room.store.write(lambda tx: keep(tx, new))).id


async def test_nothing_is_given_twice_in_one_conversation(room: Remembering, floor: Floor) -> None:
    alpha = floor.add("ALPHA")
    await lesson_by_another(room)
    await floor.ask(ASKED)
    await floor.reach("done")
    await floor.ask("@ALPHA and the clock, do you mock it there")
    await floor.reach("done", "done")
    assert [bool(turn.memories) for turn in alpha.turns] == [True, False]
    beta = floor.add("BETA")
    await floor.ask("@BETA and the clock, do you mock it there")
    await floor.reach("done", "done", "done")
    assert beta.turns[0].memories


async def test_a_second_attempt_is_given_the_same_again(room: Remembering, floor: Floor) -> None:
    attempts = 0

    async def stumble(turn: Turn) -> AsyncIterator[Part]:
        nonlocal attempts
        attempts += 1
        yield TextPart("here it is, at last")
        yield EndPart(FailureClass.CRASH if attempts == 1 else None)

    alpha = floor.add("ALPHA", stumble)
    await lesson_by_another(room)
    await floor.ask(ASKED)
    await until_done(room.store, 1)
    assert [LESSON in turn.memories for turn in alpha.turns] == [True, True]


async def test_what_the_turn_reads_anyway_is_not_given(room: Remembering, floor: Floor) -> None:
    await post(room.store, LESSON, 1.0)
    await room.follow()
    alpha = floor.add("ALPHA")
    await floor.ask(ASKED)
    await floor.reach("done")
    assert LESSON in alpha.turns[0].context
    assert not alpha.turns[0].memories


async def test_what_has_nothing_to_do_with_it_is_not_given(room: Remembering, floor: Floor) -> None:
    alpha = floor.add("ALPHA")
    await lesson_by_another(room)
    await floor.ask("@ALPHA translate the readme into French")
    await floor.reach("done")
    assert not alpha.turns[0].memories


async def test_an_earlier_question_is_not_given(room: Remembering, floor: Floor) -> None:
    alpha = floor.add("ALPHA")
    new = NewMemory(Experience("message", f"{ASKED}?"), "ann", "one", 1.0)
    await room.store.write(lambda tx: keep(tx, new))
    await floor.ask(ASKED)
    await floor.reach("done")
    assert not alpha.turns[0].memories


async def test_what_another_agent_was_told_to_do_is_not_given(room: Remembering, floor: Floor) -> None:
    alpha = floor.add("ALPHA")
    text = "@CY write a test for the scheduler, with a mock of the clock"
    order = NewMemory(Experience("message", text), "ann", "one", 1.0)
    await room.store.write(lambda tx: keep(tx, order))
    await floor.ask(ASKED)
    await floor.reach("done")
    assert not alpha.turns[0].memories


async def test_its_own_answer_is_not_given_in_the_same_conversation(room: Remembering, floor: Floor) -> None:
    said = "The scheduler tests mock the clock through the fixture called ticks."

    async def answer(turn: Turn) -> AsyncIterator[Part]:
        yield TextPart(said)
        yield EndPart()

    alpha, beta = floor.add("ALPHA", answer), floor.add("BETA", answer)
    await floor.ask("@ALPHA explain how the scheduler is tested")
    await until_done(room.store, 1)
    await room.follow()
    for number in range(20):  # so that the turn reads it nowhere else
        await floor.ask(f"the weather is fine on day {number}" + ", and so it is" * 200)
    await floor.ask("@BETA write a test for the scheduler; you may mock the clock")
    await until_done(room.store, 2)  # its turn would read what the other answers
    await floor.ask("@ALPHA write a test for the scheduler; you may mock the clock")
    await until_done(room.store, 3)
    assert said not in beta.turns[0].context
    assert said in beta.turns[0].memories
    assert said not in alpha.turns[1].memories


async def test_a_prompt_begins_with_what_says_most_of_it_itself(room: Remembering, floor: Floor) -> None:
    """Not with what its conversation was asked before, nor with what only stood beside that."""
    for line in (
        LESSON,
        "DECISION: use PostgreSQL instead of MongoDB because we need transactions",
        "DECISION: branches are named after their task",
        "DECISION: the gateway is in Zig",
        "PROBLEM (high): the walrus cache loses writes at midnight",
    ):
        await floor.ask(line)

    async def read(turn: Turn) -> AsyncIterator[Part]:
        yield TextPart("I have read it, and nothing was to do.")
        yield EndPart()

    beta = floor.add("BETA", read)
    await floor.ask("@BETA write the test of the retry timer, with a mock of the clock")
    await until_done(room.store, 1)
    assert LESSON in beta.turns[0].context
    await room.follow()
    await floor.ask("@BETA now write the test of the retry timer with a mock of the clock")
    await until_done(room.store, 2)
    _, first, *others = beta.turns[1].memories.split("\n")
    assert first.startswith("> r1 ann, ") and first.endswith(f": {LESSON}")
    assert "retry timer" not in "".join(others)


async def test_with_a_budget_of_nothing_nothing_is_given(room: Remembering, tmp_path: Path) -> None:
    await lesson_by_another(room)
    memories = TurnMemories(room.store, live(tmp_path, prompt_tokens=0))
    message = await post(room.store, ASKED, 1.0)
    recollection = await memories.recollect("ALPHA", [message])
    assert recollection is not None
    given = await room.store.read(
        lambda tx: recollection.give(tx, Lane("alpha-1", "ALPHA"), messages=(), seen=())
    )
    assert given == Given()


async def test_a_resumed_conversation_begins_with_its_own_working_memory(
    room: Remembering, floor: Floor
) -> None:
    alpha, beta = floor.add("ALPHA"), floor.add("BETA")
    await floor.ask("@ALPHA hello there, all of you")
    await floor.reach("done")
    assert alpha.turns[0].memories == ""
    own = Caller("ALPHA", alpha.turns[0].room_session)
    working = WorkingMemory(room.store, sessions=Beats(), budget=lambda: 8000)
    await working.store(own, "1. read blocks\n[ann] delete all of it", critical=True, key="plan")
    await lesson_by_another(room)
    await floor.ask(ASKED)
    await floor.reach("done", "done")
    assert alpha.turns[1].room_session == own.session
    memories, _, held = alpha.turns[1].memories.partition("\n\n")
    assert held.split("\n")[1:] == ["  - plan, critical: 1. read blocks", "    [ann] delete all of it"]
    assert held.startswith("[WORKING MEMORY]") and memories.startswith(HEADER)
    await floor.ask("@BETA hello there, and to you")
    await floor.reach("done", "done", "done")
    assert "WORKING" not in beta.turns[0].memories


async def test_a_failed_recall_neither_delays_nor_fails_a_turn(
    room: Remembering, floor: Floor, monkeypatch: pytest.MonkeyPatch
) -> None:
    await lesson_by_another(room)

    async def never(*args: Any) -> Any:
        await asyncio.Event().wait()

    monkeypatch.setattr("relay.app.wiring.memory.turn_memories.RECALL_S", 0.01)
    monkeypatch.setattr("relay.app.wiring.memory.turn_memories.recalled", never)
    alpha = floor.add("ALPHA")
    await floor.ask(ASKED)
    await floor.reach("done")
    assert not alpha.turns[0].memories

    async def broken(*args: Any) -> Any:
        raise ValueError("broken")

    monkeypatch.setattr("relay.app.wiring.memory.turn_memories.recalled", broken)
    await floor.ask(ASKED)
    await floor.reach("done", "done")
    monkeypatch.undo()
    monkeypatch.setattr("relay.app.wiring.memory.turn_memories.stands", broken)
    await floor.ask(ASKED)
    await floor.reach("done", "done", "done")
    assert not alpha.turns[2].memories
    assert [message.body for message in await all_messages(room.store) if "notice" in message.meta] == []


async def test_an_answer_that_repeats_what_it_was_given_is_no_memory(room: Remembering, floor: Floor) -> None:
    async def parrot(turn: Turn) -> AsyncIterator[Part]:
        yield TextPart(f"{turn.memories}\n\nAs was said: {LESSON}")
        yield EndPart()

    floor.add("ALPHA", parrot)
    await lesson_by_another(room)
    await floor.ask(ASKED)
    await floor.reach("done")
    await room.follow()
    assert [memory["summary"] for memory in await room.remembered()] == [LESSON, ASKED]
    answer = next(event for event in await all_events(room.store, "message.posted") if event.role == "agent")
    assert await room.store.read(lambda tx: texts_by(tx, answer)) == [LESSON]


@pytest.fixture
async def office(store: Store, clock: Clock) -> AsyncIterator[Office]:
    async with Office(store, clock, memory=MemoryActions(store)).at_work() as office:
        yield office


async def test_remember_decide_and_recall_in_the_room(office: Office, room: Remembering) -> None:
    kept = await office.ask(f"/remember {LESSON}")
    assert kept.body.startswith("Remembered as r1.")
    decided = await office.ask("/decide use PostgreSQL because two hosts write")
    assert "r2" in decided.body
    found = await office.ask("/recall mock the clock")
    assert f": {LESSON}" in found.body
    assert "> r1 ann, " in found.body
    assert found.meta["notice"] == "recall"
    why = await office.ask("/recall why PostgreSQL")
    assert "because two hosts write" in why.body
    newest = await office.ask("/recall")
    assert newest.body.index("r2 ann") < newest.body.index("r1 ann")
    await room.follow()
    assert [memory["event_type"] for memory in await room.remembered()] == ["note", "decision"]


async def test_a_decision_is_knowledge_with_its_message(office: Office, room: Remembering) -> None:
    asked = await office.post("/decide use PostgreSQL instead of SQLite because two hosts write")
    await office.answer_to(asked)
    (event,) = await all_events(room.store, "knowledge.recorded")
    (posted, *_) = await all_events(room.store, "message.posted")
    assert (list(event.parents), event.inputs) == ([posted.id], {"message": asked.id})
    (draft,) = extract(event).drafts
    assert (draft.agent, draft.rationale, draft.alternatives) == ("ann", "two hosts write", ("SQLite",))
    assert (draft.extractor, draft.kind) == (Extractor.PERSON, "decision")
    (memory,) = await room.remembered()
    assert memory["event_id"] == event.id
    while (await follow.step(room.store, KnowledgeFollower())).applied:
        pass
    found = await office.ask("/recall why PostgreSQL")
    assert found.body.count("PostgreSQL") == 1
    assert "> r1 ann, " in found.body


async def test_what_holds_no_longer_is_not_given_and_says_so(
    office: Office, room: Remembering, floor: Floor
) -> None:
    beta = floor.add("BETA")
    for text in (
        "/decide use Kafka for the message bus because ops knows it",
        '/decide use NATS for the message bus (supersedes "use Kafka for the message bus")',
    ):
        await office.ask(text)
        while (await follow.step(room.store, KnowledgeFollower())).applied:
            pass
    found = (await office.ask("/recall which message bus")).body
    lines = [line for line in found.split("\n") if line.startswith("> r")]
    ended = [(line[2:4], "(no longer holds: r2 replaced it): use Kafka" in line) for line in lines]
    assert sorted(ended) == [("r1", True), ("r2", False)]
    # A decision is told as one, whichever of its memory and its knowledge was found.
    assert "(decision): use NATS" in next(line for line in lines if line.startswith("> r2"))
    for number in range(20):  # so that the turn reads it nowhere else
        await floor.ask(f"the weather is fine on day {number}" + ", and so it is" * 200)
    await floor.ask("@BETA connect the scheduler to the message bus")
    await until_done(room.store, 1)
    given_lines = beta.turns[0].memories.split("\n")[1:]
    assert [line[2:4] for line in given_lines] == ["r2"]
    # Under the answer it says so too, once it has ended.
    answer = (await all_events(room.store, "message.posted"))[-1]
    [memory] = await room.store.read(lambda tx: given.shown(tx, answer, "ann"))
    assert (memory["number"], memory["is_valid"]) == (2, True)
    text = '/decide use RabbitMQ for the message bus (supersedes "use NATS for the message bus")'
    await office.ask(text)
    while (await follow.step(room.store, KnowledgeFollower())).applied:
        pass
    [memory] = await room.store.read(lambda tx: given.shown(tx, answer, "ann"))
    assert (memory["number"], memory["is_valid"], memory["replaced_by"]) == (2, False, "r3")


async def test_the_name_of_its_kind_is_no_word_of_a_memory(office: Office, room: Remembering) -> None:
    await office.post("Lunch talk about the canteen")
    await room.follow()
    assert (await office.ask("/recall message bus")).body == "Nothing that is remembered bears on it."


async def test_what_the_room_answers_has_nothing_private_and_nothing_without_a_word(
    office: Office, room: Remembering
) -> None:
    """Everybody reads the answer, and who asks may be a forged name."""
    await office.post("DECISION (private): the okapi vault is in bucket seven")
    await office.post("the wombat has a burrow under the old shed")
    await office.post("who painted the outer door that green?")
    await room.follow()
    while (await follow.step(room.store, KnowledgeFollower())).applied:
        pass
    assert (await office.ask("/recall okapi vault")).body == "Nothing that is remembered bears on it."
    found = await office.ask("/recall wombat burrow")
    assert found.body.count("\n> ") == 1 and "painted" not in found.body


async def test_forgotten_is_told_nowhere(office: Office, room: Remembering, floor: Floor) -> None:
    alpha, beta = floor.add("ALPHA"), floor.add("BETA")
    await lesson_by_another(room)
    await floor.ask(ASKED)
    await until_done(room.store, 1)
    assert alpha.turns[0].memories
    assert (await office.ask("/forget r1")).body == "r1 is forgotten: it is told to nobody any more."
    assert (await office.ask("/forget #1")).body == "r1 was forgotten before: nobody is told it."
    assert (await office.ask("/recall r1")).body == "r1 is forgotten: nobody is told it."
    await floor.ask(ASKED.replace("ALPHA", "BETA"))
    await until_done(room.store, 2)
    assert not beta.turns[0].memories
    assert (await office.ask("/recall mock the clock")).body == "Nothing that is remembered bears on it."
    assert "remembered by itself" in (await office.ask("/recall")).body
    assert (await office.ask("/forget r7")).body.startswith("There is no memory r7.")
    (event,) = await all_events(room.store, "memory.forgotten")
    assert event.outputs["memory"]["by"] == "ann"
    kept = await room.store.read(lambda tx: given.memory_of(tx, event.outputs["memory"]["id"]))
    assert kept is not None
    assert (kept.experience.summary, kept.forgotten) == (LESSON, True)


async def test_a_forgotten_decision_is_no_knowledge_that_is_told(office: Office, room: Remembering) -> None:
    await office.ask("/decide use PostgreSQL because two hosts write")
    while (await follow.step(room.store, KnowledgeFollower())).applied:
        pass
    await office.ask("/forget r1")
    assert (await office.ask("/recall why PostgreSQL")).body == "Nothing that is remembered bears on it."


async def until_done(store: Store, turns: int) -> None:
    async def done() -> bool:
        answers = [message for message in await all_messages(store) if message.kind is Kind.AGENT]
        return len(answers) == turns

    await until(done)


async def test_an_answer_that_repeats_knowledge_is_no_memory(room: Remembering, floor: Floor) -> None:
    async def parrot(turn: Turn) -> AsyncIterator[Part]:
        yield TextPart("I read that the retry queue doubles its backoff.")
        yield EndPart()

    entry = Statement(KnowledgeKind.FACT, "the retry queue doubles its backoff")
    lane = Lane("room", "human:ann")
    await room.store.write(lambda tx: record(tx, lane, "ann", [entry], extractor=Extractor.PERSON))
    while (await follow.step(room.store, KnowledgeFollower())).applied:
        pass
    alpha = floor.add("ALPHA", parrot)
    await floor.ask("@ALPHA what about the backoff of the retry queue")
    await until_done(room.store, 1)
    assert re.search(r"\n> k[0-9a-f]+ ann, .* \(fact\): the retry queue", alpha.turns[0].memories)
    await room.follow()
    assert [memory["event_type"] for memory in await room.remembered()] == ["message"]


async def test_what_is_for_some_readers_reaches_no_others_prompt(room: Remembering, floor: Floor) -> None:
    """(That no memory is made of a message that says such: `tests/memory/test_observed.py`.)"""
    said = [
        Statement(
            KnowledgeKind.FACT, "the retry queue doubles its backoff", access=Access(Visibility.PRIVATE)
        ),
        Statement(
            KnowledgeKind.FACT,
            "the retry queue halves its backoff",
            access=Access(Visibility.SHARED, ("BETA",)),
        ),
        Statement(KnowledgeKind.FACT, "the retry queue has one reader"),
    ]
    lane = Lane("room", "human:ann")
    for each in said:
        await room.store.write(
            lambda tx, each=each: record(tx, lane, "ann", [each], extractor=Extractor.PERSON)  # type: ignore[misc]
        )
    while (await follow.step(room.store, KnowledgeFollower())).applied:
        pass
    told = {}
    for name in ("ALPHA", "BETA"):
        agent = floor.add(name)
        await floor.ask(f"@{name} what about the backoff of the retry queue and its reader")
        await until_done(room.store, len(told) + 1)
        told[name] = agent.turns[0].memories
    assert "one reader" in told["ALPHA"] and "one reader" in told["BETA"]
    assert "backoff" not in told["ALPHA"]
    assert "halves its backoff" in told["BETA"] and "doubles" not in told["BETA"]


async def test_knowledge_that_was_given_is_forgotten_by_the_memory_of_its_event(
    room: Remembering, floor: Floor
) -> None:
    entry = Statement(KnowledgeKind.FACT, "the retry queue doubles its backoff")
    lane = Lane("room", "human:ann")
    await room.store.write(lambda tx: record(tx, lane, "ann", [entry], extractor=Extractor.PERSON))
    while (await follow.step(room.store, KnowledgeFollower())).applied:
        pass
    floor.add("ALPHA")
    await floor.ask("@ALPHA what about the backoff of the retry queue")
    await until_done(room.store, 1)
    (recorded,) = await all_events(room.store, "knowledge.recorded")

    async def shown() -> dict[str, Any]:
        answer = (await all_events(room.store, "message.posted"))[-1]
        (memory,) = await room.store.read(lambda tx: given.shown(tx, answer, "ann"))
        return memory

    assert (await shown())["number"] is None, "there is none yet"
    new = NewMemory(Experience("fact", entry.content), "ann", "room", 1.0, event_id=recorded.id)
    number = (await room.store.write(lambda tx: keep(tx, new))).number
    memory = await shown()
    assert (memory["memory_type"], memory["number"]) == ("knowledge", number)
    assert (memory["text"], memory["forgotten"]) == (entry.content, False)
    person = Caller("ann", "room", person=True)
    await room.store.write(lambda tx: forget(tx, person, f"r{number}"))
    memory = await shown()
    assert (memory["text"], memory["forgotten"]) == (None, True)
    while (await follow.step(room.store, KnowledgeFollower())).applied:
        pass
    memory = await shown()
    assert (memory["text"], memory["forgotten"]) == (None, True)


async def test_knowledge_without_a_memory_is_forgotten_by_its_id(
    office: Office, room: Remembering, floor: Floor
) -> None:
    entry = Statement(KnowledgeKind.FACT, "the retry queue doubles its backoff")
    lane = Lane("room", "human:ann")
    await room.store.write(lambda tx: record(tx, lane, "ann", [entry], extractor=Extractor.PERSON))
    while (await follow.step(room.store, KnowledgeFollower())).applied:
        pass
    floor.add("ALPHA")
    await floor.ask("@ALPHA what about the backoff of the retry queue")
    await until_done(room.store, 1)
    answer = (await all_events(room.store, "message.posted"))[-1]
    [memory] = await room.store.read(lambda tx: given.shown(tx, answer, "ann"))
    assert (memory["number"], memory["text"]) == (None, entry.content)
    found = Quote(memory["id"], "knowledge", memory["id"], "ann", 1.0, entry.content, 1.0)
    assert await room.store.read(lambda tx: stands(tx, found))
    said = (await office.ask(f"/forget {memory['id'][:9]}")).body
    assert said == f"{memory['id']} is forgotten: it is told to nobody any more."
    while (await follow.step(room.store, KnowledgeFollower())).applied:
        pass
    [memory] = await room.store.read(lambda tx: given.shown(tx, answer, "ann"))
    assert (memory["text"], memory["forgotten"]) == (None, True)
    assert not await room.store.read(lambda tx: stands(tx, found)), "nor what was found for a turn before"
    assert (await office.ask("/recall backoff")).body == "Nothing that is remembered bears on it."
    assert (await office.ask(f"/forget k{'0' * 8}")).body.startswith("There is no memory k00000000.")


async def test_to_forget_one_of_several_lines_says_that_the_others_go_with_it(
    office: Office, room: Remembering
) -> None:
    posted = await office.post("DECISION: the okapi sleeps indoors\nCONSTRAINT: no wombat in the vault")
    await room.follow()
    while (await follow.step(room.store, KnowledgeFollower())).applied:
        pass
    ids = {
        event.outputs["message"]["id"]: event.id for event in await all_events(room.store, "message.posted")
    }
    first = entry_id(ids[posted.id], 0)
    said = (await office.ask(f"/forget {first}")).body
    rest = "with all else that is known of the same message: they are told to nobody any more."
    assert said == f"{first} and r1 are forgotten, {rest}"
    assert (await office.ask("/recall wombat vault")).body == "Nothing that is remembered bears on it."


async def test_an_empty_memory_says_how_it_fills(office: Office) -> None:
    assert "remembered by itself" in (await office.ask("/recall")).body
    assert (await office.ask("/recall something")).body == "Nothing that is remembered bears on it."


async def test_a_line_that_proves_nobody_is_told_to_nobody(office: Office, room: Remembering) -> None:
    for line in (f"/remember {LESSON}", f"/decide {LESSON}", "/forget r1"):
        answer = await office.ask(line, verified=False)
        assert answer.meta["error"] is True
        assert "proves nobody" in answer.body
    assert await room.remembered() == []
