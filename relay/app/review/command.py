"""`relay review`: an agent's branch in the running room, what of it you have reviewed, and comments on it
(docs/review.md)."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from relay.access.git_person import git_person
from relay.app.runtime.daemon_requests import agents_key, asked
from relay.base.terminal_text import fail, safe, safe_line, tame
from relay.config.command_line import command
from relay.config.loading import load_for_command
from relay.config.locate import add_config_option, find

#: Seconds that the room may take for a large branch.
ANSWER_S = 60.0


def main(words: Sequence[str]) -> int:
    """The command; gives its exit code: 0 = did it, 1 = could not, 2 = wrong use."""
    args = _parser().parse_args(words)
    if sum(bool(each) for each in (args.comments, args.reviewed, args.apply)) > 1:
        return fail("give one of --comments, --reviewed and --apply", 2)
    if args.undo and not (args.reviewed or args.apply):
        return fail("--undo goes with --reviewed or --apply", 2)
    if agents_key():
        return fail("a review is a person's, and this is an agent's turn")
    try:
        comments = _comments(args.comments) if args.comments else []
    except (OSError, ValueError) as error:
        return fail(f"{args.comments} cannot be used: {getattr(error, 'strerror', None) or error}", 2)
    settings = load_for_command(find(args.config))
    person = args.name or git_person(settings.repo, settings.agent_names)
    ask = partial(asked, settings, person=person, as_json=args.json, timeout_s=ANSWER_S)
    path = f"/api/review/{quote(args.agent, safe='')}"
    if not (args.comments or args.reviewed or args.apply):
        told = ask(f"{path}?name={quote(person)}")
        print(json.dumps(told) if args.json else safe(_listed(tame(told), person)))
        return 0
    undo = {"undo": True} if args.undo else {}
    if args.comments:
        done = ask(f"{path}/comments", body={"comments": comments})
    elif args.reviewed:
        done = ask(f"{path}/reviewed", body={"paths": args.reviewed, **undo})
    else:
        done = ask(f"{path}/apply", body={"comment": args.apply, **undo})
    print(json.dumps(done) if args.json else safe(str(tame(done)["reason"])))
    return 0 if done.get("success") else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="relay review",
        description="What an AGENT's branch changes, which files of it you have reviewed, and the comments on it.",
    )
    parser.add_argument("agent", metavar="AGENT", help="whose branch")
    parser.add_argument(
        "--comments",
        metavar="FILE",
        help="send these comments as one message: a JSON list of {path, side?, first, last?, text, suggestion?} "
        "(- = standard input)",
    )
    parser.add_argument(
        "--reviewed", nargs="+", metavar="PATH", help="mark files as reviewed, until they change"
    )
    parser.add_argument("--apply", metavar="COMMENT", help="commit what a comment suggests, like m17.2")
    parser.add_argument("--undo", action="store_true", help="with --reviewed or --apply: take it back")
    parser.add_argument("--name", help="your name in the room (the one that git has for you)")
    parser.add_argument("--json", action="store_true", help="print the answer as JSON")
    add_config_option(parser)
    return parser


def _comments(file: str) -> list[Any]:
    """The comments of a file. Raises OSError, ValueError."""
    read = json.loads(sys.stdin.read() if file == "-" else Path(file).read_text("utf-8"))
    if not isinstance(read, list):
        raise ValueError("it is not a JSON list of comments")
    return read


def _listed(told: Mapping[str, Any], person: str) -> str:
    files = told["files"]
    head = f"{told['branch']} of {told['agent']} against {told['into'] or 'the main branch'}"
    if not files:
        from relay.app.review.reviews import landed

        said = [f"{head}: no change.", landed(told["landed"]) if told["landed"] else "", told["under_way"]]
        return " ".join(filter(None, said))
    added, removed = (sum(file[side] for file in files) for side in ("insertions", "deletions"))
    done = sum(file["reviewed"] for file in files)
    many = f"{len(files)} file{'s' * (len(files) != 1)}"
    lines = [f"{head}: {many}, +{added} -{removed}; {person} has reviewed {done}."]
    if told.get("about"):
        from relay.airspace.worktrees.merging.wording import about_said

        lines.append(f"It is about: {safe_line(about_said(told['about']), 400)}")
    lines += [safe_line(told["under_way"], 800)] if told["under_way"] else []
    lines += ["Some of it is not committed yet (*)."] if any(file["uncommitted"] for file in files) else []
    lines += [safe_line(each, 400) for each in told["settled"]]
    wide = min(60, max(len(file["path"]) for file in files))
    for file in files:
        size = "binary" if file["binary"] else f"+{file['insertions']} -{file['deletions']}"
        was = f"  was {safe_line(file['old_path'], 200)}" if file["old_path"] else ""
        mark, star = "x" if file["reviewed"] else " ", " *" if file["uncommitted"] else ""
        lines.append(f"  [{mark}] {safe_line(file['path'], 400):<{wide}}  {size}{star}{was}")
    for each in told["comments"]:
        where = f"line {each['stands']}" if each["stands"] is not None else "outdated: its lines have changed"
        if each["applied"]:
            where = f"applied as {each['applied'][:9]}"
        lines += ["", f"{each['id']} {safe_line(each['path'], 400)}, {where} ({each['by']})"]
        lines += [f"    {safe_line(line, 400)}" for line in each["text"].splitlines()]
        if each["suggestion"] is not None and not each["applied"] and each["stands"] is not None:
            typed = command(f"review {told['agent']} --apply {each['id']}").strip("`")
            lines.append(f"    Its suggestion is applied by: {typed}")
    return "\n".join(lines)
