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
_GO_MODULE = re.compile(r"^[^\S\n]*+module\s+\"?([^\s\"]+)", re.M)
_GO_REPLACE = re.compile(r"^[^\S\n]*+(?:replace\s+)?([^\s(]++)(?:\s+v\S+)?\s+=>\s+(\.{1,2}/\S*)", re.M)


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
    return _JSONC.sub(r"\1", _COMMENT.sub(r"\1", text))


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("expected an object")
    return value


def _strings(value: Any) -> list[str]:
    """Every string in a nest of objects and arrays, in order: the targets of an "exports" condition."""
    strings: list[str] = []
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            strings.append(item)
        elif isinstance(item, list):
            waiting += reversed(item)
        elif isinstance(item, dict):
            waiting += reversed(list(item.values()))
    return strings


def _targets(exports: Any) -> dict[str, list[str]]:
    """ "exports" or "imports" of a package: subpath -> files that it may be, in order."""
    if exports is None:
        return {}
    if isinstance(exports, dict) and any(key.startswith((".", "#")) for key in exports):
        return {key: _strings(value) for key, value in exports.items() if key.startswith((".", "#"))}
    return {".": _strings(exports)}


def _package(manifest: dict[str, Any]) -> dict[str, Any]:
    entries = [
        manifest[key]
        for key in ("source", "types", "typings", "module", "main")
        if isinstance(manifest.get(key), str)
    ]
    name = manifest.get("name")
    return {
        "name": name if isinstance(name, str) else "",
        "entries": entries,
        "exports": _targets(manifest.get("exports")),
        "imports": _targets(manifest.get("imports")),
    }


def _tsconfig(settings: dict[str, Any]) -> dict[str, Any]:
    options = settings.get("compilerOptions")
    options = options if isinstance(options, dict) else {}
    paths = options.get("paths")
    extends = settings.get("extends")
    base = options.get("baseUrl")
    return {
        "base": base if isinstance(base, str) else None,
        "paths": {key: _strings(value) for key, value in paths.items()} if isinstance(paths, dict) else None,
        "extends": _strings(extends),
    }


def _go_mod(text: str) -> dict[str, Any]:
    module = _GO_MODULE.search(text)
    return {"module": module[1] if module else "", "replace": dict(_GO_REPLACE.findall(text))}


def _cargo(manifest: dict[str, Any]) -> dict[str, Any]:
    package, lib = manifest.get("package"), manifest.get("lib")
    name = package.get("name") if isinstance(package, dict) else None
    lib = lib if isinstance(lib, dict) else {}
    renamed: dict[str, str] = {}
    for table in ("dependencies", "dev-dependencies", "build-dependencies"):
        dependencies = manifest.get(table)
        for alias, dependency in dependencies.items() if isinstance(dependencies, dict) else ():
            if isinstance(dependency, dict) and isinstance(dependency.get("package"), str):
                renamed[alias.replace("-", "_")] = dependency["package"].replace("-", "_")
    own = lib.get("name") or (name if isinstance(name, str) else "")
    return {"name": str(own).replace("-", "_"), "lib": str(lib.get("path") or ""), "renamed": renamed}
