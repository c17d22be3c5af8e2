"""What an agent is given of the room's memory with a turn.

Invariants:
- a turn never waits longer than `RECALL_S` for it, and never fails with it: then it begins without, and the log of
  the daemon says why;
- what is given is decided in the transaction in which the turn begins: nothing that is forgotten by then, nothing
  that this conversation was given, asked or answered before, nothing that its agent reads anyway. A turn that begins
  anew, after it failed or was cut off, is given the same again, as it is asked the same again;
- a conversation that resumes begins with its own working memory, whole, whatever else is given.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial

import structlog

from relay.app.wiring.memory.recalled import quote_of, recalled, stands
from relay.config.settings import LiveSettings
from relay.log import events
from relay.log.events import Lane
from relay.memory import given
from relay.memory.episodic.keeping import KIND
from relay.memory.observed import says_something, without_mentions
from relay.memory.prompt import Quote, block, chosen, weight_of
from relay.memory.ranking.counts import counts_of
from relay.memory.ranking.words import question
from relay.memory.working import working_text
from relay.model import TAKE_MAIN, Caller, Message
from relay.room.dispatch.turns import Given, Recollection
from relay.room.journal import ledger
from relay.store.ports import Store, Tx

log = structlog.get_logger(__name__)
#: Seconds that a turn waits for what is remembered.
RECALL_S = 5.0
#: Hits that are looked at for one turn, and characters of a message that say what it is about.
MOST_FOUND, MOST_ASKED = 24, 4000


class TurnMemories:
    """Finds what bears on the messages of a turn."""

    def __init__(self, store: Store, settings: LiveSettings) -> None:
        self._store, self._settings = store, settings

    async def recollect(self, agent: str, messages: Sequence[Message]) -> Recollection | None:
        """What is remembered that bears on these messages, as far as it could be said in time."""
        budget = self._settings.current.memory.prompt_tokens
        asked = [
            without_mentions(message.body[:MOST_ASKED])
            for message in messages
            if TAKE_MAIN not in message.meta and says_something(message.body)
        ]
        if not budget or not asked:
            return _Recollection((), budget)
        text, caller = "\n".join(asked), Caller(agent, ledger.ROOM)
        try:
            async with asyncio.timeout(RECALL_S):
                decay = self._settings.current.memory.hop_decay
                asking = partial(_quotes, caller=caller, text=text, hop_decay=decay)
                quotes = await self._store.read(asking, actor=caller)
        except Exception as error:
            # Whatever it was: a turn is worth more than what it would have been told.
            log.warning("nothing recalled for a turn", agent=agent, reason=f"{type(error).__name__}: {error}")
            quotes = ()
        return _Recollection(quotes, budget)


@dataclass(frozen=True, slots=True)
class _Recollection:
    """What was found, best first, and the tokens that it may have."""

    quotes: tuple[Quote, ...]
    budget: int

    async def give(self, tx: Tx, lane: Lane, *, messages: Collection[str], seen: Collection[str]) -> Given:
        before, asked = await given.in_conversation(tx, lane, but=messages)
        asking = await tx.all(ledger.Q.events_of_messages, ids=json.dumps(sorted(asked)))
        known = {*seen, *(row["event_id"] for row in asking)}
        standing = [
            quote
            for quote in self.quotes
            if quote.id not in before and await stands(tx, quote) and not await _own(tx, quote, lane)
        ]
        picked = chosen(standing, self.budget, given=before, seen=known)
        causes = [quote.event_id for quote in picked if quote.event_id is not None]
        held = await working_text(tx, lane.name, lane.session)
        return Given(
            "\n\n".join(part for part in (block(picked), held) if part),
            tuple(
                {"id": quote.id, "memory_type": quote.memory_type, "reference": quote.reference}
                for quote in picked
            ),
            # What was archived since is told all the same.
            tuple([cause for cause in causes if await events.get(tx, cause) is not None]),
        )


async def _own(tx: Tx, quote: Quote, lane: Lane) -> bool:
    """Did the agent say it in this conversation itself?"""
    return (
        quote.author == lane.name
        and quote.event_id is not None
        and await given.is_answer_in(tx, quote.event_id, lane)
    )


async def _quotes(tx: Tx, *, caller: Caller, text: str, hop_decay: bool) -> tuple[Quote, ...]:
    """What bears on it, best first."""
    asked = question(text)
    counts = await counts_of(tx, KIND, asked.words)
    weight = weight_of(asked, counts)
    found = await recalled(tx, caller, text, MOST_FOUND, hop_decay=hop_decay)
    quotes = (quote_of(each, weight * (each.relevance - each.beside)) for each in found)
    return tuple(quote for quote in quotes if quote.bears)
