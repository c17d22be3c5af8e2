"""What git merges clean and what breaks together, as a person and two agents live it: a real room, to its end."""

from __future__ import annotations

import sys
from typing import Any

from tests.e2e.conftest import Open
from tests.e2e.test_worktrees import in_git
from tests.git.repository import commit, git
from tests.outside import Json, Outside, eventually, settings

PRICE = "def total(items):\n    return sum(items)\n"
REPORT = "from price import total\n\n\ndef report(items):\n    return f'{total(items)} EUR'\n"
CHECK = "import report\n\nassert report.report([1, 2]) == '3 EUR'\n"
RATE = "def total(items, rate):\n    return sum(items) * rate\n"
ADAPTED = REPORT.replace("total(items)", "total(items, 1)")
TWO = "\n\ndef both(a, b):\n    return total(a) + total(b)\n\n\nassert both([1], [2]) == 3\n"


async def conflicts(room: Outside) -> dict[int, Json]:
    found: list[Json] = await room.get("/api/conflicts?state=open")
    return {one["level"]: one for one in found}


async def test_two_are_told_while_both_work_and_it_ends(open_room: Open) -> None:
    room = await open_room(start=False)
    (room.folder / "a.yaml").write_text("- say: hello\n")
    agents = [
        {"name": name, "kind": "scripted", "script": str(room.folder / "a.yaml")} for name in ("AVA", "BEN")
    ]
    merge = {"test": [sys.executable, "check.py"], "test_every_s": 0.5}
    room.configure(settings(*agents, airspace={"tick_s": 0.2}, merge=merge))
    in_git(room.folder)
    for name, text in (("price.py", PRICE), ("report.py", REPORT), ("check.py", CHECK)):
        (room.folder / name).write_text(text)
        git(room.folder, "add", "-f", name)
    commit(room.folder)
    await room.start()
    ava, ben = (room.folder / ".relay" / "worktrees" / name for name in ("ava", "ben"))

    async def made() -> bool:
        return len((await room.get("/api/worktrees"))["worktrees"]) == 2

    await eventually(made, "the worktrees")
    (ava / "price.py").write_text(RATE)
    (ava / "report.py").write_text(ADAPTED)
    (ben / "check.py").write_text(CHECK + "from price import total\n" + TWO)

    async def told() -> Json | None:
        found: list[Json] = (await room.get("/api/airspace"))["advisories"]
        return next((one for one in found if "changes the head of the function total" in one["line"]), None)

    advisory: Any = await eventually(told, "a traffic advisory")
    assert (advisory["level"], sorted(advisory["agents"])) == ("advisory", ["AVA", "BEN"])
    assert "BEN" in advisory["line"] and "newly uses it" in advisory["line"]

    async def both() -> dict[int, Json] | None:
        open_ = await conflicts(room)
        return open_ if set(open_) == {3, 4} else None

    found: Any = await eventually(both, "conflicts of levels 3 and 4")
    assert (found[3]["path"], found[3]["entity"], found[3]["severity"]) == ("price.py", "total", "critical")
    assert (found[4]["kind"], found[4]["agents"], found[4]["path"]) == (
        "tests_fail_together",
        ["AVA", "BEN"],
        None,
    )
    listed = await room.relay("merge", "resolve")
    assert "price.py" in listed.out and "AVA" in listed.out and "BEN" in listed.out, listed
    # Looked at again, at both doors: what it is, and how it ends; nothing is to be written.
    for level, words in ((3, "does not find it any more"), (4, "the tests pass on both together")):
        name = found[level]["reference"]
        typed = await room.reply_to((await room.post(f"/resolve {name}"))["id"], "RELAY")
        ran = await room.relay("merge", "resolve", name)
        for said in (typed["body"], ran.out):
            assert f"Conflict {name}" in said and f"level {level}" in said and words in said, said
            assert "there is nothing to choose or to write" in said
        assert ran.code == 0, ran.all
        (room.folder / "lines.txt").write_text("x = 1\n")
        written = await room.relay("merge", "resolve", name, "--text", str(room.folder / "lines.txt"))
        assert written.code == 1 and "there is nothing to write" in written.all, written.all

    (ava / "price.py").write_text(RATE.replace("rate)", "rate=1)"))

    async def over() -> bool:
        return not await conflicts(room)

    await eventually(over, "both are gone")
    await eventually(told_closed(room), "the advisory is closed")


def told_closed(room: Outside) -> Any:
    async def look() -> bool:
        found: list[Json] = (await room.get("/api/airspace"))["advisories"]
        return not any("changes the head" in one["line"] for one in found)

    return look
