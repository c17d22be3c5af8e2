"""The fit: its constants are the ones in the code, and the profile does on the sample what it did."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from relay.airspace import calibration
from relay.airspace.calibrated import THRESHOLDS, calibrated
from relay.airspace.formulas import FORMULAS
from relay.airspace.pairs import read
from scripts.fit import airspace, scores
from scripts.fit.model import NAMES, hazards, risk
from tests.airspace.test_pairs import SAMPLE

TRAIN = "merges-train.jsonl.gz"
BESIDE = Path(__file__).parents[2].parent / "shared" / "data"


def test_the_arrays_of_the_fit_give_the_risk_of_the_profile() -> None:
    pairs = list(read(SAMPLE))
    data = airspace.Data(pairs)
    value = np.array([getattr(calibration, name) for name in NAMES])
    for design, sides in (
        (data.full, [one.full for one in pairs]),
        (data.early, [one.early for one in pairs if one.early]),
    ):
        expected = [calibrated(one.a, one.b, one.near).risk for one in sides]
        assert np.allclose(risk(design, value), expected, atol=1e-9)


def test_the_gradient_is_the_derivative() -> None:
    design = airspace.Data(list(read(SAMPLE))).early
    value = np.array([getattr(calibration, name) for name in NAMES])
    outer = np.linspace(-1.0, 1.0, len(design))
    told = hazards(design, value)[1](outer)
    for at in range(len(NAMES)):
        step = np.zeros(len(NAMES))
        step[at] = 1e-6
        up, down = hazards(design, value + step)[0], hazards(design, value - step)[0]
        assert told[at] == pytest.approx(outer @ (up - down) / 2e-6, rel=1e-4, abs=1e-6)


def test_the_profile_on_the_sample() -> None:
    """A regression: the fit has seen these pairs, so no figure here says how good it is. The bounds are what was
    measured, less a little (half-done: .848; small records, drawn with more conflicts than there are)."""
    pairs = list(read(SAMPLE))
    labels = np.array([float(bool(one.conflict)) for one in pairs])
    full = np.array([calibrated(one.full.a, one.full.b, one.full.near).risk for one in pairs])
    early = np.array(
        [calibrated(one.early.a, one.early.b, one.early.near).risk for one in pairs if one.early]
    )
    assert scores.auc(labels, full) >= 0.99
    assert scores.auc(labels, early) >= 0.84
    assert scores.precision_above(THRESHOLDS.resolution)(labels, full) >= 0.95
    seed = np.array([FORMULAS["seed"].assess(one.full.a, one.full.b, one.full.near).risk for one in pairs])
    assert scores.auc(labels, full) > scores.auc(labels, seed)


def test_scores() -> None:
    labels, risks = np.array([1.0, 0, 1, 0]), np.array([0.9, 0.8, 0.7, 0.7])
    assert scores.auc(labels, risks) == pytest.approx((2 + 0.5) / 4)
    assert scores.average_precision(labels, risks) == pytest.approx(0.5 * 1 + 0.5 * 0.5)
    assert scores.recall_at(labels, risks, 0.0) == 0.5
    assert scores.precision_above(0.75)(labels, risks) == 0.5
    assert scores.alarms_above(0.75)(labels, risks) == 0.5


def test_the_fit_reproduces_the_constants() -> None:
    path = Path(os.environ.get("RELAY_AIRSPACE_DATA") or BESIDE)
    path = path / TRAIN if path.is_dir() else path
    if not path.is_file():
        pytest.skip(f"{TRAIN} is not here; RELAY_AIRSPACE_DATA names its folder")
    pairs = airspace.load(path)
    found = airspace.constants(airspace.Data(pairs), airspace.unknown_length(pairs))
    assert found == {name: getattr(calibration, name) for name in found}
    written = airspace.module(found, len(pairs), len({one.repo for one in pairs}))
    assert airspace.TARGET.read_text("utf-8") == written
