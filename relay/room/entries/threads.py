"""Threads: an entry, and all that answers it or one of its answers.

Every function runs in the caller's transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from relay.base.terminal_text import safe_line
from relay.model import Message, Refusal, references
from relay.room.entries.changes import FIX
from relay.room.journal import pages
from relay.store.ports import Tx

#: Entries of a thread that are shown in the room, and that are looked at for an agent.
MOST_SHOWN, MOST_GIVEN = 40, 60


async def said(tx: Tx, number: int) -> str:
    """The thread of an entry, as markdown. Raises Refusal."""
    name = references.message(number)
    page = await pages.thread(tx, name, limit=MOST_SHOWN)
    if page is None:
        raise Refusal(f"There is no message {name}.", FIX)
    root, *replies = page.entries
    if not replies:
        return f"Nobody has answered {name}."
    older = [f"- … older ones: the page shows all at {references.message(root.number)}"] if page.more else []
    return "\n".join([_line(root), *older, *map(_line, replies)])


def _line(message: Message) -> str:
    text = "(deleted)" if "deleted" in message.meta else safe_line(message.body, 300)
    return f"- {references.message(message.number)} **{safe_line(message.speaker)}**: {text}"


async def given(
    tx: Tx, asked: Sequence[Message], *, without: Collection[str], but: str, characters: int
) -> list[Message]:
    """What an agent is given of the threads that it is asked in, in the order of the room: what began them, and the
    newest entries before the ones that ask, as far as they fit. `without`: ids of messages that it is given anyway;
    `but`: a speaker whose words it knows, "" = nobody's."""
    found: dict[str, Message] = {}
    newest = max(message.number for message in asked)
    for root in dict.fromkeys(message.thread for message in asked if message.thread is not None):
        page = await pages.thread(tx, root, limit=MOST_GIVEN)
        entries = list(page.entries) if page is not None else []
        # What began it is the last that is left out.
        for message in [*entries[:1], *entries[:0:-1]]:
            size = len(message.speaker) + len(message.body)
            if message.id in without or message.speaker == but or message.number >= newest:
                continue
            if "notice" in message.meta or "deleted" in message.meta:
                continue
            characters -= size
            if characters < 0:
                break
            found[message.id] = message
    return sorted(found.values(), key=lambda message: message.number)
