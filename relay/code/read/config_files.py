"""Reads the configuration files that imports are resolved by.

Invariant: of each file only what resolving needs is kept, in plain JSON types; a file that is broken gives
nothing and says so.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from typing import Any

#: Strings as they are, then what JSON with comments has beside JSON.
_JSONC = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/|,(?=\s*[}\]])', re.S)
_COMMENT = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', re.S)
_GO_MODULE = re.compile(r"^\s*module\s+\"?([^\s\"]+)", re.M)
_GO_REPLACE = re.compile(r"^\s*(?:replace\s+)?([^\s(]+)(?:\s+v\S+)?\s+=>\s+(\.{1,2}/\S*)", re.M)


def read(kind: str, data: bytes) -> tuple[Mapping[str, Any] | None, str]:
    """What resolving needs of a file of this kind, and what is wrong with it ("" = nothing)."""
    text = data.decode("utf-8-sig", "replace")
    try:
        match kind:
            case "go.mod":
                return _go_mod(text), ""
            case "Cargo.toml":
                return _cargo(tomllib.loads(text)), ""
            case "package.json":
                return _package(_object(json.loads(text))), ""
            case "tsconfig":
                return _tsconfig(_object(json.loads(_plain_json(text)))), ""
    except (ValueError, RecursionError) as error:
        return None, f"does not parse: {str(error)[:200]}"
    return {}, ""


def _plain_json(text: str) -> str:
    def kept(found: re.Match[str]) -> str:
        return found[1] or ""

    return _JSONC.sub(kept, _COMMENT.sub(kept, text))


def _object(told: Any) -> dict[str, Any]:
    if not isinstance(told, dict):
        raise ValueError("expected an object")
    return told


def _strings(told: Any) -> list[str]:
    """Every string in a nest of objects and arrays, in order: the targets of an "exports" condition."""
    found: list[str] = []
    waiting = [told]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            found.append(one)
        elif isinstance(one, list):
            waiting += reversed(one)
        elif isinstance(one, dict):
            waiting += reversed(list(one.values()))
    return found


def _targets(told: Any) -> dict[str, list[str]]:
    """ "exports" or "imports" of a package: subpath -> files that it may be, in order."""
    if told is None:
        return {}
    if isinstance(told, dict) and any(key.startswith((".", "#")) for key in told):
        return {key: _strings(value) for key, value in told.items() if key.startswith((".", "#"))}
    return {".": _strings(told)}


def _package(told: dict[str, Any]) -> dict[str, Any]:
    entries = [
        told[key]
        for key in ("source", "types", "typings", "module", "main")
        if isinstance(told.get(key), str)
    ]
    name = told.get("name")
    return {
        "name": name if isinstance(name, str) else "",
        "entries": entries,
        "exports": _targets(told.get("exports")),
        "imports": _targets(told.get("imports")),
    }


def _tsconfig(told: dict[str, Any]) -> dict[str, Any]:
    options = told.get("compilerOptions")
    options = options if isinstance(options, dict) else {}
    paths = options.get("paths")
    extends = told.get("extends")
    base = options.get("baseUrl")
    return {
        "base": base if isinstance(base, str) else None,
        "paths": {key: _strings(value) for key, value in paths.items()} if isinstance(paths, dict) else None,
        "extends": _strings(extends),
    }


def _go_mod(text: str) -> dict[str, Any]:
    found = _GO_MODULE.search(text)
    return {"module": found[1] if found else "", "replace": dict(_GO_REPLACE.findall(text))}


def _cargo(told: dict[str, Any]) -> dict[str, Any]:
    package, lib = told.get("package"), told.get("lib")
    name = package.get("name") if isinstance(package, dict) else None
    lib = lib if isinstance(lib, dict) else {}
    renamed: dict[str, str] = {}
    for table in ("dependencies", "dev-dependencies", "build-dependencies"):
        dependencies = told.get(table)
        for alias, one in dependencies.items() if isinstance(dependencies, dict) else ():
            if isinstance(one, dict) and isinstance(one.get("package"), str):
                renamed[alias.replace("-", "_")] = one["package"].replace("-", "_")
    own = lib.get("name") or (name if isinstance(name, str) else "")
    return {"name": str(own).replace("-", "_"), "lib": str(lib.get("path") or ""), "renamed": renamed}
