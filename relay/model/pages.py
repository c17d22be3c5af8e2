"""What answers are made of, and a part of a list that is too long for one answer. Pure."""

from __future__ import annotations

from typing import Any

#: An object of JSON.
Json = dict[str, Any]
#: Entries of a page, where nobody says how many, and at most.
PAGE, MOST_PAGE = 100, 1000


class Page(list[Json]):
    """The entries. `next`: the cursor of the page behind it, None = there is none; `total`: of the whole list."""

    next: str | None = None
    total: int = 0

    @classmethod
    def of(cls, entries: list[Json], places: list[str], limit: int, cursor: str | None) -> Page:
        """What comes behind `cursor` of a whole list, in the order of `places`: one of each entry, all different,
        which an entry keeps from page to page as far as it can."""
        order = sorted(range(len(entries)), key=places.__getitem__)
        behind = [at for at in order if cursor is None or places[at] > cursor]
        page = cls(entries[at] for at in behind[:limit])
        page.total = len(entries)
        page.next = places[behind[limit - 1]] if len(behind) > limit else None
        return page
