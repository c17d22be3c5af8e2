"""The metrics, by events that are made up: windows, bounds, what counts once, and reading bit by bit."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relay.base.durations import iso, parse_iso
from relay.log import events
from relay.log.events import Event, Lane, NewEvent
from relay.store.ports import Tx
from relay.timeline import archive
from relay.verification import metrics, metrics_reader
from relay.verification.metrics import METRICS, Measured, MetricFold, Target
from relay.verification.metrics_reader import MetricReader
from tests import engines
from tests.engines import BOTH, SCHEMAS, Clock

DAY = "2027-01-15"
Json = Mapping[str, Any]
Made = tuple[str, Json, Json | None, str, str]


def event(
    type_: str, outputs: Json, *, inputs: Json | None = None, day: str = DAY, lane: str = "room"
) -> Made:
    return type_, outputs, inputs, day, lane


def change(what: str, agent: str, *conflicts: str, commit: str | None = None, day: str = DAY) -> Made:
    outputs = {
        "change": what,
        "agent": agent,
        "commit": commit or f"{what} {agent} {day}",
        "conflicts": conflicts,
    }
    return event("worktree.changed", outputs, day=day)


def task(id_: str, status: str, *, archived: float | None = None, day: str = DAY) -> Made:
    after = {"id": id_, "status": status} | ({} if archived is None else {"archived_at": archived})
    return event("task.changed", {"change": "x", "tasks": [{"before": None, "after": after}]}, day=day)


def word(number: int, reader: str, useful: bool, day: str = DAY) -> Made:
    feedback = {"number": number, "agent_id": reader, "useful": useful}
    return event("memory.feedback", {"feedback": feedback}, day=day)


def turn(agent: str, dollars: float) -> Made:
    return event("turn.ended", {"usage": {"cost_usd": dollars}}, lane=agent)


def advisory(
    id_: str, *pairs: str, said: bool = True, closed: bool = False, files: Sequence[str] = ("a.py",)
) -> Made:
    """`pairs`: as `AB`, of agents A and B."""
    record = {
        "id": id_,
        "message_id": "m" if said else None,
        "pairs": [[*pair] for pair in pairs],
        "files": [*files],
        "closed_at": 1.0 if closed else None,
    }
    return event("advisory.changed", {"what": []}, inputs={"record": record})


def verified(
    state: str, seconds: float = 60.0, *, first: bool | None = None, day: str = DAY, **more: Any
) -> Made:
    outputs = {"state": state, "seconds": seconds, "source": "turn", "about": {}}
    outputs |= {"first_pass": state == "passed" if first is None else first, **more}
    return event("verification.ended", outputs, day=day)


def landing(type_: str, seconds: float = 60.0, **more: Any) -> Made:
    return event(f"landing.{type_}", {"at": iso(1e9), "ended": iso(1e9 + seconds), **more})


def folded(*made: Made) -> MetricFold:
    fold = MetricFold()
    for pos, (type_, outputs, inputs, day, lane) in enumerate(made, 1):
        one = Event(pos, str(pos), "s", lane, 1, type_, None, (), (), {}, f"{day}T12:00:00.000Z")
        one._read.update(inputs=inputs, outputs=outputs)
        fold.apply(one)
    return fold


def figures(fold: MetricFold, since: str = "") -> dict[str, tuple[float | None, int]]:
    """(value, n) of what was measured."""
    found = {one.metric.name: (one.value, one.n) for one in fold.measured(since)}
    return {name: figure for name, figure in found.items() if figure != (None, 0)}


def test_of_nothing_there_is_no_figure() -> None:
    for one in MetricFold().measured():
        shown = one.as_json()
        assert (shown["value"], shown["n"], shown["met"]) == (None, 0, None)
        assert shown["label"] and shown["of"] and shown["definition"].endswith(".")
    names = [metric.name for metric in METRICS]
    assert len(names) == len({*names}) == 9
    # 004, "Success Metrics".
    targets = {metric.source: metric.target for metric in METRICS if metric.source}
    assert targets == {
        "Merge conflicts": Target("=", 0),
        "Memory retrieval relevance": Target(">", 0.7),
        "Task completion rate": Target(">", 0.9),
        "Verification pass rate": Target(">", 0.8),
        "Mean time to verify": Target("<", 300),
    }


def test_the_document_has_each_definition() -> None:
    text = (Path(__file__).parents[2] / "docs" / "verification.md").read_text()
    for metric in METRICS:
        row = f"| `{metric.name}` | {metric.label} | "
        assert row in text and f" | {metric.definition} | {metric.of} |" in text, metric.name


@pytest.mark.parametrize(
    ("name", "value", "met"),
    [
        ("lock_conflicts", 0, True),
        ("lock_conflicts", 1, False),
        ("useful_memories", 0.7, False),
        ("useful_memories", 0.71, True),
        ("time_to_verify", 299.9, True),
        ("time_to_verify", 300, False),
        ("time_to_land", 5, None),
        ("useful_memories", None, None),
    ],
)
def test_a_target_is_met_or_missed(name: str, value: float | None, met: bool | None) -> None:
    metric = next(metric for metric in METRICS if metric.name == name)
    assert Measured(metric, value, 1).met is met


def test_conflicts_among_the_merges_that_were_tried() -> None:
    fold = folded(change("created", "A"), change("merged", "A"), change("taking", "A", "a.py"))
    assert figures(fold) == {"lock_conflicts": (0, 1)}
    fold = folded(change("conflicted", "A", "a.py"), change("conflicted", "A", "a.py"), change("merged", "A"))
    assert figures(fold) == {"lock_conflicts": (2, 3)}


def test_a_merge_that_the_landing_queue_finds_counts_once() -> None:
    by_hand = change("merged", "A", commit="c1")
    fold = folded(turn("A", 1.0), by_hand, turn("A", 2.0), by_hand, change("merged", "A", commit="c2"))
    assert figures(fold) == {"lock_conflicts": (0, 2), "landed_change_cost": (1.5, 2)}


def test_the_last_word_on_a_memory_counts() -> None:
    assert figures(folded(word(1, "A", True), word(1, "B", False), word(2, "A", True))) == {
        "useful_memories": (2 / 3, 3)
    }
    again = folded(word(1, "A", True, "2027-01-14"), word(1, "A", False))
    assert figures(again) == {"useful_memories": (0.0, 1)}
    assert figures(again, DAY) == {"useful_memories": (0.0, 1)}


def test_a_task_counts_once_and_as_it_is_now() -> None:
    fold = folded(
        *(task("t1", status) for status in ("claimed", "pending", "claimed", "completed")),
        *(task("t2", status) for status in ("claimed", "failed")),
        *(task("t3", status) for status in ("claimed", "dead")),
        task("t4", "claimed"),
        # Nobody had claimed it.
        task("t5", "completed"),
        # Taken off the board while it was worked on.
        task("t6", "claimed"),
        task("t6", "claimed", archived=1.0),
        # Done, and cleared away.
        task("t7", "claimed"),
        task("t7", "completed"),
        task("t7", "completed", archived=1.0),
    )
    assert figures(fold) == {"task_completion": (2 / 6, 6)}
    # Open again, because its change did not pass, or by a person.
    story = [task("t1", status) for status in ("claimed", "completed", "pending", "claimed", "completed")]
    shares = [figures(folded(*story[:upto]))["task_completion"] for upto in range(1, 6)]
    assert shares == [(0.0, 1), (1.0, 1), (0.0, 1), (0.0, 1), (1.0, 1)]


def test_a_task_belongs_to_the_day_of_its_claim() -> None:
    fold = folded(task("t1", "claimed", day="2027-01-14"), task("t1", "completed"), task("t2", "claimed"))
    assert figures(fold, "2027-01-14") == {"task_completion": (1 / 2, 2)}
    assert figures(fold, DAY) == {"task_completion": (0.0, 1)}


def test_what_counts_for_the_first_pass() -> None:
    fold = folded(
        verified("passed", 10),
        verified("passed", 20, first=False),
        verified("failed", 30),
        verified("error", 40),
        verified("not_tested"),
        verified("cancelled"),
        verified("passed", 50, about={"fresh": True}),
        verified("failed", 60, source="landing"),
    )
    assert figures(fold) == {"first_pass": (1 / 4, 4), "time_to_verify": (30.0, 4)}
    fold = folded(
        landing("landed", 100, tested=True),
        landing("landed", 300, tested=False),
        landing("put_out", failed=True),
        landing("put_out"),
        landing("cancelled"),
    )
    assert figures(fold) == {"first_pass": (1 / 2, 2), "time_to_land": (200.0, 2)}


def test_dollars_go_with_the_agents_next_merge() -> None:
    fold = folded(
        turn("A", 1.0),
        turn("B", 4.0),
        turn("C", 0.0),
        change("conflicted", "A", "a.py"),
        turn("A", 0.5),
        change("merged", "A", commit="1"),
        # Nothing was spent, or nothing was told.
        change("merged", "A", commit="2"),
        change("merged", "C"),
    )
    assert figures(fold)["landed_change_cost"] == (1.5, 1)
    assert "landed_change_cost" not in figures(folded(turn("C", 0.0), change("merged", "C")))


FORESEEN, AVOIDED = "collisions_foreseen", "collisions_avoided"


def test_a_collision_is_avoided_when_both_are_merged_without_a_conflict() -> None:
    fold = folded(advisory("1", "AB"), change("merged", "A"), change("merged", "A", commit="2"))
    assert (figures(fold).get(FORESEEN), figures(fold).get(AVOIDED)) == ((1, 1), None)
    fold = folded(
        advisory("1", "AB"), advisory("1", "AB", closed=True), change("merged", "B"), change("merged", "A")
    )
    assert (figures(fold)[FORESEEN], figures(fold)[AVOIDED]) == ((1, 1), (1, 1))


@pytest.mark.parametrize("how", ["conflicted", "taking"])
def test_a_collision_that_comes_is_not_avoided(how: str) -> None:
    fold = folded(
        advisory("1", "AB"), change("merged", "A"), change(how, "B", "x.py", "a.py"), change("merged", "B")
    )
    assert (figures(fold)[FORESEEN], figures(fold)[AVOIDED]) == ((1, 1), (0, 1))


@pytest.mark.parametrize(
    "conflict",
    [
        # With what somebody else has merged.
        [change("conflicted", "B", "a.py"), change("merged", "A")],
        # In another file.
        [change("merged", "A"), change("conflicted", "B", "x.py")],
    ],
)
def test_another_conflict_is_not_the_one_that_was_foreseen(conflict: list[Made]) -> None:
    fold = folded(advisory("1", "AB"), *conflict, change("merged", "B"))
    assert figures(fold)[AVOIDED] == (1, 1)


def test_which_advisories_foresee() -> None:
    """Said ones, of pairs; each pair once, also one that joins later or is told of when all is over."""
    fold = folded(
        advisory("1", "AB", said=False),
        advisory("1", "AB"),
        advisory("1", "AB", "BC"),
        advisory("2"),
        advisory("3", "AD", closed=True),
        change("merged", "A"),
        change("merged", "B"),
        advisory("1", "AB", "BC"),
        advisory("1", "AB", "BC", closed=True),
        advisory("4", "AB"),
    )
    assert (figures(fold)[FORESEEN], figures(fold)[AVOIDED]) == ((3, 2), (1, 1))


def test_discarded_work_decides_nothing() -> None:
    fold = folded(advisory("1", "AB"), change("discarded", "A"), change("merged", "A"), change("merged", "B"))
    assert AVOIDED not in figures(fold)


def test_an_event_of_an_unknown_form_counts_nowhere() -> None:
    broken = [event(type_, {"feedback": {}, "tasks": [{}]}) for type_ in metrics.READS]
    fold = folded(
        *broken, event("worktree.changed", {}), event("advisory.changed", {}, inputs={"record": {}})
    )
    assert figures(fold) == {}


def test_what_is_held_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "MOST_HELD", 10)
    monkeypatch.setattr(metrics, "MOST_ADVISORIES", 10)
    fold = folded(
        *(task(f"t{n}", "claimed") for n in range(50)),
        *(word(n, "A", True) for n in range(50)),
        *(advisory(str(n), "AB") for n in range(50)),
    )
    held = (fold._claimed, fold._words, fold._advisories)
    assert [len(one) for one in held] == [10, 10, 10]
    counts = {"task_completion": (0.0, 50), "useful_memories": (1.0, 50), FORESEEN: (50, 50)}
    assert figures(fold) == counts


# -- reading

_agents, _files, _days = (
    st.sampled_from("ABC"),
    st.sampled_from(["a.py", "b.py"]),
    st.sampled_from(["2027-01-14", DAY]),
)
_pairs = st.sampled_from(["AB", "AC", "BC"])
_happened = st.one_of(
    st.builds(
        lambda what, agent, files, commit, day: change(what, agent, *files, commit=commit, day=day),
        st.sampled_from(["merged", "conflicted", "taking", "discarded"]),
        _agents,
        st.lists(_files, max_size=2),
        st.sampled_from(["1", "2", "3"]),
        _days,
    ),
    st.builds(
        task,
        st.sampled_from(["t1", "t2", "t3"]),
        st.sampled_from(["pending", "claimed", "completed", "failed", "dead"]),
        archived=st.sampled_from([None, None, 1.0]),
        day=_days,
    ),
    st.builds(word, st.integers(1, 2), _agents, st.booleans(), _days),
    st.builds(turn, _agents, st.sampled_from([0.0, 0.1, 0.25])),
    st.builds(
        lambda id_, pairs, said, closed, files: advisory(id_, *pairs, said=said, closed=closed, files=files),
        st.sampled_from("12"),
        st.lists(_pairs, max_size=2),
        st.booleans(),
        st.booleans(),
        st.lists(_files),
    ),
    st.builds(
        verified,
        st.sampled_from(["passed", "failed", "error", "not_tested"]),
        st.sampled_from([1.5, 60.0]),
        day=_days,
    ),
    st.builds(landing, st.sampled_from(["landed", "put_out"]), tested=st.booleans(), failed=st.booleans()),
    st.just(event("message.posted", {})),
)


async def _append(tx: Tx, made: Sequence[Made]) -> None:
    for type_, outputs, inputs, day, lane in made:
        at = f"{day}T12:00:00.000Z"
        await events.append(tx, NewEvent(type_, Lane("s", lane), inputs=inputs, outputs=dict(outputs), at=at))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(_happened, max_size=9), max_size=6))
def test_reading_bit_by_bit_gives_what_reading_from_the_start_gives(parts: list[list[Made]]) -> None:
    async def run(folder: Path) -> None:
        store = await engines.open_store(folder, engines.wings("log"))
        clock = Clock(parse_iso(f"{DAY}T13:00:00Z"))
        reader = MetricReader(store, clock=clock)
        for part in parts:
            await store.write(lambda tx, part=part: _append(tx, part))
            await reader.catch_up()
            anew = MetricReader(store, clock=clock)
            for days in (None, 1, 2):
                assert await reader.now(days) == await anew.now(days)
        made = [one for part in parts for one in part]
        assert figures(folded(*made)) == figures(reader._shown)
        await store.close()

    before, metrics_reader.BATCH = metrics_reader.BATCH, 4
    try:
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(run(Path(folder)))
    finally:
        metrics_reader.BATCH = before


@BOTH
async def test_a_window_is_of_whole_days_in_utc(tmp_path: Path) -> None:
    store = await engines.open_store(tmp_path, SCHEMAS)
    days = ("2027-01-13", "2027-01-14", DAY)
    await store.write(lambda tx: _append(tx, [verified("passed", 60.0, day=day) for day in days]))
    reader = MetricReader(store, clock=Clock(parse_iso(f"{DAY}T00:00:01Z")))
    for wanted, since, n in (
        (None, None, 3),
        (1, f"{DAY}T00:00:00.000Z", 1),
        (2, "2027-01-14T00:00:00.000Z", 2),
    ):
        told = await reader.now(wanted)
        shown = {one["name"]: one for one in told["metrics"]}
        assert (told["days"], told["since"], shown["time_to_verify"]["n"]) == (wanted, since, n)
        assert shown["first_pass"]["value"] == 1.0 and shown["task_completion"]["value"] is None
    await store.close()


@BOTH
async def test_what_is_archived_counts_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_reader, "BATCH", 2)
    store = await engines.open_store(tmp_path, SCHEMAS)
    await store.write(lambda tx: _append(tx, [change("merged", "A", commit=str(n)) for n in range(7)]))
    reader = MetricReader(store)
    await reader.catch_up()
    assert figures(reader._shown) == {"lock_conflicts": (0, 7)}
    kept = (await engines.all_events(store, "worktree.changed"))[4]
    await archive.archive(store, tmp_path / "archive", kept.pos)
    left = len(await engines.all_events(store, "worktree.changed"))
    assert left < 7
    await reader.catch_up()
    assert figures(reader._shown) == {"lock_conflicts": (0, left)}
    anew = MetricReader(store)
    assert await anew.now() == await reader.now()
    await store.close()
