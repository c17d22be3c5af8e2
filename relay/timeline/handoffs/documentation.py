"""Public functions and classes that were added without a docstring or a doc comment.

Invariant: a definition counts when its first line is new and the old file has none of its name. Public is, in Python,
what has no name that begins with `_` and stands in no function; in TypeScript and JavaScript, what is exported, and
the methods of exported classes that are not private. Tests need no docstrings. A file of another language is not
read, and said to be.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from tree_sitter import Node, Parser

from relay.code.read.extract import LARGEST
from relay.code.read.grammar import KEYWORDS, grammar, language_of
from relay.timeline.handoffs.added_lines import AddedFile

_SCRIPTS = frozenset({"typescript", "tsx", "javascript"})
#: Source files of languages that relay has no grammar of.
_OTHER_SOURCE = frozenset(
    {
        ".bash",
        ".sh",
        ".ps1",
        ".sql",
        ".php",
        ".pl",
        ".pm",
        ".rb",
        ".lua",
        ".r",
        ".jl",
        ".zig",
        ".dart",
        ".swift",
    }
    | {
        ".kt",
        ".kts",
        ".scala",
        ".groovy",
        ".clj",
        ".cs",
        ".fs",
        ".vb",
        ".ex",
        ".exs",
        ".hs",
        ".ml",
        ".m",
        ".mm",
    }
    | {".vue", ".svelte"}
)
#: Kinds of nodes in the grammars of TypeScript and JavaScript.
_FUNCTIONS = frozenset({"arrow_function", "function_expression", "generator_function"})
_CLASSES = frozenset({"class_declaration", "abstract_class_declaration", "class"})
_DECLARATIONS = frozenset({"function_declaration", "generator_function_declaration", "function_signature"})
_METHODS = frozenset({"method_definition", "abstract_method_signature", "method_signature"})
_FIELDS = frozenset({"public_field_definition", "field_definition"})
_TEST_FOLDERS = frozenset({"test", "tests", "__tests__", "testing", "spec"})
#: Python's decorators whose function is documented elsewhere.
_DOCUMENTED_ELSEWHERE = frozenset({"overload", "override", "setter", "deleter", "getter"})


@dataclass(frozen=True, slots=True)
class Undocumented:
    """`missing`: (line, qualified name) of each; `unread`: why the file could not be read, "" = it was."""

    missing: tuple[tuple[int, str], ...] = ()
    unread: str = ""


@dataclass(frozen=True, slots=True)
class _Definition:
    name: str
    line: int
    documented: bool


def undocumented(file: AddedFile) -> Undocumented:
    """What of the added lines lacks documentation. CPU-bound: call it in a thread."""
    if is_test(file.path):
        return Undocumented()
    language = language_of(file.path)
    if language not in KEYWORDS:
        suffix = PurePosixPath(file.path).suffix.lower()
        return (
            Undocumented(unread=f"{suffix} files are not read") if suffix in _OTHER_SOURCE else Undocumented()
        )
    if language != "python" and language not in _SCRIPTS:
        return Undocumented(unread=f"{language} is not read")
    if max(len(file.after), len(file.before or b"")) > LARGEST:
        return Undocumented(unread=f"larger than {LARGEST // 1_000_000} MB")
    read = _python if language == "python" else lambda text: _script(language, text)
    try:
        now = list(read(file.after))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return Undocumented(unread="it does not parse")
    try:
        before = {each.name for each in read(file.before or b"")}
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        before = set()
    missing = [
        (each.line, each.name)
        for each in now
        if not each.documented and each.line in file.lines and each.name not in before
    ]
    return Undocumented(tuple(sorted(missing)))


def is_test(path: str) -> bool:
    """Is it a file of tests, by its name or folder?"""
    *folders, name = path.lower().split("/")
    stem = name.split(".")[0]
    return (
        not _TEST_FOLDERS.isdisjoint(folders)
        or stem.startswith("test_")
        or stem.endswith("_test")
        or stem == "conftest"
        or ".test." in name
        or ".spec." in name
    )


def _python(text: bytes) -> Iterator[_Definition]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the text's own escapes
        module = ast.parse(text)
    waiting: list[tuple[str, ast.AST]] = [("", module)]
    while waiting:
        prefix, around = waiting.pop()
        for node in ast.iter_child_nodes(around):
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                if node.name.startswith("_"):
                    continue
                name = f"{prefix}{node.name}"
                documented = ast.get_docstring(node, clean=False) is not None
                yield _Definition(name, node.lineno, documented or _elsewhere(node.decorator_list))
                if isinstance(node, ast.ClassDef):
                    waiting.append((f"{name}.", node))
            elif isinstance(node, ast.If | ast.Try | ast.With | ast.ExceptHandler):
                waiting.append((prefix, node))


def _elsewhere(decorators: Iterable[ast.expr]) -> bool:
    names = (
        node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
        for node in decorators
    )
    return not _DOCUMENTED_ELSEWHERE.isdisjoint(names)


def _script(language: str, text: bytes) -> Iterator[_Definition]:
    root = Parser(grammar(language).parser.language).parse(text).root_node
    if root.has_error:
        raise ValueError("it does not parse")
    exported = {*_named_exports(root)}
    for node in root.named_children:
        if node.type == "export_statement":
            inner = node.child_by_field_name("declaration") or node.child_by_field_name("value")
            if inner is not None:
                yield from _declared(inner, node, None)
        else:
            yield from _declared(node, node, exported)


def _named_exports(root: Node) -> Iterator[str]:
    for statement in root.named_children:
        for clause in statement.named_children if statement.type == "export_statement" else ():
            for specifier in clause.named_children if clause.type == "export_clause" else ():
                name = specifier.child_by_field_name("name")
                if name is not None:
                    yield _text(name)


def _declared(node: Node, statement: Node, exported: set[str] | None) -> Iterator[_Definition]:
    """What a declaration declares. `statement` is what a comment stands before; `exported`: the names that are,
    None = this one is."""
    if node.type in ("lexical_declaration", "variable_declaration"):
        for each in node.named_children:
            value, named = each.child_by_field_name("value"), each.child_by_field_name("name")
            if value is None or named is None or value.type not in _FUNCTIONS:
                continue
            if exported is None or _text(named) in exported:
                yield _Definition(_text(named), _line(each), _has_comment(statement))
        return
    if node.type not in (*_DECLARATIONS, *_FUNCTIONS, *_CLASSES):
        return
    named = node.child_by_field_name("name")
    name = _text(named) if named is not None else "default"
    if exported is not None and name not in exported:
        return
    yield _Definition(name, _line(named or node), _has_comment(statement))
    body = node.child_by_field_name("body")
    if node.type in _CLASSES and body is not None:
        yield from _methods(name, body)


def _methods(owner: str, body: Node) -> Iterator[_Definition]:
    for node in body.named_children:
        value = node.child_by_field_name("value")
        function = value is not None and value.type in _FUNCTIONS
        if node.type not in _METHODS and not (function and node.type in _FIELDS):
            continue
        named = node.child_by_field_name("name") or node.child_by_field_name("property")
        name = _text(named) if named is not None else ""
        hidden = any(
            child.type == "accessibility_modifier" and child.text in (b"private", b"protected")
            for child in node.children
        )
        if hidden or not name or name == "constructor" or name.startswith(("#", "_")):
            continue
        yield _Definition(f"{owner}.{name}", _line(named or node), _has_comment(node))


def _has_comment(node: Node) -> bool:
    before = node.prev_named_sibling
    while before is not None and before.type == "decorator":
        before = before.prev_named_sibling
    return before is not None and before.type == "comment" and (before.text or b"").startswith(b"/**")


def _text(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")


def _line(node: Node) -> int:
    return node.start_point[0] + 1
