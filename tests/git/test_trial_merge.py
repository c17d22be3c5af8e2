"""Speculative merges say what `git merge` would say."""

from __future__ import annotations

import subprocess
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from relay.airspace.worktrees.registry import scan_repo
from relay.airspace.worktrees.room import WorktreeRoom
from tests.git.repository import Room, commit, git, lines, own_branch, repository, room, write


def really(repo: Path, ours: str, theirs: str) -> tuple[str, ...]:
    """The files that a real merge of two commits leaves unmerged, in a checkout of its own."""
    at = repo.parent / "really"
    git(repo, "worktree", "add", "-q", "--detach", str(at), ours)
    try:
        try:
            git(at, "merge", "-q", "--no-edit", "--no-ff", theirs)
        except subprocess.CalledProcessError:
            unmerged = git(at, "ls-files", "-u", "-z").split("\0")
            return tuple(sorted({entry.partition("\t")[2] for entry in unmerged if entry}))
        return ()
    finally:
        git(repo, "worktree", "remove", "--force", str(at))


async def agree(one: Room) -> tuple[str, ...]:
    """What the trial merge says of A and B, after a real merge said the same."""
    await one.look()
    told = (await one.merges([("A", "B")]))["A", "B"]
    for name in "AB":
        commit(one.at(name))
    real = really(one.folder, own_branch("a"), own_branch("b"))
    assert bool(told.conflicts) == bool(real)
    assert set(told.conflicts) >= set(real)
    return told.conflicts


async def test_open_and_untracked_work_is_merged(tmp_path: Path) -> None:
    one = await room(repository(tmp_path / "repo"), "A", "B")
    write(one.at("A"), {"a.py": "a\n" + lines(2, 20), "both.py": "of a\n"})
    write(one.at("B"), {"a.py": lines(1, 19) + "b\n", "both.py": "of b\n"})
    assert await agree(one) == ("both.py",)


async def test_equal_edits_and_touching_ones(tmp_path: Path) -> None:
    one = await room(repository(tmp_path / "repo"), "A", "B")
    same = lines(1, 4) + "same\n" + lines(6, 20)
    write(one.at("A"), {"a.py": same, "b.py": lines(1, 4) + "a\n" + lines(6, 10)})
    write(one.at("B"), {"a.py": same, "b.py": lines(1, 5) + "b\n" + lines(7, 10)})
    assert await agree(one) == ("b.py",)


async def test_a_rename_against_an_edit_and_a_delete(tmp_path: Path) -> None:
    one = await room(
        repository(tmp_path / "repo", {"a.py": lines(1, 30), "b.py": lines(1, 30, "b")}), "A", "B"
    )
    (one.at("A") / "a.py").rename(one.at("A") / "new.py")
    write(one.at("B"), {"a.py": lines(1, 29) + "b\n"})
    (one.at("A") / "b.py").unlink()
    write(one.at("B"), {"b.py": lines(1, 29, "b") + "b\n"})
    assert await agree(one) == ("b.py",)


async def test_the_base_is_gits_own_across_a_merge_and_a_rebase(tmp_path: Path) -> None:
    one = await room(repository(tmp_path / "repo"), "A", "B")
    commit(one.at("A"), {"a.py": "a\n" + lines(2, 20)})
    git(one.at("B"), "merge", "-q", "--no-edit", own_branch("a"))
    write(one.at("B"), {"a.py": "b\n" + lines(2, 20)})
    # B builds on what A did: against the old main both change line 1, but there is nothing to conflict.
    assert await agree(one) == ()
    commit(tmp_path / "repo", {"b.py": "main\n"})
    git(one.at("A"), "rebase", "-q", "main")
    write(one.at("A"), {"b.py": "main\na\n"})
    # Its commit is another now, so B does not build on it any more.
    assert await agree(one) == ("a.py",)


async def test_unrelated_histories_are_unknown(tmp_path: Path) -> None:
    one = await room(repository(tmp_path / "repo"), "A", "B")
    git(one.at("B"), "checkout", "-q", "--orphan", "alone")
    commit(one.at("B"), {"a.py": "x\n"})
    await one.look()
    assert await one.merges([("A", "B"), ("A", "NOBODY")]) == {}


async def test_nothing_is_left_in_the_repository(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    one = await room(repo, "A", "B")
    before = git(repo, "count-objects", "-v"), git(repo, "for-each-ref")
    write(one.at("A"), {"a.py": "a\n"})
    write(one.at("B"), {"a.py": "b\n"})
    await one.look()
    assert (await one.merges([("A", "B")]))["A", "B"].conflicts
    assert (git(repo, "count-objects", "-v"), git(repo, "for-each-ref")) == before


edits = st.lists(
    st.tuples(st.integers(1, 20), st.integers(0, 3), st.lists(st.sampled_from(["x\n", "y\n"]), max_size=2)),
    max_size=3,
)


def edited(script: list[tuple[int, int, list[str]]]) -> str:
    text = lines(1, 20).splitlines(keepends=True)
    for at, gone, new in sorted(script, reverse=True):
        text[at - 1 : at - 1 + gone] = new
    return "".join(text)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(a=edits, b=edits)
async def test_random_edits_agree_with_a_real_merge(
    tmp_path_factory: object, a: list[tuple[int, int, list[str]]], b: list[tuple[int, int, list[str]]]
) -> None:
    folder = tmp_path_factory.mktemp("random")  # type: ignore[attr-defined]
    one = await room(repository(folder / "repo"), "A", "B")
    write(one.at("A"), {"a.py": edited(a)})
    write(one.at("B"), {"a.py": edited(b)})
    await agree(one)


async def test_a_repository_is_scanned_as_it_is(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    for name in ("one", "two"):
        git(repo, "worktree", "add", "-q", "-b", name, str(tmp_path / name))
        write(tmp_path / name, {"a.py": f"{name}\n"})
    before = git(repo, "count-objects", "-v")
    sets, merges = await scan_repo(tmp_path / "one", WorktreeRoom())
    assert {one.agent: [file.path for file in one.files] for one in sets} == {
        "main": [],
        "one": ["a.py"],
        "two": ["a.py"],
    }
    assert merges["one", "two"].conflicts == ("a.py",)
    assert merges["main", "one"].clean
    assert git(repo, "count-objects", "-v") == before and not (repo / ".relay").exists()
    # One is merged by hand: the other conflicts with the branch that has it now.
    git(repo, "merge", "-q", commit(tmp_path / "one"))
    _, merges = await scan_repo(repo, WorktreeRoom())
    assert merges["main", "two"].conflicts == ("a.py",) and merges["main", "one"].clean
