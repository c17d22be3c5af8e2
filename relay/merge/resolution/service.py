"""Conflicts as interfaces ask for them; nothing here needs git (docs/landing.md)."""

from __future__ import annotations

from typing import Any

from relay.merge.resolution import journal
from relay.model import Caller
from relay.store.ports import Store, Tx


class MergeConflicts:
    """The conflicts of one room."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def list(self, *, only_open: bool = False, limit: int = 100) -> list[dict[str, Any]]:
        """The newest first, as docs/landing.md has them."""
        found = await self._store.read(lambda tx: journal.newest(tx, only_open=only_open, limit=limit))
        return [asked.as_json() for asked in found]

    async def answer(
        self,
        caller: Caller,
        name: str,
        text: str,
        *,
        confidence: float | None = None,
        reasoning: str | None = None,
    ) -> dict[str, Any]:
        """What a person, or an agent that was asked, wants to stand there. Raises Refusal."""

        async def work(tx: Tx) -> dict[str, Any]:
            made = await journal.answer(tx, caller, name, text, confidence=confidence, reasoning=reasoning)
            return made.as_json()

        return await self._store.write(work, durable=True)
