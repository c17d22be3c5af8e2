"""The page's look into the room's memory: what bears on the words, filters, and what is told to nobody."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from aiohttp import web

from relay.faces.http.requests.reader import RequestReader
from relay.faces.http.routes.memories import MemoryRoutes
from relay.memory.episodic.forgetting import forget
from relay.memory.episodic.keeping import NewMemory, keep
from relay.memory.experience import Experience
from relay.model import Caller
from relay.store.ports import Store
from tests.engines import BOTH
from tests.faces.house import House, house

pytestmark = BOTH
DAY = 86_400
PERSON = Caller("ann", "room", person=True)


async def kept(store: Store, text: str, agent: str, at: float, **more: Any) -> int:
    importer = more.pop("importer", None)
    experience = Experience(more.pop("kind", "note"), text, **more)
    new = NewMemory(experience, agent, f"s-{agent}", at, imported_by=importer)
    return (await store.write(lambda tx: keep(tx, new))).number


async def looked(home: House, query: str = "") -> dict[str, Any]:
    status, told, _ = await home.ask("GET", f"/api/memory{query}")
    assert status == 200, told
    answer: dict[str, Any] = told
    return answer


def summaries(told: dict[str, Any]) -> Sequence[str]:
    return [memory["summary"] for memory in told["memories"]]


def routes(store: Store, reader: RequestReader) -> Sequence[web.RouteDef]:
    """The page's, without the room's actions."""
    return MemoryRoutes(store, None, reader).table()  # type: ignore[arg-type]


async def test_words_filters_and_what_is_forgotten(tmp_path: Path) -> None:
    async with house(tmp_path, routes_on=routes) as home:
        assert await looked(home) == {
            "memories": [],
            "more": False,
            "forgotten": None,
            "choices": {"agents": [], "kinds": [], "tags": []},
        }
        now = home.clock()
        await kept(
            home.store, "Mocking the clock hid a bug", "ann", now - 400 * DAY, lessons=("never mock it",)
        )
        await kept(home.store, "The clock is injected", "CLAUDE", now - DAY, kind="decision", tags=("time",))
        gone = await kept(home.store, "The clock password is 1234", "ann", now, tags=("secret",))
        await home.store.write(lambda tx: forget(tx, PERSON, f"r{gone}"))

        told = await looked(home, "?q=mocked+clocks")
        assert summaries(told)[0] == "Mocking the clock hid a bug" and len(told["memories"]) == 2
        assert told["memories"][0]["marks"] == ["clock", "mock", "mocking"]
        assert told["memories"][0]["feedback"] == {"useful": 0, "useless": 0, "mine": None}
        assert told["memories"][0]["source"]["type"] == "memory.remembered"
        assert told["choices"] == {
            "agents": ["CLAUDE", "ann"],
            "kinds": ["decision", "note"],
            "tags": ["time"],
        }
        old, new = "Mocking the clock hid a bug", "The clock is injected"
        for query, wanted in (
            ("agent=ann", [old]),
            ("kind=decision", [new]),
            ("tag=time", [new]),
            ("tag=secret", []),
            ("agent=ann&kind=decision", []),
            ("since=2000-01-01", [new, old]),
            ("limit=1", [new]),
        ):
            for words in ("", "&q=clock"):
                found = summaries(await looked(home, f"?{query}{words}"))
                assert sorted(found) == sorted(wanted), (query, words)
        # Who types sees what the word may become; what is forgotten has none.
        for typed, wanted in (
            ("injec", [new]),
            ("the clo", [new, old]),
            ("passw", []),
            ("zeb", []),
            ("c", []),
        ):
            told = await looked(home, f"?q={typed.replace(' ', '+')}")
            assert sorted(summaries(told)) == sorted(wanted), typed
        assert "clock" in (await looked(home, "?q=clo"))["memories"][0]["marks"]
        # A number names one, whatever else bears on it; what is forgotten it does not name.
        for text, wanted in (("r1", [old]), ("R2", [new]), (f"r{gone}", []), ("r99", [])):
            assert summaries(await looked(home, f"?q={text}")) == wanted, text


async def test_what_is_said_again_stands_where_it_was_last_said(tmp_path: Path) -> None:
    async with house(tmp_path, routes_on=routes) as home:
        now = home.clock()
        for text, minutes in (("the clock is fine", 30), ("the emu is fine", 20), ("the clock is fine", 10)):
            await kept(home.store, text, "ann", now - 60 * minutes)
        for query in ("", "?agent=ann"):
            told = (await looked(home, query))["memories"]
            assert [memory["summary"] for memory in told] == ["the clock is fine", "the emu is fine"], query
            assert [memory["merged"] for memory in told] == [1, 0], query
            times = [memory["updated_at"] for memory in told]
            assert times == sorted(times, reverse=True), query
            assert told[0]["created_at"] < told[1]["created_at"] == told[1]["updated_at"], query


async def test_what_was_only_said_next_to_it_comes_last_and_says_so(tmp_path: Path) -> None:
    async with house(tmp_path, routes_on=routes) as home:
        now = home.clock()
        for at, text in enumerate(
            ("PostgreSQL has rows", "never mock the clock", "is the emu there", "a clock and much else")
        ):
            # A turn of a conversation, with neighbours.
            await kept(home.store, text, "ann" if at < 3 else "bob", now - 600 + at, importer="zoe")
        for limit in (30, 3, 1):
            told = await looked(home, f"?q=clock&limit={limit}")
            beside = [memory["beside"] for memory in told["memories"]]
            assert beside == [False, False, True, True][:limit]
            assert all(memory["why"]["words"] != [] for memory in told["memories"][:2])
            assert told["more"] is (limit < 4)
        assert not any(memory["beside"] for memory in (await looked(home))["memories"])


async def test_a_time_leaves_out_what_is_before_and_behind_it(tmp_path: Path) -> None:
    async with house(tmp_path, routes_on=routes) as home:
        for month in (1, 5, 9):
            await kept(home.store, f"clock {month}", "ann", 1_700_000_000 + month * 30 * DAY)
        for words in ("", "&q=clock"):
            told = await looked(home, f"?since=2024-02-01T00:00:00Z&until=2024-05-01T00:00:00Z{words}")
            assert summaries(told) == ["clock 5"]
            assert sorted(summaries(await looked(home, f"?until=2024-05-01{words}"))) == [
                "clock 1",
                "clock 5",
            ]
        status, told, _ = await home.ask("GET", "/api/memory?since=yesterday")
        assert status == 400 and "no time" in told["error"]["message"]


async def test_a_source_that_is_not_there(tmp_path: Path) -> None:
    async with house(tmp_path, routes_on=routes) as home:
        assert (await home.ask("GET", f"/api/memory/source/{'0' * 64}"))[0] == 404
