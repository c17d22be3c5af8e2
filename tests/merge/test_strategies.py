"""Strategies by path: who is asked about a conflict, and whose answer counts (003, section 6.4)."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from relay.airspace.worktrees.merging.proposal import MergeOptions
from relay.airspace.worktrees.view import rows
from relay.config.merge import JOIN, MergeSettings, MergeStrategy, strategy_problems
from relay.merge.text.guard import answer_faults
from relay.merge.text.ladder import source_of
from relay.merge.text.lines import lines_of
from relay.model import Caller, Refusal
from relay.room.journal.ledger import QUEUED
from tests.engines import BOTH, all_events
from tests.git.repository import write
from tests.merge.place import AVA, BASE, BEN, BEN_IS, BOTH_SIDES, Open

#: What both sides add is joined where nobody says otherwise.
IMPORTS = [BASE.replace("import json", f"import {name}\nimport json") for name in ("csv", "ast")]
AVA_IS = Caller("AVA", "s2", "claude")


def by(use: str, *paths: str, **more: Any) -> dict[str, Any]:
    return {"strategies": (MergeStrategy(paths or ("*.py",), use, **more),)}  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("glob", "path", "matches"),
    [
        ("*.py", "src/a.py", True),
        ("*.py", "a.pyc", False),
        ("src/*.py", "src/a.py", True),
        ("src/*.py", "src/deep/a.py", False),
        ("src/**/*.py", "src/a.py", True),
        ("src/**/*.py", "src/x/y/a.py", True),
        ("docs/", "docs/a/b.md", True),
        ("docs/**", "docs/b.md", True),
        ("docs", "src/docs.md", False),
        ("a?.[x]", "deep/ab.[x]", True),
    ],
)
def test_a_glob_means_paths(glob: str, path: str, matches: bool) -> None:
    strategy = MergeStrategy((glob,), "ask")
    assert (MergeSettings(strategies=(strategy,)).strategy(path) is strategy) is matches


def test_the_first_that_matches_counts_and_join_where_none_does() -> None:
    first, second = MergeStrategy(("a.py",), "ask"), MergeStrategy(("*.py",), "agent")
    settings = MergeSettings(strategies=(first, second))
    assert [settings.strategy(path) for path in ("a.py", "b.py", "c.js")] == [first, second, JOIN]


def test_what_is_wrong_with_a_strategy_is_said_with_a_way_out() -> None:
    listed = [
        {"paths": [], "use": "ask"},
        {"paths": ["*.py"], "use": "join", "agent": "AVA"},
        {"paths": ["*.py"], "use": "agent", "agent": "ZOE"},
        {"paths": ["*.py"], "use": "agent", "agent": "AVA"},
    ]
    assert [str(each) for each in strategy_problems({"merge": {"strategies": listed}}, ["AVA"])] == [
        'merge.strategies[0].paths: names no file; allowed: globs, like ["src/**/*.py", "*.lock"]',
        'merge.strategies[1].agent: found with use "join"; allowed: only with use "agent"; take out "agent"',
        'merge.strategies[2].agent: found "ZOE"; allowed: a configured agent: AVA',
    ]


def faults(answer: str, path: str = "python") -> list[int]:
    """The rules that an answer in the place of `BASE`'s statement breaks."""
    statement, theirs = "    return json.load(open(path))\n", "    return json.load(path.open())\n"
    texts = (BASE, AVA, BASE.replace(statement, theirs), BASE.replace(statement, answer))
    base, ours, other, merged = (source_of(lines_of(text).rows, path) for text in texts)
    inside = [statement, "    return json.loads(open(path).read())", theirs]
    return [fault.rule for fault in answer_faults(base, ours, other, merged, inside)]


def test_guard_of_an_answer() -> None:
    assert faults(BOTH_SIDES) == []
    assert faults("    helper = open(path)\n    return json.load(helper)\n") == []
    # Rule 1: what stands outside of the conflict stands there once.
    assert faults('    return 1\n\n\ndef other():\n    json.dump(value, open(path, "w"))\n') == [1]
    # Rule 2: `save` is defined below already.
    assert 2 in faults("    return 1\n\n\ndef save(path, value):\n    return 2\n")
    # Rule 3.
    assert faults("    return json.load(\n") == [3]


async def test_people_decide_on_all_of_a_file_that_is_always_asked_about(open_place: Open) -> None:
    place = await open_place(**by("ask"))
    refusal = await place.collide(*IMPORTS)
    assert "asked about c1" in refusal.fix
    shown, _ = await rows(place.registry)
    assert [row["merges"] for row in shown if row["agent"] == "BEN"] == ["conflicts"]
    await place.say(1, 2)
    [conflict] = await place.open.list()
    assert conflict["resolution"]["strategy_used"] == "always_escalate"
    assert "import ast" in await place.land()


async def test_of_another_path_relay_joins_the_same(open_place: Open) -> None:
    place = await open_place(**by("ask", "*.js"))
    for agent, text in zip(("AVA", "BEN"), IMPORTS, strict=True):
        write(place.at(agent), {"store.py": text})
    await place.look()
    await place.actions.merge("AVA", "ann")
    await place.look()
    assert (await place.actions.propose("BEN", "ann", MergeOptions()))["joined"]


@BOTH
async def test_an_agent_is_asked_first_and_people_when_it_has_failed(open_place: Open) -> None:
    place = await open_place(**by("agent", attempts=2))
    await place.collide()
    [job] = await all_events(place.store, QUEUED)
    assert [one["agent"] for one in job.outputs["jobs"]] == ["BEN"]
    asked = (await place.messages())[-1]
    assert "The room asks BEN to settle conflict c1" in asked and "counts for nothing" not in asked
    # What it may not touch: `save` stands below already.
    await place.open.answer(BEN_IS, "c1", BOTH_SIDES + "\n\ndef save(path, value):\n    pass\n")
    shown, _ = await rows(place.registry)
    await place.look()
    shown, _ = await rows(place.registry)
    assert [row["merges"] for row in shown if row["agent"] == "BEN"] == ["conflicts"], "predicted as it lands"
    await place.refused()
    again = (await place.messages())[-1]
    assert "counts for nothing: " in again and "defined more often than on either side: save" in again
    await place.open.answer(BEN_IS, "c1", "    return json.load(\n")
    await place.refused()
    # Twice is enough.
    assert "`/resolve c1 1` keep AVA's" in (await place.messages())[-1]
    assert len(await all_events(place.store, QUEUED)) == 2
    await place.say(1, 2)
    assert await place.land() == BEN


async def test_an_answer_that_fails_the_tests_is_asked_for_again(open_place: Open) -> None:
    code = "import store, inspect; assert 'utf-8' in inspect.getsource(store.load), 'no encoding'"
    place = await open_place(test=(sys.executable, "-c", code), **by("agent"))
    await place.collide()
    await place.open.answer(
        BEN_IS, "c1", "    return json.loads(open(path).read())  # both\n", confidence=0.9
    )
    with pytest.raises(Refusal, match="the tests fail on the merged tree") as failed:
        await place.actions.merge("BEN", "ann")
    assert "The room is asked again about c1." in failed.value.fix
    asked = (await place.messages())[-1]
    said, _, block = asked.partition("the tests fail with it: exit code 1.\n\n```\n")
    assert said and "\nAssertionError: no encoding\n```" in block
    assert "exit code 1\n" in failed.value.message and failed.value.message.endswith(
        "\nAssertionError: no encoding"
    )
    [conflict] = await place.open.list()
    assert (conflict["state"], conflict["resolution"]) == ("open", None)
    await place.open.answer(BEN_IS, "c1", BOTH_SIDES, confidence=0.8)
    assert (await place.actions.merge("BEN", "ann"))["success"]
    [conflict] = await place.open.list()
    resolution = conflict["resolution"]
    assert (resolution["strategy_used"], resolution["validated"]) == ("agent_resolve", True)
    assert resolution["resolution_type"] == {"type": "agent_resolved", "resolver_agent": "BEN"}


@BOTH
@pytest.mark.parametrize(
    ("figures", "winner"), [((0.4, 0.9), "BEN"), ((0.8, None), None), ((0.5, 0.5), None)]
)
async def test_the_surer_answer_stands_and_without_figures_people_decide(
    open_place: Open,
    figures: tuple[float, float | None],
    winner: str | None,
) -> None:
    place = await open_place(**by("confidence"))
    write(place.at("AVA"), {"store.py": AVA})
    await place.collide()
    jobs = [one["agent"] for job in await all_events(place.store, QUEUED) for one in job.outputs["jobs"]]
    assert sorted(jobs) == ["AVA", "BEN"]
    await place.open.answer(AVA_IS, "c1", "    return json.loads(open(path).read())\n", confidence=figures[0])
    assert [each["state"] for each in await place.open.list()] == ["open"], "the other is waited for"
    await place.open.answer(BEN_IS, "c1", BOTH_SIDES, confidence=figures[1])
    [conflict] = await place.open.list()
    if winner is None:
        assert (conflict["state"], conflict["resolution"]) == ("open", None)
        assert (await place.say(1, 2)).startswith("c1 is settled")
        return
    resolution = conflict["resolution"]
    assert (resolution["strategy_used"], resolution["confidence"]) == ("prefer_higher_confidence", figures[1])
    assert resolution["resolution_type"] == {"type": "agent_resolved", "resolver_agent": winner}
    assert BOTH_SIDES in await place.land()
