"""Which files a command of a shell would write, before it runs: read with tree-sitter's grammar of Bash.

Invariants:
- nothing is run. Folders are only looked at, for what a pattern with `*` means;
- `Write.sure` is what the words themselves say. What depends on a program's own look at its files (a formatter over a
  folder), on a loop's or a condition's turn, or on a value that only the shell knows, is told as not sure or as a
  program that may write anywhere (`Writes.unknown`);
- a value that is not known here is never guessed: the word that holds it names no file.

Zsh's own forms are read as far as the grammar of Bash has them.
"""

from __future__ import annotations

import glob
import itertools
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

from relay.code.shell.calls import Call, Target, Write, Writes, script_in, wrapped
from relay.code.shell.programs import targets_of
from relay.code.shell.words import (
    MOST_VALUES,
    ansi,
    bare,
    braces,
    content,
    home_known,
    in_quotes,
    last_command,
    plain,
    text_of,
    tilde,
    unescaped,
)

#: Characters of a command that are read.
MOST_TEXT = 200_000
#: Turns of a loop that are followed.
MOST_TURNS = 100
#: Depth of commands in commands (`bash -c "bash -c ..."`).
MOST_DEEP = 6
_FILES_OF_ALL = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty"})


@cache
def _bash() -> Language:
    return Language(tree_sitter_bash.language())


def writes_of(command: str, cwd: str, env: Mapping[str, str] | None = None) -> Writes:
    """What `command`, run by a shell in the folder `cwd`, would write. `env`: the variables that are known, else HOME
    alone. Blocking: it looks at folders where a pattern asks for it."""
    shell = _Shell(cwd=os.path.abspath(cwd), known=dict(env or home_known()))
    shell.read(command)
    return Writes(tuple(shell.found.values()), tuple(shell.unknown))


@dataclass
class _Shell:
    """A shell as far as it can be followed without being run. `cwd` None: it went where nobody knows."""

    cwd: str | None
    known: dict[str, str]
    #: Variables with several values in turn, as of a loop; their names with no value: nobody knows.
    loops: dict[str, list[str] | None] = field(default_factory=dict)
    found: dict[tuple[str, bool], Write] = field(default_factory=dict)
    unknown: dict[str, None] = field(default_factory=dict)
    functions: dict[str, Node] = field(default_factory=dict)
    #: Redirections that stand above a list, by the command that they are of.
    redirects: dict[int, Node] = field(default_factory=dict)
    depth: int = 0
    #: How many conditions stand around what is read.
    maybe: int = 0

    def read(self, text: str) -> None:
        if len(text) > MOST_TEXT or self.depth > MOST_DEEP:
            self.unknown["a command that is too long to be read"] = None
            return
        self.depth += 1
        # A parser of its own: commands are read in several threads at once.
        self.visit(Parser(_bash()).parse(text.encode("utf-8", "surrogatepass")).root_node)
        self.depth -= 1

    def visit(self, node: Node, given: str | None = None) -> None:
        """A node of the tree in the order of its run. `given`: what a here-document gives it on standard input."""
        redirected = self.redirects.pop(node.id, None)
        if redirected is not None:
            self._with_redirects(redirected, node)
            return
        match node.type:
            case "command":
                self.command(node, given)
            case "redirected_statement":
                self.redirected(node)
            case "variable_assignment":
                self.assign(node)
            case "for_statement":
                self.loop(node)
            case "subshell" | "command_substitution" | "process_substitution":
                before, values = self.cwd, (dict(self.known), dict(self.loops))
                self.children(node)
                self.cwd, (self.known, self.loops) = before, values
            case "pipeline":
                before = self.cwd
                self.children(node)
                self.cwd = before
            case "if_statement" | "elif_clause" | "while_statement":
                conditions = node.children_by_field_name("condition")
                for condition in conditions:
                    self.visit(condition)
                rest = [child for child in node.named_children if child not in conditions]
                if node.type == "while_statement":
                    for child in rest:
                        self.visit(child)
                else:
                    self._perhaps(rest)
            case "else_clause" | "case_item":
                self._perhaps(node.named_children)
            case "list":
                self.visit(node.named_children[0])
                either = any(child.type == "||" for child in node.children)
                if either:
                    self._perhaps(node.named_children[1:])
                else:
                    for child in node.named_children[1:]:
                        self.visit(child)
            case "function_definition":
                name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
                if name is not None and body is not None:
                    self.functions[text_of(name)] = body
            case "comment" | "heredoc_body" | "heredoc_start" | "heredoc_end":
                pass
            case _:
                self.children(node)

    def _perhaps(self, nodes: Iterable[Node]) -> None:
        """What runs in some cases only."""
        self.maybe += 1
        for node in nodes:
            self.visit(node)
        self.maybe -= 1

    def children(self, node: Node) -> None:
        for child in node.named_children:
            self.visit(child)

    # Statements

    def redirected(self, node: Node) -> None:
        """`cd src && echo x > a.py`: the grammar hangs a redirection above the whole list, and it is of its last
        command."""
        body = node.child_by_field_name("body")
        if body is None or (last := last_command(body)) == body:
            self._with_redirects(node, body)
        else:
            self.redirects[last.id] = node
            self.visit(body)

    def _with_redirects(self, node: Node, body: Node | None) -> None:
        given, after = None, []
        for part in node.children_by_field_name("redirect"):
            if part.type == "heredoc_redirect":
                given, more = self._here(part)
                after += more
            elif part.type == "herestring_redirect":
                given = self._one(part.named_children[-1]) if part.named_children else None
        # Where the words of a redirection are looked up: before what runs goes elsewhere.
        for part in node.children_by_field_name("redirect"):
            if part.type == "file_redirect":
                given = self.redirect(part) or given
        if body is not None:
            self.visit(body, given) if body.type == "command" else self.visit(body)
        for rest in after:
            # `cat <<EOF | git apply`: the grammar hangs what follows on the line below the document.
            piped = rest.type == "pipeline" and body is not None and text_of(body) == "cat"
            first = rest.named_children[0] if rest.named_children else None
            if piped and first is not None and first.type == "command":
                self.visit(first, given)
                for other in rest.named_children[1:]:
                    self.visit(other)
            else:
                self.visit(rest)

    def _here(self, node: Node) -> tuple[str | None, list[Node]]:
        """The text of a here-document (None where only the shell knows it all), and the rest of its line, which the
        grammar hangs below it."""
        text: str | None = ""
        rest: list[Node] = []
        quoted = False
        for child in node.named_children:
            if child.type == "heredoc_start":
                quoted = (child.text or b"")[:1] in (b"'", b'"', b"\\")
            elif child.type == "heredoc_body":
                text = text_of(child) if quoted or not child.named_children or plain(child) else None
            elif child.type == "file_redirect":
                self.redirect(child)
            elif child.type != "heredoc_end":
                rest.append(child)
        return text, rest

    def redirect(self, node: Node) -> str | None:
        """A redirection; the text of the file that it gives on standard input, where that can be read."""
        operator = next((child.type for child in node.children if not child.is_named), "")
        to = node.child_by_field_name("destination")
        if to is None or ">" not in operator:
            self.children(node)
            paths = self.expanded(to) if to is not None and operator == "<" else None
            return content(self.cwd, paths[0], MOST_TEXT) if paths and len(paths) == 1 else None
        if operator in (">&", "<&") and re.fullmatch(r"\d+|-", text_of(to)):
            return None
        if text_of(to) == "!":
            to = node.children_by_field_name("destination")[-1]  # zsh's `>! FILE`
        self._inside(to)
        words = self.expanded(to)
        if words is None and to.type != "process_substitution":
            self.unknown["a redirection to a place that only the shell knows"] = None
        for path in words or ():
            self.write(Target(path))
        return None

    def assign(self, node: Node) -> None:
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        if name is None or name.type != "variable_name":
            return
        if value is not None:
            self._inside(value)
        words = [""] if value is None else self.values(value)
        self._set(text_of(name), [unescaped(word) for word in words] if words is not None else None)

    def _set(self, name: str, values: list[str] | None) -> None:
        self.known.pop(name, None)
        self.loops.pop(name, None)
        if values is not None and len(values) == 1:
            self.known[name] = values[0]
        else:
            self.loops[name] = values

    def loop(self, node: Node) -> None:
        name, body = node.child_by_field_name("variable"), node.child_by_field_name("body")
        values: list[str] | None = []
        for part in node.children_by_field_name("value"):
            self._inside(part)
            words = self.files([part]) if self.values(part) is not None else None
            values = None if values is None or words is None else [*values, *words]
        if body is None or name is None:
            return
        for value in values[:MOST_TURNS] if values is not None else [None]:
            self._set(text_of(name), None if value is None else [value])
            self.visit(body)

    # Commands

    def command(self, node: Node, given: str | None = None) -> None:
        words: list[list[str] | None] = []
        for child in node.children:
            if child.type == "variable_assignment":
                self._inside(child)
            elif child.type == "file_redirect":
                self.redirect(child)
            elif child.type == "herestring_redirect":
                given = self._one(child.named_children[-1]) if child.named_children else None
            elif child.is_named:
                self._inside(child)
                words.append(
                    self.expanded(child.named_children[0] if child.type == "command_name" else child)
                )
        self.run(words, given)

    def run(self, words: list[list[str] | None], given: str | None = None) -> None:
        """A command by its words, each with what it expands to (None: nobody knows)."""
        if not words or words[0] is None or not words[0]:
            return
        flat: list[str | None] = []
        for word in words:
            flat += [None] if word is None else word
        call = Call.of(flat, given, self.cwd)
        if flat[0] in self.functions:
            if self.depth < MOST_DEEP:
                self.depth += 1
                self.visit(self.functions[flat[0]])
                self.depth -= 1
        elif call.name in ("cd", "pushd", "chdir"):
            self._go(call)
        elif call.name == "popd":
            self.cwd = None
        elif call.name in ("read", "mapfile", "readarray", "getopts"):
            for each in call.words:
                if each and not each.startswith("-"):
                    self._set(each, None)
        elif call.name in ("export", "declare", "local", "readonly", "typeset"):
            for each in call.words:
                name, equals, value = (each or "").partition("=")
                if equals:
                    self._set(name, [value])
        elif (inner := script_in(call)) is not None:
            self._in_its_own(inner)
        elif (rest := wrapped(call)) is not None:
            self.run([[word] if word is not None else None for word in rest], given)
        else:
            targets, unknown = targets_of(call)
            for target in targets:
                self.write(target)
            if unknown:
                self.unknown[unknown] = None

    def _in_its_own(self, script: str) -> None:
        """A script that a shell of its own runs."""
        own = replace(self, known=dict(self.known), loops=dict(self.loops))
        own.read(script)

    def _go(self, call: Call) -> None:
        plain = [word for word in call.words if word is None or not word.startswith("-") or word == "-"]
        to = plain[0] if plain else self.known.get("HOME")
        if to is None or to == "-" or (self.cwd is None and not os.path.isabs(to)):
            self.cwd = None
        else:
            self.cwd = os.path.normpath(os.path.join(self.cwd or "/", to))

    def write(self, target: Target) -> None:
        path = target.path
        if not os.path.isabs(path):
            if self.cwd is None:
                self.unknown[f"a write of {path}, in a folder that is not known"] = None
                return
            path = os.path.join(self.cwd, path)
        path = os.path.normpath(path)
        if path in _FILES_OF_ALL or path.startswith(("/dev/fd/", "/proc/")):
            return
        below = target.below and os.path.isdir(path) and not os.path.islink(path)
        sure = target.sure and not self.maybe
        known = self.found.get((path, below))
        if known is None or (sure and not known.sure):
            self.found[path, below] = Write(path, below, sure)

    # Words

    def _inside(self, node: Node) -> None:
        """What runs inside a word."""
        if node.type in ("command_substitution", "process_substitution"):
            self.visit(node)
        else:
            for child in node.named_children:
                self._inside(child)

    def files(self, nodes: Iterable[Node]) -> list[str]:
        """The words of these with their patterns looked up; what is not known is left out."""
        return [word for node in nodes for word in self.expanded(node) or ()]

    def expanded(self, node: Node) -> list[str] | None:
        values = self.values(node)
        if values is None:
            return None
        return [path for value in values for path in self._matches(value)]

    def _one(self, node: Node) -> str | None:
        values = self.values(node)
        return unescaped(values[0]) if values and len(values) == 1 else None

    def _matches(self, pattern: str) -> list[str]:
        if glob.has_magic(pattern) and (self.cwd is not None or os.path.isabs(pattern)):
            found = glob.glob(pattern, root_dir=self.cwd, recursive=True)
            if found:
                return sorted(found)[:MOST_VALUES]
        return [unescaped(pattern)]

    def values(self, node: Node) -> list[str] | None:
        """What a word may be, as patterns for `glob` (what is quoted is escaped); None: only the shell knows."""
        match node.type:
            case "word" | "number" | "extglob_pattern" | "regex":
                return braces(tilde(bare(text_of(node)), self.known.get("HOME")))
            case "raw_string":
                return [glob.escape(text_of(node)[1:-1])]
            case "ansi_c_string":
                return [glob.escape(ansi(text_of(node)[2:-1]))]
            case "string" | "translated_string":
                return self._quoted(node)
            case "simple_expansion" | "expansion":
                return self._variable(node, quoted=False)
            case "concatenation":
                return self._joined(node)
            case "brace_expression":
                return braces(text_of(node))
            case "command_substitution" if text_of(node).strip("$()` \n") == "pwd" and self.cwd is not None:
                return [glob.escape(self.cwd)]
            case "variable_assignment":
                return [glob.escape(text_of(node))]
            case "process_substitution":
                return ["/dev/fd/63"]
            case _:
                return None

    def _quoted(self, node: Node) -> list[str] | None:
        values = [""]
        source, at = node.text or b"", node.start_byte + 1
        pieces: list[list[str] | None] = []
        # What stands between the named children is text too: the grammar leaves blanks at their edges out.
        for child in node.named_children:
            pieces.append([in_quotes(source[at - node.start_byte : child.start_byte - node.start_byte])])
            at = child.end_byte
            if child.type == "string_content":
                pieces.append([in_quotes(child.text or b"")])
            elif child.type in ("simple_expansion", "expansion"):
                pieces.append(self._variable(child, quoted=True))
            else:
                pieces.append(self.values(child))
        pieces.append([in_quotes(source[at - node.start_byte : -1])])
        for piece in pieces:
            if piece is None:
                return None
            values = [a + b for a, b in itertools.islice(itertools.product(values, piece), MOST_VALUES)]
        return values

    def _joined(self, node: Node) -> list[str] | None:
        """Pieces beside each other. The grammar takes braces apart; together they may be a list (`{a,b}.py`)."""
        values = [""]
        for child in node.children:
            piece = [text_of(child)] if child.type == "word" else self.values(child)
            if piece is None:
                return None
            if child.type == "word":
                piece = [bare(piece[0])]
            values = [a + b for a, b in itertools.islice(itertools.product(values, piece), MOST_VALUES)]
        home = self.known.get("HOME")
        return [word for value in values for word in braces(tilde(value, home))]

    def _variable(self, node: Node, *, quoted: bool) -> list[str] | None:
        names = [
            child for child in node.named_children if child.type in ("variable_name", "special_variable_name")
        ]
        if len(names) != 1 or text_of(node) not in (f"${text_of(names[0])}", f"${{{text_of(names[0])}}}"):
            return None  # ${name%.py} and its like
        name = text_of(names[0])
        if name == "PWD" and self.cwd is not None:
            return [glob.escape(self.cwd)]
        if name in self.known:
            values: list[str] | None = [self.known[name]]
        else:
            values = self.loops.get(name)
        if values is None:
            return None
        if quoted:
            return [glob.escape(value) for value in values]
        return [word for value in values for word in value.split()]
