"""`relay timeline archive`: sizes, refusals, and where what is old is now."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from relay.app.runtime import instance
from relay.app.timeline import command
from relay.app.wiring.schema import SCHEMAS
from relay.config.loading import load
from relay.log import events
from relay.log.events import Lane, NewEvent
from relay.model.touches import Kind, Source, Touch
from relay.store.open import opened_store
from relay.store.ports import Tx
from relay.timeline.file_changes import record_changes
from tests.git.repository import repository

LANE = Lane("s1", "CLAUDE")


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A room in which one file was written five times."""
    repository(tmp_path / "repo")
    script = tmp_path / "repo" / "x.yaml"
    script.write_text("- say: hello\n")
    path = tmp_path / "repo" / "config.json"
    path.write_text(json.dumps({"agents": [{"name": "CLAUDE", "kind": "scripted", "script": str(script)}]}))

    async def work() -> None:
        async def write(tx: Tx, number: int) -> None:
            touch = Touch("a.py", None, f"{number:040x}", Kind.WRITE)
            await record_changes(tx, LANE, [touch], source=Source.TREE, before="0" * 40, after="1" * 40)

        async with opened_store(load(path), SCHEMAS) as store:
            for number in range(5):
                await store.write(lambda tx, number=number: write(tx, number))
            await store.write(_follow)

    asyncio.run(work())
    return path


async def _follow(tx: Tx) -> None:
    await tx.execute(events.Q.put_follower, name="airspace", pos=4)


def told(capsys: pytest.CaptureFixture[str], config: Path, *words: str, code: int = 0) -> str:
    assert command.main([*words, "--config", str(config)]) == code
    done = capsys.readouterr()
    return done.out if code == 0 else done.err


def test_old_events_leave_and_are_named(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "#5: what follows the log as airspace" in told(capsys, config, "archive", "--before", "#5", code=1)
    preview = json.loads(told(capsys, config, "archive", "--before", "#4", "--dry-run", "--json"))
    assert (preview["events"], preview["files"], preview["needed"]) == (4, [], [])
    done = json.loads(told(capsys, config, "archive", "--before", "#4", "--json"))
    assert (done["upto"], done["events"], done["kept"]) == (4, 4, 0)
    (file,) = done["files"]
    assert Path(file).stat().st_size == done["size"] and done["before"] > 0 < done["after"]
    assert "The 4 events up to #4 are archived" in told(capsys, config, "log")
    shown = json.loads(told(capsys, config, "log", "--json"))
    assert [event["number"] for event in shown["events"]] == [5]
    assert shown["archived"] == {"events": 4, "upto": 4, "files": [Path(file).name]}
    assert "archived" in told(capsys, config, "files")
    again = told(capsys, config, "archive", "--before", "#2", code=1)
    assert "#2 is archived: the events up to #4 are not in the database any more." in again
    assert 'Give a later moment; "#5" is the first that it can be.' in again
    assert "There is no event #99" in told(capsys, config, "archive", "--before", "#99", code=1)
    before_all = told(capsys, config, "archive", "--before", "2020-01-01 10:00")
    assert "is archived already, up to #4: give a later moment." in before_all
    assert told(capsys, config, "verify") == "The log is intact.\n"
    Path(file).unlink()
    assert command.main(["verify", "--config", str(config)]) == 1
    assert "the archive is not there" in capsys.readouterr().out


def test_the_disk_gets_the_space_back_where_no_room_runs(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = load(config)

    async def work() -> None:
        async with opened_store(settings, SCHEMAS) as store:
            new = NewEvent("note", LANE, inputs="x" * 2_000_000)
            await store.write(lambda tx: events.append(tx, new))
            await store.write(lambda tx: tx.execute(events.Q.put_follower, name="airspace", pos=9))

    asyncio.run(work())
    before = settings.db_path.stat().st_size
    running = instance.claim(settings.lock_path, settings.locks.ttl)
    text = told(capsys, config, "archive", "--before", "#6")
    assert "an archive that is made while relay is stopped gives it to the disk" in text
    assert settings.db_path.stat().st_size >= before
    instance.release(settings.lock_path, running)
    done = json.loads(told(capsys, config, "archive", "--before", "2020-01-01 10:00", "--json"))
    assert done["events"] == 0 and done["given_back"] > 1_900_000
    assert settings.db_path.stat().st_size <= before - done["given_back"] + 100_000
    assert told(capsys, config, "verify") == "The log is intact.\n"
