"""A task that is done in several ways in a room that runs: over HTTP, with differences and a person's choice."""

from __future__ import annotations

import sys
from typing import Any

from tests.e2e.conftest import Open
from tests.e2e.test_worktrees import in_git
from tests.git.repository import git
from tests.outside import Outside, eventually, program

_WRITES = """
import pathlib
pathlib.Path("cache.txt").write_text({text!r})
pathlib.Path({file!r}).write_text("x")
print("ok")
"""
TESTS = "import pathlib, sys; sys.exit('broken' in pathlib.Path('cache.txt').read_text())"


async def _room(open_room: Open) -> Outside:
    agents = (
        program("AVA", "-c", _WRITES.format(text="long\n" * 9, file="ava.txt")),
        program("BEN", "-c", _WRITES.format(text="short\n", file="ben.txt")),
    )
    one = await open_room(*agents, start=False, merge={"test": [sys.executable, "-c", TESTS]})
    in_git(one.folder)
    await one.start()
    return one


async def _waiting(one: Outside) -> dict[str, Any]:
    async def looked() -> dict[str, Any] | None:
        found: dict[str, Any] = await one.get("/api/explorations/x1")
        return found if found["state"] == "waiting" else None

    waiting: dict[str, Any] = await eventually(looked, "the variants are compared")
    return waiting


async def test_a_person_explores_compares_and_takes_one_over_http(open_room: Open) -> None:
    one = await _room(open_room)
    head = git(one.folder, "rev-parse", "HEAD")
    order = {"name": "ann", "task": "Cache the answers", "variants": 2}
    status, done = await one.ask("POST", "/api/explorations", json=order)
    assert (status, done["success"]) == (200, True)
    waiting = await _waiting(one)
    assert [variant["passing"] for variant in waiting["variants"]] == [True, True]
    (need,) = await one.get("/api/needs")
    assert waiting["recommendation"].startswith("ben ")
    assert [action["name"] for action in need["actions"]] == ["take-ben", "take-ava", "end"]
    assert (await one.get("/api/explorations"))["explorations"] == [waiting]
    assert git(one.folder, "rev-parse", "HEAD") == head

    diff = await one.get("/api/explorations/x1/diff?variant=ben")
    assert "+short" in diff["diff"]
    assert not diff["truncated"]
    between = await one.get("/api/explorations/1/diff?variant=ben&against=ava")
    assert "-long" in between["diff"]
    assert "+short" in between["diff"]

    wrong = {"name": "ann", "answer": "take", "variant": "ben", "files": ["cache.txt"]}
    assert (await one.ask("POST", "/api/explorations/x1", json=wrong))[0] == 400
    assert (await one.ask("POST", "/api/explorations/x9", json={**wrong, "files": []}))[1]["success"] is False
    assert (await one.ask("GET", "/api/explorations/x9"))[0] == 404
    assert (await one.ask("GET", "/api/explorations/x1/diff?variant=eve"))[0] == 404
    take = {"name": "ann", "answer": "take", "variant": "ben", "files": ["ava.txt=ava"]}
    assert (await one.ask("POST", "/api/explorations/x1", json=take))[1]["success"] is True
    await one.until_said("x1: ben, with ava.txt from ava is merged into", speaker="RELAY")
    assert (one.folder / "cache.txt").read_text() == "short\n"
    assert (one.folder / "ava.txt").read_text() == (one.folder / "ben.txt").read_text() == "x"
    late = {"name": "ann", "answer": "take", "variant": "ava"}
    refused = await one.ask("POST", "/api/explorations/x1", json=late)
    assert "ben was merged" in refused[1]["reason"]
    found = await one.get("/api/explorations/x1")
    assert (found["state"], found["taken"]) == ("done", {"ava.txt": "ava"})
