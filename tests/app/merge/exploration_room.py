"""A room's repository, database and explorations, for tests; `restart` is a new process over them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

from relay.app.merge.exploration.explorer import Explorer, ExplorerParts
from relay.app.merge.exploration.winner import MergeWinner, merge_by_git
from relay.app.wiring.schema import SCHEMAS
from relay.checks.runner import CheckRunner
from relay.config.settings import LiveSettings
from relay.log.events import Event
from relay.merge.exploration import journal
from relay.merge.exploration.config import ExplorationConfig
from relay.merge.exploration.config_file import read_exploration
from relay.merge.exploration.journal import Exploration, VariantRun
from relay.store.ports import Store
from tests import engines
from tests.engines import all_events
from tests.git.repository import Room, git, repository
from tests.room.parts import all_messages

#: A test of the repository: passes where `cache.py` says so.
TESTS = "import pathlib, sys; sys.exit('broken' in pathlib.Path('cache.py').read_text())"
FILE = """\
task: Cache the answers
variants:
  - {name: redis, instructions: Use Redis., agent_config: AVA}
  - {name: memcached, instructions: Use Memcached., agent_config: BEN}
  - {name: in-memory, instructions: Use a dict., agent_config: CAT}
"""


def agent(program: str) -> dict[str, Any]:
    """An agent that is a Python program."""
    return {"kind": "command", "cmd": [sys.executable, "-c", program], "script": None}


def writes(text: str, more: str = "0") -> dict[str, Any]:
    """An agent that writes `cache.py`."""
    return agent(f"import pathlib; pathlib.Path('cache.py').write_text({text!r}); {more}; print('done')")


class ExplorationRoom:
    """`agents`: what each agent of the room is, by name."""

    def __init__(self, folder: Path, store: Store, agents: dict[str, dict[str, Any]], **more: Any) -> None:
        self.folder, self.store, self.agents, self.more = folder, store, agents, more
        self.merge: MergeWinner | None = None

    @classmethod
    async def open(cls, folder: Path, agents: dict[str, dict[str, Any]], **more: Any) -> ExplorationRoom:
        repository(folder / "repo", {"a.py": "one\n", ".gitignore": ".relay\nconfig.json\n*.log\n"})
        made = cls(folder / "repo", await engines.open_store(folder, SCHEMAS), agents, **more)
        await made.restart()
        return made

    async def restart(self) -> None:
        self.room = await Room(self.folder, *self.agents, **self.agents, **self.more).open()
        registry = self.room.registry
        runner = CheckRunner(
            self.store, registry.scratch.git(registry.main), self.folder / ".relay" / "checks"
        )
        merge = self.merge or merge_by_git(registry)
        settings = LiveSettings(self.room.settings)
        self.explorer = Explorer(ExplorerParts(self.store, settings, registry, runner, merge, poll_s=0.05))

    async def order(self, config: ExplorationConfig | str, agents: Sequence[str] = ()) -> int:
        asked = read_exploration(config, "x.yaml") if isinstance(config, str) else config
        whose = [variant.agent or (agents or list(self.agents))[0] for variant in asked.variants]
        made = await self.store.write(lambda tx: journal.order(tx, asked, whose, asker="ann"))
        return made.number

    async def row(self, number: int = 1) -> Exploration:
        return await self.store.read(lambda tx: journal.load(tx, number))

    async def runs(self, number: int = 1) -> dict[str, VariantRun]:
        return {run.name: run for run in await self.store.read(lambda tx: journal.variants_of(tx, number))}

    async def events(self, *types: str) -> list[Event]:
        return await all_events(self.store, *types)

    async def said(self) -> list[str]:
        return [message.body for message in await all_messages(self.store)]

    def git(self, *args: str) -> str:
        return git(self.folder, *args)

    def state_of_main(self) -> tuple[str, ...]:
        """All of the main branch and its checkout that an exploration must leave alone."""
        asked = (
            ("rev-parse", "HEAD"),
            ("symbolic-ref", "HEAD"),
            ("status", "--porcelain=v2"),
            ("ls-files", "--stage"),
            ("stash", "list"),
        )
        files = [f"{path.name}:{path.read_text()}" for path in sorted(self.folder.glob("*.py"))]
        return (*(self.git(*words) for words in asked), *files)

    def worktrees(self) -> list[str]:
        """The folders of worktrees of explorations."""
        listed = self.git("worktree", "list", "--porcelain").splitlines()
        paths = [line.removeprefix("worktree ") for line in listed if line.startswith("worktree ")]
        return [path for path in paths if "/explorations/" in path]

    def branches(self) -> list[str]:
        return self.git("for-each-ref", "--format=%(refname:short)", "refs/heads").split()

    def kept(self) -> list[str]:
        return self.git("for-each-ref", "--format=%(refname)", "refs/relay/explorations").split()


def living(pids: Sequence[int]) -> list[int]:
    """Those of these processes that run."""

    def lives(pid: int) -> bool:
        try:
            return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False

    return [pid for pid in pids if lives(pid)]
