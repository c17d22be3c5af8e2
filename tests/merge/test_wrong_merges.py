"""Merges that once came out wrong without a word: each is right now, or a conflict."""

from __future__ import annotations

import json
import tomllib

import pytest

from relay.merge import worker
from relay.merge.text.file_merge import merge_file
from relay.merge.text.git_text import GitText, marker_size
from relay.merge.text.imports import local_names
from tests.merge.conftest import Merge

TOML = "[a]\nx = 1\n"
LINKED = '{\n  "home": "https://relay.example",\n  "a": 1,\n  "b": 2\n}\n'


def test_keys_of_toml_stay_in_their_table(merge: Merge) -> None:
    merged = merge(TOML, TOML + "y = 2\n", TOML + "[b]\nz = 3\n", "a.toml")
    assert merged.text == TOML + "y = 2\n[b]\nz = 3\n"
    assert not merge(TOML, TOML + "[[b]]\nz = 3\n", TOML + "[b.c]\nz = 3\n", "a.toml").clean


def test_keys_of_yaml_stay_in_their_mapping(merge: Merge) -> None:
    base = "x:\n  a: 1\n"
    merged = merge(base, base + "  q: 3\n", base + "b:\n  y: 1\n", "a.yaml")
    assert merged.text == base + "  q: 3\nb:\n  y: 1\n"


def test_json_with_an_address_stays_json(merge: Merge) -> None:
    merged = merge(LINKED, LINKED.replace('1,\n  "b": 2', "1"), LINKED.replace('"a": 1', '"a": 7'), "p.json")
    assert merged.clean
    assert json.loads(merged.text) == {"home": "https://relay.example", "a": 7}


def test_json_with_an_address_has_each_key_once(merge: Merge) -> None:
    ours = LINKED.replace('  "a"', '  "k": 1,\n  "a"')
    theirs = LINKED.replace('  "home"', '  "k": 2,\n  "home"').replace("2\n}", "3\n}")
    merged = merge(LINKED, ours, theirs, "p.json")
    assert not merged.clean or merged.warnings  # git's own clean answer is warned of


def test_json_with_comments_is_read(merge: Merge) -> None:
    base = '{\n  // about a, "b"\n  "a": 1,\n  /* , ] */\n  "u": ", ]",\n}\n'
    sides = [base.replace('  "u"', f'  "{key}": 2,\n  "u"') for key in "cd"]
    merged = merge(base, sides[0], sides[1], "tsconfig.json")
    assert merged.text == base.replace('  "u"', '  "c": 2,\n  "d": 2,\n  "u"')
    far = [base.replace('  "a"', '  "k": 1,\n  "a"'), base.replace('",\n}', '",\n  "k": 2,\n}')]
    assert merge(base, far[0], far[1], "tsconfig.json").warnings


def test_python_takes_what_is_merged(merge: Merge) -> None:
    base = "import os\n\nx = 1\n"
    merged = merge(base, f"from __future__ import annotations\n{base}", f"from Crypto import AES\n{base}")
    assert merged.text.startswith("from __future__ import annotations\nfrom Crypto import AES\nimport os\n")
    base = "if x:\n    import a\n\nf()\n"
    ours = base.replace("    import a\n", "    import a\n    import zz\n")
    theirs = base.replace("    import a\n", "    import a\nimport bb\n")
    merged = merge(base, ours, theirs)
    assert not merged.clean
    assert "    import zz\n" in merged.text and "\nimport bb\n" in merged.text


@pytest.mark.parametrize(
    ("path", "base", "one", "other"),
    [
        (
            "a.py",
            "try:\n    x()\nexcept A:\n    a()\n",
            "except Exception:\n    b()\n",
            "except ValueError:\n    c()\n",
        ),
        (
            "a.py",
            "match x:\n    case 1:\n        a()\n",
            "    case _:\n        b()\n",
            "    case f():\n        c()\n",
        ),
        (
            "a.js",
            "switch (x) {\n  case 1:\n    a();\n    break;\n}\n",
            "  case 2:\n    b();\n    break;\n",
            "  case 0:\n    c();\n",
        ),
        (
            "a.rs",
            "fn f() {\n    match x {\n        1 => a(),\n    }\n}\n",
            "        _ => b(),\n",
            "        2 => c(),\n",
        ),
    ],
)
def test_cases_whose_order_counts(merge: Merge, path: str, base: str, one: str, other: str) -> None:
    end = (
        "\n".join(base.rstrip("\n").split("\n")[-2:]) + "\n"
        if path == "a.rs"
        else "}\n" * path.endswith("js")
    )
    sides = [base.removesuffix(end) + added + end for added in (one, other)]
    assert not merge(base, sides[0], sides[1], path).clean


def test_cases_that_end_are_joined(merge: Merge) -> None:
    base = "switch (x) {\n  case 1:\n    a();\n    break;\n}\n"
    sides = [base.removesuffix("}\n") + f"  case {at}:\n    b{at}();\n    break;\n}}\n" for at in (2, 3)]
    assert merge(base, sides[0], sides[1], "a.js").text == (
        base.removesuffix("}\n") + "  case 2:\n    b2();\n    break;\n  case 3:\n    b3();\n    break;\n}\n"
    )


def test_a_comment_stays_on_what_it_is_about(merge: Merge) -> None:
    base = "def f():\n    return 1\n\n\ndef g():\n    return 2\n"
    ours = base.replace("def g", "# about g\ndef g")
    theirs = base.replace("def g", "# about h\ndef h():\n    return 3\n\n\ndef g")
    merged = merge(base, ours, theirs)
    assert not merged.clean or merged.text == theirs.replace("def g", "# about g\ndef g")
    base = "package x\n\nfunc A() {}\n"
    merged = merge(base, f"//go:build linux\n\n{base}", f"// Package x does.\n{base}", "a.go")
    assert not merged.clean or merged.text == f"//go:build linux\n\n// Package x does.\n{base}"


@pytest.mark.parametrize("form", ['__version__ = "{}"\n', "v = {}\n", "at: {}\n"])
def test_no_version_or_date_that_nobody_wrote(merge: Merge, form: str) -> None:
    for base, ours, theirs in (
        ("1.2.3", "2.2.3", "1.2.4"),
        ("2024-01-02", "2025-01-02", "2024-01-09"),
    ):
        assert not merge(form.format(base), form.format(ours), form.format(theirs), "a.yaml").clean


def test_each_line_keeps_its_end_where_a_file_has_both(git: GitText) -> None:
    base = b"a = 1\r\nb = 2\r\nc = 3\nd = 4\ne = 5\n"
    merged = merge_file(git, base, base.replace(b"3", b"33"), base.replace(b"4", b"44"), "a.py")
    assert merged.data == base.replace(b"3", b"33").replace(b"4", b"44")


def test_lines_that_look_like_markers_are_text(git: GitText) -> None:
    """A heading in a text is underlined by as many signs as a marker has, or more."""
    size = marker_size([b"=" * 61 + b"\n", b"a\n" + b"<" * 62], 61)
    assert size == 63
    for many in (47, 61, 70):
        base, ours, theirs = (
            f"{name}\n{'=' * many}{end}\n{name}\n".encode()
            for name, end in (("Head", ""), ("A", "=="), ("B", "==="))
        )
        asked = {"path": "a.rst", "timeout_s": 0, "ladder": True}
        said, _ = worker._answer(git, asked, [base, ours, theirs])
        part = said["parts"][0]
        assert [part[side].encode() for side in ("base", "ours", "theirs")] == [base, ours, theirs]
        alone = merge_file(git, base, ours, theirs, "a.rst", ladder=False)
        assert alone.data == (
            b"<<<<<<< ours\n" + ours + b"||||||| base\n" + base + b"=======\n" + theirs + b">>>>>>> theirs\n"
        )
        assert alone.conflicts[0].lines == (1, 13)


def test_a_name_is_not_made_part_of_a_comment(merge: Merge) -> None:
    base = "from a import b  # noqa\n"
    assert not merge(base, base.replace("b", "b, c"), base.replace("b", "b, d")).clean
    assert not merge("from a import b\n", "from a import b, c  # noqa\n", "from a import b, d\n").clean


@pytest.mark.parametrize(
    ("path", "base", "one", "other"),
    [
        ("a.py", "x = 1\n", "\n\nclass F:\n    pass\n", "\n\ndef F():\n    return 1\n"),
        ("a.py", "x = 1\n", "\n\nf = 3\n", "\n\ndef f():\n    return 1\n"),
        ("a.py", "import os\n", "from a import z\n", "from b import z\n"),
        ("a.py", "import os\n", "import re\n", "import regex as re\n"),
        ("a.ts", "import x from 'x';\n", "import z from 'a';\n", "import { z } from 'b';\n"),
        ("a.js", "x();\n", "const a = 1;\n", "function a() {}\n"),
        ("a.rs", "use a::B;\n", "use b::Result;\n", "use c::{D, E as Result};\n"),
        ("A.java", "import a.B;\n", "import a.C;\n", "import x.C;\n"),
        ("a.go", 'package a\n\nimport "fmt"\n', 'import "log"\n', 'import "x/log"\n'),
    ],
)
def test_a_name_is_not_two_things(merge: Merge, path: str, base: str, one: str, other: str) -> None:
    assert not merge(base, base + one, base + other, path).clean


def test_a_key_in_other_quotes_is_the_same(merge: Merge) -> None:
    base = "d = {\n    'a': 1,\n}\n"
    sides = [base.replace("}", f"    {key}: {at},\n}}") for at, key in enumerate(("'b'", '"b"'))]
    assert not merge(base, sides[0], sides[1]).clean


@pytest.mark.parametrize(
    ("text", "language", "names"),
    [
        ("from a import (\n    b,  # why\n    c as d,\n)", "python", ["b", "d"]),
        ("import a.b, c as e, f", "python", ["e", "f"]),
        ("from a import *", "python", []),
        ("import z, { a as b, type C } from 'https://x/y';", "typescript", ["z", "b", "C"]),
        ('_ "a/b"', "go", []),
        ('"a/b"', "go", ["b"]),
        ("pub use a::b::{self, c, d as e};", "rust", ["c", "e"]),
        ("import static a.b.C;", "java", ["C"]),
        ("#include <a.h>", "c", []),
    ],
)
def test_names_that_an_import_brings(text: str, language: str, names: list[str]) -> None:
    assert local_names(text, language) == names


@pytest.mark.parametrize(
    ("path", "base", "gone", "added"),
    [
        ("a.toml", 'b = "s"\n\n[g]\nd = true\n', "\n[g]\nd = true\n", "e = 8\n"),
        ("a.yaml", "b: 1\ng:\n  d: 1\n", "g:\n  d: 1\n", "  e: 8\n"),
        ("a.py", "def f():\n    a()\n\n\ndef g():\n    b()\n", "\n\ndef g():\n    b()\n", "    c()\n"),
    ],
)
def test_lines_added_to_what_the_other_side_took_away(
    merge: Merge, path: str, base: str, gone: str, added: str
) -> None:
    assert not merge(base, base.removesuffix(gone), base + added, path).clean


def test_lines_added_below_a_head_that_the_other_side_wrote_anew(merge: Merge) -> None:
    base = "def f(\n    a,\n    b,\n):\n    return a\n"
    ours, theirs = (
        base.replace("(\n    a,\n    b,\n)", "(a, b)"),
        base.replace("    return", "    go()\n    return"),
    )
    assert merge(base, ours, theirs).text == "def f(a, b):\n    go()\n    return a\n"


def test_an_edit_of_a_function_does_not_go_into_another(merge: Merge) -> None:
    """One side puts another function in its place."""
    base = "import sys\n\n\ndef fa():\n    y = p(10)\n    x = p(5)\n"
    ours = base.replace("    y", "    z = p(10)\n    y")
    theirs = "import sys\n\n\ndef fg():\n    x = q(28)\n    x = q(28)\n    y = p(27)\n"
    assert not merge(base, ours, theirs).clean
    base = "import sys\n\n\n@deco\ndef ff():\n    y = p(22)\n    z = p(30)\n"
    ours = "import sys\n\n\ndef fa():\n    y = p(24)\n"
    assert not merge(base, ours, base + "    x = q(6)\n").clean


@pytest.mark.parametrize("value", ["open_db('x')", "close_db('x')"])
def test_calls_of_different_functions_are_not_put_in_an_order(merge: Merge, value: str) -> None:
    base = "from db import *\n\nsetup()\n"
    for ours, theirs in ((value, "drop_db('x')"), ("drop_db('x')", value)):
        assert not merge(base, f"{base}{ours}\n", f"{base}{theirs}\n").clean
    # One function of many, as in a table of routes, is another thing.
    assert merge(base, f"{base}add('a', one)\n", f"{base}add('b', two)\n").clean
    tests = "setup();\n"
    ours, theirs = ("it('a', () => {\n  f();\n});\n", "describe('b', () => {\n  g();\n});\n")
    assert merge(tests, tests + ours, tests + theirs, "a.test.js").clean


@pytest.mark.parametrize(
    ("base", "path"),
    [("enum E {\n  A,\n  B,\n};\n", "e.c"), ("enum E {\n  A,\n  B,\n}\n", "e.ts")],
)
def test_members_that_are_numbered_by_their_place_are_not_put_in_an_order(
    merge: Merge, base: str, path: str
) -> None:
    ours, theirs = (base.replace("  B,\n", f"  B,\n  {name},\n") for name in ("C", "D"))
    assert not merge(base, ours, theirs, path).clean
    ours, theirs = (base.replace("  B,\n", f"  B,\n  {name} = {n},\n") for name, n in (("C", 7), ("D", 8)))
    assert merge(base, ours, theirs, path).clean


DEPENDENCIES = (
    '[project]\nname = "x"\ndependencies = [\n    "aiohttp==3.1",\n    "yarl>=1",\n]\n\n[tool]\na = 1\n'
)


def test_items_that_both_add_to_an_array_of_toml_stand_both(merge: Merge) -> None:
    ours, theirs = (
        DEPENDENCIES.replace('"yarl>=1",\n', f'"yarl>=1",\n    "{name}",\n')
        for name in ("httpx>=0.2", "rich")
    )
    merged = merge(DEPENDENCIES, ours, theirs, "pyproject.toml")
    assert tomllib.loads(merged.text)["project"]["dependencies"] == [
        "aiohttp==3.1",
        "yarl>=1",
        "httpx>=0.2",
        "rich",
    ]
    assert merged.text == merge(DEPENDENCIES, theirs, ours, "pyproject.toml").text


def test_a_requirement_has_one_version(merge: Merge) -> None:
    ours, theirs = (
        DEPENDENCIES.replace('"yarl>=1",\n', f'"yarl>=1",\n    "{name}",\n')
        for name in ("rich>=1", "rich>=2")
    )
    assert not merge(DEPENDENCIES, ours, theirs, "pyproject.toml").clean
    # Without a comma at its end the last line is changed by both, and still each has its own.
    base = DEPENDENCIES.replace('"yarl>=1",', '"yarl>=1"')
    ours, theirs = (base.replace('"yarl>=1"', f'"yarl>=1",\n    "{name}"') for name in ("httpx", "rich"))
    merged = merge(base, ours, theirs, "pyproject.toml")
    assert not merged.clean or tomllib.loads(merged.text)["project"]["dependencies"][2:] == ["httpx", "rich"]
