"""Runs a command in an export of a git tree, and remembers how it ended.

Invariants:
- the command's folder has the files of that tree and nothing else: what stands in a checkout beside it does not help;
- nothing that it started is alive when `run` returns, is cancelled, or when this process dies (`base/shim.py`);
- the result says what happened: what could not be started has not run, and that is not success;
- a tree and command that ended by themselves are not run again unless somebody asks.

It is no sandbox: the command has the rights of the user that runs relay.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from weakref import WeakValueDictionary

from relay.checks.exported_tree import tree_id
from relay.checks.results import SETTLED, Check, CheckResult, last_result, record
from relay.checks.tree_command import TreeCommand
from relay.git.run import Git
from relay.store.ports import Store

#: Commands that run at once; others wait.
AT_ONCE = 2


class CheckRunner:
    """`git` reads the trees (`ScratchRepository.git`); `folder` is where they are exported, this runner's alone.

    `store`: remembers the results. `environ`: the variables of this process.
    """

    def __init__(
        self,
        store: Store,
        git: Git,
        folder: Path,
        *,
        at_once: int = AT_ONCE,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.store, self.git = store, git
        self._command = TreeCommand(git, folder, environ)
        self._free = asyncio.Semaphore(at_once)
        self._running: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    async def run(self, check: Check, tree: str, *, fresh: bool = False) -> CheckResult:
        """Run the check in an export of `tree` (its id, or a commit), or give how it ended before.

        `fresh` runs it in any case. Two calls for one tree and check at once are one run. A cancelled call ends the
        command and records nothing. Raises GitError when there is no such tree, and what the store raises.
        """
        tree = await tree_id(self.git, tree)
        key = (tree, check.digest)
        lock = self._running.setdefault(key, asyncio.Lock())
        before = await last_result(self.store, *key)
        if before is not None and before.state in SETTLED and not fresh:
            return before
        async with lock:
            known = await last_result(self.store, *key)
            if known is not None and known.state in SETTLED and known != before:
                return known  # of a call that ran it meanwhile
            async with self._free:
                result = await self._command.run(check, tree)
            return await self.store.write(lambda tx: record(tx, result))

    async def clean(self) -> None:
        """Remove what a killed process left in the folder. For a start, when nothing runs."""
        await self._command.clean()
