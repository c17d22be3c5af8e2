"""One run in a sandbox of E2B, by their SDK.

Invariants: the sandbox is killed before `run_in_sandbox` ends, also when it is cancelled while the service makes it.
The service knows it by the run's id. The program's exit code is the one that a shell tells: 128 and the number of the
signal that ended it. Where that shell itself was ended, nobody knows how the program would have: that is an error.

Only this module imports the SDK.
"""

from __future__ import annotations

import asyncio
import shlex
import time
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any

import structlog
from e2b import ApiParams, AsyncSandbox, CommandExitException, CommandResult, SandboxQuery

from relay.base.terminal_text import safe_line
from relay.checks.bounded_output import BoundedOutput
from relay.checks.tree_command import to_the_end
from relay.verification.executors.e2b import API_KEY, SCRIPT, TEMPLATE, TREE
from relay.verification.executors.executor import Ended, Run, failed_to_run
from relay.verification.verification import Outcome

log = structlog.get_logger(__name__)
#: Seconds for one request to the service, and for the archive on its way to the sandbox.
REQUEST_S, UPLOAD_S = 30.0, 900.0
#: Seconds beyond the policy's own that a sandbox has at most, for what comes before and after the program.
SPARE_S = 300
#: The key of a sandbox's metadata that has the run's id.
RUN = "relay_run"
#: Where the archive is unpacked, below the home of the sandbox's user.
PLACE, ARCHIVE = "relay-run", "relay-run.tgz"


async def run_in_sandbox(run: Run, archive: Path, environ: Mapping[str, str]) -> Ended:
    """Carry a run out in a sandbox of its own. Raises what the SDK raises."""
    api = ApiParams(api_key=environ[API_KEY], request_timeout=REQUEST_S)
    if run.resumed:
        await kill_left(run.id, api)
    making = asyncio.ensure_future(_made(run, environ.get(TEMPLATE) or None, api))
    try:
        sandbox = await asyncio.shield(making)
        if why := await _unpacked(sandbox, archive, run):
            return failed_to_run(why)
        return await _carried_out(sandbox, run, environ)
    finally:
        await to_the_end(_killed(making, run))


async def kill_left(id: str, api: ApiParams) -> None:
    """End the sandboxes that an earlier process made for this run."""
    pages = AsyncSandbox.list(query=SandboxQuery(metadata={RUN: id}), **api)
    left = []
    while pages.has_next:  # all of the list first: a page may begin elsewhere once there are fewer
        left += await pages.next_items()
    for sandbox in left:
        await AsyncSandbox.kill(sandbox.sandbox_id, **api)


async def _made(run: Run, template: str | None, api: ApiParams) -> AsyncSandbox:
    policy = run.policy
    return await AsyncSandbox.create(
        template,
        timeout=int(policy.timeout_s) + SPARE_S,
        metadata={RUN: run.id},
        allow_internet_access=policy.network,
        **api,
    )


async def _killed(making: asyncio.Future[AsyncSandbox], run: Run) -> None:
    try:
        sandbox = await making
    except Exception:
        return  # there is none, and the run says why
    try:
        await sandbox.kill()
    except Exception as error:
        log.warning("a sandbox stays until its time is over", run=run.id, reason=safe_line(str(error)))


async def _unpacked(sandbox: AsyncSandbox, archive: Path, run: Run) -> str:
    """Put the tree there. Why the program cannot run; empty: it can."""
    async with asyncio.timeout(UPLOAD_S):
        with await asyncio.to_thread(archive.open, "rb") as file:
            await sandbox.files.write(ARCHIVE, file)
    try:
        await sandbox.commands.run(
            f"mkdir {PLACE} && tar -xzf {ARCHIVE} -C {PLACE} && rm {ARCHIVE}", timeout=UPLOAD_S
        )
    except CommandExitException as error:
        return f"the tree could not be unpacked in the sandbox: {safe_line(error.stderr)}"
    name = run.argv[0] if run.argv else ""
    try:
        await sandbox.commands.run(f"cd {PLACE}/{TREE} && command -v -- {shlex.quote(name)}")
    except CommandExitException:
        return f"there is no program {name!r} in the sandbox"
    return ""


async def _carried_out(sandbox: AsyncSandbox, run: Run, environ: Mapping[str, str]) -> Ended:
    output, seconds = BoundedOutput(), run.policy.timeout_s

    def add(text: str) -> None:
        data = text.encode()
        output.add(data)
        run.watch(data)

    code: int | None
    began = time.monotonic()
    program = await sandbox.commands.run(
        f"bash {PLACE}/{SCRIPT}",
        background=True,
        envs={"CI": "true"} | {name: environ[name] for name in run.policy.env},
        timeout=0,  # the service's own limit would not say what it was
        on_stdout=add,
        on_stderr=add,
        retain_output=False,
    )
    ending = asyncio.ensure_future(_exit_code(program.wait()))
    try:
        await asyncio.wait([ending], timeout=seconds)
        if not ending.done():
            state, code, reason = Outcome.TIMED_OUT, None, f"it was ended after {seconds:g} s"
        elif (code := ending.result()) < 0:
            state, code, reason = Outcome.ERROR, None, "the shell that ran it in the sandbox was ended"
        else:
            state, reason = (Outcome.PASSED if code == 0 else Outcome.FAILED), ""
    finally:
        ending.cancel()
        await program.disconnect()
    took = time.monotonic() - began
    return Ended(state, reason, code, took, output.head, output.tail, output.count)


async def _exit_code(end: Coroutine[Any, Any, CommandResult[None]]) -> int:
    try:
        return (await end).exit_code
    except CommandExitException as error:
        return int(error.exit_code)
