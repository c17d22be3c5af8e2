"""Runs a command in an export of a git tree, once.

Invariants:
- the command's folder has the files of that tree and nothing else: what stands in a checkout beside it does not help;
- nothing that it started is alive when `run` returns, is cancelled, or when this process dies (`base/shim.py`);
- the result says what happened: what could not be started has not run, and that is not success.

Without `wrap` it is no sandbox: the command has the rights of the user that runs relay.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import time
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, Self

from relay.base.child_process import ChildProcess, Exit
from relay.checks.bounded_output import BoundedOutput
from relay.checks.exported_tree import export_tree, remove_folder
from relay.checks.leftovers import end_leftovers
from relay.checks.reports import Stamp, read_figures, report_files
from relay.checks.results import Check, CheckResult, State
from relay.git.run import Git, GitError

#: Seconds until a scratch repository that was emptied is whole again.
EMPTIED_S = 1.0
#: Variables of this process that a command gets: of use to any program, and the same that an agent gets.
PASSED_ON = frozenset(
    {"PATH", "LANG", "LANGUAGE", "TERM", "TZ", "USER", "LOGNAME", "SHELL"}
    | {"SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS"}
    | {"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"}
    | {"http_proxy", "https_proxy", "all_proxy", "no_proxy"}
)


#: Gives the words that run a program with its arguments in a sandbox; the folder that it may write, and in it the
#: exported tree, where it runs. Blocks.
Wrap = Callable[[Sequence[str], Path, Path], Sequence[str]]


class Process(Protocol):
    """A program that runs, as `ChildProcess` is one. Nothing that it started is alive when its block is left."""

    exit: Exit | None

    def output(self) -> AsyncGenerator[tuple[int, bytes], None]: ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *_: object) -> None: ...


#: Starts a program (an absolute path, its arguments) with this environment, in this folder. Raises OSError.
Start = Callable[[Sequence[str], Mapping[str, str], Path], Awaitable[Process]]


async def in_background(argv: Sequence[str], env: Mapping[str, str], cwd: Path) -> Process:
    """A child of this process that nobody sees."""
    return await ChildProcess.start(argv, env=env, cwd=cwd)


class TreeCommand:
    """`git` reads the trees (`ScratchRepository.git`); `folder` is where they are exported, this one's alone.
    `environ`: the variables of this process."""

    def __init__(self, git: Git, folder: Path, environ: Mapping[str, str] | None = None) -> None:
        self.git, self._folder = git, folder
        self._environ = os.environ if environ is None else environ

    async def clean(self) -> None:
        """Remove what a killed process left in the folder. For a start, when nothing runs."""
        await asyncio.to_thread(self._clean)

    def _clean(self) -> None:
        with suppress(FileNotFoundError):
            for left in self._folder.iterdir():
                remove_folder(left)

    async def run(
        self,
        check: Check,
        tree: str,
        *,
        wrap: Wrap | None = None,
        watch: Callable[[bytes], None] = lambda data: None,
        start: Start = in_background,
        env: Mapping[str, str] | None = None,
    ) -> CheckResult:
        """Run the check in an export of `tree`, a tree's id. A cancelled call ends the command. `wrap`: the sandbox
        that it runs in, None = none; `watch` gets what it prints as it comes; `env`: variables beside its own. Raises
        OSError where `start`'s process is lost."""
        place = self._folder / uuid.uuid4().hex
        exported = place / "tree"
        try:
            try:
                await asyncio.to_thread(_make, place)
                await self._export(tree, place, exported)
            except (GitError, OSError) as error:
                return _not_run(check, tree, f"the tree could not be exported: {error}")
            given = {**self._environment(check, place), **(env or {})}
            return await self._run_in(check, tree, given, exported, wrap, watch, start)
        finally:
            await to_the_end(_cleared(place, sandboxed=wrap is not None))

    async def _export(self, tree: str, place: Path, exported: Path) -> None:
        """Export the tree; once more where git failed, since a scratch repository may be emptied meanwhile."""
        try:
            await export_tree(self.git, tree, exported, place / "index")
        except GitError:
            await asyncio.sleep(EMPTIED_S)
            await asyncio.to_thread(remove_folder, exported)
            await export_tree(self.git, tree, exported, place / "index")

    async def _run_in(
        self,
        check: Check,
        tree: str,
        env: Mapping[str, str],
        exported: Path,
        wrap: Wrap | None,
        watch: Callable[[bytes], None],
        start: Start,
    ) -> CheckResult:
        program = program_of(check.argv, exported, env["PATH"])
        if program is None:
            return _not_run(check, tree, f"there is no program {check.argv[0] if check.argv else ''!r}")
        before: Mapping[Path, Stamp] = {}
        if check.parse is not None and check.parse.report is not None:
            before = await asyncio.to_thread(report_files, exported, check.parse.report)
        output, timed_out = BoundedOutput(), False
        began = time.monotonic()
        argv: Sequence[str] = (program, *check.argv[1:])
        if wrap is not None:
            if shutil.which(program) is None:  # a sandbox would end as a program does that fails
                return _not_run(check, tree, f"there is no program {check.argv[0]!r} that can be run")
            argv = await asyncio.to_thread(wrap, argv, exported.parent, exported)
        try:
            process = await start(argv, env, exported)
        except (OSError, ValueError) as error:
            return _not_run(check, tree, f"{check.argv[0]} could not be started: {error}")
        async with process:
            try:
                async with asyncio.timeout(check.timeout_s):
                    async for _, data in process.output():
                        output.add(data)
                        watch(data)
            except TimeoutError:
                timed_out = True
        seconds = time.monotonic() - began
        ended = process.exit
        if ended is not None and ended.errno is not None:
            return _not_run(check, tree, f"{check.argv[0]} {ended}")
        code: int | None = None
        if not timed_out and ended is not None:
            code = ended.code if ended.code is not None else -(ended.signal or 0)
        state = State.TIMED_OUT if timed_out else State.PASSED if code == 0 else State.FAILED
        metrics: Mapping[str, float] = {}
        reason = f"it was ended after {check.timeout_s:g} s" if timed_out else ""
        if check.parse is not None and not timed_out:
            text = output.head + output.tail
            metrics, reason = await read_figures(check.parse, exported, before, text)
        return CheckResult(
            check.name,
            tree,
            check.digest,
            state,
            code,
            seconds,
            _from_tree(output.head, exported),
            _from_tree(output.tail, exported),
            output.count,
            metrics,
            reason,
        )

    def _environment(self, check: Check, place: Path) -> dict[str, str]:
        """As on a build server: a home and a temporary folder of its own, nothing of relay's, and git finds no
        repository above the tree."""
        env = {
            name: value
            for name, value in self._environ.items()
            if (name in PASSED_ON or name.startswith("LC_") or name in check.env)
            and not name.startswith("RELAY_")
        }
        own = {"HOME": str(place / "home"), "TMPDIR": str(place / "tmp")}
        fixed = {"CI": "true", "GIT_CEILING_DIRECTORIES": str(place)}
        return {"PATH": os.defpath, **own, **env, **fixed}


async def to_the_end(work: Coroutine[Any, Any, None]) -> None:
    """Do this work, whoever cancels meanwhile. A cancellation is raised afterwards."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    task.result()


async def _cleared(place: Path, *, sandboxed: bool) -> None:
    """End what got away from its shim, which nothing can in a sandbox, and remove the folder."""
    if not sandboxed:
        await asyncio.to_thread(end_leftovers, place)
    await asyncio.to_thread(remove_folder, place)


def _make(place: Path) -> None:
    place.mkdir(mode=0o700, parents=True)
    for name in ("home", "tmp"):
        (place / name).mkdir(mode=0o700)


def _from_tree(text: str, exported: Path) -> str:
    """What was printed, with the tree's files by their paths in it: its folder is gone when somebody reads that."""
    return text.replace(f"{exported}/", "").replace(f"{os.path.realpath(exported)}/", "")


def program_of(argv: Sequence[str], folder: Path, path: str) -> str | None:
    """The program's absolute path; None: there is none. A name with a slash is of the tree."""
    if not argv or not argv[0] or any("\0" in word for word in argv):
        return None
    if "/" in argv[0]:
        return os.path.normpath(folder / argv[0])
    found = shutil.which(
        argv[0], path=os.pathsep.join(part for part in path.split(os.pathsep) if part.startswith("/"))
    )
    return found


def _not_run(check: Check, tree: str, reason: str) -> CheckResult:
    return CheckResult(check.name, tree, check.digest, State.NOT_RUN, None, 0.0, "", "", 0, {}, reason)
