"""Whose session a process belongs to, by what each `relay mcp` wrote down; real ones: tests/e2e/test_windows.py."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from relay.app.mcp import parent_process
from relay.app.mcp.parent_process import Record, ancestors, looked_up, machine, sessions_here

KEY = "rk_0123456789abcdef_" + "x" * 43


def own(pid: int) -> tuple[int, str]:
    found = looked_up(pid)
    assert found is not None
    return pid, found[1]


#: A program that is there as long as the test, and one that is gone.
RUNS, GONE = own(os.getpid()), (os.getpid(), "0")


def put(folder: Path, session: str, **more: Any) -> None:
    """What a `relay mcp` wrote down whose parent is also this process's."""
    told: dict[str, Any] = {
        "agent": "claude",
        "key": None,
        "session": session,
        "machine": machine(),
        "parent": own(os.getppid()),
        "process": RUNS,
        "client_session": None,
    }
    (folder / "mcp").mkdir(exist_ok=True)
    file = folder / "mcp" / f"{session}.json"
    file.write_text(json.dumps(told | more))
    at = len(list((folder / "mcp").iterdir()))
    os.utime(file, (at, at))


def here(folder: Path, **who: Any) -> list[str]:
    return [told["session"] for told in sessions_here(str(folder), **who)]


def test_a_process_is_its_id_and_its_start_on_one_machine(tmp_path: Path) -> None:
    assert here(tmp_path) == []
    put(tmp_path, "reused", parent=(os.getppid(), "1"))
    put(tmp_path, "elsewhere", machine="another-boot/pid:[1]")
    put(tmp_path, "everybodys", parent=(1, looked_up(1) and own(1)[1]))
    (tmp_path / "mcp" / "broken.json").write_text("{")
    (tmp_path / "mcp" / "half.json").write_text('{"session": "x"}')
    assert here(tmp_path) == []
    put(tmp_path, "mine")
    assert here(tmp_path) == ["mine"]


def test_the_nearest_ancestor_decides(tmp_path: Path) -> None:
    line = list(ancestors())
    assert line[0] == own(os.getppid()) and all(pid > 1 for pid, _ in line)
    if len(line) > 1:
        put(tmp_path, "far", parent=line[1])
        assert here(tmp_path) == ["far"]
    put(tmp_path, "near")
    assert here(tmp_path) == ["near"]


def test_several_servers_of_one_program(tmp_path: Path) -> None:
    put(tmp_path, "old", process=GONE)
    put(tmp_path, "died", process=GONE)
    assert here(tmp_path) == ["died"], "its server died: what it held is lost, and its session says so"
    put(tmp_path, "one", client_session="window-1")
    assert here(tmp_path) == ["one"]
    put(tmp_path, "two", client_session="window-2")
    assert here(tmp_path) == ["one", "two"]
    assert here(tmp_path, client_session="window-2") == ["two"]
    assert here(tmp_path, client_session="window-3") == ["one", "two"]


def test_the_session_of_the_client_where_no_ancestor_is_known(tmp_path: Path) -> None:
    put(tmp_path, "sandboxed", machine="another", client_session="window-1")
    assert here(tmp_path) == [] and here(tmp_path, client_session="window-1") == ["sandboxed"]
    put(tmp_path, "nested", machine="another", client_session="window-1")
    assert here(tmp_path, client_session="window-1") == [], "which of the two, nobody knows"


def test_whom_the_environment_names_counts(tmp_path: Path) -> None:
    put(tmp_path, "s1")
    assert here(tmp_path, agent="CLAUDE") == ["s1"] and here(tmp_path, agent="codex") == []
    assert here(tmp_path, key=KEY) == []
    put(tmp_path, "s2", agent=None, key="rk_0123456789abcdef")
    assert here(tmp_path, key=KEY) == ["s2"] and here(tmp_path) == ["s1"], (
        "whose the key is, is not known yet"
    )


#: A shell, in which somebody runs an agent's program, which runs `relay mcp` by a wrapper, and then goes on
#: typing. Each says whose session it is found to be in: a shell of the program's first.
TERMINAL = """
import json, os, subprocess, sys
from pathlib import Path
from relay.app.mcp.parent_process import Record, sessions_here
role, folder, session, wrap = sys.argv[1:]
own = [sys.executable, sys.argv[0]]
if role == "server":
    Record(Path(folder), session, {}, agent="claude", key=None, wire=(0, 1)).write()
    print("up", flush=True)
    sys.stdin.read()
elif role == "hook":
    print(json.dumps([told["session"] for told in sessions_here(folder)]), flush=True)
elif role == "client":
    words = [*own, "server", folder, session, ""]
    server = subprocess.Popen([*json.loads(wrap), *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    server.stdout.readline()
    subprocess.run(["sh", "-c", '"$@"; exit', "sh", *own, "hook", folder, "", ""])
    sys.stdin.read()
else:
    client = subprocess.Popen([*own, "client", folder, session, wrap], stdin=subprocess.PIPE)
    for _ in sys.stdin:
        subprocess.run([*own, "hook", folder, "", ""])
    client.communicate()
"""
WRAPPERS = {
    "none": [],
    "a shell": ["sh", "-c", '"$@"; exit', "sh"],
    "one in another, and its output by a pipe": ["sh", "-c", 'sh -c "\\"\\$@\\"; exit" sh "$@" | cat', "sh"],
    "its input by a pipe": ["sh", "-c", 'cat | "$@"', "sh"],
}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere a wrapper has to exec")
@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_two_windows_of_one_terminal_with_a_wrapper_each(tmp_path: Path, wrapper: str) -> None:
    """This test is the terminal's server, of which both shells and the person's are children, as tmux is."""
    script = tmp_path / "terminal.py"
    script.write_text(TERMINAL)
    words = [sys.executable, str(script), "terminal", str(tmp_path)]
    environ = os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])}
    shells = [
        subprocess.Popen(
            [*words, session, json.dumps(WRAPPERS[wrapper])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environ,
        )
        for session in ("one", "two")
    ]
    said = []
    for shell in shells:
        assert shell.stdin and shell.stdout
        said.append(json.loads(shell.stdout.readline()))
    for shell in shells:
        assert shell.stdin and shell.stdout
        print(file=shell.stdin, flush=True)
        said.append(json.loads(shell.stdout.readline()))
    person = here(tmp_path)
    for shell in shells:
        shell.communicate()
    assert said == [["one"], ["two"], [], []] and person == []


def test_of_servers_that_died_the_last_one_is_remembered_until_there_is_another(tmp_path: Path) -> None:
    for number in range(3):
        put(tmp_path, f"died{number}", process=GONE)
        put(tmp_path, f"other{number}", process=GONE, parent=RUNS)
    put(tmp_path, "runs", parent=RUNS)
    put(tmp_path, "other3", process=GONE, parent=RUNS)
    assert here(tmp_path) == ["died2"]
    Record(tmp_path, "fresh", {}, agent="claude", key=None).write()
    left = {json.loads(one.read_text())["session"] for one in (tmp_path / "mcp").iterdir()}
    assert left == {"runs", "other3", "fresh"}


def test_what_a_process_writes_down(tmp_path: Path) -> None:
    runtime = tmp_path / "room" / ".relay"
    put_in = Record(runtime, "s1", {"CLAUDE_CODE_SESSION_ID": "c1"}, agent=None, key=KEY)
    runtime.parent.mkdir()
    put_in.write()
    (file,) = (runtime / "mcp").iterdir()
    assert KEY not in file.read_text()
    assert (runtime.stat().st_mode & 0o777, (runtime / "mcp").stat().st_mode & 0o777) == (0o700, 0o700)
    assert file.stat().st_mode & 0o777 == 0o600
    assert here(runtime) == [] and here(runtime, key=KEY) == ["s1"]
    put_in.name("claude")
    assert here(runtime) == ["s1"] and put_in.agent == "claude"
    put(runtime, "gone", parent=GONE)
    put(runtime, "other", parent=GONE, machine="another")
    Record(runtime, "s2", {}, agent="codex", key=None).write()
    left = {json.loads(one.read_text())["session"] for one in (runtime / "mcp").iterdir()}
    assert left == {"s2", "other"}, "the file of this process is one, and who ended is forgotten"
    put_in.name("ann", person=True)
    assert here(runtime, key=KEY) == [], "a person is no agent's program"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="psutil is what looks elsewhere")
def test_psutil_sees_the_same_family(monkeypatch: pytest.MonkeyPatch) -> None:
    by_proc = [pid for pid, _ in ancestors()]
    monkeypatch.setattr(parent_process, "_LINUX", False)
    assert [pid for pid, _ in ancestors()] == by_proc
    again = looked_up(os.getpid())
    assert again is not None and again == looked_up(os.getpid())


def test_a_process_that_ended_is_none() -> None:
    done = subprocess.Popen(["true"])
    while looked_up(done.pid) is not None:  # until it is a zombie
        pass
    done.wait()
    assert looked_up(done.pid) is None
