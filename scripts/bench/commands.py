"""What a command of `relay` costs before it answers: `python -m scripts.bench.commands`.

Each is a whole process in a room whose daemon runs, by turns with a bare Python. Processor time has the process's own
and that of the programs that it waited for; the daemon's answer is not in it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from relay.cli import COMMANDS
from scripts.bench.figures import Figure, at_most, beside, run, spread, turns, unmeasured
from scripts.bench.guard import BARE, made, ran
from scripts.bench.room_daemon import running

#: What a command is asked that does not answer, or not soon, without a word more.
WORDS = {
    "join": ["--say", "hello"],
    "agents": ["doctor"],
    "attach": ["claude", "--dry-run"],
    "guard": ["install"],
    "mcp": ["--agent", "BOT"],
    "memory": ["recall", "the parser"],
    "message": ["pins"],
    "keys": ["list"],
    "log": ["--no-follow"],
    "explore": ["list"],
    "review": ["--help"],  # no agent has a branch there
    "merge": ["base.py", "ours.py", "theirs.py"],
    "verify-policy": ["list"],
    "timeline": ["log"],
}
PLAYS = "it plays for minutes, with rooms of its own"


def measure(folder: Path, quick: bool) -> Iterator[Figure]:
    room = made(folder / "room")
    for name in ("base.py", "ours.py", "theirs.py"):
        (room / name).write_text("x = 1\n")
    yield unmeasured("relay demo", PLAYS)
    asked = {name: WORDS.get(name, []) for name in COMMANDS if name != "demo"}
    took: dict[str, list[tuple[float, float]]] = {name: [] for name in ("", *asked)}
    settings = {"agents": [{"name": "BOT", "cmd": ["true"]}], "dispatcher": {"enabled": False}}
    with running(room, settings):
        for name in turns(took, 2 if quick else 10):
            words = [sys.executable, "-m", "relay.cli", name, *asked[name]] if name else BARE
            took[name].append(ran(words, "", room))
    floors = [spread("python -c pass", [one[place] for one in took[""]]) for place in (0, 1)]
    for name, words in asked.items():
        wall, used = ([one[place] for one in took[name]] for place in (0, 1))
        called = " ".join(("relay", name, *words))
        yield beside(spread(called, wall), floors[0])
        yield beside(spread(f"{called}, processor time", used, limits=at_most(p95=250)), floors[1])


if __name__ == "__main__":
    sys.exit(run("commands", measure, "What each command of relay costs."))
