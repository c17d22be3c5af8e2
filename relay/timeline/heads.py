"""The heads of many events at once, as columns: what a picture of a whole timeline needs, and nothing else.

Invariant: reads only. A page is a run of the timeline's events without a gap; the names in it stand once, in
dictionaries.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from relay.base.durations import parse_iso
from relay.log.encoding import dumps
from relay.log.imported import PREFIX
from relay.store.ports import Row, Tx
from relay.timeline import reading
from relay.timeline.others import SHORT, with_imported, with_origins
from relay.timeline.projection import Q

#: The types that are drawn.
TYPES = reading.TYPES
#: Heads of one page at most: read and drawn within a frame.
MOST_HEADS = 4096


@dataclass(slots=True)
class _Dictionary:
    """Texts by number, each once."""

    texts: list[str] = field(default_factory=list)
    _places: dict[str, int] = field(default_factory=dict)

    def place(self, text: str) -> int:
        found = self._places.get(text)
        if found is None:
            found = self._places[text] = len(self.texts)
            self.texts.append(text)
        return found


async def heads(
    tx: Tx, *, after: int = 0, before: int | None = None, path: str | None = None, limit: int = MOST_HEADS
) -> dict[str, Any]:
    """Up to `limit` heads in the order of the log: the newest before the number `before`, or without it the first
    behind `after`. `path`: only what changed this file, or a file in this folder. Other rooms' are among them.

    `{number, at, lane, who, type, files, file, word, change, unseen, tree, replica, causes, start, lanes, names,
    types, paths, words, changes, replicas, more}`. The first thirteen are columns, a value an event: `at` in
    milliseconds after `start` (Unix milliseconds); `lane`, `who`, `type`, `file`, `word`, `change`, `replica` are
    places in the lists, -1 = none; `who` its author and `word` what it did, as `relay.timeline.reading` says them;
    `files` how many it is about, `file` the first of them; `change` what was done to a worktree; `unseen` 1 = it
    wrote over what its author had not seen; `tree` 1 = it has a snapshot; `replica` the room that recorded it, -1 =
    this one (whose name is in the names of others: `CLAUDE@3f2a91bc`); `causes` the numbers of the events shown that
    it was caused by or depends on. `more`: there are others on the far side. Bookkeeping is left out.
    """
    return _columns(*await _page(tx, after, before, path, limit))


async def _page(
    tx: Tx, after: int, before: int | None, path: str | None, limit: int
) -> tuple[list[dict[str, Any]], bool]:
    """The rows that are shown, in the order of the log, with `files` and `causes` read; and are there more?"""
    kept, hidden, backward = list[dict[str, Any]](), set[int](), before is not None
    while True:
        positions, more = await _positions(tx, after, before, path, limit)
        drawn = dumps(with_imported(TYPES))
        rows = await tx.all(Q.timeline_heads, positions=dumps(positions), types=drawn)
        hidden |= _bookkeeping(rows)
        shown = [_read(*told) for told in await with_origins(tx, rows) if told[0]["pos"] not in hidden]
        # A page after one that lacked something may have too many.
        room = limit - len(kept)
        taken = shown[max(0, len(shown) - room) :] if backward else shown[:room]
        kept = [*taken, *kept] if backward else [*kept, *taken]
        more = more or len(taken) < len(shown)
        if not more or len(kept) == limit:
            break
        after, before = (after, positions[0]) if backward else (positions[-1], None)
    causes = {cause for row in kept for cause in row["causes"]} - {row["pos"] for row in kept} - hidden
    if causes:
        hidden |= _bookkeeping(await tx.all(Q.heads_at, positions=dumps(sorted(causes))))
    for row in kept:
        row["causes"] = [cause for cause in row["causes"] if cause not in hidden]
    return kept, more


def _bookkeeping(rows: Sequence[Row]) -> set[int]:
    return {row["pos"] for row in rows if reading.is_bookkeeping(row["type"], row["file_touches"])}


def _read(row: Row, replica: str | None) -> dict[str, Any]:
    files, causes = (json.loads(row[name] or "[]") for name in ("file_touches", "causes"))
    return {**row, "replica": replica, "files": files, "causes": sorted(causes)}


async def _positions(
    tx: Tx, after: int, before: int | None, path: str | None, limit: int
) -> tuple[list[int], bool]:
    inside = (path or "").strip("/")
    # One more than is wanted tells whether there are more. `0` is the character behind `/`.
    limits = {"after": after, "before": 2**62 if before is None else before, "limit": limit + 1}
    if inside:
        scope: dict[str, Any] = {"path": inside, "inside": f"{inside}/", "behind": f"{inside}0"}
        asks = (
            (Q.first_of_path, Q.first_imported_of_path)
            if before is None
            else (Q.newest_of_path, Q.imported_of_path)
        )
        every: dict[str, Any] = {} if before is None else {"lanes": "[]", "every": 1}
        found = [row["pos"] for ask in asks for row in await tx.all(ask, **scope, **limits, **every)]
    else:
        ask = Q.first_of_types if before is None else Q.newest_of_types
        found = [row["pos"] for row in await tx.all(ask, types=dumps(with_imported(TYPES)), **limits)]
    return sorted(sorted(found, reverse=before is not None)[:limit]), len(found) > limit


def _columns(rows: Sequence[Row], more: bool) -> dict[str, Any]:
    lanes, names, types, paths, words, changes, replicas = (_Dictionary() for _ in range(7))
    said = [_said(row) for row in rows]
    times = [round(parse_iso(row["at"]) * 1000) for row in rows]
    start = min(times, default=0)
    return {
        "number": [row["pos"] for row in rows],
        "at": [time - start for time in times],
        "lane": [lanes.place(f"{row['session']}/{row['lane']}") for row in rows],
        "who": [names.place(who) for who, _, _, _ in said],
        "type": [types.place(row["type"].removeprefix(PREFIX)) for row in rows],
        "files": [len(row["files"]) for row in rows],
        "file": [paths.place(row["files"][0]) if row["files"] else -1 for row in rows],
        "word": [words.place(word) for _, word, _, _ in said],
        "change": [changes.place(change) if change else -1 for _, _, change, _ in said],
        "unseen": [unseen for _, _, _, unseen in said],
        "tree": [int(row["snapshot"] is not None) for row in rows],
        "replica": [replicas.place(row["replica"]) if row["replica"] else -1 for row in rows],
        "causes": [row["causes"] for row in rows],
        "start": start,
        "lanes": lanes.texts,
        "names": names.texts,
        "types": types.texts,
        "paths": paths.texts,
        "words": words.texts,
        "changes": changes.texts,
        "replicas": replicas.texts,
        "more": more,
    }


def _said(row: Row) -> tuple[str, str, str, int]:
    """Of an event: its author, its words, what it did to a worktree, and whether it wrote over what was not seen."""
    type_, outputs = row["type"], json.loads(row["outputs"] or "null")
    about = outputs if isinstance(outputs, dict) else {}
    who = reading.author_of(type_, row["lane"], outputs)
    return (
        who if row["replica"] is None else f"{who}@{row['replica'][:SHORT]}",
        reading.words_of(type_, outputs, row["lane"]),
        str(about.get("change", "")) if type_.removeprefix(PREFIX) == "worktree.changed" else "",
        int("unseen" in about),
    )
