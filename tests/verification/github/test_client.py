"""What asks GitHub: what it tries again, what it says of a failure, and that its memory is bounded."""

from __future__ import annotations

import time
from collections.abc import Mapping

import pytest

from relay.checks.bounded_output import BoundedOutput
from relay.verification.github.changed_files import GithubFiles
from relay.verification.github.client import Github, LogLines
from relay.verification.github.errors import GithubError
from relay.verification.verification import Change, Source
from tests.fakes import github_payloads as payloads
from tests.fakes.github import TOKEN, FakeGithub, Fault, file, log_text
from tests.fakes.github_payloads import sha
from tests.verification.github.asking import ENVIRON, HEAD, client

PATH = f"git/commits/{HEAD}"
LIMITED = {"x-ratelimit-limit": "5000", "x-ratelimit-remaining": "0"}


async def failure(asking: Github, path: str = PATH) -> GithubError:
    try:
        with pytest.raises(GithubError) as failed:
            await asking.get(path)
        return failed.value
    finally:
        await asking.close()


async def test_it_asks_with_the_token_and_the_version(github: FakeGithub) -> None:
    github.push("main", HEAD)
    asking = client(github)
    try:
        assert (await asking.get(PATH))["sha"] == HEAD
    finally:
        await asking.close()
    assert github.tokens == [f"token {TOKEN}"]


@pytest.mark.parametrize("status", [500, 502, 503, 520])
async def test_what_passes_by_itself_is_asked_again(github: FakeGithub, status: int) -> None:
    github.push("main", HEAD)
    asking = client(github)
    github.faults = [Fault(status), Fault(0)]
    try:
        assert (await asking.get(PATH))["sha"] == HEAD
    finally:
        await asking.close()
    assert len(github.asked) == 3


async def test_it_gives_up(github: FakeGithub) -> None:
    github.faults = [Fault(502, {"message": "Server Error"})] * 9
    error = await failure(client(github))
    assert "answers 502 (Server Error)" in str(error) and error.passes
    assert len(github.asked) == 3
    await github.stop()
    error = await failure(client(github))
    assert "cannot be reached" in str(error) and error.passes and error.status == 0


async def test_it_waits_as_long_as_github_asks_and_no_longer(github: FakeGithub) -> None:
    github.push("main", HEAD)
    asking = client(github)
    soon = str(int(time.time()) + 1)
    github.faults = [
        Fault(403, {"message": "API rate limit exceeded"}, {**LIMITED, "x-ratelimit-reset": soon}),
        Fault(429, {"message": "You have exceeded a secondary rate limit"}, {"retry-after": "1"}),
    ]
    try:
        assert (await asking.get(PATH))["sha"] == HEAD
    finally:
        await asking.close()
    late = str(int(time.time()) + 1800)
    github.faults = [
        Fault(403, {"message": "API rate limit exceeded"}, {**LIMITED, "x-ratelimit-reset": late})
    ]
    error = await failure(client(github))
    assert "rate limit" in str(error) and "UTC" in str(error)
    assert error.passes and error.after_s > 1700


@pytest.mark.parametrize(
    ("environ", "more", "path", "says"),
    [
        ({}, {}, PATH, "GITHUB_TOKEN is not set in the environment of the room"),
        ({"GITHUB_TOKEN": "  "}, {}, PATH, "GITHUB_TOKEN is not set"),
        (ENVIRON, {"token_env": "MY_TOKEN"}, PATH, "MY_TOKEN is not set"),
        (ENVIRON, {"repo": None}, PATH, "verification.github.repo is not set"),
        (ENVIRON, {"repo": "../x/y"}, PATH, "and not `owner/name`"),
        ({"GITHUB_TOKEN": "old"}, {}, PATH, "refuses the token in GITHUB_TOKEN (Bad credentials)"),
        (ENVIRON, {}, PATH, f"GitHub has no /repos/o/r/{PATH}"),
    ],
)
async def test_what_is_missing_is_named(
    github: FakeGithub, environ: Mapping[str, str], more: dict[str, object], path: str, says: str
) -> None:
    error = await failure(client(github, environ, **more), path)
    assert says in str(error) and not error.passes
    assert "old" not in str(error)


async def test_rights_that_are_missing_are_named(github: FakeGithub) -> None:
    github.faults = [Fault(403, {"message": "Resource not accessible by personal access token"})]
    error = await failure(client(github))
    assert "Resource not accessible" in str(error) and "Actions" in str(error) and not error.passes


async def test_an_answer_of_another_shape_is_a_failure(github: FakeGithub) -> None:
    github.pulls[1] = []  # type: ignore[assignment]
    assert "cannot be read" in str(await failure(client(github), "pulls/1"))


async def test_what_must_be_done_once_is_not_tried_again(github: FakeGithub) -> None:
    asking = client(github)
    body = {"state": "pending", "description": "", "context": "c"}
    github.push("main", HEAD)
    try:
        for fault in (Fault(502, done=True), Fault(0, done=True)):
            github.faults = [fault]
            with pytest.raises(GithubError):
                await asking.post(f"statuses/{HEAD}", body, once=True)
        github.faults = [Fault(429, headers={"retry-after": "1"})]
        await asking.post(f"statuses/{HEAD}", body, once=True)
    finally:
        await asking.close()
    assert len(github.statuses) == 3, "a refusal was not carried out"


# -- files


def of_pull(number: int = 4) -> Change:
    about = {"github": {"number": number, "default_branch": "main"}}
    return Change("c-1", Source.GITHUB, "a", "a", commit=HEAD, base=sha("base"), about=about)


async def files(github: FakeGithub, change: Change) -> tuple[str, ...]:
    asking = client(github)
    try:
        return await GithubFiles(asking).files_of(change)
    finally:
        await asking.close()


def pull(head: str = HEAD) -> payloads.Json:
    told: payloads.Json = payloads.pull_request("o/r", 4, head, sha("base"))["pull_request"]
    return told


async def test_all_pages_of_a_pull_requests_files(github: FakeGithub) -> None:
    github.pulls[4] = pull()
    some = [file(f"src/{number}.py") for number in range(248)]
    github.pull_files[4] = [*some, file("to.py", "renamed", "from.py"), file("gone.py", "removed")]
    found = await files(github, of_pull())
    assert found == (*(f"src/{number}.py" for number in range(248)), "from.py", "to.py", "gone.py")
    assert sum("/files" in line for line in github.asked) == 3


async def test_a_pull_request_that_moved_on_is_compared(github: FakeGithub) -> None:
    github.pulls[4] = pull(sha("newer"))
    github.pull_files[4] = [file("newer.py")]
    github.compared[f"{sha('base')}...{HEAD}"] = [file("ours.py")]
    assert await files(github, of_pull()) == ("ours.py",)


async def test_a_list_that_github_cuts_is_no_answer(github: FakeGithub) -> None:
    github.pulls[4] = pull()
    github.pull_files[4] = [file(f"{number}.py") for number in range(3100)]
    with pytest.raises(GithubError, match="no more than 3,000 files of pull request 4: `git fetch`"):
        await files(github, of_pull())
    push = Change("c-1", Source.GITHUB, "a", "a", commit=HEAD, about={"github": {"default_branch": "a/main"}})
    github.compared[f"a/main...{HEAD}"] = [file(f"{number}.py") for number in range(300)]
    with pytest.raises(GithubError, match="no more than 300 files"):
        await files(github, push)
    github.compared[f"a/main...{HEAD}"].pop()
    assert len(await files(github, push)) == 299


# -- logs


async def read(github: FakeGithub, log: bytes) -> BoundedOutput:
    github.logs[1] = log
    output, asking = BoundedOutput(), client(github)
    try:
        await asking.read_log("actions/jobs/1/logs", LogLines(output))
    finally:
        await asking.close()
    return output


async def test_a_log_ends_with_its_last_error(github: FakeGithub) -> None:
    output = await read(github, log_text("a.py:3: no", "failure"))
    assert output.head == (
        "##[group]Run tests\n##[endgroup]\na.py:3: no\n##[error]Process completed with exit code 1.\n"
    )
    assert "git version" in (await read(github, log_text("fine", "success"))).head


async def test_of_a_large_log_the_ends_are_kept(github: FakeGithub) -> None:
    said = "\n".join(f"line {number} {'x' * 90}" for number in range(100_000))
    output = await read(github, log_text(said, "failure"))
    assert output.count > 9_000_000
    assert (len(output.head), len(output.tail)) == (20_000, 20_000)
    assert "line 0 " in output.head and output.tail.endswith("##[error]Process completed with exit code 1.\n")
    one_line = await read(github, b"y" * 3_000_000)
    assert len(one_line.head) == 20_000


async def test_a_log_that_is_gone_is_a_failure(github: FakeGithub) -> None:
    asking = client(github)
    try:
        with pytest.raises(GithubError, match="answers 410"):
            await asking.read_log("actions/jobs/1/logs", LogLines(BoundedOutput()))
    finally:
        await asking.close()
