"""What the benchmark of merges takes from a clone, and that it counts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.bench.merge_corpus import cases

ROOT = Path(__file__).parents[2]


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Three merges: people joined one conflict, took a side in the next, and git merged the last."""

    def git(*words: str, ok: tuple[int, ...] = (0,)) -> None:
        who = ("-c", "user.name=t", "-c", "user.email=t@t")
        done = subprocess.run(["git", "-C", str(tmp_path), *who, *words], capture_output=True, check=False)
        assert done.returncode in ok, done.stderr

    def step(text: str) -> None:
        (tmp_path / "a.py").write_text(text)
        git("commit", "-q", "--allow-empty", "-am", "a step")

    git("init", "-q", "-b", "main")
    (tmp_path / "a.py").write_text("")
    git("add", "a.py")
    far = "\n" * 20 + "z = {}\n"
    for base, ours, theirs, people in (
        ("a = 1\nb = 1\n", "a = 2\nb = 1\n", "a = 1\nb = 2\n", "a = 2\nb = 2\n"),
        ("a = 1\n", "a = 2\n", "a = 3\n", "a = 3\n"),
        (
            "a = 1\n" + far.format(1),
            "a = 2\n" + far.format(1),
            "a = 1\n" + far.format(2),
            "a = 2\n" + far.format(2),
        ),
    ):
        step(base)
        git("checkout", "-q", "-B", "other")
        step(theirs)
        git("checkout", "-q", "main")
        step(ours)
        git("merge", "-q", "--no-commit", "other", ok=(0, 1))
        step(people)
    return tmp_path


def test_cases_of_a_clone(clone: Path) -> None:
    found = list(cases(clone, 10, 10))
    told = sorted((case.conflicts, case.of_a_side, case.people) for case in found)
    assert told == [
        (False, False, "a = 2\n" + "\n" * 20 + "z = 2\n"),
        (True, False, "a = 2\nb = 2\n"),
        (True, True, "a = 3\n"),
    ]
    assert len(list(cases(clone, 1, 0))) == 1


def test_the_benchmark_counts(clone: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "scripts.bench.merge", "--quick", "--sides", str(clone)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    figures = {figure["name"]: figure for figure in json.loads(done.stdout)["figures"]}
    told = {
        name: figures[name]["value"]
        for name in ("resolved", "as people, of the resolved", "faulty by the guard")
    }
    assert told == {"resolved": 0.5, "as people, of the resolved": 1.0, "faulty by the guard": 0}
    assert figures["git's clean merges, as git"]["value"] == 1.0
