"""relay's own git directory, while others read in it."""

from __future__ import annotations

from pathlib import Path

from relay.git.checkout import open_checkout
from relay.git.scratch_repository import ScratchRepository
from tests.git.repository import git, repository


async def test_what_is_borrowed_is_listed_in_one_step(tmp_path: Path) -> None:
    """A git that reads the list meanwhile must find the old one or the new one: without the rest of a list it takes
    commits that are there for missing ("bad object"), and an agent gets no worktree for its turn."""
    scratch = ScratchRepository(tmp_path / "scratch")
    await scratch.empty()
    first = await open_checkout(repository(tmp_path / "first"))
    await scratch.borrow([first])
    alternates = scratch.folder / "objects" / "info" / "alternates"
    with alternates.open() as reading:
        await scratch.borrow([await open_checkout(repository(tmp_path / "second", {"c.py": "c\n"}))])
        assert reading.read() == f"{first.objects}\n"
    commit = git(tmp_path / "second", "rev-parse", "HEAD")
    assert await scratch.git(first).line("cat-file", "-t", commit.strip()) == "commit"
    assert [path.name for path in alternates.parent.iterdir()] == ["alternates"]
