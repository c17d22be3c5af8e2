"""What the trailers of commits say comes with the commit's event, and knowledge is made of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from relay.app.wiring import main_commits
from relay.app.wiring.main_commits import MOST_COMMITS
from relay.log.events import Event
from relay.memory.knowledge.entry import Kind
from relay.memory.knowledge.extractors import extract
from tests.app.wiring.recorded_room import RecordedRoom
from tests.engines import BOTH, all_events
from tests.git.repository import git

pytestmark = BOTH


@pytest.fixture
async def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[RecordedRoom]:
    for name in ("GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", "GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL"):
        monkeypatch.delenv(name, raising=False)
    opened = await RecordedRoom.open(tmp_path, "AVA")
    git(opened.repo, "config", "user.name", "Ann")
    git(opened.repo, "config", "user.email", "ann@example.org")
    await opened.timeline.edits.look()
    yield opened
    await opened.close()


async def test_a_persons_commit(desk: RecordedRoom) -> None:
    (desk.repo / "a.py").write_text("three\n")
    trailers = "Decision: use PostgreSQL\nBecause: rows are\n locked\nSigned-off-by: Ann <ann@example.org>"
    git(desk.repo, "commit", "-qam", f"Change a\n\nDecision: no trailer, since prose follows.\n\n{trailers}")
    await desk.timeline.catch_up()
    event = (await desk.changed())[-1]
    assert event.outputs["trailers"] == [["Decision", "use PostgreSQL"], ["Because", "rows are locked"]]
    decision = extract(event).drafts[-1]
    assert (decision.kind, decision.content, decision.rationale) == (
        Kind.DECISION,
        "use PostgreSQL",
        "rows are locked",
    )
    assert (decision.agent, decision.files) == ("Ann", ("a.py",))
    (desk.repo / "a.py").write_text("four\n")
    git(desk.repo, "commit", "-qam", "Change a again")
    await desk.timeline.catch_up()
    assert "trailers" not in (await desk.changed())[-1].outputs


async def test_a_merge_brings_what_the_agents_commits_say(desk: RecordedRoom) -> None:
    plan = await desk.begin("AVA")
    (desk.at("AVA") / "b.py").write_text("new\n")
    git(desk.at("AVA"), "commit", "-qam", "Change b\n\nConstraint: b stays small")
    await desk.end(plan)
    branch = desk.room.registry.worktrees["AVA"].branch
    git(desk.repo, "merge", "-q", "--no-ff", branch, "-m", "Merge\n\nFixes: #12")
    await desk.timeline.catch_up()
    main = [event for event in await desk.changed() if event.outputs["worktree"] == "main"]
    found = [draft for event in main for draft in extract(event).drafts]
    assert {(draft.kind, draft.content) for draft in found} >= {
        (Kind.CONSTRAINT, "b stays small"),
        (Kind.SOLUTION, "Fixes #12"),
    }
    assert next(draft for draft in found if draft.kind is Kind.CONSTRAINT).agent == "AVA"


def said(events: Sequence[Event]) -> list[str]:
    """What the trailers of these say, in their order."""
    drafts = [draft for event in events for draft in extract(event).drafts]
    return [draft.content for draft in drafts if draft.kind is not Kind.FACT]


async def new_of(desk: RecordedRoom) -> list[Event]:
    """The events of what came onto the main branch since the last look; the log and its tables are whole."""
    known = await all_events(desk.store)
    await desk.timeline.catch_up()
    await desk.changed()
    return (await all_events(desk.store))[len(known) :]


def commits(desk: RecordedRoom, count: int, kind: str) -> None:
    """So many commits, each with a trailer, on the branch of the main checkout."""
    tree = git(desk.repo, "rev-parse", "HEAD^{tree}").strip()
    head = git(desk.repo, "rev-parse", "HEAD").strip()
    for at in range(count):
        head = git(
            desk.repo, "commit-tree", tree, "-p", head, "-m", f"n\n\n{kind}: number {at} holds"
        ).strip()
    git(desk.repo, "reset", "-q", "--hard", head)


async def test_an_amended_commit(desk: RecordedRoom) -> None:
    (desk.repo / "a.py").write_text("three\n")
    git(desk.repo, "commit", "-qam", "Change a\n\nDecision: use tabs")
    assert said(await new_of(desk)) == ["use tabs"]
    git(desk.repo, "commit", "-q", "--amend", "-m", "Change a\n\nDecision: use spaces")
    assert said(await new_of(desk)) == ["use spaces"]
    (desk.repo / "a.py").write_text("four\n")
    git(desk.repo, "commit", "-qa", "--amend", "-m", "Change a\n\nDecision: use one tab")
    assert said(await new_of(desk)) == ["use one tab"]
    git(desk.repo, "commit", "-q", "--amend", "-m", "Change a, in other words\n\nDecision: use one tab")
    assert said(await new_of(desk)) == []


async def test_a_commit_that_changes_no_file(desk: RecordedRoom) -> None:
    git(desk.repo, "commit", "-q", "--allow-empty", "-m", "Say\n\nDecision: use tabs\nBecause: of diffs")
    (event,) = await new_of(desk)
    (decision,) = extract(event).drafts
    assert (decision.agent, decision.content, decision.rationale) == ("Ann", "use tabs", "of diffs")
    assert decision.files == ()


async def test_a_pull_with_a_rebase(desk: RecordedRoom) -> None:
    git(desk.repo, "branch", "upstream")
    (desk.repo / "a.py").write_text("three\n")
    git(desk.repo, "commit", "-qam", "Change a\n\nDecision: mine")
    assert said(await new_of(desk)) == ["mine"]
    other = desk.repo.parent / "other"
    git(desk.repo.parent, "clone", "-q", "-b", "upstream", str(desk.repo), str(other))
    (other / "b.py").write_text("two\n")
    git(other, "-c", "user.name=Bob", "-c", "user.email=b@x.org", "commit", "-qam", "B\n\nDecision: theirs")
    git(desk.repo, "pull", "-q", "--rebase", str(other), "upstream")
    assert said(await new_of(desk)) == ["theirs"]


async def test_a_fast_forward_to_a_branch_that_had_taken_main_in(desk: RecordedRoom) -> None:
    main = git(desk.repo, "symbolic-ref", "--short", "HEAD").strip()
    other = desk.repo.parent / "other"
    git(desk.repo, "worktree", "add", "-q", "-b", "feature", str(other))
    (other / "b.py").write_text("two\n")
    git(other, "commit", "-qam", "Change b\n\nDecision: of the feature")
    (desk.repo / "a.py").write_text("three\n")
    git(desk.repo, "commit", "-qam", "Change a\n\nDecision: of main")
    assert said(await new_of(desk)) == ["of main"]
    git(other, "merge", "-q", "--no-ff", "-m", "Take main in\n\nConstraint: both stay", main)
    git(desk.repo, "merge", "-q", "--ff-only", "feature")
    assert said(await new_of(desk)) == ["of the feature", "both stay"]


async def test_a_fast_forward_over_many_commits(desk: RecordedRoom) -> None:
    commits(desk, MOST_COMMITS + 5, "Constraint")
    assert said(await new_of(desk)) == [f"number {at} holds" for at in range(MOST_COMMITS + 5)]


async def test_a_merge_of_many_commits(desk: RecordedRoom) -> None:
    main = git(desk.repo, "symbolic-ref", "--short", "HEAD").strip()
    git(desk.repo, "checkout", "-q", "-b", "many")
    commits(desk, 60, "Constraint")
    git(desk.repo, "checkout", "-q", main)
    git(desk.repo, "merge", "-q", "--no-ff", "-m", "Merge many", "many")
    assert said(await new_of(desk)) == [f"number {at} holds" for at in range(60)]


async def test_a_commit_that_comes_again(desk: RecordedRoom) -> None:
    main = git(desk.repo, "symbolic-ref", "--short", "HEAD").strip()
    git(desk.repo, "branch", "theirs")
    git(desk.repo, "commit", "-q", "--allow-empty", "-m", "Say\n\nDecision: use tabs")
    assert said(await new_of(desk)) == ["use tabs"]
    git(desk.repo, "reset", "-q", "--hard", "HEAD~1")
    assert said(await new_of(desk)) == []
    git(desk.repo, "reset", "-q", "--hard", "ORIG_HEAD")
    assert said(await new_of(desk)) == []
    # What was only looked at on another branch was not heard.
    git(desk.repo, "checkout", "-q", "theirs")
    git(desk.repo, "commit", "-q", "--allow-empty", "-m", "Say\n\nDecision: seen")
    git(desk.repo, "checkout", "-q", main)
    git(desk.repo, "checkout", "-q", "theirs")
    assert said(await new_of(desk)) == []
    git(desk.repo, "commit", "-q", "--allow-empty", "-m", "Say\n\nDecision: made there")
    assert said(await new_of(desk)) == ["made there"]
    git(desk.repo, "checkout", "-q", main)
    git(desk.repo, "merge", "-q", "--no-ff", "-m", "Merge\n\nDecision: merge", "theirs")
    assert said(await new_of(desk)) == ["seen", "merge"]


async def test_of_very_many_commits_the_newest_say_something(
    desk: RecordedRoom, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(main_commits, "MOST_READ", 20)
    monkeypatch.setattr(main_commits, "MOST_COMMITS", 10)
    commits(desk, 30, "Constraint")
    assert said(await new_of(desk)) == [f"number {at} holds" for at in range(10, 30)]


async def test_a_commit_that_git_has_let_go_of(desk: RecordedRoom) -> None:
    git(desk.repo, "commit", "-q", "--allow-empty", "-m", "Say\n\nDecision: use tabs")
    assert said(await new_of(desk)) == ["use tabs"]
    git(desk.repo, "commit", "-q", "--amend", "--allow-empty", "-m", "Say\n\nDecision: use spaces")
    git(desk.repo, "reflog", "expire", "--expire=now", "--all")
    git(desk.repo, "gc", "-q", "--prune=now")
    assert said(await new_of(desk)) == []
    git(desk.repo, "commit", "-q", "--allow-empty", "-m", "Say\n\nDecision: use one tab")
    assert said(await new_of(desk)) == ["use one tab"]
