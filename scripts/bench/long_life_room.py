"""The room of a long life: a year of people, agents and their turns, made by the product's own functions.

It is what a room is after a year, and not how it came there: many happenings are one transaction, the clock is the
script's, and no process of an agent runs.
"""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from unittest.mock import patch

from relay.app.wiring.memory.observing import ObservedMemories
from relay.app.wiring.schema import SCHEMAS
from relay.base.durations import iso
from relay.config.loading import parse
from relay.config.settings import LiveSettings
from relay.log import events, follow
from relay.memory.knowledge.ingest import KnowledgeFollower
from relay.model import Kind, UsagePart, touches
from relay.model.touches import Source, Touch
from relay.room.dispatch.queue import claim_next_dispatch
from relay.room.dispatch.roster import Policy
from relay.room.dispatch.turn_end import finish
from relay.room.dispatch.turns import Outcome, Plan
from relay.room.journal import admitting, ledger
from relay.room.journal.admission_rules import Rules
from relay.room.journal.values import CycleState
from relay.store.ports import Tx
from relay.store.sqlite.store import SqliteStore, open_store
from relay.timeline.file_changes import record_changes

PEOPLE, AGENTS = ("ann", "bob", "cleo", "dan"), ("CLAUDE", "CODEX", "GEMINI", "OPENCODE")
YEAR_S, BEGAN = 365 * 86_400.0, 1_750_000_000.0
#: Happenings of one transaction.
BATCH = 200
#: Different words, of which a few are most of what is said; words of a question and of an answer, about.
VOCABULARY, ASKED, ANSWERED = 20_000, 20, 60
_RULES = Rules(agents=AGENTS)


class Talk:
    """What is said, the same in each run: words as they are in a language, a few of them very often."""

    def __init__(self) -> None:
        self._dice = random.Random(17)
        letters = "etaoinshrdlucmfwypvbgk"
        words = [
            "".join(self._dice.choices(letters, k=self._dice.randrange(2, 11))) for _ in range(VOCABULARY)
        ]
        self._words, weights = words, (1 / (rank + 3) for rank in range(VOCABULARY))
        self._weights = list(itertools.accumulate(weights))

    def words(self, about: int) -> str:
        """A text of about so many words."""
        count = max(3, round(self._dice.gauss(about, about / 3)))
        return " ".join(self._dice.choices(self._words, cum_weights=self._weights, k=count))

    def chance(self, share: float) -> bool:
        return self._dice.random() < share

    def one_of(self, names: tuple[str, ...]) -> str:
        return self._dice.choice(names)

    def paths(self) -> list[str]:
        return [f"src/part{number % 40}/module{number}.py" for number in self._dice.sample(range(1200), 3)]

    def blob(self) -> str:
        """The id of an object of git, as good as any."""
        return f"{self._dice.getrandbits(160):040x}"


class Year:
    """Happenings, one after the other, of a room that has `entries` at the end."""

    def __init__(self, entries: int) -> None:
        self.talk, self.entries, self.made = Talk(), entries, 0

    @property
    def at(self) -> float:
        return BEGAN + YEAR_S * self.made / self.entries

    async def happen(self, tx: Tx) -> None:
        """A person says something: to an agent, to the room, or for the others to read."""
        talk, now = self.talk, self.at
        mention = talk.chance(0.4)
        agent = talk.one_of(AGENTS)
        body = f"{f'@{agent} ' if mention else ''}{talk.words(ASKED)}"
        if talk.chance(0.02):
            body += f"\nDECISION: use {talk.words(4)} because {talk.words(5)}"
        new = ledger.NewMessage(talk.one_of(PEOPLE), Kind.HUMAN, body, now)
        said = await admitting.admit(tx, new, _RULES)
        self.made += 1
        if not mention:
            routed = talk.chance(0.5)
            state, decision = (
                (CycleState.ROUTED, {"action": "route", "targets": [agent], "reason": talk.words(6)})
                if routed
                else (CycleState.ABSORBED, {"action": "none", "targets": [], "reason": talk.words(6)})
            )
            await ledger.decide(tx, said, state, decision, agents=[agent] if routed else [], now=now)
            if not routed:
                return
        await self._turn(tx, agent, now)

    async def _turn(self, tx: Tx, agent: str, now: float) -> None:
        policy = Policy(agent, names=AGENTS)
        plan = await claim_next_dispatch(tx, policy, holder="bench", now=now)
        assert isinstance(plan, Plan), plan
        if self.talk.chance(0.3):
            await record_changes(
                tx,
                plan.lane,
                [
                    Touch(path, self.talk.blob(), self.talk.blob(), touches.Kind.WRITE)
                    for path in self.talk.paths()
                ],
                source=Source.TREE,
                before=self.talk.blob(),
                after=self.talk.blob(),
                worktree=f"relay/{agent.lower()}",
                parents=[plan.event_id],
            )
        text = self.talk.words(ANSWERED)
        if self.talk.chance(0.02):
            text += f"\nDECISION: keep {self.talk.words(4)} because {self.talk.words(5)}"
        usage = UsagePart(input_tokens=4000, output_tokens=300, cost_usd=0.01)
        outcome = Outcome(text, tools=("read src/app.py", "edit src/app.py"), usage=usage)
        assert await finish(tx, plan, outcome, now=now + 30.0, chance=0.5)
        self.made += 1


async def make(path: Path, entries: int) -> None:
    """Make the database of such a room, with all that its followers make of it."""
    store = await open_store(path, SCHEMAS)
    year = Year(entries)
    try:
        # No turn here is given a memory, so no answer is looked through for one: what 500 turns cost is their own.
        with (
            patch("relay.log.events.now_iso", lambda: iso(year.at)),
            patch("relay.memory.knowledge.quotable.MOST_TURNS", 1),
        ):
            await store.write(lambda tx: events.put_setting(tx, "memory_past", "0"))
            while year.made < entries:
                await store.write(lambda tx: _some(tx, year))
                await follow_up(store)
    finally:
        await store.close()


async def _some(tx: Tx, year: Year) -> None:
    for _ in range(BATCH):
        if year.made < year.entries:
            await year.happen(tx)


async def follow_up(store: SqliteStore) -> None:
    settings = LiveSettings(parse('{"agents": []}', store.path))
    for follower in (ObservedMemories(settings), KnowledgeFollower()):
        while (await follow.step(store, follower)).applied:
            pass
