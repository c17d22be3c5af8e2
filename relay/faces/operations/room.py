"""The operations on the room: post, read, see who is there, declare an intent, ask for help.

Invariant: the speaker is the caller, never a field of the request.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import ConfigDict, Field

from relay.faces.operations.help_topics import TOPICS, help_text
from relay.faces.operations.operation import Answer, Name, Names, Request, Shown, Text, operation
from relay.faces.services import Services
from relay.model import MAX_CLIENT_ID, Caller, Fault, Refusal
from relay.model.actions import DeclareIntent

Json = dict[str, Any]


class IntentRequest(Request):
    model_config = ConfigDict(title="DeclareIntent")

    paths: Names = Field(description="[] = nothing")


class IntentAnswer(Answer):
    paths: list[str] | None = None
    in_hand: list[str] | None = Field(None, description="who changes which of them now: agree first")


class PostMessage(Request):
    body: Text = Field(description="markdown; @NAME addresses")
    in_reply_to: Annotated[Name, Field(max_length=100)] | None = Field(None, description="id or #number")
    client_id: Annotated[Name, Field(max_length=MAX_CLIENT_ID)] | None = Field(
        None, description="twice the same = one message"
    )


class Posted(Answer):
    id: str | None = None
    number: int | None = None
    cursor: str | None = None
    asked: list[str] | None = Field(None, description="the agents that get a turn for it")
    why: str | None = Field(None, description="why nobody, not all whom it names, or not now")


class ReadRoom(Request):
    cursor: str | None = Field(
        None, pattern=r"^[0-9]{1,18}$", description="`next` of the last read; none = newest"
    )
    limit: int = Field(50, ge=1, le=500)
    to_me: bool = Field(False, description="only what names you or answers you")


class RoomPage(Shown):
    entries: list[Json]
    next: str
    more: bool


class Who(Request):
    pass


class WhoAnswer(Shown):
    you: Json
    agents: list[Json]
    visitors: list[Json] = Field(description="agents that run on their own")
    people: list[str]
    sessions: list[Json]


class Help(Request):
    topic: str | None = Field(None, max_length=40, description=", ".join(TOPICS))


class HelpAnswer(Shown):
    topic: str | None
    text: str
    topics: list[str]


@operation("POST", "/intents", IntentAnswer, scope="locks", tool=True, tag="room")
async def declare_intent(services: Services, caller: Caller, request: IntentRequest) -> Json:
    """Say which files you will touch soon, so that others are warned; it locks nothing.

    It replaces what you said before. acquire_lock when you begin to edit.
    """
    return await services.intents.declare(caller, DeclareIntent(caller.agent, tuple(request.paths)))


@operation("POST", "/room/messages", Posted, scope="room", tool=True, tag="room")
async def post_message(services: Services, caller: Caller, request: PostMessage) -> Json:
    """Say something to the people and agents here; @NAME asks an agent.

    asked: who gets a turn for it; why: why the others that you named, or nobody. Answers come by read_room.
    """
    return await services.room.post(
        caller, request.body, in_reply_to=request.in_reply_to, client_id=request.client_id
    )


@operation("GET", "/room/messages", RoomPage, scope="read", tool=True, read_only=True, tag="room")
async def read_room(services: Services, caller: Caller, request: ReadRoom) -> Json:
    """Read what was said, when you begin and between your steps.

    entries, oldest first; give next as the cursor of your next read; more: there is more at next now.
    """
    return await services.room.read(caller, cursor=request.cursor, limit=request.limit, to_me=request.to_me)


@operation("GET", "/who", WhoAnswer, scope="read", tool=True, read_only=True, tag="room")
async def who(services: Services, caller: Caller, request: Who) -> Json:
    """See who you are, who else is here, and the living sessions with what they hold.

    @NAME of agents sets them to work; visitors (agents that run on their own) and people read the room
    themselves. locked_by names any of them.
    """
    return await services.room.who(caller)


@operation(
    "GET", "/help", HelpAnswer, scope="", aliases=(("GET", "/help/{topic}"),), tool=True, read_only=True
)
async def help(services: Services, caller: Caller, request: Help) -> Json:
    """Read how something works before you guess.

    Each topic has its text; without a topic: where to begin.
    """
    text = help_text(request.topic)
    if text is None:
        message = f"There is no help on {(request.topic or '')[:40]!r}."
        raise Refusal(message, f"Topics: {', '.join(TOPICS)}.", Fault.UNKNOWN, "unknown_topic")
    return {"topic": request.topic, "text": text, "topics": list(TOPICS)}
