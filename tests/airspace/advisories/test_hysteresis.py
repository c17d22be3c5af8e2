"""When the room hears of a pair: tables, and properties over random courses."""

from __future__ import annotations

from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.airspace.advisories.rules.hysteresis import (
    LOOK_AHEAD_S,
    Rules,
    Sample,
    Track,
    ceiling,
    closing,
    next_said_at,
    rate_of,
    step,
)
from relay.airspace.readings import Assessment, Level, Reading, Thresholds, assess

CLEAR, TRAFFIC, RESOLUTION = Level
AT_ONCE = Rules(cooldown_s=0.0)
TICK_S = 2.0


def heard(risks: list[float], rules: Rules = AT_ONCE, *, top: Level = RESOLUTION) -> list[Level]:
    track, said = Track(), []
    for at, risk in enumerate(risks):
        track, say = step(track, Sample(risk, top), rules, at * TICK_S)
        if say is not None:
            said.append(say)
    return said


@pytest.mark.parametrize(
    ("why", "risks", "said"),
    [
        ("silence while clear", [0.1, 0.34], []),
        ("entered once, however long it lasts", [0.4, 0.5, 0.4], [TRAFFIC]),
        ("worsening is said again", [0.4, 0.7], [TRAFFIC, RESOLUTION]),
        ("straight to resolution", [0.9], [RESOLUTION]),
        ("flicker at a threshold is silent", [0.36, 0.34, 0.36, 0.33], [TRAFFIC]),
        ("ends aloud", [0.4, 0.2], [TRAFFIC, CLEAR]),
        ("easing is silent, worsening again is not", [0.8, 0.67, 0.6, 0.75], [RESOLUTION, RESOLUTION]),
    ],
)
def test_what_the_room_hears_without_a_cool_down(why: str, risks: list[float], said: list[Level]) -> None:
    assert heard(risks) == said, why


@pytest.mark.parametrize(
    ("why", "course", "said"),
    [
        ("again at once is silent", [(0, 0.4), (2, 0.1), (4, 0.4)], [TRAFFIC, CLEAR]),
        ("what was never said ends in silence", [(0, 0.4), (2, 0.1), (4, 0.4), (6, 0.1)], [TRAFFIC, CLEAR]),
        (
            "what stands when the cool-down is over is said then",
            [(0, 0.4), (2, 0.1), (4, 0.4), (99, 0.4), (100, 0.4)],
            [TRAFFIC, CLEAR, TRAFFIC],
        ),
        ("a worse level waits for nothing", [(0, 0.4), (2, 0.8)], [TRAFFIC, RESOLUTION]),
        ("a lesser one does", [(0, 0.8), (2, 0.1), (4, 0.4)], [RESOLUTION, CLEAR]),
        (
            "eased and worse again within it is silent, and said after it",
            [(0, 0.8), (2, 0.5), (4, 0.8), (100, 0.8)],
            [RESOLUTION, RESOLUTION],
        ),
        (
            "a clock that was put back silences nobody",
            [(500, 0.4), (502, 0.1), (10, 0.4)],
            [TRAFFIC, CLEAR, TRAFFIC],
        ),
    ],
)
def test_what_the_room_hears_with_a_cool_down(
    why: str, course: list[tuple[float, float]], said: list[Level]
) -> None:
    track, found = Track(), []
    for at, risk in course:
        track, say = step(track, Sample(risk), Rules(cooldown_s=100.0), at)
        if say is not None:
            found.append(say)
    assert found == said, why


def test_a_pair_goes_no_higher_than_its_channels_may() -> None:
    assert heard([0.9, 0.9], top=TRAFFIC) == [TRAFFIC]
    assert heard([0.9], top=CLEAR) == []


def test_a_level_that_the_channels_carry_no_more_is_left() -> None:
    track, _ = step(Track(), Sample(0.9), AT_ONCE, 0.0)
    track, say = step(track, Sample(0.69, TRAFFIC), AT_ONCE, 1.0)
    assert (track.level, say) == (TRAFFIC, None)


def test_what_the_cool_down_holds_back_has_its_time() -> None:
    rules = Rules(cooldown_s=100.0)
    track = Track()
    for at, risk in ((0.0, 0.4), (2.0, 0.1), (4.0, 0.4)):
        track, _ = step(track, Sample(risk), rules, at)
    assert next_said_at(track, rules) == 100.0
    track, _ = step(track, Sample(0.4), rules, 100.0)
    assert next_said_at(track, rules) is None


def test_a_track_survives_its_stored_form() -> None:
    track, _ = step(Track(), Sample(0.9, closing=True), Rules(), 7.0)
    assert Track.of_record(asdict(track)) == track


@pytest.mark.parametrize(
    ("channels", "level"),
    [
        ({"overlap": Reading(0.9)}, RESOLUTION),
        ({"dependency": Reading(1.0, 0.9, alone=False)}, TRAFFIC),
        ({"overlap": Reading(0.5), "dependency": Reading(1.0, 0.9, alone=False)}, RESOLUTION),
        ({"overlap": Reading(0.1), "dependency": Reading(0.6, 0.9, alone=False)}, TRAFFIC),
    ],
)
def test_the_ceiling_is_what_may_speak_alone(channels: dict[str, Reading], level: Level) -> None:
    assessment = assess(channels, Thresholds())
    assert ceiling(assessment, Thresholds()) is level
    assert assessment.level <= level


def test_an_assessment_capped_by_its_profile_stays_capped() -> None:
    assert ceiling(Assessment(0.95, TRAFFIC, {"overlap": Reading(0.95)}), Thresholds()) is TRAFFIC


# -- closure rate


@pytest.mark.parametrize(
    ("trail", "now", "rate"),
    [
        ([], 0.0, 0.0),
        ([(0.0, 0.3)], 0.0, 0.0),
        ([(0.0, 0.0), (30.0, 0.3)], 30.0, 0.01),
        ([(0.0, 0.0), (15.0, 0.3)], 15.0, 0.01),
        ([(0.0, 0.9), (40.0, 0.2), (60.0, 0.2)], 70.0, 0.0),
        ([(0.0, 0.0), (50.0, 0.3), (60.0, 0.0)], 60.0, 0.0),
    ],
)
def test_the_rate_over_the_look_ahead(trail: list[tuple[float, float]], now: float, rate: float) -> None:
    assert rate_of(trail, now, 30.0) == pytest.approx(rate)


@pytest.mark.parametrize(
    ("why", "trail", "now", "closes"),
    [
        ("a steady approach", [(0.0, 0.1), (10.0, 0.2), (20.0, 0.3)], 20.0, True),
        ("steady, but not near yet", [(0.0, 0.0), (10.0, 0.1), (20.0, 0.2)], 20.0, False),
        ("one jump is no approach", [(0.0, 0.0), (2.0, 0.3)], 2.0, False),
        (
            "noise is none either",
            [(0.0, 0.30), (2.0, 0.32), (4.0, 0.30), (6.0, 0.33), (8.0, 0.31)],
            8.0,
            False,
        ),
        ("too far away", [(0.0, 0.0), (10.0, 0.04), (20.0, 0.08)], 20.0, False),
        ("it has stopped", [(0.0, 0.1), (10.0, 0.2), (20.0, 0.3)], 60.0, False),
        ("it goes away", [(0.0, 0.34), (10.0, 0.3), (20.0, 0.27)], 20.0, False),
        ("nothing known", [], 0.0, False),
    ],
)
def test_closing(why: str, trail: list[tuple[float, float]], now: float, closes: bool) -> None:
    assert closing(trail, Rules(), now) is closes, why


def test_a_closing_pair_is_traffic_early_and_never_more() -> None:
    rules = AT_ONCE
    track, say = step(Track(), Sample(0.2, closing=True), rules, 0.0)
    assert (track.level, say) == (TRAFFIC, TRAFFIC)
    track, say = step(track, Sample(0.2), rules, 2.0)
    assert (track.level, say) == (TRAFFIC, None), "it does not flicker"
    track, say = step(track, Sample(0.2), rules, LOOK_AHEAD_S)
    assert (track.level, say) == (CLEAR, CLEAR)
    assert step(Track(), Sample(0.69, closing=True), rules, 0.0)[0].level is TRAFFIC


# -- properties

_COURSE = st.lists(
    st.tuples(
        st.floats(0.1, 120.0),
        st.floats(0.0, 1.0),
        st.sampled_from([RESOLUTION, RESOLUTION, TRAFFIC, CLEAR]),
        st.booleans(),
    ),
    max_size=60,
)


@given(_COURSE, st.sampled_from([0.0, 10.0, 300.0]))
def test_no_level_is_said_twice_within_the_cool_down(
    course: list[tuple[float, float, Level, bool]], cooldown_s: float
) -> None:
    rules, track, now = Rules(cooldown_s=cooldown_s), Track(), 0.0
    last: dict[Level, float] = {}
    open_since_said = False
    for wait, risk, top, closes in course:
        now += wait
        before = track
        track, say = step(track, Sample(risk, top, closes), rules, now)
        assert track.told <= track.level <= max(top, CLEAR)
        if say is None:
            assert track.told <= before.told
        elif say is CLEAR:
            assert open_since_said and track.level is CLEAR
            open_since_said = False
        else:
            assert now - last.get(say, float("-inf")) >= cooldown_s
            assert before.told < say == track.level
            last[say], open_since_said = now, True
        if track.level is CLEAR:
            assert not open_since_said, "what was said ends aloud"


@given(_COURSE)
def test_the_same_course_says_the_same(course: list[tuple[float, float, Level, bool]]) -> None:
    def run() -> list[object]:
        track, now, said = Track(), 0.0, []
        for wait, risk, top, closes in course:
            now += wait
            track, say = step(track, Sample(risk, top, closes), Rules(), now)
            said.append((track, say))
        return said

    assert run() == run()
