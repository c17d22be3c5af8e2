"""Another token for a room that runs: the commands of the machine go on, and whoever has the old one is out."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from relay.store.postgres.address import VARIABLE
from tests import engines
from tests.e2e.conftest import Open
from tests.engines import on_engine
from tests.outside import Outside, eventually


@pytest.fixture(params=["sqlite", "postgres"])
def storage(request: pytest.FixtureRequest) -> Iterator[str]:
    with on_engine(request.param):
        yield request.param


async def room(open_room: Open, storage: str, folder: Path) -> Outside:
    one = await open_room(start=False, storage=storage)
    if storage == "postgres":
        one.env[VARIABLE] = engines.address_of(folder)
    await one.start()
    return one


async def status(one: Outside, token: str) -> int:
    async with one.session.get(f"{one.url}/api/tasks", headers={"X-API-Key": token}) as answer:
        return answer.status


async def test_a_running_room_gets_another_token(open_room: Open, storage: str, tmp_path: Path) -> None:
    one = await room(open_room, storage, tmp_path)
    old = one.token
    made = await one.relay("keys", "new-token")
    new = one.token
    assert (made.code, new != old) == (0, True), made.all
    assert old not in made.all and new not in made.all and str(one.runtime / "token") in made.out
    link = await one.relay("link")
    assert link.code == 0 and link.out.startswith(one.url), link.all

    async def changed() -> bool:
        return (await status(one, old), await status(one, new)) == (401, 200)

    await eventually(changed, "the old token is refused")
    assert one.token == new and stat.S_IMODE((one.runtime / "token").stat().st_mode) == 0o600
    assert old not in (one.runtime / "relay.log").read_text()


async def test_of_a_file_and_a_database_that_disagree_the_database_wins(
    open_room: Open, tmp_path: Path
) -> None:
    with on_engine("postgres"):
        one = await room(open_room, "postgres", tmp_path)
        token, path = one.token, one.runtime / "token"
        assert (await one.script("stop.sh")).code == 0
        path.write_text("o" * 43 + "\n")
        await one.start()
        assert one.token == token and await status(one, "o" * 43) == 401 and await status(one, token) == 200
        assert "its old text is refused" in (one.runtime / "relay.log").read_text()
        # Without a daemon too: the next start has what the command gave the database.
        assert (await one.script("stop.sh")).code == 0
        assert (await one.relay("keys", "new-token")).code == 0
        path.write_text(f"{token}\n")
        await one.start()
        assert await status(one, token) == 401 and await status(one, one.token) == 200
