"""Reads import statements out of the syntax tree, as they are written.

Invariant: nothing is resolved here, and nothing is read by recursion: a file may be nested as deep as it likes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from tree_sitter import Node

from relay.code.read.facts import Import


def text_of(node: Node | None) -> str:
    """The node's text, "" for no node."""
    return "" if node is None or node.text is None else node.text.decode("utf-8", "replace")


def _line(node: Node) -> int:
    return node.start_point.row + 1


def _python(node: Node) -> Iterator[Import]:
    names = node.children_by_field_name("name")
    if node.type == "import_statement":
        for name in names:
            dotted = name.child_by_field_name("name") if name.type == "aliased_import" else name
            alias = text_of(name.child_by_field_name("alias")) if name.type == "aliased_import" else ""
            yield Import(_joined(text_of(dotted)), (), _line(node), "import", alias)
        return
    taken = [name.child_by_field_name("name") if name.type == "aliased_import" else name for name in names]
    words = [text_of(node) for node in taken] or ["*"]
    yield Import(_joined(text_of(node.child_by_field_name("module_name"))), tuple(words), _line(node), "from")


def _joined(text: str) -> str:
    """Without blanks and line continuations."""
    return "".join(text.replace("\\", "").split())


def _script(node: Node) -> Iterator[Import]:
    if node.type == "call_expression":
        arguments = node.child_by_field_name("arguments")
        first = arguments.named_children[0] if arguments is not None and arguments.named_children else None
        if first is not None and first.type in ("string", "template_string") and "${" not in text_of(first):
            yield Import(text_of(first)[1:-1], (), _line(node), "call")
        return
    source = node.child_by_field_name("source")
    for child in node.named_children:
        if child.type == "import_require_clause":
            source = child.child_by_field_name("source")
    if source is None:
        return
    yield Import(text_of(source)[1:-1], tuple(_script_names(node)), _line(node), node.type.partition("_")[0])


def _script_names(node: Node) -> Iterator[str]:
    waiting = [node]
    while waiting:
        for child in waiting.pop().named_children:
            if child.type in ("import_specifier", "export_specifier"):
                yield text_of(child.child_by_field_name("name"))
            elif child.type in ("import_clause", "named_imports", "export_clause"):
                waiting.append(child)
            elif child.type in ("identifier", "namespace_import", "namespace_export"):
                yield "*" if child.type != "identifier" else "default"


def _go(node: Node) -> Iterator[Import]:
    alias = text_of(node.child_by_field_name("name"))
    yield Import(text_of(node.child_by_field_name("path"))[1:-1], (), _line(node), "import", alias)


def _java(node: Node) -> Iterator[Import]:
    children = node.children
    static = "static" if any(child.type == "static" for child in children) else "import"
    star = any(child.type == "asterisk" for child in children)
    for child in children:
        if child.type in ("scoped_identifier", "identifier"):
            yield Import(_joined(text_of(child)), ("*",) if star else (), _line(node), static)


def _c(node: Node) -> Iterator[Import]:
    path = node.child_by_field_name("path")
    if path is None or path.type not in ("string_literal", "system_lib_string"):
        return  # a macro: what it stands for is not known here
    kind = "quote" if path.type == "string_literal" else "angle"
    yield Import(text_of(path)[1:-1].strip(), (), _line(node), kind)


def _rust(node: Node) -> Iterator[Import]:
    if node.type == "mod_item":
        yield Import(text_of(node.child_by_field_name("name")), (), _line(node), "mod", _path_attribute(node))
    elif node.type == "extern_crate_declaration":
        alias = text_of(node.child_by_field_name("alias"))
        yield Import(text_of(node.child_by_field_name("name")), (), _line(node), "use", alias)
    else:
        yield from _rust_use(node.child_by_field_name("argument"), _line(node))


def _path_attribute(node: Node) -> str:
    """The file that `#[path = "x.rs"]` before a `mod` names, "" = none."""
    before = node.prev_named_sibling
    while before is not None and before.type in ("attribute_item", "line_comment"):
        attribute = text_of(before)
        if before.type == "attribute_item" and attribute.replace(" ", "").startswith("#[path="):
            return attribute.split('"')[1] if attribute.count('"') >= 2 else ""
        before = before.prev_named_sibling
    return ""


def _rust_use(argument: Node | None, line: int) -> Iterator[Import]:
    """Each leaf of a use tree as its whole path."""
    waiting: list[tuple[Node | None, str]] = [(argument, "")]
    while waiting:
        node, prefix = waiting.pop()
        if node is None:
            continue
        if node.type == "scoped_use_list":
            below = prefix + _joined(text_of(node.child_by_field_name("path"))) + "::"
            waiting.append((node.child_by_field_name("list"), below))
        elif node.type == "use_list":
            waiting += [(child, prefix) for child in reversed(node.named_children)]
        elif node.type == "use_as_clause":
            alias = text_of(node.child_by_field_name("alias"))
            path = _joined(text_of(node.child_by_field_name("path")))
            yield Import(_leaf(prefix, path), (), line, "use", alias)
        elif node.type == "use_wildcard":
            path = _joined(text_of(node)).removesuffix("*").removesuffix("::")
            yield Import((prefix + path).removesuffix("::"), ("*",), line, "use")
        elif node.type not in ("line_comment", "block_comment"):
            yield Import(_leaf(prefix, _joined(text_of(node))), (), line, "use")


def _leaf(prefix: str, path: str) -> str:
    """`a::{self}` is `a`."""
    return prefix.removesuffix("::") if path == "self" and prefix else prefix + path


_READERS: dict[str, Callable[[Node], Iterable[Import]]] = {
    "python": _python,
    "javascript": _script,
    "typescript": _script,
    "tsx": _script,
    "go": _go,
    "rust": _rust,
    "java": _java,
    "c": _c,
    "cpp": _c,
}


def read_import(language: str, node: Node) -> Iterable[Import]:
    """The imports that one `@import` node makes, in the order of the text."""
    return _READERS[language](node)
