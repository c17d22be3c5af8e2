"""The run of the swarm without relay: the same workers and items, a list to take them from, and plain `git merge`."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

from relay.app.demo.stage import LOOK_S, DemoError, commit_codebase
from relay.app.demo.swarm.codebase import files
from relay.app.demo.swarm.found import look
from relay.app.demo.swarm.outcome import Plan, Ran
from relay.app.demo.swarm.processes import running
from relay.app.demo.swarm.progress import Progress
from relay.app.demo.swarm.workplace import git


async def play(folder: Path, plan: Plan, progress: Progress) -> Ran:
    """Raises DemoError."""
    await asyncio.to_thread(_built, folder, plan)
    words = {
        name: (
            "alone",
            folder / "trees" / name,
            ("--name", name, "--folder", str(folder), "--pace", str(plan.pace_s)),
        )
        for name in plan.workers
    }
    began = time.monotonic()
    with progress:
        async with running(words, folder) as programs:
            while not programs.over():
                told = _journals(folder)
                conflicts = sum(bool(line["conflicts"]) for line in told)
                progress.show(len(told), f"{conflicts} merges in conflict")
                await asyncio.sleep(LOOK_S)
    seconds = time.monotonic() - began
    if failed := programs.failed():
        raise DemoError(failed)
    told = _journals(folder)
    found = await look(folder, plan.items, [(line["onto"], line["commit"]) for line in told])
    if found.conflicts != sum(bool(line["conflicts"]) for line in told):
        raise DemoError("git's merges, tried again, do not end as they did; the figures would not be true")
    return Ran(
        False,
        seconds,
        found,
        tried=len(told),
        worked_s=sum(line["worked_s"] for line in told),
        landing_s=sum(line["waited_s"] for line in told),
    )


def _built(folder: Path, plan: Plan) -> None:
    """The codebase, and a checkout for each worker. Blocks."""
    commit_codebase(folder / "code", files())
    (folder / "items.json").write_text(json.dumps([item.as_json() for item in plan.items]))
    for name in plan.workers:
        git(folder / "code", "worktree", "add", "-q", "--detach", str(folder / "trees" / name), "main")


def _journals(folder: Path) -> list[dict[str, Any]]:
    """What the workers have written so far."""
    return [
        json.loads(line)
        for path in sorted(folder.glob("journal-*.jsonl"))
        for line in path.read_text().splitlines(keepends=True)
        if line.endswith("\n")
    ]
