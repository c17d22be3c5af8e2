"""Which tests a change touches most: `python -m scripts.quick` prints their files, the nearest first.

The change is what differs from the branch that this one is pushed to, uncommitted and new files included. Where
nothing differs, it is the last commit. A test file is as near as its shortest chain of imports to a changed module.
A test does not import what it starts as a process (tests/e2e, tests/browser and the like), so such a file comes only
when it was changed itself; the whole run has the rest. To a change of the page (web/), the page's tests in front of a
mock room are near; to one of relay's code or of a document, the tests of the layout and of the documents.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("relay", "tests", "scripts.bench")
#: They kill processes, measure, or share a browser: never by their imports alone.
SLOW = (
    "tests/e2e/",
    "tests/browser/",
    "tests/faults/",
    "tests/bench/",
    "tests/acceptance/",
    "tests/app/test_demo.py",
)
#: The page's tests that need no daemon.
PAGE = "tests/browser/mocked"
#: They read all of the code and of the documents, in seconds.
READERS = ("tests/test_docs.py", "tests/test_layout.py")
#: Imports between a changed module and a test of it; further away nearly every test is.
FAR = 3


def git(*words: str) -> list[str]:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.splitlines() if done.returncode == 0 else []


def changed() -> list[str]:
    """The paths of the change, from the repository's top."""
    base = git("merge-base", "HEAD", "@{upstream}") or git("merge-base", "HEAD", "origin/HEAD") or ["HEAD"]
    paths = git("diff", "--name-only", base[0]) + git("ls-files", "--others", "--exclude-standard")
    return paths or git("diff", "--name-only", "HEAD~1", "HEAD")


def modules_of(path: str, modules: Iterable[str]) -> list[str]:
    """The modules that a changed file is, or that read it: those of the package that has a statement or pattern."""
    name = path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
    if path.endswith((".sql", ".scm")):
        beside = ".".join(Path(path).parts[:-2])
        return [module for module in modules if module.startswith(f"{beside}.")]
    return [name] if path.endswith(".py") and name in modules else []


def distances(paths: Iterable[str], graph: grimp.ImportGraph) -> Mapping[str, int]:
    """Imports from each module down to the nearest changed one, at most FAR."""
    distance_of = {module: 0 for path in paths for module in modules_of(path, graph.modules)}
    edge = list(distance_of)
    for far in range(1, FAR + 1):
        above = {up for module in edge for up in graph.find_modules_that_directly_import(module)}
        # pytest gives these to every test below them.
        for folder in (name.removesuffix("conftest") for name in edge if name.endswith(".conftest")):
            above |= {name for name in graph.modules if name.startswith(folder)}
        edge = sorted(above - distance_of.keys())
        distance_of |= dict.fromkeys(edge, far)
    return distance_of


def nearest(paths: Sequence[str]) -> list[str]:
    """The test files, the nearest first; of the same distance in the order of their names."""
    sys.path.insert(0, str(ROOT))
    far = distances(paths, grimp.build_graph(*PACKAGES, cache_dir=None))
    files = {module.replace(".", "/") + ".py": at for module, at in far.items()}
    tests = [
        (at, path)
        for path, at in files.items()
        if path.startswith("tests/") and Path(path).name.startswith("test_")
        if at == 0 or not path.startswith(SLOW)
        if (ROOT / path).is_file()
    ]
    if any(path.startswith("web/") for path in paths):
        tests += [(1, str(path.relative_to(ROOT))) for path in (ROOT / PAGE).glob("test_*.py")]
    if any(path.startswith("relay/") or path.endswith(".md") for path in paths):
        tests += [(0, path) for path in READERS]
    return [path for _, path in sorted(set(tests))]


if __name__ == "__main__":
    print("\n".join(nearest(changed())))
