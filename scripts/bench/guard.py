"""How long an edit, or a command of a shell, waits for the guard: the hook's whole process against a real daemon, and
the question alone, as a resident hook asks it.

`python -m scripts.bench.guard`. The target, 150 ms for the whole hook, is what nobody notices beside the seconds
that a model takes for an edit. The floor is a Python that starts and does nothing, by turns with each hook.
"""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

from relay import guard_cli
from scripts.bench.figures import Figure, at_most, beside, run, spread, turns
from scripts.bench.room_daemon import ROOT, Daemon, running

SCRIPT = str(Path(guard_cli.__file__).absolute())
BARE = [sys.executable, "-c", "pass"]
#: The hook's own start: isolated, without a look for packages.
ISOLATED = [sys.executable, "-I", "-S", "-c", "pass"]
#: Agents that ask at once, each by a connection of its own that stays.
AT_ONCE = 10
COMMAND = "cd src && sed -i 's/x/y/' a.py && cat a.py | grep -c y > ../found.txt; python3 -m pytest -q"
#: What a hook may be of a bare start.
TIMES = at_most(ratio=2.5)


def measure(folder: Path, quick: bool) -> Iterable[Figure]:
    count = 10 if quick else 300
    room = folder / "room"
    agents = [{"name": "BOT", "cmd": ["true"]}]
    edit = json.dumps({"tool_name": "Edit", "tool_input": {"file_path": "a.py"}, "cwd": str(room)})
    arguments = ["hook", "--agent", "BOT", "--config", str(room / "config.json")]
    script = [sys.executable, "-I", "-S", SCRIPT, *arguments]
    of_git = [sys.executable, "-I", SCRIPT, "pre-commit", "--config", str(room / "config.json")]
    repo = made(folder / "repo")
    command = json.dumps({"tool_name": "Bash", "tool_input": {"command": COMMAND}, "cwd": str(room)})
    check_hook()
    with running(room, {"agents": agents, "dispatcher": {"enabled": False}}) as daemon:
        yield from resident(daemon, room, 5 if quick else 100)
        yield from of_command(script, command, repo, count)
        hooks = {
            "guard hook, as the presets call it": script,
            "git's hook for a commit, by a running room": of_git,
            "guard hook, as `relay guard hook`": [sys.executable, "-m", "relay.cli", "guard", *arguments],
        }
        yield from of_hooks(hooks, edit, repo, count, TIMES)
    hooks = {
        "guard hook, with no room": script,
        "git's hook for a commit, by a room that is down": of_git,
    }
    yield from of_hooks(hooks, edit, repo, count // 3, {})


def check_hook() -> None:
    """Raises RuntimeError when the script that is measured is not the hook: it ended well, and asked nobody."""
    words = [sys.executable, "-I", "-S", SCRIPT, "hook", "--unknown", ""]
    done = subprocess.run(words, check=False, capture_output=True)
    if done.returncode != 1:
        raise RuntimeError(f"{SCRIPT} is no hook: it ended with {done.returncode}")


def resident(daemon: Daemon, room: Path, rounds: int) -> Iterable[Figure]:
    """The question over HTTP that stays open: `AT_ONCE` agents ask at the same moment, again and again."""
    questions = {
        "a command": {"agent": "BOT", "command": COMMAND, "cwd": str(room), "tool": "Bash"},
        "an edit": {"agent": "BOT", "path": str(room / "a.py"), "lines": [1, 2], "tool": "Edit"},
    }
    daemon.wait_until_still()
    for what, question in questions.items():
        together = threading.Barrier(AT_ONCE)
        with ThreadPoolExecutor(AT_ONCE) as pool:
            took = list(pool.map(lambda _: asked(daemon, question, rounds, together), range(AT_ONCE)))  # noqa: B023
        name = f"guard question about {what}, resident, {AT_ONCE} agents at once"
        yield spread(name, [each for one in took for each in one], limits=at_most(p95=15))


def asked(
    daemon: Daemon, question: Mapping[str, object], rounds: int, together: threading.Barrier
) -> list[float]:
    """The seconds of each answer by one connection; `together`: all agents ask at once. The first is not counted."""
    took = []
    body, head = json.dumps(question), {"X-API-Key": daemon.token, "Content-Type": "application/json"}
    with closing(http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=30)) as wire:
        for _ in range(rounds + 1):
            together.wait()
            began = time.perf_counter()
            wire.request("POST", "/api/guard", body, head)
            answer = wire.getresponse()
            told = json.loads(answer.read())
            took.append(time.perf_counter() - began)
            if answer.status != 200 or told["decision"] != "allow":
                raise RuntimeError(f"the guard said {told}")
    return took[1:]


def of_command(script: Sequence[str], command: str, repo: Path, count: int) -> Iterable[Figure]:
    """The hook's process with a command, by turns with the Python that it is started with."""
    took: dict[str, list[float]] = {"python -I -S -c pass": [], "hook": []}
    for name in turns(took, count):
        took[name].append(ran(script if name == "hook" else ISOLATED, command, repo)[0])
    floor = spread("python -I -S -c pass", took["python -I -S -c pass"])
    yield beside(spread("guard hook about a command, by its process", took["hook"]), floor, TIMES)


def made(repo: Path) -> Path:
    """A repository with a commit to make, of two files that nobody holds."""
    subprocess.run(["git", "init", "-q", str(repo)], check=True)
    for name in ("a.py", "b.py"):
        (repo / name).write_text("x\n")
    subprocess.run(["git", "add", "-A"], cwd=repo, check=True)
    return repo


def of_hooks(
    hooks: Mapping[str, Sequence[str]],
    edit: str,
    repo: Path,
    count: int,
    limits: Mapping[str, tuple[str, float]],
) -> Iterable[Figure]:
    """Each hook's process by turns with a bare Python. `relay guard hook` is for people, and has no goal."""
    took: dict[str, list[tuple[float, float]]] = {name: [] for name in ("python -c pass", *hooks)}
    for name in turns(took, count):
        took[name].append(ran(hooks.get(name, BARE), edit, repo))
    bare = took.pop("python -c pass")
    for place, what in ((0, ""), (1, ", processor time")):
        floor = spread(f"python -c pass{what}", [one[place] for one in bare])
        for name, each in took.items():
            of_git = name.startswith("git")
            own = {} if place else at_most(p95=500 if of_git else 150)
            figure = spread(name + what, [one[place] for one in each])
            yield beside(figure, floor, {} if "`" in name else {**own, **limits})


def ran(words: Sequence[str], given: str, folder: Path) -> tuple[float, float]:
    """The seconds of a program, from before its start until after its end, and those of the processor: its own, and
    of the programs that it waited for. Raises when it fails."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with tempfile.TemporaryFile() as told, tempfile.TemporaryFile() as said:
        told.write(given.encode())
        told.seek(0)
        began = time.perf_counter()
        process = subprocess.Popen(words, stdin=told, stdout=said, stderr=said, cwd=folder, env=environment)
        _, status, used = os.wait4(process.pid, 0)
        took = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            said.seek(0)
            raise RuntimeError(f"{' '.join(words)} ended with {process.returncode}: {said.read().decode()}")
    return took, used.ru_utime + used.ru_stime


if __name__ == "__main__":
    sys.exit(run("guard", measure, "How long an edit waits for the guard's hook."))
