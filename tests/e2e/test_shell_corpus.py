"""The corpus of shell commands before a real guard: nothing is refused for the sake of a file that is not written."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from relay.coordination.locks.service import Locks
from relay.model import Caller
from tests.code.shell.test_writes import Command, commands, environment, made, shared, state
from tests.e2e.conftest import Open
from tests.e2e.test_guard import locks_of
from tests.outside import program

__all__ = ["made"]
HOLDER = Caller("CODEX", "s-codex")


def written(command: Command, made: Path, top: Path) -> set[str]:
    """What it really writes in a copy of the checkout; as it is written down where it cannot be run."""
    if not command.runs:
        return {*command.writes}
    shutil.rmtree(top, ignore_errors=True)
    shutil.copytree(made, top, symlinks=True)
    before = state(top)
    subprocess.run(
        ["bash", "-c", command.text], cwd=top, env=environment(top), stdin=subprocess.DEVNULL,
        capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    after = state(top)
    changed = {name for name in {*before, *after} if before.get(name) != after.get(name)}
    return {*changed, *command.back}


async def hold(locks: Locks, paths: Iterable[str]) -> None:
    for path in paths:
        assert (await locks.acquire(HOLDER, [path], reason="a test", ttl_s=3600.0))["success"]


async def test_no_command_is_refused_for_a_file_that_it_does_not_write(
    open_room: Open, made: Path, tmp_path: Path
) -> None:
    checkout = tmp_path / "checkout"
    shutil.copytree(made, checkout, symlinks=True)
    one = await open_room(program("BOT", "true"), start=False)
    one.configure({**json.loads(one.path.read_text()), "workspace": {"repo": str(checkout)}})
    await one.start()
    files = sorted(state(checkout))
    false, missed, refused, total = list[str](), list[str](), 0, 0

    async def ask(command: Command) -> Any:
        body = {"agent": "somebody", "command": command.text, "cwd": str(checkout), "tool": "Bash"}
        status, told = await one.ask("POST", "/api/guard", json=body)
        assert status == 200, told
        return told

    async with locks_of(one) as (_, locks):
        await hold(locks, files)
        for command in shared(commands()):
            total += 1
            own = [path for path in written(command, made, tmp_path / "made") if path in files]
            if own and not command.untold:
                told = await ask(command)
                refused += told["decision"] == "locked"
                if told["decision"] == "locked" and told["locked_by"] != "CODEX":
                    missed.append(f"{command.text!r}: {told}")
            for path in own:
                await locks.release(HOLDER, path)
            told = await ask(command)
            if told["decision"] != "allow":
                false.append(f"{command.text!r} was refused: {told['reason']}")
            await hold(locks, own)
    assert not false, "\n".join(false)
    assert not missed, "\n".join(missed)
    # Of those that write a file that is there, most say so surely: 89 of 267 are refused for their own files.
    assert refused >= 0.31 * total, (refused, total)
