"""Worktrees are made, found again, brought up to date, merged and removed; nothing of an agent's vanishes."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from relay import cli
from relay.airspace.worktrees.changes import RepoChanges
from relay.airspace.worktrees.registry import WorktreeRegistry
from relay.airspace.worktrees.view import difference, rows
from relay.app.health import outside
from relay.app.health.context import survey
from relay.faces.worktrees import WorktreesService
from relay.git.checkout import UnusableCheckout, list_worktrees, open_checkout
from relay.model import Refusal
from tests.git.repository import UNRECORDED, Room, commit, git, lines, own_branch, repository, room, write


async def shown(one: Room) -> dict[str, dict[str, object]]:
    return {row["agent"]: row for row in (await rows(one.registry))[0]}


async def test_what_each_merge_would_do_to_the_others_is_told(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    one = await room(repo, "A", "B", "C", "D")
    write(one.at("A"), {"a.py": lines(1, 9) + "of a\n" + lines(11, 20)})
    write(one.at("B"), {"a.py": lines(1, 8) + "of b\nof b\n" + lines(11, 20), "b.py": "of b\n"})
    write(one.at("C"), {"b.py": "of c\n"})
    write(one.at("D"), {"new.py": "of d\n"})
    await one.look()
    found, order = await rows(one.registry)
    seen = {row["agent"]: row for row in found}
    assert {name: (row["merges"], row["into"]) for name, row in seen.items()} == dict.fromkeys(
        "ABCD", ("clean", "main")
    )
    assert {name: row["collides"] for name, row in seen.items()} == {
        "A": [{"agent": "B", "paths": ["a.py"]}],
        "B": [{"agent": "A", "paths": ["a.py"]}, {"agent": "C", "paths": ["b.py"]}],
        "C": [{"agent": "B", "paths": ["b.py"]}],
        "D": [],
    }
    assert [
        (turn["agent"], turn["first"], [hit["agent"] for hit in turn["sets_back"]]) for turn in order
    ] == [
        ("D", "", []),
        ("A", "", ["B"]),
        ("C", "", []),
        ("B", "merge main into its branch", []),
    ]
    # A person merges A by their own git: what is shown is of this moment, before anybody has surveyed again.
    commit(one.at("A"))
    git(repo, "merge", "-q", "--no-edit", own_branch("a"))
    seen = await shown(one)
    assert (seen["B"]["merges"], seen["B"]["conflicts"]) == ("conflicts", ["a.py"])
    assert seen["B"]["lines"] == {"a.py": [[9, 10]]}
    await one.look()
    seen = await shown(one)
    # It is with main that B collides now: A only has what main has.
    assert seen["A"]["merges"] == "nothing" and seen["A"]["collides"] == []
    write(one.at("A"), {"other.py": "more\n"})
    await one.look()
    seen = await shown(one)
    assert (seen["A"]["merges"], seen["A"]["collides"]) == ("clean", [])
    assert seen["B"]["collides"] == [{"agent": "C", "paths": ["b.py"]}]
    # Reset, as a person who takes the merge back.
    git(repo, "reset", "-q", "--hard", "HEAD~1")
    assert (await shown(one))["B"]["merges"] == "clean"


async def test_who_was_squashed_into_main_collides_with_nobody(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    one = await room(repo, "A", "B")
    write(one.at("A"), {"a.py": lines(1, 9) + "of a\n" + lines(11, 20)})
    write(one.at("B"), {"a.py": lines(1, 9) + "of b\n" + lines(11, 20)})
    commit(one.at("A"))
    await one.look()
    # A person merges A as one commit, as a service of pull requests does: main does not have A's own commits.
    git(repo, "merge", "-q", "--squash", own_branch("a"))
    git(repo, "commit", "-q", "-m", "squashed")
    held = await one.look()
    seen = await shown(one)
    assert (seen["A"]["merges"], seen["A"]["files"], held["A"].files) == ("nothing", 0, ())
    assert (seen["B"]["merges"], seen["B"]["collides"]) == ("conflicts", [])
    # B takes main in, and settles it: that A's own commits conflict with B stands in nobody's way.
    commit(one.at("B"))
    write(one.at("B"), {"a.py": lines(1, 9) + "of a\n" + lines(11, 20)})
    git(one.at("B"), "commit", "-q", "-a", "-m", "as in main")
    git(one.at("B"), "merge", "-q", "--no-edit", "main")
    write(one.at("B"), {"a.py": lines(1, 9) + "of a and b\n" + lines(11, 20)})
    await one.look()
    seen = await shown(one)
    assert (seen["B"]["merges"], seen["A"]["collides"], seen["B"]["collides"]) == ("clean", [], [])
    assert (await one.merges([("A", "B")]))["A", "B"].clean


async def test_a_look_at_an_older_commit_is_no_other_main_branch(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    one = await room(repo, "A")
    write(one.at("A"), {"a.py": lines(1, 9) + "of a\n" + lines(11, 20)})
    write(repo, {"a.py": lines(1, 9) + "of main\n" + lines(11, 20)})
    commit(repo)
    await one.look()
    assert (await shown(one))["A"]["merges"] == "conflicts"
    git(repo, "checkout", "-q", "--detach", "HEAD~1")
    await one.look()
    seen = (await shown(one))["A"]
    assert (seen["merges"], seen["into"]) == ("conflicts", "main"), (
        "nothing is merged into what has no branch"
    )
    git(repo, "checkout", "-q", "-b", "other")
    await one.look()
    seen = (await shown(one))["A"]
    assert (seen["merges"], seen["into"]) == ("clean", "other")


async def test_main_is_one_thing_for_all_while_head_is_detached(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    one = await room(repo, "A", "B")
    write(one.at("A"), {"a.py": "of a\n"})
    write(one.at("B"), {"b.py": "of b\n"})
    newest = commit(repo, {"c.py": "of main\n"})
    await one.look()
    git(repo, "checkout", "-q", "--detach", "HEAD~1")
    # What the agent changed is counted from main, not from where a person looks.
    git(one.at("A"), "merge", "-q", "main")
    assert await RepoChanges(repo, one.registry).changed_files("A") == ["a.py"]
    # Its files cannot follow a branch that is not checked out; what needs no files goes on.
    with pytest.raises(Refusal, match=r"is on no branch.*`git switch main`"):
        await one.actions.merge("B", "ann")
    done = await one.actions.discard("B", "ann")
    assert done["commit"] == newest == git(repo, "rev-parse", own_branch("b"))
    # A new agent begins where main is, and a branch goes with its worktree only if main has it.
    both = await room(repo, "A", "B")
    assert (await both.actions.remove("B", "ann"))["success"]
    assert own_branch("b") in git(repo, "branch", "--list", own_branch("b")), "nobody knows that main has it"
    git(repo, "branch", "-D", own_branch("b"))
    await one.registry.open()
    assert git(repo, "rev-parse", own_branch("b")) == newest
    assert (await one.actions.remove("B", "ann"))["success"]
    assert git(repo, "branch", "--list", own_branch("b")) == ""


async def test_a_squash_by_others_forwards_the_branch_too(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    one = await room(repo, "A", "B")
    work = commit(one.at("A"), {"a.py": "of a\n"})
    commit(one.at("B"), {"a.py": "of b\n", "b.py": "of b\n"})
    git(repo, "merge", "-q", "--squash", own_branch("a"))
    main = commit(repo, message="squashed")
    await one.look()
    (one.at("A") / "open.txt").write_text("not committed\n")
    await one.turns.before_turn("A")
    await one.turns.after_turn("A")
    assert git(repo, "rev-parse", own_branch("a")) == work, "what is not committed stays where it was begun"
    (one.at("A") / "open.txt").unlink()
    for name in ("A", "B"):
        await one.turns.before_turn(name)
        await one.turns.after_turn(name)
    assert git(repo, "rev-parse", own_branch("a")) == main
    forwarded = one.happened[-1]
    assert (forwarded.what, forwarded.agent, forwarded.commit) == ("forwarded", "A", main)
    assert git(repo, "rev-parse", forwarded.details["kept"]) == work
    assert git(one.at("A"), "status", "--porcelain") == ""
    await one.look()
    seen = await shown(one)
    assert (seen["A"]["ahead"], seen["A"]["behind"], seen["A"]["merges"]) == (0, 0, "nothing")
    assert (seen["B"]["ahead"], seen["B"]["behind"], seen["B"]["merges"]) == (1, 1, "conflicts")


async def test_after_a_start_on_no_branch_nobody_guesses_which_one_is_main(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    one = await room(repo, "A")
    write(one.at("A"), {"a.py": "of a\n"})
    commit(repo, {"c.py": "of main\n"})
    git(repo, "checkout", "-q", "--detach", "HEAD~1")
    one = await room(repo, "A")
    assert await one.registry.target() is None
    seen = (await shown(one))["A"]
    assert (seen["merges"], seen["into"]) == (None, None)
    state = await WorktreesService(UNRECORDED, one.registry, one.actions).state()
    assert "is on no branch" in state["trouble"] and "is not known" in state["trouble"]
    for act in (one.actions.merge, one.actions.discard):
        with pytest.raises(Refusal, match=r"is on no branch.*is not known.*Check out the branch"):
            await act("A", "ann")
    assert await RepoChanges(repo, one.registry).changed_files("A") is None
    git(repo, "checkout", "-q", "main")
    assert (await shown(one))["A"]["into"] == "main"
    assert (await WorktreesService(UNRECORDED, one.registry, one.actions).state())["trouble"] == ""


# -- made and found again


async def test_each_agent_that_can_edit_gets_one(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    one = await room(repo, "CLAUDE", "A_B-C")
    assert {name: git(one.at(name), "branch", "--show-current") for name in ("CLAUDE", "A_B-C")} == {
        "CLAUDE": own_branch("claude"),
        "A_B-C": own_branch("a_b-c"),
    }
    assert one.at("CLAUDE") == repo / ".relay" / "worktrees" / "claude"
    assert (one.at("CLAUDE") / "a.py").read_text() == lines(1, 20)
    assert git(one.at("CLAUDE"), "status", "--porcelain") == git(repo, "status", "--porcelain") == ""
    assert [each.what for each in one.happened] == ["created", "created"]


async def test_a_restart_keeps_them_with_their_work(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    one = await room(repo, "A")
    write(one.at("A"), {"a.py": "mine\n"})
    again = await room(repo, "A")
    assert again.happened == []
    assert list(await again.files("A")) == ["a.py"]


async def test_a_folder_that_was_deleted_comes_back_from_its_branch(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    one = await room(repo, "A")
    commit(one.at("A"), {"a.py": "mine\n"})
    shutil.rmtree(one.at("A"))
    again = await room(repo, "A")
    assert [each.what for each in again.happened] == ["recreated"]
    assert (again.at("A") / "a.py").read_text() == "mine\n"


async def test_a_folder_deleted_while_the_room_runs(tmp_path: Path) -> None:
    one = await room(repository(tmp_path / "repo"), "A")
    at = one.at("A")
    shutil.rmtree(at)
    assert "A" not in await one.look("A")
    assert "gone" in one.registry.troubles["A"]
    place = await one.turns.before_turn("A")
    assert place is not None and (place.cwd / "a.py").exists()
    assert one.registry.troubles == {}


async def test_a_locked_one_that_is_gone_comes_back(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    one = await room(repo, "A")
    git(repo, "worktree", "lock", str(one.at("A")))
    shutil.rmtree(one.at("A"))
    again = await room(repo, "A")
    assert (again.at("A") / "a.py").exists()


async def test_a_branch_from_before_is_taken_up(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    git(repo, "branch", own_branch("a"))
    git(repo, "checkout", "-q", own_branch("a"))
    commit(repo, {"a.py": "old work\n"})
    git(repo, "checkout", "-q", "main")
    one = await room(repo, "A")
    assert (one.at("A") / "a.py").read_text() == "old work\n"
    assert (await one.look())["A"].committed == 1


async def test_a_branch_that_is_checked_out_elsewhere(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    git(repo, "worktree", "add", "-q", "-b", own_branch("a"), str(tmp_path / "else"))
    one = await room(repo, "A", "B")
    assert (
        "checked out in" in one.registry.troubles["A"]
        and str(tmp_path / "else") in one.registry.troubles["A"]
    )
    assert list(one.registry.worktrees) == ["B"]
    assert await one.turns.before_turn("A") is None


async def test_something_else_in_its_place(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    write(repo, {".relay/worktrees/a/precious": "x"})
    one = await room(repo, "A")
    assert "not a worktree of" in one.registry.troubles["A"]
    assert (repo / ".relay" / "worktrees" / "a" / "precious").read_text() == "x"


@pytest.mark.parametrize("there", ["tw", "tw/ann", "tw/ann/a/more", "tw/Ann/old", "tw/ann/A"])
async def test_a_branch_that_git_cannot_have_beside_it(tmp_path: Path, there: str) -> None:
    repo = repository(tmp_path / "repo")
    git(repo, "config", "user.name", "Ann")
    git(repo, "branch", there)
    one = await room(repo, "A", "B")
    assert f"a branch called {there} is in the way of tw/ann/a: rename it" in one.registry.troubles["A"]
    git(repo, "branch", "-m", there, "other")
    assert (await room(repo, "A", "B")).registry.troubles == {}


async def test_a_branch_of_a_room_from_before_goes_on(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    old = repo / ".relay" / "worktrees" / "a"
    git(repo, "worktree", "add", "-q", "-b", "relay/a", str(old))
    git(repo, "branch", "relay/b")
    one = await room(repo, "A", "B", "C")
    branches = {name: git(one.at(name), "branch", "--show-current") for name in "ABC"}
    assert branches == {"A": "relay/a", "B": "relay/b", "C": own_branch("c")}
    head = commit(repo, {"a.py": "main\n"})
    for name in "ABC":
        await one.turns.before_turn(name)
        await one.turns.after_turn(name)
        assert git(one.at(name), "rev-parse", "HEAD") == head
    # What is in main goes with its worktree; then there is nothing from before.
    assert (await one.actions.remove("A", "ann"))["success"]
    assert git(repo, "branch", "--list", "relay/a") == ""
    again = await room(repo, "A")
    assert git(again.at("A"), "branch", "--show-current") == own_branch("a")


async def test_a_worktree_keeps_its_branch_whatever_its_person_is_called(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    git(repo, "config", "user.name", "Ann Lee")
    one = await room(repo, "A", "B")
    for name in "AB":
        commit(one.at(name), {"new.py": f"of {name}\n"})
    git(one.at("A"), "checkout", "-q", "-b", "elsewhere")
    git(repo, "config", "user.name", "Ben")
    shutil.rmtree(one.at("B"))
    again = await room(repo, "A", "B")
    assert again.registry.worktrees["A"].branch == own_branch("a", "Ann Lee") == "tw/ann-lee/a"
    assert (again.at("B") / "new.py").read_text() == "of B\n"
    assert git(again.at("B"), "branch", "--show-current") == "tw/ann-lee/b"


async def test_the_branches_of_two_agents_of_one_role_differ(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    git(repo, "config", "user.name", "Ann")
    roles = {"CLAUDE": {"role": "developer"}, "CODEX": {"role": "developer"}, "C": {"role": "qa"}}
    one = await room(repo, "CLAUDE", "CODEX", "C", "D", **roles)
    made = {name: git(one.at(name), "branch", "--show-current") for name in ("CLAUDE", "CODEX", "C", "D")}
    first, second = "tw/ann/developer", "tw/ann/developer-codex"
    assert made == {"CLAUDE": first, "CODEX": second, "C": "tw/ann/qa", "D": "tw/ann/d"}
    # Each goes on with its own.
    again = await room(repo, "CODEX", "CLAUDE", **{name: roles[name] for name in ("CODEX", "CLAUDE")})
    assert {name: again.registry.worktrees[name].branch for name in ("CLAUDE", "CODEX")} == {
        "CLAUDE": first,
        "CODEX": second,
    }


async def test_a_repository_that_was_moved_takes_its_worktrees_along(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    one = await room(repo, "A")
    write(one.at("A"), {"a.py": "mine\n"})
    repo.rename(tmp_path / "moved")
    again = await room(tmp_path / "moved", "A")
    assert again.registry.troubles == {}
    assert list(await again.files("A")) == ["a.py"]


async def test_one_that_was_made_and_not_filled(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    git(
        repo,
        "worktree",
        "add",
        "-q",
        "--no-checkout",
        "-b",
        own_branch("a"),
        str(repo / ".relay" / "worktrees" / "a"),
    )
    one = await room(repo, "A")
    assert (one.at("A") / "b.py").read_text() == lines(1, 10)
    assert await one.files("A") == {}


async def test_an_existing_checkout_is_named_instead(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    git(repo, "worktree", "add", "-q", "-b", "topic", str(tmp_path / "mine"))
    one = await room(repo, "A", A={"worktree": str(tmp_path / "mine")})
    assert one.at("A") == tmp_path / "mine"
    assert not (repo / ".relay" / "worktrees").exists()
    write(tmp_path / "mine", {"a.py": "x\n"})
    await one.look()
    seen = (await shown(one))["A"]
    assert (seen["own"], seen["branch"]) == (False, "topic")
    with pytest.raises(Refusal, match="uncommitted work"):
        await one.actions.merge("A", "ann")
    commit(tmp_path / "mine")
    assert (await one.actions.merge("A", "ann"))["success"]
    with pytest.raises(Refusal, match="not a worktree that relay made"):
        await one.actions.remove("A", "ann")


async def test_an_agent_that_is_taken_out_keeps_its_worktree(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    one = await room(repo, "A", "B")
    write(one.at("B"), {"a.py": "x\n"})
    fewer = Room(repo, "A")
    await one.registry.apply(fewer.settings)
    assert sorted(one.registry.worktrees) == ["A", "B"]
    assert list(await one.files("B")) == ["a.py"]


@pytest.mark.parametrize("worktrees", [True, False])
async def test_worktrees_can_be_switched_off(tmp_path: Path, worktrees: bool) -> None:
    repo = repository(tmp_path / "repo")
    one = await room(repo, "A", workspace={"worktrees": worktrees})
    assert (await one.turns.before_turn("A") is not None) is worktrees
    assert (repo / ".relay" / "worktrees").exists() is worktrees


@pytest.mark.parametrize("kind", ["none", "bare", "inside"])
async def test_where_there_can_be_none_it_is_said(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "repo"
    folder.mkdir()
    if kind == "bare":
        git(folder, "init", "-q", "--bare")
    if kind == "inside":
        repository(tmp_path / "other")
        folder = tmp_path / "other" / ".git"
    one = await room(folder, "A")
    assert "only read" in one.registry.trouble
    words = {"none": "not in a git repository", "bare": "bare repository", "inside": "git directory"}
    assert words[kind] in one.registry.trouble
    assert await one.turns.before_turn("A") is None


async def test_without_git_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repo = repository(tmp_path / "repo")
    monkeypatch.setenv("PATH", str(tmp_path))
    one = await room(repo, "A")
    assert "git is not installed" in one.registry.trouble


async def test_a_subfolder_is_the_same_subfolder(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo", {"pkg/a.py": "1\n"})
    one = await room(repo / "pkg", "A", "B", B={"cwd": "sub"})
    a, b = await one.turns.before_turn("A"), await one.turns.before_turn("B")
    assert a is not None and b is not None
    assert (a.cwd, b.cwd) == (one.at("A") / "pkg", one.at("B") / "pkg" / "sub")
    assert a.may_edit and b.cwd.is_dir()
    assert one.at("A") == repo / "pkg" / ".relay" / "worktrees" / "a"
    assert git(repo, "status", "--porcelain") == ""


# -- brought up to date


async def test_an_idle_clean_worktree_follows_the_main_branch(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    one = await room(repo, "A")
    head = commit(repo, {"a.py": "main\n", "new.py": "1\n"})
    (repo / "b.py").unlink()
    head = commit(repo)
    await one.turns.before_turn("A")
    at = one.at("A")
    assert git(at, "rev-parse", "HEAD") == git(at, "rev-parse", own_branch("a")) == head
    assert sorted(path.name for path in at.iterdir()) == [".git", "a.py", "new.py"]
    assert git(at, "status", "--porcelain") == ""
    assert one.happened[-1].what == "forwarded"


async def test_one_with_work_of_its_own_stays(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    one = await room(repo, "A", "B", "C")
    commit(one.at("A"), {"a.py": "committed\n"})
    write(one.at("B"), {"new.py": "untracked\n"})
    git(one.at("C"), "checkout", "-q", "-b", "elsewhere")
    heads = {name: git(one.at(name), "rev-parse", "HEAD") for name in "ABC"}
    commit(repo, {"b.py": "main\n", "new.py": "of main\n"})
    for name in "ABC":
        await one.turns.before_turn(name)
        assert git(one.at(name), "rev-parse", "HEAD") == heads[name]
    assert (one.at("B") / "new.py").read_text() == "untracked\n"


async def test_an_ignored_file_in_the_way_is_not_written_over(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo", {".gitignore": "secret\n"})
    one = await room(repo, "A")
    write(one.at("A"), {"secret": "mine\n"})
    write(repo, {"secret": "of main\n"})
    git(repo, "add", "-f", "secret")
    commit(repo)
    await one.turns.before_turn("A")
    assert (one.at("A") / "secret").read_text() == "mine\n"


async def test_what_a_turn_changed(tmp_path: Path) -> None:
    one = await room(repository(tmp_path / "repo"), "A")
    write(one.at("A"), {"b.py": "before the turn\n"})
    await one.turns.before_turn("A")
    write(one.at("A"), {"a.py": "x\n" + lines(2, 20), "new.py": "1\n2\n"})
    commit(one.at("A"))
    changes = await one.turns.after_turn("A")
    assert changes is not None
    assert changes.as_json() == {"branch": own_branch("a"), "files": 2, "insertions": 3, "deletions": 1}
    await one.turns.before_turn("A")
    assert await one.turns.after_turn("A") is None
    assert await one.turns.after_turn("A") is None


# -- merged


async def test_a_merge_brings_open_work_into_main(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    one = await room(repo, "A")
    at = one.at("A")
    commit(at, {"a.py": lines(1, 19) + "committed\n"})
    (at / "b.py").unlink()
    write(at, {"dir/new.py": "open\n"})
    commit(repo, {"a.py": "main\n" + lines(2, 20)})
    write(repo, {"mine.txt": "a person's, and no matter of the merge\n"})
    done = await one.actions.merge("A", "ann")
    assert done["success"] and f"ann merged {own_branch('a')} of A into main: 3 files" in done["reason"]
    assert (repo / "a.py").read_text() == "main\n" + lines(2, 19) + "committed\n"
    assert (repo / "dir" / "new.py").read_text() == "open\n" and not (repo / "b.py").exists()
    assert git(repo, "status", "--porcelain") == "?? mine.txt"
    log = git(repo, "log", "--format=%an <%ae> %s", "main").split("\n")
    assert log[0] == f"A <a@relay> Merge {own_branch('a')}: change"
    assert "A <a@relay> Change b.py and 1 more file" in log
    assert git(at, "rev-parse", "HEAD") == done["commit"] == git(repo, "rev-parse", "main")
    assert git(at, "status", "--porcelain") == ""
    await one.look()
    seen = (await shown(one))["A"]
    assert (seen["merges"], seen["files"]) == ("nothing", 0)


async def test_a_conflict_changes_nothing(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    one = await room(repo, "A")
    write(one.at("A"), {"a.py": "agent\n" + lines(2, 20), "b.py": "x\n"})
    commit(repo, {"a.py": "main\n" + lines(2, 20)})
    before = (
        git(repo, "for-each-ref"),
        git(repo, "status", "--porcelain"),
        git(one.at("A"), "status", "--porcelain"),
    )
    with pytest.raises(Refusal, match=r"conflict in a\.py"):
        await one.actions.merge("A", "ann")
    after = (
        git(repo, "for-each-ref"),
        git(repo, "status", "--porcelain"),
        git(one.at("A"), "status", "--porcelain"),
    )
    assert after == before
    await one.look()
    seen = (await shown(one))["A"]
    assert (seen["merges"], seen["conflicts"]) == ("conflicts", ["a.py"])


@pytest.mark.parametrize("staged", [True, False])
async def test_a_persons_open_work_is_never_written_over(tmp_path: Path, staged: bool) -> None:
    repo = repository(tmp_path / "repo")
    one = await room(repo, "A")
    write(one.at("A"), {"a.py": lines(1, 19) + "agent\n", "new.py": "agent\n"})
    write(repo, {"a.py": "person\n" + lines(2, 20)})
    if staged:
        git(repo, "add", "a.py")
    before = git(repo, "rev-parse", "main")
    with pytest.raises(Refusal, match=r"a\.py") as refused:
        await one.actions.merge("A", "ann")
    assert "uncommitted work" in str(refused.value)
    assert git(repo, "rev-parse", "main") == before
    assert (repo / "a.py").read_text() == "person\n" + lines(2, 20)
    assert not (repo / "new.py").exists()
    # The agent's work is committed by then, and loses nothing by it.
    git(repo, "stash", "-q")
    assert (await one.actions.merge("A", "ann"))["success"]
    assert (repo / "a.py").read_text() == lines(1, 19) + "agent\n"


async def test_open_work_elsewhere_stays_open(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    one = await room(repo, "A")
    write(one.at("A"), {"a.py": "agent\n"})
    write(repo, {"b.py": "person\n", "staged.py": "1\n"})
    git(repo, "add", "staged.py")
    assert (await one.actions.merge("A", "ann"))["success"]
    assert git(repo, "status", "--porcelain").split("\n") == [" M b.py", "A  staged.py"]


@pytest.mark.parametrize("ignored", [True, False])
async def test_a_file_that_git_does_not_know_is_not_written_over(tmp_path: Path, ignored: bool) -> None:
    repo = repository(tmp_path / "repo", {".gitignore": "new.py\n" if ignored else "x\n"})
    one = await room(repo, "A")
    write(one.at("A"), {"new.py": "agent\n"})
    git(one.at("A"), "add", "-f", "new.py")
    write(repo, {"new.py": "person\n"})
    with pytest.raises(Refusal, match=r"untracked files.*new\.py"):
        await one.actions.merge("A", "ann")
    assert (repo / "new.py").read_text() == "person\n"


async def test_what_is_under_way_is_ended_first(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    one = await room(repo, "A")
    write(one.at("A"), {"a.py": "x\n"})
    (repo / ".git" / "MERGE_HEAD").write_text(git(repo, "rev-parse", "HEAD") + "\n")
    with pytest.raises(Refusal, match="a merge is under way"):
        await one.actions.merge("A", "ann")
    (repo / ".git" / "MERGE_HEAD").unlink()
    git(repo, "checkout", "-q", "--detach")
    with pytest.raises(Refusal, match="on no branch"):
        await one.actions.merge("A", "ann")


async def test_an_agent_at_work_is_left_alone(tmp_path: Path) -> None:
    one = await room(repository(tmp_path / "repo"), "A")
    await one.turns.before_turn("A")
    write(one.at("A"), {"a.py": "x\n"})
    for act in (one.actions.merge, one.actions.remove):
        with pytest.raises(Refusal, match="at work"):
            await act("A", "ann")
    await one.turns.after_turn("A")
    assert (await one.actions.merge("A", "ann"))["success"]


async def test_what_relay_would_not_commit_is_asked_about(tmp_path: Path) -> None:
    one = await room(repository(tmp_path / "repo"), "A")
    repository(one.at("A") / "nested")
    write(one.at("A"), {"a.py": "x\n"})
    for act in (one.actions.merge, one.actions.remove):
        with pytest.raises(Refusal, match="nested/"):
            await act("A", "ann")
    assert (one.at("A") / "nested" / "a.py").exists()


async def test_a_main_branch_that_moves_meanwhile_is_not_written_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from relay.airspace.worktrees.merging import merge_into_main

    repo = repository(tmp_path / "repo")
    one = await room(repo, "A")
    write(one.at("A"), {"a.py": "agent\n"})
    real = merge_into_main.BranchMerger.commit_work

    async def meanwhile(self: merge_into_main.BranchMerger, *args: object) -> str:
        git(repo, "commit", "-q", "--allow-empty", "-m", "meanwhile")
        return await real(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(merge_into_main.BranchMerger, "commit_work", meanwhile)
    with pytest.raises(Refusal, match="changed while this ran"):
        await one.actions.merge("A", "ann")
    assert git(repo, "log", "-1", "--format=%s") == "meanwhile"
    assert git(repo, "status", "--porcelain") == "" and (repo / "a.py").read_text() == lines(1, 20)


# -- removed


async def test_a_removed_worktree_leaves_its_work_in_git(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    one = await room(repo, "A")
    at = one.at("A")
    head = commit(at, {"a.py": "committed\n"})
    write(at, {"b.py": "open\n", "new.py": "untracked\n"})
    done = await one.actions.remove("A", "ann")
    assert not at.exists() and "kept in" in done["reason"]
    assert git(repo, "rev-parse", own_branch("a")) == head
    assert git(repo, "show", f"{done['kept']}:b.py") == "open"
    assert git(repo, "show", f"{done['kept']}:new.py") == "untracked"
    assert [one.path for one in await list_worktrees((await open_checkout(repo)).git)] == [repo]
    git(repo, "gc", "-q", "--prune=now")
    assert git(repo, "show", f"{done['kept']}:new.py") == "untracked"


async def test_a_removed_worktree_without_work_leaves_nothing(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    one = await room(repo, "A")
    done = await one.actions.remove("A", "ann")
    assert done["kept"] is None
    assert git(repo, "for-each-ref", "--format=%(refname)") == "refs/heads/main"


async def test_commits_on_no_branch_are_kept(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    one = await room(repo, "A")
    git(one.at("A"), "checkout", "-q", "--detach")
    head = commit(one.at("A"), {"a.py": "detached\n"})
    done = await one.actions.remove("A", "ann")
    assert git(repo, "rev-parse", str(done["kept"])) == head


async def test_a_locked_one_is_not_removed(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    one = await room(repo, "A")
    git(repo, "worktree", "lock", "--reason", "on a stick", str(one.at("A")))
    with pytest.raises(Refusal, match="on a stick"):
        await one.actions.remove("A", "ann")


# -- shown


async def test_a_difference_is_cut_and_says_so(tmp_path: Path) -> None:
    one = await room(repository(tmp_path / "repo"), "A")
    write(one.at("A"), {"big.txt": lines(1, 150_000), "umlaut ü.txt": "ü\n"})
    told = await difference(one.registry, "a")
    assert told is not None
    assert told["truncated"] and told["diff"].endswith("\n")
    assert [file["path"] for file in told["files"]] == ["big.txt", "umlaut ü.txt"]
    assert await difference(one.registry, "NOBODY") is None


async def test_the_scratch_is_emptied_and_filled_again(tmp_path: Path) -> None:
    one = await room(repository(tmp_path / "repo"), "A", "B")
    write(one.at("A"), {"a.py": "a\n"})
    write(one.at("B"), {"a.py": "b\n"})
    before = await one.look()
    write(one.at("A"), {f"f{number}": f"{number}\n" for number in range(600)})
    await one.look()
    one.registry.scratch.most_objects = 1
    for path in (one.at("A")).glob("f*"):
        path.unlink()
    again = await one.look()
    loose = sum(1 for path in one.registry.scratch.folder.glob("objects/??/*"))
    assert loose < 50
    assert [file.path for file in again["A"].files] == [file.path for file in before["A"].files]
    assert (await one.merges([("A", "B")]))["A", "B"].conflicts == ("a.py",)
    worktree = one.registry.worktrees["A"]
    assert worktree.work is not None
    assert (
        await worktree.snapshotter.git.line("cat-file", "blob", f"{worktree.work.snapshot.tree}:a.py") == "a"
    )


async def test_open_checkout_says_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(UnusableCheckout, match="not in a git repository"):
        await open_checkout(tmp_path)


# -- the command and the health


def test_the_command_wants_an_agent_where_one_is_meant(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    repository(tmp_path / "repo")
    (tmp_path / "repo" / "config.json").write_text('{"agents": []}')
    at = ["--config", str(tmp_path / "repo" / "config.json")]
    assert cli.main(["worktrees", "merge", *at]) == 2
    assert cli.main(["worktrees", "list", "A", *at]) == 2
    assert cli.main(["worktrees", "discard", "A", "--anyway", *at]) == 2
    assert cli.main(["worktrees", "show", "NOBODY", *at]) == 1
    assert "no worktree of NOBODY" in capsys.readouterr().err
    assert cli.main(["worktrees", *at]) == 0
    assert capsys.readouterr().out == "No agent has a worktree.\n"
    assert cli.main(["worktrees", "--json", *at]) == 0
    assert json.loads(capsys.readouterr().out)["worktrees"] == []


async def test_without_a_room_the_command_makes_nothing(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    one = Room(repo, "A")
    bare = WorktreeRegistry(one.settings, one, scratch=tmp_path / "scratch.git", make=False)
    await bare.open()
    assert bare.worktrees == {} and not (repo / ".relay" / "worktrees").exists()
    await one.open()
    await bare.open()
    assert list(bare.worktrees) == ["A"]


@pytest.mark.parametrize(("kind", "status"), [("git", "ok"), ("empty", "warning"), ("none", "warning")])
async def test_the_health_says_whether_agents_only_read(tmp_path: Path, kind: str, status: str) -> None:
    folder = tmp_path / "repo"
    folder.mkdir()
    if kind == "git":
        repository(folder)
    if kind == "empty":
        git(folder, "init", "-q")
    told = {"agents": [{"name": "A", "kind": "scripted", "script": "x.yaml"}]}
    (folder / "config.json").write_text(json.dumps(told))
    check = await outside.worktrees(survey(str(folder / "config.json"), 0.0))
    assert str(check.status) == status
    assert ("only read" in check.detail) is (status == "warning")


async def test_what_is_committed_in_a_clone_is_merged(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    git(tmp_path, "clone", "-q", str(repo), "clone")
    commit(tmp_path / "clone", {"a.py": "theirs\n"})
    one = await room(repo, workspace={"checkouts": [{"name": "pat", "path": str(tmp_path / "clone")}]})
    done = await one.actions.merge("pat", "ann")
    assert done["success"] and (repo / "a.py").read_text() == "theirs\n"
    with pytest.raises(Refusal, match="nothing to merge"):
        await one.actions.merge("pat", "ann")


async def test_a_change_of_the_same_size_in_the_same_second_is_seen_and_kept(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo", {"a.py": "one\n"})
    git(repo, "config", "core.trustctime", "false")
    one = await room(repo, "A")
    at = one.at("A")
    # git goes by whole seconds: the entry, the file and the index are all of the same one, which is over.
    second = (at / "a.py").stat().st_mtime_ns - 100 * 1_000_000_000
    os.utime(at / "a.py", ns=(second, second))
    git(at, "update-index", "--refresh")
    os.utime(one.registry.worktrees["A"].checkout.index, ns=(second, second))
    (at / "a.py").write_text("two\n")
    os.utime(at / "a.py", ns=(second, second))
    assert list(await one.files("A")) == ["a.py"]
    done = await one.actions.remove("A", "ann")
    assert git(repo, "show", f"{done['kept']}:a.py") == "two"
