"""What is kept of one worktree: its ports, how its setup ended, and which app runs in it.

Invariant: the record lies in the worktree's own git directory, so it is gone when git removes the worktree, and a new
worktree of the same name begins without one. Two agents in one checkout have one record. That an app runs stands in a
file of its own for each agent: it is written while a setup may be, and a stop of the room leaves it there.

Blocking, for milliseconds: call it in a thread.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from relay.app.worktrees.ports import PortRange
from relay.base.files import read_regular, write_atomically

#: The file in the worktree's git directory.
NAME = "relay-worktree.json"
_APP = "relay-app-{}.json"
#: Characters of the end of a command's output that are kept, and of the reason that it did not succeed.
MOST_OUTPUT, MOST_REASON = 8_000, 500

SetupState = Literal["due", "running", "done", "failed"]
_STATES: Collection[str] = ("due", "running", "done", "failed")


@dataclass(frozen=True, slots=True)
class Setup:
    """How the setup of a worktree stands. `reason`: why it failed, a sentence without its full stop. `at`: when it
    began, as ISO 8601; `seconds`: how long it took. `copied`: the files from the main checkout; `notes`: which were
    not copied, and why. `output`: the end of what it printed. `told`: its agent knows that it failed."""

    state: SetupState
    reason: str = ""
    at: str = ""
    seconds: float = 0.0
    copied: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    output: str = ""
    told: bool = False

    def as_json(self, *, output: bool) -> dict[str, Any]:
        """`output`: with what it printed."""
        shown = asdict(self) | {"at": self.at or None}
        del shown["told"]
        if not output:
            del shown["output"]
        return shown


@dataclass(frozen=True, slots=True)
class WorktreeRecord:
    """`ports`: None = none were assigned yet; `setup`: None = nothing was ever set up there."""

    ports: PortRange | None = None
    setup: Setup | None = None


def load(git_dir: Path) -> WorktreeRecord:
    """The record there. One that is missing, or that nobody can read, is an empty one."""
    try:
        told = json.loads(read_regular(git_dir / NAME))
        ports, setup = told["ports"], told["setup"]
        if setup is not None and setup["state"] not in _STATES:
            raise ValueError(setup["state"])
        return WorktreeRecord(
            None if ports is None else PortRange(int(ports[0]), int(ports[1])),
            None
            if setup is None
            else Setup(**{**setup, "copied": tuple(setup["copied"]), "notes": tuple(setup["notes"])}),
        )
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        return WorktreeRecord()


def save(git_dir: Path, record: WorktreeRecord) -> None:
    """Raises OSError."""
    ports, setup = record.ports, record.setup
    told = {
        "ports": None if ports is None else [ports.first, ports.count],
        "setup": None if setup is None else asdict(setup),
    }
    write_atomically(git_dir / NAME, json.dumps(told) + "\n", durable=False)


@dataclass(frozen=True, slots=True)
class RunningApp:
    """Who started an agent's app, and when (ISO 8601). `told`: the room knows that it was cut off."""

    by: str
    started_at: str
    told: bool = False


def running_app(git_dir: Path, agent: str) -> RunningApp | None:
    """The app that runs, or ran when the room stopped; None: none, or nobody can read it."""
    try:
        return RunningApp(**json.loads(read_regular(git_dir / _APP.format(agent))))
    except (OSError, ValueError, TypeError):
        return None


def put_app(git_dir: Path, agent: str, app: RunningApp | None) -> None:
    """None: it is over. Raises OSError."""
    path = git_dir / _APP.format(agent)
    if app is None:
        path.unlink(missing_ok=True)
    else:
        write_atomically(path, json.dumps(asdict(app)) + "\n", durable=False)


def last_lines(output: str, count: int) -> list[str]:
    """The last of these lines that are not blank."""
    return [line[:300] for line in output.rstrip().splitlines() if line.strip()][-count:]
