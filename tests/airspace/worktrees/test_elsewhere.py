"""Work of agents of other members, tried with the main branch here where theirs is behind it."""

from __future__ import annotations

from pathlib import Path

from relay.airspace.shared.shared_work import SharedWork
from relay.git.trial_merge import Target, Trial, Verdict
from tests.git.repository import Room, commit, git, repository


async def test_what_a_member_told_before_main_moved_is_tried_anew(tmp_path: Path) -> None:
    folder = repository(tmp_path / "repo", {"app.py": "x = 1\n"})
    room = await Room(folder, "AVA").open()
    base = git(folder, "rev-parse", "main")
    git(folder, "checkout", "-q", "-b", "side")
    commit(folder, {"app.py": "x = 2\n"})
    work = git(folder, "rev-parse", "side")
    git(folder, "checkout", "-q", "main")
    commit(folder, {"app.py": "x = 3\n"})
    target = Target("main", git(folder, "rev-parse", "main"))
    told = SharedWork(
        "BRAVO", commit=work, target=Target("main", base), trial=Trial(Verdict.CLEAN), at_hand=True
    )
    trials = room.registry.merge_trials
    trials.others = {"BRAVO": told}
    found = await trials.elsewhere(target)
    assert (found["BRAVO"].verdict, found["BRAVO"].paths) == (Verdict.CONFLICTS, ("app.py",))
    # Its work has landed.
    git(folder, "merge", "-q", "-s", "ours", "side")
    found = await trials.elsewhere(Target("main", git(folder, "rev-parse", "main")))
    assert found["BRAVO"].verdict is Verdict.NOTHING
    # Where its main branch is the same, or another one that has parted, its member's word stands.
    assert await trials.elsewhere(Target("main", base)) == {}
    git(folder, "checkout", "-q", "--orphan", "other")
    commit(folder, {"app.py": "x = 4\n"})
    assert await trials.elsewhere(Target("main", git(folder, "rev-parse", "other"))) == {}
