"""From real repositories of many shapes to working sets."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from relay.airspace.globs import matches
from relay.git.diff import Hunks, checksum, parse_patch, parse_raw, with_units
from relay.git.snapshot import Snapshotter
from relay.model.working_set import Change, FileTouch, Span
from tests.git.repository import Room, commit, git, lines, repository, room, write


def ranges(file: FileTouch) -> list[tuple[int, int]]:
    return [(span.start, span.end) for span in file.lines]


async def one_agent(tmp_path: Path, files: dict[str, str | bytes] | None = None) -> tuple[Room, Path]:
    one = await room(repository(tmp_path / "repo", files), "A")
    return one, one.at("A")


async def test_ranges_are_in_the_coordinates_of_the_base(tmp_path: Path) -> None:
    one, tree = await one_agent(tmp_path)
    text = lines(1, 20).splitlines(keepends=True)
    changed = ["new\n", *text[:4], "five\n", "and\n", *text[5:9], *text[11:], "end\n"]
    write(tree, {"a.py": "".join(changed)})
    file = (await one.files("A"))["a.py"]
    assert ranges(file) == [(1, 0), (5, 5), (10, 11), (21, 20)]
    assert [span.new_count for span in file.lines] == [1, 2, 0, 1]
    assert file.lines[0].checksum == checksum(b"new\n") and file.lines[2].checksum == 0
    assert (file.length, file.churn, file.change) == (20, 1, Change.MODIFIED)
    assert 0.9 < file.weight <= 1.0


async def test_committed_and_not_are_one_working_set(tmp_path: Path) -> None:
    one, tree = await one_agent(tmp_path)
    commit(tree, {"a.py": "first\n" + lines(2, 20)})
    commit(tree, {"b.py": lines(1, 9)})
    write(tree, {"a.py": "first\n" + lines(2, 19) + "last\n", "c.py": "x"})
    git(tree, "add", "c.py")
    found = (await one.look())["A"]
    assert {file.path: ranges(file) for file in found.files} == {
        "a.py": [(1, 1), (20, 20)],
        "b.py": [(10, 10)],
        "c.py": [(1, 0)],
    }
    assert found.committed == 2
    assert 0 < found.started_at <= time.time()


async def test_renames_deletes_and_additions(tmp_path: Path) -> None:
    one, tree = await one_agent(
        tmp_path, {"old.py": lines(1, 40), "gone.py": lines(1, 3), "moved.py": lines(1, 9, "m")}
    )
    (tree / "gone.py").unlink()
    (tree / "moved.py").rename(tree / "plain.py")
    (tree / "old.py").unlink()
    write(tree, {"dir/new.py": lines(1, 19) + "changed\n" + lines(21, 40), "added.py": "1\n2\n"})
    files = await one.files("A")
    assert {path: (file.change, file.new_path, ranges(file)) for path, file in files.items()} == {
        "old.py": (Change.RENAMED, "dir/new.py", [(20, 20)]),
        "moved.py": (Change.RENAMED, "plain.py", []),
        "gone.py": (Change.DELETED, None, [(1, 3)]),
        "added.py": (Change.ADDED, None, [(1, 0)]),
    }
    assert files["added.py"].lines[0].new_count == 2


async def test_equal_edits_have_equal_checksums(tmp_path: Path) -> None:
    one = await room(repository(tmp_path / "repo"), "A", "B", "C")
    for name, text in (("A", "same\n"), ("B", "same\n"), ("C", "other\n")):
        write(one.at(name), {"a.py": text + lines(2, 20)})
    sets = await one.look()
    sums = {name: each.files[0].lines[0].checksum for name, each in sets.items()}
    assert sums["A"] == sums["B"] != sums["C"]


async def test_a_missing_last_line_end_is_a_difference(tmp_path: Path) -> None:
    one = await room(repository(tmp_path / "repo"), "A", "B")
    write(one.at("A"), {"a.py": lines(1, 19) + "x"})
    write(one.at("B"), {"a.py": lines(1, 19) + "x\n"})
    sets = await one.look()
    a, b = (sets[name].files[0].lines[0] for name in "AB")
    assert (a.start, a.end, a.new_count) == (b.start, b.end, b.new_count) == (20, 20, 1)
    assert a.checksum != b.checksum


async def test_binary_files_have_no_lines(tmp_path: Path) -> None:
    one, tree = await one_agent(tmp_path, {"a.png": bytes(range(256)) * 4})
    write(tree, {"a.png": bytes(range(255, -1, -1)) * 4, "b.png": b"\0\1\2"})
    files = await one.files("A")
    assert {path: (file.binary, file.lines, file.length) for path, file in files.items()} == {
        "a.png": (True, (), None),
        "b.png": (True, (), None),
    }


@pytest.mark.parametrize("attributes", ["", "* text=auto\n", "*.txt text eol=crlf\n"])
async def test_line_ends_of_windows(tmp_path: Path, attributes: str) -> None:
    text = lines(1, 10).replace("\n", "\r\n")
    start: dict[str, str | bytes] = (
        {"a.txt": text, ".gitattributes": attributes} if attributes else {"a.txt": text}
    )
    one, tree = await one_agent(tmp_path, start)
    assert await one.files("A") == {}
    write(tree, {"a.txt": (tree / "a.txt").read_bytes().replace(b"line 4", b"four")})
    assert ranges((await one.files("A"))["a.txt"]) == [(4, 4)]


async def path_by_path(one: Room, monkeypatch: pytest.MonkeyPatch, paths: list[str]) -> None:
    """Look at these paths of A, and see that nothing else was looked at."""

    async def take(self: Snapshotter) -> None:
        raise AssertionError("all was looked at")

    with monkeypatch.context() as patch:
        patch.setattr(Snapshotter, "take", take)
        one.registry.worktrees["A"].mark_stale(paths)
        await one.registry.refresh()


async def test_path_by_path_is_as_all_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files: dict[str, str | bytes] = {
        "a.py": lines(1, 9),
        "b.py": "of b\n",
        "c.py": "1\n",
        ".gitignore": "*.log\n",
    }
    one, tree = await one_agent(tmp_path, files)
    (tree / "b.py").unlink()
    (tree / "c.py").chmod(0o755)
    write(tree, {"a.py": lines(1, 8) + "x\n", "new/x.py": "of x\n", "x.log": "1\n", ":(top)": "2\n"})
    told = ["a.py", "b.py", "c.py", "new/x.py", "x.log", "never-was", ":(top)"]
    await path_by_path(one, monkeypatch, told)
    found = (await one.registry.working_sets())[0]
    assert sorted(file.path for file in found.files) == [":(top)", "a.py", "b.py", "c.py", "new/x.py"]
    seen = one.registry.worktrees["A"].snapshot
    await one.look()
    again = one.registry.worktrees["A"].snapshot
    assert seen is not None and again is not None and seen.tree == again.tree


NAMES = [
    "with blank.py",
    'quote".py',
    "apostrophe'.py",
    "line\nend.py",
    "ümläut/ß.py",
    "tab\t.py",
    "*.py",
    ":(top)",
    "-rf",
    "back\\slash",
    "日本.py",
]


async def test_names_of_every_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, tree = await one_agent(tmp_path, {name: lines(1, 9) for name in NAMES})
    write(tree, {name: lines(1, 8) + "x\n" for name in NAMES[::2]})
    files = await one.files("A")
    assert sorted(files) == sorted(NAMES[::2])
    assert all(ranges(file) == [(9, 9)] for file in files.values())
    # And again path by path, as the watcher tells them.
    write(tree, {name: "x\n" + lines(2, 9) for name in NAMES[1::2]})
    await path_by_path(one, monkeypatch, NAMES[1::2])
    found = {file.path: file for file in (await one.registry.working_sets())[0].files}
    assert sorted(found) == sorted(NAMES)
    snapshotter = one.registry.worktrees["A"].snapshotter
    tree_id = (await snapshotter.take()).tree
    assert await snapshotter.git.line("cat-file", "blob", f"{tree_id}:ümläut/ß.py") == lines(1, 8) + "x"


async def test_a_name_that_is_not_utf_8(tmp_path: Path) -> None:
    one, tree = await one_agent(tmp_path)
    (tree / os.fsdecode(b"caf\xe9.txt")).write_text("x\n")
    assert list(await one.files("A")) == ["caf\\xe9.txt"]


async def test_modes_links_and_what_becomes_a_link(tmp_path: Path) -> None:
    one, tree = await one_agent(tmp_path, {"a.py": lines(1, 9), "b.py": lines(1, 9), "c.py": lines(1, 9)})
    (tree / "a.py").chmod(0o755)
    (tree / "b.py").unlink()
    (tree / "b.py").symlink_to("a.py")
    (tree / "link").symlink_to("/etc")
    files = await one.files("A")
    assert {path: (file.change, ranges(file)) for path, file in files.items()} == {
        "a.py": (Change.MODIFIED, []),
        "b.py": (Change.MODIFIED, [(1, 9)]),
        "link": (Change.ADDED, [(1, 0)]),
    }
    assert "c.py" not in files


async def test_a_file_becomes_a_folder_and_back(tmp_path: Path) -> None:
    one, tree = await one_agent(tmp_path, {"x": "1\n2\n3\n", "d/in": "4\n5\n6\n"})
    (tree / "x").unlink()
    write(tree, {"x/y": "other\n"})
    (tree / "d" / "in").unlink()
    (tree / "d").rmdir()
    write(tree, {"d": "now a file\n"})
    one.registry.worktrees["A"].mark_stale(["x", "x/y", "d", "d/in"])
    await one.registry.refresh()
    found = {file.path: file.change for file in (await one.registry.working_sets())[0].files}
    assert found == {"x": "D", "x/y": "A", "d/in": "D", "d": "A"}


async def test_submodules(tmp_path: Path) -> None:
    inner = repository(tmp_path / "inner")
    repo = repository(tmp_path / "repo")
    git(repo, "submodule", "--quiet", "add", str(inner), "sub")
    commit(repo)
    one = await room(repo, "A", workspace={"checkouts": [{"name": "ANN", "path": str(repo)}]})
    assert {name: each.files for name, each in (await one.look()).items()} == {"A": (), "ANN": ()}
    git(repo / "sub", "commit", "-q", "--allow-empty", "-m", "on")
    write(repo / "sub", {"a.py": "dirty inside\n"})
    assert [(file.path, ranges(file)) for file in (await one.look())["ANN"].files] == [("sub", [(1, 1)])]


async def test_a_repository_inside_is_left_out_and_said(tmp_path: Path) -> None:
    one, tree = await one_agent(tmp_path)
    repository(tree / "nested")
    write(tree, {"a.py": "x\n"})
    assert list(await one.files("A")) == ["a.py"]
    assert one.registry.worktrees["A"].snapshot is not None
    assert one.registry.worktrees["A"].snapshot.left_out == ("nested/",)


async def test_what_is_ignored_or_generated_is_out(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {
        ".gitignore": "*.log\nbuild/\n",
        ".gitattributes": "gen/* linguist-generated\n",
        "gen/x": "1\n",
    }
    repo = repository(tmp_path / "repo", files)
    one = await room(repo, "A", airspace={"ignored": ["**/*.min.js", "dist/"]})
    tree = one.at("A")
    (repo / ".git" / "info").mkdir(exist_ok=True)
    (repo / ".git" / "info" / "exclude").write_text("private\n")
    write(
        tree,
        {
            "x.log": "1",
            "build/a": "1",
            "gen/x": "2\n",
            "a.min.js": "1",
            "dist/d/e": "1",
            "private": "1",
            "real": "1",
        },
    )
    assert list(await one.files("A")) == ["real"]
    # What was added by force is work.
    git(tree, "add", "-f", "x.log")
    assert sorted(await one.files("A")) == ["real", "x.log"]


async def test_the_rooms_own_files_are_no_work(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    one = await room(repo, "A", workspace={"checkouts": [{"name": "ANN", "path": str(repo)}]})
    write(repo, {"speaker.lock": "1", ".relay/events.db": "1", "mine": "1"})
    assert [file.path for file in (await one.look())["ANN"].files] == ["mine"]
    assert git(repo, "status", "--porcelain", "--", ".relay") == ""


async def test_a_merge_in_the_branch_is_not_counted_as_work(tmp_path: Path) -> None:
    one, tree = await one_agent(tmp_path)
    commit(tree, {"a.py": "mine\n" + lines(2, 20)})
    commit(tmp_path / "repo", {"b.py": "theirs\n" + lines(2, 10)})
    git(tree, "merge", "-q", "--no-edit", "main")
    found = (await one.look())["A"]
    assert [(file.path, ranges(file)) for file in found.files] == [("a.py", [(1, 1)])]
    assert found.committed == 1


async def test_a_rebase_keeps_the_working_set_in_new_coordinates(tmp_path: Path) -> None:
    one, tree = await one_agent(tmp_path)
    commit(tree, {"a.py": lines(1, 19) + "mine\n"})
    commit(tmp_path / "repo", {"a.py": "one\ntwo\n" + lines(1, 20)})
    assert ranges((await one.files("A"))["a.py"]) == [(20, 20)]
    git(tree, "rebase", "-q", "main")
    assert ranges((await one.files("A"))["a.py"]) == [(22, 22)]
    work = one.registry.worktrees["A"].work
    assert work is not None and work.base == git(tmp_path / "repo", "rev-parse", "main")


async def test_in_the_middle_of_a_conflicting_merge(tmp_path: Path) -> None:
    one, tree = await one_agent(tmp_path)
    commit(tree, {"a.py": "mine\n" + lines(2, 20)})
    commit(tmp_path / "repo", {"a.py": "theirs\n" + lines(2, 20), "b.py": "more\n"})
    with pytest.raises(subprocess.CalledProcessError):
        git(tree, "merge", "-q", "main")
    files = await one.files("A")
    # As its branch stands against main: neither the markers of the conflict nor what main brings in is its work.
    assert ranges(files["a.py"])[0][0] == 1 and files["a.py"].lines[0].new_count == 1
    assert list(files) == ["a.py"]


async def test_a_detached_head(tmp_path: Path) -> None:
    one, tree = await one_agent(tmp_path)
    git(tree, "checkout", "-q", "--detach")
    commit(tree, {"a.py": "x\n"})
    found = (await one.look())["A"]
    assert [file.path for file in found.files] == ["a.py"]
    assert found.committed == 1


async def test_a_shallow_clone_and_a_clone_of_a_person(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    for number in range(3):
        commit(repo, {"b.py": lines(1, number + 1)})
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{repo}", "shallow")
    one = await room(tmp_path / "shallow", "A", workspace={"checkouts": [{"name": "ANN", "path": str(repo)}]})
    write(one.at("A"), {"a.py": "x\n" + lines(2, 20)})
    write(repo, {"a.py": "y\n" + lines(2, 20)})
    sets = await one.look()
    assert {name: [file.path for file in each.files] for name, each in sets.items()} == {
        "A": ["a.py"],
        "ANN": ["a.py"],
    }
    assert (await one.merges([("A", "ANN")]))["A", "ANN"].conflicts == ("a.py",)


async def test_a_sparse_checkout(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo", {f"d{n}/a.py": lines(1, 9) for n in range(4)})
    git(repo, "sparse-checkout", "set", "--cone", "--sparse-index", "d1")
    assert not (repo / "d2").exists()
    one = await room(repo, "A", workspace={"checkouts": [{"name": "ANN", "path": str(repo)}]})
    write(repo, {"d1/a.py": "x\n"})
    assert [file.path for file in (await one.look())["ANN"].files] == ["d1/a.py"]
    assert (await one.look())["A"].files == ()


async def test_a_split_index(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    git(repo, "update-index", "--split-index")
    one = await room(repo, workspace={"checkouts": [{"name": "ANN", "path": str(repo)}]})
    write(repo, {"a.py": "x\n"})
    assert list(await one.files("ANN")) == ["a.py"]


async def test_an_unreadable_file_is_left_out_and_said(tmp_path: Path) -> None:
    one, tree = await one_agent(tmp_path)
    write(tree, {"new": "1\n"})
    os.mkfifo(tree / "pipe")
    (tree / "a.py").unlink()
    os.mkfifo(tree / "a.py")
    assert "new" in await one.files("A")
    seen = one.registry.worktrees["A"].snapshot
    assert seen is not None and seen.left_out == ("a.py",)


async def test_a_first_commit_is_waited_for(tmp_path: Path) -> None:
    folder = tmp_path / "repo"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    one = await room(folder, "A")
    assert "no commit yet" in one.registry.trouble
    assert await one.turns.before_turn("A") is None
    commit(folder, {"a.py": "1\n"})
    place = await one.turns.before_turn("A")
    assert place is not None and (place.cwd / "a.py").read_text() == "1\n"


def test_a_changed_line_that_looks_like_a_header_is_a_changed_line() -> None:
    patch = (
        b"diff --git a b\nindex " + b"1" * 40 + b".." + b"2" * 40 + b" 100644\n--- a\n+++ b\n"
        b"@@ -3,2 +3,3 @@ def f():\n--- a\n-index 1..2\n+@@ -1 +1 @@\n+diff --git x y\n+++ b\n"
        b"@@ -9 +10 @@\n-x\n\\ No newline at end of file\n+y\n"
    )
    [(pair, hunks)] = parse_patch(patch).items()
    assert pair == ("1" * 40, "2" * 40)
    content = b"@@ -1 +1 @@\ndiff --git x y\n++ b\n"
    assert hunks == Hunks(
        (Span(3, 4, 3, checksum(content)), Span(9, 9, 1, checksum(b"y\n"))), insertions=4, deletions=3
    )


def test_a_raw_rename_has_both_paths() -> None:
    zero, one = b"0" * 40, b"1" * 40
    raw = (
        b":100644 100644 "
        + one
        + b" "
        + one
        + b" R100\0old\0new\0:000000 100644 "
        + zero
        + b" "
        + one
        + b" A\0x\ny\0"
    )
    first, second = parse_raw(raw)
    assert (first.path, first.new_path, first.change) == (b"old", b"new", Change.RENAMED)
    assert (second.path, second.new_path, second.change) == (b"x\ny", None, Change.ADDED)


def test_units_are_of_the_innermost_definition() -> None:
    outline = [(2, 20), (5, 9)]
    spans = with_units([Span(1, 1), Span(3, 4), Span(6, 6), Span(10, 9)], outline)
    assert [span.unit for span in spans] == [0, 2, 5, 2]


@pytest.mark.parametrize(
    ("glob", "path", "matched"),
    [
        ("*.lock", "a/b.lock", True),
        ("*.lock", "b.lock", True),
        ("/*.lock", "a/b.lock", False),
        ("**/go.sum", "go.sum", True),
        ("**/go.sum", "x/y/go.sum", True),
        ("src/**", "src/a/b", True),
        ("src/*", "src/a/b", False),
        ("dist/", "dist/a", True),
        ("dist/", "x/dist/a", True),
        ("a.c", "abc", False),
        ("?.py", "a.py", True),
    ],
)
def test_globs(glob: str, path: str, matched: bool) -> None:
    assert matches(path, [glob]) is matched
    assert not matches(path, [])
