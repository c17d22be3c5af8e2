"""A place of a merge's conflict: in which definition it is, and how bad that is by the source's table."""

from __future__ import annotations

import pytest

from relay.merge.conflicts.part_names import PartNames
from relay.merge.text.ladder import severity_of

BASE = """import json

LIMIT = 3


class Store:
    def load(self, path):
        return json.load(path)

    def save(self):
        return None
"""
LOAD = "        return json.load(path)\n"


def of(ours: str, theirs: str, *parts: str) -> tuple[str, str | None]:
    entity, severity = PartNames("store.py", (BASE.encode(), ours.encode(), theirs.encode())).of(parts)
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


def test_a_place_that_stands_twice_is_not_guessed() -> None:
    twice = "def one():\n    return 1\n\n\ndef two():\n    return 1\n"
    texts = tuple(twice.encode() for _ in range(3))
    names = PartNames("a.py", (texts[0], texts[1], texts[2]))
    assert names.of(["    return 1\n"] * 3) == ("", None)


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
