"""A person reads through an agent's branch: real git, a real room, an agent that hears of it (docs/review.md)."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.e2e.conftest import Open
from tests.git.repository import commit, git
from tests.outside import Json, Outside, eventually, settings

#: Writes what it was given for the word in its prompt, and keeps each prompt that it got.
WORKER = """
import json, os, pathlib, sys
prompt = sys.stdin.read()
room = pathlib.Path(sys.argv[1])
with (room / "prompts.txt").open("a") as heard:
    heard.write(prompt + chr(10) + "=" * 8 + chr(10))
for word, files in json.loads((room / "work.json").read_text()).items():
    if word in prompt.rsplit("ann", 1)[-1]:
        for name, text in files.items():
            pathlib.Path(name).parent.mkdir(parents=True, exist_ok=True)
            pathlib.Path(name).write_bytes(text.encode())
print("done")
"""
CART = "def total(items):\n    return sum(items)\n\n\ndef other():\n    return 1\n"
FIRST = {
    "cart.py": CART.replace("sum(items)", "sum(list(items))"),
    "docs/read me.md": "# Cart\r\n\r\nIt adds.\r\n",
}
#: Two lines above what was commented on, and the lines themselves as they were.
MOVED = {"cart.py": "import os\nimport sys\n" + FIRST["cart.py"]}
OTHER = {"docs/read me.md": "# Cart\r\n\r\nIt adds up.\r\n"}
WORK = {"begin": FIRST, "go on": MOVED, "reword": OTHER}


async def opened(open_room: Open) -> Outside:
    room = await open_room(start=False)
    worker = [sys.executable, str(room.folder / "worker.py"), str(room.folder)]
    room.configure(
        settings({"name": "AVA", "kind": "command", "cmd": worker}, ui={"editor": "zed://file{path}:{line}"})
    )
    (room.folder / "worker.py").write_text(WORKER)
    (room.folder / "work.json").write_text(json.dumps(WORK))
    git(room.folder, "init", "-q", "-b", "main")
    (room.folder / ".gitignore").write_text("*\n!cart.py\n!docs\n!docs/*\n")
    (room.folder / "cart.py").write_text(CART)
    git(room.folder, "add", "-f", "cart.py", ".gitignore")
    commit(room.folder)
    await room.start()
    await work(room, "begin")
    return room


async def work(room: Outside, word: str) -> None:
    await room.reply_to((await room.post(f"@AVA {word}"))["id"], "AVA")


async def review(room: Outside, person: str = "ann") -> Json:
    told: Json = await room.get(f"/api/review/AVA?name={person}")
    return told


async def order(room: Outside, what: str, **more: object) -> tuple[int, Json]:
    return await room.ask("POST", f"/api/review/AVA/{what}", json={"name": "ann", **more})


def marked(told: Json) -> dict[str, bool]:
    return {file["path"]: file["reviewed"] for file in told["files"]}


def place_of(room: Outside) -> Path:
    return room.folder / ".relay" / "worktrees" / "ava"


async def test_a_branch_is_read_marked_and_commented_and_the_agent_gets_it(open_room: Open) -> None:
    room = await opened(open_room)
    told = await review(room)
    assert told == {**await room.get("/api/worktrees/AVA/diff"), **told}
    assert (told["editor"], told["path"], told["into"]) == (
        "zed://file{path}:{line}",
        str(place_of(room)),
        "main",
    )
    assert marked(told) == {"cart.py": False, "docs/read me.md": False}
    assert all(file["uncommitted"] for file in told["files"]) and told["dirty"]
    only = await room.get("/api/review/AVA?name=ann&path=cart.py")
    assert only["diff"].count("diff --git") == 1 and len(only["files"]) == 2

    # A mark is one person's, from whichever interface, and silent in the room but for the command.
    entries = len(await room.entries())
    status, done = await order(room, "reviewed", paths=["cart.py"])
    assert (status, done["success"]) == (200, True) and len(await room.entries()) == entries
    assert marked(await review(room)) == {"cart.py": True, "docs/read me.md": False}
    assert marked(await review(room, "bob")) == {"cart.py": False, "docs/read me.md": False}
    asked = await room.post('/reviewed @AVA "docs/read me.md"')
    assert "ann has reviewed 2 of 2 files" in (await room.reply_to(asked["id"], "RELAY"))["body"]
    ran = await room.relay("review", "AVA", "--name", "ann", "--reviewed", "cart.py", "--undo")
    assert ran.code == 0 and "1 of 2" in ran.out
    assert marked(await review(room)) == {"cart.py": False, "docs/read me.md": True}
    await order(room, "reviewed", paths=["cart.py"])
    status, refused = await order(room, "reviewed", paths=["nowhere.py"])
    assert status == 404 and "does not change" in refused["error"]["message"]

    # One message, with each comment's file, lines and text as of now; the agent has it word for word.
    comments = [
        {"path": "cart.py", "first": 2, "text": "Why a list?", "suggestion": "    return sum(items)\n"},
        {"path": "cart.py", "side": "old", "first": 1, "last": 2, "text": "It was shorter."},
        {"path": "docs/read me.md", "first": 3, "text": "Say more.", "suggestion": "It adds.\nAll of it."},
    ]
    (room.folder / "comments.json").write_text(json.dumps(comments))
    ran = await room.relay("review", "AVA", "--name", "ann", "--comments", str(room.folder / "comments.json"))
    assert ran.code == 0 and ran.out.startswith("Said to AVA (m")
    sent = await room.until_said("/review @AVA 3 comments on", speaker="ann")
    await room.reply_to(sent["id"], "AVA")
    heard = (room.folder / "prompts.txt").read_text()
    blob = next(file["new"] for file in told["files"] if file["path"] == "cart.py")
    for words in (
        f"**1.** `cart.py`, line 2 (blob {blob[:12]})",
        "    return sum(list(items))",
        "Why a list?",
        "```suggestion\n    return sum(items)\n```",
        "**2.** `cart.py`, lines 1-2, as it was before the change",
        "**3.** `docs/read me.md`, line 3",
    ):
        assert words in sent["body"] and words.split("\n")[0] in heard
    listed = (await review(room))["comments"]
    assert [each["id"] for each in listed] == [f"m{sent['number']}.{n}" for n in (1, 2, 3)]
    assert [each["stands"] for each in listed] == [2, 1, 3]
    status, refused = await order(room, "comments", comments=[{"path": "cart.py", "first": 99, "text": "x"}])
    assert (
        status == 400 and refused["error"]["message"] == "Comment 1 is about line 99 of cart.py, which has 6."
    )

    # The work goes on: a mark ends with its file's content, a comment follows its lines or is outdated.
    await work(room, "go on")
    assert marked(await review(room)) == {"cart.py": False, "docs/read me.md": True}
    assert [each["stands"] for each in (await review(room))["comments"]] == [4, 1, 3]
    await work(room, "reword")
    assert marked(await review(room)) == {"cart.py": False, "docs/read me.md": False}
    assert [each["stands"] for each in (await review(room))["comments"]] == [4, 1, None]
    said = (await room.reply_to((await room.post("/review @AVA"))["id"], "RELAY"))["body"]
    assert f"- m{sent['number']}.1 `cart.py` line 4, ann: Why a list?" in said and "- [ ] `cart.py`" in said
    shown = (await room.relay("review", "AVA", "--name", "ann")).out
    assert "outdated: its lines have changed" in shown and "[ ] docs/read me.md" in shown


async def test_a_suggestion_is_the_persons_commit_and_is_taken_back(open_room: Open) -> None:
    room = await opened(open_room)
    comments = [
        {"path": "cart.py", "first": 2, "text": "Plain.", "suggestion": "    return sum(items)"},
        {"path": "docs/read me.md", "first": 3, "text": "", "suggestion": ""},
        {"path": "cart.py", "first": 6, "text": "No more."},
    ]
    status, done = await order(room, "comments", comments=comments)
    assert (status, done["success"]) == (200, True)
    sent = await room.until_said("/review @AVA 3 comments on", speaker="ann")
    await room.reply_to(sent["id"], "AVA")
    number, place = sent["number"], place_of(room)

    # The lines have moved by two: it is applied where they stand, above what the agent had not committed.
    await work(room, "go on")
    status, done = await order(room, "apply", comment=f"m{number}.1")
    assert (status, done["success"]) == (200, True), done
    # Who looks at once sees the branch as it is now: no test has seen these lines.
    (row,) = (await room.get("/api/worktrees"))["worktrees"]
    assert row["tree"] == git(place, "rev-parse", "HEAD^{tree}")
    assert git(place, "log", "-2", "--format=%an|%s") == (
        "ann|Apply a suggestion of ann in cart.py\nAVA|Go on (m5)"
    )
    assert (
        git(place, "status", "--porcelain") == ""
        and git(place, "show", "--format=", "--name-only") == "cart.py"
    )
    assert (place / "cart.py").read_text() == MOVED["cart.py"].replace("sum(list(items))", "sum(items)")
    told = {each["id"]: each for each in (await review(room))["comments"]}
    assert told[f"m{number}.1"]["applied"] == git(place, "rev-parse", "HEAD")
    status, done = await order(room, "apply", comment=f"m{number}.1")
    assert not done["success"] and "was applied by ann" in done["reason"]
    # The timeline has it as the person's, and the agent's own as the agent's.
    lines = (await room.relay("timeline", "log", "--path", "cart.py")).out.splitlines()
    assert [line.split()[3] for line in lines] == ["AVA", "AVA", "ann"]

    # Lines that are taken out, in a file with other line ends; both are put back, one by its command.
    asked = await room.post(f"/apply @AVA m{number}.2")
    assert "applied the suggestion" in (await room.reply_to(asked["id"], "RELAY"))["body"]
    assert (place / "docs/read me.md").read_bytes() == b"# Cart\r\n\r\n"
    ran = await room.relay("review", "AVA", "--name", "ann", "--apply", f"m{number}.2", "--undo")
    assert ran.code == 0, ran.all
    assert (place / "docs/read me.md").read_bytes() == FIRST["docs/read me.md"].encode()
    status, done = await order(room, "apply", comment=f"m{number}.1", undo=True)
    assert done["success"] and (place / "cart.py").read_text() == MOVED["cart.py"]

    # What cannot be done says why, and changes nothing.
    head = git(place, "rev-parse", "HEAD")
    for comment, why in ((f"m{number}.3", "suggests no lines"), (f"m{number}.9", "There is no comment")):
        status, done = await order(room, "apply", comment=comment)
        assert status == 200 and not done["success"] and why in done["reason"]
    await work(room, "reword")
    status, done = await order(room, "apply", comment=f"m{number}.2")
    assert not done["success"] and "have changed since" in done["reason"]
    lock = {"file_path": "cart.py", "agent_id": "BEN", "session_id": "elsewhere"}
    status, taken = await room.ask("POST", "/locks/acquire", json=lock)
    assert status == 200 and taken["success"], taken
    status, done = await order(room, "apply", comment=f"m{number}.1")
    assert not done["success"] and "BEN" in done["reason"]
    assert git(place, "rev-parse", "HEAD") == head


async def test_nothing_is_applied_while_the_agent_is_at_work(open_room: Open) -> None:
    room = await opened(open_room)
    comments = [{"path": "cart.py", "first": 2, "text": "Plain.", "suggestion": "    return sum(items)"}]
    await order(room, "comments", comments=comments)
    sent = await room.until_said("/review @AVA 1 comment on", speaker="ann")
    await room.reply_to(sent["id"], "AVA")
    (room.folder / "worker.py").write_text("import time\nprint('at it', flush=True)\ntime.sleep(600)\n")
    asked = await room.post("@AVA stay")
    await room.until_job(asked["id"], "AVA", "active")

    async def at_work() -> bool:
        return bool((await review(room))["working"])

    await eventually(at_work, "AVA is at work")
    status, done = await order(room, "apply", comment=f"m{sent['number']}.1")
    assert status == 200 and not done["success"] and "AVA is at work" in done["reason"]
    # A line that proves nobody orders nothing of it.
    room.echo(f"[bob] /apply @AVA m{sent['number']}.1")
    assert "proves nobody" in (await room.until_said("proves nobody", speaker="RELAY"))["body"]
    await room.post("/cancel @AVA")
