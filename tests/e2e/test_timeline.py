"""What the timeline of a room that runs says of who changed which file."""

from __future__ import annotations

import json
import sqlite3
from typing import Any

from relay.app.wiring.schema import SCHEMAS
from relay.log import events
from relay.log.events import Event
from relay.log.verify import verify
from relay.store.sqlite.store import open_store
from tests.e2e.conftest import Open
from tests.e2e.test_worktrees import in_git
from tests.git.repository import git, own_branch
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


async def merge(one: Outside, name: str) -> str:
    async def clean() -> bool:
        rows = (await one.get("/api/worktrees"))["worktrees"]
        return any(row["agent"] == name and row["merges"] == "clean" for row in rows)

    await eventually(clean, f"{name}'s work is seen")
    status, done = await one.ask("POST", f"/api/worktrees/{name}/merge", json={"name": "ann"})
    assert (status, done["success"]) == (200, True)
    return str(done["commit"])


async def ask(one: Outside, text: str, name: str) -> dict[str, Any]:
    posted = await one.post(f"@{name} {text}")
    answer: dict[str, Any] = await one.reply_to(posted["id"], name)
    return answer


async def test_shell_edits_are_seen(open_room: Open) -> None:
    agents = agent("WRITER", "w.yaml"), program("SHELL", "-c", SHELL)
    one = await open_room(*agents, files={"w.yaml": WRITES}, start=False)
    in_git(one.folder)
    await one.start()
    await ask(one, "append a line", "WRITER")
    merged = await merge(one, "WRITER")
    await ask(one, "edit it", "SHELL")
    (one.folder / "person.txt").write_text("by hand\n")
    git(one.folder, "add", "person.txt")
    git(one.folder, "commit", "-q", "-m", "by a person")
    await ask(one, "hello", "WRITER")
    printed = await one.relay("timeline", "lane", "SHELL")
    line = "SHELL        deleted 1, renamed 1, changed the mode of 1  .gitignore, notes.md, renamed.md and 1 more"
    assert f"{line}  (relay timeline rewind SHELL --to '#" in printed.out
    shown = json.loads((await one.relay("timeline", "files", "--json")).out)["files"]
    assert [(file["path"], file["by"].partition("/")[2]) for file in shown] == [
        (".gitignore", "SHELL"),
        ("notes.md", "SHELL"),
        ("person.txt", "human:Ann"),
        ("renamed.md", "SHELL"),
        ("sub/new.md", "SHELL"),
    ]
    assert {file["lock"] for file in shown} == {None}
    unknown = await one.relay("timeline", "lane", "NOBODY")
    assert unknown.code == 1
    assert "The log has RELAY, SHELL, WRITER, Ann" in unknown.err
    assert (await one.relay("timeline", "show", "nonsense")).code == 1
    assert (await one.relay("timeline", "show", "a~b")).code == 2
    rebuilt = await one.relay("timeline", "rebuild")
    assert rebuilt.code == 0
    assert json.loads((await one.relay("timeline", "files", "--json")).out)["files"] == shown
    lock = {"file_paths": ["sub"], "session_id": "ann-1"}
    assert (await one.ask("POST", "/locks/acquire", json=lock))[0] == 200
    printed = await one.relay("timeline", "files", "sub")
    assert ", deleted, locked by " in printed.out
    await one.end()

    written, landed, shell, person = await events_of(one, "files.changed")
    assert touched(written) == [("notes.md", "write"), ("sub/new.md", "write")]
    assert (written.lane, written.role, written.branch) == ("WRITER", "agent", own_branch("writer"))
    assert (landed.lane, landed.outputs["commit"]) == ("main", merged)
    assert written.id in landed.parents
    # The merge, and the commit of what stood uncommitted, name the event that they come of.
    for commit in (merged, f"{merged}^2"):
        told = git(one.folder, "log", "-1", "--format=%(trailers:only,unfold)", commit).strip().split("\n")
        assert told == [
            f"TimeWarp-Event-Id: {written.id}",
            "TimeWarp-Agent-Id: WRITER",
            f"TimeWarp-Branch-Id: {own_branch('writer')}",
            f"TimeWarp-Snapshot-Id: {git(one.folder, 'rev-parse', f'{commit}^{{tree}}')}",
            "TimeWarp-Vector-Clock: " + ",".join(f"{key}:{n}" for key, n in sorted(written.clock.items())),
        ]
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


#: A program that says what it was told, and edits when it is asked to.
LISTENS = """
import pathlib, sys
prompt = sys.stdin.read()
if "please edit" in prompt:
    notes = pathlib.Path("notes.md")
    notes.write_text(notes.read_text().replace("two", "TWO"))
    pathlib.Path("made.md").write_text("made")
print("TOLD:", prompt[-2000:])
"""


async def timeline(one: Outside, *words: str) -> dict[str, Any]:
    ran = await one.relay("timeline", *words, "--json")
    assert ran.code == 0, ran.all
    answer: dict[str, Any] = json.loads(ran.out)
    return answer


async def test_what_an_agent_did_is_taken_back_and_brought_back(open_room: Open) -> None:
    one = await open_room(
        program("BEN", "-c", LISTENS), agent("WRITER", "w.yaml"), files={"w.yaml": WRITES}, start=False
    )
    in_git(one.folder)
    await one.start()
    tree = one.folder / ".relay" / "worktrees" / "ben"
    await ask(one, "please edit", "BEN")
    (tree / "output.log").write_text("of nobody")
    preview = await timeline(one, "rewind", "BEN", "--to", "-1h", "--dry-run", "--name", "ann")
    assert [(file["path"], file["action"]) for file in preview["files"]] == [
        ("made.md", "deleted"),
        ("notes.md", "restored"),
    ]
    assert (tree / "made.md").exists(), "a preview writes nothing"

    done = await timeline(one, "rewind", "BEN", "--to", "-1h", "--name", "ann")
    assert done["files"] == preview["files"]
    assert (tree / "notes.md").read_text() == "one\ntwo\n"
    assert not (tree / "made.md").exists()
    assert (tree / "output.log").read_text() == "of nobody"
    said = "ann took back what BEN did since -1h: made.md, notes.md. `relay timeline undo` brings it back."
    await one.until_said(said, speaker="RELAY")
    answer = await ask(one, "hello", "BEN")
    assert "ann took back what you did since -1h, in your worktree: made.md, notes.md." in answer["body"]
    assert "took back" not in (await ask(one, "hello again", "BEN"))["body"]

    again = await one.relay("timeline", "rewind", "BEN", "--to", "-1h")
    assert again.code == 1
    await timeline(one, "undo", "--name", "ann")
    await one.until_said("ann brought back what BEN did: made.md, notes.md.", speaker="RELAY")
    assert (tree / "notes.md").read_text() == "one\nTWO\n"
    assert (tree / "made.md").read_text() == "made"
    assert (await one.relay("timeline", "undo")).code == 1, "there is no other rewind"
    await timeline(one, "redo", "--name", "ann")
    assert not (tree / "made.md").exists()
    log = await one.relay("timeline", "log", "--lane", "ann")
    assert [
        line.split("ann", 1)[1].strip().split("  ")[0] for line in log.out.splitlines() if "BEN did" in line
    ] == [
        "took back what BEN did",
        "brought back what BEN did",
        "took back again what BEN did",
    ]
    refused = await one.relay("timeline", "rewind", "main", "--to", "-1h")
    assert refused.code == 1 and "the work of agents and people" in refused.err
    assert "took back" in (await one.relay("timeline", "lane", "@Ann")).out
    wrong = await one.relay("timeline", "rewind", "BEN", "--to", "a~b")
    assert wrong.code == 2
    assert "is no moment" in wrong.err


async def test_what_has_landed_is_taken_out_of_the_main_branch(open_room: Open) -> None:
    one = await open_room(program("BEN", "-c", LISTENS), start=False)
    in_git(one.folder)
    await one.start()
    await ask(one, "please edit", "BEN")
    await merge(one, "BEN")
    (one.folder / "notes.md").write_text("zero\none\nTWO\n")
    git(one.folder, "commit", "-q", "-am", "a person adds a line")
    (one.folder / "notes.md").write_text("zero\none\nTWO\nnot committed\n")
    in_the_way = await one.relay(
        "timeline", "rewind", "BEN", "--to", "-1h", "--into", "main", "--name", "ann"
    )
    assert in_the_way.code == 1
    assert "notes.md" in in_the_way.all
    assert (one.folder / "notes.md").read_text() == "zero\none\nTWO\nnot committed\n"
    git(one.folder, "checkout", "-q", "notes.md")
    done = await timeline(one, "rewind", "BEN", "--to", "-1h", "--into", "main", "--name", "ann")
    assert done["branch"] == "main"
    assert (one.folder / "notes.md").read_text() == "zero\none\ntwo\n"
    assert not (one.folder / "made.md").exists()
    assert git(one.folder, "status", "--porcelain", "--untracked-files=no") == ""
    answer = await ask(one, "hello", "BEN")
    assert "ann took back what you did since -1h, on the main branch: made.md, notes.md." in answer["body"]
    await timeline(one, "undo", "--name", "ann")
    assert (one.folder / "notes.md").read_text() == "zero\none\nTWO\n"
    assert (one.folder / "made.md").read_text() == "made"
    await one.end()
    # The commit of a rewind is no change of the one who asked for it: `rewind ann` leaves it.
    (rewound,) = await events_of(one, "timeline.rewound")
    (landed,) = [
        event for event in await events_of(one, "files.changed") if event.snapshot == rewound.snapshot
    ]
    assert landed.lane == "main" and rewound.id in landed.parents


async def test_a_conflict_is_an_answer_and_nothing_is_written(open_room: Open) -> None:
    one = await open_room(program("BEN", "-c", LISTENS), start=False)
    in_git(one.folder)
    await one.start()
    await ask(one, "please edit", "BEN")
    await merge(one, "BEN")
    (one.folder / "notes.md").write_text("one\nTWO, says Ann\n")
    git(one.folder, "commit", "-q", "-am", "a person edits the same line")
    before = git(one.folder, "rev-parse", "HEAD")
    order = {"name": "ann", "lane": "BEN", "to": "-1h", "into": "main"}
    status, answer = await one.ask("POST", "/api/timeline/rewind", json=order)
    assert (status, answer["success"], answer["conflicts"]) == (200, False, ["notes.md"])
    printed = await one.relay("timeline", "rewind", "BEN", "--to", "-1h", "--into", "main")
    assert printed.code == 1
    assert "conflict  notes.md" in printed.all
    assert "Nothing was written, for the conflicts." in printed.all
    said = await one.post("/rewind BEN to -1h into main")
    assert "`notes.md`" in (await one.reply_to(said["id"], "RELAY"))["body"]
    assert (git(one.folder, "rev-parse", "HEAD"), (one.folder / "made.md").read_text()) == (before, "made")
    done = await timeline(one, "rewind", "BEN", "--to", "-1h", "--into", "main", "--partial")
    assert done["conflicts"] == ["notes.md"]
    assert (one.folder / "notes.md").read_text() == "one\nTWO, says Ann\n"
    assert not (one.folder / "made.md").exists()
    await timeline(one, "undo")
    assert (one.folder / "made.md").read_text() == "made"


async def test_what_has_landed_is_taken_out_of_a_new_branch(open_room: Open) -> None:
    one = await open_room(agent("WRITER", "w.yaml"), files={"w.yaml": WRITES}, start=False)
    in_git(one.folder)
    await one.start()
    await ask(one, "append a line", "WRITER")
    merged = await merge(one, "WRITER")
    (one.folder / "notes.md").write_text("zero\none\ntwo\nmine\n")
    git(one.folder, "commit", "-q", "-am", "a person adds a line")
    done = await timeline(one, "rewind", "WRITER", "--to", "-1h", "--name", "ann")
    assert done["branch"] == "rw/writer-1"
    assert git(one.folder, "show", "rw/writer-1:notes.md") == "zero\none\ntwo"
    assert git(one.folder, "ls-tree", "--name-only", "rw/writer-1") == ".gitignore\nnotes.md"
    trailer = "--format=%(trailers:key=TimeWarp-Event-Id,valueonly)"
    assert git(one.folder, "log", "-1", trailer, "rw/writer-1").strip() == done["rewind"]
    assert (one.folder / "notes.md").read_text() == "zero\none\ntwo\nmine\n", "nobody's files move"
    assert merged in git(one.folder, "log", "--format=%H", "rw/writer-1").split()


#: A program that makes two files when it is told to, and says what there is.
LOOKS = """
import pathlib, sys
if "edit" in sys.stdin.read().splitlines()[-1]:
    pathlib.Path("a.md").write_text("a")
    pathlib.Path("b.md").write_text("b")
print("there:", *sorted(path.name for path in pathlib.Path().glob("*.md")))
"""


async def test_a_rewind_that_was_half_written_is_settled_before_a_turn(open_room: Open) -> None:
    one = await open_room(program("LOOKS", "-c", LOOKS), start=False)
    in_git(one.folder)
    await one.start()
    assert "there: notes.md" in (await ask(one, "look", "LOOKS"))["body"]
    assert "there: a.md b.md notes.md" in (await ask(one, "edit", "LOOKS"))["body"]
    assert (await one.relay("timeline", "rewind", "LOOKS", "--to", "#1")).code == 0
    one.kill()
    # As a daemon leaves it that was killed between the two files, with a message on its way.
    (one.folder / ".relay" / "worktrees" / "looks" / "b.md").write_text("b")
    database = sqlite3.connect(one.folder / ".relay" / "events.db")
    with database:
        database.execute("UPDATE rewinds SET state = 'begun'")
    database.close()
    one.echo("[Ann] @LOOKS look")
    await one.start()
    await eventually(lambda: _looked(one, 3), "LOOKS has answered")
    said = [entry["body"] for entry in (await one.get("/api/transcript?limit=50"))["entries"]]
    assert [text for text in said if text.startswith("there:")][-1] == "there: notes.md"
    await one.end()
    changed = await events_of(one, "files.changed")
    assert [event.lane for event in changed] == ["LOOKS"], "the rest of the rewind is nobody's edit"


async def _looked(one: Outside, times: int) -> bool:
    entries = (await one.get("/api/transcript?limit=50"))["entries"]
    return sum(entry["body"].startswith("there:") for entry in entries) == times


#: A program whose stream tells of one edit by a tool, while a shell makes another; and which asks as its hook would.
MIXED = """
import json, os, pathlib, subprocess, sys, time, urllib.request

def say(**event):
    print(json.dumps(event), flush=True)

def tool(name, **arguments):
    block = {"type": "tool_use", "id": "t", "name": name, "input": arguments}
    say(type="assistant", message={"id": "m", "content": [block], "usage": {}})

def ask(path):
    env = os.environ
    state = json.load(open(os.path.join(os.path.dirname(env["RELAY_CONFIG"]), ".relay", "state.json")))
    body = json.dumps({"agent": env["RELAY_AGENT_ID"], "path": path, "session": env["RELAY_SESSION_ID"]})
    head = {"X-API-Key": env["RELAY_API_KEY"], "Content-Type": "application/json"}
    asked = urllib.request.Request(state["url"] + "/api/guard", body.encode(), head)
    assert json.load(urllib.request.urlopen(asked))["decision"] == "allow"

sys.stdin.read()
say(type="system", subtype="init", session_id="c1")
tool("Read", file_path=str(pathlib.Path("notes.md").resolve()))
tool("Edit", file_path=str(pathlib.Path("notes.md").resolve()))
pathlib.Path("notes.md").write_text("ONE\\ntwo\\n")
deadline = time.monotonic() + 60
while not pathlib.Path("go").exists() and time.monotonic() < deadline:
    time.sleep(0.05)
ask("asked.md")
pathlib.Path("asked.md").write_text("asked\\n")
subprocess.run(["sh", "-ec", "sed -i s/two/TWO/ notes.md; rm go; echo new > shell.md"], check=True)
say(type="result", subtype="success", is_error=False, result="done", session_id="c1", usage={})
"""


#: A program that tries, from the shell of its turn, to take another agent's work back as if it were a person.
INTRUDER = """
import subprocess, sys
def relay(*words):
    done = subprocess.run([sys.executable, "-m", "relay.cli", *words], capture_output=True, text=True)
    print(done.returncode, done.stdout + done.stderr)

relay("worktrees", "merge", "WRITER")
relay("worktrees", "discard", "WRITER")
relay("airspace", "stop", "WRITER")
for words in (["rewind", "WRITER", "--to", "#1", "--into", "main"], ["undo"], ["redo"], ["checkpoint", "mine"]):
    relay("timeline", *words)
"""


async def test_an_agent_s_shell_takes_back_no_other_s_work(open_room: Open) -> None:
    agents = agent("WRITER", "w.yaml"), program("SHELL", "-c", INTRUDER)
    one = await open_room(*agents, files={"w.yaml": WRITES}, start=False)
    in_git(one.folder)
    await one.start()
    await ask(one, "append a line", "WRITER")
    await merge(one, "WRITER")
    head = git(one.folder, "rev-parse", "HEAD")
    said = (await ask(one, "take it back", "SHELL"))["body"]
    assert [line[0] for line in said.splitlines() if line[:2] in ("0 ", "1 ", "2 ")] == ["1"] * 7, said
    assert "Ask a person for it." in said and said.count("Only a person can do this") == 3, said
    assert git(one.folder, "rev-parse", "HEAD") == head
    by_person = await one.relay("timeline", "rewind", "WRITER", "--to", "#1", "--into", "main")
    assert by_person.code == 0, by_person.err
    await one.end()
    assert len(await events_of(one, "timeline.rewound", "checkpoint.made")) == 1


async def test_edits_by_tool_hook_and_shell_in_one_turn(open_room: Open) -> None:
    one = await open_room(program("MIX", "-c", MIXED, output="claude"), start=False)
    in_git(one.folder)
    await one.start()
    tree = one.folder / ".relay" / "worktrees" / "mix"
    posted = await one.post("@MIX edit it")

    async def recorded() -> list[Any]:
        log = await timeline(one, "log", "--type", "files.changed")
        return list(log["events"])

    found = await eventually(recorded, "the tool's edit is recorded while the turn runs")
    (tree / "go").touch()
    await one.reply_to(posted["id"], "MIX")
    # What the turn did behind its first edit is taken back, and the first edit stays.
    done = await timeline(one, "rewind", "MIX", "--to", f"#{found[-1]['number']}", "--name", "ann")
    assert sorted(file["path"] for file in done["files"]) == ["asked.md", "notes.md", "shell.md"]
    assert (tree / "notes.md").read_text() == "ONE\ntwo\n"
    assert not (tree / "shell.md").exists()
    await one.end()
    changes = await events_of(one, "files.changed")
    assert [(event.outputs["source"], touched(event)) for event in changes] == [
        ("tool", [("notes.md", "write")]),
        ("hook", [("asked.md", "write")]),
        ("tree", [("notes.md", "write"), ("shell.md", "write")]),
    ]
    assert [event.inputs["tree"] for event in changes[1:]] == [event.snapshot for event in changes[:-1]]
    reads = await events_of(one, "files.read")
    assert [event.outputs["paths"] for event in reads if event.outputs["source"] == "tool"] == [["notes.md"]]


async def test_a_conflict_that_git_sees_is_in_the_log(open_room: Open) -> None:
    other = WRITES.replace("mine", "theirs")
    agents = agent("AVA", "a.yaml"), agent("BEN", "b.yaml")
    one = await open_room(*agents, files={"a.yaml": WRITES, "b.yaml": other}, start=False)
    in_git(one.folder)
    await one.start()
    for name in ("AVA", "BEN"):
        await ask(one, "append a line", name)

    async def found() -> list[Any]:
        return list((await timeline(one, "log", "--type", "conflict.found"))["events"])

    (conflict,) = await eventually(found, "the conflict is found")
    assert conflict["files"] == ["notes.md"]
    assert "conflicts with BEN" in (await one.relay("timeline", "log")).out
    git(one.folder / ".relay" / "worktrees" / "ben", "checkout", "-q", "notes.md")

    async def settled() -> list[Any]:
        return list((await timeline(one, "log", "--type", "conflict.settled"))["events"])

    await eventually(settled, "the conflict is gone")
    assert len(await found()) == 1
    await one.end()
    (event,) = await events_of(one, "conflict.found")
    writes = await events_of(one, "files.changed")
    assert event.outputs["events"] == [write.id for write in writes]
    assert event.outputs["lanes"] == [write.lane_key for write in writes]


async def test_what_a_person_saves_is_known_before_it_is_committed(open_room: Open) -> None:
    one = await open_room(agent("WRITER", "w.yaml"), files={"w.yaml": WRITES}, start=False)
    in_git(one.folder)
    git(one.folder, "config", "user.name", "Ann")
    await one.start()
    await ask(one, "hello", "WRITER")

    async def changes() -> list[Any]:
        return list((await timeline(one, "log", "--type", "files.changed"))["events"])

    saved = "saved\n"

    async def known() -> list[Any]:
        nonlocal saved
        # The first look at the checkout takes what is open there for granted.
        saved += "again\n"
        (one.folder / "notes.md").write_text(saved)
        return await changes()

    await eventually(known, "the edit is recorded", every_s=6)
    refused = await one.relay("timeline", "rewind", "Ann", "--to", "-1h", "--name", "ann")
    assert refused.code == 1
    assert "is not committed, and stays" in refused.all
    git(one.folder, "commit", "-q", "-m", "notes", "notes.md")
    await ask(one, "append a line", "WRITER")
    printed = (await one.relay("timeline", "log")).out
    assert "wrote 1 uncommitted" in printed
    await timeline(one, "rewind", "Ann", "--to", "-1h", "--into", "main", "--name", "ann")
    assert (one.folder / "notes.md").read_text() == "one\ntwo\n"
    await one.end()
    assert {event.lane_key for event in await events_of(one, "files.changed")} >= {"room/human:Ann"}


async def test_an_answer_names_what_its_turn_changed_before_the_daemon_was_killed(open_room: Open) -> None:
    """A turn that goes on after a restart is one turn: what it had written before is its own."""
    writes = '{"kept.md": "kept\\n", "sub/new.md": "new\\n"}'
    one = await open_room(
        agent("WRITER", "w.yaml"),
        files={"w.yaml": f"- write: {writes}\n  say: [Half., Done.]\n  pause_s: 600\n"},
        start=False,
    )
    in_git(one.folder)
    await one.start()
    posted = await one.post("@WRITER write them")

    async def written() -> bool:
        return (one.runtime / "worktrees" / "writer" / "sub" / "new.md").exists()

    await eventually(written, "its files")
    one.kill()
    (one.folder / "w.yaml").write_text(f"- write: {writes}\n  say: Done.\n")
    await one.start()
    answer = await one.reply_to(posted["id"], "WRITER")
    assert (answer["meta"]["worktree"]["files"], answer["meta"]["worktree"]["insertions"]) == (2, 2)
    # The timeline has each change once.
    told = await events_of(one, "files.changed")
    assert sorted(path for event in told for path, _ in touched(event)) == ["kept.md", "sub/new.md"]
    # The next turn is another one.
    (one.folder / "w.yaml").write_text("- say: Nothing to do.\n")
    one.kill()
    await one.start()
    posted = await one.post("@WRITER hello")
    assert "worktree" not in (await one.reply_to(posted["id"], "WRITER"))["meta"]
