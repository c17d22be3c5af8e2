"""The room's token as this relay has it: in its `Auth`, and in the file that the programs of this machine read.

Invariants:
- where the database is shared (PostgreSQL), the database's token counts. A file that says something else when a relay
  starts is written anew. What a person writes into the file of a running relay becomes the room's, at every relay;
- a text that was the room's before is never taken from a file that could not be written: such a file is written again
  until that works, and what it says does not count meanwhile;
- a room with a database of its own (SQLite) has the token of its file.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from pathlib import Path

import structlog

from relay.access.rights import room_token
from relay.base.files import read_regular, stamp_of, write_atomically
from relay.config.settings import Settings
from relay.faces.http.requests.auth import Auth, TokenError, ensure_token
from relay.store.ports import Store

log = structlog.get_logger(__name__)
#: Seconds between two looks at the token's file.
TOKEN_EVERY_S = 2.0
#: Looks at the file after which the database is asked although nothing woke us: a safety net.
LOOKS = 30


def is_shared(store: Store) -> bool:
    """Whether other relays may have this database, and so this room's token."""
    return store.engine == "postgres"


async def token_at_start(store: Store, path: Path, by: str) -> str:
    """The room's token, in the file at `path` too. `by`: this relay, for people. Raises TokenError, OSError."""
    if not is_shared(store):
        return await asyncio.to_thread(ensure_token, path)
    token = await room_token.current(store)
    if token is None:
        token = await room_token.settle(store, await asyncio.to_thread(ensure_token, path), by=by)
    here = await asyncio.to_thread(_text_of, path)
    if here != token:
        await asyncio.to_thread(write_token, path, token)
        if here is not None:
            log.warning(
                "the token's file was not the room's: it has the database's now, and its old text is refused",
                path=str(path),
            )
    return token


async def new_token(store: Store, path: Path, by: str) -> bool:
    """Give the room another token, in the file at `path` too; False when somebody else did so just now. The relays
    that run take it over by themselves. Raises OSError."""
    token = counts = secrets.token_urlsafe(32)
    if is_shared(store):
        old = await room_token.current(store)
        counts = await room_token.replace(store, token if old is None else old, token, by=by)
    await asyncio.to_thread(write_token, path, counts)
    return counts == token


def write_token(path: Path, token: str) -> None:
    """Put a token into its file, for its owner only. Raises OSError."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_atomically(path, f"{token}\n")


def room_secrets(settings: Settings) -> list[str]:
    """The room's token, which looks like nothing."""
    try:
        return [read_regular(settings.token_path).decode().strip()]
    except (OSError, ValueError):
        return []


def _text_of(path: Path) -> str | None:
    """The file's token; None where there is no file, empty where it holds none."""
    if not os.path.lexists(path):
        return None
    try:
        return ensure_token(path)
    except TokenError:
        return ""


class RoomToken:
    """Keeps a running relay's token. `trouble`: what is wrong, in words; empty when nothing is."""

    def __init__(self, store: Store, auth: Auth, path: Path, by: str) -> None:
        self._store, self._auth, self._path, self._by = store, auth, path, by
        self._last: tuple[int, int, int] | None = None
        #: The file does not say what it should, since it could not be written.
        self._owed = False
        self.trouble = ""

    async def run(self) -> None:
        """Keep file and room together. For ever."""
        wakeup = self._store.wakeup({room_token.REPLACED})
        looks = 0
        try:
            while True:
                if is_shared(self._store) and looks % LOOKS == 0:
                    await self._follow(await room_token.current(self._store))
                await self._look()
                looks = 0 if await wakeup.wait(TOKEN_EVERY_S) else looks + 1
        finally:
            wakeup.close()

    async def _follow(self, token: str | None) -> None:
        """Take over what another relay made the room's token. The room has one since the start."""
        if token is None or token == self._auth.token:
            return
        log.warning("the room has another token since now; the file has it too", path=str(self._path))
        self._auth.token = token
        await self._write()

    async def _write(self) -> None:
        try:
            await asyncio.to_thread(write_token, self._path, self._auth.token)
        except OSError as error:
            self._owed = True
            self.trouble = f"{self._path.name} has an old token and cannot be written: {error}"
        else:
            self._owed, self.trouble = False, ""

    async def _look(self) -> None:
        """Bring back a file that was removed, and take over another text that a person put there."""
        if self._owed:
            return await self._write()
        try:
            stamp = await asyncio.to_thread(stamp_of, self._path)
            if stamp is not None and stamp == self._last:
                return None
            token = await asyncio.to_thread(ensure_token, self._path, self._auth.token)
        except (TokenError, OSError) as error:
            self.trouble = str(error)
            return None
        self.trouble = ""
        if token != self._auth.token:
            await self._take_over(token)
        elif stamp is None:
            log.warning("the token was removed; it is there again", path=str(self._path))
        # Of before the reading: what was written meanwhile is read the next time.
        self._last = stamp
        return None

    async def _take_over(self, token: str) -> None:
        if is_shared(self._store):
            counts = await room_token.replace(self._store, self._auth.token, token, by=self._by)
            if counts != token:
                return await self._follow(counts)
        log.warning("the token was replaced; the new one is the room's now", path=str(self._path))
        self._auth.token = token
        return None
