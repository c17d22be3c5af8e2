"""Go: an import names a package, which is a folder (The Go Modules Reference, "Module path").

The edge goes to the files of the package that define the names used; a blank or a dot import, or one of which no
used name is known, goes to all its files but the tests. A file needs no import for its own package: there the
edge goes to the file that defines a name which is used and not declared locally.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

from relay.code.build.index import View, ancestors, below, join, nearest, parent
from relay.code.read.facts import Facts, Import


def _folder(path: str, module: str, view: View) -> str | None:
    """The folder of an import path: by the longest module path that it begins with."""
    prefix = module
    while prefix:
        owners = view.scope(f"gomod:{prefix}").get("")
        if owners:
            return join(parent(nearest(owners, path)), module[len(prefix) :])
        prefix = prefix.rpartition("/")[0]
    return _replaced(path, module, view)


def _replaced(path: str, module: str, view: View) -> str | None:
    """By a `replace x => ../y` of the importer's own go.mod."""
    for folder in ancestors(parent(path)):
        module_config = view.config(below(folder, "go.mod"))
        if module_config is None:
            continue
        for old, new in cast("Mapping[str, str]", module_config.get("replace") or {}).items():
            if module == old or module.startswith(old + "/"):
                at = join(folder, new)
                return None if at is None else join(at, module[len(old) :])
        return None
    return None


def resolve(path: str, facts: Facts, imported: Import, view: View) -> Iterable[str]:
    folder = _folder(path, imported.module, view)
    if folder is None:
        return ()
    packages = {
        name: [file for file in files if not file.endswith("_test.go")]
        for name, files in view.scope(f"gopkg:{folder}").items()
        if name != "main" or imported.alias == "_"
    }
    targets: set[str] = set()
    for package, files in sorted(packages.items()):
        if not files:
            continue
        names = view.scope(f"go:{folder}:{package}")
        called = imported.alias or package
        prefix = called + "."
        used = (
            facts.uses
            if called == "."
            else {word[len(prefix) :] for word in facts.selected if word.startswith(prefix)}
        )
        hit = {file for name in used for file in names.get(name, ()) if not file.endswith("_test.go")}
        targets |= hit or (set(files) if called in ("_", ".") or not used or len(packages) == 1 else set())
    return targets


def neighbours(path: str, facts: Facts, view: View) -> Iterable[str]:
    names = view.scope(f"go:{parent(path)}:{facts.package}")
    test = path.endswith("_test.go")
    for name in facts.uses & names.keys():
        files = names[name]
        # Several files define it for several systems (build tags): which of them is not known here.
        if len(files) == 1 and path not in files:
            yield from (file for file in files if test or not file.endswith("_test.go"))
