"""`relay work`: the board and the work queue from the command line (docs/coordination.md, "Work")."""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from relay.app.commands import work_changes
from relay.app.commands.person import OpenRoom, ago, left, parser, run, table
from relay.app.runtime.identity import WrongUse
from relay.app.tasks.card import failed_when_done
from relay.app.tasks.landed import landed
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
        "Show the tasks, submit or change one, give one to an agent, import issues, or reopen one that has ended.",
        ("list", "show", "submit", "edit", "give", "import", "reopen"),
    )
    made.add_argument(
        "what",
        nargs="*",
        metavar="N|TEXT|FILE",
        help="the task's number; submit: what is to be done; give: numbers, and an agent or `any`; import: a file of "
        "issues as `gh issue list --json number,title,body,labels,url,state,assignees` writes it, `-` = from a pipe",
    )
    made.add_argument("--all", action="store_true", help="list: what is done too")
    made.add_argument("--status", choices=list(WANTED), metavar="STATUS", help=f"list: {', '.join(WANTED)}")
    made.add_argument("--of-type", metavar="TYPE", help="list: this kind of work")
    made.add_argument("--assignee", metavar="NAME", help="list: who has it, or had it last")
    made.add_argument("--type", default="task", help="submit: the kind of work (task)")
    made.add_argument("--title", help="edit: its new title")
    made.add_argument("--description", metavar="TEXT", help="edit: Markdown; `-` = from a pipe")
    made.add_argument("--priority", type=int, help="submit, edit: 1 is first, 10 last (5)")
    made.add_argument(
        "--depends-on",
        action="append",
        default=[],
        metavar="N",
        help="submit, edit: a task that comes before (edit: `-` = none)",
    )
    made.add_argument(
        "--on-failed", choices=("block", "cascade", "ignore"), default="block", help="submit (block)"
    )
    made.add_argument(
        "--file",
        action="append",
        default=[],
        metavar="PATH",
        help="submit, edit: what it will touch, and its claim locks (edit: `-` = nothing)",
    )
    made.add_argument("--input", metavar="JSON", help="submit: the input that its worker gets")
    made.add_argument("--max-attempts", type=int, help="submit: how many attempts at most")
    made.add_argument("--reason", help="reopen: why")
    args = made.parse_args(words)
    if args.action == "give":
        return work_changes.give(args)
    missing = {"submit": "what is to be done", "import": "a file of issues, or `-`"}
    if args.action == "list" and args.what:
        made.error("list takes nothing")
    if args.action != "list" and len(args.what) != 1:
        needs = missing.get(args.action, "the number of the task")
        made.error(f"{args.action} needs {needs}" if not args.what else f"{args.action} takes one thing only")
    act = _ACTS[args.action]
    return run(args, lambda room: act(room, args), _TEXTS[args.action])


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
    from relay.app.needs.answered import waiting_now  # which reads much that the other actions do not need

    number = work_changes.task_number(args.what[0])

    async def look(tx: Tx) -> Json:
        board = _board(room)
        task = dict(await board.story(tx, number))
        found = await board.get(tx, number)
        where = {"landed": task["landed"], "in_branch": task["in_branch"]}
        task["stands"] = await waiting_now(tx, found) or await failed_when_done(tx, found, **where)
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
        args.what[0],
        input_data=given,
        priority=5 if args.priority is None else args.priority,
        depends_on=[await _id(room, number) for number in args.depends_on],
        on_failed=args.on_failed,
        files=args.file,
        max_attempts=args.max_attempts,
    )


async def _edit(room: OpenRoom, args: argparse.Namespace) -> Json:
    return await work_changes.edit(room, args, work_changes.task_number(args.what[0]))


async def _reopen(room: OpenRoom, args: argparse.Namespace) -> Json:
    done = await room.services.work.reopen(room.caller, await _id(room, args.what[0]), reason=args.reason)
    return {"number": work_changes.task_number(args.what[0]), **done}


async def _id(room: OpenRoom, number: str) -> str:
    task = await room.store.read(lambda tx: _board(room).get(tx, work_changes.task_number(number)))
    return task.id


def _board(room: OpenRoom) -> Board:
    return Board(claims=room.services.work.claims, landed=landed)


def _ended_by(history: list[Json]) -> str | None:
    """Who ended it last; None: that is not in what is known of its history."""
    ended, over = None, {Status.COMPLETED, Status.FAILED, Status.DEAD}
    for before, step in itertools.pairwise([{"status": Status.PENDING}, *history]):
        if step["status"] in over and before["status"] not in over:
            ended = step["by"]
    return ended


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
    if task["status"] == "done" and (by := _ended_by(task["history"]) or task["assignee"]):
        lines.append(f"ended by {by}")
    elif task["assignee"]:
        lines.append(f"claimed by {task['assignee']}")
    lines += [task["stands"]] if task["stands"] else []
    if task["needs"]:
        needs = ", ".join(f"{references.task(need['number'])} ({need['state']})" for need in task["needs"])
        lines.append(f"{'waits for' if task['badge'] == 'blocked' else 'depends on'}: {needs}")
    if task["files"]:
        lines.append(f"files: {', '.join(task['files'])}")
    if task["given"]:
        given = [f"{one['agent']} ({references.message(one['number'])})" for one in task["given"]]
        lines.append(f"given to {', '.join(given)}")
    if task["landed"]:
        lines.append(f"landed as {task['landed'][:7]}")
    if task["source"]:
        lines.append(f"from {task['source']}")
    if task["body"]:
        lines += ["", *(f"  {line}" for line in task["body"].splitlines()), ""]
    for name in ("note", "error_message"):
        lines += [f"{name.partition('_')[0]}: {task[name]}"] if task.get(name) else []
    for name in ("input_data", "result"):
        if task.get(name) is not None:
            lines.append(f"{name.partition('_')[0]}: {json.dumps(task[name], ensure_ascii=False)}")
    lines += [
        f"  {ago(change['at']):>14}  {change['by'] or ''} {change['change'].replace('_', ' ')}"
        + (f" to {change['to']}" if change["to"] else "")
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


def _said(answer: Json) -> str:
    return str(answer["reason"])


_ACTS: dict[str, Callable[[OpenRoom, argparse.Namespace], Awaitable[Any]]] = {
    "list": _listed,
    "show": _shown,
    "submit": _submit,
    "edit": _edit,
    "import": work_changes.take_in,
    "reopen": _reopen,
}
_TEXTS: dict[str, Callable[[Any], str]] = {
    "list": _list,
    "show": _show,
    "submit": _submitted,
    "edit": _said,
    "import": work_changes.imported,
    "reopen": _reopened,
}
