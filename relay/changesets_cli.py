"""`relay changesets`: what sessions said they changed, beside what they did (docs/coordination.md, "Changesets")."""

from __future__ import annotations

from typing import Any

from relay.model import Fault, Rejected
from relay.person_cli import Desk, ago, parser, run, table

Json = dict[str, Any]
#: How many are looked through for one of an id.
MOST = 1000


def main(words: list[str]) -> int:
    """The command; gives its exit code."""
    made = parser("changesets", "Show what sessions said they changed, and what they did.", ("list", "show"))
    made.add_argument("id", nargs="?", metavar="ID", help="the changeset, or the beginning of its id")
    made.add_argument("--session", help="list: only of this session")
    made.add_argument("--limit", type=int, default=20, help="list: at most so many (20)")
    args = made.parse_args(words)
    if (args.id is None) != (args.action == "list"):
        made.error("list takes no ID" if args.action == "list" else "show needs the ID")
    if not 1 <= args.limit <= MOST:
        made.error(f"--limit is from 1 to {MOST}")

    async def work(desk: Desk) -> Any:
        changesets = desk.services.changesets
        if args.action == "list":
            return list(await changesets.list(desk.caller, session=args.session, limit=args.limit))
        found = [
            one
            for one in await changesets.list(desk.caller, limit=MOST)
            if one["changeset_id"].startswith(args.id)
        ]
        if len(found) != 1:
            message = f"{len(found)} changesets begin with {args.id[:60]}."
            raise Rejected(Fault.UNKNOWN, "unknown_changeset", message, "`relay changesets` lists them.")
        return found[0]

    return run(args, work, _list if args.action == "list" else _show)


def _list(found: list[Json]) -> str:
    rows = [
        [
            one["changeset_id"][:13],
            one.get("agent_id") or "",
            ago(one.get("created_at")),
            f"{len(one['declared'])} file{'s' * (len(one['declared']) != 1)}",
            f"{len(one['undeclared'])} undeclared" if one["undeclared"] else "",
            one["summary"],
        ]
        for one in found
    ]
    return table(rows) if rows else "No changeset is recorded."


def _show(one: Json) -> str:
    lines = [
        f"{one['changeset_id']}  {one.get('agent_id') or ''}  {ago(one.get('created_at'))}",
        one["summary"],
    ]
    for name, title in (("declared", "declared"), ("changed", "changed"), ("undeclared", "not declared")):
        paths = one.get(name) or []
        lines += [f"{title}: {', '.join(paths)}" if paths else f"{title}: nothing"]
    return "\n".join(lines)
