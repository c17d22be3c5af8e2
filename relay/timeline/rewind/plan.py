"""What a rewind takes out, before anything is written: read from the log and worked out in git objects.

Invariants:
- events that a rewind has taken out of the same place, and that did not come back, are not taken out again;
- what came onto the main branch is taken out of that, event by event, whoever merged it and through whose branch;
  what stands in the agent's own worktree alone is taken out there (`landed`);
- the answer has the same shape whether it is a preview, was done, or is left undone for its conflicts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from relay.git.checkout import Checkout, Head
from relay.git.snapshot import Snapshot
from relay.log import events
from relay.log.encoding import dumps, quoted
from relay.log.events import Event, Lane
from relay.model.refusals import Fault, Refusal
from relay.model.touches import Kind, Touch, paths_of
from relay.store.ports import Tx
from relay.timeline.projection import CHANGED, READ, UNCOMMITTED, last_tree
from relay.timeline.rewind.engine import TakenBack
from relay.timeline.rewind.history import INTO, UNDONE, NewOperation, Operation, standing_after
from relay.timeline.rewind.named_touches import TouchedEvent

#: The event of another wing that says that an agent's branch was merged, and of its changes that one.
_WORKTREE, _MERGED = "worktree.changed", "merged"
_PERSON = "human:"
#: Who commits to the main branch for agents: it reads nothing.
_MAIN = "room/main"
#: The worktree, as events name it, of the main branch's commits.
MAIN = "main"
_ON_MAIN = frozenset({"", MAIN, UNCOMMITTED})
_BATCH = 500


@dataclass(frozen=True, slots=True)
class RewindRequest:
    """Take back what `lane` did: an agent's or a person's name (all its lanes) or a lane's key. `after`: the place in
    the log that it is taken back to, which `to` names as it was asked for. `into`: new, worktree, main; None = where
    it stands. `author` asks, on the lane `by`; `person`: may take back others' work."""

    lane: str
    to: str
    after: int
    author: str
    by: Lane
    into: str | None = None
    partial: bool = False
    person: bool = True

    def __post_init__(self) -> None:
        if self.into is not None and self.into not in INTO:
            raise Refusal(
                f"{self.into!r} is no place for it.", f"One of: {', '.join(INTO)}.", Fault.MALFORMED
            )


@dataclass(frozen=True, slots=True)
class RewindPlaces:
    """Where it can be written. `head`: the main branch, as the main checkout has it. `worktree`: the checkout that
    the agent works in and what stands there now, None = it has none; whoever plans and applies holds its lock,
    and no turn of the agent runs while it is applied."""

    head: Head
    worktree: tuple[Checkout, Snapshot] | None = None


@dataclass(frozen=True, slots=True)
class RewindPlan:
    """What would be done. `operation` None: nothing is written, because nothing changes or it conflicts. `parents`:
    the commits that the snapshot from before stands on."""

    answer: Mapping[str, Any]
    operation: NewOperation | None
    parents: tuple[str, ...] = ()

    @property
    def paths(self) -> list[str]:
        """The files that change, by path: what locks and the guard are asked about."""
        return [file["path"] for file in self.answer["files"] if file["before"] != file["after"]]


@dataclass(frozen=True, slots=True)
class LaneEvents:
    """What the log says since a moment, in its order: the writes of the lane that came onto the main branch
    (`landed`) and those of which it does not say so (`open`; git's history may, see `in_history`), a person's that
    are not committed, the writes and the reads of others, and the rewinds that stand. `base`: the main branch's
    commit at that moment; None = not known."""

    landed: tuple[Event, ...]
    open: tuple[Event, ...]
    uncommitted: tuple[Event, ...]
    others: tuple[Event, ...]
    reads: tuple[Event, ...]
    rewinds: tuple[Operation, ...]
    base: str | None = None


async def lane_events(tx: Tx, lane: str, after: int) -> LaneEvents:
    """The events behind this place in the log. Raises Refusal when the lane has written nothing."""
    own: list[Event] = []
    others: list[Event] = []
    reads: list[Event] = []
    at = after
    while batch := await events.read_after(tx, at, types=(CHANGED, READ), limit=_BATCH):
        at = batch[-1].pos
        for event in batch:
            if event.type == READ:
                reads.append(event)
            else:
                (own if is_of(event, lane) else others).append(event)
    committed_at = _committed_at([*own, *others])
    uncommitted = [event for event in own if event.outputs.get("worktree") == UNCOMMITTED]
    own = [part for event in own if (part := _committed_part(event, committed_at)) is not None]
    if not own and uncommitted:
        raise Refusal(
            f"What {lane} has changed since then is not committed, and stays.",
            "Undo it in the editor, or with `git restore`.",
            Fault.UNKNOWN,
        )
    if not own:
        names = sorted({event.lane.removeprefix(_PERSON) for event in others})
        fix = f"Who has: {', '.join(names)}." if names else "Name an earlier moment."
        raise Refusal(f"{lane} has changed no file since then.", fix, Fault.UNKNOWN)
    merged_at = {name: await _merged_at(tx, name, after) for name in {event.lane for event in own}}
    landed, open_, brought = list[Event](), list[Event](), _brought(own, others)
    for event in own:
        # A merge takes in all that stands in the worktree.
        merged = event.lane.startswith(_PERSON) or event.pos < merged_at[event.lane] or event.id in brought
        (landed if merged else open_).append(event)
    agents = {event.lane for event in own}
    others = [event for event in others if not await _merges_one_of(tx, event, agents)]
    reads = [event for event in reads if not is_of(event, lane)]
    rewinds = await standing_after(tx, after)
    kept = {event.id for event in own}
    stays = tuple(event for event in uncommitted if event.id not in kept)
    known = await last_tree(tx, MAIN, after)
    base = None if known is None else known.commit
    return LaneEvents(tuple(landed), tuple(open_), stays, tuple(others), tuple(reads), tuple(rewinds), base)


def _committed_at(changes: Iterable[Event]) -> dict[str, int]:
    """Of each path the place of the last commit that has what was recorded of it before."""
    return {entry["path"]: event.pos for event in changes for entry in event.outputs.get("committed", ())}


def _committed_part(event: Event, committed_at: Mapping[str, int]) -> Event | None:
    """What of an event the main branch has, when it was recorded before it was committed; any other is as it is. A
    person's open edits are nobody's to take back."""
    if event.outputs.get("worktree") != UNCOMMITTED:
        return event
    touches = [touch for touch in touches_in(event) if committed_at.get(touch.path, 0) > event.pos]
    if not touches:
        return None
    outputs = {**event.outputs, "touches": [touch.as_json() for touch in touches]}
    return replace(event, stored_outputs=dumps(outputs), file_touches=tuple(paths_of(touches)), _read={})


def is_of(event: Event, lane: str) -> bool:
    """Is it an event of this lane (a key), or of this agent or person (a name)? Pure."""
    if "/" in lane:
        return event.lane_key == lane
    return event.lane.removeprefix(_PERSON).casefold() == lane.removeprefix(_PERSON).casefold()


async def _merges_one_of(tx: Tx, event: Event, agents: Collection[str]) -> bool:
    """Is it the commit of the main branch that merged one of these agents' branches, or brought their work by hand?
    It says what they did once more."""
    if event.lane_key != _MAIN:
        return False
    causes = [await events.get(tx, parent) for parent in event.parents]
    return any(
        cause.outputs["agent"] in agents if cause.type == _WORKTREE else cause.lane in agents
        for cause in causes
        if cause and cause.type in (_WORKTREE, CHANGED)
    )


async def _merged_at(tx: Tx, agent: str, after: int) -> int:
    """The place in the log of the last merge of an agent's branch into the main one, since then; 0 = none."""
    window = await events.last_pos(tx) - after
    text = f'"agent":{quoted(agent)}'
    for event in await events.about(tx, text, types=(_WORKTREE,), window=window, limit=10_000):
        if event.outputs["change"] == _MERGED and event.outputs["agent"] == agent:
            return event.pos
    return 0


def in_history(own: Iterable[Event], others: Iterable[Event], trees: Collection[str]) -> set[str]:
    """The ids of the events that are in one of these trees, which commits brought to the main branch. The tree that a
    change left in a worktree has all that was done there before: it landed, whoever merged it. Pure."""
    own, landed_at = list(own), dict[str, int]()
    for event in (*own, *others):
        if event.snapshot in trees and (name := event.outputs.get("worktree", "")) not in _ON_MAIN:
            landed_at[name] = max(event.pos, landed_at.get(name, 0))
    return {event.id for event in own if event.pos <= landed_at.get(event.outputs.get("worktree", ""), 0)}


def _brought(own: Iterable[Event], changes: Iterable[Event]) -> set[str]:
    """The ids of the events of which commits of the main branch brought later what they left of each file, or what
    its author made of that; as a commit of somebody does that git knows no merge of. Pure."""
    brought = {
        (touch.path, touch.after): event.pos
        for event in sorted(changes, key=lambda event: event.pos)
        if event.outputs.get("worktree") == MAIN
        for touch in touches_in(event)
    }
    own, last = list(own), dict[tuple[str, str], int]()
    for event in own:
        for touch in touches_in(event):
            if brought.get((touch.path, touch.after), 0) > event.pos:
                last[event.outputs.get("worktree", ""), touch.path] = event.pos
    return {
        event.id
        for event in own
        if all(
            event.pos <= last.get((event.outputs.get("worktree", ""), touch.path), 0)
            for touch in touches_in(event)
        )
    }


def touches_in(event: Event) -> list[Touch]:
    """What a `files.changed` did."""
    return [Touch.of_json(value) for value in event.outputs["touches"]]


def steps(taken: Iterable[Event], others: Iterable[Event], again: Iterable[Touch] = ()) -> list[TouchedEvent]:
    """The events for the engine, newest first. Of others it needs what they renamed and made; but not what a commit
    of the main branch has renamed as the taken events did (`again`: others that are taken), for that is how theirs
    came there. Pure."""
    by_pos: dict[int, TouchedEvent] = {}
    taken = list(taken)
    renames = [
        touch
        for touch in (*again, *(touch for event in taken for touch in touches_in(event)))
        if touch.kind is Kind.RENAME and touch.origin is not None
    ]
    old, new = {touch.origin for touch in renames}, {touch.path for touch in renames}
    for event in taken:
        tree = event.inputs["tree"] if event.inputs else None
        by_pos[event.pos] = TouchedEvent(event.id, tuple(touches_in(event)), tree, event.snapshot)
    first = min(by_pos, default=0)
    for event in others:
        on_main = event.outputs.get("worktree") == MAIN
        touches = tuple(
            touch
            for touch in touches_in(event)
            if (touch.kind is Kind.RENAME or touch.before is None)
            and not (on_main and touch.origin in old and touch.path in new)
        )
        if event.pos > first and touches:
            renamed = any(touch.kind is Kind.RENAME for touch in touches)
            tree = event.inputs["tree"] if renamed and event.inputs else None
            by_pos[event.pos] = TouchedEvent(event.id, touches, tree, event.snapshot, taken=False)
    return [by_pos[pos] for pos in sorted(by_pos, reverse=True)]


def steps_again(event: str, operation: TouchedEvent, later: Iterable[Event]) -> list[TouchedEvent]:
    """The events for the engine, newest first, that take an operation out again, which `event` recorded. Pure."""
    others = [each for each in later if event not in each.parents]
    return [*steps((), others, operation.touches), operation]


async def invalidated(tx: Tx, taken: Sequence[Event], later: Iterable[Event]) -> list[dict[str, Any]]:
    """Which events of others had read, or built on, what is taken out: `{event, lane, read, wrote}`, a path each.
    `wrote`: the last event that is taken out of those that wrote it and that its author had seen."""
    writes: dict[str, list[Event]] = {}
    for event in taken:
        for path in event.file_touches or ():
            writes.setdefault(path, []).append(event)
    found = []
    for event in sorted(later, key=lambda event: event.pos):
        for path in event.file_touches or () if event.lane_key != _MAIN else ():
            for write in sorted(writes.get(path, ()), key=lambda write: -write.pos):
                if write.pos < event.pos and await events.seen_by(tx, event.clock, write.lane_key, write.seq):
                    found.append({"event": event.id, "lane": event.lane_key, "read": path, "wrote": write.id})
                    break
    return found


def answer_of(
    lane: str,
    to: str,
    removed: Collection[str],
    taken: TakenBack,
    read: Sequence[Mapping[str, Any]] = (),
    branch: str | None = None,
    undo_with: str = "relay timeline undo",
) -> dict[str, Any]:
    """The answer of rewind, undo and redo (INTERFACES.md, "The wings to come"). `rewind` is put in when it was
    recorded."""
    answer = {
        "rewind": None,
        "lane": lane,
        "to": to,
        "removed": list(removed),
        "files": [file.as_json() for file in taken.files],
        "invalidated": [dict(entry) for entry in read],
        "conflicts": list(taken.conflicts),
        "branch": branch,
        "undo_with": undo_with,
    }
    return answer | ({"submodules": list(taken.submodules)} if taken.submodules else {})


def newest_of_each_lane(taken: Iterable[Event]) -> list[str]:
    """The causes of a rewind: of each lane the newest event that it takes out. Pure."""
    newest: dict[str, Event] = {}
    for event in sorted(taken, key=lambda event: event.pos):
        newest[event.lane_key] = event
    return [event.id for event in newest.values()]


def skipped_undo(operation: Operation, of: str, author: str, by: Lane, why: str) -> RewindPlan:
    """An undo for which there is no place any more: it is recorded and writes nothing, so that the rewind before it
    is the next to be undone. `skipped` of the answer says `why`. Pure."""
    nothing = TakenBack(operation.after, ())
    answer = answer_of(operation.lane, "", [operation.event], nothing, undo_with="")
    answer["skipped"] = why
    new = NewOperation(
        kind=UNDONE,
        of=of,
        lane=operation.lane,
        to="",
        target=operation.target,
        place=operation.place,
        base=operation.base,
        before=operation.after,
        after=operation.after,
        answer=answer,
        author=author,
        by=by,
        causes=[operation.event],
    )
    return RewindPlan(answer, new)


def choose(
    request: RewindRequest,
    places: RewindPlaces,
    landed: list[Event],
    open_: list[Event],
    out: Mapping[str, set[str]],
) -> tuple[list[Event], str]:
    """Which events are taken out, and where: what has landed in a new branch unless it is said otherwise, and what
    stands in the worktree alone there. A worktree has what has landed too. `out`: as of `_taken_out`."""
    in_main = [event for event in landed if event.id not in out["main"]]
    in_worktree = [event for event in (*landed, *open_) if event.id not in out["worktree"]]
    open_ = [event for event in open_ if event.id not in out["worktree"]]
    into = request.into or ("new" if in_main or places.worktree is None else "worktree")
    if request.person:
        taken = in_worktree if into == "worktree" else in_main if landed else open_
        if not taken:
            raise Refusal(f"What {request.lane} did since then is taken back already.", "", Fault.UNKNOWN)
        return taken, into
    if into == "main" or not open_:
        raise Refusal(
            "An agent takes back its own work that is not merged, and this is.",
            "Ask a person for it.",
            Fault.FORBIDDEN,
        )
    return open_, "worktree" if request.into is None else into
