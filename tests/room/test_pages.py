"""Pages of the transcript: neighbours without a gap, and the truth about what lies beyond."""

from __future__ import annotations

import pytest

from relay.log.sqlite_store import SqliteStore
from relay.room import pages
from tests.room.parts import all_messages, post


@pytest.mark.parametrize(
    ("at", "limit", "numbers", "more", "more_after"),
    [
        (4, 4, [2, 3, 4, 5], True, True),
        (4, 1, [4], True, True),
        (1, 4, [1, 2], False, True),
        (7, 4, [5, 6, 7], True, False),
        (4, 100, [1, 2, 3, 4, 5, 6, 7], False, False),
    ],
)
async def test_the_page_around_an_entry(
    store: SqliteStore, at: int, limit: int, numbers: list[int], more: bool, more_after: bool
) -> None:
    for number in range(1, 8):
        await post(store, f"message {number}", 1_800_000_000.0 + number)
    every = await all_messages(store)
    wanted = every[at - 1]
    for place in (wanted.id, f"#{wanted.number}", str(wanted.cursor)):
        found = await store.read(lambda tx, place=place: pages.around(tx, place, limit=limit))
        assert found is not None
        assert [one.number for one in found.entries] == numbers
        assert (found.more, found.more_after) == (more, more_after)
        behind = await store.read(
            lambda tx, found=found: pages.page(tx, after=found.next, before=None, limit=100)
        )
        assert [one.number for one in behind.entries] == [n for n in range(1, 8) if n > numbers[-1]]


async def test_there_is_no_page_around_an_entry_that_is_not_there(store: SqliteStore) -> None:
    await post(store, "the only one", 1_800_000_000.0)
    for place in ("#2", "no-such-id"):
        assert await store.read(lambda tx, place=place: pages.around(tx, place, limit=10)) is None
