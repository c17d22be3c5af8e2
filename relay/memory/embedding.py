"""Vectors of texts, as a model of Ollama makes them (`POST /api/embed`).

Invariant: a vector is of length 1, in numbers of four bytes, little-endian; all of one call are equally long.
Whatever goes wrong is a NoVectorsError, with a sentence for people.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from relay.base.ollama_client import TroubleKind, explain, open_client

#: Characters of a text that are sent. The model takes as many as it can of them.
MOST_TEXT = 4000


@dataclass(frozen=True, slots=True)
class EmbeddingModel:
    """Which model on which server makes the vectors; an empty `name` is none."""

    host: str
    name: str


class NoVectorsError(Exception):
    """There are no vectors, and why. `refused`: the server is there and answered with an error."""

    def __init__(self, reason: str, *, refused: bool = False) -> None:
        super().__init__(reason)
        self.refused = refused


async def load() -> None:
    """Load what vectors need. It takes seconds on a slow machine, once a process, and goes on when the caller does
    not wait."""
    await asyncio.to_thread(_load)


async def embed(model: EmbeddingModel, texts: Sequence[str], within_s: float) -> list[bytes]:
    """A vector for each text. Raises NoVectorsError, also when it takes longer than `within_s` seconds."""
    try:
        async with asyncio.timeout(within_s):
            client = await open_client(model.host)
            try:
                sent = [text[:MOST_TEXT] for text in texts]
                answer = await client.embed(model=model.name, input=sent, truncate=True, keep_alive="30m")
            finally:
                await client.close()  # type: ignore[no-untyped-call]
        return await asyncio.to_thread(_units, answer.embeddings, len(texts))
    except Exception as error:
        # Whatever it was: what is found by words is worth more than what would have been found besides.
        trouble = explain(error, model.host, model.name, within_s)
        raise NoVectorsError(trouble.sentence, refused=trouble.kind is TroubleKind.REFUSED) from error


def _load() -> None:
    import numpy  # noqa: F401  (late: few rooms have vectors)
    import ollama  # noqa: F401


def _units(vectors: Sequence[Sequence[float]], count: int) -> list[bytes]:
    """Raises ValueError for an answer of another shape."""
    import numpy as np

    matrix = np.asarray(vectors, dtype="<f4")
    if matrix.ndim != 2 or len(matrix) != count or not matrix.shape[1] or not np.isfinite(matrix).all():
        raise ValueError("the model gave no vectors of one length")
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    return [row.tobytes() for row in matrix / np.where(lengths == 0, 1, lengths)]
