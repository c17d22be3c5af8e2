"""What the work of agents asks of people: made really, acted on by the inbox, and gone (docs/inbox.md)."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from tests.e2e.conftest import Open
from tests.e2e.test_handoffs import DEVELOPER, RECEIVER, handoffs
from tests.e2e.test_inbox import act, comes, goes, names, needs
from tests.e2e.test_landing import IGNORED, SECURITY, UNIT
from tests.e2e.test_worktrees import MEETS, in_git
from tests.git.repository import commit, git
from tests.outside import Json, Outside, agent, eventually, program

CART = "def total(cart):\n    return sum(cart)\n"
WORKS = """\
- match: did not
  say: I cannot.
- match: break it
  write: {app.py: "BROKEN = 1\\n"}
  say: done
- match: mend it
  write: {app.py: "fixed = 1\\n"}
  say: done
- match: better it
  write: {app.py: "fixed = 2\n"}
  say: done
- match: secret
  write: {".env": "KEY={body}\\n", notes.md: "{body}\\n"}
  say: done
- match: look around
  delay_s: 600
- match: sum it
  write: {cart.py: "def total(cart):\\n    return sum(cart)  # {agent}\\n"}
  say: done
- say: hello
"""


async def ask(room: Outside, text: str) -> None:
    """A message to an agent, and its answer."""
    asked = await room.post(text)
    await room.reply_to(asked["id"], text[1:].partition(" ")[0])


async def answer_of(room: Outside, pattern: str) -> str:
    return str((await room.until_said(pattern, speaker="RELAY"))["body"])


async def nothing(room: Outside) -> bool:
    return await needs(room) == {}


async def says(room: Outside, id: str, pattern: str) -> Json:
    """The need, once its text is this."""

    async def look() -> Json | None:
        need = (await needs(room)).get(id)
        return need if need and re.match(pattern, need["text"]) else None

    return dict(await eventually(look, f"{id} says {pattern}"))


async def test_approvals_landings_and_conflicts(open_room: Open) -> None:
    agents = [agent(name, "w.yaml") for name in ("AVA", "BEN")]
    room = await open_room(*agents, files={"w.yaml": WORKS}, start=False, airspace={"enabled": False})
    (room.folder / "policies").mkdir()
    (room.folder / "policies" / "all.yaml").write_text(json.dumps([UNIT, SECURITY]))
    git(room.folder, "init", "-q", "-b", "main")
    commit(room.folder, {".gitignore": IGNORED, "app.py": "x = 1\n", "cart.py": CART})
    await room.start()

    # A change that a person has to agree to: rejected with a reason, and then approved.
    await ask(room, "@AVA secret one")
    waits = await comes(room, "approval")
    assert (waits["about"], names(waits)) == ("AVA", ["approve", "reject"])
    wanted = "AVA's change of 2 files; your approval is wanted for"
    assert f"{wanted} .env. Asked by security." in waits["text"], waits
    await answer_of(
        room, rf"{waits['ref']}: AVA's change of 2 files needs a person; your approval is wanted for `\.env`"
    )
    await room.post("/approve")
    await answer_of(room, rf"{waits['ref']}: {wanted} `\.env` \(security\)")
    status, refused = await room.ask(
        "POST", f"/api/needs/{waits['id']}", json={"name": "ann", "action": "reject"}
    )
    assert status == 400 and refused["error"]["fix"] == "Send `text`: why not."
    assert (await act(room, waits["id"], "reject", text="The key is the old one."))["success"]
    await goes(room, waits["id"])
    assert "The key is the old one." in await answer_of(room, r"ann rejected")
    await ask(room, "@AVA secret two")
    waits = await comes(room, "approval")
    assert (await act(room, waits["id"], "approve"))["success"]
    await goes(room, waits["id"])
    await answer_of(room, r"ann approved")

    # A branch that the queue put out: once more for nothing, put off, and landed in the end.
    await room.post("/task break it")
    await room.post("/give t1 @BEN")
    # Its task is answered: the inbox says that its tests failed, and offers first to give it again.
    done = await says(
        room, "answered:t1", r"BEN has answered t1 “break it” \(m\d+\): “done”; its tests failed \(v\d+\)\. "
    )
    assert names(done) == ["again", "done", "later"]
    assert done["text"] in (await room.relay("inbox")).out
    assert re.search(r"^BEN .*; its tests failed \(v\d+\)", (await room.relay("worktrees")).out, re.M)
    # Given again, its agent hears why. It changes nothing: the branch fails as before, and that is said as before.
    assert (await act(room, "answered:t1", "again"))["success"]
    told = next(one for one in await room.entries() if one["body"].startswith("@BEN t1: break it\n\n"))
    why = re.search(r"\n\nIts tests failed \((v\d+)\): unit failed", told["body"])
    assert why is not None, told
    answer = await room.reply_to(told["id"], "BEN")
    said = rf"BEN has answered t1 .*\(m{answer['number']}\).*; its tests failed \({why[1]}\)\. Is it done"
    assert names(await says(room, "answered:t1", said)) == ["again", "done", "later"]
    # While its agent works on something else, the question stays, and says so.
    other = await room.post("@BEN look around")
    said = rf".*\(m{answer['number']}\).* Is it done\? BEN is at work on m{other['number']} now\.$"
    busy = await says(room, "answered:t1", said)
    assert names(busy) == ["again", "done", "later"]
    asks = [{"ref": "t1", "says": f"BEN has answered (m{answer['number']}): is it done?"}]
    assert (busy["tasks"], busy["news"]) == (asks, f"answered:t1:m{answer['number']}")
    await room.post("/cancel @BEN")
    await says(room, "answered:t1", r"(?!.*at work)")
    # No verdict speaks of a branch whose work was discarded, and it did not land either.
    await room.post("/discard @BEN")
    gone = await says(room, "answered:t1", r".*; its branch has no changes now\. Is it done")
    assert names(gone) == ["again", "done", "later"]
    (row,) = [row for row in (await room.get("/api/worktrees"))["worktrees"] if row["agent"] == "BEN"]
    assert (row["files"], row["merges"], row["verified"], row["landed"]) == (0, "nothing", None, None)
    (line,) = [one for one in (await room.relay("worktrees")).out.splitlines() if one.startswith("BEN ")]
    assert "no changes" in line and line.endswith("nothing to merge"), line
    await room.post("/restore @BEN")
    await says(room, "answered:t1", r".*; its tests failed \(v\d+\)\. ")
    # A verdict is of the files that were tested.
    rows = (await room.get("/api/worktrees"))["worktrees"]
    by_hand = Path(next(row["path"] for row in rows if row["agent"] == "BEN")) / "note.txt"
    by_hand.write_text("by hand\n")
    await says(room, "answered:t1", r".*; its tests failed \(v\d+\), and it was changed since\. Is it done")
    by_hand.unlink()
    await says(room, "answered:t1", r".*; its tests failed \(v\d+\)\. ")
    await room.post("/land @BEN")
    # One need: that it did not land, and the task that it was for. What failed is not offered first again.
    out = await comes(room, "not_landed")
    assert "unit failed" in out["text"], out["text"]
    out = await says(
        room,
        out["id"],
        r"Its branch did not land.*\. BEN has answered t1 “break it” \(m\d+\): “done”\. Is it done",
    )
    assert (out["about"], names(out)) == ("BEN", ["again", "land", "done", "later"])
    assert out["tasks"] == asks
    assert "answered:t1" not in await needs(room)
    by_hand.write_text("by hand\n")
    changed = await says(room, out["id"], r".*“done”; its tests failed \(v\d+\)\. Is it done")
    assert names(changed) == ["land", "again", "done", "later"]
    by_hand.unlink()
    assert (await act(room, out["id"], "land"))["success"]
    await goes(room, out["id"])
    again = await comes(room, "not_landed")
    assert again["id"] != out["id"]
    assert (await act(room, again["id"], "later"))["success"]
    assert again["id"] not in await needs(room)
    await room.post(f"/later {again['id']} undo")
    await comes(room, "not_landed")
    await ask(room, "@BEN mend it")

    async def passed() -> bool:
        return (
            re.search(r"^BEN .*; its tests passed \(v\d+\)", (await room.relay("worktrees")).out, re.M)
            is not None
        )

    await eventually(passed, "the verdict among the worktrees")
    assert (await act(room, again["id"], "land"))["success"]
    await answer_of(room, r"BEN.*(landed|is in main)")
    await goes(room, again["id"])
    assert git(room.folder, "show", "main:app.py") == "fixed = 1"
    tip = git(room.folder, "rev-parse", "main")[:7]
    done = await says(room, "answered:t1", rf"BEN has answered t1 .*; landed as {tip}\. Is it done\?$")
    # The board, the task and the command say the same.
    (task,) = (await room.get("/api/tasks"))["tasks"]
    assert task["landed"][:7] == tip
    whole = (await room.get("/api/tasks/t1"))["task"]
    assert (whole["landed"], [one["to"] for one in whole["history"] if one["change"] == "given"]) == (
        task["landed"],
        ["BEN", "BEN"],
    )
    await room.post("/task t1")
    await answer_of(room, rf"landed as `{tip}`")
    shown = await room.relay("work", "show", "t1")
    assert f"\nlanded as {tip}\n" in shown.out and "ann given to BEN" in shown.out, shown.all
    assert names(done) == ["done", "again", "later"]
    assert (await act(room, "answered:t1", "done"))["success"]

    # Two write one line: what a person writes stands there.
    await ask(room, "@AVA sum it")
    await ask(room, "@BEN sum it")
    status, done = await room.ask("POST", "/api/worktrees/BEN/merge", json={"name": "ann"})
    assert (status, done["success"]) == (200, True), done
    await room.ask("POST", "/api/worktrees/AVA/merge", json={"name": "ann"})
    clash = await comes(room, "conflict")
    assert names(clash) == ["choice-1", "choice-2", "choice-3", "choice-4", "choice-5"]
    assert clash["about"] == "AVA" and "in cart.py" in clash["text"]
    both = "    return sum(cart)  # both"
    assert (await act(room, clash["id"], "choice-4", text=both))["success"]
    await answer_of(room, rf"{clash['ref']} is settled: what ann wrote stands")
    await goes(room, clash["id"])
    (settled,) = await room.get("/api/conflicts")
    assert settled["resolution"]["merged_content"] == f"{both}\n"
    # AVA's turn left another change with the same file, so it is asked about anew.
    assert (await act(room, (await comes(room, "approval"))["id"], "approve"))["success"]
    # What is decided is to be landed still; its commit names who wrote the lines.
    settled = await comes(room, "settled")
    assert settled["id"] == "decided:c1" and (await act(room, settled["id"], "later"))["success"]
    shown = json.loads((await room.relay("worktrees", "merge", "AVA", "--dry-run", "--json")).out)
    assert "Resolved-by: ann" in shown["trailers"] and "\nResolved-by: ann" in shown["message"]
    await eventually(lambda: nothing(room), "the inbox is empty")

    # A merge tests nothing: what failed before is in main now, and is no success.
    await room.post("/task break it")
    await room.post("/give t2 @BEN")
    await says(room, "answered:t2", r"BEN has answered t2 .*; its tests failed \(v\d+\)\. ")
    # The task says what waits for a word, and done, who ended it and what is wrong with it.
    assert re.search(
        r"\nBEN has answered \(m\d+\): is it done\?\n", (await room.relay("work", "show", "t2")).out
    )
    await room.post("/move t2 done")
    await goes(room, "answered:t2")
    shown = (await room.relay("work", "show", "t2")).out
    assert re.search(r"\nended by ann\ndone, not landed, tests failed \(v\d+\)\n", shown), shown
    # What mends its branch, or breaks it, counts for it, too, as long as it is there and has not landed.
    await ask(room, "@BEN better it")
    await eventually(passed, "BEN's branch is mended")
    mended = (await room.relay("work", "show", "t2")).out
    assert "\nended by ann\n" in mended and "not landed" not in mended, mended
    await ask(room, "@BEN break it")

    async def broken() -> bool:
        told = (await room.relay("work", "show", "t2")).out
        return told != shown and re.search(r"\ndone, not landed, tests failed \(v\d+\)\n", told) is not None

    await eventually(broken, "BEN's branch is broken")
    for order, there in (("/discard", False), ("/restore", True)):
        done = await room.post(f"{order} @BEN")
        await room.reply_to(done["id"], "RELAY")
        assert (await room.get("/api/tasks/t2"))["task"]["in_branch"] is there
    await room.post("/undo")
    await says(room, "answered:t2", r"BEN has answered t2 .*; its tests failed \(v\d+\)\. ")
    merged = await room.relay("worktrees", "merge", "BEN", "--anyway", "--name", "ann")
    assert merged.code == 0, merged.all
    tip = git(room.folder, "rev-parse", "main")[:7]
    done = await says(
        room, "answered:t2", rf".*; landed as {tip}, though its tests failed \(v\d+\)\. Is it done"
    )
    assert names(done) == ["again", "done", "later"]
    # Its agent is told what failed, with what the program wrote last. Taken back, the task is its agent's as before.
    assert (await act(room, "answered:t2", "again"))["success"]
    given = (await room.get("/api/tasks/t2"))["task"]["given"][-1]
    asked = next(one for one in await room.entries() if one["number"] == given["number"])
    told = r"though its tests failed \(v\d+\): [^\n]+\n\n```\napp\.py is broken\nBROKEN = 1\n```"
    assert re.search(told, asked["body"]), asked["body"]
    undone = await room.post("/undo")
    said = (await room.reply_to(undone["id"], "RELAY"))["body"]
    assert "ann undid giving t2 to BEN again: it is BEN's as before" in said, said


async def test_handoffs_variants_and_talk(open_room: Open) -> None:
    agents = (
        program("AVA", "-c", DEVELOPER, role="developer"),
        program("BEN", "-c", RECEIVER, role="qa"),
        agent("PING", "ping.yaml"),
        agent("PONG", "pong.yaml"),
    )
    room = await open_room(
        *agents,
        files={"ping.yaml": "- say: '@PONG yours'\n", "pong.yaml": "- say: '@PING yours'\n"},
        start=False,
        airspace={"enabled": False},
        handoffs=handoffs(max_retries=0),
        merge={"test": [sys.executable, "-c", "pass"]},
        room={"agent_mentions": True, "hop_limit": 2},
    )
    in_git(room.folder)
    await room.start()

    # A handoff that did not pass is asked about: once more, then handed on with a reason.
    await room.post("/pipeline NEVER")
    asked = await comes(room, "handoff")
    assert (asked["about"], names(asked)) == ("AVA", ["retry", "skip", "branch", "escalate"])
    assert asked["text"] == "AVA's work is not handed on to BEN: AllTestsPass failed (exit code 1)."
    assert (await act(room, asked["id"], "retry"))["success"]
    await room.until_said("Nobody tries again by itself after 1 retry", speaker="RELAY")
    asked = await comes(room, "handoff")
    assert (await act(room, asked["id"], "skip", text="ann looked at it"))["success"]
    await answer_of(room, r"ann skipped the rules of handoff h1 from AVA to BEN: ann looked at it")
    await goes(room, asked["id"])
    await room.until_said("The pipeline is through", speaker="RELAY")

    # Variants of a task wait for a choice.
    order = {"name": "ann", "task": "Cache the answers", "variants": 2}
    status, done = await room.ask("POST", "/api/explorations", json=order)
    assert (status, done["success"]) == (200, True), done
    waits = await comes(room, "exploration")
    # The recommended one is offered first.
    assert waits["ref"] == "x1" and sorted(names(waits)[:2]) == ["take-ava", "take-ben"]
    assert names(waits)[2:] == ["end"]
    assert "Cache the answers" in waits["text"]
    assert (await act(room, waits["id"], "take-ben"))["success"]
    await goes(room, waits["id"])
    await answer_of(room, r"x1: ben is merged into")
    assert (room.folder / "checked.txt").read_text() == "by the receiver"

    # Agents that have talked among themselves for long go on when a person lets them.
    await room.post("@PING go")
    held = await comes(room, "held")
    assert held["about"] in ("PING", "PONG") and names(held) == ["continue"]
    before = len(await room.entries())
    assert (await act(room, held["id"], "continue"))["success"]
    await goes(room, held["id"])

    async def more() -> bool:
        return len([one for one in (await room.entries())[before:] if one["kind"] == "agent"]) >= 2

    await eventually(more, "the agents to go on")
    assert (await comes(room, "held"))["id"] != held["id"]


async def test_a_collision_is_decided_once(open_room: Open) -> None:
    agents = [agent(name, "m.yaml") for name in ("AVA", "BEN")]
    room = await open_room(*agents, files={"m.yaml": MEETS}, start=False, airspace={"tick_s": 0.2})
    in_git(room.folder)
    await room.start()
    for name in ("AVA", "BEN"):
        await ask(room, f"@{name} write")
    clash = await comes(room, "collision")
    assert sorted(clash["about"].split(" and ")) == ["AVA", "BEN"] and "notes.md" in clash["text"]
    (open_one,) = [
        one for one in (await room.get("/api/airspace/advisories"))["advisories"] if one["id"] == clash["ref"]
    ]
    late = open_one["steer"][0]
    assert f"{late} waits" in clash["text"] and "STEER" not in clash["text"], clash
    assert set(names(clash)) == {"first-AVA", "first-BEN", f"stop-{late}", "later"}

    # Who goes first is decided: then it waits for the agents, and for no person.
    done = await act(room, clash["id"], f"first-{late}")
    assert done["success"] and f"ann decided: {late} goes first" in done["reason"]
    await goes(room, clash["id"])
    (decided,) = [
        one for one in (await room.get("/api/airspace/advisories"))["advisories"] if one["id"] == clash["ref"]
    ]
    assert decided["closed_at"] is None and decided["steer"] != [late]

    # What it went first for is in main: the other is set back, and asks for a person anew.
    async def merged() -> bool:  # not while it answers the room
        _, done = await room.ask("POST", f"/api/worktrees/{late}/merge", json={"name": "ann"})
        return bool(done["success"])

    await eventually(merged, f"{late}'s work is in main")
    other = decided["steer"][0]
    own = {f"settle-{other}", f"stop-{other}", f"update-{other}", "later"}

    async def asks_anew() -> Json | None:
        found = [need for need in (await needs(room)).values() if need["about"] == other]
        return found[0] if found and set(names(found[0])) == own else None

    back = await eventually(asks_anew, f"{other} is set back")
    # It is another need: a place outside that was told of the collision is told of this too.
    assert back["kind"] == "collision" and back["ref"] == clash["ref"] and back["id"] != clash["id"]
    done = await act(room, back["id"], f"update-{other}")
    assert done["success"], done
    # Stopped: it begins nothing, so it collides with nobody until a person lets it.
    assert (await act(room, back["id"], f"stop-{other}"))["success"]
    await goes(room, back["id"])
    await answer_of(room, rf"ann stopped {other}")
    await room.post(f"/resume @{other}")
    back = await comes(room, "collision")
    # It is put off by what the room calls it, or the beginning of that, and not by an id that nobody can type.
    assert re.fullmatch(rf"advisory:m\d+:{other}", back["short"]), back
    assert back["actions"][-1]["command"] == f"/later {back['short']}"
    done = await room.relay("inbox", back["short"], "later", "--name", "ann")
    assert f"`/later {back['short']} undo` in the room takes it back" in done.out, done.all
    assert back["id"] not in await needs(room)
    await room.post(f"/later {back['short']} undo")
    assert (await comes(room, "collision"))["id"] == back["id"]
    await room.post("/later adv")
    await goes(room, back["id"])


async def test_a_failed_task_is_tried_again_and_that_is_taken_back(open_room: Open) -> None:
    room = await open_room(agent("AVA"))
    made = await room.relay("keys", "create", "AVA", "--scopes", "work,read", "--json")
    mine = {"X-API-Key": json.loads(made.out)["key"]}
    body = {"task_type": "fix", "task_description": "Mend the clock", "max_attempts": 1}
    _, task = await room.ask("POST", "/work/submit", json=body)
    async with room.session.post(f"{room.url}/work/claim", json={}, headers=mine) as reply:
        assert (await reply.json())["task_id"] == task["task_id"]
    failed = {"task_id": task["task_id"], "success": False, "error_message": "The spring is broken."}
    async with room.session.post(f"{room.url}/work/complete", json=failed, headers=mine) as reply:
        assert reply.status == 200

    need = await comes(room, "task")
    assert names(need) == ["again", "done", "later"]
    assert "Mend the clock" in need["text"] and "The spring is broken." in need["text"]
    done = await act(room, need["id"], "done")
    assert done["success"] and re.fullmatch(r"/undo m\d+", done["undo"])
    await goes(room, need["id"])
    await room.post(done["undo"])
    back = await comes(room, "task")
    assert (back["id"], back["text"]) == (need["id"], need["text"])
    later = await act(room, need["id"], "later")
    assert later["undo"] == f"/later {need['id']} undo"
    await goes(room, need["id"])
    await room.post(later["undo"])
    await comes(room, "task")
    assert (await act(room, need["id"], "again"))["success"]
    await goes(room, need["id"])
