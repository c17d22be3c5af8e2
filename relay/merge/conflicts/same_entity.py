"""Level 2: the two sides change one definition (003, section 6.3).

Invariant: pure, on three texts of one file. The same words after both changes are no conflict, whatever the way
there; comments, layout and docstrings change nothing. With the sides swapped the same conflicts are found.

The source's table (`assess_severity`), by what each side does to the definition:

| one side | the other | kind | severity |
|---|---|---|---|
| changes the body | changes the body | both_changed | high |
| changes the head | changes anything | signature_changed | critical |
| removes it | changes it, or adds to it | removed_and_changed | critical |
| renames or moves it | changes it, or names it otherwise | renamed_and_changed, renamed_twice | critical |
| adds it | adds another of its name | added_twice | medium |
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import Enum

from relay.merge.conflicts.conflict import Conflict, Severity, Side, quoted
from relay.merge.conflicts.entities import OVERLOADING, Entity, FileVersion, keyed, read_version

#: The share of its words by which a definition is known again under another name.
ALIKE = 0.8
#: Words that it must have for that: shorter ones are alike by chance.
ENOUGH = 8


class Change(Enum):
    """What a side does to a definition (`ChangeType` of the source)."""

    NONE = "does not change"
    ADD = "adds"
    BODY = "changes"
    SIGNATURE = "changes the head of"
    DELETE = "removes"
    RENAME = "renames"


@dataclass(frozen=True, slots=True)
class Changed:
    """A definition and what became of it on one side; `after` None: it is gone."""

    what: Change
    before: Entity | None
    after: Entity | None

    @property
    def side(self) -> Side:
        return Side(
            quoted(self.before.text) if self.before else None, quoted(self.after.text) if self.after else None
        )


def same_entity(path: str, base: bytes | None, ours: bytes | None, theirs: bytes | None) -> list[Conflict]:
    """The conflicts of level 2 between two versions of a file, in the order of the base. `path` tells the language;
    None: the file is not there. A file of no known language, or that does not parse in one of its versions, has
    none."""
    if ours == theirs or base in (ours, theirs):
        return []
    versions = [read_version(path, data) for data in (base, ours, theirs)]
    wanted = [data is not None for data in (base, ours, theirs)]
    if any(there and version is None for there, version in zip(wanted, versions, strict=True)):
        return []
    return list(_conflicts(path, *versions))


def _conflicts(
    path: str, base: FileVersion | None, ours: FileVersion | None, theirs: FileVersion | None
) -> Iterator[Conflict]:
    language = next(version.language for version in (base, ours, theirs) if version is not None)
    old, left, right = keyed(base, ours, theirs)
    changes_a, changes_b = changes(old, left), changes(old, right)
    told: set[str] = set()
    for key in [*old, *sorted((left.keys() | right.keys()) - old.keys())]:
        a, b = changes_a.get(key), changes_b.get(key)
        if a is not None and b is not None:
            found = _conflict(path, key, a, b, language)
        else:
            found = _scope_conflict(path, key, changes_a, changes_b, old)
        if found is None or any(found.entity and found.entity.startswith(f"{outer}.") for outer in told):
            continue
        told.add(found.entity or "")
        yield found


def changes(old: Mapping[str, Entity], new: Mapping[str, Entity]) -> dict[str, Changed]:
    """What one side did, by the key in the base, or in the new version of what is added."""
    gone = [entity for key, entity in old.items() if key not in new]
    come = [entity for key, entity in new.items() if key not in old]
    renamed = _renamed(gone, come)
    taken = {id(entity) for entity in renamed.values()}
    made: dict[str, Changed] = {}
    for entity in gone:
        after = renamed.get(entity.key)
        if after is None:
            made[entity.key] = Changed(Change.DELETE, entity, None)
        elif not _carried(entity, after, renamed):
            made[entity.key] = Changed(Change.RENAME, entity, after)
        elif (what := compared(entity, after)) is not Change.NONE:
            made[entity.key] = Changed(what, entity, after)
    for entity in come:
        if id(entity) not in taken:
            made[entity.key] = Changed(Change.ADD, None, entity)
    for key, entity in old.items():
        after = new.get(key)
        if after is not None and (what := compared(entity, after)) is not Change.NONE:
            made[key] = Changed(what, entity, after)
    return made


def compared(before: Entity, after: Entity) -> Change:
    """What changed in the words of a definition."""
    if before.raw == after.raw:
        return Change.NONE
    if before.head != after.head and before.signature != after.signature:
        return Change.SIGNATURE
    return Change.BODY if before.body != after.body else Change.NONE


def _renamed(gone: list[Entity], come: list[Entity]) -> dict[str, Entity]:
    """Which of the definitions that went is which of those that came, by the words of their bodies."""
    found: dict[str, Entity] = {}
    free = [entity for entity in come if entity.kind not in ("field", "item")]
    for entity in gone:
        if entity.kind in ("field", "item") or len(entity.whole) < ENOUGH:
            continue
        best, share = None, ALIKE
        for other in free:
            if other.kind != entity.kind and {other.kind, entity.kind} != {"function", "method"}:
                continue
            alike = _alike(entity.whole, other.whole, share)
            if alike > share or (best is None and alike >= share):
                best, share = other, alike
        if best is not None:
            found[entity.key] = best
            free.remove(best)
    return found


def _alike(one: tuple[bytes, ...], other: tuple[bytes, ...], least: float) -> float:
    if one == other:
        return 1.0
    short, long = sorted((len(one), len(other)))
    if 2 * short < least * (short + long):
        return 0.0
    matcher = SequenceMatcher(None, one, other, autojunk=False)
    return matcher.ratio() if matcher.quick_ratio() >= least else 0.0


def _carried(entity: Entity, after: Entity, renamed: Mapping[str, Entity]) -> bool:
    """Whether it has another name only because what it stands in has."""
    outer = renamed.get(entity.scope)
    return outer is not None and entity.name == after.name and after.scope == outer.qualified


def _conflict(path: str, key: str, a: Changed, b: Changed, language: str) -> Conflict | None:
    kinds = {a.what, b.what}
    if kinds == {Change.DELETE} or _same(a, b):
        return None
    if kinds == {Change.ADD}:
        assert a.after is not None and b.after is not None
        if (
            language in OVERLOADING
            and a.after.signature != b.after.signature
            and a.after.kind == b.after.kind
        ):
            return None
        return _made(path, "added_twice", Severity.MEDIUM, a, b)
    if Change.DELETE in kinds:
        return _made(path, "removed_and_changed", Severity.CRITICAL, a, b)
    if kinds == {Change.RENAME}:
        return _made(path, "renamed_twice", Severity.CRITICAL, a, b)
    if Change.RENAME in kinds:
        return _made(path, "renamed_and_changed", Severity.CRITICAL, a, b)
    if Change.SIGNATURE in kinds:
        return _made(path, "signature_changed", Severity.CRITICAL, a, b)
    return _made(path, "both_changed", Severity.HIGH, a, b)


def _same(a: Changed, b: Changed) -> bool:
    """Whether both sides ended with the same words under the same name."""
    if a.after is None or b.after is None:
        return a.after is b.after
    return (a.after.qualified, a.after.signature, a.after.body) == (
        b.after.qualified,
        b.after.signature,
        b.after.body,
    )


def _scope_conflict(
    path: str, key: str, a: Mapping[str, Changed], b: Mapping[str, Changed], old: Mapping[str, Entity]
) -> Conflict | None:
    """One side adds to what the other removes."""
    for mine, theirs, swapped in ((a, b, False), (b, a, True)):
        added = mine.get(key)
        if added is None or added.what is not Change.ADD or added.after is None:
            continue
        gone = theirs.get(added.after.scope)
        if gone is None or gone.what is not Change.DELETE or added.after.scope not in old:
            continue
        found = _made(path, "removed_and_changed", Severity.CRITICAL, added, gone)
        return found.swapped() if swapped else found
    return None


def _made(path: str, kind: str, severity: Severity, a: Changed, b: Changed) -> Conflict:
    entity = next(one for change in (a, b) for one in (change.before, change.after) if one is not None)
    gone = next((change.before for change in (a, b) if change.what is Change.DELETE), None)
    named = gone or entity
    said = (f"A {_said(a)}.", f"B {_said(b)}.")
    return Conflict(2, kind, severity, path, named.qualified, a.side, b.side, said)


def _said(change: Changed) -> str:
    entity = change.before or change.after
    assert entity is not None
    lines = f"lines {entity.start}-{entity.end}"
    if change.what is Change.RENAME and change.after is not None:
        return f"renames the {entity.kind} {entity.qualified} ({lines}) to {change.after.qualified}"
    return f"{change.what.value} the {entity.kind} {entity.qualified} ({lines})"
