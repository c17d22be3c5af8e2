"""A person's message wakes an idle Codex session: Codex itself queues a prompt for it (`codex queue --thread`).

Codex has no hook that waits beside a session, as Claude Code's has. The room asks the program that the session runs,
in the person's own configuration folder of it, and what is said comes with that prompt's hook, as with any other.

Invariants: a message wakes a session once; a Codex without `queue`, or one that cannot be seen from this machine,
wakes nobody, and the message waits for the next prompt.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import Mapping

import psutil
import structlog

from relay.app.attach import told_messages
from relay.app.mcp.parent_process import lives_here
from relay.config.settings import LiveSettings
from relay.coordination import attached
from relay.coordination.attached import AttachedSession, Doing
from relay.model import Kind
from relay.room.journal import ledger
from relay.store.ports import Store, StoreError, Tx, is_away

log = structlog.get_logger(__name__)
#: The prompt that begins the turn; the message itself comes with its hook.
PROMPT = "A person in the room wrote to you. Their message comes with this prompt."
#: Seconds that `codex queue` may take, and between two looks without a wake-up.
ASKED_S, LOOK_S = 20.0, 30.0
#: Messages that are remembered as having woken somebody.
MOST_WOKEN = 1000
#: Variables of the session's program that say where its configuration is.
_PLACES = ("CODEX_HOME", "HOME")


class CodexWaker:
    """For the sessions on this machine. `run` it for ever."""

    def __init__(self, store: Store, settings: LiveSettings) -> None:
        self._store, self._settings = store, settings
        self._woken: dict[int, None] = {}
        #: Programs that have no `queue`, or refuse it.
        self._unable: set[str] = set()

    async def run(self) -> None:
        with contextlib.closing(self._store.wakeup([ledger.QUEUED])) as wakeup:
            while True:
                try:
                    await self.look()
                except (StoreError, self._store.transient) as error:
                    if not is_away(error):
                        log.warning("codex sessions are woken later", error=str(error))
                await wakeup.wait(LOOK_S)

    async def look(self) -> None:
        """Wake those that are to be woken. Once."""
        if self._settings.current.attach.wake == "never":
            return
        for session, jobs in await self._store.read(self._waiting):
            self._woken |= dict.fromkeys(jobs)
            for job in list(self._woken)[: max(0, len(self._woken) - MOST_WOKEN)]:
                del self._woken[job]
            await self._wake(session)

    async def _waiting(self, tx: Tx) -> list[tuple[AttachedSession, list[int]]]:
        found = []
        for session in await attached.here(tx):
            if session.program == "codex" and session.state is Doing.IDLE:
                waiting = await told_messages.waiting(tx, session.agent)
                jobs = [job.id for job, message in waiting if message.kind is Kind.HUMAN]
                if set(jobs) - self._woken.keys():
                    found.append((session, jobs))
        return found

    async def _wake(self, session: AttachedSession) -> None:
        where = await asyncio.to_thread(_program, session)
        if where is None or where[0] in self._unable:
            return
        program, env = where
        process = await asyncio.create_subprocess_exec(
            *(program, "queue", "--thread", session.id, "--message", PROMPT),
            cwd=session.checkout,
            env=env,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(ASKED_S):
                _, said = await process.communicate()
        except TimeoutError:
            said = b"it gave no answer"
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode:
            self._unable.add(program)
            text = said.decode("utf-8", "replace")[-300:]
            log.warning("codex is not woken", session=session.agent, program=program, reason=text)


def _program(session: AttachedSession) -> tuple[str, Mapping[str, str]] | None:
    """The program of a session and what it is to run with; None: it is not on this machine, or not to be seen."""
    try:
        process = json.loads(session.process)
        if not lives_here((str(process[0]), int(process[1]), str(process[2]))):
            return None
        seen = psutil.Process(int(process[1]))
        given = {name: value for name, value in seen.environ().items() if name in _PLACES}
        program = seen.exe()
    except (psutil.Error, OSError, ValueError, TypeError, IndexError):
        return None
    return (program, {**os.environ, **given}) if program else None
