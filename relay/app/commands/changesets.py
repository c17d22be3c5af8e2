"""`relay changesets`: what sessions said they changed, beside what they did (docs/coordination.md, "Changesets")."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from relay.app.commands.person import OpenRoom, ago, parser, run, table
from relay.config.command_line import command
from relay.coordination.writes.changesets import MOST_LISTED
from relay.model import Fault, Refusal

Json = dict[str, Any]


def main(words: list[str]) -> int:
    """The command; gives its exit code."""
    actions = ("list", "show", "record")
    made = parser("changesets", "Show or record what sessions say they changed, and what they did.", actions)
    made.add_argument("id", nargs="?", metavar="ID", help="show: the changeset, or the beginning of its id")
    made.add_argument(
        "files", nargs="*", metavar="FILE", help="record: TEXT FILE..., what was changed and where"
    )
    made.add_argument("--base", help="record: the revision before the change")
    made.add_argument("--head", help="record: the revision with it")
    made.add_argument("--session", help="list: only of this session")
    made.add_argument("--agent", help="list: only of this agent")
    made.add_argument("--limit", type=int, default=20, help="list: how many at most (20)")
    args = made.parse_args(words)
    if (args.id is None) != (args.action == "list"):
        needs = {
            "list": "list takes no ID",
            "show": "show needs the ID",
            "record": "record needs TEXT FILE...",
        }
        made.error(needs[args.action])
    if bool(args.files) != (args.action == "record"):
        made.error("record needs TEXT FILE..." if args.action == "record" else "only record takes files")
    if not 1 <= args.limit <= MOST_LISTED:
        made.error(f"--limit must be from 1 to {MOST_LISTED}")

    async def work(room: OpenRoom) -> Any:
        changesets = room.services.changesets
        if args.action == "list":
            only = {"session": args.session, "agent": args.agent}
            return list(await changesets.list(room.caller, **only, limit=args.limit))
        if args.action == "record":
            revisions = {"base": args.base, "head": args.head}
            return await changesets.record(room.caller, args.id, args.files, **revisions)
        matches = [
            changeset
            for changeset in await changesets.list(room.caller, limit=MOST_LISTED)
            if changeset["changeset_id"].startswith(args.id)
        ]
        if len(matches) != 1:
            message = f"{len(matches)} changesets begin with {args.id[:60]}."
            raise Refusal(message, f"{command('changesets')} lists them.", Fault.UNKNOWN, "unknown_changeset")
        return matches[0]

    shown: dict[str, Callable[[Any], str]] = {"list": _list, "show": _show, "record": _recorded}
    return run(args, work, shown[args.action])


def _list(changesets: list[Json]) -> str:
    rows = [
        [
            changeset["changeset_id"][:13],
            changeset.get("agent_id") or "",
            ago(changeset.get("created_at")),
            f"{len(changeset['declared'])} file{'s' * (len(changeset['declared']) != 1)}",
            f"{len(changeset['undeclared'])} undeclared" if changeset["undeclared"] else "",
            changeset["summary"],
        ]
        for changeset in changesets
    ]
    return table(rows) if rows else "No changeset is recorded."


def _show(changeset: Json) -> str:
    lines = [
        f"{changeset['changeset_id']}  {changeset.get('agent_id') or ''}  {ago(changeset.get('created_at'))}",
        changeset["summary"],
    ]
    for name, title in (("declared", "declared"), ("changed", "changed"), ("undeclared", "not declared")):
        paths = changeset.get(name) or []
        lines += [f"{title}: {', '.join(paths)}" if paths else f"{title}: nothing"]
    return "\n".join(lines)


def _recorded(answer: Json) -> str:
    lines = [f"Changeset {answer['changeset_id']} is recorded."]
    if answer["undeclared"]:
        lines.append(f"Changed and not declared: {', '.join(answer['undeclared'])}")
    if answer["missing"]:
        lines.append(f"Declared and not changed: {', '.join(answer['missing'])}")
    if answer["changed"] is None:
        lines.append("It is not known what really changed: give --base and --head.")
    return "\n".join(lines)
