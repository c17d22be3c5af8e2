"""One side of a JSON-RPC conversation over a `Wire`: what is asked, what is answered, what is told.

Invariants: what the program tells is handled in the order of its lines, before any later answer of it; every question
of ours ends with an answer, a refusal, or the program's end; every question of the program is answered.
The `jsonrpc` key is left out, as Codex' app-server does on its side.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from relay.agents.process.wire import Wire

JSON = Mapping[str, Any]
#: Codes of JSON-RPC 2.0, section 5.1.
METHOD_NOT_FOUND, INTERNAL_ERROR = -32601, -32603
#: Seconds for an answer; only questions that it can answer at once are asked.
ANSWER_S = 60.0


class Refused(Exception):
    """The program answers with an error."""

    def __init__(self, message: str, code: int = METHOD_NOT_FOUND) -> None:
        super().__init__(message)
        self.message, self.code = message, code


class Peer:
    """`heard` takes in each notification, `asked` answers each request of the program (Refused: by an error)."""

    def __init__(
        self,
        wire: Wire,
        heard: Callable[[str, JSON], None],
        asked: Callable[[str, JSON], Awaitable[JSON]],
    ) -> None:
        self._wire, self._heard, self._asked = wire, heard, asked
        self._waiting: dict[int, asyncio.Future[JSON]] = {}
        self._answering: set[asyncio.Task[None]] = set()
        self._last = 0
        self._gone = False

    async def ask(self, method: str, params: JSON, *, seconds: float = ANSWER_S) -> JSON:
        """The result. Raises Refused, ConnectionError (the program is gone), TimeoutError."""
        if self._gone:
            raise ConnectionError("the program is gone")
        self._last += 1
        number = self._last
        answer: asyncio.Future[JSON] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        try:
            async with asyncio.timeout(seconds):
                await self._wire.send({"id": number, "method": method, "params": params})
                return await answer
        finally:
            self._waiting.pop(number, None)

    async def tell(self, method: str) -> None:
        """Raises ConnectionError."""
        await self._wire.send({"method": method})

    async def listen(self) -> None:
        """Take in what the program says until it is gone."""
        try:
            while (message := await self._wire.receive()) is not None:
                self._take(message)
        finally:
            self._gone = True
            for answer in self._waiting.values():
                if not answer.done():
                    answer.set_exception(ConnectionError("the program is gone"))
            for task in self._answering:
                task.cancel()
            if self._answering:
                await asyncio.wait(self._answering)

    def _take(self, message: JSON) -> None:
        method, number = message.get("method"), message.get("id")
        params = message.get("params")
        told: JSON = params if isinstance(params, dict) else {}
        if method is None:
            self._answered(number, message)
        elif "id" not in message:
            self._heard(method, told)
        else:
            task = asyncio.create_task(self._answer(number, method, told))
            self._answering.add(task)
            task.add_done_callback(self._answering.discard)

    def _answered(self, number: Any, message: JSON) -> None:
        answer = self._waiting.get(number) if isinstance(number, int) else None
        if answer is None or answer.done():
            return
        if "error" in message:
            error = message["error"] if isinstance(message["error"], dict) else {}
            code = error.get("code")
            text = str(error.get("message") or "an error without a message")
            answer.set_exception(Refused(text, code if isinstance(code, int) else INTERNAL_ERROR))
        else:
            result = message.get("result")
            answer.set_result(result if isinstance(result, dict) else {})

    async def _answer(self, number: Any, method: str, params: JSON) -> None:
        try:
            said: dict[str, Any] = {"result": await self._asked(method, params)}
        except Refused as refusal:
            said = {"error": {"code": refusal.code, "message": refusal.message}}
        except Exception as error:  # whatever it is, the program waits for an answer
            said = {"error": {"code": INTERNAL_ERROR, "message": f"{type(error).__name__}: {error}"}}
        await self._wire.send({"id": number, **said})
