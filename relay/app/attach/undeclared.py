"""Telling both of a write into what one of them holds, of which nobody was asked."""

from __future__ import annotations

from collections.abc import Sequence

from relay.app.attach.told_messages import tell
from relay.base.terminal_text import flat
from relay.coordination.writes.lock_guard import MOST_TOLD
from relay.model import LockRefusal
from relay.room.dispatch.permissions import code_span
from relay.room.journal import ledger
from relay.store.ports import Tx

#: Files that a line names; the event has all.
MOST_NAMED = 5
#: Characters of somebody's own words in a line.
MOST_WORDS = 200


async def tell_both(
    tx: Tx,
    writer: str,
    holder: str,
    session: str,
    refusals: Sequence[LockRefusal],
    command: str,
    agents: Sequence[str],
    *,
    parents: Sequence[str] = (),
) -> None:
    """Tell the writer of something held, and its holder (in `session`), at the next boundary of each. `agents`: the
    room's own."""
    meta = {
        "coordination": "undeclared_write",
        "urgent": True,
        "writer": writer,
        "holder": holder,
        "holder_session": session,
        "paths": [refusal.path for refusal in refusals][:MOST_TOLD],
        **({"command": command} if command else {}),
    }
    to = tuple(dict.fromkeys((writer, holder)))
    body = undeclared(writer, holder, refusals, command, agents)
    message, said = await ledger.say(tx, body, parents=parents, meta=meta, to=to)
    await tell(tx, message, said.id, to)


def undeclared(
    writer: str, holder: str, refusals: Sequence[LockRefusal], command: str, agents: Sequence[str]
) -> str:
    """What both are told of a write into what one of them holds. Pure."""
    by = f" by a command of its shell ({code_span(flat(command))})" if command else ""
    names = [f"@{name}" if name in agents else name for name in (writer, holder)]
    first = refusals[0]
    until = f" until {first.until}" if first.until else ""
    why = f" for: {own_words(first.why)}" if first.why else "."
    them = "it" if len(refusals) == 1 else "them"
    return (
        f"{names[0]} wrote {named_paths([refusal.path for refusal in refusals])}{by}, and nobody was asked: "
        f"{names[1]} holds {them}{until}{why} {writer}: take the change back, or agree on it with {holder}; "
        f"git's hook refuses to commit {them} meanwhile. {holder}: look at what stands there before you go on."
    )


def named_paths(paths: Sequence[str]) -> str:
    """The first of these, as code, and how many more there are."""
    more = len(paths) - MOST_NAMED
    return ", ".join(map(code_span, paths[:MOST_NAMED])) + (f" and {more} more" if more > 0 else "")


def own_words(text: object) -> str:
    """Somebody's own words on one line that ends as a sentence does."""
    line = flat(str(text or ""))
    line = line if len(line) <= MOST_WORDS else f"{line[: MOST_WORDS - 1]}\u2026"
    return line if not line or line.endswith((".", "!", "?", "\u2026")) else f"{line}."
