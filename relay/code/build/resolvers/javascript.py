"""JavaScript and TypeScript: relative files, `paths` of tsconfig, packages of the workspace (Node's resolution
algorithm and TypeScript's module resolution, "bundler").

A specifier with `.js` may mean the `.ts` it was made from; a target in `dist` may mean the source it was made
from, since what is built is not in the repository.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from relay.code.build.index import View, ancestors, below, join, nearest, parent
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
    for extension in _SUFFIXES:
        yield base + extension


def _file(base: str | None, view: View) -> str | None:
    """The file or folder at this path; None where there is none, or no path."""
    if base is None:
        return None
    if base:
        file = view.first(_candidates(base))
        if file is not None:
            return file
        package = view.config(f"{base}/package.json")
        if package is not None:
            for entry in cast("list[str]", package.get("entries") or ()):
                at = join(base, entry)
                file = None if at is None or at == base else view.first(_candidates(at))
                if file is not None:
                    return file
    return view.first([below(base, f"index{suffix}") for suffix in _SUFFIXES])


def _found(files: Iterable[str | None]) -> str | None:
    """The first file; the ones behind it are not looked for."""
    return next(filter(None, files), None)


def resolve(path: str, facts: Facts, imported: Import, view: View) -> Iterable[str]:
    specifier = imported.module.partition("?")[0].removeprefix("node:")
    if specifier in (".", "..") or specifier.startswith(("./", "../")):
        target = _file(join(parent(path), specifier), view)
    elif not specifier or specifier.startswith("/") or "://" in specifier:
        target = None
    elif specifier.startswith("#"):
        target = _inner(path, specifier, view) or _mapped(path, specifier, view)
    else:
        target = _mapped(path, specifier, view) or _package(path, specifier, view)
    return (target,) if target is not None and target.rpartition("/")[2] != "package.json" else ()


def _mapped(path: str, specifier: str, view: View) -> str | None:
    """By `paths` and `baseUrl` of the nearest tsconfig."""
    for folder in ancestors(parent(path)):
        for name in ("tsconfig.json", "jsconfig.json"):
            config = below(folder, name)
            if view.config(config) is None:
                continue
            base, paths, paths_base = _options(config, view)
            mapped = _found(
                _file(join(paths_base, target.replace("*", star, 1)), view)
                for star, targets in _matching(paths, specifier)
                for target in targets
            )
            return mapped or (None if base is None else _file(join(base, specifier), view))
    return None


def _options(config: str, view: View) -> tuple[str | None, Mapping[str, list[str]], str]:
    """(baseUrl's folder or None, paths, the folder that paths are relative to), with `extends` followed."""
    base: str | None = None
    paths: Mapping[str, list[str]] | None = None
    paths_base = parent(config)
    waiting, seen = [config], set[str]()
    while waiting and len(seen) < _EXTENDS_AT_MOST:
        at = waiting.pop(0)
        settings = cast("Mapping[str, Any] | None", view.config(at))
        if settings is None or at in seen:
            continue
        seen.add(at)
        folder = parent(at)
        if base is None and settings.get("base") is not None:
            base = join(folder, settings["base"])
        if paths is None and settings.get("paths") is not None:
            paths = settings["paths"]
            paths_base = folder if settings.get("base") is None else (join(folder, settings["base"]) or "")
        for extended in reversed(settings.get("extends") or ()):
            if extended.startswith("."):
                above = join(folder, extended)
                waiting += [] if above is None else [above if above.endswith(".json") else above + ".json"]
    return base, paths or {}, base if base is not None else paths_base


def _matching(paths: Mapping[str, list[str]], specifier: str) -> list[tuple[str, list[str]]]:
    """(what the star stands for, targets) of the patterns that match, the longest prefix first."""
    matches = []
    for pattern, targets in paths.items():
        before, star, after = pattern.partition("*")
        if not star:
            if pattern == specifier:
                matches.append((len(pattern) + 1, "", targets))
        elif (
            specifier.startswith(before) and specifier.endswith(after) and len(specifier) >= len(pattern) - 1
        ):
            matches.append((len(before), specifier[len(before) : len(specifier) - len(after)], targets))
    matches.sort(key=lambda match: -match[0])
    return [(star, targets) for _, star, targets in matches]


def _inner(path: str, specifier: str, view: View) -> str | None:
    """`#x`: by "imports" of the nearest package.json."""
    for folder in ancestors(parent(path)):
        manifest = cast("Mapping[str, Any] | None", view.config(below(folder, "package.json")))
        if manifest is not None:
            return _target(folder, manifest.get("imports") or {}, specifier, view)
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
    manifest = cast("Mapping[str, Any]", view.config(config) or {})
    file = _target(folder, manifest.get("exports") or {}, f"./{rest}" if rest else ".", view)
    if file is not None:
        return file
    if rest:
        return _file(join(folder, rest) or "", view) or _file(join(folder, f"src/{rest}") or "", view)
    built = _found(_built(folder, entry, view) for entry in manifest.get("entries") or ())
    return built or _file(join(folder, "src") or "", view) or _file(folder, view)


def _target(folder: str, targets: Mapping[str, list[str]], wanted: str, view: View) -> str | None:
    return _found(
        _built(folder, file.replace("*", star), view)
        for star, files in _matching(targets, wanted)
        for file in files
    )


def _built(folder: str, file: str, view: View) -> str | None:
    """A file of a package, or the source that it is built from."""
    at = join(folder, file)
    if at is None:
        return None
    candidate = view.first(_candidates(at))
    if candidate is not None:
        return candidate
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
        source = _file(join(folder, f"src/{rest}") or "", view) or _file(join(folder, rest) or "", view)
        if source is not None:
            return source
        inside = inside[1:]  # dist/esm/x.js is built from src/x.ts
    return None
