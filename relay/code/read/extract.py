"""Reads one file: bytes in, `Extract` out.

Invariant: the answer depends on the path's suffix and the bytes alone; no input makes it raise or recurse. What
could not be read whole says so in `trouble`, with what was read all the same.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import groupby

from tree_sitter import Node, QueryCursor, Tree

from relay.code.read import config_files
from relay.code.read.facts import Call, Definition, Extract, Facts, FileSymbols, Import
from relay.code.read.grammar import C_FAMILY, KEYWORDS, SUFFIXES, Grammar, grammar, language_of
from relay.code.read.imports import read_import, text_of

#: Larger files are not source that people write by hand (issue "The airspace").
LARGEST = 1_000_000
#: Share of a file's bytes inside ERROR nodes from which on it "does not parse". C's grammars do not expand
#: macros, so they meet text that only the preprocessor makes valid: 4 % of redis' files have such spots.
ERROR_SHARE = 0.02
ERROR_SHARE_C = 0.10
#: Bytes that a token which the parser had to invent counts for.
MISSING_BYTES = 8
#: Mean length of a line from which on a file is minified; hand-written sources stay below 80.
MINIFIED_MEAN = 300
MINIFIED_FROM = 5_000
#: Characters of a receiver that are kept: enough for a path of modules, not for a chain of builders.
RECEIVER = 60
#: Item macros within item macros that are looked into (tokio nests two).
MACROS = 4
_WORD = re.compile(r"[^\W\d]\w*")
#: Everything that no name is made of becomes a blank; bytes of other scripts' letters stay.
_BLANKS = bytes(c if c >= 128 or chr(c).isalnum() or c in b"_\n" else 32 for c in range(256))
_PLUS = re.compile(rb"^\s*(?:class\s+\w|namespace\b|template\s*<|using\s+\w|public:|private:)|\w::\w", re.M)
_SELECTED = re.compile(r"(?<![.\w])([a-z_]\w*)\.([A-Z]\w*)")
_UNSELECTED = re.compile(r"(?<![.\w])([^\W\d]\w*)(?!\w|\s*:[^=])")
_GENERATED = re.compile(
    rb"(?:Code|File|This file (?:is|was)) (?:automatically )?generated\b.*\bDO NOT EDIT|@generated\b", re.I
)
_FUNCTIONS = ("arrow_function", "function_expression", "generator_function")
_WHOLE = ("preproc_", "comment", "line_comment", "block_comment")
_UNREAD = frozenset({"namespace", "implementation"})
#: What a function in it is a method of.
_TYPES = frozenset({"class", "type", "implementation"})


def unfit(path: str, data: bytes) -> str:
    """Why a file is left out of the graph, "" = it is read."""
    if len(data) > LARGEST:
        return f"larger than {LARGEST // 1_000_000} MB"
    if b"\0" in data[:8192] and not data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "binary"
    if ".min." in path or (len(data) > MINIFIED_FROM and len(data) / (1 + data.count(b"\n")) > MINIFIED_MEAN):
        return "minified"
    head = data[:2000]
    return "generated" if b"enerated" in head and _GENERATED.search(head) else ""


def extract(path: str, data: bytes) -> Extract:
    """Read the bytes of a file whose language its path tells. Raises ValueError for a path that none does."""
    language = language_of(path)
    if language is None:
        raise ValueError(f"{path}: no language is known for it")
    if language not in KEYWORDS:
        config, trouble = config_files.read(language, data)
        return Extract(Facts(language, config=config), FileSymbols(), trouble)
    return _reading(path, language, data).extract()


@dataclass(frozen=True, slots=True)
class Outline:
    """A file's syntax tree with its definitions, their places and its calls. `data`: what was parsed, in UTF-8;
    `ranges`: of each definition the first byte, the first of its body (its end, when it has none) and the end.
    `trouble` as in `Extract`."""

    grammar: Grammar
    tree: Tree
    data: bytes
    definitions: tuple[Definition, ...]
    ranges: tuple[tuple[int, int, int], ...]
    calls: tuple[Call, ...]
    imports: tuple[Import, ...]
    trouble: str


def outline(path: str, data: bytes) -> Outline | None:
    """Read where the definitions of a file are. None: it is of no language that has definitions."""
    language = language_of(path)
    return _reading(path, language, data).outline() if language in KEYWORDS else None


def _reading(path: str, language: str, data: bytes) -> _Reading:
    data = _utf8(data)
    if path.endswith(".h") and SUFFIXES[".h"] == language and _PLUS.search(data):
        language = "cpp"
    known = grammar(language)
    return _Reading(known, known.parser.parse(data), data)


def _utf8(data: bytes) -> bytes:
    """Without a byte order mark; UTF-16 turned into UTF-8. Line ends stay."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace").encode()
    return data.removeprefix(b"\xef\xbb\xbf")


def _digest(text: bytes) -> str:
    return blake2b(b" ".join(text.split()), digest_size=8).hexdigest()


@dataclass(frozen=True, slots=True)
class _Span:
    """A definition before it is known what it stands in; `outer`: what the text itself says that it belongs to."""

    start_byte: int
    end_byte: int
    outer: str
    definition: Definition
    #: Where its body begins; its end, when it has none.
    body_byte: int

    @property
    def name(self) -> str:
        return self.definition.name


class _Reading:
    """One pass over one tree."""

    def __init__(self, known: Grammar, tree: Tree, data: bytes, *, macros: int = 0) -> None:
        self.language = known.name
        self.known = known
        self.macros = macros
        self.tree = tree
        self.data = data
        self.spans: list[_Span] = []
        self.calls: list[tuple[int, int, str, str]] = []
        self.imports: list[tuple[int, Import]] = []
        self.package = ""
        self.locals: set[str] = set()
        self.ranges: tuple[tuple[int, int, int], ...] = ()

    def outline(self) -> Outline:
        self._read()
        definitions, calls, _ = self._nested()
        imports = tuple(imported for _, imported in self.imports)
        return Outline(
            self.known, self.tree, self.data, definitions, self.ranges, calls, imports, self._trouble()
        )

    def _read(self) -> None:
        for _, match in QueryCursor(self.known.patterns).matches(self.tree.root_node):
            self._take(match)

    def extract(self) -> Extract:
        self._read()
        definitions, calls, scopes = self._nested()
        code = self._code_only()
        symbols = FileSymbols(definitions, calls, self._references(code))
        imports = tuple(
            replace(imported, scope=scope) if scope else imported
            for (_, imported), scope in zip(
                sorted(self.imports, key=lambda pair: pair[0]), scopes, strict=True
            )
        )
        return Extract(self._facts(imports, symbols, code), symbols, self._trouble())

    def _take(self, match: dict[str, list[Node]]) -> None:
        if "callee" in match:
            callee, receiver = match["callee"][0], match.get("receiver")
            before = self._receiver(receiver[0]) if receiver else ""
            line = callee.start_point.row + 1
            self.calls.append((callee.start_byte, line, text_of(callee)[:RECEIVER], before))
        elif "name" in match:
            self._define(match)
        elif "import" in match:
            node = match["import"][0]
            self.imports += [(node.start_byte, imported) for imported in read_import(self.language, node)]
        elif "package" in match:
            self.package = "".join(text_of(match["package"][0]).split())
        elif "local" in match:
            self.locals.update(text_of(node) for node in match["local"])
        elif "items" in match:
            self._macro_items(match["items"][0])

    def _receiver(self, node: Node) -> str:
        """The end of its text: that of a chain of builders may be long."""
        end = node.end_byte
        text = self.data[max(node.start_byte, end - RECEIVER) : end].decode("utf-8", "ignore")
        return text if text.isidentifier() else " ".join(text.split())

    def _define(self, match: dict[str, list[Node]]) -> None:
        name = match["name"][0]
        kind, node = next((kind, nodes[0]) for kind, nodes in match.items() if kind not in ("name", "body"))
        body = match["body"][0] if "body" in match else None
        if kind == "constant" and body is not None and body.type in _FUNCTIONS:
            kind, body = "function", body.child_by_field_name("body")
        if self.language == "python" and kind in ("function", "class"):
            parent = node.parent
            node = parent if parent is not None and parent.type == "decorated_definition" else node
        called, outer = self._name(kind, node, name)
        if not called:
            return
        start, end = node.start_byte, node.end_byte
        split = end if body is None or body.start_byte <= start else body.start_byte
        head = self.data[start:split].rstrip()
        rows = node.start_point.row, node.end_point.row
        last = rows[1] + 1 if node.end_point.column or rows[1] == rows[0] else rows[1]
        first = rows[0] + 1
        head_end = min(last, first + head.count(b"\n"))
        hashes = _digest(head), _digest(self.data[split:end])
        definition = Definition(called, called, kind, first, last, head_end, *hashes)
        self.spans.append(_Span(start, end, outer, definition, split))

    def _name(self, kind: str, node: Node, name: Node) -> tuple[str, str]:
        """The name, and what the text itself says that it belongs to."""
        if self.language in C_FAMILY:
            inner: Node | None = name
            while inner is not None and inner.type.endswith(("_declarator", "reference_declarator")):
                below = inner.child_by_field_name("declarator")
                last_child = inner.named_children[-1] if inner.named_children else None
                inner = below if below is not None else last_child
            *outer, last = "".join(text_of(inner).split()).split("::")
            return last, ".".join(part.partition("<")[0] for part in outer)
        spelled = text_of(name).strip("\"'")
        if self.language == "go" and kind == "method":
            words = _WORD.findall(text_of(node.child_by_field_name("receiver")).partition("[")[0])
            return spelled, words[-1] if words else ""
        if kind == "implementation":
            return spelled.partition("<")[0].rpartition("::")[2], ""
        return spelled, ""

    def _macro_items(self, node: Node) -> None:
        """Rust: items inside a macro such as `cfg_fs! { mod fs; }` are tokens to the grammar. Read them as
        what they look like; of what a macro makes out of them nothing is known."""
        inside = self.data[node.start_byte + 1 : node.end_byte - 1]
        if self.macros >= MACROS or (b"mod " not in inside and b"use " not in inside):
            return
        reading = _Reading(self.known, self.known.parser.parse(inside), inside, macros=self.macros + 1)
        row = node.start_point.row
        self.imports += [
            (node.start_byte, replace(imported, line=imported.line + row))
            for imported in reading.extract().facts.imports
        ]

    def _nested(self) -> tuple[tuple[Definition, ...], tuple[Call, ...], list[tuple[str, ...]]]:
        """One sweep over the text: what stands in what."""
        spans = [
            next(same)
            for _, same in groupby(
                sorted(self.spans, key=lambda span: (span.start_byte, -span.end_byte, span.name)),
                key=lambda span: (span.start_byte, span.end_byte, span.name),
            )
        ]
        self.ranges = tuple((span.start_byte, span.body_byte, span.end_byte) for span in spans)
        events: list[tuple[int, int, int]] = [(span.start_byte, 0, i) for i, span in enumerate(spans)]
        events += [(call[0], 1, i) for i, call in enumerate(self.calls)]
        self.imports.sort(key=lambda pair: pair[0])
        events += [(at, 2, i) for i, (at, _) in enumerate(self.imports)]
        definitions: list[Definition] = []
        calls: list[Call] = []
        scopes: list[tuple[str, ...]] = []
        around: list[int] = []
        for at, what, index in sorted(events):
            while around and spans[around[-1]].end_byte <= at:
                around.pop()
            parent = around[-1] if around else -1
            if what == 0:
                definitions.append(_definition(spans[index], definitions, parent))
                around.append(index)
            elif what == 1:
                _, line, name, receiver = self.calls[index]
                calls.append(Call(name, receiver, line, parent))
            else:
                scopes.append(tuple(spans[i].name for i in around if spans[i].definition.kind == "namespace"))
        return tuple(definitions), tuple(calls), scopes

    def _code_only(self) -> bytes:
        """The text with blanks for comments and the insides of strings."""
        blank = bytearray(self.data)
        for node in QueryCursor(self.known.skipped).captures(self.tree.root_node).get("skip", ()):
            start, end = node.start_byte, node.end_byte
            inside = bytes(blank[start:end])
            blank[start:end] = b"\n".join(b" " * len(part) for part in inside.split(b"\n"))
        return bytes(blank)

    def _references(self, code: bytes) -> dict[str, tuple[int, ...]]:
        lines: dict[bytes, list[int]] = {}
        for number, line in enumerate(code.translate(_BLANKS).split(b"\n"), 1):
            for word in set(line.split()):
                lines.setdefault(word, []).append(number)
        keywords = KEYWORDS[self.language]
        references = ((word.decode("utf-8", "replace"), at) for word, at in lines.items())
        return {
            word: tuple(at) for word, at in sorted(references) if word.isidentifier() and word not in keywords
        }

    def _facts(self, imports: tuple[Import, ...], symbols: FileSymbols, code: bytes) -> Facts:
        top = frozenset(
            definition.name
            for definition in symbols.definitions
            if definition.parent == -1 and definition.kind not in ("method", *_UNREAD)
        )
        uses: frozenset[str] = frozenset()
        selected: frozenset[str] = frozenset()
        if self.language == "java":
            uses = frozenset(word for word in symbols.references if word[0].isupper()) - top
        elif self.language == "go":
            text = code.decode("utf-8", "replace")
            own = self.locals | top | KEYWORDS["go"]
            uses = frozenset(_UNSELECTED.findall(text)) - own
            pairs = _SELECTED.findall(text)
            selected = frozenset(f"{left}.{name}" for left, name in pairs if left not in self.locals)
        return Facts(self.language, imports, self.package, top, uses, selected)

    def _trouble(self) -> str:
        root = self.tree.root_node
        if not root.has_error or not self.data:
            return ""
        captures = QueryCursor(self.known.errors).captures(root)
        wrong = sum(_unread_bytes(node) for node in captures.get("error", ()))
        # A token named for its rule is the line end that some grammars want of a file's last line.
        invented = [node for node in captures.get("missing", ()) if "_token" not in node.type]
        wrong += MISSING_BYTES * len(invented)
        share = wrong / len(self.data)
        if share <= (ERROR_SHARE_C if self.language in C_FAMILY else ERROR_SHARE):
            return ""
        places = [*captures.get("error", ()), *invented]
        line = min(node.start_point.row for node in places) + 1
        return (
            f"does not parse: from line {line} on, {min(1.0, share):.0%} of the text is not {self.language}"
        )


def _unread_bytes(error: Node) -> int:
    """Bytes of an ERROR node that the parser made nothing of: it may span a whole file for one odd macro, with
    every declaration in it read."""
    return (error.end_byte - error.start_byte) - sum(
        child.end_byte - child.start_byte
        for child in error.named_children
        if child.type == "ERROR"
        or child.end_point.row > child.start_point.row
        or child.type.startswith(_WHOLE)
    )


def _definition(span: _Span, before: list[Definition], parent: int) -> Definition:
    around = before[parent] if parent >= 0 else None
    qualified = ".".join(filter(None, (around.qualified if around else "", span.outer, span.name)))
    kind = span.definition.kind
    if kind == "function" and around is not None and around.kind in _TYPES:
        kind = "method"
    return replace(span.definition, qualified=qualified, kind=kind, parent=parent)
