"""`relay timeline checkpoint|jump|diff|branches`: moments by name, gone to, and compared.

Invariant: with a running room it is asked, so that one process makes worktrees and refs; without one it is done here,
in the same words.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.parse import urlencode

from relay.access.git_person import git_person
from relay.app.runtime import instance
from relay.app.runtime.daemon_requests import ask_daemon, author_of, state_of
from relay.app.wiring.schema import SCHEMAS
from relay.base.terminal_text import indented, safe_line
from relay.config.settings import Settings
from relay.model import Fault, Refusal
from relay.store.open import opened_store
from relay.timeline.moments import FORMS

if TYPE_CHECKING:
    from relay.faces.timeline import TimelineService

ACTIONS = ("checkpoint", "jump", "diff", "branches")
#: What an argument is, by its name.
_WORDS = {"checkpoint": "name of a checkpoint", "remove": "folder"}
#: Seconds that the room gets for a worktree of many files.
PATIENT_S = 900.0


def add_actions(action: Any) -> None:
    """Declare them; `action(name, text)` makes each one's parser."""
    mark = action("checkpoint", "Give the files as they are a name to go back to.")
    mark.add_argument(
        "checkpoint", metavar="NAME", help="given again it means the newest; NAME~1 the one before"
    )
    mark.add_argument("--lane", metavar="AGENT", help="of this agent's worktree (the main branch)")
    mark.add_argument("--name", help="your name in the room (the one that git has for you)")
    jump = action("jump", "A fresh worktree with the files of a moment; nobody's files move.")
    jump.add_argument("moment", nargs="?", metavar="MOMENT", help=FORMS)
    jump.add_argument("--lane", metavar="LANE", help="as this agent had them (the main branch)")
    jump.add_argument("--remove", metavar="FOLDER", help="take such a worktree away")
    jump.add_argument("--list", action="store_true", help="list those that are there")
    diff = action("diff", "What two moments differ in.")
    diff.add_argument("a", metavar="A", help=FORMS)
    diff.add_argument("b", nargs="?", metavar="B", help="(now)")
    diff.add_argument("--lane", metavar="LANE", help="as this agent had them (the main branch)")
    diff.add_argument("--path", default="", metavar="PATH", help="only this file, or what is in this folder")
    action("branches", "The branches of agents, rewinds and retries, against the main branch.")


def wrong_use(args: argparse.Namespace) -> str:
    """What is wrong with the arguments; empty: nothing."""
    if args.action == "jump" and sum((args.moment is not None, args.remove is not None, args.list)) != 1:
        return "jump takes a MOMENT, --remove FOLDER or --list"
    for name in ("moment", "a", "b", "checkpoint", "remove"):
        if (given := getattr(args, name, None)) is not None and not given.strip():
            return f"an empty text is no {_WORDS.get(name, f'moment: give {FORMS}')}"
    return ""


async def run(settings: Settings, args: argparse.Namespace) -> tuple[Any, str]:
    """Do what was asked for; the result as JSON and for people. Raises Refusal, StoreMissing."""
    if args.action == "jump" and args.remove is not None and "/" in args.remove:
        args.remove = str(Path(args.remove).resolve())
    url = None if instance.running(settings) is None else (state_of(settings) or {}).get("url")
    by = getattr(args, "name", None) or git_person(settings.repo, settings.agent_names)
    if url is not None:
        return _shown(args, _ask_room(settings, str(url), args, by))
    async with _here(settings) as service:
        return _shown(args, await _do(service, args, by))


async def _do(service: TimelineService, args: argparse.Namespace, by: str) -> Any:
    match args.action:
        case "checkpoint":
            return await service.checkpoint(by, args.checkpoint, lane=args.lane)
        case "diff":
            return await service.diff(args.a, args.b, args.lane, args.path)
        case "branches":
            return {"branches": await service.branches()}
        case _ if args.remove is not None:
            return await service.remove_jump(args.remove)
        case _ if args.list:
            return {"jumps": await service.jumps()}
    return await service.jump(args.moment, args.lane)


@asynccontextmanager
async def _here(settings: Settings) -> AsyncIterator[TimelineService]:
    """The timeline without a daemon: the worktrees that are there; none of an agent is made."""
    from relay.airspace.worktrees.registry import WorktreeRegistry
    from relay.app.wiring.worktree_room import StoredWorktreeRoom
    from relay.base.case_folding import folds_case
    from relay.coordination.writes.fencing import LockCheck
    from relay.faces.timeline import TimelineService

    async with opened_store(settings, SCHEMAS, create=False) as store:
        with tempfile.TemporaryDirectory(prefix="relay-timeline-") as made:
            room = StoredWorktreeRoom(store, LockCheck(fold=folds_case(settings.repo)))
            registry = WorktreeRegistry(settings, room, scratch=Path(made) / "scratch.git", make=False)
            await registry.open()
            yield TimelineService(store, registry)


def _ask_room(settings: Settings, url: str, args: argparse.Namespace, by: str) -> Any:
    """The same of the running room. Blocks. Raises Refusal."""
    body: dict[str, Any] | None = {}
    query: dict[str, str] = {}
    match args.action:
        case "checkpoint":
            path, body = "checkpoint", {"checkpoint": args.checkpoint, "lane": args.lane}
        case "diff":
            path, body = "diff", None
            given = {"a": args.a, "b": args.b, "lane": args.lane, "path": args.path}
            query = {name: value for name, value in given.items() if value}
        case "branches":
            path, body = "branches", None
        case _ if args.remove is not None:
            path, body = "jump/remove", {"folder": args.remove}
        case _ if args.list:
            path, body = "jumps", None
        case _:
            path, body = "jump", {"to": args.moment, "lane": args.lane}
    try:
        key, author = author_of(settings, by)
        asked = f"{url}/api/timeline/{path}" + (f"?{urlencode(query)}" if query else "")
        done = ask_daemon(asked, timeout_s=PATIENT_S, key=key, body=None if body is None else body | author)
    except HTTPError as error:
        told = json.load(error)["error"]
        fault = Fault.MALFORMED if error.code == 400 else Fault.UNKNOWN
        raise Refusal(told["message"], told["fix"], fault, told["code"]) from None
    except (OSError, HTTPException, ValueError, KeyError) as error:
        raise Refusal(f"The room runs and does not answer: {error or type(error).__name__}.", "") from error
    if done.get("success") is False:
        raise Refusal(done["reason"], done.get("fix", ""))
    return done


def _shown(args: argparse.Namespace, done: Any) -> tuple[Any, str]:
    """The result as JSON and for people."""
    match args.action:
        case "checkpoint":
            name = safe_line(done["name"])
            earlier = f" The earlier one is {safe_line(done['earlier'])} now." if done["earlier"] else ""
            return (
                done,
                f"{name} is {done['tree'][:8]}, of {safe_line(done['metadata']['worktree'])}.{earlier}",
            )
        case "diff":
            return done["files"], "\n".join(_file(file) for file in done["files"]) or "They are the same."
        case "branches":
            lines = [_branch(branch) for branch in done["branches"]]
            return done, "\n".join(lines) or "There is no branch of an agent, a rewind or a retry."
        case _ if args.remove is not None:
            return done, f"{safe_line(done['removed'])} is removed."
        case _ if args.list:
            return done, "\n".join(safe_line(each["folder"]) for each in done["jumps"]) or "There is none."
    if (passed := done.get("validation_passed")) is not None:
        # Beside the answer, which is the folder alone: `cd "$(relay timeline jump MOMENT)"`.
        note = "passed its rules" if passed else "did not pass its rules"
        print(f"What was handed on here {note}.", file=sys.stderr)
    return done, done["folder"]


def _file(file: dict[str, Any]) -> str:
    """Line by line, since only git's own line ends begin a line of a diff."""
    moved = f"{safe_line(file['from'])} > " if "from" in file else ""
    head = f"{file['kind']:<6} {moved}{safe_line(file['path'])}"
    text = "(too long to show)\n" if file["patch"] is None else file["patch"]
    return "\n".join([head, *map(indented, text.rstrip("\n").split("\n"))])


def _branch(branch: dict[str, Any]) -> str:
    state = "landed" if branch["landed"] else f"{branch['ahead']} ahead, {branch['behind']} behind"
    state += ", with uncommitted work" * branch["uncommitted"]
    who = safe_line(branch["lane"] or "?", 40)
    return f"{branch['head'][:8]}  {branch['kind']:<6}  {who:<12}  {safe_line(branch['branch'])}  {state}"
