"""In how many texts of a kind a word is, and how long they are: relay's own counts, so that a word is as rare, and a
text as long for its kind, on one engine as on another.

Invariant: the counts change in the transaction that changes the texts, so they are those of what is indexed.

Everything here runs in the caller's transaction.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from relay.store.ports import Queries, Tx

Q = Queries(Path(__file__).parents[1])
#: What stands for the texts themselves among the words; no word begins so.
TEXTS = "_texts"
#: What stands for the words of all summaries, and of all bodies.
SUMMARIES, BODIES = "_summaries", "_bodies"


@dataclass(slots=True)
class WordCounts:
    """Changes of the counts of one kind, gathered over many texts, and written at once."""

    kind: str
    changes: Counter[str] = field(default_factory=Counter)

    def add(self, summary: Sequence[str], body: Sequence[str], sign: int = 1) -> None:
        """Count a text in (`sign` 1) or out (-1), by its words."""
        for word in {*summary, *body}:
            self.changes[word] += sign
        self.changes[TEXTS] += sign
        self.changes[SUMMARIES] += sign * len(summary)
        self.changes[BODIES] += sign * len(body)

    async def write(self, tx: Tx) -> None:
        """Write what was gathered."""
        changes = {word: change for word, change in sorted(self.changes.items()) if change}
        self.changes.clear()
        if changes:
            await tx.execute(Q.count_words, kind=self.kind, changes=json.dumps(changes, ensure_ascii=False))


async def counts_of(tx: Tx, kind: str, words: Iterable[str]) -> dict[str, int]:
    """In how many texts each of these words is, where it is in any; with `TEXTS`, `SUMMARIES` and `BODIES`."""
    wanted = json.dumps(sorted({*words, TEXTS, SUMMARIES, BODIES}), ensure_ascii=False)
    rows = await tx.all(Q.word_counts, kind=kind, words=wanted)
    return {row["word"]: row["n"] for row in rows if row["n"] > 0}


async def words_begun(tx: Tx, kind: str, beginning: str, limit: int) -> list[str]:
    """The words of texts that begin so, the most frequent first."""
    bounds = {"least": beginning, "most": beginning + "\U0010ffff"}
    return [row["word"] for row in await tx.all(Q.words_begun, kind=kind, limit=limit, **bounds)]
