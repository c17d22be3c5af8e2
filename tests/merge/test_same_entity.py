"""Level 2: which definition both sides change, in eight languages, by the source's table."""

from __future__ import annotations

import pytest

from relay.merge.conflicts.conflict import Conflict
from relay.merge.conflicts.same_entity import same_entity

PYTHON = '''"""Prices."""

RATES = {"low": 5, "high": 20}


class Cart:
    """What is bought."""

    limit = 10

    def total(self, items):
        amount = 0
        for item in items:
            amount += item.price * item.count
        return amount

    def clear(self):
        self.items = []


def tax(amount, rate):
    # by the rate
    return amount * rate / 100
'''

#: Per language: base, a change of the body of `one`, another, a change of its head, a change of `two`.
LANGUAGES = {
    "a.py": (
        "def one(a):\n    b = a + 1\n    return b * 2\n\n\ndef two(a):\n    return a\n",
        ("a + 1", "a + 2"),
        ("b * 2", "b * 3"),
        ("one(a)", "one(a, c)"),
        ("return a\n", "return a + 9\n"),
    ),
    "a.js": (
        "export function one(a) {\n  const b = a + 1;\n  return b * 2;\n}\n\n"
        "export const two = (a) => {\n  return a;\n};\n",
        ("a + 1", "a + 2"),
        ("b * 2", "b * 3"),
        ("one(a)", "one(a, c)"),
        ("return a;", "return a + 9;"),
    ),
    "a.ts": (
        "class K {\n  one(a: number): number {\n    const b = a + 1;\n    return b * 2;\n  }\n\n"
        "  two(a: number) {\n    return a;\n  }\n}\n",
        ("a + 1", "a + 2"),
        ("b * 2", "b * 3"),
        ("one(a: number)", "one(a: string)"),
        ("return a;", "return a + 9;"),
    ),
    "a.go": (
        "package a\n\nfunc (s *S) one(a int) int {\n\tb := a + 1\n\treturn b * 2\n}\n\n"
        "func two(a int) int {\n\treturn a\n}\n",
        ("a + 1", "a + 2"),
        ("b * 2", "b * 3"),
        ("one(a int)", "one(a, c int)"),
        ("return a\n", "return a + 9\n"),
    ),
    "a.rs": (
        "impl S {\n    fn one(&self, a: i32) -> i32 {\n        let b = a + 1;\n        b * 2\n    }\n}\n\n"
        "fn two(a: i32) -> i32 {\n    a\n}\n",
        ("a + 1", "a + 2"),
        ("b * 2", "b * 3"),
        ("one(&self, a: i32)", "one(&mut self, a: i32)"),
        ("    a\n", "    a + 9\n"),
    ),
    "A.java": (
        "class A {\n  int one(int a) {\n    int b = a + 1;\n    return b * 2;\n  }\n\n"
        "  int two(int a) {\n    return a;\n  }\n}\n",
        ("a + 1", "a + 2"),
        ("b * 2", "b * 3"),
        ("int one(int a)", "long one(int a)"),
        ("return a;", "return a + 9;"),
    ),
    "a.c": (
        "static int one(int a)\n{\n\tint b = a + 1;\n\treturn b * 2;\n}\n\n"
        "int two(int a)\n{\n\treturn a;\n}\n",
        ("a + 1", "a + 2"),
        ("b * 2", "b * 3"),
        ("one(int a)", "one(long a)"),
        ("return a;", "return a + 9;"),
    ),
    "a.cpp": (
        "namespace n {\nint K::one(int a) {\n  int b = a + 1;\n  return b * 2;\n}\n\n"
        "int two(int a) {\n  return a;\n}\n}\n",
        ("a + 1", "a + 2"),
        ("b * 2", "b * 3"),
        ("one(int a)", "one(int a, int c)"),
        ("return a;", "return a + 9;"),
    ),
}


def edited(text: str, *edits: tuple[str, str]) -> str:
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new, 1)
    return text


def found(path: str, base: str, ours: str, theirs: str) -> list[Conflict]:
    """The conflicts, after checking that the sides can be swapped."""
    texts = [text.encode() for text in (base, ours, theirs)]
    conflicts = same_entity(path, *texts)
    mirrored = same_entity(path, texts[0], texts[2], texts[1])
    assert {(one.id, one.severity, one.a.after, one.b.after) for one in conflicts} == {
        (one.id, one.severity, one.b.after, one.a.after) for one in mirrored
    }
    return conflicts


def said(path: str, base: str, ours: str, theirs: str) -> list[tuple[str, str, str | None]]:
    return [(one.kind, str(one.severity), one.entity) for one in found(path, base, ours, theirs)]


@pytest.mark.parametrize("path", list(LANGUAGES))
def test_both_change_one_function_or_two(path: str) -> None:
    base, one, other, head, second = LANGUAGES[path]
    ours, theirs = edited(base, one), edited(base, other)
    (both,) = found(path, base, ours, theirs)
    assert (both.kind, str(both.severity), both.level) == ("both_changed", "high", 2)
    assert both.entity is not None and both.entity.endswith("one")
    assert (
        both.a.before == both.b.before and one[1] in (both.a.after or "") and other[1] in (both.b.after or "")
    )
    (signature,) = found(path, base, ours, edited(base, head))
    assert (signature.kind, str(signature.severity)) == ("signature_changed", "critical")
    assert said(path, base, ours, edited(base, second)) == []
    assert said(path, base, ours, ours) == []
    assert said(path, base, ours, base) == []


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        # Removed by one, changed by the other.
        (
            [("    def clear(self):\n        self.items = []\n", "")],
            [("self.items = []", "self.items = {}")],
            [("removed_and_changed", "critical", "Cart.clear")],
        ),
        # Each adds another of one name.
        (
            [("\n\ndef tax", "\n\ndef discount(a):\n    return a - 1\n\n\ndef tax")],
            [("rate / 100\n", "rate / 100\n\n\ndef discount(b):\n    return b / 2\n")],
            [("added_twice", "medium", "discount")],
        ),
        # Each adds another function, field and item: the class and the table are not changed by both.
        (
            [
                ("    def clear", "    def one(self):\n        return 1\n\n    def clear"),
                ('"low": 5,', '"low": 5, "mid": 9,'),
            ],
            [("limit = 10", "limit = 10\n    most = 20"), ('"high": 20', '"high": 20, "top": 40')],
            [],
        ),
        # One item, one field, by both.
        (
            [('"low": 5', '"low": 6'), ("limit = 10", "limit = 11")],
            [('"low": 5', '"low": 7'), ("limit = 10", "limit = 12")],
            [("both_changed", "high", "RATES.low"), ("both_changed", "high", "Cart.limit")],
        ),
        # Comments, layout and docstrings are no changes; what is moved is not changed.
        (
            [("# by the rate", "# in per cent"), ('"""What is bought."""', '"""A cart."""')],
            [("amount * rate / 100", "amount * rate / 200"), ("limit = 10", "limit = 12")],
            [],
        ),
        (
            [("return amount * rate / 100", "return (\n        amount * rate / 100\n    )")],
            [("RATES", "PRICES")],
            [],
        ),
        # Python's indentation is a change.
        (
            [("        return amount\n", "            return amount\n")],
            [("amount = 0", "amount = 1")],
            [("both_changed", "high", "Cart.total")],
        ),
        # A renamed method keeps its body: the other's change would be lost.
        (
            [("def total", "def amount_of")],
            [("item.price * item.count", "item.price * item.number")],
            [("renamed_and_changed", "critical", "Cart.total")],
        ),
        (
            [("def total", "def amount_of")],
            [("def total", "def sum_of")],
            [("renamed_twice", "critical", "Cart.total")],
        ),
        # A renamed class carries its methods along.
        ([("class Cart", "class Basket")], [("amount = 0", "amount = 1")], []),
        # One removes the class to which the other adds.
        (
            [(PYTHON[PYTHON.index("class Cart") : PYTHON.index("def tax")], "")],
            [("    def clear", "    def one(self):\n        return 1\n\n    def clear")],
            [("removed_and_changed", "critical", "Cart")],
        ),
    ],
)
def test_the_table_of_the_source(
    ours: list[tuple[str, str]], theirs: list[tuple[str, str]], expected: list[tuple[str, str, str]]
) -> None:
    assert said("cart.py", PYTHON, edited(PYTHON, *ours), edited(PYTHON, *theirs)) == expected


def test_overloads_and_implementations_are_told_apart() -> None:
    java = "class A {\n  int f(int a) {\n    return a;\n  }\n\n  int f(String a) {\n    return 2;\n  }\n}\n"
    assert (
        said(
            "A.java",
            java,
            edited(java, ("return a;", "return a + 1;")),
            edited(java, ("return 2;", "return 3;")),
        )
        == []
    )
    one = "class A {\n  int g() {\n    return 1;\n  }\n}\n"
    more = ("  int g", "  int f({}) {{\n    return 2;\n  }}\n\n  int g")
    first, second = (edited(one, (more[0], more[1].format(kind))) for kind in ("int a", "long a"))
    assert said("A.java", one, first, second) == []
    fmt = "impl {} for S {{\n    fn fmt(&self) -> u8 {{\n        {}\n    }}\n}}\n"
    rust = fmt.format("Display", 1) + fmt.format("Debug", 2)
    assert (
        said("a.rs", rust, edited(rust, ("        1", "        3")), edited(rust, ("        2", "        4")))
        == []
    )


def test_what_is_removed_as_a_whole_file() -> None:
    base = LANGUAGES["a.py"][0]
    (gone,) = same_entity("a.py", base.encode(), None, edited(base, ("a + 1", "a + 2")).encode())
    assert (gone.kind, gone.entity, gone.a.after) == ("removed_and_changed", "one", None)
    assert same_entity("a.py", base.encode(), None, None) == []
    (twice,) = same_entity("a.py", None, b"def one():\n    return 1\n", b"def one():\n    return 2\n")
    assert (twice.kind, twice.a.before) == ("added_twice", None)


@pytest.mark.parametrize("path", ["a.txt", "a.py"])
def test_what_is_not_read_has_no_conflict_of_this_level(path: str) -> None:
    assert same_entity(path, b"def f(:\n", b"def ((((\n", b"))))\n") == []
    assert same_entity(path, b"\0\1", b"\0\2", b"\0\3") == []
