"""Runs one of the configured commands in a worktree.

Invariant: nothing that it started is alive when `running` is left, or when this process dies (`base/shim.py`). What
got away all the same is found by its environment at the next start (`end_left`).
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from relay.agents.setup.environment import COMMON, COMMON_PREFIXES, NEVER
from relay.app.worktrees.ports import PortRange
from relay.base.child_process import ChildProcess
from relay.checks.leftovers import end_leftovers
from relay.checks.tree_command import program_of

#: The variable by which the room finds what it started, and what stands in it below the room's folder.
MARK, _MARKED = "RELAY_WORKTREE_COMMAND", "worktree-commands"


class CannotRun(Exception):
    """A command could not be started; the message says why, without a full stop."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended. `reason`: why it did not succeed, without a full stop; "" = it did."""

    reason: str
    seconds: float


def command_env(
    environ: Mapping[str, str],
    passed: Sequence[str],
    *,
    runtime: Path,
    agent: str,
    worktree: Path,
    repo: Path,
    ports: PortRange,
) -> dict[str, str]:
    """What a command gets: of this process what any agent gets and `passed`, then who and where, and the ports."""
    env = {
        name: value
        for name, value in environ.items()
        if (name in COMMON or name.startswith(COMMON_PREFIXES) or name in passed)
        and not name.startswith(NEVER)
    }
    env.setdefault("PATH", os.defpath)
    own = {"RELAY_AGENT": agent, "RELAY_WORKTREE": str(worktree), "RELAY_REPO": str(repo)}
    return {**env, **own, **ports.as_env(), MARK: str(runtime / _MARKED)}


@asynccontextmanager
async def running(argv: Sequence[str], env: Mapping[str, str], cwd: Path) -> AsyncIterator[ChildProcess]:
    """The command, running. Leaving the block ends it and all that it started. Raises CannotRun."""
    program = await asyncio.to_thread(program_of, argv, cwd, env["PATH"])
    if program is None:
        raise CannotRun(f"there is no program `{argv[0]}`")
    try:
        process = await ChildProcess.start((program, *argv[1:]), env=env, cwd=cwd)
    except (OSError, ValueError) as error:
        raise CannotRun(f"`{argv[0]}` could not be started: {error}") from error
    async with process:
        yield process


async def run_to_end(
    argv: Sequence[str],
    env: Mapping[str, str],
    cwd: Path,
    *,
    timeout_s: float,
    heard: Callable[[bytes], None],
) -> Ended:
    """Run a command until it ends, for `timeout_s` seconds at most. `heard` gets what it prints."""
    began = time.monotonic()
    reason = ""
    try:
        async with running(argv, env, cwd) as process:
            try:
                async with asyncio.timeout(timeout_s):
                    async for _, data in process.output():
                        heard(data)
            except TimeoutError:
                reason = f"it was ended after {timeout_s:g} s"
            else:
                ended = process.exit
                if ended is None or ended.code != 0:
                    reason = f"it {ended}" if ended is not None else "nobody knows how it ended"
    except CannotRun as error:
        reason = str(error)
    return Ended(reason, time.monotonic() - began)


def end_left(runtime: Path) -> None:
    """End what commands of an earlier daemon of this room left behind. Blocks."""
    end_leftovers(runtime / _MARKED)
