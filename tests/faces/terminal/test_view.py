from __future__ import annotations

from typing import Any

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.utils import get_cwidth

from relay.faces.terminal.app import RoomCompleter
from relay.faces.terminal.client import Post, Wire
from relay.faces.terminal.text import Fragments
from relay.faces.terminal.view import RoomView, agent_state

TS = "2026-01-02T12:00:00Z"
NOW = 1_767_355_212.0  # twelve seconds later


def entry(number: int, speaker: str = "ann", body: str = "hello", **fields: Any) -> dict[str, Any]:
    told = {"id": f"m{number}", "number": number, "ts": TS, "speaker": speaker, "kind": "human", "body": body}
    return {"cursor": f"c{number}", "type": "entry", "data": {**told, **fields}}


def frame(kind: str, **data: Any) -> dict[str, Any]:
    return {"cursor": None, "type": kind, "data": data}


def job(state: str, **fields: Any) -> dict[str, Any]:
    return frame("receipt", id=7, message_id="m1", agent="CLAUDE", state=state, **fields)


def plain(lines: list[Fragments]) -> list[str]:
    return ["".join(piece for _, piece in line) for line in lines]


@pytest.fixture
def view() -> RoomView:
    """A live room in which #1 was said."""
    made = RoomView("ann")
    made.on_wire(Wire("live"), NOW)
    made.on_frame(entry(1), NOW)
    return made


def said(view: RoomView, given: dict[str, Any]) -> list[str]:
    return plain(view.on_frame(given, NOW))


def test_an_entry_shows_who_and_to_what(view: RoomView) -> None:
    (line,) = said(view, entry(2, "CLAUDE", "**yes**", in_reply_to="m1", kind="agent"))
    assert line.endswith("CLAUDE m2 · to m1  yes")
    head, *body = said(view, entry(3, "bob", "a\nb", meta={"unverified": True}))
    assert head.endswith("bob m3 · unverified")
    assert body == ["  a", "  b"]


def test_a_message_for_people_says_so(view: RoomView) -> None:
    (line,) = said(view, entry(2, "bob", "@ann are you there?", meta={"told": ["ann"]}))
    assert line.endswith("bob m2 · for ann; no agent is asked  @ann are you there?")


def test_an_entry_is_printed_once(view: RoomView) -> None:
    assert len(said(view, entry(2))) == 1
    assert said(view, entry(2)) == []


def test_what_of_the_memory_an_agent_was_given_is_one_short_line(view: RoomView) -> None:
    given = [{"reference": f"r{n}"} for n in range(1, 6)]
    lines = said(view, entry(4, "CLAUDE", kind="agent", meta={"memories": given}))
    assert "was given r1, r2, r3 and 2 more of the memory" in "\n".join(lines)


def test_a_day_is_announced() -> None:
    assert said(RoomView("ann"), entry(1))[0].startswith("── ")


def test_a_name_cannot_steer_the_terminal(view: RoomView) -> None:
    lines = said(view, entry(2, "x\x1b[2J\nCLAUDE", "hi", ts="\x1b[2J", meta="none"))
    assert [("\x1b" in line, "\n" in line) for line in lines] == [(False, False)]


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (job("skipped", reason="its breaker is open"), "· skipped CLAUDE m1: its breaker is open"),
        (job("failed", reason="it crashed"), "· failed, CLAUDE m1: it crashed; it will be tried again"),
        (job("dead", reason="crashed"), "· failed for good, CLAUDE m1: crashed (/retry j7)"),
        (
            frame("cycle", message_id="m1", state="routed", agents=["CLAUDE", "CODEX"], reason="code"),
            "· m1 → CLAUDE, CODEX · code",
        ),
        (
            frame("cycle", message_id="m1", state="folded", folded_into="m9"),
            "· m1 is answered together with a later one",
        ),
        (frame("cycle", message_id="m1", state="none"), "· nobody answers m1: nobody is here who could"),
    ],
)
def test_what_became_of_a_message(view: RoomView, given: dict[str, Any], line: str) -> None:
    assert said(view, given) == [line]


@pytest.mark.parametrize(
    "given",
    [
        job("done"),
        frame("cycle", message_id="m1", state="routing"),
        frame("cycle", message_id="m1", state="absorbed"),
        frame("unheard_of", x=1),
        {"type": "entry", "data": None},
        {"type": "jobs", "data": "no list"},
        frame("state"),
    ],
)
def test_the_rest_prints_nothing(view: RoomView, given: dict[str, Any]) -> None:
    assert said(view, given) == []


def test_a_turn_at_work_is_above_the_input_until_it_is_over(view: RoomView) -> None:
    view.on_frame(frame("cycle", message_id="m1", state="routing"), NOW - 2)
    assert plain(view.live(NOW, 80))[0].endswith("who answers m1? · 2 s")
    view.on_frame(frame("cycle", message_id="m1", state="routed", agents=["CLAUDE"]), NOW)
    view.on_frame(job("pending"), NOW)
    assert plain(view.live(NOW, 80)) == ["· queued: CLAUDE m1"]
    view.on_frame(job("active", started_at=TS), NOW)
    view.on_frame(frame("stream", job=7, agent="CLAUDE", text="a\x1b[2J\nb\n", offset=0), NOW)
    view.on_frame(frame("stream", job=7, agent="CLAUDE", text="c", offset=4, tool="Read x.py"), NOW)
    head, *tail = plain(view.live(NOW, 80))
    assert head.endswith("CLAUDE is working on m1 · 12 s · Read x.py")
    assert tail == ["  │ a", "  │ b", "  │ c"]
    assert view.is_moving
    view.on_frame(job("done"), NOW)
    assert view.live(NOW, 80) == []
    assert not view.is_moving


def test_what_a_turn_heard_is_said_once(view: RoomView) -> None:
    view.on_frame(job("active"), NOW)
    told = frame(
        "receipt", id=8, message_id="m2", agent="CLAUDE", state="active", heard_at=TS, heard_after="Bash: ls"
    )
    assert said(view, told) == ["· CLAUDE heard a message in its turn, after Bash: ls"]
    assert said(view, told) == []
    assert len(plain(view.live(NOW, 80))) == 1


def test_a_second_attempt_starts_its_text_anew(view: RoomView) -> None:
    view.on_frame(job("active"), NOW)
    for piece, offset in (("old text", 0), ("new", 0)):
        view.on_frame(frame("stream", job=7, agent="CLAUDE", text=piece, offset=offset), NOW)
    assert plain(view.live(NOW, 80))[1:] == ["  │ new"]


def test_the_live_part_keeps_to_its_size(view: RoomView) -> None:
    for number in range(20):
        view.on_frame(
            frame("receipt", id=number, message_id="m1", agent=f"A{number}", state="active", started_at=TS),
            NOW,
        )
        view.on_frame(frame("stream", job=number, agent="A", text="語" * 200, offset=0), NOW)
    lines = plain(view.live(NOW, 40, most=6))
    assert len(lines) == 6
    assert lines[-1].strip() == "… and 35 more"
    assert all(get_cwidth(line) <= 40 for line in lines)


def test_jobs_that_ended_while_we_were_away_are_gone(view: RoomView) -> None:
    view.on_frame(job("active"), NOW)
    view.on_frame({"type": "jobs", "data": [{"id": 7, "state": "done"}, {"id": 8, "state": "pending"}]}, NOW)
    assert list(view.jobs) == [8]


def test_a_change_of_the_connection_is_said_once(view: RoomView) -> None:
    down = Wire("down", "nothing answers there", 3.0)
    assert plain(view.on_wire(down, NOW)) == ["· the room is down: nothing answers there; trying again"]
    assert view.on_wire(down, NOW) == []
    assert plain([view.toolbar(NOW)])[0].startswith(" ○ down, trying again in 3 s")
    assert plain(view.on_wire(Wire("live"), NOW)) == ["· the room is back"]
    assert plain([view.toolbar(NOW)])[0].startswith(" ● live")
    assert plain(view.on_wire(Wire("refused", "this key is not known"), NOW)) == [
        "· the room refused you: this key is not known"
    ]


def test_what_was_written_past_the_room_is_shown_once(view: RoomView) -> None:
    post = Post("hi", "c", id="m5", written=True)
    first, note = plain(view.on_written(post, NOW))
    assert first.endswith("ann  hi")
    assert "written to the transcript" in note
    assert said(view, entry(5)) == ["· the room has read what you wrote (m5)"]
    assert said(view, entry(5)) == []


def test_a_post_is_on_its_way_until_it_is_acknowledged(view: RoomView) -> None:
    post = Post("hi there", "c")
    view.posts.append(post)
    assert plain(view.live(NOW, 80)) == ["↑ sending: hi there"]
    post.reached = True
    assert plain(view.live(NOW, 80)) == ["↑ sent, but not confirmed; asking again: hi there"]
    post.id = "m2"
    assert view.live(NOW, 80) == []


@pytest.mark.parametrize(
    ("agent", "shown"),
    [
        ({}, "✓"),
        ({"enabled": False, "paused": True}, "off"),
        ({"away": True, "member": "laptop", "installed": False}, "away with laptop"),
        ({"installed": False}, "not installed"),
        ({"paused": True, "running": {"since": TS}}, "paused"),
        ({"breaker": {"state": "open"}, "queued": 1}, "circuit open"),
        ({"breaker": {"state": "open"}, "running": {"since": TS}}, "▶ 12 s"),
        ({"breaker": {"state": "half_open"}}, "trial next"),
        ({"budget": {"turns_per_hour": {"used": 3, "limit": 3}, "usd": None}, "queued": 1}, "budget spent"),
        ({"budget": {"turns_per_hour": {"used": 2, "limit": 3}, "usd": {"used": 0.4, "limit": 0.5}}}, "✓"),
        ({"budget": {"usd": {"used": 0.6, "limit": 0.5}}}, "budget spent"),
        ({"breaker": {"state": "closed"}, "running": {"since": TS}}, "▶ 12 s"),
        ({"running": None, "queued": 2}, "2 queued"),
        ({"parked_until": TS}, "✓"),
    ],
)
def test_how_an_agent_does(agent: dict[str, Any], shown: str) -> None:
    assert agent_state(agent, NOW)[1] == shown


def test_what_waits_for_a_machine_says_so(view: RoomView) -> None:
    view.on_frame(frame("agent", name="CLAUDE", member="laptop", away=True), NOW)
    for state in ("pending", "active"):
        view.on_frame(job(state), NOW)
        assert plain(view.live(NOW, 80)) == ["· queued: CLAUDE m1 (waits for laptop)"]


def test_a_room_without_its_database_keeps_what_is_written(view: RoomView) -> None:
    cut = Wire("cut", "This relay is cut off.", 1.0)
    (line,) = plain(view.on_wire(cut, NOW))
    assert line.startswith(
        "· This relay is cut off. What you write is kept here and sent when the room is back"
    )
    assert view.on_wire(cut, NOW) == []
    assert "cut off from the database" in plain([view.toolbar(NOW)])[0]
    view.posts.append(Post("hi", "1", waits="cut off"))
    assert plain(view.live(NOW, 80)) == ["↑ not sent yet: hi"]
    assert plain(view.on_wire(Wire("live"), NOW)) == ["· the room is back"]


def test_the_toolbar_counts_tasks_and_people(view: RoomView) -> None:
    tasks = [{"status": "pending"}, {"status": "done"}]
    view.on_frame(frame("state", agents=[{"name": "CLAUDE"}], tasks=tasks, people=["ann", "bob"]), NOW)
    assert plain([view.toolbar(NOW)]) == [" ● live  CLAUDE ✓  1 open task  with bob"]
    view.needs = ["question"]
    assert plain([view.toolbar(NOW)])[0].startswith(" ● live  1 needs you: /inbox  CLAUDE ✓")
    view.needs, view.main_fails = ["question"] * 12, True
    assert " main fails  12 need you: /inbox " in plain([view.toolbar(NOW)])[0]


def test_locks_and_tasks_are_counted_and_only_a_failure_is_said(view: RoomView) -> None:
    def lock(path: str, until: str = "2099-01-01T00:00:00Z") -> dict[str, Any]:
        return {"file_path": path, "locked_by": "CLAUDE", "session": "c1", "expires_at": until}

    def toolbar() -> str:
        return str(plain([view.toolbar(NOW)])[0])

    # Who came on their own stands beside the room's agents; a person's session does not.
    own: dict[str, Any] = {"agent_id": "dev", "session_id": "d1", "agent_type": "codex", "alive": True}
    for who in (own, own | {"agent_id": "ann", "agent_type": "person"}):
        view.on_frame(frame("session", change="started", session=who), NOW)
    view.on_frame(
        frame("lock", change="acquired", lock=lock("d.py") | {"locked_by": "dev", "session": "d1"}), NOW
    )
    assert toolbar() == " ● live  dev on its own, 1 lock  1 lock"
    offers = RoomCompleter(view).get_completions(Document("ask @d"), CompleteEvent())
    assert [one.text for one in offers] == ["@dev "]
    view.on_frame(frame("session", change="ended", session=own), NOW)
    assert toolbar() == " ● live "
    tasks = [{"id": "a", "number": 1, "title": "Build", "status": "pending"}]
    view.on_frame(frame("state", tasks=tasks, locks=[lock("a.py"), lock("b.py", TS)]), NOW)
    assert toolbar() == " ● live   1 open task  1 lock"
    assert said(view, frame("lock", change="acquired", lock=lock("c.py"))) == []
    assert "2 locks" in toolbar()
    assert said(view, frame("lock", change="forced", lock=lock("a.py"))) == []
    assert "1 lock" in toolbar()
    done = tasks[0] | {"status": "done", "assignee": "CODEX"}
    new = {"id": "b", "number": 2, "title": "Ship", "status": "pending"}
    assert said(view, frame("task", changed=[done, new], gone=[])) == []
    assert "1 open task" in toolbar()
    bad = done | {"badge": "failed", "error_message": "exit\x1b[31m 1"}
    assert said(view, frame("task", changed=[bad], gone=["b"])) == ["· task t1 failed (CODEX), Build: exit 1"]
    assert said(view, frame("task", changed=[bad], gone=[])) == []
    assert "0 open tasks" in toolbar()
    ended = {"agent_id": "CLAUDE", "session_id": "c1"}
    assert said(view, frame("session", change="ended", session=ended)) == []
    assert "lock" not in toolbar()
    for odd in (frame("lock"), frame("lock", lock=7), frame("session"), frame("task", changed=7, gone=7)):
        assert said(view, odd) == []


def system(number: int, body: str, to: str | None = None, **meta: Any) -> dict[str, Any]:
    return entry(number, "RELAY", body, kind="system", in_reply_to=to, meta=meta)


def test_a_command_and_its_answer_stand_on_one_line(view: RoomView) -> None:
    assert said(view, entry(2, body="/task fix it")) == []
    assert view.is_moving and "/task fix it" in plain(view.live(NOW, 80))[-1]
    (line,) = said(view, system(3, "ann added task t1: fix it", "m2", command="/task"))
    assert line.endswith("ann m2  /task fix it → ann added task t1: fix it")
    assert not view.is_moving
    # A longer answer stands below it, and what comes between stands in its order.
    said(view, entry(4, body="/who"))
    assert len(said(view, system(5, "**People:** ann\n\n**Agents:**", "m4", command="/who"))) == 5
    said(view, entry(6, body="/pause @CLAUDE"))
    first, second = said(view, entry(7, "bob", "hello"))
    assert first.endswith("/pause @CLAUDE") and second.endswith("hello")
    assert said(view, system(8, "CLAUDE paused.", "m6", command="/pause"))[0].endswith("CLAUDE paused.")
    # One that nobody answers is printed a little later.
    said(view, entry(9, body="/hello"))
    assert said(view, frame("people", people=["ann"])) == []
    assert plain(view.on_frame(frame("people", people=["ann"]), NOW + 3))[0].endswith("/hello")


def test_notices_of_the_past_are_summed_up_and_those_of_now_are_not() -> None:
    view = RoomView("ann")
    for number in range(1, 4):
        given = system(number, f"CLAUDE was skipped: {number}.", notice="skipped")
        assert said(view, {**given, "history": True}) == []
    assert len(said(view, {**entry(4), "history": True})) == 3  # the day, the notices, the message
    given = system(5, "ann answers again.", notice="circuit_closed")
    assert said(view, {**given, "history": True}) == []
    (line,) = plain(view.on_wire(Wire("live"), NOW))
    assert line.endswith("ann answers again.")
    for number in (6, 7):
        assert len(said(view, system(number, "CLAUDE was skipped.", notice="skipped"))) == 1


def test_a_skip_is_said_once(view: RoomView) -> None:
    assert len(said(view, job("skipped", reason="it is paused"))) == 1
    assert said(view, system(2, "CLAUDE was skipped: it is paused.", "m1", notice="skipped")) == []
    assert len(said(view, system(3, "CLAUDE was skipped.", "m0", notice="skipped"))) == 1
