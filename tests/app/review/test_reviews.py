"""Reviews over real git, on both stores."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest

from relay.airspace.worktrees import view
from relay.airspace.worktrees.branch_updates import BranchUpdates
from relay.airspace.worktrees.lifecycle import WorktreeLifecycle
from relay.airspace.worktrees.merging.proposal import MergeOptions
from relay.app.review.comments import wanted
from relay.app.review.reviews import Reviews
from relay.app.review.suggestions import Suggestions
from relay.app.verification.sources import ChangeSources
from relay.app.worktrees.desk import WorktreeDesk
from relay.faces.worktrees import rows_of
from relay.git.checkout import Checkout
from relay.model import Fault, Message, Refusal
from relay.model.actions import (
    ApplySuggestion,
    DeleteMessage,
    MarkReviewed,
    RunApp,
    SetUp,
    ShowReview,
    StopApp,
)
from relay.room.entries import changes
from relay.room.journal import ledger
from relay.room.journal.ledger import NewMessage
from relay.room.journal.orders import Order
from relay.store.ports import Tx
from relay.verification import journal
from tests.app.verification.place import AGENTS, Open, Place, policy, python
from tests.engines import BOTH, all_events, check_log
from tests.git.repository import commit, git

pytestmark = BOTH


def reviews(place: Place) -> Reviews:
    suggestions = Suggestions(place.store, place.registry, place.actions, BranchUpdates(place.registry))
    return Reviews(place.store, place.registry, suggestions, place.settings)


async def send(place: Place, *comments: dict[str, Any]) -> Message:
    action, record = await reviews(place).prepared("AVA", wanted(comments))

    async def work(tx: Tx) -> Message:
        message, _ = await ledger.put_message(
            tx, NewMessage("ann", "human", action.line(), await tx.now(), to=("AVA",))
        )
        await record(tx, message)
        return message

    return await place.store.write(work)


async def apply(
    place: Place, number: int, n: int = 1, *, by: str = "ann", undo: bool = False, key: str = ""
) -> str:
    action = ApplySuggestion("AVA", number, n, undo)
    return await reviews(place).carry_out(action, by=by, source_key=key or f"order:{number}.{n}.{undo}.{by}")


def marked(told: dict[str, Any]) -> list[str]:
    return [file["path"] for file in told["files"] if file["reviewed"]]


async def test_a_mark_holds_for_one_content_before_and_after(open_place: Open) -> None:
    place = await open_place()
    await place.work(
        "AVA", {"app.py": "def total():\n    return 2\n", "new.py": "x = 1\n", "README.md": "Mine.\n"}
    )
    view = reviews(place)
    await view.mark(MarkReviewed("AVA", ("app.py", "new.py", "README.md")), "ann")
    assert marked(await view.state("AVA", "ann")) == ["README.md", "app.py", "new.py"]
    assert marked(await view.state("AVA", "Ann")) == ["README.md", "app.py", "new.py"]
    assert marked(await view.state("AVA", "bob")) == [] and marked(await view.state("ava", "ann")) != []
    # Committed or not is no matter; a mode is, and so is the content on the branch.
    commit(place.at("AVA"))
    assert len(marked(await view.state("AVA", "ann"))) == 3
    (place.at("AVA") / "new.py").chmod(0o755)
    await place.work("AVA", {"app.py": "def total():\n    return 3\n"})
    told = await view.state("AVA", "ann")
    assert marked(told) == ["README.md"]
    (mode,) = [file for file in told["files"] if file["path"] == "new.py"]
    assert (mode["old_mode"], mode["new_mode"], mode["uncommitted"]) == (None, "100755", True)
    # The main branch's own content changes below it.
    commit(place.folder, {"README.md": "Other.\n"})
    await place.look()
    assert marked(await view.state("AVA", "ann")) == ["README.md"], "the merge base is still the same"
    git(place.at("AVA"), "stash", "-q", "-u")
    git(place.at("AVA"), "merge", "-q", "-X", "ours", "main")
    await place.look()
    # What is again as it was reviewed is reviewed; README.md has another content before it.
    assert marked(await view.state("AVA", "ann")) == ["app.py", "new.py"]


async def test_a_suggestion_is_applied_once_for_each_order(open_place: Open) -> None:
    place = await open_place()
    await place.work("AVA", {"app.py": "def total():\n    return 2\n"})
    made = await send(place, {"path": "app.py", "first": 2, "text": "One.", "suggestion": "    return 1 + 1"})
    said = await apply(place, made.number, key="order:x")
    head = git(place.at("AVA"), "rev-parse", "HEAD")
    # The room was ended behind the commit and does it again: it is answered with what was done.
    assert (
        await apply(place, made.number, key="order:x") == said
        and git(place.at("AVA"), "rev-parse", "HEAD") == head
    )
    assert git(place.at("AVA"), "log", "-2", "--format=%an <%ae>").splitlines()[0] == "ann <ann@relay>"
    with pytest.raises(Refusal, match="was applied by ann"):
        await apply(place, made.number, by="bob")
    await apply(place, made.number, undo=True)
    with pytest.raises(Refusal, match="is not applied"):
        await apply(place, made.number, undo=True, by="bob")
    await apply(place, made.number, by="bob")
    changed = [
        event for event in await all_events(place.store, "files.changed") if event.lane.startswith("human:")
    ]
    assert [event.lane for event in changed] == ["human:ann", "human:ann", "human:bob"]
    kinds = [event.outputs["change"] for event in await all_events(place.store, "worktree.changed")]
    assert kinds.count("suggested") == 3
    # While the agent works nobody writes there.
    place.registry.turn_trees["AVA"] = "x"
    with pytest.raises(Refusal, match="is at work"):
        await apply(place, made.number, undo=True, by="cleo")
    del place.registry.turn_trees["AVA"]
    await check_log(place.store)


async def test_a_verdict_is_of_the_tree_that_was_tested(open_place: Open) -> None:
    place = await open_place()
    place.have(policy("tests", python("import app; raise SystemExit(app.total() == 4)")))
    sources = ChangeSources(place.policies, place.registry)

    async def verify_applied() -> None:
        event = (await all_events(place.store, "review.applied"))[-1]
        await place.store.write(lambda tx: sources.apply(tx, event))
        (asked,) = await place.store.read(journal.open_verifications)
        await place.verifier.finished(asked.number)

    async def told() -> tuple[dict[str, Any], list[dict[str, Any]]]:
        await place.look()
        rows, order = await rows_of(place.registry, None, place.store)
        return {row["agent"]: row["verified"] for row in rows}, order

    await place.work("BEN", {"ben.py": "x = 1\n"})
    await place.work("AVA", {"app.py": "def total():\n    return 3\n"})
    assert (await told())[0]["AVA"] is None
    await place.verify("AVA")
    verdicts, order = await told()
    assert (verdicts["AVA"]["state"], verdicts["AVA"]["present"], verdicts["AVA"]["said"]) == (
        "passed",
        True,
        "",
    )
    assert verdicts["BEN"] is None and [step["agent"] for step in order] == ["AVA", "BEN"]
    made = await send(place, {"path": "app.py", "first": 2, "text": "More.", "suggestion": "    return 4"})
    await apply(place, made.number)
    verdict = (await told())[0]["AVA"]
    assert (verdict["reference"], verdict["state"], verdict["present"]) == ("v1", "passed", False)
    assert verdict["said"] == "It was changed since its tests passed (v1)."
    # It is verified as what a turn leaves; a merge says how that ended, and is the last one that is advised.
    await verify_applied()
    verdicts, order = await told()
    verdict = verdicts["AVA"]
    assert (verdict["reference"], verdict["state"], verdict["present"]) == ("v2", "failed", True)
    assert [(step["agent"], step["failed"]) for step in order] == [("BEN", ""), ("AVA", "v2")]
    proposal = await place.actions.propose("AVA", "ann", MergeOptions())
    assert proposal["tests"] == verdict["said"] == "Its tests failed (v2)."
    # What stands there again as it was tested needs no test.
    await apply(place, made.number, undo=True)
    verdict = (await told())[0]["AVA"]
    assert (verdict["reference"], verdict["state"], verdict["present"]) == ("v1", "passed", True)
    await apply(place, made.number, by="bob")
    assert proposal["tests_failed"]
    with pytest.raises(Refusal, match="its tests failed \\(v2\\)"):
        await place.actions.merge("AVA", "ann")
    merged = await place.actions.merge("AVA", "ann", MergeOptions(anyway=True))
    assert merged["reason"].endswith("Its tests failed (v2).")


async def test_what_is_taken_back_leaves_the_file_as_it_was_to_the_last_byte(open_place: Open) -> None:
    place = await open_place()
    before = b"a\r\nb\nlast"
    await place.work("AVA", {"app.py": before.decode()})
    (place.at("AVA") / "app.py").write_bytes(before)
    for first, last, text in ((1, 3, ""), (1, 1, "x"), (3, 3, "")):
        asked = {"path": "app.py", "first": first, "last": last, "text": "", "suggestion": text}
        made = await send(place, asked)
        await apply(place, made.number)
        assert (place.at("AVA") / "app.py").read_bytes() != before
        await apply(place, made.number, undo=True)
        assert (place.at("AVA") / "app.py").read_bytes() == before


class Killed(BaseException):
    """The process is gone."""


@pytest.mark.parametrize("when", ["before the files", "before the branch", "behind the branch"])
async def test_what_a_killed_room_applied_is_recorded_once(
    open_place: Open, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    place = await open_place()
    await place.work("AVA", {"app.py": "def total():\n    return 2\n"})
    # The lines are in what is suggested: applied once more, they would stand there twice.
    doubled = "    # Why.\n    return 2"
    made = await send(place, {"path": "app.py", "first": 2, "text": "", "suggestion": doubled})
    forward = WorktreeLifecycle.forward

    async def killed(
        self: WorktreeLifecycle, checkout: Checkout, branch: str, before: str, after: str
    ) -> None:
        if when == "before the branch":
            git(checkout.top, "read-tree", "-m", "-u", before, after)
        elif when == "behind the branch":
            await forward(self, checkout, branch, before, after)
        raise Killed

    monkeypatch.setattr(WorktreeLifecycle, "forward", killed)
    with pytest.raises(Killed):
        await apply(place, made.number, key="order:x")
    monkeypatch.setattr(WorktreeLifecycle, "forward", forward)
    await place.look()
    if when == "before the files":
        # The order is done again; a second click meets what it did.
        await apply(place, made.number, key="order:x")
    else:
        # Somebody else's click comes first: it is told who has done it. Then the order is done again.
        with pytest.raises(Refusal, match="was applied by ann"):
            await apply(place, made.number, by="bob")
    said = await apply(place, made.number, key="order:x")
    head = git(place.at("AVA"), "rev-parse", "HEAD")
    assert head[:9] in said and git(place.at("AVA"), "status", "--porcelain") == ""
    assert (place.at("AVA") / "app.py").read_text() == f"def total():\n{doubled}\n"
    (comment,) = (await reviews(place).state("AVA", "ann"))["comments"]
    assert comment["applied"] == head
    changed = [each for each in await all_events(place.store, "files.changed") if each.lane == "human:ann"]
    assert len(changed) == len(await all_events(place.store, "review.applied")) == 1
    await apply(place, made.number, undo=True)
    assert (place.at("AVA") / "app.py").read_text() == "def total():\n    return 2\n"
    await check_log(place.store)


async def test_what_is_ordered_right_after_a_start_waits_for_the_worktrees(
    open_place: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = await open_place()
    await place.work("AVA", {"app.py": "def total():\n    return 2\n"})
    made = await send(place, {"path": "app.py", "first": 2, "text": "", "suggestion": "    return 3"})
    # The room starts again: nobody has looked at the worktrees yet.
    anew = Place(place.store, place.folder, AGENTS)
    desk = WorktreeDesk(anew.store, anew.settings, anew.registry)
    monkeypatch.setattr(view, "SURVEY_S", 0.0)
    for ordered in (
        apply(anew, made.number),
        reviews(anew).carry_out(ShowReview("AVA"), by="ann", source_key="order:1"),
        desk.carry_out(RunApp("AVA"), by="ann", source_key="order:2"),
        desk.carry_out(StopApp("AVA"), by="ann", source_key="order:3"),
        desk.carry_out(SetUp(("AVA",)), by="ann", source_key="order:4"),
    ):
        with pytest.raises(Refusal, match="has just started") as refused:
            await ordered
        assert refused.value.fault is Fault.BUSY
    monkeypatch.setattr(view, "SURVEY_S", 60.0)
    applied = asyncio.create_task(apply(anew, made.number))
    shown = asyncio.create_task(reviews(anew).state("AVA", "ann"))
    nobody = asyncio.create_task(desk.carry_out(SetUp(("NOBODY",)), by="ann", source_key="order:5"))
    await anew.registry.open()
    await anew.look()
    assert "applied the suggestion" in await applied
    assert (await shown)["agent"] == "AVA"
    with pytest.raises(Refusal, match="There is no worktree of NOBODY"):
        await nobody
    await anew.close()


async def delete(place: Place, message: Message) -> None:
    async def work(tx: Tx) -> None:
        said, _ = await ledger.put_message(
            tx, NewMessage("ann", "human", f"/delete m{message.number}", await tx.now())
        )
        await changes.delete(tx, DeleteMessage(message.number), Order("ann", said, [], True, await tx.now()))

    await place.store.write(work)


async def test_what_a_deleted_message_suggested_is_not_applied(open_place: Open) -> None:
    place = await open_place()
    await place.work("AVA", {"app.py": "def total():\n    return 2\n", "new.py": "x = 1\n"})
    first = await send(
        place,
        {"path": "app.py", "first": 2, "text": "Wrong.", "suggestion": "    return 3"},
        {"path": "new.py", "first": 1, "text": "", "suggestion": "x = 2"},
    )
    second = await send(place, {"path": "app.py", "first": 1, "text": "Stays."})
    await apply(place, first.number, 2)
    await delete(place, first)
    told = await reviews(place).state("AVA", "ann")
    assert [each["id"] for each in told["comments"]] == [f"m{second.number}.1"]
    shown = await reviews(place).carry_out(ShowReview("AVA"), by="ann", source_key="order:1")
    assert "Stays." in shown and "Wrong." not in shown
    head = git(place.at("AVA"), "rev-parse", "HEAD")
    with pytest.raises(Refusal, match=f"m{first.number} was deleted, so m{first.number}.1 is not applied"):
        await apply(place, first.number)
    assert git(place.at("AVA"), "rev-parse", "HEAD") == head
    # What was applied before can still be taken back.
    await apply(place, first.number, 2, undo=True)
    assert (place.at("AVA") / "new.py").read_text() == "x = 1\n"


async def test_what_is_no_text_of_the_branch_is_refused(open_place: Open) -> None:
    place = await open_place()
    await place.work("AVA", {"bin.dat": b"\0\1", "latin.txt": b"caf\xe9\n", "app.py": "x\n"})
    for comment, why in (
        ({"path": "bin.dat", "first": 1, "text": "x"}, "a binary file"),
        ({"path": "nowhere.py", "first": 1, "text": "x"}, "has not got in that form"),
        ({"path": "../etc/passwd", "first": 1, "text": "x"}, "has not got in that form"),
        ({"path": "app.py", "first": 1, "blob": "dead" * 10, "text": "x"}, "has not got in that form"),
        ({"path": "app.py", "first": 2, "text": "x"}, "line 2 of app.py, which has 1"),
    ):
        with pytest.raises(Refusal, match=why):
            await send(place, comment)
    made = await send(place, {"path": "latin.txt", "first": 1, "text": "", "suggestion": "cafe"})
    before = git(place.at("AVA"), "rev-parse", "HEAD")
    with pytest.raises(Refusal, match=r"no UTF-8 text"):
        await apply(place, made.number)
    assert git(place.at("AVA"), "rev-parse", "HEAD") == before
    # A name that is no UTF-8 is shown, and its file found by nobody who writes it so.
    await place.work("AVA", {os.fsdecode(b"bad\xff.py"): "x\n"})
    made = await send(place, {"path": "bad\\xff.py", "first": 1, "text": "", "suggestion": "y"})
    with pytest.raises(Refusal, match=r"The name of `bad\\xff.py` is no UTF-8"):
        await apply(place, made.number)
    for agent in ("DAN", "AVA/../BEN"):
        with pytest.raises(Refusal, match="There is no worktree"):
            await reviews(place).state(agent, "ann")
    assert all(each["stands"] for each in (await reviews(place).state("AVA", "ann"))["comments"])
