"""What a merge's message is made of, out of the room's own tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from relay.airspace.worktrees.commit_message import (
    Asked,
    BranchCommit,
    WorkSummary,
    asked_of,
    proposed_message,
    work_message,
)
from relay.airspace.worktrees.lifecycle import (
    CHANGED,
    DISCARDED,
    FORWARDED,
    MERGED,
    RESTORED,
    TAKEN_BACK,
    WorktreeChange,
)
from relay.app.wiring.worktree_room import StoredWorktreeRoom
from relay.base.durations import iso
from relay.coordination.writes.fencing import LockCheck
from relay.log import events
from relay.log.events import Lane, NewEvent
from relay.model import Kind
from relay.room.journal import ledger
from relay.store.ports import Queries, Tx
from tests.engines import BOTH, ENGINES, SCHEMAS, T0, open_store

TASK = """-- name: put_done
INSERT INTO work_queue (id, number, task_type, task_description, rank, status, claimed_by, created_by, created_at,
  updated_at, completed_at)
VALUES (:id, :number, 'task', :text, 1.0, :status, 'AVA', 'ann', 1.0, 1.0, :done)
"""


@BOTH
async def test_it_is_of_the_time_and_the_hands_of_the_work(tmp_path: Path) -> None:
    for dialect in ENGINES:
        (tmp_path / dialect).mkdir()
        (tmp_path / dialect / "put.sql").write_text(TASK)
    put = Queries(tmp_path)
    store = await open_store(tmp_path, SCHEMAS)

    async def work(tx: Tx) -> None:
        for number, (ask, answer, files, at) in enumerate(
            [
                ("an old thing", "Old.", 1, T0 - 900),
                ("@AVA what is it?", "A shop.", 0, T0 + 5),
                ("@AVA round the totals", "Rounded.", 2, T0 + 10),
                ("@AVA and test it, @BEN please write the page", "Tested, and it holds.", 1, T0 + 20),
            ]
        ):
            said, _ = await ledger.put_message(tx, ledger.NewMessage("ann", Kind.HUMAN, ask, at - 1))
            meta = {"worktree": {"branch": "relay/ava", "files": files}} if files else {}
            lane = Lane("room", f"AVA:{number}")
            new = ledger.NewMessage("AVA", Kind.AGENT, answer, at, lane=lane, in_reply_to=said.id, meta=meta)
            await ledger.put_message(tx, new)
        for number, (status, done) in enumerate(
            [("claimed", None), ("completed", T0 + 9), ("completed", T0 - 99)], 1
        ):
            await tx.execute(
                put.put_done, id=f"t{number}", number=number, text=f"task {number}", status=status, done=done
            )

    try:
        await store.write(work)
        assert await StoredWorktreeRoom(store, LockCheck()).summary("AVA", T0) == WorkSummary(
            ("task 1", "task 2"),
            (Asked("@AVA round the totals", 5), Asked("@AVA and test it", 7)),
            "Tested, and it holds.",
        )
        assert await StoredWorktreeRoom(store, LockCheck()).summary("BEN", T0) == WorkSummary()
        room = StoredWorktreeRoom(store, LockCheck())
        about = await room.subjects({name: (T0, ["a.py"]) for name in ("AVA", "BEN")})
        assert {agent: asked.as_json() for agent, asked in about.items()} == {
            "AVA": {"number": 7, "text": "And test it"}
        }
        # A restart, or a merge of main, made its files younger than the turns that wrote them.
        later = {"AVA": (T0 + 1000, ["a.py"])}
        assert (await room.subjects(later))["AVA"].message == 7
        assert len((await room.summary("AVA", T0 + 1000, ["a.py"])).requests) == 3

        async def happens(change: str, at: float, commit: str, **more: str) -> None:
            told = WorktreeChange(change, "AVA", "relay/ava", "ann", commit=commit, details=more)
            new = NewEvent(CHANGED, Lane("room", "w"), outputs=told.as_json(), at=iso(at))
            await store.write(lambda tx: events.append(tx, new))

        # What it was asked before its work was merged or discarded is not in its branch.
        await happens(MERGED, T0 + 12, "c1")
        assert [each.message for each in (await room.summary("AVA", T0 + 1000, ["a.py"])).requests] == [7]
        await happens(MERGED, T0 + 30, "c2")
        assert await room.subjects(later) == {}
        # Forwarded, as at each beginning of a turn with nothing in the branch; and what was taken back is there.
        await happens(FORWARDED, T0 + 35, "c2")
        await happens(TAKEN_BACK, T0 + 40, "c3", merge="c2")
        assert (await room.subjects(later))["AVA"].message == 7
        await happens(DISCARDED, T0 + 50, "c4")
        assert await room.subjects(later) == {}
        await happens(RESTORED, T0 + 60, "c5")
        assert (await room.subjects(later))["AVA"].message == 7
        # Merged by hand: the room only finds the branch empty.
        await happens(FORWARDED, T0 + 70, "c6")
        assert await room.subjects(later) == {}
    finally:
        await store.close()


A_FENCE = "I changed it:\n\n```python\nx = 1\n```\n\n- rounds half up\n- tells @BEN\n\n[DECISION: done]\n"
LONG = "Make every total of the cart and of the invoice round to cents by banker's rounding"


@pytest.mark.parametrize(
    ("squash", "about", "commits", "dirty", "message"),
    [
        (True, WorkSummary(), ["Add x"], False, "Add x\n\nbody\n"),
        (False, WorkSummary(requests=(Asked("no"),)), ["Add x"], False, "Merge relay/a: Add x\n"),
        (
            True,
            WorkSummary(requests=(Asked("@A, could you please fix the cart?"),)),
            [],
            True,
            "Fix the cart\n",
        ),
        (
            True,
            WorkSummary(requests=(Asked("@A t12: add a discount", 5),)),
            [],
            True,
            "Add a discount (m5)\n",
        ),
        (True, WorkSummary(("Task",), (Asked("go on"),), "Done."), [], True, "Go on\n"),
        (
            True,
            WorkSummary(("Fix totals now",), (), "Done."),
            ["1", "2"],
            True,
            "Fix totals now\n\n- 1\n- 2\n",
        ),
        (True, WorkSummary((), (Asked("yes"),), "Done."), [], True, "Change a.py and 1 more file\n"),
        (
            True,
            WorkSummary((), (Asked("ok"),), "Done."),
            ["Begin", "End"],
            False,
            "Begin\n\n- Begin\n- End\n",
        ),
        (
            True,
            WorkSummary((), (Asked("Round it all"),), A_FENCE),
            [],
            True,
            "Round it all\n\nI changed it:\n\n- rounds half up\n- tells BEN\n",
        ),
        (True, WorkSummary((), (Asked(LONG),)), [], True, f"{LONG[: LONG.index(' banker')]}…\n"),
        # The newest that says something; a review's comments only where nothing else does. What is named so once is
        # not listed again.
        (
            False,
            WorkSummary((), (Asked("Round totals", 3), Asked("Add the tax", 5), Asked("/review @A 1", 7))),
            [],
            True,
            "Merge relay/a: Add the tax (m5)\n\nAnd 2 more:\n- Round totals (m3)\n"
            "- Change what a review comments on (m7)\n",
        ),
        (
            True,
            WorkSummary((), (Asked("Round totals", 3), Asked("/update @A", 5))),
            ["Round totals (m3)", "Apply a suggestion"],
            True,
            "Round totals (m3)\n\n- Apply a suggestion\n",
        ),
        # What was said to it at work is a request; what it asked of people is none of what it did.
        (
            False,
            WorkSummary(
                ("Add a discount",),
                (Asked("@A t1: Add a discount", 3), Asked("/steer @A No, books are net", 9)),
                "Books are net, and it is tested.\nShall they have the reduced rate of 7.5 %?",
            ),
            [],
            True,
            "Merge relay/a: No, books are net (m9)\n\nBooks are net, and it is tested.\n\n"
            "And 1 more:\n- Add a discount (m3)\n",
        ),
        (True, WorkSummary((), (Asked("Mend it now"),), "Which one? Or all?"), [], True, "Mend it now\n"),
        (True, WorkSummary((), (Asked(LONG, 12),)), [], True, f"{LONG[: LONG.index(' by')]}… (m12)\n"),
    ],
)
def test_the_message(squash: bool, about: WorkSummary, commits: list[str], dirty: bool, message: str) -> None:
    made = [
        BranchCommit(one, "body\n\nCo-authored-by: Bo <bo@x.org>" if len(commits) == 1 else "")
        for one in commits
    ]
    assert proposed_message("relay/a", squash, about, made, ["a.py", "b.py"], dirty=dirty) == message


@pytest.mark.parametrize(
    ("asked", "made", "message"),
    [
        # The second commit of a task is named by what was asked then, else by what it changes: never like the first.
        (
            ("@A t1: Add a discount", "@A no, net prices"),
            "Add a discount (m16)",
            "No, net prices (m17)\n\nIt is so.\n",
        ),
        (("@A t1: Add a discount", "yes"), "Add a discount (m16)", "It is so\n"),
        (("@A t1: Add a discount",), "Add a discount (m16)", "Change a.py and 1 more file\n"),
        (("yes",), "Add a discount", "It is so\n"),
        (("@A t1: Add a discount",), "Something else", "Add a discount (m16)\n\nIt is so.\n"),
    ],
)
def test_two_commits_of_one_task_are_told_apart(asked: tuple[str, ...], made: str, message: str) -> None:
    requests = tuple(Asked(text, number) for number, text in enumerate(asked, 16))
    about = WorkSummary(("Add a discount",), requests, "It is so.")
    assert work_message(about, [BranchCommit(made)], ["a.py", "b.py"]) == message


BOTH_ASKED = "@ANN please put the tax into total, @BOB please put the discount into total"


@pytest.mark.parametrize(
    ("agent", "text", "own"),
    [
        ("ANN", BOTH_ASKED, "@ANN please put the tax into total"),
        ("bob", BOTH_ASKED, "@BOB please put the discount into total"),
        ("CAT", BOTH_ASKED, BOTH_ASKED),
        ("A", "@A, @B fix the cart", "@A, @B fix the cart"),
        ("A", "@A fix it with @B and @C", "@A fix it with @B and @C"),
        ("A", "@A fix the cart, then tell @B of it", "@A fix the cart, then tell @B of it"),
        ("A", "Fix the cart, @A", "Fix the cart, @A"),
        ("B", "@A fix the cart.\nAnd @B: write its tests", "@B: write its tests"),
        ("A", "", ""),
    ],
)
def test_a_request_to_several_says_of_each_only_its_own(agent: str, text: str, own: str) -> None:
    assert asked_of(agent, text) == own
