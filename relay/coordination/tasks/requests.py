"""What a request to the work queue may say: checked values.

Invariant: what is built here is within its limits, and can be stored and hashed; anything else is a `Refusal`
(malformed) that names the field.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from relay.coordination.paths.targets import MAX_BYTES
from relay.coordination.tasks.dependencies import Policy
from relay.coordination.tasks.needs import reference
from relay.coordination.tasks.task import title_of
from relay.model import Json
from relay.model.validation import json_value, malformed, text, texts, uuid

#: Characters of a description: a page or two of text; more belongs into a file.
MOST_DESCRIPTION = 16_384
#: Bytes of input_data and of result, as JSON: each is in the log with every change of its task.
MOST_JSON = 262_144
MOST_ERROR = 16_384
MOST_REASON = 1000
#: Characters of a type of task.
MOST_TYPE = 64
#: Tasks that one depends on, files that one locks, types that a search names.
MOST_NEEDS = 200
MOST_FILES = 100
MOST_PATH = MAX_BYTES
MOST_TYPES = 50
#: Seconds of a claim's lease: as long as a lock's.
LEASE_S = (1.0, 28_800.0)
_TYPE = re.compile(r"[\w][\w .:/+@-]{0,63}")


@dataclass(frozen=True, slots=True)
class NewTask:
    """A task as it was asked for, checked."""

    task_type: str
    description: str
    input_data: Any
    priority: int
    depends_on: tuple[str, ...]
    on_failed: Policy
    files: tuple[str, ...]
    max_attempts: int
    task_id: str | None

    def request(self) -> Json:
        """What makes two requests the same."""
        return {name: getattr(self, name) for name in self.__slots__} | {"on_failed": str(self.on_failed)}


def task_type(value: object, field: str) -> str:
    if not isinstance(value, str) or not _TYPE.fullmatch(value) or value != value.strip():
        fix = "It has 1 to 64 letters, digits, spaces and _ . : / + @ - and begins with a letter or digit."
        raise malformed(field, f"{str(value)[:60]!r} is not a type of task.", fix)
    return value


def whole(value: object, field: str, low: int, high: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        first = ", 1 first" if field == "priority" else ""
        fix = f"Give a whole number from {low} to {high}{first}."
        raise malformed(field, f"`{field}` is {str(value)[:40]}.", fix)
    return value


def seconds(value: float) -> float:
    low, high = LEASE_S
    if not low <= value <= high:
        fix = f"Give {low:g} second to {high / 3600:g} hours."
        raise malformed("lease_minutes", f"A lease of {value:g} seconds is out of range.", fix)
    return float(value)


def policy(value: str) -> Policy:
    try:
        return Policy(value)
    except ValueError:
        fix = f"One of: {', '.join(Policy)}."
        raise malformed("on_failed", f"{str(value)[:40]!r} is not a policy.", fix) from None


def references(depends_on: Sequence[str]) -> tuple[str, ...]:
    """The references to the tasks that a task depends on. Raises Refusal."""
    return tuple(map(reference, texts(depends_on, "depends_on", MOST_NEEDS, 64)))


def new_task(
    kind: object,
    description: object,
    *,
    input_data: Any,
    priority: object,
    depends_on: Sequence[str],
    on_failed: str,
    files: Sequence[str],
    max_attempts: object,
    task_id: str | None,
) -> NewTask:
    """A task that is to be submitted. Raises Refusal."""
    description = text(description, "task_description", MOST_DESCRIPTION)
    if not title_of(description):
        raise malformed("task_description", "`task_description` is empty.", "Say what is to be done.")
    return NewTask(
        task_type(kind, "task_type"),
        description,
        json_value(input_data, "input_data", MOST_JSON),
        whole(priority, "priority", 1, 10),
        references(depends_on),
        policy(on_failed),
        texts(files, "files", MOST_FILES, MOST_PATH),
        whole(max_attempts, "max_attempts", 1, 100),
        None if task_id is None else uuid(task_id, "task_id"),
    )
