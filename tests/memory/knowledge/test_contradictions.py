"""What contradicts what, by the words alone."""

from __future__ import annotations

import pytest

from relay.memory.knowledge.contradictions import digest, relation, said
from relay.memory.knowledge.entry import Relation


@pytest.mark.parametrize(
    ("new", "against", "old", "expected"),
    [
        ("mock the clock", (), "never mock the clock", Relation.CONTRADICTS),
        ("Do not mock the clock", (), "mock the clock", Relation.CONTRADICTS),
        ("we must not mock the clock", (), "Never mock the clock!", Relation.SUPPORTS),
        ("use SQLite in CI instead of PostgreSQL", ("PostgreSQL",), "use PostgreSQL in CI", Relation.SUPERSEDES),
        ("use SQLite instead of PostgreSQL", ("PostgreSQL",), "we use PostgreSQL", Relation.SUPERSEDES),
        # About something else, or chosen by neither.
        ("use SQLite for events instead of PostgreSQL", ("PostgreSQL",), "use PostgreSQL for billing", None),
        ("use SQLite for events instead of PostgreSQL", ("PostgreSQL",), "use DuckDB instead of PostgreSQL", None),
        ("use SQLite instead of PostgreSQL", ("PostgreSQL",), "never use PostgreSQL", None),
        ("mock the clock", (), "mock the network", None),
    ],
)  # fmt: skip
def test_a_pair(new: str, against: tuple[str, ...], old: str, expected: Relation | None) -> None:
    older = ("PostgreSQL",) if "instead of PostgreSQL" in old else ()
    assert relation(said(new, against), said(old, older)) is expected


def test_the_same_words_have_the_same_digest_negated_or_not() -> None:
    assert digest(said("never mock the clock")) == digest(said("Mock THE clock")) is not None
    assert digest(said("mock the clock")) != digest(said("mock the network"))
    assert digest(said("we will use it")) is None
