"""How long an edit waits for the guard: the hook's whole process against a real daemon, and its parts.

`python -m scripts.bench.guard`. The target, 150 ms for the whole hook, is what nobody notices beside the seconds
that a model takes for an edit.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from relay.app.guard import hook
from scripts.bench.figures import Figure, at_most, run, spread, stopwatch
from scripts.bench.room_daemon import running

SCRIPT = str(Path(hook.__file__).absolute())


def measure(folder: Path, quick: bool) -> Iterable[Figure]:
    count = 10 if quick else 300
    room = folder / "room"
    agents = [{"name": "BOT", "cmd": ["true"]}]
    with running(room, {"agents": agents, "dispatcher": {"enabled": False}}):
        config = str(room / "config.json")
        arguments = ["hook", "--agent", "BOT", "--config", config]
        edit = json.dumps({"tool_name": "Edit", "tool_input": {"file_path": "a.py"}, "cwd": str(room)})
        plain = [sys.executable, "-I", "-S", "-c", "pass"]
        yield spread("python, with nothing to do", timed(plain, edit, count))
        script = [sys.executable, "-I", "-S", SCRIPT, *arguments]
        yield spread(
            "guard hook, as the presets call it", timed(script, edit, count), limits=at_most(p95=150)
        )
        command = [sys.executable, "-m", "relay.cli", "guard", *arguments]
        yield spread("guard hook, as `relay guard hook`", timed(command, edit, count // 5 or 2))
        yield from of_git(room, config, count // 3 or 2, "a running room")
    yield spread("guard hook, with no room", timed(script, edit, count))
    yield from of_git(room, config, count // 3 or 2, "a room that is down")


def of_git(room: Path, config: str, count: int, asked: str) -> Iterable[Figure]:
    """git's own hook for a commit of two files that nobody holds."""
    repo = room.parent / "repo"
    if not repo.exists():
        subprocess.run(["git", "init", "-q", str(repo)], check=True)
        for name in ("a.py", "b.py"):
            (repo / name).write_text("x\n")
        subprocess.run(["git", "add", "-A"], cwd=repo, check=True)
    words = [sys.executable, "-I", SCRIPT, "pre-commit", "--config", config]
    yield spread(
        f"git's hook for a commit, by {asked}", timed(words, "", count, repo), limits=at_most(p95=500)
    )


def timed(words: Sequence[str], given: str, count: int, folder: Path | None = None) -> list[float]:
    """Seconds of each run, from before its start until after its end. Raises when one fails."""
    took = []
    for _ in range(count):
        with stopwatch(took):
            subprocess.run(words, input=given.encode(), check=True, capture_output=True, cwd=folder)
    return took


if __name__ == "__main__":
    sys.exit(run("guard", measure, "How long an edit waits for the guard's hook."))
