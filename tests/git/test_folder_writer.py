"""A tree of which a few files change: written by its folders, it is the one that git makes of all files."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from relay.git.checkout import Checkout, open_checkout
from relay.git.scratch_repository import ScratchRepository
from relay.git.snapshot import Snapshotter
from relay.git.trees.folder_writer import UnusualPaths, read_folders, write_folders
from tests.git.repository import git, repository

NAMES = ("a", "a.b", "a b", "b", "bä", "c\nd", "Z", ".x")
FIRST = {"a/a": "1\n", "a/b/Z": "2\n", "a/b/b": "3\n", "a.b": "4\n", "b/a b/bä": "5\n", "keep/me": "6\n"}
#: What is done to a path: a text, a link, a program, a folder in its way, or nothing stays there.
DEEDS = st.sampled_from(("text", "crlf", "link", "program", "gone", "folder gone"))
PATHS = st.lists(st.sampled_from(NAMES), min_size=1, max_size=4).map("/".join)


async def opened(folder: Path, **more: str) -> tuple[Checkout, Snapshotter]:
    repository(folder / "repo", {**FIRST, **more})
    checkout = await open_checkout(folder / "repo")
    scratch = ScratchRepository(folder / "scratch")
    await scratch.empty(checkout.hash)
    await scratch.borrow([checkout])
    return checkout, Snapshotter(scratch, checkout, "test")


def do(top: Path, path: str, deed: str, dice: random.Random) -> None:
    """Change what stands at a path, whatever is in its way."""
    at = top / path
    if deed == "folder gone":
        shutil.rmtree(at.parent if at.parent != top else at, ignore_errors=True)
        return
    if at.is_dir() and not at.is_symlink():
        shutil.rmtree(at)
    else:
        at.unlink(missing_ok=True) if not _behind_a_file(top, at) else None
    if deed == "gone":
        return
    for above in reversed([above for above in at.parents if top in above.parents]):
        if above.is_symlink() or above.is_file():
            above.unlink()
        above.mkdir(exist_ok=True)
    if deed == "link":
        at.symlink_to(f"nowhere-{dice.random()}")
        return
    at.write_bytes(f"text {dice.random()}{chr(13) if deed == 'crlf' else ''}\n".encode())
    at.chmod(0o755 if deed == "program" else 0o644)


def _behind_a_file(top: Path, at: Path) -> bool:
    return any(above.is_symlink() or above.is_file() for above in at.parents if top in above.parents)


@pytest.mark.parametrize("attributes", ["", "* text=auto\n"])
@settings(
    max_examples=8,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(rounds=st.lists(st.lists(st.tuples(PATHS, DEEDS), min_size=1, max_size=5), min_size=1, max_size=4))
async def test_it_is_the_tree_that_git_makes(
    tmp_path_factory: pytest.TempPathFactory, attributes: str, rounds: list[list[tuple[str, str]]]
) -> None:
    folder = tmp_path_factory.mktemp("trees")
    more = {".gitattributes": attributes, "crlf": "as it is\r\n"} if attributes else {}
    checkout, snapshotter = await opened(folder, **more)
    await snapshotter.take()
    dice = random.Random(1)
    for deeds in rounds:
        before = git(checkout.top, "ls-files", "-z", "--others", "--cached")
        for path, deed in deeds:
            do(checkout.top, path, deed, dice)
        after = git(checkout.top, "ls-files", "-z", "--others", "--cached")
        touched = {name.encode() for name in {*before.split("\0"), *after.split("\0")} if name}
        updated = await snapshotter.update(touched)
        git(checkout.top, "add", "-A")
        assert updated.tree == git(checkout.top, "write-tree")
    shutil.rmtree(folder)


async def test_only_what_changed_is_needed(tmp_path: Path) -> None:
    checkout, snapshotter = await opened(tmp_path)
    tree = (await snapshotter.take()).tree
    blob = git(checkout.top, "hash-object", "-w", "a/a")
    asked = snapshotter.git
    changes = {b"a/b/Z": None, b"a/b/b": None, b"new/deep/file": ("100644", blob), b"a.b": ("100755", blob)}
    folders = await read_folders(asked, tree, changes)
    assert folders.find(b"a/a") is not None and folders.find(b"a/b") is None
    written = await write_folders(folders, asked, changes)
    listed = git(checkout.top, f"--git-dir={tmp_path / 'scratch'}", "ls-tree", "-r", "--name-only", written)
    assert listed.split("\n") == ["a.b", "a/a", '"b/a b/b\\303\\244"', "keep/me", "new/deep/file"]
    assert await write_folders(folders, asked, {}) == tree


@pytest.mark.parametrize(
    "changes",
    [{b"a": ("100644", "0" * 40), b"a/a": ("100644", "0" * 40)}, {b"x\ny/z": None}],
)
async def test_what_is_not_settled_by_folders_is_said(
    tmp_path: Path, changes: dict[bytes, tuple[str, str] | None]
) -> None:
    _, snapshotter = await opened(tmp_path)
    tree = (await snapshotter.take()).tree
    with pytest.raises(UnusualPaths):
        await write_folders(await read_folders(snapshotter.git, tree, changes), snapshotter.git, changes)


async def test_a_path_in_a_submodule_is_looked_at_as_a_whole(tmp_path: Path) -> None:
    checkout, snapshotter = await opened(tmp_path)
    repository(tmp_path / "other", {"f": "1\n"})
    git(checkout.top, "submodule", "add", "-q", str(tmp_path / "other"), "sub")
    tree = (await snapshotter.take()).tree
    with pytest.raises(UnusualPaths, match="sub"):
        await read_folders(snapshotter.git, tree, [b"sub/f"])
    (checkout.top / "sub" / "f").write_text("2\n")
    assert (await snapshotter.update([b"sub/f"])).tree == tree
