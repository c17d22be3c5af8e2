"""What docs/calibration.md states: the profile and its baselines on repositories that they have not seen.

Invariant: each pair is scored by a fit that left its whole repository out; formulas without a fit are scored as
they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import minimize

from relay.airspace.calibrated import THRESHOLDS
from relay.airspace.formulas import FORMULAS
from relay.airspace.pairs import Pair
from scripts.fit import scores
from scripts.fit.design import Floats
from scripts.fit.model import NAMES, risk

if TYPE_CHECKING:
    from scripts.fit.airspace import Data

RANKING: dict[str, scores.Score] = {
    "auc": scores.auc,
    "ap": scores.average_precision,
    "recall_at_1pct": scores.recall_at,
}
LEVELS: dict[str, scores.Score] = {
    "ra_precision": scores.precision_above(THRESHOLDS.resolution),
    "ra_recall": scores.recall_above(THRESHOLDS.resolution),
    "ta_recall": scores.recall_above(THRESHOLDS.traffic),
    "ta_false_alarms": scores.alarms_above(THRESHOLDS.traffic),
}


def figures(data: Data, pairs: list[Pair]) -> dict[str, Any]:
    """Everything, by stage of the work (`full`, `early`) and by who scored."""
    seen = data.fit()
    value = {name: data.fit(without=name) for name in np.unique(data.repos)}
    full, early = _unseen(data.full, data.repos, value), _unseen(data.early, data.early_repos, value)
    half = [one for one in pairs if one.early is not None]
    found: dict[str, Any] = {}
    for stage, design, labels, repos, unseen in (
        ("full", data.full, data.labels, data.repos, full),
        ("early", data.early, data.early_labels, data.early_repos, early),
    ):
        sides = [one.full for one in pairs] if stage == "full" else [one.early for one in half if one.early]
        nears = [one.near for one in sides]
        rows: dict[str, Floats] = {
            "calibrated, unseen": unseen,
            "calibrated, in sample": risk(design, seen),
            "file leases": design.shares.astype(float),
            "logistic, unseen": _logistic(design.plain, labels, repos),
        }
        for name, formula in FORMULAS.items():
            rows[name] = np.array(
                [formula.assess(one.a, one.b, near).risk for one, near in zip(sides, nears, strict=True)]
            )
        found[stage] = {
            name: _scored(labels, risks, repos, levels=name not in {"file leases", "logistic, unseen"})
            for name, risks in rows.items()
        }
        found[stage]["by repository"] = {
            name: {
                "pairs": int((repos == name).sum()),
                "conflicts": int(labels[repos == name].sum()),
                **_values(labels[repos == name], unseen[repos == name], {**RANKING, **LEVELS}),
            }
            for name in value
        }
    found["spread of constants"] = {
        name: [round(min(each), 4), round(max(each), 4)]
        for name, each in zip(NAMES, zip(*value.values(), strict=True), strict=True)
    }
    found["errors"] = _errors(pairs, full)
    return found


def _unseen(design: Any, repos: Any, value: dict[str, Floats]) -> Floats:
    found = np.zeros(len(repos))
    for name, one in value.items():
        found[repos == name] = risk(design, one)[repos == name]
    return found


def _scored(labels: Floats, risks: Floats, repos: Any, *, levels: bool) -> dict[str, Any]:
    asked = {**RANKING, **(LEVELS if levels else {})}
    values: dict[str, Any] = dict(_values(labels, risks, asked))
    values["interval"] = {
        name: [round(end, 4) for end in scores.interval(score, labels, risks, repos)]
        for name, score in asked.items()
    }
    return values


def _values(labels: Floats, risks: Floats, asked: dict[str, Callable[..., float]]) -> dict[str, float]:
    return {name: round(score(labels, risks), 4) for name, score in asked.items()}


def _errors(pairs: list[Pair], risks: Floats) -> dict[str, list[str]]:
    """Whole work where a resolution advisory is wrong, and where one is missing."""
    above = risks >= THRESHOLDS.resolution
    return {
        "false resolution": [
            one.id for one, said in zip(pairs, above, strict=True) if said and not one.conflict
        ],
        "missed": [one.id for one, said in zip(pairs, above, strict=True) if one.conflict and not said],
    }


def _logistic(plain: Floats, labels: Floats, repos: Any, ridge: float = 5.0) -> Floats:
    """A logistic regression of 25 features with a ridge, each repository scored by the others' fit."""
    found = np.zeros(len(labels))
    for name in np.unique(repos):
        kept = repos != name
        mean, spread = plain[kept].mean(axis=0), plain[kept].std(axis=0) + 1e-9
        rows = np.c_[np.ones(len(plain)), (plain - mean) / spread]

        def loss(
            value: Floats, rows: Floats = rows[kept], said: Floats = labels[kept]
        ) -> tuple[float, Floats]:
            score = rows @ value
            slopes = np.r_[0.0, value[1:]]
            wrong = 1.0 / (1.0 + np.exp(-score)) - said
            total = np.logaddexp(0.0, score).sum() - said @ score + ridge * (slopes @ slopes)
            return float(total), rows.T @ wrong + 2.0 * ridge * slopes

        value = minimize(loss, np.zeros(rows.shape[1]), jac=True, method="L-BFGS-B").x
        found[~kept] = 1.0 / (1.0 + np.exp(-(rows[~kept] @ value)))
    return found
