"""What one side's change does to the other's uses: hazards, call links and shared tests over small repositories."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.airspace.pair_facts import CallLink, Hazard, SharedTest
from relay.airspace.scan.symbol_hazards import SymbolFacts, is_test
from relay.code.call_graph import CallGraph
from relay.code.code_graph import CodeGraph, graph_of
from relay.model.working_set import Change, FileTouch, Span, WorkingSet

BASE = {
    "app/__init__.py": "",
    "app/money.py": "def price(item):\n    return item.cost\n\n\ndef tax(item):\n    return price(item) * 0.2\n",
    "app/shop.py": (
        "from app.money import price\n\n\nclass Shop:\n    def sell(self, item):\n        return self.total(item)\n\n"
        "    def total(self, item):\n        return price(item)\n\n    def open_doors(self):\n        return True\n"
    ),
    "app/other.py": "def price(item):\n    return 0\n\n\ndef use():\n    return price(1)\n",
    "app/page.py": "def show():\n    return 'page'\n",
    "tests/test_shop.py": "from app.shop import Shop\n\n\ndef test_sell():\n    assert Shop().sell(1)\n",
}
Texts = dict[tuple[str, str], str]


def graph(files: dict[str, str] | None = None) -> CodeGraph:
    return graph_of((path, text.encode()) for path, text in (files or BASE).items())


def side(agent: str, path: str, *spans: tuple[int, int], change: Change = Change.MODIFIED) -> WorkingSet:
    return WorkingSet(agent, (FileTouch(path, change, tuple(Span(start, end) for start, end in spans)),))


def facts(a: WorkingSet, b: WorkingSet, texts: Texts | None = None) -> tuple[Any, Any, Any]:
    known = texts or {}
    found = SymbolFacts(graph(), lambda whose, path: known.get((whose.agent, path))).facts(a, b)
    return found.hazards, found.calls, found.tests


def edited(path: str, old: str, new: str) -> str:
    assert old in BASE[path]
    return BASE[path].replace(old, new)


A = side("a", "app/money.py", (1, 1))
B = side("b", "app/shop.py", (9, 9))
NEW_HEAD = {("a", "app/money.py"): edited("app/money.py", "price(item):", "price(item, currency):")}


def test_a_changed_signature_is_a_hazard_to_who_calls_it() -> None:
    hazards, _, _ = facts(A, B, NEW_HEAD)
    assert hazards == (
        Hazard(0, "price", "app/money.py", (1, 2), False, "app/shop.py", (9, 9), signature=True),
    )


def test_without_the_text_the_lines_decide() -> None:
    (one,), _, _ = facts(A, B)
    assert one.signature
    (other,), _, _ = facts(side("a", "app/money.py", (2, 2)), B)
    assert not other.signature and not other.removed


def test_a_changed_body_is_the_weaker_one() -> None:
    texts = {("a", "app/money.py"): edited("app/money.py", "return item.cost", "return item.cost + 1")}
    (one,), _, _ = facts(A, B, texts)
    assert (one.symbol, one.signature, one.removed) == ("price", False, False)


def test_a_removed_definition() -> None:
    texts = {("a", "app/money.py"): BASE["app/money.py"].partition("\n\n\n")[2]}
    (one,), _, _ = facts(A, B, texts)
    assert one.removed and one.symbol == "price"
    (gone,), _, _ = facts(side("a", "app/money.py", change=Change.DELETED), B)
    assert gone.removed and gone.symbol == "price"


def test_moved_and_reformatted_code_is_no_hazard() -> None:
    texts = {("a", "app/money.py"): "# a line above\n\n" + edited("app/money.py", "item.cost", "item.cost  ")}
    assert facts(A, B, texts)[0] == ()


def test_a_new_call_of_what_the_other_rewrites() -> None:
    page = side("b", "app/page.py", (2, 2))
    text = "from app.money import price\n\n\ndef show():\n    return price(1)\n"
    (one,), _, _ = facts(A, page, NEW_HEAD | {("b", "app/page.py"): text})
    assert (one.writer, one.reader_path, one.reader_lines, one.new_call) == (0, "app/page.py", (5, 5), True)
    added = side("b", "app/new.py", change=Change.ADDED)
    (one,), _, _ = facts(A, added, NEW_HEAD | {("b", "app/new.py"): text})
    assert one.new_call


def test_another_function_of_the_same_name_is_no_hazard() -> None:
    assert facts(A, side("b", "app/other.py", (6, 6)), NEW_HEAD)[0] == ()
    text = BASE["app/page.py"] + "\n\ndef price():\n    pass\n\n\ndef more():\n    price()\n"
    assert facts(A, side("b", "app/page.py", (2, 2)), NEW_HEAD | {("b", "app/page.py"): text})[0] == ()


def test_a_part_of_the_file_that_does_not_use_it_is_no_hazard() -> None:
    assert facts(A, side("b", "app/shop.py", (12, 12)), NEW_HEAD)[0] == ()


def test_both_in_one_definition_is_the_overlap_channels() -> None:
    assert facts(A, side("b", "app/money.py", (2, 2)), NEW_HEAD)[0] == ()


def test_a_method_counts_where_the_call_is_known_to_mean_it() -> None:
    texts = {("a", "app/shop.py"): edited("app/shop.py", "def total(self, item)", "def total(self, item, n)")}
    (one,), _, _ = facts(side("a", "app/shop.py", (8, 8)), side("b", "app/shop.py", (6, 6)), texts)
    assert (one.symbol, one.reader_lines) == ("Shop.total", (6, 6))


def test_a_text_that_does_not_parse_falls_back_to_the_lines() -> None:
    (one,), _, _ = facts(A, B, {("a", "app/money.py"): "def price(:\n"})
    assert one.signature


def test_the_nearest_calls_link_two_changes() -> None:
    _, link, _ = facts(side("a", "app/money.py", (2, 2)), side("b", "app/shop.py", (6, 6)))
    assert link == CallLink("price", "app/money.py", "Shop.sell", "app/shop.py", 2)
    _, link, _ = facts(side("a", "app/money.py", (6, 6)), side("b", "app/shop.py", (9, 9)))
    assert link == CallLink("tax", "app/money.py", "Shop.total", "app/shop.py", 2)
    assert facts(A, side("b", "app/page.py", (2, 2)))[1] is None


def test_tests_that_reach_what_both_change() -> None:
    _, _, tests = facts(A, B)
    assert tests == (SharedTest("tests/test_shop.py", "app/money.py", "app/shop.py"),)
    _, _, tests = facts(side("a", "tests/test_shop.py", (5, 5)), A)
    assert tests == (SharedTest("tests/test_shop.py", "tests/test_shop.py", "app/money.py"),)
    assert facts(A, side("b", "app/page.py", (2, 2)))[2] == ()


def test_nothing_is_worked_out_twice() -> None:
    asked: list[str] = []

    def text(whose: WorkingSet, path: str) -> None:
        asked.append(path)

    symbols = SymbolFacts(graph(), text)
    assert symbols.facts(A, B) == symbols.facts(A, B)
    assert asked == ["app/money.py", "app/shop.py"]


PATHS = st.sampled_from(sorted(BASE))
SPANS = st.tuples(st.integers(1, 12), st.integers(0, 4)).map(
    lambda pair: Span(pair[0], pair[0] + pair[1] - 1)
)
TOUCHES = st.builds(
    FileTouch,
    PATHS,
    st.sampled_from([Change.MODIFIED, Change.DELETED]),
    st.lists(SPANS, max_size=3).map(tuple),
)
SETS = st.lists(TOUCHES, max_size=4, unique_by=lambda one: one.path).map(tuple)


@given(SETS, SETS, st.booleans())
def test_swapping_the_sides_mirrors_the_facts(
    files: tuple[FileTouch, ...], others: tuple[FileTouch, ...], with_text: bool
) -> None:
    a, b = WorkingSet("a", files), WorkingSet("b", others)
    text = (lambda _, path: BASE[path].replace("(item", "(thing")) if with_text else None
    symbols = SymbolFacts(graph(), text)
    findings, mirror = symbols.facts(a, b), symbols.facts(b, a)
    link, back = findings.calls, mirror.calls
    assert {(one.writer, one.symbol, one.path, one.reader_path) for one in findings.hazards} == {
        (1 - one.writer, one.symbol, one.path, one.reader_path) for one in mirror.hazards
    }
    assert (link is None) == (back is None)
    if link is not None and back is not None:
        assert back == CallLink(link.other_symbol, link.other_path, link.symbol, link.path, link.hops)
        assert 1 <= link.hops <= 4
    assert mirror.tests == tuple(SharedTest(one.test, one.other_path, one.path) for one in findings.tests)


CALLS = [
    ("own function", {"m.py": "def f(): pass\ndef g():\n    f()\n"}, [("g", ("m.py", "f"))]),
    (
        "imported",
        {"m.py": "from a import f\ndef g():\n    f()\n", "a.py": "def f(): pass\n"},
        [("g", ("a.py", "f"))],
    ),
    (
        "re-exported",
        {
            "p/__init__.py": "from .a import f\n",
            "p/a.py": "def f(): pass\n",
            "m.py": "from p import f\ndef g():\n    f()\n",
        },
        [("g", ("p/a.py", "f"))],
    ),
    (
        "module",
        {"m.py": "import a\ndef g():\n    a.f()\n", "a.py": "def f(): pass\n"},
        [("g", ("a.py", "f"))],
    ),
    (
        "self",
        {"m.py": "class A:\n    def f(self): pass\n    def g(self):\n        self.f()\n"},
        [("A.g", ("m.py", "A.f"))],
    ),
    ("type", {"m.rs": "impl S { fn new() {} }\nfn g() { S::new() }\n"}, [("g", ("m.rs", "S.new"))]),
    (
        "package of Go",
        {
            "go.mod": "module m",
            "a/a.go": "package a\nfunc F() {}\n",
            "m.go": 'package main\nimport "m/a"\nfunc g() { a.F() }\n',
        },
        [("g", ("a/a.go", "F"))],
    ),
    (
        "own method of Java",
        {"A.java": "class A { void f() {} void g() { f(); } }\n"},
        [("A.g", ("A.java", "A.f"))],
    ),
    (
        "a common word of an unknown object",
        {
            "m.py": "import a\ndef g(x):\n    x.append(1)\n",
            "a.py": "class L:\n    def append(self, x): pass\n",
        },
        [],
    ),
    (
        "two that would do",
        {
            "m.py": "from a import f\nfrom b import f\ndef g():\n    f()\n",
            "a.py": "def f(): pass\n",
            "b.py": "def f(): pass\n",
        },
        [],
    ),
    ("nobody's", {"m.py": "def g():\n    print(1)\n"}, []),
]


@pytest.mark.parametrize(("files", "found"), [one[1:] for one in CALLS], ids=[one[0] for one in CALLS])
def test_calls_mean_one_definition_or_none(
    files: dict[str, str], found: list[tuple[str, tuple[str, str]]]
) -> None:
    caller = next(path for path in files if path.startswith(("m.", "A.java")))
    assert list(CallGraph(graph(files)).calls_of(caller)) == found


@pytest.mark.parametrize(
    ("path", "test"),
    [
        ("tests/a.py", True),
        ("pkg/test_a.py", True),
        ("a_test.go", True),
        ("src/a.test.tsx", True),
        ("src/a.spec.js", True),
        ("src/main/java/ATest.java", True),
        ("src/latest.py", False),
        ("contest/a.py", False),
        ("a/testing.py", False),
    ],
)
def test_tests_are_told_by_their_names(path: str, test: bool) -> None:
    assert is_test(path) is test
