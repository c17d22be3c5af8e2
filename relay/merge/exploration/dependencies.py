"""The dependencies that a codebase names: what the metric `dependency_count` counts (003, section 5.3).

Invariant: a file that cannot be read names none; a dependency is counted once for each ecosystem, however many files
name it, and whatever version they want. Pure.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any

_NAME = re.compile(r"^\s*([A-Za-z0-9][A-Za-z0-9._-]*)")
_GO = re.compile(r"^[^\S\n]*+(?:require\s+)?((?=[^\s./]*\.)[\w.~-]++(?:/\S++)?)\s+v\d", re.MULTILINE)
_MAVEN = re.compile(r"<dependency>.*?<groupId>(.*?)</groupId>.*?<artifactId>(.*?)</artifactId>", re.DOTALL)
_GRADLE = re.compile(
    r"^[^\S\n]*+(?:\w*[iI]mplementation|api|\w*[cC]ompileOnly|\w*[rR]untimeOnly|kapt|annotationProcessor)\b"
    r"[\s(]*['\"]([^'\":]+:[^'\":]+)",
    re.MULTILINE,
)
_REQUIREMENTS = re.compile(r"requirements[\w.-]*\.(?:txt|in)")


def is_manifest(path: str) -> bool:
    """May this file name dependencies?"""
    name = PurePosixPath(path).name
    return name in _READERS or _REQUIREMENTS.fullmatch(name) is not None


def dependencies(files: Mapping[str, bytes]) -> set[tuple[str, str]]:
    """(ecosystem, name) of each that these manifests name. `files`: contents by path."""
    found: set[tuple[str, str]] = set()
    for path, content in files.items():
        name = PurePosixPath(path).name
        ecosystem, read = _READERS.get(name, ("python", _requirements))
        try:
            found |= {(ecosystem, each) for each in read(content.decode("utf-8", "replace"))}
        except (ValueError, TypeError, AttributeError, RecursionError):
            continue
    return found


def _python(requirements: Iterable[Any]) -> set[str]:
    """Names of requirements (PEP 508), as the package index has them (PEP 503)."""
    matches = (_NAME.match(text) for text in requirements if isinstance(text, str))
    return {re.sub(r"[-_.]+", "-", match[1]).lower() for match in matches if match}


def _requirements(text: str) -> set[str]:
    return _python(line for line in text.splitlines() if not line.lstrip().startswith(("#", "-")))


def _pyproject(text: str) -> set[str]:
    data = tomllib.loads(text)
    project, poetry = data.get("project", {}), data.get("tool", {}).get("poetry", {})
    named = [*project.get("dependencies", ())]
    for group in (project.get("optional-dependencies", {}), data.get("dependency-groups", {})):
        named += [each for listed in group.values() for each in listed]
    named += [each for each in poetry.get("dependencies", {}) if each != "python"]
    named += [each for group in poetry.get("group", {}).values() for each in group.get("dependencies", {})]
    return _python(named)


def _package(text: str) -> set[str]:
    data = json.loads(text)
    keys = ("dependencies", "devDependencies", "peerDependencies", "optionalDependencies")
    return {name for key in keys for name in data.get(key) or {}}


def _cargo(text: str) -> set[str]:
    data = tomllib.loads(text)
    tables = [data, data.get("workspace", {}), *data.get("target", {}).values()]
    keys = ("dependencies", "dev-dependencies", "build-dependencies")
    return {name for table in tables for key in keys for name in table.get(key, {})}


def _go(text: str) -> set[str]:
    return set(_GO.findall(text))


def _maven(text: str) -> set[str]:
    return {f"{group.strip()}:{artifact.strip()}" for group, artifact in _MAVEN.findall(text)}


def _gradle(text: str) -> set[str]:
    return set(_GRADLE.findall(text))


_READERS = {
    "pyproject.toml": ("python", _pyproject),
    "package.json": ("npm", _package),
    "Cargo.toml": ("cargo", _cargo),
    "go.mod": ("go", _go),
    "pom.xml": ("maven", _maven),
    "build.gradle": ("maven", _gradle),
    "build.gradle.kts": ("maven", _gradle),
}
