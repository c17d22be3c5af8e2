"""What is known of a remote without asking it."""

from __future__ import annotations

from pathlib import Path

import pytest

from relay.git.remotes import tracking_ref
from relay.git.run import Git
from tests.git.repository import git


@pytest.mark.parametrize(
    ("specs", "kept"),
    [
        (["+refs/heads/*:refs/remotes/up/*"], "refs/remotes/up/main"),
        (
            ["refs/heads/other:refs/remotes/up/other", "refs/heads/main:refs/remotes/up/x"],
            "refs/remotes/up/x",
        ),
        (["+refs/heads/team/*:refs/remotes/up/*"], None),
        (["+refs/heads/*:refs/heads/*"], None),
        (["+refs/heads/*:refs/remotes/upper/*"], None),
        ([], None),
    ],
)
async def test_where_fetch_keeps_a_branch_is_as_the_clone_says(
    tmp_path: Path, specs: list[str], kept: str | None
) -> None:
    git(tmp_path, "init", "-q")
    for spec in specs:
        git(tmp_path, "config", "--add", "remote.up.fetch", spec)
    assert await tracking_ref(Git(tmp_path), "up", "refs/heads/main") == kept
