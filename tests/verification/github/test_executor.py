"""Runs on GitHub: begun once, known by their id, ended as GitHub ended them; whatever GitHub does meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from relay.verification.executors.executor import Ended, Run
from relay.verification.github.executor import GithubExecutor
from relay.verification.github.webhook import RunOver
from relay.verification.verification import Outcome
from tests.fakes.github import INPUTS, FakeGithub, Fault, Workflow
from tests.fakes.github_payloads import sha
from tests.verification.github.asking import ENVIRON, HEAD, RELAY_ID, client, run

#: Nobody looks by himself within a test. A run that is in the list is found within that, however slow the machine is.
NEVER_S, SETTLED_S = 3600.0, 60.0


@asynccontextmanager
async def executor(
    fake: FakeGithub, environ: Any = ENVIRON, settle_s: float = 0.3, **more: Any
) -> AsyncIterator[GithubExecutor]:
    asking = client(fake, environ, **more)
    try:
        yield GithubExecutor(asking, settle_s=settle_s, appear_s=0.5)
    finally:
        await asking.close()


async def ended(fake: FakeGithub, wanted: Run | None = None, **more: Any) -> Ended:
    async with executor(fake, **more) as made:
        return await asyncio.wait_for(made.run(wanted or run()), 60)


async def while_running(
    fake: FakeGithub,
    work: Callable[[GithubExecutor], Awaitable[None]],
    wanted: Run | None = None,
    **more: Any,
) -> Ended:
    """How a run ends beside which `work` is done, as long as it goes on."""
    async with executor(fake, **more) as made, asyncio.timeout(60):
        task, other = asyncio.create_task(made.run(wanted or run())), asyncio.ensure_future(work(made))
        await asyncio.wait([task, other], return_when=asyncio.FIRST_COMPLETED)
        if not other.done():
            other.cancel()
        await asyncio.gather(other, return_exceptions=task.done())
        return await task


@pytest.fixture(autouse=True)
def _pushed(github: FakeGithub) -> None:
    github.push("main", HEAD)


def ends(github: FakeGithub, conclusion: str, jobs: Any = None, log: str = "it ran") -> None:
    """Every run ends so, as soon as it is begun."""
    github.began = lambda id: github.finish(id, conclusion, jobs, log) and None


def dispatches(github: FakeGithub) -> int:
    return sum(line.startswith("POST") and "/dispatches" in line for line in github.asked)


# -- what comes of it


async def test_a_run_that_succeeds_has_passed(github: FakeGithub) -> None:
    ends(github, "success", [("lint", "success"), ("build", "skipped")])
    shown: list[bytes] = []
    done = await ended(github, run(watch=shown.append))
    assert (done.state, done.reason) == (Outcome.PASSED, "")
    assert done.url == "https://github.com/o/r/actions/runs/1" and done.seconds > 0
    assert done.head == "lint: success\nbuild: skipped\n" and done.sandboxed is None
    assert github.inputs == {1: {"relay_id": RELAY_ID, "relay_commit": HEAD}}
    assert b"completed on GitHub: https://github.com/o/r/actions/runs/1\n" in shown


async def test_a_run_that_fails_has_the_lines_of_its_jobs(github: FakeGithub) -> None:
    ends(github, "failure", [("lint", "success"), ("build", "failure"), ("unit", "failure")], "a.py:3: no")
    done = await ended(github)
    assert (done.state, done.reason) == (Outcome.FAILED, "on GitHub: build, unit")
    assert done.head.startswith("lint: success\nbuild: failure\nunit: failure\n\n== build: Run tests\n")
    assert done.head.endswith("a.py:3: no\n##[error]Process completed with exit code 1.\n")
    assert done.head.count("a.py:3: no") == 2 and "Post job cleanup" not in done.head


async def test_a_log_that_is_gone_is_said(github: FakeGithub) -> None:
    def end(id: int) -> None:
        github.finish(id, "failure")
        github.logs.clear()

    github.began = end
    done = await ended(github)
    assert done.state is Outcome.FAILED and "(its log cannot be read: GitHub answers 410" in done.head


@pytest.mark.parametrize(
    ("conclusion", "jobs", "state", "says"),
    [
        ("cancelled", [], Outcome.CANCELLED, "cancelled on GitHub"),
        ("timed_out", [("build", "timed_out")], Outcome.TIMED_OUT, "no more time: build"),
        ("skipped", [("build", "skipped")], Outcome.ERROR, "nothing has run"),
        ("neutral", [("build", "neutral")], Outcome.ERROR, "no success"),
        ("action_required", [], Outcome.ERROR, "a person"),
        ("stale", [], Outcome.ERROR, "stale"),
        ("startup_failure", [], Outcome.ERROR, "a fault"),
        ("splendid", [("build", "success")], Outcome.ERROR, "splendid on GitHub, which is no success"),
        ("success", [], Outcome.ERROR, "no job of it has run"),
        ("success", [("build", "skipped")], Outcome.ERROR, "no job of it has run"),
        ("failure", [], Outcome.FAILED, "no job says why"),
    ],
)
async def test_only_success_is_success(
    github: FakeGithub, conclusion: str, jobs: Any, state: Outcome, says: str
) -> None:
    ends(github, conclusion, jobs)
    done = await ended(github)
    assert done.state is state and says in done.reason


async def test_a_branch_that_moved_on_is_said(github: FakeGithub) -> None:
    github.push("main", sha("newer"))
    ends(github, "success")
    done = await ended(github)
    assert done.state is Outcome.PASSED and f"moved on to {sha('newer')[:12]}" in done.reason


# -- which run is ours


async def test_the_newest_run_of_the_branch_is_not_ours(github: FakeGithub) -> None:
    """A server that does not tell which run it began, and other runs before and behind ours."""
    github.is_old = True
    other = RELAY_ID.removesuffix("1") + "11"

    def begin(id: int) -> None:
        github.finish(id, "failure")
        for title in ("Mend it", f"relay {other}", f"relay x{RELAY_ID}"):
            github.finish(github.begin(title, "main")["id"], "success")

    github.finish(github.begin("relay", "main")["id"], "success")
    github.began = begin
    done = await ended(github)
    assert (done.state, done.url) == (Outcome.FAILED, "https://github.com/o/r/actions/runs/2")
    assert dispatches(github) == 2, "once with return_run_details, which this server refuses"


async def test_a_run_is_found_behind_a_page_of_others(github: FakeGithub) -> None:
    ours = github.begin(f"relay {RELAY_ID}", "main")
    for number in range(150):
        github.begin(f"relay {number}", "main")
    github.finish(ours["id"], "success")
    done = await ended(github, run(resumed=True))
    assert (done.state, dispatches(github)) == (Outcome.PASSED, 0)


async def test_a_workflow_that_does_not_show_the_id_is_refused(github: FakeGithub) -> None:
    """Whoever goes on after a kill would not find its run, and begin another."""
    github.workflows["verify.yml"] = Workflow(run_name="Verify")
    done = await ended(github)
    assert done.state is Outcome.ERROR and "run-name: relay ${{ inputs.relay_id }}" in done.reason
    assert github.runs[0]["conclusion"] == "cancelled"
    github.is_old = True
    done = await ended(github)
    assert done.state is Outcome.ERROR and "run-name: relay ${{ inputs.relay_id }}" in done.reason


# -- webhooks


async def test_a_webhook_says_when_to_look(github: FakeGithub) -> None:
    async def work(made: GithubExecutor) -> None:
        remote = await github.dispatched()
        await github.was_asked("GET /repos/o/r/actions/runs/1")
        assert not made.wake(RunOver("another-id", 99, "success"))
        assert not made.wake(RunOver(None, None, "success"))
        # What a delivery says of a run is not believed: it is looked at.
        assert made.wake(RunOver(RELAY_ID, None, "success"))
        await github.was_asked("GET /repos/o/r/actions/runs/1", 2)
        github.finish(remote["id"], "failure")
        assert made.wake(RunOver(None, remote["id"], "success"))

    done = await while_running(github, work, poll_s=NEVER_S)
    assert done.state is Outcome.FAILED


async def test_without_webhooks_it_looks_itself(github: FakeGithub) -> None:
    async def work(made: GithubExecutor) -> None:
        remote = await github.dispatched()
        await github.was_asked("GET /repos/o/r/actions/runs/1", 3)
        github.finish(remote["id"], "success")

    assert (await while_running(github, work)).state is Outcome.PASSED


async def test_nobody_waits_for_a_run_that_is_over(github: FakeGithub) -> None:
    ends(github, "success")
    async with executor(github) as made:
        await made.run(run())
        assert not made.wake(RunOver(RELAY_ID, 1, "success"))


# -- ends that come from here


async def test_a_run_that_never_ends_is_timed_out_and_cancelled(github: FakeGithub) -> None:
    done = await ended(github, run(timeout_s=3))
    assert (done.state, done.reason) == (Outcome.TIMED_OUT, "it took longer than 3 s")
    assert github.runs[0]["conclusion"] == "cancelled"
    assert done.url == "https://github.com/o/r/actions/runs/1"


async def test_a_cancelled_call_cancels_the_run(github: FakeGithub) -> None:
    async with executor(github, poll_s=NEVER_S) as made:
        task = asyncio.create_task(made.run(run()))
        await github.was_asked("GET /repos/o/r/actions/runs/1")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert github.runs[0]["conclusion"] == "cancelled"


async def test_a_cancelled_call_ends_also_where_github_is_away(github: FakeGithub) -> None:
    async with executor(github, poll_s=NEVER_S) as made:
        task = asyncio.create_task(made.run(run()))
        await github.was_asked("GET /repos/o/r/actions/runs/1")
        await github.stop()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 60)


# -- going on


async def test_who_goes_on_finds_the_run_and_begins_no_other(github: FakeGithub) -> None:
    remote = github.begin(f"relay {RELAY_ID}", "main")

    async def work(made: GithubExecutor) -> None:
        await github.was_asked("GET /repos/o/r/actions/runs/1")
        github.finish(remote["id"], "success")

    done = await while_running(github, work, run(resumed=True))
    assert (done.state, len(github.runs)) == (Outcome.PASSED, 1)


async def test_a_run_that_is_listed_late_is_found_too(github: FakeGithub) -> None:
    remote = github.begin(f"relay {RELAY_ID}", "main")
    github.unlisted.add(remote["id"])

    async def work(made: GithubExecutor) -> None:
        await github.was_asked("/actions/workflows/verify.yml/runs")
        github.unlisted.clear()
        github.finish(remote["id"], "success")

    done = await while_running(github, work, run(resumed=True), settle_s=SETTLED_S)
    assert (done.state, len(github.runs)) == (Outcome.PASSED, 1)


async def test_what_was_killed_before_it_began_is_begun(github: FakeGithub) -> None:
    ends(github, "success")
    done = await ended(github, run(resumed=True))
    assert (done.state, dispatches(github)) == (Outcome.PASSED, 1)


async def test_a_run_that_a_stop_of_relay_cancelled_is_begun_again(github: FakeGithub) -> None:
    async with executor(github, poll_s=NEVER_S) as made:
        task = asyncio.create_task(made.run(run()))
        await github.was_asked("GET /repos/o/r/actions/runs/1")
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    ends(github, "success")
    # Where the answer to the new dispatch is lost, the cancelled run is not taken for the new one.
    github.faults = [Fault(502, done=True, path="/dispatches")]
    done = await ended(github, run(resumed=True), settle_s=SETTLED_S)
    assert (done.state, done.url) == (Outcome.PASSED, "https://github.com/o/r/actions/runs/2")
    # The next one to go on sees the newer of the two.
    done = await ended(github, run(resumed=True))
    assert (done.state, len(github.runs)) == (Outcome.PASSED, 2)


# -- when GitHub fails


@pytest.mark.parametrize("status", [0, 502])
async def test_a_dispatch_whose_answer_is_lost_is_not_done_again(github: FakeGithub, status: int) -> None:
    ends(github, "success")
    github.faults = [Fault(status, done=True, path="/dispatches")]
    done = await ended(github, settle_s=SETTLED_S)
    assert (done.state, len(github.runs), dispatches(github)) == (Outcome.PASSED, 1, 1)


async def test_a_dispatch_that_failed_is_done_again(github: FakeGithub) -> None:
    ends(github, "success")
    github.faults = [Fault(502, path="/dispatches"), Fault(502, path="/runs?")]
    done = await ended(github)
    assert (done.state, len(github.runs), dispatches(github)) == (Outcome.PASSED, 1, 2)


async def test_github_is_away_and_comes_back(github: FakeGithub) -> None:
    async def work(made: GithubExecutor) -> None:
        remote = await github.dispatched()
        await github.was_asked("GET /repos/o/r/actions/runs/1")
        await github.stop()
        await asyncio.sleep(0.5)
        github.faults = [Fault(503)] * 4
        await github.start()
        await github.was_asked("GET /repos/o/r/actions/runs/1", 4)
        github.finish(remote["id"], "success")

    done = await while_running(github, work)
    assert (done.state, dispatches(github)) == (Outcome.PASSED, 1)


async def test_github_is_away_when_it_begins(github: FakeGithub) -> None:
    ends(github, "success")
    await github.stop()

    async def work(made: GithubExecutor) -> None:
        await asyncio.sleep(0.5)
        await github.start()

    done = await while_running(github, work)
    assert (done.state, dispatches(github)) == (Outcome.PASSED, 1)


async def test_what_github_does_not_say_is_no_verdict(github: FakeGithub) -> None:
    async def work(made: GithubExecutor) -> None:
        await github.was_asked("GET /repos/o/r/actions/runs/1")
        await github.stop()

    done = await while_running(github, work, run(timeout_s=3))
    assert done.state is Outcome.ERROR
    assert done.reason.startswith("its end is not known after 3 s: GitHub (")
    done = await ended(github, run(timeout_s=0.5))
    assert done.state is Outcome.ERROR and done.reason.startswith(
        "whether it began is not known after 0.5 s: GitHub ("
    )


@pytest.mark.parametrize(
    ("more", "change", "says"),
    [
        ({"repo": None}, {}, "verification.github.repo is not set"),
        ({"environ": {}}, {}, "GITHUB_TOKEN is not set"),
        ({"environ": {"GITHUB_TOKEN": "old"}}, {}, "refuses the token in GITHUB_TOKEN"),
        ({}, {"commit": None}, "commit and push it"),
        ({}, {"commit": sha("mine")}, f"the commit {sha('mine')[:12]} is not on GitHub: push main"),
        ({}, {"branch": "topic"}, "No ref found for: topic"),
        ({}, {"branch": ""}, "no branch"),
        ({}, {"workflow": "other.yml"}, "o/r has no workflow other.yml"),
        ({}, {"workflow": ""}, "names no workflow"),
        ({}, {"about": {"github": {"fork": "eve/r"}}}, "it comes from eve/r: no code of a fork"),
    ],
)
async def test_what_is_missing_is_an_error_that_names_it(
    github: FakeGithub, more: Any, change: Any, says: str
) -> None:
    done = await ended(github, run(**change), **more)
    assert done.state is Outcome.ERROR and says in done.reason
    assert github.runs == []


@pytest.mark.parametrize(
    ("workflow", "says"),
    [
        (Workflow(inputs=INPUTS - {"relay_commit"}), "relay_commit"),
        (Workflow(dispatchable=False), "Workflow does not have 'workflow_dispatch' trigger"),
    ],
)
async def test_a_workflow_that_cannot_be_begun_says_what_it_needs(
    github: FakeGithub, workflow: Workflow, says: str
) -> None:
    github.workflows["verify.yml"] = workflow
    done = await ended(github)
    assert done.state is Outcome.ERROR and says in done.reason
    assert "it needs `on: workflow_dispatch` with the inputs relay_id and relay_commit" in done.reason


async def test_a_run_that_somebody_deletes_is_an_error(github: FakeGithub) -> None:
    async def work(made: GithubExecutor) -> None:
        await github.dispatched()
        await github.was_asked("GET /repos/o/r/actions/runs/1")
        github.runs.clear()

    done = await while_running(github, work)
    assert done.state is Outcome.ERROR and "GitHub has no /repos/o/r/actions/runs/1" in done.reason


async def test_an_answer_of_another_shape_is_an_error(github: FakeGithub) -> None:
    def begin(id: int) -> None:
        del github.finish(id, "success")["status"]

    github.began = begin
    done = await ended(github)
    assert done.state is Outcome.ERROR and "of another shape" in done.reason
