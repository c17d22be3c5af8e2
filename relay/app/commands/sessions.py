"""`relay sessions`: who is here through MCP and HTTP, and ending a session (docs/coordination.md, "Who asks")."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from relay.app.commands.person import OpenRoom, ago, parser, run, table
from relay.config.command_line import command
from relay.model import SESSION_ID, Fault, Refusal

Json = dict[str, Any]


def main(words: list[str]) -> int:
    """The command; gives its exit code."""
    made = parser(
        "sessions", "Show the sessions of agents, or end one: what it holds is free at once.", ("list", "end")
    )
    made.add_argument("id", nargs="?", metavar="ID", help="the session, as `list` shows it")
    made.add_argument("--agent", help="end: its agent, if two agents have a session with that id")
    made.add_argument("--all", action="store_true", help="list: the ended ones too")
    args = made.parse_args(words)
    if (args.id is None) != (args.action == "list"):
        made.error("list takes no ID" if args.action == "list" else "end needs the ID of the session")
    if args.id is not None and not SESSION_ID.fullmatch(args.id):
        made.error(f"{args.id[:60]!r} is not a session id")

    async def work(room: OpenRoom) -> Any:
        sessions = room.services.sessions
        if args.action == "list":
            return list(await sessions.list(room.caller, all=args.all))
        matches = [
            session for session in await sessions.list(room.caller) if session["session_id"] == args.id
        ]
        matches = [session for session in matches if args.agent in (None, session["agent_id"])]
        if len(matches) != 1:
            raise _not_one(args.id, matches)
        of, me = replace(room.caller, agent=matches[0]["agent_id"], session=args.id), room.caller.agent
        itself = (of.agent, of.session) == (me, room.caller.session)
        ended = await sessions.end(of, reason=f"ended by {me}", by=None if itself else me)
        return {**ended, "session": matches[0]}

    return run(args, work, _list if args.action == "list" else _ended)


def _not_one(id: str, matches: list[Json]) -> Refusal:
    if matches:
        names = ", ".join(session["agent_id"] for session in matches)
        fix = "Name the agent with --agent."
        return Refusal(f"{names} each have a session {id}.", fix, Fault.MALFORMED, "ambiguous")
    return Refusal(
        f"There is no living session {id}.",
        f"{command('sessions')} lists them.",
        Fault.UNKNOWN,
        "unknown_session",
    )


def _list(sessions: list[Json]) -> str:
    return table([_row(session) for session in sessions]) if sessions else "No session lives."


def _row(session: Json) -> list[str]:
    state = (
        f"heard {ago(session['heartbeat_at'])}"
        if session["alive"]
        else f"ended {ago(session['ended_at'])}".strip()
    )
    counts = ((session.get("locks") or 0, "lock"), (session.get("claims") or 0, "task"))
    holds = ", ".join(f"{n} {what}{'' if n == 1 else 's'}" for n, what in counts if n)
    why = "" if session["alive"] else (session.get("end_reason") or "")
    if attached := session.get("attached"):
        branch = f" on {attached['branch']}" if attached["branch"] else ""
        state = f"{attached['state']}{branch}, {state}"
    return [session["agent_id"], session["session_id"], session["kind"], state, holds or why]


def _ended(answer: Json) -> str:
    session = answer["session"]
    return f"The session {session['session_id']} of {session['agent_id']} is ended; what it held is free."
