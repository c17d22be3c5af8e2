"""`relay timeline push` and `pull`, between two clones."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from relay.app.timeline import command
from relay.app.wiring.schema import SCHEMAS
from relay.config.loading import load
from relay.log import events
from relay.log.events import Event, Lane, NewEvent
from relay.store.open import opened_store
from tests.git.repository import git, repository


def room(folder: Path, name: str, share: list[str]) -> Path:
    """A clone with a room's configuration in it; gives that."""
    git(folder, "clone", "-q", str(folder / "hub.git"), name)
    path = folder / name / "config.json"
    script = folder / name / "x.yaml"
    script.write_text("- say: hello\n")
    agents = [{"name": "CLAUDE", "kind": "scripted", "script": str(script)}]
    path.write_text(json.dumps({"agents": agents, "timeline": {"share": share}}))
    return path


def record(config: Path, lane: Lane, outputs: Any) -> Event:
    async def work() -> Event:
        async with opened_store(load(config), SCHEMAS) as store:
            return await store.write(
                lambda tx: events.append(tx, NewEvent("files.changed", lane, outputs=outputs))
            )

    return asyncio.run(work())


def told(capsys: pytest.CaptureFixture[str], config: Path, *words: str) -> Any:
    assert command.main([*words, "--config", str(config), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_what_one_room_gives_another_takes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    repository(tmp_path / "first")
    git(tmp_path, "clone", "-q", "--bare", str(tmp_path / "first"), "hub.git")
    ann, bob = room(tmp_path, "ann", ["CLAUDE"]), room(tmp_path, "bob", [])
    changed = {"touches": [], "source": "tree"}
    record(ann, Lane("s1", "CLAUDE"), changed)
    record(ann, Lane("room", "human:ann"), changed)
    record(bob, Lane("s2", "CLAUDE"), changed)
    pushed = told(capsys, ann, "push")
    assert (pushed["events"], pushed["withheld"], pushed["held"]) == (1, 0, [])
    pulled = told(capsys, bob, "pull", "origin")
    merged = pulled.pop("merged")
    assert pulled == {"added": 1, "refused": [], "waiting": []}
    assert len(merged["heads"]) == 2 and pushed["replica"] in merged["heads"] and not merged["conflicts"]
    assert told(capsys, bob, "push")["events"] == 0, "nobody is shared there"
    assert command.main(["pull", "--config", str(bob)]) == 0
    assert capsys.readouterr().out == "Took in 0 events from origin.\n"
    [_, theirs, both] = told(capsys, bob, "log")["events"]
    assert (both["type"], both["id"]) == ("timeline.merged", merged["event"])
    assert (theirs["type"], theirs["replica"]) == ("files.changed", pushed["replica"])
    here = told(capsys, bob, "log", "--here")["events"]
    assert [event["replica"] for event in here] == [None, None]
    for words in (["log"], ["lane", "CLAUDE"], ["show", theirs["id"]]):
        assert command.main([*words, "--config", str(bob)]) == 0
        printed = capsys.readouterr().out
        assert f"CLAUDE@{pushed['replica'][:8]}" in printed and "imported" not in printed
    assert told(capsys, bob, "show", theirs["id"])["replica"] == pushed["replica"]
    assert told(capsys, bob, "files") == {"files": [], "others": [], "archived": None}


def test_a_remote_that_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    repository(tmp_path / "first")
    git(tmp_path, "clone", "-q", "--bare", str(tmp_path / "first"), "hub.git")
    config = room(tmp_path, "ann", [])
    record(config, Lane("s1", "CLAUDE"), {"touches": [], "source": "tree"})
    assert command.main(["pull", "nowhere", "--config", str(config)]) == 1
    assert "nowhere" in capsys.readouterr().err
