"""The page's routes to locks and sessions, before a room that plays its part."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from relay.faces.http.requests.auth import Credential, CredentialKind
from relay.faces.http.routes.locks import LockRoutes
from relay.model import Fault, Refusal
from relay.model.actions import Action, Answer, ForceRelease
from tests.faces.house import house, reader_of

TAKE = "POST /api/locks/release"


class Holding:
    """A room with one lock."""

    def __init__(self) -> None:
        self.taken: list[tuple[Action, str]] = []
        self.reader = self.actions = self

    async def held(self) -> dict[str, Any]:
        return {"locks": [{"file_path": "src/app.py"}], "sessions": [], "now": "2027-01-15T08:00:00.000Z"}

    async def act(self, action: Action, *, by: str) -> Answer:
        self.taken.append((action, by))
        return Answer(action == ForceRelease("src/app.py", "it is mine"), "told")


async def test_what_is_held_is_read_and_taken(tmp_path: Path) -> None:
    room = Holding()
    routes = LockRoutes(room, reader_of("CLAUDE")).table()
    path = "src/app.py"
    async with house(tmp_path, routes=routes) as made:
        for at, body, status, told in (
            ("GET /api/locks", None, 200, {"locks": [{"file_path": path}]}),
            ("GET /api/locks?x=1", None, 400, {}),
            (TAKE, {"path": path, "reason": "it is\n mine ", "name": "ann"}, 200, {"success": True}),
            (TAKE, {"path": "x.py", "reason": "mine", "name": "ann"}, 200, {"success": False}),
            (TAKE, {"path": path, "reason": "mine", "name": "CLAUDE"}, 403, {}),
            (TAKE, {"path": path, "name": "ann"}, 400, {}),
            (TAKE, {"path": path, "reason": " ", "name": "ann"}, 400, {}),
            (TAKE, {"path": path, "reason": "y" * 301, "name": "ann"}, 400, {}),
            (TAKE, {"path": "y" * 4097, "reason": "mine", "name": "ann"}, 400, {}),
        ):
            method, _, where = at.partition(" ")
            got, answer, _ = await made.ask(method, where, json=body)
            assert got == status, (at, body, answer)
            assert {key: answer[key] for key in told} == told
            async with made.client.request(method, where) as unknown:
                assert unknown.status == 401
    assert room.taken == [
        (ForceRelease(path, "it is mine"), "ann"),
        (ForceRelease("x.py", "mine"), "ann"),
    ]


async def test_an_agents_key_takes_nothing() -> None:
    from aiohttp.test_utils import make_mocked_request

    from relay.faces.http.requests.middleware import CREDENTIAL

    class Sent:
        """A request of an agent's, with its body."""

        def __init__(self, request: web.Request) -> None:
            self._request = request
            self.content_length = None
            self.content = self

        def __getattr__(self, name: str) -> Any:
            return getattr(self._request, name)

        def __getitem__(self, key: Any) -> Any:
            assert key == CREDENTIAL
            return Credential(CredentialKind.KEY, "k", identity="CLAUDE", agent_type="claude")

        def is_eof(self) -> bool:
            return False

        async def iter_any(self) -> Any:
            yield b'{"path": "src/app.py", "reason": "mine"}'

    room = Holding()
    sent: Any = Sent(make_mocked_request("POST", "/api/locks/release"))
    with pytest.raises(Refusal) as refused:
        await LockRoutes(room, reader_of()).release(sent)
    assert refused.value.fault is Fault.FORBIDDEN
    assert room.taken == []
