"""Named moments of a room that runs: looked at, compared, gone to, and gone back to."""

from __future__ import annotations

from tests.e2e.conftest import Open
from tests.e2e.test_timeline import WRITES, ask
from tests.e2e.test_worktrees import in_git
from tests.outside import agent


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
