"""Whose doing a commit of the main branch is, part by part.

Invariant: what agents wrote counts as theirs, what a rewind of relay carried out as that rewind's, the rest as of the
person who made the commit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from relay.app.wiring.main_commits import MainCommit, MergedSide, authors_of, merge_of_branch
from relay.log import events
from relay.log.events import Lane
from relay.model.touches import Touch
from relay.store.ports import Tx
from relay.timeline.file_changes import Merged, agents_writes, committed_edits
from relay.timeline.projection import last_tree
from relay.timeline.reading import MAIN_LANE
from relay.timeline.rewind.history import REDONE, REWOUND, UNDONE


@dataclass(frozen=True, slots=True)
class CommitPart:
    """What of a commit of the main branch is one event on this lane. `committed`, `carried`: see `record_changes`."""

    lane: Lane
    touches: Sequence[Touch]
    causes: Sequence[str] = ()
    committed: Mapping[str, str] = field(default_factory=dict)
    carried: bool = False
    merged: Merged | None = None

    def __bool__(self) -> bool:
        return bool(self.touches or self.committed)


async def parts_of(
    tx: Tx,
    made: MainCommit,
    person: Lane | None,
    touches: Sequence[Touch],
    side: MergedSide,
    by: str,
    member: str = "",
) -> list[CommitPart]:
    """Whose doing a commit of the main branch is: what agents wrote first, then what is of the person who made it.
    `by`: who brought it there; `member`: who looks."""
    if (merge := await merge_of_branch(tx, made.commit)) is not None:
        agent = merge.outputs["agent"]
        wrote = await last_tree(tx, agent)
        made_of = [*([wrote.event] if wrote else ()), merge.id]
        return [CommitPart(MAIN_LANE, touches, made_of, merged=Merged((agent,), merge.outputs["by"]))]
    if rewind := await _taken_back_by(tx, made.named, made.tree):
        return [CommitPart(MAIN_LANE, touches, rewind)]
    known = {} if person is None else await committed_edits(tx, touches, member)
    left = [touch for touch in touches if touch.path not in known]
    writes = await agents_writes(tx, left, side.clean)
    of = await authors_of(tx, writes.values())
    merged = Merged(of, by) if of else None
    if person is None:
        return [CommitPart(MAIN_LANE, touches, tuple(dict.fromkeys(writes.values())), merged=merged)]
    events_of = dict.fromkeys(known.values())
    carried = {id for id in events_of if (at := await events.get(tx, id)) and at.lane_key == MAIN_LANE.key}
    brought = CommitPart(
        MAIN_LANE,
        [touch for touch in left if touch.path in writes],
        tuple(dict.fromkeys([*writes.values(), *carried])),
        {path: event for path, event in known.items() if event in carried},
        carried=True,
        merged=merged,
    )
    own = CommitPart(
        person,
        [touch for touch in left if touch.path not in writes],
        tuple(event for event in events_of if event not in carried),
        {path: event for path, event in known.items() if event not in carried},
    )
    return [part for part in (brought, own) if part] or [own]


async def _taken_back_by(tx: Tx, named: str, tree: str) -> list[str]:
    """The rewind, undo or redo that this commit of the main branch carried out: the event that it names, when that
    left this very tree. Its files are no change of the person who asked."""
    event = await events.get(tx, named) if named else None
    if event is None or event.type not in (REWOUND, UNDONE, REDONE) or event.snapshot != tree:
        return []
    return [event.id]
