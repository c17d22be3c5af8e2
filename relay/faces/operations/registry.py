"""The registry of operations: each is declared once and becomes an MCP tool, an HTTP endpoint, an entry of OpenAPI.

Invariant: a door knows no operation by name; what it needs to know stands in the declaration. An operation runs for
a `Caller`, whose scopes are checked before it runs (`perform`), and answers with a JSON value on every door.
"""

from __future__ import annotations

from collections.abc import Mapping

from relay.faces.operations import changesets, keys, locks, memory, room, sessions, tasks
from relay.faces.operations.operation import Json, Operation, perform

__all__ = ["OPERATIONS", "Json", "Operation", "perform"]

_SCHEMAS = (
    locks,
    tasks,
    memory,
    room,
    changesets,
    sessions,
    keys,
)

#: Every operation by its name, in the order of declaration.
OPERATIONS: Mapping[str, Operation] = {
    operation.name: operation for wing in _SCHEMAS for operation in wing.OPERATIONS
}
