"""The guard: for each rule, merges that break it, and what the ladder does instead."""

from __future__ import annotations

import pytest

from relay.merge.text import guard
from relay.merge.text.ladder import suspicions
from relay.merge.text.syntax import Source
from tests.merge.conftest import Merge


def rules(base: str, ours: str, theirs: str, merged: str) -> set[int]:
    sources = [Source(text.splitlines(), "python") for text in (base, ours, theirs, merged)]
    return {fault.rule for fault in guard.faults_of(sources[0], sources[1], sources[2], sources[3])}


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "merged"),
    [
        ("a = 1\n", "a = 1\nb = 2\n", "a = 1\nc = 3\n", "a = 1\nb = 2\n"),  # c is lost
        ("a = 1\nb = 2\n", "b = 2\n", "a = 1\nb = 2\nc = 3\n", "a = 1\nb = 2\nc = 3\n"),  # a is back
        ("a = 1\n", "a = 1\nb()\n", "a = 1\nc()\n", "a = 1\nb()\nb()\nc()\n"),  # b twice
        ("f(a)\n", "f(a, b)\n", "f(a, c)\n", "f(a, b, d)\n"),  # a word of nobody's
        ("f(a)\n", "f(a, b)\n", "f(a, c)\n", "f(a, b)\n"),  # one side's argument is lost
    ],
)
def test_guard_counts_lines(base: str, ours: str, theirs: str, merged: str) -> None:
    assert 1 in rules(base, ours, theirs, merged)


def test_guard_lets_a_combined_line_stand_for_two() -> None:
    assert rules("f(a)\n", "f(a, b)\n", "f(a, c)\n", "f(a, b, c)\n") == set()
    assert rules("f(a, b)\n", "f(x, b)\n", "f(a, y)\n", "f(x, y)\n") == set()


def test_guard_counts_between_the_sides() -> None:
    assert guard.allowed(1, 2, 2) == (2, 3)
    assert guard.allowed(2, 1, 1) == (0, 1)
    assert guard.allowed(1, 1, 3) == (3, 3)
    assert guard.allowed(0, 4, 0) == (4, 4)


def test_guard_doubled_definition() -> None:
    base = "class A:\n    x = 1\n"
    ours, theirs = (
        base + "\n    def f(self):\n        return 1\n",
        base + "\n    def f(self):\n        return 2\n",
    )
    both = ours + "\n    def f(self):\n        return 2\n"
    assert rules(base, ours, theirs, both) == {2}
    assert "class A / def f" in suspicions(base, ours, theirs, both, "python")[0]


def test_guard_parses() -> None:
    assert 3 in rules("a = 1\n", "a = (1\n)\n", "a = 1\nb = 2\n", "a = (1\nb = 2\n")
    broken = "a = (\n"
    assert 3 not in rules(broken, broken + "b = 1\n", broken + "c = 1\n", broken + "b = 1\nc = 1\n")


def test_guard_two_edits_of_one_statement() -> None:
    found = rules("f(a, b, c)\n", "f(x, b, c)\n", "f(a, b, y)\n", "f(x, b, c)\nf(a, b, y)\n")
    assert found == {4}


def test_guard_name_that_one_side_took_away(merge: Merge) -> None:
    base = "queue = open_queue()\nuse(queue)\nend()\n"
    ours = "bus = open_bus()\nuse(bus)\nend()\n"
    theirs = base.replace("end()", "close(queue)\nend()")
    assert rules(base, ours, theirs, "bus = open_bus()\nuse(bus)\nclose(queue)\nend()\n") == {guard.STALE}
    assert not merge(base, ours, theirs).clean


def test_guard_sides_swapped(merge: Merge) -> None:
    """The fixture merges both ways round, and wants the same text."""
    base = "def a():\n    return 1\n"
    for first, second in (("b", "c"), ("c", "b"), ("z", "a2")):
        parts = [base + f"\n\ndef {name}():\n    return '{name}'\n" for name in (first, second)]
        assert merge(base, parts[0], parts[1]).clean


def test_clean_merges_of_git_are_only_warned_of(merge: Merge) -> None:
    """Both add a method of one name, far apart: git sees no conflict."""
    middle = "".join(f"    x{at} = {at}\n" for at in range(12))
    method = "    def f(self):\n        return {}\n\n"
    base = "class A:\n    a = 1\n\n" + middle + "\n    b = 1\n"
    ours = base.replace("    a = 1\n\n", "    a = 1\n\n" + method.format(1))
    theirs = base + "\n" + method.format(2)
    merged = merge(base, ours, theirs)
    assert merged.clean and merged.by == "git"
    assert merged.warnings == ("defined more often than on either side: class A / def f",)


def test_peer_losses(merge: Merge) -> None:
    """What other structural mergers lost without a word, on their published conflicts."""
    one = merge("a = 1\nz = 1\n", "a = 1\nb = 2\nz = 1\n", "a = 1\nc = 3\nz = 1\n")
    assert not one.clean or ("b = 2" in one.text and "c = 3" in one.text)
    imports = "from a import (\n    b,\n    c,\n)\n"
    two = merge(
        imports, imports.replace("    c", "    bb,\n    c"), imports.replace("    c", "    bc,\n    c")
    )
    assert two.text == "from a import (\n    b,\n    bb,\n    bc,\n    c,\n)\n"
    base = "def a():\n    return 1\n"
    three = merge(base, base + "\n\ndef f():\n    return 1\n", base + "\n\ndef f():\n    return 2\n")
    assert not three.clean
    four = merge("", '{\n  "a": 1\n}\n', '{\n  "b": 2\n}\n', "a.json")
    assert not four.clean or four.text == '{\n  "a": 1,\n  "b": 2\n}\n'
    five = merge('__version__ = "1"\n', '__version__ = "2"\n', '__version__ = "3"\n')
    assert not five.clean
    assert '"2"' in five.text and '"3"' in five.text and '"1"' in five.text


def test_conflict_keeps_both_sides(merge: Merge) -> None:
    base = "import os\n\n\ndef f():\n    a = 1\n    return a\n\n\ndef g():\n    return 1\n"
    ours = base.replace("a = 1", "a = 2").replace("import os\n", "import os\nimport abc\n")
    theirs = base.replace("a = 1", "a = 3").replace("import os\n", "import os\nimport re\n")
    merged = merge(base, ours, theirs)
    assert [conflict.kind for conflict in merged.conflicts] == ["both changed it differently"]
    marked = "<<<<<<< ours\n    a = 2\n||||||| base\n    a = 1\n=======\n    a = 3\n>>>>>>> theirs\n"
    assert marked in merged.text
    first, last = merged.conflicts[0].lines
    assert "\n".join(merged.text.split("\n")[first - 1 : last]) + "\n" == marked
    assert merged.text.startswith("import os\nimport abc\nimport re\n")
    assert merged.text.endswith("def g():\n    return 1\n")
