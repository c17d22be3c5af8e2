"""`relay fleet`: the relays of this room's database, and forgetting one that does not come back (docs/fleet.md)."""

from __future__ import annotations

import time
from typing import Any

from relay.app.commands.person import OpenRoom, parser, run, table
from relay.app.fleet import notices
from relay.app.fleet.refs import member_refs, ref_id
from relay.base.durations import rough_duration
from relay.base.terminal_text import flat
from relay.config.command_line import command
from relay.fleet import members as fleet
from relay.fleet.members import MemberState
from relay.log.events import Lane
from relay.log.imported import replica_id
from relay.model import Fault, Refusal
from relay.room.dispatch.recovery import give_up
from relay.room.journal import ledger
from relay.room.transcript import checkpoint
from relay.store.ports import Tx
from relay.timeline.rewind import history

Json = dict[str, Any]


def main(words: list[str]) -> int:
    """The command; gives its exit code."""
    made = parser(
        "fleet", "The relays that share this room: their agents, and which of them leads.", ("list", "forget")
    )
    made.add_argument("member", nargs="?", metavar="MEMBER", help="forget: its name, as `list` shows it")
    args = made.parse_args(words)
    if (args.member is None) != (args.action == "list"):
        made.error("list takes no MEMBER" if args.action == "list" else "forget needs the name of a member")

    async def work(room: OpenRoom) -> Any:
        if room.store.engine != "postgres":
            return {"success": True, "leader": "", "members": []}
        if args.action == "list":
            return await room.store.read(_read)
        return await room.store.write(lambda tx: _forget(tx, args.member, room.caller.agent), durable=True)

    return run(args, work, _listed if args.action == "list" else _forgotten)


async def _read(tx: Tx) -> Json:
    now = await tx.now()
    leader = await fleet.leader(tx, now)
    shown = [member.as_json(leader) for member in await fleet.members(tx)]
    return {"success": True, "now": now, "leader": leader, "members": shown}


async def _forget(tx: Tx, name: str, by: str) -> Json:
    forgotten = await fleet.forget(tx, name)
    if forgotten is None:
        known = next((member for member in await fleet.members(tx) if member.name == name), None)
        if known is None:
            raise Refusal(
                f"There is no member {name}.",
                f"{command('fleet')} lists them.",
                Fault.UNKNOWN,
                "unknown_member",
            )
        raise Refusal(
            f"{name} is here.", "Stop it there first (bash stop.sh).", Fault.REFUSED, "member_lives"
        )
    await checkpoint.forget(tx, name)
    now = await tx.now()
    alone = notices.freed(forgotten, await fleet.members(tx))
    given_up = await give_up(tx, alone, f"the relay {name} was forgotten", now=now)
    await notices.forgotten(tx, forgotten, alone, by, given_up, now=now)
    await _end_rewinds(tx, name)
    replica = await replica_id(tx)
    refs = member_refs("refs/relay/*/", ref_id(replica), name) + "*" if replica else None
    return {"success": True, "member": name, "refs": refs, "given_up": given_up}


async def _end_rewinds(tx: Tx, name: str) -> None:
    """What it had begun to take back is given up: its files are out of reach."""
    by = Lane("room", f"fleet:{name}:forgotten", short=True)
    lost = await history.give_up_all(tx, name, f"the relay {name} was forgotten", by)
    if lost:
        lanes = " and ".join(dict.fromkeys(operation.lane for operation in lost))
        text = (
            f"The relay {name} is forgotten. It had begun to take back or to bring back what {lanes} did: that is "
            "given up, and its files there may be changed in part."
        )
        await ledger.say(tx, text, now=await tx.now(), meta={"notice": "fleet", "member": name})


def _listed(answer: Json) -> str:
    if not answer["members"]:
        return "This room has one relay. Several share a room on PostgreSQL: docs/fleet.md."
    rows = table([_row(member, answer["now"]) for member in answer["members"]])
    unable = [
        f"{member['name']} cannot land: {flat(member['cannot_land'])}"
        for member in answer["members"]
        if _cannot_land(member)
    ]
    return "\n".join([rows, *unable])


def _cannot_land(member: Json) -> bool:
    return bool(member["cannot_land"]) and MemberState(member["state"]) is MemberState.LIVE


def _row(member: Json, now: float) -> list[str]:
    state = {MemberState.LIVE: "here", MemberState.AWAY: "no sign of life", MemberState.LEFT: "stopped"}
    told = state[MemberState(member["state"])] + (", leads" if member["leader"] else "")
    if _cannot_land(member):
        told += ", cannot land"
    heard = rough_duration(max(0.0, now - member["heartbeat_at"]))
    since = time.strftime("%Y-%m-%d %H:%M", time.localtime(member["joined_at"]))
    agents = ", ".join(member["agents"]) or "no agents"
    place = member["url"] or member["host"]
    clock = f"clock {-member['clock_offset_s']:+.2f} s"
    return [
        member["name"],
        told,
        f"relay {member['version']}",
        f"joined {since}",
        f"heard {heard} ago",
        clock,
        agents,
        place,
    ]


def _forgotten(answer: Json) -> str:
    told = f"{answer['member']} is forgotten; its agents' names are free."
    if answer["given_up"]:
        told += f" {notices.given_up(answer['given_up'], 'its agents')}"
    if answer["refs"]:
        told += (
            f"\nIts refs stay at the git remote: `git ls-remote origin '{answer['refs']}'` lists them, and "
            "`git push origin --delete REF` takes one away."
        )
    return told
