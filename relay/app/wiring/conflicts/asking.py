"""Who is asked about a conflict first: people, or agents where the strategy of its path says so (003, section 6.4).

Invariant: where an agent cannot be asked, or was asked as often as the strategy allows, people are asked.
"""

from __future__ import annotations

from relay.config.merge import MergeStrategy
from relay.log.events import Lane
from relay.merge.resolution import journal
from relay.merge.resolution.journal import AskedConflict
from relay.merge.resolution.wording import asked_to_write, question_text
from relay.model.ports import Voice
from relay.room.journal import ledger
from relay.store.ports import Tx


async def ask_about(tx: Tx, asked: AskedConflict, strategy: MergeStrategy, voice: Voice | None) -> None:
    """Ask in the room, in the caller's transaction."""
    agents = await _reached(tx, asked, strategy, voice)
    if not agents or voice is None:
        # Its agent hears of it while it works; what becomes of it is for people to say.
        agent = asked.question.agent
        meta = {"notice": "conflict", "conflict": asked.number, "agent": agent, "urgent": True}
        to = [agent] if agent else []
        await ledger.say(tx, question_text(asked), parents=[asked.event], meta=meta, to=to)
        return
    for agent in agents:
        await say_to(tx, voice, asked, agent, "The room")
        asked = await journal.ask_agent(tx, asked, agent, attempts=asked.attempts + (agent == agents[-1]))


async def say_to(tx: Tx, voice: Voice, asked: AskedConflict, agent: str, by: str) -> None:
    """Ask an agent to write what is to stand there."""
    await voice.say(
        tx,
        asked_to_write(asked, agent, by),
        now=await tx.now(),
        lane=Lane("room", f"merge-conflict:{asked.number}", short=True),
        to=[agent],
        ask=[agent],
        cause=[asked.event],
        meta={"notice": "conflict", "conflict": asked.number},
    )


async def _reached(tx: Tx, asked: AskedConflict, strategy: MergeStrategy, voice: Voice | None) -> list[str]:
    """The agents that are asked now; empty: people are."""
    if (
        asked.part.whole
        or voice is None
        or strategy.use not in journal.BY_AGENTS
        or asked.attempts >= strategy.attempts
    ):
        return []
    question = asked.question
    both = strategy.use == "confidence"
    wanted = [question.ours.name, question.agent] if both else [strategy.agent or question.agent]
    names = [name for name in dict.fromkeys(wanted) if name]
    reach = await voice.reach(tx, names)
    found = [name for name in names if reach.get(name) == ""]
    # One figure is no comparison.
    return found if len(found) == (2 if both else 1) else []
