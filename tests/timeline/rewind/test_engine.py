"""Taking events back keeps what others did, whatever kind of file it was done to."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from relay.git.checkout import open_checkout
from relay.git.scratch_repository import ScratchRepository
from relay.model.touches import Kind, Touch
from relay.timeline.rewind.engine import Action, TakenBack
from tests.git.repository import git
from tests.timeline.rewind.trees import Content, Files, Trees, text

BASE = text("one", "two", "three", "four", "five", "six")


@pytest.fixture
async def trees(tmp_path: Path) -> Trees:
    return await Trees.make(tmp_path)


def actions(taken: TakenBack) -> dict[str, Action]:
    return {file.path: file.action for file in taken.files}


async def test_deleted_file_stays_deleted(trees: Trees) -> None:
    """What the agent created is gone; what another deleted stays so; what the agent deleted is there again."""
    first = {b"mine": BASE, b"theirs": BASE, b"both": BASE}
    second = {b"theirs": BASE, b"both": BASE + text("codex"), b"new": text("codex")}
    third = {b"new": text("codex")}
    taken, files = await trees.rewound(("", first), ("codex", second), ("claude", third))
    assert files == {b"mine": BASE}
    assert actions(taken) == {
        "mine": Action.RESTORED,
        "both": Action.KEPT,
        "new": Action.DELETED,
    }


async def test_lines_of_others_stay_beside_those_that_go(trees: Trees) -> None:
    """Also where they touch, which a merge of git's would call a conflict."""
    one = text("one", "two", "three by codex", "four", "five", "six", "seven by codex")
    two = text(
        "one", "two", "three by codex", "four by claude", "five", "six", "seven by codex", "eight by claude"
    )
    taken, files = await trees.rewound(("", {b"a": BASE}), ("codex", {b"a": one}), ("claude", {b"a": two}))
    assert files == {b"a": text("one", "two", "three", "four by claude", "five", "six", "eight by claude")}
    assert actions(taken) == {"a": Action.MERGED}


async def test_an_edit_of_the_same_line_is_a_conflict_and_stays(trees: Trees) -> None:
    one = text("one", "two by codex", *"3456")
    two = text("one", "two by claude", *"3456")
    other = {b"other": text("codex")}
    taken, files = await trees.rewound(
        ("", {b"a": BASE}), ("codex", {b"a": one, **other}), ("claude", {b"a": two, **other})
    )
    assert files == {b"a": two}
    assert actions(taken) == {"a": Action.CONFLICT, "other": Action.DELETED}
    assert taken.conflicts == ("a",)
    (conflict, _) = taken.files
    assert conflict.before == conflict.after


async def test_what_another_wrote_into_the_agents_block_is_a_conflict(trees: Trees) -> None:
    one = BASE + text("def f():", "    return 1")
    two = BASE + text("def f():", "    log()", "    return 1")
    taken, files = await trees.rewound(("", {b"a": BASE}), ("codex", {b"a": one}), ("claude", {b"a": two}))
    assert files == {b"a": two} and taken.conflicts == ("a",)


async def test_steps_that_follow_upon_each_other_are_undone_as_one(trees: Trees) -> None:
    """Claude set the line to what it was before; undone one by one, that would conflict with the step between."""
    versions = [text("a", who, "b", "c", "d") for who in ("old", "codex 1", "codex 2", "old")]
    names = ("", "codex", "codex", "claude")
    steps = [(name, {b"a": version}) for name, version in zip(names, versions, strict=True)]
    taken, files = await trees.rewound(*steps)
    assert files == {b"a": versions[-1]} and actions(taken) == {"a": Action.KEPT}


async def test_a_change_that_is_known_twice_is_undone_once(trees: Trees) -> None:
    """From the agent's tools as they wrote, and from the trees before and after its turn."""
    texts = [text("a", "b"), text("a", "codex 1", "b"), text("a", "codex 2", "b")]
    written = [trees.write({b"a": version}) for version in texts]
    main = trees.write({b"a": text("a", "codex 2", "claude", "b")})
    pairs = [(0, 1), (1, 2), (0, 2)]
    events = [trees.event(written[before], written[after]) for before, after in pairs]
    taken = await trees.undo(main, events)
    assert trees.read(taken.tree) == {b"a": text("a", "claude", "b")}


async def test_modes_and_links_come_back(trees: Trees) -> None:
    first: Files = {
        b"run": ("100755", BASE),
        b"link": ("120000", b"run"),
        b"gone-link": ("120000", b"run"),
        b"file": b"content",
    }
    second: Files = {b"run": BASE, b"link": ("120000", b"elsewhere"), b"file": ("120000", b"run")}
    third = {**second, b"run": BASE + text("claude")}
    taken, files = await trees.rewound(("", first), ("codex", second), ("claude", third))
    assert files == {**first, b"run": ("100755", BASE + text("claude"))}
    assert taken.conflicts == ()


async def test_a_link_that_another_changed_too_is_a_conflict(trees: Trees) -> None:
    steps: list[tuple[str, Files]] = [
        ("", {b"link": ("120000", b"a")}),
        ("codex", {b"link": ("120000", b"b")}),
        ("claude", {b"link": ("120000", b"c")}),
    ]
    taken, files = await trees.rewound(*steps)
    assert files == {b"link": ("120000", b"c")} and taken.conflicts == ("link",)


async def test_a_rename_goes_back_with_others_later_lines(trees: Trees) -> None:
    later = BASE + text("claude")
    taken, files = await trees.rewound(
        ("", {b"a": BASE}), ("codex", {b"b/c": BASE}), ("claude", {b"b/c": later})
    )
    assert files == {b"a": later}
    assert actions(taken) == {"a": Action.MERGED, "b/c": Action.DELETED}


async def test_an_edit_is_found_where_another_renamed_the_file_to(trees: Trees) -> None:
    edited = text("zero by codex") + BASE
    taken, files = await trees.rewound(
        ("", {b"a": BASE, b"c": text("c")}),
        ("codex", {b"a": edited}),
        ("claude", {b"b": edited}),
        ("claude", {b"b": edited + text("claude"), b"a": text("another a")}),
    )
    assert files == {b"b": BASE + text("claude"), b"a": text("another a"), b"c": text("c")}
    assert taken.conflicts == ()


async def test_an_edit_is_found_where_another_had_renamed_the_file_to_elsewhere(trees: Trees) -> None:
    """Claude renamed it first, but the agent's worktree had not that yet."""
    first, edited = trees.write({b"a": BASE}), trees.write({b"a": BASE + text("codex")})
    renamed = trees.write({b"b": BASE})
    main = trees.write({b"b": text("claude") + BASE + text("codex")})
    events = [trees.event(first, renamed, taken=False), trees.event(first, edited)]
    taken = await trees.undo(main, events)
    assert trees.read(taken.tree) == {b"b": text("claude") + BASE}
    assert actions(taken) == {"b": Action.MERGED}


async def test_anothers_rename_of_the_agents_new_name_stays(trees: Trees) -> None:
    steps: list[tuple[str, Files]] = [
        ("", {b"a": BASE}),
        ("codex", {b"b": BASE + text("codex")}),
        ("claude", {b"c": BASE + text("codex")}),
    ]
    taken, files = await trees.rewound(*steps)
    assert files == {b"c": BASE} and taken.conflicts == ()


async def test_a_rename_whose_old_name_is_in_use_is_a_conflict_of_both(trees: Trees) -> None:
    last = {b"a": text("something else by claude"), b"b": BASE}
    taken, files = await trees.rewound(("", {b"a": BASE}), ("codex", {b"b": BASE}), ("claude", last))
    assert files == last and taken.conflicts == ("a", "b")


async def test_a_rename_that_never_came_here_changes_nothing(trees: Trees) -> None:
    before, after = trees.write({b"a": BASE}), trees.write({b"b": BASE})
    main = trees.write({b"a": BASE + text("claude"), b"d": b"d"})
    taken = await trees.undo(main, [trees.event(before, after)])
    assert taken.tree == main and set(actions(taken).values()) <= {Action.KEPT, Action.CONFLICT}


async def test_binary_files_go_back_whole_or_not_at_all(trees: Trees) -> None:
    old, new, newer = b"\0old\n" * 9, b"\0new\n" * 9, b"\0new\n" * 9 + b"claude\n"
    taken, files = await trees.rewound(
        ("", {b"a": old, b"b": old}), ("codex", {b"a": new, b"b": new}), ("claude", {b"a": new, b"b": newer})
    )
    assert files == {b"a": old, b"b": newer}
    assert actions(taken) == {"a": Action.RESTORED, "b": Action.CONFLICT}


@pytest.mark.parametrize(
    ("before", "codex", "claude", "expected"),
    [
        (b"a\nb", b"a\nb\ncodex", b"claude\na\nb\ncodex", b"claude\na\nb"),
        (b"a\nb\n", b"a\nb", b"claude\na\nb", b"claude\na\nb\n"),
        (b"a", b"a\ncodex\n", b"a\ncodex\nclaude\n", b"a\nclaude\n"),
        (b"a\n", b"a\ncodex", b"a\ncodex\nclaude", b"a\nclaude\n"),
        (b"a\r\nb\r\n", b"a\r\nb\r\ncodex\r\n", b"A\r\nb\r\ncodex\r\n", b"A\r\nb\r\n"),
        (b"a\nb\n", b"a\r\nb\r\n", b"a\r\nb\r\nclaude\r\n", b"a\nb\nclaude\r\n"),
        (b"", b"codex\n", b"codex\nclaude\n", b"claude\n"),
        (b"a\n", b"", b"claude\n", None),
        (b"\n\n\n", b"\ncodex\n\n\n", b"\ncodex\n\n\nclaude\n", b"\n\n\nclaude\n"),
    ],
)
async def test_line_ends_are_kept(
    trees: Trees, before: bytes, codex: bytes, claude: bytes, expected: bytes | None
) -> None:
    taken, files = await trees.rewound(
        ("", {b"a": before}), ("codex", {b"a": codex}), ("claude", {b"a": claude})
    )
    assert files == {b"a": claude if expected is None else expected}
    assert taken.conflicts == (("a",) if expected is None else ())


async def test_a_file_that_the_agent_made_keeps_only_others_lines(trees: Trees) -> None:
    codex = text("codex", "codex too")
    taken, files = await trees.rewound(
        ("", {b"z": b""}),
        ("codex", {b"z": b"", b"a": codex, b"b": codex, b"empty": b""}),
        ("claude", {b"z": b"", b"a": codex + text("claude"), b"b": codex, b"empty": b""}),
    )
    assert files == {b"z": b"", b"a": text("claude")}
    assert actions(taken) == {"a": Action.MERGED, "b": Action.DELETED, "empty": Action.DELETED}


async def test_files_and_folders_of_one_name(trees: Trees) -> None:
    """A folder that the agent put in a file's place goes for the file, but not with another's file in it."""
    taken, files = await trees.rewound(
        ("", {b"a": BASE, b"b": BASE, b"c/d": BASE}),
        ("codex", {b"a/x": text("codex"), b"b/x": text("codex"), b"c": text("codex")}),
        (
            "claude",
            {b"a/x": text("codex"), b"b/x": text("codex"), b"b/y": text("claude"), b"c": text("codex")},
        ),
    )
    assert files == {b"a": BASE, b"b/y": text("claude"), b"c/d": BASE}
    assert taken.conflicts == ("b",)


async def test_names_of_every_kind(trees: Trees) -> None:
    names = [
        b"with space",
        b"with\nline",
        b'qu"ote',
        b"tab\t",
        b"*",
        b":(top)",
        b"\xff\xfe",
        b"d\xc3\xa9j\xc3\xa0",
        b"-x",
    ]
    names += [b"\\xff\\xfe", b"f\xff/\xfe"]
    first = {name: BASE for name in names} | {b"untouched\xff": b"u"}
    second = {name: BASE + text("codex") for name in names} | {b"untouched\xff": b"u", b"new\n\xff": b"n"}
    third = {**second, **{name: text("claude") + BASE + text("codex") for name in names[::2]}}
    taken, files = await trees.rewound(("", first), ("codex", second), ("claude", third))
    assert files == {**first, **{name: text("claude") + BASE for name in names[::2]}}
    assert len(taken.files) == len(names) + 1 and taken.conflicts == ()


async def test_without_the_events_trees_modes_are_those_that_stand(trees: Trees) -> None:
    """Snapshots go by policy; the blobs may be there still, as of commits."""
    first: dict[bytes, Content] = {b"run": ("100755", BASE), b"\xff": BASE}
    second: dict[bytes, Content] = {b"run": ("100755", BASE + text("codex")), b"\xff": BASE + text("codex")}
    before, after = trees.write(first), trees.write(second)
    event = replace(trees.event(before, after), before="1" * 40, after=None)
    taken = await trees.undo(after, [event])
    assert trees.read(taken.tree) == first


async def test_content_that_is_kept_nowhere_is_a_conflict(trees: Trees) -> None:
    before, after = trees.write({b"a": BASE}), trees.write({b"a": BASE, b"b": text("codex")})
    event = trees.event(before, after)
    gone = Touch("c", "1" * 40, None, Kind.DELETE)
    taken = await trees.undo(after, [replace(event, touches=(*event.touches, gone))])
    assert actions(taken) == {"b": Action.DELETED, "c": Action.CONFLICT} and taken.tree == before


async def test_nothing_of_a_persons_is_read_or_written(trees: Trees, tmp_path: Path) -> None:
    """No hook, filter, attribute or name of the repository's own plays a part; its files, index and refs stay."""
    repo = tmp_path / "repo"
    git(repo, "config", "filter.bad.clean", "touch ran; false")
    git(repo, "config", "diff.bad.command", "touch ran; false")
    (repo / ".gitattributes").write_text("* filter=bad diff=bad merge=bad text eol=crlf\n")
    index = (repo / ".git" / "index").read_bytes()
    before = git(repo, "for-each-ref")
    crlf = b"a\r\nb\r\n"
    taken, files = await trees.rewound(
        ("", {b"a": crlf}),
        ("codex", {b"a": crlf + b"codex\r\n"}),
        ("claude", {b"a": b"0\r\n" + crlf + b"codex\r\n"}),
    )
    assert files == {b"a": b"0\r\n" + crlf} and taken.conflicts == ()
    assert not list(tmp_path.rglob("ran"))
    assert (repo / ".git" / "index").read_bytes() == index and git(repo, "for-each-ref") == before
    assert sorted(path.name for path in repo.iterdir()) == [".git", ".gitattributes", "a.py", "b.py"]
    assert not list(trees.scratch.folder.glob("rewind-*"))


async def test_a_sha256_repository(tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    repo.mkdir()
    git(repo, "init", "-q", "--object-format=sha256")
    checkout, scratch = await open_checkout(repo), ScratchRepository(tmp_path / "scratch")
    await scratch.empty("sha256")
    trees = Trees(scratch, scratch.git(checkout))
    taken, files = await trees.rewound(
        ("", {b"a": BASE}),
        ("codex", {b"a": text("codex") + BASE}),
        ("claude", {b"a": text("codex") + BASE + b"x\n"}),
    )
    assert files == {b"a": BASE + b"x\n"} and actions(taken) == {"a": Action.MERGED}
