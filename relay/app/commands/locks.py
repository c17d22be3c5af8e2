"""`relay locks`: who holds what, who waits, and a person's forced release (docs/coordination.md, "Locks")."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from relay.app.commands.person import OpenRoom, ago, left, parser, run, table
from relay.model.actions import ForceRelease

Json = dict[str, Any]


def main(words: list[str]) -> int:
    """The command; gives its exit code."""
    made = parser(
        "locks", "Show who holds which files, or take a lock from its holder.", ("list", "show", "release")
    )
    made.add_argument(
        "path", nargs="?", metavar="PATH", help="a path, a pattern or a key, as `list` shows it"
    )
    made.add_argument("--reason", help="release: why; the holder is told")
    args = made.parse_args(words)
    if (args.path is None) != (args.action == "list"):
        made.error("list takes no PATH" if args.action == "list" else f"{args.action} needs the PATH")
    if args.action == "release" and not (args.reason or "").strip():
        made.error("release needs a --reason: the holder is told")

    async def work(room: OpenRoom) -> Any:
        locks = room.services.locks
        if args.action == "list":
            held = await locks.check(room.caller)
            line = {path: (await locks.status(room.caller, path))["waiting"] for path in _paths(held)}
            return [lock | {"waiting": line[lock["file_path"]]} for lock in held]
        if args.action == "show":
            return await locks.status(room.caller, args.path)
        return await locks.force_release(room.caller, ForceRelease(args.path, args.reason))

    texts: dict[str, Callable[[Any], str]] = {"list": _list, "show": _show, "release": _released}
    return run(args, work, texts[args.action])


def _list(locks: list[Json]) -> str:
    return table([_row(lock) for lock in locks]) if locks else "Nobody holds a lock."


def _row(lock: Json) -> list[str]:
    mode = "shared" if lock["mode"] == "shared" else ""
    names = ", ".join(dict.fromkeys(waiter["agent"] for waiter in lock["waiting"]))
    notes = [
        lock.get("reason") or "",
        f"({names} {'waits' if ',' not in names else 'wait'})" if names else "",
    ]
    return [
        lock["file_path"],
        lock["locked_by"],
        left(lock["expires_at"]),
        mode,
        " ".join(filter(None, notes)),
    ]


def _paths(held: list[Json]) -> list[str]:
    return list(dict.fromkeys(lock["file_path"] for lock in held))


def _show(answer: Json) -> str:
    lines = []
    for lock in answer["locks"]:
        mode = " with others" if lock["mode"] == "shared" else ""
        why = f": {lock['reason']}" if lock.get("reason") else ""
        lines.append(
            f"{lock['locked_by']} (session {lock['session']}) holds {lock['file_path']}{mode}, since "
            f"{ago(lock['acquired_at'])}, {left(lock['expires_at'])}{why}"
        )
    lines += [
        f"{waiter['agent']} (session {waiter['session']}) waits, since {ago(waiter['since'])}"
        for waiter in answer["waiting"]
    ]
    return "\n".join(lines) or f"{answer['file_path']} is free."


def _released(answer: Json) -> str:
    holders = ", ".join(dict.fromkeys(lock["locked_by"] for lock in answer.get("locks", ())))
    return f"{answer['file_path']} is free{f': {holders} held it, and has been told' if holders else ''}."
