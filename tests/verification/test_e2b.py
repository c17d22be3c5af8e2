"""Runs in sandboxes of E2B: the real SDK, and a stand-in for the service that speaks its protocol and runs the
programs."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from e2b import AsyncSandbox

from relay.verification.executors.e2b import E2bExecutor
from relay.verification.executors.executor import Ended
from relay.verification.verification import Outcome
from tests.fakes.e2b import KEY, FakeE2b
from tests.git.repository import commit
from tests.verification.runs import ENVIRON, MARK, Runs, marked
from tests.verification.windows import until

#: A child that left the group and the session, and the program itself, stay for ever.
STAYS = (
    "import subprocess, sys, time\n"
    "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], start_new_session=True)\n"
    "print('ready', flush=True)\ntime.sleep(600)\n"
)


async def ready(runs: Runs) -> None:
    await until(lambda: b"ready" in runs.watched, "the program to start")


@pytest.fixture
async def runs(tmp_path: Path) -> Runs:
    return await Runs.open(tmp_path, {"a.txt": "one\n", "plain.sh": "echo hi\n"})


@pytest.fixture
def executor(runs: Runs, fake_e2b: FakeE2b) -> E2bExecutor:
    return E2bExecutor(runs.runtime / "e2b", environ={**ENVIRON, "E2B_API_KEY": KEY})


def nothing_stays(runs: Runs, fake: FakeE2b) -> None:
    assert fake.running == {} and marked() == []
    folder = runs.runtime / "e2b"
    assert not folder.exists() or list(folder.iterdir()) == []


def error_of(ended: Ended) -> str:
    assert (ended.state, ended.exit_code, ended.sandboxed, ended.url) == (Outcome.ERROR, None, None, "")
    return ended.reason


async def test_what_runs_there(runs: Runs, executor: E2bExecutor, fake_e2b: FakeE2b) -> None:
    """The tree with its modes and links, whatever its attributes say, and of the environment what is named."""
    (runs.repo / "run.sh").write_text("#!/bin/sh\necho out; echo err >&2; exit $1\n")
    (runs.repo / "run.sh").chmod(0o755)
    (runs.repo / "link").symlink_to("/etc")
    (runs.repo / ".gitattributes").write_text("*.txt export-ignore\n")
    commit(runs.repo)
    code = (
        "import json, os; print(json.dumps([sorted(os.listdir()), os.readlink('link'), dict(os.environ)]));"
        "assert os.access('run.sh', os.X_OK)"
    )
    ended = await executor.run(runs.python(code, network=True))
    assert (ended.state, ended.exit_code, ended.sandboxed, ended.url) == (Outcome.PASSED, 0, None, "")
    files, link, environ = json.loads(ended.head)
    assert files == [".gitattributes", "a.txt", "link", "plain.sh", "run.sh"] and link == "/etc"
    assert environ["RUN_MARK"] == MARK and environ["CI"] == "true" and "E2B_API_KEY" not in environ
    assert bytes(runs.watched).decode() == ended.head and ended.output_bytes == len(runs.watched)
    ended = await executor.run(runs.run("./run.sh", "3"))
    assert (ended.state, ended.exit_code) == (Outcome.FAILED, 3)
    assert sorted(ended.head.splitlines()) == ["err", "out"]
    first, second = fake_e2b.asked
    assert first["metadata"] == {"relay_run": "c1-unit-tests-1"} and first["timeout"] == 360
    assert (first["templateID"], first["allow_internet_access"]) == ("base", True)
    assert second["allow_internet_access"] is False
    nothing_stays(runs, fake_e2b)


async def test_the_exit_is_as_a_shell_tells_it(runs: Runs, executor: E2bExecutor, fake_e2b: FakeE2b) -> None:
    for code, expected in (("raise SystemExit(255)", 255), ("import os; os.kill(os.getpid(), 9)", 137)):
        ended = await executor.run(runs.python(code))
        assert (ended.state, ended.exit_code) == (Outcome.FAILED, expected)
    # Words as they are, and more of them than one word of a command may have.
    words = [f"file {number} $HOME 'x' \\ *" for number in range(8000)]
    ended = await executor.run(runs.python("import sys; print(len(sys.argv), sys.argv[-1])", *words))
    assert ended.head == f"8001 {words[-1]}\n"
    nothing_stays(runs, fake_e2b)


async def test_what_is_missing_is_an_error(
    runs: Runs, executor: E2bExecutor, fake_e2b: FakeE2b, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_key = E2bExecutor(runs.runtime / "e2b", environ=ENVIRON)
    assert error_of(await without_key.run(runs.python("pass"))) == (
        "E2B_API_KEY is not set in the environment of the room"
    )
    needs = runs.python("pass", env=("NO_SUCH_KEY",))
    assert error_of(await executor.run(needs)) == "NO_SUCH_KEY is not set in the environment of the room"
    assert "is not in this repository" in error_of(await executor.run(replace(runs.python("pass"), tree="")))
    for program in ("relay-has-no-such-program", "./plain.sh", ""):
        reason = error_of(await executor.run(runs.run(program)))
        assert reason == f"there is no program {program!r} in the sandbox"
    nothing_stays(runs, fake_e2b)
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, "e2b", None)
        patched.delitem(sys.modules, "relay.verification.executors.e2b_sandbox", raising=False)
        reason = error_of(await executor.run(runs.python("pass")))
    assert reason.startswith("the SDK of E2B is not there: ")
    assert reason.endswith('(pip install "relay[e2b]")')


async def test_the_service_says_no(runs: Runs, executor: E2bExecutor, fake_e2b: FakeE2b) -> None:
    wrong = E2bExecutor(runs.runtime / "e2b", environ={**ENVIRON, "E2B_API_KEY": "e2b_wrong"})
    reason = error_of(await wrong.run(runs.python("pass")))
    assert reason.startswith("E2B: AuthenticationException: 401: Unauthorized")
    for path, status, said in (
        ("/v2/sandboxes", 400, "Timeout cannot be greater than 1 hours"),
        ("/files", 507, "not enough space"),
        ("/process.Process/Start", 500, "no process"),
    ):
        fake_e2b.refusals = {path: (status, said)}
        assert said in error_of(await executor.run(runs.python("pass")))
        nothing_stays(runs, fake_e2b)


async def test_nobody_answers(
    runs: Runs,
    executor: E2bExecutor,
    fake_e2b: FakeE2b,
    monkeypatch: pytest.MonkeyPatch,
    unused_tcp_port: int,
) -> None:
    monkeypatch.setenv("E2B_API_URL", f"http://127.0.0.1:{unused_tcp_port}")
    assert error_of(await executor.run(runs.python("pass"))).startswith("E2B: ConnectError: ")
    nothing_stays(runs, fake_e2b)


async def test_the_end_is_not_known(runs: Runs, executor: E2bExecutor, fake_e2b: FakeE2b) -> None:
    """The sandbox goes meanwhile, or the program ends the shell that would tell: that is no verdict."""
    running = asyncio.create_task(executor.run(runs.python(STAYS)))
    await ready(runs)
    (id,) = fake_e2b.running
    assert await AsyncSandbox.kill(id, api_key=KEY)
    assert error_of(await running).startswith("E2B: SandboxNotRunningException: ")
    nothing_stays(runs, fake_e2b)
    ended = await executor.run(runs.python("import os; os.kill(os.getppid(), 9)"))
    assert error_of(ended) == "the shell that ran it in the sandbox was ended"
    nothing_stays(runs, fake_e2b)


async def test_the_time_is_over(runs: Runs, executor: E2bExecutor, fake_e2b: FakeE2b) -> None:
    ended = await executor.run(runs.python(STAYS, timeout_s=3.0))
    assert (ended.state, ended.exit_code) == (Outcome.TIMED_OUT, None)
    assert ended.reason == "it was ended after 3 s"
    nothing_stays(runs, fake_e2b)


async def test_a_cancelled_run_leaves_no_sandbox(
    runs: Runs, executor: E2bExecutor, fake_e2b: FakeE2b
) -> None:
    running = asyncio.create_task(executor.run(runs.python(STAYS)))
    await ready(runs)
    assert marked() != []
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    nothing_stays(runs, fake_e2b)


async def test_it_is_cancelled_while_the_sandbox_is_made(
    runs: Runs, executor: E2bExecutor, fake_e2b: FakeE2b
) -> None:
    async def made() -> None:
        running.cancel()

    fake_e2b.made = made
    running = asyncio.create_task(executor.run(runs.python(STAYS)))
    with pytest.raises(asyncio.CancelledError):
        await running
    assert len(fake_e2b.asked) == 1
    nothing_stays(runs, fake_e2b)


async def test_a_resumed_run_begins_anew(runs: Runs, executor: E2bExecutor, fake_e2b: FakeE2b) -> None:
    """What a killed process left under the run's id is ended, on every page of the list, and no other sandbox."""
    for id in (*["c1-unit-tests-1"] * 5, "c1-unit-tests-11"):
        await AsyncSandbox.create(metadata={"relay_run": id}, api_key=KEY)
    ended = await executor.run(runs.python("print('anew')", resumed=True))
    assert (ended.state, ended.head) == (Outcome.PASSED, "anew\n")
    (other,) = fake_e2b.running.values()
    assert other.asked["metadata"] == {"relay_run": "c1-unit-tests-11"}


async def test_a_flood_is_bounded(runs: Runs, executor: E2bExecutor, fake_e2b: FakeE2b) -> None:
    code = (
        "import sys; w = sys.stdout.buffer.write; w(b'first\\n');"
        "[w(b'x' * 1048576) for _ in range(20)]; w(b'\\nlast\\n')"
    )
    ended = await executor.run(runs.python(code))
    assert ended.state is Outcome.PASSED and ended.output_bytes == 20 * 1_048_576 + 12
    assert ended.head.startswith("first\nx") and ended.tail.endswith("x\nlast\n")
    assert len(ended.head) == len(ended.tail) == 20_000


async def test_a_template_of_ones_own(runs: Runs, fake_e2b: FakeE2b) -> None:
    environ = {**ENVIRON, "E2B_API_KEY": KEY, "E2B_TEMPLATE": "ours"}
    executor = E2bExecutor(runs.runtime / "e2b", environ=environ)
    assert (await executor.run(runs.python("pass"))).state is Outcome.PASSED
    assert fake_e2b.asked[0]["templateID"] == "ours"
