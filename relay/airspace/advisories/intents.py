"""What agents say they are about to touch: reading it from their answers, and keeping it for a while.

Invariants: a declared path is relative to the repository, with `/`, and stays inside it; a declaration replaces
the one before it from the same source, and ends by itself; each is an event (`intent.declared`). What an agent
declares by its own call is its session's: two sessions have two sets, and a reader gets both.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from relay.airspace.advisories.table import ROOM, Q
from relay.log import events
from relay.log.events import Event, Lane, NewEvent
from relay.model import Refusal
from relay.model.actions import DeclareIntent
from relay.store.ports import Tx

DECLARED = "intent.declared"
#: Seconds that a declared intent holds: as long as a lock's default (INTERFACES, `acquire_lock`: 30 minutes).
HOLDS_S = 1800.0
#: Paths of one declaration that are kept: as many as an agent of the benchmark has in hand (issue, "Cost").
MOST_PATHS = 40
#: Characters of a path.
MOST_LENGTH = 400

#: A longer word is no path (PATH_MAX of Linux).
_LONGEST_PATH = 4096
_LINE = re.compile(r"^(?:[^\w\n]|_)*+INTENT[\W_]*?:(?P<paths>.*)$", re.IGNORECASE | re.MULTILINE)
_NOTHING = frozenset({"none", "nothing", "no", "-", "n/a", "no files", "no file"})
_MARKS = "`'\"*<>,;:!?"
_BRACKETS = frozenset({"()", "[]", "{}"})


class Source(StrEnum):
    """Who declared it: the agent in an answer, a person's command, the agent by its own call. `LOCK`: nobody did, but
    the agent holds a lock on it (`lock_intents.py`), which no row here says."""

    ANSWER = "answer"
    COMMAND = "command"
    AGENT = "agent"
    LOCK = "lock"


#: By agent and path, the sources that declared it.
Declared = Mapping[str, Mapping[str, frozenset[Source]]]


#: U+200C and U+200D, which names in some scripts need; they turn nothing around.
_JOINERS = dict.fromkeys((0x200C, 0x200D))


def clean(path: str) -> str | None:
    """The path as it is kept, or None when it is none inside the repository."""
    text = path.strip()
    outside = text.startswith(("/", "~")) or "://" in text or "\\" in text
    plain = text.translate(_JOINERS).isprintable()
    if not text or len(text) > MOST_LENGTH or outside or not plain:
        return None
    normal = posixpath.normpath(text)
    return None if normal == "." or normal.startswith("../") or normal == ".." else normal


def _unwrapped(word: str) -> str:
    """A path as it stands in prose: without quotes, brackets around it, a full stop, or the lines it names."""
    if len(word) > _LONGEST_PATH:
        return ""
    text = word.strip(_MARKS)
    if text[:1] + text[-1:] in _BRACKETS:
        text = text[1:-1]
    text = text.strip(_MARKS)
    text = re.sub(r"(?::\d+(?:[-:]\d+)?)+$", "", text)
    return text.rstrip(".") if text.strip(".") else ""


def parse(text: str) -> tuple[str, ...] | None:
    """The paths that an answer says it will touch; None when it says nothing of it.

    Only lines `INTENT: path, path` say it, also of files that are not there yet (`INTENT: none`: no file). A file
    that the text names besides may as well be one that the agent keeps off.
    """
    lines = [match["paths"] for match in _LINE.finditer(text)]
    if not lines:
        return None
    named = [word for line in lines for word in re.split(r",|;|(?<!\s)\s++and\s+", line)]
    named = [piece for piece in named if piece.strip().strip("*_`. ").lower() not in _NOTHING]
    return tuple(dict.fromkeys(path for piece in named for path in _paths(piece)))[:MOST_PATHS]


def _paths(piece: str) -> list[str]:
    """The paths in a piece of an INTENT line: what is in backticks, else its words that look like one."""
    quoted = re.findall(r"`([^`]+)`", piece)
    words = quoted or piece.split()
    paths = [path for word in words if (path := clean(_unwrapped(word)))]
    return paths if len(words) == 1 or quoted else [path for path in paths if "/" in path or "." in path]


async def declare(
    tx: Tx,
    action: DeclareIntent,
    *,
    source: Source,
    by: str,
    now: float,
    cause: Sequence[str] = (),
    session: str = "",
) -> tuple[str, ...]:
    """Replace what the agent declared from this source (from AGENT: in this session). A command without paths clears
    all of it. `session`: whose word it is, '' = not known.

    Gives the paths as they are kept. Raises Refusal when one of them is no path of the repository.
    """
    agent, cleaned = action.agent, []
    for path in action.paths:
        if (inside := clean(path)) is None:
            raise Refusal(
                f"{path[:80]!r} is not a path inside the repository.", "Give it relative, like src/app.py."
            )
        cleaned.append(inside)
    if len(cleaned) > MOST_PATHS:
        message = f"{len(cleaned)} paths are too many: one intent has at most {MOST_PATHS}."
        raise Refusal(message, "Name a few.")
    everything = source is Source.COMMAND and not cleaned
    await tx.execute(Q.forget_intents, now=now)
    if source is Source.AGENT:
        await tx.execute(Q.clear_session_intents, agent=agent, source=str(source), session=session)
    else:
        await tx.execute(Q.clear_intents, agent=agent, source="" if everything else str(source))
    # Both are the session's own word: the later one holds.
    own = {Source.ANSWER: Source.AGENT, Source.AGENT: Source.ANSWER}.get(source)
    if own is not None:
        await tx.execute(Q.clear_other_word, agent=agent, source=str(own), session=session)
    unique = tuple(dict.fromkeys(cleaned))
    for path in unique:
        await tx.execute(
            Q.declare_intent,
            agent=agent,
            path=path,
            source=str(source),
            session=session,
            declared_at=now,
            expires_at=now + HOLDS_S,
        )
    await _declared(tx, agent, unique, source, by, cause, session)
    return unique


async def declare_own(tx: Tx, action: DeclareIntent, session: str) -> tuple[str, ...]:
    """What a session of an agent says by a call of its own; as `declare`."""
    now = await tx.now()
    return await declare(tx, action, source=Source.AGENT, by=action.agent, now=now, session=session)


async def end_session(tx: Tx, agent: str, session: str, *, cause: Sequence[str] = ()) -> bool:
    """End what a session declared; False when it had declared nothing that still holds."""
    if not session or not await tx.execute(Q.end_intents, agent=agent, session=session):
        return False
    await _declared(tx, agent, [], Source.AGENT, agent, cause, session)
    return True


async def end_work(tx: Tx, agent: str, until: float, *, cause: Sequence[str] = ()) -> bool:
    """End what was declared of an agent until then (Unix seconds): the work that it was about is merged or discarded.
    False when nothing was declared."""
    if not await tx.execute(Q.end_intents_of_work, agent=agent, until=until):
        return False
    await _declared(tx, agent, [], Source.AGENT, "RELAY", cause, "")
    return True


async def _declared(
    tx: Tx, agent: str, paths: Sequence[str], source: Source, by: str, cause: Sequence[str], session: str
) -> Event:
    outputs: dict[str, Any] = {"agent": agent, "paths": list(paths), "source": str(source), "by": by}
    if session:
        outputs["session"] = session
    lane = Lane(ROOM, f"intent:{agent}", short=True)
    return await events.append(tx, NewEvent(DECLARED, lane, parents=cause, outputs=outputs))


async def declared(tx: Tx, now: float) -> Declared:
    """What holds now: by agent and path, the sources that declared it."""
    by_agent: dict[str, dict[str, frozenset[Source]]] = {}
    for row in await tx.all(Q.intents, now=now):
        paths = by_agent.setdefault(row["agent"], {})
        paths[row["path"]] = paths.get(row["path"], frozenset()) | {Source(row["source"])}
    return by_agent
