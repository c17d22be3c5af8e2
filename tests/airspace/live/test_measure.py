"""The live measuring over the real scan."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from itertools import combinations
from math import dist
from unittest.mock import Mock

import pytest

from relay.airspace.live.embedding import Embedding
from relay.airspace.live.measure import LiveMeasure
from relay.config.airspace import AirspaceSettings
from relay.git.trial_merge import Merge
from relay.model.working_set import HALF_LIFE_S, STEPS, WorkingSet, moment
from tests.airspace.parts import FILE, touch, work

PAIR = ("CLAUDE", "CODEX")


class Settings:
    current = AirspaceSettings(profile="seed", floor=0.05)


def made(settings: Settings | None = None) -> LiveMeasure:
    held = settings or Settings()
    return LiveMeasure(lambda: held.current)


def test_it_says_what_the_scan_says_and_forgets_who_has_gone() -> None:
    measure = made()
    sets = [work("CLAUDE", FILE), work("CODEX", FILE), work("GEMINI", "docs/a.md")]
    airspace = measure.scan(sets, {})
    assert set(airspace.links) == {PAIR} and airspace.links[PAIR].risk >= 0.7
    assert len(airspace.file_coordinates) == 2
    assert measure.scan(sets[:1], {}).links == {}
    assert set(measure.scan(sets, {PAIR: Merge((FILE,))}).links) == {PAIR}


def test_agents_without_anything_in_hand_are_apart_and_go_on_from_there() -> None:
    names = [f"AGENT{number}" for number in range(10)]
    idle = [WorkingSet(name) for name in names]
    measure = made()
    seen = measure.scan(idle, {})
    assert set(seen.positions) == set(names) and not seen.links
    apart = [dist(seen.positions[a], seen.positions[b]) for a, b in combinations(names, 2)]
    assert min(apart) > 0.4 and 0.9 < sum(apart) / len(apart) <= 1
    assert made().scan(idle[:1], {}).positions == {"AGENT0": (0.0, 0.0, 0.0)}
    assert made().scan([], {}).positions == {}
    # One begins to work: the others stay where they were, but for a little.
    after = measure.scan([*idle[:-1], work("AGENT9", FILE)], {}).positions
    assert max(dist(seen.positions[name], after[name]) for name in names[:-1]) < 0.2


def test_a_room_in_which_nobody_has_anything_in_hand_loads_no_numpy() -> None:
    code = (
        "import sys; from relay.airspace.live.measure import LiveMeasure as M; from relay.config.airspace import *;"
        "from relay.model.working_set import *; m = M(AirspaceSettings); m.scan([WorkingSet('A')], {});"
        "print('numpy' in sys.modules); m.scan([WorkingSet('A', (FileTouch('a.py'),))], {});"
        "print('numpy' in sys.modules)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.split() == ["False", "True"]


def test_the_graph_is_taken_in_by_the_next_scan() -> None:
    measure = made()
    sets = [WorkingSet("CLAUDE", (touch("a/x.py"),)), WorkingSet("CODEX", (touch("b/y.py"),))]
    assert measure.scan(sets, {}).links == {}
    measure.take_graph({"a/x.py": ("b/y.py",), "b/y.py": ()}, None)
    assert measure.scan(sets, {}).links[PAIR].channels["dependency"].risk == 1.0
    assert measure.files() == ("a/x.py", "b/y.py")
    measure.take_graph({"a/x.py": (), "b/y.py": ()}, None)
    assert measure.scan(sets, {}).links == {}


def test_another_floor_begins_anew_with_all_that_is_known() -> None:
    settings = Settings()
    measure = made(settings)
    sets = [WorkingSet("CLAUDE", (touch("a/x.py"),)), WorkingSet("CODEX", (touch("b/y.py"),))]
    measure.take_graph({"a/x.py": ("b/y.py",), "b/y.py": ()}, None)
    assert set(measure.scan(sets, {}).links) == {PAIR}
    settings.current = replace(settings.current, floor=0.95)
    assert measure.scan(sets, {}).links == {}
    settings.current = replace(settings.current, floor=0.05)
    assert set(measure.scan(sets, {}).links) == {PAIR}


def test_a_picture_that_could_not_be_made_is_made_by_the_next_look(monkeypatch: pytest.MonkeyPatch) -> None:
    measure = made()
    sets = [work("CLAUDE", FILE), work("CODEX", FILE)]
    with monkeypatch.context() as patched:
        patched.setattr(Embedding, "place", Mock(side_effect=MemoryError))
        with pytest.raises(MemoryError):
            measure.scan(sets, {})
    airspace = measure.scan(sets, {})
    assert set(airspace.links) == {PAIR} and len(airspace.file_coordinates) == 1


def test_the_picture_stands_until_something_changes() -> None:
    measure = made()
    sets = [work("CLAUDE", FILE), work("CODEX", FILE), work("GEMINI", "docs/a.md")]
    airspace = measure.scan(sets, {})
    assert measure.scan([work("CLAUDE", FILE), *sets[1:]], {}) is airspace, "an equal set is no change"
    alone = [*sets[:2], work("GEMINI", "docs/b.md")]
    assert set(measure.scan(alone, {}).file_coordinates) == {FILE, "docs/b.md"}, "though no pair changed"
    measure.take_graph({FILE: ("docs/b.md",), "docs/b.md": ()}, None)
    assert measure.scan(alone, {}).file_coordinates != measure.scan(sets, {}).file_coordinates


def test_weights_fade_in_steps() -> None:
    step = HALF_LIFE_S / STEPS
    assert {moment(step * 1000 + at) for at in (0.0, 1.0, step - 1e-3)} == {step * 1000}
    assert moment(step * 1001) == step * 1001
