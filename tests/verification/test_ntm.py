"""Programs in windows of a real tmux: what they are, how they end, and that nothing of them stays."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import pytest

from relay.verification.executors import inline
from relay.verification.executors.ntm import TmuxExecutor
from relay.verification.executors.tmux_server import TmuxServer, socket_of
from relay.verification.verification import Outcome
from tests.verification.runs import ENVIRON, MARK, Runs, marked
from tests.verification.windows import attached, tmux, until

pytestmark = pytest.mark.usefixtures("tmux_folder")
ROOT = Path(__file__).parents[2]
#: A child that left the group and the session, one that is deaf to TERM, and the program itself stay for ever.
STAYS = (
    "import subprocess, sys, time\n"
    "deaf = 'import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)'\n"
    "for new in (True, False):\n"
    "    subprocess.Popen([sys.executable, '-c', deaf], start_new_session=new)\n"
    "print('ready', flush=True)\n"
    "time.sleep(600)\n"
)


@pytest.fixture
async def runs(tmp_path: Path) -> Runs:
    return await Runs.open(tmp_path)


@pytest.fixture
def executor(runs: Runs) -> TmuxExecutor:
    return TmuxExecutor(runs.runtime / "windows", [runs.runtime], environ=ENVIRON)


def nothing_stays(runs: Runs, executor: TmuxExecutor) -> None:
    assert marked() == [] and executor.server.windows() == []
    assert list((runs.runtime / "windows").iterdir()) == []


async def ready(runs: Runs) -> None:
    await until(lambda: b"ready" in runs.watched, "the program to start")


async def test_a_person_watches_it(runs: Runs, executor: TmuxExecutor, tmp_path: Path) -> None:
    """By the command that the result begins with; nothing that is printed is an instruction to their terminal."""
    code = (
        "import os, time\nprint('hello \\x1b]0;owned\\x07from the tree', flush=True)\n"
        "while not os.path.exists('go'): time.sleep(.02)\nprint('bye')"
    )
    running = asyncio.create_task(executor.run(runs.python(code)))
    await until(lambda: b"hello" in runs.watched, "the program to start")
    assert executor.server.windows() == ["v12 unit tests"]
    command = runs.watched.decode().splitlines()[0].removeprefix("To watch it: ")
    assert command == executor.server.attach
    with attached(command) as person:
        await person.sees(b"hello from the tree")
        assert b"owned" not in person.seen
        next((runs.runtime / "windows").glob("*/tree")).joinpath("go").touch()
        ended = await running
    assert (ended.state, ended.exit_code, ended.reason, ended.sandboxed) == (Outcome.PASSED, 0, "", True)
    assert ended.head == f"To watch it: {command}\nhello from the tree\nbye\n"
    assert ended.output_bytes == len(runs.watched) and ended.seconds > 0
    nothing_stays(runs, executor)


async def test_how_a_person_attaches(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    server = TmuxServer(socket_of(tmp_path))
    assert (
        server.attach
        == f"tmux -S {os.environ['TMUX_TMPDIR']}/tmux-{os.getuid()}/{server.socket} attach -t relay"
    )
    monkeypatch.delenv("TMUX_TMPDIR")
    assert server.attach == f"tmux -L {server.socket} attach -t relay"
    assert socket_of(tmp_path) == server.socket != socket_of(tmp_path / "other")


async def test_the_exit_is_what_it_was(runs: Runs, executor: TmuxExecutor) -> None:
    runs.commit({"plain.sh": "echo hi\n"})
    for code, expected in (
        ("raise SystemExit(3)", 3),
        ("import os; os.kill(os.getpid(), 11)", -signal.SIGSEGV),
    ):
        ended = await executor.run(runs.python(code, sandbox="off"))
        assert (ended.state, ended.exit_code, ended.sandboxed) == (Outcome.FAILED, expected, False)
    for argv, said in (
        (("relay-has-no-such-program",), "there is no program 'relay-has-no-such-program'"),
        (("./plain.sh",), "./plain.sh could not be executed (Permission denied)"),
    ):
        ended = await executor.run(runs.run(*argv, sandbox="off"))
        assert (ended.state, ended.exit_code, ended.reason) == (Outcome.ERROR, None, said)
    nothing_stays(runs, executor)


async def test_what_it_gets(runs: Runs, executor: TmuxExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment that a run inline has: nothing of the room's, and no tmux."""
    monkeypatch.setenv("ROOM_SECRET", "secret")
    code = "import json, os; print(json.dumps([dict(os.environ), os.listdir(), os.isatty(1)]))"
    ended = await executor.run(runs.python(code))
    environ, files, terminal = json.loads(ended.head.splitlines()[1])
    assert environ["RUN_MARK"] == MARK and environ["CI"] == "true"
    assert not {"TMUX", "TMUX_PANE", "TMUX_TMPDIR", "ROOM_SECRET"} & set(environ)
    assert files == ["a.txt"] and terminal is False
    missing = await executor.run(runs.python("pass", env=("NO_SUCH_KEY",)))
    assert (missing.state, missing.reason) == (
        Outcome.ERROR,
        "NO_SUCH_KEY is not set in the environment of the room",
    )


async def test_what_is_missing_is_an_error(
    runs: Runs, executor: TmuxExecutor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(inline, "bubblewrap", lambda: (None, "bubblewrap is not installed"))
    strict = await executor.run(runs.python("pass", sandbox="required"))
    assert strict.reason == "the policy requires a sandbox: bubblewrap is not installed"
    assert (await executor.run(runs.python("pass"))).sandboxed is False
    monkeypatch.setenv("PATH", str(tmp_path))
    without = await executor.run(runs.python("pass"))
    assert (without.state, without.reason) == (Outcome.ERROR, "tmux is not installed (apt install tmux)")


async def test_the_time_is_over(runs: Runs, executor: TmuxExecutor) -> None:
    for sandbox in ("auto", "off"):
        ended = await executor.run(runs.python(STAYS, timeout_s=2.0, sandbox=sandbox))
        assert (ended.state, ended.exit_code) == (Outcome.TIMED_OUT, None)
        assert ended.reason == "it was ended after 2 s"
        nothing_stays(runs, executor)


async def test_a_cancelled_run_leaves_nothing(runs: Runs, executor: TmuxExecutor) -> None:
    running = asyncio.create_task(executor.run(runs.python(STAYS, sandbox="off")))
    await ready(runs)
    assert marked() != []
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    nothing_stays(runs, executor)


async def test_it_is_cancelled_while_its_window_opens(
    runs: Runs, executor: TmuxExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = TmuxServer.open
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()

    def open_(self: TmuxServer, name: str, mark: str, words: tuple[str, ...]) -> str:
        loop.call_soon_threadsafe(begun.set)
        return opened(self, name, mark, words)

    monkeypatch.setattr(TmuxServer, "open", open_)
    running = asyncio.create_task(executor.run(runs.python(STAYS)))
    await begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    nothing_stays(runs, executor)


async def test_a_person_ends_it(runs: Runs, executor: TmuxExecutor) -> None:
    """Whether they close the window or type Ctrl-C in it: that is no verdict."""
    for way in ("close", "type"):
        runs.watched.clear()
        running = asyncio.create_task(executor.run(runs.python(STAYS, sandbox="off")))
        await ready(runs)
        if way == "close":
            tmux(executor.server.socket, "kill-window", "-t", "relay:")
            ended = await running
        else:
            with attached(executor.server.attach) as person:
                await person.sees(b"ready")
                person.types(b"\x03")
                ended = await running
        assert (ended.state, ended.reason) == (
            Outcome.ERROR,
            "it could not be carried out: it was ended in its window in tmux",
        )
        nothing_stays(runs, executor)


async def test_a_flood_is_bounded(runs: Runs, executor: TmuxExecutor) -> None:
    code = (
        "import sys; w = sys.stdout.buffer.write; w(b'first\\n');"
        "[w(b'x' * 1048576) for _ in range(100)]; w(b'\\nlast\\n')"
    )
    ended = await executor.run(runs.python(code))
    assert ended.state is Outcome.PASSED and ended.output_bytes == len(runs.watched) > 100 * 1_048_576
    assert ended.head.splitlines()[1] == "first" and ended.tail.endswith("x\nlast\n")
    assert len(ended.head) <= 20_000 and len(ended.tail) == 20_000


async def test_the_program_does_not_wait_for_the_terminal(runs: Runs, executor: TmuxExecutor) -> None:
    """A person's Ctrl-S, and a tmux that stands still."""
    code = (
        "import os, time\nprint('ready', flush=True)\nwhile not os.path.exists('go'): time.sleep(.02)\n"
        "for _ in range(300): print('y' * 10000)\nprint('done', flush=True)"
    )
    running = asyncio.create_task(executor.run(runs.python(code)))
    await ready(runs)
    server = int(tmux(executor.server.socket, "display-message", "-p", "#{pid}"))
    with attached(executor.server.attach) as person:
        await person.sees(b"ready")
        person.types(b"\x13")
        os.kill(server, signal.SIGSTOP)
        next((runs.runtime / "windows").glob("*/tree")).joinpath("go").touch()
        await until(lambda: b"done" in runs.watched, "the end of the output")
        os.kill(server, signal.SIGCONT)
        ended = await running
    assert ended.state is Outcome.PASSED and ended.tail.endswith("done\n")


async def test_many_at_once_share_a_session(runs: Runs) -> None:
    """The session goes with the last window, and comes back with the next."""
    executor = TmuxExecutor(runs.runtime / "windows", [runs.runtime], at_once=4, environ=ENVIRON)
    ended = await asyncio.gather(
        *(executor.run(runs.python(f"print({number})", id=f"c{number}")) for number in range(12))
    )
    assert [one.head.splitlines()[1] for one in ended] == [str(number) for number in range(12)]
    nothing_stays(runs, executor)


async def test_a_name_is_no_instruction(runs: Runs, executor: TmuxExecutor, tmp_path: Path) -> None:
    touched = tmp_path / "touched"
    window = executor.server.open(f"#(touch {touched}) #{{pid}}; kill-server", "m", ("sleep", "600"))
    (name,) = executor.server.windows()
    assert name.startswith("-touch -") and "#" not in name and ";" not in name
    executor.server.close(window)
    assert executor.server.windows() == [] and not touched.exists()


_KILLED = """
import asyncio, sys
from dataclasses import replace
from pathlib import Path
from relay.verification.executors.ntm import TmuxExecutor
from tests.verification.runs import ENVIRON, Runs

async def main(folder, code):
    runs = await Runs.open(Path(folder))
    environ = ENVIRON | {"RUN_MARK": sys.argv[3]}
    executor = TmuxExecutor(runs.runtime / "windows", [runs.runtime], environ=environ)
    run = runs.python(code, sandbox="off")
    await executor.run(replace(run, watch=lambda data: print(data.decode(), flush=True)))

asyncio.run(main(*sys.argv[1:3]))
"""


async def test_a_killed_daemon_leaves_no_program(tmp_path: Path) -> None:
    words = (sys.executable, "-c", _KILLED, str(tmp_path), STAYS, MARK)
    process = await asyncio.create_subprocess_exec(*words, cwd=ROOT, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    while b"ready" not in await process.stdout.readline():
        pass
    assert marked() != []
    process.kill()
    await process.wait()
    runtime = tmp_path / "room" / ".relay"
    server = TmuxServer(socket_of(runtime / "windows"))
    await until(lambda: marked() == [] and server.windows() == [], "the program and its window to end")
    # What is left of it is a folder, which a start removes.
    executor = TmuxExecutor(runtime / "windows", [runtime], environ=ENVIRON)
    assert list((runtime / "windows").iterdir()) != []
    await executor.clean()
    assert list((runtime / "windows").iterdir()) == []


async def test_a_resumed_run_begins_anew(runs: Runs, executor: TmuxExecutor) -> None:
    """What an earlier process left under the run's id is closed, and no other window."""
    executor.server.open("its own", "c1-unit-tests-1", ("sleep", "600"))
    executor.server.open("another's", "c1-unit-tests-11", ("sleep", "600"))
    ended = await executor.run(runs.python("print('anew')", resumed=True))
    assert ended.state is Outcome.PASSED and ended.head.endswith("\nanew\n")
    assert executor.server.windows() == ["another-s"]
    await executor.clean()
    nothing_stays(runs, executor)
