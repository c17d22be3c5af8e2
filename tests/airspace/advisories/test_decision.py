"""Ticks as a course: what whole airspaces decide, in whatever order their parts come."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.airspace.advisories.rules.advisory import Advisory
from relay.airspace.advisories.rules.decision import decide
from relay.airspace.advisories.rules.hysteresis import Rules, Sample
from relay.airspace.advisories.rules.observation import AirspaceState, Decision, Observation, observe_pair
from relay.airspace.advisories.rules.outcomes import at_merge, on_close, with_conflicts
from relay.airspace.readings import Assessment, Evidence, Level, Reading
from relay.model.working_set import Pair
from tests.airspace.parts import near, work

RULES = Rules(cooldown_s=100.0)
NAMES = "ABCDE"
PAIRS = [(a, b) for a in NAMES for b in NAMES if a < b]


def after(standing: AirspaceState, decision: Decision, ids: Iterator[int]) -> AirspaceState:
    """What the protocol keeps of a decision. `ids`: of new advisories."""
    advisories = {id: one for id, one in standing.advisories.items() if one.open}
    for step in decision.steps:
        one = step.after
        if not one.id:
            one = replace(one, id=f"{next(ids):04}")
        if step.heard is not None and step.heard is not Level.CLEAR:
            one = replace(one, message_id=f"m{one.id}")
        advisories[one.id] = one
    return AirspaceState(
        {**standing.tracks, **decision.tracks}, {id: one for id, one in advisories.items() if one.open}
    )


_TICK = st.tuples(
    st.floats(1.0, 60.0),
    st.dictionaries(
        st.sampled_from(PAIRS),
        st.tuples(st.floats(0.0, 1.0), st.lists(st.sampled_from(["f", "g"]), min_size=1, unique=True)),
        max_size=5,
    ),
    st.dictionaries(st.sampled_from(NAMES), st.integers(0, 5), min_size=2),
)


def observed(
    now: float, pairs: Mapping[Pair, tuple[float, list[str]]], done: Mapping[str, int]
) -> Observation:
    sets = {name: work(name, "f", "g", committed=float(done.get(name, 0))) for name in NAMES}
    return Observation(now, sets, {pair: near(risk, *files) for pair, (risk, files) in pairs.items()})


@given(st.lists(_TICK, max_size=25), st.randoms(use_true_random=False))
def test_a_course_of_ticks(course: list[tuple[float, dict, dict]], rng: random.Random) -> None:  # type: ignore[type-arg]
    standing, now = AirspaceState(), 0.0
    said: dict[tuple[Pair, Level], float] = {}
    ids = itertools.count()
    for wait, pairs, done in course:
        now += wait
        shuffled = list(pairs.items())
        rng.shuffle(shuffled)
        decision = decide(standing, observed(now, pairs, done), RULES)
        mixed = AirspaceState(
            dict(sorted(standing.tracks.items(), reverse=True)),
            dict(sorted(standing.advisories.items(), reverse=True)),
        )
        assert decide(mixed, observed(now, dict(shuffled), done), RULES) == decision
        for pair, track in decision.tracks.items():
            before = standing.tracks.get(pair)
            for word, at in track.said.items():
                if before is None or before.said.get(word) != at:
                    level = next(one for one in Level if one.word == word)
                    assert at == now and now - said.get((pair, level), -1e9) >= RULES.cooldown_s
                    said[(pair, level)] = now
        heard = [step for step in decision.steps if step.heard not in (None, Level.CLEAR)]
        assert len({step.after.id or min(step.after.contacts) for step in heard}) == len(heard)
        for step in decision.steps:
            if step.before is not None:
                kept = step.before.latched
                assert step.after.latched[: len(kept)] == kept, "an order that was latched stays"
            assert set(step.ask) <= set(step.after.roles.agents)
        standing = after(standing, decision, ids)
        members = [pair for one in standing.advisories.values() for pair in one.contacts]
        near_pairs = [pair for pair, track in standing.tracks.items() if track.level is not Level.CLEAR]
        assert sorted(members) == sorted(near_pairs), "each pair that is near is in exactly one advisory"
        assert not decide(standing, observed(now, pairs, done), RULES), "what was decided is decided once"


# -- what is contested


def test_only_the_channels_that_carry_the_level_are_reasons() -> None:
    strong = Reading(0.9, evidence=(Evidence("both change f", "f"),))
    weak = Reading(0.3, 0.25, evidence=(Evidence("near in the tree", "g"),))
    seen = observe_pair(Assessment(0.9, Level.RESOLUTION, {"tree": weak, "overlap": strong}), Sample(0.9))
    assert seen.files == ("f",) and [one.text for one in seen.evidence] == ["both change f"]


@pytest.mark.parametrize(
    ("paths", "files", "top"),
    [
        (("CHANGELOG.md",), (), Level.CLEAR),
        (("docs/CHANGELOG.md", "f"), ("f",), Level.RESOLUTION),
        (("f",), ("f",), Level.RESOLUTION),
    ],
)
def test_muted_evidence_is_none(paths: tuple[str, ...], files: tuple[str, ...], top: Level) -> None:
    evidence = tuple(Evidence(f"both change {path}", path) for path in paths)
    found = Assessment(0.9, Level.RESOLUTION, {"overlap": Reading(0.9, evidence=evidence)})
    seen = observe_pair(found, Sample(0.9), ("**/CHANGELOG*",))
    assert (seen.files, seen.sample.ceiling) == (files, top)


def test_evidence_with_one_side_muted_is_about_the_other() -> None:
    evidence = (Evidence("f is imported by x.lock", "f", "x.lock"),)
    found = Assessment(0.9, Level.RESOLUTION, {"dependency": Reading(0.9, evidence=evidence)})
    assert observe_pair(found, Sample(0.9), ("*.lock",)).files == ("f",)


def test_a_channel_without_evidence_still_counts() -> None:
    seen = observe_pair(Assessment(0.9, Level.RESOLUTION, {"overlap": Reading(0.9)}), Sample(0.9), ("**",))
    assert seen.sample.ceiling is Level.RESOLUTION


# -- outcomes


@pytest.mark.parametrize(
    ("why", "looks", "verdict"),
    [
        ("never looked", [], None),
        ("clean to the end", [{("A", "B"): ()}], "false"),
        ("a conflict once is a conflict", [{("A", "B"): ("f",)}, {("A", "B"): ()}], "true"),
        ("a look that could not be had leaves it unknown", [{("A", "B"): ()}, {}], None),
    ],
)
def test_the_verdict_is_gits(why: str, looks: list[dict[Pair, tuple[str, ...]]], verdict: str | None) -> None:
    one = decide(AirspaceState(), observed(0.0, {("A", "B"): (0.5, ["f"])}, {}), RULES).steps[0].after
    for look in looks:
        one = with_conflicts(one, look)
    closed = on_close(replace(one, contacts={}))
    assert (closed.outcome and str(closed.outcome)) == verdict, why


def test_a_merge_speaks_for_the_files_of_an_advisory_only() -> None:
    one: Advisory = (
        decide(AirspaceState(), observed(0.0, {("A", "B"): (0.5, ["f"])}, {}), RULES).steps[0].after
    )
    assert at_merge(one, "A", ["g"]) == one and at_merge(one, "C", ["f"]) == one
    assert at_merge(one, "A", []) == one
    assert str(at_merge(one, "B", ["f"]).outcome) == "true"


def test_when_it_ends_only_a_conflict_in_its_own_files_tells() -> None:
    one = decide(AirspaceState(), observed(0.0, {("A", "B"): (0.5, ["f"])}, {}), RULES).steps[0].after
    ended = replace(one, contacts={})
    assert with_conflicts(ended, {("A", "B"): ("other",)}).outcome is None
    assert str(with_conflicts(ended, {("A", "B"): ("f", "other")}).outcome) == "true"
    assert str(with_conflicts(one, {("A", "B"): ("other",)}).outcome) == "true"
