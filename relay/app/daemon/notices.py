"""What the room says of coordination: one line for what people, or the agents it concerns, should know.

Invariants: a line is said once, in the transaction that moves the follower's cursor; it sets nobody to work. A line
that names an agent stands in what the agent is shown with its next turn; the others are for people, who alone see
notices (`relay.room.dispatch.queue`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from relay.airspace.advisories import intents
from relay.base.terminal_text import flat
from relay.config.settings import LiveSettings
from relay.log.events import Event
from relay.model import references
from relay.room.dispatch.permissions import code_span
from relay.room.journal import ledger
from relay.store.ports import Tx

FORCED = "lock.forced"
RECORDED = "changeset.recorded"
TASK_CHANGED = "task.changed"
OVERRIDDEN = "guard.overridden"
ENDED = "session.ended"
#: Files that a line names; the event has all.
MOST_NAMED = 5
#: Characters of somebody's own words in a line.
MOST_WORDS = 200

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
    why = f" {_words(outputs.get('reason'))}" if outputs.get("reason") else ""
    return (
        f"{outputs.get('by')} took the lock on {code_span(lock['file_path'])} from {who(lock['locked_by'])}.{why} "
        "Acquire it again before you write there."
    )


def _undeclared(changeset: Json, who: Callable[[object], str]) -> list[str]:
    paths = changeset.get("undeclared")
    if not paths:
        return []
    summary = _words(changeset.get("summary"))
    return [f"{who(changeset['agent_id'])} changed what it did not declare: {_named(paths)} ({summary})"]


def _overridden(outputs: Json, who: Callable[[object], str]) -> str:
    holders = dict.fromkeys(
        who(refusal["locked_by"])
        for refusal in outputs.get("refusals") or ()
        if refusal.get("code") == "locked"
    )
    held = f" over the lock of {', '.join(holders)}" if holders else ", unasked"
    paths = _named(outputs["paths"]) if outputs.get("paths") else "files that were never checked"
    return (
        f"{outputs['by']}: {outputs.get('act') or 'write'} of {paths}{held}. {_words(outputs.get('reason'))}"
    )


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
        note = _words(task.get("note") or task.get("error_message"))
        texts.append(
            f"Task {references.task(task['number'])} {how}{after}: "
            f"{_words(task.get('task_description'))} {note}".strip()
        )
    return texts


def _named(paths: Sequence[str]) -> str:
    more = len(paths) - MOST_NAMED
    return ", ".join(map(code_span, paths[:MOST_NAMED])) + (f" and {more} more" if more > 0 else "")


def _words(text: object) -> str:
    line = flat(str(text or ""))
    line = line if len(line) <= MOST_WORDS else f"{line[: MOST_WORDS - 1]}\u2026"
    return line if not line or line.endswith((".", "!", "?", "\u2026")) else f"{line}."
