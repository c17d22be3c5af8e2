"""One turn of Codex by its app-server: one process, one conversation, one turn of it, and what it is told meanwhile.

Invariants: as of every turn: exactly one end, bounded output, and nothing that was started outlives it. A turn that
is cut short is told so (`turn/interrupt`) before its processes are ended. A message of the inbox counts as delivered
only when the server says that it stands in the conversation; the others are the room's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import uuid4

from relay import __version__
from relay.agents.app_server.approvals import Approvals
from relay.agents.app_server.peer import JSON, Peer, Refused
from relay.agents.app_server.told import UNKNOWN_THREAD, ToldTurn
from relay.agents.process.failure import StreamError, Verdict, classify, last_lines, sentence, with_sign_in
from relay.agents.process.wire import Wire
from relay.agents.process.wire_turn import Failed, WireTurn, ended
from relay.agents.setup.prompt import compose
from relay.agents.setup.spec import AgentSpec, Permissions
from relay.base.child_process import ChildProcess, Exit
from relay.base.terminal_text import safe_line
from relay.model import AccountLimit, Channel, FailureClass, Guard, Hears, LogPart, SteeringMessage, Turn

#: The channel of a turn by the app-server.
CHANNEL = Channel(
    "turn/steer",
    Hears.BOUNDARY,
    "Codex' app-server takes messages into the turn that runs (`codex app-server`).",
)
SANDBOXES = {
    Permissions.READ_ONLY: "read-only",
    Permissions.EDIT: "workspace-write",
    Permissions.SKIP_ALL_CHECKS: "danger-full-access",
}
#: Seconds that a turn gets to end when it is interrupted, before its processes are ended.
INTERRUPT_S = 1.0
#: Seconds that the last message handed over has for its answer when the turn is over.
LAST_S = 1.0
#: What nobody reads here, and what can be long.
UNREAD = (
    "item/commandExecution/outputDelta",
    "item/fileChange/outputDelta",
    "item/fileChange/patchUpdated",
    "item/reasoning/textDelta",
    "item/reasoning/summaryTextDelta",
    "turn/diff/updated",
)


class AppServerTurn(WireTurn):
    """`signed_out`: asks the program what is wrong with its sign-in, None = nothing; `sign_in`: what mends it."""

    def __init__(
        self,
        spec: AgentSpec,
        turn: Turn,
        permissions: Permissions,
        guard: Guard,
        *,
        signed_out: Callable[[], Awaitable[str | None]],
        sign_in: str,
    ) -> None:
        super().__init__(turn, turn.cwd or spec.cwd, spec.name)
        self._spec, self._permissions = spec, permissions
        self._signed_out, self._sign_in = signed_out, sign_in
        self._told = ToldTurn()
        self._approvals = Approvals(spec, turn, permissions, guard, self._told.changes, self._note)
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._check: asyncio.Task[None] | None = None
        self._handing = asyncio.Lock()
        self._forgotten = False

    @property
    def limits(self) -> tuple[AccountLimit, ...]:
        """Of the account, as far as this turn was told."""
        return self._told.limits()

    @property
    def _answer(self) -> str | None:
        return self._told.answer

    def _talk(self, wire: Wire, env: Mapping[str, str]) -> None:
        self._peer = Peer(wire, self._heard, self._approvals.answer)
        self._listening = asyncio.create_task(self._peer.listen(), name=f"app-server-{self._name}")
        self._listening.add_done_callback(lambda _: self._gone())

    async def _leave(self, drive: asyncio.Task[None]) -> None:
        """Interrupt what is under way: the conversation then knows that its turn was cut off."""
        told = self._told
        if not told.turn or told.ended:
            return
        # What has no receipt by then is lost with the turn (docs/doors.md, section 3), and so it is the room's.
        with suppress(ConnectionError, TimeoutError, Refused):
            async with asyncio.timeout(INTERRUPT_S):
                await self._peer.ask("turn/interrupt", {"threadId": told.thread, "turnId": told.turn})
                await asyncio.wait([drive])

    async def _hang_up(self) -> None:
        await ended(self._listening, self._check)

    # -- the conversation

    async def _drive(self, process: ChildProcess) -> None:
        """Bring the conversation to the end of the turn. Raises Failed, Refused, ConnectionError, TimeoutError."""
        await self._peer.ask(
            "initialize",
            {
                "clientInfo": {"name": "relay", "title": "relay", "version": __version__},
                # For `excludeTurns`: an old conversation may be longer than any line that is taken.
                "capabilities": {"experimentalApi": True, "optOutNotificationMethods": UNREAD},
            },
        )
        await self._peer.tell("initialized")
        await self._open()
        text = compose(
            self._turn,
            may_edit=self._permissions is not Permissions.READ_ONLY,
            forgotten=self._forgotten,
        )
        start: dict[str, Any] = {
            "clientUserMessageId": str(uuid4()),
            "cwd": str(self._cwd.absolute()),
            "approvalPolicy": "never",
        }
        if self._spec.effort:
            start["effort"] = self._spec.effort
        begun = await self._peer.ask("turn/start", {**start, **self._said(text)})
        turn = begun.get("turn")
        self._told.turn = str(turn.get("id") or "") if isinstance(turn, dict) else ""
        if not self._told.turn:
            raise Failed(Verdict(FailureClass.CRASH, "It named no turn (turn.id)."))
        self._turn.inbox.open(CHANNEL)
        steering = asyncio.create_task(self._steer(), name=f"app-server-steer-{self._spec.name}")
        try:
            await self._over
            self._turn.inbox.close()
            # A message may be on its way: what stands in the conversation is told before the answer to it.
            with suppress(TimeoutError):
                async with asyncio.timeout(LAST_S), self._handing:
                    pass
        finally:
            await ended(steering)

    async def _open(self) -> None:
        """Go on in the old conversation, or begin one.

        The folder of a new one is the process's own: with a folder said here, Codex would note in the user's own
        settings that it is trusted. An old one goes on in its old folder until its turn names another.
        """
        place: dict[str, Any] = {"sandbox": SANDBOXES[self._permissions], "approvalPolicy": "never"}
        if self._spec.model:
            place["model"] = self._spec.model
        opened: JSON | None = None
        resume = self._turn.resume
        if resume is not None:
            try:
                opened = await self._peer.ask(
                    "thread/resume", {"threadId": resume, "excludeTurns": True, **place}
                )
            except Refused as refusal:
                if not UNKNOWN_THREAD.search(refusal.message):
                    raise
                self._note(f"conversation {resume} is gone: starting a new one")
                self._forgotten = True
        if opened is None:
            opened = await self._peer.ask("thread/start", place)
        thread = opened.get("thread")
        ident = thread.get("id") if isinstance(thread, dict) else None
        if not isinstance(ident, str) or not ident:
            raise Failed(Verdict(FailureClass.CRASH, "It named no conversation (thread.id)."))
        for part in self._told.opened(ident):
            self._outbox.put(part)

    def _said(self, text: str) -> dict[str, Any]:
        return {"threadId": self._told.thread, "input": [{"type": "text", "text": text}]}

    async def _steer(self) -> None:
        """Hand over what the room puts into the inbox, one after the other."""
        inbox = self._turn.inbox
        while True:
            for message in await inbox.wait():
                async with self._handing:
                    if inbox.channel is None or not await self._hand_over(message):
                        return

    async def _hand_over(self, message: SteeringMessage) -> bool:
        """Is it worth to hand over another one?"""
        self._told.handed.add(message.id)
        steer = {"expectedTurnId": self._told.turn, "clientUserMessageId": message.id}
        try:
            await self._peer.ask("turn/steer", {**steer, **self._said(message.text)})
        except Refused as refusal:
            self._told.handed.discard(message.id)
            self._note(f"a message waits for the next turn: {safe_line(refusal.message, 200)}")
            return "no active turn" not in refusal.message
        except (ConnectionError, TimeoutError):
            return False  # without a receipt it is the room's
        return True

    # -- what it tells

    def _heard(self, method: str, params: JSON) -> None:
        for part in self._told.tell(method, params):
            self._outbox.put(part)
        if self._told.ended and not self._over.done():
            self._over.set_result(None)
        if self._told.stuck and self._check is None:
            self._check = asyncio.create_task(self._check_sign_in())

    def _gone(self) -> None:
        if not self._over.done():
            self._over.set_exception(ConnectionError("the program is gone"))
            self._over.exception()  # looked at here: nobody may wait for it yet

    async def _check_sign_in(self) -> None:
        """It cannot reach its service, and would try for ever."""
        said = await self._signed_out()
        if said is not None and not self._over.done():
            verdict = Verdict(FailureClass.NOT_SIGNED_IN, with_sign_in(said, self._sign_in))
            self._over.set_exception(Failed(verdict))

    def _note(self, text: str) -> None:
        self._outbox.put(LogPart(safe_line(text, 500)))

    # -- the end

    def _verdict(self, error: BaseException | None, process: ChildProcess, stderr: str) -> Verdict:
        verdict = self._class_of(error, process.exit, stderr)
        if verdict.failure is FailureClass.RATE_LIMIT:
            return replace(verdict, retry_at=self._told.retry_at() or verdict.retry_at)
        if verdict.failure is FailureClass.NOT_SIGNED_IN and not isinstance(error, Failed):
            return replace(verdict, detail=with_sign_in(verdict.detail, self._sign_in))
        return verdict

    def _class_of(self, broken: BaseException | None, over: Exit | None, stderr: str) -> Verdict:
        now, error = datetime.now().astimezone(), self._told.error
        if isinstance(broken, Failed):
            return broken.verdict
        if isinstance(broken, Refused):
            error = StreamError(broken.message)
        elif isinstance(broken, TimeoutError):
            return Verdict(FailureClass.CRASH, "The program gave no answer (codex app-server).")
        elif isinstance(broken, ConnectionError):
            if over is None or over.code == 0:
                return Verdict(
                    FailureClass.CRASH,
                    sentence(f"The program ended in the middle of its turn. {last_lines(stderr)}"),
                )
            return classify(over, stderr=stderr, error=None, answered=False, now=now)
        elif broken is not None:
            return Verdict(FailureClass.CRASH, f"{type(broken).__name__}: {safe_line(str(broken), 300)}")
        elif self._told.interrupted:
            return Verdict(FailureClass.CRASH, "The turn was interrupted, and not by the room.")
        return classify(
            Exit(code=1 if error else 0),
            stderr="",
            error=error,
            answered=bool(self._told.answer),
            now=now,
        )
