"""The demo's edits fit its codebase, and collide as the story wants it: in a real repository, by real merges."""

from __future__ import annotations

import argparse
import io
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from relay.agents.scripted.script import Rule, load_script
from relay.app.demo import land_scene, story
from relay.app.demo.narrator import Narrator, console_of
from relay.app.demo.rewind_scene import REWIND
from relay.app.demo.rewind_story import TESTS
from relay.app.demo.scene import AGENTS, FILES, JOBS, Edit, job_for
from relay.app.demo.stage import build


def git(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    who = ["-c", "user.name=T", "-c", "user.email=t@t", "-c", "core.hooksPath=/dev/null"]
    return subprocess.run(["git", *who, *words], cwd=folder, capture_output=True, text=True, check=False)


def apply(folder: Path, edits: tuple[Edit, ...]) -> None:
    for edit in edits:
        path = folder / edit.path
        path.parent.mkdir(parents=True, exist_ok=True)
        text = path.read_text() if path.exists() else ""
        assert (text.count(edit.old) == 1) if edit.old else not text, edit
        assert edit.new is not None
        path.write_text(text.replace(edit.old, edit.new) if edit.old else edit.new)


@pytest.fixture
def codebase(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    git(tmp_path, "init", "-q", "-b", "main")
    git(tmp_path, "add", ".")
    assert git(tmp_path, "commit", "-qm", "start").returncode == 0
    return tmp_path


@pytest.mark.parametrize("steers", [True, False])
def test_the_branches_merge_only_when_ben_gives_way(codebase: Path, steers: bool) -> None:
    for agent in AGENTS:
        git(codebase, "checkout", "-q", "-b", agent, "main")
        for job in JOBS:
            if job.agent == agent:
                apply(codebase, job.instead if steers and job.instead else job.edits)
        git(codebase, "add", ".")
        git(codebase, "commit", "-qm", agent)
    git(codebase, "checkout", "-q", "main")
    merged = [git(codebase, "merge", "-q", "--no-edit", agent).returncode for agent in ("AVA", "CLEO", "BEN")]
    assert merged == ([0, 0, 0] if steers else [0, 0, 1])


def test_every_job_can_be_asked_for() -> None:
    assert {job.agent for job in JOBS} == set(AGENTS)
    for job in JOBS:
        assert job_for(job.agent, f"[you] @{job.agent} {job.ask}") is job
    assert job_for("CLEO", "[you] hello") is None


def test_git_knows_who_merges_in_the_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    build(tmp_path / "demo", FILES, [], airspace=True, port=0)
    asked = ["git", "-C", tmp_path / "demo/code", "var", "GIT_COMMITTER_IDENT"]
    assert subprocess.run(asked, capture_output=True, text=True, check=True).stdout.startswith(
        "demo <demo@relay>"
    )


def test_a_pipe_gets_a_long_line_whole() -> None:
    said, body = io.StringIO(), "word " * 60 + "end"
    Narrator(console_of(said)).entry({"id": "1", "speaker": "AVA", "kind": "agent", "body": body})
    assert said.getvalue() == f"  [AVA] {body}\n"


def test_the_rewinds_story_is_red_when_it_should_be(tmp_path: Path) -> None:
    """The tests of that codebase pass after each job but those that go astray, and the first try of `wrap`."""
    for name, text in REWIND.files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)

    def passes() -> bool:
        return subprocess.run(TESTS, cwd=tmp_path, capture_output=True, check=False).returncode == 0

    def do(word: str, *, again: bool = False) -> bool:
        (job,) = (job for job in REWIND.jobs if job.word == word)
        for edit in job.instead if again else job.edits:
            if edit.new is None:
                (tmp_path / edit.path).unlink()
            else:
                apply(tmp_path, (edit,))
        return passes()

    assert passes()
    assert [do(word) for word in ("discount", "docs", "parse", "gifts", "wrap")] == [True] * 4 + [False]
    assert do("wrap", again=True)
    assert not do("tidy") and not do("faster")


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """The codebase of the landing's story."""
    write(tmp_path, land_scene.FILES)
    return tmp_path


def write(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def run_tests(shop: Path) -> tuple[bool, str]:
    ran = subprocess.run(land_scene.TESTS, cwd=shop, capture_output=True, text=True, check=False)
    return ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("part", land_scene.PARTS, ids=lambda part: part.agent)
def test_each_branch_of_the_landing_passes_by_itself(shop: Path, part: land_scene.Part) -> None:
    write(shop, part.write)
    assert run_tests(shop)[0]


@pytest.mark.parametrize("sixth", land_scene.PAIR)
def test_all_branches_break_a_test_only_together(shop: Path, sixth: str) -> None:
    """Whoever of the pair comes last, the tests pass without it, fail with it, and pass when it is mended."""
    paths = [path for part in land_scene.PARTS for path in part.write]
    assert len({*paths}) == len(paths)  # so git merges them, in any order
    (last,) = (part for part in land_scene.PARTS if part.agent == sixth)
    for part in land_scene.PARTS:
        if part is not last:
            write(shop, part.write)
    assert run_tests(shop)[0]
    write(shop, last.write)
    passed, said = run_tests(shop)
    assert not passed and f"FAIL: {land_scene.FAILING}" in said and "FAILED (failures=1)" in said
    write(shop, last.mends)
    assert run_tests(shop)[0]


def test_the_scripts_of_the_landing_know_what_is_asked_and_what_the_room_says(tmp_path: Path) -> None:
    for part in land_scene.PARTS:
        (tmp_path / "script.yaml").write_text(part.script(0.5))
        rules = load_script(tmp_path / "script.yaml")

        def written(prompt: str, rules: Sequence[Rule] = rules) -> Mapping[str, str]:
            return next(rule.write for rule in rules if rule.match.search(prompt))

        assert written(f"[you] @{part.agent} {part.ask}") == part.write
        if part.agent in land_scene.PAIR:
            told = f"[RELAY] {part.agent}'s branch did not land: unit tests failed.\n\n{part.word}"
            assert written(told) == part.mends


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--land", "--merge"], "--merge and --land are 2 demos: give one"),
        (["--land", "--stubborn"], "--land has no airspace; leave --stubborn and --only-with out"),
        (["--rewind", "--only-with"], "--rewind has no airspace; leave --stubborn and --only-with out"),
    ],
)
def test_demos_that_do_not_go_together_are_refused(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    parser = argparse.ArgumentParser()
    story.arguments(parser)
    assert story.run(parser.parse_args(words)) == 2
    assert said in capsys.readouterr().err
