"""Rust: modules are files below their parent's (The Rust Reference, "Modules" and "Paths").

`mod x;` is x.rs or x/mod.rs, or what #[path] says. A `use` path is followed from its crate, from the module
(`self`, `super`), or from a crate of the workspace, as far as there are files: the rest are items in the last.
Re-exports are not followed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

from relay.code.build.index import View, ancestors, below, join, nearest, parent
from relay.code.read.facts import Facts, Import

_ROOTS = ("lib.rs", "main.rs", "mod.rs")
#: Folders of a package whose files are crates of their own (The Cargo Book, "Package Layout").
_TARGETS = ("tests", "examples", "benches", "src/bin")


def _package(path: str, view: View) -> str | None:
    """The folder of the Cargo.toml that the file belongs to."""
    for folder in ancestors(parent(path)):
        if view.config(below(folder, "Cargo.toml")) is not None:
            return folder
    return None


def _crate_root(path: str, view: View) -> str | None:
    """The root file of the crate that a file is in."""
    package = _package(path, view)
    if package is None:
        return None
    inside = path[len(package) + 1 if package else 0 :]
    if inside == "build.rs":
        return path
    for folder in _TARGETS:
        if inside.startswith(folder + "/"):
            first = inside[len(folder) + 1 :].partition("/")[0]
            base = below(package, f"{folder}/{first}")
            return path if first.endswith(".rs") else view.first((f"{base}/main.rs", f"{base}/mod.rs"))
    if inside == "src/main.rs":
        return path
    return _library(package, view) or view.first((below(package, "src/main.rs"),))


def _library(package: str, view: View) -> str | None:
    manifest = view.config(below(package, "Cargo.toml")) or {}
    named = join(package, cast(str, manifest.get("lib") or "")) if manifest.get("lib") else None
    return view.first(([named] if named else []) + [below(package, "src/lib.rs"), below(package, "lib.rs")])


def _children(path: str, root: str | None) -> str:
    """The folder where the modules of this file are."""
    folder, _, base = path.rpartition("/")
    if base in _ROOTS or path == root:
        return folder
    return below(folder, base.removesuffix(".rs"))


def _child(folder: str, name: str, view: View) -> str | None:
    name = name.removeprefix("r#")
    return view.first((below(folder, f"{name}.rs"), below(folder, f"{name}/mod.rs")))


def _parent_file(path: str, root: str | None, view: View) -> str | None:
    if path == root:
        return None
    folder, _, base = path.rpartition("/")
    if base in ("lib.rs", "main.rs") and root is None:
        return None
    if base == "mod.rs":
        folder = parent(folder)
    if root is not None and folder == _children(root, root):
        return root
    return view.first(
        (below(folder, "mod.rs"), f"{folder}.rs", *(below(folder, root_name) for root_name in _ROOTS[:2]))
    )


def _walk(start: str, folder: str, parts: list[str], root: str | None, view: View) -> tuple[str, list[str]]:
    """Follow module names from a file: (the last file, the names left)."""
    at = start
    while parts:
        child = _child(folder, parts[0], view)
        if child is None:
            break
        at, parts = child, parts[1:]
        folder = _children(at, root)
    return at, parts


def resolve(path: str, facts: Facts, imported: Import, view: View) -> Iterable[str]:
    root = _crate_root(path, view)
    target = (
        _module(path, imported, root, view)
        if imported.kind == "mod"
        else _use(path, facts, imported, root, view)
    )
    return () if target is None else (target,)


def _module(path: str, imported: Import, root: str | None, view: View) -> str | None:
    folder = _children(path, root)
    if imported.alias:  # relative to the file itself, or inside inline modules to their folder
        start = below(folder, "/".join(imported.scope)) if imported.scope else parent(path)
        at = join(start, imported.alias)
        return at if at is not None and view.has(at) else None
    for name in imported.scope:
        folder = below(folder, name)
    return _child(folder, imported.module, view)


def _use(path: str, facts: Facts, imported: Import, root: str | None, view: View) -> str | None:
    parts = [part for part in imported.module.removeprefix("::").split("::") if part]
    if not parts:
        return None
    if imported.names != ("*",) and len(parts) == 1 and parts[0] in ("crate", "self", "super"):
        return None
    if parts[0] in ("crate", "$crate"):
        return None if root is None else _walk(root, _children(root, root), parts[1:], root, view)[0]
    if parts[0] in ("self", "super"):
        return _relative(path, parts, len(imported.scope), root, view)
    return _crate(path, parts, view) or _local(path, parts, root, view)


def _relative(path: str, parts: list[str], depth: int, root: str | None, view: View) -> str | None:
    at: str | None = path
    while parts and parts[0] in ("self", "super"):
        if parts[0] == "super":
            if depth:
                depth -= 1  # out of an inline module, still in this file
            else:
                at = None if at is None else _parent_file(at, root, view)
        parts = parts[1:]
    if at is None:
        return None
    return _walk(at, _children(at, root), parts, root, view)[0]


def _crate(path: str, parts: list[str], view: View) -> str | None:
    name = parts[0]
    package = _package(path, view)
    if package is not None:
        manifest = view.config(below(package, "Cargo.toml")) or {}
        name = cast("Mapping[str, str]", manifest.get("renamed") or {}).get(name, name)
    owners = view.scope(f"crate:{name}").get("")
    if not owners:
        return None
    library = _library(parent(nearest(owners, path)), view)
    if library is None or library == path:
        return None
    return _walk(library, _children(library, library), parts[1:], library, view)[0]


def _local(path: str, parts: list[str], root: str | None, view: View) -> str | None:
    """`use a::b` of a module `a` of this file (2018's uniform paths)."""
    at, left = _walk(path, _children(path, root), parts, root, view)
    return None if left == parts else at
