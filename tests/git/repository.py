"""Real git repositories, made by a person's own git, for the tests of worktrees."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from relay.airspace.worktrees.actions import WorktreeActions
from relay.airspace.worktrees.branch_updates import BranchUpdates
from relay.airspace.worktrees.commit_message import WorkSummary
from relay.airspace.worktrees.lifecycle import WorktreeChange
from relay.airspace.worktrees.registry import WorktreeRegistry
from relay.airspace.worktrees.room import WorktreeRoom
from relay.airspace.worktrees.turns import TurnWorktrees
from relay.config import loading
from relay.git.branch_names import agent_branch
from relay.git.signing import system_user
from relay.git.trial_merge import Merge, Trial
from relay.model.working_set import FileTouch, WorkingSet

ENV = {
    **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "Ann",
    "GIT_AUTHOR_EMAIL": "ann@example.org",
    "GIT_COMMITTER_NAME": "Ann",
    "GIT_COMMITTER_EMAIL": "ann@example.org",
}


def git(folder: Path, *args: str, **more: Any) -> str:
    """git as a person runs it; its output."""
    done = subprocess.run(
        ["git", "-c", "protocol.file.allow=always", *args],
        cwd=folder,
        env=ENV,
        capture_output=True,
        check=True,
        **more,
    )
    return done.stdout.decode("utf-8", "surrogateescape").rstrip("\n")


def person() -> str:
    """The name that git has for whoever runs the tests, in a repository that has none of its own."""
    named = ["git", "config", "--global", "--get", "user.name"]
    done = subprocess.run(named, capture_output=True, check=False)
    return os.environ.get("GIT_COMMITTER_NAME") or done.stdout.decode().strip() or system_user()


def own_branch(agent: str, user: str = "") -> str:
    """The branch that a room in the tests makes for an agent of this user."""
    return agent_branch(user or person(), agent)


def lines(first: int, last: int, mark: str = "") -> str:
    return "".join(f"line {number}{mark}\n" for number in range(first, last + 1))


def write(folder: Path, files: dict[str, str | bytes]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())


def commit(folder: Path, files: dict[str, str | bytes] | None = None, message: str = "change") -> str:
    write(folder, files or {})
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "--allow-empty", "-m", message)
    return git(folder, "rev-parse", "HEAD")


def repository(folder: Path, files: dict[str, str | bytes] | None = None) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q", "-b", "main")
    commit(folder, files or {"a.py": lines(1, 20), "b.py": lines(1, 10)}, "first")
    return folder


class Room(WorktreeRoom):
    """A registry of worktrees over a repository, opened by hand; `happened` is what it told."""

    def __init__(self, folder: Path, *agents: str, **more: Any) -> None:
        self.folder = folder
        script = folder / ".relay" / "x.yaml"
        script.parent.mkdir(exist_ok=True)
        script.write_text("- say: hello\n")
        told = {
            "agents": [
                {"name": name, "kind": "scripted", "script": str(script), **more.get(name, {})}
                for name in agents
            ],
            **{key: value for key, value in more.items() if key not in agents},
        }
        path = folder / "config.json"
        self.settings = loading.parse(json.dumps(told), path)
        self.happened: list[WorktreeChange] = []
        self.registry = WorktreeRegistry(self.settings, self)
        self.branch_updates = BranchUpdates(self.registry)
        self.turns = TurnWorktrees(self.registry, self.branch_updates)
        self.actions = WorktreeActions(self.registry, self.branch_updates)
        #: What its agents' work is about.
        self.about = WorkSummary()
        #: Do its commits have trailers of the timeline?
        self.names_events = False

    async def record(self, change: WorktreeChange) -> None:
        self.happened.append(change)

    async def summary(self, agent: str, since: float, paths: Collection[str] | None = None) -> WorkSummary:
        return self.about

    async def trailers(self, agent: str, branch: str, tree: str) -> tuple[str, ...]:
        return (f"TimeWarp-Agent-Id: {agent}", f"TimeWarp-Snapshot-Id: {tree}") if self.names_events else ()

    async def trials(self) -> Mapping[str, Trial]:
        return await self.registry.merge_trials.trials(await self.registry.target())

    async def merges(self, pairs: Sequence[tuple[str, str]]) -> Mapping[tuple[str, str], Merge]:
        return await self.registry.merge_trials.merges(pairs, await self.trials())

    async def open(self) -> Room:
        await self.registry.open()
        await self.registry.refresh()
        return self

    def at(self, agent: str) -> Path:
        return self.registry.worktrees[agent].checkout.top

    async def look(self, *agents: str) -> dict[str, WorkingSet]:
        for name in agents or tuple(self.registry.worktrees):
            self.registry.worktrees[name].mark_stale(None)
        await self.registry.refresh()
        return {one.agent: one for one in await self.registry.working_sets()}

    async def files(self, agent: str) -> dict[str, FileTouch]:
        return {one.path: one for one in (await self.look(agent))[agent].files}


async def room(folder: Path, *agents: str, **more: Any) -> Room:
    return await Room(folder, *agents, **more).open()


class _Unrecorded:
    """A store that takes every change and keeps none."""

    async def write(self, work: Any, *, durable: bool = False) -> None: ...

    async def read(self, work: Any) -> dict[str, Any]:
        return {}


UNRECORDED: Any = _Unrecorded()
