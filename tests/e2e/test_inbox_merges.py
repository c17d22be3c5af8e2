"""A merge that waits, in the inbox: one need for each cause, from the conflict to the landing (docs/inbox.md)."""

from __future__ import annotations

import json
import re

from tests.e2e.test_inbox import act, comes, names, needs
from tests.e2e.test_inbox_work import answer_of, nothing
from tests.e2e.test_set_back import Started, merge, rows, started
from tests.git.repository import git
from tests.outside import Json, eventually

__all__ = ["started"]


async def test_a_conflict_is_one_need_with_all_that_comes_of_it(started: Started) -> None:
    """The conflict, the branch that is set back, and its landing: one thing to decide, wherever it is read."""
    room = await started("AVA", "BEN")
    await room.post("/task edit the total")
    await room.post("/give t1 @BEN")
    await comes(room, "answered")
    await merge(room, "AVA")
    told = await room.until_said("BEN does not merge into main now", speaker="RELAY")
    await room.reply_to(told["id"], "BEN")
    back = await comes(room, "collision")

    # BEN is in the middle of a merge: first what ends it, never what began it as if nothing had.
    async def stuck() -> Json | None:
        need = (await needs(room)).get(back["id"])
        return need if need and "settle-BEN" in names(need) else None

    back = await eventually(stuck, "the merge in BEN's worktree can be given up")
    assert names(back) == ["settle-BEN", "abort-BEN", "update-BEN", "stop-BEN", "later"]
    assert [each["label"] for each in back["actions"]][:3] == [
        "Settle it yourself",
        "Give up the merge in BEN's worktree",
        "Ask BEN again to settle the conflicts",
    ]
    assert "BEN does not merge into main now" in back["text"] and "SET BACK" not in back["text"], back
    # Whether its task is done is asked when that is settled, and every view says so.
    assert "answered:t1" not in await needs(room)
    (at,) = back["tasks"]
    assert at["ref"] == "t1" and re.fullmatch(
        r"BEN has answered \(m\d+\): its branch conflicts with main", at["says"]
    )
    assert at["says"] in (await room.relay("work", "show", "t1")).out.splitlines()
    # Who leaves the collision for a day is asked whether the task is done.
    await act(room, back["id"], "later")
    assert (await comes(room, "answered"))["id"] == "answered:t1"
    assert "): is it done?" in (await room.relay("work", "show", "t1")).out
    await room.post(f"/later {back['id']} undo")
    await comes(room, "collision")
    assert "answered:t1" not in await needs(room)

    async def of_ben() -> list[Json]:
        return [need for need in (await needs(room)).values() if need["about"] == "BEN"]

    async def one(kind: str, *words: str) -> Json | None:
        found = await of_ben()
        right = [need["kind"] for need in found] == [kind] and all(word in found[0]["text"] for word in words)
        return found[0] if right else None

    await room.post("/land @BEN")
    await answer_of(room, "BEN's branch did not land")
    parts = (
        "c1: BEN cannot be merged into main: in src/cart.py, total (line 2), ",
        "So BEN's branch did not land.",
        "src/cart.py (line",
    )
    clash = await eventually(lambda: one("conflict", *parts), "one need")
    assert names(clash) == [*(f"choice-{n}" for n in range(1, 6)), "abort", "update-BEN"]
    assert [need["id"] for need in json.loads((await room.relay("inbox", "--json")).out)] == [clash["id"]]
    assert [one["ref"] for one in clash["tasks"]] == ["t1"]
    assert "): c1 is to be settled first\n" in (await room.relay("work", "show", "t1")).out
    asked = await room.post("/inbox")
    assert (await room.reply_to(asked["id"], "RELAY"))["body"].startswith("1 thing needs you")

    # The merge that relay began in its worktree is given up from here; the conflict itself stays.
    done = await act(room, clash["id"], "abort")
    assert (
        done["opens"] is None and done["success"] and "What stood in the files is kept" in done["reason"]
    ), done

    # At once, as the list of branches has it.
    (found,) = await of_ben()
    assert found["kind"] == "conflict" and "abort" not in names(found) and parts[1] in found["text"], found

    # Answered: that it did not land is true still, and what to do now is another thing.
    assert (await act(room, clash["id"], "choice-2"))["success"]
    # Who clicks on it all the same, in a page that is behind, hears what is so now, and changes nothing.
    late = {"name": "eve", "action": "choice-1"}
    status, told = await room.ask("POST", f"/api/needs/{clash['id']}", json=late)
    assert status == 404 and "c1: It is settled: BEN's side stands (ann)." in told["error"]["message"], told
    out = await eventually(lambda: one("not_landed", "c1 is settled now: land it again"), "it can land")
    assert names(out) == ["land", "again", "done", "later"] and "BEN has answered t1" in out["text"], out
    # Merged by hand instead: it is true no more.
    dry = await room.relay("worktrees", "merge", "BEN", "--dry-run", "--json", "--name", "ann")
    landed = await room.relay("worktrees", "merge", "BEN", "--joined", json.loads(dry.out)["tree"])
    assert landed.code == 0, landed.all
    over = await eventually(lambda: one("answered", "landed as"), "only the task is left")
    assert (await act(room, over["id"], "done"))["success"]
    await eventually(lambda: nothing(room), "the inbox is empty")


async def test_branches_that_a_person_keeps_apart_are_no_need(started: Started) -> None:
    room = await started("AVA", "BEN")
    await merge(room, "AVA")
    told = await room.until_said("BEN does not merge into main now", speaker="RELAY")
    await room.reply_to(told["id"], "BEN")
    await room.post("/land @BEN")
    clash = await comes(room, "conflict")
    # Whom it was left to answers, and settles nothing: that is said.
    assert (await act(room, clash["id"], "choice-3"))["success"]

    asks = await room.until_said("ann asks BEN to settle conflict c1", speaker="RELAY")
    text = (await needs(room))[clash["id"]]["text"]
    answer = await room.reply_to(asks["id"], "BEN")
    assert f"BEN was asked to write it (m{asks['number']})." in text or "not settled it" in text, text

    async def in_vain() -> bool:
        told = (await needs(room))[clash["id"]]["text"]
        return f"BEN has answered (m{answer['number']}) and not settled it." in told

    await eventually(in_vain, "the conflict says that BEN has answered in vain")
    assert (await act(room, clash["id"], "choice-5"))["success"]
    await eventually(lambda: nothing(room), "the inbox is empty")


async def test_work_whose_conflicts_are_decided_is_landed_from_the_inbox(started: Started) -> None:
    room = await started("AVA", "BEN")
    await merge(room, "AVA")
    told = await room.until_said("BEN does not merge into main now", speaker="RELAY")
    await room.reply_to(told["id"], "BEN")
    await room.until_said(r"BEN has not settled src/cart\.py", speaker="RELAY")

    async def collision() -> Json | None:
        found = [need for need in (await needs(room)).values() if need["kind"] == "collision"]
        return found[0] if found and "settle-BEN" in names(found[0]) else None

    # BEN is in the middle of a merge that it does not settle: a person ends that, and settles it in the room.
    stuck = await eventually(collision, "the merge in BEN's worktree can be settled")
    assert [each["command"] for each in stuck["actions"] if each["name"] == "settle-BEN"] == [
        "/abort @BEN settle"
    ]
    done = await act(room, stuck["id"], "abort-BEN")
    assert done["success"] and "What stood in the files is kept" in done["reason"], done
    # At once no view has that merge any more, and each has what can be done about the conflict that is there now.
    assert not (await rows(room))["BEN"]["merging"]
    (now,) = (await needs(room)).values()
    assert names(now) == ["settle-BEN", "stop-BEN", "update-BEN", "later"], now
    assert "git finds conflicts in src/cart.py" in now["text"] and "not settled" not in now["text"], now
    again = await room.relay("worktrees", "abort", "BEN", "--name", "ann")
    assert again.code == 1 and "no merge under way" in again.out, again.all
    assert (await room.relay("worktrees", "merge", "BEN", "--settle")).code == 2
    done = await room.relay("worktrees", "abort", "BEN", "--settle", "--name", "ann")
    assert done.code == 0 and done.out.strip() == "The room is asked about c1: `/resolve c1 1` to `5`.", (
        done.all
    )
    clash = await comes(room, "conflict")
    assert (await act(room, clash["id"], "choice-1"))["success"]
    # Who reads the branch is told that its lines are not what lands; not where they are.
    instead = "c1 is settled: in src/cart.py, AVA's side lands there instead of the branch's lines."
    assert (await room.get("/api/review/BEN?name=ann"))["settled"] == [instead]
    assert instead in (await room.relay("review", "BEN", "--name", "ann")).out
    done = await room.reply_to((await room.post("/resolve c1 2"))["id"], "RELAY")
    assert "`/land @BEN` lands it" in done["body"], done
    assert (await room.get("/api/review/BEN?name=ann"))["settled"] == []
    (ready,) = (await needs(room)).values()
    assert (ready["text"], names(ready)) == (
        "c1 is settled, and BEN's work is not in main yet. Land it?",
        ["land", "later"],
    )
    assert ready["kind"] == "settled", "nobody has tried to land it"
    assert (await act(room, ready["id"], "land"))["success"]
    # relay joins it, and nothing tests that: a person looks.
    assert (await act(room, (await comes(room, "approval"))["id"], "approve"))["success"]
    await answer_of(room, "of BEN landed on main")
    await eventually(lambda: nothing(room), "the inbox is empty")
    assert "# BEN" in (room.folder / "src" / "cart.py").read_text()


async def test_a_merge_that_main_has_outrun_is_over(started: Started) -> None:
    """main takes AVA's merge back while BEN is in the middle of merging it: git merges BEN again."""
    room = await started("AVA", "BEN")
    await merge(room, "AVA")
    told = await room.until_said("BEN does not merge into main now", speaker="RELAY")
    await room.reply_to(told["id"], "BEN")
    await room.until_said(r"BEN has not settled src/cart\.py", speaker="RELAY")
    # What somebody has written into it stays until a person says otherwise; all views say how it is.
    cart = room.folder / ".relay" / "worktrees" / "ben" / "src" / "cart.py"
    marked = cart.read_text()
    cart.write_text(marked + "# half done\n")
    git(room.folder, "revert", "--no-edit", "-m", "1", "HEAD")

    async def outrun() -> Json | None:
        found = list((await needs(room)).values())
        return found[0] if found and "has no conflict" in found[0]["text"] else None

    need = await eventually(outrun, "the inbox says that main has moved on")
    assert names(need) == ["abort-BEN", "stop-BEN", "later"], need
    said = "a merge of main is under way in its worktree, and main has no conflict with its branch any more"
    assert said in need["text"] and "# half done" in cart.read_text(), need
    row = (await rows(room))["BEN"]
    assert row["needless"] and row["stands"]["text"] == "has a needless merge of main under way", row
    for words in (("worktrees",), ("land", "BEN", "--dry-run")):
        assert said in (shown := await room.relay(*words)).out, shown.all
    # Nobody's words are in it any more: relay gives it up by itself.
    cart.write_text(marked)
    await room.until_said("relay gave up the merge of main", speaker="RELAY")
    await eventually(lambda: nothing(room), "the inbox is empty")
    row = (await rows(room))["BEN"]
    assert (row["merges"], row["merging"], row["needless"]) == ("clean", False, False), row
    assert "<<<" not in cart.read_text() and "# BEN" in cart.read_text()


async def test_a_suggestion_beside_a_settled_conflict_says_that_it_opens_it_again(started: Started) -> None:
    room = await started("AVA", "BEN")
    await merge(room, "AVA")
    told = await room.until_said("BEN does not merge into main now", speaker="RELAY")
    await room.reply_to(told["id"], "BEN")
    await room.until_said(r"BEN has not settled src/cart\.py", speaker="RELAY")
    await room.reply_to((await room.post("/abort @BEN settle"))["id"], "RELAY")
    done = await room.reply_to((await room.post("/resolve c1 2"))["id"], "RELAY")
    assert "Nothing of BEN's is left to decide" in done["body"], done
    (ready,) = (await needs(room)).values()
    assert ready["kind"] == "settled", ready
    comment = {
        "path": "src/cart.py",
        "first": 1,
        "text": "Typed.",
        "suggestion": "def total(items: list[int]):",
    }
    status, sent = await room.ask(
        "POST", "/api/review/BEN/comments", json={"name": "ann", "comments": [comment]}
    )
    assert status == 200, sent
    asked = await room.until_said("/review @BEN 1 comment on", speaker="ann")
    await room.reply_to(asked["id"], "BEN")
    done = await room.reply_to((await room.post(f"/apply @BEN m{asked['number']}.1"))["id"], "RELAY")
    assert "c1 does not hold any more: landing asks anew about these lines." in done["body"], done
    # At once, and until somebody decides anew: no view says that it is settled.
    assert not [need for need in (await needs(room)).values() if need["kind"] == "settled"]
    assert (await rows(room))["BEN"]["merges"] == "conflicts"
    back = await comes(room, "collision")
    assert "BEN does not merge into main now" in back["text"], back
    # Decided anew, all of them say so.
    await room.post("/land @BEN")
    await answer_of(room, "BEN's branch did not land")
    assert (await act(room, (await comes(room, "conflict"))["id"], "choice-2"))["success"]
    out = await comes(room, "not_landed")
    assert "c2 is settled now: land it again" in out["text"], out
    row = (await rows(room))["BEN"]
    assert (row["merges"], row["merging"], row["unsettled"]) == ("joins", False, False), row
