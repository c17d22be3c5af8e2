"""The benchmark that runs a repository's own tests on what relay merges: what counts, and what is named."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: Passes while `a` and `b` of the module do not both stand above one.
TESTS = "import values\nassert not (values.a > 1 and values.b > 1)\n"


def test_a_merge_counts_where_the_tests_pass_on_both_sides(tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    clone.mkdir()

    def git(*words: str, ok: tuple[int, ...] = (0,)) -> str:
        who = ("-c", "user.name=t", "-c", "user.email=t@t")
        done = subprocess.run(["git", "-C", str(clone), *who, *words], capture_output=True, check=False)
        assert done.returncode in ok, done.stderr
        return done.stdout.decode().strip()

    def merge(base: str, ours: str, theirs: str) -> str:
        """A merge in which git conflicts; its commit."""
        for branch, text in (("main", base), ("other", theirs), ("main", ours)):
            git("checkout", "-q", *(["-B", branch] if branch == "other" else [branch]))
            (clone / "values.py").write_text(text)
            git("commit", "-q", "--allow-empty", "-am", "a step")
        git("merge", "-q", "--no-commit", "other", ok=(1,))
        (clone / "values.py").write_text(ours)
        git("commit", "-qam", "the merge")
        return git("rev-parse", "HEAD")

    git("init", "-q", "-b", "main")
    (clone / "values.py").write_text("")
    (clone / "check.py").write_text(TESTS)
    git("add", ".")
    git("commit", "-qm", "start")
    merge("a = 1\nb = 1\n", "a = 0\nb = 1\n", "a = 1\nb = 0\n")
    broken = merge("a = 1\nb = 1\n", "a = 2\nb = 1\n", "a = 1\nb = 2\n")
    merge("a = 1\nb = 1\n", "a = 0\nb = 1\n", "a = 3\nb = 1\n")
    merge("a = 1\nb = 1\n", "a = 2\nb = 2\n", "a = 1\nb = 1\nc = 1\n")
    words = [sys.executable, "-m", "scripts.bench.merge_tests", str(clone), "--", sys.executable, "check.py"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    figures = {figure["name"]: figure for figure in json.loads(done.stdout)["figures"]}
    joined = figures["tests pass, merged by relay, where git conflicts"]
    assert (joined["n"], joined["value"]) == (2, 0.5), done.stderr
    assert broken[:10] in joined["note"]
    assert figures["left in conflict"]["value"] == 1
    assert figures["tests fail on a side"]["value"] == 1
    assert not joined["targets"]["value"]["met"], "a tree that fails is a missed figure"
