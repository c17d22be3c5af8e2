"""The room's `/explore`, and what the room answers to it.

Invariant: an order is one transaction; `ExplorationWorker` is woken by its event.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from relay.airspace.worktrees.registry import WorktreeRegistry
from relay.app.merge.exploration import orders
from relay.config.settings import LiveSettings
from relay.merge.exploration import journal, wording
from relay.merge.exploration.journal import State
from relay.model import Refusal
from relay.model.actions import EndExploration, Explore, Exploring, ShowExploration, TakeVariant


class ExplorationActions:
    """Carries the room's actions out (`relay.model.ports.Orders`)."""

    def __init__(self, settings: LiveSettings, registry: WorktreeRegistry) -> None:
        self._settings, self._registry = settings, registry

    async def carry_out(
        self,
        tx: Any,
        action: Exploring,
        *,
        by: str,
        cause: Sequence[str] = (),
    ) -> str:
        """Order it; the room's answer, as markdown. Raises Refusal."""
        settings = self._settings.current
        match action:
            case Explore(variants, text):
                # Without a reason it is only not looked at yet.
                if self._registry.main is None and self._registry.trouble:
                    raise Refusal(f"There is no repository to explore in: {self._registry.trouble}")
                config = orders.of_words(settings, variants, text)
                made = await orders.begin(tx, settings, config, by=by, cause=cause)
                how = f"`/explore {made.name}` shows how they stand"
                return f"{made.name}: {variants} variants are made ready. {how}."
            case TakeVariant(number, variant, paths):
                files = {path: name for path, _, name in (word.rpartition("=") for word in paths)}
                return await orders.take(tx, number, variant, files, by=by, cause=cause)
            case EndExploration(number):
                return await orders.end(tx, number, by=by, cause=cause)
            case ShowExploration(number):
                exploration = await journal.load(tx, number)
                runs = await journal.variants_of(tx, number)
                if exploration.state is State.RUNNING:
                    return "\n".join([f"{exploration.name} runs.", "", *wording.progress(runs)])
                return wording.compared(exploration, runs)
            case _:
                raise Refusal(f"The room does not know how to do {action!r}.")
