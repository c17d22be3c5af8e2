"""`relay worktrees`: what the agents' worktrees hold, merging, discarding or removing one, and running its app.

Invariant: with a running room everything goes through its HTTP routes, so that one process touches worktrees; without
one it is done here, in the same words. Exit code 0 = did it, 1 = could not, 2 = wrong use (`relay.cli`).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import tempfile
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.parse import urlencode

from relay.access.git_person import git_person
from relay.app.runtime import instance
from relay.app.runtime.daemon_requests import ask_daemon, author_of
from relay.app.worktrees.terminal import RUNNING, follow, printed, stands_with, taken
from relay.base.files import read_regular
from relay.base.terminal_text import fail, indented, safe, tame
from relay.config.command_line import command, script
from relay.config.loading import load_for_command
from relay.config.settings import Settings
from relay.model import Refusal
from relay.model.actions import DiscardWork, GiveUpMerge, MergeBranch, OnBranch, RestoreWork, TakeBackMerge

if TYPE_CHECKING:
    pass

#: Seconds that the room gets for a merge.
PATIENT_S = 300.0


class CannotDo(Exception):
    """It could not be done; the message says why."""


def _unknown(agent: str) -> CannotDo:
    """The same words with a running room and without one."""
    return CannotDo(f"there is no worktree of {agent}; {command('worktrees')} lists them")


def arguments(parser: argparse.ArgumentParser) -> None:
    actions = (
        "list",
        "order",
        "show",
        "merge",
        "takeback",
        "discard",
        "restore",
        "abort",
        "remove",
        *RUNNING,
    )
    what = "what to do (list); order: in which order to merge, so that the fewest are set back; "
    what += "takeback: take a merge back from the main branch; "
    what += "abort: give up a merge of the main branch into the agent's own; "
    what += "run, stop: the app of its branch; setup: set it up again; output: what both printed"
    parser.add_argument("action", nargs="?", choices=actions, default="list", help=what)
    parser.add_argument("agent", nargs="?", metavar="AGENT", help="whose worktree")
    parser.add_argument("--name", help="your name in the room (the one that git has for you)")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    merging = parser.add_argument_group("merge")
    merging.add_argument(
        "-m",
        "--message",
        action="append",
        metavar="TEXT",
        help="the commit's message; each -m is a paragraph",
    )
    merging.add_argument("-e", "--edit", action="store_true", help="write the message in your editor first")
    merging.add_argument("--squash", action="store_true", help="as one commit, without a merge commit")
    merging.add_argument("--dry-run", action="store_true", help="print what would be committed, and exit")
    merging.add_argument(
        "--joined",
        default="",
        metavar="TREE",
        help="merge what relay joins, as --dry-run showed it (a merged tree)",
    )
    merging.add_argument(
        "--untested", action="store_true", help="with --joined: merge it although the tests fail on it"
    )
    merging.add_argument("--anyway", action="store_true", help="merge it although the branch's tests failed")
    parser.add_argument("--commit", metavar="COMMIT", help="takeback: the merge, on the main branch")
    parser.add_argument("--kept", metavar="REF", help="restore: which work (what was discarded last)")
    parser.add_argument(
        "--settle",
        action="store_true",
        help="abort: then, or where none is under way, ask the room what is to stand where the two conflict",
    )
    parser.set_defaults(head="")


def run(args: argparse.Namespace) -> int:
    """The command; gives its exit code."""
    whole = args.action in ("list", "order")
    if (args.agent is None) != whole:
        wanted = "takes no AGENT" if whole else "needs the AGENT whose worktree it is"
        return fail(f"worktrees {args.action} {wanted}", 2)
    if args.action != "merge" and (
        args.message or args.edit or args.squash or args.dry_run or args.joined or args.anyway
    ):
        options = "--message, --edit, --squash, --dry-run, --joined or --anyway"
        return fail(f"worktrees {args.action} takes no {options}: merge does", 2)
    if args.untested and not (args.action == "merge" and args.joined):
        return fail("--untested goes with `merge --joined TREE`", 2)
    if (args.action == "takeback") != bool(args.commit):
        return fail(
            "worktrees takeback AGENT --commit COMMIT takes a merge back; nothing else takes --commit", 2
        )
    if args.action != "restore" and args.kept:
        return fail(f"worktrees {args.action} takes no --kept", 2)
    if args.settle and args.action != "abort":
        return fail(f"worktrees {args.action} takes no --settle: abort does", 2)
    settings = load_for_command(args.config)
    try:
        answer = asyncio.run(_edited(settings, args) if args.edit else _do(settings, args))
    except (CannotDo, Refusal) as error:
        return fail(str(error))
    if args.json:
        print(json.dumps({"order": answer["order"]} if args.action == "order" else answer))
    else:
        print(_shown(args.action, answer))
    return 0 if answer.get("success", True) else 1


async def _edited(settings: Settings, args: argparse.Namespace) -> dict[str, Any]:
    """Merge with a message that the person wrote over the proposed one, in their editor."""
    proposal = await _do(settings, args, preview=True)
    if not proposal.get("success", True):
        return proposal
    if proposal.get("tests_failed") and not args.anyway:
        from relay.airspace.worktrees.merging.proposal import FailedTests

        raise FailedTests(args.agent, proposal["tests"])  # before a message is written for nothing
    text = await asyncio.to_thread(_in_editor, proposal["text"])
    if not text.strip():
        raise CannotDo("the message is empty, so nothing was merged")
    args.message, args.head = [text], proposal["head"]
    return await _do(settings, args)


def _in_editor(text: str) -> str:
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    with tempfile.TemporaryDirectory(prefix="relay-message-") as made:
        path = Path(made) / "COMMIT_EDITMSG"
        path.write_text(text, "utf-8")
        # As git does it: what EDITOR holds is words of a shell.
        done = subprocess.run(["sh", "-c", f'{editor} "$@"', editor, str(path)], check=False)
        if done.returncode != 0:
            raise CannotDo(
                f"the editor {editor} ended with {done.returncode}, so nothing was merged; set EDITOR, or use -m"
            )
        return path.read_text("utf-8", "replace")


async def _do(settings: Settings, args: argparse.Namespace, *, preview: bool = False) -> dict[str, Any]:
    """What was asked for; of a merge with `--dry-run` only what it would commit."""
    by = args.name or git_person(settings.repo, settings.agent_names)
    preview = preview or args.dry_run
    text = "\n\n".join(args.message or ())
    try:
        record = instance.running(settings)
    except instance.DamagedRecord as error:
        raise CannotDo(f"{error}, so it is not known whether the room runs") from error
    if record is not None:
        return await _ask_room(settings, args, by, text, preview)
    if args.action in RUNNING:
        raise CannotDo(f"the room is not running; start it with {script('scripts/start.sh')}")
    from relay.airspace.worktrees.merging.proposal import MergeOptions
    from relay.app.worktrees.without_daemon import opened_worktrees
    from relay.faces.worktrees import ordered

    async with opened_worktrees(settings) as service:
        if args.action in ("list", "order"):
            return await service.state()
        try:
            service.check(args.agent, f"worktrees {args.action} {args.agent}")
        except Refusal as refusal:
            raise refusal if refusal.code else _unknown(args.agent) from None
        if args.action == "show":
            difference = await service.diff(args.agent)
            assert difference is not None
            return difference
        actions = await service.actions()
        if args.action == "merge" and preview:
            return await actions.propose(args.agent, by, MergeOptions(args.squash))
        if args.action == "remove":
            return await actions.remove(args.agent, by)
        return await ordered(actions, _action(args, text), by)


def _action(args: argparse.Namespace, text: str) -> OnBranch:
    """What is ordered of the agent's branch."""
    match args.action:
        case "merge":
            return MergeBranch(
                args.agent, args.squash, text, args.head, args.joined, args.untested, args.anyway
            )
        case "discard":
            return DiscardWork(args.agent)
        case "restore":
            return RestoreWork(args.agent, args.kept)
        case "takeback":
            return TakeBackMerge(args.agent, args.commit)
    return GiveUpMerge(args.agent, args.settle)


async def _ask_room(
    settings: Settings, args: argparse.Namespace, by: str, text: str, preview: bool
) -> dict[str, Any]:
    action, base = args.action, f"/api/worktrees/{args.agent}"
    method = "squash" if args.squash else "merge"
    body: dict[str, Any] | None = {}
    query: dict[str, str] = {}
    match action:
        case "list" | "order":
            path, body = "/api/worktrees", None
        case "show":
            path, body = f"{base}/diff", None
        case "merge" if preview:
            path, body, query = f"{base}/merge", None, {"method": method}
        case "merge":
            path = f"{base}/merge"
            body = {"method": method, "message": text, "head": args.head, "joined": args.joined}
            body |= {word: True for word in ("untested", "anyway") if getattr(args, word)}
        case "takeback":
            path, body = f"{base}/takeback", {"commit": args.commit}
        case "restore":
            path, body = f"{base}/restore", {"kept": args.kept or ""}
        case "abort":
            path, body = f"{base}/abort", {"settle": args.settle}
        case "output":
            path, body = f"{base}/app", None
        case _:
            path = f"{base}/{action}"
    try:
        url = json.loads(read_regular(settings.state_path))["url"]
        key, author = author_of(settings, by)
        if preview:
            query |= author
        told = None if body is None else body | author
        full = f"{url}{path}" + (f"?{urlencode(query)}" if query else "")
        answer: dict[str, Any] = await asyncio.to_thread(
            ask_daemon, full, timeout_s=PATIENT_S, key=key, body=told
        )
        if action in ("run", "setup") and answer.get("success"):
            look = partial(ask_daemon, f"{url}{base}/app", timeout_s=PATIENT_S, key=key)
            answer = await follow(action, answer, look)
    except HTTPError as error:
        try:
            answer = json.load(error)
        except ValueError:
            raise CannotDo(f"the room runs and does not answer: HTTP {error.code}") from error
    except (OSError, ValueError, KeyError, HTTPException) as error:
        raise CannotDo(f"the room runs and does not answer: {error or type(error).__name__}") from error
    if "error" in answer:
        if answer["error"].get("code") == "not_found" and args.agent is not None:
            raise _unknown(args.agent)
        raise CannotDo(f"{answer['error']['message']} {answer['error']['fix']}".strip())
    return answer


def _shown(action: str, answer: dict[str, Any]) -> str:
    """What a terminal gets: no line of another's text passes for one of the command's own."""
    if action == "show" and "diff" in answer:
        return _diff(answer)
    if action == "merge" and "reason" not in answer:
        return _preview(answer)
    if action == "output" and "reason" not in answer:
        return safe(printed(tame(answer)))
    return safe(_text(action, tame(answer)))


def _text(action: str, answer: dict[str, Any]) -> str:
    if "reason" in answer:
        fix = answer.get("fix")
        return f"{answer['reason']} {fix}" if fix else str(answer["reason"])
    if action == "order":
        return (
            "\n".join(_turn(number, entry) for number, entry in enumerate(answer["order"], 1))
            or "Nothing to merge."
        )
    lines = [_row(worktree) for worktree in answer["worktrees"]]
    lines += [f"{name}: {why}" for name, why in answer["troubles"].items()]
    lines += taken(answer["disk"])
    if answer["trouble"]:
        lines.append(answer["trouble"])
    return "\n".join(lines or ["No agent has a worktree."])


def _preview(proposal: dict[str, Any]) -> str:
    from relay.airspace.worktrees.merging.wording import warned

    how = "as one commit" if proposal["method"] == "squash" else "with a merge commit"
    lines = [
        f"{proposal['branch']} into {proposal['into']} {how}: {_count(proposal['commits'], 'commit')}, "
        f"{_count(proposal['files'], 'file')}.",
        f"Author:    {proposal['author']}",
        f"Committer: {proposal['committer']}",
        *([proposal["tests"]] if proposal["tests"] else []),
        *([f"{proposal['decided']}."] if proposal["decided"] else []),
        *([proposal["note"]] if proposal["note"] else []),
        *([warned(proposal["warnings"])] if proposal["warnings"] else []),
    ]
    message = (f"    {line}".rstrip() for line in safe(proposal["message"]).rstrip().split("\n"))
    if not proposal["joined"]:
        return "\n".join([*map(indented, lines), "", *message])
    files = [f"  {file['path']} by {file['how']}" for file in proposal["joined"]]
    ask = command(f"worktrees merge {proposal['agent']} --joined {proposal['tree'][:12]}")
    joined = ["git alone conflicts in these files; relay joins them:", *files, f"To merge it so: {ask}"]
    changes = proposal["diff"].rstrip().split("\n")
    return "\n".join([*map(indented, lines), "", *message, "", *map(indented, [*joined, "", *changes])])


def _count(many: int, what: str) -> str:
    return f"{many} {what}{'s' * (many != 1)}"


def _diff(difference: dict[str, Any]) -> str:
    """Line by line, since only git's own line ends begin a line of a diff."""
    head = f"{indented(difference['under_way'])}\n\n" if difference["under_way"] else ""
    if not difference["diff"]:
        return head + indented(f"{difference['branch']} changes nothing.")
    cut = "\n(cut here: it is longer)" if difference["truncated"] else ""
    return head + "\n".join(map(indented, difference["diff"].rstrip().split("\n"))) + cut


def _row(worktree: dict[str, Any]) -> str:
    where = worktree["branch"] or "on no branch"
    files = f"{worktree['files']} file{'s' * (worktree['files'] != 1)}"
    work = (
        f"{files}, +{worktree['insertions']} -{worktree['deletions']}" if worktree["files"] else "no changes"
    )
    counted = (
        f"{worktree['ahead']} ahead, {worktree['behind']} behind"
        if worktree["into"]
        else "its commits cannot be counted"
    )
    stands = counted + (", uncommitted work" if worktree["dirty"] else "")
    place = worktree["path"]
    if worktree["member"]:
        place = f"at {worktree['member']}" + (", which is away" if worktree["away"] else "")
    from relay.airspace.worktrees.merging.wording import about_said

    lines = [about_said(worktree["about"])] if worktree.get("about") else []
    rest = "".join(f"\n  {line}" for line in [*lines, *stands_with(worktree)])
    first = f"{told['text']}; " if (told := worktree.get("stands")) else ""
    return f"{worktree['agent']}  {where}  {first}{work}; {stands}; {_merges(worktree)}\n  {place}{rest}"


def _merges(worktree: dict[str, Any]) -> str:
    """Whether it merges, and with whom it would conflict: "merges clean into main; conflicts with BEN in a.py"."""
    into = worktree["into"] or "the main checkout"
    conflicts = "conflicts not settled" if worktree["unsettled"] else f"conflicts with {into}"
    joined = ", ".join(f"{file['path']} by {file['how']}" for file in worktree["joined"])
    if worktree["needless"]:
        from relay.airspace.worktrees.merging.wording import needless

        conflicts = f"{needless(into)}; not settled"
    words = {
        "clean": f"merges clean into {into}",
        "joins": f"merges into {into}; relay joins {joined}",
        "conflicts": f"{conflicts} in {', '.join(_place(worktree, path) for path in worktree['conflicts'])}",
        "nothing": "nothing to merge" + (f": {into} has all of it" if worktree.get("landed") else ""),
        None: f"git cannot tell whether it merges into {into}",
    }[worktree["merges"]]
    parts = [
        words,
        *(f"conflicts with {hit['agent']} in {', '.join(hit['paths'])}" for hit in worktree["collides"]),
        *(
            f"joins with {hit['agent']} in {', '.join(file['path'] for file in hit['files'])}"
            for hit in worktree["joins"]
        ),
    ]
    parts += [f"{_undoes(hit)} (commit {hit['commit'][:9]})" for hit in worktree.get("undoes", ())]
    if (verdict := worktree.get("verified")) and verdict["said"]:
        said = verdict["said"].rstrip(".")
        parts.append(said[:1].lower() + said[1:])
    elif verdict and verdict["present"] and verdict["state"] == "passed":
        parts.append(f"its tests passed ({verdict['reference']})")
    if worktree["untried"]:
        parts.append(f"not tried yet with {', '.join(worktree['untried'])}")
    if worktree["merging"]:
        abort = (
            command(f"worktrees abort {worktree['agent']}")
            if worktree["own"]
            else "`git merge --abort` there"
        )
        parts.append(f"a merge into it is under way ({abort} gives it up)")
    return "; ".join(parts)


def _place(conflict: dict[str, Any], path: str) -> str:
    spans = conflict["lines"].get(path, ())
    lines = ", ".join(f"{first}-{last}" if last > first else str(first) for first, last in spans)
    return f"{path} (line{'s' * (lines != str(spans[0][0]))} {lines})" if lines else path


def _undoes(hit: dict[str, Any]) -> str:
    from relay.airspace.worktrees.merging.wording import would_undo

    return would_undo(hit)


def _turn(number: int, entry: dict[str, Any]) -> str:
    said = [f"first it has to {entry['first']}"] if entry["first"] else []
    said += [f"its tests failed, {entry['failed']}"] if entry["failed"] else []
    said += [f"it {_undoes(entry['undoes'][0])}"] if entry["undoes"] else []
    hits = [f"sets {hit['agent']} back in {', '.join(hit['paths'])}" for hit in entry["sets_back"]]
    return (
        f"{number}. {entry['agent']}"
        + (f" ({'; '.join(said)})" if said else "")
        + ": "[: 2 * bool(hits)]
        + "; ".join(hits)
    )
