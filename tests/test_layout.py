"""The layout of `relay/`: imports go down only, nothing goes in a circle, folders and files stay small."""

from __future__ import annotations

import ast
import graphlib
import re
from collections import defaultdict
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[1]
CODE = ROOT / "relay"
#: The floors from the top down. A package imports of lower floors only; `|` means that neither imports the other.
FLOORS = (
    "cli | guard_cli | demo",
    "app",
    "faces",
    "access | room | agents | airspace | coordination | memory | timeline | merge | verification | fleet",
    "code | checks",
    "git",
    "log",
    "store",
    "model",
    "config",
    "base",
)
#: `relay guard` is one of cli's commands, and its file starts alone as well.
ALLOWED = {("relay.cli", "relay.guard_cli")}
MODULES_IN_A_FOLDER = 15
LINES_IN_A_FILE = 450
#: Longer files, with what they may have at most. This list may only get shorter, and its figures smaller.
LONGER: dict[str, int] = {}


def imports() -> list[tuple[str, str]]:
    """Who imports whom, lazy imports and those for type checkers among them."""
    graph = grimp.build_graph("relay", cache_dir=None)
    return sorted(
        (importer, imported)
        for importer in graph.modules
        for imported in graph.find_modules_directly_imported_by(importer)
    )


IMPORTS = imports()


def package(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def test_every_package_has_a_floor() -> None:
    placed = {name for floor in FLOORS for name in floor.split(" | ")}
    there = {path.stem for path in CODE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert there - {"__init__"} == placed


def test_imports_go_down_only() -> None:
    floor = {name: at for at, names in enumerate(FLOORS) for name in names.split(" | ")}
    upwards = [
        (importer, imported)
        for importer, imported in IMPORTS
        if "." in imported
        and package(importer) != package(imported)
        and floor[package(importer)] >= floor[package(imported)]
    ]
    assert set(upwards) - ALLOWED == set()


def test_nothing_is_imported_in_a_circle() -> None:
    """Neither modules nor folders: within each folder, its modules and subfolders have an order."""
    needs: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for importer, imported in IMPORTS:
        ours, theirs = importer.split("."), imported.split(".")
        same = next((at for at, pair in enumerate(zip(ours, theirs, strict=False)) if len({*pair}) > 1), None)
        if same is not None:
            needs[".".join(ours[:same])][ours[same]].add(theirs[same])
    for folder, graph in needs.items():
        try:
            graphlib.TopologicalSorter(graph).prepare()
        except graphlib.CycleError as error:
            pytest.fail(f"in {folder}: {' <- '.join(error.args[1])}")


def test_a_folder_holds_few_modules() -> None:
    count = {
        str(folder.relative_to(ROOT)): len(
            [path for path in folder.glob("*.py") if path.name != "__init__.py"]
        )
        for folder in (CODE, *CODE.rglob("*"))
        if folder.is_dir()
    }
    assert {folder: n for folder, n in count.items() if n > MODULES_IN_A_FOLDER} == {}


def test_a_file_is_short() -> None:
    lines = {
        str(path.relative_to(CODE)): len(path.read_text("utf-8").splitlines())
        for path in CODE.rglob("*.py")
        if "static" not in path.parts
    }
    longer = {path: n for path, n in lines.items() if n > LONGER.get(path, LINES_IN_A_FILE)}
    assert longer == {}, "split it where two things live in one"
    shrunk = {
        path: (n, lines.get(path)) for path, n in LONGER.items() if lines.get(path, 0) <= LINES_IN_A_FILE
    }
    assert shrunk == {}, "take it off the list"


#: Words of our own for which the field has one. They come back in no name.
PRIVATE_WORDS = {
    *(
        "berth",
        "door",
        "doors",
        "doorway",
        "fanout",
        "ground",
        "grounds",
        "hangar",
        "house",
        "lookout",
        "seat",
        "seats",
        "shortcuts",
    ),
    *("sighting", "sightings", "sky", "tower", "voices"),
}


def test_no_name_has_a_private_word() -> None:
    names: dict[str, set[str]] = defaultdict(set)
    for path in CODE.rglob("*.py"):
        if "static" in path.parts:
            continue
        relative = path.relative_to(CODE)
        found = {*relative.with_suffix("").parts}
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            match node:
                case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                    found.add(name)
                case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    found.add(name)
        for name in found:
            words = {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}
            for word in words & PRIVATE_WORDS:
                names[word].add(f"{relative}: {name}")
    assert names == {}
