"""What the trailers of commits say comes with the commit's event, and knowledge is made of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from relay.memory.knowledge.entry import Kind
from relay.memory.knowledge.extractors import extract
from tests.app.wiring.recorded_room import RecordedRoom
from tests.engines import BOTH
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
