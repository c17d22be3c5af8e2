"""Level 3: what one side changes and the other comes to rely on, on small programs in seven languages."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from relay.merge.conflicts.across_files import AcrossFiles
from relay.merge.conflicts.conflict import Conflict
from relay.merge.conflicts.side import FileChange, SideWork
from scripts.bench.merge_levels import programs
from scripts.fixtures.merge_programs.program import Program

PROGRAMS = {program.name: program for program in programs()}


def side(base: Mapping[str, str], files: Mapping[str, str]) -> SideWork:
    changed = [path for path in sorted({*base, *files}) if base.get(path) != files.get(path)]
    texts = [(path, base.get(path), files.get(path)) for path in changed]
    return SideWork(
        FileChange(path, path, before and before.encode(), after and after.encode())
        for path, before, after in texts
    )


def found(base: Mapping[str, str], ours: Mapping[str, str], theirs: Mapping[str, str]) -> list[Conflict]:
    """The conflicts, after checking that the sides can be swapped."""
    both = []
    for one, other in ((ours, theirs), (theirs, ours)):
        search = AcrossFiles(side(base, one), side(base, other))
        search.add({path: text.encode() for path, text in base.items() if path in ("Cargo.toml", "go.mod")})
        while names := search.names():
            search.add(
                {path: text.encode() for path, text in base.items() if any(name in text for name in names)}
            )
        while headers := search.headers():
            search.add(
                {path: text.encode() for path, text in base.items() if path.rpartition("/")[2] in headers}
            )
        both.append(search.conflicts())
    conflicts, mirrored = both
    assert {(one.id, one.severity, one.a.after) for one in conflicts} == {
        (one.id, one.severity, one.b.after) for one in mirrored
    }
    return conflicts


def of_edits(program: Program, one: str, other: str) -> list[Conflict]:
    edits = {edit.name: edit for edit in program.edits}
    return found(program.files, edits[one].applied(program.files), edits[other].applied(program.files))


@pytest.mark.parametrize(
    ("program", "one", "other", "kind", "severity", "entity", "reader"),
    [
        ("billing", "asks for a rate", "sums two baskets", "signature_and_call", "critical", "total", "both"),
        (
            "billing",
            "renames rounded",
            "rounds a basket",
            "renamed_and_used",
            "critical",
            "rounded",
            "whole_units",
        ),
        ("billing", "counts in cents", "sums two baskets", "behaviour_and_call", "medium", "total", "both"),
        (
            "fleet",
            "asks for a factor",
            "measures a round",
            "signature_and_call",
            "critical",
            "distance",
            "round_trip",
        ),
        ("fleet", "renames label", "makes a headline", "renamed_and_used", "critical", "label", "headline"),
        ("fleet", "removes label", "makes a headline", "removed_and_used", "critical", "label", "headline"),
        (
            "fleet",
            "renames size",
            "knows whether it is empty",
            "renamed_and_used",
            "critical",
            "Depot.size",
            "is_empty",
        ),
        (
            "fleet",
            "asks the cost for a load",
            "adds a bike",
            "signature_and_override",
            "critical",
            "Vehicle.cost",
            "Bike",
        ),
        (
            "fleet",
            "makes a vehicle say its wheels",
            "adds a bike",
            "not_implemented",
            "critical",
            "Vehicle.wheels",
            "Bike",
        ),
        (
            "fleet",
            "counts in metres",
            "measures a round",
            "behaviour_and_call",
            "medium",
            "distance",
            "round_trip",
        ),
        ("fleet", "drives faster", "knows the limit", "value_and_use", "medium", "units.SPEED", "limit"),
        (
            "fleet",
            "names the kinds otherwise",
            "knows a van",
            "removed_and_used",
            "critical",
            "units.Kind.Van",
            "is_small",
        ),
        (
            "billing",
            "sorts the names",
            "names the newest",
            "behaviour_and_call",
            "medium",
            "Store.names",
            "newest",
        ),
        (
            "billing",
            "puts the currency first",
            "makes a title",
            "behaviour_and_call",
            "low",
            "label",
            "title",
        ),
        (
            "billing",
            "gives more discount",
            "says what was saved",
            "value_and_use",
            "medium",
            "DISCOUNT",
            "saved",
        ),
        ("billing", "gives more discount", "makes a title", "value_and_use", "low", "DISCOUNT", "title"),
        (
            "billing",
            "moves dumped, with its import",
            "reads a basket",
            "import_removed_and_used",
            "critical",
            "json",
            "",
        ),
        (
            "jobs",
            "asks for the first wait",
            "waits twice",
            "signature_and_call",
            "critical",
            "backoff",
            "twice",
        ),
        (
            "jobs",
            "waits in milliseconds",
            "knows the longest wait",
            "behaviour_and_call",
            "low",
            "backoff",
            "longest",
        ),
        (
            "jobs",
            "takes the last first",
            "drains a queue",
            "behaviour_and_call",
            "medium",
            "Queue.next",
            "drain",
        ),
        (
            "words",
            "asks how many",
            "counts two texts",
            "signature_and_call",
            "critical",
            "count_words",
            "two",
        ),
        (
            "words",
            "names the end",
            "measures the longest",
            "removed_and_used",
            "critical",
            "span.length",
            "long_word",
        ),
        ("shapes", "asks for a unit", "doubles", "signature_and_call", "critical", "scale", "double"),
        (
            "shapes",
            "wants a perimeter",
            "adds a disc",
            "not_implemented",
            "critical",
            "Shape.perimeter",
            "Disc",
        ),
        (
            "shapes",
            "asks for a side",
            "makes a square",
            "signature_and_call",
            "critical",
            "Box.constructor",
            "square",
        ),
        (
            "bank",
            "wants a limit",
            "opens an account",
            "not_implemented",
            "critical",
            "Account.limit",
            "opened",
        ),
        (
            "bank",
            "knows transfers",
            "names an entry",
            "not_implemented",
            "critical",
            "Entry.Transfer",
            "named",
        ),
        ("bank", "wants an owner", "keeps a safe", "not_implemented", "critical", "Ledger.owner", "Safe"),
        (
            "stock",
            "asks for a count",
            "fills a stock",
            "signature_and_call",
            "critical",
            "Stock.add",
            "Filler.fill",
        ),
        ("stock", "wants a price", "adds a nut", "not_implemented", "critical", "Part.price", "Nut"),
    ],
)
def test_what_breaks_together(
    program: str, one: str, other: str, kind: str, severity: str, entity: str, reader: str
) -> None:
    conflicts = {conflict.entity: conflict for conflict in of_edits(PROGRAMS[program], one, other)}
    conflict = conflicts[entity]
    assert (conflict.level, conflict.kind, str(conflict.severity)) == (3, kind, severity)
    # Both definitions are named, each with its place.
    assert entity in conflict.evidence[0] and (conflict.path or "?") in conflict.evidence[0]
    assert reader in conflict.evidence[1] and conflict.evidence[1].startswith("B ")


@pytest.mark.parametrize(
    ("program", "one", "other"),
    [
        ("billing", "may be given a rate", "sums two baskets"),
        ("billing", "sums in one line", "knows a store's sums"),
        ("billing", "tells what it sums", "sums two baskets"),
        ("billing", "says it in the docs", "sums two baskets"),
        ("billing", "asks for a rate", "makes a slug"),
        ("billing", "clears a store", "names the newest"),
        ("jobs", "may be given a factor", "waits twice"),
        ("jobs", "raises to a power", "waits twice"),
        ("shapes", "may be given a unit", "doubles"),
        ("words", "renames is_break", "counts two texts"),
        ("bank", "takes the larger", "charges twice"),
        ("stock", "streams", "weighs all"),
        ("fleet", "may be given a factor", "measures a round"),
        ("fleet", "gives a stop a third place", "measures a round"),
        ("fleet", "takes the smallest", "knows whether it is empty"),
        ("fleet", "says what it counts", "knows whether it is empty"),
        ("fleet", "renames label", "greets"),
    ],
)
def test_what_works_together(program: str, one: str, other: str) -> None:
    assert of_edits(PROGRAMS[program], one, other) == []


GO = {
    "go.mod": "module example.org/a\n\ngo 1.22\n",
    "a.go": "package a\n\nfunc parse(s string) int {\n\treturn len(s)\n}\n",
}


def test_a_package_has_a_name_once() -> None:
    ours = {**GO, "b.go": "package a\n\nfunc help() int {\n\treturn 1\n}\n"}
    (twice,) = found(GO, ours, {**GO, "c.go": "package a\n\nfunc help() int {\n\treturn 2\n}\n"})
    assert (twice.kind, twice.path, twice.entity) == ("added_twice", "b.go", "help")
    assert found(GO, ours, {**GO, "x/c.go": "package x\n\nfunc help() int {\n\treturn 2\n}\n"}) == []


def test_an_override_of_what_was_changed() -> None:
    base = {"shop.py": "class Base:\n    def price(self, count):\n        return count\n"}
    ours = {"shop.py": base["shop.py"].replace("count)", "count, rate)")}
    sub = "from shop import Base\n\n\nclass Sale(Base):\n    def price(self, count):\n        return count / 2\n"
    (override,) = found(base, ours, {**base, "sale.py": sub})
    assert (override.kind, override.entity) == ("signature_and_override", "Base.price")
    assert "Sale.price" in override.evidence[1]
    assert found(base, ours, {**base, "sale.py": sub.replace("(Base)", "")}) == []


def test_a_file_that_is_gone() -> None:
    base = {"one.py": "def one():\n    return 1\n", "two.py": "from one import one\n\nprint(one())\n"}
    gone = {"two.py": "print(1)\n"}
    new = {**base, "three.py": "import one\n\n\ndef three():\n    return one.one() + 2\n"}
    kinds = {(conflict.kind, conflict.entity) for conflict in found(base, gone, new)}
    assert kinds == {("removed_and_used", "one"), ("removed_and_used", "one.py")}


def test_with_calls_without_naming_it() -> None:
    text = (
        "class Pool:\n    def __enter__(self):\n        return self\n\n"
        "    def __exit__(self, *error):\n        self.close()\n\n"
        "    def close(self):\n        self.open = False\n\n\ndef make_pool():\n    return Pool()\n"
    )
    base = {"pool.py": text, "use.py": "from pool import make_pool\n\n\ndef use():\n    return make_pool()\n"}
    ours = {**base, "pool.py": text.replace("self.open = False", "self.open = None")}
    theirs = {
        **base,
        "use.py": base["use.py"].replace(
            "return make_pool()", "with make_pool() as made:\n        return made"
        ),
    }
    (conflict,) = found(base, ours, theirs)
    assert (conflict.entity, str(conflict.severity)) == ("Pool.close", "low")
    assert "use calls Pool.__exit__, Pool.__exit__ calls Pool.close" in conflict.evidence[1]
