"""What the documents name is there: files, headings, functions, modules, words."""

from __future__ import annotations

import ast
import importlib.util
import io
import re
import tokenize
from functools import cache
from pathlib import Path

import pytest

from relay.model.terms import glossary

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
#: What a build or a setup makes.
MADE = {"relay/faces/static/", "web/node_modules/"}
LINK = re.compile(r"\[([^\]]+)\]\(([^)\s]+)\)")
#: A path of this repository, in words or in code; not the end of another path (`.relay/x`, `~/relay/x`).
PATH = re.compile(r"(?<![\w./~%>*-])(?:relay|tests|scripts|web|docs|\.ci)/[\w./*-]*\w[/*]?")
MODULE = re.compile(r"-m ((?:relay|scripts)\.[\w.]*\w)")
#: The full name of a module, or of what one defines.
DOTTED = re.compile(r"(?<![\w./-])relay(?:\.\w+)+")
#: An agent's branch, a setting of PostgreSQL, files of relay's and of another program.
NOT_OURS = {"relay/claude", "relay.now", "relay.pid", "relay.log", "relay.json", "docs/tools/shell.md"}
BARE = re.compile(r"(?<!\[)`(\w+\.(?:py|ts|tsx|sql|sh))`")


def text_of(document: Path) -> str:
    return document.read_text("utf-8")


def anchors(document: Path) -> set[str]:
    """The anchors of a document's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ +(.*)$", text_of(document), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@cache
def definitions(file: Path) -> set[str]:
    """The names that a file defines: `name`, `Class.name`; in SQL those of its queries and functions."""
    text = file.read_text("utf-8")
    if file.suffix != ".py":
        return set(re.findall(r"\w+", text))
    names: set[str] = set()

    def add(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                names.add(prefix + node.name)
            elif isinstance(node, ast.ClassDef):
                names.add(prefix + node.name)
                add(node.body, f"{prefix}{node.name}.")
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                names.update(prefix + target.id for target in targets if isinstance(target, ast.Name))

    add(ast.parse(text).body, "")
    return names


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    wrong = []
    for text, target in LINK.findall(text_of(document)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (document.parent / path).resolve() if path else document
        if not file.exists() or not file.is_relative_to(ROOT):
            wrong.append(f"{target} is not there")
        elif anchor and anchor not in anchors(file):
            wrong.append(f"{target}: no such heading")
        elif (
            file.is_file()
            and re.fullmatch(r"`[\w.]+`", text)
            and file.suffix in (".py", ".sql", ".ts", ".tsx")
        ):
            name = text.strip("`")
            if name not in definitions(file) and name != file.name:
                wrong.append(f"{path} has no {name}")
    assert wrong == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_paths_and_modules_are_there(document: Path) -> None:
    text = text_of(document)
    paths = {path for path in PATH.findall(re.sub(r"https?://\S+", "", text)) if path not in MADE}
    assert {path for path in paths if not any(ROOT.glob(path.rstrip("/")))} == set()
    modules = set(MODULE.findall(text))
    assert {module for module in modules if importlib.util.find_spec(module) is None} == set()


def comments(file: Path) -> str:
    """The comments and docstrings of a module, the comments of a file of statements."""
    text = file.read_text("utf-8")
    if file.suffix != ".py":
        return "\n".join(re.findall(r"--.*", text))
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    found = [token.string for token in tokens if token.type == tokenize.COMMENT]
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, documented)]
    return "\n".join(found + [ast.get_docstring(node, clean=False) or "" for node in nodes])


def is_there(dotted: str) -> bool:
    """Is this a package, a module or what one defines?"""
    parts = dotted.split(".")
    for length in range(len(parts), 0, -1):
        place, rest = ROOT.joinpath(*parts[:length]), ".".join(parts[length:])
        if place.with_suffix(".py").is_file():
            return not rest or rest in definitions(place.with_suffix(".py"))
        if place.is_dir():
            return not rest or rest in (place / "__init__.py").read_text("utf-8")
    return False


def test_what_a_comment_names_is_there() -> None:
    """Other than in a migration, which never changes."""
    wrong = []
    for file in [*(ROOT / "relay").rglob("*.py"), *(ROOT / "relay").rglob("*.sql")]:
        if file.parent.name == "migrations":
            continue
        text = comments(file)
        names = [path for path in PATH.findall(text) if not any(ROOT.glob(path.rstrip("/")))]
        names += [name for name in DOTTED.findall(text) if not is_there(name)]
        wrong += [f"{file.relative_to(ROOT)}: {name}" for name in names if name not in NOT_OURS]
    assert wrong == []


def test_a_file_that_is_named_without_its_folder_is_the_only_one_of_its_name() -> None:
    files = [
        path.name for top in ("relay", "scripts", "tests", "web/src") for path in (ROOT / top).rglob("*.*")
    ]
    files += [path.name for path in ROOT.glob("*.sh")]
    named = {(document.name, name) for document in DOCUMENTS for name in BARE.findall(text_of(document))}
    assert {place for place in named if files.count(place[1]) != 1} == EXAMPLES


#: Files of somebody's codebase, in examples.
EXAMPLES = {("coordination.md", "app.py")}


@pytest.mark.parametrize("document", ["README.md", "docs/architecture.md"])
def test_the_tree_has_every_package(document: str) -> None:
    text = text_of(ROOT / document)
    packages = {path.parent.name for path in (ROOT / "relay").glob("*/__init__.py")} - {"demo"}  # a stub
    assert {name for name in packages if not re.search(rf"`?\b{name}/", text)} == set()


def test_the_floors_name_folders_that_are_there() -> None:
    for line in re.findall(r"^\| \d \|.*$", text_of(ROOT / "docs/architecture.md"), re.MULTILINE):
        _, _, packages, what, _ = line.split("|")
        for folder in re.findall(r"`(\w+)/`", what):
            assert any(
                (ROOT / "relay" / name / folder).is_dir() for name in re.findall(r"(\w+)/", packages)
            ), folder


def test_the_glossary_has_the_words_that_relay_explains_itself() -> None:
    """One source: `relay/model/terms.json`."""
    assert glossary() in text_of(ROOT / "docs/glossary.md")
