"""Named moments of a room that runs: looked at, compared, gone to, and gone back to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import Open
from tests.e2e.test_timeline import LISTENS, WRITES, ask, merge, timeline
from tests.e2e.test_worktrees import in_git
from tests.git.repository import git
from tests.outside import Outside, agent, program


async def test_a_moment_is_looked_at_over_http(open_room: Open) -> None:
    one = await open_room(agent("WRITER", "w.yaml"), files={"w.yaml": WRITES}, start=False)
    in_git(one.folder)
    await one.start()
    await ask(one, "append a line", "WRITER")
    event = (await one.get("/api/timeline?lane=WRITER&type=files.changed"))["events"][-1]
    tree = await one.get(f"/api/timeline/tree?at={event['id'][:8]}")
    assert tree["tree"] == event["snapshot"]
    (notes,) = [entry for entry in tree["entries"] if entry["path"] == "notes.md"]
    assert notes["by"] == event["lane"]
    shown = await one.get("/api/timeline/file?path=notes.md&lane=writer")
    assert shown["text"] == "one\ntwo\nmine\n"
    assert (await one.get("/api/timeline/file?path=notes.md"))["text"] == "one\ntwo\n"
    differs = await one.get(f"/api/timeline/diff?a=-0s&b=%23{event['number']}")
    assert {file["path"]: file["kind"] for file in differs["files"]} == {
        "notes.md": "write",
        "sub/new.md": "write",
    }
    assert (await one.get("/api/timeline/checkpoints"))["checkpoints"] == []
    for query, status, code in (
        ("tree?at=nobodys", 404, "unknown_moment"),
        ("tree?at=a~b", 400, "bad_moment"),
        ("tree?lane=NOBODY", 404, "unknown_lane"),
        ("file?path=none", 404, "unknown_path"),
        ("file", 400, "bad_request"),
        ("diff?b=-1h", 400, "bad_request"),
        ("diff?a=-1h&b=-1h", 404, "unknown_moment"),
    ):
        got, said = await one.ask("GET", f"/api/timeline/{query}")
        assert (got, said["error"]["code"]) == (status, code), query
    await one.end()


async def said(one: Outside, text: str) -> str:
    posted = await one.post(text)
    answer = await one.reply_to(posted["id"], "RELAY")
    return str(answer["body"])


async def test_a_person_goes_back_to_a_name_by_the_rooms_commands(open_room: Open) -> None:
    one = await open_room(program("BEN", "-c", LISTENS), start=False)
    in_git(one.folder)
    await one.start()
    tree = one.folder / ".relay" / "worktrees" / "ben"
    await ask(one, "hello", "BEN")
    made = await said(one, "/checkpoint before the storm")
    assert made.startswith("`before the storm` is the main branch's files as they are now")
    await ask(one, "please edit", "BEN")
    status, again = await one.ask(
        "POST", "/api/timeline/checkpoint", json={"name": "ann", "checkpoint": "edited", "lane": "ben"}
    )
    assert (status, again["success"], again["metadata"]["worktree"]) == (201, True, "BEN")
    names = [each["name"] for each in (await one.get("/api/timeline/checkpoints"))["checkpoints"]]
    assert names == ["edited", "before the storm"]
    preview = await said(one, "/rewind ben to before the storm preview")
    assert "Nothing is done yet" in preview
    assert "`made.md`: gone" in preview
    assert (tree / "made.md").exists()
    answer = await said(one, "/rewind ben to before the storm")
    assert "took back what BEN did since before the storm in BEN's worktree: 2 files." in answer
    assert "`/rewind undo` undoes it." in answer
    assert not (tree / "made.md").exists()
    assert "brought back what BEN did" in await said(one, "/rewind undo")
    assert (tree / "made.md").read_text() == "made"
    assert "There is no rewind to undo." in await said(one, "/rewind undo")
    assert "There is no checkpoint 'the calm'" in await said(one, "/rewind ben to the calm")
    shown = await one.get("/api/timeline/file?path=made.md&at=edited")
    assert shown["text"] == "made"
    assert (await one.ask("GET", "/api/timeline/file?path=made.md&at=before+the+storm"))[0] == 404
    await one.end()


@pytest.mark.parametrize("runs", [True, False])
async def test_the_commands_of_moments_work_with_the_room_and_without(open_room: Open, runs: bool) -> None:
    one = await open_room(program("BEN", "-c", LISTENS), start=False)
    in_git(one.folder)
    await one.start()
    tree = one.folder / ".relay" / "worktrees" / "ben"
    await ask(one, "please edit", "BEN")
    if not runs:
        await one.end()
    made = await timeline(one, "checkpoint", "edited", "--lane", "BEN", "--name", "ann")
    assert (made["name"], made["kind"], made["metadata"]) == (
        "edited",
        "user",
        {"worktree": "BEN", "by": "ann"},
    )
    assert git(one.folder, "rev-parse", f"{made['commit']}^{{tree}}") == made["tree"]
    await timeline(one, "checkpoint", "plain")

    files = await timeline(one, "diff", "plain", "edited")
    assert [(file["path"], file["kind"]) for file in files] == [("made.md", "write"), ("notes.md", "write")]
    assert "+TWO" in files[1]["patch"]
    assert [file["path"] for file in await timeline(one, "diff", "-0s", "edited", "--path", "made.md")] == [
        "made.md"
    ]

    jump = await timeline(one, "jump", "edited")
    folder = Path(jump["folder"])
    assert (folder / "made.md").read_text() == "made"
    assert git(folder, "status", "--porcelain") == ""
    assert git(folder, "rev-parse", "HEAD^{tree}") == made["tree"]
    assert (await one.relay("timeline", "jump", "--list")).out.split() == [str(folder)]
    (folder / "mine.txt").write_text("mine")
    kept = await one.relay("timeline", "jump", "--remove", str(folder))
    assert (kept.code, "was edited since" in kept.err) == (1, True)
    (folder / "mine.txt").unlink()
    assert await timeline(one, "jump", "--remove", folder.name) == {"removed": str(folder)} | (
        {"success": True} if runs else {}
    )
    assert not folder.exists()
    git(one.folder, "worktree", "remove", (await timeline(one, "jump", "plain"))["folder"])

    (branch,) = (await timeline(one, "branches"))["branches"]
    assert (branch["kind"], branch["lane"], branch["landed"]) == ("agent", "BEN", True)
    assert branch["uncommitted"], "what has landed is the branch, not what stands in its worktree"
    git(tree, "add", "-A")
    git(tree, "commit", "-q", "-m", "of BEN")
    (branch,) = (await timeline(one, "branches"))["branches"]
    assert (branch["ahead"], branch["behind"], branch["landed"]) == (1, 0, False)
    assert (branch["worktree"], branch["uncommitted"]) == (str(tree), False)

    by_room = (
        (("jump", "nobodys"), 1, "Checkpoints: plain, edited"),
        (("jump", "a~b"), 2, "is no moment"),
        (("jump", "12:99"), 2, "'12:99' is no moment"),
        (("jump", ""), 2, "an empty text is no moment"),
        (("checkpoint", "12"), 2, "reads as a number"),
    )
    here = (
        (("jump",), 2, "takes a MOMENT"),
        (("checkpoint", "x", "--lane", "NOBODY"), 1, "BEN"),
        (("diff", "plain", "nobodys"), 1, "no checkpoint"),
    )
    for words, code, said in by_room if runs else here:
        ran = await one.relay("timeline", *words)
        assert (ran.code, said in ran.err) == (code, True), ran.all
    if runs:
        worktrees = await one.get("/api/worktrees")
        assert [each["agent"] for each in worktrees["worktrees"]] == ["BEN"]
        await one.end()


async def test_an_agents_key_takes_back_its_own_work_that_has_not_landed(open_room: Open) -> None:
    agents = program("BEN", "-c", LISTENS), agent("WRITER", "w.yaml")
    one = await open_room(*agents, files={"w.yaml": WRITES}, start=False)
    in_git(one.folder)
    await one.start()
    for name, text in (("BEN", "please edit"), ("WRITER", "append a line")):
        await ask(one, text, name)
    keys = {}
    for name, more in (("BEN", ()), ("READER", ("--scopes", "read"))):
        made = await one.relay("keys", "create", name, *more, "--json")
        keys[name] = json.loads(made.out)["key"]

    async def post(key: str, path: str, **body: object) -> tuple[int, Any]:
        url, head = f"{one.url}/api/timeline/{path}", {"X-API-Key": keys[key]}
        async with one.session.post(url, headers=head, json=body) as answer:
            return answer.status, await answer.json()

    tree = one.folder / ".relay" / "worktrees"
    for name, path, body, code in (
        ("BEN", "rewind", {"lane": "WRITER", "to": "-1h"}, "not_own"),
        ("BEN", "rewind", {"lane": "BEN", "to": "-1h", "name": "ann"}, "foreign_identity"),
        ("BEN", "undo", {}, "scope"),
        ("BEN", "checkpoint", {"checkpoint": "mine"}, "scope"),
        ("READER", "rewind", {"lane": "READER", "to": "-1h"}, "scope"),
    ):
        status, answer = await post(name, path, **body)
        assert (status, answer["error"]["code"]) == (403, code), (name, path, body)
    assert (tree / "ben" / "made.md").exists()
    status, done = await post("BEN", "rewind", lane="ben", to="-1h")
    assert (status, done["success"]) == (200, True), done
    assert not (tree / "ben" / "made.md").exists()
    await one.until_said("BEN took back what ben did since -1h", speaker="RELAY")
    (rewound,) = (await one.get("/api/timeline?type=timeline.rewound"))["events"]
    assert rewound["lane"].endswith("/BEN")

    await timeline(one, "undo", "--name", "ann")
    assert (tree / "ben" / "made.md").exists()
    await merge(one, "BEN")
    status, done = await post("BEN", "rewind", lane="BEN", to="-1h")
    assert (status, done["error"]["code"]) == (403, "forbidden")
    await one.end()
