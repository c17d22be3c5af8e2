"""The heads of many events at once, as columns: what a picture of a whole timeline needs, and nothing else.

Invariant: reads only. A page is a run of the timeline's events without a gap; the names in it stand once, in
dictionaries.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from relay.base.durations import parse_iso
from relay.base.terminal_text import safe_line
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
#: Characters of a name or of an event's word.
_SHORT = 80


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

    `{number, at, lane, who, type, files, file, word, unseen, tree, replica, causes, start, lanes, names, types,
    paths, words, replicas, more}`. The first twelve are columns, a value an event: `at` in milliseconds after
    `start` (Unix milliseconds); `lane`, `who`, `type`, `file`, `word`, `replica` are places in the lists, -1 = none;
    `files` how many it is about, `file` the first of them; `word` what it did in a word, its checkpoint's name, or
    with whom (a conflict's other side, to whom it was handed); `unseen` 1 = it wrote over what its author had not
    seen; `tree` 1 = it has a snapshot; `replica` the room that recorded it, -1 = this one (whose name is in the
    names of others: `CLAUDE@3f2a91bc`); `causes` the numbers of the timeline's events that it was caused by or
    depends on. `more`: there are others on the far side.
    """
    inside, drawn = (path or "").strip("/"), dumps(with_imported(TYPES))
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
        found = [row["pos"] for row in await tx.all(ask, types=drawn, **limits)]
    more = len(found) > limit
    positions = sorted(sorted(found, reverse=before is not None)[:limit])
    told = await with_origins(tx, await tx.all(Q.timeline_heads, positions=dumps(positions), types=drawn))
    rows = [row for row, _ in told]
    lanes, names, types, paths, words, replicas = (_Dictionary() for _ in range(6))
    times = [round(parse_iso(row["at"]) * 1000) for row in rows]
    start = min(times, default=0)
    return {
        "number": [row["pos"] for row in rows],
        "at": [time - start for time in times],
        "lane": [lanes.place(f"{row['session']}/{row['lane']}") for row in rows],
        "who": [names.place(_who(row, replica)) for row, replica in told],
        "type": [types.place(row["type"].removeprefix(PREFIX)) for row in rows],
        "files": [row["files"] for row in rows],
        "file": [_place(paths, row["file"]) for row in rows],
        "word": [_place(words, row["word"] and safe_line(str(row["word"]), _SHORT)) for row in rows],
        "unseen": [int(row["unseen"]) for row in rows],
        "tree": [int(row["snapshot"] is not None) for row in rows],
        "replica": [_place(replicas, replica) for _, replica in told],
        "causes": [sorted(json.loads(row["causes"] or "[]")) for row in rows],
        "start": start,
        "lanes": lanes.texts,
        "names": names.texts,
        "types": types.texts,
        "paths": paths.texts,
        "words": words.texts,
        "replicas": replicas.texts,
        "more": more,
    }


def _who(row: Row, replica: str | None) -> str:
    """Whose row of the picture it stands in, as `reading.author` says it; of another room with that room's mark."""
    name = str(row["agent"] or row["lane"]).rpartition("/")[2]
    shown = safe_line(name.removeprefix("human:"), _SHORT)
    return shown if replica is None else f"{shown}@{replica[:SHORT]}"


def _place(texts: _Dictionary, text: str | None) -> int:
    return -1 if not text else texts.place(text)
