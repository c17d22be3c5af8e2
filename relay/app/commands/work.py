"""`relay work`: the board and the work queue from the command line (docs/coordination.md, "Work")."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from typing import Any

from relay.app.commands.person import OpenRoom, ago, left, parser, run, table
from relay.app.runtime.identity import WrongUse
from relay.coordination.tasks.board import Board
from relay.coordination.tasks.needs import found_task
from relay.coordination.tasks.service import WANTED
from relay.coordination.tasks.task import Column, Status, Task
from relay.model import references
from relay.store.ports import Tx

Json = dict[str, Any]


def main(words: list[str]) -> int:
    """The command; gives its exit code."""
    made = parser(
        "work",
        "Show the tasks, submit one, or reopen one that has ended.",
        ("list", "show", "submit", "reopen"),
    )
    made.add_argument(
        "what", nargs="?", metavar="N|TEXT", help="the task's number; submit: what is to be done"
    )
    made.add_argument("--all", action="store_true", help="list: what is done too")
    made.add_argument("--status", choices=list(WANTED), metavar="STATUS", help=f"list: {', '.join(WANTED)}")
    made.add_argument("--of-type", metavar="TYPE", help="list: this kind of work")
    made.add_argument("--assignee", metavar="NAME", help="list: who has it, or had it last")
    made.add_argument("--type", default="task", help="submit: the kind of work (task)")
    made.add_argument("--priority", type=int, default=5, help="submit: 1 is first, 10 last (5)")
    made.add_argument(
        "--depends-on", action="append", default=[], metavar="N", help="submit: a task that comes before"
    )
    made.add_argument(
        "--on-failed", choices=("block", "cascade", "ignore"), default="block", help="submit (block)"
    )
    made.add_argument(
        "--file", action="append", default=[], metavar="PATH", help="submit: what its claim locks"
    )
    made.add_argument("--input", metavar="JSON", help="submit: the input that its worker gets")
    made.add_argument("--max-attempts", type=int, help="submit: how many attempts at most")
    made.add_argument("--reason", help="reopen: why")
    args = made.parse_args(words)
    if (args.what is None) != (args.action == "list"):
        missing = "what is to be done" if args.action == "submit" else "the number of the task"
        made.error("list takes nothing" if args.action == "list" else f"{args.action} needs {missing}")
    act = {"list": _listed, "show": _shown, "submit": _submit, "reopen": _reopen}[args.action]
    texts: dict[str, Callable[[Any], str]] = {
        "list": _list,
        "show": _show,
        "submit": _submitted,
        "reopen": _reopened,
    }
    return run(args, lambda room: act(room, args), texts[args.action])


async def _listed(room: OpenRoom, args: argparse.Namespace) -> Sequence[Json]:
    if args.status or args.of_type or args.assignee:
        asked = {"status": args.status, "task_type": args.of_type, "assignee": args.assignee}
        tasks: list[Json] = []
        cursor = None
        while page := await room.services.work.list(room.caller, **asked, cursor=cursor, limit=1000):
            tasks += [task | {"status": task["column"]} for task in page["tasks"]]
            cursor = page["next"]
            if cursor is None:
                break
        return tasks

    async def look(tx: Tx) -> list[Json]:
        shown = [task for task in await _board(room).list(tx) if args.all or task.active or task.badge]
        return [task.as_json() for task in sorted(shown, key=_place)]

    return await room.store.read(look)


def _place(task: Task) -> int:
    """In progress, ready, blocked, done: what goes on stands first. By number within, as the board has them."""
    if task.column is Column.IN_PROGRESS:
        return 0
    if task.status is Status.BLOCKED:
        return 2
    return 1 if task.active else 3


async def _shown(room: OpenRoom, args: argparse.Namespace) -> Json:
    number = _number(args.what)

    async def look(tx: Tx) -> Json:
        task = dict(await _board(room).story(tx, number))
        needs = [await found_task(tx, need["id"]) for need in task["depends_on"]]
        task["needs"] = [
            {"number": need.number, "title": need.title, "state": _state(need)} for need in needs
        ]
        return task

    return await room.store.read(look, long=True)


def _state(need: Task) -> str:
    return "taken off the board" if need.archived_at is not None else _words(need.as_json())


def _words(task: Json) -> str:
    return str(task["badge"] or task["status"].replace("_", " "))


async def _submit(room: OpenRoom, args: argparse.Namespace) -> Json:
    try:
        given = None if args.input is None else json.loads(args.input)
    except ValueError as error:
        raise WrongUse(f"--input is not JSON: {error}") from None
    return await room.services.work.submit(
        room.caller,
        args.type,
        args.what,
        input_data=given,
        priority=args.priority,
        depends_on=[await _id(room, number) for number in args.depends_on],
        on_failed=args.on_failed,
        files=args.file,
        max_attempts=args.max_attempts,
    )


async def _reopen(room: OpenRoom, args: argparse.Namespace) -> Json:
    done = await room.services.work.reopen(room.caller, await _id(room, args.what), reason=args.reason)
    return {"number": _number(args.what), **done}


async def _id(room: OpenRoom, number: str) -> str:
    task = await room.store.read(lambda tx: _board(room).get(tx, _number(number)))
    return task.id


def _board(room: OpenRoom) -> Board:
    return Board(claims=room.services.work.claims)


def _number(word: str) -> int:
    named = references.read(word, references.Thing.TASK)
    if named is None or named[0] is not references.Thing.TASK:
        raise WrongUse(f"{word[:40]!r} is not a task number, like t12")
    return named[1]


def _list(tasks: list[Json]) -> str:
    return table([_row(task) for task in tasks]) if tasks else "No task is open."


def _row(task: Json) -> list[str]:
    why = task.get("error_message") or task.get("note") or ""
    lease = left(task.get("lease_until")) if task["status"] == "in_progress" else ""
    return [
        references.task(task["number"]),
        _words(task),
        task["assignee"] or "",
        lease,
        task["title"],
        why if task["badge"] else "",
    ]


def _show(task: Json) -> str:
    lines = [
        f"{references.task(task['number'])} {task['title']}",
        f"{_words(task)}, made by {task['created_by']}",
        f"type {task['task_type']}, priority {task['priority']}, {_attempts(task)}",
    ]
    if task["assignee"]:
        lines.append(f"{'ended' if task['status'] == 'done' else 'claimed'} by {task['assignee']}")
    if task["needs"]:
        needs = ", ".join(f"{references.task(need['number'])} ({need['state']})" for need in task["needs"])
        lines.append(f"{'waits for' if task['badge'] == 'blocked' else 'depends on'}: {needs}")
    if task["files"]:
        lines.append(f"files: {', '.join(task['files'])}")
    for name in ("note", "error_message"):
        lines += [f"{name.partition('_')[0]}: {task[name]}"] if task.get(name) else []
    for name in ("input_data", "result"):
        if task.get(name) is not None:
            lines.append(f"{name.partition('_')[0]}: {json.dumps(task[name], ensure_ascii=False)}")
    lines += [
        f"  {ago(change['at']):>14}  {change['by'] or ''} {change['change'].replace('_', ' ')}"
        + (f": {change['note']}" if change["note"] else "")
        for change in task["history"]
    ]
    return "\n".join(lines)


def _attempts(task: Json) -> str:
    """`attempts` counts those that came to nothing: all of a dead one, of others those before this one."""
    return f"attempt {task['attempts'] + (task['badge'] != 'dead')} of {task['max_attempts']}"


def _submitted(answer: Json) -> str:
    return f"Task {references.task(answer['number'])} is {answer['status']}."


def _reopened(answer: Json) -> str:
    return f"Task {references.task(answer['number'])} is open again: a new attempt."
