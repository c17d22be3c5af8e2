"""Repositories and programs that mean harm, run by `inline` and by `ntm`: what they reach, and that nothing of them
stays. What only a sandbox holds off is tried in one, and what is run without says so."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from pathlib import Path

import pytest

from relay.verification.executors.inline import InlineExecutor
from relay.verification.executors.ntm import TmuxExecutor
from relay.verification.verification import Outcome, State
from tests.app.verification.place import Open, policy, python
from tests.git.repository import git, write
from tests.verification.runs import ENVIRON, Runs, marked

pytestmark = pytest.mark.usefixtures("tmux_folder")
#: A child that leaves the session by two forks and is deaf to TERM.
GETS_AWAY = (
    "import os, signal, sys, time\n"
    "def away():\n"
    "    said, says = os.pipe()\n"
    "    if os.fork() == 0:\n"
    "        os.setsid()\n"
    "        if os.fork() == 0:\n"
    "            signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "            signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
    "            os.write(1, b'away\\n')\n"
    "            os.write(says, b'x')\n"
    "            time.sleep(600)\n"
    "        os._exit(0)\n"
    "    os.wait()\n"
    "    os.read(said, 1)\n"  # it may begin later than its parent ends
)
REPORT = '<testsuite tests="2"><testcase name="a"/><testcase name="b"/></testsuite>'


@pytest.fixture
async def runs(tmp_path: Path) -> Runs:
    return await Runs.open(tmp_path)


@pytest.fixture(params=["inline", "ntm"])
def executor(request: pytest.FixtureRequest, runs: Runs) -> InlineExecutor | TmuxExecutor:
    kind = {"inline": InlineExecutor, "ntm": TmuxExecutor}[request.param]
    made: InlineExecutor | TmuxExecutor = kind(runs.runtime / "runs", [runs.runtime], environ=ENVIRON)
    return made


Here = InlineExecutor | TmuxExecutor


def nothing_stays(runs: Runs, executor: Here) -> None:
    assert marked() == [] and list((runs.runtime / "runs").iterdir()) == []
    if isinstance(executor, TmuxExecutor):
        assert executor.server.windows() == []


# -- what the repository says


async def test_no_configuration_of_the_repository_runs(open_place: Open, tmp_path: Path) -> None:
    """Filters, hooks, a file system monitor and drivers, for all worktrees and for the agent's own. A committed
    report that all passed says nothing."""
    place = await open_place("AVA", files={"report.xml": REPORT})
    own, evil = place.at("AVA"), tmp_path / "evil"
    evil.mkdir()
    trap = evil / "trap.sh"
    trap.write_text(f"#!/bin/sh\necho $0 >> {evil / 'sprung'}\ncat\n")
    trap.chmod(0o755)
    for hook in ("post-checkout", "reference-transaction", "post-index-change", "fsmonitor-watchman"):
        (evil / hook).symlink_to(trap)
    git(own, "config", "extensions.worktreeConfig", "true")
    for where in ("--local", "--worktree"):
        for name in ("filter.evil.smudge", "filter.evil.clean", "filter.evil.process", "core.fsmonitor"):
            git(own, "config", where, name, str(trap))
        git(own, "config", where, "core.hooksPath", str(evil))
        git(own, "config", where, "core.attributesFile", str(own / "x.attributes"))
        git(own, "config", where, "diff.external", str(trap))
    (own / "out").symlink_to(evil)
    (own / "passwords").symlink_to("/etc/passwd")
    attributes = "* filter=evil diff=evil merge=evil\n*.py export-ignore\n"
    await place.work("AVA", {".gitattributes": attributes, "x.attributes": attributes, "app.py": "x = 1\n"})
    code = (
        "import json, os; print(json.dumps([sorted(os.listdir()), os.readlink('out'), open('app.py').read()]));"
        " raise SystemExit(1)"
    )
    place.have(policy("here", python(code)), policy("there", python(code), executor="ntm"))
    done = await place.verify()
    assert done.state is State.FAILED
    results = await place.results(done)
    assert len(results) == 4 and {result.state for result in results} == {Outcome.FAILED}
    files = [".gitattributes", "README.md", "app.py", "out", "passwords", "report.xml", "x.attributes"]
    for result in results:
        assert json.loads(result.head.splitlines()[-1]) == [files, str(evil), "x = 1\n"]
    assert not (evil / "sprung").exists()
    assert sorted(path.name for path in evil.iterdir()) == [
        *("fsmonitor-watchman", "post-checkout", "post-index-change", "reference-transaction", "trap.sh")
    ]


async def test_tests_that_mean_harm(runs: Runs, executor: Here, tmp_path: Path) -> None:
    """A conftest.py that forks, floods and writes elsewhere, under a real pytest."""
    conftest = (
        f"{GETS_AWAY}away()\n"
        "for _ in range(50):\n    if os.fork() == 0:\n        time.sleep(600)\n"
        "for _ in range(100):\n    os.write(1, b'flood' * 20000 + b'\\n')\n"
        f"try:\n    open({str(tmp_path / 'elsewhere')!r}, 'w').write('x')\nexcept OSError:\n    pass\n"
    )
    runs.commit(
        {
            "conftest.py": conftest,
            "pytest.ini": "[pytest]\naddopts = -q -s -p no:cacheprovider -p no:randomly\n",
            "test_a.py": "def test_good():\n    pass\n\ndef test_bad():\n    assert 1 == 2\n",
            "report.xml": REPORT,
        }
    )
    ended = await executor.run(runs.run(sys.executable, "-m", "pytest", "--junitxml=report.xml"))
    assert (ended.state, ended.exit_code, ended.sandboxed) == (Outcome.FAILED, 1, True)
    assert "1 failed, 1 passed" in ended.tail
    assert ended.output_bytes > 10_000_000 and len(ended.head) + len(ended.tail) <= 40_000
    assert not (tmp_path / "elsewhere").exists()
    nothing_stays(runs, executor)


# -- what a program reaches from a sandbox


async def test_it_writes_nowhere_else(runs: Runs, executor: Here, tmp_path: Path) -> None:
    kept = tmp_path / "kept.txt"
    kept.write_text("as it was")
    runs.commit({"made.txt": "mine\n"})
    (runs.repo / "link").symlink_to(kept)
    runs.commit({})
    places = [
        str(kept),
        str(runs.repo / "a.txt"),
        str(runs.repo / ".git" / "config"),
        "link",
        "/etc/relay-was-here",
    ]
    code = (
        "import os\n"
        f"for place in {places!r}:\n"
        "    try:\n        open(place, 'a').write('harm')\n    except OSError:\n        continue\n"
        "    print('wrote', os.path.realpath(place))\n"
        "open('made.txt', 'w').write('x')\n"
    )
    ended = await executor.run(runs.python(code))
    assert (ended.state, ended.sandboxed) == (Outcome.PASSED, True)
    assert kept.read_text() == "as it was" and (runs.repo / "a.txt").read_text() == "one\n"
    assert "harm" not in (runs.repo / ".git" / "config").read_text()
    assert not Path("/etc/relay-was-here").exists()
    # Without a sandbox it writes where this user may, and the result says that it ran without.
    ended = await executor.run(runs.python(f"open({str(kept)!r}, 'w').write('harm')", sandbox="off"))
    assert (ended.state, ended.sandboxed, kept.read_text()) == (Outcome.PASSED, False, "harm")
    nothing_stays(runs, executor)


async def test_it_reads_nothing_of_the_room(runs: Runs, executor: Here, tmux_folder: Path) -> None:
    """Its token, what runs beside it, and the sockets by which tmux does what it is told."""
    (runs.runtime / "token").write_text("secret")
    write(runs.runtime / "runs" / "another", {"tree/key.txt": "secret"})
    code = (
        "import glob, os, sys\n"
        "own = os.path.dirname(os.environ['HOME'])\n"
        "room = os.path.dirname(os.path.dirname(own))\n"
        "print(sorted(os.listdir(room)), os.listdir(os.path.dirname(own)) == [os.path.basename(own)])\n"
        "print(os.path.exists(os.path.join(room, 'token')), glob.glob('/tmp/tmux-*'), os.path.exists(sys.argv[1]))\n"
    )
    ended = await executor.run(runs.python(code, str(tmux_folder)))
    assert ended.head.splitlines()[-2:] == ["['runs'] True", "False [] False"], ended
    assert (ended.state, ended.sandboxed) == (Outcome.PASSED, True)


@pytest.mark.parametrize("network", [False, True])
async def test_it_reaches_the_network_only_where_it_may(runs: Runs, executor: Here, network: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        code = f"import socket; socket.create_connection(('127.0.0.1', {port}), 10)"
        ended = await executor.run(runs.python(code, network=network))
    assert ended.state is (Outcome.PASSED if network else Outcome.FAILED)
    assert network or "Error" in ended.head


# -- what it leaves behind


@pytest.mark.parametrize("sandbox", ["auto", "off"])
async def test_nobody_gets_away(runs: Runs, executor: Here, sandbox: str) -> None:
    """Whether the program ends by itself, or its time is over."""
    ended = await executor.run(runs.python(f"{GETS_AWAY}away()", sandbox=sandbox))
    assert ended.state is Outcome.PASSED and ended.head.endswith("away\n")
    nothing_stays(runs, executor)
    ended = await executor.run(
        runs.python(f"{GETS_AWAY}away()\ntime.sleep(600)", sandbox=sandbox, timeout_s=2.0)
    )
    assert ended.state is Outcome.TIMED_OUT
    nothing_stays(runs, executor)


@pytest.mark.parametrize("sandbox", ["auto", "off"])
async def test_it_ends_its_parent(runs: Runs, executor: Here, sandbox: str) -> None:
    """Without a sandbox that is what would have ended its children. It has not passed then."""
    code = f"{GETS_AWAY}away()\nos.kill(os.getppid(), signal.SIGKILL)\ntime.sleep(600)"
    timeout_s = 3.0 if sandbox == "auto" else 60.0
    ended = await executor.run(runs.python(code, sandbox=sandbox, timeout_s=timeout_s))
    assert ended.state is (Outcome.TIMED_OUT if sandbox == "auto" else Outcome.FAILED), ended
    nothing_stays(runs, executor)


async def test_it_ends_all_that_it_can(runs: Runs, executor: Here) -> None:
    """In a sandbox that is itself alone: not what watches it, and nothing else of this user's."""
    other = await asyncio.create_subprocess_exec("sleep", "600")
    code = f"{GETS_AWAY}away()\nos.kill(-1, signal.SIGKILL)\nprint('alone')"
    ended = await executor.run(runs.python(code))
    assert (ended.state, ended.exit_code) == (Outcome.PASSED, 0) and ended.head.endswith("alone\n")
    assert other.returncode is None
    other.kill()
    await other.wait()
    nothing_stays(runs, executor)


async def test_it_starts_what_it_can(runs: Runs, executor: Here) -> None:
    """Faster than it is ended: each child starts another one when it is asked to end."""
    code = (
        "import os, signal, sys, time\n"
        "def again(*_):\n"
        "    if os.fork() == 0:\n        os.setsid()\n        os.closerange(0, 3)\n"
        "signal.signal(signal.SIGTERM, again)\n"
        "for _ in range(5):\n    if os.fork() == 0:\n        break\n"
        "while True: time.sleep(600)\n"
    )
    ended = await executor.run(runs.python(code, sandbox="off", timeout_s=2.0))
    assert ended.state is Outcome.TIMED_OUT
    nothing_stays(runs, executor)


async def test_it_floods(runs: Runs, executor: Here) -> None:
    """100 MB, while its child holds the output open; what is kept is no instruction to a terminal."""
    code = (
        f"{GETS_AWAY}away()\nw = sys.stdout.buffer.write\nw(b'\\x1b]0;owned\\x07\\x1b[2Jfirst\\n')\n"
        "for _ in range(100): w(b'x' * 1048576)\nw(b'\\nlast\\n')"
    )
    ended = await executor.run(runs.python(code))
    assert ended.state is Outcome.PASSED and ended.output_bytes > 100 * 1_048_576
    assert "first\n" in ended.head and "\x1b" not in ended.head and ended.tail.endswith("x\nlast\n")
    assert len(ended.head) <= 20_000 and len(ended.tail) == 20_000
    nothing_stays(runs, executor)
