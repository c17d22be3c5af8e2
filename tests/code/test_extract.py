"""What is read out of one file: definitions, calls, references, and what does not parse."""

from __future__ import annotations

import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.code.read.extract import extract, unfit
from relay.code.read.facts import Extract, pack_facts, pack_symbols, unpack_facts, unpack_symbols
from relay.code.read.grammar import KEYWORDS


def read(path: str, text: str) -> Extract:
    return extract(path, textwrap.dedent(text).lstrip("\n").encode())


def defined(path: str, text: str) -> list[tuple[str, str, int, int]]:
    return [(one.qualified, one.kind, one.start, one.end) for one in read(path, text).symbols.definitions]


DEFINITIONS = [
    (
        "a.py",
        """
        LIMIT = 3
        class A(Base):
            @property
            def m(self) -> int:
                def inner(): ...
                return 1
        async def f(a, *, b=1): pass
        """,
        [
            ("LIMIT", "constant", 1, 1),
            ("A", "class", 2, 6),
            ("A.m", "method", 3, 6),
            ("A.m.inner", "function", 5, 5),
            ("f", "function", 7, 7),
        ],
    ),
    (
        "a.ts",
        """
        export interface I { x: number }
        type T = I | null;
        enum E { A }
        export const f = (a: number): number => a + 1;
        export default class C { private g() { return 1 } h = () => 2 }
        namespace N { export function k() {} }
        """,
        [
            ("I", "type", 1, 1),
            ("T", "type", 2, 2),
            ("E", "type", 3, 3),
            ("f", "function", 4, 4),
            ("C", "class", 5, 5),
            ("C.g", "method", 5, 5),
            ("C.h", "method", 5, 5),
            ("N", "namespace", 6, 6),
            ("N.k", "function", 6, 6),
        ],
    ),
    (
        "a.js",
        "app.use = function use(a) {\n}\nvar x = 1\n",
        [("use", "function", 1, 2), ("x", "constant", 3, 3)],
    ),
    (
        "a.go",
        """
        package a
        const (
            One = 1
        )
        type T struct{ x int }
        func (t *T) M(a int) error { return nil }
        func F() {}
        """,
        [("One", "constant", 3, 3), ("T", "type", 5, 5), ("T.M", "method", 6, 6), ("F", "function", 7, 7)],
    ),
    (
        "a.rs",
        """
        pub struct S<T>(T);
        impl<T> S<T> {
            pub fn new() -> Self { todo!() }
        }
        trait R { fn r(&self); }
        mod m { const C: u8 = 1; }
        """,
        [
            ("S", "type", 1, 1),
            ("S", "implementation", 2, 4),
            ("S.new", "method", 3, 3),
            ("R", "class", 5, 5),
            ("R.r", "method", 5, 5),
            ("m", "namespace", 6, 6),
            ("m.C", "constant", 6, 6),
        ],
    ),
    (
        "A.java",
        "package p;\n@X\nclass A {\n  A(int x) {}\n  interface I { void m(); }\n  enum E { Q }\n}\n",
        [
            ("A", "class", 2, 7),
            ("A.A", "method", 4, 4),
            ("A.I", "class", 5, 5),
            ("A.I.m", "method", 5, 5),
            ("A.E", "class", 6, 6),
        ],
    ),
    (
        "a.c",
        "#define MAX 3\nstruct s { int x; };\ntypedef struct { int y; } t;\n"
        "static char *f(int a)\n{\n  return 0;\n}\nint g(void);\n",
        [
            ("MAX", "macro", 1, 1),
            ("s", "type", 2, 2),
            ("t", "type", 3, 3),
            ("f", "function", 4, 7),
            ("g", "declaration", 8, 8),
        ],
    ),
    (
        "a.cpp",
        "namespace n {\nclass A { int f() { return 1; } };\n}\nint n::A::g(int x) { return x; }\n"
        "template <class T> T h(T a) { return a; }\n",
        [
            ("n", "namespace", 1, 3),
            ("n.A", "class", 2, 2),
            ("n.A.f", "method", 2, 2),
            ("n.A.g", "function", 4, 4),
            ("h", "function", 5, 5),
        ],
    ),
]


@pytest.mark.parametrize(("path", "text", "found"), DEFINITIONS, ids=[one[0] for one in DEFINITIONS])
def test_definitions_have_their_lines_and_names(
    path: str, text: str, found: list[tuple[str, str, int, int]]
) -> None:
    assert defined(path, text) == found
    assert read(path, text).trouble == ""


CALLS = [
    ("a.py", "def f():\n    g(1)\n    self.m.h(2)\n", [("g", "", 2), ("h", "self.m", 3)]),
    ("a.ts", "f(a); x.y?.g(); new C(1)", [("f", "", 1), ("g", "x.y", 1), ("C", "", 1)]),
    ("a.go", "package a\nfunc f() { g(); fmt.Println(1) }\n", [("g", "", 2), ("Println", "fmt", 2)]),
    (
        "a.rs",
        "fn f() { g(); S::new(); x.m(); vec![1] }\n",
        [("g", "", 1), ("new", "S", 1), ("m", "x", 1), ("vec", "", 1)],
    ),
    (
        "A.java",
        "class A { void f() { g(); a.b.h(1); new C(); } }\n",
        [("g", "", 1), ("h", "a.b", 1), ("C", "", 1)],
    ),
    ("a.c", "void f(void) { g(1); p->h(2); }\n", [("g", "", 1), ("h", "p", 1)]),
    (
        "a.cpp",
        "void f() { std::move(x); g<int>(3); a.m(); }\n",
        [("move", "std", 1), ("g", "", 1), ("m", "a", 1)],
    ),
]


@pytest.mark.parametrize(("path", "text", "found"), CALLS, ids=[one[0] for one in CALLS])
def test_calls_have_their_receivers(path: str, text: str, found: list[tuple[str, str, int]]) -> None:
    assert [(one.name, one.receiver, one.line) for one in read(path, text).symbols.calls] == found


def test_a_call_knows_the_definition_around_it() -> None:
    symbols = read("a.py", "f()\nclass A:\n    def m(self):\n        g()\n    h()\n").symbols
    around = {
        one.name: symbols.definitions[one.within].qualified if one.within >= 0 else ""
        for one in symbols.calls
    }
    assert around == {"f": "", "g": "A.m", "h": "A"}


def test_words_of_comments_and_strings_are_no_references() -> None:
    symbols = read("a.py", 'x = "word"  # other\ny = f"{x} text {z}"\nx += 1\n').symbols
    assert symbols.references == {"f": (2,), "x": (1, 2, 3), "y": (2,), "z": (2,)}


@pytest.mark.parametrize(
    ("after", "signature", "body"),
    [
        ("def f(a, b):\n    return   a\n", True, True),
        ("\n\n# moved\ndef f(a, b):\n    return a\n", True, True),
        ("def f(a, b):\n    return b\n", True, False),
        ("def f(a, b, c):\n    return a\n", False, True),
        ("@cached\ndef f(a, b):\n    return a\n", False, True),
        ("def f(a, b) -> int:\n    return a\n", False, True),
    ],
)
def test_hashes_tell_head_from_body(after: str, signature: bool, body: bool) -> None:
    (one,) = extract("a.py", b"def f(a, b):\n    return a\n").symbols.definitions
    (other,) = extract("a.py", after.encode()).symbols.definitions
    assert (one.signature == other.signature, one.body == other.body) == (signature, body)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.py", "import b\ndef broken(:\n"),
        ("a.js", "import './b'; function ( {"),
        ("a.ts", "class { x: }}} interface"),
        ("a.go", "package a\nfunc ( {{{\n"),
        ("a.rs", "fn ( -> {{{\n"),
        ("A.java", "class A { void f( { } }}}\n"),
        ("a.c", "int f( { ) ) ) return ;\n"),
        ("package.json", '{"name": '),
        ("Cargo.toml", "[package\n"),
        ("tsconfig.json", "[]"),
    ],
)
def test_what_does_not_parse_says_so(path: str, text: str) -> None:
    assert extract(path, text.encode()).trouble.startswith("does not parse")


@pytest.mark.parametrize(
    ("path", "data", "why"),
    [
        ("a.js", b"x=1;" * 3_000, "minified"),
        ("lib.min.js", b"x=1", "minified"),
        ("a.py", b"x = 1\n" * 200_000, "larger than 1 MB"),
        ("a.pb.go", b"// Code generated by protoc. DO NOT EDIT.\npackage a\n", "generated"),
        ("a.ts", b"/** @generated */\n", "generated"),
        ("a.c", b"\0\1\2", "binary"),
        ("a.py", b"# the generated code is below\nx = 1\n", ""),
    ],
)
def test_what_people_do_not_write_stays_out(path: str, data: bytes, why: str) -> None:
    assert unfit(path, data) == why


SUFFIX = {
    "python": "py",
    "javascript": "js",
    "typescript": "ts",
    "tsx": "tsx",
    "go": "go",
    "rust": "rs",
    "java": "java",
    "c": "c",
    "cpp": "cpp",
}


@given(st.sampled_from(sorted(KEYWORDS)), st.binary(max_size=400))
def test_no_bytes_make_it_raise_and_rows_come_back(language: str, data: bytes) -> None:
    read = extract(f"a.{SUFFIX[language]}", data)
    assert unpack_facts(pack_facts(read.facts, read.trouble)) == (read.facts, read.trouble)
    assert unpack_symbols(pack_symbols(read.symbols)) == read.symbols


WORDS = [
    "import ",
    "from ",
    "def f(",
    "class A",
    "{",
    "}",
    "(",
    ")",
    ":",
    "\n",
    "  ",
    "use a::",
    "mod m;",
    "#include ",
    '"x.h"',
    "fn f()",
    "func f()",
    "package p;",
    "'",
    '"',
    "=>",
    "=",
    "export ",
    "é",
    "*",
    "A.b(",
    ";",
    "//",
    "/*",
    "*/",
]


@given(st.sampled_from(sorted(KEYWORDS)), st.lists(st.sampled_from(WORDS), max_size=40))
def test_definitions_nest_and_lines_ascend(language: str, words: list[str]) -> None:
    symbols = extract(f"a.{SUFFIX[language]}", "".join(words).encode()).symbols
    for index, one in enumerate(symbols.definitions):
        assert 1 <= one.start <= one.head_end <= one.end
        assert one.parent < index
    for lines in symbols.references.values():
        assert list(lines) == sorted(set(lines))
    for call in symbols.calls:
        assert -1 <= call.within < len(symbols.definitions)
