"""JavaScript and TypeScript: relative files, `paths` of tsconfig, packages of the workspace (Node's resolution
algorithm and TypeScript's module resolution, "bundler").

A specifier with `.js` may mean the `.ts` it was made from; a target in `dist` may mean the source it was made
from, since what is built is not in the repository.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from relay.code.build.index import View, ancestors, join, nearest, parent
from relay.code.read.facts import Facts, Import

_SUFFIXES = (".ts", ".tsx", ".d.ts", ".js", ".jsx", ".mjs", ".cjs", ".mts", ".cts", ".d.mts", ".d.cts")
_MADE_FROM = {
    ".js": (".ts", ".tsx", ".d.ts", ".jsx"),
    ".jsx": (".tsx",),
    ".mjs": (".mts", ".d.mts"),
    ".cjs": (".cts", ".d.cts"),
}
#: Folders that builds write to, and where their source usually is.
_BUILT = ("dist", "lib", "build", "out", "es", "esm", "cjs")
_EXTENDS_AT_MOST = 8


def _candidates(base: str) -> Iterator[str]:
    yield base
    stem, dot, suffix = base.rpartition(".")
    for other in _MADE_FROM.get(dot + suffix, ()):
        yield stem + other
    for one in _SUFFIXES:
        yield base + one


def _file(base: str, view: View) -> str | None:
    """The file or folder at this path."""
    if base:
        found = view.first(_candidates(base))
        if found is not None:
            return found
        package = view.config(f"{base}/package.json")
        if package is not None:
            for entry in cast("list[str]", package.get("entries") or ()):
                at = join(base, entry)
                found = None if at is None or at == base else view.first(_candidates(at))
                if found is not None:
                    return found
    return view.first([f"{base}/index{one}" if base else f"index{one}" for one in _SUFFIXES])


def resolve(path: str, facts: Facts, one: Import, view: View) -> Iterable[str]:
    specifier = one.module.partition("?")[0].removeprefix("node:")
    if specifier in (".", "..") or specifier.startswith(("./", "../")):
        at = join(parent(path), specifier)
        found = None if at is None else _file(at, view)
    elif not specifier or specifier.startswith("/") or "://" in specifier:
        found = None
    elif specifier.startswith("#"):
        found = _inner(path, specifier, view) or _mapped(path, specifier, view)
    else:
        found = _mapped(path, specifier, view) or _package(path, specifier, view)
    return (found,) if found is not None and found.rpartition("/")[2] != "package.json" else ()


def _mapped(path: str, specifier: str, view: View) -> str | None:
    """By `paths` and `baseUrl` of the nearest tsconfig."""
    for folder in ancestors(parent(path)):
        for name in ("tsconfig.json", "jsconfig.json"):
            config = f"{folder}/{name}" if folder else name
            if view.config(config) is None:
                continue
            base, paths, paths_base = _options(config, view)
            for pattern, targets in _matching(paths, specifier):
                for target in targets:
                    at = join(paths_base, target.replace("*", pattern, 1))
                    found = None if at is None else _file(at, view)
                    if found is not None:
                        return found
            if base is not None:
                at = join(base, specifier)
                return None if at is None else _file(at, view)
            return None
    return None


def _options(config: str, view: View) -> tuple[str | None, Mapping[str, list[str]], str]:
    """(baseUrl's folder or None, paths, the folder that paths are relative to), with `extends` followed."""
    base: str | None = None
    paths: Mapping[str, list[str]] | None = None
    paths_base = parent(config)
    waiting, seen = [config], set[str]()
    while waiting and len(seen) < _EXTENDS_AT_MOST:
        at = waiting.pop(0)
        told = cast("Mapping[str, Any] | None", view.config(at))
        if told is None or at in seen:
            continue
        seen.add(at)
        folder = parent(at)
        if base is None and told.get("base") is not None:
            base = join(folder, told["base"])
        if paths is None and told.get("paths") is not None:
            paths = told["paths"]
            paths_base = folder if told.get("base") is None else (join(folder, told["base"]) or "")
        for one in reversed(told.get("extends") or ()):
            if one.startswith("."):
                above = join(folder, one)
                waiting += [] if above is None else [above if above.endswith(".json") else above + ".json"]
    return base, paths or {}, base if base is not None else paths_base


def _matching(paths: Mapping[str, list[str]], specifier: str) -> list[tuple[str, list[str]]]:
    """(what the star stands for, targets) of the patterns that match, the longest prefix first."""
    found = []
    for pattern, targets in paths.items():
        before, star, after = pattern.partition("*")
        if not star:
            if pattern == specifier:
                found.append((len(pattern) + 1, "", targets))
        elif (
            specifier.startswith(before) and specifier.endswith(after) and len(specifier) >= len(pattern) - 1
        ):
            found.append((len(before), specifier[len(before) : len(specifier) - len(after)], targets))
    found.sort(key=lambda one: -one[0])
    return [(held, targets) for _, held, targets in found]


def _inner(path: str, specifier: str, view: View) -> str | None:
    """`#x`: by "imports" of the nearest package.json."""
    for folder in ancestors(parent(path)):
        config = f"{folder}/package.json" if folder else "package.json"
        told = view.config(config)
        if told is not None:
            return _target(
                folder, cast("Mapping[str, list[str]]", told.get("imports") or {}), specifier, view
            )
    return None


def _package(path: str, specifier: str, view: View) -> str | None:
    """A package of this repository by its name."""
    parts = specifier.split("/")
    count = 2 if specifier.startswith("@") else 1
    name, rest = "/".join(parts[:count]), "/".join(parts[count:])
    owners = view.scope(f"npm:{name}").get("")
    if not owners:
        return None
    config = nearest(owners, path)
    folder = parent(config)
    told = cast("Mapping[str, Any]", view.config(config) or {})
    found = _target(folder, told.get("exports") or {}, f"./{rest}" if rest else ".", view)
    if found is not None:
        return found
    if rest:
        for base in (rest, f"src/{rest}"):
            found = _file(join(folder, base) or "", view)
            if found is not None:
                return found
        return None
    for entry in told.get("entries") or ():
        found = _built(folder, entry, view)
        if found is not None:
            return found
    return _file(join(folder, "src") or "", view) or _file(folder, view)


def _target(folder: str, targets: Mapping[str, list[str]], wanted: str, view: View) -> str | None:
    for held, files in _matching(targets, wanted):
        for file in files:
            found = _built(folder, file.replace("*", held), view)
            if found is not None:
                return found
    return None


def _built(folder: str, file: str, view: View) -> str | None:
    """A file of a package, or the source that it is built from."""
    at = join(folder, file)
    if at is None:
        return None
    found = view.first(_candidates(at))
    if found is not None:
        return found
    parts = (join("", file) or "").split("/")
    if parts[0] not in _BUILT or len(parts) < 2:
        return None
    inside = parts[1:]
    while inside:
        rest = "/".join(inside)
        for suffix in (".d.ts", ".d.mts", ".d.cts", ".mjs", ".cjs", ".js"):
            if rest.endswith(suffix):
                rest = rest.removesuffix(suffix)
                break
        for base in (f"src/{rest}", rest):
            found = _file(join(folder, base) or "", view)
            if found is not None:
                return found
        inside = inside[1:]  # dist/esm/x.js is built from src/x.ts
    return None
