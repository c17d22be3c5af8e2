"""Names of agents' branches: git takes each, and no two of one repository collide."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.git.branch_names import agent_branch, branch_in_the_way, branch_user
from relay.git.checkout import open_checkout
from relay.git.run import Git
from relay.git.signing import system_user
from tests.git.repository import git, repository


@pytest.mark.parametrize(
    ("user", "words", "branch"),
    [
        ("alice", ("architect",), "tw/alice/architect"),
        ("bob", ("developer", "abc123"), "tw/bob/developer-abc123"),
        ("Ann Lee", ("CODEX",), "tw/ann-lee/codex"),
        ("Zo\u00eb \u00c5ngstr\u00f6m", ("A_B-C",), "tw/zoe-angstrom/a_b-c"),
        ("Zoe\u0308", ("a",), "tw/zoe/a"),
        ("\u674e", ("a",), "tw/\u674e/a"),
        ("..", ("@{", "x.lock"), "tw/someone/someone-x-lock"),
        ("ann", ("qa", "3f2a", "retry", "1"), "tw/ann/qa-3f2a-retry-1"),
    ],
)
def test_a_name(user: str, words: tuple[str, ...], branch: str) -> None:
    assert agent_branch(user, *words) == branch


@given(st.text(max_size=80), st.text(max_size=80))
def test_git_takes_every_name(user: str, role: str) -> None:
    branch = agent_branch(user, role)
    assert branch == branch.casefold() and branch.count("/") == 2
    # git check-ref-format: these alone are refused.
    assert not set(branch) & set(" ~^:?*[\\\x7f") and all(ord(char) >= 32 for char in branch)
    parts = branch.split("/")
    assert all(
        part and not part.startswith((".", "-")) and not part.endswith((".", ".lock")) for part in parts
    )
    assert ".." not in branch and "@{" not in branch


async def test_git_itself_takes_them(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    for user in ("Ann Lee", "\u674e \u00c5", "a" * 300, "..", "-x-", "HEAD", "con.lock"):
        git(repo, "branch", agent_branch(user, "x" * 300, "retry", "1"))


async def test_who_the_user_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repo = repository(tmp_path / "repo")
    for name in (
        "GIT_COMMITTER_NAME",
        "GIT_COMMITTER_EMAIL",
        "EMAIL",
        "XDG_CONFIG_HOME",
        "GIT_CONFIG_GLOBAL",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    checkout = await open_checkout(repo)
    assert await branch_user(checkout) == system_user()
    git(repo, "config", "user.name", "Ann Lee")
    assert await branch_user(checkout) == "Ann Lee", "also without an address"
    git(repo, "config", "user.email", "ann@example.org")
    assert await branch_user(checkout) == "Ann Lee"


async def test_what_is_in_the_way(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    git(repo, "branch", "tw/ann/codex")
    git(repo, "branch", "tw/Ben/x")
    names = {
        "tw/ann": "tw/ann/codex",
        "tw/ann/codex/y": "tw/ann/codex",
        "tw/ben/z": "tw/Ben/x",
        "Main": "main",
    }
    free = dict.fromkeys(("tw/ann/codex", "tw/ann/claude", "tw/cy/x", "mainly"))
    for name, there in {**names, **free}.items():
        assert await branch_in_the_way(Git(repo), name) == there
