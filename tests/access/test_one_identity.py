"""One identity for a whole fleet: two relays' HTTP servers over one PostgreSQL. What one gives, both take."""

from __future__ import annotations

import asyncio
import stat
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import structlog
from aiohttp.test_utils import TestServer

from relay.access.keys import LOOK_S
from relay.access.rights import room_token
from relay.app.runtime.room_token import RoomToken, new_token, token_at_start
from relay.config import loading
from relay.config.settings import LiveSettings
from relay.faces.http.app import create_app
from relay.faces.http.requests.auth import Auth, TokenError
from relay.faces.http.requests.reader import RequestReader
from relay.model import Caller
from relay.store.ports import Store
from tests import engines
from tests.engines import SCHEMAS, all_events, on_engine
from tests.faces.house import CONFIG, _metrics
from tests.faces.memory_room import MemoryRoom
from tests.outside import eventually

ANN = Caller("ann", "desk", "person", person=True)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Path]:
    """The folder that names the database which the relays share."""
    with on_engine("postgres"):
        yield tmp_path


@dataclass
class Member:
    """A relay's credentials, its file, and its server."""

    name: str
    store: Store
    auth: Auth
    path: Path
    keeper: RoomToken
    url: str
    client: aiohttp.ClientSession

    def text(self) -> str:
        return self.path.read_text().strip()

    async def status(self, **headers: str) -> int:
        async with self.client.get(f"{self.url}/api/tasks", headers=headers) as answer:
            return answer.status

    async def takes(self, token: str) -> bool:
        return await self.status(**{"X-API-Key": token}) == 200

    async def follows(self, token: str) -> bool:
        """Is this its token, and that of its file?"""
        return await self.takes(token) and self.text() == token


@asynccontextmanager
async def member(database: Path, name: str, file: str = "") -> AsyncIterator[Member]:
    """`file`: the text of its token's file before it starts."""
    folder = database / name
    path = folder / ".relay" / "token"
    if file:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{file}\n")
    async with AsyncExitStack() as stack:
        store = await engines.open_store(database, SCHEMAS)
        stack.push_async_callback(store.close)
        auth = Auth(await token_at_start(store, path, name), store)
        keeper = RoomToken(store, auth, path, name)
        task = asyncio.create_task(keeper.run())
        stack.push_async_callback(lambda: asyncio.gather(task, return_exceptions=True))
        stack.callback(task.cancel)
        live = LiveSettings(loading.parse(CONFIG, folder / "config.json"))
        app = create_app(
            MemoryRoom(), auth, RequestReader(live), static=folder / "static", metrics=_metrics()
        )
        server = TestServer(app, host="127.0.0.1", access_log=None)
        await server.start_server()
        stack.push_async_callback(server.close)
        client = await stack.enter_async_context(
            aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True))
        )
        yield Member(name, store, auth, path, keeper, f"http://127.0.0.1:{server.port}", client)


@asynccontextmanager
async def two(database: Path) -> AsyncIterator[tuple[Member, Member]]:
    async with member(database, "A") as a, member(database, "B") as b:
        yield a, b


def when(look: Callable[..., Awaitable[bool]], *words: Any) -> Callable[[], Awaitable[bool]]:
    return lambda: look(*words)


# --- the token -----------------------------------------------------------------------------------------


async def test_the_first_gives_the_room_its_token_and_the_others_files_have_it(database: Path) -> None:
    own, other = "a" * 43, "b" * 43
    async with member(database, "A", own) as a:
        assert a.auth.token == a.text() == own
        with structlog.testing.capture_logs() as logs:
            async with member(database, "B", other) as b:
                assert b.auth.token == b.text() == own
                assert stat.S_IMODE(b.path.stat().st_mode) == 0o600
                assert await b.takes(own) and not await b.takes(other) and not await a.takes(other)
        assert [log["event"] for log in logs if "its old text is refused" in log["event"]]
        assert own not in str(logs) and other not in str(logs)
    async with member(database, "C", "too short") as c:
        assert c.text() == own, "a file that holds no token is written anew too"
    async with member(database, "D") as d:
        assert d.text() == own


async def test_relays_that_start_at_once_have_one_token(database: Path) -> None:
    paths = [database / str(n) / "token" for n in range(6)]
    stores = [await engines.open_store(database, SCHEMAS) for _ in paths]
    try:
        tokens = await asyncio.gather(
            *(
                token_at_start(store, path, path.parent.name)
                for store, path in zip(stores, paths, strict=True)
            )
        )
    finally:
        for store in stores:
            await store.close()
    assert len({*tokens, *(path.read_text().strip() for path in paths)}) == 1


async def test_a_first_file_that_holds_no_token_is_said_and_not_made_the_rooms(database: Path) -> None:
    (database / "token").write_text("short\n")
    store = await engines.open_store(database, SCHEMAS)
    try:
        with pytest.raises(TokenError, match="remove it"):
            await token_at_start(store, database / "token", "A")
        assert await room_token.current(store) is None
    finally:
        await store.close()


async def test_a_token_that_is_replaced_at_one_is_replaced_at_all(database: Path) -> None:
    async with two(database) as (a, b):
        old, new = a.auth.token, "n" * 43
        async with b.client.ws_connect(f"{b.url}/ws", headers={"X-API-Key": old}) as socket:
            a.path.write_text(f"{new}\n")
            await eventually(when(b.follows, new), "B has the new token")
            await eventually(when(a.follows, new), "A has it")
            assert not await a.takes(old) and not await b.takes(old)
            assert stat.S_IMODE(b.path.stat().st_mode) == 0o600
            async for message in socket:  # ends: the old token opened it
                assert old not in str(message.data) and new not in str(message.data)
        events = await all_events(a.store, room_token.REPLACED)
        assert [event.outputs for event in events] == [{"by": "A"}]


async def test_two_that_replace_it_at_once_end_with_one(database: Path) -> None:
    async with two(database) as (a, b):
        a.path.write_text("x" * 43 + "\n")
        b.path.write_text("y" * 43 + "\n")

        async def agreed() -> bool:
            counts = await room_token.current(a.store)
            texts = {a.auth.token, b.auth.token, a.text(), b.text(), counts}
            return texts in ({"x" * 43}, {"y" * 43})

        await eventually(agreed, "both have one of the two")
        first = a.auth.token
        second = await room_token.replace(b.store, "z" * 43, "w" * 43, by="B")
        assert second == first, "what was replaced meanwhile is not replaced by whoever knows an older one"


async def test_a_file_that_cannot_be_written_does_not_bring_the_old_token_back(database: Path) -> None:
    async with two(database) as (a, b):
        old = b.auth.token
        away = b.path.parent.rename(b.path.parent.with_name("away"))
        b.path.parent.write_text("no folder")
        assert await new_token(a.store, a.path, "ann")
        new = a.text()
        await eventually(when(b.takes, new), "B takes the new one")
        assert not await b.takes(old)

        async def said() -> bool:
            return "cannot be written" in b.keeper.trouble

        await eventually(said, "B says that its file is old")
        b.path.parent.unlink()
        away.rename(b.path.parent)  # with the old text in it
        await eventually(when(b.follows, new), "its file is written")
        assert b.keeper.trouble == "" and await room_token.current(b.store) == new


async def test_a_room_of_its_own_has_the_token_of_its_file(tmp_path: Path) -> None:
    store = await engines.open_store(tmp_path, SCHEMAS)
    try:
        path = tmp_path / ".relay" / "token"
        auth = Auth(await token_at_start(store, path, "A"), store)
        assert path.read_text().strip() == auth.token and len(auth.token) == 43
        assert await new_token(store, path, "ann") and path.read_text().strip() != auth.token
        keeper = asyncio.create_task(RoomToken(store, auth, path, "A").run())

        async def taken() -> bool:
            return path.read_text().strip() == auth.token

        await eventually(taken, "the file's text is the room's")
        keeper.cancel()
        assert await all_events(store, room_token.REPLACED) == []
    finally:
        await store.close()


# --- keys, links and sessions --------------------------------------------------------------------------


async def test_a_key_of_one_works_at_the_other_until_it_is_revoked_anywhere(database: Path) -> None:
    async with two(database) as (a, b):
        made = await a.auth.keys.create(ANN, "CODEX")
        assert await b.takes(made["key"]) and await a.takes(made["key"])
        await a.auth.keys.revoke(ANN, made["id"])
        assert not await a.takes(made["key"])
        # What B had looked up is trusted for half a second from then on, and no longer.
        await asyncio.sleep(LOOK_S)
        assert not await b.takes(made["key"])


async def test_a_link_of_one_signs_in_at_the_other_once_and_its_session_holds_at_both(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with two(database) as (a, b):
        async with a.client.post(f"{a.url}/api/links", headers={"X-API-Key": a.auth.token}) as answer:
            link = (await answer.json())["url"].partition("#link=")[2]
        # The other machine's clock is an hour ahead.
        ahead = time.time
        monkeypatch.setattr(time, "time", lambda: ahead() + 3600)
        async with b.client.post(f"{b.url}/api/sign-in", json={"link": link}) as answer:
            assert answer.status == 200
            secret = answer.headers["Set-Cookie"].partition("=")[2].partition(";")[0]
        monkeypatch.undo()
        async with a.client.post(f"{a.url}/api/sign-in", json={"link": link}) as answer:
            assert answer.status == 401, "used"

        def cookie(one: Member) -> dict[str, str]:
            return {"Cookie": f"relay_{one.url.rpartition(':')[2]}={secret}"}

        async with aiohttp.ClientSession() as plain:

            async def status(one: Member, path: str = "/api/tasks", method: str = "GET") -> int:
                async with plain.request(method, one.url + path, headers=cookie(one)) as answer:
                    return answer.status

            assert (await status(a), await status(b)) == (200, 200)
            assert await status(a, "/api/sign-out", "POST") == 200
            assert (await status(a), await status(b)) == (401, 401)
