"""A board that starts work: a task is written, given, worked on, ended, and shows what it led to (docs/board.md)."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tests.e2e.test_worktrees import in_git
from tests.git.repository import own_branch
from tests.outside import Json, Outside, agent, eventually, room, settings

WORKS = r"""
- match: '(?s)t1: Mend the roof.*call relay.s tool `complete_work` with task_id `t1`'
  write: {roof.txt: "mended\\n", "sub/new.md": "new\\n"}
  usage: {input_tokens: 100, output_tokens: 20, cost_usd: 0.25}
  say: "The roof is mended."
- match: slow
  delay_s: 600
- say: "{agent} heard {body}"
"""
FAILS = "- fail: crash\n  detail: The disk is full.\n"


def configuration() -> Json:
    return settings(
        agent("AVA", "works.yaml"),
        agent("BEN", "works.yaml"),
        agent("CLEO", "fails.yaml"),
        locks={"circuit_breaker": {"failure_threshold": 1, "reset_timeout": 600}},
        queue={"max_attempts": 1},
    )


async def order(told: Outside, command: str) -> str:
    """What the room answers to a command."""
    posted = await told.post(command)
    return str((await told.reply_to(posted["id"], "RELAY"))["body"])


async def task(told: Outside, number: int) -> Json:
    return dict((await told.get(f"/api/tasks/t{number}"))["task"])


async def becomes(told: Outside, number: int, **wanted: Any) -> Json:
    async def look() -> Json | None:
        found = await task(told, number)
        return found if all(found[name] == value for name, value in wanted.items()) else None

    return dict(await eventually(look, f"t{number} has {wanted}"))


async def said(told: Outside, number: int) -> Json:
    return next(entry for entry in await told.entries() if entry["number"] == number)


async def test_a_task_is_given_and_shows_what_it_led_to(tmp_path: Path) -> None:
    folder = tmp_path / "room"
    folder.mkdir()
    for name, script in (("works", WORKS), ("fails", FAILS)):
        (folder / f"{name}.yaml").write_text(script)
    in_git(folder)
    async with room(folder, configuration()) as told:
        await told.start()
        # Written with its description, and what it will touch.
        await order(told, "/task Mend the roof\n\nIt **leaks** where @BEN stands.")
        await order(told, "/task t1 files roof.txt 'sub/**'")
        await order(told, "/task t1 priority 2")
        await order(told, "/task Paint the roof")
        assert "changed the dependencies of t2" in await order(told, "/task t2 depends t1")
        shown = await order(told, "/task t1")
        assert "priority 2" in shown and "> It **leaks**" in shown and "`sub/**`" in shown

        # What waits for others is not given, and the refusal says for which.
        refused = await order(told, "/give t2 @AVA")
        assert "t2 cannot be given yet. It waits for" in refused and "t1 (pending)" in refused
        assert (await task(told, 2))["given"] == []

        # Given: a message of the person's, which its agent alone is asked by.
        assert "gave t1 to AVA: Mend the roof" in await order(told, "/give t1 @ava")
        given = (await task(told, 1))["given"][0]
        message = await said(told, given["number"])
        assert (message["speaker"], message["kind"], message["to"]) == ("ann", "human", ["AVA"])
        for words in ("@AVA t1: Mend the roof", "It **leaks**", "`roof.txt`, `sub/**`"):
            assert words in message["body"]
        # How to end it is relay's own word: its agent reads it (it works by it), and nobody is quoted with it.
        assert "complete_work" not in message["body"]
        answer = await told.reply_to(message["id"], "AVA")
        # Whoever looks on hears that its branch has work of the task now, which nobody changed.
        async with told.socket("0") as socket:
            frame, behind = dict[str, Any](), False
            while not behind or frame["type"] != "task":
                frame = await socket.receive_json(timeout=60)
                behind = behind or (frame["type"] == "entry" and frame["data"]["id"] == answer["id"])
        (heard_of,) = [one for one in frame["data"]["changed"] if one["number"] == 1]
        assert (heard_of["in_branch"], heard_of["landed"]) == (True, None)
        assert {job["agent"] for job in await told.jobs() if job["message_id"] == message["id"]} == {"AVA"}

        # An answer is no proof: the task is still AVA's, and the inbox asks.
        stands = await becomes(told, 1, status="in_progress", assignee="AVA")
        need = next(need for need in await told.get("/api/needs") if need["id"] == "answered:t1")
        assert need["kind"] == "answered"
        heard = (
            f"AVA has answered t1 “Mend the roof” (m{answer['number']}): “The roof is mended.” Is it done?"
        )
        assert need["text"] == heard
        assert heard in (await order(told, "/inbox")) and heard in (await told.relay("inbox")).out
        assert [button["name"] for button in need["actions"]] == ["done", "again", "later"]

        # All that it led to, from one place.
        work = stands["work"]
        assert [(one["number"], one["speaker"]) for one in work["conversation"]] == [
            (message["number"], "ann"),
            (answer["number"], "AVA"),
        ]
        assert work["conversation"][0]["jobs"][0]["state"] == "done"
        (change,) = work["changes"]
        assert (change["message"], change["branch"], change["files"]) == (
            f"m{answer['number']}",
            own_branch("ava"),
            2,
        )
        cost = work["cost"]
        assert (cost["turns"], cost["input"], cost["output"]) == (1, 100, 20)
        assert (cost["usd"], cost["unpriced"]) == (0.25, 0)

        async def on_branch() -> Json | None:
            branch = (await task(told, 1))["work"]["branch"]
            return branch if branch and branch["files"] == 2 else None

        branch = await eventually(on_branch, "the files of the branch")
        assert {one["path"] for one in branch["changed"]} == {"roof.txt", "sub/new.md"}

        # The agent ends it itself, from any of its sessions; nobody else can.
        made = await told.relay("keys", "create", "AVA", "--json")
        asked = {"task_id": "t1", "success": True, "result": "mended"}
        status, other = await told.ask("POST", "/work/complete", json={**asked, "agent_id": "ZED"})
        assert (status, other["reason"]) == (200, "not_yours")
        key = {"X-API-Key": json.loads(made.out)["key"]}
        async with told.session.post(f"{told.url}/work/complete", json=asked, headers=key) as done:
            assert (await done.json())["status"] == "completed"
        ended = await task(told, 1)
        assert (ended["status"], ended["badge"], ended["result"]) == ("done", None, "mended")
        assert not [need for need in await told.get("/api/needs") if need["ref"] == "t1"]

        # What an agent claims by itself is told in the same way.
        await becomes(told, 2, badge=None)
        async with told.session.post(f"{told.url}/work/claim", json={}, headers=key) as claimed:
            assert (await claimed.json())["number"] == 2
        assert (await task(told, 2))["work"].keys() == work.keys()
        assert "AVA works on t2" in await order(told, "/give t2 @BEN")
        await order(told, "/move t2 done")

        # An agent that would not begin is not given work; who is free gets what is for any.
        await order(told, "/pause @AVA")
        await told.post("@BEN slow")
        await order(told, "/task Sweep")
        assert "AVA would not begin with it: it is paused" in await order(told, "/give t3 @AVA")
        assert "gave t3 to CLEO" in await order(told, "/give t3 any")

        # Who could not answer has it no more; the reason stands on the card.
        lost = await becomes(told, 3, status="pending")
        assert (lost["assignee"], lost["badge"]) == (None, None)
        assert "CLEO could not answer: The disk is full" in lost["note"]
        # Its circuit is open now, so any is BEN, who is at work.
        answered = await order(told, "/give t3 any")
        assert "gave t3 to BEN" in answered and "BEN has 1 message before it" in answered

        # Taken back before BEN has begun with it: the message too.
        number = (await task(told, 3))["given"][-1]["number"]
        assert "ann took t3 back from BEN" in await order(told, "/undo")
        back = await task(told, 3)
        assert (back["status"], back["assignee"], len(back["given"])) == ("pending", None, 1)
        await told.until_job((await said(told, number))["id"], "BEN", "skipped")

        # Several at once, one step to take back.
        await order(told, "/task Rake")
        some = {"name": "ann", "tasks": [3, 4], "action": "priority", "to": "1"}
        status, done_some = await told.ask("POST", "/api/tasks/some", json=some)
        assert (status, done_some["success"]) == (200, True)
        assert [(await task(told, number))["priority"] for number in (3, 4)] == [1, 1]
        status, _ = await told.ask("POST", "/api/tasks/some", json={**some, "action": "archive", "to": None})
        assert [one["number"] for one in (await told.get("/api/tasks"))["tasks"]] == [1, 2]
        assert "ann put t3-t4 back on the board" in await order(told, "/undo")
        assert [one["number"] for one in (await told.get("/api/tasks"))["tasks"]] == [3, 4, 1, 2]
        mixed = {"name": "ann", "tasks": [3, 4], "action": "archive", "to": "done"}
        assert (await told.ask("POST", "/api/tasks/some", json=mixed))[0] == 400
        # By a person only, whatever an agent's key may do.
        made = await told.relay("keys", "create", "BEN", "--scopes", "admin,work,read", "--json")
        bens = {"X-API-Key": json.loads(made.out)["key"]}
        mine = {"tasks": [3, 4], "action": "archive"}
        async with told.session.post(f"{told.url}/api/tasks/some", json=mine, headers=bens) as refused_some:
            said_some = (await refused_some.json())["error"]["message"]
            assert refused_some.status == 403 and said_some.startswith("Only a person changes several")
        assert [one["number"] for one in (await told.get("/api/tasks"))["tasks"]] == [3, 4, 1, 2]

        # In a shell: the same, and what is wrong is said.
        await order(told, "/resume @AVA")
        ran = await told.relay("work", "give", "t4", "ava")
        assert ran.code == 0 and "gave t4 to AVA" in ran.out, ran.all
        ran = await told.relay("work", "give", "t4", "nobody")
        assert ran.code == 1 and "no agent nobody" in ran.err, ran.all
        ran = await told.relay("work", "give", "t4", "nobody", "--json")
        assert ran.code == 1 and json.loads(ran.out)["error"]["message"] in ran.err, ran.all
        ran = await told.relay("work", "edit", "t4", "--title", "Rake the leaves", "--description", "All.")
        assert ran.code == 0, ran.all
        renamed = await task(told, 4)
        assert (renamed["title"], renamed["body"]) == ("Rake the leaves", "All.")

        # What was put off is the question whether it is done, not that it failed.
        async def needed(id: str) -> Json | None:
            return next((need for need in await told.get("/api/needs") if need["id"] == id), None)

        weed = {"task_type": "task", "task_description": "Weed", "max_attempts": 1}
        assert (await told.ask("POST", "/work/submit", json=weed))[0] == 200
        assert "gave t5 to AVA" in await order(told, "/give t5 @AVA")
        await eventually(lambda: needed("answered:t5"), "whether t5 is done")
        click = {"name": "ann", "action": "later"}
        _, done = await told.ask("POST", "/api/needs/answered:t5", json=click)
        assert done["undo"] == "/later answered:t5 undo", done
        assert await needed("answered:t5") is None
        # Who acts on it all the same hears until when it is put off, by whom, and how it comes back.
        ran = await told.relay("inbox", "answered:t5", "done")
        assert re.search(r"answered:t5 is put off until .+ by ann\.", ran.err), ran.all
        assert "`/later answered:t5 undo` in the room brings it back." in ran.err
        ran = await told.relay("inbox", "foo", "done")
        assert "Nothing in the inbox is foo: it is settled, or there never was such a thing." in ran.err, (
            ran.all
        )
        failed = {"task_id": "t5", "success": False, "error_message": "No rake."}
        async with told.session.post(f"{told.url}/work/complete", json=failed, headers=key) as done:
            assert done.status == 200, await done.text()
        assert (await eventually(lambda: needed("task:t5"), "that t5 failed"))["kind"] == "task"

        # The table is what the log says.
        assert (await told.script("healthcheck.sh")).code == 0, (await told.script("healthcheck.sh")).all


ISSUES: Any = [
    {
        "number": 7,
        "title": "The roof leaks",
        "body": "Since Monday.\r\nBadly.",
        "labels": [{"name": "bug"}, {"name": "priority: high"}],
        "url": "https://github.com/a/b/issues/7",
        "state": "OPEN",
        "assignees": [{"login": "ann"}],
    },
    {"number": 8, "title": "Paint", "body": "", "labels": [], "url": "https://github.com/a/b/issues/8"},
    {"number": 9, "title": "", "url": "https://github.com/a/b/issues/9"},
    {"number": 10, "title": "No address"},
    {"number": 11, "title": "Old", "url": "https://github.com/a/b/issues/11", "state": "CLOSED"},
    "nothing",
]


async def test_issues_are_imported_once_and_kept_up_to_date(tmp_path: Path) -> None:
    folder = tmp_path / "room"
    folder.mkdir()
    (folder / "works.yaml").write_text(WORKS)
    async with room(folder, settings(agent("AVA", "works.yaml"))) as told:
        await told.start()
        status, first = await told.ask("POST", "/api/tasks/import", json={"name": "ann", "issues": ISSUES})
        assert (status, first["made"]) == (200, [1, 2]), first
        assert [(one["entry"], one["reason"].split()[0]) for one in first["refused"]] == [
            (3, "It"),
            (4, "It"),
            (6, "It"),
            ("https://github.com/a/b/issues/11", "It"),
        ]
        roof, paint = await task(told, 1), await task(told, 2)
        # A list has the beginning of a long description.
        await order(told, f"/task t2 description {'long ' * 500}")
        listed = {each["number"]: each for each in (await told.get("/api/tasks"))["tasks"]}
        assert "body" not in listed[2] and len(listed[2]["description"]) == 1000
        assert len((await task(told, 2))["body"]) == 5 * 500 - 1
        assert (roof["title"], roof["body"], roof["priority"]) == (
            "The roof leaks",
            "Since Monday.\nBadly.",
            2,
        )
        assert roof["source"] == "https://github.com/a/b/issues/7" and paint["priority"] == 5
        assert roof["input_data"]["issue"]["labels"] == ["bug", "priority: high"]
        await told.until_said(r"ann imported issues: 2 new \(t1-t2\), 4 not taken over\.", speaker="RELAY")

        # Given, its text is told as what a stranger wrote.
        assert "gave t1 to AVA" in await order(told, "/give t1 @AVA")
        message = await said(told, (await task(told, 1))["given"][0]["number"])
        assert message["body"] == (
            f"@AVA t1. Its title, imported from {ISSUES[0]['url']}:\n\n> The roof leaks\n\n"
            f"Its description, imported from {ISSUES[0]['url']}:\n\n> Since Monday.\n> Badly."
        )
        await told.reply_to(message["id"], "AVA")

        # Again, from a shell, one a line: nothing twice. What was changed here is left, the rest brought up to date.
        await order(told, "/task t2 description Two coats")
        changed = [{**ISSUES[0], "title": "The roof leaks badly", "labels": [{"name": "P1"}, {"name": "P0"}]}]
        changed.append({**ISSUES[1], "title": "Paint it all"})
        lines = "\n".join([*map(json.dumps, changed), "{broken"])
        (folder / "issues.jsonl").write_text(lines)
        ran = await told.relay("work", "import", str(folder / "issues.jsonl"), "--json")
        assert ran.code == 0, ran.all
        second = json.loads(ran.out)
        assert (second["made"], second["updated"], second["kept"]) == ([], [1], [2])
        assert second["refused"] == [{"entry": "line 3", "reason": "It is no JSON."}]
        roof, paint = await task(told, 1), await task(told, 2)
        assert (roof["title"], roof["priority"]) == ("The roof leaks badly", 1)
        assert (paint["title"], paint["body"]) == ("Paint", "Two coats")
        ran = await told.relay("work", "import", str(folder / "issues.jsonl"))
        assert "1 unchanged (t1)" in ran.out and "line 3: It is no JSON." in ran.out

        # What undo took away may come again; what a person took off the board may not.
        await order(told, "/archive t2")
        status, third = await told.ask("POST", "/api/tasks/import", json={"name": "ann", "issues": ISSUES[1]})
        assert (
            third["made"] == [] and "t2, its task, was taken off the board" in third["refused"][0]["reason"]
        )
        fresh = {**ISSUES[1], "url": "https://github.com/a/b/issues/12"}
        await told.ask("POST", "/api/tasks/import", json={"name": "ann", "issues": [fresh]})
        assert "undid an import (t3)" in await order(told, "/undo")
        status, again = await told.ask("POST", "/api/tasks/import", json={"name": "ann", "issues": [fresh]})
        assert again["made"] == [4]

        # A large import is one step, which its answer names.
        many = [{"title": f"Issue {n}", "url": f"https://github.com/a/b/issues/{n}"} for n in range(100, 550)]
        _, large = await told.ask("POST", "/api/tasks/import", json={"name": "ann", "issues": many})
        assert len(large["made"]) == 450
        message = large["undo"].removeprefix("/undo ")
        _, undone = await told.ask("POST", "/api/tasks/undo", json={"name": "ann", "message": message})
        assert undone["success"], undone
        assert len((await told.get("/api/tasks"))["tasks"]) == 2
        status, undone = await told.ask("POST", "/api/tasks/undo", json={"name": "ann", "message": message})
        assert "taken back already" in json.dumps(undone)

        # What is none is refused, and nothing is done.
        status, refused = await told.ask("POST", "/api/tasks/import", json={"name": "ann", "issues": 3})
        assert status == 400 and "gh issue list --json" in refused["error"]["fix"]
        (folder / "issues.jsonl").write_text("no json at all")
        ran = await told.relay("work", "import", str(folder / "issues.jsonl"))
        assert ran.code == 1 and "It is no JSON" in ran.err
        ran = await told.relay("work", "import", str(folder / "absent"))
        assert ran.code == 2 and "absent: No such file" in ran.err
        assert (await told.script("healthcheck.sh")).code == 0
