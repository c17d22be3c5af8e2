"""The registry of operations: each is declared once and becomes an MCP tool, an HTTP endpoint, an entry of OpenAPI.

Invariant: an interface knows no operation by name; what it needs to know stands in the declaration. An operation runs
for a `Caller`, whose scopes are checked before it runs (`perform`), and answers with a JSON value on every interface.
"""

from __future__ import annotations

from collections.abc import Mapping

from relay.faces.operations import (
    changesets,
    keys,
    knowledge,
    locks,
    memory,
    room,
    sessions,
    skills,
    tasks,
    timeline,
    working_memory,
)
from relay.faces.operations.operation import Operation
from relay.faces.operations.verification import changes, landing, metrics, policies

#: Every operation of these modules by its name, in the order of declaration.
OPERATIONS: Mapping[str, Operation] = {
    declared.name: declared
    for module in (
        locks,
        tasks,
        memory,
        working_memory,
        skills,
        knowledge,
        room,
        changesets,
        changes,
        timeline,
        landing,
        policies,
        metrics,
        sessions,
        keys,
    )
    for declared in vars(module).values()
    if isinstance(declared, Operation)
}
