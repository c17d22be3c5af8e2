"""Files of a checkout become those of another tree: all of them or none, and nobody else's."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

import pytest

from relay.git.checkout import Checkout, open_checkout
from relay.git.scratch_repository import ScratchRepository
from relay.git.snapshot import Snapshotter
from relay.model.refusals import Refusal
from relay.timeline.rewind.checkout_writer import STAGE, CheckoutWriter, FilesInTheWay, Outcome
from tests.git.repository import commit, git, repository, write
from tests.timeline.rewind.trees import Files, Trees


class Place:
    """A checkout, and trees to put into it."""

    def __init__(self, checkout: Checkout, scratch: ScratchRepository) -> None:
        self.checkout, self.scratch, self.top = checkout, scratch, checkout.top
        self.trees = Trees(scratch, scratch.git(checkout))
        self.writer = CheckoutWriter(scratch, checkout)

    @classmethod
    async def make(cls, folder: Path, files: dict[str, str | bytes]) -> Place:
        repo = repository(folder / "repo", files)
        checkout = await open_checkout(repo)
        scratch = ScratchRepository(folder / "scratch")
        await scratch.empty()
        await scratch.borrow([checkout])
        return cls(checkout, scratch)

    @property
    def head(self) -> str:
        """The commit that the checkout stands on."""
        return git(self.top, "rev-parse", "HEAD")

    async def now(self) -> str:
        """The tree that stands in the checkout."""
        return (await Snapshotter(self.scratch, self.checkout, "test").take()).tree

    async def put(self, files: Files) -> None:
        await self.writer.write(await self.now(), self.trees.write(files), self.head)

    def status(self) -> str:
        return git(self.top, "status", "--porcelain", "-uall")

    def on_disk(self) -> dict[str, tuple[int, bytes]]:
        """Every file but git's own: what kind it is and what is in it."""
        files = {}
        for path in sorted(self.top.rglob("*")):
            relative = path.relative_to(self.top)
            if relative.parts[0] == ".git" or (path.is_dir() and not path.is_symlink()):
                continue
            mode = path.lstat().st_mode
            data = os.fsencode(path.readlink()) if stat.S_ISLNK(mode) else path.read_bytes()
            files[str(relative)] = mode & (0o170000 | stat.S_IXUSR), data
        return files


@pytest.fixture
async def place(tmp_path: Path) -> Place:
    return await Place.make(
        tmp_path, {"a": "a\n", "b": "b\n", "d/e": "e\n", "d/f": "f\n", ".gitignore": "*.log\n"}
    )


async def test_the_files_are_those_of_the_tree(place: Place) -> None:
    before = place.trees.read(await place.now())
    files: Files = {
        **{path: data for path, data in before.items() if path != b"d/e"},
        b"a": ("100755", b"new a\n"),
        b"b": ("120000", b"a"),
        b"new folder/with\nline\xff": b"n",
        b"d/f/below": b"a folder for a file",
        b"empty": b"",
    }
    del files[b"d/f"]
    await place.put(files)
    assert place.trees.read(await place.now()) == files
    assert (place.top / "a").stat().st_mode & 0o111 and (place.top / "b").readlink() == Path("a")
    await place.put(before)
    assert place.trees.read(await place.now()) == before
    assert place.status() == "" and not (place.top / "new folder").exists()
    assert not (place.checkout.git_dir / STAGE).exists()


async def test_git_status_shows_the_difference_from_head(place: Place) -> None:
    files = place.trees.read(await place.now())
    await place.put(
        {**{path: data for path, data in files.items() if path != b"b"}, b"a": b"x\n", b"c": b"c\n"}
    )
    assert place.status().splitlines() == [" M a", " D b", "?? c"]
    assert git(place.top, "diff", "HEAD", "--name-status") == "M\ta\nD\tb"


async def test_what_was_added_to_the_index_is_not_left_there(place: Place) -> None:
    """An agent that stages what it does gets the files back as they were committed, not half of it."""
    committed = place.trees.read(await place.now())
    write(place.top, {"a": "codex\n", "new": "codex\n"})
    git(place.top, "add", "-A")
    git(place.top, "rm", "-q", "b")
    await place.put(committed)
    assert place.status() == ""


async def test_what_a_person_staged_stays_staged(place: Place) -> None:
    committed = place.trees.read(await place.now())
    write(place.top, {"a": "staged\n"})
    git(place.top, "add", "a")
    write(place.top, {"a": "standing\n"})
    await place.put(committed)
    assert place.status() == "MM a" and git(place.top, "show", ":a") == "staged"


async def test_dirty_person_refuses(place: Place) -> None:
    before = await place.now()
    files = {**place.trees.read(before), b"a": b"rewound\n", b"b": b"rewound\n", b"c": b"rewound\n"}
    after = place.trees.write(files)
    write(place.top, {"b": "a person's\n", "d/e": "elsewhere\n"})
    stood, status = place.on_disk(), place.status()
    with pytest.raises(FilesInTheWay, match=r": b\.") as refused:
        await place.writer.write(before, after, place.head)
    assert refused.value.paths == ("b",) and refused.value.fix
    assert (place.on_disk(), place.status()) == (stood, status)
    git(place.top, "checkout", "-q", "b")
    await place.writer.write(before, after, place.head)
    assert (place.top / "d/e").read_text() == "elsewhere\n"


@pytest.mark.parametrize(
    ("path", "make"),
    [
        ("c", lambda top: write(top, {"c": "untracked\n"})),
        ("c.log", lambda top: write(top, {"c.log": "ignored\n"})),
        ("g/h", lambda top: write(top, {"g": "a file for a folder\n"})),
        ("g", lambda top: write(top, {"g/out.log": "in a folder for a file\n"})),
        ("g/h", lambda top: (top / "g").symlink_to("d")),
        ("c", lambda top: os.mkfifo(top / "c")),
        ("c", lambda top: (top / "c").symlink_to("nowhere")),
    ],
)
async def test_what_is_in_the_way_stays(place: Place, path: str, make: object) -> None:
    before = await place.now()
    after = place.trees.write({**place.trees.read(before), path.encode(): b"x\n", b"a": b"rewound\n"})
    assert callable(make)
    make(place.top)
    with pytest.raises(FilesInTheWay):
        await place.writer.write(before, after, place.head)
    assert (place.top / "a").read_bytes() == b"a\n"
    assert os.path.lexists(place.top / path.partition("/")[0])


@pytest.mark.parametrize("kill", [False, True])
async def test_a_link_that_changes_places_with_a_folder(place: Place, kill: bool) -> None:
    """Both ways, and what the link leads to stays as it is; also where a process is ended half-way."""
    linked = await place.now()
    target = sorted(path for path in place.on_disk() if path.startswith("d/"))
    (place.top / "link").symlink_to("d")
    with_link = await place.now()
    (place.top / "link").unlink()
    write(place.top, {"link/e": "not in d\n", "link/f": "f\n"})
    with_folder = await place.now()
    for before, after in ((with_folder, with_link), (with_link, with_folder), (with_folder, linked)):
        if kill and after != linked:
            # The removals are done, and nothing is written yet.
            shutil.rmtree(place.top / "link") if before == with_folder else (place.top / "link").unlink()
            assert await place.writer.recover(before, after, place.head, place.head) is Outcome.FINISHED
        else:
            await place.writer.write(before, after, place.head)
        assert await place.now() == after
        assert [path for path in place.on_disk() if path.startswith("d/")] == target
        assert (place.top / "d/e").read_text() == "e\n"


async def test_untracked_output_survives(place: Place) -> None:
    before = await place.now()
    files = {path: data for path, data in place.trees.read(before).items() if not path.startswith(b"d/")}
    write(place.top, {"d/out.log": "ignored\n", "d/deep/untracked": "u\n", "untracked": "u\n"})
    await place.writer.write(before, place.trees.write(files), place.head)
    left = {path for path in place.on_disk() if path not in ("a", "b", ".gitignore")}
    assert left == {"d/out.log", "d/deep/untracked", "untracked"}


@pytest.mark.parametrize("how", ["autocrlf", "attribute"])
async def test_line_ends_are_those_of_the_checkout(tmp_path: Path, how: str) -> None:
    place = await Place.make(
        tmp_path, {"a": "a\nb\n", ".gitattributes": "a text eol=crlf\n" if how == "attribute" else ""}
    )
    if how == "autocrlf":
        git(place.top, "config", "core.autocrlf", "true")
    (place.top / "a").unlink()
    git(place.top, "checkout", "a")
    assert (place.top / "a").read_bytes() == b"a\r\nb\r\n"
    place = Place(await open_checkout(place.top), place.scratch)
    files = place.trees.read(await place.now())
    await place.put({**files, b"a": b"a\nc\n"})
    assert (place.top / "a").read_bytes() == b"a\r\nc\r\n"
    await place.put(files)
    assert place.status() == ""


async def test_a_filter_is_not_run(place: Place) -> None:
    git(place.top, "config", "filter.bad.smudge", "touch ran")
    git(place.top, "config", "filter.bad.clean", "touch ran")
    commit(place.top, {".gitattributes": "a filter=bad\n"})
    (place.top / "ran").unlink(missing_ok=True)
    before = await place.now()
    with pytest.raises(Refusal, match="filter"):
        await place.writer.write(
            before, place.trees.write({**place.trees.read(before), b"a": b"x\n"}), place.head
        )
    assert not (place.top / "ran").exists()


async def test_while_git_is_at_work_nothing_is_written(place: Place) -> None:
    before = await place.now()
    after = place.trees.write({**place.trees.read(before), b"a": b"x\n"})
    (place.checkout.index.with_name("index.lock")).touch()
    with pytest.raises(Refusal, match="git is at work"):
        await place.writer.write(before, after, place.head)
    (place.checkout.index.with_name("index.lock")).unlink()
    (place.checkout.git_dir / "MERGE_HEAD").write_text(git(place.top, "rev-parse", "HEAD"))
    with pytest.raises(Refusal, match="a merge is under way"):
        await place.writer.write(before, after, place.head)
    assert (place.top / "a").read_bytes() == b"a\n"


async def test_what_cannot_be_written_takes_the_others_back(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = await place.now()
    after = place.trees.write({**place.trees.read(before), b"a": b"x\n", b"b": b"x\n", b"d/e": b"x\n"})
    stood, replace = place.on_disk(), Path.replace

    def full(self: Path, target: Path) -> Path:
        if target == place.top / "d/e":
            raise OSError(28, "No space left on device")
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(Refusal, match="No space left"):
        await place.writer.write(before, after, place.head)
    assert place.on_disk() == stood and place.status() == ""


async def test_recover_goes_to_the_end_or_back(place: Place) -> None:
    before = await place.now()
    files = {**place.trees.read(before), b"a": b"x\n", b"b": b"x\n", b"c": b"x\n"}
    after = place.trees.write(files)
    assert await place.writer.recover(before, after, place.head, place.head) is Outcome.GONE
    write(place.top, {"a": "x\n"})
    assert await place.writer.recover(before, after, place.head, place.head) is Outcome.FINISHED
    assert place.trees.read(await place.now()) == files
    assert await place.writer.recover(before, after, place.head, place.head) is Outcome.FINISHED
    # Somebody edited one of them since: all had been written.
    write(place.top, {"b": "a person's\n"})
    assert await place.writer.recover(before, after, place.head, place.head) is Outcome.FINISHED
    assert (place.top / "a").read_bytes() == b"x\n" and (place.top / "b").read_bytes() == b"a person's\n"
    # Not all had been: theirs stays, and the rest is as before.
    write(place.top, {"c": "x\n", "a": "a\n"})
    assert await place.writer.recover(before, after, place.head, place.head) is Outcome.GONE
    assert place.status() == " M b" and (place.top / "b").read_bytes() == b"a person's\n"
