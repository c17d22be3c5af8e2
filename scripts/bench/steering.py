"""How soon an agent that works hears the room, and that it hears each message once.

`python -m scripts.bench.steering`. Ten agents at once, each a process that speaks Claude Code's stream-json input
(`steering_program.py`), in a room of one daemon. A message is there for the next tool boundary after it was posted;
what is measured against the goal is how long after that boundary the agent heard it, since when the boundary comes is
the model's matter. The whole time from the post stands beside it. The races post a message at a random moment around
the end of a turn.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import shlex
import subprocess
import sys
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from scripts.bench.figures import Figure, at_most, run, single, spread
from scripts.bench.guard import made
from scripts.bench.room_daemon import ROOT, Daemon, running

AGENTS = 10
#: Seconds of a tool, as the issue has it.
TOOL_S = 2.0
Json = dict[str, Any]


def measure(folder: Path, quick: bool) -> Iterable[Figure]:
    yield from boundaries(folder / "boundaries", rounds=1 if quick else 20, tool_s=0.3 if quick else TOOL_S)
    yield from races(folder / "races", 20 if quick else 1000)
    yield from attaching(folder / "people", 2 if quick else 40)


def settings(folder: Path, tools: int, tool_s: float) -> Json:
    """A room of `AGENTS` agents whose program is the stand-in."""
    folder.mkdir(parents=True)
    program = folder / "claude"
    script = ROOT / "scripts" / "bench" / "steering_program.py"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I "{script}" "$@"\n')
    program.chmod(0o755)

    def agent(number: int) -> Json:
        own = {
            "BENCH_TOOL_S": str(tool_s),
            "BENCH_TOOLS": str(tools),
            "BENCH_SEEN": str(folder / f"A{number}"),
        }
        env = {"PATH": f"{folder}:{os.environ['PATH']}", **own}
        return {
            "name": f"A{number}",
            "preset": "claude",
            "mcp": False,
            "env": env,
            "permissions": "read-only",
        }

    quiet = {"dispatcher": {"enabled": False}, "jitter": {"busy_s": 0, "medium_s": 0, "quiet_s": 0}}
    return {**quiet, "agents": [agent(number) for number in range(AGENTS)], "airspace": {"enabled": False}}


def ask(room: Daemon, method: str, path: str, body: Json | None = None) -> Any:
    connection = http.client.HTTPConnection("127.0.0.1", room.port, timeout=30)
    head = {"X-API-Key": room.token, "Content-Type": "application/json"}
    connection.request(method, path, json.dumps(body) if body is not None else None, head)
    with connection.getresponse() as answer:
        told = json.loads(answer.read())
    connection.close()
    if answer.status >= 400:
        raise RuntimeError(f"{path}: {told}")
    return told


def say(room: Daemon, text: str) -> str:
    """A person's message; its id."""
    return str(ask(room, "POST", "/api/messages", {"body": text, "name": "ann"})["id"])


def hearing(room: Daemon) -> int:
    """How many agents are at a turn that hears what is said."""
    agents = ask(room, "GET", "/api/state")["agents"]
    return sum(1 for one in agents if one["running"] and one["channel"]["hears"] == "boundary")


def seen(folder: Path, number: int) -> list[Json]:
    """What an agent's program has seen."""
    file = folder / f"A{number}"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def boundaries(folder: Path, rounds: int, tool_s: float) -> Iterable[Figure]:
    tools = round(rounds * 6 / tool_s) + 20
    with running(folder / "room", settings(folder / "bin", tools, tool_s)) as room:
        for number in range(AGENTS):
            say(room, f"@A{number} work")

        room.wait_until("all agents hear", lambda: hearing(room) == AGENTS, 120, 0.1)
        posted: list[tuple[int, str, float]] = []
        chance = random.Random(1)
        for _ in range(rounds):
            for number in chance.sample(range(AGENTS), AGENTS):
                posted.append((number, say(room, f"/steer @A{number} number {len(posted)}."), time.time()))
                time.sleep(chance.random() * min(1.0, tool_s))
        heard = "SELECT COUNT(*) FROM dispatch_queue WHERE heard_at IS NOT NULL"
        room.wait_until("all are heard", lambda: room.ask(heard) == len(posted), 60 + 10 * tool_s, 0.1)
        whole, behind = [], []
        for number, id, at in posted:
            when = room.ask("SELECT heard_at FROM dispatch_queue WHERE message_id = ?", id)
            came = [one["at"] for one in seen(folder / "bin", number) if one["what"] == "boundary"]
            after = bisect_left(came, at)
            whole.append(when - at)
            behind.append(max(0.0, when - came[after]))
    size = f"{AGENTS} agents at once, a tool each {tool_s:g} s"
    yield spread(
        "heard, after the first tool boundary behind the post", behind, limits=at_most(p95=1000), size=size
    )
    yield spread("heard, after the post", whole, size=size)


def attaching(folder: Path, count: int) -> Iterable[Figure]:
    """People's own sessions: from the command, and from the program's first hook, to a member of the room. Ten agents
    are there and do nothing."""
    repo = made(folder)
    git = ["git", "-C", str(repo), "-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    subprocess.run([*git, "commit", "-qm", "first"], check=True)
    agents = [{"name": f"IDLE{number}", "cmd": ["true"]} for number in range(10)]
    relay = [sys.executable, "-m", "relay.cli"]
    place = ["--config", str(repo / "config.json")]
    env = {name: value for name, value in os.environ.items() if not name.startswith("RELAY_")}
    env["PYTHONPATH"] = str(ROOT)

    def call(words: list[str], given: bytes = b"") -> float:
        """Seconds that it took."""
        began = time.monotonic()
        subprocess.run(words, input=given, cwd=repo, env=env, check=True, capture_output=True)
        return time.monotonic() - began

    with running(repo, {"agents": agents, "dispatcher": {"enabled": False}}) as room:
        commands, hooks = [], []
        for _ in range(max(2, count // 8)):
            commands.append(call([*relay, "attach", "claude", "--yes", *place]))
            call([*relay, "detach", *place])
        call([*relay, "attach", "claude", "--yes", *place])
        wired = json.loads((repo / ".claude" / "settings.local.json").read_text())["hooks"]["SessionStart"]
        hook = shlex.split(wired[0]["hooks"][0]["command"])
        for number in range(count):
            event = {"hook_event_name": "SessionStart", "source": "startup", "session_id": f"s-{number}"}
            given = json.dumps({**event, "cwd": str(repo)}).encode()
            began = time.monotonic()
            call(hook, given)
            known = {session["session_id"] for session in ask(room, "GET", "/sessions")}
            if event["session_id"] not in known:
                raise RuntimeError(f"{event['session_id']} is not in the room after its first hook")
            hooks.append(time.monotonic() - began)
    yield spread("relay attach, the whole command", commands, limits=at_most(p95=5000))
    yield spread("a session in the room, from its first hook", hooks, limits=at_most(p95=5000))


def races(folder: Path, count: int) -> Iterable[Figure]:
    with running(folder / "room", settings(folder / "bin", 6, 0.0)) as room:
        chance = random.Random(2)
        left = count
        open_jobs = "SELECT COUNT(*) FROM dispatch_queue WHERE state NOT IN ('done', 'skipped', 'dead')"
        while left > 0:
            batch = min(AGENTS, left)
            for number in range(batch):
                say(room, f"@A{number} begin")
            give_up = time.monotonic() + 5
            while hearing(room) < batch // 2 and time.monotonic() < give_up:
                time.sleep(0.01)
            time.sleep(chance.random() * 0.4)
            for number in range(batch):
                left -= 1
                say(room, f"@A{number} race {left}.")
                time.sleep(chance.random() * 0.05)
            room.wait_until("the turns have ended", lambda: room.ask(open_jobs) == 0, 120, 0.02)
        told: Counter[int] = Counter()
        how: Counter[str] = Counter()
        for number in range(AGENTS):
            for one in seen(folder / "bin", number):
                for word in range(count) if " race " in one["text"] else ():
                    # Behind the fence's end comes nothing; a prompt has its messages last.
                    if f"race {word}." in one["text"].rpartition("The message to answer:")[2]:
                        told[word] += 1
                        how[one["what"]] += 1
        gone = sum(
            room.ask("SELECT COUNT(*) FROM dispatch_queue WHERE state = ?", s) for s in ("dead", "skipped")
        )
    lost = count - len(told) + gone
    doubled = sum(times - 1 for times in told.values())
    note = (
        f"{how['taken']} in the turn, {how['late']} as one more in its process, {how['prompt']} with the next"
    )
    goal = {"value": ("<=", 0.0)}
    yield single("races with the turn's end: lost", lost, "messages", n=count, limits=goal, note=note)
    yield single("races with the turn's end: told twice", doubled, "messages", n=count, limits=goal)


if __name__ == "__main__":
    raise SystemExit(run("steering", measure, __doc__ or ""))
