"""An agent over ACP in a running room: it asks, people answer, and the guard's route stands."""

from __future__ import annotations

import asyncio
import os
import sys

import pytest

from relay.model import Caller
from tests.e2e.conftest import Open
from tests.e2e.test_guard import locks_of
from tests.e2e.test_worktrees import in_git
from tests.git.repository import commit, git
from tests.outside import REPO, Json, Outside, eventually


def speaker(folder: str, act: str, **more: str) -> Json:
    env = {"FAKE_ACT": act, "FAKE_DIR": folder, "FAKE_CAPS": "resume", **more}
    env["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if "site-packages" in path)
    command = [sys.executable, str(REPO / "tests" / "fakes" / "acp_agent.py")]
    return {"name": "ACE", "kind": "acp", "cmd": command, "env": env, "permission_timeout_s": 60}


async def waiting(one: Outside) -> Json:
    async def look() -> Json | None:
        found = (await one.get("/api/permissions"))["requests"]
        return found[0] if found else None

    return await eventually(look, "a permission request")


@pytest.mark.parametrize(("word", "said"), [("allow", "yes"), ("deny", "no")])
async def test_a_person_answers_in_the_page_and_at_the_terminal(
    open_room: Open, tmp_path_factory: pytest.TempPathFactory, word: str, said: str
) -> None:
    folder = str(tmp_path_factory.mktemp("ace"))
    one = await open_room(speaker(folder, "permit", FAKE_KIND="execute"))
    async with one.session.ws_connect(f"{one.url}/ws", headers={"X-API-Key": one.token}) as socket:
        await socket.send_json({"after": None, "name": "ann"})
        await socket.receive_json()
        posted = await one.post("@ACE do it")
        request = await waiting(one)
        assert (request["agent"], request["tool"]) == ("ACE", "execute")
        status, told = await one.ask(
            "POST", f"/api/permissions/{request['id']}", json={"option": said, "name": "ann"}
        )
        assert (status, told["success"]) == (200, True)
        assert (await one.reply_to(posted["id"], "ACE"))["body"] == f"The answer was {said}."

        posted = await one.post("@ACE again")
        request = await waiting(one)
        await one.post(f"/{word} #{request['id'].split('-')[1]}")
        assert (await one.reply_to(posted["id"], "ACE"))["body"] == f"The answer was {said}."
        states = []
        while len(states) < 4:
            frame = await socket.receive_json(timeout=60)
            states += [frame["data"]["state"]] if frame["type"] == "permission" else []
        assert states == ["open", "answered"] * 2


async def test_with_nobody_there_it_is_refused_and_the_room_says_so(
    open_room: Open, tmp_path_factory: pytest.TempPathFactory
) -> None:
    one = await open_room(speaker(str(tmp_path_factory.mktemp("ace")), "permit", FAKE_KIND="execute"))
    posted = await one.post("@ACE do it")
    assert (await one.reply_to(posted["id"], "ACE"))["body"] == "The answer was no."
    assert "nobody was connected" in (await one.until_said("asked for permission", speaker="RELAY"))["body"]


async def test_the_guards_route_knows_the_agents(
    open_room: Open, tmp_path_factory: pytest.TempPathFactory
) -> None:
    one = await open_room(speaker(str(tmp_path_factory.mktemp("ace")), "answer"))
    status, told = await one.ask("POST", "/api/guard", json={"agent": "ACE", "path": "a.py"})
    assert (status, told["decision"]) == (200, "allow")
    # So it does one that somebody runs beside the room.
    status, told = await one.ask("POST", "/api/guard", json={"agent": "dev", "path": "a.py"})
    assert (status, told["decision"]) == (200, "allow")


@pytest.mark.parametrize(("kind", "said"), [("", "Merged."), ("edits", "I was cut off.")])
async def test_what_a_merge_of_main_brings_is_no_edit_of_its_own(
    open_room: Open, tmp_path_factory: pytest.TempPathFactory, kind: str, said: str
) -> None:
    folder = str(tmp_path_factory.mktemp("ace"))
    ace = speaker(folder, "merges", FAKE_PATH="notes.md", FAKE_KIND=kind)
    one = await open_room(ace, start=False)
    in_git(one.folder)
    (one.folder / "gone.md").write_text("gone\n")
    commit(one.folder)
    await one.start()
    top = one.runtime / "worktrees" / "ace"
    await eventually(lambda: asyncio.to_thread((top / "notes.md").exists), "its worktree")
    (top / "own.md").write_text("mine\n")
    (one.folder / "gone.md").unlink()
    commit(one.folder, {"notes.md": "one\ntwo\nmain\n"})
    async with locks_of(one) as (_, locks):
        codex = Caller("CODEX", "s-codex")
        for path in ("notes.md", "gone.md"):
            assert (await locks.acquire(codex, [path], reason="a refactoring"))["success"]
        posted = await one.post("@ACE merge main into your branch")
        assert (await one.reply_to(posted["id"], "ACE"))["body"].endswith(said)
    assert git(top, "log", "-1", "--format=%p").count(" ") == 1, "a merge"
