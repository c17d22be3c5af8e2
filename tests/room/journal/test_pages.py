"""Pages of the transcript: neighbours without a gap, and the truth about what lies beyond."""

from __future__ import annotations

import pytest

from relay.room.journal import pages
from relay.store.ports import Store
from tests.engines import BOTH
from tests.room.parts import all_messages, post

pytestmark = BOTH


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
    store: Store, at: int, limit: int, numbers: list[int], more: bool, more_after: bool
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


async def test_there_is_no_page_around_an_entry_that_is_not_there(store: Store) -> None:
    await post(store, "the only one", 1_800_000_000.0)
    for place in ("#2", "no-such-id"):
        assert await store.read(lambda tx, place=place: pages.around(tx, place, limit=10)) is None


async def test_search_gives_the_newest_first_and_no_more_than_asked(store: Store) -> None:
    for number in range(1, 8):
        await post(store, f"a needle in haystack {number}", 1_800_000_000.0 + number)
    await post(store, "only hay", 1_800_000_010.0)
    found = await store.read(lambda tx: pages.search(tx, "need HAYSTACK", limit=3), long=True)
    assert [message.number for message, _ in found] == [7, 6, 5]
    assert found[0][1] == "a \x01needle\x02 in \x01haystack\x02 7"


@pytest.mark.parametrize(
    ("text", "hits"),
    [
        ("", 0),
        ("\x00", 0),
        ("\x00\x01\x1f\x7f\x85", 0),
        ("\ud800", 0),
        ("nee\x00dle", 0),
        ("needle\x00", 1),
        ("\x00needle\ud800hay", 1),
        ('"', 0),
        ('""""', 0),
        ("...", 0),
        ("*", 0),
        ("-needle", 1),
        ('"needle', 1),
        ("needle AND nothing", 0),
        ("needle OR nothing", 0),
        ("NEAR(needle hay, 2)", 0),
        ("body:needle", 0),
        ("needle ... hay", 1),
        ("(needle", 1),
        ("^needle", 1),
        ("ne{}edle'; --", 0),
        ("needle " * 500, 1),
        ("x" * 100_000, 0),
        ("\u200b\ufffe\U0010ffff", 0),
    ],
)
async def test_whatever_is_searched_for_is_no_error(store: Store, text: str, hits: int) -> None:
    await post(store, "needle in the hay", 1_800_000_000.0)
    assert len(await store.read(lambda tx: pages.search(tx, text, limit=10))) == hits


async def test_every_engine_finds_the_same_words(store: Store) -> None:
    """What SQLite's unicode61 takes for a word, its small form and its marks, is the measure for the others."""
    said = [
        "Ünïcode: ein CAFÉ, ein cafe\u0301, und Ångström!",
        "see src/foo.py, foo py, foobar.pyc and FOO-PY",
        "Москва, ΣΊΣΥΦΟΣ und Ærøskøbing",
        "http://a.b/c?d=e#f e-mail@host.org x_y v1.2.3 1e5 12ab 007 5.30",
        "🚀launch — “quoted” … 日本語テキスト",
        "needle " * 3 + "hay",
    ]
    for number, body in enumerate(said):
        await post(store, body, 1_800_000_000.0 + number)
    wanted = {
        "cafe": [1], "CAFÉ": [1], "angstrom": [1], "unicode": [1], "afe": [],
        "foo.py": [2], "foo.p": [2], "foo": [2], "py": [2], "pyc": [2], "src/foo.py,": [2], "py foo": [2], "oo": [],
        "москва": [3], "σίσυφος": [3], "ærøsk": [3],
        "a.b": [4], "host.org": [4], "e-mail": [4], "y": [4], "x_y": [4], "1.2": [], "v1.2": [4],
        "1e5": [4], "12ab": [4], "007": [4], "7": [], "30": [4], "d=e": [4], "e5": [],
        "launch": [5], "🚀": [], "🚀launch": [5], "quoted": [5], "日本": [5], "本": [],
        "needle hay": [6], "needle,needle": [6], "hay.needle": [], "it's": [], "\\": [], "n'eedle": [],
    }  # fmt: skip
    found = {}
    for text in wanted:
        hits = await store.read(lambda tx, text=text: pages.search(tx, text, limit=10))  # type: ignore[misc]
        found[text] = sorted(message.number for message, _ in hits)
    assert found == wanted
