"""What agents ask people for: who is asked, who answers, and what happens when nobody does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from relay.model import PermissionAnswer, PermissionOption, PermissionRequest, Refusal
from relay.model.actions import Permit
from relay.room.dispatch.permissions import ALLOW, REJECT, PermissionBroker
from relay.room.journal.live_bus import Live
from relay.room.parsing.commands import Problem, parse
from relay.store.ports import Store
from tests.engines import BOTH, Clock
from tests.room.office import Office
from tests.room.parts import notices, until

pytestmark = BOTH

YES = PermissionOption("yes-id", "Yes", "allow_once")
ALWAYS = PermissionOption("always-id", "Yes, always", "allow_always")
NO = PermissionOption("no-id", "No", "reject_once")
REQUEST = PermissionRequest("ALPHA", "run `npm test`", "execute", ("a.py",), (ALWAYS, YES, NO))


class Front:
    """A desk with a person before it, and what was said."""

    def __init__(self, store: Store) -> None:
        self.live, self.clock, self.store = Live(), Clock(), store
        self.desk = PermissionBroker(store, self.live, clock=self.clock)

    async def said(self) -> list[tuple[str, Mapping[str, Any]]]:
        """The notices of the room, oldest first."""
        return [(notice.body, notice.meta) for notice in await notices(self.store)]

    async def begin(self, timeout_s: float = 60.0, request: PermissionRequest = REQUEST) -> Any:
        before = len(self.desk.pending)
        asking = asyncio.create_task(self.desk.ask(request, timeout_s=timeout_s))

        async def open_() -> bool:
            return len(self.desk.pending) > before or asking.done()

        await until(open_)
        return asking


@pytest.fixture
def front(store: Store) -> Front:
    return Front(store)


async def test_a_persons_answer_reaches_the_agent(front: Front) -> None:
    with front.live.here("ann"):
        asking = await front.begin(30.0)
        (one,) = front.desk.pending
        assert one.as_json() == {
            "id": one.id,
            "agent": "ALPHA",
            "title": "run `npm test`",
            "tool": "execute",
            "command": "",
            "paths": ["a.py"],
            "options": [
                {"id": "always-id", "name": "Yes, always (as its program keeps it)", "kind": "allow_always"},
                {"id": "yes-id", "name": "Yes", "kind": "allow_once"},
                {"id": "no-id", "name": "No", "kind": "reject_once"},
            ],
            "asked_at": "2027-01-15T08:00:00.000Z",
            "deadline_at": "2027-01-15T08:00:30.000Z",
            "advisory": None,
        }
        assert front.desk.answer(one.id, YES, "ann")
        assert not front.desk.answer(one.id, NO, "ben"), "one request has one answer"
        assert await asking == PermissionAnswer(YES, "ann")
    assert front.desk.pending == []
    ((text, meta),) = await front.said()
    assert (
        "`run 'npm test'`" in text
        and "/allow p1" in text
        and (meta["permission"], meta["request"]) == (one.id, "p1")
    )


async def test_without_an_answer_it_is_refused(front: Front) -> None:
    with front.live.here("ann"):
        answer = await front.desk.ask(REQUEST, timeout_s=0.02)
    assert answer.option is None and "nobody answered within 0.02 s" in answer.reason
    assert front.desk.pending == [] and "Nobody answered ALPHA" in (await front.said())[-1][0]


async def test_with_nobody_there_it_is_refused_at_once_and_said_once(front: Front) -> None:
    for _ in range(3):
        answer = await front.desk.ask(REQUEST, timeout_s=1000)
        assert answer.option is None and "nobody who could answer is connected" in answer.reason
    assert len(await front.said()) == 1
    front.clock.move(61)
    await front.desk.ask(REQUEST, timeout_s=1000)
    assert len(await front.said()) == 2


async def test_a_turn_that_ends_takes_its_request_back(front: Front) -> None:
    with front.live.here("ann"):
        asking = await front.begin()
        (one,) = front.desk.pending
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
    assert front.desk.pending == [] and not front.desk.answer(one.id, YES, "ann")


async def test_a_number_is_never_used_again(front: Front) -> None:
    with front.live.here("ann"):
        await front.desk.ask(REQUEST, timeout_s=0.01)
        front.desk = PermissionBroker(front.store, front.live)  # as after a restart
        asking = await front.begin()
        (one,) = front.desk.pending
        assert one.number == 2

        async def told() -> bool:
            return "/allow p2" in (await front.said())[-1][0]

        await until(told)
        with pytest.raises(Refusal, match="no open permission request"):
            front.desk.find("p1")
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)


async def test_clients_are_told_of_each_change(front: Front) -> None:
    seen: list[str] = []

    async def listen() -> None:
        async for frame in front.live.feed():
            if frame.type == "permission":
                seen.append(frame.data["state"])

    listening = asyncio.create_task(listen())
    await asyncio.sleep(0)
    with front.live.here("ann"):
        asking = await front.begin()
        front.desk.answer(front.desk.pending[0].id, None, "ann")
        assert await asking == PermissionAnswer(None, "ann", "ann refused it")
        await front.desk.ask(REQUEST, timeout_s=0.01)

    async def all_told() -> bool:
        return len(seen) == 4

    await until(all_told)
    listening.cancel()
    assert seen == ["open", "answered", "open", "expired"]


async def test_options_are_found_as_people_write_them(front: Front) -> None:
    with front.live.here("ann"):
        asking = await front.begin()
        (one,) = front.desk.pending
        assert one.option(None, ALLOW) is YES and one.option(None, REJECT) is NO
        for wanted, option in (("1", ALWAYS), ("yes", YES), ("no-id", NO), ("YES, ALWAYS", ALWAYS)):
            assert one.option(wanted, ALLOW) is option
        with pytest.raises(Refusal, match="1 \\(Yes, always\\)"):
            one.option("perhaps", ALLOW)
        assert front.desk.find("1") is one and front.desk.find(one.id) is one
        for gone in ("2", "0000-1"):
            with pytest.raises(Refusal, match="no open permission request"):
                front.desk.find(gone)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
    bare = await _pending(front, PermissionRequest("ALPHA", "x", options=(ALWAYS,)))
    assert bare.option(None, REJECT) is None and bare.option(None, ALLOW) is ALWAYS
    none = await _pending(front, PermissionRequest("ALPHA", "x"))
    with pytest.raises(Refusal, match="no option that allows"):
        none.option(None, ALLOW)


async def _pending(front: Front, request: PermissionRequest) -> Any:
    with front.live.here("ann"):
        asking = await front.begin(request=request)
        one = front.desk.pending[-1]
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
    return one


# -- the commands


@pytest.mark.parametrize(
    ("body", "command"),
    [
        ("/allow #3", Permit("3", None, True)),
        ("/allow 3 yes, always", Permit("3", "yes, always", True)),
        ("/deny # 3", Permit("3", None, False)),
        ("/allow 0a1f-12 2", Permit("0a1f-12", "2", True)),
    ],
)
def test_a_command_is_read(body: str, command: Permit) -> None:
    assert parse(body) == command


@pytest.mark.parametrize("body", ["/allow", "/deny it", "/allow all"])
def test_a_command_without_a_number_is_not_understood(body: str) -> None:
    assert isinstance(parse(body), Problem)


@pytest.fixture
async def office(store: Store) -> AsyncIterator[tuple[Office, PermissionBroker, Live]]:
    live = Live()
    desk = PermissionBroker(store, live)
    async with Office(store, Clock(), permissions=desk).at_work() as office:
        yield office, desk, live


async def asked(desk: PermissionBroker) -> asyncio.Task[PermissionAnswer]:
    asking = asyncio.create_task(desk.ask(REQUEST, timeout_s=60))

    async def waits() -> bool:
        return bool(desk.pending)

    await until(waits)
    return asking


async def test_people_answer_by_commands(office: tuple[Office, PermissionBroker, Live]) -> None:
    one, desk, live = office
    with live.here("ann"):
        for body, option, told in (
            ("/allow p1", YES, "ann allows ALPHA: `run 'npm test'` (`Yes`)."),
            ("/deny #2", NO, "ann refuses ALPHA"),
            ("/allow #3 1", ALWAYS, "ann allows ALPHA"),
        ):
            asking = await asked(desk)
            answer = await one.answer_to(await one.post(body))
            assert told in answer.body
            assert await asking == PermissionAnswer(option, "ann")
        late = await one.answer_to(await one.post("/allow #1"))
        assert "it was answered" in late.body and late.meta["error"]


async def test_a_line_in_the_transcript_allows_nothing(office: tuple[Office, PermissionBroker, Live]) -> None:
    """An agent may write such a line with `echo`, and so allow itself what it asks for."""
    one, desk, live = office
    with live.here("ann"):
        asking = await asked(desk)
        refused = await one.answer_to(await one.post("/allow #1", verified=False))
        assert "lifts a guard" in refused.body and len(desk.pending) == 1
        wrong = await one.answer_to(await one.post("/allow #1 no-id"))
        assert "refuses it" in wrong.body and len(desk.pending) == 1
        sneaky = await one.answer_to(await one.post("/deny #1 yes-id", verified=False))
        assert "allows it" in sneaky.body and len(desk.pending) == 1
        await one.answer_to(await one.post("/deny #1", verified=False))
        assert (await asking).option is NO
