"""The words of the field are explained by one table, at every interface, where they stand first."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from relay.faces.operations.help_topics import help_text
from relay.faces.terminal.view import RoomView
from relay.model.terms import terms, used_in

SAID = "both change lines 4-9 of a.py; HOLD: AVA (2 files committed), STEER: BEN"


def entry(number: int, body: str, kind: str = "advisory") -> dict[str, Any]:
    ts = datetime(2026, 5, 4, 9, 30).astimezone().isoformat()
    data = {"id": f"m{number}", "number": number, "ts": ts, "speaker": "RELAY", "kind": kind, "body": body}
    return {"type": "entry", "data": data}


def printed(view: RoomView, frame: dict[str, Any]) -> list[str]:
    return ["".join(text for _, text in line) for line in view.on_frame(frame, 0.0)]


def test_each_term_has_one_name_and_a_sentence() -> None:
    ways = [way for one in terms() for way in (one.name, *one.also)]
    assert len(set(ways)) == len(ways)
    assert len({one.id for one in terms()}) == len(terms())
    assert all(one.text.endswith(".") and len(one.text) < 200 for one in terms())


def test_only_the_term_itself_is_found() -> None:
    assert [one.id for one in used_in(SAID)] == ["hold", "steer"]
    assert [one.id for one in used_in("the circuit is open after 3 failures; one attempt")] == [
        "breaker",
        "probe",
    ]
    assert used_in("put it on hold, risky/RA.py, `probe.py`, RATE, stake-hold") == []


def test_a_terminal_explains_a_term_once_below_where_it_stands_first() -> None:
    view = RoomView("ann")
    first = printed(view, entry(1, SAID))
    assert first[-2].startswith("  ? Hold: this agent goes on") and first[-1].startswith("  ? Steer: ")
    assert "  ? " not in "".join(printed(view, entry(2, SAID)))
    # What people and agents write is theirs.
    assert "  ? " not in "".join(printed(view, entry(3, "one attempt", kind="human")))
    agent = {"name": "AVA", "breaker": {"state": "open"}}
    assert printed(view, {"type": "agent", "data": agent})[0].startswith("  ? Circuit: ")
    assert printed(view, {"type": "agent", "data": agent}) == []


def test_help_has_them_all() -> None:
    text = help_text("words") or ""
    assert all(f"- {one.name}: {one.text}" in text for one in terms())
