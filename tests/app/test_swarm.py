"""The swarm's codebase and items fit together, and what is counted of a run is what git says of it."""

from __future__ import annotations

import argparse
import io
import random
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from relay.app.demo import story
from relay.app.demo.narrator import console_of
from relay.app.demo.stage import commit_codebase
from relay.app.demo.swarm import alone
from relay.app.demo.swarm.codebase import TESTS, Item, Step, change, files, items, stands
from relay.app.demo.swarm.found import Found, conflicts, look
from relay.app.demo.swarm.outcome import Ran, meaning, table, went_well
from relay.app.demo.swarm.progress import Progress
from relay.app.demo.swarm.workplace import Refused, Workplace, git


def test_a_seed_makes_the_same_work_and_another_seed_other_work() -> None:
    assert items(7, 50) == items(7, 50) != items(8, 50)
    assert [Item.of(item.as_json()) for item in items(7, 50)] == items(7, 50)
    assert len({item.name for item in items(7, 200)}) == 200
    touched = [path for item in items(1, 200) for path in item.files]
    assert {len(item.steps) for item in items(1, 200)} == {1, 2, 3}
    assert len(touched) > 5 * len({*touched})  # they overlap, or nothing could go wrong


@pytest.mark.parametrize("seed", [1, 2])
def test_all_items_go_together_in_any_order(tmp_path: Path, seed: int) -> None:
    """So what goes wrong in a run comes from how it was put together."""
    write(tmp_path, files())
    work = items(seed, 200)
    random.Random(seed).shuffle(work)
    for item in work:
        assert not stands(item, reader(tmp_path))
        for path in item.files:
            place = tmp_path / path
            place.write_text(change(item, path, place.read_text()))
        assert stands(item, reader(tmp_path))
    assert all(stands(item, reader(tmp_path)) for item in work)
    assert passes(tmp_path)


def test_a_change_that_is_half_there_does_not_stand(tmp_path: Path) -> None:
    write(tmp_path, files())
    item = Item(1, "quick_box", 5, (step("read"), step("show")), "math", TABLE, TEST)
    for path in item.files:
        (tmp_path / path).write_text(change(item, path, (tmp_path / path).read_text()))
    for path, text in (
        (LINES, '    order["quick_box"] = 5\n'),
        (TABLE, '    ("quick_box", 1),\n'),
        (TEST, "    def test_quick_box(self):\n"),
    ):
        whole = (tmp_path / path).read_text()
        (tmp_path / path).write_text(whole.replace(text, "", 1))
        assert not stands(item, reader(tmp_path))
        (tmp_path / path).write_text(whole)
    assert stands(item, reader(tmp_path))


def test_rows_of_two_branches_merge_without_a_word_and_break_the_tests(tmp_path: Path) -> None:
    """What no text merge sees: both take the next number."""
    code, place = checkouts(tmp_path)
    for known in ("bulky_jar", "local_jar", "rare_jar"):
        done(place, "main", Item(1, known, 1, (step("read"),), "", TABLE, TEST), known)
        git(code, "merge", "-q", "--ff-only", known)
    first = done(place, "main", Item(2, "early_jar", 1, (step("check"),), "", TABLE, other("gifts")), "first")
    second = done(
        place, "main", Item(3, "plain_jar", 1, (step("show"),), "", TABLE, other("limits")), "second"
    )
    assert not conflicts(code, first, second)
    git(place.folder, "merge", "-q", "--no-edit", "first")
    assert not passes(place.folder)


def test_a_conflict_is_given_up_and_counted(tmp_path: Path) -> None:
    """Somebody else lands in the same function while an item is done."""
    code, place = checkouts(tmp_path)
    mine = Item(1, "quick_box", 5, (step("read"),), "", "", TEST)
    others = Item(2, "small_box", 6, (step("read"),), "", "", other("gifts"))

    class Overtaken(Workplace):
        def do(self, item: Item, may: object = None) -> str:
            commit = super().do(item)
            git(code, "checkout", "-q", "-b", "other", "main")
            Workplace(code, "EVE", 0).do(others)
            git(code, "checkout", "-q", "main")
            git(code, "merge", "-q", "--ff-only", "other")
            return commit

    told = alone._do(Overtaken(place.folder, "AVA", 0), code, mine, tmp_path / "merging")
    assert (told["conflicts"], told["by"]) == ([LINES], "AVA")
    onto, commit = str(told["onto"]), str(told["commit"])
    assert conflicts(code, onto, commit) and git(code, "status", "--porcelain") == ""
    assert git(code, "rev-parse", "main") == onto
    # The next item of the same worker begins where main is now, and is merged.
    after = alone._do(
        place, code, Item(3, "rare_box", 7, (step("read"),), "", "", TEST), tmp_path / "merging"
    )
    assert after["conflicts"] == []


async def test_what_is_lost_is_what_main_does_not_have(tmp_path: Path) -> None:
    code, place = checkouts(tmp_path)
    work = [
        Item(number, f"{number}_box".replace("1", "a"), 5, (step("read"),), "", "", TEST) for number in (1, 2)
    ]
    commit = done(place, "main", work[0], "one")
    git(code, "merge", "-q", "--no-ff", "--no-edit", "one")
    found = await look(tmp_path, work)
    assert (found.landed, found.lost, found.merges, found.conflicts) == ([1], [2], 1, 0)
    assert found.green and "OK" in found.said
    (code / LINES).write_text("broken(\n")
    git(code, "commit", "-qam", "break it")
    assert not (await look(tmp_path, work[:0], [(commit, commit)])).green


def test_an_edit_that_the_room_refuses_is_not_made(tmp_path: Path) -> None:
    _, place = checkouts(tmp_path)
    before = (place.folder / LINES).read_text()
    with pytest.raises(Refused, match=r"lines\.py: locked by BEN"):
        place.do(Item(1, "quick_box", 5, (step("read"),), "", "", TEST), lambda path, text: "locked by BEN")
    assert (place.folder / LINES).read_text() == before


def test_the_table_says_what_went_wrong_as_plainly_as_what_went_well() -> None:
    well = Ran(True, 75, Found([1, 2], [], 2, 0, "passed", "OK"), 2, 8, 2, 30, batches=1)
    ill = Ran(False, 8, Found([1], [2], 1, 1, "failed", "FAILED (failures=1)"), 2, 8)
    said = "\n".join(table([well, ill], 2, 4))
    assert "0 in 2 merges" in said and "1 in 2 merges" in said
    assert "1 min 15 s" in said and "FAIL (FAILED (failures=1))" in said
    sentences = " ".join(meaning([well, ill], 2, 4))
    assert "1 merge conflicted" in sentences and "1 item is lost" in sentences and "main is red" in sentences
    assert "8.0 s for each of the 4 workers" in sentences
    assert went_well(well, 2) and not went_well(well, 3) and not went_well(ill, 1)


def test_a_pipe_gets_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    said = io.StringIO()
    clock = iter([0.0, 1.0, 10.0, 11.0])
    monkeypatch.setattr("relay.app.demo.swarm.progress.time.monotonic", lambda: next(clock))
    with Progress(console_of(said), "with relay", 4) as progress:
        for done_ in (1, 2, 3):
            progress.show(done_, "2 in hand")
    assert said.getvalue().count("\n") == 1 and "2/4  2 in hand  0:10" in said.getvalue()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--items", "5"], "are of --swarm"),
        (["--swarm", "--items", "0"], "--items must be from 1 to"),
        (["--swarm", "--agents", "17"], "--agents must be from 1 to 16"),
        (["--swarm", "--machines", "9"], "--machines must be from 1 to"),
        (["--swarm", "--land"], "are 2 demos: give one"),
        (["--swarm", "--stubborn"], "leave --stubborn"),
    ],
)
def test_what_cannot_be_played_is_refused(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    parser = argparse.ArgumentParser()
    story.arguments(parser)
    assert story.run(parser.parse_args(words)) == 2
    assert said in capsys.readouterr().err


LINES, TABLE, TEST = "shop/cart/lines.py", "shop/cart/table.py", "tests/cart/test_lines.py"


def step(function: str) -> Step:
    return Step(LINES, function)


def other(module: str) -> str:
    """The tests of another module."""
    return f"tests/cart/test_{module}.py"


def checkouts(folder: Path) -> tuple[Path, Workplace]:
    """The main branch's checkout, and a worker's."""
    commit_codebase(folder / "code", files())
    git(folder / "code", "worktree", "add", "-q", "--detach", str(folder / "tree"), "main")
    return folder / "code", Workplace(folder / "tree", "AVA", 0)


def done(place: Workplace, onto: str, item: Item, branch: str) -> str:
    """The item as a branch."""
    place.git("checkout", "-q", "-b", branch, onto)
    return place.do(item)


def write(folder: Path, texts: dict[str, str]) -> None:
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def reader(folder: Path) -> Callable[[str], str]:
    return lambda path: (folder / path).read_text()


def passes(folder: Path) -> bool:
    return subprocess.run(TESTS, cwd=folder, capture_output=True, check=False).returncode == 0
