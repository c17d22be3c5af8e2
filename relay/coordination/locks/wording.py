"""A holder in a sentence: whom the reader knows by name, and which of several sessions it is.

Invariant: the sentences are for reading; the whole ids stand in the fields of the answer beside them. Pure.
"""

from __future__ import annotations

import re

#: A UUID, as `relay mcp` and the programs of agents name their sessions.
_LONG = re.compile(r"[0-9a-fA-F]{8}-?(?:[0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}")


def short(session: str) -> str:
    """The id of a session with the middle of its 32 digits left out. Both ends stay: of a UUID the first digits may
    be the time, and the same for all sessions that began together."""
    return _LONG.sub(lambda found: f"{found[0][:4]}\u2026{found[0][-4:]}", session)


def named(agent: str, session: str, reader: str = "") -> str:
    """`bob (session mcp-1a2b\u20263c4d)`; for that agent itself it is another session of its own."""
    if agent == reader:
        return f"another session of yours ({short(session)})"
    return f"{agent} (session {short(session)})"


def capital(sentence: str) -> str:
    """A sentence that may begin with `named`. A name keeps its letters."""
    return "A" + sentence[1:] if sentence.startswith("another session of yours ") else sentence
