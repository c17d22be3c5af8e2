"""The code that a message speaks of, as it stood when the message was written (docs/entries.md)."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from tests.e2e.conftest import Open
from tests.e2e.test_worktrees import in_git
from tests.git.repository import commit, git, own_branch
from tests.outside import Json, Outside, agent

WRITES = """
- match: write
  write: {"src/prices.ts": "CENTS = 1\\nDIMES = 10\\n"}
  say: "See src/prices.ts:2."
- say: "Done."
"""


async def code(one: Outside, path: str, message: Any, lines: str = "") -> tuple[int, Json]:
    more = f"&lines={lines}" if lines else ""
    return await one.ask("GET", f"/api/code?path={quote(path)}&at={message}{more}")


async def test_a_link_opens_the_code_as_of_then(open_room: Open) -> None:
    one = await open_room(agent("AVA", "w.yaml"), files={"w.yaml": WRITES}, start=False)
    in_git(one.folder)
    first = commit(one.folder, {"src/app.ts": "".join(f"line {n}\n" for n in range(1, 101))}, "first")
    await one.start()
    hello = await one.post("@AVA hello")
    await one.reply_to(hello["id"], "AVA")
    said = await one.post("look at src/app.ts:50-52, @bob")

    # What came later is not shown, whatever the disk and the branch have by now.
    commit(one.folder, {"src/app.ts": "all is new\n"}, "second")
    (one.folder / "src/app.ts").write_text("not even committed\n")
    status, told = await code(one, "src/app.ts", said["id"], "50-52")
    assert status == 200, told
    assert (told["of"], told["branch"], told["commit"]) == ("main", "main", first)
    assert (told["first"], told["last"], told["start"], told["total"]) == (50, 52, 20, 100)
    assert told["lines"][0] == "line 20" and told["lines"][-1] == "line 82" and told["uncommitted"] is False
    # An agent may name a file whole, and a person a message by its number.
    status, whole = await code(one, str(one.folder / "src/app.ts"), f"m{said['number']}", "50-52")
    assert (status, whole) == (200, told)
    shown = await one.relay("message", "code", f"m{said['number']}", "src/app.ts:50-52")
    assert shown.code == 0 and ">   51 line 51" in shown.out and " of main at m" in shown.out

    # An agent's own file, which no commit has: so it says.
    asked = await one.post("@AVA write it")
    answer = await one.reply_to(asked["id"], "AVA")
    status, told = await code(one, "src/prices.ts", answer["id"], "2")
    assert status == 200, told
    assert (told["of"], told["branch"]) == ("AVA", own_branch("ava"))
    assert told["lines"] == ["CENTS = 1", "DIMES = 10"] and told["uncommitted"] is True
    # The main branch has no such file, so a person's message leads nowhere.
    later = await one.post("what of src/prices.ts:2, @bob?")
    status, refused = await code(one, "src/prices.ts", later["id"], "2")
    assert status == 404 and "is not there at that moment" in refused["error"]["message"]

    # Never outside of the repository, and bad input is said.
    (one.folder.parent / "secret.txt").write_text("secret\n")
    for path in ("../secret.txt", "/etc/passwd", ".git/config", "src/../../secret.txt", "src", "config.json"):
        status, refused = await code(one, path, said["id"])
        assert status == 404 and "secret" not in json.dumps(refused["error"].get("details", "")), path
    for lines in ("0", "5-3", "x", "1-2-3"):
        status, refused = await code(one, "src/app.ts", said["id"], lines)
        assert status == 400 and refused["error"]["fix"], lines
    assert (await code(one, "src/app.ts", said["id"], "101"))[0] == 404
    assert (await code(one, "src/app.ts", "m999"))[0] == 404
    assert (await one.ask("GET", "/api/code?path=src/app.ts"))[0] == 400
    assert git(one.folder, "log", "-1", "--format=%s") == "second"
