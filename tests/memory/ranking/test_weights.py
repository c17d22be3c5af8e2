from __future__ import annotations

import pytest

from relay.memory.ranking.counts import BODIES, SUMMARIES, TEXTS
from relay.memory.ranking.weights import TURN, Text, Weighing
from relay.memory.ranking.words import question


@pytest.mark.parametrize("average", [10, 300])
def test_a_long_text_says_little_of_what_stood_beside_it(average: int) -> None:
    """Also where all are long: the patches of a series share their words; a turn of a conversation is short."""
    counts = {TEXTS: 100, SUMMARIES: 100 * average, BODIES: 0, "heron": 1}
    weighing, nothing = Weighing.of(question("heron"), counts), Text(8, {}, {})
    turn, patch = (weighing.score(nothing, [(Text(length, {0: 1.0}, {0: 1}), 1.0)]) for length in (TURN, 300))
    assert turn > 5 * patch > 0
