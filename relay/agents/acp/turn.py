"""One turn of an agent that speaks the Agent Client Protocol: one process, one conversation, one prompt or more.

Invariants: as of every turn: exactly one end, bounded output, and nothing that was started outlives it. A turn that
is cut short tells the agent so (session/cancel) before its processes are ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from dataclasses import replace
from typing import Any

from acp import PROTOCOL_VERSION, RequestError, schema
from acp.connection import Connection

from relay import __version__
from relay.agents.acp.client import AcpClient
from relay.agents.acp.steering import Steering, channel_of
from relay.agents.acp.verdict import AUTH_REQUIRED, failed, text_of
from relay.agents.acp.watch import nothing, watching
from relay.agents.process.failure import Verdict
from relay.agents.process.wire import Wire
from relay.agents.process.wire_turn import Failed, WireTurn
from relay.agents.setup.mcp import acp_servers
from relay.agents.setup.presets import AcpPreset
from relay.agents.setup.prompt import compose
from relay.agents.setup.spec import AgentSpec, Permissions
from relay.base.child_process import ChildProcess
from relay.base.terminal_text import safe_line
from relay.model import (
    Channel,
    FailureClass,
    Guard,
    LogPart,
    Permits,
    SessionPart,
    Turn,
    UsagePart,
)

#: Seconds until a program that was started has to speak the protocol; npm's programs take some on a busy machine.
HELLO_S = 60.0
#: Seconds that an agent gets to end its prompt when it is told to cancel, before its processes are ended.
CANCEL_S = 1.0
#: Seconds for the same when its prompt is to be followed by another one.
YIELD_S = 15.0
#: How often a turn begins again because of an advisory; after that the room only rejects the edit.
MOST_STEERS = 3
#: Seconds without a word after which an old conversation is told to its end, and how often that is waited for. Gemini
#: writes the whole of it within milliseconds.
QUIET_S = 0.3
MOST_QUIETS = 100


class AcpTurn(WireTurn):
    """`preset`: what has to be known of the agent's program beside the protocol."""

    def __init__(
        self,
        spec: AgentSpec,
        turn: Turn,
        preset: AcpPreset,
        permissions: Permissions,
        guard: Guard,
        permits: Permits,
    ) -> None:
        super().__init__(turn, turn.cwd or spec.cwd, spec.name)
        self._spec, self._preset, self._permissions = spec, preset, permissions
        self._client = AcpClient(spec, turn, permissions, guard, permits, self._outbox, self._steer)
        self.channel = Channel()
        self._steering = Steering(
            turn.inbox,
            self._ask,
            self._outbox,
            after=lambda: self._client.last_tool,
            ending=lambda: self._client.cancelling,
        )
        self._env: Mapping[str, str] = {}
        self._connection: Connection | None = None
        self._session: str | None = None
        self._prompting = False
        self._limit: asyncio.Timeout | None = None
        self._advice = ""
        self._steers = 0
        self._forgotten = False
        self._usage = UsagePart()
        self._cost_before = 0.0

    async def greet(self, argv: list[str], env: Mapping[str, str]) -> Channel:
        """Only ask how a turn hears of something. Raises what `parts` makes a failure of, and OSError."""
        async with await ChildProcess.start(argv, env=env, cwd=self._cwd, stdin=None) as process:
            wire = Wire(process, self._outbox)
            self._connection = Connection(self._client.handle, wire)
            try:
                async with asyncio.timeout(HELLO_S):
                    await self._hello()
            finally:
                await self._connection.close()
                await wire.released()
        return self.channel

    @property
    def _answer(self) -> str | None:
        return self._client.answer

    def _talk(self, wire: Wire, env: Mapping[str, str]) -> None:
        self._env = env
        self._connection = Connection(self._client.handle, wire)

    async def _leave(self, drive: asyncio.Task[None]) -> None:
        """The agent may put its conversation down."""
        if not self._prompting:
            return
        with suppress(ConnectionError, TimeoutError):
            async with asyncio.timeout(CANCEL_S):
                await self._cancel()
        await asyncio.wait([drive], timeout=CANCEL_S)

    async def _hang_up(self) -> None:
        assert self._connection is not None
        await self._connection.close()

    # -- the conversation

    async def _drive(self, process: ChildProcess) -> None:
        """Bring the conversation to the end of the turn. Raises Failed, RequestError, ConnectionError."""
        try:
            async with asyncio.timeout(HELLO_S):
                hello = await self._hello()
        except TimeoutError:
            raise Failed(
                Verdict(FailureClass.CRASH, f"It did not speak the protocol (ACP) within {HELLO_S:g} s.")
            ) from None
        opened = await self._open(hello)
        await self._set_up(opened)
        text = compose(
            self._turn,
            may_edit=self._permissions is not Permissions.READ_ONLY,
            forgotten=self._forgotten,
        )
        self._cost_before = self._client.cost
        self._steering.open(self.channel)
        async with self._watched() as settled:
            while True:
                stopped = await self._prompt(text)
                if self._client.worked and not self._advice:
                    await settled()  # what it wrote last is told
                if not self._advice:
                    break
                text, self._advice = self._advice, ""
                self._client.cancelling = False
                self._client.begin_anew()
            self._turn.inbox.close()
        if stopped == "refusal":
            raise Failed(Verdict(FailureClass.CRASH, "The agent refused to go on with this conversation."))
        if stopped != "end_turn":
            self._outbox.put(LogPart(f"the agent stopped: {stopped.replace('_', ' ')}"))

    def _watched(self) -> AbstractAsyncContextManager[Callable[[], Awaitable[None]]]:
        """Where it may edit, the folder is its own, so what changes there is its doing."""
        if self._permissions is Permissions.READ_ONLY:
            return nullcontext(nothing)
        root = self._turn.root or self._cwd
        return watching(root, self._client.changed, lambda why: self._outbox.put(LogPart(why)))

    async def _ask(self, method: str, params: Any) -> dict[str, Any]:
        assert self._connection is not None
        answer = await self._connection.send_request(method, params)
        return answer if isinstance(answer, dict) else {}

    async def _hello(self) -> schema.InitializeResponse:
        files = {
            "readTextFile": self._preset.fs_read,
            "writeTextFile": self._permissions is not Permissions.READ_ONLY,
        }
        answer = await self._ask(
            "initialize",
            {
                "protocolVersion": PROTOCOL_VERSION,
                "clientCapabilities": {"fs": files, "terminal": False},
                "clientInfo": {"name": "relay", "title": "relay", "version": __version__},
            },
        )
        hello = schema.InitializeResponse.model_validate(answer)
        self.channel = channel_of(answer, self._preset.preset.program or self._spec.cmd[0])
        if hello.protocol_version != PROTOCOL_VERSION:
            detail = f"It speaks version {hello.protocol_version} of ACP; relay speaks {PROTOCOL_VERSION}."
            raise Failed(Verdict(FailureClass.CRASH, detail))
        return hello

    async def _open(self, hello: schema.InitializeResponse) -> dict[str, Any]:
        """Go on in the old conversation, or begin one."""
        place = {"cwd": str(self._cwd.absolute()), "mcpServers": acp_servers(self._spec.mcp, self._env)}
        resume = self._turn.resume
        if resume is not None:
            opened = await self._resume(hello.agent_capabilities or schema.AgentCapabilities(), resume, place)
            if opened is not None:
                self._begin(resume)
                return opened
            self._forgotten = True
        opened = await self._ask("session/new", place)
        session = opened.get("sessionId")
        if not isinstance(session, str) or not session:
            raise Failed(Verdict(FailureClass.CRASH, "It named no conversation (sessionId)."))
        self._begin(session)
        return opened

    async def _resume(
        self, able: schema.AgentCapabilities, session: str, place: dict[str, Any]
    ) -> dict[str, Any] | None:
        """The old conversation; None when it is gone, and the log says so."""
        if able.session_capabilities is not None and able.session_capabilities.resume is not None:
            method = "session/resume"
        elif able.load_session:
            method = "session/load"
        else:
            self._outbox.put(LogPart("this agent cannot resume a conversation: starting a new one"))
            return None
        self._client.replaying = True
        try:
            opened = await self._ask(method, {"sessionId": session, **place})
            if method == "session/load":
                await self._replayed()
            return opened
        except RequestError as error:
            if error.code == AUTH_REQUIRED:
                raise
            reason = safe_line(text_of(error), 200)
            self._outbox.put(LogPart(f"conversation {session} is gone: starting a new one ({reason})"))
            return None
        finally:
            self._client.replaying = False

    async def _replayed(self) -> None:
        """Wait until an agent has told an old conversation again. That belongs before its answer to session/load;
        Gemini CLI 0.61.0 goes on after it."""
        for _ in range(MOST_QUIETS):
            before = self._client.replayed
            await asyncio.sleep(QUIET_S)
            if self._client.replayed == before:
                return

    def _begin(self, session: str) -> None:
        self._session = session
        self._outbox.put(SessionPart(session))

    async def _set_up(self, opened: dict[str, Any]) -> None:
        """The agent's mode, model and effort, as far as it lets a client choose them."""
        mode = self._preset.modes.get(self._permissions)
        modes = opened.get("modes") or {}
        offered = [offer.get("id") for offer in modes.get("availableModes") or ()]
        if mode is not None and mode in offered:
            if modes.get("currentModeId") != mode:
                await self._ask("session/set_mode", {"sessionId": self._session, "modeId": mode})
        elif mode is not None:
            self._outbox.put(LogPart(f"the agent offers no mode {mode!r}: it keeps its own"))
        for category, value in (("model", self._spec.model), ("thought_level", self._spec.effort)):
            if value and category in self._preset.chosen:
                await self._choose(opened.get("configOptions") or (), category, value)

    async def _choose(self, options: Any, category: str, value: str) -> None:
        for option in options:
            if option.get("category") == category:
                chosen = {"sessionId": self._session, "configId": option.get("id"), "value": value}
                try:
                    await self._ask("session/set_config_option", chosen)
                except RequestError as error:
                    if error.code == AUTH_REQUIRED:
                        raise
                    self._outbox.put(
                        LogPart(f"{category} {value!r} is not taken: {safe_line(text_of(error))}")
                    )
                return
        self._outbox.put(LogPart(f"the agent lets no client choose its {category.replace('_', ' ')}"))

    async def _prompt(self, text: str) -> str:
        """One prompt; why it stopped."""
        prompt = [{"type": "text", "text": text}]
        self._prompting = True
        try:
            async with self._steering.during(self._session), asyncio.timeout(None) as self._limit:
                answer = await self._ask("session/prompt", {"sessionId": self._session, "prompt": prompt})
        except TimeoutError:
            late = f"It did not end its prompt within {YIELD_S:g} s of being told to (session/cancel)."
            raise Failed(Verdict(FailureClass.CRASH, late)) from None
        finally:
            self._prompting, self._limit = False, None
        self._count(answer)
        return str(answer.get("stopReason") or "end_turn")

    def _count(self, answer: dict[str, Any]) -> None:
        """Add up what the prompts of this turn used: by the protocol's `usage`, or Gemini's own `_meta.quota`."""
        used = _usage_of(answer.get("usage"))
        if used == UsagePart():
            quota = ((answer.get("_meta") or {}).get("quota") or {}).get("token_count") or {}
            used = UsagePart(_count_of(quota, "input_tokens"), _count_of(quota, "output_tokens"))
        cost = max(0.0, self._client.cost - self._cost_before)
        self._usage = replace(self._usage + used, cost_usd=round(cost, 9))
        if self._usage != UsagePart():
            self._outbox.put(self._usage)

    # -- cutting short

    async def _cancel(self) -> None:
        self._client.cancelling = True
        assert self._connection is not None
        await self._connection.send_notification("session/cancel", {"sessionId": self._session})

    async def _steer(self, reason: str, made: bool) -> bool:
        """The guard refuses an edit, or one that was `made` already. Cancel the prompt and go on with the reason;
        False when that was done often enough: the refusal alone has to do."""
        if self._steers >= MOST_STEERS or self._client.cancelling:
            return self._client.cancelling
        self._steers += 1
        moment = "after an edit" if made else "before an edit, which was not made,"
        do = "Undo that edit first. " if made else ""
        self._advice = (
            f"The room cut you off {moment} because of this:\n{reason}\n{do}"
            "Go on with your task without changing that place, or say in your answer what you intend there and why."
        )
        if not self._prompting:
            return True
        if self._limit is not None:
            self._limit.reschedule(asyncio.get_running_loop().time() + YIELD_S)
        await self._cancel()
        return True

    # -- the end

    def _verdict(self, error: BaseException | None, process: ChildProcess, stderr: str) -> Verdict:
        if error is not None:
            return failed(error, ended=process.exit, stderr=stderr, sign_in=self._preset.preset.sign_in)
        if self._client.answer is None:
            return Verdict(FailureClass.EMPTY, "The agent ended its turn without an answer.")
        return Verdict()


def _count_of(told: Any, key: str) -> int:
    value = told.get(key) if isinstance(told, dict) else None
    return value if isinstance(value, int) and value > 0 else 0


def _usage_of(told: Any) -> UsagePart:
    """The protocol's `usage` of one prompt.

    The adapters of claude and codex keep the kinds apart. The protocol does not say whether `inputTokens` may hold
    the cached ones: where the total is too small for both, it does.
    """
    given, output, thought, read, write, total = (
        _count_of(told, key)
        for key in (
            "inputTokens",
            "outputTokens",
            "thoughtTokens",
            "cachedReadTokens",
            "cachedWriteTokens",
            "totalTokens",
        )
    )
    if 0 < total < given + output + read + write and given >= read + write:
        given -= read + write
    if total == given + output + thought + read + write:
        output += thought  # they are beside the output, not in it
    return UsagePart(given, output, cache_write_tokens=write, cache_read_tokens=read)
