"""How the files stood at a moment, and what two moments differ in."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from relay.git.run import Git
from relay.model import Fault, Refusal
from relay.store.ports import Tx
from relay.timeline import compare
from relay.timeline.checkpoints import CheckpointKind, make_checkpoint
from relay.timeline.file_changes import record_tree
from relay.timeline.projection import Q, rebuild
from tests.engines import BOTH
from tests.git.repository import git
from tests.timeline.rewind.parts import CLAUDE, CODEX, MAIN, Stage

pytestmark = BOTH
FILES: dict[str, str | bytes] = {
    "app.py": "one\ntwo\n",
    "docs/a.md": "a\n",
    "docs/b.md": "b\n",
    "logo": b"\0\1",
}


class Seen:
    """The stage, and what is asked of it."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage

    @property
    def git(self) -> Git:
        return self.stage.scratch.git(self.stage.main)

    async def tree(self, at: str | None = None, lane: str | None = None, path: str = "") -> dict[str, Any]:
        return await compare.tree_view(self.stage.store, self.git, at, lane, path)

    async def file(self, path: str, at: str | None = None, lane: str | None = None) -> dict[str, Any]:
        return await compare.file_view(self.stage.store, self.git, at, lane, path)

    async def diff(self, a: str, b: str | None = None, **more: Any) -> list[dict[str, Any]]:
        found = await compare.diff_view(self.stage.store, self.git, a, b, **more)
        files: list[dict[str, Any]] = found["files"]
        return files

    async def mark(self, name: str, tree: str) -> None:
        await self.stage.store.write(lambda tx: make_checkpoint(tx, CLAUDE, name, tree, CheckpointKind.USER))


@pytest.fixture
async def seen(tmp_path: Path) -> AsyncIterator[Seen]:
    stage = await Stage.open(tmp_path, FILES)
    await stage.give_worktree(CODEX)
    tree = git(stage.main.top, "rev-parse", "HEAD^{tree}")
    await stage.store.write(lambda tx: record_tree(tx, MAIN, "main", tree, commit="HEAD"))
    yield Seen(stage)
    await stage.store.close()


async def refused(asking: Any) -> Refusal:
    with pytest.raises(Refusal) as error:
        await asking
    return error.value


async def test_a_folder_says_who_wrote_what_stands_there(seen: Seen) -> None:
    first = await seen.stage.edit(CODEX, {"app.py": "one\nTWO\n"})
    second = await seen.stage.edit(CODEX, {"app.py": "one\n2\n", "docs/new.md": "n\n"})
    at_main = await seen.tree()
    assert [(entry["path"], entry["kind"], entry["by"]) for entry in at_main["entries"]] == [
        ("app.py", "file", None),
        ("docs", "folder", None),
        ("logo", "file", None),
    ]
    assert at_main["entries"][0]["size"] == 8
    of_codex = await seen.tree(f"#{second.pos}")
    assert (of_codex["tree"], of_codex["moment"]["number"]) == (second.snapshot, second.pos)
    app = of_codex["entries"][0]
    assert (app["by"], app["event"], app["number"]) == (CODEX.key, second.id, second.pos)
    # By the content that stood there, not by the newest write.
    assert (await seen.tree(first.id[:10]))["entries"][0]["event"] == first.id
    docs = await seen.tree("-0s", "CODEX", "docs/")
    assert [entry["path"] for entry in docs["entries"]] == ["docs/a.md", "docs/b.md", "docs/new.md"]
    assert docs["entries"][2]["by"] == CODEX.key


async def test_a_lane_is_shown_as_it_stood_and_main_without_one(seen: Seen) -> None:
    first = await seen.stage.edit(CODEX, {"app.py": "first\n"})
    await seen.stage.edit(CODEX, {"app.py": "second\n"})
    await seen.mark("here", first.snapshot or "")
    assert (await seen.file("app.py", f"#{first.pos}", "codex"))["text"] == "first\n"
    assert (await seen.file("app.py", None, CODEX.key))["text"] == "second\n"
    assert (await seen.file("app.py", None, "main"))["text"] == "one\ntwo\n"
    assert (await seen.file("app.py"))["text"] == "one\ntwo\n"
    assert (await seen.file("app.py", "here"))["text"] == "first\n"
    assert (await seen.file("app.py", "here", "CODEX"))["text"] == "second\n", "its own at that moment"
    assert first.snapshot is not None
    assert (await seen.file("app.py", first.snapshot[:8]))["text"] == "first\n"
    before = await refused(seen.file("app.py", "#1", "CODEX"))
    assert (before.fault, before.details["candidates"]) == (Fault.UNKNOWN, [f"#{first.pos}"])
    nobody = await refused(seen.file("app.py", None, "NOBODY"))
    assert (nobody.fault, nobody.code) == (Fault.UNKNOWN, "unknown_lane")


async def test_a_file_is_text_or_said_to_be_binary(seen: Seen, monkeypatch: pytest.MonkeyPatch) -> None:
    logo = await seen.file("logo")
    assert (logo["binary"], logo["text"], logo["size"]) == (True, None, 2)
    monkeypatch.setattr(compare, "MOST_TEXT", 4)
    cut = await seen.file("app.py")
    assert (cut["cut"], cut["text"], cut["size"]) == (True, "one\n", 8)
    for path in ("none.py", "docs", "../app.py", "", "a\0b"):
        assert (await refused(seen.file(path))).code == "unknown_path", path
    assert (await refused(seen.tree(None, None, "none"))).code == "unknown_path"


async def test_two_moments_differ_in_files_and_text(seen: Seen) -> None:
    edits = {
        "app.py": "one\nTWO\n",
        "docs/a.md": None,
        "docs/c.md": "b\n",
        "docs/b.md": None,
        "logo": b"\0\2",
    }
    event = await seen.stage.edit(CODEX, edits)
    await seen.mark("done", event.snapshot or "")
    files = {file["path"]: file for file in await seen.diff("#1", "done")}
    assert {path: file["kind"] for path, file in files.items()} == {
        "app.py": "write",
        "docs/a.md": "delete",
        "docs/c.md": "rename",
        "logo": "write",
    }
    assert files["docs/c.md"]["from"] == "docs/b.md"
    assert "-two\n+TWO\n" in files["app.py"]["patch"]
    assert "Binary files" in files["logo"]["patch"]
    assert files["docs/a.md"]["after"] is None
    assert (files["app.py"]["before"], files["app.py"]["after"]) == (
        git(seen.stage.main.top, "hash-object", "app.py"),
        git(seen.stage.worktrees[CODEX].top, "hash-object", "app.py"),
    )
    inside = [file["path"] for file in await seen.diff("#1", "done", path="docs/")]
    assert inside == ["docs/a.md", "docs/c.md"]
    assert await seen.diff("done", "done") == []
    later = await seen.stage.edit(CODEX, {"app.py": "3\n"})
    changed = await seen.diff(f"#{event.pos}", f"#{later.pos}", lane="CODEX")
    assert [file["path"] for file in changed] == ["app.py"]


async def test_a_file_that_becomes_a_link_keeps_the_others_texts(seen: Seen) -> None:
    top = seen.stage.worktrees[CODEX].top
    await seen.stage.edit(CODEX, {"zz.py": "diff --git a/x b/x\n"})
    (top / "docs" / "a.md").unlink()
    (top / "docs" / "a.md").symlink_to("b.md")
    event = await seen.stage.edit(CODEX, {"zz.py": "diff --git a/y b/y\n", "app.py": "1\n"})
    files = {file["path"]: file["patch"] for file in await seen.diff("#1", f"#{event.pos}")}
    assert files["docs/a.md"].count("diff --git") == 2
    assert "+diff --git a/y b/y" in files["zz.py"]
    assert files["app.py"].startswith("diff --git a/app.py b/app.py\n")


async def test_what_is_too_long_is_shown_without_its_text(
    seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    event = await seen.stage.edit(CODEX, {"app.py": "x\n" * 500, "docs/a.md": "A\n"})
    monkeypatch.setattr(compare, "MOST_PATCH", 500)
    files = {file["path"]: file["patch"] for file in await seen.diff("#1", f"#{event.pos}")}
    assert files["app.py"] is None
    assert "+A\n" in files["docs/a.md"]
    monkeypatch.setattr(compare, "MOST_PATCHES", 100)
    assert [file["patch"] for file in await seen.diff("#1", f"#{event.pos}")] == [None, None]


async def test_a_tree_that_is_not_kept_any_more_is_said(seen: Seen) -> None:
    gone = "1234abcd" * 5
    await seen.mark("lost", gone)
    error = await refused(seen.tree("lost"))
    assert (error.fault, error.code) == (Fault.UNKNOWN, "not_kept")
    assert "checkpoint lost" in str(error)


async def test_the_trees_are_rebuilt_row_by_row(seen: Seen) -> None:
    for number in range(3):
        await seen.stage.edit(CODEX, {"app.py": f"{number}\n"})

    async def rows(tx: Tx) -> list[Any]:
        found = [await tx.one(Q.last_tree, worktree="CODEX", until=until) for until in range(1, 8)]
        return [None if row is None else dict(row) for row in found]

    kept = await seen.stage.store.read(rows)
    assert len({row["tree"] for row in kept if row}) == 3
    await rebuild(seen.stage.store)
    assert await seen.stage.store.read(rows) == kept
