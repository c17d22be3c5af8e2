"""What the timeline of a room that runs says of who changed which file."""

from __future__ import annotations

import json
from typing import Any

from relay.app.wiring.schema import SCHEMAS
from relay.log import events
from relay.log.events import Event
from relay.log.verify import verify
from relay.store.sqlite.store import open_store
from tests.e2e.conftest import Open
from tests.e2e.test_worktrees import in_git
from tests.git.repository import git
from tests.outside import Outside, agent, eventually, program

WRITES = """
- match: append
  write: {notes.md: "one\\ntwo\\nmine\\n", "sub/new.md": "new\\n"}
  say: "Done."
- say: "{agent} heard {body}"
"""
#: A program whose edits no tool call tells of.
SHELL = """
import subprocess
edits = "sed -i s/one/ONE/ notes.md; git mv notes.md renamed.md; chmod +x .gitignore; rm sub/new.md"
subprocess.run(["sh", "-ec", edits], check=True)
print("done")
"""


async def events_of(one: Outside, *types: str) -> list[Event]:
    store = await open_store(one.folder / ".relay" / "events.db", SCHEMAS)
    try:
        assert await verify(store) == []
        return await store.read(lambda tx: events.read_after(tx, 0, types=types, limit=10_000))
    finally:
        await store.close()


def touched(event: Event) -> list[tuple[str, str]]:
    return [(touch["path"], touch["kind"]) for touch in event.outputs["touches"]]


async def _merge(one: Outside, name: str) -> str:
    async def clean() -> bool:
        rows = (await one.get("/api/worktrees"))["worktrees"]
        return any(row["agent"] == name and row["merges"] == "clean" for row in rows)

    await eventually(clean, f"{name}'s work is seen")
    status, done = await one.ask("POST", f"/api/worktrees/{name}/merge", json={"name": "ann"})
    assert (status, done["success"]) == (200, True)
    return str(done["commit"])


async def _ask(one: Outside, text: str, name: str) -> dict[str, Any]:
    posted = await one.post(f"@{name} {text}")
    answer: dict[str, Any] = await one.reply_to(posted["id"], name)
    return answer


async def test_shell_edits_are_seen(open_room: Open) -> None:
    agents = agent("WRITER", "w.yaml"), program("SHELL", "-c", SHELL)
    one = await open_room(*agents, files={"w.yaml": WRITES}, start=False)
    in_git(one.folder)
    await one.start()
    await _ask(one, "append a line", "WRITER")
    merged = await _merge(one, "WRITER")
    await _ask(one, "edit it", "SHELL")
    (one.folder / "person.txt").write_text("by hand\n")
    git(one.folder, "add", "person.txt")
    git(one.folder, "commit", "-q", "-m", "by a person")
    await _ask(one, "hello", "WRITER")
    printed = await one.relay("timeline", "lane", "SHELL")
    assert (
        "SHELL        changed 1 mode, 2 rename, 1 delete  .gitignore, notes.md, renamed.md and 1 more"
        in printed.out
    )
    shown = json.loads((await one.relay("timeline", "files", "--json")).out)["files"]
    assert [(file["path"], file["by"].partition("/")[2]) for file in shown] == [
        (".gitignore", "SHELL"),
        ("notes.md", "SHELL"),
        ("person.txt", "human:Ann"),
        ("renamed.md", "SHELL"),
        ("sub/new.md", "SHELL"),
    ]
    unknown = await one.relay("timeline", "lane", "NOBODY")
    assert unknown.code == 1
    assert "The log has RELAY, SHELL, WRITER, Ann" in unknown.err
    assert (await one.relay("timeline", "show", "nonsense")).code == 2
    rebuilt = await one.relay("timeline", "rebuild")
    assert rebuilt.code == 0
    assert json.loads((await one.relay("timeline", "files", "--json")).out)["files"] == shown
    await one.end()

    written, landed, shell, person = await events_of(one, "files.changed")
    assert touched(written) == [("notes.md", "write"), ("sub/new.md", "write")]
    assert (written.lane, written.role, written.branch) == ("WRITER", "agent", "relay/writer")
    assert (landed.lane, landed.outputs["commit"]) == ("main", merged)
    assert written.id in landed.parents
    assert touched(shell) == [
        (".gitignore", "mode"),
        ("notes.md", "rename"),
        ("renamed.md", "rename"),
        ("sub/new.md", "delete"),
    ]
    assert shell.outputs["source"] == "tree"
    assert "unseen" not in shell.outputs, "its tree had all of main"
    assert landed.id in shell.causal_deps
    assert (person.lane, touched(person)) == ("human:Ann", [("person.txt", "write")])
    for event in (written, shell):
        assert git(one.folder, "rev-parse", f"refs/relay/snapshots/{_slug(event)}/{event.snapshot}^{{tree}}")
    reads = await events_of(one, "files.read")
    brought = [event for event in reads if event.outputs["source"] == "merge"]
    assert [(event.lane, event.outputs["paths"]) for event in brought] == [("WRITER", ["person.txt"])]
    assert brought[0].causal_deps == (person.id,)


def _slug(event: Event) -> str:
    return f"{event.session}/{event.lane}".replace("/", "%2f")
