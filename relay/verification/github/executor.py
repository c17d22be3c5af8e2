"""Carries a policy's run out on GitHub: dispatches its workflow, and waits until the run of it is over.

Invariants:
- a run on GitHub is ours by the id that it got in its inputs and shows in its title (`run-name`), never by being the
  newest of a branch. So whoever goes on after a kill finds it, and does not begin it twice;
- only `success`, with a job that has really run, is passed. Every other end is said as it is;
- a webhook only says when to look: what came of a run is read from GitHub, so a delivery that is lost, late or
  told twice changes nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote

from relay.checks.bounded_output import BoundedOutput
from relay.verification.executors.executor import Ended, Run, failed_to_run
from relay.verification.github.client import Github, LogLines
from relay.verification.github.errors import GithubError
from relay.verification.github.webhook import RunOver, relay_id_in
from relay.verification.verification import Change, Outcome

Json = dict[str, Any]
#: Seconds until a run that was dispatched is in GitHub's list: so long is looked before it is dispatched again, and
#: before it is said that it does not show its id.
SETTLE_S, APPEAR_S = 10.0, 120.0
#: Seconds for the request that cancels a run.
CANCEL_S = 5.0
#: Runs of a workflow on a branch that are looked through, the newest first. Jobs of which the log is read.
MOST_RUNS, MOST_LOGS = 300, 5
#: Runs that are each looked at every `poll_s` seconds; of more, each one more seldom: a token may ask 5,000 times an
#: hour.
AT_ONCE = 10
RUN_NAME = "run-name: relay ${{ inputs.relay_id }}"
#: Why a run that is over is neither passed nor failed.
_NO_VERDICT = {
    "startup_failure": "GitHub could not start it: the workflow's file has a fault",
    "action_required": "it waits on GitHub for a person who approves it there",
    "skipped": "GitHub skipped it, so nothing has run",
    "neutral": "it ended as neutral on GitHub, which is no success",
    "stale": "GitHub gave it up as stale",
}


@dataclass(slots=True)
class _Awaited:
    """A run that is carried out. `remote`: GitHub's id of it, `left`: of one that counts no more; `dispatched`: it
    may have been; `trouble`: why GitHub could not be asked the last time. `look` is set when there may be news."""

    remote: int | None = None
    left: int | None = None
    dispatched: bool = False
    over: bool = False
    url: str = ""
    trouble: str = ""
    look: asyncio.Event = field(default_factory=asyncio.Event)


class GithubExecutor:
    """`wake` is told what webhooks say; without it, runs are looked at every `verification.github.poll_s` seconds."""

    def __init__(self, github: Github, *, settle_s: float = SETTLE_S, appear_s: float = APPEAR_S) -> None:
        self._github, self._settle_s, self._appear_s = github, settle_s, appear_s
        self._awaited: dict[str, _Awaited] = {}

    def wake(self, over: RunOver) -> bool:
        """Look at once at the run that is told to be over. Is it one that is waited for?"""
        found = False
        for id, awaited in self._awaited.items():
            if over.relay_id == id or (over.run is not None and over.run == awaited.remote):
                awaited.look.set()
                found = True
        return found

    async def run(self, run: Run) -> Ended:
        if why := self._cannot(run):
            return failed_to_run(why)
        began, awaited = time.monotonic(), _Awaited()
        self._awaited[run.id] = awaited
        try:
            done = await self._carried(run, awaited)
        except asyncio.CancelledError:
            await self._cancel(run, awaited)
            raise
        except GithubError as error:
            done = failed_to_run(str(error))
        except (KeyError, TypeError, ValueError) as error:
            done = failed_to_run(f"GitHub's answer is of another shape: {error!r}")
        finally:
            del self._awaited[run.id]
        return replace(done, seconds=time.monotonic() - began, url=awaited.url)

    def _cannot(self, run: Run) -> str:
        """Why this cannot run on GitHub; empty: it can."""
        change = run.change
        if self._github.missing:
            return self._github.missing
        if not run.policy.workflow:
            return "the policy names no workflow: `workflow: verify.yml`"
        if change.commit is None:
            return "GitHub runs commits only, and the change is none yet: commit and push it"
        if fork := _of_github(change).get("fork"):
            return f"it comes from {fork}: no code of a fork runs with this repository's secrets"
        if not change.branch:
            return "it has no branch that GitHub could run the workflow on"
        return ""

    async def _carried(self, run: Run, awaited: _Awaited) -> Ended:
        try:
            async with asyncio.timeout(run.policy.timeout_s):
                remote, jobs = await self._over(run, awaited)
        except TimeoutError:
            await self._cancel(run, awaited)
            if awaited.trouble or awaited.remote is None:
                what = "its end" if awaited.remote is not None else "whether it began"
                why = awaited.trouble or "GitHub shows no run of it"
                return failed_to_run(f"{what} is not known after {run.policy.timeout_s:g} s: {why}")
            return Ended(Outcome.TIMED_OUT, f"it took longer than {run.policy.timeout_s:g} s")
        return await self._ended(run, remote, jobs)

    async def _over(self, run: Run, awaited: _Awaited) -> tuple[Json, list[Json]]:
        """The run on GitHub and its jobs, once it is over."""
        may_be_ended_by_us = awaited.dispatched = run.resumed
        await self._begin(run, awaited)
        remote, jobs = await self._wait(run, awaited)
        if remote["conclusion"] == "cancelled" and may_be_ended_by_us:
            # Who began it cancelled it when it was ended itself: that is no answer.
            awaited.left, awaited.remote = awaited.remote, None
            awaited.dispatched = awaited.over = False
            await self._begin(run, awaited)
            remote, jobs = await self._wait(run, awaited)
        return remote, jobs

    # -- beginning it

    async def _begin(self, run: Run, awaited: _Awaited) -> None:
        """Until GitHub has it: whatever may have been dispatched before is looked for first."""
        while True:
            try:
                if awaited.dispatched:
                    awaited.remote = await self._find(run, awaited, self._settle_s)
                if awaited.remote is None:
                    awaited.remote = await self._dispatch(run, awaited)
            except GithubError as error:
                if not error.passes:
                    raise
                awaited.trouble = str(error)
                run.watch(f"{error}\n".encode())
                await asyncio.sleep(max(self._github.settings().poll_s, error.after_s))
            else:
                awaited.trouble = ""
                return

    async def _dispatch(self, run: Run, awaited: _Awaited) -> int:
        """GitHub's id of the run that is begun by this. Raises GithubError."""
        commit = str(run.change.commit)
        try:
            await self._github.get(f"git/commits/{quote(commit)}")
        except GithubError as error:
            if error.status not in (404, 422):
                raise
            message = f"the commit {commit[:12]} is not on GitHub: push {run.change.branch}"
            raise GithubError(message, error.status) from None
        inputs = {"relay_id": run.id, "relay_commit": commit}
        awaited.dispatched = True
        told = await self._sent(run, {"ref": run.change.branch, "inputs": inputs, "return_run_details": True})
        if isinstance(told, dict) and "workflow_run_id" in told:
            return int(told["workflow_run_id"])
        found = await self._find(run, awaited, self._appear_s)
        if found is None:
            raise self._nameless(run)
        return found

    async def _sent(self, run: Run, body: Json) -> Any:
        workflow = _workflow(run)
        path = f"actions/workflows/{quote(workflow, safe='')}/dispatches"
        try:
            return await self._github.post(path, body, once=True)
        except GithubError as error:
            if error.status == 422 and "return_run_details" in str(error) and "return_run_details" in body:
                # A GitHub Enterprise Server that does not know it yet.
                del body["return_run_details"]
                return await self._sent(run, body)
            if error.status == 404:
                message = f"{self._github.repo} has no workflow {workflow} on its default branch"
                raise GithubError(f"{message}, or the token does not see it", 404) from None
            if error.status == 422:
                needs = "it needs `on: workflow_dispatch` with the inputs relay_id and relay_commit"
                message = f"GitHub does not begin {workflow} on {run.change.branch}: {error}; {needs}"
                raise GithubError(message, 422) from None
            raise

    async def _find(self, run: Run, awaited: _Awaited, within_s: float) -> int | None:
        """GitHub's id of the newest run that shows this run's id, looked for until `within_s` seconds are over.
        Raises GithubError."""
        branch, workflow = quote(run.change.branch, safe=""), quote(_workflow(run), safe="")
        path = f"actions/workflows/{workflow}/runs?event=workflow_dispatch&branch={branch}&per_page=100"
        until = time.monotonic() + within_s
        while True:
            for remote in await self._github.list(path, "workflow_runs", MOST_RUNS):
                if _names(remote, run) and remote["id"] != awaited.left:
                    return int(remote["id"])
            left = until - time.monotonic()
            if left <= 0:
                return None
            await asyncio.sleep(min(left, self._github.settings().poll_s, 2.0))

    def _nameless(self, run: Run) -> GithubError:
        return GithubError(f"no run of {_workflow(run)} shows its id: the workflow needs `{RUN_NAME}`")

    # -- waiting for its end

    async def _wait(self, run: Run, awaited: _Awaited) -> tuple[Json, list[Json]]:
        since, status = time.monotonic(), ""
        while True:
            awaited.look.clear()
            pause = self._github.settings().poll_s * max(1.0, len(self._awaited) / AT_ONCE)
            try:
                remote = await self._github.get(f"actions/runs/{awaited.remote}")
                awaited.url, awaited.trouble = str(remote.get("html_url") or ""), ""
                if not _names(remote, run):
                    # Whoever goes on after a kill would not find it.
                    await self._cancel(run, awaited)
                    raise self._nameless(run)
                if remote["status"] != status:
                    status = str(remote["status"])
                    run.watch(f"{status.replace('_', ' ')} on GitHub: {awaited.url}\n".encode())
                if status == "completed":
                    awaited.over = True
                    path = f"actions/runs/{awaited.remote}/jobs?filter=latest&per_page=100"
                    return remote, await self._github.list(path, "jobs")
            except GithubError as error:
                is_new = error.status == 404 and time.monotonic() - since < self._appear_s
                if not error.passes and not is_new:
                    raise
                awaited.trouble = str(error)
                run.watch(f"{error}\n".encode())
                pause = max(pause, error.after_s)
            with suppress(TimeoutError):
                await asyncio.wait_for(awaited.look.wait(), pause)

    async def _cancel(self, run: Run, awaited: _Awaited) -> None:
        """As well as it can be done in a short time: GitHub may not answer."""
        if awaited.over or not (awaited.dispatched or awaited.remote):
            return
        with suppress(GithubError, TimeoutError, KeyError, TypeError, ValueError):
            async with asyncio.timeout(CANCEL_S):
                remote = awaited.remote if awaited.remote is not None else await self._find(run, awaited, 0.0)
                if remote is not None:
                    await self._github.post(f"actions/runs/{remote}/cancel", once=True)

    # -- what came of it

    async def _ended(self, run: Run, remote: Json, jobs: Sequence[Json]) -> Ended:
        conclusion = str(remote["conclusion"])
        output = BoundedOutput()
        output.add("".join(f"{job['name']}: {job['conclusion']}\n" for job in jobs).encode())
        bad = [job for job in jobs if job["conclusion"] in ("failure", "timed_out")]
        match conclusion:
            case "success" if not any(job["conclusion"] == "success" for job in jobs):
                state, reason = Outcome.ERROR, "no job of it has run on GitHub"
            case "success":
                state, reason = Outcome.PASSED, _elsewhere(run, remote)
            case "failure":
                state, reason = Outcome.FAILED, f"on GitHub: {_named(bad)}"
            case "timed_out":
                state, reason = Outcome.TIMED_OUT, f"GitHub gave it no more time: {_named(bad)}"
            case "cancelled":
                state, reason = Outcome.CANCELLED, "it was cancelled on GitHub"
            case _:
                why = _NO_VERDICT.get(
                    conclusion, f"it ended as {conclusion[:60]} on GitHub, which is no success"
                )
                state, reason = Outcome.ERROR, why
        if state in (Outcome.FAILED, Outcome.TIMED_OUT):
            for job in bad[:MOST_LOGS]:
                await self._read_log(job, output)
        return Ended(state, reason, head=output.head, tail=output.tail, output_bytes=output.count)

    async def _read_log(self, job: Json, output: BoundedOutput) -> None:
        steps = [step["name"] for step in job.get("steps") or () if step.get("conclusion") == "failure"]
        output.add(f"\n== {job['name']}{': ' if steps else ''}{', '.join(steps)}\n".encode())
        try:
            await self._github.read_log(f"actions/jobs/{job['id']}/logs", LogLines(output))
        except GithubError as error:
            output.add(f"(its log cannot be read: {error})\n".encode())


def _workflow(run: Run) -> str:
    """The file's name, which is how GitHub calls a workflow."""
    return run.policy.workflow.rpartition("/")[2]


def _names(remote: Json, run: Run) -> bool:
    """Does this run on GitHub show the id of ours?"""
    return relay_id_in(remote.get("display_title"), remote.get("name")) == run.id


def _of_github(change: Change) -> Json:
    return dict(change.about.get("github") or {})


def _named(jobs: Sequence[Json]) -> str:
    names = [str(job["name"]) for job in jobs]
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return f"{', '.join(names[:5])}{more}" if names else "no job says why"


def _elsewhere(run: Run, remote: Json) -> str:
    """What is to be known of a success: whether GitHub began it on another commit than ours."""
    at = str(remote.get("head_sha") or "")
    if at == run.change.commit:
        return ""
    return f"{run.change.branch} had moved on to {at[:12]}; the workflow checks out relay_commit"
