"""A room whose database is deleted: git has its log, and the room goes on where it was."""

from __future__ import annotations

import json

from relay.timeline.sync.exchange import JOURNALS
from tests.e2e.conftest import Open
from tests.e2e.test_timeline import WRITES, ask, events_of
from tests.e2e.test_worktrees import in_git
from tests.git.repository import commit, git
from tests.outside import Outside, agent, eventually

RESTORE = ("timeline", "restore")


async def _kept(one: Outside) -> int:
    """Events in the journal."""
    journals = git(one.folder, "for-each-ref", "--format=%(refname)", JOURNALS).split()
    if not journals:
        return 0
    subjects = git(one.folder, "log", "--format=%s", journals[0], "--").split("\n")
    return sum(int(subject.split(" ")[0]) for subject in subjects)


def _delete(one: Outside) -> None:
    for path in (one.folder / ".relay").glob("events.db*"):
        path.unlink()


async def test_rebuilt_from_refs(open_room: Open) -> None:
    one = await open_room(agent("WRITER", "w.yaml"), files={"w.yaml": WRITES}, start=False)
    in_git(one.folder)
    await one.start()
    await ask(one, "append a line", "WRITER")

    async def kept() -> bool:
        listed = json.loads((await one.relay("timeline", "log", "--json", "--type", "turn.ended")).out)
        return len(listed["events"]) == 1 and await _kept(one) > 5

    await eventually(kept, "the journal behind the turn")
    refused = await one.relay(*RESTORE)
    assert refused.code == 1 and "The room runs" in refused.err
    assert (await one.script("stop.sh")).code == 0
    refused = await one.relay(*RESTORE)
    assert refused.code == 1 and "empty database only" in refused.err
    assert (await one.relay("timeline", "verify")).out == "The log is intact.\n"
    before = await events_of(one, "files.changed", "files.read")
    recorded = await _kept(one)

    _delete(one)
    preview = await one.relay(*RESTORE, "--dry-run", "--json")
    assert preview.code == 0, preview.all
    told = json.loads(preview.out)
    assert (told["restored"], told["refused"], told["waiting"]) == (recorded, [], [])
    assert not (one.folder / ".relay" / "events.db").exists()
    done = await one.relay(*RESTORE, "--json")
    assert done.code == 0, done.all
    assert json.loads(done.out) == {**told, "dry_run": False}
    assert (await one.relay("timeline", "verify")).code == 0
    assert await events_of(one, "files.changed", "files.read") == before
    assert (await one.relay(*RESTORE)).code == 1

    # The room starts, and each lane goes on behind its last event.
    await one.start()
    work = one.folder / ".relay" / "worktrees" / "writer"
    commit(one.folder, {"person.txt": "x\n"})
    (work / "notes.md").write_text("one\n")
    await ask(one, "append a line", "WRITER")
    status, done_ = await one.ask("POST", "/api/worktrees/WRITER/merge", json={"name": "ann"})
    assert (status, done_["success"]) == (200, True)
    assert (await one.script("stop.sh")).code == 0
    assert (await one.relay("timeline", "verify")).code == 0
    after = await events_of(one, "files.changed", "files.read")
    assert after[: len(before)] == before and len(after) > len(before)
    seqs = [(event.lane_key, event.seq) for event in after]
    assert len(set(seqs)) == len(seqs)
    assert await _kept(one) > recorded

    # What was recorded behind the last append is named: the merge's commit says so.
    journal = git(one.folder, "for-each-ref", "--format=%(refname)", JOURNALS)
    depth = int(git(one.folder, "rev-list", "--count", journal))
    first = git(one.folder, "rev-parse", f"{journal}~{depth - 1}")
    git(one.folder, "update-ref", journal, first)
    _delete(one)
    lost = json.loads((await one.relay(*RESTORE, "--json")).out)
    named = git(
        one.folder, "log", "--branches", "--format=%(trailers:key=TimeWarp-Event-Id,valueonly)"
    ).split()
    assert named and {event["id"] for event in lost["lost"]} == set(named)
    assert {event["agent"] for event in lost["lost"]} == {"WRITER"}
