"""Runs a policy's program here, in an export of the change's tree.

Invariants: the program sees that tree and not a checkout (`relay.checks.tree_command`). In a sandbox it writes only
its own folder, reads nothing of the room's, and has no network unless the policy says so. What ran without one says
so, and a policy that requires one is an error without it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace
from pathlib import Path

from relay.checks.results import Check, CheckResult, State
from relay.checks.sandbox import bubblewrap, in_sandbox
from relay.checks.tree_command import Start, TreeCommand, in_background
from relay.git.run import Git, GitError
from relay.model import Refusal
from relay.verification.executors.executor import Ended, Run, failed_to_run
from relay.verification.policies import Policy
from relay.verification.verification import Outcome

#: Programs that run at once; others wait.
AT_ONCE = 2
_STATES = {
    State.PASSED: Outcome.PASSED,
    State.FAILED: Outcome.FAILED,
    State.TIMED_OUT: Outcome.TIMED_OUT,
    State.NOT_RUN: Outcome.ERROR,
}


#: Gives variables that name ports, which nobody else has until it is left. Raises OSError, Refusal.
Lend = Callable[[], AbstractAsyncContextManager[Mapping[str, str]]]


def no_ports() -> AbstractAsyncContextManager[Mapping[str, str]]:
    return nullcontext[Mapping[str, str]]({})


class InlineExecutor:
    """`folder`: where trees are exported, this one's alone; `hidden`: what no sandboxed program may read. `environ`:
    the variables of this process; `lend`: gives a run ports of its own as variables."""

    def __init__(
        self,
        folder: Path,
        hidden: Sequence[Path] = (),
        *,
        at_once: int = AT_ONCE,
        environ: Mapping[str, str] | None = None,
        lend: Lend = no_ports,
    ) -> None:
        self._folder, self._hidden, self._lend = folder, tuple(hidden), lend
        self._environ = os.environ if environ is None else environ
        self._free = asyncio.Semaphore(at_once)

    async def run(self, run: Run) -> Ended:
        return await self.carry_out(run, in_background)

    async def carry_out(self, run: Run, start: Start) -> Ended:
        """The run, with its program started so. An OSError of the process is the run's error."""
        policy = run.policy
        if missing := missing_of(run, self._environ):
            return failed_to_run(missing)
        program, why_not = await asyncio.to_thread(bubblewrap)
        if program is None and policy.sandbox == "required":
            return failed_to_run(f"the policy requires a sandbox: {why_not}")
        sandboxed = program is not None and policy.sandbox != "off"

        def wrap(argv: Sequence[str], place: Path, tree: Path) -> Sequence[str]:
            assert program is not None
            return in_sandbox(
                program, argv, folder=tree, writable=[place], hidden=self._hidden, network=policy.network
            )

        command = TreeCommand(run.git, self._folder, self._environ)
        check = Check(policy.name, run.argv, policy.timeout_s, env=policy.env)
        async with self._free:
            try:
                async with self._lend() as ports:
                    done = await command.run(
                        check,
                        run.tree,
                        wrap=wrap if sandboxed else None,
                        watch=run.watch,
                        start=start,
                        env=ports,
                    )
            except (GitError, OSError, Refusal) as error:
                return failed_to_run(f"it could not be carried out: {error}")
        ended = ended_of(done)
        return replace(ended, sandboxed=sandboxed) if done.state is not State.NOT_RUN else ended

    async def clean(self) -> None:
        """Remove what a killed process left in the folder. For a start, when nothing runs."""
        await TreeCommand(Git(self._folder.parent), self._folder).clean()


def ended_of(done: CheckResult) -> Ended:
    """The end of a run of the runner's."""
    return Ended(
        _STATES[done.state],
        done.reason,
        done.exit_code,
        done.seconds,
        done.head,
        done.tail,
        done.output_bytes,
    )


def missing_of(run: Run, environ: Mapping[str, str]) -> str:
    """What a run of the tree's files needs and has not; empty: it has all."""
    if missing := missing_variables(run.policy, environ):
        return missing
    if not run.tree:
        short = str(run.change.commit)[:12]
        return f"the commit {short} is not in this repository (`git fetch` brings it)"
    return ""


def missing_variables(policy: Policy, environ: Mapping[str, str]) -> str:
    """Why a policy's environment is not there; empty: it is."""
    missing = [name for name in policy.env if not environ.get(name)]
    return not_set(*missing) if missing else ""


def not_set(*names: str) -> str:
    """Why nothing runs without these variables."""
    verb = "is" if len(names) == 1 else "are"
    return f"{', '.join(names)} {verb} not set in the environment of the room"
