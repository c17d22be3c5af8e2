"""Named moments of a room that runs: looked at, compared, gone to, and gone back to."""

from __future__ import annotations

from tests.e2e.conftest import Open
from tests.e2e.test_timeline import LISTENS, WRITES, ask
from tests.e2e.test_worktrees import in_git
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
