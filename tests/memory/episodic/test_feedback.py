"""Whether a memory helped: one word a caller, within bounds, on both stores."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from relay.coordination.idempotency import once
from relay.log.verify import verify
from relay.memory.episodic.memory import EpisodicMemory
from relay.model import Caller, Fault, Refusal
from relay.store.ports import Store
from tests import engines
from tests.coordination.standins import Beats
from tests.engines import BOTH, all_events
from tests.memory.episodic.test_memory import SCHEMAS

pytestmark = BOTH
A, B, C = Caller("CLAUDE", "a1"), Caller("CODEX", "b1"), Caller("ann", "p1", person=True)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    store = await engines.open_store(tmp_path, SCHEMAS)
    yield store
    assert await verify(store) == []
    await store.close()


@pytest.fixture
def memory(store: Store) -> EpisodicMemory:
    return EpisodicMemory(store, sessions=Beats(), once=once)


async def test_the_last_word_of_each_caller_counts_and_moves_the_rank(
    memory: EpisodicMemory, store: Store
) -> None:
    first = (await memory.remember(A, "fix", "restart the cache after a deploy"))["memory_id"]
    await memory.remember(B, "fix", "restart the cache before a deploy")
    ranks = [one["relevance"] for one in await memory.recall(A, "restart cache")]
    assert ranks[0] == pytest.approx(ranks[1], rel=1e-3)
    answer = await memory.feedback(B, first, True, note="it was ghp_" + "a" * 36)
    assert answer == {"success": True, "memory_id": first, "useful": 1, "useless": 0}
    assert await memory.feedback(B, first, True) == answer
    assert (await memory.recall(A, "restart cache"))[0]["memory_id"] == first
    assert (await memory.feedback(B, first, False))["useless"] == 1
    assert (await memory.feedback(C, "r1", False))["useless"] == 2
    told = await memory.recall(A, "restart cache")
    assert [one["memory_id"] for one in told][1] == first
    assert told[1]["relevance"] > 0.5 * told[0]["relevance"], "it is lower, and still told"
    log = await all_events(store, "memory.feedback")
    assert [event.outputs["feedback"]["useful"] for event in log] == [True, True, False, False]
    assert "ghp_" not in str([event.outputs for event in log])


async def test_what_is_unknown_or_forgotten_takes_none(memory: EpisodicMemory) -> None:
    one = (await memory.remember(A, "fix", "a summary"))["memory_id"]
    await memory.forget(A, one)
    for name in (one, "r1", "r99", "no such"):
        for caller in (A, B, C):
            with pytest.raises(Refusal) as refused:
                await memory.feedback(caller, name, True)
            assert refused.value.fault is Fault.UNKNOWN
            # Who may forget it is told that it is; to others it is as if there were none.
            is_told = name in (one, "r1") and caller is not B
            message = "The memory r1 is forgotten." if is_told else f"There is no memory {name!r}."
            assert refused.value.message.replace("'", "") == message.replace("'", "")
