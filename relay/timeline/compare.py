"""How the files stood at a moment of the timeline, and what two moments differ in.

Invariants:
- reads only, in git objects: no checkout is looked at, and no filter or driver runs;
- a tree that is not kept any more is said to be so. It is never taken for an empty one, nor for another one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from relay.git.diff import Record, changed_files
from relay.git.run import Git, GitError, name_of
from relay.log.encoding import dumps
from relay.model import Fault, Refusal
from relay.store.ports import Store, Tx
from relay.timeline import moments, reading
from relay.timeline.moments import Moment
from relay.timeline.projection import CHANGED, Q, last_tree

MAIN = "main"
#: Bytes of a file that are shown, and of one file's difference.
MOST_TEXT = 1_048_576
MOST_PATCH = 262_144
#: Bytes of all differences that are read in one go.
MOST_PATCHES = 32 * 1_048_576
#: Where git looks for a NUL to tell a binary file.
_LOOKED_AT = 8000
#: Who wrote what the log does not know.
_NOBODY = {"by": None, "event": None, "number": None, "at": None}
_KINDS = {"040000": "folder", "120000": "link", "160000": "submodule"}
_PATCH = ("diff-tree", "-r", "-p", "-M", "--full-index", "--no-color", "--no-ext-diff", "--no-textconv")


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """What stands in a folder of a tree. `kind`: file, folder, link, submodule; `size` in bytes, None of a folder."""

    path: str
    kind: str
    mode: str
    oid: str
    size: int | None


async def worktree_of(tx: Tx, lane: str | None) -> str:
    """Whose files a lane (an agent's or a person's name, a lane's key) stands for: an agent's worktree, or `main`
    for a person and for none. Raises Refusal (UNKNOWN) for a lane that there is not."""
    if lane is None or lane.casefold() == MAIN:
        return MAIN
    name = (await reading.lanes_of(tx, lane))[0].partition("/")[2]
    if name.startswith("human:"):
        return MAIN
    # Where several work in one checkout, it has the name of one of them.
    newest = await reading.page(tx, reading.Filter(name, types=(CHANGED,)), limit=1)
    return str(newest[0].outputs.get("worktree") or name) if newest else name


async def tree_at(tx: Tx, moment: Moment, lane: str | None = None) -> str:
    """The files at a moment: those that it names itself, else what `lane` (None = the main branch) had last. Gives
    git's id of a tree, or of a commit. Raises Refusal (UNKNOWN)."""
    if lane is None and moment.tree is not None:
        return moment.tree
    worktree = await worktree_of(tx, lane)
    known = await last_tree(tx, worktree, moment.pos)
    if known is not None:
        return known.tree
    first = await tx.one(Q.first_tree, worktree=worktree)
    whose = "the main branch's" if worktree == MAIN else f"{worktree}'s"
    raise Refusal(
        f"The log does not know {whose} files at {moment.words}.",
        f"It knows them since #{first['pos']}." if first else "It knows them from the first turn on.",
        Fault.UNKNOWN,
        "unknown_moment",
        details={"candidates": [f"#{first['pos']}"] if first else []},
    )


async def kept_tree(git: Git, tree: str, moment: Moment) -> str:
    """The whole id of this tree (or of this commit's). Raises Refusal (UNKNOWN) when git has it no more, GitError."""
    found = await git.maybe("rev-parse", "-q", "--verify", f"{tree}^{{tree}}")
    if found is not None:
        return found
    raise Refusal(
        f"The files of {moment.words} are not kept any more.",
        "`timeline.keep_days` says how long snapshots are kept; checkpoints are kept for ever.",
        Fault.UNKNOWN,
        "not_kept",
    )


async def folder(git: Git, tree: str, path: str = "") -> list[TreeEntry]:
    """What stands in a folder of a tree ("" = its top), as git sorts it. Raises Refusal (UNKNOWN), GitError."""
    path = _inside(path)
    within = f"{path}/" if path else ""
    listed = await git.run("ls-tree", "-l", "-z", "--full-tree", tree, *(["--", within] if within else []))
    entries = [_entry(line) for line in listed.out.split(b"\0") if line]
    if not entries and path:
        raise _no_file(path)
    return entries


def _entry(line: bytes) -> TreeEntry:
    about, _, path = line.partition(b"\t")
    mode, _, oid, size = about.decode("ascii").split()
    return TreeEntry(name_of(path), _KINDS.get(mode, "file"), mode, oid, None if size == "-" else int(size))


async def file(git: Git, tree: str, path: str) -> dict[str, Any]:
    """A file of a tree: `{path, kind, mode, blob, size, binary, cut, text}`. `text`: None for a binary file, the
    first `MOST_TEXT` bytes of a longer one (`cut`). Raises Refusal (UNKNOWN), GitError."""
    wanted = _inside(path)
    if not wanted:
        raise _no_file(path)
    listed = await git.run("ls-tree", "-l", "-z", "--full-tree", tree, "--", wanted)
    entries = [_entry(line) for line in listed.out.split(b"\0") if line]
    found = next((entry for entry in entries if entry.size is not None), None)
    if found is None:
        raise _no_file(path)
    assert found.size is not None
    content = b""
    if found.size <= MOST_TEXT * 16:
        content = (await git.run("cat-file", "blob", found.oid, most=MOST_TEXT * 17)).out
    binary = b"\0" in content[:_LOOKED_AT] or found.size > MOST_TEXT * 16
    return {
        "path": found.path,
        "kind": found.kind,
        "mode": found.mode,
        "blob": found.oid,
        "size": found.size,
        "binary": binary,
        "cut": len(content) > MOST_TEXT,
        "text": None if binary else content[:MOST_TEXT].decode("utf-8", "replace"),
    }


async def last_writers(tx: Tx, blobs: Mapping[str, str], until: int) -> dict[str, dict[str, Any]]:
    """Who wrote these contents (blob ids by path) last, up to this place in the log: `{by, event, number, at}` by
    path. What nobody in the log wrote is left out."""
    rows = await tx.all(Q.last_writers, blobs=dumps(dict(blobs)), until=until, main=reading.MAIN_LANE.key)
    return {
        row["path"]: {"by": row["lane"], "event": row["id"], "number": row["pos"], "at": row["at"]}
        for row in rows
    }


async def difference(git: Git, before: str, after: str, path: str = "") -> list[dict[str, Any]]:
    """In which files two trees differ: `[{path, kind, before, after, patch, from?}]`. `kind`: write, delete, rename
    (`from` = the old path), mode; `before`, `after`: blob ids, None = not there; `patch`: git's text, None for one
    that is too long to show. `path`: of this file or folder only. Raises GitError."""
    path = _inside(path)
    named = ["--", path] if path else []
    records = await changed_files(git, before, after, path=path)
    sections: list[str] = []
    if records:
        try:
            patches = await git.run(*_PATCH, before, after, *named, most=MOST_PATCHES)
            sections = await asyncio.to_thread(_sections, patches.out, records)
        except GitError as error:
            if error.code != -1:
                raise
    return [_shown(record, sections[at] if sections else None) for at, record in enumerate(records)]


async def tree_view(
    store: Store, git: Git, at: str | None, lane: str | None = None, path: str = ""
) -> dict[str, Any]:
    """A folder at a moment (None = now): `{moment, lane, tree, path, entries}`, an entry `{path, kind, mode, blob,
    size, by, event, number, at}`; `by` and the rest: who wrote what stands there last; null where the log does not
    know it, and of a folder. Raises Refusal, GitError."""
    moment, tree = await _looked_up(store, git, at, lane)
    entries = await folder(git, tree, path)
    blobs = {entry.path: entry.oid for entry in entries if entry.size is not None}
    writers = await store.read(lambda tx: last_writers(tx, blobs, moment.pos))
    shown = [_entry_view(entry, writers.get(entry.path)) for entry in entries]
    return {**_about(moment, lane), "tree": tree, "path": path.strip("/"), "entries": shown}


async def file_view(store: Store, git: Git, at: str | None, lane: str | None, path: str) -> dict[str, Any]:
    """A file at a moment (None = now): `file` with `moment`, `lane`, `tree`, and `by` as in `tree_view`. Raises
    Refusal, GitError."""
    moment, tree = await _looked_up(store, git, at, lane)
    found = await file(git, tree, path)
    writers = await store.read(lambda tx: last_writers(tx, {found["path"]: found["blob"]}, moment.pos))
    return {**_about(moment, lane), "tree": tree, **found, **(writers.get(found["path"]) or _NOBODY)}


async def diff_view(
    store: Store, git: Git, a: str, b: str | None, lane: str | None = None, path: str = ""
) -> dict[str, Any]:
    """What two moments differ in (`b` None = now): `{a, b, lane, path, files}`, with `files` as `difference` gives
    them. Raises Refusal, GitError."""
    before, tree_before = await _looked_up(store, git, a, lane)
    after, tree_after = await _looked_up(store, git, b, lane)
    files = await difference(git, tree_before, tree_after, path)
    return {
        "a": {**before.as_json(), "tree": tree_before},
        "b": {**after.as_json(), "tree": tree_after},
        "lane": lane,
        "path": path.strip("/"),
        "files": files,
    }


async def _looked_up(store: Store, git: Git, at: str | None, lane: str | None) -> tuple[Moment, str]:
    async def work(tx: Tx) -> tuple[Moment, str]:
        moment = await moments.newest(tx) if at is None else await moments.resolve(tx, at)
        return moment, await tree_at(tx, moment, lane)

    moment, tree = await store.read(work)
    return moment, await kept_tree(git, tree, moment)


def _about(moment: Moment, lane: str | None) -> dict[str, Any]:
    return {"moment": moment.as_json(), "lane": lane}


def _entry_view(entry: TreeEntry, writer: dict[str, Any] | None) -> dict[str, Any]:
    about = {
        "path": entry.path,
        "kind": entry.kind,
        "mode": entry.mode,
        "blob": entry.oid,
        "size": entry.size,
    }
    return {**about, **(writer or _NOBODY)}


def _sections(data: bytes, records: list[Record]) -> list[str]:
    """The text of each record. git shows a change of type (a file becomes a link) in two."""
    starts = [0, *(at + 1 for at in _found(data, b"\ndiff --git "))] if data else []
    parts = [data[start:end] for start, end in zip(starts, [*starts[1:], len(data)], strict=True)]
    texts, at = [], 0
    for record in records:
        count = 2 if record.letter == "T" else 1
        texts.append(b"".join(parts[at : at + count]).decode("utf-8", "replace"))
        at += count
    return texts if at == len(parts) else []


def _found(data: bytes, wanted: bytes) -> list[int]:
    """Where it stands. A line of a file never begins so: a sign stands in front of it."""
    places, at = [], data.find(wanted)
    while at >= 0:
        places.append(at)
        at = data.find(wanted, at + 1)
    return places


def _shown(record: Record, patch: str | None) -> dict[str, Any]:
    before, after = (oid if oid.strip("0") else None for oid in (record.old, record.new))
    kind = "delete" if after is None else "mode" if before == after else "write"
    moved: dict[str, Any] = {}
    if record.letter == "R":
        kind, moved = "rename", {"from": name_of(record.path)}
    if patch is not None and len(patch) > MOST_PATCH:
        patch = None
    return {
        "path": name_of(record.last_path),
        "kind": kind,
        "before": before,
        "after": after,
        "patch": patch,
        **moved,
    }


def _inside(path: str) -> str:
    """The path as git has it; empty = the top."""
    path = path.strip("/")
    if "\0" in path or (path and not {"", ".", ".."}.isdisjoint(path.split("/"))):
        raise _no_file(path)
    return path


def _no_file(path: str) -> Refusal:
    return Refusal(f"{path[:200]!r} is not there at that moment.", "", Fault.UNKNOWN, "unknown_path")
