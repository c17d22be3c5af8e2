"""The registry of operations: each is declared once and becomes an MCP tool, an HTTP endpoint, an entry of OpenAPI.

Invariant: a door knows no operation by name; what it needs to know stands in the declaration. An operation runs for
a `Caller`, whose scopes the registry checks before it runs, and answers with a JSON value on every door.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from relay.faces.services import Services
from relay.model import Caller

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation.

    `request` and `result` are pydantic models (a result may be a list: `result_list`); `scope` one of
    `relay.model.SCOPES` or ADMIN; `method` and `path` its HTTP endpoint, `aliases` further (method, path) pairs;
    `tool` whether MCP lists it. `doc`: first line a summary, for models and people.
    """

    name: str
    request: type[BaseModel]
    result: type[BaseModel]
    scope: str
    run: Callable[[Services, Caller, Any], Awaitable[Any]]
    method: str
    path: str
    doc: str
    aliases: tuple[tuple[str, str], ...] = ()
    tool: bool = False
    result_list: bool = False
    read_only: bool = False


#: Every operation by its name, in the order of declaration.
OPERATIONS: Mapping[str, Operation] = {}
