"""Agents that speak the Agent Client Protocol (ACP, agentclientprotocol.com) over standard input and output.

Invariant: whatever the program, an edit is asked about before it is made: the presets choose the mode of each program
in which it asks. How a turn runs is in `turn.py`; this module knows the programs, and imports the protocol's
package only when the first turn begins: it takes most of a second.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING

from relay.agents.command.command import CommandAgent
from relay.agents.process.asked_once import AskedOnce
from relay.agents.registry import acp_presets, presets
from relay.agents.setup.presets import NO_WORDS, AcpPreset, Preset
from relay.agents.setup.spec import AgentSpec, SpecError
from relay.base.terminal_text import safe_line
from relay.model import (
    Availability,
    Channel,
    EndPart,
    FailureClass,
    Guard,
    Hears,
    Nobody,
    Part,
    Permits,
    Turn,
    Unguarded,
)

if TYPE_CHECKING:
    from relay.agents.acp.turn import AcpTurn

#: A program that only its `cmd` names.
UNKNOWN = AcpPreset(Preset(title="", program="", install="", sign_in="", env_prefixes=(), modes=NO_WORDS))


class AcpAgent(CommandAgent):
    """One agent that is driven over ACP. `guard` answers before its edits, `permits` asks people for the rest."""

    kind = "acp"

    def __init__(
        self,
        spec: AgentSpec,
        *,
        daemon_env: Mapping[str, str] | None = None,
        guard: Guard | None = None,
        permits: Permits | None = None,
    ) -> None:
        acp = presets()[spec.preset].acp if spec.preset else UNKNOWN
        if acp is None:
            known = ", ".join(acp_presets())
            raise SpecError(f"agent {spec.name}: {spec.preset} does not speak ACP; these presets do: {known}")
        super().__init__(spec, daemon_env=daemon_env)
        self._acp = acp
        self.preset = self._acp.preset if spec.preset else None
        self._guard: Guard = guard or Unguarded()
        self._permits: Permits = permits or Nobody()
        self._channel: AskedOnce[Channel] = AskedOnce()

    async def probe(self) -> Availability:
        """A preset's program is also asked how a turn hears what is said meanwhile; any other tells it when its turn
        begins."""
        seen = await super().probe()
        path = await self._find() if seen.installed else None
        if path is None or self.preset is None:
            return seen
        try:
            channel = await self._channel.answer(path, lambda: self._greet(path))
        except Exception as error:  # whatever it is: a turn would say so, and the program is there
            why = f"{self.program} did not say whether it offers steering: {safe_line(str(error), 200)}"
            channel = Channel("next turn", Hears.NEXT, why)
        return replace(seen, channel=channel or Channel())

    async def _greet(self, path: str) -> Channel:
        turn = Turn(self.name, "")
        return await (await self._turn(turn)).greet(self.argv(path, turn, None), self.env(""))

    async def _turn(self, turn: Turn) -> AcpTurn:
        await asyncio.to_thread(importlib.import_module, "relay.agents.acp.turn")
        from relay.agents.acp.turn import AcpTurn  # a look-up: the thread has imported it

        return AcpTurn(self.spec, turn, self._acp, self.permissions(turn), self._guard, self._permits)

    async def run(self, turn: Turn) -> AsyncGenerator[Part, None]:
        """One turn, in a process of its own. A conversation that is gone is started anew, and a LogPart says so."""
        path = await self._find()
        if path is None:
            yield EndPart(FailureClass.NOT_INSTALLED, self._not_installed())
            return
        limit = self.spec.limit_s(turn)
        deadline = asyncio.get_running_loop().time() + limit
        acp_turn = await self._turn(turn)
        argv, env = self.argv(path, turn, None), self.env(turn.room_session, turn.env)
        async with aclosing(acp_turn.parts(argv, env, deadline)) as parts:
            async for part in parts:
                if isinstance(part, EndPart) and part.failure is FailureClass.TIMEOUT:
                    yield replace(part, detail=f"The turn timed out after {limit:g} s.")
                else:
                    yield part
