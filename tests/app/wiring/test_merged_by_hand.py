"""What a person brings onto the main branch with their own git stays the work of who wrote it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from subprocess import CalledProcessError
from typing import Literal

import pytest

from relay.app.wiring.merge_tools import MergeTools
from relay.config.merge import MergeSettings
from relay.faces.rewinds import RewindOrder, RewindService
from relay.log.events import Event
from relay.model import Refusal
from relay.timeline import reading
from relay.timeline.projection import UNCOMMITTED, rebuild
from tests.app.wiring.recorded_room import Q, RecordedRoom, touched
from tests.engines import BOTH, all_events
from tests.git.repository import commit, git

pytestmark = BOTH


@pytest.fixture
async def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[RecordedRoom]:
    for name in ("GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", "GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL"):
        monkeypatch.delenv(name, raising=False)
    opened = await RecordedRoom.open(tmp_path, "AVA", "BEN")
    git(opened.repo, "config", "user.name", "Ann")
    git(opened.repo, "config", "user.email", "ann@example.org")
    await opened.timeline.edits.look()
    yield opened
    await opened.close()


async def work(desk: RecordedRoom, agent: str, **files: str | None) -> Event:
    """A turn of the agent writes and commits these; its event."""
    plan = await desk.begin(agent)
    for name, content in files.items():
        path = desk.at(agent) / f"{name}.py"
        path.unlink() if content is None else path.write_text(content)
    git(desk.at(agent), "add", "-A")
    git(desk.at(agent), "commit", "-q", "-m", f"{agent} works")
    assert await desk.end(plan) is not None
    return (await desk.changed())[-1]


def branch(desk: RecordedRoom, agent: str) -> str:
    return desk.room.registry.worktrees[agent].branch


async def on_main(desk: RecordedRoom) -> list[Event]:
    """What is recorded of the main branch, once it was looked at; its trees follow upon each other."""
    assert await desk.timeline.edits.look()
    found = [event for event in await desk.changed() if event.outputs["worktree"] == "main"]
    assert all(later.inputs["tree"] == before.snapshot for before, later in pairwise(found))
    rows = await trees(desk)
    await rebuild(desk.store)
    assert await trees(desk) == rows
    assert rows[-1]["at_commit"] == git(desk.repo, "rev-parse", "main")
    assert git(desk.repo, "rev-parse", "main^{tree}") == rows[-1]["tree"]
    for event in found:
        assert git(desk.repo, "cat-file", "-t", str(event.snapshot)) == "tree"
    return found


async def trees(desk: RecordedRoom) -> list[dict[str, object]]:
    rows = await desk.store.read(lambda tx: tx.all(Q.all_trees))
    return [dict(row) for row in rows if row["worktree"] == "main"]


async def writers(desk: RecordedRoom) -> dict[str, str]:
    files = await desk.store.read(reading.workspace)
    return {file["path"]: file["by"].rpartition("/")[2].removeprefix("human:") for file in files}


async def rewound(desk: RecordedRoom, lane: str) -> list[str]:
    """What a rewind of this lane to the beginning takes out of the main branch."""
    rewinds = RewindService(desk.store, desk.room.registry, desk.timeline)
    start = (await all_events(desk.store))[0].pos
    answer = await rewinds.rewind(RewindOrder.of_person("Ann"), lane, f"#{start}", into="main", dry_run=True)
    return sorted(file["path"] for file in answer["files"] if file["before"] != file["after"])


def said(event: Event) -> str:
    """As the log has it."""
    return f"{reading.author(event)} {reading.words(event)}"


async def test_who_merged_by_relay_and_an_agents_own_commit_by_hand(desk: RecordedRoom) -> None:
    await work(desk, "AVA", a="AVA\n")
    await work(desk, "BEN", b="BEN\n")
    await desk.room.actions.merge("AVA", "Bea")
    await desk.tell()
    assert [said(event) for event in await on_main(desk)] == ["main wrote 1: AVA's work, merged by Bea"]
    merges = [
        event
        for event in await all_events(desk.store, "worktree.changed")
        if event.outputs["change"] == "merged"
    ]
    assert said(merges[0]) == f"AVA had its work merged into the main branch by Bea ({branch(desk, 'AVA')})"
    # A commit that is signed by the agent itself was not brought by it.
    git(
        desk.repo,
        "-c",
        "user.name=BEN",
        "-c",
        "user.email=b@x",
        "merge",
        "-q",
        "--squash",
        branch(desk, "BEN"),
    )
    git(desk.repo, "-c", "user.name=BEN", "-c", "user.email=b@x", "commit", "-q", "-m", "BEN's")
    assert said((await on_main(desk))[-1]) == "main wrote 1: BEN's work, merged by Ann"


async def test_a_fast_forward_is_no_work_of_who_merges(desk: RecordedRoom) -> None:
    first = await work(desk, "AVA", a="AVA\n")
    second = await work(desk, "AVA", a="AVA 2\n", b=None)
    git(desk.repo, "merge", "-q", "--ff-only", branch(desk, "AVA"))
    found = await on_main(desk)
    assert [(event.lane_key, event.outputs["source"]) for event in found] == [("room/main", "tree")] * 2
    assert [touched(event) for event in found] == [
        [("a.py", "write")],
        [("a.py", "write"), ("b.py", "delete")],
    ]
    assert [event.parents for event in found] == [(first.id,), (second.id,)]
    assert not any("unseen" in event.outputs for event in found)
    assert [said(event) for event in found] == [
        "main wrote 1: AVA's work, merged by Ann",
        "main wrote 1, deleted 1: AVA's work, merged by Ann",
    ]
    assert await writers(desk) == {"a.py": "AVA", "b.py": "AVA"}
    with pytest.raises(Refusal, match="Ann has changed no file"):
        await rewound(desk, "Ann")
    assert await rewound(desk, "AVA") == ["a.py", "b.py"]


async def test_a_merge_commit_has_the_agents_part_and_the_persons(desk: RecordedRoom) -> None:
    wrote = await work(desk, "AVA", a="AVA\n", new="new\n", sub="sub\n")
    ben = await work(desk, "BEN", ben="BEN\n", a="BEN\n")
    git(desk.repo, "merge", "-q", "--no-ff", "-m", "AVA's", branch(desk, "AVA"))
    with pytest.raises(Exception, match="exit status 1"):
        git(desk.repo, "merge", "-q", branch(desk, "BEN"))
    commit(desk.repo, {"a.py": "both\n"}, "BEN's, settled by hand")
    brought, bens, own = await on_main(desk)
    assert (brought.lane_key, brought.parents) == ("room/main", (wrote.id,))
    assert (bens.lane_key, touched(bens), bens.parents) == ("room/main", [("ben.py", "write")], (ben.id,))
    assert (own.lane_key, touched(own)) == ("room/human:Ann", [("a.py", "write")])
    assert bens.id in own.parents
    assert [said(each) for each in (brought, bens, own)] == [
        "main wrote 3: AVA's work, merged by Ann",
        "main wrote 1: BEN's work, merged by Ann",
        "Ann wrote 1",
    ]
    assert "unseen" not in own.outputs
    assert "commit" not in bens.outputs, "no commit has these files"
    assert await writers(desk) == {"a.py": "Ann", "ben.py": "BEN", "new.py": "AVA", "sub.py": "AVA"}
    assert await rewound(desk, "Ann") == ["a.py"]


async def test_what_git_merges_by_itself_is_no_work_of_who_merges(desk: RecordedRoom) -> None:
    body = "".join(f"{number}\n" for number in range(9))
    commit(desk.repo, {"long.py": body}, "long")
    await on_main(desk)
    wrote = await work(desk, "AVA", long=f"AVA\n{body}")
    commit(desk.repo, {"long.py": f"{body}Ann\n"}, "Ann's")
    git(desk.repo, "merge", "-q", "--no-ff", "-m", "AVA's", branch(desk, "AVA"))
    last = (await on_main(desk))[-1]
    assert (last.lane_key, touched(last), last.parents) == ("room/main", [("long.py", "write")], (wrote.id,))


@pytest.mark.parametrize("looked", [False, True])
async def test_a_squash_keeps_its_authors(desk: RecordedRoom, looked: bool) -> None:
    wrote = await work(desk, "AVA", a="AVA\n")
    git(desk.repo, "merge", "-q", "--squash", branch(desk, "AVA"))
    (desk.repo / "b.py").write_text("Ann\n")
    if looked:
        assert await desk.timeline.edits.look()
        brought, own = [event for event in await desk.changed() if event.outputs["worktree"] == UNCOMMITTED]
        assert (brought.lane_key, touched(brought)) == ("room/main", [("a.py", "write")])
        assert brought.parents == (wrote.id,)
        assert (own.lane_key, touched(own)) == ("room/human:Ann", [("b.py", "write")])
        assert own.inputs["tree"] == brought.snapshot
    git(desk.repo, "commit", "-qam", "squashed")
    carried, own = await on_main(desk)
    assert (carried.lane_key, own.lane_key) == ("room/main", "room/human:Ann")
    assert (
        (touched(carried), touched(own)) == ([], []) if looked else ([("a.py", "write")], [("b.py", "write")])
    )
    assert await writers(desk) == {"a.py": "AVA", "b.py": "Ann"}
    assert await rewound(desk, "Ann") == ["b.py"]
    assert await rewound(desk, "AVA") == ["a.py"]


async def test_a_cherry_pick_on_top_of_others_keeps_its_author(desk: RecordedRoom) -> None:
    wrote = await work(desk, "AVA", new="AVA\n")
    commit(desk.repo, {"b.py": "Ann\n"}, "Ann's")
    git(desk.repo, "cherry-pick", branch(desk, "AVA"))
    ann, picked = await on_main(desk)
    assert ann.lane_key == "room/human:Ann"
    assert (picked.lane_key, picked.parents) == ("room/main", (wrote.id,))


async def test_a_branch_that_took_main_in_takes_nothing_out(desk: RecordedRoom) -> None:
    await work(desk, "AVA", new="AVA\n")
    commit(desk.repo, {"b.py": "Ann\n"}, "Ann's")
    await on_main(desk)
    git(desk.at("AVA"), "merge", "-q", "-m", "main", "main")
    git(desk.repo, "merge", "-q", "--ff-only", branch(desk, "AVA"))
    ann, brought = await on_main(desk)
    assert (ann.lane_key, touched(ann)) == ("room/human:Ann", [("b.py", "write")])
    assert (brought.lane_key, touched(brought)) == ("room/main", [("new.py", "write")])


async def test_what_a_person_writes_again_is_the_persons(desk: RecordedRoom) -> None:
    await work(desk, "AVA", a="AVA\n")
    git(desk.repo, "merge", "-q", "--ff-only", branch(desk, "AVA"))
    await on_main(desk)
    commit(desk.repo, {"a.py": "Ann\n"}, "Ann's")
    git(desk.repo, "revert", "--no-edit", "HEAD")
    assert [event.lane_key for event in await on_main(desk)] == ["room/main", *["room/human:Ann"] * 2]
    (desk.repo / "a.py").chmod(0o755)
    git(desk.repo, "commit", "-qam", "executable")
    assert (await on_main(desk))[-1].lane_key == "room/human:Ann"


async def test_a_conflict_that_relay_began_is_nobodys_write(desk: RecordedRoom) -> None:
    await work(desk, "AVA", a="AVA\n")
    commit(desk.repo, {"a.py": "Ann\n"}, "Ann's")
    count = len(await on_main(desk)) + 1
    place = await desk.room.turns.before_turn("AVA", take_main=True)
    assert place is not None and "<<<<<<<" in (desk.at("AVA") / "a.py").read_text()
    await desk.room.turns.after_turn("AVA")
    await desk.begin("AVA")
    assert len([event for event in await desk.changed() if event.lane != "AVA"]) + 1 == count
    read = (await all_events(desk.store, "files.read"))[-1]
    assert (read.lane, read.outputs["paths"], read.outputs["source"]) == ("AVA", ["a.py"], "merge")


@pytest.mark.parametrize("ladder", ["on", "git"])
async def test_a_file_that_relay_joins_in_a_merge_by_hand_stays_the_agents(
    desk: RecordedRoom, ladder: Literal["on", "git"]
) -> None:
    """As git's merge driver does it (`relay merge install`); without the ladder it is of who merged."""
    base = "import os\n\n\ndef one():\n    return os.name\n"
    commit(desk.repo, {"j.py": base})
    write = await work(desk, "AVA", j=base.replace("import os\n", "import ast\nimport os\n"))
    commit(desk.repo, {"j.py": base.replace("import os\n", "import json\nimport os\n")})
    await on_main(desk)
    tools = MergeTools(lambda: MergeSettings(ladder=ladder))
    desk.room.join = tools.join  # type: ignore[method-assign]
    with pytest.raises(CalledProcessError):
        git(desk.repo, "merge", "-q", branch(desk, "AVA"))
    both = base.replace("import os\n", "import ast\nimport json\nimport os\n")
    commit(desk.repo, {"j.py": both}, "merged")
    try:
        last = (await on_main(desk))[-1]
    finally:
        await tools.close()
    assert [touch["path"] for touch in last.outputs["touches"]] == ["j.py"]
    if ladder == "on":
        assert (last.outputs["merged"], write.id in last.parents) == ({"of": ["AVA"], "by": "Ann"}, True)
    else:
        assert "merged" not in last.outputs and last.lane == "human:Ann"
