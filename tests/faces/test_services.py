"""What the operations ask for, without a daemon: quick to import, and whole."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from relay.config import loading
from relay.config.settings import LiveSettings
from relay.faces.operations.operation import perform
from relay.faces.operations.registry import OPERATIONS
from relay.faces.services import services_of
from relay.model import Caller, Fault, Refusal
from relay.model.actions import DeclareIntent
from relay.store.open import open_store
from relay.verification.landing import journal
from relay.verification.landing.entry import EntryState
from tests.engines import SCHEMAS

BOT = Caller("bot", "s-1")
TASK = "11111111-1111-4111-8111-111111111111"


def test_a_process_that_starts_often_imports_nothing_heavy() -> None:
    code = (
        "import relay.faces.services, sys; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"aiohttp", "numpy", "pydantic", "mcp", "watchfiles", "tree_sitter", "ollama", "asyncpg"}
    assert heavy & set(run.stdout.split()) == set()


@pytest.mark.parametrize("airspace", [True, False])
async def test_a_room_without_a_daemon(tmp_path: Path, airspace: bool) -> None:
    on = str(airspace).lower()
    text = f'{{"agents": [{{"name": "CLAUDE", "preset": "claude"}}], "airspace": {{"enabled": {on}}}}}'
    settings = loading.parse(text, tmp_path / "config.json")
    store = await open_store(settings, SCHEMAS)
    services = services_of(store, LiveSettings(settings))
    try:
        assert (await services.locks.acquire(BOT, ["src/app.py"]))["success"]
        told = await services.room.who(BOT)
        assert [one["name"] for one in told["agents"]] == ["CLAUDE"]
        assert [(one["name"], one["locks"]) for one in told["visitors"]] == [("bot", 1)]
        assert [(one["agent_id"], one["locks"]) for one in told["sessions"]] == [("bot", 1)]
        if airspace:
            assert await services.intents.declare(BOT, DeclareIntent("bot", ("./src/a.py",))) == {
                "success": True,
                "paths": ["src/a.py"],
            }
            with pytest.raises(Refusal) as refused:
                await services.intents.declare(BOT, DeclareIntent("bot", ("../x",)))
            assert refused.value.fault is Fault.MALFORMED
        else:
            with pytest.raises(Refusal) as refused:
                await services.intents.declare(BOT, DeclareIntent("bot", ("src/a.py",)))
            assert (refused.value.fault, refused.value.code) == (Fault.REFUSED, "airspace_off")
        sky = await services.room.airspace(BOT)
        assert (sky["enabled"], sky["advisories"], sky["near"]) == (airspace, [], [])
        assert sky["intents"] == ({"bot": ["src/a.py"]} if airspace else {})
        # The end of a session gives back all that it holds, claims and locks alike.
        made = await services.work.submit(BOT, "code", "one", files=["docs"])
        assert (await services.work.get(BOT))["task_id"] == made["task_id"]
        await services.sessions.end(BOT)
        assert await services.locks.check(Caller("eve", "s-2")) == []
        said = "one\n" + "and all that belongs to it " * 20
        await services.work.submit(BOT, "text", said, task_id=TASK)
        waits = next(one for one in await services.work.pending(BOT) if one["task_id"] == TASK)
        given = await services.work.get(BOT, ["text"])
        shown = await services.work.task(BOT, TASK)
        assert (shown["id"], shown["title"], shown["task_description"]) == (TASK, "one", said)
        assert waits.pop("status") == "pending" and shown["status"] == given["status"] == "claimed"
        assert {name: shown[name] for name in waits} == waits == {name: given[name] for name in waits}
        ended = await services.work.task(BOT, made["task_id"])
        assert (ended["status"], ended["attempt"], ended["not_before"] is None) == ("pending", 2, False)
    finally:
        await store.close()


async def test_a_task_that_is_done_stays_done_where_its_branch_cannot_be_put_into_the_queue(
    tmp_path: Path,
) -> None:
    settings = loading.parse('{"agents": []}', tmp_path / "config.json")
    store = await open_store(settings, SCHEMAS)
    services = services_of(store, LiveSettings(settings))

    async def completed() -> dict[str, Any]:
        made = await services.work.submit(BOT, "code", "one")
        await services.work.get(BOT, task_id=made["task_id"])
        body = {"task_id": made["task_id"], "success": True, "land": True}
        done: dict[str, Any] = await perform(services, BOT, OPERATIONS["complete_work"], body)
        return done

    try:
        first = await completed()
        assert (first["status"], first["landing"]["success"]) == ("completed", True)
        (entry,) = await store.read(journal.open_entries)
        await store.write(lambda tx: journal.save(tx, replace(entry, state=EntryState.TESTING)))
        second = await completed()
        assert (second["success"], second["status"]) == (True, "completed")
        assert (second["landing"]["success"], second["landing"]["reason"]) == (False, "testing")
    finally:
        await store.close()
