"""The steps of the ladder, one by one."""

from __future__ import annotations

from tests.merge.conftest import Merge


def test_edits_of_lines_that_touch(merge: Merge) -> None:
    merged = merge("a = 1\nb = 2\n", "a = 11\nb = 2\n", "a = 1\nb = 22\n")
    assert (merged.text, merged.by) == ("a = 11\nb = 22\n", "adjacent")


def test_imports_are_sets(merge: Merge) -> None:
    merged = merge(
        "import os\nfrom a import b\n\nx = 1\n",
        "import os\nfrom a import b, c\n\nx = 1\n",
        "import os\nimport re\nfrom a import b, d\n\nx = 1\n",
    )
    assert merged.text == "import os\nimport re\nfrom a import b, c, d\n\nx = 1\n"
    assert merged.by == "imports"


def test_names_of_an_import_over_lines(merge: Merge) -> None:
    base = "from a import (\n    b,\n    d,\n)\n"
    merged = merge(base, base.replace("    d", "    c,\n    d"), base.replace("    d", "    ca,\n    d"))
    assert merged.text == "from a import (\n    b,\n    c,\n    ca,\n    d,\n)\n"


def test_functions_added_at_one_place(merge: Merge) -> None:
    base = "def a():\n    return 1\n"
    ours, theirs = base + "\n\ndef b():\n    return 2\n", base + "\n\ndef c():\n    return 3\n"
    merged = merge(base, ours, theirs)
    assert merged.text == base + "\n\ndef b():\n    return 2\n\n\ndef c():\n    return 3\n"
    assert merged.by == "added"


def test_items_added_to_a_list(merge: Merge) -> None:
    merged = merge('x = [\n    "a"\n]\n', 'x = [\n    "a",\n    "b"\n]\n', 'x = [\n    "a",\n    "c"\n]\n')
    assert merged.text == 'x = [\n    "a",\n    "b",\n    "c"\n]\n'


def test_different_arguments_of_one_call(merge: Merge) -> None:
    merged = merge("f(a, b, c)\n", "f(x, b, c)\n", "f(a, b, y)\n")
    assert (merged.text, merged.by) == ("f(x, b, y)\n", "arguments")


def test_two_edits_of_one_statement_are_a_conflict(merge: Merge) -> None:
    merged = merge("x = 1\n", "x = 2\n", "x = 3\n")
    assert not merged.clean
    assert merged.text == "<<<<<<< ours\nx = 2\n||||||| base\nx = 1\n=======\nx = 3\n>>>>>>> theirs\n"
