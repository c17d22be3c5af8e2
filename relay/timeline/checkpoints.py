"""Checkpoints: names that people and the room give to a tree at a moment (003, section 4.6).

Invariants:
- a checkpoint is the event `checkpoint.made`; the table `checkpoints` is its projection, and `rebuild` makes it anew
  row by row;
- a name that is given again means the newest of them. Nothing is overwritten: the ones before are reached by
  `name~1`, `name~2`;
- its tree is kept for ever: whoever makes one has kept the tree first, under `refs/relay/checkpoints/`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from relay.log import events
from relay.log.encoding import dumps
from relay.log.events import Event, Lane, NewEvent
from relay.model.refusals import Fault, Refusal
from relay.store.ports import Row, Store, Tx
from relay.timeline.moment_forms import is_taken
from relay.timeline.projection import BATCH, Q

MADE = "checkpoint.made"
#: The checkpoint of the first tree in the room whose tests passed.
FIRST_GREEN = "milestone:first green"
MOST_NAME = 100
#: Names among which a near one is looked for.
_MOST_NAMES = 200
_TREE = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


class CheckpointKind(StrEnum):
    """Who gives it: a person, a handoff, the room when something first happens, the start of an exploration."""

    USER = "user"
    HANDOFF = "handoff"
    MILESTONE = "milestone"
    EXPLORATION = "exploration"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A row of `checkpoints`. `pos`, `event`: its event; `lane`: who made it, a lane's key; `at`: ISO 8601; `commit`:
    what keeps the tree, None = whatever else keeps it."""

    name: str
    pos: int
    event: str
    lane: str
    at: str
    tree: str
    commit: str | None
    kind: CheckpointKind
    metadata: dict[str, Any]

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "number": self.pos,
            "event": self.event,
            "lane": self.lane,
            "at": self.at,
            "tree": self.tree,
            "commit": self.commit,
            "kind": self.kind.value,
            "metadata": self.metadata,
        }


def is_name(text: str) -> bool:
    """Has a checkpoint's name this form? Pure."""
    name = " ".join(text.split())
    return (
        bool(name)
        and len(name) <= MOST_NAME
        and name.isprintable()
        and name[0] not in "#-"
        and not {"~", '"', "`"} & {*name}
    )


def checked_name(name: str, kind: CheckpointKind = CheckpointKind.USER) -> str:
    """The name as it is kept. Raises Refusal (MALFORMED) for one that could be taken for another moment, or for one
    that the room makes."""
    wanted = " ".join(name.split())
    if not is_name(wanted):
        raise _bad(
            f"A checkpoint's name has 1 to {MOST_NAME} characters that can be shown, no quotes and no `~`.",
            "Give another name, with a letter in front.",
        )
    if is_taken(wanted):
        raise _bad(f"{wanted!r} reads as a number, an id or a time.", "Put a word in front of it.")
    prefix = wanted.partition(":")[0].casefold()
    if kind is CheckpointKind.USER and ":" in wanted and prefix in {each.value for each in CheckpointKind}:
        raise _bad(f"Names that begin with `{prefix}:` are the room's own.", "Leave that out.")
    return wanted


def _bad(message: str, fix: str) -> Refusal:
    return Refusal(message, fix, Fault.MALFORMED, "bad_checkpoint")


async def make_checkpoint(
    tx: Tx,
    lane: Lane,
    name: str,
    tree: str,
    kind: CheckpointKind,
    metadata: Mapping[str, Any] | None = None,
    *,
    commit: str | None = None,
    parents: Sequence[str] = (),
    source_key: str | None = None,
) -> Event:
    """Append `checkpoint.made`: `lane` calls this tree (git's id, whole) so. `commit`: the one that keeps it
    (`KeptSnapshots.keep(..., checkpoint=True)`, called before), None = another kept snapshot does. `parents`: ids of
    the events that it comes of. `source_key` makes it happen once. Raises Refusal for a name that cannot be one,
    LaneError."""
    if source_key is not None and (made := await events.of_source(tx, source_key)) is not None:
        return made
    if not _TREE.fullmatch(tree):
        raise ValueError(f"no tree's id: {tree!r}")
    outputs = {
        "name": checked_name(name, kind),
        "kind": kind.value,
        "metadata": dict(metadata or {}),
        "commit": commit,
    }
    new = NewEvent(MADE, lane, outputs=outputs, parents=parents, snapshot=tree, source_key=source_key)
    event = await events.append(tx, new)
    await _project(tx, event)
    return event


async def maybe_first_green(
    tx: Tx,
    tree: str,
    lane: Lane,
    *,
    rule: str,
    commit: str | None = None,
    parents: Sequence[str] = (),
) -> Event | None:
    """Make `milestone:first green` of a tree whose tests have just passed; None: the room has one of this rule.
    Called where the result is recorded. `rule`: the name of the check that passed; `lane`: whose work the tree is."""
    key = f"{FIRST_GREEN}:{rule}"
    known = await find(tx, FIRST_GREEN)
    # Those from before had no key.
    if (known is not None and known.metadata.get("rule") == rule) or await events.of_source(
        tx, key
    ) is not None:
        return None
    return await make_checkpoint(
        tx,
        lane,
        FIRST_GREEN,
        tree,
        CheckpointKind.MILESTONE,
        {"rule": rule},
        commit=commit,
        parents=parents,
        source_key=key,
    )


async def find(tx: Tx, name: str, back: int = 0) -> Checkpoint | None:
    """The newest of this name, or the one so many before it; None: there is none."""
    row = await tx.one(Q.checkpoint_named, name=" ".join(name.split()), back=back)
    return None if row is None else _checkpoint(row)


async def of_event(tx: Tx, event: Event) -> Checkpoint | None:
    """The checkpoint that this event made."""
    row = await tx.one(Q.checkpoint_at, pos=event.pos)
    return None if row is None else _checkpoint(row)


async def names_like(tx: Tx, name: str, limit: int) -> list[str]:
    """Names that there are, those that have this text in them if any do, else the newest."""
    names = [str(row["name"]) for row in await tx.all(Q.checkpoint_names, limit=_MOST_NAMES)]
    near = [each for each in names if name.casefold() in each.casefold()]
    return (near or names)[:limit]


async def newest(tx: Tx, limit: int = 100) -> list[Checkpoint]:
    """The newest ones, the newest first."""
    return [_checkpoint(row) for row in await tx.all(Q.newest_checkpoints, limit=limit)]


async def trees(tx: Tx) -> set[str]:
    """The trees that are kept for ever."""
    return {row["tree"] for row in await tx.all(Q.checkpoint_trees)}


async def rebuild(store: Store) -> int:
    """Make the table anew from the log, in one transaction; gives its number of rows."""

    async def work(tx: Tx) -> int:
        await tx.execute(Q.clear_checkpoints)
        count = after = 0
        while batch := await events.read_after(tx, after, types=(MADE,), limit=BATCH):
            for event in batch:
                await _project(tx, event)
            count, after = count + len(batch), batch[-1].pos
        return count

    return await store.write(work)


async def _project(tx: Tx, event: Event) -> None:
    outputs: dict[str, Any] = event.outputs
    await tx.execute(
        Q.put_checkpoint,
        pos=event.pos,
        name=outputs["name"],
        event=event.id,
        lane=event.lane_key,
        at=event.at,
        tree=event.snapshot,
        at_commit=outputs["commit"],
        kind=outputs["kind"],
        metadata=dumps(outputs["metadata"]),
    )


def _checkpoint(row: Row) -> Checkpoint:
    return Checkpoint(
        name=row["name"],
        pos=row["pos"],
        event=row["event"],
        lane=row["lane"],
        at=row["at"],
        tree=row["tree"],
        commit=row["at_commit"],
        kind=CheckpointKind(row["kind"]),
        metadata=json.loads(row["metadata"]),
    )
