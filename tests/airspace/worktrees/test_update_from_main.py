"""relay takes the main branch into an agent's own worktree; the agent settles it by editing, without git."""

from __future__ import annotations

from contextlib import suppress
from inspect import isawaitable
from pathlib import Path
from subprocess import CalledProcessError
from typing import Any

import pytest

from relay.airspace.advisories.rules.set_back import update_set_back
from relay.airspace.advisories.wording import finds
from relay.airspace.worktrees.merging import update_from_main
from relay.airspace.worktrees.merging.merge_into_main import BranchMerger
from relay.airspace.worktrees.merging.proposal import MergeOptions
from relay.airspace.worktrees.merging.update_from_main import UpdateFromMain
from relay.airspace.worktrees.view import difference, rows
from relay.faces.landing import _why_not
from relay.faces.worktrees import stands
from relay.git.checkout import Checkout
from relay.git.merge_state import MERGE, WRITTEN, unsettled_lines
from relay.git.run import Git, GitError
from relay.git.scratch_repository import ScratchRepository
from relay.model import Refusal
from tests.git.repository import Room, commit, git, lines, own_branch, repository, room, write

Files = dict[str, str | bytes]


async def behind(
    tmp_path: Path, base: Files, mine: Files, main: Files, *, gone: tuple[str, ...] = ()
) -> Room:
    """A has changed `mine`, uncommitted, the main branch `main`; `gone`: files that A has deleted."""
    repo = repository(tmp_path / "repo", {"a.py": lines(1, 20), **base})
    one = await room(repo, "A")
    write(one.at("A"), mine)
    for name in gone:
        (one.at("A") / name).unlink()
    commit(repo, main)
    await one.look()
    return one


async def merges(one: Room) -> tuple[object, object]:
    await one.look()
    [row] = (await rows(one.registry))[0]
    return row["merges"], row["conflicts"]


async def stuck(one: Room) -> tuple[bool, bool]:
    """Do conflicts stand in A's files, and does a merge that can be given up?"""
    tried = (await one.registry.merge_trials.trials(await one.registry.target()))["A"]
    return tried.unsettled, tried.merging


async def turn(one: Room, edits: Files, *, take_main: bool = True) -> str:
    """One turn of an agent that edits files and runs no git; what it was told."""
    place = await one.turns.before_turn("A", take_main=take_main)
    assert place is not None
    write(one.at("A"), edits)
    await one.turns.after_turn("A")
    return place.note


MINE = lines(1, 9) + "mine\n" + lines(11, 20)
THEIRS = lines(1, 9) + "theirs\n" + lines(11, 20)
BOTH = lines(1, 9) + "mine\ntheirs\n" + lines(11, 20)


async def conflicting(tmp_path: Path) -> Room:
    return await behind(tmp_path, {}, {"a.py": MINE, "own.py": "own\n"}, {"a.py": THEIRS, "new.py": "new\n"})


def names_its_tree(at: Path) -> bool:
    """Has the newest commit its trailers?"""
    shown = git(at, "log", "-1", "--format=%T %(trailers:key=TimeWarp-Snapshot-Id,valueonly)").split()
    return len(shown) == 2 and shown[0] == shown[1]


async def test_what_is_settled_by_editing_is_committed_and_merges(tmp_path: Path) -> None:
    one = await conflicting(tmp_path)
    repo, at = tmp_path / "repo", one.at("A")
    one.names_events = True
    place = await one.turns.before_turn("A", take_main=True)
    assert place is not None and "a.py (lines 10-16)" in place.note
    text = (at / "a.py").read_text()
    assert all(mark in text for mark in ("<<<<<<<", "|||||||", "=======", ">>>>>>>")) and "line 10\n" in text
    assert (at / "new.py").read_text() == "new\n"
    assert git(at, "rev-parse", "MERGE_HEAD") == git(repo, "rev-parse", "main")
    assert git(at, "diff", "--name-only", "--diff-filter=U") == "a.py"
    assert git(at, "log", "--format=%an", "-1") == "A"
    assert await merges(one) == ("conflicts", ["a.py"])
    assert await stuck(one) == (True, True)
    write(at, {"a.py": BOTH})
    assert await merges(one) == ("clean", []), "settled, though not committed"
    changes = await one.turns.after_turn("A")
    assert changes is not None and changes.files == 1
    assert (changes.insertions, changes.deletions) == (1, 0), "a line of main beside its own, and no marker"
    assert git(at, "status", "--porcelain") == ""
    assert git(at, "rev-list", "--parents", "-1", "HEAD").split()[2] == git(repo, "rev-parse", "main")
    assert git(at, "log", "-1", "--format=%an|%s") == f"A|Merge main into {own_branch('a')}"
    assert names_its_tree(at)
    assert not (at / "MERGE_HEAD").exists() and git(at, "for-each-ref", MERGE, WRITTEN) == ""
    assert await merges(one) == ("clean", [])
    done = await one.actions.merge("A", "ann")
    assert done["success"] and (repo / "a.py").read_text() == BOTH
    assert (repo / "own.py").read_text() == "own\n"


async def test_markers_are_no_work_and_move_no_line(tmp_path: Path) -> None:
    """What people read of it while a merge is under way is what they read of it before."""
    mine = "first\n" + lines(2, 4) + "mine\n" + lines(6, 13) + "mine\n" + "more\n" + lines(15, 20)
    main = lines(1, 4) + "theirs\n" * 3 + lines(6, 13) + "theirs\n" + lines(15, 18) + "new\n" + lines(19, 20)
    one = await behind(tmp_path, {}, {"a.py": mine, "own.py": "own\n"}, {"a.py": main})

    async def told() -> list[object]:
        await one.look()
        [row] = (await rows(one.registry))[0]
        shown = await difference(one.registry, "A", "")
        assert shown is not None
        of_file = [
            (each["path"], each["insertions"], each["deletions"], each["new"]) for each in shown["files"]
        ]
        part = await difference(one.registry, "A", "a.py")
        assert part is not None
        said.append(shown["under_way"])
        assert part["diff"] == shown["diff"][: len(part["diff"])]
        return [row["lines"], row["insertions"], row["deletions"], of_file, shown["diff"], shown["truncated"]]

    said: list[str] = []
    before = await told()
    blobs = [git(one.at("A"), "hash-object", name) for name in ("a.py", "own.py")]
    files = [("a.py", 4, 3, blobs[0]), ("own.py", 1, 0, blobs[1])]
    assert before[:4] == [{"a.py": [[5, 5], [14, 15]]}, 5, 3, files]
    place = await one.turns.before_turn("A", take_main=True)
    assert place is not None and "a.py (lines 5-13, 22-29)" in place.note, (
        "as the agent finds them in its file"
    )
    assert await told() == before
    assert said == [
        "",
        "A merge is under way in A's worktree, with conflicts in a.py. You see what the branch itself changes "
        "there, without git's markers.",
    ]
    # One is settled, the other edited between its markers.
    text = (one.at("A") / "a.py").read_text()
    at = text.index(">>>>>>>")
    settled = text[: text.index("<<<<<<<")] + "both\n" + text[text.index("\n", at) + 1 :]
    write(one.at("A"), {"a.py": settled.replace("more\n", "")})
    await one.turns.after_turn("A")
    assert "A has not settled a.py (lines 14-15): the merge of main" in one.happened[-1].text
    assert (await told())[0] == {"a.py": [[14, 15]]}
    write(one.at("A"), {"a.py": mine})
    await told()
    assert said[-1] == "A merge is under way in A's worktree. No conflict is left in it."


async def test_markers_are_no_work_in_a_file_that_the_main_branch_has_renamed(tmp_path: Path) -> None:
    mine = lines(1, 4) + "mine\n" + lines(6, 20)
    one = await behind(tmp_path, {}, {"a.py": mine}, {"else.py": "else\n"})
    git(tmp_path / "repo", "mv", "a.py", "b.py")
    commit(tmp_path / "repo", {"b.py": lines(1, 4) + "theirs\n" + lines(6, 20)})

    async def told() -> list[object]:
        await one.look()
        [row] = (await rows(one.registry))[0]
        shown = await difference(one.registry, "A", "")
        assert shown is not None
        [file] = shown["files"]
        figures = (row["files"], row["insertions"], row["deletions"])
        return [*figures, file["path"], file["insertions"], file["deletions"], shown["diff"]]

    before = await told()
    assert before[:6] == [1, 1, 1, "a.py", 1, 1]
    await one.turns.before_turn("A", take_main=True)
    assert "<<<<<<<" in (one.at("A") / "b.py").read_text() and not (one.at("A") / "a.py").exists()
    assert await told() == before


async def test_the_names_of_the_branches_stand_behind_the_markers(tmp_path: Path) -> None:
    one = await conflicting(tmp_path)
    await turn(one, {})
    text = (one.at("A") / "a.py").read_text()
    assert f"<<<<<<< {own_branch('a')}\n" in text and ">>>>>>> main\n" in text
    assert await one.registry.scratch.git(one.registry.worktrees["A"].checkout).line("for-each-ref") == ""


async def test_a_clean_one_is_committed_at_once(tmp_path: Path) -> None:
    one = await behind(tmp_path, {}, {"own.py": "own\n"}, {"new.py": "new\n"})
    one.names_events = True
    assert "has merged main" in await turn(one, {})
    assert names_its_tree(one.at("A"))
    at = one.at("A")
    assert git(at, "status", "--porcelain") == "" and (at / "new.py").exists()
    assert any("no conflict" in each.text for each in one.happened)
    assert await turn(one, {}) == "", "once"


async def test_who_has_all_of_main_has_nothing_to_do(tmp_path: Path) -> None:
    one = await behind(tmp_path, {}, {"own.py": "own\n"}, {"new.py": "new\n"})
    for _ in range(2):
        place = await one.turns.before_turn("A", take_main=True)
        assert place is not None and place.done == f"{own_branch('a')} has all of main: nothing is left to do"
        await one.turns.after_turn("A")
    place = await one.turns.before_turn("A")
    assert place is not None and not place.done
    await one.turns.after_turn("A")
    commit(tmp_path / "repo", {"own.py": "other\n"})
    place = await one.turns.before_turn("A", take_main=True)
    assert place is not None and not place.done and "own.py (lines 1-6)" in place.note


async def test_a_merge_under_way_collides_with_nobody_that_the_branch_does_not(tmp_path: Path) -> None:
    """Others are compared with what the branch has, and not with git's markers, which touch every line around."""
    repo = repository(tmp_path / "repo", {"a.py": lines(1, 20)})
    one = await room(repo, "A", "B", "C")
    write(one.at("A"), {"a.py": MINE, "own.py": "own\n"})
    write(one.at("B"), {"a.py": lines(1, 14) + "beside\n" + lines(16, 20)})
    write(one.at("C"), {"a.py": lines(1, 9) + "other\n" + lines(11, 20)})
    commit(repo, {"a.py": THEIRS, "new.py": "new\n"})
    pairs = [("A", "B"), ("A", "C"), ("B", "C")]

    async def told() -> list[object]:
        sets = await one.look()
        meet = {pair: merge.conflicts for pair, merge in (await one.merges(pairs)).items()}
        collides = {
            row["agent"]: [each["agent"] for each in row["collides"]] for row in (await rows(one.registry))[0]
        }
        return [meet, collides, {touch.path: touch.lines for touch in sets["A"].files}]

    before = await told()
    assert before[:2] == [
        {("A", "B"): (), ("A", "C"): ("a.py",), ("B", "C"): ()},
        {"A": ["C"], "B": [], "C": ["A"]},
    ]
    assert await one.turns.before_turn("A", take_main=True) is not None
    assert await told() == before
    assert "<<<<<<<" in (one.at("A") / "a.py").read_text() and await stuck(one) == (True, True)


@pytest.mark.parametrize("left", ["<<<<<<< x\n", "=======\n", "||||||| y\n", ">>>>>>> z\n"])
async def test_no_marker_is_ever_committed(tmp_path: Path, left: str) -> None:
    one = await conflicting(tmp_path)
    head_before = git(one.at("A"), "rev-parse", "HEAD")
    await turn(one, {"a.py": BOTH + left})
    at = one.at("A")
    assert (
        git(at, "rev-parse", "-q", "--verify", "MERGE_HEAD") and git(at, "rev-parse", "HEAD~1") == head_before
    )
    assert await merges(one) == ("conflicts", ["a.py"])
    assert "A has not settled a.py (line 21)" in one.happened[-1].text
    with pytest.raises(Refusal, match="a merge is under way"):
        await one.actions.merge("A", "ann")
    # Staged by an agent that runs git, as it stands: still no.
    git(at, "add", "-A")
    note = await turn(one, {}, take_main=False)
    assert "a.py (line 22)" in note and await merges(one) == ("conflicts", ["a.py"])
    assert "begun to merge" in await turn(one, {"a.py": BOTH}, take_main=False)
    assert await merges(one) == ("clean", [])


async def test_lines_that_a_side_had_before_are_no_markers(tmp_path: Path) -> None:
    title = "Title\n=======\n"
    one = await behind(
        tmp_path, {"a.md": title + "x\n"}, {"a.md": title + "mine\n"}, {"a.md": title + "theirs\n"}
    )
    assert "a.md (lines 3-9)" in await turn(one, {"a.md": title + "both\n"})
    assert await merges(one) == ("clean", [])


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("mine_is_gone", [True, False])
async def test_a_file_that_one_side_deleted(tmp_path: Path, keep: bool, mine_is_gone: bool) -> None:
    repo = repository(tmp_path / "repo", {"d.py": "d\n"})
    one = await room(repo, "A")
    at = one.at("A")
    (at if mine_is_gone else repo).joinpath("d.py").unlink()
    write(repo if mine_is_gone else at, {"d.py": "d\nmore\n"})
    write(at, {"own.py": "own\n"})
    commit(repo)
    await one.look()
    place = await one.turns.before_turn("A", take_main=True)
    assert place is not None and "d.py (lines 1-5)" in place.note
    assert "no such file there" in (at / "d.py").read_text()
    assert await merges(one) == ("conflicts", ["d.py"])
    if keep:
        write(at, {"d.py": "d\nmore\n"})
    else:
        (at / "d.py").unlink()
    await one.turns.after_turn("A")
    assert git(at, "status", "--porcelain") == "" and (at / "d.py").exists() is keep
    assert (await merges(one))[0] == "clean"


async def test_a_binary_file_is_not_settled_until_it_is_another_or_a_person_adds_it(tmp_path: Path) -> None:
    one = await behind(tmp_path, {"b.bin": b"\0base"}, {"b.bin": b"\0mine"}, {"b.bin": b"\0theirs"})
    at = one.at("A")
    assert "no markers into b.bin" in await turn(one, {})
    assert await merges(one) == ("conflicts", ["b.bin"]) and (at / "b.bin").read_bytes() == b"\0mine"
    assert "A has not settled b.bin" in one.happened[-1].text
    git(at, "add", "b.bin")
    await turn(one, {}, take_main=False)
    assert await merges(one) == ("clean", [])
    assert git(at, "status", "--porcelain") == ""


async def test_a_binary_file_that_the_agent_replaces(tmp_path: Path) -> None:
    one = await behind(tmp_path, {"b.bin": b"\0base"}, {"b.bin": b"\0mine"}, {"b.bin": b"\0theirs"})
    await turn(one, {"b.bin": b"\0both"})
    assert await merges(one) == ("clean", [])


async def test_no_filter_hook_or_driver_runs(tmp_path: Path) -> None:
    one = await conflicting(tmp_path)
    repo, at = tmp_path / "repo", one.at("A")
    ran = tmp_path / "ran"
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    for name in ("pre-commit", "post-checkout", "post-merge", "commit-msg", "reference-transaction"):
        (hooks / name).write_text(f"#!/bin/sh\ntouch {ran}\n")
        (hooks / name).chmod(0o755)
    git(repo, "config", "core.hooksPath", str(hooks))
    git(repo, "config", "merge.mine.driver", f"touch {ran}")
    (repo / ".git" / "info").mkdir(exist_ok=True)
    (repo / ".git" / "info" / "attributes").write_text("* merge=mine\n")
    await turn(one, {"a.py": BOTH})
    assert not ran.exists() and await merges(one) == ("clean", [])
    assert (at / "a.py").read_text() == BOTH


async def test_files_of_a_filter_are_left_to_a_person(tmp_path: Path) -> None:
    base: Files = {".gitattributes": "*.big filter=big\n", "x.big": "x\n"}
    one = await behind(tmp_path, base, {"a.py": MINE}, {"a.py": THEIRS, "x.big": "y\n"})
    assert await turn(one, {}) == ""
    assert "git filter" in one.happened[-1].text and "x.big" in one.happened[-1].text
    assert (await merges(one))[0] == "conflicts" and not git(
        one.at("A"), "diff", "--name-only", "--diff-filter=U"
    )


async def test_files_of_a_filter_that_main_brings_are_left_to_a_person(tmp_path: Path) -> None:
    main: Files = {".gitattributes": "*.big filter=big\n", "x.big": "y\n"}
    one = await behind(tmp_path, {"x.big": "x\n"}, {"own.py": "own\n"}, main)
    before = git(one.at("A"), "rev-parse", "HEAD")
    assert await turn(one, {}) == ""
    assert "git filter" in one.happened[-1].text and "x.big" in one.happened[-1].text
    at = one.at("A")
    assert (at / "x.big").read_text() == "x\n" and git(at, "rev-parse", "HEAD~1") == before


async def test_a_merge_into_main_writes_no_file_of_a_filter_that_it_brings(tmp_path: Path) -> None:
    mine: Files = {".gitattributes": "*.big filter=big\n", "x.big": "y\n"}
    one = await behind(tmp_path, {}, {}, {"b.py": "b\n"})
    at = one.at("A")
    write(at, mine)
    git(at, "add", "-A")
    git(at, "commit", "-q", "-m", "by hand")
    await one.look()
    with pytest.raises(Refusal, match="git filter"):
        await one.actions.merge("A", "ann")
    assert not (tmp_path / "repo" / "x.big").exists()


async def test_a_person_gives_it_up_and_nothing_is_lost(tmp_path: Path) -> None:
    one = await conflicting(tmp_path)
    at = one.at("A")
    await turn(one, {"a.py": BOTH + "<<<<<<< x\n", "more.py": "more\n"})
    done = await one.actions.abort("A", "ann")
    assert (at / "a.py").read_text() == MINE and not (at / "new.py").exists()
    assert git(at, "status", "--porcelain") == "" and git(at, "log", "-1", "--format=%an") == "A"
    assert git(at, "show", f"{done['kept']}:more.py") == "more"
    assert git(at, "show", f"{done['kept']}:a.py").endswith("<<<<<<< x")
    assert await merges(one) == ("conflicts", ["a.py"])
    assert f"ann gave up the merge of main into {own_branch('a')}" in one.happened[-1].text
    with pytest.raises(Refusal, match="no merge under way"):
        await one.actions.abort("A", "ann")
    assert "a.py (lines 10-16)" in await turn(one, {"a.py": BOTH})
    assert (await merges(one))[0] == "clean"


async def test_who_discards_the_work_gives_the_merge_up_first(tmp_path: Path) -> None:
    one = await conflicting(tmp_path)
    at = one.at("A")
    await turn(one, {"a.py": BOTH + "<<<<<<< x\n"})
    done = await one.actions.discard("A", "ann")
    assert (at / "a.py").read_text() == THEIRS and git(at, "status", "--porcelain") == ""
    assert git(at, "show", f"{done['kept']}:a.py") == MINE.strip()
    kept = git(at, "for-each-ref", "--format=%(refname)", "refs/relay/kept").split()
    assert len(kept) == 2 and git(at, "show", f"{kept[0]}:a.py").endswith("<<<<<<< x")
    await one.actions.restore("A", "ann")
    assert (at / "a.py").read_text() == MINE and (await merges(one))[0] == "conflicts"


async def test_a_main_branch_that_was_reset_is_not_taken_in(tmp_path: Path) -> None:
    one = await conflicting(tmp_path)
    await turn(one, {})
    git(tmp_path / "repo", "reset", "-q", "--hard", "HEAD~1")
    await one.look()
    await one.branch_updates.give_up_stale(["A"])
    assert (one.at("A") / "a.py").read_text() == MINE
    assert (await merges(one))[0] == "clean"
    assert "has not the commit any more" in one.happened[-1].text


async def test_a_merge_that_main_does_not_need_any_more_is_given_up_unless_it_was_written_into(
    tmp_path: Path,
) -> None:
    """A commit by hand on main is taken back by another one: main takes the branch again."""
    one = await conflicting(tmp_path)
    repo, at = tmp_path / "repo", one.at("A")
    await turn(one, {})
    assert await merges(one) == ("conflicts", ["a.py"]) and await stuck(one) == (True, True)
    git(repo, "revert", "--no-edit", "HEAD")
    await one.look()
    await one.branch_updates.give_up_stale(["A"])
    assert (at / "a.py").read_text() == MINE and await merges(one) == ("clean", [])
    assert "main has no conflict with the branch any more" in one.happened[-1].text
    # What somebody has written stays where it is, though it is no more needed.
    commit(repo, {"a.py": THEIRS})
    half = BOTH + "<<<<<<< x\n"
    await turn(one, {"a.py": half})
    git(repo, "revert", "--no-edit", "HEAD")
    await one.look()
    await one.branch_updates.give_up_stale(["A"])
    assert (at / "a.py").read_text() == half and git(at, "rev-parse", "MERGE_HEAD")
    assert await merges(one) == ("conflicts", ["a.py"])
    [row] = (await rows(one.registry))[0]
    target = await one.registry.target()
    [back] = update_set_back({}, await one.registry.merge_trials.trials(target), target, 0.0).values()
    assert row["needless"] and row["merging"] and back.needless
    assert (told := stands(row, None)) and told["text"] == "has a needless merge of main under way"
    assert finds(back).startswith("a merge of main is under way") and _why_not(row) == finds(back)
    await one.actions.abort("A", "ann")
    assert await merges(one) == ("clean", []) and (at / "a.py").read_text() == MINE


async def test_an_agent_that_runs_git_itself(tmp_path: Path) -> None:
    one = await conflicting(tmp_path)
    at = one.at("A")
    await one.turns.before_turn("A", take_main=True)
    write(at, {"a.py": BOTH})
    git(at, "add", "-A")
    git(at, "commit", "-q", "-m", "merged by me")
    await one.turns.after_turn("A")
    assert git(at, "log", "-1", "--format=%s") == "merged by me"
    assert git(at, "for-each-ref", MERGE, WRITTEN) == "" and (await merges(one))[0] == "clean"


async def test_markers_that_an_agent_commits_are_not_settled(tmp_path: Path) -> None:
    one = await conflicting(tmp_path)
    at = one.at("A")
    await one.turns.before_turn("A", take_main=True)
    git(at, "commit", "-q", "-a", "-m", "merged, I think")
    await one.turns.after_turn("A")
    assert "A has committed conflict markers: a.py (lines 10-16)" in one.happened[-1].text
    assert await merges(one) == ("conflicts", ["a.py"])
    assert await stuck(one) == (True, False), "nothing is left to give up"
    [row] = (await rows(one.registry))[0]
    assert (row["lines"], row["unsettled"], row["merging"]) == ({"a.py": [[10, 16]]}, True, False)
    for act in (one.actions.merge("A", "ann"), one.actions.propose("A", "ann", MergeOptions())):
        with pytest.raises(Refusal, match=r"not settled in a.py \(lines 10-16\)"):
            await act
    # Asked again, it has something to do, though main is in its branch.
    place = await one.turns.before_turn("A", take_main=True)
    assert place is not None and not place.done and "left in a.py (lines 10-16)" in place.note
    write(at, {"a.py": BOTH})
    await one.turns.after_turn("A")
    assert await merges(one) == ("clean", [])
    assert (await one.actions.merge("A", "ann"))["success"]


async def test_markers_of_a_merge_that_relay_knows_nothing_of(tmp_path: Path) -> None:
    one = await conflicting(tmp_path)
    at = one.at("A")
    git(at, "add", "-A")
    git(at, "commit", "-q", "-m", "mine")
    with pytest.raises(CalledProcessError):
        git(at, "merge", "-q", "main")
    git(at, "commit", "-q", "-a", "-m", "merged, I think")
    assert await merges(one) == ("conflicts", ["a.py"])


@pytest.mark.parametrize(
    "text",
    ["Install\n=======\n", "|||||||\n=======\n", "a = '<<<<<<< x'\n", "<<<<<<<x\n", "<<<<<< x\n"],
)
async def test_what_is_no_conflict_merges(tmp_path: Path, text: str) -> None:
    one = await behind(tmp_path, {}, {"a.md": text}, {"b.py": "b\n"})
    assert await merges(one) == ("clean", [])


async def test_markers_that_are_meant_merge(tmp_path: Path) -> None:
    text = "<<<<<<< one\na\n=======\nb\n>>>>>>> two\n"
    one = await behind(
        tmp_path, {"old.txt": text}, {"old.txt": f"{text}more\n", "new.txt": text}, {"b.py": "b\n"}
    )
    assert await merges(one) == ("conflicts", ["new.txt"]), "old.txt had them before"
    write(one.at("A"), {".gitattributes": "new.txt conflict-marker-size=32\n"})
    assert await merges(one) == ("clean", [])
    assert (await one.actions.merge("A", "ann"))["success"]


async def test_a_heading_that_the_agent_adds_is_no_marker(tmp_path: Path) -> None:
    one = await conflicting(tmp_path)
    await turn(one, {"a.py": f"{BOTH}Changes\n============\n\nInstall\n=======\n"})
    assert await merges(one) == ("clean", [])


@pytest.mark.parametrize("attribute", ["working-tree-encoding=UTF-16", "conflict-marker-size=5"])
async def test_markers_of_any_encoding_and_length_are_not_settled(tmp_path: Path, attribute: str) -> None:
    def text(one: str) -> bytes:
        return one.encode("utf-16" if "UTF-16" in attribute else "utf-8")

    base: Files = {".gitattributes": f"*.txt {attribute}\n", "u.txt": text("a\n> b\nc\n")}
    one = await behind(tmp_path, base, {"u.txt": text("a\nmine\nc\n")}, {"u.txt": text("a\ntheirs\nc\n")})
    assert "u.txt (lines 2-8)" in await turn(one, {})
    at = one.at("A")
    assert await merges(one) == ("conflicts", ["u.txt"])
    left = text("a\nmine\n" + "=" * (5 if "5" in attribute else 7) + "\ntheirs\nc\n")
    await turn(one, {"u.txt": left}, take_main=False)
    assert "A has not settled u.txt (line 3)" in one.happened[-1].text
    await turn(one, {"u.txt": text("a\nmine\n> b\ntheirs\nc\n")}, take_main=False)
    assert await merges(one) == ("clean", [])
    assert git(at, "show", "HEAD:u.txt") == "a\nmine\n> b\ntheirs\nc"


async def test_what_is_ignored_is_not_written_over(tmp_path: Path) -> None:
    base: Files = {"conf.env": "template\n", "logs/x": "x\n"}
    main: Files = {"a.py": THEIRS, ".gitignore": "conf.env\nlogs\n"}
    one = await behind(tmp_path, base, {"a.py": MINE}, main)
    repo, at = tmp_path / "repo", one.at("A")
    git(repo, "rm", "-q", "--cached", "-r", "conf.env", "logs")
    commit(repo)
    await one.look()
    await turn(one, {"conf.env": "of the run\n", "logs": "of the run\n"})
    for act in (one.actions.abort, one.actions.discard):
        with pytest.raises(Refusal, match=r"git does not know are .*: conf.env, logs/x\. Move them"):
            await act("A", "ann")
        assert (at / "conf.env").read_text() == (at / "logs").read_text() == "of the run\n"
        assert await merges(one) == ("conflicts", ["a.py"])
    for name in ("conf.env", "logs"):
        (at / name).rename(tmp_path / name)
    await one.actions.abort("A", "ann")
    assert (at / "conf.env").read_text() == "template\n" and (at / "logs" / "x").exists()


async def test_what_is_ignored_is_not_written_over_by_who_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    main: Files = {"a.py": THEIRS, ".gitignore": "conf.env\n"}
    one = await behind(tmp_path, {}, {"a.py": MINE}, main)
    repo = tmp_path / "repo"
    write(repo, {"conf.env": "template\n"})
    git(repo, "add", "-f", "conf.env")
    commit(repo)
    await one.look()

    async def dies(*args: Any) -> None:
        raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(UpdateFromMain, "_fill", dies)
        await one.turns.before_turn("A", take_main=True)
    write(one.at("A"), {".gitignore": "conf.env\n", "conf.env": "of the run\n"})
    one = await room(repo, "A")
    for _ in range(2):
        await one.branch_updates.recover()
        assert (one.at("A") / "conf.env").read_text() == "of the run\n"
        assert await merges(one) == ("conflicts", ["a.py"])
    assert [each.text for each in one.happened if "conf.env. Move" in each.text] == [one.happened[-1].text]
    (one.at("A") / "conf.env").unlink()
    await turn(one, {"a.py": BOTH})
    assert (await merges(one))[0] == "clean"


async def test_while_another_branch_is_out_the_merge_waits(tmp_path: Path) -> None:
    one = await conflicting(tmp_path)
    repo, at = tmp_path / "repo", one.at("A")
    git(repo, "branch", "old", "main~1")
    await turn(one, {"a.py": BOTH + "<<<<<<< x\n"})
    told = len(one.happened)
    git(repo, "switch", "-q", "old")
    await one.look()
    await one.branch_updates.give_up_stale(["A"])
    await turn(one, {}, take_main=False)
    assert (at / "a.py").read_text() == BOTH + "<<<<<<< x\n" and len(one.happened) == told
    assert await merges(one) == ("conflicts", ["a.py"])
    git(repo, "switch", "-q", "main")
    await turn(one, {"a.py": BOTH}, take_main=False)
    assert await merges(one) == ("clean", [])


async def test_what_is_not_settled_is_said_once(tmp_path: Path) -> None:
    one = await conflicting(tmp_path)

    def told() -> int:
        return sum("has not settled" in each.text for each in one.happened)

    await turn(one, {})
    for name in ("x.py", "y.py"):
        await turn(one, {name: "x\n"}, take_main=False)
    assert told() == 1
    await turn(one, {"a.py": BOTH + "<<<<<<< x\n"}, take_main=False)
    assert told() == 2, "other lines"
    await turn(one, {})
    assert told() == 3, "asked again"


async def test_what_main_got_since_the_merge_began_conflicts_too(tmp_path: Path) -> None:
    base: Files = {"b.py": lines(1, 10), "c.py": lines(1, 10)}
    mine: Files = {"a.py": MINE, "b.py": "mine\n" + lines(2, 10)}
    one = await behind(tmp_path, base, mine, {"a.py": THEIRS})
    await turn(one, {})
    commit(tmp_path / "repo", {"b.py": "theirs\n" + lines(2, 10), "a.py": THEIRS + "more\n"})
    assert await merges(one) == ("conflicts", ["a.py", "b.py"])
    [row] = (await rows(one.registry))[0]
    assert row["lines"] == {"a.py": [[10, 10]], "b.py": [[1, 1]]} and row["unsettled"]


class Killed(BaseException):
    """The daemon is killed here."""


#: Each step of a turn that takes main in, and which of its calls.
STEPS = (
    ("publish", 1),
    ("move_branch", 1),
    ("publish", 2),
    ("_write_heads", 1),
    ("_fill", 1),
    ("_stage", 1),
    ("publish", 3),
    ("move_branch", 2),
    ("_remove", 1),
)
WHERE = {
    "publish": ScratchRepository,
    "move_branch": BranchMerger,
    "_fill": UpdateFromMain,
    "_stage": UpdateFromMain,
}


@pytest.mark.parametrize(("step", "call"), STEPS)
@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_daemon_that_is_killed_at_any_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, call: int, when: str
) -> None:
    """Whatever was done, the next daemon ends with both sides' work."""
    one = await conflicting(tmp_path)
    where: Any = WHERE.get(step, update_from_main)
    real, calls = getattr(where, step), 0

    def dies(*args: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == call and when == "before":
            raise Killed
        done = real(*args)
        if calls != call:
            return done
        if not isawaitable(done):
            raise Killed

        async def then() -> None:
            await done
            raise Killed

        return then()

    monkeypatch.setattr(where, step, dies)
    with pytest.raises(Killed):
        await turn(one, {"a.py": BOTH})
    monkeypatch.setattr(where, step, real)
    one = await room(tmp_path / "repo", "A")
    await one.branch_updates.recover()
    await turn(one, {"a.py": BOTH})
    at = one.at("A")
    assert (await merges(one))[0] == "clean"
    assert git(at, "status", "--porcelain") == "" and git(at, "for-each-ref", MERGE, WRITTEN) == ""
    assert (at / "a.py").read_text() == BOTH
    assert (at / "new.py").read_text() == "new\n" and (at / "own.py").read_text() == "own\n"
    git(at, "merge-base", "--is-ancestor", "main", "HEAD")


async def test_a_turn_that_is_cut_off_settles_nothing(tmp_path: Path) -> None:
    one = await conflicting(tmp_path)
    await one.turns.before_turn("A", take_main=True)
    write(one.at("A"), {"a.py": MINE})
    one = await room(tmp_path / "repo", "A")
    await one.branch_updates.recover()
    head = git(one.at("A"), "rev-parse", "HEAD")
    place = await one.turns.before_turn("A")
    assert place is not None and "no marker is left. Finish" in place.note
    assert git(one.at("A"), "rev-parse", "HEAD") == head and not one.happened[1:]
    write(one.at("A"), {"a.py": BOTH})
    await one.turns.after_turn("A")
    assert git(one.at("A"), "show", "HEAD:a.py") == BOTH.strip() and (await merges(one))[0] == "clean"


#: What giving a merge up does with git, in order; `update-ref` also holds what stood there.
@pytest.mark.parametrize("step", [2, 3, 4, 5, 6, 7, 8])
@pytest.mark.parametrize("fails", [True, False])
async def test_who_is_cut_off_while_giving_up_drops_nothing_of_main(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int, fails: bool
) -> None:
    """Killed before the step, or git cannot do it and has done half: main's work is merged or not, never dropped."""
    one = await conflicting(tmp_path)
    repo, at = tmp_path / "repo", one.at("A")
    await turn(one, {"a.py": BOTH + "<<<<<<< x\n", "more.py": "more\n"})
    real, calls = Git.run, 0

    async def dies(self: Git, *args: str, **more: Any) -> Any:
        nonlocal calls
        calls += args[0] in ("update-ref", "read-tree", "update-index") and self.folder == at
        if calls == step and args[:3] == ("read-tree", "--reset", "-u"):
            write(at, {"a.py": MINE})
            (at / "new.py").unlink()
        if calls >= step:
            raise GitError(args[0], 128, "No space left on device") if fails else Killed
        return await real(self, *args, **more)

    with monkeypatch.context() as patch, pytest.raises(Refusal if fails else Killed):
        patch.setattr(Git, "run", dies)
        await one.actions.abort("A", "ann")
    if not fails:
        one = await room(repo, "A")
        await one.branch_updates.recover()
    await turn(one, {}, take_main=False)
    with suppress(Refusal):
        await one.actions.merge("A", "ann")
    assert "theirs" in (repo / "a.py").read_text() and (repo / "new.py").exists()
    assert "<<<" not in (repo / "a.py").read_text()
    assert (await merges(one))[0] == "conflicts"
    kept = git(repo, "for-each-ref", "--format=%(refname)", "refs/relay/kept").split()
    assert (at / "more.py").exists() or any(git(repo, "ls-tree", one, "more.py") for one in kept)
    with suppress(Refusal):
        await one.actions.abort("A", "ann")
    assert (at / "a.py").read_text() == MINE and (await merges(one))[0] == "conflicts"
    await turn(one, {"a.py": BOTH})
    assert (await one.actions.merge("A", "ann"))["success"] and (repo / "a.py").read_text() == BOTH


async def test_files_that_were_half_written_are_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = await conflicting(tmp_path)
    real = UpdateFromMain._fill

    async def dies(self: UpdateFromMain, checkout: Checkout, *args: Any) -> None:
        write(checkout.top, {"new.py": "ne", "a.py": "<<<<<<< half\n"})
        raise Killed

    monkeypatch.setattr(UpdateFromMain, "_fill", dies)
    with pytest.raises(Killed):
        await one.turns.before_turn("A", take_main=True)
    monkeypatch.setattr(UpdateFromMain, "_fill", real)
    one = await room(tmp_path / "repo", "A")
    await one.branch_updates.recover()
    assert await merges(one) == ("conflicts", ["a.py"])
    assert "a.py (lines 10-16)" in await turn(one, {"a.py": BOTH}, take_main=False)
    assert (await merges(one))[0] == "clean" and (one.at("A") / "new.py").read_text() == "new\n"


def test_markers_are_found_with_their_lines() -> None:
    def left(text: bytes, *put: bytes) -> object:
        return unsettled_lines([one.rstrip(b"\r") for one in text.split(b"\n")], (), put)

    assert left(b"a\n<<<<<<< x\nb\n=======\nc\n>>>>>>> y\nd\n<<<<<<< x\n") == ((2, 6), (8, 8))
    assert left(b"<<<<<<\n========= not\n>>>>>>>x\n") == ()
    assert left(b"<<<<<<<<<< x\r\n==========\r\n>>>>>>>>>> y\r\n", b"=" * 10) == ((1, 3),)
    assert left(b"<<< x\n===\n>>> y\n", b"<<< x", b"===", b">>> y") == ((1, 3),)
    assert left(b"Changes\n=======\n\nInstall\n=======\nNew\n==========\n") == ()
    assert left(b"one()\ntwo(1)\n=======\n") == ((3, 3),)
