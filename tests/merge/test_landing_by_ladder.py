"""Merges of worktrees where git conflicts and the ladder does not: what is predicted, shown, tested and landed."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from relay.airspace.worktrees.merging.proposal import MergeOptions
from relay.airspace.worktrees.room import MergeTest
from relay.airspace.worktrees.view import rows
from relay.app.wiring.merge_tools import MergeTools
from relay.app.wiring.schema import SCHEMAS
from relay.config.merge import MergeSettings
from relay.git.run import Git
from relay.git.trial_merge import Merge
from relay.model import Refusal
from relay.store.open import open_store
from tests.git.repository import Room, commit, git, repository, write

BASE = """import json
import sys


def load(path):
    return json.load(open(path))


def main():
    print(load(sys.argv[1]))
"""
AVA = (
    BASE.replace("import json\n", "import csv\nimport json\n")
    + "\n\ndef rows(path):\n    return list(csv.reader(open(path)))\n"
)
BEN = (
    BASE.replace("import json\n", "import ast\nimport json\n")
    + "\n\ndef names(text):\n    return ast.parse(text)\n"
)
#: Both change the same statement.
CEY = BASE.replace("return json.load(open(path))", "return json.loads(open(path).read())")
DAN = BASE.replace("return json.load(open(path))", "return json.load(open(path, encoding='utf-8'))")


class JoiningRoom(Room):
    """A room that joins, and tests merged trees by a real command."""

    merge = MergeSettings()
    store: Any = None

    async def join(self, git: Git, ours: str, theirs: str, merge: Merge) -> Merge:
        return await self.tools.join(git, ours, theirs, merge)

    async def warnings(self, git: Git, ours: str, theirs: str) -> Sequence[str]:
        return await self.tools.warnings(git, ours, theirs)

    async def test(self, git: Git, tree: str) -> MergeTest | None:
        return await self.tools.test(self.store, git, self.folder / ".relay" / "checks", tree)


Open = Callable[..., Awaitable[JoiningRoom]]


@pytest.fixture
async def open_joining(tmp_path: Path) -> AsyncIterator[Open]:
    opened: list[JoiningRoom] = []

    async def open_room(**merge: Any) -> JoiningRoom:
        folder = repository(tmp_path / "repo", {"tool.py": BASE, "other.py": "x = 1\n"})
        one = JoiningRoom(folder, "AVA", "BEN")
        one.merge = MergeSettings(**merge)
        one.tools = MergeTools(lambda: one.merge)
        one.store = await open_store(one.settings, SCHEMAS)
        opened.append(one)
        return await one.open()  # type: ignore[return-value]

    yield open_room
    for one in opened:
        await one.tools.close()
        await one.store.close()


async def both(one: JoiningRoom, ava: str, ben: str) -> None:
    """Each has changed the file in its worktree."""
    for agent, text in (("AVA", ava), ("BEN", ben)):
        write(one.at(agent), {"tool.py": text})
    await one.look()


async def row(one: JoiningRoom, agent: str) -> dict[str, Any]:
    shown, _ = await rows(one.registry)
    return next(row for row in shown if row["agent"] == agent)


def landed(one: JoiningRoom) -> str:
    return git(one.folder, "show", "main:tool.py") + "\n"


async def test_what_is_predicted_is_shown_and_lands_when_it_was_seen(open_joining: Open) -> None:
    one = await open_joining()
    await both(one, AVA, BEN)
    ben = await row(one, "BEN")
    assert (ben["merges"], ben["collides"]) == ("clean", [])
    assert [(hit["agent"], hit["files"][0]["path"]) for hit in ben["joins"]] == [("AVA", "tool.py")]
    await one.actions.merge("AVA", "ann")
    await one.look()
    ben = await row(one, "BEN")
    assert (ben["merges"], ben["conflicts"]) == ("joins", [])
    assert ben["joined"][0]["path"] == "tool.py" and ben["joined"][0]["by"]
    # Nobody has seen it, so it does not land; what it says leads to what shows it.
    before = git(one.folder, "rev-parse", "main")
    with pytest.raises(
        Refusal, match="Nothing is merged yet: relay joins 1 file in which git conflicts"
    ) as not_yet:
        await one.actions.merge("BEN", "ann")
    shown = await one.actions.propose("BEN", "ann", MergeOptions())
    assert f"--joined {shown['tree'][:12]}" in not_yet.value.fix
    assert shown["joined"] == ben["joined"]
    assert "+import ast" in shown["diff"] and "+def names(text):" in shown["diff"]
    assert git(one.folder, "rev-parse", "main") == before
    done = await one.actions.merge("BEN", "ann", MergeOptions(joined=shown["tree"][:12]))
    assert done["joined"] == ben["joined"] and "relay joined tool.py by" in done["reason"]
    text = landed(one)
    for line in (
        "import ast",
        "import csv",
        "import json",
        "import sys",
        "def rows(path):",
        "def names(text):",
    ):
        assert text.count(line + "\n") == 1, line
    compile(text, "tool.py", "exec")
    assert git(one.folder, "rev-parse", "main^{tree}") == shown["tree"]
    change = one.happened[-1]
    assert change.what == "merged" and change.details["joined"] == ben["joined"]
    # Both are on the main branch now, and the files of the main checkout and of the worktree are its.
    assert (one.folder / "tool.py").read_text() == (one.at("BEN") / "tool.py").read_text() == text


async def test_what_was_seen_and_is_another_now_does_not_land(open_joining: Open) -> None:
    one = await open_joining()
    await both(one, AVA, BEN)
    await one.actions.merge("AVA", "ann")
    await one.look()
    shown = await one.actions.propose("BEN", "ann", MergeOptions())
    commit(one.folder, {"other.py": "x = 2\n"})
    with pytest.raises(Refusal, match="what relay joins has changed since it was shown"):
        await one.actions.merge("BEN", "ann", MergeOptions(joined=shown["tree"]))
    with pytest.raises(Refusal, match="Nothing is merged yet"):
        await one.actions.merge("BEN", "ann", MergeOptions(joined=""))
    with pytest.raises(Refusal, match="has changed since it was shown"):
        await one.actions.merge("BEN", "ann", MergeOptions(joined="abc"))


@pytest.mark.parametrize("passes", [True, False])
async def test_with_tests_it_lands_by_itself_when_they_pass(open_joining: Open, passes: bool) -> None:
    code = "import tool; tool.names('1'); tool.rows" + (
        "" if passes else "; raise SystemExit('rows is broken\\nno row is whole')"
    )
    one = await open_joining(test=(sys.executable, "-c", code))
    await both(one, AVA, BEN)
    await one.actions.merge("AVA", "ann")
    await one.look()
    before = git(one.folder, "rev-parse", "main")
    if passes:
        done = await one.actions.merge("BEN", "ann")
        assert done["joined"] and "def names(text):" in landed(one)
        return
    with pytest.raises(
        Refusal, match="the tests fail on the merged tree: exit code 1\nrows is broken\nno row is whole"
    ):
        await one.actions.merge("BEN", "ann")
    assert git(one.folder, "rev-parse", "main") == before
    # To have looked at it is no test; a person may want it all the same, and says so.
    shown = await one.actions.propose("BEN", "ann", MergeOptions())
    with pytest.raises(Refusal, match="the tests fail on the merged tree") as failing:
        await one.actions.merge("BEN", "ann", MergeOptions(joined=shown["tree"]))
    assert failing.value.code == "tests_failed" and "--untested" in failing.value.fix
    wanted = MergeOptions(joined=shown["tree"], untested=True)
    assert (await one.actions.merge("BEN", "ann", wanted))["success"]


async def test_two_edits_of_one_statement_stay_a_conflict(open_joining: Open) -> None:
    one = await open_joining()
    await both(one, CEY, DAN)
    ben = await row(one, "BEN")
    assert ben["collides"] == [{"agent": "AVA", "paths": ["tool.py"]}] and ben["joins"] == []
    await one.actions.merge("AVA", "ann")
    await one.look()
    assert (await row(one, "BEN"))["merges"] == "conflicts"
    with pytest.raises(Refusal, match=r"conflict in tool\.py"):
        await one.actions.merge("BEN", "ann")


async def test_with_the_ladder_switched_off_gits_answer_stands(open_joining: Open) -> None:
    one = await open_joining(ladder="git")
    await both(one, AVA, BEN)
    assert (await row(one, "BEN"))["collides"] == [{"agent": "AVA", "paths": ["tool.py"]}]
    await one.actions.merge("AVA", "ann")
    await one.look()
    with pytest.raises(Refusal, match=r"conflict in tool\.py"):
        await one.actions.merge("BEN", "ann")


async def test_a_joiner_that_dies_or_is_too_slow_leaves_gits_answer(open_joining: Open) -> None:
    one = await open_joining(timeout_ms=1)
    await both(one, AVA, BEN)
    assert (await row(one, "BEN"))["collides"] == [{"agent": "AVA", "paths": ["tool.py"]}]


async def test_taking_main_in_joins_too(open_joining: Open) -> None:
    one = await open_joining()
    await both(one, AVA, BEN)
    await one.actions.merge("AVA", "ann")
    await one.look()
    worktree = one.registry.worktrees["BEN"]
    async with worktree.lock:
        told = await one.branch_updates.take(
            worktree, await worktree.take_snapshot(everything=True), begin=True
        )
    assert "relay joined tool.py by" in told and "Look at these files" in told
    text = (one.at("BEN") / "tool.py").read_text()
    assert "import csv\n" in text and "import ast\n" in text and "<<<<" not in text
    assert git(one.at("BEN"), "status", "--porcelain") == ""
    assert one.happened[-1].what == "taken_in" and "it joined tool.py by" in one.happened[-1].text
    await one.look()
    assert (await row(one, "BEN"))["merges"] == "clean"


async def test_a_merge_is_taken_back_as_one_and_can_land_again(open_joining: Open) -> None:
    one = await open_joining()
    await both(one, AVA, BEN)
    await one.actions.merge("AVA", "ann")
    await one.look()
    shown = await one.actions.propose("BEN", "ann", MergeOptions())
    done = await one.actions.merge("BEN", "ann", MergeOptions(joined=shown["tree"]))
    later = commit(one.folder, {"other.py": "x = 2\n"})
    back = await one.actions.take_back("BEN", "cat", done["commit"][:10])
    assert "cat took back the merge" in back["reason"] and "has it again" in back["reason"]
    # The person, who need not be the one that git knows here.
    assert git(one.folder, "log", "-1", "--format=%an <%ae>", "main") == "cat <cat@relay>"
    assert landed(one) == AVA and git(one.folder, "show", "main:other.py") == "x = 2"
    assert git(one.folder, "merge-base", "--is-ancestor", later, "main") == ""
    assert (one.folder / "tool.py").read_text() == AVA
    assert git(one.folder, "status", "--porcelain", "--untracked-files=no") == ""
    # BEN has the work, and it lands as it is.
    assert "import ast" in (one.at("BEN") / "tool.py").read_text()
    await one.look()
    assert (await row(one, "BEN"))["merges"] == "clean"
    with pytest.raises(Refusal, match="has nothing of the merge"):
        await one.actions.take_back("BEN", "ann", done["commit"])
    done = await one.actions.merge("BEN", "ann")
    assert "def names(text):" in landed(one) and "def rows(path):" in landed(one)
    # The main branch does not need the files of whom is at work.
    one.registry.turn_trees["BEN"] = "tree"
    before = git(one.at("BEN"), "rev-parse", "HEAD")
    back = await one.actions.take_back("BEN", "ann", done["commit"])
    assert f"it is kept in `{back['kept']}`, since BEN is at work." in back["reason"] and landed(one) == AVA
    assert (git(one.at("BEN"), "rev-parse", "HEAD"), git(one.at("BEN"), "status", "--porcelain")) == (
        before,
        "",
    )
    del one.registry.turn_trees["BEN"]
    with pytest.raises(Refusal, match="There is no commit 1234567"):
        await one.actions.take_back("BEN", "ann", "1234567")


async def test_only_a_merge_of_that_agents_work_is_taken_back(open_joining: Open) -> None:
    one = await open_joining()
    await both(one, AVA, BASE)
    write(one.at("BEN"), {"other.py": "x = 3\n"})
    await one.look()
    merged = (await one.actions.merge("AVA", "ann"))["commit"]
    mine = commit(one.folder, {"mine.py": "y = 1\n"})
    work = git(one.folder, "rev-parse", f"{merged}^2")
    for agent, wrong in (("BEN", merged), ("AVA", mine), ("AVA", work)):
        with pytest.raises(Refusal, match=rf"{wrong[:9]} is no merge of {agent}'s work into main"):
            await one.actions.take_back(agent, "ann", wrong)
    back = await one.actions.take_back("AVA", "ann", merged)
    with pytest.raises(Refusal, match="is no merge of AVA's work"):
        await one.actions.take_back("AVA", "ann", back["commit"])
    assert git(one.folder, "show", "main:mine.py") == "y = 1"


async def test_a_merge_on_which_later_work_stands_is_not_taken_back(open_joining: Open) -> None:
    one = await open_joining()
    write(one.at("AVA"), {"tool.py": AVA})
    await one.look()
    done = await one.actions.merge("AVA", "ann")
    head = commit(one.folder, {"tool.py": AVA.replace("csv.reader", "csv.DictReader")})
    with pytest.raises(Refusal, match=r"Later work stands on what the merge brought: tool\.py"):
        await one.actions.take_back("AVA", "ann", done["commit"])
    assert git(one.folder, "rev-parse", "main") == head


#: Both add one method, far from each other: git sees two additions.
DOUBLED = (
    "class Cart:\n    def first(self):\n        return 1\n{}\n    def middle(self):\n        return 2\n\n"
)
DOUBLED += "    def last(self):\n        return 3\n{}"
METHOD = "\n    def size(self):\n        return {}\n"


async def test_what_git_merges_cleanly_and_wrongly_is_a_hazard_on_landing(open_joining: Open) -> None:
    one = await open_joining()
    commit(one.folder, {"cart.py": DOUBLED.format("", "")})
    for agent, spots in (("AVA", (METHOD.format(0), "")), ("BEN", ("", METHOD.format(1)))):
        git(one.at(agent), "merge", "-q", "main")
        commit(one.at(agent), {"cart.py": DOUBLED.format(*spots)}, f"{agent}'s size")
    await one.look()
    assert (await one.actions.merge("AVA", "ann"))["warnings"] == []
    await one.look()
    assert (await row(one, "BEN"))["merges"] == "clean", "git's answer stands"
    shown = await one.actions.propose("BEN", "ann", MergeOptions())
    assert shown["warnings"] == ["cart.py: defined more often than on either side: class Cart / def size"]
    done = await one.actions.merge("BEN", "ann")
    assert done["warnings"] == shown["warnings"]
    assert "yet look at cart.py: defined more often than on either side" in done["reason"]
