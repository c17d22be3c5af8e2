"""Imports of each language resolved to files, as a table: a repository in small, one importer, what it imports."""

from __future__ import annotations

import textwrap

import pytest

from relay.code.code_graph import graph_of


def edges(files: dict[str, str], path: str) -> list[str]:
    graph = graph_of((name, textwrap.dedent(text).encode()) for name, text in files.items())
    return list(graph.imports(path))


PY = {
    "pkg/__init__.py": "",
    "pkg/a.py": "x = 1",
    "pkg/sub/__init__.py": "from .deep import y",
    "pkg/sub/deep.py": "y = 2",
}
PYTHON = [
    ("relative", PY | {"pkg/m.py": "from .a import x"}, "pkg/m.py", ["pkg/a.py"]),
    ("submodule by from-dot", PY | {"pkg/m.py": "from . import a"}, "pkg/m.py", ["pkg/a.py"]),
    ("name of the package", PY | {"pkg/m.py": "from . import nothing"}, "pkg/m.py", ["pkg/__init__.py"]),
    ("two dots", PY | {"pkg/sub/m.py": "from ..a import x"}, "pkg/sub/m.py", ["pkg/a.py"]),
    (
        "two dots and a package",
        PY | {"pkg/sub/m.py": "from .. import sub"},
        "pkg/sub/m.py",
        ["pkg/sub/__init__.py"],
    ),
    ("dotted", PY | {"m.py": "import pkg.sub.deep"}, "m.py", ["pkg/sub/deep.py"]),
    (
        "dotted with alias",
        PY | {"m.py": "import pkg.a as q, pkg.sub"},
        "m.py",
        ["pkg/a.py", "pkg/sub/__init__.py"],
    ),
    (
        "re-export stands for its file",
        PY | {"m.py": "from pkg.sub import y"},
        "m.py",
        ["pkg/sub/__init__.py"],
    ),
    ("star", PY | {"m.py": "from pkg.sub import *"}, "m.py", ["pkg/sub/__init__.py"]),
    (
        "submodule and name",
        PY | {"m.py": "from pkg import a, nothing"},
        "m.py",
        ["pkg/__init__.py", "pkg/a.py"],
    ),
    ("in a function", PY | {"m.py": "def f():\n    from pkg import a\n"}, "m.py", ["pkg/a.py"]),
    (
        "parentheses and line ends",
        PY | {"m.py": "from pkg import (\n  a,  # why\n  sub,\n)"},
        "m.py",
        ["pkg/a.py", "pkg/sub/__init__.py"],
    ),
    ("continued line", PY | {"m.py": "from pkg import \\\n  a"}, "m.py", ["pkg/a.py"]),
    (
        "src layout",
        {"src/lib/__init__.py": "", "src/lib/a.py": "", "tests/t.py": "import lib.a"},
        "tests/t.py",
        ["src/lib/a.py"],
    ),
    ("namespace package", {"ns/one/a.py": "", "m.py": "from ns.one import a"}, "m.py", ["ns/one/a.py"]),
    (
        "stub",
        {"pkg/__init__.py": "", "pkg/_c.pyi": "", "pkg/m.py": "from ._c import f"},
        "pkg/m.py",
        ["pkg/_c.pyi"],
    ),
    (
        "module before stub",
        {"p/__init__.py": "", "p/c.py": "", "p/c.pyi": "", "p/m.py": "from . import c"},
        "p/m.py",
        ["p/c.py"],
    ),
    ("standard library", PY | {"tools/json.py": "", "m.py": "import json"}, "m.py", []),
    (
        "a loose script far away",
        {"scripts/helper.py": "", "app/__init__.py": "", "app/m.py": "import helper"},
        "app/m.py",
        [],
    ),
    (
        "a loose script beside",
        {"scripts/helper.py": "", "scripts/m.py": "import helper"},
        "scripts/m.py",
        ["scripts/helper.py"],
    ),
    (
        "own package of two of the same name",
        {
            "a/pyproject.toml": "",
            "a/p/__init__.py": "",
            "a/p/x.py": "",
            "a/p/m.py": "import p.x",
            "b/p/__init__.py": "",
            "b/p/x.py": "",
        },
        "a/p/m.py",
        ["a/p/x.py"],
    ),
    ("nobody's", PY | {"m.py": "import numpy\nfrom os.path import join"}, "m.py", []),
    ("beyond the top", {"m.py": "from ... import x"}, "m.py", []),
]
JS = {"src/a.js": "", "src/b/index.js": "", "src/c.mjs": "", "src/d.cjs": "", "src/v.jsx": ""}
SCRIPT = [
    ("extension search", JS | {"src/m.js": "import a from './a'"}, "src/m.js", ["src/a.js"]),
    ("index", JS | {"src/m.js": "import './b'"}, "src/m.js", ["src/b/index.js"]),
    (
        "require",
        JS | {"src/m.js": "const {q} = require('./c.mjs'); require('./d')"},
        "src/m.js",
        ["src/c.mjs", "src/d.cjs"],
    ),
    ("dynamic", JS | {"src/m.js": "const v = await import('./v')"}, "src/m.js", ["src/v.jsx"]),
    ("dynamic with a variable", JS | {"src/m.js": "import(`./${x}`)"}, "src/m.js", []),
    (
        "export from",
        JS | {"src/m.js": "export * from './a'; export {x as y} from '../src/b'"},
        "src/m.js",
        ["src/a.js", "src/b/index.js"],
    ),
    (
        "js means ts",
        {
            "s/a.ts": "",
            "s/b.tsx": "",
            "s/c.mts": "",
            "s/m.ts": "import './a.js'; import './b.js'; import './c.mjs'",
        },
        "s/m.ts",
        ["s/a.ts", "s/b.tsx", "s/c.mts"],
    ),
    (
        "type import",
        {"a.d.ts": "", "m.ts": "import type {T} from './a'; let x: import('./b').Q", "b.ts": ""},
        "m.ts",
        ["a.d.ts", "b.ts"],
    ),
    ("import require", {"a.ts": "", "m.ts": "import a = require('./a')"}, "m.ts", ["a.ts"]),
    (
        "paths",
        {
            "tsconfig.json": '{// c\n"compilerOptions": {"paths": {"@/*": ["./src/*"], "cfg": ["./c.ts"]},}}',
            "src/x.ts": "",
            "c.ts": "",
            "app/m.ts": "import '@/x'; import 'cfg'",
        },
        "app/m.ts",
        ["c.ts", "src/x.ts"],
    ),
    (
        "baseUrl",
        {
            "tsconfig.json": '{"compilerOptions": {"baseUrl": "src"}}',
            "src/x/y.ts": "",
            "src/m.ts": "import 'x/y'",
        },
        "src/m.ts",
        ["src/x/y.ts"],
    ),
    (
        "extends",
        {
            "base/tsconfig.base.json": '{"compilerOptions": {"baseUrl": ".", "paths": {"~/*": ["lib/*"]}}}',
            "app/tsconfig.json": '{"extends": "../base/tsconfig.base.json"}',
            "base/lib/q.ts": "",
            "app/m.ts": "import '~/q'",
        },
        "app/m.ts",
        ["base/lib/q.ts"],
    ),
    (
        "workspace main",
        {
            "p/one/package.json": '{"name": "@x/one", "main": "dist/index.js"}',
            "p/one/src/index.ts": "",
            "p/two/m.ts": "import '@x/one'",
        },
        "p/two/m.ts",
        ["p/one/src/index.ts"],
    ),
    (
        "workspace exports",
        {
            "one/package.json": '{"name": "one", "exports": {".": "./dist/index.mjs", "./sub": '
            '{"types": "./dist/sub.d.ts"}, "./x/*": "./lib/*.js"}}',
            "one/src/index.ts": "",
            "one/src/sub.ts": "",
            "one/lib/q.js": "",
            "m.ts": "import 'one'; import 'one/sub'; import 'one/x/q'",
        },
        "m.ts",
        ["one/lib/q.js", "one/src/index.ts", "one/src/sub.ts"],
    ),
    (
        "inner imports",
        {
            "package.json": '{"name": "me", "imports": {"#db/*": "./src/db/*.js"}}',
            "src/db/u.js": "",
            "m.js": "import '#db/u'",
        },
        "m.js",
        ["src/db/u.js"],
    ),
    (
        "nobody's",
        JS | {"m.js": "import 'react'; import 'node:fs'; import 'https://x/y.js'; import './none'"},
        "m.js",
        [],
    ),
    ("leaves the repository", JS | {"m.js": "import '../../x'"}, "m.js", []),
]
GO = {
    "go.mod": "module example.org/me\n\ngo 1.22\n",
    "util/a.go": "package util\n\nfunc A() {}\n",
    "util/b.go": "package util\n\ntype B struct{}\n",
    "util/b_test.go": "package util\n\nfunc A2() {}\n",
}
GOLANG = [
    (
        "only the files that define what is used",
        GO | {"m.go": 'package main\nimport "example.org/me/util"\nfunc main() { util.A() }\n'},
        "m.go",
        ["util/a.go"],
    ),
    (
        "alias",
        GO | {"m.go": 'package main\nimport u "example.org/me/util"\nvar x u.B\n'},
        "m.go",
        ["util/b.go"],
    ),
    (
        "blank",
        GO | {"m.go": 'package main\nimport _ "example.org/me/util"\n'},
        "m.go",
        ["util/a.go", "util/b.go"],
    ),
    ("dot", GO | {"m.go": 'package main\nimport . "example.org/me/util"\nvar x B\n'}, "m.go", ["util/b.go"]),
    (
        "several modules",
        GO
        | {
            "sub/go.mod": "module example.org/me/sub",
            "sub/q/q.go": "package q\nfunc Q() {}\n",
            "m.go": 'package main\nimport "example.org/me/sub/q"\nvar x = q.Q()\n',
        },
        "m.go",
        ["sub/q/q.go"],
    ),
    (
        "package named unlike its folder",
        GO
        | {
            "go-x/x.go": "package x\nfunc X() {}\n",
            "m.go": 'package main\nimport "example.org/me/go-x"\nvar v = x.X()\n',
        },
        "m.go",
        ["go-x/x.go"],
    ),
    (
        "replaced",
        {
            "go.mod": "module me.org/a\nreplace other.org/b => ./b\n",
            "b/q/q.go": "package q\nfunc Q() {}\n",
            "m.go": 'package a\nimport "other.org/b/q"\nvar x = q.Q()\n',
        },
        "m.go",
        ["b/q/q.go"],
    ),
    ("own package", GO | {"util/c.go": "package util\nfunc C() { A() }\n"}, "util/c.go", ["util/a.go"]),
    (
        "a local name is not the package's",
        GO | {"util/c.go": "package util\nfunc C(A int) int { return A }\n"},
        "util/c.go",
        [],
    ),
    (
        "nobody's",
        GO
        | {"m.go": 'package main\nimport (\n"fmt"\n"github.com/x/y"\n)\nfunc main() { fmt.Println(y.Z) }\n'},
        "m.go",
        [],
    ),
]
RS = {
    "Cargo.toml": '[package]\nname = "my-crate"\n',
    "src/lib.rs": "mod a;\npub mod b;\n",
    "src/a.rs": "pub fn f() {}\n",
    "src/b/mod.rs": "pub mod c;\n",
    "src/b/c.rs": "pub struct C;\n",
}
RUST = [
    ("mod", RS, "src/lib.rs", ["src/a.rs", "src/b/mod.rs"]),
    ("mod in mod.rs", RS, "src/b/mod.rs", ["src/b/c.rs"]),
    (
        "path attribute",
        RS | {"src/a.rs": '#[path = "odd/x.rs"]\nmod x;\n', "src/odd/x.rs": ""},
        "src/a.rs",
        ["src/odd/x.rs"],
    ),
    (
        "inline module",
        RS | {"src/a.rs": "mod i { mod j; }\n", "src/a/i/j.rs": ""},
        "src/a.rs",
        ["src/a/i/j.rs"],
    ),
    (
        "in a macro",
        RS | {"src/a.rs": "cfg_x! { pub mod k; }\n", "src/a/k.rs": ""},
        "src/a.rs",
        ["src/a/k.rs"],
    ),
    (
        "in a macro in a macro",
        RS | {"src/a.rs": "cfg_x! { cfg_y! { mod k; } }\n", "src/a/k.rs": ""},
        "src/a.rs",
        ["src/a/k.rs"],
    ),
    ("crate", RS | {"src/a.rs": "use crate::b::c::C;\n"}, "src/a.rs", ["src/b/c.rs"]),
    (
        "list",
        RS | {"src/b/c.rs": "use crate::{a::{self, f}, b::*};\n"},
        "src/b/c.rs",
        ["src/a.rs", "src/b/mod.rs"],
    ),
    ("item of the root", RS | {"src/a.rs": "use crate::Thing;\n"}, "src/a.rs", ["src/lib.rs"]),
    ("super", RS | {"src/b/c.rs": "use super::super::a::f;\n"}, "src/b/c.rs", ["src/a.rs"]),
    (
        "super of an inline module is this file",
        RS | {"src/a.rs": "mod tests { use super::*; }\n"},
        "src/a.rs",
        [],
    ),
    ("self", RS | {"src/b/mod.rs": "use self::c::C;\n"}, "src/b/mod.rs", ["src/b/c.rs"]),
    ("uniform path", RS | {"src/b/mod.rs": "pub mod c;\nuse c::C;\n"}, "src/b/mod.rs", ["src/b/c.rs"]),
    (
        "the crate from its tests",
        RS | {"tests/t.rs": "use my_crate::b::c::C;\n"},
        "tests/t.rs",
        ["src/b/c.rs"],
    ),
    (
        "workspace",
        RS
        | {
            "x/Cargo.toml": '[package]\nname = "x"\n',
            "x/src/main.rs": "use my_crate::a::f;\nextern crate my_crate;\n",
        },
        "x/src/main.rs",
        ["src/a.rs", "src/lib.rs"],
    ),
    (
        "renamed dependency",
        RS
        | {
            "x/Cargo.toml": '[package]\nname = "x"\n[dependencies]\nmc = {package = "my-crate"}\n',
            "x/src/lib.rs": "use mc::a::f;\n",
        },
        "x/src/lib.rs",
        ["src/a.rs"],
    ),
    ("nobody's", RS | {"src/a.rs": "use std::fmt;\nuse serde::Serialize;\n"}, "src/a.rs", []),
]
JV = {
    "app/src/main/java/o/a/A.java": "package o.a;\npublic class A { public static class In {} }\n",
    "app/src/main/java/o/a/B.java": "package o.a;\nclass B {}\n",
    "lib/src/main/java/o/c/C.java": "package o.c;\npublic class C {}\n",
}
M = "app/src/test/java/o/a/M.java"
JAVA = [
    ("type", JV | {M: "package o.x;\nimport o.c.C;\nclass M {}"}, M, ["lib/src/main/java/o/c/C.java"]),
    ("nested", JV | {M: "package o.x;\nimport o.a.A.In;\nclass M {}"}, M, ["app/src/main/java/o/a/A.java"]),
    (
        "static",
        JV | {M: "package o.x;\nimport static o.a.A.f;\nclass M {}"},
        M,
        ["app/src/main/java/o/a/A.java"],
    ),
    (
        "static wildcard",
        JV | {M: "package o.x;\nimport static o.a.A.*;\nclass M {}"},
        M,
        ["app/src/main/java/o/a/A.java"],
    ),
    (
        "wildcard: what is used",
        JV | {M: "package o.x;\nimport o.a.*;\nclass M { B b; }"},
        M,
        ["app/src/main/java/o/a/B.java"],
    ),
    (
        "same package",
        JV | {M: 'package o.a;\nclass M { A a; /* B */ String s = "B"; }'},
        M,
        ["app/src/main/java/o/a/A.java"],
    ),
    ("import beats the package", JV | {M: "package o.a;\nimport z.A;\nclass M { A a; }"}, M, []),
    (
        "the nearest of two",
        JV
        | {
            "app/src/main/java/o/c/C.java": "package o.c;\npublic class C {}\n",
            M: "package o.x;\nimport o.c.C;\nclass M {}",
        },
        M,
        ["app/src/main/java/o/c/C.java"],
    ),
    ("nobody's", JV | {M: "package o.x;\nimport java.util.List;\nimport org.junit.*;\nclass M {}"}, M, []),
]
CH = {
    "include/lib/a.h": "int a(void);\n",
    "src/b.h": "int b(void);\n",
    "src/a.c": "int a(void) { return 1; }\n",
}
CLANG = [
    ("beside", CH | {"src/m.c": '#include "b.h"\n'}, "src/m.c", ["src/b.h"]),
    ("relative", CH | {"src/x/m.c": '#include "../b.h"\n'}, "src/x/m.c", ["src/b.h"]),
    ("include folder", CH | {"src/m.cc": '#include "lib/a.h"\n'}, "src/m.cc", ["include/lib/a.h"]),
    ("angle in the repository", CH | {"src/m.cpp": "#include <lib/a.h>\n"}, "src/m.cpp", ["include/lib/a.h"]),
    (
        "angle of the standard",
        CH | {"src/string.h": "", "src/m.c": "#include <string.h>\n#include <vector>\n"},
        "src/m.c",
        [],
    ),
    (
        "quote of the standard's name",
        CH | {"src/string.h": "", "src/m.c": '#include "string.h"\n'},
        "src/m.c",
        ["src/string.h"],
    ),
    ("a source that is included", CH | {"src/m.c": '#include "a.c"\n'}, "src/m.c", ["src/a.c"]),
    ("a pair of the same stem is no import", CH | {"src/b.c": "int b(void) { return 1; }\n"}, "src/b.c", []),
    ("one of several", {"x/util/q.h": "", "y/util/q.h": "", "z/m.c": '#include "util/q.h"\n'}, "z/m.c", []),
    ("in a condition", CH | {"src/m.c": '#ifdef X\n# include "b.h"\n#endif\n'}, "src/m.c", ["src/b.h"]),
    (
        "C++ in .h",
        CH | {"src/t.h": 'namespace n { template <class T> class Q {}; }\n#include "b.h"\n'},
        "src/t.h",
        ["src/b.h"],
    ),
]
CASES = [
    pytest.param(files, path, found, id=f"{language}: {name}")
    for language, cases in (
        ("python", PYTHON),
        ("script", SCRIPT),
        ("go", GOLANG),
        ("rust", RUST),
        ("java", JAVA),
        ("c", CLANG),
    )
    for name, files, path, found in cases
]


@pytest.mark.parametrize(("files", "path", "found"), CASES)
def test_imports_lead_to_files(files: dict[str, str], path: str, found: list[str]) -> None:
    assert edges(files, path) == found


def test_line_ends_and_byte_order_marks_do_not_matter() -> None:
    graph = graph_of(
        [
            ("pkg/__init__.py", b""),
            ("pkg/a.py", b"\xef\xbb\xbfx = 1\r\n"),
            ("pkg/m.py", b"\xef\xbb\xbffrom . import a\r\nfrom pkg import (\r\n  a,\r\n)\r\n"),
            ("wide.js", "import './b'\r\n".encode("utf-16")),
            ("b.js", b""),
        ]
    )
    assert graph.imports("pkg/m.py") == ("pkg/a.py",)
    assert graph.imports("wide.js") == ("b.js",)
    assert graph.failed == {}


def test_a_file_that_is_not_utf8_is_read() -> None:
    graph = graph_of([("a.py", b"# caf\xe9\nimport b\nname = '\xff'\n"), ("b.py", b"")])
    assert graph.imports("a.py") == ("b.py",)
    assert [one.name for one in graph.symbols("a.py").definitions] == ["name"]


def test_names_with_blanks_quotes_and_umlauts() -> None:
    odd = 'my src/it\'s "q"/größe.py'
    graph = graph_of([(odd, b"x = 1"), ("a b/größe.js", b""), ("a b/m.js", "import './größe'".encode())])
    assert odd in graph
    assert graph.imports("a b/m.js") == ("a b/größe.js",)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.py", "x = " + "(" * 20_000 + ")" * 20_000),
        ("a.js", "x = " + "[" * 20_000 + "]" * 20_000),
        ("a.rs", "use " + "a::{" * 5_000 + "b" + "}" * 5_000 + ";"),
        ("a.json", "[" * 100_000),
        ("package.json", "[" * 100_000),
        ("tsconfig.json", '{"a":' * 50_000),
    ],
)
def test_deep_nesting_is_read_without_recursion(path: str, text: str) -> None:
    graph = graph_of([(path, text.encode()), ("b.py", b"import a")])
    assert "b.py" in graph
