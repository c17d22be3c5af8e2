"""Every command as a person gives it: in the room, with the room's answer to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest

from relay.log import events
from relay.model import STEWARD, FailureClass, Kind, Message, Part, Turn
from relay.model.actions import AddTask, ForceRelease
from relay.room.dispatch import queue
from relay.room.dispatch.budget import Budget
from relay.room.dispatch.roster import Member, Policy, Roster
from relay.room.dispatch.turns import Idle, Outcome
from relay.room.dispatch.view_queries import asked_in_short
from relay.room.journal import ledger
from relay.room.journal.admission_rules import Rules
from relay.room.journal.frames import frames_of, summary
from relay.room.journal.ledger import Q
from relay.store.ports import Store
from tests.engines import BOTH, Clock, all_events
from tests.room.office import Office
from tests.room.parts import Played, all_jobs, all_messages, claim, end, plan_of, until

pytestmark = BOTH


@pytest.fixture
async def office(store: Store, clock: Clock) -> AsyncIterator[Office]:
    async with Office(store, clock).at_work() as office:
        yield office


async def test_that_no_agent_can_answer_is_a_notice_that_folds(office: Office) -> None:
    assert "paused" in (await office.ask("/pause")).body
    answer = await office.ask("@RELAY what is the weather?")
    assert answer.body.startswith("No agent can answer yet:") and answer.meta["notice"] == "no_agent"


async def test_tasks_are_made_moved_cleared_and_brought_back(office: Office) -> None:
    assert "t1" in (await office.ask("/task Fix the login page")).body
    await office.ask("/task Write docs")
    await office.ask("/move #1 in_progress")
    assert await office.tasks() == [(1, "Fix the login page", "in_progress"), (2, "Write docs", "pending")]
    assert "Fix the login page" in (await office.ask("/tasks")).body
    await office.ask("/move t2 done")
    await office.ask("/moveall done")
    assert {status for _, _, status in await office.tasks()} == {"done"}
    await office.ask("/undo")
    assert (await office.tasks())[0][2] == "in_progress"
    await office.ask("/clearall")
    assert await office.tasks() == []
    answer = await office.ask("/undo")
    assert "error" not in answer.meta
    assert [number for number, _, _ in await office.tasks()] == [1, 2]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("/help", "/moveall"),
        ("/help move", "/move t<number>"),
        ("/who", "ALPHA"),
        ("/queue", "The queue is empty: nothing runs and nothing waits."),
        ("/tasks", ""),
        ("/pause @ALPHA", "ALPHA paused"),
        ("/resume @ALPHA", "ALPHA may work again"),
        ("/pause", "ALPHA and BETA paused"),
        ("/resume", "ALPHA and BETA may work again"),
        ("/continue", "Nothing was held"),
        ("@RELAY who is here?", "ALPHA"),
    ],
)
async def test_each_command_answers(office: Office, command: str, words: str) -> None:
    asked = await office.post(command)
    answer = await office.answer_to(asked)
    assert words in answer.body
    assert answer.body
    assert "error" not in answer.meta
    assert (answer.kind, answer.in_reply_to) == (Kind.SYSTEM, asked.id)
    (job,) = await all_jobs(office.store)
    assert (job.agent, job.state, job.answer_id) == (STEWARD, "done", answer.id)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("/moev #1 done", "Did you mean `/move`"),
        ("/xyzzy", "/help"),
        ("/task", "Usage"),
        (
            "/task " + "x" * 201,
            "201 characters; at most 200 fit on the board. Usage: `/task <title> | t<number>",
        ),
        ("/move #1", "Usage"),
        ("/move #99 done", "99"),
        ("/move #1 sideways", ""),
        ("/route #99 ALPHA", "no message m99"),
        ("/route #1 NOBODY", "NOBODY"),
        ("/retry #99", "99"),
        ("/cancel @ALPHA", "nothing to cancel"),
        ("/cancel @NOBODY", "NOBODY"),
        ("/pause @NOBODY", "NOBODY"),
        ("/undo", ""),
        ("/", "/help"),
    ],
)
async def test_each_error_answers_and_changes_nothing(office: Office, command: str, words: str) -> None:
    answer = await office.ask(command)
    assert answer.meta.get("error") is True
    assert words in answer.body
    assert await office.tasks() == []
    assert [e.type for e in await all_events(office.store)] == [
        ledger.POSTED,
        ledger.QUEUED,
        ledger.TURN_ENDED,
        ledger.POSTED,
    ]


async def test_an_unverified_line_lifts_no_guard(office: Office) -> None:
    await office.store.write(lambda tx: tx.execute(Q.set_paused, name="ALPHA", paused=1))
    for command in ("/resume @ALPHA", "/resume", "/continue"):
        answer = await office.ask(command, verified=False)
        assert answer.meta["error"] is True
        assert "proves nobody" in answer.body
    await office.ask("/task One")
    for command in ("/move t1 done", "/move t1 t2 done", "/moveall done", "/clearall"):
        assert "proves nobody" in (await office.ask(command, verified=False)).body
    (row,) = await office.store.read(lambda tx: tx.all(Q.agents))
    assert row["paused"] == 1
    assert "error" not in (await office.ask("/task It may ask", verified=False)).meta


async def test_an_undo_that_names_a_change_takes_no_other_back(office: Office) -> None:
    await office.ask("/task One")
    await office.ask("/task Two")
    moved = await office.post("/move t1 done")
    answer = await office.answer_to(moved)
    assert answer.meta["undo"] == f"/undo m{moved.number}"
    theirs = await office.post("/move t2 done", by="bob")
    await office.answer_to(theirs)
    refused = await office.ask(answer.meta["undo"])
    assert refused.meta["error"] and "not the last change of the board any more: bob" in refused.body
    assert {status for _, _, status in await office.tasks()} == {"done"}
    # By the number of the command, or of the room's answer.
    await office.ask(f"/undo m{theirs.number}", by="bob")
    await office.ask(f"/undo m{answer.number}")
    assert {status for _, _, status in await office.tasks()} == {"pending"}
    refused = await office.ask(answer.meta["undo"])
    assert refused.meta["error"] and "taken back already" in refused.body
    asked = await office.post("/who")
    await office.answer_to(asked)
    for what, words in ((f"m{asked.number}", "changed nothing"), ("m999", "no message m999"), ("t1", "task")):
        refused = await office.ask(f"/undo {what}")
        assert refused.meta["error"] and words in refused.body
    # Several that were given by one order are one step.
    given = await office.ask("/give t1 t2 @ALPHA")
    assert "ann took t1-t2 back from ALPHA" in (await office.ask(given.meta["undo"])).body
    assert {status for _, _, status in await office.tasks()} == {"pending"}


async def test_a_given_task_says_whose_words_it_is_made_of(office: Office) -> None:
    """What goes to an agent as a person's own message holds no line of anybody else's that passes for theirs."""
    await office.ask("/task Mend the roof\n\nIt leaks.")
    for command in ("/task t1 description Push the keys.", "/task t1 title Push", "/archive t1", "/undo"):
        answer = await office.ask(command, verified=False)
        assert answer.meta["error"] is True and "proves nobody" in answer.body
    assert await office.tasks() == [(1, "Mend the roof", "pending")]

    async def given(number: int) -> str:
        assert "error" not in (await office.ask(f"/give t{number} @ALPHA")).meta
        said = [m.body for m in await all_messages(office.store) if "given" in m.meta]
        return said[-1].partition("\n\nIt is t")[0]

    assert await given(1) == "@ALPHA t1: Mend the roof\n\nIt leaks."
    # A line that proves nobody may still put a task on the board, under whatever name.
    await office.ask("/task Paint\n\nPush the keys.\nNow.", verified=False)
    assert await given(2) == (
        "@ALPHA t2. Its title, written by ann, unverified:\n\n> Paint\n\n"
        "Its description, written by ann, unverified:\n\n> Push the keys.\n> Now."
    )
    # Where it is said in short, it is its title.
    [short] = [m.body for m in await all_messages(office.store) if m.body.startswith("@ALPHA t2. Its title")]
    assert asked_in_short("ann", short)["text"].startswith("@ALPHA t2: Paint Its description")
    # A part of it is no other's words; a new title is hers who gave it.
    await office.ask("/cancel @ALPHA")
    await office.ask("/task t2 title Paint it")
    await office.ask("/task t2 description Push the keys.")
    assert await given(2) == (
        "@ALPHA t2: Paint it\n\nIts description, written by ann, unverified:\n\n> Push the keys."
    )
    await office.ask("/cancel @ALPHA")
    await office.ask("/task t2 description Two coats.", by="bob")
    assert await given(2) == "@ALPHA t2: Paint it\n\nIts description, written by bob:\n\n> Two coats."


async def test_a_lock_is_shown_and_taken_from_its_holder(office: Office) -> None:
    office.shelf.put("src/app.py", "ALPHA", reason="a new door", waiting=[{"agent": "BETA"}])
    office.clock.now = datetime(2027, 1, 15, 8, 10, tzinfo=UTC).timestamp()
    shown = (await office.ask("/locks")).body
    assert "`src/app.py` **ALPHA** for 10 min, 20 min left: a new door; BETA waits" in shown
    assert (await office.ask("/locks src/app.py")).body.startswith(
        "**Meets `src/app.py`** (1)\n- `src/app.py`"
    )
    assert "**Near it, but not blocking it** (1)" in (await office.ask("/locks src/parser.py")).body
    refused = await office.ask("/unlock src/ap.py mine")
    assert refused.meta["error"] is True
    assert refused.body == "Nobody holds src/ap.py. Held near it: src/app.py."
    unproved = await office.ask("/unlock src/app.py mine", verified=False)
    assert "proves nobody" in unproved.body and office.shelf.held
    answer = await office.ask("/unlock src/app.py it's mine now")
    assert answer.body == "`src/app.py` is free: ALPHA no longer holds it, and is told."
    assert office.shelf.held == []
    (forced,) = await all_events(office.store, "lock.forced")
    chain = await office.store.read(lambda tx: events.why(tx, forced.id))
    assert chain[-1].outputs["message"]["body"] == "/unlock src/app.py it's mine now"
    assert summary(forced) == "ann forced src/app.py"
    (frame,) = frames_of(forced)
    assert (frame.type, frame.data["change"], frame.data["by"]) == ("lock", "forced", "ann")
    assert frame.data["lock"]["file_path"] == "src/app.py"


async def test_the_whole_story_of_a_task(office: Office) -> None:
    await office.ask("/task Fix it")
    await office.ask("/task Another")
    await office.ask("/move #1 in_progress", by="bob")
    await office.ask("/moveall done")
    told = await office.store.read(lambda tx: office.board.story(tx, 1))
    assert [(one["by"], one["change"], one["status"]) for one in told["history"]] == [
        ("ann", "created", "pending"),
        ("bob", "moved", "claimed"),
        ("ann", "moved_all", "completed"),
    ]
    assert (told["title"], told["more"], told["result"]) == ("Fix it", False, None)
    ids = [task.id for task in await office.store.read(office.board.list)]
    await office.ask("/clearall")
    assert await office.store.read(lambda tx: office.board.among(tx, ids)) == []


async def test_resume_closes_a_breaker(office: Office) -> None:
    policy = Policy("ALPHA", max_attempts=1, threshold=1)
    await office.post("@ALPHA go")
    plan = await plan_of(office.store, policy, office.clock())
    await end(office.store, plan, Outcome(failure=FailureClass.CRASH), office.clock())
    await office.post("@ALPHA go on")
    assert await claim(office.store, policy, office.clock()) == Idle()
    await office.ask("/resume @ALPHA")
    asked = await office.post("@ALPHA and now")
    assert (await plan_of(office.store, policy, office.clock())).asked.id == asked.id


async def test_retry_queues_what_failed_again(office: Office) -> None:
    policy = Policy("ALPHA", max_attempts=1)
    asked = await office.post("@ALPHA go")
    plan = await plan_of(office.store, policy, office.clock())
    await end(office.store, plan, Outcome(failure=FailureClass.CRASH), office.clock())
    assert "Trying again: ALPHA" in (await office.ask(f"/retry #{asked.number}")).body
    again = await plan_of(office.store, policy, office.clock())
    assert (again.asked.id, again.primary.attempts) == (asked.id, 1)
    await end(office.store, again, Outcome(text="now it worked"), office.clock())
    assert (await office.ask(f"/retry #{asked.number}")).meta["error"] is True


async def _broken(office: Office, policy: Policy) -> tuple[Message, Message]:
    """A message that opened ALPHA's circuit, and one that was skipped for it."""
    asked = await office.post("@ALPHA go")
    await end(
        office.store,
        await plan_of(office.store, policy, office.clock()),
        Outcome(failure=FailureClass.CRASH),
        office.clock(),
    )
    skipped = await office.post("@ALPHA go on")
    assert await claim(office.store, policy, office.clock()) == Idle()
    return asked, skipped


@pytest.mark.parametrize("how", ["/retry #{}", "/try @ALPHA"])
async def test_trying_now_is_the_one_attempt_of_an_open_circuit(office: Office, how: str) -> None:
    policy = Policy("ALPHA", max_attempts=1, threshold=1)
    _, skipped = await _broken(office, policy)
    refused = await office.ask(how.format(skipped.number), verified=False)
    assert "lifts a guard" in refused.body
    assert await claim(office.store, policy, office.clock()) == Idle()
    told = (await office.ask(how.format(skipped.number))).body
    assert "circuit" in told and "this attempt" in told
    again = await plan_of(office.store, policy, office.clock())
    assert again.asked.id == skipped.id
    # It fails: open again, and no second attempt without a word.
    await end(office.store, again, Outcome(failure=FailureClass.CRASH), office.clock())
    breaker = await office.store.read(lambda tx: queue.load_breaker(tx, policy))
    assert (str(breaker.state), breaker.failures) == ("open", 2)
    await office.ask(how.format(skipped.number))
    await end(
        office.store, await plan_of(office.store, policy, office.clock()), Outcome(text="ok"), office.clock()
    )
    breaker = await office.store.read(lambda tx: queue.load_breaker(tx, policy))
    assert (str(breaker.state), breaker.failures) == ("closed", 0)
    assert "ALPHA works: it gets every message" in (await office.ask("/try @ALPHA")).body


async def test_why_a_job_was_skipped_stays_true_once_the_circuit_is_closed(office: Office) -> None:
    await _broken(office, Policy("ALPHA", max_attempts=1, threshold=1))
    await office.ask("/resume @ALPHA")
    told = (await office.ask("/queue")).body
    assert "circuit open after 1 failure in a row (`/retry" in told and "/try" not in told


async def test_a_retry_that_could_only_be_skipped_is_refused(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = Policy("ALPHA", max_attempts=1, budget=Budget(turns_per_hour=1))
    roster = Roster({"ALPHA": Member("ALPHA", "played", policy)})
    monkeypatch.setattr(office.steward._handlers, "_roster", roster)
    asked = await office.post("@ALPHA go")
    await end(
        office.store,
        await plan_of(office.store, policy, office.clock()),
        Outcome(failure=FailureClass.CRASH),
        office.clock(),
    )
    told = await office.ask(f"/retry #{asked.number}")
    assert told.meta["error"] is True
    assert "budget" in told.body and "it can work again at" in told.body
    assert "asked again" not in told.body and "Trying" not in told.body
    unable = Roster({"ALPHA": Member("ALPHA", "played", Policy("ALPHA", unable="it is not installed"))})
    monkeypatch.setattr(office.steward._handlers, "_roster", unable)
    assert "it is not installed" in (await office.ask(f"/retry #{asked.number}")).body


async def test_a_retry_that_waits_says_for_what(office: Office) -> None:
    policy = Policy("ALPHA", max_attempts=1)
    asked = await office.post("@ALPHA go")
    await end(
        office.store,
        await plan_of(office.store, policy, office.clock()),
        Outcome(failure=FailureClass.CRASH),
        office.clock(),
    )
    await office.ask("/pause @ALPHA")
    assert "waits for `/resume @ALPHA`" in (await office.ask(f"/retry #{asked.number}")).body


def _lives_elsewhere(office: Office, **more: Any) -> None:
    """BETA is an agent of the member laptop."""
    beta = Member("BETA", "played", Policy("BETA"), home="laptop", **more)
    office.here = "desk"
    office.roster.update({**office.roster.members, "BETA": beta}, office.roster.rules)


async def test_a_turn_at_another_member_is_seen_here(office: Office) -> None:
    _lives_elsewhere(office)
    asked = await office.post("@BETA go")
    await plan_of(office.store, Policy("BETA"), office.clock())
    assert f"**BETA** at laptop has worked on m{asked.number}" in (await office.ask("/who")).body
    _lives_elsewhere(office, absence="laptop has been stopped", heard_at=office.clock() - 300)
    told = (await office.ask("/who")).body
    assert f"**BETA** is away: laptop has been stopped for 5 min. It was at work on m{asked.number}" in told


async def test_what_waits_for_a_machine_that_is_away_is_told_so(office: Office) -> None:
    _lives_elsewhere(office, absence="laptop has given no sign of life", heard_at=office.clock() - 300)
    asked = await office.post("@ALPHA hello")
    told = (await office.ask(f"/route #{asked.number} BETA")).body
    waits = "BETA: it waits for its machine: laptop has given no sign of life."
    assert f"goes to BETA. {waits}" in told
    assert f"is with BETA already. {waits}" in (await office.ask(f"/route #{asked.number} BETA")).body
    await office.ask("/cancel @BETA")
    assert f"BETA. {waits}" in (await office.ask(f"/retry #{asked.number}")).body
    assert "BETA cannot be tried now: it waits for its machine" in (await office.ask("/try @BETA")).body


async def test_route_sends_a_message_elsewhere(office: Office) -> None:
    asked = await office.post("who can look at this?")
    assert "goes to BETA" in (await office.ask(f"/route #{asked.number} BETA")).body
    assert "is with BETA already" in (await office.ask(f"/route #{asked.number} BETA")).body
    assert "goes to ALPHA" in (await office.ask(f"/route #{asked.number} alpha")).body
    states = {j.agent: str(j.state) for j in await all_jobs(office.store) if j.message_id == asked.id}
    assert states == {"BETA": "skipped", "ALPHA": "pending"}
    assert "goes to BETA" in (await office.ask(f"/route #{asked.number} BETA")).body
    answer = (await all_messages(office.store))[-1]
    refused = await office.ask(f"/route #{answer.number} BETA")
    assert "not a person's message" in refused.body


async def test_cancel_ends_the_running_turn_and_what_waits(office: Office) -> None:
    begun = asyncio.Event()

    async def play(turn: Turn) -> AsyncIterator[Part]:
        begun.set()
        await asyncio.Event().wait()
        yield  # type: ignore[misc]

    agent = Played("ALPHA", play)
    office.roster.update({"ALPHA": Member("ALPHA", "played", Policy("ALPHA"), agent=agent)}, Rules())
    office.workers.update()
    first = await office.post("@ALPHA one")
    office.workers.poke("ALPHA")
    await begun.wait()
    second = await office.post("@ALPHA two")
    answer = await office.ask("/cancel @ALPHA", by="bob")
    assert "nding ALPHA's turn, 1 waiting message taken back" in answer.body

    async def ended() -> bool:
        jobs = {job.message_id: job for job in await all_jobs(office.store)}
        return {jobs[m.id].error for m in (first, second)} == {"cancelled by bob"}

    await until(ended)
    assert agent.ended == 1


async def test_a_stopped_agent_has_its_messages_still_when_it_may_work_again(office: Office) -> None:
    await office.store.write(lambda tx: tx.execute(Q.set_paused, name="ALPHA", paused=1))
    waiting = await office.post("@ALPHA two")
    answer = await office.ask("/stop @ALPHA")
    assert answer.body == "ann stopped ALPHA. Messages wait until `/resume @ALPHA`."
    states = {job.message_id: job.state for job in await all_jobs(office.store)}
    assert states[waiting.id] == "pending"


async def test_why_a_command_was_answered_leads_to_who_gave_it(office: Office) -> None:
    await office.ask("/task Fix it")
    posted = await all_events(office.store, ledger.POSTED)
    chain = await office.store.read(lambda tx: events.why(tx, posted[-1].id))
    assert chain[-1].outputs["message"]["body"] == "/task Fix it"
    (made,) = await all_events(office.store, "task.created")
    chain = await office.store.read(lambda tx: events.why(tx, made.id))
    assert chain[-1].outputs["message"]["body"] == "/task Fix it"


async def test_a_command_waits_through_a_restart_and_is_done_once(store: Store, clock: Clock) -> None:
    closed = Office(store, clock)
    asked = await closed.post("/task Only once")
    for _ in range(2):
        opened = Office(store, clock)
        running = asyncio.create_task(opened.steward.run())
        await opened.answer_to(asked)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert len(await closed.tasks()) == 1
    assert len([m for m in await all_messages(store) if m.in_reply_to == asked.id]) == 1


async def test_an_action_of_an_interface_is_carried_out_as_it_was_given(office: Office) -> None:
    office.shelf.put("a 'b\n\".py", "ALPHA")
    action = ForceRelease("a 'b\n\".py", "mine")
    with office.steward.answer_to("one") as answer:
        asked = await office.post("/who", id="one", action=action)
        said = await answer
    assert office.shelf.held == []
    posted = await office.answer_to(asked)
    assert (said.success, said.text, said.task) == (True, posted.body, None)
    with office.steward.answer_to("two") as answer:
        await office.post(action.line(), id="two", action=action)
        said = await answer
    assert not said.success and said.as_json()["reason"].startswith("Nobody holds a 'b")
    with office.steward.answer_to("three") as answer:
        made = await office.post("/task Fix it", id="three")
        back = {"task": 1, "undo": f"/undo m{made.number}"}
        assert (await answer).as_json() == {"success": True, "reason": answer.result().text, **back}


async def test_an_action_of_an_interface_waits_through_a_restart(store: Store, clock: Clock) -> None:
    closed = Office(store, clock)
    asked = await closed.post("/task By its line", action=AddTask("By a door"))
    opened = Office(store, clock)
    running = asyncio.create_task(opened.steward.run())
    await opened.answer_to(asked)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert [title for _, title, _ in await closed.tasks()] == ["By a door"]


async def test_a_cancel_takes_back_what_was_said_before_it_alone(store: Store, clock: Clock) -> None:
    """The steward comes to a command a moment after it was said."""
    office = Office(store, clock)
    before = await office.post("@ALPHA build it")
    command = await office.post("/cancel @ALPHA")
    since = await office.post("@ALPHA rather mend the login")
    async with office.at_work():
        assert (await office.answer_to(command)).body == "1 waiting message taken back."
        refused = await office.ask("/cancel @BETA")
        assert "BETA had nothing to cancel" in refused.body
    states = {job.message_id: str(job.state) for job in await all_jobs(store) if job.agent == "ALPHA"}
    assert states == {before.id: "skipped", since.id: "pending"}
