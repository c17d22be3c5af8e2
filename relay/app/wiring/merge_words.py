"""What an agent's work is about, out of the room: the tasks that it took, what people asked for and what it answered.

Invariant: only words of the time in which the work was made; an answer that changed no file says nothing of it.
"""

from __future__ import annotations

from relay.airspace.advisories import table
from relay.airspace.worktrees.commit_message import WorkSummary, asked_of
from relay.airspace.worktrees.merge import Tell
from relay.coordination.tasks import claims
from relay.model import Kind
from relay.room.journal import ledger
from relay.store.ports import Store, StoreError, Tx

#: AnswerFollower and tasks that are surveyed at: the work of many days.
_MOST = 200
#: Seconds by which a file's time may be before that of the turn which wrote it: git keeps whole seconds.
_COARSE_S = 2.0


def tell(store: Store) -> Tell:
    """Nobody's merge waits for a database that cannot be read: its message is then made of what git knows."""

    async def ask(agent: str, since: float) -> WorkSummary:
        async def work(tx: Tx) -> WorkSummary:
            tasks = await claims.taken_since(tx, agent, since - _COARSE_S, limit=_MOST)
            answers = await ledger.answers_since(tx, agent, since - _COARSE_S, limit=_MOST)
            with_work = [answer for answer in answers if "worktree" in answer.meta]
            asked = [
                await ledger.message(tx, answer.in_reply_to) for answer in with_work if answer.in_reply_to
            ]
            people = [message.body for message in asked if message is not None and message.kind == Kind.HUMAN]
            requests = dict.fromkeys(asked_of(agent, body) for body in people)
            said = (
                advisory.decided_against(agent)
                for advisory in (await table.load_state(tx)).advisories.values()
            )
            decided = next((words for words in said if words), "")
            return WorkSummary(
                tuple(tasks), tuple(requests), with_work[-1].body if with_work else "", decided
            )

        try:
            return await store.read(work)
        except (StoreError, store.transient, store.errors):
            return WorkSummary()

    return ask
