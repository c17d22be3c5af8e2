"""Builds and patches the graph, in the worker process.

Invariant: after any sequence of updates the edges are those of a build from scratch (tests/code), except that a file
that stopped parsing keeps its last good edges.
"""

from __future__ import annotations

from collections.abc import Mapping

from relay.code.build.index import Index, View
from relay.code.build.resolvers import Resolved, resolve
from relay.code.read.facts import Facts

#: What an update changed: importer -> all it imports now, None = the file is gone.
Patch = Mapping[str, tuple[str, ...] | None]


class Builder:
    """Facts in, edges out. `resolved`: what each file's imports lead to; `failed`: path -> why it does not parse."""

    def __init__(self) -> None:
        self._index = Index()
        self._askers: dict[str, set[str]] = {}
        self.resolved: dict[str, Resolved] = {}
        self.failed: dict[str, str] = {}

    @property
    def edges(self) -> dict[str, tuple[str, ...]]:
        return {path: resolved.targets for path, resolved in self.resolved.items()}

    def update(self, changes: Mapping[str, tuple[Facts, str] | None]) -> Patch:
        """Take in new facts with their trouble ("" = it parses), or None for a file that is gone."""
        keys: set[str] = set()
        dirty: set[str] = set()
        for path, change in changes.items():
            if change is None:
                self.failed.pop(path, None)
                keys |= self._index.put(path, None)
                dirty.add(path)
                continue
            facts, trouble = change
            if trouble:
                self.failed[path] = trouble
                if path in self._index.files:
                    continue  # its last good facts stay
            else:
                self.failed.pop(path, None)
            keys |= self._index.put(path, facts)
            dirty.add(path)
        for key in keys:
            dirty |= self._askers.get(key, set())
        edges: dict[str, tuple[str, ...] | None] = {}
        for path in dirty:
            self._again(path, edges)
        return edges

    def _again(self, path: str, edges: dict[str, tuple[str, ...] | None]) -> None:
        before = self.resolved.get(path)
        facts = self._index.files.get(path)
        if facts is None:
            if before is not None:
                edges[path] = None
                self._forget(path, before.asked)
                del self.resolved[path]
            return
        now = resolve(path, facts, View(self._index))
        asked = frozenset() if before is None else before.asked
        self._forget(path, asked - now.asked)
        for key in now.asked - asked:
            self._askers.setdefault(key, set()).add(path)
        self.resolved[path] = now
        if before is None or before.targets != now.targets:
            edges[path] = now.targets

    def _forget(self, path: str, keys: frozenset[str]) -> None:
        for key in keys:
            askers = self._askers[key]
            askers.discard(path)
            if not askers:
                del self._askers[key]
