"""What happened to one task, from the log.

Invariant: nothing here is kept; it is read from the events of the board, so it says what they say.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from relay.coordination.tasks.task import Task
from relay.log import events
from relay.log.encoding import dumps
from relay.log.events import Event
from relay.store.ports import Tx

TYPES = ("task.created", "task.changed")


async def story(tx: Tx, task: Task) -> Mapping[str, Any]:
    """TASK with `input_data`, `result`, `error_message` and `history`: `[{id, at, by, change, status, note}]`, oldest
    first. `more`: what happened before the part of the log that is looked through is not in it."""
    # As an event holds the task itself; one that needs it names it otherwise.
    entries = await events.about(tx, f'"id":{dumps(task.id)}', types=TYPES)
    history = [step for event in reversed(entries) if (step := _step(event, task.id)) is not None]
    begun = bool(history) and history[0]["change"] in ("created", "submitted")
    more = {"input_data": task.input_data, "result": task.result, "error_message": task.error_message}
    return {**task.as_json(), **more, "history": history, "more": not begun}


def _step(event: Event, id: str) -> dict[str, Any] | None:
    """What this event did to the task."""
    for change in event.outputs["tasks"]:
        after = change["after"]
        if after["id"] == id:
            return {
                "id": event.id,
                "at": event.at,
                "by": event.outputs.get("by"),
                "change": event.outputs["change"],
                "status": after["status"],
                "note": after.get("error_message") or after.get("note"),
            }
    return None
