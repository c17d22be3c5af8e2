"""A rewind from the request to the answer, and back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from relay.git.kept_snapshots import SNAPSHOTS
from relay.log import events
from relay.log.verify import verify
from relay.model.refusals import Refusal
from relay.store.ports import Queries, Store
from relay.timeline.projection import last_tree
from relay.timeline.rewind import history
from relay.timeline.rewind.checkout_writer import FilesInTheWay
from relay.timeline.rewind.plan import RewindRequest
from tests.engines import BOTH, SQLITE, all_events
from tests.git.repository import ENV, git, lines, write
from tests.timeline.rewind.parts import ANN, CLAUDE, CODEX, MAIN, Stage, files_of

pytestmark = BOTH
#: What only tests ask of the tables.
Q = Queries(Path(__file__).parents[1])
FIRST = {"app.py": lines(1, 9), "other.py": lines(1, 3), ".gitignore": "*.log\n"}


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    opened = await Stage.open(tmp_path, dict(FIRST))
    yield opened
    await opened.store.close()


async def rows(store: Store) -> list[dict[str, Any]]:
    return [dict(row) for row in await store.read(lambda tx: tx.all(Q.all_rewinds))]


def actions(answer: dict[str, Any]) -> dict[str, str]:
    return {file["path"]: file["action"] for file in answer["files"]}


async def test_what_is_taken_back_now(stage: Stage) -> None:
    """A rewind's events are taken back until it is undone, and again when it is redone."""
    await stage.give_worktree(CODEX)
    begin = await stage.edit(CODEX, {"app.py": "good\n" + lines(1, 9)})
    one = await stage.edit(CODEX, {"other.py": "bad\n"})
    two = await stage.edit(CODEX, {"new.py": "bad\n"})
    nothing = {"rewinds": [], "undo": None, "redo": None}

    async def now() -> dict[str, Any]:
        return await stage.store.read(history.taken_back)

    assert await now() == nothing
    answer = await stage.rewind(CODEX, begin)
    stands = await now()
    event = next(each for each in await all_events(stage.store) if each.id == answer["event"])
    assert stands["rewinds"] == [
        {
            "number": event.pos,
            "event": event.id,
            "lane": "CODEX",
            "by": "ANN",
            "into": "worktree",
            "branch": None,
            "events": [one.pos, two.pos],
        }
    ]
    assert (stands["undo"], stands["redo"]) == (event.id, None)
    undone = await stage.undo(CODEX)
    assert await now() == {**nothing, "redo": undone["event"]}
    await stage.redo(CODEX)
    assert await now() == stands
    await history.rebuild(stage.store)
    assert await now() == stands


async def test_rewind_is_undone(stage: Stage) -> None:
    """Its own worktree is as it was, and undo brings all back, with what came after; redo takes it back again."""
    top = await stage.give_worktree(CODEX)
    write(top, {"build.log": "ignored\n"})
    begin = await stage.edit(CODEX, {"app.py": "good\n" + lines(1, 9)})
    stood = files_of(top)
    one = await stage.edit(CODEX, {"app.py": "good\n" + lines(1, 9) + "bad\n", "new/bad.py": "bad\n"})
    two = await stage.edit(CODEX, {"other.py": None, "new/bad.py": "worse\n"})
    astray = files_of(top)

    answer = await stage.rewind(CODEX, begin)

    assert files_of(top) == stood and not (top / "new").exists()
    assert answer["removed"] == [one.id, two.id] and answer["conflicts"] == [] == answer["invalidated"]
    assert actions(answer) == {"app.py": "restored", "new/bad.py": "deleted", "other.py": "restored"}
    assert (
        answer["undo_with"] == "relay timeline undo"
        and answer["branch"] is None
        and answer["lane"] == "CODEX"
    )
    assert git(top, "status", "--porcelain").splitlines() == [" M app.py"]

    # The next turn finds nothing there that nobody has done.
    known = await stage.store.read(lambda tx: last_tree(tx, "CODEX"))
    assert known is not None and known.tree == (await stage.snapshot(stage.worktrees[CODEX])).tree

    write(top, {"later.py": "after the rewind\n"})
    back = await stage.undo(CODEX)
    assert files_of(top) == {**astray, "later.py": "after the rewind\n"}
    assert back["rewind"] == answer["rewind"] and back["undo_with"] == "relay timeline redo"
    await stage.redo(CODEX)
    assert files_of(top) == {**stood, "later.py": "after the rewind\n"}
    kinds = [event.type for event in await all_events(stage.store) if event.type.startswith("timeline.")]
    assert kinds == [history.REWOUND, history.UNDONE, history.REDONE]
    assert await verify(stage.store) == []


async def test_second_undo_goes_further(stage: Stage) -> None:
    top = await stage.give_worktree(CODEX)
    states = [files_of(top)]
    edits = []
    for number in range(3):
        edits.append(await stage.edit(CODEX, {f"f{number}.py": f"{number}\n"}))
        states.append(files_of(top))
    await stage.rewind(CODEX, edits[1])
    assert files_of(top) == states[2]
    await stage.rewind(CODEX, edits[0])
    assert files_of(top) == states[1]
    await stage.undo(CODEX)
    assert files_of(top) == states[2]
    await stage.undo(CODEX)
    assert files_of(top) == states[3]
    with pytest.raises(Refusal, match="no rewind to undo"):
        await stage.undo(CODEX)
    await stage.redo(CODEX)
    assert files_of(top) == states[2]
    await stage.redo(CODEX)
    assert files_of(top) == states[1]
    with pytest.raises(Refusal, match="to redo"):
        await stage.redo(CODEX)
    await stage.undo(CODEX)
    await stage.undo(CODEX)
    assert files_of(top) == states[3]


async def test_what_was_taken_back_before_is_not_taken_back_again(stage: Stage) -> None:
    top = await stage.give_worktree(CODEX)
    first = await stage.edit(CODEX, {"a": "1\n"})
    await stage.edit(CODEX, {"b": "1\n"})
    await stage.rewind(CODEX, first)
    third = await stage.edit(CODEX, {"b": "again\n"})
    answer = await stage.rewind(CODEX, 0)
    assert answer["removed"] == [first.id, third.id] and not (top / "b").exists()


@SQLITE
async def test_what_was_taken_out_of_one_place_still_stands_in_another(stage: Stage) -> None:
    """A branch is a proposal until somebody merges it; a worktree is not the main branch."""
    top = await stage.give_worktree(CODEX)
    bad = await stage.edit(CODEX, {"bad.py": "bad\n"})
    await stage.merge(CODEX)
    assert (await stage.rewind(CODEX))["branch"] == "rw/codex-1"
    assert (await stage.rewind(CODEX))["branch"] == "rw/codex-2"
    await stage.rewind(CODEX, into="worktree")
    assert not (top / "bad.py").exists() and (stage.main.top / "bad.py").exists()
    with pytest.raises(Refusal, match="taken back already"):
        await stage.plan(CODEX, into="worktree")
    git(stage.main.top, "merge", "-q", "--ff-only", "rw/codex-2")
    with pytest.raises(Refusal, match="taken back already"):
        await stage.plan(CODEX, into="main")
    git(stage.main.top, "reset", "-q", "--hard", "HEAD^")
    assert (await stage.rewind(CODEX, into="main"))["removed"] == [bad.id]
    assert not (stage.main.top / "bad.py").exists()


async def test_what_has_landed_is_taken_out_of_main(stage: Stage) -> None:
    """By default on a new branch, which moves nobody; or on the main branch, with the files of its checkout."""
    await stage.give_worktree(CODEX)
    bad = await stage.edit(CODEX, {"app.py": lines(1, 9) + "bad\n", "bad.py": "bad\n"})
    await stage.merge(CODEX)
    main = stage.main.top
    head = git(main, "rev-parse", "HEAD")
    good = await stage.edit(ANN, {"app.py": lines(1, 9) + "bad\ngood\n"})
    await stage.commit("good")
    standing, head = files_of(main), git(main, "rev-parse", "HEAD")
    expected = {**FIRST, "app.py": lines(1, 9) + "good\n"}

    answer = await stage.rewind(CODEX)
    assert answer["branch"] == "rw/codex-1" and answer["removed"] == [bad.id]
    assert actions(answer) == {"app.py": "merged", "bad.py": "deleted"}
    assert answer["invalidated"] == [{"event": good.id, "lane": ANN.key, "read": "app.py", "wrote": bad.id}]
    assert stage.show("rw/codex-1") == expected
    assert (files_of(main), git(main, "rev-parse", "HEAD"), git(main, "status", "--porcelain")) == (
        standing,
        head,
        "",
    )

    told = git(main, "log", "-1", "--format=%(trailers:only,unfold)", "rw/codex-1").split("\n")
    values = dict(line.split(": ", 1) for line in told if line)
    assert values["TimeWarp-Event-Id"] == answer["rewind"] and values["TimeWarp-Agent-Id"] == "CODEX"
    assert values["TimeWarp-Branch-Id"] == "rw/codex-1"
    assert values["TimeWarp-Snapshot-Id"] == git(main, "rev-parse", "rw/codex-1^{tree}")
    clock = (await stage.store.read(lambda tx: events.get(tx, answer["rewind"]))).clock  # type: ignore[union-attr]
    assert values["TimeWarp-Vector-Clock"] == ",".join(f"{key}:{n}" for key, n in sorted(clock.items()))

    await stage.undo()
    assert stage.show("rw/codex-1") == stage.show(head)
    again = await stage.rewind(CODEX, into="main")
    assert again["branch"] == "main" and files_of(main) == expected == stage.show("main")
    assert git(main, "status", "--porcelain") == "" and git(main, "rev-parse", "HEAD^") == head
    await stage.undo()
    assert files_of(main) == standing and git(main, "status", "--porcelain") == ""
    third = await stage.rewind(CODEX)
    assert third["branch"] == "rw/codex-2"


@SQLITE
async def test_renames_that_have_landed_go_back(stage: Stage) -> None:
    """Also where somebody else's merge renamed what the agent had edited, and for a second rewind across one."""
    for lane in (CODEX, CLAUDE):
        await stage.give_worktree(lane)
    first = await stage.edit(CODEX, {"app.py": "codex\n" + lines(1, 9)})
    await stage.edit(CODEX, {"other.py": None, "moved.py": FIRST["other.py"]})
    renamed = await stage.edit(CLAUDE, {"app.py": None, "lib/app.py": lines(1, 9)})
    await stage.merge(CODEX)
    await stage.merge(CLAUDE)
    assert stage.show("main")["lib/app.py"] == "codex\n" + lines(1, 9)
    await stage.rewind(CODEX, first, into="main")
    assert stage.show("main") == {
        ".gitignore": "*.log\n",
        "lib/app.py": "codex\n" + lines(1, 9),
        "other.py": lines(1, 3),
    }
    answer = await stage.rewind(CODEX, into="main")
    assert answer["removed"] == [first.id]
    assert stage.show("main") == {".gitignore": "*.log\n", "lib/app.py": lines(1, 9), "other.py": lines(1, 3)}
    await stage.rewind(CLAUDE, into="main")
    assert stage.show("main") == FIRST
    assert renamed.id in (await stage.store.read(history.to_undo)).removed  # type: ignore[union-attr]


@SQLITE
@pytest.mark.parametrize("by_hand", [False, True])
async def test_a_rename_that_was_taken_back_comes_back(stage: Stage, by_hand: bool) -> None:
    """The commits of the rewind and of the undo are renames on the main branch, and nobody else's; also where a
    person merged the rewind's branch. The others' lines stay."""
    for lane in (CODEX, CLAUDE):
        await stage.give_worktree(lane)
    await stage.edit(CODEX, {"app.py": None, "lib/app.py": lines(1, 9), "new.py": "new\n"})
    await stage.merge(CODEX)
    git(stage.worktrees[CLAUDE].top, "merge", "-q", "--ff-only", "main")
    await stage.edit(CLAUDE, {"lib/app.py": lines(1, 9) + "claude\n"})
    await stage.merge(CLAUDE)
    landed = stage.show("main")
    without = {**FIRST, "app.py": lines(1, 9) + "claude\n"}

    await stage.rewind(CODEX, into="new" if by_hand else "main")
    if by_hand:
        git(stage.main.top, "merge", "-q", "--no-ff", "--no-edit", "rw/codex-1")
    assert stage.show("main") == without
    await stage.record_main(ANN if by_hand else MAIN)
    back = await stage.undo()
    if by_hand:
        assert stage.show(back["branch"]) == landed
        return
    assert stage.show("main") == landed and {"app.py", "lib/app.py"} <= actions(back).keys()
    await stage.record_main()
    await stage.redo()
    assert stage.show("main") == without
    await stage.record_main()
    await stage.undo()
    assert stage.show("main") == landed
    await stage.record_main()
    await stage.rewind(CODEX, into="main")
    assert stage.show("main") == without


async def test_an_undo_that_changes_nothing_is_settled_without_writing(stage: Stage) -> None:
    """Its branch is gone, or somebody brought it back by hand; then the one before it is undone. A redo that would
    change nothing is refused."""
    await stage.give_worktree(CODEX)
    await stage.edit(CODEX, {"bad.py": "bad\n"})
    await stage.merge(CODEX)
    main = stage.main.top
    await stage.rewind(CODEX)
    git(main, "branch", "-q", "-D", "rw/codex-1")
    refs = git(main, "for-each-ref", "refs/heads")
    settled = await stage.undo()
    assert git(main, "for-each-ref", "refs/heads") == refs
    assert actions(settled) == {"bad.py": "kept"} and not settled["branch"] and not settled["undo_with"]
    with pytest.raises(Refusal, match="no rewind to undo"):
        await stage.undo()
    with pytest.raises(Refusal, match="to redo"):
        await stage.redo()

    await stage.rewind(CODEX, into="main")
    await stage.undo()
    git(main, "revert", "--no-edit", "HEAD")
    head = git(main, "rev-parse", "HEAD")
    with pytest.raises(Refusal, match="Nothing of"):
        await stage.redo()
    assert git(main, "rev-parse", "HEAD") == head
    states = [row["state"] for row in await rows(stage.store)]
    assert states == ["undone", "done", "undone", "done"]
    assert await history.rebuild(stage.store) == 4
    assert [row["state"] for row in await rows(stage.store)] == states


async def test_an_undo_whose_worktree_is_gone_lets_the_one_before_it_be_undone(stage: Stage) -> None:
    """As when its agent was taken out of the room: it is skipped in words, and nothing is written."""
    main = stage.main.top
    await stage.give_worktree(CLAUDE)
    await stage.edit(CLAUDE, {"good.py": "good\n"})
    await stage.merge(CLAUDE)
    await stage.rewind(CLAUDE, into="main")
    top = await stage.give_worktree(CODEX)
    await stage.edit(CODEX, {"bad.py": "bad\n"})
    await stage.rewind(CODEX)
    with pytest.raises(Refusal, match=f"No agent works in {top}") as refused:
        await stage.undo()
    assert "remove that folder" in refused.value.fix
    git(main, "worktree", "remove", "--force", str(top))
    del stage.worktrees[CODEX]
    skipped = await stage.undo()
    assert skipped["skipped"] == f"The worktree {top} is gone, and what stood in it."
    assert (skipped["files"], skipped["undo_with"], (main / "good.py").exists()) == ([], "", False)
    assert not top.exists()
    assert actions(await stage.undo()) == {"good.py": "restored"}
    assert (main / "good.py").read_text() == "good\n"
    states = [row["state"] for row in await rows(stage.store)]
    assert states == ["undone", "undone", "done", "done"]
    await history.rebuild(stage.store)
    assert [row["state"] for row in await rows(stage.store)] == states
    assert await verify(stage.store) == []


async def test_an_undo_goes_to_the_branch_of_its_rewind(stage: Stage) -> None:
    await stage.give_worktree(CODEX)
    main = stage.main.top
    git(main, "branch", "feature")
    await stage.edit(CODEX, {"bad.py": "bad\n"})
    await stage.merge(CODEX)
    await stage.rewind(CODEX, into="main")
    git(main, "switch", "-q", "feature")
    with pytest.raises(Refusal, match=r"on the branch main, and .* is on feature"):
        await stage.undo()
    assert stage.show("feature") == FIRST
    git(main, "switch", "-q", "main")
    await stage.undo()
    assert stage.show("main") == {**FIRST, "bad.py": "bad\n"}
    git(main, "switch", "-q", "feature")
    with pytest.raises(Refusal, match="Check out main there first"):
        await stage.redo()
    # A branch that is there no more asks nobody to check it out.
    git(main, "branch", "-m", "main", "trunk")
    git(main, "switch", "-q", "trunk")
    await stage.redo()
    assert stage.show("trunk") == FIRST


async def test_a_new_rewind_ends_what_can_be_redone(stage: Stage) -> None:
    await stage.give_worktree(CODEX)
    first = await stage.edit(CODEX, {"a": "1\n"})
    await stage.edit(CODEX, {"b": "1\n"})
    await stage.rewind(CODEX, first)
    await stage.undo(CODEX)
    assert await stage.rewinds.next_redo() is not None
    await stage.rewind(CODEX, first)
    with pytest.raises(Refusal, match="to redo"):
        await stage.redo(CODEX)
    await history.rebuild(stage.store)
    assert await stage.rewinds.next_redo() is None
    await stage.undo(CODEX)
    assert await stage.rewinds.next_redo() is not None


@SQLITE
async def test_what_a_person_merged_by_hand_has_landed(stage: Stage) -> None:
    top = await stage.give_worktree(CODEX)
    await stage.edit(CODEX, {"bad.py": "bad\n"})
    git(top, "add", "-A")
    git(top, "commit", "-q", "-m", "by hand")
    git(stage.main.top, "merge", "-q", "relay/codex")
    assert (await stage.plan(CODEX)).answer["branch"] == "rw/codex-1"


@pytest.mark.parametrize("how", ["--no-ff", "--ff-only", "--squash"])
async def test_what_a_person_merged_by_hand_has_landed_event_by_event(stage: Stage, how: str) -> None:
    """Also when the agent went on since, in the same file, and when a merge or somebody else mixed the lines."""
    top, main = await stage.give_worktree(CODEX), stage.main.top
    first = await stage.edit(CODEX, {"app.py": "codex\n" + lines(1, 9), "new.py": "one\n"})
    second = await stage.edit(CODEX, {"new.py": "two\n", "other.py": None, "moved.py": FIRST["other.py"]})
    git(top, "add", "-A")
    git(top, "commit", "-q", "-m", "by hand")
    if how == "--no-ff":
        await stage.edit(ANN, {"app.py": lines(1, 9) + "ann\n"})
        await stage.commit("of ann")
    git(main, "merge", "-q", how, "relay/codex")
    if how == "--squash":
        await stage.commit("squashed")
    await stage.record_main(ANN)
    third = await stage.edit(CODEX, {"app.py": "codex\n" + lines(1, 9) + "codex again\n"})
    with pytest.raises(Refusal, match="not merged"):
        await stage.plan(CODEX, into="main", author="CODEX", by=CODEX, person=False)
    answer = await stage.rewind(CODEX, into="main")
    assert answer["removed"] == [first.id, second.id] and answer["left"] == [third.id]
    assert stage.show("main") == (
        {**FIRST, "app.py": lines(1, 9) + "ann\n"} if how == "--no-ff" else dict(FIRST)
    )
    own = await stage.plan(CODEX, author="CODEX", by=CODEX, person=False)
    assert own.answer["removed"] == [third.id]


async def test_what_was_handed_on_lands_with_the_receivers_work(stage: Stage) -> None:
    for lane in (CODEX, CLAUDE):
        await stage.give_worktree(lane)
    plan = await stage.edit(CODEX, {"PLAN.md": "codex\n", "other.py": None, "moved.py": FIRST["other.py"]})
    git(stage.worktrees[CODEX].top, "add", "-A")
    git(stage.worktrees[CODEX].top, "commit", "-q", "-m", "handed on")
    git(stage.worktrees[CLAUDE].top, "reset", "-q", "--hard", "relay/codex")
    await stage.edit(CLAUDE, {"PLAN.md": "codex\nclaude\n"})
    assert (await stage.plan(CODEX)).operation.target is history.Target.WORKTREE  # type: ignore[union-attr]
    await stage.merge(CLAUDE)
    with pytest.raises(Refusal, match="not merged"):
        await stage.plan(CODEX, author="CODEX", by=CODEX, person=False)
    answer = await stage.rewind(CODEX)
    assert answer["branch"] == "rw/codex-1" and answer["removed"] == [plan.id]
    assert stage.show("rw/codex-1") == {**FIRST, "PLAN.md": "claude\n"}


async def test_what_only_looks_alike_has_not_landed(stage: Stage) -> None:
    """Work that was taken back leaves the tree that the main branch has; it did not land by that."""
    await stage.give_worktree(CODEX)
    bad = await stage.edit(CODEX, {"bad.py": "bad\n"})
    await stage.rewind(CODEX)
    await stage.undo(CODEX)
    await stage.edit(ANN, {"app.py": "ann\n"})
    await stage.commit("of ann")
    await stage.record_main(ANN)
    answer = await stage.rewind(CODEX)
    assert answer["removed"] == [bad.id] and answer["branch"] is None


async def test_two_agents_in_one_checkout(stage: Stage) -> None:
    """Both work in the main checkout; one of them is taken back there."""
    stage.worktrees = {CODEX: stage.main, CLAUDE: stage.main}
    await stage.edit(CODEX, {"app.py": "codex\n" + lines(1, 9), "codex.py": "codex\n"})
    await stage.edit(CLAUDE, {"app.py": "codex\n" + lines(1, 9) + "claude\n", "claude.py": "claude\n"})
    await stage.edit(CODEX, {"app.py": "codex 2\n" + lines(1, 9) + "claude\n"})
    answer = await stage.rewind(CODEX, into="worktree")
    assert files_of(stage.main.top) == {**FIRST, "app.py": lines(1, 9) + "claude\n", "claude.py": "claude\n"}
    assert [entry["lane"] for entry in answer["invalidated"]] == [CLAUDE.key]
    await stage.undo(CODEX)
    assert files_of(stage.main.top)["app.py"] == "codex 2\n" + lines(1, 9) + "claude\n"


async def test_a_conflict_is_an_answer_and_writes_nothing(stage: Stage) -> None:
    stage.worktrees = {CODEX: stage.main, CLAUDE: stage.main}
    await stage.edit(CODEX, {"app.py": "codex\n" + lines(2, 9), "codex.py": "codex\n"})
    await stage.edit(CLAUDE, {"app.py": "claude\n" + lines(2, 9)})
    standing, refs = files_of(stage.main.top), git(stage.main.top, "for-each-ref")
    answer = await stage.rewind(CODEX, into="worktree")
    assert answer["rewind"] is None and answer["conflicts"] == ["app.py"]
    assert actions(answer) == {"app.py": "conflict", "codex.py": "deleted"}
    assert files_of(stage.main.top) == standing and git(stage.main.top, "for-each-ref") == refs
    assert await rows(stage.store) == []
    partial = await stage.rewind(CODEX, into="worktree", partial=True)
    assert partial["rewind"] and partial["conflicts"] == ["app.py"]
    assert files_of(stage.main.top) == {**FIRST, "app.py": "claude\n" + lines(2, 9)}
    # Once the line is as it was, what was left of the event goes too.
    await stage.edit(CLAUDE, {"app.py": "codex\n" + lines(2, 9)})
    assert (await stage.rewind(CODEX, into="worktree"))["removed"] == partial["removed"]
    assert files_of(stage.main.top) == FIRST


async def test_a_preview_writes_nothing(stage: Stage) -> None:
    top = await stage.give_worktree(CODEX)
    await stage.edit(CODEX, {"app.py": "bad\n"})
    standing, refs = files_of(top), git(top, "for-each-ref")
    plan = await stage.plan(CODEX)
    assert plan.answer["rewind"] is None and plan.paths == ["app.py"]
    assert files_of(top) == standing and git(top, "for-each-ref") == refs and await rows(stage.store) == []


@SQLITE
@pytest.mark.parametrize("into", ["worktree", "main"])
async def test_a_persons_edit_in_the_way_refuses_and_nothing_is_recorded(stage: Stage, into: str) -> None:
    top = await stage.give_worktree(CODEX)
    await stage.edit(CODEX, {"app.py": "bad\n" + lines(1, 9), "other.py": "bad\n"})
    if into == "main":
        await stage.merge(CODEX)
        top = stage.main.top
    plan = await stage.plan(CODEX, into=into)
    write(top, {"other.py": "a person's\n", "mine.txt": "a person's\n"})
    standing, head = files_of(top), git(top, "rev-parse", "HEAD")
    with pytest.raises(FilesInTheWay, match=r"other\.py"):
        await stage.rewinds.apply(plan)
    assert files_of(top) == standing and git(top, "rev-parse", "HEAD") == head
    assert await rows(stage.store) == []


@SQLITE
async def test_no_git_identity(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither git's configuration nor the environment knows a name, and none can be guessed."""
    await stage.give_worktree(CODEX)
    await stage.edit(CODEX, {"bad.py": "bad\n"})
    await stage.merge(CODEX)
    await stage.edit(CODEX, {"worse.py": "worse\n"})
    for name in ENV:
        if name.startswith("GIT_"):
            monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(stage.main.top.parent))
    monkeypatch.setenv("EMAIL", "")
    git(stage.main.top, "config", "user.useConfigOnly", "true")
    for into in ("new", "main", "worktree"):
        await stage.rewind(CODEX, into=into)
        await stage.undo(CODEX)
    assert git(stage.main.top, "log", "-1", "--format=%an <%ae>", "rw/codex-1") == "ANN <ann@relay>"


async def test_an_agent_takes_back_its_own_open_work_only(stage: Stage) -> None:
    top = await stage.give_worktree(CODEX)
    await stage.edit(CODEX, {"landed.py": "1\n"})
    asked: dict[str, Any] = {"author": "CODEX", "by": CODEX, "person": False}
    await stage.merge(CODEX)
    with pytest.raises(Refusal, match="not merged"):
        await stage.plan(CODEX, **asked)
    open_ = await stage.edit(CODEX, {"open.py": "1\n"})
    with pytest.raises(Refusal, match="not merged"):
        await stage.plan(CODEX, into="main", **asked)
    answer = await stage.rewind(CODEX, **asked)
    assert answer["removed"] == [open_.id]
    assert (top / "landed.py").exists() and not (top / "open.py").exists()


async def test_what_cannot_be_asked_is_refused_with_what_can(stage: Stage) -> None:
    with pytest.raises(Refusal, match="changed no file"):
        await stage.plan(CODEX)
    await stage.edit(ANN, {"app.py": "ann\n"})
    with pytest.raises(Refusal, match="Who has: ANN"):
        await stage.plan(CODEX)
    await stage.give_worktree(CODEX)
    await stage.edit(CODEX, {"app.py": "codex\n"})
    with pytest.raises(Refusal, match="no place"):
        await stage.plan(CODEX, into="elsewhere")
    with pytest.raises(Refusal, match="no worktree"):
        await stage.rewinds.plan(RewindRequest(ANN.key, "", 0, "ANN", ANN, "worktree"), await stage.places())


@SQLITE
async def test_the_main_branch_that_moved_is_planned_again(stage: Stage) -> None:
    await stage.give_worktree(CODEX)
    await stage.edit(CODEX, {"bad.py": "bad\n"})
    await stage.merge(CODEX)
    plan = await stage.plan(CODEX, into="main")
    write(stage.main.top, {"more.py": "1\n"})
    await stage.commit("more")
    with pytest.raises(Refusal, match="moved"):
        await stage.rewinds.apply(plan)
    git(stage.main.top, "switch", "-q", "-c", "elsewhere")
    with pytest.raises(Refusal, match="not on main"):
        await stage.rewinds.check(plan)
    assert await rows(stage.store) == []


@SQLITE
async def test_git_gc_keeps_what_undo_needs(stage: Stage, tmp_path: Path) -> None:
    """Also after a new start, which empties the scratch."""
    top = await stage.give_worktree(CODEX)
    await stage.edit(CODEX, {"app.py": "bad\n", "bad.py": "bad\n"})
    astray = files_of(top)
    await stage.rewind(CODEX)
    git(stage.main.top, "reflog", "expire", "--expire=now", "--all")
    git(stage.main.top, "gc", "-q", "--prune=now")
    await stage.scratch.empty()
    await stage.scratch.borrow([stage.main, *stage.worktrees.values()])
    await stage.undo(CODEX)
    assert files_of(top) == astray
    assert git(stage.main.top, "for-each-ref", "--format=%(refname)", SNAPSHOTS)
    assert git(stage.main.top, "log", "--branches", "--format=%s") == "first"


async def test_the_table_is_what_the_log_says(stage: Stage) -> None:
    await stage.give_worktree(CODEX)
    for number in range(3):
        await stage.edit(CODEX, {f"f{number}.py": f"{number}\n"})
        await stage.rewind(CODEX)
    await stage.undo(CODEX)
    await stage.undo(CODEX)
    await stage.redo(CODEX)
    before = await rows(stage.store)
    assert [row["state"] for row in before] == ["done", "done", "undone", "done", "done", "done"]
    assert await history.rebuild(stage.store) == 6
    assert await rows(stage.store) == before
