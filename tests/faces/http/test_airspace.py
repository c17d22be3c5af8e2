"""The airspace's routes: shapes, refusals, and who speaks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from relay.faces.http.routes.airspace import AirspaceRoutes
from relay.model import Refusal
from relay.model.actions import Action, Answer, DeclareIntent, GoFirst, Stop, TakeMain
from tests.faces.house import House, house, reader_of


class PlayedAirspace:
    """Remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.success = True

    async def state(self, *, all_files: bool = True) -> dict[str, Any]:
        idle = {"b.py": [1, 1, 1]} if all_files else {}
        return {"enabled": True, "fileCoordinates": {"a.py": [0, 0, 0], **idle}}

    async def declare_own(self, action: DeclareIntent, *, session: str = "") -> Sequence[str]:
        if "../out" in action.paths:
            raise Refusal("'../out' is not a path inside the repository.", "Give it relative.")
        return action.paths

    def in_hand(self, agent: str, paths: Sequence[str]) -> list[str]:
        return ["CODEX changes held.py now."] if "held.py" in paths else []

    async def past(self, since: float | None, until: float | None) -> Sequence[dict[str, Any]]:
        self.asked.append((since, until))
        return [{"at": "x"}]

    async def advisories(self, limit: int) -> dict[str, Any]:
        return {"advisories": [], "precision": {"true": 0}, "limit": limit}

    async def mark(self, advisory_id: str, mark: str | None, *, by: str) -> dict[str, Any] | None:
        self.asked.append((advisory_id, mark, by))
        return {"id": advisory_id, "mark": mark} if advisory_id == "a1" else None

    async def act(self, action: Action, *, by: str) -> Answer:
        self.asked.append((action, by))
        return Answer(self.success, "said")


@pytest.fixture
def air() -> PlayedAirspace:
    return PlayedAirspace()


@pytest_asyncio.fixture
async def home(tmp_path: Path, air: PlayedAirspace) -> AsyncIterator[House]:
    routes = AirspaceRoutes(air, air, reader_of("CLAUDE"))
    async with house(tmp_path, routes=routes.table()) as one:
        yield one


async def test_the_state_and_the_list(home: House) -> None:
    everywhere = {"a.py": [0, 0, 0], "b.py": [1, 1, 1]}
    whole = {"enabled": True, "fileCoordinates": everywhere}
    assert (await home.ask("GET", "/api/airspace"))[:2] == (200, whole)
    touched = {"enabled": True, "fileCoordinates": {"a.py": [0, 0, 0]}}
    assert (await home.ask("GET", "/api/airspace?files=touched"))[:2] == (200, touched)
    assert (await home.ask("GET", "/api/airspace?files=some"))[0] == 400
    status, told, _ = await home.ask("GET", "/api/airspace/advisories?limit=7")
    assert (status, told["limit"]) == (200, 7)
    assert (await home.ask("GET", "/api/airspace?x=1"))[0] == 400
    assert (await home.ask("GET", "/api/airspace/advisories?limit=0"))[0] == 400


@pytest.mark.parametrize(
    ("query", "asked"),
    [
        ("", (None, None)),
        ("?from=2026-01-02T03:04:05Z", (datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC).timestamp(), None)),
        ("?from=2026-01-02T03:04:05", (datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC).timestamp(), None)),
        ("?to=2026-01-02T05:04:05+02:00", (None, datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC).timestamp())),
        ("?to=2026-01-02T05:04:05%2B02:00", (None, datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC).timestamp())),
    ],
)
async def test_the_history_is_asked_by_times(
    home: House, air: PlayedAirspace, query: str, asked: tuple[Any, ...]
) -> None:
    status, told, _ = await home.ask("GET", f"/api/airspace/history{query}")
    assert (status, told) == (200, {"samples": [{"at": "x"}]})
    assert air.asked == [asked]


@pytest.mark.parametrize(
    "query", ["?from=yesterday", "?to=", "?from=2026-02-01T00:00:00Z&to=2026-01-01T00:00:00Z", "?since=1"]
)
async def test_a_wrong_time_is_refused(home: House, query: str) -> None:
    status, told, _ = await home.ask("GET", f"/api/airspace/history{query}")
    assert status == 400 and told["error"]["message"]


async def test_a_person_marks_an_advisory(home: House, air: PlayedAirspace) -> None:
    for mark in ("useful", "noise", None):
        status, told, _ = await home.ask(
            "POST", "/api/airspace/advisories/a1/mark", json={"mark": mark, "name": "ann"}
        )
        assert (status, told) == (200, {"id": "a1", "mark": mark})
    assert air.asked[0] == ("a1", "useful", "ann")


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("advisories/a1/mark", {}, 400),
        ("advisories/a1/mark", {"mark": "good"}, 400),
        ("advisories/a1/mark", {"mark": 1}, 400),
        ("advisories/a1/mark", {"mark": None, "name": "CLAUDE"}, 403),
        ("advisories/none/mark", {"mark": "noise"}, 404),
        ("intent", {"agent": "CLAUDE"}, 400),
        ("intent", {"agent": "CLAUDE", "paths": "a.py"}, 400),
        ("intent", {"agent": "CLAUDE", "paths": [1]}, 400),
        ("intent", {"agent": "CLAUDE", "paths": [" "]}, 400),
        ("intent", {"paths": ["a.py"]}, 400),
        ("intent", {"agent": "CLAUDE", "paths": [], "name": "RELAY"}, 403),
    ],
)
async def test_a_wrong_request_is_refused(home: House, path: str, body: dict[str, Any], status: int) -> None:
    found, told, _ = await home.ask("POST", f"/api/airspace/{path}", json=body)
    assert found == status and told["error"]["message"]


@pytest.mark.parametrize(
    ("decision", "action"),
    [("first", GoFirst("CLAUDE")), ("stop", Stop(("CLAUDE",))), ("update", TakeMain(("CLAUDE",)))],
)
async def test_a_person_decides(home: House, air: PlayedAirspace, decision: str, action: Action) -> None:
    body = {"action": decision, "agent": "CLAUDE", "name": "ann"}
    status, told, _ = await home.ask("POST", "/api/airspace/decide", json=body)
    assert (status, told) == (200, {"success": True, "reason": "said"})
    assert air.asked == [(action, "ann")]
    assert (await home.ask("POST", "/api/airspace/decide", json={**body, "action": "last"}))[0] == 400


async def test_an_intent_is_the_rooms_action(home: House, air: PlayedAirspace) -> None:
    body = {"agent": "CLAUDE", "paths": ["a b.py"], "name": "ann"}
    status, told, _ = await home.ask("POST", "/api/airspace/intent", json=body)
    assert (status, told["success"], told["agent"], told["intent"]) == (200, True, "CLAUDE", ["a b.py"])
    assert air.asked == [(DeclareIntent("CLAUDE", ("a b.py",)), "ann")]
    status, told, _ = await home.ask(
        "POST", "/api/airspace/intent", json={**body, "paths": ["a.py,", "\ud800"]}
    )
    assert (status, air.asked[-1]) == (200, (DeclareIntent("CLAUDE", ("a.py", "?")), "ann"))
    assert told["intent"] == ["a.py", "?"]
    status, told, _ = await home.ask("POST", "/api/airspace/intent", json={**body, "paths": [","]})
    assert (status, told["success"], told["intent"], len(air.asked)) == (200, False, None, 2)
    air.success = False
    status, told, _ = await home.ask("POST", "/api/airspace/intent", json={**body, "paths": []})
    assert (status, told["success"], told["intent"], told["reason"]) == (200, False, None, "said")


async def test_an_agents_own_intent_is_no_message(home: House, air: PlayedAirspace) -> None:
    body = {"agent": "CLAUDE", "paths": ["a.py"], "own": True}
    status, told, _ = await home.ask("POST", "/api/airspace/intent", json=body)
    assert (status, told) == (200, {"success": True, "agent": "CLAUDE", "intent": ["a.py"]})
    assert air.asked == []
    status, told, _ = await home.ask("POST", "/api/airspace/intent", json={**body, "paths": ["../out"]})
    assert (status, told["success"]) == (200, False)
    assert "not a path inside the repository" in told["reason"]
    assert (await home.ask("POST", "/api/airspace/intent", json={**body, "agent": "NOBODY"}))[0] == 404


@pytest.mark.parametrize("own", [{"own": True}, {"name": "ann"}])
async def test_an_intent_is_answered_with_who_has_the_file_in_hand(home: House, own: dict[str, Any]) -> None:
    body = {"agent": "CLAUDE", "paths": ["held.py"], **own}
    status, told, _ = await home.ask("POST", "/api/airspace/intent", json=body)
    assert (status, told["in_hand"]) == (200, ["CODEX changes held.py now."])


@pytest.mark.parametrize("path", ["", "/history", "/advisories"])
async def test_the_routes_want_a_key(home: House, path: str) -> None:
    async with home.client.get(f"/api/airspace{path}") as response:
        assert response.status == 401
