"""Locks where a write happens, in a room that runs: an agent's commit, a merge, what the room says and shows."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from relay.access.keys import Q as KEYS
from relay.coordination.locks.service import Locks
from relay.model import Caller
from relay.store.ports import Store
from tests import engines
from tests.coordination.desk import over
from tests.e2e.conftest import Open
from tests.e2e.test_worktrees import in_git
from tests.git.repository import git
from tests.outside import Outside, eventually, program

#: Commits a file of its worktree, and asks the room as itself and as another. Says what came of it, as JSON.
WRITER = """
import json, os, subprocess, sys, urllib.error, urllib.request
env = os.environ
state = json.load(open(os.path.join(os.path.dirname(env["RELAY_CONFIG"]), ".relay", "state.json")))
def ask(agent, path):
    body = json.dumps({"agent": agent, "path": path, "session": env["RELAY_SESSION_ID"]}).encode()
    head = {"X-API-Key": env["RELAY_API_KEY"], "Content-Type": "application/json"}
    try:
        with urllib.request.urlopen(urllib.request.Request(state["url"] + "/api/guard", body, head)) as answer:
            return json.load(answer)["decision"]
    except urllib.error.HTTPError as error:
        return error.code
open("notes.md", "a").write("mine\\n")
words = ["git", "-c", "user.name=x", "-c", "user.email=x@y", "commit", "-a", "-m", "mine"]
done = subprocess.run(words, capture_output=True, text=True)
told = {"code": done.returncode, "said": done.stderr, "mine": ask(env["RELAY_AGENT_ID"], "notes.md"),
        "free": ask(env["RELAY_AGENT_ID"], "free.md"), "other": ask("OTHER", "notes.md")}
print("told " + json.dumps(told))
"""


@asynccontextmanager
async def locks_of(one: Outside) -> AsyncIterator[tuple[Store, Locks]]:
    """The locks of the room, as another process on its database has them."""
    store = await engines.join(str(one.runtime / "events.db"), engines.SCHEMAS)
    try:
        yield store, over(store).locks
    finally:
        await store.close()


async def test_what_another_holds_is_neither_committed_nor_merged(open_room: Open) -> None:
    one = await open_room(program("WRITER", "writer.py"), files={"writer.py": WRITER}, start=False)
    one.configure(
        {**json.loads(one.path.read_text()), "agents": [program("WRITER", str(one.folder / "writer.py"))]}
    )
    in_git(one.folder)
    await one.start()
    install = await one.run(sys.executable, "-m", "relay.cli", "guard", "install", "--config", str(one.path))
    assert install.code == 0, install.all
    async with locks_of(one) as (store, locks):
        codex = Caller("CODEX", "s-codex")
        assert (await locks.acquire(codex, ["notes.md"], reason="a refactoring"))["success"]

        posted = await one.post("@WRITER go")
        answer = await one.reply_to(posted["id"], "WRITER")
        told = json.loads(answer["body"].partition("told ")[2])
        assert told["code"] == 1 and "notes.md is locked by CODEX" in told["said"], told
        assert "OVERRIDE" not in told["said"]
        assert (told["mine"], told["free"], told["other"]) == ("locked", "allow", 403)

        status, merged = await one.ask("POST", "/api/worktrees/WRITER/merge", json={"name": "ann"})
        assert (status, merged["success"]) == (200, False)
        assert "notes.md is locked by CODEX" in merged["reason"] and "/unlock notes.md" in merged["fix"]

        # A person commits all the same, and the room reads why.
        (one.folder / "notes.md").write_text("person\n")
        words = ("git", "-c", "user.name=x", "-c", "user.email=x@y", "commit", "-a", "-m", "x")
        refused = await one.run(*words)
        assert refused.code == 1 and "RELAY_GUARD_OVERRIDE" in refused.err
        assert (await one.run(*words, env={"RELAY_GUARD_OVERRIDE": "the build is broken"})).code == 0
        said = await one.until_said("the build is broken", speaker="RELAY")
        assert "over the lock of CODEX" in said["body"] and "notes.md" in said["body"]

        await locks.release(codex, "notes.md")
        git(one.folder, "reset", "-q", "--hard", "HEAD~1")
        status, merged = await one.ask("POST", "/api/worktrees/WRITER/merge", json={"name": "ann"})
        assert merged["success"], merged

        # A lock is intent: the room sees it without anybody having said a word.
        assert (await locks.acquire(Caller("WRITER", "s-1"), ["src/soon.py"]))["success"]

        async def meant() -> bool:
            agents = (await one.get("/api/airspace"))["agents"]
            return any(each["agentId"] == "WRITER" and each["intent"] == ["src/soon.py"] for each in agents)

        await eventually(meant, "the lock as an intent")
        keys = await store.read(lambda tx: tx.all(KEYS.api_keys, limit=10))
        assert [(row["identity"], row["created_by"]) for row in keys] == [("WRITER", "RELAY")]
        stopped = await one.run("bash", "stop.sh")
        assert stopped.code == 0, stopped.all
        assert await store.read(lambda tx: tx.all(KEYS.api_keys, limit=10)) == []


async def test_an_intent_is_in_a_frame_that_the_page_gets(open_room: Open) -> None:
    one = await open_room(program("WRITER", "writer.py"), files={"writer.py": WRITER}, start=False)
    in_git(one.folder)
    await one.start()
    async with one.session.ws_connect(f"{one.url}/ws", headers={"X-API-Key": one.token}) as socket:
        await socket.send_json({"after": None, "name": "ann"})
        await one.post("/intent @WRITER src/soon.py")
        async with asyncio.timeout(30):
            while True:
                frame = await socket.receive_json()
                if frame["type"] == "airspace" and any(
                    agent["intent"] == ["src/soon.py"] for agent in frame["data"]["agents"]
                ):
                    break
    assert {"profile", "thresholds", "links", "graph", "precision", "at"} <= frame["data"].keys()
    assert "text" not in frame["data"]
