"""Asks a local model who should answer (002, section 7).

Invariant: `decide` ends within its deadline, whatever the server does, with a decision that can be carried
out or with `DispatcherUnavailable`, which says why and what to do. One deadline covers connecting, loading
the model and the answer. There is no third outcome, so the caller's fall-back (all active agents) is one
`except`.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from relay.base.ollama_client import Trouble, TroubleKind, explain, missing_model, no_model, open_client
from relay.model import Message
from relay.room.routing.decision import AgentBrief, Decision, RoomLine, UnknownAgent, messages, read, schema
from relay.room.routing.fallback import Cause, DispatcherUnavailable

if TYPE_CHECKING:
    from ollama import AsyncClient

PROBE_TIMEOUT_S = 2.0
#: Long enough to keep the model loaded through a pause in the talk: a cold start misses the deadline.
_KEEP_ALIVE = "30m"
#: Tokens: the instruction, the bounded room text and the answer fit; one size, so the model is loaded once.
_OPTIONS = {"temperature": 0, "num_ctx": 8192, "num_predict": 512}

_CAUSES = {
    TroubleKind.UNREACHABLE: Cause.UNREACHABLE,
    TroubleKind.BROKE_OFF: Cause.UNREACHABLE,
    TroubleKind.TIMEOUT: Cause.TIMEOUT,
    TroubleKind.MODEL_MISSING: Cause.MODEL_MISSING,
    TroubleKind.REFUSED: Cause.BAD_ANSWER,
    TroubleKind.BAD_ANSWER: Cause.BAD_ANSWER,
}


class Dispatcher:
    """`host` is Ollama's address (None: OLLAMA_HOST, else 127.0.0.1:11434); `timeout_s` the deadline of a
    decision, in seconds."""

    def __init__(
        self, model: str, *, host: str | None = None, timeout_s: float = 5.0, enabled: bool = True
    ) -> None:
        self.model = model
        self.host = host
        self.timeout_s = timeout_s
        self.enabled = enabled
        self._client: AsyncClient | None = None
        self._opening = asyncio.Lock()
        self._think: bool | None = False
        self._asking = 0
        self._retired = False

    async def decide(
        self, message: Message, recent: Sequence[RoomLine], agents: Sequence[AgentBrief]
    ) -> Decision:
        """Who answers `message`, given the `recent` lines before it, oldest first.

        `agents` are those that could answer; at least one (ValueError otherwise: there is nothing to decide).
        Raises DispatcherUnavailable.
        """
        if not agents:
            raise ValueError("there are no agents to decide among")
        if not self.enabled:
            raise DispatcherUnavailable(
                Cause.DISABLED, "The dispatcher is switched off in the configuration."
            )
        self._asking += 1
        try:
            return await self._decided(message, recent, agents)
        finally:
            self._asking -= 1
            if self._retired and not self._asking:
                await self.close()

    async def _decided(
        self, message: Message, recent: Sequence[RoomLine], agents: Sequence[AgentBrief]
    ) -> Decision:
        started = time.perf_counter()
        asked = messages(message.speaker, message.body, recent, agents, secrets.token_hex(8))
        try:
            async with asyncio.timeout(self.timeout_s):
                content = await self._ask(asked, agents)
        except Exception as error:
            raise self._unavailable(explain(error, self.host, self.model, self.timeout_s)) from error
        took_ms = (time.perf_counter() - started) * 1000
        try:
            return read(content, agents, self.model, took_ms)
        except ValueError as error:
            unknown = isinstance(error, UnknownAgent)
            raise DispatcherUnavailable(
                Cause.UNKNOWN_AGENT if unknown else Cause.BAD_ANSWER,
                f"The model `{self.model}` gave no usable decision: {error}.",
                "If it happens often, choose another model for the dispatcher.",
            ) from error

    async def trouble(self) -> DispatcherUnavailable | None:
        """Why `decide` would fail, as the error that it would raise; None when Ollama is there, with the model. Asks
        the model nothing."""
        if not self.enabled:
            return DispatcherUnavailable(
                Cause.DISABLED, "The dispatcher is switched off in the configuration."
            )
        try:
            async with asyncio.timeout(PROBE_TIMEOUT_S):
                client = await self._connected()
                missing = await missing_model(client, self.model)
        except Exception as error:
            return self._unavailable(explain(error, self.host, self.model, PROBE_TIMEOUT_S))
        return self._unavailable(no_model(self.host, self.model)) if missing else None

    async def retire(self) -> None:
        """Close the connections, but only after the decision that is under way."""
        self._retired = True
        if not self._asking:
            await self.close()

    async def close(self) -> None:
        """Close the connections; a decision under way fails. The dispatcher can be used again."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()  # type: ignore[no-untyped-call]

    async def _ask(self, asked: list[dict[str, str]], agents: Sequence[AgentBrief]) -> str:
        client = await self._connected()
        import ollama  # a look-up: the thread that opened the client has imported it

        try:
            return await self._chat(client, asked, agents)
        except ollama.ResponseError as error:
            # Some models and some older servers refuse to be told not to think.
            if error.status_code != 400 or "think" not in str(error.error) or self._think is None:
                raise
            self._think = None
            return await self._chat(client, asked, agents)

    async def _chat(
        self, client: AsyncClient, asked: list[dict[str, str]], agents: Sequence[AgentBrief]
    ) -> str:
        answer = await client.chat(
            model=self.model,
            messages=asked,
            format=schema(agents),
            options=_OPTIONS,
            think=self._think,
            keep_alive=_KEEP_ALIVE,
        )
        return answer.message.content or ""

    async def _connected(self) -> AsyncClient:
        async with self._opening:
            if self._client is None:
                self._client = await open_client(self.host)
            return self._client

    def _unavailable(self, trouble: Trouble) -> DispatcherUnavailable:
        return DispatcherUnavailable(_CAUSES[trouble.kind], trouble.sentence, trouble.fix)
