"""The shell scripts as a person calls them, in a folder with a blank in its name."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from relay.app.runtime import instance

REPO = Path(__file__).parent.parent.parent

FAKE_RELAY = """#!/bin/sh
printf '%s\\n' "$@" > "{room}/called"
echo "a line of the log" >> "{room}/.relay/relay.log"
echo "relay runs at http://127.0.0.1:4173"
exit {code}
"""

#: What set-up leaves behind when all is made; the digests are the scripts' own.
MADE = """
. scripts/setup.sh
printf '%s\\n' "$ROOT" >"$VENV/.relay-root"
lock="$ROOT/requirements.lock"
digest "$lock" "$lock" "$ROOT/pyproject.toml" >"$VENV/.relay-requirements.lock"
page_digest >"$VENV/.relay-page"
packages <"$lock" | while IFS= read -r one; do
  mkdir -p "$VENV/lib/python3.11/site-packages/$(printf '%s' "$one" | sed 's/==/-/').dist-info"
done
"""


@pytest.fixture
def room(tmp_path: Path) -> Path:
    """A clone that is set up, with a stand-in for its `relay`; its Python is the one that runs the tests."""
    room = tmp_path / "a room"
    shutil.copytree(REPO / "scripts", room / "scripts")
    for name in ("stop.sh", "healthcheck.sh", "requirements.lock", "pyproject.toml"):
        shutil.copy(REPO / name, room)
    (room / "config.json").write_text("{}")
    for folder in (".venv/bin", ".relay", "web/src", "relay/faces/static"):
        (room / folder).mkdir(parents=True)
    for name in (
        "web/package.json",
        "web/package-lock.json",
        "web/src/a b.ts",
        "relay/faces/static/index.html",
    ):
        (room / name).write_text("{}")
    program(room / ".venv/bin/python", f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    program(room / ".venv/bin/relay", FAKE_RELAY.format(room=room, code=0))
    made = subprocess.run(["bash", "-euc", MADE], cwd=room, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    return room


def program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def run(room: Path, script: str, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": os.environ["PATH"], "HOME": "", "PYTHONPATH": str(REPO)} | environ
    command = [shutil.which("bash") or "bash", str(room / script), *arguments]
    return subprocess.run(command, cwd="/", env=env, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize(
    ("script", "arguments", "code", "said"),
    [
        ("scripts/start.sh", ["--nope"], 2, "unknown option: --nope"),
        ("scripts/start.sh", ["--config"], 2, "--config wants a path"),
        ("scripts/start.sh", ["--help"], 0, "usage: bash scripts/start.sh"),
        ("scripts/start.sh", ["--config", "/nowhere.json"], 1, "there is no configuration at /nowhere.json"),
        ("scripts/test.sh", ["--help"], 0, "usage: bash scripts/test.sh"),
        ("stop.sh", ["--nope"], 2, "unrecognized arguments: --nope"),
        ("stop.sh", [], 0, "relay is not running."),
    ],
)
def test_use_and_wrong_use(room: Path, script: str, arguments: list[str], code: int, said: str) -> None:
    done = run(room, script, *arguments)
    assert said in done.stdout + done.stderr
    assert done.returncode == code


def test_a_start_makes_nothing_again_and_calls_relay(room: Path) -> None:
    done = run(room, "scripts/start.sh")
    assert (done.returncode, done.stdout) == (0, "relay runs at http://127.0.0.1:4173\n"), done.stderr
    assert done.stderr == "relay: starting\n"
    assert (room / "called").read_text().splitlines() == ["run", "--config", str(room / "config.json")]


@pytest.mark.parametrize("script", ["scripts/start.sh", "scripts/setup.sh"])
def test_a_package_that_is_gone_is_installed_again(room: Path, script: str) -> None:
    (gone,) = (room / ".venv/lib/python3.11/site-packages").glob("mcp_types-*.dist-info")
    gone.rmdir()
    pip = f'#!/bin/sh\n[ "$2" = pip ] && {{ echo "$@" >>"{room}/pip"; exit 0; }}\nexec "{sys.executable}" "$@"\n'
    program(room / ".venv/bin/python", pip)
    done = run(room, script)
    assert done.returncode == 0 and "installing" in done.stderr, done.stderr
    assert (
        f"install --disable-pip-version-check --no-input --requirement {room}/requirements.lock"
        in (room / "pip").read_text()
    )
    assert (room / "called").exists() == (script == "scripts/start.sh")  # set-up alone starts nothing


def test_in_the_foreground(room: Path) -> None:
    other = room / "other.json"
    other.write_text("{}")
    done = run(room, "scripts/start.sh", "--foreground", RELAY_CONFIG=str(other))
    assert done.returncode == 0, done.stderr
    assert (room / "called").read_text().splitlines() == ["run", "--foreground", "--config", str(other)]


def test_a_start_that_fails_shows_the_log_and_a_way_out(room: Path) -> None:
    program(room / ".venv/bin/relay", FAKE_RELAY.format(room=room, code=1))
    (room / ".relay/relay.log").write_text("what an older start said\n")
    done = run(room, "scripts/start.sh")
    assert done.returncode == 1
    assert "a line of the log" in done.stderr
    assert "older start" not in done.stderr
    assert "the daemon did not start" in done.stderr
    assert f'healthcheck.sh" --config "{room / "config.json"}"' in done.stderr


def test_a_start_that_fails_says_its_reason_once(room: Path) -> None:
    """`relay run` says the end of the log itself, each line after the first one set in."""
    fails = """#!/bin/sh
printf '%s\\n' 'one of before' 'relay: it has no place' '' '  and more' >> "{room}/.relay/relay.log"
printf '%s\\n' 'relay: the daemon ended with code 1.' '  relay: it has no place' '    and more' >&2
exit 1
"""
    program(room / ".venv/bin/relay", fails.format(room=room))
    done = run(room, "scripts/start.sh")
    assert done.returncode == 1 and "the daemon did not start" in done.stderr
    assert [done.stderr.count(said) for said in ("it has no place", "and more", "one of before")] == [1, 1, 1]


def test_a_second_start_says_where_it_runs(room: Path) -> None:
    instance.claim(room / "speaker.lock", 90, instance.InstanceRecord.own("http://127.0.0.1:5"))
    done = run(room, "scripts/start.sh")
    assert done.returncode == 0
    assert "relay runs already at http://127.0.0.1:5" in done.stderr
    assert not (room / "called").exists()


def test_a_page_with_a_changed_source_is_built_again(room: Path) -> None:
    (room / "web/src/a b.ts").write_text("changed")
    tools = room / "tools"
    tools.mkdir()
    program(tools / "node", "#!/bin/sh\nexit 0\n")
    program(
        tools / "npm",
        f'#!/bin/sh\npwd >> "{room}/npm"\necho "$@" >> "{room}/npm"\n[ "$1" != ci ] || mkdir node_modules\n',
    )
    for _ in range(2):
        done = run(room, "scripts/start.sh", PATH=f"{tools}:{os.environ['PATH']}")
        assert done.returncode == 0, done.stderr
    assert "relay: building the page" not in done.stderr
    web = str(room / "web")
    assert (room / "npm").read_text().splitlines() == [web, "ci --no-audit --no-fund", web, "run build"]


def test_a_step_that_fails_shows_what_it_said(room: Path) -> None:
    (room / "web/src/a b.ts").write_text("changed")
    tools = room / "tools"
    tools.mkdir()
    program(tools / "node", "#!/bin/sh\nexit 0\n")
    program(tools / "npm", "#!/bin/sh\necho 'no such package'\nexit 1\n")
    done = run(room, "scripts/start.sh", PATH=f"{tools}:{os.environ['PATH']}")
    assert done.returncode == 1
    assert "no such package" in done.stderr
    assert "relay: that failed: installing what builds the page" in done.stderr


def test_a_step_that_takes_long_says_that_it_goes_on(room: Path) -> None:
    (room / "web/src/a b.ts").write_text("changed")
    tools = room / "tools"
    tools.mkdir()
    program(tools / "node", "#!/bin/sh\nexit 0\n")
    slow = (
        "#!/bin/sh\n[ \"$1\" = run ] || { sleep 2; echo 'half of it is there'; echo '  '; echo; sleep 4; }\n"
    )
    program(tools / "npm", slow)
    done = run(room, "scripts/start.sh", PATH=f"{tools}:{os.environ['PATH']}", STEP_LINE_S="1")
    assert done.returncode == 0, done.stderr
    told = [line.partition("it goes on, ")[2] for line in done.stderr.splitlines() if "it goes on" in line]
    # What it said is said once, and a line without a word is none.
    assert [line.partition(" s: ")[2] for line in told if ":" in line] == ["half of it is there"]
    assert len(told) > 2 and not any(line.endswith(": ") for line in told)


def test_without_a_python_it_says_what_to_install(room: Path) -> None:
    shutil.rmtree(room / ".venv")
    tools = room / "tools"
    tools.mkdir()
    for name in ("dirname", "git"):
        (tools / name).symlink_to(shutil.which(name) or name)
    program(tools / "python3", "#!/bin/sh\nexit 1\n")
    done = run(room, "scripts/start.sh", PATH=str(tools))
    assert done.returncode == 1
    assert "Python 3.11 or newer is needed" in done.stderr
    assert "apt install python3" in done.stderr


def test_before_set_up_stop_has_nothing_to_stop_and_the_check_says_so(room: Path) -> None:
    shutil.rmtree(room / ".venv")
    stopped = run(room, "stop.sh")
    assert (stopped.returncode, stopped.stdout) == (0, "relay is not running: it was never set up here.\n")
    checked = run(room, "healthcheck.sh")
    assert checked.returncode == 1
    assert "bash scripts/start.sh" in checked.stderr
    (room / "speaker.lock").write_text("{}")
    assert run(room, "stop.sh").returncode == 1


@pytest.mark.parametrize("lock", ["requirements.lock", "requirements-test.lock"])
def test_the_locks_pin_everything_and_name_no_host(lock: str) -> None:
    lines = [line for line in (REPO / lock).read_text().splitlines() if not line.startswith(("#", "-r "))]
    assert all(len(line.split("==")) == 2 for line in lines)
    assert "://" not in (REPO / lock).read_text()


def test_the_locks_hold_what_the_packaging_asks_for() -> None:
    told = tomllib.loads((REPO / "pyproject.toml").read_text())
    lock = (REPO / "requirements.lock").read_text().lower().replace("-", "_").splitlines()
    test_lock = (REPO / "requirements-test.lock").read_text().lower().replace("-", "_").splitlines()
    asked = told["build-system"]["requires"] + told["project"]["dependencies"]
    assert [pin for pin in asked if pin.lower().replace("-", "_") not in lock] == []
    asked = told["project"]["optional-dependencies"]["test"]
    assert [pin for pin in asked if pin.lower().replace("-", "_") not in test_lock] == []
