"""What the room says of coordination: one line for what people, or the agents it concerns, should know.

Invariants: a line is said once, in the transaction that moves the follower's cursor; it sets nobody to work. A line
that names an agent stands in what the agent is shown with its next turn; the others are for people, who alone see
notices (`relay.room.dispatch.queue`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from relay.airspace.advisories import intents
from relay.app.attach.undeclared import MOST_NAMED, named_paths, own_words, tell_both
from relay.app.wiring.main_commits import MAIN
from relay.base.durations import parse_iso
from relay.config.settings import LiveSettings
from relay.coordination.writes.fencing import LockCheck
from relay.coordination.writes.lock_guard import caller_of
from relay.log.events import Event
from relay.model import LOCKED, LockRefusal, references
from relay.room.dispatch.permissions import code_span
from relay.room.journal import ledger
from relay.store.ports import Tx
from relay.timeline.projection import CHANGED

FORCED = "lock.forced"
RECORDED = "changeset.recorded"
TASK_CHANGED = "task.changed"
OVERRIDDEN = "guard.overridden"
ENDED = "session.ended"
#: Seconds after which a write is no news: a follower that is behind knows only who holds the file now.
RECENT_S = 600.0
#: Writes that are remembered as told.
MOST_REMEMBERED = 5_000

Json = Mapping[str, Any]


class Notices:
    """A follower of the log (`relay.log.follow`). `settings` know the agents."""

    name = "coordination-notices"
    reads = frozenset({FORCED, RECORDED, TASK_CHANGED, OVERRIDDEN})
    emits = frozenset({"message.posted"})

    def __init__(self, settings: LiveSettings) -> None:
        self._settings = settings

    async def apply(self, tx: Tx, event: Event) -> None:
        for text in lines(event.type, event.outputs or {}, self._settings.current.agent_names):
            about = {"coordination": event.type}
            meta = about if "@" in text else {**about, "notice": "coordination"}
            await ledger.say(tx, text, parents=[event.id], meta=meta)


class UndeclaredWrites:
    """A follower of the log: an agent wrote what another session holds, and asked nobody (a script, a build).

    Both are told, once for each path of a turn, in the transaction that moves the cursor."""

    name = "undeclared-writes"
    reads = frozenset({CHANGED})
    emits = frozenset({"message.posted", ledger.QUEUED})

    def __init__(self, settings: LiveSettings, lock_check: LockCheck) -> None:
        self._settings, self._lock_check = settings, lock_check
        #: By turn, holder and path: the event that it was told for, which may come again when its transaction failed.
        self._told: dict[tuple[str, str, str, str], str] = {}

    async def apply(self, tx: Tx, event: Event) -> None:
        outputs = event.outputs or {}
        if event.role is None or outputs.get("worktree") == MAIN or not event.parents:
            return  # a commit on the main branch, a person's edit, or of nobody known
        if await tx.now() - parse_iso(event.at) > RECENT_S:
            return
        caller = caller_of(event.lane, event.session)
        paths = [touch["path"] for touch in outputs.get("touches") or ()]
        held: dict[tuple[str, str], list[LockRefusal]] = {}
        for refusal in await self._lock_check.refusals(tx, caller, paths):
            key = (event.parents[0], refusal.locked_by, refusal.session, refusal.path)
            if refusal.code == LOCKED and self._told.setdefault(key, event.id) == event.id:
                held.setdefault((refusal.locked_by, refusal.session), []).append(refusal)
        for key in list(self._told)[: max(0, len(self._told) - MOST_REMEMBERED)]:
            del self._told[key]
        command = str((event.outputs or {}).get("command") or "")
        agents = self._settings.current.agent_names
        for (holder, session), refusals in held.items():
            await tell_both(tx, event.lane, holder, session, refusals, command, agents, parents=[event.id])


class EndedIntents:
    """A follower of the log: what a session said that it is about to touch ends with it."""

    name = "coordination-intents"
    reads = frozenset({ENDED})
    emits = frozenset({intents.DECLARED})

    async def apply(self, tx: Tx, event: Event) -> None:
        session = (event.outputs or {}).get("session") or {}
        agent, id = session.get("agent_id"), session.get("session_id")
        if agent and id:
            await intents.end_session(tx, agent, id, cause=[event.id])


def lines(type: str, outputs: Json, agents: Sequence[str]) -> list[str]:
    """What is said of an event, mostly nothing. Pure."""

    def who(name: object) -> str:
        return f"@{name}" if name in agents else str(name)

    match type:
        case "lock.forced":
            return [_forced(outputs, who)]
        case "changeset.recorded":
            return _undeclared(outputs.get("changeset") or {}, who)
        case "guard.overridden":
            return [_overridden(outputs, who)]
        case "task.changed":
            return _tasks(outputs)
    return []


def _forced(outputs: Json, who: Callable[[object], str]) -> str:
    lock = outputs["lock"]
    why = f" {own_words(outputs.get('reason'))}" if outputs.get("reason") else ""
    return (
        f"{outputs.get('by')} took the lock on {code_span(lock['file_path'])} from {who(lock['locked_by'])}.{why} "
        "Acquire it again before you write there."
    )


def _undeclared(changeset: Json, who: Callable[[object], str]) -> list[str]:
    paths = changeset.get("undeclared")
    if not paths:
        return []
    summary = own_words(changeset.get("summary"))
    return [f"{who(changeset['agent_id'])} changed what it did not declare: {named_paths(paths)} ({summary})"]


def _overridden(outputs: Json, who: Callable[[object], str]) -> str:
    holders = dict.fromkeys(
        who(refusal["locked_by"])
        for refusal in outputs.get("refusals") or ()
        if refusal.get("code") == "locked"
    )
    held = f" over the lock of {', '.join(holders)}" if holders else ", unasked"
    paths = named_paths(outputs["paths"]) if outputs.get("paths") else "files that were never checked"
    return f"{outputs['by']}: {outputs.get('act') or 'write'} of {paths}{held}. {own_words(outputs.get('reason'))}"


def _tasks(outputs: Json) -> list[str]:
    """Tasks that are given up, or that fail because of another. No person or agent did that, so none said it."""
    how = {"dead": "is given up", "cascaded": "fails with one that it depends on"}.get(
        str(outputs.get("change"))
    )
    if how is None:
        return []
    texts = []
    for task in [pair["after"] for pair in outputs.get("tasks") or ()][:MOST_NAMED]:
        attempts = f"{task['attempts']} attempt{'s' * (task['attempts'] != 1)}"
        after = f" after {attempts}" if outputs["change"] == "dead" else ""
        note = own_words(task.get("note") or task.get("error_message"))
        texts.append(
            f"Task {references.task(task['number'])} {how}{after}: "
            f"{own_words(task.get('task_description'))} {note}".strip()
        )
    return texts
