"""The demo's edits fit its codebase, and collide as the story wants it: in a real repository, by real merges."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from relay.demo.scene import AGENTS, FILES, JOBS, Edit, job_for


def git(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    who = ["-c", "user.name=T", "-c", "user.email=t@t", "-c", "core.hooksPath=/dev/null"]
    return subprocess.run(["git", *who, *words], cwd=folder, capture_output=True, text=True, check=False)


def apply(folder: Path, edits: tuple[Edit, ...]) -> None:
    for edit in edits:
        path = folder / edit.path
        text = path.read_text() if path.exists() else ""
        assert (text.count(edit.old) == 1) if edit.old else not text, edit
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
