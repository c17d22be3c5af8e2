"""Which files are read, in which language, with which grammar, and what is looked for in the syntax tree.

Invariants:
- a grammar and its queries are loaded at their first use, once a process; a daemon that never parses loads none;
- a match of `queries/*.scm` has `@name` and one `@<kind>` that spans the definition, and `@body` where it has one; or
  `@callee` and perhaps `@receiver`; or `@import`, a node that relay.code.read.imports reads.
"""

from __future__ import annotations

import keyword
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path

from tree_sitter import Language, Parser, Query

_SUFFIXES_OF = {
    "python": ".py .pyi",
    "javascript": ".js .jsx .mjs .cjs",
    "typescript": ".ts .mts .cts",
    "tsx": ".tsx",
    "go": ".go",
    "rust": ".rs",
    "java": ".java",
    "c": ".c .h",  # .h may be C++ too, which its text tells (extract.py)
    "cpp": ".cc .cpp .cxx .c++ .hh .hpp .hxx .h++ .inl .ipp .tpp",
}
SUFFIXES = {suffix: language for language, suffixes in _SUFFIXES_OF.items() for suffix in suffixes.split()}
#: Files that imports are resolved by, read as configuration.
CONFIGURATION = {
    "package.json": "package.json",
    "go.mod": "go.mod",
    "Cargo.toml": "Cargo.toml",
    "pyproject.toml": "python-root",
    "setup.py": "python",
    "setup.cfg": "python-root",
}
C_FAMILY = frozenset({"c", "cpp"})
_MODULES = {
    "tsx": ("tree_sitter_typescript", "language_tsx"),
    "typescript": ("tree_sitter_typescript", "language_typescript"),
}

_C_WORDS = (
    "auto break case char const continue default do double else enum extern float for goto if inline int long "
    "register restrict return short signed sizeof static struct switch typedef union unsigned void volatile while "
    "bool true false nullptr NULL class namespace template typename public private protected virtual override "
    "using new delete this operator friend constexpr noexcept try catch throw final explicit mutable decltype "
    "define include ifdef ifndef endif undef elif pragma defined"
)
_SCRIPT_WORDS = (
    "break case catch class const continue debugger default delete do else export extends finally for function if "
    "import in instanceof new return super switch this throw try typeof var void while with yield let static async "
    "await of get set null true false undefined interface type enum implements private public protected readonly "
    "declare namespace abstract as from keyof is string number boolean any never unknown"
)
_GO_WORDS = (
    "break case chan const continue default defer else fallthrough for func go goto if import interface map "
    "package range return select struct switch type var nil true false iota string int bool error byte any "
    "int64 int32 uint64 uint32 uint8 float64 make len append cap new panic recover copy delete"
)
_RUST_WORDS = (
    "as async await break const continue crate dyn else enum extern false fn for if impl in let loop match "
    "mod move mut pub ref return self Self static struct super trait true type unsafe use where while i32 u32 "
    "u8 u64 i64 usize bool str"
)
_JAVA_WORDS = (
    "abstract assert boolean break byte case catch char class const continue default do double else enum "
    "extends final finally float for goto if implements import instanceof int interface long native new "
    "package private protected public return short static strictfp super switch synchronized this throw "
    "throws transient try void volatile while true false null var record String Object Override"
)
_SCRIPT_KEYWORDS = frozenset(_SCRIPT_WORDS.split())
KEYWORDS = {
    "python": frozenset([*keyword.kwlist, "self", "cls"]),
    "javascript": _SCRIPT_KEYWORDS,
    "typescript": _SCRIPT_KEYWORDS,
    "tsx": _SCRIPT_KEYWORDS,
    "go": frozenset(_GO_WORDS.split()),
    "rust": frozenset(_RUST_WORDS.split()),
    "java": frozenset(_JAVA_WORDS.split()),
    "c": frozenset(_C_WORDS.split()),
    "cpp": frozenset(_C_WORDS.split()),
}
#: The files of `queries/` whose patterns a language has; without an entry, the one of its name.
_QUERIES = {
    "javascript": ("javascript", "script"),
    "typescript": ("typescript", "script"),
    "tsx": ("typescript", "script"),
    "cpp": ("cpp", "c"),
}
#: What has no names in it: comments, and the insides of strings.
_SKIPPED = {
    "python": "(comment) @skip (string_content) @skip",
    "javascript": "(comment) @skip (string_fragment) @skip (regex) @skip",
    "typescript": "(comment) @skip (string_fragment) @skip (regex) @skip",
    "tsx": "(comment) @skip (string_fragment) @skip (regex) @skip (jsx_text) @skip",
    "go": "(comment) @skip (interpreted_string_literal) @skip (raw_string_literal) @skip (rune_literal) @skip",
    "rust": "(line_comment) @skip (block_comment) @skip (string_content) @skip (char_literal) @skip",
    "java": "(line_comment) @skip (block_comment) @skip (string_literal) @skip (character_literal) @skip",
    "c": "(comment) @skip (string_content) @skip (system_lib_string) @skip (char_literal) @skip",
    "cpp": "(comment) @skip (string_content) @skip (system_lib_string) @skip (char_literal) @skip "
    "(raw_string_content) @skip",
}


def language_of(path: str) -> str | None:
    """The language that a path is read as, None = not read."""
    name = path.rpartition("/")[2]
    known = CONFIGURATION.get(name)
    if known is not None:
        return known
    _, dot, ending = name.rpartition(".")
    suffix = dot + ending
    if suffix == ".json" and name.startswith(("tsconfig", "jsconfig")):
        return "tsconfig"
    return SUFFIXES.get(suffix) or SUFFIXES.get(suffix.lower())


@dataclass(frozen=True, slots=True)
class Grammar:
    """A language ready to parse. `skipped` finds `@skip`, text in which words are no names."""

    name: str
    parser: Parser
    patterns: Query
    skipped: Query
    errors: Query


@cache
def tree_language(name: str) -> Language:
    """The grammar alone, without queries."""
    module, function = _MODULES.get(name, (f"tree_sitter_{name}", "language"))
    return Language(getattr(import_module(module), function)())


@cache
def grammar(name: str) -> Grammar:
    language = tree_language(name)
    folder = Path(__file__).parent / "queries"
    patterns = "\n".join((folder / f"{part}.scm").read_text("utf-8") for part in _QUERIES.get(name, (name,)))
    return Grammar(
        name,
        Parser(language),
        Query(language, patterns),
        Query(language, _SKIPPED[name]),
        Query(language, "(ERROR) @error (MISSING) @missing"),
    )
