"""`/budget` and `/agent`: what people write into the configuration from the room."""

from __future__ import annotations

from relay.model import AgentConfig, Fault, Refusal
from relay.model.actions import RaiseBudget, SetAgent
from relay.room.dispatch.permissions import code_span


class ConfigOrders:
    """`relay.model.ports.Timeline`, of the configuration. Twice the same order is the same file."""

    def __init__(self, config: AgentConfig) -> None:
        self._config = config

    async def carry_out(self, action: RaiseBudget | SetAgent, *, by: str, source_key: str) -> str:
        """Raises Refusal."""
        if isinstance(action, SetAgent):
            await self._config.set_agent(action.agent, action.changes)
            return action.said(by)
        limit: float = action.limit
        if action.what != "usd_per_day":
            if limit != int(limit):
                message = f"`{action.what}` is a whole number, and {limit:g} is none."
                raise Refusal(message, "Leave the fraction out.", Fault.MALFORMED)
            limit = int(limit)
        await self._config.set_agent(action.agent, {"budget": {action.what: limit}})
        return f"{by} set {action.agent}'s {code_span(action.what)} to {limit:,}."
