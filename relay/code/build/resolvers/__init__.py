"""Resolves imports to files of the repository, by each language's own rules.

Invariant: a resolver is a pure function of one file's facts and of what it asks the `View`. It answers None for
what it cannot tell; a guess that could be any of several files is no answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from relay.code.build.index import View
from relay.code.build.resolvers import c, go, java, javascript, python, rust
from relay.code.read.facts import Facts, Import

#: (path, facts, import, view) -> the files; () = outside of the repository or unknown.
Resolver = Callable[[str, Facts, Import, View], Iterable[str]]
RESOLVERS: Mapping[str, Resolver] = {
    "python": python.resolve,
    "javascript": javascript.resolve,
    "typescript": javascript.resolve,
    "tsx": javascript.resolve,
    "go": go.resolve,
    "rust": rust.resolve,
    "java": java.resolve,
    "c": c.resolve,
    "cpp": c.resolve,
}
#: What a language lets a file use without an import: its own package.
_NEIGHBOURS: Mapping[str, Callable[[str, Facts, View], Iterable[str]]] = {
    "go": go.neighbours,
    "java": java.neighbours,
}


@dataclass(frozen=True, slots=True)
class Resolved:
    """`targets`: the files imported, sorted; `asked`: the keys of the index that were looked at."""

    targets: tuple[str, ...]
    asked: frozenset[str]


def resolve(path: str, facts: Facts, view: View) -> Resolved:
    """All imports of one file."""
    targets: set[str] = set()
    resolver = RESOLVERS.get(facts.language)
    if resolver is not None:
        for imported in facts.imports:
            targets.update(resolver(path, facts, imported, view))
    neighbours = _NEIGHBOURS.get(facts.language)
    if neighbours is not None:
        targets.update(neighbours(path, facts, view))
    targets.discard(path)
    return Resolved(tuple(sorted(targets)), frozenset(view.asked))
