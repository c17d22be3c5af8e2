"""`relay work edit | give | import`: changing tasks, giving them to agents and importing issues, from a shell.

An edit and an import write to the room's database, whether the daemon runs or not; to give a task is an action of the
running room.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import uuid_utils

from relay.access.git_person import git_person
from relay.app.commands.person import OpenRoom
from relay.app.runtime.daemon_requests import agents_key, asked
from relay.app.runtime.identity import WrongUse
from relay.base.terminal_text import fail, safe, safe_line, tame
from relay.config.loading import load_for_command
from relay.coordination.tasks.board import Board
from relay.coordination.tasks.edits import TakenIn, parse_issues
from relay.log.events import Lane
from relay.model import references
from relay.store.ports import Tx

Json = dict[str, Any]
#: Bytes of a file of issues; entries that are named that were not taken.
MOST_BYTES, MOST_NAMED = 32 << 20, 20


def lane() -> Lane:
    """The lane of what a person does in a shell."""
    return Lane("room", f"shell:{uuid_utils.uuid7()}", short=True)


async def edit(room: OpenRoom, args: argparse.Namespace, number: int) -> Json:
    """Raises Refusal, WrongUse."""
    changes: Json = {}
    for field, value in (("title", args.title), ("body", args.description), ("priority", args.priority)):
        changes |= {} if value is None else {field: value}
    if "body" in changes and changes["body"] == "-":
        changes["body"] = _read("-")
    if args.file:
        changes["files"] = [] if args.file == ["-"] else args.file
    if args.depends_on:
        none = args.depends_on == ["-"]
        changes["depends_on"] = (
            [] if none else [references.task(task_number(word)) for word in args.depends_on]
        )
    if not changes:
        raise WrongUse("say what is to be other: --title, --description, --priority, --file or --depends-on")
    board = Board(claims=room.services.work.claims)

    async def work(tx: Tx) -> Json:
        done = await board.edit(tx, [number], changes, by=room.caller.agent, lane=lane())
        return {
            "success": True,
            "reason": f"{room.caller.agent} {done.summary()}",
            "task": done.task.as_json(),
        }

    return await room.store.write(work)


async def take_in(room: OpenRoom, args: argparse.Namespace) -> Json:
    """Raises Refusal, WrongUse."""
    read = TakenIn()
    issues = parse_issues(_read(args.what[0]), read)
    board = Board(claims=room.services.work.claims)

    async def work(tx: Tx) -> Json:
        done = await board.take_in(tx, issues, by=room.caller.agent, lane=lane(), taken=read.copy())
        return {"success": True, "reason": f"{room.caller.agent} {done.summary()}.", **done.as_json()}

    return await room.store.write(work)


def imported(answer: Json) -> str:
    """The answer in words, with what was not taken."""
    refused = answer["refused"]
    lines = [f"  {safe_line(str(one['entry']), 120)}: {safe_line(one['reason'], 200)}" for one in refused]
    more = [f"  and {len(lines) - MOST_NAMED} more"] if len(lines) > MOST_NAMED else []
    return "\n".join([answer["reason"], *lines[:MOST_NAMED], *more])


def give(args: argparse.Namespace) -> int:
    """`relay work give N... AGENT|any`; gives the exit code."""
    if len(args.what) < 2:
        return fail(
            "say which tasks, and to whom: `relay work give t3 CLAUDE`, or `any` for whoever is free", 2
        )
    if agents_key():
        return fail("a person gives tasks to agents, and this is an agent's turn")
    *words, to = args.what
    try:
        numbers = [task_number(word) for word in words]
    except WrongUse as error:
        return fail(str(error), 2)
    settings = load_for_command(args.config)
    agent = None if to.lower() == "any" else to.removeprefix("@")
    known = {name.casefold(): name for name in settings.agent_names}
    agent = agent and known.get(agent.casefold(), agent)
    person = args.name or git_person(settings.repo, settings.agent_names)
    body = {"tasks": numbers, "action": "give", "to": agent}
    done = asked(settings, "/api/tasks/some", person=person, body=body, as_json=args.json)
    print(json.dumps(done) if args.json else safe(str(tame(done)["reason"])))
    return 0 if done.get("success") else 1


def task_number(word: str) -> int:
    """Raises WrongUse."""
    named = references.read(word, references.Thing.TASK)
    if named is None or named[0] is not references.Thing.TASK:
        raise WrongUse(f"{word[:40]!r} is not a task number, like t12")
    return named[1]


def _read(name: str) -> str:
    """A file, or standard input for `-`, as UTF-8. Raises WrongUse."""
    try:
        data = sys.stdin.buffer.read(MOST_BYTES + 1) if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise WrongUse(f"{name}: {error.strerror}") from None
    if len(data) > MOST_BYTES:
        raise WrongUse(f"{name} has more than {MOST_BYTES >> 20} MiB")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise WrongUse(f"{name} is not UTF-8 at byte {error.start}") from None
