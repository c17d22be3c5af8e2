"""What a person orders by a button: the answer is the room's, whatever becomes of it on its way."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from relay.model import Fault, Refusal
from relay.model.actions import AddTask, Answer, DeclareIntent
from relay.room.journal.live_bus import Live
from relay.room.parsing.commands import intent_paths
from relay.room.person_actions import PersonActions
from relay.room.poster import Poster
from relay.store.ports import Store
from tests import engines
from tests.engines import Clock
from tests.room.office import Office
from tests.room.parts import SCHEMAS, until


@pytest.fixture
async def store(tmp_path: Path, clock: Clock) -> Any:
    opened = await engines.open_store(tmp_path, SCHEMAS, clock=clock)
    yield opened
    await opened.close()


@pytest.fixture
def clock() -> Clock:
    return Clock()


class LostAnswers:
    """The steward of an office whose answers get lost between their commit and who waits for them."""

    def __init__(self, office: Office) -> None:
        self._office = office
        self.stored_answer = office.steward.stored_answer

    @contextmanager
    def answer_to(self, message_id: str) -> Iterator[asyncio.Future[Answer]]:
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

        async def lose() -> None:
            await until(lambda: self.stored_answer(message_id))
            answer.set_exception(TimeoutError())

        losing = asyncio.create_task(lose())
        try:
            yield answer
        finally:
            losing.cancel()


async def test_an_answer_that_was_lost_on_its_way_is_read_from_the_room(store: Store, clock: Clock) -> None:
    office = Office(store, clock)
    poster = Poster(store, office.roster, Live(), None)
    steward = cast(Any, LostAnswers(office))
    actions = PersonActions(cast(Any, None), poster, steward, office.board, cast(Any, None), clock=clock)
    async with office.at_work():
        answer = await actions.act(AddTask("tests"), by="ann")
    assert (answer.success, answer.task) == (True, 1)
    assert await office.tasks() == [(1, "tests", "pending")]


async def test_a_busy_database_is_no_refusal_of_the_board(store: Store, clock: Clock) -> None:
    class Shown:
        async def task(self, number: int) -> dict[str, Any]:
            return {"number": number, "title": "old", "status": "pending"}

    class Busy(Poster):
        async def write(self, work: Any) -> Any:
            raise Refusal("The database cannot take it now.", "Try again.", Fault.BUSY, "busy")

    office = Office(store, clock)
    poster = Busy(store, office.roster, Live(), None)
    reader = cast(Any, Shown())
    actions = PersonActions(reader, poster, office.steward, office.board, cast(Any, None), clock=clock)
    with pytest.raises(Refusal) as refused:
        await actions.change_task(1, {"title": "new"}, by="ann")
    assert (refused.value.fault, refused.value.code) == (Fault.BUSY, "busy")


@pytest.mark.parametrize(
    ("words", "paths"),
    [
        (["a.py,", "b.py"], ("a.py", "b.py")),
        (["-"], ()),
        ([","], None),
        (["a\nb"], ("a b",)),
        (["a\ud800"], ("a?",)),
        (["a.py", "a.py"], ("a.py",)),
    ],
)
def test_a_button_declares_the_paths_that_the_command_would(
    words: list[str], paths: tuple[str, ...] | None
) -> None:
    assert intent_paths(words) == paths
    if paths is not None:
        assert DeclareIntent("CLAUDE", paths).line()
