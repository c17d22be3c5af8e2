"""The people of a fleet: one list at all members, and one name is one person."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.e2e.conftest import Open
from tests.e2e.test_fleet import fleet_of
from tests.outside import Json, Outside, agent, eventually


async def people(room: Outside, *, are: list[str], at: dict[str, str]) -> None:
    async def look() -> bool:
        state: Json = await room.get("/api/state")
        return (state["people"], state["people_at"]) == (are, at)

    await eventually(look, f"the people at {room.folder.name} to be {are}, {at}")


@asynccontextmanager
async def page(room: Outside, name: str) -> AsyncIterator[None]:
    """A person in front of the page of this member."""
    async with room.session.ws_connect(f"{room.url}/ws", headers={"X-API-Key": room.token}) as socket:
        await socket.send_json({"after": None, "name": name})
        await socket.receive_json()
        yield


async def who(room: Outside) -> str:
    asked = await room.post("/who", name="ann")
    return str((await room.reply_to(asked["id"], "RELAY"))["body"])


async def test_people_are_one_list_at_all_members_with_where_they_are(open_room: Open) -> None:
    one, two = await fleet_of(open_room, [agent("ALFA")], [agent("BRAVO")])
    await one.start()
    await two.start()
    async with page(one, "ann"):
        async with page(two, "ben"):
            await people(one, are=["ann", "ben"], at={"ben": "M2"})
            await people(two, are=["ann", "ben"], at={"ann": "M1"})
            # Whoever leads answers, and everybody reads it: nobody is just "here".
            told = await who(one)
            assert "**People:** ann at M1, ben at M2\n" in told, told
            assert "- **ALFA** at M1 is ready\n- **BRAVO** at M2 is ready\n" in told, told
        await people(one, are=["ann"], at={})
        async with page(two, "ben"):
            await people(one, are=["ann", "ben"], at={"ben": "M2"})
            # A member that is not here has nobody.
            two.kill()
            await people(one, are=["ann"], at={})
    await people(one, are=[], at={})


async def test_who_is_connected_to_two_members_and_an_agent_of_both_are_at_both(open_room: Open) -> None:
    both = agent("ALFA", shared=True)
    one, two = await fleet_of(open_room, [both], [both, agent("BRAVO")])
    await one.start()
    assert "- **ALFA** is ready" in await who(one)  # a room of one relay
    await two.start()
    async with page(one, "ann"), page(two, "ann"), page(two, "ben"):
        await people(one, are=["ann", "ben"], at={"ben": "M2"})

        async def alike() -> bool:
            told = await who(one)
            return "ann at M1 and M2, ben at M2\n" in told and "- **ALFA** at M1 and M2 is ready\n" in told

        await eventually(alike, "both places to be told")


async def test_a_name_that_reads_like_another_members_person_is_refused(open_room: Open) -> None:
    one, two = await fleet_of(open_room, [agent("ALFA")], [agent("BRAVO")])
    await one.start()
    await two.start()
    # One is connected to the other member, and has said nothing.
    async with page(one, "karl"):
        await people(two, are=["karl"], at={"karl": "M1"})
        status, told = await two.ask("POST", "/api/messages", json={"body": "hello", "name": "kar1"})
        assert status == 403 and "kar1 reads like karl, who is in this room" in told["error"]["message"], told
