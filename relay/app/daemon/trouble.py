"""What is wrong with a running room, in words for people: its health says it (`GET /health`)."""

from __future__ import annotations

import contextlib

import structlog

from relay.app.daemon.supervisor import Supervisor
from relay.app.runtime.room_token import RoomToken
from relay.config.command_line import script
from relay.room.journal import ledger
from relay.room.transcript.tail import Transcript
from relay.store.ports import Store, StoreError

log = structlog.get_logger(__name__)


class Trouble:
    """Gathers what its parts know, and looks itself at the database."""

    def __init__(
        self, store: Store, supervisor: Supervisor, transcript: Transcript, token: RoomToken
    ) -> None:
        self._store, self._supervisor, self._transcript, self._token = store, supervisor, transcript, token
        #: What is wrong with the database's data; empty when nothing is.
        self._damage = ""

    def text(self) -> str:
        """All that is wrong now; empty when the room is well."""
        tasks, store = self._supervisor.troubles, self._store.trouble
        # While the database is away all tasks fail together, each in its own words: only the last one is shown.
        away = [task.error for task in tasks if task.away and not store][-1:]
        failing = [f"{task.task} fails: {task.error}" for task in tasks if not task.away]
        texts = [store, self._damage, self._token.trouble, *away, *failing, self._transcript.trouble]
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
            await self._store.write(lambda tx: ledger.say(tx, text, meta={"notice": "database"}))
