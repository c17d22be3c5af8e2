"""Commands in exports of real trees: what they see, how they end, and that nothing of them stays."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from relay.checks import tree_command
from relay.checks.results import Check, Parse, State, forget, last_result
from relay.checks.runner import CheckRunner
from relay.git.checkout import open_checkout
from relay.git.run import GitError
from relay.git.scratch_repository import ScratchRepository
from relay.store.ports import Store
from tests.engines import BOTH, address_of, open_store, wings
from tests.git.repository import commit, git, repository
from tests.outside import eventually

pytestmark = BOTH
PYTHON = sys.executable
#: A number that stands in no other process's command line.
ROOT = Path(__file__).parents[2]
MARK = f"relay-check-{os.getpid()}"


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = await open_store(tmp_path, wings("log", "checks"))
    yield opened
    await opened.close()


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return repository(tmp_path / "repo", {"a.txt": "one\n"})


@pytest.fixture
async def runner(tmp_path: Path, store: Store, repo: Path) -> CheckRunner:
    checkout = await open_checkout(repo)
    scratch = ScratchRepository(tmp_path / "scratch.git")
    await scratch.empty(checkout.hash)
    await scratch.borrow((checkout,))
    return CheckRunner(store, scratch.git(checkout), tmp_path / "checks")


def python(code: str, *args: str, **more: object) -> Check:
    return Check("AllTestsPass", (PYTHON, "-c", code, *args), **more)  # type: ignore[arg-type]


def tree_of(repo: Path) -> str:
    return git(repo, "rev-parse", "HEAD^{tree}")


def marked() -> list[int]:
    """The processes that have the mark among their words."""
    return [one.pid for one in psutil.process_iter(["cmdline"]) if MARK in (one.info["cmdline"] or ())]


def left_in(runner: CheckRunner, folder: Path) -> list[Path]:
    return list((folder / "checks").iterdir()) if (folder / "checks").exists() else []


async def test_what_a_command_sees(runner: CheckRunner, repo: Path, tmp_path: Path) -> None:
    """Modes, links and names of the tree, and no more; the checkout's own files and configuration do not count."""
    odd = os.fsdecode(b"caf\xe9.txt")
    (repo / odd).write_text("odd")
    (repo / "run.sh").write_text("#!/bin/sh\necho ran\n")
    (repo / "run.sh").chmod(0o755)
    (repo / "in").symlink_to("a.txt")
    (repo / "out").symlink_to(tmp_path)
    (repo / "nowhere").symlink_to("missing")
    (repo / ".gitattributes").write_text("*.txt filter=evil export-ignore\n")
    commit(repo)
    git(repo, "config", "filter.evil.smudge", f"touch {tmp_path / 'smudged'}; cat")
    git(repo, "config", "core.hooksPath", str(tmp_path))
    hook = tmp_path / "post-checkout"
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path / 'hooked'}\n")
    hook.chmod(0o755)
    (repo / "untracked.txt").write_text("no")
    code = (
        "import os, sys\n"
        "for n in sorted(os.listdir(b'.')): s = os.lstat(n); print(n, oct(s.st_mode)[-6:], os.path.islink(n) and"
        " os.readlink(n))\n"
    )
    result = await runner.run(python(code), tree_of(repo))
    modes = {line.split(" ")[0]: line.split(" ")[1] for line in result.head.splitlines()}
    assert set(modes) == {
        *("b'.gitattributes'", "b'a.txt'", "b'caf\\xe9.txt'", "b'in'", "b'nowhere'", "b'out'", "b'run.sh'")
    }
    assert modes["b'run.sh'"] == "100755"
    assert modes["b'in'"] == modes["b'out'"] == modes["b'nowhere'"] == "120777"
    assert (result.state, result.exit_code, result.attempt) == (State.PASSED, 0, 1)
    assert not (tmp_path / "smudged").exists() and not (tmp_path / "hooked").exists()
    ran = await runner.run(Check("x", ("./run.sh",)), tree_of(repo))
    assert (ran.state, ran.output) == (State.PASSED, "ran\n")


async def test_a_link_out_is_not_followed_when_the_tree_goes(
    runner: CheckRunner, repo: Path, tmp_path: Path
) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").write_text("stays")
    (repo / "out").symlink_to(kept)
    commit(repo)
    code = (
        "import os, pathlib; os.symlink('out', 'again'); d = pathlib.Path('closed/inner'); d.mkdir(parents=True);"
        " (d / 'f').write_text('x'); d.chmod(0); d.parent.chmod(0o500)"
    )
    assert (await runner.run(python(code), tree_of(repo))).passed
    assert (kept / "file").read_text() == "stays"
    assert left_in(runner, tmp_path) == []


async def test_the_environment_is_its_own(
    tmp_path: Path, runner: CheckRunner, store: Store, repo: Path
) -> None:
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": "/home/ann",
        "LC_ALL": "C.UTF-8",
        "RELAY_API_KEY": "secret",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "GIT_DIR": "/elsewhere",
        "WANTED": "yes",
    }
    own = CheckRunner(store, runner.git, tmp_path / "checks", environ=environ)
    code = (
        "import json, os; print(json.dumps(dict(os.environ)));"
        "assert os.path.isdir(os.environ['HOME']) and os.path.isdir(os.environ['TMPDIR'])"
    )
    result = await own.run(python(code, env=("WANTED", "RELAY_API_KEY")), tree_of(repo))
    seen = json.loads(result.output)
    assert seen["WANTED"] == "yes" and seen["CI"] == "true" and seen["PATH"] == environ["PATH"]
    assert seen["HOME"].startswith(str(tmp_path / "checks"))
    assert not {"RELAY_API_KEY", "AWS_SECRET_ACCESS_KEY", "GIT_DIR"} & set(seen)
    # A tree that is exported within a repository is none of its files.
    inside = CheckRunner(store, runner.git, repo / ".relay" / "checks", environ=environ)
    found = await inside.run(Check("x", ("git", "rev-parse", "--show-toplevel")), tree_of(repo))
    assert found.state is State.FAILED and "not a git repository" in found.output


async def test_the_same_is_not_run_twice(
    runner: CheckRunner, store: Store, repo: Path, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    check = python("import sys; open(sys.argv[1], 'a').write('x'); sys.exit(3)", str(log))
    both = await asyncio.gather(*(runner.run(check, git(repo, "rev-parse", "HEAD")) for _ in range(2)))
    first, at_once = sorted(both, key=lambda result: result.reused)
    again = await runner.run(check, tree_of(repo))
    assert log.read_text() == "x"
    assert (first.state, first.exit_code, first.reused) == (State.FAILED, 3, False)
    assert at_once.reused and again.reused and again.at == first.at and again.attempt == 1
    fresh = await runner.run(check, tree_of(repo), fresh=True)
    assert (fresh.reused, fresh.attempt, log.read_text()) == (False, 2, "xx")
    other = await runner.run(python("pass"), tree_of(repo))
    assert other.passed and not other.reused
    commit(repo, {"a.txt": "two\n"})
    assert not (await runner.run(check, tree_of(repo))).reused


async def test_the_exit_is_what_it_was(runner: CheckRunner, repo: Path) -> None:
    killed = await runner.run(python("import os; os.kill(os.getpid(), 11)"), tree_of(repo))
    assert (killed.state, killed.exit_code) == (State.FAILED, -signal.SIGSEGV)
    (repo / "plain.sh").write_text("echo hi\n")
    commit(repo)
    for argv, said in (
        (("relay-has-no-such-program",), "there is no program"),
        (("./plain.sh",), "Permission denied"),
        (("./missing.sh",), "No such file"),
        ((), "there is no program"),
    ):
        result = await runner.run(Check("x", argv), tree_of(repo))
        assert (result.state, result.exit_code, result.passed) == (State.NOT_RUN, None, False)
        assert said in result.reason, result.reason
    with pytest.raises(GitError):
        await runner.run(python("pass"), "0" * 40)


async def test_no_grandchild_outlives_the_time(runner: CheckRunner, repo: Path, tmp_path: Path) -> None:
    """One that left the process group and the session, and one that is deaf to TERM."""
    code = (
        "import subprocess, sys, time\n"
        "sleep = 'import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)'\n"
        "for new in (True, False):\n"
        "    subprocess.Popen([sys.executable, '-c', sleep, sys.argv[1]], start_new_session=new)\n"
        "print('started', flush=True)\n"
        "time.sleep(600)\n"
    )
    result = await runner.run(python(code, MARK, timeout_s=2.0), tree_of(repo))
    assert (result.state, result.exit_code, result.output) == (State.TIMED_OUT, None, "started\n")
    assert "after 2 s" in result.reason
    assert marked() == [] and left_in(runner, tmp_path) == []
    # What did not end by itself is run again.
    assert not (await runner.run(python(code, MARK, timeout_s=2.0), tree_of(repo))).reused


async def test_what_stays_behind_ends_with_the_command(runner: CheckRunner, repo: Path) -> None:
    code = (
        "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)',"
        " sys.argv[1]], start_new_session=True)"
    )
    assert (await runner.run(python(code, MARK), tree_of(repo))).passed
    assert marked() == []


async def test_a_cancelled_run_leaves_nothing(
    runner: CheckRunner, store: Store, repo: Path, tmp_path: Path
) -> None:
    ready = tmp_path / "ready"
    code = "import sys, time; open(sys.argv[2], 'w').close(); time.sleep(600)"
    check = python(code, MARK, str(ready))
    run = asyncio.create_task(runner.run(check, tree_of(repo)))
    await eventually(lambda: asyncio.to_thread(ready.exists), "the command to start")
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert marked() == [] and left_in(runner, tmp_path) == []
    assert await last_result(store, tree_of(repo), check.digest) is None


async def test_a_flood_of_output_is_bounded(runner: CheckRunner, repo: Path) -> None:
    code = (
        "import sys; w = sys.stdout.buffer.write; w(b'first\\n\\0\\x1b[31m\\xff');"
        "[w(b'x' * 1048576) for _ in range(100)]; w(b'\\nlast\\n')"
    )
    result = await runner.run(python(code), tree_of(repo))
    assert result.passed and result.output_bytes == 100 * 1_048_576 + 19
    assert result.head.startswith("first\n\N{REPLACEMENT CHARACTER}xx") and result.tail.endswith("x\nlast\n")
    assert len(result.head) <= 20_000 and len(result.tail) == 20_000
    known = await runner.run(python(code), tree_of(repo))
    assert known.reused and (known.head, known.tail) == (result.head, result.tail)


JUNIT = '<testsuite><testcase name="a"/><testcase name="b"><failure/></testcase></testsuite>'


async def test_figures_are_of_this_run(runner: CheckRunner, repo: Path) -> None:
    """A report that was committed says nothing; one that the command wrote, or wrote again, does."""
    commit(repo, {"j.xml": JUNIT, "r/out.xml": JUNIT.replace("<failure/>", "")})
    parse = Parse("junit", "j.xml")
    stale = await runner.run(python("pass", parse=parse), tree_of(repo))
    assert stale.passed and stale.metrics == {} and "stood in the tree before" in stale.reason
    code = f"import sys; open('j.xml', 'w').write({JUNIT!r}); sys.exit(1)"
    written = await runner.run(python(code, parse=parse), tree_of(repo))
    assert (written.state, written.metrics, written.reason) == (State.FAILED, {"test_pass_rate": 0.5}, "")
    assert (await runner.run(python(code, parse=parse), tree_of(repo))).metrics == written.metrics
    outside = "import os; os.symlink(os.path.abspath('r/out.xml'), 'j2.xml'); os.symlink('/etc', 'e')"
    linked = await runner.run(python(outside, parse=Parse("junit", "j2.xml")), tree_of(repo))
    assert linked.metrics == {} and "no such file" in linked.reason


async def test_a_killed_process_leaves_folders_that_a_start_removes(
    runner: CheckRunner, tmp_path: Path
) -> None:
    left = tmp_path / "checks" / "left" / "tree"
    left.mkdir(parents=True)
    (left / "link").symlink_to(tmp_path)
    await runner.clean()
    assert left_in(runner, tmp_path) == [] and tmp_path.exists()


_KILLED = """
import asyncio, json, sys
from pathlib import Path
from relay.checks.results import Check
from relay.checks import tree_command
from relay.checks.runner import CheckRunner
from relay.git.checkout import open_checkout
from relay.git.scratch_repository import ScratchRepository
from tests.engines import join, wings

async def main(address, folder, tree, argv):
    folder = Path(folder)
    store = await join(address, wings("log", "checks"))
    checkout = await open_checkout(folder / "repo")
    git = ScratchRepository(folder / "scratch.git").git(checkout)
    await CheckRunner(store, git, folder / "checks").run(Check("x", tuple(argv)), tree)

asyncio.run(main(*sys.argv[1:4], json.loads(sys.argv[4])))
"""


async def test_a_killed_process_leaves_no_row_and_no_command(
    runner: CheckRunner, store: Store, repo: Path, tmp_path: Path
) -> None:
    """kill -9 of the process that runs a check: its command and the child of that end as well."""
    ready = tmp_path / "ready"
    code = (
        "import pathlib, subprocess, sys, time; nap = 'import time; time.sleep(600)';"
        "subprocess.Popen([sys.executable, '-c', nap, sys.argv[1]], start_new_session=True);"
        "pathlib.Path(sys.argv[2]).touch(); time.sleep(600)"
    )
    check = Check("x", (PYTHON, "-c", code, MARK, str(ready)))
    words = (address_of(tmp_path), str(tmp_path), tree_of(repo), json.dumps(check.argv))
    process = await asyncio.create_subprocess_exec(PYTHON, "-c", _KILLED, *words, cwd=ROOT)
    await eventually(lambda: asyncio.to_thread(ready.exists), "the command to start")
    assert marked() != []
    process.kill()
    await process.wait()
    await eventually(lambda: asyncio.to_thread(lambda: marked() == []), "the command to end")
    assert await last_result(store, tree_of(repo), check.digest) is None
    assert left_in(runner, tmp_path) != []
    await runner.clean()
    assert left_in(runner, tmp_path) == []


async def test_a_scratch_that_is_emptied_meanwhile(
    runner: CheckRunner, repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """git fails while it is away, and finds the tree again when it is back."""
    tree, away = tree_of(repo), tmp_path / "away.git"
    scratch = tmp_path / "scratch.git"
    real = tree_command.export_tree

    async def export(*args: object) -> None:
        if not away.exists():
            scratch.rename(away)
            asyncio.get_running_loop().call_later(0.2, shutil.copytree, away, scratch)
        await real(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(tree_command, "export_tree", export)
    assert (await runner.run(python("assert open('a.txt').read() == 'one\\n'"), tree)).passed


async def test_old_results_go(runner: CheckRunner, store: Store, repo: Path) -> None:
    """What is asked for again is run again."""
    check = python("pass")
    first = await runner.run(check, tree_of(repo))
    second = await runner.run(check, tree_of(repo), fresh=True)
    failing = await runner.run(python("import sys; sys.exit(1)"), tree_of(repo))
    assert await forget(store, first.at) == 0
    assert await forget(store, failing.at + 1) == 3 and second.at > first.at
    assert await last_result(store, failing.tree, failing.digest) is None
    again = await runner.run(check, tree_of(repo))
    assert not again.reused and again.attempt == 1


async def test_a_report_of_pytest(runner: CheckRunner, repo: Path) -> None:
    """The file that pytest itself writes, with a failed, a broken, a skipped and two good tests."""
    tests = (
        "import pytest\n\n@pytest.fixture\ndef broken():\n    raise OSError('no')\n\n"
        "@pytest.mark.parametrize('x', [1, 2])\ndef test_good(x): pass\n\ndef test_bad(): assert False\n\n"
        "def test_broken(broken): pass\n\n@pytest.mark.skip\ndef test_skipped(): pass\n"
    )
    commit(repo, {"test_it.py": tests, "pytest.ini": "[pytest]\n"})
    words = (PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--junitxml=out/r.xml")
    result = await runner.run(Check("AllTestsPass", words, parse=Parse("junit", "out/*.xml")), tree_of(repo))
    assert (result.state, result.exit_code, result.reason) == (State.FAILED, 1, "")
    assert result.metrics == {"test_pass_rate": 0.5} and "2 passed, 1 skipped, 1 error" in result.output
