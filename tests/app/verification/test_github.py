"""Changes that GitHub tells, from the delivery to the commit status, over a fake GitHub and real trees."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

from relay.app.verification.github_statuses import CommitStatuses
from relay.app.verification.verifier import Verifier
from relay.config.verification import GithubSettings, VerificationSettings
from relay.log import events
from relay.verification import approvals, journal
from relay.verification.approvals import Answer
from relay.verification.github.changed_files import GithubFiles
from relay.verification.github.client import Github
from relay.verification.github.executor import GithubExecutor
from relay.verification.github.webhook import RunOver, parse
from relay.verification.policies import Executor
from relay.verification.verification import Change, Source, State, Verification
from tests.app.verification.place import Open, Place, policy, python
from tests.engines import BOTH, SQLITE, all_events
from tests.fakes import github_payloads as payloads
from tests.fakes.github import REPO, TOKEN, FakeGithub, file
from tests.fakes.github import github as github  # noqa: PLC0414 - the fixture
from tests.fakes.github_payloads import commit, sha
from tests.git.repository import git

pytestmark = BOTH

HEAD = sha("head")
ON_GITHUB = {"name": "ci", "tier": 1, "executor": "github", "patterns": ["*.py"], "workflow": "verify.yml"}


class Connected:
    """A place whose verifier reaches the fake GitHub."""

    def __init__(self, place: Place, fake: FakeGithub) -> None:
        self.place, self.fake, self.store = place, fake, place.store
        self.client = Github(
            lambda: place.settings.current.verification.github, {"GITHUB_TOKEN": TOKEN}, pauses=(0.01,)
        )
        self.verifier, self.executor = self.another()

    def another(self) -> tuple[Verifier, GithubExecutor]:
        """As a process that comes after this one has it."""
        executor = GithubExecutor(self.client, settle_s=60.0)
        executors = {Executor.INLINE: self.place.inline, Executor.GITHUB: executor}
        place = self.place
        verifier = Verifier(
            place.store,
            place.settings,
            place.registry,
            place.policies,
            executors,
            github=GithubFiles(self.client),
        )
        return verifier, executor

    async def tell(self, event: str, payload: Any) -> Verification:
        """A delivery comes."""
        change = parse(event, "d", payload, journal.new_id(), REPO)
        assert isinstance(change, Change)
        return await self.store.write(lambda tx: journal.ask(tx, change))

    async def verified(self, event: str, payload: Any) -> Verification:
        made = await self.tell(event, payload)
        return await asyncio.wait_for(self.verifier.finished(made.number), 60)

    async def standing(self, number: int) -> Verification:
        return await self.store.read(lambda tx: journal.load(tx, number))


@asynccontextmanager
async def connected(open_place: Open, fake: FakeGithub, **more: Any) -> AsyncIterator[Connected]:
    settings = GithubSettings(**{"repo": REPO, "api": fake.url, "poll_s": 0.1, "statuses": True, **more})
    place = await open_place(verification=VerificationSettings(github=settings))
    made = Connected(place, fake)
    try:
        yield made
    finally:
        await made.verifier.close()
        await made.client.close()


def pushed(*commits: Any, **more: Any) -> Any:
    return payloads.push(REPO, commits or [commit(HEAD, "Mend it", modified=["app.py"])], **more)


def work(place: Place, text: str = "def total():\n    return 2\n") -> tuple[str, str]:
    """A commit on a branch of the repository, and what it stands on."""
    base = git(place.folder, "rev-parse", "main").strip()
    git(place.folder, "checkout", "-q", "-B", "topic")
    (place.folder / "app.py").write_text(text)
    git(place.folder, "commit", "-qam", "work")
    head = git(place.folder, "rev-parse", "HEAD").strip()
    git(place.folder, "checkout", "-q", "main")
    return head, base


# -- which files, and of which tree


async def test_a_push_of_a_commit_that_is_nowhere_here_runs_on_github(
    open_place: Open, github: FakeGithub
) -> None:
    github.push("main", HEAD)
    github.began = lambda id: github.finish(id, "success") and None
    async with connected(open_place, github) as here:
        here.place.have(ON_GITHUB)
        done = await here.verified("push", pushed())
        (result,) = await here.place.results(done)
    assert (done.state, done.decides, done.change.files) == (State.PASSED, "ci", ("app.py",))
    assert (result.executor, result.url) == (Executor.GITHUB, "https://github.com/o/r/actions/runs/1")
    assert (result.tree, done.change.tree) == ("", None), "nobody has it here"
    assert github.inputs[1]["relay_id"] == f"{done.change.id}-ci-1"


async def test_a_failure_on_github_is_tried_once_more(open_place: Open, github: FakeGithub) -> None:
    github.push("main", HEAD)
    github.began = lambda id: github.finish(id, "failure", log="a.py:3: no") and None
    async with connected(open_place, github) as here:
        here.place.have(ON_GITHUB)
        done = await here.verified("push", pushed())
        told = done.as_json(await here.place.results(done))
    assert (done.state, done.reason) == (State.FAILED, "ci failed (on GitHub: build).")
    assert [result["attempt"] for result in told["results"]] == [1, 2]
    assert "a.py:3: no" in told["results"][1]["output"]
    assert [inputs["relay_id"][-5:] for inputs in github.inputs.values()] == ["-ci-1", "-ci-2"]


async def test_a_push_of_a_commit_that_is_here_runs_here(open_place: Open, github: FakeGithub) -> None:
    async with connected(open_place, github) as here:
        head, base = work(here.place)
        here.place.have(policy("lint", python("print(open('app.py').read())")))
        done = await here.verified("push", pushed(commit(head, modified=["app.py"]), before=base))
        (result,) = await here.place.results(done)
        assert done.state is State.PASSED and "return 2" in result.output
        assert result.tree == git(here.place.folder, "rev-parse", f"{head}^{{tree}}").strip()
        # GitHub could not list the files of this one: git names them.
        done = await here.verified("push", pushed(commit(head), before=base))
        assert (done.change.files, done.change.base) == (("app.py",), base)
        # A new branch stands on where it left the main one.
        done = await here.verified("push", pushed(commit(head), before=payloads.ZEROS))
        assert (done.change.files, done.change.base) == (("app.py",), base)
    assert github.asked == []


async def test_the_files_of_a_pull_request(open_place: Open, github: FakeGithub) -> None:
    """From git where it has both commits: what the main branch got meanwhile is none of it. Else from GitHub."""
    github.began = lambda id: github.finish(id, "success") and None
    async with connected(open_place, github) as here:
        here.place.have(ON_GITHUB)
        head, base = work(here.place)
        (here.place.folder / "README.md").write_text("More.\n")
        git(here.place.folder, "commit", "-qam", "meanwhile")
        later = git(here.place.folder, "rev-parse", "main").strip()
        github.push("topic", head)
        done = await here.verified("pull_request", payloads.pull_request(REPO, 4, head, later))
        assert (done.state, done.change.files, done.change.base) == (State.PASSED, ("app.py",), base)
        assert not any("/pulls/" in line for line in github.asked)

        github.push("topic", HEAD)
        github.pulls[5] = payloads.pull_request(REPO, 5, HEAD, later)["pull_request"]
        github.pull_files[5] = [file("new.py", "renamed", "old.md")]
        done = await here.verified("pull_request", payloads.pull_request(REPO, 5, HEAD, later))
        assert (done.state, done.change.files) == (State.PASSED, ("old.md", "new.py"))


async def test_what_cannot_be_looked_up_has_no_verdict(open_place: Open, github: FakeGithub) -> None:
    async with connected(open_place, github) as here:
        here.place.have(ON_GITHUB, policy("lint", python("pass")))
        pull = payloads.pull_request(REPO, 6, HEAD, sha("base"))
        done = await here.verified("pull_request", pull)
        assert done.state is State.ERROR and "GitHub has no /repos/o/r/pulls/6" in done.reason
        # A policy that runs here needs the commit here.
        done = await here.verified("push", pushed())
        assert (
            done.state is State.ERROR and "is not in this repository (`git fetch` brings it)" in done.reason
        )
        await github.stop()
        done = await here.verified("pull_request", pull)
        assert done.state is State.ERROR and "cannot be reached" in done.reason
        github.pulls[6] = pull["pull_request"]
        github.pull_files[6] = []
        await github.start()
        done = await here.verified("pull_request", pull)
        assert (done.state, done.reason) == (State.NOT_TESTED, "Nothing was changed.")


async def test_an_approval_is_of_one_commit(open_place: Open, github: FakeGithub) -> None:
    """Of commits that nobody has here none is the same as another, whatever their files are."""
    review = {"name": "review", "tier": 4, "executor": "manual", "patterns": ["**/auth/**"]}
    async with connected(open_place, github) as here:
        here.place.have(review)
        for number, name in enumerate(("one", "two"), 1):
            made = await here.tell("push", pushed(commit(sha(name), modified=["auth/x.py"])))
            task = asyncio.create_task(here.verifier.finished(made.number))
            async with asyncio.timeout(60):
                while not await here.store.read(approvals.waiting):  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
            await here.store.write(
                lambda tx, number=number: approvals.decide(tx, number, Answer.APPROVED, by="ann")
            )
            assert (await asyncio.wait_for(task, 60)).state is State.PASSED


async def test_what_an_agent_says_only_adds_files(open_place: Open, github: FakeGithub) -> None:
    async with connected(open_place, github) as here:
        head, base = work(here.place)
        here.place.have(policy("lint", python("pass")))
        change = Change(
            journal.new_id(), Source.AGENT, "CLOUD", "CLOUD", "topic", head, base, files=("docs/x.md",)
        )
        made = await here.store.write(lambda tx: journal.ask(tx, change))
        done = await here.verifier.finished(made.number)
        assert (done.state, done.change.files) == (State.PASSED, ("app.py", "docs/x.md"))


# -- killed, and going on


async def test_a_run_is_not_begun_twice_by_who_goes_on(open_place: Open, github: FakeGithub) -> None:
    """The process is gone while the run goes on: it cannot cancel it. The next one finds the run."""
    github.push("main", HEAD)
    async with connected(open_place, github) as here:
        here.place.have(ON_GITHUB)
        made = await here.tell("push", pushed())
        task = asyncio.create_task(here.verifier.finished(made.number))
        await github.dispatched()
        await github.was_asked("GET /repos/o/r/actions/runs/1")
        await github.stop()
        await here.verifier.close()
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        assert (await here.standing(made.number)).state is State.RUNNING
        await github.start()
        here.verifier, executor = here.another()
        task = asyncio.create_task(here.verifier.finished(made.number))
        await github.was_asked("GET /repos/o/r/actions/runs/1", sum("runs/1" in x for x in github.asked) + 1)
        github.finish(1, "success")
        executor.wake(RunOver(None, 1, "success"))
        done = await asyncio.wait_for(task, 60)
    assert (done.state, len(github.runs)) == (State.PASSED, 1)


async def test_ten_at_once(open_place: Open, github: FakeGithub) -> None:
    github.began = lambda id: github.finish(id, "success") and None
    async with connected(open_place, github) as here:
        here.place.have(ON_GITHUB)
        asked = []
        for number in range(10):
            head = github.push(f"b{number}", sha(str(number)))
            payload = pushed(commit(head, modified=["a.py"]), ref=f"refs/heads/b{number}")
            asked.append(await here.tell("push", payload))
        done = await asyncio.wait_for(
            asyncio.gather(*(here.verifier.finished(each.number) for each in asked)), 60
        )
    assert {each.state for each in done} == {State.PASSED}
    assert len({inputs["relay_id"] for inputs in github.inputs.values()}) == len(github.runs) == 10


# -- commit statuses


@asynccontextmanager
async def telling(here: Connected) -> AsyncIterator[None]:
    """Statuses are told within."""
    worker = CommitStatuses(here.store, here.place.settings, here.client, first_s=0.1)
    task = asyncio.create_task(worker.run())
    await caught_up(here)
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def caught_up(here: Connected) -> None:
    """All that ended until now was told, or left out, and is not told again."""
    ended = await all_events(here.store, journal.ENDED)
    wanted = ended[-1].pos if ended else 0
    async with asyncio.timeout(60):
        while True:
            row = await here.store.read(lambda tx: tx.one(events.Q.follower, name=CommitStatuses.name))
            if row is not None and row["pos"] >= wanted:
                return
            await asyncio.sleep(0.02)


async def told_states(github: FakeGithub, wanted: str) -> list[tuple[str, str]]:
    """(commit, state) of all statuses, once the last one is this."""
    async with asyncio.timeout(60):
        while not github.statuses or github.statuses[-1][1]["state"] != wanted:
            github.changed.clear()
            await github.changed.wait()
    return [(commit, told["state"]) for commit, told in github.statuses]


async def test_how_a_commit_stands_is_told(open_place: Open, github: FakeGithub) -> None:
    github.push("main", HEAD)
    async with connected(open_place, github) as here:
        here.place.have(ON_GITHUB)
        async with telling(here):
            made = await here.tell("push", pushed())
            task = asyncio.create_task(here.verifier.finished(made.number))
            assert await told_states(github, "pending") == [(HEAD, "pending")]
            github.finish((await github.dispatched())["id"], "success")
            await task
            assert (await told_states(github, "success"))[-1] == (HEAD, "success")
    assert github.statuses[-1][1] == {
        "state": "success",
        "description": "v1 passed: ci",
        "context": "relay/verification",
        "target_url": "https://github.com/o/r/actions/runs/1",
    }


async def test_what_is_no_success_is_never_told_as_one(open_place: Open, github: FakeGithub) -> None:
    github.push("main", HEAD)
    async with connected(open_place, github) as here, telling(here):
        await here.verified("push", pushed())
        assert (await told_states(github, "error"))[-1] == (HEAD, "error")
        assert github.statuses[-1][1]["description"] == "v1 not tested: There are no policies."
        here.place.have(policy("lint", python("raise SystemExit(1)")))
        head, base = work(here.place)
        github.commits.add(head)
        await here.verified("push", pushed(commit(head, modified=["app.py"]), before=base))
        assert (await told_states(github, "failure"))[-1] == (head, "failure")
    assert all(told["state"] != "success" for _, told in github.statuses)


async def test_statuses_wait_until_github_is_back(open_place: Open, github: FakeGithub) -> None:
    github.push("main", HEAD)
    async with connected(open_place, github) as here, telling(here):
        await github.stop()
        await here.verified("push", pushed())
        await asyncio.sleep(0.3)
        await github.start()
        assert (await told_states(github, "error"))[0] == (HEAD, "error")


async def test_who_tells_goes_on_where_it_was(open_place: Open, github: FakeGithub) -> None:
    """What was verified before is not told, and what comes while nobody tells is told later, once."""
    for name in ("before", "first", "second"):
        github.push(name, sha(name))
    async with connected(open_place, github) as here:
        await here.verified("push", pushed(commit(sha("before"), modified=["a.py"])))
        async with telling(here):
            await here.verified("push", pushed(commit(sha("first"), modified=["a.py"])))
            await caught_up(here)
        assert {commit for commit, _ in github.statuses} == {sha("first")}
        github.statuses.clear()
        await here.verified("push", pushed(commit(sha("second"), modified=["a.py"])))
        async with telling(here):
            await caught_up(here)
            assert github.statuses[-1][0] == sha("second")
            assert {commit for commit, _ in github.statuses} == {sha("second")}


@SQLITE
async def test_what_is_not_on_github_or_not_wanted_is_left_out(open_place: Open, github: FakeGithub) -> None:
    github.push("main", HEAD)
    async with connected(open_place, github) as here, telling(here):
        await here.verified("push", pushed(commit(sha("unknown"), modified=["a.py"])))
        place, now = here.place, here.place.settings.current
        off = replace(now.verification, github=replace(now.verification.github, statuses=False))
        await github.was_asked(f"statuses/{sha('unknown')}")
        place.settings.current = replace(now, verification=off)
        await here.verified("push", pushed())
        await caught_up(here)
        place.settings.current = now
        await here.verified("push", pushed(commit(HEAD, modified=["b.py"])))
        await told_states(github, "error")
    assert {told["description"][:2] for _, told in github.statuses} == {"v3"}
