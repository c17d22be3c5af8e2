"""What the log has of reviews: comments that were sent, suggestions that were applied, and what each person marked.

Invariant: an event is appended in the transaction of what it tells; a mark holds for one content of a file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from relay.app.review.comments import Comment
from relay.log import events
from relay.log.encoding import dumps
from relay.log.events import Event, Lane, NewEvent
from relay.model import Message, references
from relay.room.journal.ledger import Q
from relay.store.ports import Tx

#: The events, on a lane of each agent's branch: a message with comments was sent, and a suggestion was applied, or
#: taken back.
SENT, APPLIED = "review.sent", "review.applied"
TYPES = (SENT, APPLIED)
#: Messages with comments, and suggestions that were applied, that are read.
MOST_SENT, MOST_APPLIED = 60, 400


@dataclass(frozen=True, slots=True)
class SentComment:
    """A comment of the message with this room number, the `place`-th of it, from 1. `at`: ISO 8601; `commit`: the
    branch's then; `deleted`: its message was taken back since."""

    message: int
    place: int
    by: str
    at: str
    commit: str
    comment: Comment
    event: str
    deleted: bool = False

    @property
    def name(self) -> str:
        """As people say it: `m17.2`."""
        return f"{references.message(self.message)}.{self.place}"


def lane_of(agent: str) -> Lane:
    return Lane("room", f"review:{agent}", short=True)


async def record_sent(tx: Tx, message: Message, agent: str, commit: str, comments: Sequence[Comment]) -> None:
    """The comments of a message that was just put into the room."""
    cause = await tx.one(Q.event_of_message, id=message.id)
    outputs = {
        "message": message.number,
        "by": message.speaker,
        "commit": commit,
        "comments": [comment.as_json() for comment in comments],
    }
    parents = [cause["event_id"]] if cause else []
    await events.append(tx, NewEvent(SENT, lane_of(agent), outputs=outputs, parents=parents))


async def sent(tx: Tx, agent: str) -> list[SentComment]:
    """The newest comments on an agent's branch, the newest message first, each message's in their order; with those
    that were deleted."""
    found = []
    for event in await events.of_lane(tx, lane_of(agent), SENT, limit=MOST_SENT):
        told = event.outputs
        row = await tx.one(Q.message_by_number, number=told["message"])
        deleted = row is not None and "deleted" in json.loads(row["meta"])
        found += [
            SentComment(
                *(told["message"], place, told["by"], event.at, told["commit"]),
                *(Comment.of_json(each), event.id, deleted),
            )
            for place, each in enumerate(told["comments"], 1)
        ]
    return found


async def applied(tx: Tx, agent: str) -> Mapping[str, Mapping[str, Any]]:
    """Of each suggestion that stands applied, by the comment's name: `{commit, by, first, blob, stood?}`. `first`,
    `blob`: the line on which it begins in the file as it was then; `stood`: the file's blob before."""
    newest: dict[str, Mapping[str, Any]] = {}
    for event in await events.of_lane(tx, lane_of(agent), APPLIED, limit=MOST_APPLIED):
        newest.setdefault(event.outputs["comment"], event.outputs)
    return {name: told for name, told in newest.items() if not told["undo"]}


async def record_applied(
    tx: Tx, agent: str, told: Mapping[str, Any], *, cause: Sequence[str], source_key: str
) -> Event:
    """A suggestion was applied or taken back: `{agent, branch, comment, undo, commit, tree, by, path, first, blob,
    stood, text}`."""
    new = NewEvent(APPLIED, lane_of(agent), outputs=dict(told), parents=list(cause), source_key=source_key)
    return await events.append(tx, new)


def _plan(checkout: str) -> str:
    return f"suggestion:{checkout}"


async def planned(tx: Tx, checkout: str) -> Mapping[str, Any] | None:
    """The suggestion that is being applied in a checkout (`registry.checkout_name`), as `put_plan` kept it; None:
    none is, and none was when a room was killed."""
    stored = await events.setting(tx, _plan(checkout))
    return dict(json.loads(stored)) if stored else None


async def put_plan(tx: Tx, checkout: str, plan: Mapping[str, Any] | None) -> None:
    """Keep what is about to be done: `{told, branch, head, before, after, stood, cause, key}`. `told`: of
    `record_applied`; `head`: the branch's commit; `before`, `after`, `stood`: the trees before it, after it, and as
    the log knew it; `cause`: the comments' event; `key`: the order's. None: it is recorded."""
    await events.put_setting(tx, _plan(checkout), "" if plan is None else dumps(dict(plan)))


def _setting(person: str, agent: str) -> str:
    return f"reviewed:{person.casefold()}:{agent}"


async def marks(tx: Tx, person: str, agent: str) -> dict[str, str]:
    """By path, the content (`content_of`) that a person has reviewed of an agent's branch."""
    stored = await events.setting(tx, _setting(person, agent))
    return {} if stored is None else dict(json.loads(stored))


async def put_marks(tx: Tx, person: str, agent: str, marked: Mapping[str, str]) -> None:
    await events.put_setting(tx, _setting(person, agent), dumps(dict(marked)))


def content_of(file: Mapping[str, Any]) -> str:
    """What a file of a difference is, before and after: the same as long as nothing of it changes."""
    return " ".join(str(file[field] or "-") for field in ("old_mode", "old", "new_mode", "new"))
