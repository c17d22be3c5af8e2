"""Python: modules and packages (the language reference, "The import system").

An absolute name is looked for under the roots that hold its first part: a root is a folder without __init__.py
that holds the package or module. A module beats a stub. `from p import x` is the submodule p.x where there is
one, else the package's file, which also stands for what its __init__ re-exports.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

from relay.code.build.index import View, below, join, parent, shared_depth
from relay.code.read.facts import Facts, Import

#: Folders that hold sources and are no package of their own, wherever they stand.
SOURCES = frozenset({"src", "lib", "python", "source"})


def _module(base: str, view: View) -> str | None:
    """The file of the module or package at this path without suffix."""
    return view.first((base + "/__init__.py", base + ".py", base + "/__init__.pyi", base + ".pyi"))


def _package_root(path: str, view: View) -> str:
    """The folder that the importer's own topmost package stands in."""
    folder = parent(path)
    while folder and (view.has(folder + "/__init__.py") or view.has(folder + "/__init__.pyi")):
        folder = parent(folder)
    return folder


def _roots(path: str, name: str, view: View) -> list[str]:
    """Folders where an absolute import of `name` may start, the likeliest first."""
    own = _package_root(path, view)
    marked = view.scope("pyroots")
    roots = set()
    for root in view.scope(f"py:{name}"):
        if view.has(below(root, "__init__.py")):
            continue
        package = view.first((below(root, name) + "/__init__.py", below(root, name) + "/__init__.pyi"))
        # A loose module is found only from beside it, from a root, or from a folder of sources: its name may be
        # that of any script.
        if package or root == own or root in marked or not root or root.rpartition("/")[2] in SOURCES:
            roots.add(root)
    for root in (own, *marked, *(f"{folder}/src" if folder else "src" for folder in (*marked, ""))):
        if view.has_folder(below(root, name)):
            roots.add(root)
    if name in sys.stdlib_module_names:
        roots &= {own} if view.has(below(own, name) + "/__init__.py") and own != parent(path) else set()
    beside = f"{path}/"
    return sorted(
        roots, key=lambda root: (root != own, -shared_depth(f"{root}/", beside), root.count("/"), root)
    )


def _absolute(path: str, module: str, view: View) -> list[str]:
    """Where the module may be, as paths without suffix, the likeliest first."""
    first, _, rest = module.partition(".")
    names = "/".join([first, *rest.split(".")] if rest else [first])
    return [below(root, names) for root in _roots(path, first, view)]


def resolve(path: str, facts: Facts, imported: Import, view: View) -> Iterable[str]:
    module = imported.module
    dots = len(module) - len(module.lstrip("."))
    if dots:
        base = join(parent(path), "../" * (dots - 1) + module[dots:].replace(".", "/"))
        bases = [] if base is None else [base]
    else:
        bases = _absolute(path, module, view)
    for base in bases:
        targets = _taken(base, imported, view)
        if targets:
            return targets
    return ()


def _taken(base: str, imported: Import, view: View) -> list[str]:
    itself = _module(base, view) if base else view.first(("__init__.py", "__init__.pyi"))
    if imported.kind != "from":
        return [itself] if itself else []
    if itself is not None and not itself.rpartition("/")[2].startswith("__init__."):
        return [itself]  # a module has no submodules
    submodules = []
    of_itself = itself is not None and not imported.names
    for name in imported.names:
        submodule = None if name == "*" else _module(below(base, name), view)
        if submodule is not None:
            submodules.append(submodule)
        else:
            of_itself = True
    return [*submodules, itself] if of_itself and itself is not None else submodules
