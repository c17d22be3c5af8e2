"""What is wrong with a running room, in words for people: its health says it (`GET /health`)."""

from __future__ import annotations

import asyncio
import contextlib
import time
from pathlib import Path

import structlog

from relay.app.daemon.supervisor import Supervisor
from relay.base.files import stamp_of
from relay.config.command_line import script
from relay.faces.http.requests.auth import Auth, TokenError, ensure_token
from relay.room.journal import ledger
from relay.room.transcript.tail import Transcript
from relay.store.ports import Store, StoreError

log = structlog.get_logger(__name__)
#: Seconds between two looks at the token's file.
TOKEN_EVERY_S = 2.0


class Trouble:
    """Gathers what its parts know, and looks itself at the database and at the token's file."""

    def __init__(self, store: Store, supervisor: Supervisor, transcript: Transcript, auth: Auth) -> None:
        self._store, self._supervisor, self._transcript, self._auth = store, supervisor, transcript, auth
        #: What is wrong with the database's data, and with the token's file; empty when nothing is.
        self._damage = self._token = ""

    def text(self) -> str:
        """All that is wrong now; empty when the room is well."""
        tasks, store = self._supervisor.troubles, self._store.trouble
        # While the database is away all tasks fail together, each in its own words: only the last one is shown.
        away = [task.error for task in tasks if task.away and not store][-1:]
        failing = [f"{task.task} fails: {task.error}" for task in tasks if not task.away]
        texts = [store, self._damage, self._token, *away, *failing, self._transcript.trouble]
        return "; ".join(text for text in texts if text)

    async def check_database(self) -> None:
        """Look once through the whole database, beside the room's work: its opening reads only little of it."""
        wrong = await self._store.check()
        if not wrong:
            return
        self._damage = f"the database is damaged: {'; '.join(wrong[:3])}"
        log.error("the database is damaged", damage=wrong)
        text = (
            f"The database is damaged: {'; '.join(wrong[:3])}. New messages may be lost. Stop relay with "
            f"{script('stop.sh')}, and see docs/service.md."
        )
        with contextlib.suppress(StoreError, self._store.errors):
            await self._store.write(
                lambda tx: ledger.say(tx, text, now=time.time(), meta={"notice": "database"})
            )

    async def keep_token(self, path: Path) -> None:
        """Keep the text of the token's file a key of the room: a file that was removed comes back, and another text
        that a person put there is taken over. Runs for ever."""
        last: tuple[int, int, int] | None = None
        while True:
            stamp = await asyncio.to_thread(stamp_of, path)
            if stamp is None or stamp != last:
                try:
                    token = await asyncio.to_thread(ensure_token, path, self._auth.token)
                except (TokenError, OSError) as error:
                    self._token = str(error)
                else:
                    self._token = ""
                    if token != self._auth.token:
                        log.warning("the token was replaced; the new one is the room's now", path=str(path))
                        self._auth.token = token
                    elif stamp is None:
                        log.warning("the token was removed; it is there again", path=str(path))
                # Of before the reading: what was written meanwhile is read the next time.
                last = stamp
            await asyncio.sleep(TOKEN_EVERY_S)
