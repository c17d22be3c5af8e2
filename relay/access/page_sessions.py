"""Sign-in links and page sessions: how a browser signs in.

Invariants:
- the database holds digests only, so nobody can sign in with what it holds; the secrets are 256
  random bits, for which SHA-256 is the right hash and a slow one is not;
- a link opens one session: the row's removal and the session's begin are one transaction, so of any number of
  exchanges at once exactly one wins, in whichever processes they run;
- their ends are counted by the store's clock, so that relays whose own clocks differ agree.

Callable from any process that has opened the database with this wing's folder (`relay link` does).
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from pathlib import Path

from relay.store.ports import Queries, Store, Tx

FOLDER = Path(__file__).parent
Q = Queries(FOLDER)

#: Seconds that a sign-in link is good for, and a session after its last use.
LINK_S = 600.0
SESSION_S = 30 * 86400.0
#: Seconds of use after which a session's end is moved on: not at every request, since that is a write.
RENEW_AFTER_S = 3600.0


@dataclass(frozen=True, slots=True)
class PageSession:
    """A page's session. `renewed`: its end was moved on just now, so the browser's cookie must be too."""

    digest: str
    renewed: bool = False


def digest(secret: str) -> str:
    """SHA-256 of a secret, in hex: what is kept of it."""
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()


async def new_link(store: Store) -> str:
    """The secret of a new sign-in link (43 characters, URL-safe), good once within LINK_S."""
    secret = secrets.token_urlsafe(32)

    async def work(tx: Tx) -> None:
        now = await tx.now()
        await tx.execute(Q.forget_links, now=now)
        await tx.execute(Q.put_link, digest=digest(secret), expires_at=now + LINK_S)

    await store.write(work)
    return secret


async def exchange_link(store: Store, link: str) -> str | None:
    """The secret of the session that this link opens; None when it is unknown, used or too old."""

    async def work(tx: Tx) -> str | None:
        if not await tx.execute(Q.take_link, digest=digest(link), now=await tx.now()):
            return None
        return await _begin(tx)

    return await store.write(work)


async def new_session(store: Store) -> str:
    """The secret of a new session, for a browser that has shown another credential."""
    return await store.write(_begin)


async def _begin(tx: Tx) -> str:
    secret, now = secrets.token_urlsafe(32), await tx.now()
    await tx.execute(Q.forget_sessions, now=now)
    await tx.execute(Q.put_session, digest=digest(secret), now=now, expires_at=now + SESSION_S)
    return secret


async def find_session(store: Store, secret: str) -> PageSession | None:
    """The session of this secret, renewed by its use; None when there is none or its time is over."""
    key = digest(secret)

    async def left_s(tx: Tx) -> float | None:
        now = await tx.now()
        row = await tx.one(Q.session, digest=key, now=now)
        return row["expires_at"] - now if row else None

    left = await store.read(left_s)
    if left is None:
        return None
    if left >= SESSION_S - RENEW_AFTER_S:
        return PageSession(key)

    async def renew(tx: Tx) -> int:
        # Finds nothing when the session was ended since the look, and then it stays ended.
        now = await tx.now()
        return await tx.execute(Q.renew_session, digest=key, now=now, expires_at=now + SESSION_S)

    return PageSession(key, renewed=True) if await store.write(renew) else None


async def is_alive(store: Store, key: str) -> bool:
    """Is there a session with this digest, whose time is not over? It is not renewed."""

    async def look(tx: Tx) -> bool:
        return await tx.one(Q.session, digest=key, now=await tx.now()) is not None

    return await store.read(look)


async def end_session(store: Store, key: str) -> None:
    """End the session with this digest; none is fine."""

    async def work(tx: Tx) -> None:
        await tx.execute(Q.end_session, digest=key)

    await store.write(work)
