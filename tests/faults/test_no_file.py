"""What is no file in a file's place (a pipe that nobody writes, a folder, a socket, a link to itself) wedges nothing:
it is refused, the health says so, and all goes on once it is gone."""

from __future__ import annotations

import fcntl
import json
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from relay.room.parsing import line_format
from tests.outside import Outside, agent, eventually, room, settings

pytestmark = pytest.mark.faults


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        here = Path.cwd()
        os.chdir(path.parent)  # a socket's path is short
        try:
            one.bind(path.name)
        finally:
            os.chdir(here)


KINDS: dict[str, Callable[[Path], None]] = {
    "pipe": os.mkfifo,
    "folder": Path.mkdir,
    "socket": _socket,
    "loop": lambda path: path.symlink_to(path.name),
    "device": lambda path: path.symlink_to("/dev/zero"),
}


def _take_away(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        path.rmdir()
    else:
        path.unlink()


async def _trouble(one: Outside) -> str | None:
    async with one.session.get(f"{one.url}/health", headers={"X-API-Key": one.token}) as answer:
        told: dict[str, Any] = await answer.json()
        return None if answer.status == 200 else told["trouble"]


@pytest.mark.parametrize("kind", KINDS)
async def test_the_transcripts_tail_refuses_it_and_reads_on_when_it_is_gone(
    tmp_path: Path, kind: str
) -> None:
    async with room(tmp_path / "room", settings(agent("ECHO"))) as one:
        await one.start()
        first = await one.post("@ECHO first")
        await one.reply_to(first["id"], "ECHO")

        async def appended() -> bool:
            return len(one.file_lines()) == len(await one.entries())

        await eventually(appended, "the file to have all of it")
        away = one.transcript.with_name("away")
        one.transcript.rename(away)
        KINDS[kind](one.transcript)

        async def said() -> bool:
            return "transcript.log" in (await _trouble(one) or "")

        await eventually(said, "the health to say it")
        looked = await one.script("healthcheck.sh", "--json")
        checks = {check["name"]: check for check in json.loads(looked.out)["checks"]}
        assert checks["transcript"]["status"] == checks["daemon"]["status"] == "failed"
        # The room itself works on.
        second = await one.post("@ECHO second")
        await one.reply_to(second["id"], "ECHO")

        _take_away(one.transcript)
        away.rename(one.transcript)
        one.echo("[bob] by hand")
        await one.until_said("^by hand$")

        async def well() -> bool:
            return await _trouble(one) is None

        await eventually(well, "the room to be well again")
        ids = [told["id"] for _, told in one.file_lines() if isinstance(told, dict)]
        assert ids.count(second["id"]) == 1


@pytest.mark.parametrize("name", ["token", "relay.pid", "speaker.lock", "tasks.json", "state.json"])
async def test_a_pipe_in_the_place_of_a_file_of_the_room_holds_no_command_up(
    tmp_path: Path, name: str
) -> None:
    async with room(tmp_path / "room", settings(locks={"ttl": 3})) as one:
        await one.start()
        path = one.folder / name if name == "speaker.lock" else one.runtime / name
        token, url = one.token, one.url
        os.mkfifo(path.with_name("pipe"))
        path.with_name("pipe").replace(path)  # in one step: the daemon writes what is missing again
        looked = await one.script("healthcheck.sh", "--repair", "--json")
        assert json.loads(looked.out)["checks"]
        async with one.session.post(
            f"{url}/api/messages", headers={"X-API-Key": token}, json={"body": "goes on", "name": "ann"}
        ) as answer:
            assert answer.status == 201
        stopped = await one.script("stop.sh")
        assert stopped.code in (0, 1)
        if one.process is not None and one.process.poll() is None:
            one.kill()
        started = await one.relay("link")  # no daemon: it says so, and waits for nothing
        assert started.code == 1


async def test_a_configuration_that_is_a_pipe_is_told_and_the_room_goes_on(tmp_path: Path) -> None:
    async with room(tmp_path / "room", settings(agent("ECHO"))) as one:
        await one.start()
        text = one.path.read_text()
        one.path.unlink()
        os.mkfifo(one.path)
        await one.until_said("(?s)cannot be used.*named pipe")
        one.path.unlink()
        one.configure(json.loads(text) | settings(agent("ECHO"), agent("SECOND")))

        async def there() -> bool:
            return "SECOND" in [told["name"] for told in (await one.get("/api/state"))["agents"]]

        await eventually(there, "the room to take the configuration over again")


async def test_an_append_lock_that_is_held_on_is_said(tmp_path: Path) -> None:
    async with room(tmp_path / "room", settings(agent("ECHO"))) as one:
        await one.start()
        await one.post("first")
        with line_format.lock_path(one.runtime, one.transcript).open("ab") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            await one.post("second")

            async def said() -> bool:
                return "transcript" in (await _trouble(one) or "")

            await eventually(said, "the health to say it")

        async def well() -> bool:
            return await _trouble(one) is None

        await eventually(well, "the room to be well again")


async def test_a_link_is_made_though_the_token_was_removed_or_replaced(tmp_path: Path) -> None:
    async with room(tmp_path / "room", settings()) as one:
        await one.start()
        path, token = one.runtime / "token", one.token
        path.unlink()
        made = await one.relay("link")
        assert (made.code, path.read_text().strip()) == (0, token), made.all
        path.write_text("another-" + token)
        made = await one.relay("link")
        assert made.code == 0 and made.out.startswith(one.url), made.all
