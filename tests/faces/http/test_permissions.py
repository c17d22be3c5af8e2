"""The routes for permission requests, over a real socket and with the room's real desk for them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from relay.faces.http.routes.permissions import PermissionRoutes
from relay.model import PermissionOption, PermissionRequest
from relay.model.actions import Action, Answer, Permit
from relay.room.dispatch.permissions import PermissionBroker
from relay.room.journal.live_bus import Live
from relay.store.ports import Store
from tests.faces.house import House, house, reader_of
from tests.room.parts import open_room

OPTIONS = (PermissionOption("ok/1", "Yes", "allow_once"), PermissionOption("no", "No", "reject_once"))
REQUEST = PermissionRequest("CLAUDE", "rm -r build", "execute", (), OPTIONS)


class Counter:
    """The desk, one request on it, and the actions that the route gave."""

    def __init__(self, store: Store) -> None:
        self.live = Live()
        self.desk = PermissionBroker(store, self.live)
        self.orders: list[tuple[Action, str]] = []
        self.success = True

    async def act(self, action: Action, *, by: str) -> Answer:
        self.orders.append((action, by))
        return Answer(self.success, "done")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = await open_room(tmp_path)
    yield opened
    await opened.close()


@pytest.fixture
async def counter(store: Store) -> AsyncIterator[Counter]:
    one = Counter(store)
    with one.live.here("ann"):
        asking = asyncio.create_task(one.desk.ask(REQUEST, timeout_s=600))
        await asyncio.sleep(0)
        yield one
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)


@pytest_asyncio.fixture
async def home(tmp_path: Path, counter: Counter) -> AsyncIterator[House]:
    routes = PermissionRoutes(counter.desk, counter, reader_of("CLAUDE"))  # type: ignore[arg-type]
    async with house(tmp_path, routes=routes.table()) as one:
        yield one


async def test_the_open_requests_are_listed(home: House, counter: Counter) -> None:
    status, told, _ = await home.ask("GET", "/api/permissions")
    assert status == 200 and told == {"requests": [counter.desk.pending[0].as_json()]}


@pytest.mark.parametrize(("option", "place", "allow"), [("ok/1", "1", True), ("no", "2", False)])
async def test_an_answer_is_a_persons_action(
    home: House, counter: Counter, option: str, place: str, allow: bool
) -> None:
    (one,) = counter.desk.pending
    body = {"option": option, "name": "ann"}
    status, told, _ = await home.ask("POST", f"/api/permissions/{one.id}", json=body)
    assert (status, told) == (200, {"success": True, "reason": "done"})
    assert counter.orders == [(Permit(f"p{one.number}", place, allow), "ann")]
    assert counter.orders[0][0].line() == f"/{'allow' if allow else 'deny'} p{one.number} {place}"
    counter.success = False
    _, told, _ = await home.ask("POST", f"/api/permissions/{one.id}", json=body)
    assert told == {"success": False, "reason": "done"}


async def test_what_cannot_be_answered_is_refused(home: House, counter: Counter) -> None:
    (one,) = counter.desk.pending
    table: list[tuple[str, dict[str, Any], int]] = [
        ("0000-9", {"option": "no"}, 404),
        (one.id, {"option": "perhaps"}, 400),
        (one.id, {}, 400),
        (one.id, {"option": "no", "name": "CLAUDE"}, 403),
        (one.id, {"option": "no", "more": 1}, 400),
    ]
    for id, body, status in table:
        found, told, _ = await home.ask("POST", f"/api/permissions/{id}", json=body)
        assert found == status and told["error"]["message"], body
    assert counter.orders == []


async def test_the_routes_want_a_key(home: House, counter: Counter) -> None:
    (one,) = counter.desk.pending
    async with home.client.get("/api/permissions") as response:
        assert response.status == 401
    async with home.client.post(f"/api/permissions/{one.id}", json={"option": "ok/1"}) as response:
        assert response.status == 401
