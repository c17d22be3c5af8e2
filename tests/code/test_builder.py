"""Patching gives what building gives, and a file that stops parsing keeps its last good edges."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from relay.code.build.builder import Builder
from relay.code.code_graph import CodeGraph, graph_of
from relay.code.read.extract import extract
from relay.code.read.facts import pack_symbols

FILES: dict[str, list[str]] = {
    "pkg/__init__.py": ["", "from .a import x"],
    "pkg/a.py": ["import pkg.b", "from . import b\nx = 1", "import helper"],
    "pkg/b.py": ["", "from ns.c import y"],
    "ns/c.py": ["y = 1", "import helper"],
    "helper.py": ["", "import pkg"],
    "tools/helper.py": [""],
    "pyproject.toml": [""],
    "src/pkg/__init__.py": [""],
    "src/pkg/b.py": [""],
    "web/m.ts": ["import './n'", "import '@/n'; import 'two'", "export * from './n.js'"],
    "web/n.ts": ["", "import 'two/x'"],
    "web/n.js": [""],
    "web/n/index.ts": [""],
    "web/tsconfig.json": [
        '{"compilerOptions": {"paths": {"@/*": ["./*"]}}}',
        '{"extends": "../tsconfig.json"}',
        "{",
    ],
    "tsconfig.json": [
        '{"compilerOptions": {"baseUrl": "."}}',
        '{"compilerOptions": {"paths": {"two": ["web/n"]}}}',
    ],
    "two/package.json": [
        '{"name": "two", "main": "x.js"}',
        '{"name": "three"}',
        '{"name": "two", "exports": "./dist/x.js"}',
    ],
    "two/x.js": ["require('../web/n')"],
    "two/src/x.ts": [""],
    "go.mod": ["module m", "module n"],
    "u/a.go": ["package u\nfunc A() { B() }\n", "package u\nfunc B() {}\n", "package v\n"],
    "u/b.go": ["package u\nfunc B() {}\n", "package u\nvar C = A\n"],
    "main.go": ['package main\nimport "m/u"\nvar x = u.A()\n', 'package main\nimport . "m/u"\nvar x = B()\n'],
    "Cargo.toml": ['[package]\nname = "k"\n', '[package]\nname = "k"\n[lib]\npath = "src/a.rs"\n'],
    "src/lib.rs": ["mod a;\n", "pub mod b;\nuse b::X;\n"],
    "src/a.rs": ["use crate::b::X;\n", "mod c;\n"],
    "src/b/mod.rs": ["use super::a;\n"],
    "src/b.rs": ["use k::a;\n"],
    "src/a/c.rs": ["use super::super::b;\n"],
    "j/A.java": ["package j;\nclass A { B b; }", "package q;\nimport j.*;\nclass A { B b; }"],
    "j/B.java": ["package j;\nclass B {}", "package j;\nimport q.A;\nclass B {}"],
    "k/B.java": ["package j;\nclass B {}"],
    "c/m.c": ['#include "h.h"\n#include <lib/l.h>\n', '#include "x/h.h"\n'],
    "c/h.h": [""],
    "x/h.h": [""],
    "include/lib/l.h": ["", '#include "h.h"\n'],
}
STEPS = st.lists(
    st.lists(
        st.sampled_from(sorted(FILES)).flatmap(
            lambda path: st.tuples(st.just(path), st.sampled_from([*FILES[path], None]))
        ),
        min_size=1,
        max_size=6,
    ),
    max_size=12,
)


@settings(max_examples=300)
@given(STEPS)
def test_any_sequence_of_patches_gives_what_a_build_gives(steps: list[list[tuple[str, str | None]]]) -> None:
    builder, graph = Builder(), CodeGraph()
    there: dict[str, str] = {}
    for step in steps:
        changes = {}
        symbols: dict[str, bytes | None] = {}
        for path, text in dict(step).items():
            if text is None:
                there.pop(path, None)
                changes[path], symbols[path] = None, None
            elif not extract(path, text.encode()).trouble:
                there[path] = text
                read = extract(path, text.encode())
                changes[path], symbols[path] = (read.facts, ""), pack_symbols(read.symbols)
        graph = graph.patched(builder.update(changes), symbols, builder.failed)
    whole = graph_of((path, text.encode()) for path, text in there.items())
    assert graph.adjacency() == whole.adjacency() == builder.edges
    assert graph.counts == whole.counts
    for path in there:
        assert graph.importers(path) == whole.importers(path)
        assert graph.symbols(path) == whole.symbols(path)
    for path, targets in graph.adjacency().items():
        assert path not in targets
        assert all(path in graph.importers(target) and target in there for target in targets)


def facts(path: str, text: str) -> dict[str, tuple[object, str]]:
    read = extract(path, text.encode())
    return {path: (read.facts, read.trouble)}


def test_a_file_that_stops_parsing_keeps_its_edges_and_says_so() -> None:
    builder = Builder()
    builder.update(facts("a.py", "import b") | facts("b.py", ""))
    patch = builder.update(facts("a.py", "import c\ndef broken(:\n"))
    assert patch == {} and builder.edges["a.py"] == ("b.py",)
    assert list(builder.failed) == ["a.py"]
    builder.update(facts("c.py", ""))
    patch = builder.update(facts("a.py", "import c\n"))
    assert patch == {"a.py": ("c.py",)} and builder.failed == {}


def test_last_good_edges_still_follow_the_other_files() -> None:
    builder = Builder()
    builder.update(facts("a.py", "import b, c") | facts("b.py", ""))
    builder.update(facts("a.py", "def broken(:\n"))
    assert builder.update({"b.py": None}) == {"a.py": (), "b.py": None}
    assert builder.update(facts("c.py", "")) == {"a.py": ("c.py",), "c.py": ()}


def test_a_file_that_never_parsed_shows_what_could_be_read() -> None:
    builder = Builder()
    builder.update(facts("a.py", "import b\ndef broken(:\n") | facts("b.py", ""))
    assert builder.edges["a.py"] == ("b.py",)
    assert builder.failed["a.py"].startswith("does not parse")


def test_only_who_asked_is_resolved_again() -> None:
    builder = Builder()
    builder.update(facts("a.py", "import b") | facts("z/q.py", "import os") | facts("b.py", ""))
    before = builder.resolved["z/q.py"]
    builder.update({"b.py": None})
    assert builder.resolved["z/q.py"] is before
