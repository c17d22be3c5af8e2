"""A person at the command line before the room's database: who asks, how it is opened, how an answer is printed.

Invariant: the commands work whether the daemon runs or not, since they write to the same database and the log tells
the daemon. Exit code 0 = did it, 1 = could not (refused, unknown, busy), 2 = wrong use; with `--json` the answer is
one JSON value on standard output, also when it is a refusal.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from relay.access.git_person import git_person
from relay.app.runtime.identity import WrongUse
from relay.base.durations import parse_iso, rough_duration
from relay.base.terminal_text import fail, safe, safe_line, tame
from relay.config.loading import load_for_command
from relay.config.locate import add_config_option
from relay.config.settings import Settings
from relay.model import ADMIN, RESERVED_NAMES, SCOPES, Caller, Fault, Refusal
from relay.model.speaker_names import clean_name, is_reserved
from relay.store.ports import Store

if TYPE_CHECKING:
    from relay.faces.coordination import CoordinationServices

Json = Any
#: From then on a day says more than how long ago it was.
LONG_AGO_S = 60 * 86_400.0
#: The session of the person at the command line; each person has one (docs/coordination.md, "Who asks").
SESSION = "cli"
#: Widest column of a table, in characters.
WIDEST = 60


@dataclass(frozen=True, slots=True)
class OpenRoom:
    """The room's database, open, and who asks."""

    store: Store
    services: CoordinationServices
    caller: Caller


Work = Callable[[OpenRoom], Awaitable[Json]]


def parser(name: str, text: str, actions: Sequence[str]) -> argparse.ArgumentParser:
    """`relay NAME [ACTION] ...`; the first action is what it does without one."""
    made = argparse.ArgumentParser(prog=f"relay {name}", description=text)
    made.add_argument(
        "action", nargs="?", choices=actions, default=actions[0], help=f"what to do ({actions[0]})"
    )
    add_config_option(made)
    made.add_argument("--name", help="your name in the room (the one that git has for you)")
    made.add_argument("--json", action="store_true", help="print the answer as JSON")
    return made


def run(args: argparse.Namespace, work: Work, text: Callable[[Json], str]) -> int:
    """Do it and print the answer; gives the exit code. Raises ConfigError, StoreError."""
    settings = load_for_command(args.config)
    try:
        answer = asyncio.run(_ask(settings, args.name, work))
    except WrongUse as error:
        return fail(str(error), 2)
    except Refusal as error:
        if args.json and error.code:
            print(json.dumps(error.as_json()))
        return fail(str(error), 2 if error.fault is Fault.MALFORMED else 1)
    print(json.dumps(answer) if args.json else safe(text(tame(answer))))
    return 0 if not isinstance(answer, dict) or answer.get("success", True) else 1


async def _ask(settings: Settings, name: str | None, work: Work) -> Json:
    from relay.app.wiring.schema import SCHEMAS
    from relay.config.settings import LiveSettings
    from relay.store.open import opened_store

    agents = settings.agent_names
    caller = person(name or git_person(settings.repo, agents), agents)
    settings.runtime_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    async with opened_store(settings, SCHEMAS) as store:
        from relay.faces.coordination import coordination_of

        return await work(OpenRoom(store, coordination_of(store, LiveSettings(settings)), caller))


def person(name: str, agents: Sequence[str]) -> Caller:
    """Who types. Raises WrongUse: no person's name."""
    try:
        clean = clean_name(name)
    except ValueError as error:
        raise WrongUse(f"--name: {error}") from None
    if is_reserved(clean, [*agents, *RESERVED_NAMES]):
        raise WrongUse(f"{clean} is the name of an agent or of the room: give your own with --name")
    return Caller(clean, SESSION, agent_type="person", person=True, scopes=SCOPES | {ADMIN})


def table(rows: Sequence[Sequence[str]]) -> str:
    """The rows with their columns below each other; the last column is not filled up."""
    clean = [[safe_line(cell, 200) for cell in row] for row in rows]
    widths = [min(WIDEST, max(map(len, column))) for column in zip(*clean, strict=True)]
    lines = []
    for row in clean:
        cells = [cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=False)]
        lines.append("  ".join([*cells, row[-1]]).rstrip())
    return "\n".join(lines)


def ago(at: str | None) -> str:
    """How long ago a time of an answer is; its day, when that is long ago."""
    if not at:
        return ""
    seconds = time.time() - parse_iso(at)
    return at[:10] if seconds > LONG_AGO_S else f"{rough_duration(seconds, zero_minutes=True)} ago"


def left(at: str | None) -> str:
    """How long it is until a time of an answer."""
    return f"{rough_duration(parse_iso(at) - time.time(), zero_minutes=True)} left" if at else ""
