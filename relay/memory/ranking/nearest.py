"""Which vectors are nearest to one of a question, and how what they find is joined with what words find.

Invariants:
- near is what stands out among all: a question about something else is near to nothing, whatever a model's usual
  likeness of two texts is;
- what both found comes before what one found as high.

Pure: no I/O.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Matrix = NDArray[Any]

#: How much the first ranks count (Cormack, Clarke and Buettcher, 2009).
RANK = 60
#: A memory is near when its likeness is so far above the usual one, of what is left to the same text; and how many
#: texts that have nothing in common with the question count as seen before, so that a few are no rule.
STANDS_OUT, UNLIKE = 0.25, 10
#: Vectors that stand together in memory, so that none is copied when another comes.
BLOCK = 1024


@dataclass(frozen=True, slots=True)
class Near:
    """A memory that is near to a question: how near, in (0, 1]."""

    number: int
    likeness: float


class NearestVectors:
    """Vectors of one length by the numbers of their memories (`relay.memory.embedding`: of length 1)."""

    def __init__(self, length: int) -> None:
        """`length`: of each, in bytes."""
        self.length = length
        self._numbers: list[int] = []
        self._blocks: list[Matrix] = []

    def add(self, vectors: Iterable[tuple[int, bytes]]) -> None:
        """Take vectors in; those of another length are left out."""
        import numpy as np  # late: it takes a tenth of a second, and few rooms have vectors

        for number, vector in vectors:
            if len(vector) == self.length:
                block, row = divmod(len(self._numbers), BLOCK)
                if not row:
                    self._blocks.append(np.zeros((BLOCK, self.length // 4), dtype="<f4"))
                self._blocks[block][row] = np.frombuffer(vector, dtype="<f4")
                self._numbers.append(number)

    def drop(self, numbers: Collection[int]) -> None:
        """Let these be near to nothing any more."""
        for at, number in enumerate(self._numbers):
            if number in numbers:
                self._blocks[at // BLOCK][at % BLOCK] = 0.0

    def best(self, question: bytes, most: int) -> list[Near]:
        """What is near to the question's vector, the nearest first; `most` of it."""
        import numpy as np

        if not self._blocks or len(question) != self.length:
            return []
        asked = np.frombuffer(question, dtype="<f4")
        likeness = np.concatenate([block @ asked for block in self._blocks])[: len(self._numbers)]
        usual = max(0.0, float(likeness.sum()) / (len(likeness) + UNLIKE))
        least = usual + STANDS_OUT * (1 - usual)
        nearest = np.argsort(-likeness, kind="stable")[:most]
        return [
            Near(self._numbers[at], min(1.0, float(likeness[at]))) for at in nearest if likeness[at] >= least
        ]


def joined(by_words: Sequence[int], by_vectors: Sequence[int]) -> list[int]:
    """The numbers of both, by the sum of their reciprocal ranks; of equal ones first what words found."""
    scores: dict[int, float] = {}
    for found in (by_words, by_vectors):
        for rank, number in enumerate(found, 1):
            scores[number] = scores.get(number, 0.0) + 1 / (RANK + rank)
    return sorted(scores, key=lambda number: -scores[number])
