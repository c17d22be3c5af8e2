"""Reading the timeline: pages of its events, one event with all that is known of it, the files as they stand.

Invariant: reads only, and says of each event what the log says.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from relay.base.terminal_text import safe_line
from relay.log import events
from relay.log.encoding import dumps
from relay.log.events import Event, Lane, from_row
from relay.log.imported import PREFIX
from relay.model import Fault, Refusal
from relay.model.names import PRIVATE_EVENTS
from relay.store.ports import Query, Row, Tx
from relay.timeline.helpers import HELPERS, words_of_helper
from relay.timeline.others import origins_of, recorded_type, with_imported, with_origins
from relay.timeline.projection import CHANGED, READ, SOMEONE, UNCOMMITTED, UNKNOWN_LANE, Q

#: The types that the timeline is made of, unless others are asked for.
TYPES = (
    *(CHANGED, READ, "turn.started", "turn.ended", "worktree.changed"),
    *("timeline.rewound", "timeline.undone", "timeline.redone", "timeline.given_up"),
    *HELPERS,
    *("conflict.found", "conflict.settled", "handoff", "checkpoint.made", "timeline.merged"),
    *("exploration.compared", "exploration.ended"),
)
_WORKTREE, _HANDOFF, _CONFLICTS = "worktree.changed", "handoff", ("conflict.found", "conflict.settled")
#: Types whose author their payload names: the lane is one of the room's own.
_OF_AGENTS = (_WORKTREE, _HANDOFF, *_CONFLICTS)
_TAKEN_BACK = {
    "timeline.rewound": "took back",
    "timeline.undone": "brought back",
    "timeline.redone": "took back again",
}
#: What has no more to it than its type.
_PLAIN = {"turn.started": "began a turn", "turn.ended": "ended a turn"}
_PLAIN |= {"timeline.given_up": "gave a rewind up", "exploration.ended": "ended the exploration of a task"}
_PLAIN["exploration.compared"] = "compared the variants of a task"
#: What a `files.read` of a worktree is, by its source.
_READ = {
    "merge": "took the main branch in",
    "abort": "gave up its merge of the main branch, which put back",
    "restore": "has its work back",
    "start": "was seen for the first time",
    "handoff": "got what was handed on",
    "retry": "began again from the snapshot",
}
#: What was done to a worktree; `{by}` says by whom.
_WORKTREES = {
    "created": "got a worktree and a branch",
    "recreated": "got its worktree anew",
    "merged": "had its work merged into the main branch{by}",
    "conflicted": "cannot be merged: it conflicts with the main branch",
    "taken_in": "had the main branch taken in{by}",
    "taking": "conflicts with the main branch while taking it in",
    "unsettled": "has conflicts to settle",
    "aborted": "gave up taking the main branch in",
    "forwarded": "moved on to the main branch",
    "discarded": "had its work discarded{by}",
    "restored": "had its work brought back{by}",
    "taken_back": "had a merge of its work taken back{by}",
    "removed": "lost its worktree{by}",
}
_VERBS = {"write": "wrote", "delete": "deleted", "rename": "renamed", "mode": "changed the mode of"}
#: Who commits to the main branch for an agent.
MAIN_LANE = Lane("room", "main")
#: Events of one page at most.
MOST_PAGE = 500


@dataclass(frozen=True, slots=True)
class Filter:
    """Which events: of this `name` (an agent's, a person's: those of its lanes, and what else it is the author of; or
    one lane by its key), about this `path` (a file, or a folder with all in it), of these `types` (without any: the
    timeline's but bookkeeping), behind the event number `after` and before `before`. `others`: those that were
    imported from other rooms too."""

    name: str | None = None
    path: str | None = None
    types: Sequence[str] = ()
    after: int = 0
    before: int | None = None
    others: bool = False


async def page(tx: Tx, wanted: Filter, limit: int = 100) -> list[Event]:
    """The newest `limit` events of the filter, oldest first. One of another room keeps its type `imported:TYPE`, by
    which `words`, `author` and `undo_with` know it. Raises Refusal for a lane that there is not."""
    return [from_row(row) for row, _ in await _rows(tx, Q.events_at, wanted, limit)]


async def heads(tx: Tx, wanted: Filter, limit: int = 100) -> list[dict[str, Any]]:
    """As `page`, each event's `head` alone: no payload is read. Of one lane by its key an index has all of it."""
    return [_head_of_row(row, origin) for row, origin in await _rows(tx, Q.heads_at, wanted, limit)]


async def _rows(tx: Tx, ask: Query, wanted: Filter, limit: int) -> list[tuple[Row, str | None]]:
    """The newest rows of the filter, oldest first, each with the replica that it came from (None: this room)."""
    most, kept = max(1, min(limit, MOST_PAGE)), list[tuple[Row, str | None]]()
    keys, agent = (None, None) if wanted.name is None else await _scope(tx, wanted.name)
    plain = keys is not None and len(keys) == 1 and agent is None and wanted.path is None
    while True:
        if plain and ask is Q.heads_at:
            found = await _rows_of_lane(tx, Lane.of_key((keys or [""])[0]), wanted, most)
            positions = [row["pos"] for row in found]
        else:
            positions = await _positions(tx, wanted, keys, agent, most)
            found = await tx.all(ask, positions=dumps(positions))
        shown = [row for row in found if wanted.types or not is_bookkeeping(row["type"], row["file_touches"])]
        kept[:0] = [
            (row, origin) for row, origin in await with_origins(tx, shown) if wanted.others or origin is None
        ]
        if len(positions) < most or len(kept) >= most:
            return kept[-most:]
        wanted = replace(wanted, before=positions[0])


async def _scope(tx: Tx, name: str) -> tuple[list[str], str | None]:
    """The keys of the lanes of a name, and the agent that it is of; None: a person, or one lane by its key."""
    agent = name.upper()
    try:
        keys = await lanes_of(tx, name)
    except Refusal:
        # It has a worktree, and no turn yet.
        if "/" in name or not await _positions_of_agent(tx, agent, Filter(), 1):
            raise
        return [], agent
    lane = Lane.of_key(keys[0])
    return keys, None if name in keys or lane.name.startswith("human:") else lane.name


async def _rows_of_lane(tx: Tx, lane: Lane, wanted: Filter, limit: int) -> Sequence[Row]:
    found = await tx.all(
        Q.heads_of_lane,
        session=lane.session,
        lane=lane.name,
        upto=await _last_before(tx, lane, wanted.before),
        types=dumps(with_imported(wanted.types or TYPES)),
        after=wanted.after,
        limit=limit,
    )
    return found[::-1]


async def _positions(
    tx: Tx, wanted: Filter, keys: Sequence[str] | None, agent: str | None, limit: int
) -> list[int]:
    """The places of the newest events of the filter. `keys`: of its lanes, None = all; `agent`: what the room's own
    lanes tell of it too."""
    limits = {"after": wanted.after, "before": _before(wanted), "limit": limit}
    types = dumps(with_imported(wanted.types or TYPES))
    if wanted.path is not None:
        path = wanted.path.strip("/")
        # `0` is the character behind `/`.
        scope = {"path": path, "inside": f"{path}/", "behind": f"{path}0"}
        lanes = {"lanes": dumps(list(keys or ())), "every": int(keys is None)}
        rows = await tx.all(Q.newest_of_path, **scope, **lanes, **limits)
        if wanted.others:
            rows = [*rows, *await tx.all(Q.imported_of_path, **scope, **lanes, **limits)]
    elif keys is not None:
        rows = await tx.all(Q.newest_of_lanes, lanes=dumps(list(keys)), types=types, **limits)
    else:
        rows = await tx.all(Q.newest_of_types, types=types, **limits)
    places = {row["pos"] for row in rows}
    if agent is not None and wanted.path is None:
        places |= set(await _positions_of_agent(tx, agent, wanted, limit))
    return sorted(places)[-limit:]


async def _positions_of_agent(tx: Tx, agent: str, wanted: Filter, limit: int) -> list[int]:
    """The places of the newest events of the filter that are this agent's by their payload."""
    types = [each for each in _OF_AGENTS if each in (wanted.types or TYPES)]
    found, before = list[int](), _before(wanted)
    while types:
        limits = {"after": wanted.after, "before": before, "limit": limit}
        rows = await tx.all(Q.newest_holding, types=dumps(types), holding=f'%"{agent}"%', **limits)
        places = dumps(sorted(row["pos"] for row in rows))
        named = [from_row(row) for row in await tx.all(Q.events_at, positions=places)]
        found[:0] = [event.pos for event in named if author(event) == agent]
        if len(rows) < limit or len(found) >= limit:
            return found[-limit:]
        before = named[0].pos
    return found


def _before(wanted: Filter) -> int:
    return 2**62 if wanted.before is None else wanted.before


async def _last_before(tx: Tx, lane: Lane, before: int | None) -> int:
    """The number on its lane of the lane's last event before this place in the log, found by halving."""
    head = await tx.one(events.Q.lane, session=lane.session, lane=lane.name)
    low, high = 0, 0 if head is None else head["seq"]
    while before is not None and low < high:
        middle = (low + high + 1) // 2
        row = await tx.one(Q.place_of_seq, session=lane.session, lane=lane.name, seq=middle)
        # What is not here any more stood before all that is.
        if row is None or row["pos"] < before:
            low = middle
        else:
            high = middle - 1
    return high


async def lanes_of(tx: Tx, name: str) -> list[str]:
    """The keys of the lanes that a name stands for: a lane's key itself, all lanes of an agent, those of a person
    (with or without `human:`). Raises Refusal (UNKNOWN) with the names that there are."""
    name = UNKNOWN_LANE.name if name == SOMEONE else name
    rows = await tx.all(Q.lanes_named, name=name, person=f"human:{name}", inner=name.partition("/")[2])
    if not rows and (agent := name.upper()) != name:
        return await lanes_of(tx, agent)
    lanes = [f"{row['session']}/{row['lane']}" for row in rows]
    keys = (
        [name]
        if name in lanes
        else [key for key in lanes if key.partition("/")[2] in (name, f"human:{name}")]
    )
    if not keys:
        names = [row["lane"].removeprefix("human:") for row in await tx.all(Q.lane_names)]
        wanted = name.removeprefix("human:").casefold()
        if same := [each for each in names if each.casefold() == wanted and each != name]:
            return await lanes_of(tx, same[0])
        known = ", ".join(dict.fromkeys(names)) or "nobody yet"
        raise Refusal(
            f"There is no lane of {name[:60]!r}.",
            f"The log has {known}.",
            Fault.UNKNOWN,
            "unknown_lane",
            details={"candidates": names},
        )
    return keys


async def check_known(tx: Tx, name: str) -> None:
    """Raises Refusal (UNKNOWN) for a name or a lane's key that the log does not have. An agent's may be in lower
    case."""
    try:
        await lanes_of(tx, name.upper())
    except Refusal:
        await lanes_of(tx, name)


async def knew(tx: Tx, event: Event) -> dict[str, Any]:
    """Of a change of files: which last writes of others its author had seen, and which not: `{seen: [EVENT], unseen:
    [{path, event}]}`, where an EVENT is its head."""
    seen = [found for cause in event.causal_deps if (found := await events.get(tx, cause)) is not None]
    origins = await origins_of(tx, seen)
    outputs = event.outputs if isinstance(event.outputs, dict) else {}
    unseen = outputs.get("unseen") if recorded_type(event) == CHANGED else None
    return {
        "seen": [head(cause, origins.get(cause.pos)) for cause in seen],
        "unseen": unseen if isinstance(unseen, list) else [],
    }


async def whole(tx: Tx, event: Event, *, reader: str | None = None) -> dict[str, Any]:
    """All of an event: its head with `inputs`, `outputs` and `knew`. `reader`: the key of the lane of the agent that
    looks, None = a person. What another session holds ready for itself is null for it, with `withheld`: why."""
    origin = (await origins_of(tx, [event])).get(event.pos)
    shown = {
        **head(event, origin),
        "inputs": event.inputs,
        "outputs": event.outputs,
        "knew": await knew(tx, event),
    }
    if recorded_type(event) in PRIVATE_EVENTS and reader not in (None, event.lane_key):
        shown |= {"inputs": None, "outputs": None, "withheld": "It is the working memory of another session."}
    return shown


async def workspace(tx: Tx, path: str = "") -> list[dict[str, Any]]:
    """Each file that somebody touched, with who wrote it last (003, section 2.4): `[{path, blob, by, event, at,
    contributors}]` by path. Who merged a branch did not write its files. `path`: of a folder, "" = of all. A file
    that was deleted last has `blob` null."""
    inside = f"{path.strip('/')}/" if path.strip("/") else ""
    behind = f"{path.strip('/')}0" if inside else "\U0010ffff"
    rows = await tx.all(Q.workspace, inside=inside, behind=behind, path=path.strip("/"), main=MAIN_LANE.key)
    return [
        {
            "path": row["path"],
            "blob": row["after"],
            "by": row["lane"],
            "event": row["id"],
            "at": row["at"],
            "contributors": sorted(json.loads(row["contributors"])),
        }
        for row in rows
    ]


def undo_with(event: Event, standing: Mapping[str, str | None]) -> str | None:
    """The command that takes back what an event did to files, and what its author did after it; None: it did nothing,
    or relay carried it to the main branch for its author, or it is not committed, which nobody takes back,
    or it is taken back. `standing`: `history.undo_commands`, since only the newest rewind is undone."""
    if event.type in _TAKEN_BACK or event.id in standing:
        return standing.get(event.id)
    if event.type != CHANGED or event.lane_key in (MAIN_LANE.key, UNKNOWN_LANE.key):
        return None
    if event.outputs.get("worktree") == UNCOMMITTED:
        return None
    return f"relay timeline rewind {shlex.quote(author(event))} --to '#{event.pos - 1}'"


def head(event: Event, replica: str | None = None) -> dict[str, Any]:
    """What a list shows of an event: `{number, id, type, lane, seq, at, role, branch, snapshot, files, replica}`.
    `replica`: of the room that recorded it, null = this one."""
    return {
        "number": event.pos,
        "id": event.id,
        "type": recorded_type(event),
        "lane": event.lane_key,
        "seq": event.seq,
        "at": event.at,
        "role": event.role,
        "branch": event.branch,
        "snapshot": event.snapshot,
        "files": list(event.file_touches or ()),
        "replica": replica,
    }


def _head_of_row(row: Row, replica: str | None) -> dict[str, Any]:
    """As `head`, of the columns that it shows."""
    return {
        "number": row["pos"],
        "id": row["id"],
        "type": row["type"].removeprefix(PREFIX),
        "lane": f"{row['session']}/{row['lane']}",
        "seq": row["seq"],
        "at": row["at"],
        "role": row["role"],
        "branch": row["branch"],
        "snapshot": row["snapshot"],
        "files": json.loads(row["file_touches"] or "[]"),
        "replica": replica,
    }


def is_bookkeeping(type_: str, file_touches: str | None) -> bool:
    """Is it there for the room's own reckoning alone: a worktree's tree is noted, and nobody read a file? Who asks
    for no type is not shown it. `type_`: with or without `imported:`; `file_touches`: as the log has them."""
    return type_.removeprefix(PREFIX) == READ and (file_touches or "[]") == "[]"


def author(event: Event) -> str:
    """Whose doing it is: an agent's or a person's name, `main`, someone unknown, or relay. What was done to a
    worktree is its agent's. A name's events are those that have it here."""
    return author_of(event.type, event.lane, event.outputs)


def author_of(type_: str, lane: str, outputs: Any) -> str:
    """As `author`, of an event's parts. Pure."""
    name = SOMEONE if lane == UNKNOWN_LANE.name else lane
    if type_ == _WORKTREE:
        name = outputs["agent"]
    elif type_ == _HANDOFF:
        name = outputs["from_agent"]
    elif type_ in _CONFLICTS:
        name = outputs["sides"][0]
    elif ":" in lane and not lane.startswith("human:"):
        name = "relay"  # a lane of the room's own
    return safe_line(str(name).removeprefix("human:"), 40)


def words(event: Event) -> str:
    """What an event is, in a few words for a line; every interface says these, and the names of its files behind
    them."""
    return words_of(event.type, event.outputs, event.lane)


def words_of(type_: str, payload: Any, lane: str) -> str:
    """As `words`, of an event's parts. Of another room's its type, where its payload stayed there or is of another
    shape. Pure."""
    if type_.startswith(PREFIX):
        plain = type_.removeprefix(PREFIX)
        try:
            return safe_line(words_of(plain, payload, lane), 200)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError):
            return safe_line(plain.replace(".", " "), 40)
    outputs: dict[str, Any] = payload or {}
    if type_ == CHANGED:
        return _changed(outputs, lane)
    if type_ == READ:
        if outputs["source"] == "switch":
            return f"is on {safe_line(str(outputs['branch']), 60)} now"
        return _READ.get(outputs["source"], "read")
    if type_ == _WORKTREE:
        by = f" by {_person(outputs['by'])}" if outputs.get("by") else ""
        change = _WORKTREES.get(outputs["change"], safe_line(str(outputs["change"]), 40)).format(by=by)
        return f"{change} ({safe_line(outputs['branch'], 60)})"
    if type_ in _CONFLICTS:
        now = "conflicts with" if type_ == "conflict.found" else "does not conflict any more with"
        return f"{now} {safe_line({'main': 'the main branch'}.get(outputs['sides'][1], outputs['sides'][1]), 40)}"
    if type_ in HELPERS:
        return words_of_helper(type_, outputs)
    if type_ == "checkpoint.made":
        return f"made the checkpoint {safe_line(outputs['name'], 60)}"
    if type_ == _HANDOFF:
        return _handed_on(outputs)
    if type_ == "timeline.merged":
        rooms, conflicts = len(outputs["heads"]) - 1, len(outputs["conflicts"])
        return f"came together with {rooms} other room{'s' * (rooms != 1)}" + f", {conflicts} in conflict" * (
            conflicts > 0
        )
    if type_ in _TAKEN_BACK:
        return f"{_TAKEN_BACK[type_]} what {safe_line(outputs['lane'], 40)} did"
    return _PLAIN.get(type_, type_.replace(".", " "))


def _changed(outputs: dict[str, Any], lane: str) -> str:
    # Of a rename the touch of the new path.
    kinds = [touch["kind"] for touch in outputs["touches"] if touch["kind"] != "rename" or "from" in touch]
    counted = [f"{verb} {kinds.count(kind)}" for kind, verb in _VERBS.items() if kind in kinds]
    if "committed" in outputs:
        counted.append(f"committed {len(outputs['committed'])}")
    said = ", ".join(counted) + " uncommitted" * (outputs.get("worktree") == UNCOMMITTED)
    if "among" in outputs:
        who = " or ".join(safe_line(name, 40) for name in outputs["among"])
        said += f": by {who}, at once in one checkout"
    elif lane == UNKNOWN_LANE.name:
        said += f" in {safe_line(str(outputs['worktree']), 40)}'s worktree"
    if "merged" in outputs:
        whose = " and ".join(safe_line(name, 40) for name in outputs["merged"]["of"])
        said += f": {whose}'s work, merged by {_person(outputs['merged']['by'])}"
    return said + (f", {len(outputs['unseen'])} unseen" if "unseen" in outputs else "")


def _person(by: object) -> str:
    return "relay" if by == "RELAY" else safe_line(str(by), 40)


def _handed_on(outputs: dict[str, Any]) -> str:
    """A check of a handoff, or what people decided about one."""
    validation = outputs["validation"]
    failure = validation["failure_info"] or {}
    what = f"handed on to {safe_line(str(outputs['to_agent']), 40)}"
    action = failure.get("suggested_action", {})
    if "by" in action:
        return f"{what}: {safe_line(str(action['by']), 40)} said {action['kind']}"
    if validation["passed"]:
        return f"{what}: passed"
    return f"{what}: did not pass ({', '.join(failure['failed_rules'])})"
