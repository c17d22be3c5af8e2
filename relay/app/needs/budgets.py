"""`/budget`: what an agent may spend, written into the configuration."""

from __future__ import annotations

from relay.model import AgentConfig, Fault, Refusal
from relay.model.actions import RaiseBudget
from relay.room.dispatch.permissions import code_span


class BudgetOrders:
    """`relay.model.ports.Timeline`, of budgets. Twice the same limit is the same file."""

    def __init__(self, config: AgentConfig) -> None:
        self._config = config

    async def carry_out(self, action: RaiseBudget, *, by: str, source_key: str) -> str:
        """Raises Refusal."""
        limit: float = action.limit
        if action.what != "usd_per_day":
            if limit != int(limit):
                message = f"`{action.what}` is a whole number, and {limit:g} is none."
                raise Refusal(message, "Leave the fraction out.", Fault.MALFORMED)
            limit = int(limit)
        await self._config.set_agent(action.agent, {"budget": {action.what: limit}})
        return f"{by} set {action.agent}'s {code_span(action.what)} to {limit:,}."
