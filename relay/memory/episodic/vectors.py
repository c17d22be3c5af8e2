"""Vectors of memories, where Ollama has `memory.embedding_model`: what is near to a question in meaning is found too.

Invariants:
- they are made in the background, in the order of the memories. A recall waits `QUESTION_S` at most for what is near
  to its question; without it, and for `REST_S` after the model did not answer, it is answered by words alone;
- a vector is of one model: another model begins anew;
- what is forgotten has no vector.

A memory that others joined keeps the vector of what was told first; its summary is the same.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import structlog

from relay.memory.embedding import EmbeddingModel, NoVectorsError, embed, load
from relay.memory.experience import Experience
from relay.memory.ranking.nearest import Near, NearestVectors
from relay.store.ports import Queries, Row, Store, Tx

log = structlog.get_logger(__name__)
Q = Queries(Path(__file__).parents[1])
#: Memories that are sent to the model at once, and seconds for them.
BATCH, BATCH_S = 32, 120.0
#: Seconds that a recall waits, and for which the model is not asked after it did not answer.
QUESTION_S, REST_S = 0.3, 30.0
#: Seconds until the background tries again, and between two looks when nothing wakes it.
AGAIN_S, POLL_S = 30.0, 30.0
#: Memories near to a question that take part, at most.
NEAREST = 50
#: Vectors that are read at once.
PAGE = 1000


class Vectors:
    """The vectors of one database. `model`: as the settings are now."""

    def __init__(self, store: Store, model: Callable[[], EmbeddingModel]) -> None:
        self._store, self._model = store, model
        self._rests_until = 0.0
        self._read: tuple[str, NearestVectors] | None = None
        self._after = 0
        self._reading = asyncio.Lock()
        self._trouble = ""

    async def run(self) -> None:
        """Make the vectors that are missing, for ever. Without a model it waits for one."""
        # By any commit: what the room observes is kept without an event of its own.
        with contextlib.closing(self._store.wakeup()) as wakeup:
            while True:
                model = self._model()
                if model.name and not await self.make(model):
                    await asyncio.sleep(AGAIN_S)
                else:
                    await wakeup.wait(POLL_S)

    async def make(self, model: EmbeddingModel) -> bool:
        """Make all vectors that are missing; False when the server did not give them."""

        async def missing(tx: Tx) -> Sequence[Row]:
            last = await tx.one(Q.last_vector, model=model.name)
            return await tx.all(Q.memories_after, after=last["number"] if last else 0, limit=BATCH)

        while rows := await self._store.read(missing):
            try:
                vectors = await _vectors(model, [_text(Experience.of_row(row)) for row in rows])
            except NoVectorsError as error:
                self._say(str(error))
                return False
            self._say("")

            async def keep(tx: Tx, rows: Sequence[Row] = rows, vectors: Sequence[bytes] = vectors) -> None:
                for row, vector in zip(rows, vectors, strict=True):
                    await tx.execute(Q.put_vector, model=model.name, number=row["number"], vector=vector)

            await self._store.write(keep)
        return True

    async def near(self, text: str) -> list[Near]:
        """The memories that are near to a question, the nearest first; none where that is not known in time."""
        model = self._model()
        if not model.name or not text.strip() or time.monotonic() < self._rests_until:
            return []
        try:
            async with asyncio.timeout(QUESTION_S):
                await load()
                question = await self._of_question(model, text)
                async with self._reading:
                    return await self._nearest(model, question)
        except (TimeoutError, NoVectorsError) as error:
            self._say(str(error) or "there was no time for the vector of a question")
            return []

    async def _of_question(self, model: EmbeddingModel, text: str) -> bytes:
        try:
            [question] = await embed(model, [text], QUESTION_S)
        except BaseException:  # the end of the time too
            self._rests_until = time.monotonic() + REST_S
            raise
        return question

    async def _nearest(self, model: EmbeddingModel, question: bytes) -> list[Near]:
        """What was read is kept, also when there was no time for all of it."""
        if self._read is None or (self._read[0], self._read[1].length) != (model.name, len(question)):
            self._read, self._after = (model.name, NearestVectors(len(question))), 0
        vectors = self._read[1]
        while rows := await self._store.read(
            lambda tx: tx.all(Q.vectors_after, model=model.name, after=self._after, limit=PAGE)
        ):
            vectors.add((row["number"], row["vector"]) for row in rows)
            self._after = rows[-1]["number"]
        while near := await asyncio.to_thread(vectors.best, question, NEAREST):
            numbers = {each.number for each in near}
            asked = json.dumps(sorted(numbers))
            there = await self._store.read(
                lambda tx, asked=asked: tx.all(Q.vectors_there, model=model.name, numbers=asked)  # type: ignore[misc]
            )
            forgotten = numbers - {row["number"] for row in there}
            if not forgotten:
                return near
            vectors.drop(forgotten)
        return []

    def _say(self, trouble: str) -> None:
        """Once for each trouble, and when it is over."""
        if trouble != self._trouble:
            self._trouble = trouble
            log.info("vectors of memories", reason=trouble or "they are made")


def _text(experience: Experience) -> str:
    return f"{experience.summary}\n{experience.body()}"


async def _vectors(model: EmbeddingModel, texts: Sequence[str]) -> list[bytes]:
    """A vector for each. A text that a model refuses, which takes others, has an empty one: it would keep all that
    follow from having theirs."""
    try:
        return await embed(model, texts, BATCH_S)
    except NoVectorsError as error:
        if not error.refused:
            raise
        await embed(model, ["memory"], BATCH_S)  # where it refuses this too, it is not the text
    vectors: list[bytes] = []
    for text in texts:
        try:
            vectors += await embed(model, [text], BATCH_S)
        except NoVectorsError as error:
            if not error.refused:
                raise
            vectors.append(b"")
    return vectors
