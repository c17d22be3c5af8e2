"""The touches of an event, with the bytes of their paths and with the files' modes.

Invariant: the log shows paths as text and names blobs alone; the trees before and after an event have the rest.
Without them a mode is that of what stands, and a path that is not UTF-8 is found by how it is shown. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from relay.git.run import name_of
from relay.model.touches import Kind, Touch
from relay.timeline.rewind.tree_entries import Change, Entry

_FILE = "100644"


@dataclass(frozen=True, slots=True)
class TouchedEvent:
    """An event that touched files. `before` and `after`: the trees before and after it, which have the files' modes;
    None or a tree that git has not any more: modes are taken from what stands. `taken`: it is to be taken back;
    otherwise it is another's, and only its renames matter."""

    event: str
    touches: tuple[Touch, ...]
    before: str | None = None
    after: str | None = None
    taken: bool = True


@dataclass(frozen=True, slots=True)
class NamedTouch:
    """A touch with its path in bytes, and its entries."""

    path: bytes
    before: Entry | None
    after: Entry | None
    origin: bytes | None


def named_touches(
    one: TouchedEvent, changes: Mapping[bytes, Change], entries: Mapping[bytes, Entry]
) -> list[NamedTouch]:
    """The touches of an event by the bytes of their paths, with the modes that its trees have."""
    by_name: dict[str, list[bytes]] = {}
    for path in changes:
        by_name.setdefault(name_of(path), []).append(path)

    def oids(path: bytes) -> tuple[str | None, str | None]:
        before, after = changes[path]
        return oid_of(before), oid_of(after)

    used: set[bytes] = set()

    def bytes_of(touch: Touch) -> bytes:
        found = [path for path in by_name.get(touch.path, ()) if path not in used]
        same = [path for path in found if oids(path) == (touch.before, touch.after)]
        if same or found:
            path = (same or found)[0]
            used.add(path)
            return path
        plain = touch.path.encode("utf-8", "surrogateescape")
        if plain in entries or "\\x" not in touch.path:
            return plain
        # Without the event's trees, a path that is not UTF-8 is found by how it is shown.
        return next((path for path in entries if name_of(path) == touch.path), plain)

    paths = [bytes_of(touch) for touch in one.touches]
    shown = {touch.path: path for touch, path in zip(one.touches, paths, strict=True)}
    named = []
    for touch, path in zip(one.touches, paths, strict=True):
        before, after = changes.get(path, (None, None))
        stands = entries.get(path)
        mode = (after or before or stands or Entry(_FILE, "")).mode
        named.append(
            NamedTouch(
                path,
                _entry(touch.before, before, mode),
                _entry(touch.after, after, mode),
                shown.get(touch.origin, touch.origin.encode("utf-8", "surrogateescape"))
                if touch.kind is Kind.RENAME and touch.origin is not None
                else None,
            )
        )
    return named


def oid_of(entry: Entry | None) -> str | None:
    """The object of a file; None where there is no file."""
    return None if entry is None else entry.oid


def _entry(oid: str | None, in_tree: Entry | None, mode: str) -> Entry | None:
    return None if oid is None else Entry(in_tree.mode if in_tree is not None else mode, oid)
