"""Work whose tests failed is merged all the same: the room says that main fails, and blames nobody else for it."""

from __future__ import annotations

import json
import re
import sys

from tests.e2e.conftest import Open
from tests.e2e.test_inbox import act, comes, goes, names, needs
from tests.e2e.test_landing import IGNORED, UNIT, answered, ended, landed
from tests.git.repository import commit, git
from tests.outside import Json, Outside, agent, eventually

WRITES = """\
- match: Mend it
  write: {app.py: "fixed = 1\\n"}
  say: mended
- match: break it
  write: {app.py: "BROKEN = 1\\n"}
  say: done
- match: other again
  write: {third.py: "x = 1\n"}
  say: done
- match: other
  write: {other.py: "x = 1\\n"}
  say: done
- say: hello
"""


async def row(room: Outside, name: str) -> Json:
    rows = (await room.get("/api/worktrees"))["worktrees"]
    return dict(next(each for each in rows if each["agent"] == name))


async def test_a_merge_that_makes_main_red_is_told_and_taken_back(open_room: Open) -> None:
    agents = [agent(name, "w.yaml") for name in ("CLEO", "DEE")]
    room = await open_room(*agents, files={"w.yaml": WRITES}, start=False, airspace={"enabled": False})
    (room.folder / "policies").mkdir()
    (room.folder / "policies" / "all.yaml").write_text(json.dumps([UNIT]))
    git(room.folder, "init", "-q", "-b", "main")
    commit(room.folder, {".gitignore": IGNORED, "app.py": "x = 1\n"})
    await room.start()
    before = git(room.folder, "rev-parse", "main^{tree}")

    await answered(room, "@CLEO break it", "CLEO")
    await ended(room, "turn", "failed")
    await answered(room, "@DEE other", "DEE")
    await ended(room, "turn", "passed")
    # What is known to fail is merged by nobody who has not said so, whichever way they ask.
    failed = (await row(room, "CLEO"))["verified"]["reference"]
    said, way = f"Nothing is merged: its tests failed ({failed}).", "worktrees merge CLEO --anyway"
    refused = await room.relay("worktrees", "merge", "CLEO")
    assert refused.code == 1 and said in refused.err and way in refused.err, refused.all
    _, told = await room.ask("POST", "/api/worktrees/CLEO/merge", json={"name": "ann"})
    assert said in json.dumps(told) and way in json.dumps(told), told
    asked = await room.post("/merge @CLEO")
    assert said in (await room.reply_to(asked["id"], "RELAY"))["body"]
    assert git(room.folder, "rev-parse", "main^{tree}") == before
    merged = await room.relay("worktrees", "merge", "CLEO", "--anyway")
    assert merged.code == 0, merged.err
    tip = git(room.folder, "rev-parse", "main")
    red = await comes(room, "main_fails")
    assert (red["about"], names(red)) == ("main", ["takeback", "ask", "again", "later"])
    found = re.fullmatch(
        rf"Main fails its tests \((v\d+)\), first seen after .+ merged CLEO's work \({tip[:7]}\)\. "
        r"unit failed \(exit code 1\)\.",
        red["text"],
    )
    assert found and red["ref"] == found[1], red["text"]
    assert "app.py is broken" in (await room.until_said(rf"{found[1]}: main fails its tests\."))["body"]
    assert f"main fails its tests ({found[1]})" in (await room.script("healthcheck.sh")).out
    assert red["text"] in (await room.relay("inbox")).out

    # Who is to land meanwhile waits for that, and nothing says that its own work is bad.
    await room.post("/land @DEE")

    async def waits() -> bool:
        now = (await needs(room))[red["id"]]
        return bool(now["text"].endswith("DEE waits in the landing queue for that."))

    await eventually(waits, "DEE waits for main")
    assert [need["kind"] for need in (await needs(room)).values()] == ["main_fails"]
    assert (await row(room, "DEE"))["verified"]["state"] == "passed"
    assert [(each["agent"], each["failed"]) for each in (await room.get("/api/worktrees"))["order"]] == [
        ("DEE", "")
    ]
    assert "tests failed" not in (await room.relay("worktrees", "merge", "DEE", "--dry-run")).out
    known = (await room.relay("memory", "recall", "DEE did not pass", "--json")).out
    assert "CLEO's change did not pass" in known and "DEE's change" not in known

    # Taken back, main passes again, and who waited lands.
    assert (await act(room, red["id"], "takeback", name="cat"))["success"]
    assert git(room.folder, "log", "-1", "--format=%an", "main") == "cat"
    assert "would bring back what cat took back in app.py" in (await room.relay("worktrees")).out
    await goes(room, red["id"])

    async def wrote() -> str:
        log = (await room.relay("timeline", "log")).out
        return log if re.search(r" cat +wrote 1\b.* app\.py", log) else ""

    assert " unknown " not in await eventually(wrote, "the commit is cat's in the timeline, too")
    await room.until_said(r"v\d+: main passes its tests again\.")
    await landed(room, "DEE")
    assert git(room.folder, "show", "main:app.py") == "x = 1"
    assert before != git(room.folder, "rev-parse", "main^{tree}")
    assert await needs(room) == {}

    # Or who broke it mends it.
    asked = await room.post("/merge @CLEO anyway")
    assert "/takeback @CLEO" in (await room.reply_to(asked["id"], "RELAY"))["body"]
    red = await comes(room, "main_fails")
    await answered(room, "@DEE other again", "DEE")
    said = await room.until_said(r"v\d+: DEE's change did not pass\.")
    assert f"What it stands on fails by itself ({red['ref']})." in said["body"]
    assert (
        f", as those of what it stands on do ({red['ref']})." in (await row(room, "DEE"))["verified"]["said"]
    )
    assert (await act(room, red["id"], "ask"))["success"]
    await ended(room, "turn", "passed", 2)
    assert red["id"] in await needs(room)
    await room.post("/land @CLEO")
    await landed(room, "CLEO")
    await goes(room, red["id"])
    assert (room.folder / "app.py").read_text() == "fixed = 1\n"
    assert await needs(room) == {}


async def test_what_waits_for_main_goes_on_when_its_tests_pass_again(open_room: Open) -> None:
    agents = [agent(name, "w.yaml") for name in ("CLEO", "DEE")]
    room = await open_room(*agents, files={"w.yaml": WRITES}, start=False, airspace={"enabled": False})
    (room.folder / "policies").mkdir()

    def exits(code: int) -> None:
        unit = {**UNIT, "run": [sys.executable, "-c", f"import sys; sys.exit({code})"]}
        (room.folder / "policies" / "all.yaml").write_text(json.dumps([unit]))

    exits(0)
    git(room.folder, "init", "-q", "-b", "main")
    commit(room.folder, {".gitignore": IGNORED, "app.py": "x = 1\n"})
    await room.start()
    await answered(room, "@CLEO break it", "CLEO")
    await answered(room, "@DEE other", "DEE")
    await ended(room, "turn", "passed", 2)
    exits(1)
    commit(room.folder, {"notes.txt": "main is another tree than CLEO's\n"})
    assert (await room.relay("worktrees", "merge", "CLEO")).code == 0
    merge = git(room.folder, "rev-parse", "main").strip()
    red = await comes(room, "main_fails")
    await room.post("/land @DEE")

    async def waits() -> bool:
        return "DEE waits" in (await needs(room))[red["id"]]["text"]

    await eventually(waits, "DEE waits for main")
    # It stays one need while it is tested again, by one click; what had failed is not what DEE's work is judged by.
    assert (await act(room, red["id"], "again"))["success"]
    await room.until_said(r"v\d+: main still fails its tests\.")
    assert red["id"] in await needs(room)
    since = await room.get("/api/since?after=m1")
    assert "main's tests" in since["failed"], since
    assert since["landed"] == ["CLEO"], since
    exits(0)
    assert (await act(room, red["id"], "again"))["success"]
    await goes(room, red["id"])
    await room.until_said(r"v\d+: main passes its tests again\.")
    await landed(room, "DEE")
    assert await needs(room) == {}
    # Who was away reads that DEE's work is in it, and no word of CLEO's once that was taken back.
    assert (await room.relay("worktrees", "takeback", "CLEO", "--commit", merge)).code == 0
    assert (await room.get("/api/since?after=m1"))["landed"] == ["DEE"]
    # Tests of an agent's work that fail are among what failed.
    exits(1)
    await answered(room, "@DEE other again", "DEE")
    await room.until_said("DEE's change did not pass")
    since = await room.get("/api/since?after=m1")
    assert "DEE's tests" in since["failed"], since
