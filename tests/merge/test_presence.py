"""Each case of one path in three trees: as a rule, and in merges of real commits."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from relay.app.wiring.merge_tools import MergeTools
from relay.config.merge import MergeSettings
from relay.git.run import Git
from relay.git.trial_merge import JoinedFile, merge_trees
from relay.merge.trees.presence import Entry, Presence, presence
from relay.merge.trees.tree_merge import conflicted_paths

A, B, C = (Entry("100644", letter * 40) for letter in "abc")
PROGRAM = Entry("100755", "a" * 40)
LINK, LINKED, LINKS = (Entry("120000", letter * 40) for letter in "abc")
MODULE, MODULES, MODULED = (Entry("160000", letter * 40) for letter in "abc")


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "expected"),
    [
        (None, A, A, Presence(A)),
        (None, A, None, Presence(A)),
        (A, None, None, Presence(None)),
        (A, None, A, Presence(None)),
        (A, B, A, Presence(B)),
        (A, A, B, Presence(B)),
        (A, B, C, Presence(Entry("100644", "b" * 40), text=True)),
        (None, A, B, Presence(A, text=True)),
        (A, None, B, Presence(B, conflict="one side changed it, the other removed it")),
        (A, PROGRAM, B, Presence(Entry("100755", "b" * 40))),
        (None, A, PROGRAM, Presence(A, conflict="mode: both added it, one as a program")),
        (LINK, LINKED, LINKS, Presence(LINKED, conflict="symbolic link: both changed it, differently")),
        (None, LINK, LINKED, Presence(LINK, conflict="symbolic link: both added it, differently")),
        (A, B, LINK, Presence(B, conflict="one side has a file and the other a symbolic link")),
        (LINK, A, B, Presence(A, conflict="it was a symbolic link, and both sides made a file of it")),
        (MODULE, MODULES, MODULED, Presence(MODULES, conflict="submodule: both changed it, differently")),
        (MODULE, MODULES, MODULE, Presence(MODULES)),
        (MODULE, None, MODULES, Presence(MODULES, conflict="one side changed it, the other removed it")),
    ],
)
def test_presence(base: Entry | None, ours: Entry | None, theirs: Entry | None, expected: Presence) -> None:
    assert presence(base, ours, theirs) == expected
    swapped = presence(base, theirs, ours)
    assert (swapped.text, bool(swapped.conflict)) == (expected.text, bool(expected.conflict))
    if not expected.conflict and not expected.text:
        assert swapped == expected


@dataclass(frozen=True, slots=True)
class Conflict:
    """A path that is not joined; `kind`: git's word for it."""

    path: str
    kind: str


@dataclass(frozen=True, slots=True)
class Done:
    """What came of a merge, as landing and the airspace have it."""

    tree: str
    joined: tuple[JoinedFile, ...]
    conflicts: tuple[Conflict, ...]


async def joined_trees(git: Git, ours: str, theirs: str) -> Done:
    tools = MergeTools(MergeSettings)
    try:
        merge = await merge_trees(git, ours, theirs, tools.join)
    finally:
        await tools.close()
    assert merge is not None
    told = await git.run("merge-tree", "--write-tree", "-z", "--messages", ours, theirs, ok=(0, 1))
    paths = conflicted_paths(told.out)[1] if told.code else {}
    kinds = {
        name.decode(): [kind for kind in path.said if kind != "Auto-merging"] for name, path in paths.items()
    }
    return Done(merge.tree, merge.joined, tuple(Conflict(path, kinds[path][0]) for path in merge.conflicts))


class Repository:
    """A repository of two branches, made by functions that change its files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.run("init", "-q", "-b", "main")

    def run(self, *words: str) -> str:
        who = ("-c", "user.name=t", "-c", "user.email=t@t", "-c", "core.autocrlf=false")
        done = subprocess.run(
            ["git", "-C", str(self.folder), *who, *words], capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    def commit(self, files: dict[str, bytes | None]) -> str:
        for name, data in files.items():
            path = self.folder / name
            if data is None:
                path.unlink()
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
        self.run("add", "-A")
        self.run("commit", "-q", "--allow-empty", "-m", "a step")
        return self.run("rev-parse", "HEAD")

    async def merged(
        self,
        base: dict[str, bytes | None],
        ours: dict[str, bytes | None],
        theirs: dict[str, bytes | None],
    ) -> Done:
        root = self.commit(base)
        one = self.commit(ours)
        self.run("checkout", "-q", "-b", "theirs", root)
        return await joined_trees(Git(self.folder), one, self.commit(theirs))

    def content(self, done: Done, path: str) -> bytes:
        words = ["git", "-C", str(self.folder), "cat-file", "blob", f"{done.tree}:{path}"]
        return subprocess.run(words, capture_output=True, check=True).stdout


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "codex")


async def test_files_are_joined_into_a_tree(repository: Repository) -> None:
    done = await repository.merged(
        {"a.py": b"import os\n\nx = 1\n", "b.py": b"b = 1\n", "kept": b"1\n"},
        {"a.py": b"import os\nimport abc\n\nx = 1\n", "b.py": b"b = 2\n"},
        {"a.py": b"import os\nimport re\n\nx = 1\n", "b.py": b"b = 3\n", "new": b"1\n"},
    )
    assert [(file.path, file.by) for file in done.joined] == [("a.py", ("imports",))]
    assert [conflict.path for conflict in done.conflicts] == ["b.py"]
    assert repository.content(done, "a.py") == b"import os\nimport abc\nimport re\n\nx = 1\n"
    assert b"<<<<<<<" in repository.content(done, "b.py")
    assert repository.run("ls-tree", "-r", "--name-only", done.tree).split() == [
        "a.py",
        "b.py",
        "kept",
        "new",
    ]


async def test_it_joins_for_a_trial_merge(repository: Repository) -> None:
    root = repository.commit({"a.py": b"a = 1\nb = 1\n"})
    ours = repository.commit({"a.py": b"a = 2\nb = 1\n"})
    repository.run("checkout", "-q", "-b", "theirs", root)
    theirs = repository.commit({"a.py": b"a = 1\nb = 2\n"})
    git = Git(repository.folder)
    alone, joined = await merge_trees(git, ours, theirs), await joined_trees(git, ours, theirs)
    assert alone is not None
    assert (alone.conflicts, joined.conflicts) == (("a.py",), ())
    assert [file.by for file in joined.joined] == [("adjacent",)]


async def test_added_by_both(repository: Repository) -> None:
    done = await repository.merged(
        {},
        {"a.py": b"def a():\n    return 1\n", "b.py": b"x = 1\n"},
        {"a.py": b"def b():\n    return 2\n", "b.py": b"x = 2\n"},
    )
    assert repository.content(done, "a.py") == b"def a():\n    return 1\n\n\ndef b():\n    return 2\n"
    assert [conflict.path for conflict in done.conflicts] == ["b.py"]


async def test_removed_and_changed(repository: Repository) -> None:
    done = await repository.merged({"a.py": b"a = 1\n"}, {"a.py": None}, {"a.py": b"a = 2\n"})
    assert [(conflict.path, conflict.kind) for conflict in done.conflicts] == [
        ("a.py", "CONFLICT (modify/delete)")
    ]
    assert repository.content(done, "a.py") == b"a = 2\n"


async def test_removed_by_both(repository: Repository) -> None:
    done = await repository.merged({"a.py": b"a = 1\n", "b": b""}, {"a.py": None}, {"a.py": None})
    assert (done.conflicts, repository.run("ls-tree", "--name-only", done.tree)) == ((), "b")


BODY = b"".join(b"def f%d():\n    return %d\n\n\n" % (n, n) for n in range(8))


async def test_renamed_and_changed(repository: Repository) -> None:
    done = await repository.merged(
        {"a.py": b"import os\n\n\n" + BODY},
        {"a.py": None, "b.py": b"import os\nimport re\n\n\n" + BODY},
        {"a.py": b"import os\nimport sys\n\n\n" + BODY},
    )
    assert [(file.path, file.by) for file in done.joined] == [("b.py", ("imports",))]
    assert repository.content(done, "b.py") == b"import os\nimport re\nimport sys\n\n\n" + BODY


async def test_renamed_to_two_names(repository: Repository) -> None:
    done = await repository.merged({"a.py": BODY}, {"a.py": None, "b.py": BODY}, {"a.py": None, "c.py": BODY})
    assert {conflict.path for conflict in done.conflicts} == {"a.py", "b.py", "c.py"}
    assert {conflict.kind for conflict in done.conflicts} == {"CONFLICT (rename/rename)"}


async def test_one_changes_the_mode(repository: Repository) -> None:
    root = repository.commit({"a.py": b"a = 1\nb = 1\n"})
    (repository.folder / "a.py").chmod(0o755)
    ours = repository.commit({"a.py": b"a = 2\nb = 1\n"})
    repository.run("checkout", "-q", "-b", "theirs", root)
    theirs = repository.commit({"a.py": b"a = 1\nb = 2\n"})
    done = await joined_trees(Git(repository.folder), ours, theirs)
    assert done.conflicts == ()
    assert repository.run("ls-tree", done.tree).startswith("100755 blob")
    assert repository.content(done, "a.py") == b"a = 2\nb = 2\n"


async def test_binary(repository: Repository) -> None:
    done = await repository.merged({"a": b"\0a\n"}, {"a": b"\0b\n"}, {"a": b"\0c\n"})
    assert [conflict.kind for conflict in done.conflicts] == ["CONFLICT (binary)"]
    assert repository.content(done, "a") == b"\0b\n"


async def test_symbolic_link(repository: Repository) -> None:
    commits = []
    for target, branch in (("x", ""), ("y", ""), ("z", "theirs")):
        if branch:
            repository.run("checkout", "-q", "-b", branch, commits[0])
        (repository.folder / "a").unlink(missing_ok=True)
        (repository.folder / "a").symlink_to(target)
        commits.append(repository.commit({}))
    done = await joined_trees(Git(repository.folder), commits[1], commits[2])
    assert [conflict.path for conflict in done.conflicts] == ["a"]
    assert (done.joined, repository.content(done, "a")) == ((), b"y")


async def test_submodule(repository: Repository) -> None:
    commits = []
    for letter, branch in (("1", ""), ("2", ""), ("3", "theirs")):
        if branch:
            repository.run("checkout", "-q", "-b", branch, commits[0])
        repository.run("update-index", "--add", "--cacheinfo", f"160000,{letter * 40},sub")
        repository.run("commit", "-q", "-m", "a step")
        commits.append(repository.run("rev-parse", "HEAD"))
    done = await joined_trees(Git(repository.folder), commits[1], commits[2])
    assert ([conflict.path for conflict in done.conflicts], done.joined) == (["sub"], ())


async def test_windows_line_ends(repository: Repository) -> None:
    done = await repository.merged(
        {"a.py": b"a = 1\r\nb = 1\r\n"}, {"a.py": b"a = 2\r\nb = 1\r\n"}, {"a.py": b"a = 1\r\nb = 2\r\n"}
    )
    assert repository.content(done, "a.py") == b"a = 2\r\nb = 2\r\n"


async def test_one_side_changes_all_line_ends(repository: Repository) -> None:
    done = await repository.merged(
        {"a.py": b"a = 1\nb = 1\nc = 1\n"},
        {"a.py": b"a = 1\r\nb = 1\r\nc = 1\r\n"},
        {"a.py": b"a = 1\nb = 2\nc = 1\n"},
    )
    assert repository.content(done, "a.py") == b"a = 1\r\nb = 2\r\nc = 1\r\n"


async def test_no_line_end_at_the_end(repository: Repository) -> None:
    done = await repository.merged(
        {"a.py": b"a = 1\nb = 1"}, {"a.py": b"a = 2\nb = 1"}, {"a.py": b"a = 1\nb = 2\n"}
    )
    assert repository.content(done, "a.py") == b"a = 2\nb = 2\n"


async def test_not_utf_8(repository: Repository) -> None:
    done = await repository.merged(
        {"a.py": b"a = '\xe9'\nb = '\xff'\n"},
        {"a.py": b"a = '\xe8'\nb = '\xff'\n"},
        {"a.py": b"a = '\xe9'\nb = '\xfe'\n"},
    )
    assert repository.content(done, "a.py") == b"a = '\xe8'\nb = '\xfe'\n"
