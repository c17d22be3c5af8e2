"""Two branches from the first message to the main branch: every door and git say the same (docs/landing.md,
docs/review.md)."""

from __future__ import annotations

import json
import sys

from tests.e2e.conftest import Open
from tests.git.repository import commit, git
from tests.outside import Json, Outside, agent, eventually

WRITES = """\
- match: comment on
  write: {tax.py: "RATE = 0.19\\n"}
  say: Changed as you said.
- match: round
  write: {cart.py: "def total(items):\\n    return round(sum(items), 2)\\n"}
  say: Totals are rounded to cents.
- match: stock
  say: It is never negative as it stands.
- match: tax
  write: {tax.py: "RATE = 0.2\\n"}
  say: Added the tax.
- match: from memory
  write: {cart.py: "def total(items):\\n    return sum(items)\\n", more.py: "x = 1\\n"}
  say: Written.
- say: hello
"""
IGNORED = "/*.yaml\n.venv\nconfig.json\nspeaker.lock\nrelay\nscripts\npolicies\n"
#: A project whose tests bind a port.
LISTENS = "import os, socket, time; s = socket.create_server(('127.0.0.1', int(os.environ['RELAY_PORT'])))\n"
BINDS = LISTENS + "print(os.environ['RELAY_PORTS'])"
UNIT = {
    "name": "unit",
    "tier": 1,
    "executor": "inline",
    "patterns": ["*.py"],
    "run": [sys.executable, "-c", BINDS],
    "sandbox": "off",
}
SERVES = LISTENS + "time.sleep(600)"


async def ask(room: Outside, text: str, name: str) -> Json:
    return await room.reply_to((await room.post(text))["id"], name)


async def rows(room: Outside) -> dict[str, Json]:
    return {row["agent"]: row for row in (await room.get("/api/worktrees"))["worktrees"]}


async def landed(room: Outside, name: str) -> Json:
    async def look() -> Json | None:
        told = await room.get("/api/landing")
        ended = told["ended"]
        assert not [one for one in ended if one["state"] != "landed"], told
        return next((one for one in ended if (one["agent"], one["state"]) == (name, "landed")), None)

    entry: Json = await eventually(look, f"{name} landed")
    return entry


async def same_everywhere(room: Outside, name: str, entry: Json) -> None:
    """Of a branch that has landed and has nothing more, all say that it has, and as which commit."""
    head, short = git(room.folder, "rev-parse", "main"), entry["commit"][:9]
    row = (await rows(room))[name]
    assert (row["merges"], row["files"], row["ahead"], row["dirty"]) == ("nothing", 0, 0, False)
    listed = (await room.relay("worktrees")).out
    assert (
        next(line for line in listed.splitlines() if line.startswith(name)).count("main has all of it") == 1
    )
    told = (await room.get(f"/api/review/{name}?name=ann"))["landed"]
    assert (told["commit"], told["by"], told["into"]) == (entry["commit"], "ann", "main")
    assert (told["method"], told["files"]) == (entry["method"], 1)
    assert told["diff"] == git(room.folder, "diff", f"{entry['commit']}^1", entry["commit"]) + "\n"
    for shown in (
        (await room.relay("review", name, "--name", "ann")).out,
        (await ask(room, f"/review @{name}", "RELAY"))["body"],
    ):
        assert "no change. It landed on main" in shown and f"as ann asked: commit {short}" in shown
    assert git(room.folder, "merge-base", entry["commit"], head) == entry["commit"]
    assert git(room.folder / ".relay/worktrees" / name.lower(), "status", "--porcelain") == ""
    (who,) = [one for one in (await room.get("/who"))["agents"] if one["name"] == name]
    assert (who["working"], who["queued"]) == (False, 0)
    # Whoever merges it all the same is told what is so.
    merged = await room.relay("worktrees", "merge", name)
    assert merged.code == 1 and f"main has all of it, since {entry['ended'][:10]}" in merged.all
    assert f"(commit {short}, as ann asked)" in merged.all


async def test_two_branches_are_read_and_land_and_all_say_the_same(open_room: Open) -> None:
    room = await open_room(
        agent("AVA", "w.yaml"),
        agent("BEN", "w.yaml"),
        files={"w.yaml": WRITES},
        start=False,
        worktrees={"run": [sys.executable, "-c", SERVES]},
    )
    (room.folder / "policies").mkdir()
    (room.folder / "policies" / "all.yaml").write_text(json.dumps([UNIT]))
    git(room.folder, "init", "-q", "-b", "main")
    (room.folder / ".gitignore").write_text(IGNORED)
    (room.folder / "cart.py").write_text("def total(items):\n    return sum(items)\n")
    commit(room.folder)
    await room.start()

    # AVA changes something, and then answers what changes nothing; a task that it holds changes nothing either.
    first = await room.post("@AVA please round the totals")
    await room.reply_to(first["id"], "AVA")
    made = await room.relay("keys", "create", "AVA", "--scopes", "work,read", "--json")
    task = {"task_type": "fix", "task_description": "Stock may go negative"}
    await room.ask("POST", "/work/submit", json=task)
    key = {"X-API-Key": json.loads(made.out)["key"]}
    async with room.session.post(f"{room.url}/work/claim", json={}, headers=key) as reply:
        assert (await reply.json())["success"]
    await ask(room, "@AVA Stock may go negative, look", "AVA")
    # What a branch is about is what its commit will say: not what its agent was asked last.
    about = {"number": first["number"], "text": "Round the totals"}
    assert (await rows(room))["AVA"]["about"] == about
    assert (await room.get("/api/review/AVA?name=ann"))["about"] == about
    for told in ("worktrees", "review AVA --name ann"):
        assert f"Round the totals (m{first['number']})" in (await room.relay(*told.split())).out
    tax = await room.post("@BEN add the tax")
    await room.reply_to(tax["id"], "BEN")

    # A person reads BEN's branch, marks it, comments on a line; the change that follows resets the mark.
    async def reviewed() -> bool:
        told = await room.get("/api/review/BEN?name=ann")
        return bool(told["files"][0]["reviewed"])

    body: Json = {"name": "ann", "paths": ["tax.py"]}
    assert (await room.ask("POST", "/api/review/BEN/reviewed", json=body))[1]["success"]
    assert await reviewed()
    body = {"name": "ann", "comments": [{"path": "tax.py", "first": 1, "text": "It is 19 %."}]}
    assert (await room.ask("POST", "/api/review/BEN/comments", json=body))[1]["success"]
    sent = await room.until_said("/review @BEN 1 comment on", speaker="ann")
    await room.reply_to(sent["id"], "BEN")
    assert not await reviewed()
    assert "[ ] tax.py" in (await room.relay("review", "BEN", "--name", "ann")).out
    told = await room.get("/api/review/BEN?name=ann")
    assert told["landed"] is None and [one["stands"] for one in told["comments"]] == [None]
    assert {name: (row["merges"], row["files"]) for name, row in (await rows(room)).items()} == {
        "AVA": ("clean", 1),
        "BEN": ("clean", 1),
    }

    # AVA's app holds its ports while both are tested, each with ports of its own.
    assert (await room.ask("POST", "/api/worktrees/AVA/run", json={"name": "ann"}))[1]["success"]

    async def listens() -> bool:
        return ((await rows(room))["AVA"]["app"] or {}).get("state") == "listening"

    await eventually(listens, "AVA's app listens")
    await room.post("/land @BEN squash")
    ben = await landed(room, "BEN")
    await room.post("/land @AVA")
    ava = await landed(room, "AVA")
    assert (ben["method"], ava["method"], ben["tested"], ava["tested"]) == ("squash", "merge", True, True)
    taken = {"-".join(map(str, row["ports"])) for row in (await rows(room)).values()}
    for entry in (ben, ava):
        _, verified = await room.ask("GET", f"/api/verifications/{entry['verification']}")
        assert verified["results"][0]["output"].strip() not in taken

    # What is on the main branch: one commit of BEN's, a merge of AVA's, each named by what it was made for.
    assert [(room.folder / name).read_text() for name in ("cart.py", "tax.py")] == [
        "def total(items):\n    return round(sum(items), 2)\n",
        "RATE = 0.19\n",
    ]
    subjects = git(room.folder, "log", "--first-parent", "--format=%H|%an|%s", "main").split("\n")
    assert subjects[:2] == [
        f"{ava['commit']}|AVA|Merge {ava['branch']}: Round the totals (m{first['number']})",
        f"{ben['commit']}|BEN|Add the tax (m{tax['number']})",
    ]
    said = git(room.folder, "log", "-1", "--format=%b", ben["commit"])
    assert f"And 1 more:\n- Change what a review comments on (m{sent['number']})" in said
    assert "Changed as you said." in said and "ncommitted" not in said
    assert git(room.folder, "log", "-1", "--format=%an|%s", ava["at_commit"]) == (
        f"AVA|Round the totals (m{first['number']})"
    )
    for landed_as in (ava["commit"], ava["at_commit"], ben["commit"]):
        trailers = git(room.folder, "log", "-1", "--format=%(trailers:only,unfold)", landed_as).strip()
        keys = [line.partition(":")[0] for line in trailers.split("\n")]
        assert len(keys) == len(set(keys)) and {"TimeWarp-Event-Id", "TimeWarp-Agent-Id"} <= {*keys}
    assert git(room.folder, "log", "--format=%s", "--all").count("Uncommitted") == 0
    for name, entry in (("AVA", ava), ("BEN", ben)):
        await same_everywhere(room, name, entry)

    # An agent that writes a whole file as it was before takes out what has landed, and git merges it.
    await ask(room, "@BEN write it from memory", "BEN")
    row = (await rows(room))["BEN"]
    assert row["undoes"] == [{"agent": "AVA", "path": "cart.py", "commit": ava["commit"], "did": "landed"}]
    assert row["merges"] == "clean"
    listed = (await room.relay("worktrees")).out
    assert f"would undo what AVA landed in cart.py (commit {ava['commit'][:9]})" in listed
