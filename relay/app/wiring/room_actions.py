"""The room's `/rewind` and `/checkpoint`, and what the room answers to them.

Invariant: an order is carried out once, however often it is asked for; a preview changes nothing. The answer says
what was taken back, who had read it, what conflicts, and how to undo it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from relay.base.terminal_text import safe_line
from relay.faces.rewinds import RewindOrder, RewindService
from relay.faces.timeline import TimelineService
from relay.model.actions import MakeCheckpoint, RedoRewind, Rewind, UndoRewind
from relay.room.journal import ledger
from relay.timeline.rewind.history import REDONE, REWOUND, UNDONE
from relay.timeline.rewind.wording import merge_hint, rest

#: Files, readers and conflicts that an answer names.
MOST_NAMED = 12
_WORDS = {
    "restored": "as before",
    "deleted": "gone",
    "merged": "without it, with others' lines",
    "kept": "unchanged",
}


class TimelineActions:
    """Carries the room's actions out."""

    def __init__(self, rewinds: RewindService, timeline: TimelineService) -> None:
        self._rewinds, self._timeline = rewinds, timeline

    async def carry_out(
        self, action: Rewind | UndoRewind | RedoRewind | MakeCheckpoint, *, by: str, source_key: str
    ) -> str:
        """Do it; the room's answer, as markdown. Raises Refusal."""
        if isinstance(action, MakeCheckpoint):
            made = await self._timeline.checkpoint(by, action.name, lane=action.agent, source_key=source_key)
            return checkpoint_answer(made)
        order = RewindOrder(by, ledger.person_lane(by), source_key=source_key)
        how = {"dry_run": action.preview, "partial": action.partial}
        match action:
            case Rewind(lane, to, into):
                done = await self._rewinds.rewind(order, lane, to, into=into, **how)
            case UndoRewind():
                done = await self._rewinds.undo(order, **how)
            case _:
                done = await self._rewinds.redo(order, **how)
        return rewind_answer(action, done, by)


def checkpoint_answer(made: Mapping[str, Any]) -> str:
    """What the room says of a checkpoint. Pure."""
    name, worktree = made["name"], made["metadata"]["worktree"]
    whose = "the main branch's files" if worktree == "main" else f"{worktree}'s files"
    return (
        f"`{name}` is {whose} as they are now ({made['tree'][:8]}). "
        f"`/rewind NAME to {name}` takes back what somebody does from here on."
        + (f" The earlier one is `{made['earlier']}` now." if made["earlier"] else "")
    )


def rewind_answer(action: Rewind | UndoRewind | RedoRewind, done: Mapping[str, Any], by: str) -> str:
    """What the room says of a rewind that was done or previewed, or that conflicts. Pure."""
    lane = safe_line(done["lane"])
    verb = "brings back" if isinstance(action, UndoRewind) else "takes back"
    since = f" since {safe_line(action.to)}" if isinstance(action, Rewind) else ""
    where = f" on the branch `{safe_line(done['branch'])}`" if done["branch"] else f" in {lane}'s worktree"
    changed = [file for file in done["files"] if file["before"] != file["after"]]
    conflicts = done["conflicts"]
    refused = conflicts and not action.partial
    what = f"what {lane} did{since}{where}"
    if "skipped" in done:
        counts = "would count" if action.preview else "counts"
        text = f"{safe_line(done['skipped'])} The rewind of {lane} {counts} as undone, and no file changes."
        return f"{text}\n\n`/rewind undo` undoes the one before it." if not action.preview else text
    if action.preview:
        lines = [f"Nothing is done yet. `{action.word}` {verb} {what}: {_count(changed)}."]
    elif not changed and not conflicts:
        lines = [f"Nothing of the rewind of {lane} stood there any more: no file has changed."]
        return "\n".join([*lines, "", "`/rewind undo` undoes the one before it."])
    elif refused:
        lines = [f"Nothing was done: {_count(conflicts)} of {what} cannot be taken apart from others' work."]
    else:
        lines = [
            f"{by} {'brought' if isinstance(action, UndoRewind) else 'took'} back {what}: {_count(changed)}."
        ]
    names = [f"`{safe_line(file['path'])}`: {_WORDS.get(file['action'], file['action'])}" for file in changed]
    lines += _listed(names)
    if done["invalidated"]:
        lines += ["", "Others had read what goes:"]
        lines += _listed(_readers(done["invalidated"]))
    if conflicts:
        lines += ["", "In conflict, and left as it is:"]
        lines += _listed([f"`{safe_line(path)}`" for path in conflicts])
    kind = {Rewind: REWOUND, UndoRewind: UNDONE}.get(type(action), REDONE)
    if not refused:
        into = Rewind(done["lane"], done["to"], "worktree").line()
        lines += [line for said in rest(done, kind, into) for line in ("", said)]
    merge = "" if refused or action.preview else merge_hint(done["branch"], kind)
    lines += ["", _next(action, refused) + merge]
    return "\n".join(lines)


def _next(action: Rewind | UndoRewind | RedoRewind, refused: object) -> str:
    if refused:
        return f"`{_again(action, partial=True)}` leaves these files as they are and does the rest."
    if action.preview:
        return f"`{_again(action)}` does it."
    if isinstance(action, UndoRewind):
        return "`/rewind redo` takes it back again."
    return "`/rewind undo` undoes it."


def _again(action: Rewind | UndoRewind | RedoRewind, *, partial: bool = False) -> str:
    """The same command, in earnest."""
    how = partial or action.partial
    match action:
        case Rewind(lane, to, into):
            return Rewind(lane, to, into, how).line()
        case UndoRewind():
            return UndoRewind(how).line()
        case _:
            return RedoRewind(how).line()


def _readers(invalidated: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line for each lane: what it had read."""
    paths: dict[str, dict[str, None]] = {}
    for read in invalidated:
        who = safe_line(read["lane"].partition("/")[2].removeprefix("human:"))
        paths.setdefault(who, {})[safe_line(read["read"])] = None
    return [
        f"{who}: {', '.join(f'`{path}`' for path in list(names)[:MOST_NAMED])}"
        for who, names in paths.items()
    ]


def _listed(lines: Sequence[str]) -> list[str]:
    more = [f"and {len(lines) - MOST_NAMED} more"] if len(lines) > MOST_NAMED else []
    return [f"- {line}" for line in [*lines[:MOST_NAMED], *more]]


def _count(files: Sequence[Any]) -> str:
    return f"{len(files)} file{'s' * (len(files) != 1)}"
