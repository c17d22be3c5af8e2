"""What git says that an agent changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from relay.airspace.worktrees.changes import RepoChanges
from relay.model import Fault, Refusal
from tests.git.repository import commit, git, own_branch, repository, room


async def test_between_two_revisions_or_as_the_worktree_stands(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo", {"a.py": "1\n", "b.py": "2\n", "größe x.py": "3\n"})
    one = await room(repo, "CLAUDE")
    tree = one.at("CLAUDE")
    changes = RepoChanges(repo, one.registry)
    assert await changes.changed_files("CLAUDE") == []
    git(tree, "mv", "a.py", "z.py")
    first = commit(tree)
    (tree / "new.py").write_text("x\n")
    (tree / "größe x.py").unlink()
    commit(repo, {"b.py": "main went on\n"})
    assert await changes.changed_files("CLAUDE") == ["a.py", "größe x.py", "new.py", "z.py"]
    assert await changes.changed_files("CLAUDE", head=first) == ["a.py", "z.py"]
    assert await changes.changed_files("CLAUDE", base="HEAD") == ["größe x.py", "new.py"]
    assert await changes.changed_files("CLAUDE", "main", own_branch("claude")) == ["a.py", "z.py"]
    assert await changes.changed_files("ann", "main", first) == ["a.py", "z.py"]
    assert await changes.changed_files("ann") is None and await changes.changed_files("ann", "main") is None
    assert await RepoChanges(repo).changed_files("CLAUDE") is None
    assert await RepoChanges(repo).changed_files("CLAUDE", f"{first}~1", first) == ["a.py", "z.py"]
    for base, head in (
        ("nowhere", "main"),
        ("main", "--all"),
        ("", "main"),
        ("main", "x" * 300),
        ("a\nb", "main"),
    ):
        with pytest.raises(Refusal) as refused:
            await changes.changed_files("CLAUDE", base, head)
        assert refused.value.fault is Fault.MALFORMED and refused.value.code == "unknown_revision"
    with pytest.raises(Refusal) as away:
        await RepoChanges(tmp_path).changed_files("CLAUDE", "a", "b")
    assert away.value.fault is Fault.BUSY
