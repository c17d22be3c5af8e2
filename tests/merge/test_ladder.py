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


def test_json_by_keys(merge: Merge) -> None:
    base = '{\n  "a": 1,\n  "b": {\n    "c": 1\n  }\n}\n'
    ours = '{\n  "a": 1,\n  "b": {\n    "c": 1,\n    "d": 2\n  }\n}\n'
    theirs = '{\n  "a": 1,\n  "b": {\n    "c": 1,\n    "e": 3\n  }\n}\n'
    merged = merge(base, ours, theirs, "a.json")
    assert merged.text == '{\n  "a": 1,\n  "b": {\n    "c": 1,\n    "d": 2,\n    "e": 3\n  }\n}\n'
    assert merged.by == "json"


def test_one_key_with_two_values_is_a_conflict(merge: Merge) -> None:
    for path, form in (("a.json", '{{\n  "v": {}\n}}\n'), ("a.yaml", "v: {}\n"), ("a.toml", "v = {}\n")):
        assert not merge(form.format(1), form.format(2), form.format(3), path).clean
        empty = "{\n}\n" if path == "a.json" else ""
        assert not merge(empty, form.format(2), form.format(3), path).clean


def test_yaml_by_keys(merge: Merge) -> None:
    base = "jobs:\n  a:\n    runs: 1\n  # the last\n  z:\n    runs: 2\n"
    ours = base.replace("  # the last", "  b:\n    runs: 3\n  # the last")
    theirs = base.replace("  # the last", "  c:\n    runs: 4\n  # the last")
    merged = merge(base, ours, theirs, ".github/a.yml")
    both = "  b:\n    runs: 3\n  c:\n    runs: 4\n  # the last"
    assert (merged.text, merged.by) == (base.replace("  # the last", both), "yaml")


def test_toml_by_keys(merge: Merge) -> None:
    base = '[tool]\na = 1\n\n[other]\nb = [\n  "x",\n]\n'
    merged = merge(
        base, base.replace("a = 1", "a = 1\nc = 2"), base.replace("a = 1", "a = 1\nd = 3"), "a.toml"
    )
    assert (merged.text, merged.by) == (base.replace("a = 1", "a = 1\nc = 2\nd = 3"), "toml")


def test_no_name_is_imported_twice(merge: Merge) -> None:
    base = 'import { z } from "z";\n\nuse();\n'
    ours = base.replace('"z";\n', '"z";\nimport { a, b } from "m";\n')
    theirs = base.replace('"z";\n', '"z";\nimport { a } from "m";\n')
    merged = merge(base, ours, theirs, "a.js")
    assert not merged.clean or merged.text.count('"m"') == 1


_RENAMED = """\
def first(rows):
    found = []
    for row in rows:
        found.append(row)
    return found


def second(rows):
    rows = [row for row in rows if row]
    rows = sorted(rows)
    rows.reverse()
    count = len(rows)
    print(count)
    return rows
"""


def test_a_definition_that_one_side_renamed_and_moved_is_followed(merge: Merge) -> None:
    head, _, tail = _RENAMED.partition("\n\n\n")
    ours = tail + "\n\n" + head.replace("first", "collected") + "\n"
    theirs = _RENAMED.replace("found.append(row)", "found.append(row.strip())")
    merged = merge(_RENAMED, ours, theirs)
    assert (merged.clean, merged.by) == (True, "entity"), merged.text
    assert merged.text == ours.replace("found.append(row)", "found.append(row.strip())")


def test_the_old_name_that_the_other_side_newly_uses_is_a_conflict(merge: Merge) -> None:
    head, _, tail = _RENAMED.partition("\n\n\n")
    ours = tail + "\n\n" + head.replace("first", "collected") + "\n"
    theirs = _RENAMED.replace("found.append(row)", "found.append(first(row))")
    assert not merge(_RENAMED, ours, theirs).clean
