"""A place of a merge's conflict: in which definition it is, and how bad that is by the source's table."""

from __future__ import annotations

import pytest

from relay.merge.conflicts.part_names import PartNames
from relay.merge.text.ladder import severity_of
from relay.merge.text.lines import place_of, rows_with_ends

BASE = """import json

LIMIT = 3


class Store:
    def load(self, path):
        return json.load(path)

    def save(self):
        return None
"""
LOAD = "        return json.load(path)\n"


def place(file: str, part: str) -> tuple[int, int] | None:
    """First and last line of a part that stands once in a file."""
    found = place_of(rows_with_ends(file), rows_with_ends(part), (), ())
    return None if found is None else (found[0] + 1, found[1])


def of(ours: str, theirs: str, *parts: str) -> tuple[str, str | None]:
    files = BASE, ours, theirs
    places = [place(file, part) for file, part in zip(files, parts, strict=True)]
    names = PartNames("store.py", (BASE.encode(), ours.encode(), theirs.encode()))
    entity, severity = names.of(places)
    return entity, None if severity is None else str(severity)


def test_a_body_that_both_change() -> None:
    ours, theirs = LOAD.replace("path", "path, 1"), LOAD.replace("path", "path, 2")
    found = of(BASE.replace(LOAD, ours), BASE.replace(LOAD, theirs), LOAD, ours, theirs)
    assert found == ("Store.load", "high")


def test_a_head_that_one_changes() -> None:
    head = "    def load(self, path):\n"
    ours, theirs = head.replace("path", "path, way"), head + "        print(path)\n"
    found = of(BASE.replace(head, ours), BASE.replace(head, theirs), head, ours, theirs)
    assert found == ("Store.load", "critical")


def test_a_definition_that_both_add() -> None:
    ours, theirs = "def size():\n    return 1\n", "def size():\n    return 2\n"
    assert of(BASE + ours, BASE + theirs, "", ours, theirs) == ("size", "medium")


def test_a_value_and_what_is_in_no_definition() -> None:
    line = "LIMIT = 3\n"
    found = of(BASE.replace("3", "4"), BASE.replace("3", "5"), line, "LIMIT = 4\n", "LIMIT = 5\n")
    assert found == ("LIMIT", "high")
    ours, theirs = "import json, os\n", "import json, re\n"
    imports = of(
        BASE.replace("import json\n", ours),
        BASE.replace("import json\n", theirs),
        "import json\n",
        ours,
        theirs,
    )
    assert imports == ("", None)


def test_lines_that_stand_twice_are_told_apart_by_where_they_are() -> None:
    twice = "def one():\n    return 1\n\n\ndef two():\n    return 1\n"
    texts = tuple(twice.encode() for _ in range(3))
    names = PartNames("a.py", (texts[0], texts[1], texts[2]))
    assert names.of([(2, 2)] * 3) == ("one", None)
    assert names.of([(6, 6)] * 3) == ("two", None)
    assert names.of([None] * 3) == ("", None), "nothing is guessed"
    assert names.of([(2, 5)] * 3) == ("", None), "of both"
    assert names.of([(2, 4)] * 3) == ("one", None), "blank lines are of nothing"
    # Nothing stands there in the base: both have added lines inside of a function, or between two.
    assert names.of([(6, 5), None, None]) == ("two", None)
    assert names.of([(4, 3), None, None]) == ("", None)


def test_of_several_definitions_the_one_that_both_change() -> None:
    base = "def one():\n    return 1\n\n\ndef two():\n    return 2\n"
    ours, theirs = base.replace("return 1", "return 3"), base.replace("return 1", "return 4")
    names = PartNames("a.py", (base.encode(), ours.encode(), theirs.encode()))
    entity, severity = names.of([(2, 6)] * 3)
    assert (entity, str(severity)) == ("one", "high")


def test_a_place_is_known_by_what_stands_around_it() -> None:
    rows = ["a", "x", "b", "a", "x", "c"]
    assert place_of(rows, ["x"], ["a"], ["c"]) == (4, 5)
    assert place_of(rows, ["x"], ["a"], []) is None
    assert place_of(rows, [], ["x"], ["b"]) == (2, 2)
    assert place_of(rows, ["b"], ["other"], ["other"]) == (2, 3), "it stands once"


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "severity"),
    [
        (["a"], ["b"], ["c"], "high"),
        (["a"], [], ["c"], "critical"),
        (["a"], ["b"], [], "critical"),
        ([], ["b"], ["c"], "medium"),
    ],
)
def test_lines_without_a_definition(
    base: list[str], ours: list[str], theirs: list[str], severity: str
) -> None:
    assert severity_of(base, ours, theirs) == severity
