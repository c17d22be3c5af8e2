"""What the doors ask of the room: the part of `relay.room` that the outside can reach.

Invariant: Protocols only. Whatever has these methods is a room to the doors.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from relay.model import Message
from relay.room.journal.values import Frame, Job, Page, Posted
from relay.room.parsing.actions import Action, Answer

Json = dict[str, Any]


class LiveFeed(Protocol):
    """Frames without a cursor, as they come. Bounded: it drops the oldest rather than hold anybody up."""

    def __aiter__(self) -> AsyncIterator[Frame]: ...

    def close(self) -> None: ...


class Acts(Protocol):
    """Where people's actions are carried out."""

    async def act(self, action: Action, *, by: str) -> Answer:
        """Do what a person orders. Both the action and the answer stand in the room. Raises a `Refusal`."""
        ...


class RoomApi(Acts, Protocol):
    """The room. What it cannot do it raises as a `Refusal`. What a
    person (`by`) does shows in the room."""

    async def post(
        self,
        body: str,
        *,
        name: str,
        in_reply_to: str | None = None,
        client_id: str | None = None,
        verified: bool = True,
    ) -> Posted: ...

    async def transcript(
        self, *, after: int | None = None, before: int | None = None, limit: int = 100
    ) -> Page: ...

    async def around(self, place: str, *, limit: int = 100) -> Page: ...

    async def search(self, text: str, *, limit: int = 50) -> Sequence[tuple[Message, str]]: ...

    async def jobs(
        self, *, state: str | None = None, messages: Sequence[str] | None = None, limit: int = 200
    ) -> Sequence[Job]: ...

    async def tasks(self) -> Sequence[Json]: ...

    async def state(self) -> Json: ...

    async def agent_log(self, name: str, *, limit: int = 200) -> Sequence[Json]: ...

    async def why(self, event_or_message_id: str) -> Sequence[Json]: ...

    async def set_agent(self, agent: str, changes: Json, *, by: str) -> Json: ...

    async def route(self, message_id: str, agents: list[str], *, by: str) -> Answer: ...

    async def retry(self, job: int, *, by: str) -> Answer: ...

    async def create_task(self, title: str, *, by: str) -> Json: ...

    async def change_task(self, number: int, changes: Json, *, by: str) -> Json: ...

    def frames(self, after: int | None) -> AsyncIterator[list[Frame]]:
        """Stored frames behind the cursor, for ever. A batch never ends between two of one cursor."""
        ...

    def live(self) -> LiveFeed: ...

    async def last_cursor(self) -> int: ...

    def person_here(self, name: str) -> AbstractContextManager[Any]: ...

    def healthy(self) -> tuple[bool, str]: ...


def entry_json(message: Message, **more: Any) -> Mapping[str, Any]:
    """ENTRY (docs/http.md): the message with its cursor as the opaque text that clients send back."""
    return {**message.as_json(), "cursor": str(message.cursor), **more}
