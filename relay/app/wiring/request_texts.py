"""What agents were asked for: the messages of people and the tasks behind their current work.

Invariant: only reads, and only words of people and of tasks. What one agent asks another, and what the room itself
says (an advisory to both, say), would make the words of two agents alike that have nothing in common.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from relay.airspace.text_similarity import newest_texts
from relay.coordination import sessions
from relay.log.encoding import dumps
from relay.room.journal import ledger
from relay.store.ports import Store, Tx

#: Messages of people that are read of each agent: what it was asked last, and what that followed on.
MOST_ASKED = 2
#: Jobs that are surveyed through for them.
MOST_JOBS = 200


async def asked(store: Store, agents: Collection[str]) -> Mapping[str, Sequence[str]]:
    """By agent, the newest texts first."""

    async def work(tx: Tx) -> dict[str, list[str]]:
        names = dumps(sorted(agents))
        rows = await tx.all(ledger.Q.asked_of, agents=names, limit=MOST_JOBS)
        texts = newest_texts([(row["agent"], row["body"]) for row in rows], MOST_ASKED)
        claims = await tx.all(sessions.Q.texts_of_claims, agents=names)
        for row in sorted(claims, key=lambda claim: -claim["number"]):
            texts.setdefault(row["agent"], []).append(f"{row['task_type']}\n{row['task_description']}")
        return texts

    return await store.read(work)
