"""A small stand-in for what a service is built with, where a test is not about it."""

from __future__ import annotations

from typing import Any

from relay.model import Caller
from relay.store.ports import Tx


class Beats:
    """A heartbeat that notes who called."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    async def fresh(self, tx: Tx, caller: Caller) -> None:
        return None

    async def touch(self, tx: Tx, caller: Caller) -> str:
        self.calls.append(caller.agent)
        return caller.session

    async def promise(self, tx: Tx, caller: Caller, session: Any, until: float) -> None:
        self.calls.append(f"{caller.agent} until {until:g}")
