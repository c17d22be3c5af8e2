"""How alike the work of agents is by its words: what they were asked for, and what they have said of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

from relay.airspace.pair_facts import Likeness
from relay.airspace.text_similarity import Likenesses, text_of
from relay.airspace.worktrees.working_sets import WorkingSetSource
from relay.model.working_set import Pair, WorkingSet

#: By agent, what people asked of it and the tasks behind its current work, the newest first.
AskedTexts = Callable[[Collection[str]], Awaitable[Mapping[str, Sequence[str]]]]


class WorkLikeness:
    """Over the agents of one scan, by what they were asked, their branches, commits and intents."""

    def __init__(self, worktrees: WorkingSetSource, asked: AskedTexts) -> None:
        self._worktrees, self._asked = worktrees, asked
        self._likenesses = Likenesses()
        self._about: Mapping[str, str] = {}

    def about(self, agent: str) -> str:
        """What an agent was asked last, as far as is known."""
        return self._about.get(agent, "")

    async def between(self, measured: Sequence[WorkingSet]) -> Mapping[Pair, Likeness]:
        """The likeness of each two agents that have something in hand or in mind."""
        busy = {
            working_set.agent: working_set
            for working_set in measured
            if working_set.files or working_set.intent
        }
        if len(busy) < 2:
            return {}
        asked = await self._asked(busy.keys())
        self._about = {name: texts[0] for name, texts in asked.items() if texts}
        branches, messages = self._worktrees.branches(), self._worktrees.messages()
        texts = {
            name: text_of(
                asked=asked.get(name, ()),
                intent=[touch.path for touch in working_set.intent],
                branch=branches.get(name, ""),
                commits=messages.get(name, ()),
            )
            for name, working_set in busy.items()
        }
        requests = {name: "\n".join(asked.get(name, ())) for name in busy}
        declared = {
            name: "\n".join(touch.path for touch in working_set.intent) for name, working_set in busy.items()
        }
        return await asyncio.to_thread(
            self._likenesses.between, texts, self._worktrees.vocabulary(), requests, declared
        )
