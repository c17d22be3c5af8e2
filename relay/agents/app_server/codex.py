"""Codex: by its app-server where the installed program has it, else by `codex exec`.

Invariant: a turn by the app-server may do what the same turn by `exec` may, asks the same hook before it edits, and
has the same tools of the room.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace

from relay.agents.app_server.turn import CHANNEL, AppServerTurn
from relay.agents.command.command import CommandAgent
from relay.agents.command.looking import ask, signed_out
from relay.agents.process.asked_once import AskedOnce
from relay.agents.setup import hooks, mcp
from relay.agents.setup.spec import AgentSpec
from relay.model import (
    AccountLimit,
    Availability,
    Channel,
    EndPart,
    FailureClass,
    Guard,
    Hears,
    Part,
    Turn,
    Unguarded,
)

#: What of its own command line `codex app-server` takes as `codex exec` does (0.169.0): each with a value.
TAKEN = frozenset({"-c", "--config", "--enable", "--disable"})


class CodexAgent(CommandAgent):
    """`guard` answers what the program asks before an edit, should it ask."""

    def __init__(
        self, spec: AgentSpec, *, daemon_env: Mapping[str, str] | None = None, guard: Guard | None = None
    ) -> None:
        super().__init__(spec, daemon_env=daemon_env, guard=guard)
        self._guard: Guard = guard or Unguarded()
        self._has_server: AskedOnce[bool] = AskedOnce()
        #: What the last turn that was told something of them was told.
        self._limits: tuple[AccountLimit, ...] = ()

    async def probe(self) -> Availability:
        seen = await super().probe()
        path = await self._find() if seen.installed else None
        return seen if path is None else replace(seen, channel=await self.channel(path), limits=self._limits)

    async def channel(self, path: str) -> Channel:
        """How a running turn hears of something; the program is asked once for each of its files."""
        foreign = not_taken(self.spec.args)
        if foreign:
            return _exec(f"`codex app-server` does not take the configured argument {foreign!r}")
        try:
            has = await self._has_server.answer(path, lambda: self._ask_for_server(path))
        except OSError as error:
            return _exec(f"{path} cannot be looked at: {error.strerror}")
        if has is None:
            return _exec("`codex app-server --help` gave no answer")
        return CHANNEL if has else _exec("this Codex has no `codex app-server`")

    async def _ask_for_server(self, path: str) -> bool | None:
        ended, output = await ask([path, "app-server", "--help"], env=self.env(""), cwd=self.spec.cwd)
        # A program that does not know the word may take it for a prompt, and print its general help.
        return None if ended is None else ended.code == 0 and "codex app-server" in output

    async def run(self, turn: Turn) -> AsyncGenerator[Part, None]:
        """One turn. A conversation that is gone is started anew, and a LogPart says so."""
        path = await self._find()
        channel = CHANNEL if path is None else await self.channel(path)
        if path is None or channel is not CHANNEL:
            if path is not None:
                turn.inbox.open(channel)
            async with aclosing(super().run(turn)) as parts:
                async for part in parts:
                    yield part
            return
        assert self.preset is not None
        preset, env = self.preset, self.env(turn.room_session, turn.env)
        limit = self.spec.limit_s(turn)
        deadline = asyncio.get_running_loop().time() + limit
        served = AppServerTurn(
            self.spec,
            turn,
            self.permissions(turn),
            self._guard,
            signed_out=lambda: signed_out(preset, path, env=env, cwd=self.spec.cwd),
            sign_in=preset.sign_in,
        )
        async with aclosing(served.parts(self.server(path, turn), env, deadline)) as parts:
            async for part in parts:
                self._limits = served.limits or self._limits
                if isinstance(part, EndPart) and part.failure is FailureClass.TIMEOUT:
                    yield replace(part, detail=f"The turn timed out after {limit:g} s.")
                else:
                    yield part

    def server(self, path: str, turn: Turn) -> list[str]:
        """The command line of the server of one turn; `path` is the program's own."""
        arguments: list[str] = []
        guard = self.guard(turn)
        if guard is not None:
            arguments += hooks.codex_arguments(guard)
        if self.spec.mcp is not None:
            arguments += mcp.codex_arguments(self.spec.mcp)
        return [path, "app-server", *arguments, *self.spec.args]


def not_taken(arguments: Sequence[str]) -> str | None:
    """The first of a person's own arguments that the app-server does not take."""
    words = iter(arguments)
    for word in words:
        flag, equals, _ = word.partition("=")
        if flag not in TAKEN:
            return word
        if not equals and next(words, None) is None:
            return word
    return None


def _exec(why: str) -> Channel:
    return Channel("next turn", Hears.NEXT, f"`codex exec` takes nothing in while it works; {why}.")
