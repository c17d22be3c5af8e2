"""References to what the room numbers: written in one way, read as people write them."""

from __future__ import annotations

import pytest

from relay.model import references
from relay.model.references import Thing


@pytest.mark.parametrize(
    ("text", "bare", "meant"),
    [
        ("m14", Thing.TASK, (Thing.MESSAGE, 14)),
        ("#m14", Thing.TASK, (Thing.MESSAGE, 14)),
        ("T3", Thing.MESSAGE, (Thing.TASK, 3)),
        ("j7", Thing.MESSAGE, (Thing.JOB, 7)),
        ("p2", Thing.MESSAGE, (Thing.REQUEST, 2)),
        ("#14", Thing.MESSAGE, (Thing.MESSAGE, 14)),
        ("14", Thing.TASK, (Thing.TASK, 14)),
        (" # 14 ", Thing.TASK, (Thing.TASK, 14)),
        ("y14", Thing.MESSAGE, None),
        ("x14", Thing.MESSAGE, (Thing.EXPLORATION, 14)),
        ("14m", Thing.MESSAGE, None),
        ("m", Thing.MESSAGE, None),
        ("m1234567890", Thing.MESSAGE, None),
        ("", Thing.MESSAGE, None),
        ("m\u0661", Thing.MESSAGE, None),
    ],
)
def test_what_a_reference_means(text: str, bare: Thing, meant: tuple[Thing, int] | None) -> None:
    assert references.read(text, bare) == meant


@pytest.mark.parametrize("thing", list(Thing))
def test_what_is_written_is_read(thing: Thing) -> None:
    for bare in Thing:
        assert references.read(references.ref(thing, 14), bare) == (thing, 14)
