"""`relay timeline`: who changed which file, and what its author had seen.

Invariant: what reads asks the log itself, so it answers with a running room and without one; what writes files goes
through the running room. Exit code 0 = did it, 1 = could not, 2 = wrong use.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shlex
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from relay.access.git_person import git_person
from relay.app.runtime import instance
from relay.app.runtime.daemon_requests import asked
from relay.app.timeline import archive
from relay.app.timeline import moments as moment_commands
from relay.app.wiring.schema import SCHEMAS
from relay.base.durations import parse_iso
from relay.base.terminal_text import fail, indented, safe_line
from relay.config.loading import load_for_command
from relay.config.locate import add_config_option
from relay.config.settings import LiveSettings, Settings
from relay.log import events
from relay.log.events import Event
from relay.model import Fault, Refusal
from relay.store.open import opened_store
from relay.store.ports import Store, StoreMissing, Tx
from relay.timeline import checkpoints, moments, reading
from relay.timeline.moment_forms import is_past
from relay.timeline.others import SHORT, as_shown, origins_of, touches_of_event, workspace_of_others
from relay.timeline.projection import rebuild
from relay.timeline.reading import Filter
from relay.timeline.rewind import history
from relay.timeline.rewind.wording import merge_hint, rest

#: Seconds that the room gets for a rewind.
PATIENT_S = 300.0
#: Names of files in a line.
MOST_FILES = 3


def _parser() -> argparse.ArgumentParser:
    text = "Who changed which file, and what its author had seen."
    parser = argparse.ArgumentParser(prog="relay timeline", description=text)
    commands = parser.add_subparsers(dest="action", required=True, metavar="ACTION")

    def action(name: str, text: str) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=text, description=text)
        add_config_option(made)
        made.add_argument("--json", action="store_true", help="print the result as JSON")
        return made

    log = action("log", "The newest events: who did what to which files.")
    lane = action("lane", "The newest events of an agent, a person or a lane.")
    lane.add_argument("lane", metavar="LANE", help="an agent's or a person's name, or a lane's key")
    log.add_argument("--lane", metavar="LANE", help="only of this agent, person or lane")
    for each in (log, lane):
        each.add_argument("--path", metavar="PATH", help="only about this file, or what is in this folder")
        each.add_argument(
            "--type", metavar="TYPE", action="append", help="only of this type (again for more)"
        )
        each.add_argument("--since", metavar="MOMENT", help=f"only what came after: {moments.FORMS}")
        each.add_argument("-n", "--lines", type=int, default=40, metavar="N", help="how many at most (40)")
        each.add_argument("--here", action="store_true", help="without what was imported from other rooms")
    show = action("show", "One event: what it changed, and what its author had seen.")
    show.add_argument("event", metavar="EVENT", help=moments.FORMS)
    files = action("files", "Each file that was touched, with who wrote it last.")
    files.add_argument("path", nargs="?", default="", metavar="PATH", help="a file or a folder (all)")
    files.add_argument("--here", action="store_true", help="without what was imported from other rooms")
    rewind = action("rewind", "Take back what an agent or a person did since a moment; others' work stays.")
    rewind.add_argument("lane", metavar="LANE", help="an agent's or a person's name, or a lane's key")
    rewind.add_argument("--to", required=True, metavar="MOMENT", help=f"take it back to: {moments.FORMS}")
    rewind.add_argument(
        "--into", choices=history.INTO, help="where: a new branch, its worktree, the main branch"
    )
    undo = action("undo", "Undo the newest rewind; again: the one before it.")
    redo = action("redo", "Redo the rewind that was undone last.")
    for each in (rewind, undo, redo):
        each.add_argument("--dry-run", action="store_true", help="show what it would do, and do nothing")
        each.add_argument(
            "--partial", action="store_true", help="do it also where files conflict; these stay"
        )
        each.add_argument("--name", help="your name in the room (the one that git has for you)")
    push = action("push", "Give the events of who is shared (`timeline.share`) to a git remote.")
    pull = action("pull", "Take in the events that others gave to a git remote.")
    for each in (push, pull):
        each.add_argument("remote", nargs="?", default="origin", metavar="REMOTE", help="(origin)")
    moment_commands.add_actions(action)
    bring_back = action("restore", "Bring the log of a lost database back from git, into an empty one.")
    bring_back.add_argument(
        "--dry-run", action="store_true", help="show what would come back, and what is lost"
    )
    bring_back.add_argument("--replica", metavar="ID", help="whose journal, where the repository has several")
    old = action(
        "archive", "Move old events out of the database, into archives that are checked and read as before."
    )
    old.add_argument("--before", required=True, metavar="MOMENT", help=f"what came before: {moments.FORMS}")
    old.add_argument("--dry-run", action="store_true", help="show what it would do, and do nothing")
    action("verify", "Check every event of the log against its hash, its causes and its lane.")
    action("rebuild", "Make the timeline's tables anew from the log.")
    return parser


def main(words: list[str]) -> int:
    """The command; gives its exit code."""
    args = _parser().parse_args(_moments_joined(words))
    if args.action == "verify":
        from relay.app.commands import verify

        return verify.run(args)
    if getattr(args, "lines", 1) < 1:
        return fail("--lines must be 1 or more", 2)
    if args.action in moment_commands.ACTIONS and (wrong := moment_commands.wrong_use(args)):
        return fail(wrong, 2)
    if args.action == "rewind" and not args.to.strip():
        return fail(f"an empty text is no moment: give {moments.FORMS}", 2)
    settings = load_for_command(args.config)
    if args.action in ("rewind", "undo", "redo"):
        return _take_back(settings, args)

    async def work() -> tuple[Any, str]:
        if args.action in moment_commands.ACTIONS:
            return await moment_commands.run(settings, args)
        if args.action == "restore":
            from relay.app.timeline import restore

            return await restore.run(settings, args)
        async with opened_store(settings, SCHEMAS, create=False) as store:
            if args.action == "rebuild":
                count = await rebuild(store) + await history.rebuild(store)
                count += await checkpoints.rebuild(store)
                return {"events": count}, f"The timeline's tables were made anew from {count:,} events."
            if args.action in ("push", "pull"):
                from relay.app.timeline import exchange

                return await exchange.run(store, settings, args)
            if args.action == "archive":
                return await archive.run(store, settings, args)
            return await _read(store, settings, args)

    try:
        result, text = asyncio.run(work())
    except StoreMissing as missing:
        return fail(f"{missing}; the room has not run yet")
    except Refusal as refusal:
        return fail(str(refusal), 2 if refusal.fault is Fault.MALFORMED else 1)
    print(json.dumps(result) if args.json else text)
    return 0


def _moments_joined(words: list[str]) -> list[str]:
    """`--to -1h` as `--to=-1h`, since argparse takes `-1h` for an option."""
    joined: list[str] = []
    for word in words:
        if joined and joined[-1] in ("--to", "--since", "--before"):
            joined[-1] = f"{joined[-1]}={word}"
        elif is_past(word):
            # A moment that stands alone, as `jump` and `diff` take it: to argparse a text with a blank is no option.
            joined.append(f" {word}")
        else:
            joined.append(word)
    return joined


def _take_back(settings: Settings, args: argparse.Namespace) -> int:
    """Through the running room, so that one process writes worktrees. Without one nothing is taken back."""
    by = args.name or git_person(settings.repo, settings.agent_names)
    body: dict[str, Any] = {"dry_run": args.dry_run, "partial": args.partial}
    if args.action == "rewind":
        body |= {"lane": args.lane.removeprefix("@"), "to": args.to, "into": args.into}
    if instance.running(settings) is None:
        return fail("the room does not run, and only it takes work back; start it and try again")
    path = f"/api/timeline/{args.action}"
    done = asked(
        settings, path, person=by, body=body, as_json=args.json, timeout_s=PATIENT_S, wrong=["bad_moment"]
    )
    print(json.dumps(done) if args.json else _taken_back(done, args))
    return 0 if done["success"] else 1


def _taken_back(done: dict[str, Any], args: argparse.Namespace) -> str:
    if "reason" in done:
        return indented(f"{done['reason']} {done['fix']}".strip())
    kind = {"rewind": history.REWOUND, "undo": history.UNDONE}.get(args.action, history.REDONE)
    lines = [f"{file['action']:<9} {safe_line(file['path'])}" for file in done["files"]]
    lines += dict.fromkeys(
        f"{_who(read['lane'])} had read {safe_line(read['read'])}" for read in done["invalidated"]
    )
    if not done["success"]:
        lines.append(
            "Nothing was written, for the conflicts. --partial leaves these files as they are and does the rest."
        )
    elif all(file["before"] == file["after"] for file in done["files"]):
        would = "Nothing is written" if args.dry_run else "Nothing was written"
        why = safe_line(done.get("skipped", "nothing of this rewind stands there any more."))
        lines.append(f"{would}: {why} The next undo is of the one before it.")
    elif args.dry_run:
        lines.append(f"{args.action} would do this {_where(done)}; nothing was written.")
    else:
        lines.append(
            f"Done {_where(done)}. `{done['undo_with']}` takes it back.{merge_hint(done['branch'], kind)}"
        )
    if done["success"]:
        to = shlex.quote(done["to"])
        into = f"relay timeline rewind {shlex.quote(done['lane'])} --to {to} --into worktree"
        lines += rest(done, kind, into)
    return "\n".join(lines)


def _where(done: dict[str, Any]) -> str:
    return f"on the branch {done['branch']}" if done["branch"] else f"in {safe_line(done['lane'])}'s worktree"


async def _read(store: Store, settings: Settings, args: argparse.Namespace) -> tuple[Any, str]:
    """What was asked for, as JSON and for people, from one state of the log."""
    locks = None
    if args.action == "files":
        from relay.faces.coordination import coordination_of
        from relay.faces.workspace import workspace

        locks = coordination_of(store, LiveSettings(settings)).locks

    async def work(tx: Tx) -> tuple[Any, str]:
        if args.action == "show":
            return await _show(tx, args.event)
        if locks is not None:
            files = await workspace(tx, locks, args.path)
            lines = [
                f"{safe_line(file['path'])}  {_who(file['by'])}, {_at(file['at'])}{_gone(file)}"
                + (f", locked by {file['lock']['locked_by']}" if file["lock"] else "")
                for file in files
            ]
            others = [] if args.here else await workspace_of_others(tx, args.path)
            lines += [
                f"{safe_line(file['path'])}  {_who(file['by'])}@{file['replica'][:SHORT]}, {_at(file['at'])}"
                + _gone(file)
                for file in others
            ]
            older = await archive.older(tx)
            nothing = f"Nobody has changed {safe_line(args.path) or 'a file'} yet."
            shown = "\n".join([*(lines or [nothing]), *archive.older_line(older)])
            return {"files": files, "others": others, "archived": older}, shown
        after = 0 if args.since is None else (await moments.resolve(tx, args.since)).pos
        types = args.type or ()
        lane = None if args.lane is None else args.lane.removeprefix("@")
        wanted = Filter(lane, args.path, types, after, others=not args.here)
        found = await reading.page(tx, wanted, args.lines)
        origins = await origins_of(tx, found)
        standing = await history.undo_commands(tx)
        nothing = f"There is nothing of {', '.join(args.type)} yet." if args.type else "There is nothing yet."
        lines = [_line(event, standing, origins.get(event.pos)) for event in found] or [nothing]
        heads = [reading.head(event, origins.get(event.pos)) for event in found]
        # What is not shown for want of lines is here; what has left is not.
        older = await archive.older(tx) if len(found) < args.lines else None
        return {"events": heads, "archived": older}, "\n".join([*archive.older_line(older), *lines])

    return await store.read(work, long=True)


async def _show(tx: Tx, text: str) -> tuple[Any, str]:
    moment = await moments.resolve(tx, text)
    event = None if moment.event is None else await events.get(tx, moment.event)
    if event is None:
        raise Refusal(f"There is no event before {moment.words}.", "", Fault.UNKNOWN, "unknown_moment")
    event, origin = await as_shown(tx, event), (await origins_of(tx, [event])).get(event.pos)
    knew = await reading.knew(tx, event)
    lines = [f"{_line(event, await history.undo_commands(tx), origin)}", f"  id        {event.id}"]
    if origin is not None:
        lines.append(f"  recorded  by the room {origin}")
    for touch in touches_of_event(event):
        kind, sides = safe_line(str(touch["kind"])[:9]), f"{_blob(touch['before'])} > {_blob(touch['after'])}"
        lines.append(f"  {kind:<9} {safe_line(touch['path'])}  {sides}")
    lines += [f"  had seen  #{cause['number']} of {_whose(cause)}" for cause in knew["seen"]]
    for unseen in [
        each for each in knew["unseen"] if isinstance(each, dict) and {"path", "event"} <= each.keys()
    ]:
        cause = await events.get(tx, str(unseen["event"]))
        whose = f"#{cause.pos} of {_who(cause.lane_key)}" if cause else safe_line(str(unseen["event"])[:12])
        lines.append(f"  had not seen  {whose}, which wrote {safe_line(str(unseen['path']))}")
    return await reading.whole(tx, event), "\n".join(lines)


def _line(event: Event, standing: Mapping[str, str | None], replica: str | None = None) -> str:
    files = event.file_touches or ()
    more = f" and {len(files) - MOST_FILES} more" if len(files) > MOST_FILES else ""
    named = ", ".join(safe_line(path, 60) for path in files[:MOST_FILES]) + more
    who = reading.author(event) + (f"@{replica[:SHORT]}" if replica else "")
    line = f"#{event.pos:<6} {_at(event.at)}  {who:<12} {reading.words(event)}  {named}".rstrip()
    undo_with = reading.undo_with(event, standing)
    return f"{line}  ({undo_with})" if undo_with else line


def _gone(file: dict[str, Any]) -> str:
    return ", deleted" * (file["blob"] is None)


def _at(time: str) -> str:
    """By this machine's time zone, as a moment is read."""
    return f"{datetime.fromtimestamp(parse_iso(time)):%Y-%m-%d %H:%M:%S}"


def _who(lane: str) -> str:
    return reading.author_of("", lane.partition("/")[2], None)


def _whose(head: dict[str, Any]) -> str:
    return _who(head["lane"]) + (f"@{head['replica'][:SHORT]}" if head["replica"] else "")


def _blob(name: str | None) -> str:
    return "-" if name is None else safe_line(name[:8])
