"""A scenario: agents and a graph from one JSON value, for tests, demonstrations and other programs.

Invariant: what is missing has a meaning that docs/airspace.md names; what is nonsense is refused with the key
that holds it. Pure.

Shape: `{agents: [{agentId, files: [{path, lines, weight}], startedAt?, intent?}], graph: {adjacency}}`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from relay.base.durations import parse_iso
from relay.model.working_set import FileTouch, Span, WorkingSet

#: Unix times from here on are in milliseconds, as JavaScript counts them: in seconds this is the year 5138.
_MILLISECONDS = 1e11


class ScenarioError(Exception):
    """The scenario cannot be read; the text names the key and what is wanted there."""

    def __init__(self, key: str, wanted: str) -> None:
        super().__init__(f"{key}: {wanted}")


@dataclass(frozen=True, slots=True)
class Scenario:
    """`adjacency`: file -> the files that it imports."""

    agents: tuple[WorkingSet, ...]
    adjacency: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def read(value: Any) -> Scenario:
    """The scenario that a JSON value describes."""
    if not isinstance(value, dict):
        raise ScenarioError("scenario", f"expected an object with `agents`, got {_kind(value)}")
    if "agents" not in value:
        raise ScenarioError("agents", "missing; expected a list of agents")
    agents: dict[str, WorkingSet] = {}
    for at, listed in enumerate(_list("agents", value["agents"])):
        agent = _agent(f"agents[{at}]", listed)
        if agent.agent in agents:
            raise ScenarioError(f"agents[{at}].agentId", f"{agent.agent!r} comes twice")
        agents[agent.agent] = agent
    return Scenario(tuple(agents.values()), _graph(value.get("graph")))


_KEYS = frozenset({"agents", "graph"})
_AGENT_KEYS = frozenset({"agentId", "files", "startedAt", "intent"})
_FILE_KEYS = frozenset({"path", "lines", "weight"})


def unknown(value: Any) -> list[str]:
    """The keys of a scenario that mean nothing here, such as a misspelt one; of other programs' own, too."""
    keys = [key for key in value if key not in _KEYS]
    for at, agent in enumerate(value["agents"]):
        keys += [f"agents[{at}].{key}" for key in agent if key not in _AGENT_KEYS]
        for part in ("files", "intent"):
            for number, file in enumerate(agent.get(part) or ()):
                extra = [key for key in file if key not in _FILE_KEYS] if isinstance(file, dict) else []
                keys += [f"agents[{at}].{part}[{number}].{key}" for key in extra]
    return keys


# -- agents


def _agent(key: str, value: Any) -> WorkingSet:
    if not isinstance(value, dict):
        raise ScenarioError(key, f"expected an object with `agentId` and `files`, got {_kind(value)}")
    name = value.get("agentId")
    if isinstance(name, int) and not isinstance(name, bool):
        name = str(name)
    if not isinstance(name, str) or not name.strip():
        raise ScenarioError(f"{key}.agentId", f"expected a name, got {_kind(name)}")
    files = _files(f"{key}.files", value.get("files"))
    return WorkingSet(
        agent=name,
        files=files,
        intent=_files(f"{key}.intent", value.get("intent")),
        started_at=_start(f"{key}.startedAt", value.get("startedAt")),
        # A sum that does not depend on the order of the files.
        committed=math.fsum(touch.weight for touch in files),
    )


def _files(key: str, value: Any) -> tuple[FileTouch, ...]:
    """A path that is named twice has the lines of both and the greater weight."""
    files: dict[str, FileTouch] = {}
    for at, listed in enumerate(_list(key, value)):
        file = _file(f"{key}[{at}]", listed)
        before = files.get(file.path)
        if before is not None:
            lines = before.lines + file.lines if before.lines and file.lines else ()
            file = FileTouch(file.path, lines=lines, weight=max(before.weight, file.weight))
        files[file.path] = file
    return tuple(files.values())


def _file(key: str, value: Any) -> FileTouch:
    if isinstance(value, str):
        return FileTouch(path_of(key, value))
    if not isinstance(value, dict):
        raise ScenarioError(key, f"expected a path or an object with `path`, got {_kind(value)}")
    return FileTouch(
        path_of(f"{key}.path", value.get("path")),
        lines=tuple(
            _span(f"{key}.lines[{at}]", span)
            for at, span in enumerate(_list(f"{key}.lines", value.get("lines")))
        ),
        weight=_weight(f"{key}.weight", value.get("weight")),
    )


def path_of(key: str, value: Any) -> str:
    """A path relative to the repository, with `/`, without `./` before it and `/` behind it."""
    if not isinstance(value, str):
        raise ScenarioError(key, f"expected a path, got {_kind(value)}")
    plain = value.replace("\\", "/")
    parts = [part for part in plain.split("/") if part not in ("", ".")]
    if not parts or plain.startswith("/") or ".." in parts:
        raise ScenarioError(
            key, f"expected a path inside the repository, relative to its root, got {value!r}"
        )
    return "/".join(parts)


def _span(key: str, value: Any) -> Span:
    if not isinstance(value, list) or len(value) != 2:
        hint = "; a single range is written [[first, last]]" if isinstance(value, int) else ""
        raise ScenarioError(key, f"expected a range [first, last], got {_kind(value)}{hint}")
    start, end = value
    if any(isinstance(number, bool) or not isinstance(number, int) for number in value):
        raise ScenarioError(key, f"expected two line numbers, got {value}")
    if start < 1 or end < start - 1:
        raise ScenarioError(
            key, f"expected first >= 1 and last >= first (last = first - 1 is an insertion), got {value}"
        )
    return Span(start, end)


def _weight(key: str, value: Any) -> float:
    if value is None:
        return 1.0
    weight = _number(key, value)
    if not 0 < weight <= 1:
        raise ScenarioError(key, f"expected a weight above 0 and up to 1, got {value}")
    return weight


def _start(key: str, value: Any) -> float:
    """Unix seconds; 0 = unknown."""
    if value is None:
        return 0.0
    if isinstance(value, str):
        try:
            return parse_iso(value.strip())
        except ValueError:
            raise ScenarioError(key, f"expected an ISO 8601 time or Unix seconds, got {value!r}") from None
    number = _number(key, value)
    if number < 0:
        raise ScenarioError(key, f"expected a time since 1970, got {value}")
    return number / 1000.0 if number >= _MILLISECONDS else number


# -- the graph


def _graph(value: Any) -> dict[str, tuple[str, ...]]:
    if value is None:
        return {}
    key = "graph"
    if isinstance(value, dict) and "adjacency" in value:
        key, value = "graph.adjacency", value["adjacency"]
        if value is None:
            return {}
    elif isinstance(value, dict) and "edges" in value:
        key, value = "graph.edges", value["edges"]
    graph: dict[str, list[str]] = {}
    if isinstance(value, dict):
        for path, imported in value.items():
            where = f"{key}[{path!r}]"
            ends = [path_of(f"{where}[{at}]", end) for at, end in enumerate(_list(where, imported))]
            graph.setdefault(path_of(where, path), []).extend(ends)
    elif isinstance(value, list):
        for at, edge in enumerate(value):
            if not isinstance(edge, list) or len(edge) != 2:
                raise ScenarioError(
                    f"{key}[{at}]", f"expected an edge [importer, imported], got {_kind(edge)}"
                )
            start, end = (path_of(f"{key}[{at}]", end) for end in edge)
            graph.setdefault(start, []).append(end)
    else:
        raise ScenarioError(key, f"expected {{file: [imported files]}}, got {_kind(value)}")
    return {path: tuple(dict.fromkeys(ends)) for path, ends in graph.items()}


# -- values


def _list(key: str, value: Any) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise ScenarioError(key, f"expected a list, got {_kind(value)}")
    return value


def _number(key: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ScenarioError(key, f"expected a number, got {_kind(value)}")
    return float(value)


def _kind(value: Any) -> str:
    """What stands there, for an error."""
    match value:
        case None:
            return "nothing"
        case dict():
            return "an object"
        case list():
            return "a list" if value else "an empty list"
        case str():
            return repr(value if len(value) <= 60 else value[:57] + "...")
        case bool():
            return "true" if value else "false"
    return str(value)
