"""The files, what they declare, and which file asked for which key.

Invariant: resolving a file reads the repository only through a `View`, and a View records every key that it looked
at, found or not. So a change of a key concerns exactly the files that asked for it, and a patched graph equals one
that is built anew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Set
from itertools import takewhile
from types import MappingProxyType

from relay.code.read.facts import Facts
from relay.code.read.grammar import C_FAMILY

#: Declared names of a scope -> the files that declare each.
Names = Mapping[str, Set[str]]
_NONE: Names = MappingProxyType({})
_HEADERS = (".h", ".hh", ".hpp", ".hxx", ".h++", ".inl", ".ipp", ".tpp", ".inc")


def parent(path: str) -> str:
    """The folder of a path, "" at the top."""
    return path.rpartition("/")[0]


def below(folder: str, name: str) -> str:
    """The path of `name` in a folder, "" = the top."""
    return f"{folder}/{name}" if folder else name


def join(folder: str, relative: str) -> str | None:
    """`relative` from `folder`, without dots; None when it leaves the repository."""
    parts = folder.split("/") if folder else []
    for part in relative.split("/"):
        if part == "..":
            if not parts:
                return None
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts)


def ancestors(folder: str) -> Iterator[str]:
    """The folder and every one above it, "" last."""
    while folder:
        yield folder
        folder = parent(folder)
    yield ""


def shared_depth(first: str, second: str) -> int:
    """How many leading folders two paths share."""
    pairs = zip(first.split("/")[:-1], second.split("/")[:-1], strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def declared(path: str, facts: Facts) -> Iterator[tuple[str, str]]:
    """(scope, name) pairs that this file adds to the index."""
    folder, _, base = path.rpartition("/")
    stem = base.rpartition(".")[0]
    if facts.language == "python":
        if stem == "__init__":
            yield f"py:{folder.rpartition('/')[2]}", parent(folder)
        else:
            yield f"py:{stem}", folder
    elif facts.language == "go":
        yield f"gopkg:{folder}", facts.package
        for name in facts.names:
            yield f"go:{folder}:{facts.package}", name
    elif facts.language == "java":
        for name in facts.names:
            yield f"java:{facts.package}", name
    elif facts.language in C_FAMILY or base.endswith(_HEADERS):
        yield f"c:{base}", ""
    if base in ("setup.py", "setup.cfg", "pyproject.toml"):
        yield "pyroots", folder
    config = facts.config or {}
    if facts.language == "go.mod" and config.get("module"):
        yield f"gomod:{config['module']}", ""
    elif facts.language == "Cargo.toml" and config.get("name"):
        yield f"crate:{config['name']}", ""
    elif facts.language == "package.json" and config.get("name"):
        yield f"npm:{config['name']}", ""


def _is_python(facts: Facts | None) -> int:
    return int(facts is not None and facts.language == "python")


class Index:
    """Every file's facts, and what they declare by scope."""

    def __init__(self) -> None:
        self.files: dict[str, Facts] = {}
        self._scopes: dict[str, dict[str, set[str]]] = {}
        #: Folder -> Python files in it and below it.
        self._folders: Counter[str] = Counter()

    def put(self, path: str, facts: Facts | None) -> set[str]:
        """Add, replace or (None) remove a file. Returns the keys that now read differently."""
        before = self.files.get(path)
        if facts is None:
            self.files.pop(path, None)
        else:
            self.files[path] = facts
        changed: set[str] = set()
        if (before is None) != (facts is None):
            changed.add(f"={path}")
        if (before.config if before else None) != (facts.config if facts else None):
            changed.add(f"@{path}")
        old = set(declared(path, before)) if before else set()
        new = set(declared(path, facts)) if facts else set()
        for scope, name in old - new:
            names = self._scopes[scope]
            names[name].discard(path)
            if not names[name]:
                del names[name]
            if not names:
                del self._scopes[scope]
            changed.add(scope)
        for scope, name in new - old:
            names = self._scopes.setdefault(scope, {})
            names.setdefault(name, set()).add(path)
            changed.add(scope)
        return changed | self._count(path, _is_python(facts) - _is_python(before))

    def _count(self, path: str, step: int) -> set[str]:
        """Count a Python file in (1) or out (-1). Returns the keys of the folders that came or went."""
        changed: set[str] = set()
        for folder in ancestors(parent(path)) if step else ():
            self._folders[folder] += step
            if self._folders[folder] == (step > 0):
                changed.add(f"pydir:{folder}")
        return changed

    def has_folder(self, folder: str) -> bool:
        """Whether there are Python files in a folder or below it."""
        return self._folders[folder] > 0

    def scope(self, key: str) -> Names:
        return self._scopes.get(key, _NONE)


class View:
    """What one file's resolving sees of the index; `asked`: the keys that it looked at."""

    __slots__ = ("_index", "asked")

    def __init__(self, index: Index) -> None:
        self._index = index
        self.asked: set[str] = set()

    def has(self, path: str) -> bool:
        self.asked.add("=" + path)
        return path in self._index.files

    def has_folder(self, folder: str) -> bool:
        """Whether a folder holds Python files, at any depth."""
        self.asked.add("pydir:" + folder)
        return self._index.has_folder(folder)

    def config(self, path: str) -> Mapping[str, object] | None:
        """What is kept of a configuration file, None = there is none or it is broken."""
        self.asked.add("@" + path)
        facts = self._index.files.get(path)
        return None if facts is None else facts.config

    def scope(self, key: str) -> Names:
        self.asked.add(key)
        return self._index.scope(key)

    def first(self, paths: Iterable[str]) -> str | None:
        """The first of these that is a file."""
        return next((path for path in paths if self.has(path)), None)


def nearest(paths: Iterable[str], importer: str) -> str:
    """Of several files that would do, the one that shares the most folders with the importer; then the shorter
    path, then the alphabet."""
    return min(paths, key=lambda path: (-shared_depth(path, importer), path.count("/"), path))
