"""Java: an import names a type by its package (The Java Language Specification, 7.5), whichever folder it is in.

Of types with the same name in several modules, the nearest to the importer. A wildcard, and the file's own
package, lead to the files that declare the types used.
"""

from __future__ import annotations

from collections.abc import Iterable

from relay.code.build.index import View, nearest
from relay.code.read.facts import Facts, Import


def _type(path: str, name: str, view: View) -> str | None:
    """The file of a fully qualified name: of the type, or of the one it is nested in or a member of."""
    while "." in name:
        package, _, last = name.rpartition(".")
        if last[:1].isupper() or "." not in package:
            files = view.scope(f"java:{package}").get(last)
            if files:
                return nearest(files, path)
        name = package
    return None


def resolve(path: str, facts: Facts, imported: Import, view: View) -> Iterable[str]:
    if "*" not in imported.names:
        target = _type(path, imported.module, view)
        return () if target is None else (target,)
    names = view.scope(f"java:{imported.module}")
    if names and imported.kind != "static":
        return [nearest(names[name], path) for name in sorted(facts.uses & names.keys())]
    target = _type(path, imported.module, view)  # the members of a type
    return () if target is None else (target,)


def neighbours(path: str, facts: Facts, view: View) -> Iterable[str]:
    names = view.scope(f"java:{facts.package}")
    imported = {statement.module.rpartition(".")[2] for statement in facts.imports}
    for name in (facts.uses & names.keys()) - imported:
        if path not in names[name]:
            yield nearest(names[name], path)
