"""What a command in the sandbox can do, by real programs."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from relay.checks.sandbox import bubblewrap, in_sandbox

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    program, why = bubblewrap()
    if program is None:
        pytest.skip(why)
    tree, home = tmp_path / "run" / "tree", tmp_path / "home"
    for folder in (tree, home / ".ssh"):
        folder.mkdir(parents=True)
    (home / ".ssh" / "id_ed25519").write_text("key")
    (home / ".netrc").write_text("password")
    (tmp_path / "other.txt").write_text("as it was")

    def ran(code: str, *, network: bool = False) -> subprocess.CompletedProcess[str]:
        words = in_sandbox(
            str(program),
            [sys.executable, "-c", code],
            folder=tree,
            writable=[tmp_path / "run"],
            hidden=[tmp_path / "secret"],
            network=network,
            home=home,
        )
        return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)

    return ran


def test_it_writes_in_its_folder_and_nowhere_else(run: Run, tmp_path: Path) -> None:
    # Where a temporary folder is its own, the file of that name is too.
    run(f"open('made.txt', 'w').write('x'); open({str(tmp_path / 'other.txt')!r}, 'w')")
    assert (tmp_path / "run" / "tree" / "made.txt").read_text() == "x"
    assert (tmp_path / "other.txt").read_text() == "as it was"
    done = run("import os; os.mkdir('/etc/relay-sandbox')")
    assert done.returncode == 1 and "Read-only file system" in done.stderr


def test_a_temporary_file_is_its_own(run: Run, tmp_path: Path) -> None:
    name = f"/tmp/relay-{os.getpid()}-sandbox"
    done = run(f"open({name!r}, 'w').write('x'); print(open({name!r}).read())")
    assert done.stdout == "x\n" and not Path(name).exists()


def test_keys_and_what_is_hidden_are_empty(run: Run, tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "token").write_text("token")
    home, secret = tmp_path / "home", tmp_path / "secret"
    done = run(
        f"import os; print(os.listdir({str(home / '.ssh')!r}), os.listdir({str(secret)!r}), flush=True)\n"
        f"print(open({str(home / '.netrc')!r}).read())"
    )
    assert done.stdout.strip() == "[] []", done


def test_what_tmux_is_told_by_is_hidden(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever its sockets are: who reaches one runs what they like outside."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        monkeypatch.setenv("TMUX_TMPDIR", folder)
        sockets = Path(folder) / f"tmux-{os.getuid()}"
        sockets.mkdir()
        (sockets / "default").touch()
        assert run(f"import os; print(os.listdir({str(sockets)!r}))").stdout == "[]\n"


@pytest.mark.parametrize("network", [False, True])
def test_it_reaches_the_network_only_where_it_may(run: Run, network: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        done = run(f"import socket; socket.create_connection(('127.0.0.1', {port}), 5)", network=network)
    assert (done.returncode == 0) is network, done.stderr


def test_it_sees_and_ends_no_process_but_its_own(run: Run) -> None:
    done = run(f"import os; print(os.path.exists('/proc/{os.getpid()}/environ') and os.getpid() > 100)")
    assert done.stdout == "False\n"
    assert run(f"import os; os.kill({os.getpid()}, 0)").returncode == 1


def test_what_it_started_ends_with_it(run: Run, tmp_path: Path) -> None:
    beat = tmp_path / "run" / "tree" / "beat"
    code = (
        "import os, time\n"
        "if os.fork() == 0:\n    os.setsid()\n"
        "    while True:\n        open('beat', 'a').write('x'); time.sleep(.02)\n"
        "time.sleep(.5)"
    )
    assert run(code).returncode == 0
    size = beat.stat().st_size
    time.sleep(0.3)
    assert size > 0 and beat.stat().st_size == size


def test_a_program_below_tmp_is_seen_and_its_neighbours_are_not(tmp_path: Path) -> None:
    program, why = bubblewrap()
    if program is None:
        pytest.skip(why)
    with tempfile.TemporaryDirectory(prefix="relay-sandbox-", dir="/tmp") as made:
        folder = Path(made)
        for name in ("venv/bin", "venv/lib", "other", "run"):
            (folder / name).mkdir(parents=True)
        (folder / "venv/bin/tool").write_text(f"#!/bin/sh\ncat {folder}/venv/lib/part; ls {folder}\n")
        (folder / "venv/bin/tool").chmod(0o755)
        (folder / "venv/lib/part").write_text("part\n")
        words = in_sandbox(
            program, [f"{folder}/venv/bin/tool"], folder=folder / "run", writable=[folder / "run"]
        )
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout.split()) == (0, ["part", "run", "venv"]), done.stderr
