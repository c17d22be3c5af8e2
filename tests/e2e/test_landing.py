"""Verification and landing as people and agents live them: a real room, real programs, real git, to the end."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import psutil

from tests.e2e.conftest import Open
from tests.git.repository import commit, git
from tests.outside import Json, Outside, agent, eventually

WRITES = """\
- match: did not pass|did not land
  write: {app.py: "fixed = 1\\n"}
  say: mended
- match: break it
  write: {app.py: "BROKEN = 1\\n"}
  say: done
- match: secret
  write: {".env": "KEY=1\\n"}
  say: done
- match: other
  write: {other.py: "x = 1\\n"}
  say: done
- say: hello
"""
IGNORED = "/*.yaml\n.venv\nconfig.json\nspeaker.lock\nrelay\nscripts\npolicies\n"
UNIT = {
    "name": "unit",
    "tier": 1,
    "executor": "inline",
    "patterns": ["*.py"],
    "run": [
        sys.executable,
        "-c",
        "import sys; text = open('app.py').read(); print(text); "
        "sys.exit('app.py is broken' if 'BROKEN' in text else 0)",
    ],
}
SECURITY = {"name": "security", "tier": 4, "executor": "manual", "patterns": ["**/.env*"]}


async def opened(open_room: Open, *policies: Json, **more: Any) -> Outside:
    room = await open_room(
        agent("AVA", "w.yaml"), agent("BEN", "w.yaml"), files={"w.yaml": WRITES}, start=False, **more
    )
    (room.folder / "policies").mkdir()
    (room.folder / "policies" / "all.yaml").write_text(json.dumps(list(policies)))
    git(room.folder, "init", "-q", "-b", "main")
    (room.folder / ".gitignore").write_text(IGNORED)
    (room.folder / "app.py").write_text("x = 1\n")
    commit(room.folder)
    await room.start()
    return room


async def answered(room: Outside, text: str, name: str) -> None:
    asked = await room.post(text)
    await room.reply_to(asked["id"], name)


async def ended(room: Outside, source: str, state: str, count: int = 1) -> list[Json]:
    """The verifications of this source that ended so, once there are as many."""

    async def look() -> list[Json] | None:
        found = (await room.get("/api/verifications?limit=100"))["verifications"]
        these = [one for one in found if (one["source"], one["state"]) == (source, state)]
        return these if len(these) >= count else None

    found: list[Json] = await eventually(look, f"{count} of {source} {state}")
    return found


async def landed(room: Outside, name: str, state: str = "landed") -> Json:
    async def look() -> Json | None:
        entries = (await room.get("/api/landing"))["ended"]
        return next((one for one in entries if (one["agent"], one["state"]) == (name, state)), None)

    entry: Json = await eventually(look, f"{name} {state}")
    return entry


async def test_a_turn_is_verified_and_a_task_opens_again(open_room: Open) -> None:
    """A finished turn, `complete_work`, the work item that is open again, the agent that mends it, and landing."""
    room = await opened(open_room, UNIT)
    await answered(room, "@AVA break it", "AVA")
    (failed,) = await ended(room, "turn", "failed")
    assert (failed["agent"], failed["files"], failed["reason"]) == (
        "AVA",
        ["app.py"],
        "unit failed (exit code 1).",
    )
    said = await room.until_said("AVA's change did not pass")
    assert "app.py is broken" in said["body"]

    made = await room.relay("keys", "create", "AVA", "--scopes", "work,read", "--json")
    key = json.loads(made.out)["key"]
    _, task = await room.ask(
        "POST", "/work/submit", json={"task_type": "fix", "task_description": "Mend it", "max_attempts": 3}
    )
    mine = {"headers": {"X-API-Key": key}}
    async with room.session.post(f"{room.url}/work/claim", json={}, **mine) as reply:
        assert (await reply.json())["task_id"] == task["task_id"]
    body = {"task_id": task["task_id"], "success": True, "land": False}
    async with room.session.post(f"{room.url}/work/complete", json=body, **mine) as reply:
        assert (await reply.json())["status"] == "completed"
    (failed,) = await ended(room, "task", "failed")
    assert failed["results"][0]["reused"] == "v1"  # the turn left the same tree

    async def open_again() -> Json | None:
        shown: Json = await room.get(f"/work/{task['task_id']}")
        return shown if shown["status"] == "pending" else None

    shown = await eventually(open_again, "the task is open again")
    assert shown["attempt"] == 2 and "v2 failed" in shown["note"]
    # Its agent got a turn with the lines, and mended it; that passes, and lands.
    await ended(room, "turn", "passed")
    await room.until_said(r"v\d+: AVA's change passes now \(unit\)")
    await room.post("/land @AVA")
    assert (await landed(room, "AVA"))["commit"] == git(room.folder, "rev-parse", "main")
    assert (room.folder / "app.py").read_text() == "fixed = 1\n"
    state = await room.get("/api/landing")
    assert state["queue"] == []
    ran = await room.relay("land", "--json")
    assert json.loads(ran.out)["landed"] == [
        {"agent": "AVA", "commit": git(room.folder, "rev-parse", "main")}
    ]
    # In a shell each step is said once.
    await answered(room, "@AVA other", "AVA")
    ran = await room.relay("land", "AVA")
    *steps, last = ran.out.splitlines()
    assert last == f"AVA: landed as {git(room.folder, 'rev-parse', 'main')[:9]}", ran.all
    assert [step for step in ("AVA: is in the queue", "AVA: is being tested") if step in steps] == steps


async def test_only_a_person_approves(open_room: Open) -> None:
    room = await opened(open_room, SECURITY)
    await answered(room, "@AVA secret", "AVA")
    said = await room.until_said("needs a person")
    assert "`.env`" in said["body"] and "/approve a1" in said["body"]
    made = await room.relay("keys", "create", "AVA", "--scopes", "work,read,room,locks", "--json")
    key = {"X-API-Key": json.loads(made.out)["key"]}
    async with room.session.post(
        f"{room.url}/api/approvals/a1", json={"answer": "approve"}, headers=key
    ) as reply:
        assert reply.status == 403
    async with room.session.post(
        f"{room.url}/room/messages", json={"body": "/approve a1"}, headers=key
    ) as reply:
        assert reply.status < 500
    async with room.session.post(f"{room.url}/policies", json=UNIT, headers=key) as reply:
        assert reply.status == 403
    (waiting,) = (await room.get("/api/approvals"))["approvals"]
    assert (waiting["state"], waiting["change"]["agent"]) == ("waiting", "AVA")
    listed = await room.reply_to((await room.post("/approve"))["id"], "RELAY")
    assert "a1: AVA's change in `.env` (security)" in listed["body"]
    shown = await room.get("/api/verifications/v1/diff")
    assert "+KEY=1" in shown["diff"]
    # The branch waits in the queue until a person agrees; the one look counts for both.
    await room.post("/land @AVA")
    status, done = await room.ask("POST", "/api/approvals/a1", json={"name": "eve", "answer": "approve"})
    assert (status, done["success"]) == (200, True)
    await ended(room, "turn", "passed")
    status, done = await room.ask(
        "POST", "/api/approvals/a1", json={"name": "bob", "answer": "reject", "reason": "no"}
    )
    assert (done["success"], "approved by eve" in done["reason"]) == (False, True)
    for one in (await room.get("/api/approvals"))["approvals"]:
        if one["state"] == "waiting":
            await room.post(f"/approve {one['reference']}")
    await landed(room, "AVA")


async def test_policies_are_made_by_people(open_room: Open) -> None:
    room = await opened(open_room)
    status, made = await room.ask("POST", "/policies", json=UNIT)
    assert (status, made["success"], made["policy"]["name"]) == (200, True, "unit")
    status, refused = await room.ask("POST", "/policies", json=UNIT)
    assert (status, refused["success"], refused["reason"]) == (200, False, "policy_exists")
    status, refused = await room.ask("POST", "/policies", json={**UNIT, "name": "b", "tier": 9})
    assert status == 400 and "it is 0 (static analysis)" in refused["error"]["message"]
    assert [one["name"] for one in await room.get("/policies")] == ["unit"]
    ran = await room.relay("verify-policy", "explain", "src/a.py")
    assert "unit: tier 1" in ran.out
    await answered(room, "@AVA other", "AVA")
    (passed,) = await ended(room, "turn", "passed")
    assert passed["decides"] == "unit"
    status, gone = await room.ask("DELETE", "/policies/unit")
    assert (status, gone["success"]) == (200, True)


async def test_landing_may_be_required(open_room: Open) -> None:
    room = await opened(open_room)
    await answered(room, "@AVA other", "AVA")
    status, done = await room.ask("PATCH", "/api/landing", json={"name": "ann", "required": True})
    assert (status, done["success"]) == (200, True)
    await room.until_said("by the landing queue only")
    ran = await room.relay("worktrees", "merge", "AVA")
    assert ran.code == 1 and "/land @AVA" in ran.all
    ran = await room.relay("land", "AVA", "--json")
    assert ran.code == 0, ran.all
    assert [one["agent"] for one in json.loads(ran.out)["landed"]] == ["AVA"]
    await room.until_said("not tested")
    assert json.loads((room.folder / "config.json").read_text())["landing"] == {"required": True}

    async def required() -> bool:
        return bool((await room.get("/api/landing"))["required"])

    # As a person types it, and from a shell; a line that proves nobody changes nothing.
    room.echo("[bob] /landing required off")
    forged = await room.until_said("^/landing required off$", speaker="bob")
    assert "lifts a guard" in (await room.reply_to(forged["id"], "RELAY"))["body"] and await required()
    posted = await room.post("/landing required off")
    assert (await room.reply_to(posted["id"], "RELAY"))["body"] == "`/landing required on` takes it back."
    await room.until_said("or are merged directly \\(ann set it\\)")
    assert not await required()
    ran = await room.relay("land", "--required", "on", "--name", "bea")
    assert ran.code == 0 and await required(), ran.all
    await room.until_said("by the landing queue only \\(bea set it\\)")
    assert (await room.relay("land", "AVA", "--required", "on")).code == 2


async def test_what_undoes_anothers_work_lands_when_somebody_says_anyway(open_room: Open) -> None:
    """Through each door: the room, the page's route, the shell, and an agent's own tool."""
    room = await opened(open_room)
    await answered(room, "@AVA other", "AVA")
    await answered(room, "@BEN break it", "BEN")
    ran = await room.relay("land", "AVA", "--json")
    [merge] = json.loads(ran.out)["landed"]
    await room.until_said("not tested")
    posted = await room.post(f"/takeback @AVA {merge['commit']}")
    assert "lands it again" in (await room.reply_to(posted["id"], "RELAY"))["body"]
    why = "AVA's branch would bring back what ann took back in other.py."

    async def typed(line: str) -> str:
        return str((await room.reply_to((await room.post(line))["id"], "RELAY"))["body"])

    said = await typed("/land @AVA")
    assert said.startswith(f"Nothing is put into the landing queue: {why} `/land @AVA anyway`")
    said = await typed("/land all")
    assert why in said and said.endswith("`/land @BEN` lands the others.")
    _, done = await room.ask("POST", "/api/landing", json={"name": "bob", "agents": ["AVA"]})
    assert not done["success"] and why in done["reason"]
    ran = await room.relay("land", "AVA")
    assert ran.code == 1 and why in ran.all and "--anyway" in ran.all
    made = await room.relay("keys", "create", "AVA", "--scopes", "work,read", "--json")
    mine = {"headers": {"X-API-Key": json.loads(made.out)["key"]}}
    async with room.session.post(f"{room.url}/land", json={}, **mine) as reply:
        assert why in await reply.text()
    assert (await room.get("/api/landing"))["queue"] == []
    assert "other.py" not in git(room.folder, "ls-tree", "--name-only", "main")
    assert "was put into the landing queue" in await typed("/land @AVA anyway")

    async def back() -> bool:
        return "other.py" in git(room.folder, "ls-tree", "--name-only", "main")

    await eventually(back, "AVA's work is back")


async def test_killed_while_ten_are_verified(open_room: Open) -> None:
    """They end or run again: none is lost or doubled, and no process stays."""
    room = await opened(open_room)
    go = room.folder / "go"
    code = f"import pathlib, time\nwhile not pathlib.Path({str(go)!r}).exists(): time.sleep(0.05)"
    names = [f"unit {at}" for at in range(10)]
    policies = [
        {**UNIT, "name": name, "run": [sys.executable, "-c", code, name], "sandbox": "off"} for name in names
    ]
    (room.folder / "policies" / "all.yaml").write_text(json.dumps(policies))
    await answered(room, "@AVA other", "AVA")
    await room.post("/land @AVA")

    def running() -> list[psutil.Process]:
        found = []
        for process in psutil.process_iter(["cmdline"]):
            words = process.info["cmdline"] or []
            if str(go) in " ".join(words) and words[-1].startswith("unit"):
                found.append(process)
        return found

    async def some() -> bool:
        return len(running()) >= 2

    await eventually(some, "two programs run")
    room.kill()

    async def none() -> bool:
        return not running()

    await eventually(none, "no process stays")
    await room.start()
    await eventually(some, "they run again")
    go.touch()
    entry = await landed(room, "AVA")
    assert entry["commit"] == git(room.folder, "rev-parse", "main")
    await ended(room, "landing", "passed")
    (turn,) = await ended(room, "turn", "passed")  # it may end after its branch has landed
    assert [(result["attempt"], result["state"]) for result in turn["results"]] == [(1, "passed")] * 10
    assert await asyncio.to_thread(Path(room.folder / ".relay" / "verification").exists)
    ran = await room.relay("verify")
    assert ran.code == 0, ran.all


async def test_an_agent_does_not_decide_what_the_room_runs(open_room: Open) -> None:
    """The configuration is tracked, as in a clone of relay: an agent's branch that changes it needs a person."""
    room = await open_room(agent("AVA", "w.yaml"), files={"w.yaml": WRITES}, start=False)
    told, owned = json.loads(room.path.read_text()), room.folder / "owned"
    theirs = json.dumps(told | {"worktrees": {"setup": f"touch {owned}"}})
    script = [{"match": "take over", "write": {"config.json": theirs}, "say": "done"}, {"say": "hello"}]
    (room.folder / "w.yaml").write_text(json.dumps(script))
    git(room.folder, "init", "-q", "-b", "main")
    (room.folder / ".gitignore").write_text(IGNORED.replace("config.json\n", ""))
    commit(room.folder)
    ours = room.path.read_text()
    await room.start()
    await answered(room, "@AVA take over", "AVA")
    made = await room.relay("keys", "create", "AVA", "--scopes", "work,read,room,locks", "--json")
    key = {"X-API-Key": json.loads(made.out)["key"]}
    async with room.session.post(f"{room.url}/land", json={}, headers=key) as reply:
        assert reply.status == 200 and (await reply.json())["success"]
    put_out = await landed(room, "AVA", "put_out")
    assert (
        "changes what this room itself goes by, which a person has to look at: config.json"
        in put_out["reason"]
    )
    async with room.session.post(f"{room.url}/api/worktrees/AVA/merge", json={}, headers=key) as reply:
        assert reply.status == 403
    await room.post("/land @AVA")

    async def put_out_again() -> bool:
        entries = (await room.get("/api/landing"))["ended"]
        return [one["state"] for one in entries] == ["put_out"] * 2

    await eventually(put_out_again, "a person's /land does not land it either")
    ran = await room.relay("land", "--dry-run")
    assert "not: it changes what this room itself goes by" in ran.out, ran.all
    assert room.path.read_text() == ours and not owned.exists()

    # A person sees what it is, and takes it.
    shown = await room.get("/api/worktrees/AVA/diff")
    assert "touch" in json.dumps(shown)

    async def merged() -> bool:
        return (await room.relay("worktrees", "merge", "AVA", "--name", "ann")).code == 0

    await eventually(merged, "a person's merge")

    async def applied() -> bool:
        return owned.exists()

    await eventually(applied, "the configuration that a person merged")
